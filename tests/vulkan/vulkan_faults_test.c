/* What fails on a device: at the making of a thing, at the n-th call of every kind, at a submit, late;
 * and that nothing is left behind, whatever failed. */
#include "provider_rig.h"

#include <dirent.h>
#include <vulkan/vulkan_core.h>

#define ROWS 200u
#define TOKENS 3u
#define X_VALUES (TOKENS * COLS)
#define Y_VALUES (TOKENS * ROWS)

static int same(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

/* One product over host views; y is poisoned first. */
static int32_t product(rig *self, tenon_prepared *weight, float *y)
{
    float x[X_VALUES];
    rig_fill(x, X_VALUES);
    memset(y, 0x7f, Y_VALUES * sizeof *y);
    return rig_multiply(self, weight, ROWS, TOKENS, host_view(x, sizeof x),
                        host_view(y, Y_VALUES * sizeof *y));
}

/* ------------------------------------------------------------------------------ the n-th call */

/* A whole life on the device. Nothing may be left of it, wherever it ended. */
static int32_t live(rig *self, float *y)
{
    tenon_device_buffer *buffer = NULL;
    tenon_prepared *weight = NULL;
    uint32_t count = 0;
    int32_t status = rig_open(self);

    if (status != TENON_OK) return status;
    (void)self->p->device_count(self->provider, &count, &self->error);
    status = count == 0 ? TENON_STATE
                        : self->p->device_open(self->provider, 0, &self->device, &self->error);
    if (status == TENON_OK) status = self->p->queue_open(self->device, &self->queue, &self->error);
    if (status == TENON_OK)
        status = self->memory->alloc(self->device, 1 << 20, &buffer, &self->error);
    if (status == TENON_OK) status = rig_prepare(self, ROWS, 1, 5, 1, &weight);
    if (status == TENON_OK) status = product(self, weight, y);
    if (self->device != NULL) {
        self->qmatmul->release(self->device, weight);
        self->memory->free(self->device, buffer);
        if (status == TENON_OK) ck_assert_uint_eq(rig_memory(self).objects, 0);
    }
    rig_close(self);
    return status;
}

static void fail_every(enum faulty_call call, int result)
{
    float wanted[Y_VALUES], y[Y_VALUES];
    int32_t status;
    long n, made;
    rig self;

    rig_load(&self, 1);
    status = live(&self, wanted);
    if (status == TENON_STATE) {
        runner_skip("no Vulkan device");
        return;
    }
    ck_assert_msg(status == TENON_OK, "%s", self.error.text);
    made = atomic_load(&self.faults->call[call].made);
    ck_assert_int_gt(made, 0);
    for (n = 1; n <= made; n++) {
        rig_fail(&self, call, n, result);
        status = live(&self, y);
        /* A batch of memory that is refused may be had in another way. */
        ck_assert_msg(status < 0 || (status == TENON_OK && same(y, wanted, Y_VALUES)),
                      "call %ld: status %d %s", n, status, self.error.text);
        if (status == TENON_OK) continue;
        ck_assert_int_eq(self.error.status, status);
        ck_assert_uint_ne(self.error.reason, 0);
        ck_assert_uint_gt(strlen(self.error.text), 0);
    }
    rig_fail(&self, call, 0, 0);
    ck_assert_int_eq(live(&self, y), TENON_OK);
    ck_assert(same(y, wanted, Y_VALUES));
}

START_TEST(every_call_fails)
{
    static const int results[FAULTY_CALL_COUNT] = {
        [FAULTY_AllocateMemory] = VK_ERROR_OUT_OF_DEVICE_MEMORY,
        [FAULTY_MapMemory] = VK_ERROR_MEMORY_MAP_FAILED,
        [FAULTY_QueueSubmit] = VK_ERROR_DEVICE_LOST,
        [FAULTY_WaitForFences] = VK_ERROR_DEVICE_LOST};
    if (_i == FAULTY_EnumeratePhysicalDevices) return;          /* its failure is not one of open */
    if (_i == FAULTY_CreatePipelineCache) return;               /* nor is this one of anything */
    if (_i == FAULTY_GetMemoryHostPointerPropertiesEXT) return; /* vulkan_import_test.c */
    if (_i == FAULTY_DeviceWaitIdle) return;                    /* the same */
    fail_every((enum faulty_call)_i, results[_i] != 0 ? results[_i] : VK_ERROR_OUT_OF_HOST_MEMORY);
}
END_TEST

/* ------------------------------------------------------------------------------------- memory */

START_TEST(memory_runs_out)
{
    enum { MOST = 200, BYTES = 1 << 20 };
    static tenon_device_buffer *buffers[MOST];
    tenon_device_buffer *large = NULL;
    tenon_memory_info before, full;
    uint32_t made, i, round;
    int32_t status = TENON_OK;
    rig self;

    rig_load(&self, 1);
    rig_set(&self, "vulkan.memory_limit", "67108864");
    if (!rig_open_device(&self)) return;
    before = rig_memory(&self);
    ck_assert_uint_eq(before.total, 67108864);
    ck_assert_uint_eq(before.objects, 0);
    for (round = 0; round < 3; round++) {
        for (made = 0; made < MOST; made++) {
            status = self.memory->alloc(self.device, BYTES, &buffers[made], &self.error);
            if (status != TENON_OK) break;
        }
        ck_assert_int_eq(status, TENON_NOMEM);
        ck_assert_uint_ge(self.error.wanted, BYTES);
        ck_assert_uint_lt(self.error.available, BYTES);
        ck_assert_ptr_null(buffers[made]);
        full = rig_memory(&self);
        ck_assert_uint_eq(full.objects, made);
        ck_assert_uint_ge(full.used, (uint64_t)made * BYTES);
        ck_assert_uint_le(full.used, 67108864);
        ck_assert_uint_ge(made, 48); /* the limit is used, but for what the probe left */
        for (i = 0; i < made; i++) self.memory->free(self.device, buffers[(i * 7) % made]);
        if (made % 7 == 0) ck_abort_msg("the order of freeing must reach every buffer");
        ck_assert_uint_eq(rig_memory(&self).used, before.used);
        ck_assert_uint_eq(rig_memory(&self).objects, 0);
    }
    /* All of it again as one piece: empty blocks were given back. */
    ck_assert_int_eq(self.memory->alloc(self.device, (uint64_t)48 << 20, &large, &self.error),
                     TENON_OK);
    self.memory->free(self.device, large);
    ck_assert_int_eq(self.memory->alloc(self.device, UINT64_MAX - 3, &large, &self.error),
                     TENON_NOMEM);
    rig_close(&self);
}
END_TEST

START_TEST(a_weight_that_does_not_fit)
{
    tenon_prepared *weight = NULL;
    float y[Y_VALUES];
    rig self;

    rig_load(&self, 1);
    rig_set(&self, "vulkan.memory_limit", "4194304");
    if (!rig_open_device(&self)) return;
    ck_assert_int_eq(rig_prepare(&self, 100000, 1, 1, 1, &weight), TENON_NOMEM);
    ck_assert_uint_eq(self.error.scope, TENON_SCOPE_WEIGHT);
    ck_assert_uint_ge(self.error.wanted, 100000 * COLS);
    ck_assert_ptr_null(weight);
    ck_assert_uint_eq(rig_memory(&self).objects, 0);
    ck_assert_int_eq(rig_prepare(&self, ROWS, 1, 1, 1, &weight), TENON_OK); /* the device stays */
    ck_assert_int_eq(product(&self, weight, y), TENON_OK);
    self.qmatmul->release(self.device, weight);
    rig_close(&self);
}
END_TEST

/* ------------------------------------------------------------------------------- work in flight */

/* A product whose y stays on the device. */
static int32_t product_in_flight(rig *self, tenon_prepared *weight, tenon_device_buffer *y)
{
    float x[X_VALUES];
    rig_fill(x, X_VALUES);
    return rig_multiply(self, weight, ROWS, TOKENS, host_view(x, sizeof x),
                        buffer_view(y, Y_VALUES * 4));
}

typedef struct flight {
    rig rig;
    tenon_prepared *weight;
    tenon_device_buffer *y;
    float wanted[Y_VALUES], got[Y_VALUES];
} flight;

static int take_off(flight *self)
{
    rig_load(&self->rig, 1);
    self->weight = NULL;
    self->y = NULL;
    if (!rig_open_device(&self->rig)) return 0;
    ck_assert_int_eq(rig_prepare(&self->rig, ROWS, 1, 1, 1, &self->weight), TENON_OK);
    ck_assert_int_eq(
        self->rig.memory->alloc(self->rig.device, Y_VALUES * 4, &self->y, &self->rig.error),
        TENON_OK);
    ck_assert_int_eq(product(&self->rig, self->weight, self->wanted), TENON_OK);
    return 1;
}

static void land(flight *self)
{
    self->rig.memory->free(self->rig.device, self->y);
    self->rig.qmatmul->release(self->rig.device, self->weight);
    rig_close(&self->rig);
}

static int32_t read_back(flight *self)
{
    memset(self->got, 0x7f, sizeof self->got);
    return self->rig.memory->read(self->rig.device, self->rig.queue, self->y, 0, self->got,
                                  sizeof self->got, &self->rig.error);
}

START_TEST(in_flight_until_read)
{
    long before;
    flight self;
    if (!take_off(&self)) return;
    before = atomic_load(&self.rig.faults->call[FAULTY_QueueSubmit].made);
    ck_assert_int_eq(product_in_flight(&self.rig, self.weight, self.y), TENON_OK);
    ck_assert_int_eq(atomic_load(&self.rig.faults->call[FAULTY_QueueSubmit].made), before);
    ck_assert_int_eq(read_back(&self), TENON_OK);
    ck_assert_int_gt(atomic_load(&self.rig.faults->call[FAULTY_QueueSubmit].made), before);
    ck_assert(same(self.got, self.wanted, Y_VALUES));
    land(&self);
}
END_TEST

/* The weight and a buffer are given back while the work that reads them is not even submitted. */
START_TEST(freed_in_flight)
{
    tenon_device_buffer *x = NULL;
    float values[X_VALUES];
    flight self;
    rig *on = &self.rig;
    if (!take_off(&self)) return;
    rig_fill(values, X_VALUES);
    ck_assert_int_eq(on->memory->alloc(on->device, sizeof values, &x, &on->error), TENON_OK);
    ck_assert_int_eq(
        on->memory->write(on->device, on->queue, x, 0, values, sizeof values, &on->error),
        TENON_OK);
    ck_assert_int_eq(rig_multiply(on, self.weight, ROWS, TOKENS, buffer_view(x, sizeof values),
                                  buffer_view(self.y, Y_VALUES * 4)),
                     TENON_OK);
    on->memory->free(on->device, x);
    on->qmatmul->release(on->device, self.weight);
    self.weight = NULL;
    /* What comes now must not take their memory. */
    ck_assert_int_eq(rig_prepare(on, ROWS, 9, 2, 1, &self.weight), TENON_OK);
    ck_assert_int_eq(read_back(&self), TENON_OK);
    ck_assert(same(self.got, self.wanted, Y_VALUES));
    land(&self);
}
END_TEST

/* The order of a queue: a write behind work that still reads what it overwrites. */
START_TEST(a_write_waits_its_turn)
{
    tenon_device_buffer *x = NULL;
    float values[X_VALUES], other[X_VALUES] = {0};
    flight self;
    rig *on = &self.rig;
    int i;
    if (!take_off(&self)) return;
    rig_fill(values, X_VALUES);
    ck_assert_int_eq(on->memory->alloc(on->device, sizeof values, &x, &on->error), TENON_OK);
    for (i = 0; i < 100; i++) {
        ck_assert_int_eq(on->memory->write(on->device, on->queue, x, 0, i % 2 ? other : values,
                                           sizeof values, &on->error),
                         TENON_OK);
        if (i == 98)
            ck_assert_int_eq(rig_multiply(on, self.weight, ROWS, TOKENS,
                                          buffer_view(x, sizeof values),
                                          buffer_view(self.y, Y_VALUES * 4)),
                             TENON_OK);
    }
    ck_assert_int_eq(read_back(&self), TENON_OK);
    ck_assert(same(self.got, self.wanted, Y_VALUES));
    on->memory->free(on->device, x);
    land(&self);
}
END_TEST

/* A submit that fails when the call is made: that call alone fails. */
START_TEST(a_submit_fails)
{
    float y[Y_VALUES];
    flight self;
    if (!take_off(&self)) return;
    rig_fail(&self.rig, FAULTY_QueueSubmit, 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_NOMEM);
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_OK);
    ck_assert(same(y, self.wanted, Y_VALUES));
    land(&self);
}
END_TEST

