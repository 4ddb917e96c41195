#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

uint64_t system_now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void system_sleep_us(uint32_t microseconds)
{
    struct timespec rest = {(time_t)(microseconds / 1000000u),
                            (long)(microseconds % 1000000u) * 1000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) continue;
}

bool system_signals_block(sigset_t *before)
{
    sigset_t all;
    return sigfillset(&all) == 0 && pthread_sigmask(SIG_SETMASK, &all, before) == 0;
}

void system_signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

#if defined(__linux__)

/* No kernel is built for more processors. */
#define CPUS_MAX 65536u

bool system_affinity(uint32_t **cpus, uint32_t *count)
{
    uint32_t room = 1024, cpu, found = 0, *list = NULL;
    cpu_set_t *set = NULL;
    size_t bytes = 0;
    bool ok = false;

    *cpus = NULL;
    *count = 0;
    for (; room <= CPUS_MAX; room *= 2) {
        set = CPU_ALLOC(room);
        if (set == NULL) return false;
        bytes = CPU_ALLOC_SIZE(room);
        if (sched_getaffinity(0, bytes, set) == 0) break;
        CPU_FREE(set);
        set = NULL;
        if (errno != EINVAL) return false; /* EINVAL: the kernel's mask is longer */
    }
    if (set == NULL) return false;
    list = malloc((size_t)CPU_COUNT_S(bytes, set) * sizeof *list + sizeof *list);
    if (list == NULL) goto out;
    for (cpu = 0; cpu < room; cpu++)
        if (CPU_ISSET_S(cpu, bytes, set)) list[found++] = cpu;
    ok = found > 0;
out:
    CPU_FREE(set);
    if (!ok) {
        free(list);
        return false;
    }
    *cpus = list;
    *count = found;
    return true;
}

bool system_pin(pthread_t thread, uint32_t cpu)
{
    cpu_set_t *set = CPU_ALLOC(cpu + 1u);
    size_t bytes = CPU_ALLOC_SIZE(cpu + 1u);
    int result;

    if (set == NULL) return false;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(cpu, bytes, set);
    result = pthread_setaffinity_np(thread, bytes, set);
    CPU_FREE(set);
    return result == 0;
}

void system_name_thread(const char *name)
{
    pthread_setname_np(pthread_self(), name);
}

/* One entry of /proc/self/pagemap per page. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_OF_FILE (UINT64_C(1) << 61) /* a page of a file, not a private copy of one */

uint64_t system_drop_clean_pages(const void *bytes, uint64_t count)
{
    uint64_t entries[512], page, first, last, at, run = 0, dropped = 0;
    long page_size = sysconf(_SC_PAGESIZE);
    int pagemap;

    if (page_size <= 0 || bytes == NULL || count > UINTPTR_MAX - (uintptr_t)bytes) return 0;
    page = (uint64_t)page_size;
    first = ((uint64_t)(uintptr_t)bytes + page - 1) / page;
    last = ((uint64_t)(uintptr_t)bytes + count) / page;
    if (first >= last) return 0;
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0) return 0;
    for (at = first; at < last;) {
        uint64_t i, want = last - at < 512 ? last - at : 512;
        ssize_t got = pread(pagemap, entries, (size_t)want * 8, (off_t)(at * 8));
        if (got < 8) break;
        want = (uint64_t)got / 8;
        for (i = 0; i <= want; i++) {
            bool clean = i < want && (entries[i] & (PAGE_PRESENT | PAGE_OF_FILE)) ==
                                         (PAGE_PRESENT | PAGE_OF_FILE);
            if (clean) {
                run++;
                continue;
            }
            if (run > 0 && madvise((void *)(uintptr_t)((at + i - run) * page), (size_t)(run * page),
                                   MADV_DONTNEED) == 0)
                dropped += run * page;
            run = 0;
        }
        at += want;
    }
    close(pagemap);
    return dropped;
}

#else

bool system_affinity(uint32_t **cpus, uint32_t *count)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t i;

    *cpus = NULL;
    *count = 0;
    if (online < 1 || online > 65536) return false;
    *cpus = malloc((size_t)online * sizeof **cpus);
    if (*cpus == NULL) return false;
    for (i = 0; i < (uint32_t)online; i++) (*cpus)[i] = i;
    *count = (uint32_t)online;
    return true;
}

bool system_pin(pthread_t thread, uint32_t cpu)
{
    (void)thread;
    (void)cpu;
    return false;
}

void system_name_thread(const char *name)
{
    (void)name;
}

uint64_t system_drop_clean_pages(const void *bytes, uint64_t count)
{
    (void)bytes;
    (void)count;
    return 0;
}

#endif
