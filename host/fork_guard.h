/* Notices that this process is the child of a fork. Threads and device contexts of a host do not
 * survive one, so a child may not use a host made before: it asks here before it touches a lock. */
#ifndef TENON_HOST_FORK_GUARD_H
#define TENON_HOST_FORK_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>

/* Forks that this process descends from since the guard was set up. Read through the functions. */
extern atomic_uint fork_guard_count;

/* Sets the guard up, once. false: no memory. [any thread] */
bool fork_guard_setup(void);

/* What fork_guard_crossed compares with later. [any thread] */
static inline unsigned fork_guard_mark(void)
{
    return atomic_load_explicit(&fork_guard_count, memory_order_relaxed);
}

/* Was the mark taken in a parent of this process? [any thread] */
static inline bool fork_guard_crossed(unsigned mark)
{
    return fork_guard_mark() != mark;
}

#endif