/* A submit that fails late: work that was promised is lost, and stays so. */
START_TEST(a_submit_fails_late)
{
    float y[Y_VALUES];
    flight self;
    if (!take_off(&self)) return;
    ck_assert_int_eq(product_in_flight(&self.rig, self.weight, self.y), TENON_OK);
    rig_fail(&self.rig, FAULTY_QueueSubmit, 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    ck_assert_int_eq(read_back(&self), TENON_LOST);
    ck_assert_uint_eq(self.rig.error.scope, TENON_SCOPE_DEVICE);
    ck_assert_int_eq(read_back(&self), TENON_LOST);
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_LOST);
    ck_assert_int_eq(self.rig.memory->fence(self.rig.device, self.rig.queue, &self.rig.error),
                     TENON_LOST);
    land(&self);
}
END_TEST

START_TEST(the_device_is_lost)
{
    tenon_device_queue *second = NULL, *first;
    float y[Y_VALUES];
    flight self;
    if (!take_off(&self)) return;
    ck_assert_int_eq(self.rig.p->queue_open(self.rig.device, &second, &self.rig.error), TENON_OK);
    ck_assert_int_eq(product_in_flight(&self.rig, self.weight, self.y), TENON_OK);
    rig_fail(&self.rig, FAULTY_WaitForFences, 1, VK_ERROR_DEVICE_LOST);
    ck_assert_int_eq(read_back(&self), TENON_DEVICE_LOST);
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_DEVICE_LOST);
    first = self.rig.queue; /* every queue of the device is */
    self.rig.queue = second;
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_DEVICE_LOST);
    self.rig.p->queue_close(second);
    self.rig.queue = first;
    land(&self);
}
END_TEST

