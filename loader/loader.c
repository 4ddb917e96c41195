/* The stages in order over all candidates, and what became of them. */
#include <loader/filter.h>
#include <loader/load.h>
#include <loader/platform.h>
#include <loader/probe.h>
#include <loader/search.h>
#include <loader/static.h>
#include <loader/verdict.h>
#include <stdlib.h>
#include <string.h>

/* Providers built together with the host: their bytes were tested there and need no probe. */
typedef struct shipped_file {
    const char *name;
    uint8_t sha256[32];
} shipped_file;
static const shipped_file manifest[] = {
#include "loader_manifest.h"
    {NULL, {0}}};

/* One candidate; immovable, since modules and verdicts are handed out by address. */
typedef struct candidate {
    loader_verdict verdict;
    loader_module module;
    void *library;
    bool published;
} candidate;

struct loader {
    loader_options options; /* its strings and paths are copies */
    candidate **items;
    uint64_t count;
    candidate **published; /* in order of publishing */
    uint64_t published_count;
};

static int32_t out_of_memory(tenon_error *error)
{
    return tenon_fail(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, TENON_SCOPE_CALL,
                      "out of memory");
}

/* ---- lists -------------------------------------------------------------------------------- */

static bool append(candidate ***list, uint64_t *count, candidate *item)
{
    candidate **grown = realloc(*list, ((size_t)*count + 1) * sizeof *grown);
    if (grown == NULL) return false;
    grown[(*count)++] = item;
    *list = grown;
    return true;
}

static candidate *new_candidate(void)
{
    candidate *self = calloc(1, sizeof *self);
    if (self == NULL) return NULL;
    verdict_init(&self->verdict);
    self->module.verdict = &self->verdict;
    return self;
}

static void free_candidate(candidate *self)
{
    if (self == NULL) return;
    loader_verdict_clear(&self->verdict);
    free(self);
}

static bool contains(candidate *const *list, uint64_t count, const candidate *item)
{
    uint64_t i;
    for (i = 0; i < count; i++)
        if (list[i] == item) return true;
    return false;
}

/* ---- one candidate ------------------------------------------------------------------------ */

/* Renders the line and says it once, at the level of the verdict. false: no memory. */
static bool conclude(const loader *self, candidate *item)
{
    loader_verdict *verdict = &item->verdict;
    uint32_t level = verdict->verdict == TENON_CANDIDATE_REFUSED   ? TENON_LOG_WARNING
                     : verdict->verdict == TENON_CANDIDATE_SKIPPED ? TENON_LOG_DEBUG
                                                                   : TENON_LOG_INFO;
    if (!verdict_render(verdict)) return false;
    self->options.log(self->options.log_context, level, verdict->line);
    return true;
}

static bool refuse(candidate *item, const loader_fault *fault)
{
    return verdict_refuse(&item->verdict, fault->reason, fault->symbol, fault->have, fault->need,
                          fault->text);
}

/* Does the policy leave a name out? */
static bool is_filtered(const loader *self, const char *name, uint64_t length)
{
    const loader_options *options = &self->options;
    return filter_matches(options->disable, name, length) ||
           (!filter_is_empty(options->select) && !filter_matches(options->select, name, length));
}

static bool is_shipped(const loader_identity *identity)
{
    const shipped_file *row;
    for (row = manifest; row->name != NULL; row++)
        if (memcmp(row->sha256, identity->sha256, sizeof row->sha256) == 0) return true;
    return false;
}

/* A published provider of the same file, or else of the same id. NULL: none. */
static const candidate *twin_of(const loader *self, const candidate *item, bool by_file)
{
    uint64_t i;
    for (i = 0; i < self->published_count; i++) {
        const candidate *other = self->published[i];
        if (by_file ? other->library != NULL &&
                          other->verdict.identity.device == item->verdict.identity.device &&
                          other->verdict.identity.inode == item->verdict.identity.inode
                    : strcmp(other->verdict.id, item->verdict.id) == 0)
            return other;
    }
    return NULL;
}

