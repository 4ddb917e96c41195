/* tenon verify: the conformance suite over one provider. */
#include "command.h"
#include "gguf.h"
#include "opening.h"
#include "terminal.h"
#include "verify_report.h"
#include "verify_target.h"

#include <fnmatch.h>
#include <loader/loader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Runs the conformance suite over a provider (cpu unless named), each case in a process of its\n"
    "own. Stages, in order:\n"
    "  static  the file; none of its code is run\n"
    "  abi     the rules of the border\n"
    "  exact   every bit against the built-in reference, at every instruction-set level\n"
    "  approx  class APPROX where the device claims it, within its gates\n"
    "  robust  leaks, threads, long chains, full caches, sizes that no machine has\n"
    "With --model the tensors of a model are the cases of stage exact, and no stage follows it.\n"
    "A failure names the case and the line that replays it.\n"
    "\n"
    "  tenon verify\n"
    "  tenon verify ./tenon-acme.so --stage abi\n"
    "  tenon verify cpu --level avx2 --filter '*Q4_0*' --save failing/\n"
    "  tenon verify cpu --model model.gguf\n"
    "  tenon verify ./tenon-acme.so --certificate acme.json\n"
    "\n"
    "The certificate names the file by its hash, the device, what was proven of each operation "
    "and\n"
    "class, and every stage. It says certified only where all stages ran, none failed, and not\n"
    "everything was declined. --json has it too.\n"
    "\n"
    "Exit codes: 0 good, 1 a case failed or none was executed, 2 the provider, file or level is\n"
    "missing or refused, 3 no usable device, 64 usage.\n";

enum {
    STAGE_STATIC = 1,
    STAGE_ABI = 2,
    STAGE_EXACT = 4,
    STAGE_APPROX = 8,
    STAGE_ROBUST = 16,
    STAGE_ALL = 31
};

typedef struct request {
    const char *model, *filter, *xfail, *save, *level, *certificate;
    uint64_t seed;
    uint32_t stages, jobs, time_limit_s;
    bool thorough;
    gguf *file;
    conformance_tensor *tensors;
    uint64_t tensor_count;
    word_list levels; /* asked for */
    char replay[4400];
} request;

/* The tensors of the model that can be weights. */
static int open_model(request *self)
{
    gguf_error error;
    uint64_t i, count;
    self->file = gguf_open(self->model, &error);
    if (self->file == NULL || !gguf_types_known(self->file, &error)) {
        terminal_error("verify: %s", error.text);
        return EXIT_REFUSED;
    }
    count = gguf_tensor_count(self->file);
    self->tensors = calloc(count + 1, sizeof *self->tensors);
    if (self->tensors == NULL) {
        terminal_error("out of memory");
        return EXIT_FAILED;
    }
    for (i = 0; i < count; i++) {
        const gguf_tensor *tensor = gguf_tensor_at(self->file, i);
        if (!gguf_tensor_usable(tensor, NULL)) continue;
        self->tensors[self->tensor_count++] = (conformance_tensor){.name = tensor->name,
                                                                   .format = tensor->format,
                                                                   .rows = tensor->rows,
                                                                   .cols = tensor->cols,
                                                                   .data = tensor->data,
                                                                   .bytes = tensor->bytes};
    }
    if (self->tensor_count == 0) {
        terminal_error("verify: %s holds no weight to verify with", self->model);
        return EXIT_REFUSED;
    }
    return EXIT_GOOD;
}

/* Which levels stage exact runs at: those asked for, else all that the device names. */
static int choose_levels(request *self, const verify_target *target, const char **levels,
                         uint64_t *count)
{
    const word_list *from = &target->levels;
    uint32_t i, k;
    if (self->level != NULL) {
        if (!list_words(&self->levels, self->level))
            return options_usage_error("verify", "--level: '%s' cannot be read", self->level);
        for (i = 0; i < self->levels.count; i++) {
            for (k = 0; k < target->levels.count; k++)
                if (strcmp(self->levels.words[i], target->levels.words[k]) == 0) break;
            if (k == target->levels.count) {
                char known[400] = "";
                for (k = 0; k < target->levels.count && k < 8; k++) {
                    strcat(known, known[0] != '\0' ? ", " : "");
                    strcat(known, target->levels.words[k]);
                }
                terminal_error("verify: %s has no level '%s'; it has: %s", target->id,
                               self->levels.words[i], known[0] != '\0' ? known : "none");
                return EXIT_REFUSED;
            }
        }
        from = &self->levels;
    }
    for (i = 0; i < from->count; i++) levels[i] = from->words[i];
    *count = from->count;
    return EXIT_GOOD;
}