START_TEST(a_wait_takes_too_long)
{
    float y[Y_VALUES];
    flight self;
    if (!take_off(&self)) return;
    rig_fail(&self.rig, FAULTY_WaitForFences, 1, VK_TIMEOUT);
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_TIMEOUT);
    ck_assert_int_eq(product(&self.rig, self.weight, y), TENON_LOST);
    land(&self);
}
END_TEST

/* ------------------------------------------------------------------------------------- weights */

START_TEST(weights_are_held_once)
{
    tenon_prepared *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    float y[Y_VALUES], other[Y_VALUES];
    rig self;

    rig_load(&self, 1);
    if (!rig_open_device(&self)) return;
    ck_assert_int_eq(rig_prepare(&self, ROWS, 1, 7, 1, &a), TENON_OK);
    ck_assert_int_eq(rig_prepare(&self, ROWS, 1, 7, 1, &b), TENON_OK);
    ck_assert_ptr_eq(a, b);
    ck_assert_uint_eq(rig_memory(&self).objects, 1);
    ck_assert_int_eq(rig_prepare(&self, ROWS, 2, 7, 2, &c), TENON_OK); /* another generation */
    ck_assert_ptr_ne(a, c);
    ck_assert_int_eq(rig_prepare(&self, ROWS - 1, 1, 7, 1, &d), TENON_OK); /* another shape */
    ck_assert_ptr_ne(a, d);
    ck_assert_uint_eq(rig_memory(&self).objects, 3);
    self.qmatmul->release(self.device, a);
    ck_assert_int_eq(product(&self, b, y), TENON_OK); /* still held by the second */
    ck_assert_int_eq(product(&self, c, other), TENON_OK);
    ck_assert(!same(y, other, Y_VALUES));
    self.qmatmul->release(self.device, b);
    self.qmatmul->release(self.device, c);
    self.qmatmul->release(self.device, d);
    ck_assert_uint_eq(rig_memory(&self).objects, 0);
    rig_close(&self);
}
END_TEST