/* The stage probe. false: no memory. A refusal is in the verdict. */
static bool probe_candidate(const loader *self, candidate *item)
{
    const char *helper = self->options.probe_helper;
    loader_verdict *verdict = &item->verdict;
    probe_outcome outcome = {0};
    const loader_probe_report *report = &outcome.report;
    bool good;
    verdict->shipped = is_shipped(&verdict->identity);
    if (verdict->shipped || probe_is_cached(verdict->identity.sha256, helper)) return true;
    good = probe_run(verdict->file, NULL, 0, helper, self->options.probe_timeout_ms, &outcome) ==
           TENON_OK;
    if (!good) goto out;
    if (outcome.fault.reason != TENON_REASON_NONE)
        good = refuse(item, &outcome.fault);
    else if (report->open_status != TENON_OK) /* loaded, but it cannot work here: that is kept */
        good = verdict_set(&verdict->text, report->open_text[0] != '\0'
                                               ? report->open_text
                                               : tenon_reason_text(report->open_reason));
    else if (report->device_count == 0)
        good = verdict_set(&verdict->text, report->no_device_text[0] != '\0'
                                               ? report->no_device_text
                                               : tenon_reason_text(report->no_device_reason));
    else if (outcome.tested > 0) /* only what was seen to work is remembered */
        probe_remember(verdict->identity.sha256, helper);
out:
    probe_outcome_clear(&outcome);
    return good;
}

/* The stages load to publish. false: no memory. */
static bool load_candidate(loader *self, candidate *item)
{
    loader_fault fault = {0};
    load_file(&item->verdict, &item->module, &item->library, &fault);
    if (fault.reason == TENON_REASON_NONE) load_keep(&item->verdict, item->library, &fault);
    if (fault.reason == TENON_REASON_NONE &&
        !append(&self->published, &self->published_count, item))
        fault_note(&fault, TENON_REASON_PUBLISH_FAILED, NULL, NULL, NULL, "out of memory");
    if (fault.reason != TENON_REASON_NONE) {
        platform_library_close(item->library);
        item->library = NULL;
        return refuse(item, &fault);
    }
    item->published = true;
    item->verdict.stage = TENON_STAGE_PUBLISH;
    return true;
}

/* Open to publish over a file that the policy admits. false: no memory. */
static bool examine_file(loader *self, candidate *item)
{
    loader_verdict *verdict = &item->verdict;
    loader_image_facts facts;
    const candidate *twin;
    bool good;
#if defined(TENON_WITHOUT_LOADING)
    return verdict_refuse(verdict, TENON_REASON_LOADING_NOT_BUILT, NULL, NULL, NULL, NULL);
#endif
    memset(&facts, 0, sizeof facts);
    good = static_judge_file(verdict, &facts) == TENON_OK;
    loader_image_facts_clear(&facts);
    if (!good) return false;
    if (verdict->verdict == TENON_CANDIDATE_REFUSED) {
        if (!verdict->explicit_ && verdict_is_information(verdict->reason))
            verdict->verdict = TENON_CANDIDATE_SKIPPED;
        return true;
    }
    if (filter_matches(self->options.disable, verdict->id, strlen(verdict->id))) {
        good = verdict_refuse(verdict, TENON_REASON_FILTERED, NULL, NULL, NULL, NULL);
        verdict->verdict = TENON_CANDIDATE_SKIPPED;
        return good;
    }
    if (self->options.judge_only) return true;
    twin = twin_of(self, item, true);
    if (twin != NULL) { /* reached twice, by a link or through two directories: no fault */
        good = verdict_refuse(verdict, TENON_REASON_DUPLICATE_FILE, NULL, twin->verdict.file, NULL,
                              NULL);
        verdict->verdict = TENON_CANDIDATE_SKIPPED;
        return good;
    }
    twin = twin_of(self, item, false);
    if (twin != NULL)
        return verdict_refuse(verdict, TENON_REASON_DUPLICATE_ID, NULL,
                              twin->library != NULL ? twin->verdict.file : "a built-in provider",
                              NULL, NULL);
    if (!probe_candidate(self, item)) return false;
    if (verdict->verdict == TENON_CANDIDATE_REFUSED) return true;
    return load_candidate(self, item);
}