static bool add_cases(const request *self, conformance_suite *suite)
{
    if ((self->stages & STAGE_ABI) != 0 && !conformance_add_abi(suite)) return false;
    if (self->model != NULL) return conformance_add_model(suite, self->tensors, self->tensor_count);
    if ((self->stages & STAGE_EXACT) != 0 &&
        !(conformance_add_qmatmul(suite) && conformance_add_embed(suite) &&
          conformance_add_rows(suite) && conformance_add_attention(suite)))
        return false;
    if ((self->stages & STAGE_APPROX) != 0 && !conformance_add_approx(suite)) return false;
    return (self->stages & STAGE_ROBUST) == 0 || conformance_add_robust(suite);
}

/* Names of the checks of stage static, in order. */
static const char *const static_names[] = {"static/image", "static/descriptors", "static/sections",
                                           "static/exports"};
#define STATIC_COUNT (sizeof static_names / sizeof static_names[0])

static bool static_wanted(const request *self, const verify_target *target, size_t index)
{
    return (self->stages & STAGE_STATIC) != 0 && target->file[0] != '\0' &&
           (self->filter == NULL || fnmatch(self->filter, static_names[index], 0) == 0);
}

/* Does the file export nothing but descriptors? Names that begin with an underscore belong to the tool
 * chain (_init, _edata, what a sanitizer adds). */
static bool only_known_exports(const loader_image_facts *facts, char *detail, size_t bytes)
{
    uint64_t i;
    uint32_t k;
    for (i = 0; i < facts->export_count; i++) {
        if (facts->exports[i][0] == '_') continue;
        for (k = 0; k < facts->symbol_count; k++)
            if (strcmp(facts->exports[i], facts->symbols[k].name) == 0) break;
        if (k < facts->symbol_count) continue;
        snprintf(detail, bytes,
                 "exports %.100s, which is no descriptor; hide what is not (-fvisibility=hidden)",
                 facts->exports[i]);
        return false;
    }
    return true;
}

/* Stage static again, check by check: none of the file's code is run. */
static void run_static(const request *self, const verify_target *target, verify_report *report,
                       conformance_totals *totals)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    loader_verdict verdict;
    loader_image_facts facts;
    char detail[400] = "";
    uint32_t i;
    bool good;
    if (loader_judge(target->file, &verdict, &facts, &error) != TENON_OK) {
        report_static(report, static_names[0], false, error.text, totals);
        return;
    }
    if (static_wanted(self, target, 0))
        report_static(report, static_names[0], verdict.verdict != TENON_CANDIDATE_REFUSED,
                      verdict.line, totals);
    good = strcmp(facts.id, target->id) == 0;
    if (!good) snprintf(detail, sizeof detail, "the file says it is '%s'", facts.id);
    for (i = 0; good && i < facts.symbol_count; i++) {
        good = !facts.symbols[i].present ||
               (facts.symbols[i].is_data && facts.symbols[i].abi_version == TENON_ABI_VERSION);
        if (!good)
            snprintf(detail, sizeof detail, "%s is no descriptor of version %u",
                     facts.symbols[i].name, TENON_ABI_VERSION);
    }
    if (static_wanted(self, target, 1))
        report_static(report, static_names[1], good, detail, totals);
    good = !facts.text_relocations && !facts.executable_stack && !facts.static_tls;
    if (static_wanted(self, target, 2))
        report_static(report, static_names[2], good,
                      "text relocations, an executable stack or static thread storage", totals);
    detail[0] = '\0';
    good = only_known_exports(&facts, detail, sizeof detail);
    if (static_wanted(self, target, 3))
        report_static(report, static_names[3], good, detail, totals);
    loader_verdict_clear(&verdict);
    loader_image_facts_clear(&facts);
}