/* What a weight and its embedded rows give when a binding covers so much only. */
static void in_parts(uint32_t range, uint32_t type, float *y, float *embedded, uint32_t tokens,
                     long *made)
{
    enum { MANY = 700 };
    static float x[64 * COLS];
    uint32_t ids[4] = {0, 333, 699, 64};
    tenon_prepared *weight = NULL;
    tenon_embed_call embed = {TENON_HEAD(tenon_embed_call),
                              .ids = {.host = ids, .bytes = sizeof ids},
                              .y = {.host = embedded, .bytes = 4 * COLS * 4},
                              .tokens = 4,
                              .y_row_stride = COLS * 4,
                              .scale = 1.0f};
    rig self;

    rig_load(&self, 1);
    self.faults->storage_range = range;
    self.faults->device_type = type;
    *made = 0;
    if (!rig_open_device(&self)) return;
    rig_fill(x, 64 * COLS);
    ck_assert_int_eq(rig_prepare(&self, MANY, 3, 1, 1, &weight), TENON_OK);
    *made = atomic_load(&self.faults->dispatches);
    atomic_store(&self.faults->too_long, 0); /* the probe's are as long as they are */
    ck_assert_int_eq(rig_multiply(&self, weight, MANY, tokens, host_view(x, tokens * COLS * 4),
                                  host_view(y, (uint64_t)tokens * MANY * 4)),
                     TENON_OK);
    *made = atomic_load(&self.faults->dispatches) - *made;
    ck_assert_int_eq(atomic_load(&self.faults->too_long), 0);
    embed.weight = weight;
    ck_assert_msg(self.embed->run(self.device, self.queue, &embed, &self.error) == TENON_OK, "%s",
                  self.error.text);
    self.qmatmul->release(self.device, weight);
    rig_close(&self);
}