/* One entry of the search, from policy on. false: no memory. */
static bool examine(loader *self, const search_entry *entry, candidate *item)
{
    loader_verdict *verdict = &item->verdict;
    uint64_t length = 0;
    const char *stem = verdict_file_stem(entry->path, &length);
    bool good;
    verdict->explicit_ = entry->explicit_;
    if (!verdict_set(&verdict->file, entry->path)) return false;
    if (!entry->directory && !verdict_name_by_file(verdict)) return false;
    if (entry->reason != TENON_REASON_NONE) { /* there is no file to be judged */
        good = verdict_refuse(verdict, entry->reason, NULL, NULL, NULL, entry->text);
        verdict->stage = TENON_STAGE_POLICY;
        if (entry->directory) verdict->verdict = TENON_CANDIDATE_SKIPPED;
    } else if (is_filtered(self, stem, length)) {
        good = verdict_refuse(verdict, TENON_REASON_FILTERED, NULL, NULL, NULL, NULL);
        verdict->verdict = TENON_CANDIDATE_SKIPPED;
    } else {
        good = examine_file(self, item);
    }
    return good && conclude(self, item);
}

/* ---- all candidates ----------------------------------------------------------------------- */

/* An earlier candidate of the same path whose verdict still holds: it is published, or was refused
 * for what its bytes are, and the file is the same. NULL: it must be examined. */
static candidate *known_candidate(const loader *self, const search_entry *entry)
{
    char text[PLATFORM_TEXT_BYTES];
    loader_identity now;
    platform_access access;
    uint64_t i;
    if (entry->reason != TENON_REASON_NONE) return NULL;
    for (i = 0; i < self->count; i++) {
        candidate *item = self->items[i];
        const loader_verdict *verdict = &item->verdict;
        if (strcmp(verdict->file, entry->path) != 0) continue;
        if (!item->published && (verdict->stage != TENON_STAGE_STATIC ||
                                 verdict->reason == TENON_REASON_MISSING_DEPENDENCY))
            continue;
        memset(&now, 0, sizeof now);
        if (platform_path_facts(entry->path, &now, &access, text) == TENON_REASON_NONE &&
            access.kind == PLATFORM_REGULAR && now.device == verdict->identity.device &&
            now.inode == verdict->identity.inode && now.size == verdict->identity.size &&
            now.mtime_ns == verdict->identity.mtime_ns)
            return item;
    }
    return NULL;
}

/* A filter token that matches nothing is a spelling mistake: say what there is. */
static int32_t check_filter(const char *list, const char *which, const names *known,
                            tenon_error *error)
{
    char text[208];
    const char *token;
    uint64_t length, i;
    if (!filter_unknown(list, known, &token, &length)) return TENON_OK;
    cut_format(text, sizeof text, "%s: no provider is called '%.*s'; there are:", which,
               (int)(length < 40 ? length : 40), token);
    for (i = 0; i < known->count; i++)
        cut_format(text + strlen(text), sizeof text - strlen(text), "%s %s", i > 0 ? "," : "",
                   known->items[i]);
    return tenon_fail(error, TENON_ARG, TENON_REASON_UNKNOWN_FILTER, TENON_SCOPE_CALL, text);
}