/* The exit code of a run that came to its end; what makes it a failure is told. */
static int judge_run(const request *self, const verify_target *target, verify_report *report,
                     const conformance_totals *totals)
{
    if (totals->failed != 0) return EXIT_FAILED;
    if ((self->stages & STAGE_EXACT) != 0 && totals->exact_cases != 0 && totals->exact_run == 0 &&
        totals->approx_run == 0) {
        if (totals->skipped != 0 && !target->device_usable) {
            terminal_progress_end();
            terminal_error("verify: %s: no usable device: %s", target->id, target->why_no_device);
            return EXIT_NO_DEVICE;
        }
        if (totals->unsupported == 0) {
            terminal_progress_end();
            terminal_error("verify: %s: nothing could be run on this machine", target->id);
            return EXIT_NO_DEVICE;
        }
        report_failure(report, "exact", "no case was executed: the provider declines everything");
        return EXIT_FAILED;
    }
    if (totals->run == 0) {
        report_failure(report, "all", "no case was executed");
        return target->device_usable ? EXIT_FAILED : EXIT_NO_DEVICE;
    }
    return EXIT_GOOD;
}

static int verify(request *self, options *parsed, const char *name)
{
    conformance_suite suite = {
        .seed = self->seed, .thorough = self->thorough, .save_dir = self->save};
    conformance_run_options run = {.filter = self->filter,
                                   .xfail = self->xfail,
                                   .jobs = self->jobs,
                                   .reporter = report_case,
                                   .time_limit_ms = self->time_limit_s * 1000};
    conformance_totals totals = {0}, static_totals = {0};
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    static verify_target target;
    static verify_report report;
    const char *levels[LIST_MAX_WORDS];
    uint64_t level_count = 0, static_count = 0;
    size_t i;
    int status = verify_find(&target, name, parsed);
    if (status == EXIT_GOOD) status = choose_levels(self, &target, levels, &level_count);
    if (status == EXIT_GOOD && self->model != NULL) status = open_model(self);
    if (status != EXIT_GOOD) return status;
    if (!add_cases(self, &suite)) {
        terminal_error("out of memory");
        status = EXIT_FAILED;
        goto out;
    }
    for (i = 0; i < STATIC_COUNT; i++) static_count += static_wanted(self, &target, i) ? 1 : 0;
    if (self->filter != NULL &&
        conformance_filter(&suite, self->filter, levels, level_count) + static_count == 0) {
        status = options_usage_error(
            "verify",
            "--filter '%s' matches no case of %s (names are as exact/qmatmul/Q4_0/a8/"
            "cols=576@avx2)",
            self->filter, self->model != NULL ? "this model" : "these stages");
        goto out;
    }
    snprintf(self->replay, sizeof self->replay, "%s%s%s%s", name,
             self->model != NULL ? " --model " : "", self->model != NULL ? self->model : "",
             self->thorough ? " --long" : "");
    report_begin(&report, &target, self->replay, self->seed, parsed->json);
    if (static_count != 0) run_static(self, &target, &report, &static_totals);
    run.target = &target.target;
    run.levels = levels;
    run.level_count = level_count;
    run.context = &report;
    if (conformance_run(&suite, &run, &totals, &error) != TENON_OK) {
        terminal_progress_end();
        status = opening_failed("verify", &error);
        json_decref(report.failures);
        goto out;
    }
    totals.run += static_totals.run;
    totals.passed += static_totals.passed;
    totals.failed += static_totals.failed;
    totals.requests += static_totals.requests;
    status = judge_run(self, &target, &report, &totals);
    if (self->certificate != NULL || parsed->json) {
        const certificate_run asked = {.filter = self->filter,
                                       .xfail = self->xfail,
                                       .level = self->level,
                                       .model = self->model,
                                       .all_stages = self->stages == STAGE_ALL,
                                       .thorough = self->thorough,
                                       .good = status == EXIT_GOOD,
                                       .seed = self->seed};
        report.certificate = certificate_make(&report.counted, &target, &asked, &totals);
    }
    if (self->certificate != NULL) {
        json_t *written = parsed->json ? json_incref(report.certificate) : report.certificate;
        terminal_progress_end();
        if (!json_save(written, self->certificate) && status == EXIT_GOOD) status = EXIT_FAILED;
        if (!parsed->json) report.certificate = NULL;
    }
    if (!report_end(&report, &totals, status == EXIT_GOOD) && status == EXIT_GOOD)
        status = EXIT_FAILED;
out:
    conformance_clear(&suite);
    return status;
}