/* Weights and activations above the range of a binding: parts of one, stretches of the other. */
START_TEST(bindings_are_small)
{
    static float whole[64 * 700], parts[64 * 700], rows[4 * COLS], part_rows[4 * COLS];
    const uint32_t type = _i == 0 ? 0 : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU + 1;
    long one, many;
    memset(parts, 0x7f, sizeof parts);
    in_parts(0, type, whole, rows, 64, &one);
    in_parts(16384, type, parts, part_rows, 64, &many);
    if (one == 0 && many == 0) return;
    ck_assert_int_gt(many, one + 4);
    ck_assert(same(whole, parts, 64 * 700));
    ck_assert(same(rows, part_rows, 4 * COLS));
}
END_TEST

/* Views as texels that reach little, or less than the driver allocates: none is too long, and the bits are
 * the same. */
START_TEST(views_are_small)
{
    static const uint32_t elements[] = {65536, (64 << 20) / 16 - 1, (64 << 20) / 16};
    static float wanted[300], y[300], x[COLS];
    tenon_device_buffer *buffer = NULL;
    tenon_prepared *weight = NULL;
    rig self;
    int limited;

    rig_fill(x, COLS);
    for (limited = 0; limited < 2; limited++) {
        int32_t status;
        rig_load(&self, 1);
        self.faults->texel_elements = limited ? elements[_i] : 0;
        atomic_store(&self.faults->too_long, 0);
        if (!rig_open_device(&self)) return;
        ck_assert_int_eq(rig_prepare(&self, 300, 3, 0, 0, &weight), TENON_OK);
        ck_assert_int_eq(rig_multiply(&self, weight, 300, 1, host_view(x, sizeof x),
                                      host_view(limited ? y : wanted, sizeof y)),
                         TENON_OK);
        self.qmatmul->release(self.device, weight);
        /* What no view reaches is still memory, unless views are what kernels read through. */
        status = self.memory->alloc(self.device, UINT64_C(80) << 20, &buffer, &self.error);
        ck_assert_int_eq(status, limited && _i == 2 ? TENON_NOMEM : TENON_OK);
        if (status == TENON_OK) self.memory->free(self.device, buffer);
        ck_assert_int_eq(atomic_load(&self.faults->too_long), 0);
        self.faults->texel_elements = 0;
        rig_close(&self);
    }
    ck_assert(same(wanted, y, 300));
}
END_TEST

/* ----------------------------------------------------------------------------- pipelines on disk */

