/* What the host asks of the operating system besides pthreads. */
#ifndef TENON_HOST_SYSTEM_H
#define TENON_HOST_SYSTEM_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds of a clock that never goes back. [any thread] */
uint64_t system_now_ns(void);
/* Sleeps for about that long. [any thread] */
void system_sleep_us(uint32_t microseconds);

/* The processors that this thread may use, ascending: *cpus is malloc'd and owned by the caller.
 * false: the system does not tell, or no memory (*cpus is NULL). */
bool system_affinity(uint32_t **cpus, uint32_t *count);
/* Restricts a thread to one processor. false: refused. */
bool system_pin(pthread_t thread, uint32_t cpu);
/* Names the calling thread in debuggers and process listings. */
void system_name_thread(const char *name);
/* Blocks every signal for the threads made by this one until system_signals_restore: handlers of
 * the engine run on the engine's threads. */
bool system_signals_block(sigset_t *before);
void system_signals_restore(const sigset_t *before);

/* Gives back the memory of the whole pages inside [bytes, bytes + count) that hold nothing but what
 * their file holds; they are read again when touched. Pages of anonymous memory and pages written
 * since they were mapped stay. Returns the bytes given back. [any thread] */
uint64_t system_drop_clean_pages(const void *bytes, uint64_t count);

/* Tells the processor that this is a waiting loop. */
static inline void system_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