int command_verify(int argc, char **argv)
{
    request *self = calloc(1, sizeof *self);
    options parsed;
    uint32_t stage = 0;
    bool stage_given = false;
    int status;
    if (self == NULL) {
        terminal_error("out of memory");
        return EXIT_FAILED;
    }
    self->seed = 1;
    {
        const option_entry entries[] = {
            {.name = "model",
             .kind = OPTION_TEXT,
             .target = &self->model,
             .argument = "FILE.gguf",
             .help = "the tensors of this model are the cases of stage exact"},
            {.name = "stage",
             .kind = OPTION_CHOICE,
             .target = &stage,
             .choices = "static|abi|exact|approx|robust",
             .argument = "static|abi|exact|approx|robust",
             .help = "only this stage (all)",
             .given = &stage_given},
            {.name = "level",
             .kind = OPTION_TEXT,
             .target = &self->level,
             .argument = "L",
             .help = "only these instruction-set levels, a,b (all that the device names)"},
            {.name = "filter",
             .kind = OPTION_TEXT,
             .target = &self->filter,
             .argument = "GLOB",
             .help = "only cases whose name, or name@level, matches"},
            {.name = "xfail",
             .kind = OPTION_TEXT,
             .target = &self->xfail,
             .argument = "GLOB",
             .help = "cases declared as known failures: an error only when they pass"},
            {.name = "seed",
             .kind = OPTION_U64,
             .target = &self->seed,
             .maximum = UINT64_MAX,
             .argument = "N",
             .help = "seed of all data (1)"},
            {.name = "save",
             .kind = OPTION_TEXT,
             .target = &self->save,
             .argument = "DIR",
             .help = "write failing requests there, for tenon op"},
            {.name = "certificate",
             .kind = OPTION_TEXT,
             .target = &self->certificate,
             .argument = "FILE",
             .help = "write what was proven, as JSON"},
            {.name = "long",
             .kind = OPTION_FLAG,
             .target = &self->thorough,
             .help = "every combination of sizes and threads; every row of a model"},
            {.name = "jobs",
             .kind = OPTION_U32,
             .target = &self->jobs,
             .minimum = 1,
             .maximum = 64,
             .argument = "N",
             .help = "cases at once (one a processor)"},
            {.name = "time-limit",
             .kind = OPTION_U32,
             .target = &self->time_limit_s,
             .minimum = 1,
             .maximum = 86400,
             .argument = "S",
             .help = "seconds a case may take (120; 1800 with --long)"},
            {0},
        };
        const option_usage usage = {.command = "verify",
                                    .synopsis = "[options] [PROVIDER|FILE]",
                                    .help = help,
                                    .entries = entries,
                                    .argument_maximum = 1};
        status = options_parse(&parsed, &usage, argc, argv);
    }
    if (status != OPTIONS_GO_ON) {
        free(self);
        return status;
    }
    self->stages = stage_given ? 1u << stage : STAGE_ALL;
    if (self->time_limit_s == 0) self->time_limit_s = self->thorough ? 1800 : 120;
    if (self->model != NULL && (self->stages & STAGE_EXACT) == 0)
        status = options_usage_error("verify", "--model belongs to stage exact");
    else
        status = verify(self, &parsed,
                        parsed.arguments.count != 0 ? parsed.arguments.items[0] : "cpu");
    free(self->tensors);
    gguf_close(self->file);
    free(self);
    options_free(&parsed);
    return status;
}
