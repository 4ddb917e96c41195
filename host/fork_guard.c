/* One handler, registered once: a flag costs a load per call, getpid would cost a system call. */
#include "fork_guard.h"

#include <pthread.h>

atomic_uint fork_guard_count;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered = -1;

static void in_child(void)
{
    atomic_fetch_add_explicit(&fork_guard_count, 1u, memory_order_relaxed);
}

static void set_up(void)
{
    registered = pthread_atfork(NULL, NULL, in_child);
}

bool fork_guard_setup(void)
{
    return pthread_once(&once, set_up) == 0 && registered == 0;
}