/* One life over a folder; the bytes that the driver was given at its start. */
static long live_with(const char *folder, int logs)
{
    static float y[Y_VALUES];
    tenon_prepared *weight = NULL;
    long bytes;
    rig self;

    rig_load(&self, 1);
    rig_set(&self, "vulkan.cache_dir", folder);
    if (logs == 2) rig_fail(&self, FAULTY_CreatePipelineCache, 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    if (!rig_open_device(&self)) return -1;
    bytes = atomic_load(&self.faults->cache_bytes);
    ck_assert_int_eq(rig_prepare(&self, ROWS, 1, 1, 1, &weight), TENON_OK);
    ck_assert_int_eq(product(&self, weight, y), TENON_OK);
    self.qmatmul->release(self.device, weight);
    ck_assert_int_eq(self.logged > 0, logs > 0);
    rig_close(&self);
    return bytes;
}

/* The one file of a folder: 0 bytes when it is not there; every byte of it is turned at `at`. */
static long file_of(const char *folder, long at)
{
    char path[600], name[300] = "";
    struct dirent *entry;
    DIR *open = opendir(folder);
    FILE *file;
    long size;
    int byte;

    ck_assert_ptr_nonnull(open);
    while ((entry = readdir(open)) != NULL)
        if (strstr(entry->d_name, ".bin") != NULL) {
            ck_assert_msg(name[0] == '\0', "more than one file");
            snprintf(name, sizeof name, "%s", entry->d_name);
        }
    closedir(open);
    if (name[0] == '\0') return 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    if (at >= 0) {
        fseek(file, at, SEEK_SET);
        byte = fgetc(file);
        fseek(file, at, SEEK_SET);
        fputc(byte ^ 0x10, file);
    }
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    fclose(file);
    return size;
}

START_TEST(pipelines_are_kept)
{
    char folder[] = "/tmp/tenon-pipelines-XXXXXX", command[80];
    long size, bytes, at;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    bytes = live_with(folder, 0);
    if (bytes < 0) return;
    ck_assert_int_eq(bytes, 0);
    size = file_of(folder, -1);
    ck_assert_int_gt(size, 56);
    ck_assert_int_eq(live_with(folder, 0), size - 56); /* all but the head */
    for (at = 0; at < size; at += size / 7 + 1) {      /* damaged: ignored, and written anew */
        file_of(folder, at);
        ck_assert_int_eq(live_with(folder, 1), 0);
        ck_assert_int_gt(live_with(folder, 0), 0);
    }
    snprintf(command, sizeof command, "truncate -s -1 %s/*.bin", folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(live_with(folder, 1), 0);
    ck_assert_int_gt(live_with(folder, 2), 0); /* a driver that does not take it */
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    /* No folder: nothing is written, nothing fails. */
    ck_assert_int_eq(live_with(folder, 0), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("vulkan faults");
    TCase *calls = tcase_create("calls"), *memory = tcase_create("memory"),
          *flights = tcase_create("in flight"), *weights = tcase_create("weights");
    tcase_set_timeout(calls, 600);
    tcase_set_timeout(memory, 120);
    tcase_set_timeout(flights, 120);
    tcase_set_timeout(weights, 120);
    tcase_add_loop_test(calls, every_call_fails, 0, FAULTY_CALL_COUNT);
    tcase_add_test(memory, memory_runs_out);
    tcase_add_test(memory, a_weight_that_does_not_fit);
    tcase_add_test(flights, in_flight_until_read);
    tcase_add_test(flights, freed_in_flight);
    tcase_add_test(flights, a_write_waits_its_turn);
    tcase_add_test(flights, a_submit_fails);
    tcase_add_test(flights, a_submit_fails_late);
    tcase_add_test(flights, the_device_is_lost);
    tcase_add_test(flights, a_wait_takes_too_long);
    tcase_add_test(weights, weights_are_held_once);
    tcase_add_loop_test(weights, bindings_are_small, 0, 2);
    tcase_add_loop_test(weights, views_are_small, 0, 3);
    tcase_add_test(weights, pipelines_are_kept);
    suite_add_tcase(made, calls);
    suite_add_tcase(made, memory);
    suite_add_tcase(made, flights);
    suite_add_tcase(made, weights);
    return made;
}

int main(void)
{
    return runner_main(srunner_create(suite()));
}
