/* Compiled pipelines on disk, one file a device and driver.
 *
 * A driver must look at what it is given, but not all survive damage: the file has a checksum of its
 * own, and the driver never sees what does not match it. A file is written aside and renamed, so that
 * nobody reads half of one. Whatever goes wrong here costs time only: it is said and let be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines.h"

#define MAGIC UINT64_C(0x31454843414b5654) /* this form of the file */
#define MOST_BYTES (UINT64_C(256) << 20)

typedef struct head {
    uint64_t magic, bytes, sum;
    uint8_t device[16], driver[VK_UUID_SIZE];
} head;

/* FNV-1a. */
static uint64_t sum_of(const uint8_t *data, uint64_t bytes)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325), i;
    for (i = 0; i < bytes; i++) sum = (sum ^ data[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static void say(const tenon_device *device, const char *path, const char *what)
{
    const tenon_services *services = device->provider->services;
    char text[300];
    snprintf(text, sizeof text, "vulkan: %.220s: %s", path, what);
    services->log(services->host, TENON_LOG_INFO, text);
}

static head head_of(const tenon_device *device, uint64_t bytes, uint64_t sum)
{
    head self = {.magic = MAGIC, .bytes = bytes, .sum = sum};
    memcpy(self.device, device->gpu->info.uuid, sizeof self.device);
    memcpy(self.driver, device->gpu->cache_uuid, sizeof self.driver);
    return self;
}

/* Its name; 0 when there is to be no file, or it is too long. */
static int path_of(const tenon_device *device, char *path, size_t room)
{
    const char *folder = device->provider->settings.cache_dir;
    char name[33];
    int length;
    size_t i;

    if (folder == NULL) return 0;
    for (i = 0; i < 16; i++)
        snprintf(name + 2 * i, 3, "%02x", device->gpu->info.uuid[i] ^ device->gpu->cache_uuid[i]);
    length = snprintf(path, room, "%s/tenon-vulkan-%s.bin", folder, name);
    return length > 0 && (size_t)length < room - 32;
}

/* The bytes for the driver, to be freed; NULL and why where there are none. */
static uint8_t *read_file(const tenon_device *device, FILE *file, uint64_t *bytes, const char **why)
{
    head found, wanted;
    uint8_t *data;

    *why = "damaged, ignored";
    if (fread(&found, sizeof found, 1, file) != 1 || found.magic != MAGIC ||
        found.bytes > MOST_BYTES)
        return NULL;
    data = malloc((size_t)found.bytes + 1);
    if (data == NULL) {
        *why = "no memory to read it";
        return NULL;
    }
    wanted = head_of(device, found.bytes, found.sum);
    if (fread(data, 1, (size_t)found.bytes + 1, file) == found.bytes &&
        sum_of(data, found.bytes) == found.sum && memcmp(&found, &wanted, sizeof found) == 0) {
        *bytes = found.bytes;
        return data;
    }
    free(data);
    return NULL;
}

void vulkan_cache_load(tenon_device *device, VkPipelineCache *out)
{
    VkPipelineCacheCreateInfo wanted = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    const char *why = NULL;
    uint8_t *data = NULL;
    uint64_t bytes = 0;
    char path[1024];
    FILE *file;

    *out = VK_NULL_HANDLE;
    if (!path_of(device, path, sizeof path)) return;
    file = fopen(path, "rb"); /* none is the usual beginning */
    if (file != NULL) {
        data = read_file(device, file, &bytes, &why);
        fclose(file);
        if (data == NULL) say(device, path, why);
    }
    wanted.initialDataSize = (size_t)bytes;
    wanted.pInitialData = data;
    if (device->api.CreatePipelineCache(device->handle, &wanted, NULL, out) != VK_SUCCESS) {
        *out = VK_NULL_HANDLE;
        say(device, path, "the driver does not take it");
    }
    free(data);
}

static int write_file(const char *path, const head *start, const uint8_t *data)
{
    FILE *file = fopen(path, "wb");
    int good;

    if (file == NULL) return 0;
    good = fwrite(start, sizeof *start, 1, file) == 1 &&
           fwrite(data, 1, (size_t)start->bytes, file) == start->bytes;
    if (fclose(file) != 0) good = 0;
    if (!good) remove(path);
    return good;
}

void vulkan_cache_save(tenon_device *device, VkPipelineCache cache, int changed)
{
    char path[1024], aside[1056];
    uint8_t *data = NULL;
    size_t bytes = 0;
    head start;

    if (cache == VK_NULL_HANDLE) return;
    if (!changed || !path_of(device, path, sizeof path)) goto out;
    if (device->api.GetPipelineCacheData(device->handle, cache, &bytes, NULL) != VK_SUCCESS ||
        bytes == 0 || bytes > MOST_BYTES)
        goto out;
    data = malloc(bytes);
    if (data == NULL ||
        device->api.GetPipelineCacheData(device->handle, cache, &bytes, data) != VK_SUCCESS)
        goto out;
    start = head_of(device, bytes, sum_of(data, bytes));
    snprintf(aside, sizeof aside, "%s.%lu", path, vulkan_process_id());
    if (!write_file(aside, &start, data)) {
        say(device, aside, "cannot be written");
    } else if (rename(aside, path) != 0) {
        remove(aside); /* systems differ in whether a file may be renamed over another */
        say(device, path, "cannot be replaced");
    }
out:
    free(data);
    device->api.DestroyPipelineCache(device->handle, cache, NULL);
}
