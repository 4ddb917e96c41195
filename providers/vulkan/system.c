/* The operating system's side: one half for POSIX, one for Windows. */
#include "system.h"

#include <stdio.h>
#include <string.h>

#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

size_t vulkan_page_bytes(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

unsigned long vulkan_process_id(void)
{
    return GetCurrentProcessId();
}

int vulkan_lock_make(vulkan_lock *lock)
{
    InitializeSRWLock((SRWLOCK *)(void *)lock);
    return 1;
}

void vulkan_lock_free(vulkan_lock *lock)
{
    (void)lock;
}

void vulkan_lock_take(vulkan_lock *lock)
{
    AcquireSRWLockExclusive((SRWLOCK *)(void *)lock);
}

void vulkan_lock_give(vulkan_lock *lock)
{
    ReleaseSRWLockExclusive((SRWLOCK *)(void *)lock);
}

void *vulkan_library_open(const char *name, char *why, size_t room)
{
    const char *wanted = name != NULL ? name : "vulkan-1.dll";
    /* The system's folder alone: never the current one, never PATH. */
    DWORD flags = name != NULL ? LOAD_WITH_ALTERED_SEARCH_PATH : LOAD_LIBRARY_SEARCH_SYSTEM32;
    HMODULE library = LoadLibraryExA(wanted, NULL, flags);
    if (library == NULL) snprintf(why, room, "%s: error %lu", wanted, GetLastError());
    return (void *)library;
}

void vulkan_library_close(void *library)
{
    if (library != NULL) FreeLibrary((HMODULE)library);
}

void (*vulkan_library_find(void *library, const char *name))(void)
{
    FARPROC found = GetProcAddress((HMODULE)library, name);
    void (*function)(void);
    memcpy(&function, &found, sizeof function);
    return function;
}

#else

#include <dlfcn.h>
#include <unistd.h>

#if defined(__APPLE__)
#define LOADER_NAME "libvulkan.1.dylib"
#else
#define LOADER_NAME "libvulkan.so.1"
#endif

size_t vulkan_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

unsigned long vulkan_process_id(void)
{
    return (unsigned long)getpid();
}

int vulkan_lock_make(vulkan_lock *lock)
{
    return pthread_mutex_init(lock, NULL) == 0;
}

void vulkan_lock_free(vulkan_lock *lock)
{
    pthread_mutex_destroy(lock);
}

void vulkan_lock_take(vulkan_lock *lock)
{
    pthread_mutex_lock(lock);
}

void vulkan_lock_give(vulkan_lock *lock)
{
    pthread_mutex_unlock(lock);
}

void *vulkan_library_open(const char *name, char *why, size_t room)
{
    void *library = dlopen(name != NULL ? name : LOADER_NAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *said = dlerror();
        snprintf(why, room, "%s", said != NULL ? said : "dlopen failed");
    }
    return library;
}

void vulkan_library_close(void *library)
{
    if (library != NULL) dlclose(library);
}

void (*vulkan_library_find(void *library, const char *name))(void)
{
    void *found = dlsym(library, name);
    void (*function)(void);
    memcpy(&function, &found, sizeof function); /* POSIX: both have one representation */
    return function;
}

#endif