static int32_t check_filters(const loader *self, const search_list *found, tenon_error *error)
{
    names known = {NULL, 0, 0, 0};
    int32_t status = TENON_NOMEM;
    uint64_t i, length;
    for (i = 0; i < found->count; i++) {
        const char *stem = verdict_file_stem(found->items[i].path, &length);
        if (found->items[i].directory) continue;
        if (!names_add(&known, stem, length)) goto out;
    }
    if (!names_add_string(&known, "reference")) goto out;
    status = check_filter(self->options.select, "select", &known, error);
    if (status == TENON_OK) status = check_filter(self->options.disable, "disable", &known, error);
out:
    names_clear(&known);
    return status == TENON_NOMEM ? out_of_memory(error) : status;
}

/* Searches, and examines what is new. What was published stays, wherever it was found. */
static int32_t scan(loader *self, bool first, tenon_error *error)
{
    search_list found;
    candidate **items = NULL;
    uint64_t count = 0, i;
    int32_t status = search_run(&self->options, &found);
    if (status != TENON_OK) {
        out_of_memory(error);
        goto out;
    }
    if (first) status = check_filters(self, &found, error);
    for (i = 0; i < found.count && status == TENON_OK; i++) {
        candidate *item = known_candidate(self, &found.items[i]);
        bool fresh = item == NULL;
        if (!fresh && contains(items, count, item)) continue;
        if (fresh) item = new_candidate();
        if (item == NULL || !append(&items, &count, item)) {
            if (fresh) free_candidate(item);
            status = out_of_memory(error);
        } else if (fresh && !examine(self, &found.items[i], item)) {
            status = out_of_memory(error);
        }
    }
    for (i = 0; i < self->published_count && status == TENON_OK; i++)
        if (!contains(items, count, self->published[i]) &&
            !append(&items, &count, self->published[i]))
            status = out_of_memory(error);
out:
    search_clear(&found);
    if (status == TENON_OK) { /* the old list goes, with what is not in the new one */
        candidate **old = self->items;
        uint64_t old_count = self->count;
        self->items = items;
        self->count = count;
        for (i = 0; i < old_count; i++)
            if (!contains(items, count, old[i])) free_candidate(old[i]);
        free(old);
    } else { /* the new list goes, with what is neither in the old one nor published */
        for (i = 0; i < count; i++)
            if (!contains(self->items, self->count, items[i]) &&
                !contains(self->published, self->published_count, items[i]))
                free_candidate(items[i]);
        free(items);
    }
    return status;
}

/* ---- the loader --------------------------------------------------------------------------- */

static bool copy_string(const char **field)
{
    size_t bytes;
    char *copy;
    if (*field == NULL) return true;
    bytes = strlen(*field) + 1;
    copy = malloc(bytes);
    if (copy != NULL) memcpy(copy, *field, bytes);
    *field = copy;
    return copy != NULL;
}

static void free_const(const void *pointer)
{
    void *plain;
    memcpy(&plain, &pointer, sizeof plain);
    free(plain);
}

/* Replaces everything that options point to by copies. false: no memory, what was copied so far is
 * in self and the rest is NULL. */
static bool copy_options(loader_options *self, const loader_options *from)
{
    const char **paths;
    uint64_t i;
    *self = *from;
    self->paths = NULL;
    self->path_count = 0;
    if (!copy_string(&self->select)) {
        self->disable = self->probe_helper = NULL;
        return false;
    }
    if (!copy_string(&self->disable)) {
        self->probe_helper = NULL;
        return false;
    }
    if (!copy_string(&self->probe_helper)) return false;
    if (from->path_count == 0) return true;
    if (from->path_count > SIZE_MAX / sizeof *paths) return false;
    paths = calloc((size_t)from->path_count, sizeof *paths);
    if (paths == NULL) return false;
    self->paths = paths;
    for (i = 0; i < from->path_count; i++) {
        paths[i] = from->paths[i] != NULL ? from->paths[i] : "";
        if (!copy_string(&paths[i])) return false;
        self->path_count++;
    }
    return true;
}

