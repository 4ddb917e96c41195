/* The provider under test is looked at by a host in a child: this process never loads it. */
#include "verify_target.h"
#include "command.h"
#include "opening.h"
#include "terminal.h"
#include "text.h"

#include <loader/loader.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <tests/conformance/runner.h>

/* The reference is compiled into the host under a prefix; its descriptors serve stage abi. */
extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;

/* What the child is asked. */
typedef struct question {
    options *parsed;
    const char *id;   /* NULL: whatever the file holds */
    const char *file; /* NULL: search */
    uint32_t device;
} question;

/* What it found; in shared memory, so without pointers. */
typedef struct finding {
    int32_t status; /* exit code */
    char id[32], version[32], file[4096];
    char name[96], detail[96];
    char text[1200]; /* the error or refusal line; why there is no device */
    uint32_t usable;
} finding;

static void TENON_CALL ignore_log(void *context, uint32_t level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

/* The loaded candidate that is meant, else the line that says why there is none. */
static bool find_candidate(tenon_host *host, const question *asked, finding *found)
{
    tenon_candidate candidate = {TENON_HEAD(tenon_candidate), .verdict = 0};
    char known[400] = "", pattern[64];
    uint64_t count = 0, i;
    found->status = EXIT_REFUSED;
    found->text[0] = '\0';
    if (tenon_host_candidate_count(host, &count, NULL) != TENON_OK) return false;
    snprintf(pattern, sizeof pattern, "/tenon-%s.", asked->id != NULL ? asked->id : "");
    for (i = 0; i < count; i++) {
        if (tenon_host_candidate(host, i, &candidate, NULL) != TENON_OK) continue;
        if (candidate.verdict == TENON_CANDIDATE_LOADED) {
            /* a file was named: the built-in reference, which has none, is not meant */
            if (asked->id == NULL ? candidate.file[0] != '\0'
                                  : strcmp(candidate.id, asked->id) == 0) {
                snprintf(found->id, sizeof found->id, "%s", candidate.id);
                snprintf(found->version, sizeof found->version, "%s", candidate.version);
                snprintf(found->file, sizeof found->file, "%s", candidate.file);
                found->status = EXIT_GOOD;
                return true;
            }
            if (strlen(known) + strlen(candidate.id) + 3 < sizeof known) {
                strcat(known, known[0] != '\0' ? ", " : "");
                strcat(known, candidate.id);
            }
        } else if (candidate.line[0] != '\0' &&
                   (asked->file != NULL || strcmp(candidate.id, asked->id) == 0 ||
                    strstr(candidate.file, pattern) != NULL)) {
            snprintf(found->text, sizeof found->text, "%s", candidate.line);
        }
    }
    if (found->text[0] == '\0')
        snprintf(found->text, sizeof found->text, "no provider '%s'; found: %s",
                 asked->id != NULL ? asked->id : asked->file, known[0] != '\0' ? known : "none");
    return false;
}

static void look(void *context, void *answer)
{
    const question *asked = context;
    finding *found = answer;
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
    tenon_host_desc desc;
    tenon_host *host = NULL;
    uint32_t count = 0;
    int32_t status;
    found->status = EXIT_FAILED;
    asked->parsed->level = NULL;
    if (!options_host_desc(asked->parsed, asked->id, &desc)) return;
    desc.log = ignore_log;
    if (asked->file != NULL) {
        desc.provider_paths = &asked->file;
        desc.provider_path_count = 1;
        desc.select = desc.disable = NULL;
        desc.flags |= TENON_HOST_NO_SEARCH;
    }
    if (tenon_host_create(&desc, &host, &error) != TENON_OK) {
        found->status = opening_exit_code(&error);
        snprintf(found->text, sizeof found->text, "%s", error.text);
        return;
    }
    if (!find_candidate(host, asked, found)) goto out;
    status = tenon_host_device_count(host, found->id, &count, &error);
    if (status == TENON_OK && asked->device < count)
        status = tenon_host_device(host, found->id, asked->device, &device, &error);
    else if (status == TENON_OK && error.text[0] == '\0')
        snprintf(error.text, sizeof error.text, "%u devices, no device %u", count, asked->device);
    if (status == TENON_OK && asked->device < count && device.unusable == 0)
        found->usable = 1;
    else if (device.unusable != 0)
        snprintf(found->text, sizeof found->text, "%s: %s %s", device.name,
                 tenon_reason_text(device.unusable), device.detail);
    else
        snprintf(found->text, sizeof found->text, "%s", error.text);
    snprintf(found->name, sizeof found->name, "%s", device.name);
    snprintf(found->detail, sizeof found->detail, "%s", device.detail);
out:
    (void)tenon_host_destroy(host, NULL);
}

static bool is_path(const char *name)
{
    struct stat information;
    size_t length = strlen(name);
    if (strchr(name, '/') != NULL) return true;
    if (length > 3 && strcmp(name + length - 3, ".so") == 0) return true;
    if (length > 4 && strcmp(name + length - 4, ".dll") == 0) return true;
    if (length > 6 && strcmp(name + length - 6, ".dylib") == 0) return true;
    return stat(name, &information) == 0 && S_ISREG(information.st_mode);
}

/* A line that begins with "tenon: " by itself is not given a second one. */
static void say_line(const char *line)
{
    char shown[2400];
    text_escape(shown, sizeof shown, line, strlen(line));
    terminal_error("%s", strncmp(shown, "tenon: ", 7) == 0 ? shown + 7 : shown);
}

/* Judges the file before anything of it is loaded. */
static int judge(const char *file)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    loader_verdict verdict;
    loader_image_facts facts;
    int status = EXIT_GOOD;
    if (loader_judge(file, &verdict, &facts, &error) != TENON_OK)
        return opening_failed(file, &error);
    if (verdict.verdict == TENON_CANDIDATE_REFUSED || verdict.verdict == TENON_CANDIDATE_SKIPPED) {
        say_line(verdict.line);
        status = EXIT_REFUSED;
    }
    loader_verdict_clear(&verdict);
    loader_image_facts_clear(&facts);
    return status;
}

