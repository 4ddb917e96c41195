/* What the provider needs of the operating system: a lock and a library opened by name. */
#ifndef TENON_VULKAN_SYSTEM_H
#define TENON_VULKAN_SYSTEM_H

#include <stddef.h>

#if defined(_WIN32)
typedef struct vulkan_lock {
    void *word; /* an SRWLOCK */
} vulkan_lock;
#else
#include <pthread.h>
typedef pthread_mutex_t vulkan_lock;
#endif

/* Bytes of a page of memory. */
size_t vulkan_page_bytes(void);

/* Tells this process from others. */
unsigned long vulkan_process_id(void);

/* 0 when the system has no lock to give. [any thread] */
int vulkan_lock_make(vulkan_lock *lock);
void vulkan_lock_free(vulkan_lock *lock);
void vulkan_lock_take(vulkan_lock *lock);
void vulkan_lock_give(vulkan_lock *lock);

/* Opens the library of the Vulkan loader: name, or where it is NULL the system's own name for it.
 * NULL: why holds the system's words, one line. */
void *vulkan_library_open(const char *name, char *why, size_t room);
void vulkan_library_close(void *library);
/* A function of it, NULL when it has none of that name. */
void (*vulkan_library_find(void *library, const char *name))(void);

#endif
