/* How many threads a team has by default, and where they go.
 *
 * min(processors this process may use, cgroup quota rounded down), at least 1; of these processors
 * one hardware thread a core, and where cores differ in speed the fast ones only: a slow core or a
 * second hardware thread makes a split product wait for it. An engine's own number always wins. */
#ifndef TENON_HOST_TOPOLOGY_H
#define TENON_HOST_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct topology {
    uint32_t threads;    /* the default, at least 1 */
    uint32_t processors; /* that can run at once: affinity and quota, at least 1 */
    char why[112];       /* "affinity 2", "cgroup quota 150000/100000", ... */
    uint32_t *placement; /* processors in the order in which threads should fill them: fast cores
                            first, one hardware thread a core first. Owned, may be empty */
    uint32_t placement_count;
} topology;

/* Reads the machine below root ("" for the real one): root/proc/self/cgroup, root/sys/fs/cgroup,
 * root/sys/devices. cpus: the processors this process may use, ascending. What cannot be read
 * counts as absent. false: no memory. [any thread] */
bool topology_read(const char *root, const uint32_t *cpus, uint32_t cpu_count, topology *out);
/* Frees what topology_read gave. */
void topology_clear(topology *self);

#endif