static int find_reference(verify_target *self)
{
    static const tenon_static_symbol symbols[] = {
        {"provider_v1", &tenon_reference_provider_v1},
        {"qmatmul_v1", &tenon_reference_qmatmul_v1},
        {"embed_v1", &tenon_reference_embed_v1},
        {"rmsnorm_v1", &tenon_reference_rmsnorm_v1},
        {"attention_v1", &tenon_reference_attention_v1},
        {"gated_v1", &tenon_reference_gated_v1},
        {"add_v1", &tenon_reference_add_v1},
        {"argmax_v1", &tenon_reference_argmax_v1},
    };
    snprintf(self->id, sizeof self->id, "reference");
    snprintf(self->version, sizeof self->version, "%s", TENON_VERSION);
    self->device_usable = true;
    self->target.id = self->id;
    self->target.symbols = symbols;
    self->target.symbol_count = sizeof symbols / sizeof symbols[0];
    return EXIT_GOOD;
}

int verify_find(verify_target *self, const char *name, options *parsed)
{
    question asked = {.parsed = parsed};
    static finding found;
    char id[64], why[300];
    const char *colon = strchr(name, ':');
    number_list index;
    int status;
    memset(self, 0, sizeof *self);
    self->target.config = parsed->settings.items;
    self->target.config_count = parsed->settings.count;
    if (strcmp(name, "reference") == 0) return find_reference(self);
    if (is_path(name)) {
        asked.file = options_absolute(parsed, name);
        if (asked.file == NULL) return EXIT_REFUSED;
        status = judge(asked.file);
        if (status != EXIT_GOOD) return status;
    } else {
        if (strlen(name) >= sizeof id ||
            (colon != NULL &&
             !(list_numbers(&index, colon + 1, 0, UINT32_MAX) && index.count == 1)))
            return options_usage_error("verify", "'%s' is no provider and no file", name);
        snprintf(id, sizeof id, "%s", name);
        if (colon != NULL) {
            id[colon - name] = '\0';
            asked.device = (uint32_t)index.numbers[0];
        }
        asked.id = id;
    }
    terminal_progress("looking for %s", name);
    memset(&found, 0, sizeof found);
    if (!conformance_isolated(look, &asked, &found, sizeof found, 60000, why, sizeof why)) {
        terminal_progress_end();
        terminal_error("verify: %s: %s", name, why);
        return EXIT_FAILED;
    }
    terminal_progress_end();
    if (found.status != EXIT_GOOD) {
        say_line(found.text);
        return found.status;
    }
    memcpy(self->id, found.id, sizeof self->id);
    memcpy(self->version, found.version, sizeof self->version);
    memcpy(self->file, found.file, sizeof self->file);
    memcpy(self->device_name, found.name, sizeof self->device_name);
    self->device_usable = found.usable != 0;
    if (!self->device_usable)
        snprintf(self->why_no_device, sizeof self->why_no_device, "%.290s", found.text);
    list_device_levels(found.detail, self->default_level, &self->levels);
    self->target.id = self->id;
    self->target.file = self->file;
    self->target.device = asked.device;
    return EXIT_GOOD;
}
