#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_ROOM 4096u

bool cgroup_read_file(const char *root, const char *path, char *text, uint32_t room)
{
    char name[PATH_ROOM];
    uint32_t used = 0;
    ssize_t got = 0;
    int file, length = snprintf(name, sizeof name, "%s%s", root, path);

    if (room > 0) text[0] = '\0';
    if (length < 0 || (size_t)length >= sizeof name || room < 2) return false;
    file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    while (used + 1 < room) {
        got = read(file, text + used, room - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += (uint32_t)got;
    }
    close(file);
    text[used] = '\0';
    return got >= 0 && used > 0;
}

/* Reads a non-negative number; "max" and "-1" (no limit) and everything else answer false. */
static bool read_number(const char *text, uint64_t *out, const char **end)
{
    char *after;
    unsigned long long value;

    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    value = strtoull(text, &after, 10);
    if (errno != 0) return false;
    *out = value;
    if (end != NULL) *end = after;
    return true;
}

/* Is quota/period tighter than what *best holds? Compared by cross multiplication in double:
 * both are microseconds, far below 2^53. */
static void keep_tighter(uint64_t quota, uint64_t period, bool *found, uint64_t *best_quota,
                         uint64_t *best_period)
{
    if (quota == 0 || period == 0) return;
    if (*found && (double)quota * (double)*best_period >= (double)*best_quota * (double)period)
        return;
    *best_quota = quota;
    *best_period = period;
    *found = true;
}

static void look_v2(const char *root, const char *group, bool *found, uint64_t *quota,
                    uint64_t *period)
{
    char path[PATH_ROOM], text[128];
    uint64_t q, p;
    const char *rest;
    int length = snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);

    if (length < 0 || (size_t)length >= sizeof path) return;
    if (!cgroup_read_file(root, path, text, sizeof text)) return;
    if (!read_number(text, &q, &rest) || *rest != ' ' || !read_number(rest + 1, &p, NULL)) return;
    keep_tighter(q, p, found, quota, period);
}

static void look_v1(const char *root, const char *group, bool *found, uint64_t *quota,
                    uint64_t *period)
{
    static const char *const mounts[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu"};
    char path[PATH_ROOM], text[128];
    size_t i;

    for (i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        uint64_t q, p;
        int length = snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/cpu.cfs_quota_us", mounts[i],
                              group);
        if (length < 0 || (size_t)length >= sizeof path) continue;
        if (!cgroup_read_file(root, path, text, sizeof text) || !read_number(text, &q, NULL))
            continue;
        length = snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/cpu.cfs_period_us", mounts[i],
                          group);
        if (length < 0 || (size_t)length >= sizeof path) continue;
        if (!cgroup_read_file(root, path, text, sizeof text) || !read_number(text, &p, NULL))
            continue;
        keep_tighter(q, p, found, quota, period);
    }
}

/* Does a comma-separated list of controllers name cpu? */
static bool names_cpu(const char *list, size_t length)
{
    size_t start = 0, i;
    for (i = 0; i <= length; i++) {
        if (i < length && list[i] != ',') continue;
        if (i - start == 3 && memcmp(list + start, "cpu", 3) == 0) return true;
        start = i + 1;
    }
    return false;
}

/* Asks for the group and every group around it up to the top: the tightest limit holds, and where
 * the path is one of the world outside a container, the top is the container's own group. */
static void look_upwards(const char *root, char *group, bool version1, bool *found, uint64_t *quota,
                         uint64_t *period)
{
    for (;;) {
        char *slash;
        if (version1)
            look_v1(root, group, found, quota, period);
        else
            look_v2(root, group, found, quota, period);
        if (group[0] == '\0') return;
        slash = strrchr(group, '/');
        if (slash == NULL) return;
        *slash = '\0';
    }
}

bool cgroup_quota(const char *root, uint64_t *quota, uint64_t *period)
{
    static const char separators[] = "\n";
    char text[8192], group[PATH_ROOM], *save = NULL, *line;
    bool found = false, any = false;

    *quota = 0;
    *period = 0;
    if (cgroup_read_file(root, "/proc/self/cgroup", text, sizeof text)) {
        /* lines are "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1) */
        for (line = strtok_r(text, separators, &save); line != NULL;
             line = strtok_r(NULL, separators, &save)) {
            char *controllers = strchr(line, ':'), *path;
            bool version1;
            if (controllers == NULL) continue;
            path = strchr(++controllers, ':');
            if (path == NULL) continue;
            version1 = path != controllers;
            if (version1 && !names_cpu(controllers, (size_t)(path - controllers))) continue;
            path++;
            if (strlen(path) >= sizeof group || strstr(path, "/..") != NULL) continue;
            strcpy(group, strcmp(path, "/") == 0 ? "" : path);
            look_upwards(root, group, version1, &found, quota, period);
            any = true;
        }
    }
    if (!any) {
        group[0] = '\0';
        look_upwards(root, group, false, &found, quota, period);
        look_upwards(root, group, true, &found, quota, period);
    }
    return found;
}
