#include <loader/trust.h>
#include <stdlib.h>
#include <string.h>

/* Links on one path beyond these are a loop. */
enum { MAX_LINKS = 40 };

uint32_t trust_rule(const platform_access *access)
{
    if (access->kind != PLATFORM_DIRECTORY && !access->owner_trusted)
        return TENON_REASON_UNTRUSTED_OWNER;
    if (access->kind == PLATFORM_DIRECTORY && access->sticky) return TENON_REASON_NONE;
    if (access->others_write || access->group_write) return TENON_REASON_WRITABLE_PATH;
    return TENON_REASON_NONE;
}

void trust_fault_clear(trust_fault *fault)
{
    free(fault->path);
    memset(fault, 0, sizeof *fault);
}

static int32_t note(trust_fault *fault, uint32_t reason, const char *path,
                    const platform_access *access)
{
    size_t bytes = strlen(path) + 1;
    fault->path = malloc(bytes);
    if (fault->path == NULL) return TENON_NOMEM;
    memcpy(fault->path, path, bytes);
    fault->reason = reason;
    fault->access = *access;
    return TENON_OK;
}

/* One directory whose entries were looked at. */
static int32_t judge_directory(const char *path, trust_fault *fault)
{
    char text[PLATFORM_TEXT_BYTES];
    platform_access access;
    uint32_t reason = platform_path_facts(path, NULL, &access, text);
    if (reason == TENON_REASON_NONE && access.kind == PLATFORM_MISSING)
        reason = TENON_REASON_NO_SUCH_PATH;
    if (reason == TENON_REASON_NONE) reason = trust_rule(&access);
    return reason == TENON_REASON_NONE ? TENON_OK : note(fault, reason, path, &access);
}

/* first, a separator, and second; a path of its own. */
static char *joined(const char *first, size_t length, const char *second)
{
    size_t more = strlen(second);
    char *out = malloc(length + more + 2);
    if (out == NULL) return NULL;
    memcpy(out, first, length);
    if (length > 0 && !platform_is_separator(out[length - 1])) out[length++] = '/';
    memcpy(out + length, second, more + 1);
    return out;
}

/* The end of the root at the start of an absolute path: "/", "C:\", or "\\". */
static size_t root_end(const char *path)
{
    size_t i = 0;
    while (path[i] != '\0' && !platform_is_separator(path[i])) i++;
    while (platform_is_separator(path[i])) i++;
    return i;
}

/* Judges the directory before position i of path, then follows the component that ends at end if
 * it is a link: *path is replaced by the path through the link and *i moves to its root. */
static int32_t step(char **path, size_t *i, size_t end, unsigned *links, trust_fault *fault)
{
    char kept = (*path)[*i], *target, *next;
    int32_t status;
    (*path)[*i] = '\0';
    status = judge_directory(*path, fault);
    (*path)[*i] = kept;
    if (status != TENON_OK || fault->reason != TENON_REASON_NONE) return status;
    kept = (*path)[end];
    (*path)[end] = '\0';
    target = platform_link_target(*path);
    (*path)[end] = kept;
    if (target == NULL) {
        *i = end;
        return TENON_OK;
    }
    if (++*links > MAX_LINKS) {
        platform_access none = {0};
        free(target);
        return note(fault, TENON_REASON_OPEN_FAILED, *path, &none);
    }
    /* An absolute target starts over; a relative one continues from the link's directory. */
    next = platform_is_absolute(target) ? joined(target, strlen(target), *path + end)
                                        : joined(*path, *i, target);
    if (next != NULL && !platform_is_absolute(target)) {
        char *whole = joined(next, strlen(next), *path + end);
        free(next);
        next = whole;
    }
    if (next != NULL && platform_is_absolute(target)) *i = root_end(next);
    free(target);
    if (next == NULL) return TENON_NOMEM;
    free(*path);
    *path = next;
    return TENON_OK;
}

int32_t trust_judge(const char *path, const platform_access *file, trust_fault *fault)
{
    uint32_t reason = trust_rule(file);
    int32_t status = TENON_OK;
    unsigned links = 0;
    char *walked;
    size_t i;
    memset(fault, 0, sizeof *fault);
    if (reason != TENON_REASON_NONE) return note(fault, reason, path, file);
    walked = joined(path, strlen(path), "");
    if (walked == NULL) return TENON_NOMEM;
    i = root_end(walked);
    while (walked[i] != '\0' && status == TENON_OK && fault->reason == TENON_REASON_NONE) {
        size_t start = i, end;
        while (platform_is_separator(walked[start])) start++;
        end = start;
        while (walked[end] != '\0' && !platform_is_separator(walked[end])) end++;
        if (end == start) break;
        /* ".." after a link means the target's parent: the system resolves the prefix itself, so
         * it can stay in the path as it is. */
        status = step(&walked, &i, end, &links, fault);
    }
    free(walked);
    return status;
}
