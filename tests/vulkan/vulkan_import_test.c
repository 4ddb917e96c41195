/* Memory of the caller that the device uses where it lies: the same bits as by copies, nothing beside it
 * is touched, nothing of it is touched once a call has returned, however it ended. */
#include "provider_rig.h"

#include <sys/mman.h>
#include <unistd.h>
#include <vulkan/vulkan_core.h>

#define PAGE 4096u
#define PAGES 24u
#define FILLING 0xa5

/* Pages between two that nobody may touch. */
typedef struct area {
    uint8_t *all, *at, *end;
} area;

static area area_make(void)
{
    area self;
    self.all = mmap(NULL, (size_t)(PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0);
    ck_assert_ptr_ne(self.all, MAP_FAILED);
    self.at = self.all + PAGE;
    self.end = self.at + (size_t)PAGES * PAGE;
    ck_assert_int_eq(mprotect(self.at, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
    memset(self.at, FILLING, (size_t)PAGES * PAGE);
    return self;
}

static void area_protect(const area *self, int how)
{
    ck_assert_int_eq(mprotect(self->at, (size_t)PAGES * PAGE, how), 0);
}

static void area_free(area *self)
{
    munmap(self->all, (size_t)(PAGES + 2) * PAGE);
}

/* All but the bytes [from, from + bytes) is as it was; from NULL: all. */
static void check_beside(const area *self, const uint8_t *from, size_t bytes)
{
    const uint8_t *at;
    for (at = self->at; at < self->end; at++)
        if ((from == NULL || at < from || at >= from + bytes) && *at != FILLING)
            ck_abort_msg("byte %td of the area was written", at - self->at);
}

static int open_with(rig *self, const char *import, int staging)
{
    rig_load(self, 1);
    if (import != NULL) rig_set(self, "vulkan.import", import);
    if (staging) rig_set(self, "vulkan.staging", "always");
    if (!rig_open_device(self)) return 0;
    if (sysconf(_SC_PAGESIZE) == PAGE) return 1;
    runner_skip("pages of another size");
    rig_close(self);
    return 0;
}

static long imports(const rig *self)
{
    return atomic_load(&self->faults->imports);
}

static int32_t run_add(rig *self, tenon_view a, tenon_view b, tenon_view y, uint64_t width,
                       uint64_t tokens, uint64_t y_stride)
{
    const tenon_add_call call = {TENON_HEAD(tenon_add_call),
                                 .a = a,
                                 .b = b,
                                 .y = y,
                                 .tokens = tokens,
                                 .width = width,
                                 .a_row_stride = width * 4,
                                 .b_row_stride = width * 4,
                                 .y_row_stride = y_stride};
    return self->add->run(self->device, self->queue, &call, &self->error);
}

/* Where the bytes of a case lie in an area: from its start or up to its end, moved by some bytes. */
static uint8_t *place(const area *self, size_t bytes, int at_end, size_t moved)
{
    return at_end ? self->end - bytes - moved : self->at + moved;
}

/* ------------------------------------------------------------------------------ where bytes lie */

START_TEST(the_same_bits_and_nothing_beside)
{
    static const size_t sizes[] = {4,        PAGE - 4,     PAGE,         PAGE + 4,
                                   2 * PAGE, 3 * PAGE + 8, 7 * PAGE - 4, 23 * PAGE};
    static const size_t moves[] = {0, 4, 100, PAGE - 4, PAGE};
    const int staging = _i;
    area a = area_make(), b = area_make(), y = area_make();
    size_t s, m, i;
    int at_end;
    rig self;

    for (i = 0; i < (size_t)PAGES * PAGE / 4; i++) {
        ((float *)(void *)a.at)[i] = (float)i * 0.5f;
        ((float *)(void *)b.at)[i] = 3.0f - (float)(i % 1000);
    }
    area_protect(&a, PROT_READ); /* inputs need no more */
    area_protect(&b, PROT_READ);
    if (!open_with(&self, "always", staging)) return;
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (m = 0; m < sizeof moves / sizeof *moves; m++)
            for (at_end = 0; at_end < 2; at_end++) {
                size_t bytes = sizes[s], width = bytes / 4;
                uint8_t *from_a = place(&a, bytes, at_end, moves[m]);
                uint8_t *from_b = place(&b, bytes, !at_end, 0);
                uint8_t *to = place(&y, bytes, at_end, moves[m]);
                long before = imports(&self);
                ck_assert_int_eq(run_add(&self, host_view(from_a, bytes), host_view(from_b, bytes),
                                         host_view(to, bytes), width, 1, bytes),
                                 TENON_OK);
                ck_assert_int_eq(imports(&self) - before, bytes < PAGE ? 0 : staging ? 1 : 3);
                ck_assert_int_eq(atomic_load(&self.faults->imported), 0);
                for (i = 0; i < width; i++) {
                    float sum = ((float *)(void *)from_a)[i] + ((float *)(void *)from_b)[i];
                    if (memcmp(&sum, to + 4 * i, 4) != 0)
                        ck_abort_msg("value %zu of %zu", i, width);
                }
                check_beside(&y, to, bytes);
                memset(to, FILLING, bytes);
            }
    rig_close(&self);
    area_free(&a);
    area_free(&b);
    area_free(&y);
}
END_TEST

/* An input and an output that share a page: both imports cover all of it. */
START_TEST(neighbours_on_a_page)
{
    enum { BYTES = 2 * PAGE + 1000 };
    static uint8_t before[BYTES];
    area both = area_make();
    uint8_t *x = both.at + 8, *y = x + BYTES;
    size_t i;
    int turn;
    rig self;

    if (!open_with(&self, "always", _i)) return;
    for (turn = 0; turn < 2; turn++) {
        uint8_t *from = turn ? y : x, *to = turn ? x : y;
        rig_fill((float *)(void *)from, BYTES / 4);
        memcpy(before, from, BYTES);
        ck_assert_int_eq(run_add(&self, host_view(from, BYTES), host_view(from, BYTES),
                                 host_view(to, BYTES), BYTES / 4, 1, BYTES),
                         TENON_OK);
        ck_assert_int_eq(memcmp(from, before, BYTES), 0);
        for (i = 0; i < BYTES / 4; i++) {
            float sum = 2 * ((float *)(void *)from)[i];
            if (memcmp(&sum, to + 4 * i, 4) != 0) ck_abort_msg("value %zu", i);
        }
        check_beside(&both, x, (size_t)2 * BYTES);
    }
    rig_close(&self);
    area_free(&both);
}
END_TEST

/* Rows with gaps between them, which are the caller's other values. */
START_TEST(rows_with_gaps)
{
    enum { WIDTH = 1100, TOKENS = 5 };
    static float a[TOKENS * WIDTH], b[TOKENS * WIDTH];
    const size_t strides[] = {WIDTH * 4, WIDTH * 4 + 4, WIDTH * 4 + 1200, WIDTH * 12};
    area y = area_make();
    size_t s, i, t;
    rig self;

    rig_fill(a, TOKENS * WIDTH);
    rig_fill(b, TOKENS * WIDTH);
    if (!open_with(&self, "always", _i)) return;
    for (s = 0; s < sizeof strides / sizeof *strides; s++) {
        size_t bytes = (TOKENS - 1) * strides[s] + WIDTH * 4;
        uint8_t *to = y.end - bytes;
        ck_assert_int_eq(run_add(&self, host_view(a, sizeof a), host_view(b, sizeof b),
                                 host_view(to, bytes), WIDTH, TOKENS, strides[s]),
                         TENON_OK);
        for (t = 0; t < TOKENS; t++)
            for (i = 0; i < WIDTH; i++) {
                float sum = a[t * WIDTH + i] + b[t * WIDTH + i];
                if (memcmp(&sum, to + t * strides[s] + 4 * i, 4) != 0)
                    ck_abort_msg("value %zu of row %zu", i, t);
                memset(to + t * strides[s] + 4 * i, FILLING, 4);
            }
        check_beside(&y, NULL, 0);
    }
    rig_close(&self);
    area_free(&y);
}
END_TEST

START_TEST(reads_of_buffers)
{
    static const size_t moves[] = {0, 4, 1000, PAGE - 4};
    static const size_t sizes[] = {4, PAGE - 4, PAGE, PAGE + 4, 9 * PAGE + 12, 22 * PAGE};
    const int staging = _i;
    static uint8_t wanted[PAGES * PAGE];
    tenon_device_buffer *buffer = NULL;
    area y = area_make();
    long before;
    size_t s, m, i;
    rig self;

    for (i = 0; i < sizeof wanted; i++) wanted[i] = (uint8_t)(i * 7 + i / 251);
    if (!open_with(&self, "always", staging)) return;
    before = imports(&self); /* opening sends something, too */
    ck_assert_int_eq(self.memory->alloc(self.device, sizeof wanted, &buffer, &self.error),
                     TENON_OK);
    ck_assert_int_eq(
        self.memory->write(self.device, self.queue, buffer, 0, wanted, sizeof wanted, &self.error),
        TENON_OK);
    ck_assert_int_eq(imports(&self), before); /* a write does not wait */
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (m = 0; m < sizeof moves / sizeof *moves; m++) {
            uint8_t *to = y.end - sizes[s] - moves[m];
            before = imports(&self);
            ck_assert_int_eq(self.memory->read(self.device, self.queue, buffer, moves[m], to,
                                               sizes[s], &self.error),
                             TENON_OK);
            ck_assert_int_eq(imports(&self) - before, staging && sizes[s] >= PAGE);
            ck_assert_int_eq(memcmp(to, wanted + moves[m], sizes[s]), 0);
            check_beside(&y, to, sizes[s]);
            memset(to, FILLING, sizes[s]);
        }
    ck_assert_int_eq(atomic_load(&self.faults->imported), 0);
    self.memory->free(self.device, buffer);
    rig_close(&self);
    area_free(&y);
}
END_TEST

/* ------------------------------------------------------------------------------------- products */

enum { ROWS = 700, FEW = 30, X_BYTES = FEW * COLS * 4, Y_BYTES = FEW * ROWS * 4 };

/* A product over areas: x up to the end of its own, y likewise. */
typedef struct product {
    rig rig;
    area x, y;
    tenon_prepared *weight;
} product;

static int product_open(product *self, const char *import, int staging)
{
    self->x = area_make();
    self->y = area_make();
    self->weight = NULL;
    ck_assert_int_le(Y_BYTES, PAGES * PAGE);
    rig_fill((float *)(void *)(self->x.end - X_BYTES), X_BYTES / 4);
    if (!open_with(&self->rig, import, staging)) return 0;
    ck_assert_int_eq(rig_prepare(&self->rig, ROWS, 1, 1, 1, &self->weight), TENON_OK);
    return 1;
}

static int32_t product_run(product *self)
{
    return rig_multiply(&self->rig, self->weight, ROWS, FEW,
                        host_view(self->x.end - X_BYTES, X_BYTES),
                        host_view(self->y.end - Y_BYTES, Y_BYTES));
}

static void product_close(product *self)
{
    self->rig.qmatmul->release(self->rig.device, self->weight);
    ck_assert_uint_eq(rig_memory(&self->rig).objects, 0);
    rig_close(&self->rig);
    area_free(&self->x);
    area_free(&self->y);
}

static uint8_t wanted_y[Y_BYTES];

static int find_wanted(void)
{
    product self;
    if (!product_open(&self, "off", 0)) return 0;
    ck_assert_int_eq(product_run(&self), TENON_OK);
    ck_assert_int_eq(imports(&self.rig), 0);
    memcpy(wanted_y, self.y.end - sizeof wanted_y, sizeof wanted_y);
    product_close(&self);
    return 1;
}

static void check_wanted(product *self)
{
    ck_assert_int_eq(memcmp(self->y.end - sizeof wanted_y, wanted_y, sizeof wanted_y), 0);
    check_beside(&self->y, self->y.end - sizeof wanted_y, sizeof wanted_y);
    memset(self->y.at, FILLING, (size_t)PAGES * PAGE);
}

START_TEST(a_product)
{
    product self;
    long before;

    if (!find_wanted()) return;
    product_open(&self, "always", _i);
    before = imports(&self.rig); /* by the weight and by what opening the device sends */
    if (_i) ck_assert_int_gt(before, 0);
    ck_assert_int_eq(product_run(&self), TENON_OK);
    ck_assert_int_eq(imports(&self.rig) - before, _i ? 1 : 2);
    check_wanted(&self);
    product_close(&self);
}
END_TEST

/* A size from which on it pays, and no call that returns before the device is done. */
START_TEST(only_where_it_pays_and_is_waited_for)
{
    enum { LEAST = 256 << 10 };
    static float a[LEAST / 4], y[LEAST / 4];
    const tenon_view in = host_view(a, sizeof a);
    tenon_device_buffer *buffer = NULL;
    rig self;

    if (!open_with(&self, NULL, 0)) return;
    ck_assert_int_eq(self.memory->alloc(self.device, sizeof y, &buffer, &self.error), TENON_OK);
    ck_assert_int_eq(run_add(&self, host_view(a, LEAST - 4), host_view(a, LEAST - 4),
                             host_view(y, LEAST - 4), LEAST / 4 - 1, 1, LEAST),
                     TENON_OK);
    ck_assert_int_eq(imports(&self), 0);
    ck_assert_int_eq(run_add(&self, in, in, buffer_view(buffer, LEAST), LEAST / 4, 1, LEAST),
                     TENON_OK);
    ck_assert_int_eq(imports(&self), 0);
    ck_assert_int_eq(run_add(&self, in, in, host_view(y, LEAST), LEAST / 4, 1, LEAST), TENON_OK);
    ck_assert_int_eq(imports(&self), 3);
    self.memory->free(self.device, buffer);
    rig_close(&self);
}
END_TEST

/* ------------------------------------------------------------------------------------- failures */

/* The driver does not take the pages: they are copied. */
START_TEST(refused)
{
    static const enum faulty_call calls[] = {FAULTY_GetMemoryHostPointerPropertiesEXT,
                                             FAULTY_CreateBuffer, FAULTY_AllocateMemory,
                                             FAULTY_BindBufferMemory};
    static const int results[] = {VK_ERROR_INVALID_EXTERNAL_HANDLE, VK_ERROR_OUT_OF_HOST_MEMORY,
                                  VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_UNKNOWN};
    const int staging = _i;
    size_t c, r;
    long n, most = staging ? 1 : 2;
    product self;

    if (!find_wanted()) return;
    product_open(&self, "always", staging);
    ck_assert_int_eq(product_run(&self), TENON_OK); /* scratch memory is there from now on */
    check_wanted(&self);
    for (c = 0; c < sizeof calls / sizeof *calls; c++)
        for (r = 0; r < sizeof results / sizeof *results; r++)
            for (n = 1; n <= most; n++) {
                rig_fail(&self.rig, calls[c], n, results[r]);
                ck_assert_msg(product_run(&self) == TENON_OK, "%s", self.rig.error.text);
                ck_assert_int_eq(atomic_load(&self.rig.faults->call[calls[c]].after), 0);
                check_wanted(&self);
            }
    ck_assert_int_eq(atomic_load(&self.rig.faults->imported), 0);
    product_close(&self);
}
END_TEST

START_TEST(lost_while_importing)
{
    product self;

    if (!product_open(&self, "always", _i)) return;
    ck_assert_int_eq(product_run(&self), TENON_OK);
    rig_fail(&self.rig, FAULTY_AllocateMemory, 1, VK_ERROR_DEVICE_LOST);
    ck_assert_int_eq(product_run(&self), TENON_DEVICE_LOST);
    ck_assert_int_eq(product_run(&self), TENON_DEVICE_LOST);
    product_close(&self);
}
END_TEST

/* Wherever a call fails, and at whichever of its calls of the driver: once it has returned the
 * caller's memory may go away. */
START_TEST(nothing_is_touched_after_a_failure)
{
    static const struct {
        enum faulty_call call;
        int result;
    } faults[] = {{FAULTY_AllocateDescriptorSets, VK_ERROR_OUT_OF_HOST_MEMORY},
                  {FAULTY_EndCommandBuffer, VK_ERROR_OUT_OF_HOST_MEMORY},
                  {FAULTY_QueueSubmit, VK_ERROR_OUT_OF_HOST_MEMORY},
                  {FAULTY_QueueSubmit, VK_ERROR_DEVICE_LOST},
                  {FAULTY_WaitForFences, VK_TIMEOUT},
                  {FAULTY_WaitForFences, VK_ERROR_DEVICE_LOST},
                  {FAULTY_WaitForFences, VK_ERROR_OUT_OF_HOST_MEMORY}};
    const int staging = _i % 2;
    const enum faulty_call call = faults[_i / 2].call;
    long n, made = 1, before;
    int32_t status;
    product self;

    for (n = 1; n <= made; n++) {
        if (!product_open(&self, "always", staging)) return;
        before = atomic_load(&self.rig.faults->call[call].made);
        ck_assert_int_eq(product_run(&self), TENON_OK);
        made = atomic_load(&self.rig.faults->call[call].made) - before;
        ck_assert_int_gt(made, 0);
        rig_fail(&self.rig, call, n, faults[_i / 2].result);
        status = product_run(&self);
        ck_assert_int_lt(status, 0);
        ck_assert_int_eq(self.rig.error.status, status);
        if (faults[_i / 2].result == VK_TIMEOUT) ck_assert_int_eq(status, TENON_TIMEOUT);
        if (faults[_i / 2].result == VK_ERROR_DEVICE_LOST)
            ck_assert_int_eq(status, TENON_DEVICE_LOST);
        ck_assert_int_eq(atomic_load(&self.rig.faults->imported), 0);
        area_protect(&self.x, PROT_NONE);
        area_protect(&self.y, PROT_NONE);
        (void)self.rig.memory->fence(self.rig.device, self.rig.queue, &self.rig.error);
        product_close(&self); /* waits for what is in flight */
    }
}
END_TEST

/* The same where a device that hangs is lost at last, as a driver's watchdog would have it. */
START_TEST(nothing_is_touched_after_a_hang)
{
    product self;

    if (!product_open(&self, "always", _i)) return;
    ck_assert_int_eq(product_run(&self), TENON_OK);
    rig_fail(&self.rig, FAULTY_WaitForFences, 1, VK_TIMEOUT);
    rig_fail(&self.rig, FAULTY_DeviceWaitIdle, 1, VK_ERROR_DEVICE_LOST);
    ck_assert_int_eq(product_run(&self), TENON_TIMEOUT);
    ck_assert_int_eq(atomic_load(&self.rig.faults->imported), 0);
    ck_assert_int_lt(product_run(&self), 0); /* and nothing begins on it again */
    product_close(&self);
}
END_TEST

/* The same of a read. */
START_TEST(nothing_is_touched_after_a_failed_read)
{
    static const int results[] = {VK_TIMEOUT, VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_HOST_MEMORY};
    tenon_device_buffer *buffer = NULL;
    area y = area_make();
    rig self;

    if (!open_with(&self, "always", 1)) return;
    ck_assert_int_eq(self.memory->alloc(self.device, PAGES * PAGE, &buffer, &self.error), TENON_OK);
    rig_fail(&self, FAULTY_WaitForFences, 1, results[_i]);
    ck_assert_int_lt(
        self.memory->read(self.device, self.queue, buffer, 0, y.at, PAGES * PAGE, &self.error), 0);
    ck_assert_int_eq(atomic_load(&self.faults->imported), 0);
    area_free(&y);
    self.memory->free(self.device, buffer);
    rig_close(&self);
}
END_TEST

/* The same of a weight, whose packed form the provider frees. */
START_TEST(nothing_is_touched_after_a_failed_upload)
{
    static const int results[] = {VK_TIMEOUT, VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_HOST_MEMORY};
    tenon_prepared *weight = NULL;
    rig self;

    if (!open_with(&self, "always", 1)) return;
    rig_fail(&self, FAULTY_WaitForFences, 1, results[_i]);
    ck_assert_int_lt(rig_prepare(&self, 3000, 1, 1, 1, &weight), 0);
    ck_assert_int_eq(atomic_load(&self.faults->imported), 0);
    ck_assert_ptr_null(weight);
    rig_close(&self);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("vulkan import");
    TCase *bytes = tcase_create("bytes"), *failures = tcase_create("failures");
    tcase_set_timeout(bytes, 300);
    tcase_set_timeout(failures, 300);
    tcase_add_loop_test(bytes, the_same_bits_and_nothing_beside, 0, 2);
    tcase_add_loop_test(bytes, neighbours_on_a_page, 0, 2);
    tcase_add_loop_test(bytes, rows_with_gaps, 0, 2);
    tcase_add_loop_test(bytes, reads_of_buffers, 0, 2);
    tcase_add_loop_test(bytes, a_product, 0, 2);
    tcase_add_test(bytes, only_where_it_pays_and_is_waited_for);
    tcase_add_loop_test(failures, refused, 0, 2);
    tcase_add_loop_test(failures, lost_while_importing, 0, 2);
    tcase_add_loop_test(failures, nothing_is_touched_after_a_failure, 0, 14);
    tcase_add_loop_test(failures, nothing_is_touched_after_a_hang, 0, 2);
    tcase_add_loop_test(failures, nothing_is_touched_after_a_failed_read, 0, 3);
    tcase_add_loop_test(failures, nothing_is_touched_after_a_failed_upload, 0, 3);
    suite_add_tcase(made, bytes);
    suite_add_tcase(made, failures);
    return made;
}

int main(void)
{
    return runner_main(srunner_create(suite()));
}
