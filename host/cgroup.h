/* The processor quota of the control group that this process runs in. */
#ifndef TENON_HOST_CGROUP_H
#define TENON_HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The tightest quota of the group and the groups around it, versions 1 and 2: *quota of every
 * *period microseconds. root as in topology.h. false: there is none, or it cannot be read. */
bool cgroup_quota(const char *root, uint64_t *quota, uint64_t *period);

/* Reads a small file of root into text, cut to room and NUL-terminated. false: it cannot be. */
bool cgroup_read_file(const char *root, const char *path, char *text, uint32_t room);

#endif