int32_t loader_create(const loader_options *options, loader **out, tenon_error *error)
{
    loader *self = calloc(1, sizeof *self);
    int32_t status = TENON_NOMEM;
    *out = NULL;
    if (self == NULL) return out_of_memory(error);
    if (!copy_options(&self->options, options)) {
        out_of_memory(error);
    } else {
        platform_lock();
        status = scan(self, true, error);
        platform_unlock();
    }
    if (status != TENON_OK) {
        loader_destroy(self);
        return status;
    }
    *out = self;
    return TENON_OK;
}

int32_t loader_rescan(loader *self, tenon_error *error)
{
    int32_t status;
    platform_lock();
    status = scan(self, false, error);
    platform_unlock();
    return status;
}

void loader_destroy(loader *self)
{
    uint64_t i;
    if (self == NULL) return;
    platform_lock();
    for (i = self->published_count; i-- > 0;) platform_library_close(self->published[i]->library);
    platform_unlock();
    for (i = 0; i < self->published_count; i++)
        if (!contains(self->items, self->count, self->published[i]))
            free_candidate(self->published[i]);
    for (i = 0; i < self->count; i++) free_candidate(self->items[i]);
    free(self->items);
    free(self->published);
    for (i = 0; i < self->options.path_count; i++) free_const(self->options.paths[i]);
    free_const(self->options.paths);
    free_const(self->options.select);
    free_const(self->options.disable);
    free_const(self->options.probe_helper);
    free(self);
}

uint64_t loader_verdict_count(const loader *self)
{
    return self->count;
}

const loader_verdict *loader_verdict_at(const loader *self, uint64_t index)
{
    return index < self->count ? &self->items[index]->verdict : NULL;
}

uint64_t loader_module_count(const loader *self)
{
    return self->published_count;
}

const loader_module *loader_module_at(const loader *self, uint64_t index)
{
    return index < self->published_count ? &self->published[index]->module : NULL;
}

int32_t loader_register(loader *self, const tenon_static_symbol *symbols, uint64_t count,
                        tenon_error *error)
{
    candidate *item = new_candidate();
    loader_fault fault = {0};
    bound_symbols bound;
    const candidate *twin;
    char text[208];
    if (item == NULL) return out_of_memory(error);
    bind_static(symbols, count, &bound, &fault);
    check_descriptors(&bound, &item->module, &fault);
    item->verdict.explicit_ = true;
    item->verdict.shipped = true;
    item->verdict.verdict = TENON_CANDIDATE_LOADED;
    item->verdict.stage = TENON_STAGE_PUBLISH;
    if (fault.reason == TENON_REASON_NONE) {
        if (!verdict_set(&item->verdict.id, item->module.provider.id) ||
            !verdict_set(&item->verdict.version, item->module.provider.version))
            goto memory;
        twin = twin_of(self, item, false);
        if (twin != NULL)
            fault_note(&fault, TENON_REASON_DUPLICATE_ID, NULL,
                       twin->library != NULL ? twin->verdict.file : "a built-in provider", NULL,
                       NULL);
    }
    if (fault.reason != TENON_REASON_NONE && !refuse(item, &fault)) goto memory;
    if (!append(&self->items, &self->count, item)) goto memory;
    if (fault.reason == TENON_REASON_NONE) {
        if (!append(&self->published, &self->published_count, item)) {
            self->count--;
            goto memory;
        }
        item->published = true;
    }
    if (!conclude(self, item)) return out_of_memory(error);
    if (fault.reason == TENON_REASON_NONE) return TENON_OK;
    cut_format(text, sizeof text, "%s: %s %s%s%s%s%s", tenon_reason_text(fault.reason),
               item->verdict.id, fault.symbol, fault.have[0] != '\0' ? " have " : "", fault.have,
               fault.need[0] != '\0' ? " need " : "", fault.need);
    return tenon_fail(error, TENON_ABI, fault.reason, TENON_SCOPE_PROVIDER, text);
memory:
    free_candidate(item);
    return out_of_memory(error);
}
