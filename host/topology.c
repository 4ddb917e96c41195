#include "topology.h"

#include "cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is known of one processor. */
typedef struct processor {
    uint32_t cpu;
    uint32_t core;    /* the lowest processor of its core, itself when unknown */
    uint32_t sibling; /* how many allowed processors of the core come before it */
    uint64_t speed;   /* in a unit all processors share, 0: unknown */
    bool fast;
} processor;

/* A core is slow when it has less than four fifths of the fastest one's speed: the favoured cores
 * of one kind differ by a few percent, the kinds of a hybrid processor by a quarter and more. */
static bool is_slow(uint64_t speed, uint64_t best)
{
    return speed < best - best / 5;
}

static bool read_number(const char *root, const char *format, uint32_t cpu, uint64_t *out)
{
    char path[128], text[64], *after;
    unsigned long long value;

    snprintf(path, sizeof path, format, cpu);
    if (!cgroup_read_file(root, path, text, sizeof text)) return false;
    if (text[0] < '0' || text[0] > '9') return false;
    value = strtoull(text, &after, 10);
    if (after == text) return false;
    *out = value;
    return true;
}

/* Reads the next range "3" or "8-15" of a processor list; false at its end or at anything else. */
static bool next_range(const char **at, uint32_t *first, uint32_t *last)
{
    unsigned long value;
    char *after;

    if (**at == ',') (*at)++;
    if (**at < '0' || **at > '9') return false;
    value = strtoul(*at, &after, 10);
    if (value > UINT32_MAX) return false;
    *first = *last = (uint32_t)value;
    if (*after == '-') {
        const char *end = after + 1;
        if (*end < '0' || *end > '9') return false;
        value = strtoul(end, &after, 10);
        if (value > UINT32_MAX || value < *first) return false;
        *last = (uint32_t)value;
    }
    *at = after;
    return true;
}

static bool list_holds(const char *list, uint32_t cpu)
{
    uint32_t first, last;
    while (next_range(&list, &first, &last))
        if (cpu >= first && cpu <= last) return true;
    return false;
}

/* The lowest processor of the core of cpu. false: unknown. */
static bool read_core(const char *root, uint32_t cpu, uint32_t *core)
{
    static const char *const names[] = {
        "/sys/devices/system/cpu/cpu%u/topology/core_cpus_list",
        "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
    };
    char path[128], text[1024];
    uint64_t id, package = 0;
    uint32_t first, last;
    const char *at;
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, names[i], cpu);
        if (!cgroup_read_file(root, path, text, sizeof text)) continue;
        at = text;
        if (!next_range(&at, &first, &last)) continue;
        *core = first;
        return true;
    }
    /* without lists of siblings the pair of core and package number tells cores apart; the top bit
     * keeps it away from processor numbers */
    if (!read_number(root, "/sys/devices/system/cpu/cpu%u/topology/core_id", cpu, &id))
        return false;
    (void)read_number(root, "/sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu,
                      &package);
    *core = (uint32_t)((package & 0x7fffu) << 16 | (id & 0xffffu)) | 0x80000000u;
    return true;
}

/* Marks the fast ones. The kernel's own lists of kinds are best; then its capacities; then the
 * highest frequencies. Where nothing is said, all are of one kind. */
static void find_fast(const char *root, processor *all, uint32_t count)
{
    char list[4096];
    uint64_t best = 0;
    uint32_t i, fast = 0;
    bool known = true;

    for (i = 0; i < count; i++) all[i].fast = true;
    if (cgroup_read_file(root, "/sys/devices/cpu_core/cpus", list, sizeof list)) {
        for (i = 0; i < count; i++) {
            all[i].fast = list_holds(list, all[i].cpu);
            if (all[i].fast) fast++;
        }
        for (i = 0; fast == 0 && i < count; i++) all[i].fast = true;
        return;
    }
    for (i = 0; i < count && known; i++)
        known = read_number(root, "/sys/devices/system/cpu/cpu%u/cpu_capacity", all[i].cpu,
                            &all[i].speed);
    if (!known) {
        known = true;
        for (i = 0; i < count && known; i++)
            known = read_number(root, "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq",
                                all[i].cpu, &all[i].speed);
    }
    if (!known) return;
    for (i = 0; i < count; i++)
        if (all[i].speed > best) best = all[i].speed;
    for (i = 0; i < count; i++) all[i].fast = !is_slow(all[i].speed, best);
}

/* Placement: fast before slow, first hardware threads before second ones, then by number. */
static int by_placement(const void *left, const void *right)
{
    const processor *a = left, *b = right;
    if (a->fast != b->fast) return a->fast ? -1 : 1;
    if (a->sibling != b->sibling) return a->sibling < b->sibling ? -1 : 1;
    return a->cpu < b->cpu ? -1 : a->cpu > b->cpu ? 1 : 0;
}

static void decide(const char *root, const processor *all, uint32_t count, bool cores_known,
                   topology *out)
{
    uint64_t quota, period, limit;
    uint32_t i, fast = 0, cores = 0;

    for (i = 0; i < count; i++) {
        if (all[i].fast) fast++;
        if (all[i].fast && all[i].sibling == 0) cores++;
    }
    out->threads = cores > 0 ? cores : 1;
    out->processors = count > 0 ? count : 1;
    if (count == 0)
        snprintf(out->why, sizeof out->why, "processors unknown");
    else if (!cores_known)
        snprintf(out->why, sizeof out->why, "affinity %u", count);
    else if (fast < count)
        snprintf(out->why, sizeof out->why, "%u fast cores of %u processors", cores, count);
    else if (cores < count)
        snprintf(out->why, sizeof out->why, "%u physical cores of %u processors", cores, count);
    else
        snprintf(out->why, sizeof out->why, "affinity %u", count);
    if (!cgroup_quota(root, &quota, &period)) return;
    limit = quota / period;
    if (limit == 0) limit = 1;
    if (limit < out->processors) out->processors = (uint32_t)limit;
    if (limit >= out->threads) return;
    out->threads = (uint32_t)limit;
    snprintf(out->why, sizeof out->why, "cgroup quota %llu/%llu", (unsigned long long)quota,
             (unsigned long long)period);
}

bool topology_read(const char *root, const uint32_t *cpus, uint32_t cpu_count, topology *out)
{
    processor *all = NULL;
    bool cores_known = true, ok = false;
    uint32_t i, j;

    *out = (topology){0};
    all = calloc((size_t)cpu_count + 1, sizeof *all);
    out->placement = calloc((size_t)cpu_count + 1, sizeof *out->placement);
    if (all == NULL || out->placement == NULL) goto out;
    for (i = 0; i < cpu_count; i++) {
        all[i].cpu = cpus[i];
        all[i].core = cpus[i];
        if (!read_core(root, cpus[i], &all[i].core)) cores_known = false;
    }
    if (!cores_known) /* half a picture is none */
        for (i = 0; i < cpu_count; i++) all[i].core = all[i].cpu;
    for (i = 0; i < cpu_count; i++)
        for (j = 0; j < i; j++)
            if (all[j].core == all[i].core) all[i].sibling++;
    find_fast(root, all, cpu_count);
    decide(root, all, cpu_count, cores_known, out);
    qsort(all, cpu_count, sizeof *all, by_placement);
    for (i = 0; i < cpu_count; i++) out->placement[i] = all[i].cpu;
    out->placement_count = cpu_count;
    ok = true;
out:
    free(all);
    if (!ok) topology_clear(out);
    return ok;
}

void topology_clear(topology *self)
{
    free(self->placement);
    self->placement = NULL;
    self->placement_count = 0;
}
