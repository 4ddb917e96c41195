/* Requests: everything is checked before anybody is called; what is wrong is named and no y is
 * touched. */

#include "test_host_rig.h"

#include <host/qmatmul_check.h>

static rig self;
static float second[RIG_TOKENS_MAX * RIG_ROWS];

static void start(void)
{
    fake_reset(0, "acme");
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", 0);
    self.call = rig_call(self.x, 3, self.weight, self.y, RIG_ROWS);
    memset(self.y, 0xa5, sizeof self.y);
    memset(second, 0xa5, sizeof second);
}

static bool untouched(const float *y)
{
    const unsigned char *bytes = (const unsigned char *)y;
    size_t i;
    for (i = 0; i < RIG_TOKENS_MAX * RIG_ROWS * 4; i++)
        if (bytes[i] != 0xa5) return false;
    return true;
}

START_TEST(wrong)
{
    tenon_session *other = NULL;
    tenon_weight *odd = NULL;
    tenon_weight_desc narrow = rig_desc(3);
    tenon_weight_data data;
    struct {
        tenon_qmatmul_call call;
        uint64_t more[2];
    } longer = {.more = {0, 1}};
    const tenon_qmatmul_call *given = &self.call;
    int32_t status = TENON_ARG;
    uint32_t reason = 0;
    tenon_qmatmul_call *call = &self.call;
    start();
    narrow.cols = 32;
    data = rig_data(self.values, sizeof self.values, TENON_LIFETIME_STABLE);
    switch (_i) {
    case 0:
        given = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 1:
        call->output_count = 0;
        reason = TENON_REASON_OUTPUT_COUNT;
        break;
    case 2:
        call->output_count = 5;
        reason = TENON_REASON_OUTPUT_COUNT;
        break;
    case 3:
        call->tokens = 0;
        reason = TENON_REASON_EMPTY_SHAPE;
        break;
    case 4:
        call->reserved0 = 1;
        reason = TENON_REASON_RESERVED;
        break;
    case 5:
        call->reserved1[1] = 1;
        reason = TENON_REASON_RESERVED;
        break;
    case 6:
        call->outputs[3].row_stride = 4;
        reason = TENON_REASON_RESERVED;
        break;
    case 7:
        call->outputs[1].weight = self.weight;
        reason = TENON_REASON_RESERVED;
        break;
    case 8:
        call->x.host = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 9:
        call->outputs[0].y.host = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 10:
        call->outputs[0].weight = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 11:
        call->x.buffer = self.x;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 12:
        call->outputs[0].y.buffer = self.y;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 13:
        call->x.offset = 2;
        reason = TENON_REASON_ALIGNMENT;
        break;
    case 14:
        call->outputs[0].y.host = (char *)self.y + 1;
        reason = TENON_REASON_ALIGNMENT;
        break;
    case 15:
        call->x_row_stride += 2;
        reason = TENON_REASON_ALIGNMENT;
        break;
    case 16:
        call->outputs[0].row_stride += 3;
        reason = TENON_REASON_ALIGNMENT;
        break;
    case 17:
        call->x_row_stride -= 4;
        reason = TENON_REASON_STRIDE;
        break;
    case 18:
        call->outputs[0].row_stride = 0;
        reason = TENON_REASON_STRIDE;
        break;
    case 19:
        call->x.bytes -= 1;
        reason = TENON_REASON_SHORT_BUFFER;
        break;
    case 20:
        call->outputs[0].y.bytes -= 1;
        reason = TENON_REASON_SHORT_BUFFER;
        break;
    case 21:
        call->outputs[0].row_stride += 4;
        reason = TENON_REASON_SHORT_BUFFER;
        break;
    case 22:
        call->tokens = UINT64_MAX;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 23:
        call->tokens = UINT64_C(1) << 62;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 24:
        call->x_row_stride = UINT64_MAX - 3;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 25:
        call->x.offset = UINT64_MAX - 7;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 26:
        call->outputs[0].y.bytes = UINT64_MAX;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 27: /* y begins inside x */
        call->outputs[0].y.host = self.x + 3 * RIG_COLS - 1;
        reason = TENON_REASON_OVERLAP;
        break;
    case 37: /* y ends inside x */
        call->x.host = self.x + 4;
        call->outputs[0].y.host = self.x + 5 - 3 * RIG_ROWS;
        ck_assert_ptr_eq(self.x, self.values + RIG_ROWS * RIG_COLS); /* there is room before */
        reason = TENON_REASON_OVERLAP;
        break;
    case 28: /* two outputs in one place */
        rig_add_output(call, self.weight, self.y, RIG_ROWS);
        reason = TENON_REASON_OVERLAP;
        break;
    case 29: /* one float shared between interleaved rows */
        call->outputs[0].row_stride = (2 * RIG_ROWS - 1) * 4;
        call->outputs[0].y.bytes = sizeof self.y;
        rig_add_output(call, self.weight, self.y + RIG_ROWS - 1, RIG_ROWS);
        call->outputs[1].row_stride = (2 * RIG_ROWS - 1) * 4;
        call->outputs[1].y.bytes = 5 * RIG_ROWS * 4;
        reason = TENON_REASON_OVERLAP;
        break;
    case 30:
        other = rig_session(self.host, "acme", 0);
        call->outputs[0].weight = rig_weight(other, self.values, RIG_ROWS);
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 31:
        rig_ok(tenon_weight_create(self.session, &narrow, &data, &odd, &rig_error));
        rig_add_output(call, odd, second, 3);
        reason = TENON_REASON_COLS_DIFFER;
        break;
    case 32:
        call->struct_size = 6;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 33:
        call->abi_version = 2;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 34:
        longer.call = *call;
        longer.call.struct_size = sizeof longer;
        given = &longer.call;
        reason = TENON_REASON_STRUCT_TAIL;
        break;
    case 35:
        call->struct_size = 32;
        reason = TENON_REASON_OUTPUT_COUNT;
        break; /* tokens unknown */
    default:
        call->outputs[3].y.offset = 1;
        reason = TENON_REASON_RESERVED;
        break;
    }
    rig_fails(tenon_qmatmul(tenon_session_queue(self.session), given, &rig_error), status, reason);
    ck_assert(untouched(self.y) && untouched(second));
    ck_assert_uint_eq(fake[0].runs, 0);
    call = &self.call;
    rig_run_right(&self, 2); /* the session goes on */
    tenon_session_destroy(other);
    rig_end(&self);
}
END_TEST
#define WRONG 38

/* Rows of x and y at a distance, views with an offset, outputs interleaved in one buffer: right, and
 * what lies between rows is not touched. */
START_TEST(strided)
{
    static float wide_x[3 * (RIG_COLS + 5) + 8], both[3 * (2 * RIG_ROWS + 3) + 1];
    const unsigned stride = 2 * RIG_ROWS + 3;
    tenon_qmatmul_call call;
    unsigned s, i;
    start();
    for (s = 0; s < 3; s++)
        memcpy(wide_x + 2 + s * (RIG_COLS + 5), self.x + s * RIG_COLS, RIG_COLS * 4);
    memset(both, 0xa5, sizeof both);
    call = rig_call(wide_x, 3, self.weight, both, RIG_ROWS);
    call.x.offset = 8;
    call.x.bytes = sizeof wide_x - 8;
    call.x_row_stride = (RIG_COLS + 5) * 4;
    call.outputs[0].row_stride = stride * 4;
    call.outputs[0].y.bytes = sizeof both;
    rig_add_output(&call, self.weight, both, RIG_ROWS);
    call.outputs[1].row_stride = stride * 4;
    call.outputs[1].y.offset = (RIG_ROWS + 2) * 4;
    call.outputs[1].y.bytes = sizeof both - (RIG_ROWS + 2) * 4;
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &call, &rig_error));
    for (s = 0; s < 3; s++) {
        const float *row = both + s * stride;
        ck_assert_int_eq(memcmp(row, self.right + s * RIG_ROWS, RIG_ROWS * 4), 0);
        ck_assert_int_eq(memcmp(row + RIG_ROWS + 2, self.right + s * RIG_ROWS, RIG_ROWS * 4), 0);
        for (i = 0; i < stride; i++)
            if ((i >= RIG_ROWS && i < RIG_ROWS + 2) || i >= 2 * RIG_ROWS + 2) {
                uint32_t bits;
                memcpy(&bits, row + i, 4);
                ck_assert_uint_eq(bits, 0xa5a5a5a5u);
            }
    }
    rig_end(&self);
}
END_TEST

/* Views that touch each other share nothing. */
START_TEST(adjacent)
{
    static float all[3 * RIG_COLS + 6 * RIG_ROWS];
    tenon_qmatmul_call call;
    float *x = all + 3 * RIG_ROWS;
    start();
    memcpy(x, self.x, 3 * RIG_COLS * 4);
    call = rig_call(x, 3, self.weight, all, RIG_ROWS);
    rig_add_output(&call, self.weight, x + 3 * RIG_COLS, RIG_ROWS);
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &call, &rig_error));
    ck_assert_int_eq(memcmp(all, self.right, 3 * RIG_ROWS * 4), 0);
    ck_assert_int_eq(memcmp(x + 3 * RIG_COLS, self.right, 3 * RIG_ROWS * 4), 0);
    rig_end(&self);
}
END_TEST

/* A request in the sizes of a later and of an earlier header. */
START_TEST(call_sizes)
{
    struct {
        tenon_qmatmul_call call;
        uint64_t more[5];
    } longer = {.more = {0}};
    start();
    longer.call = self.call;
    longer.call.struct_size = sizeof longer;
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &longer.call, &rig_error));
    ck_assert_int_eq(memcmp(self.y, self.right, 3 * RIG_ROWS * 4), 0);
    self.call.struct_size = offsetof(tenon_qmatmul_call, outputs) + sizeof(tenon_output);
    self.call.reserved1[0] = 77; /* past its end */
    memset(self.y, 0, sizeof self.y);
    rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error));
    ck_assert_int_eq(memcmp(self.y, self.right, 3 * RIG_ROWS * 4), 0);
    rig_end(&self);
}
END_TEST

/* Overlap, against an answer by enumeration of every byte. */
START_TEST(overlap)
{
    uint32_t seed = (uint32_t)_i + 1, round;
    unsigned met = 0;
    for (round = 0; round < 20000; round++) {
        byte_rows sets[2];
        static unsigned char map[4096];
        bool shared = false;
        unsigned k;
        memset(map, 0, sizeof map);
        for (k = 0; k < 2; k++) {
            uint64_t row, byte;
            sets[k].count = rig_next(&seed) % 6 + 1;
            sets[k].width = rig_next(&seed) % 12 + 1;
            sets[k].stride = sets[k].width + rig_next(&seed) % 30;
            if (k == 1 && rig_next(&seed) % 2 == 0 && sets[0].stride >= sets[1].width)
                sets[1].stride = sets[0].stride;
            sets[k].start = 1000 + rig_next(&seed) % 120;
            for (row = 0; row < sets[k].count; row++)
                for (byte = 0; byte < sets[k].width; byte++) {
                    unsigned char *at = &map[sets[k].start + row * sets[k].stride + byte];
                    if (k == 1 && *at != 0) shared = true;
                    if (k == 0) *at = 1;
                }
        }
        ck_assert_msg(byte_rows_overlap(&sets[0], &sets[1]) == shared, "round %u seed %d", round,
                      _i);
        ck_assert_msg(byte_rows_overlap(&sets[1], &sets[0]) == shared, "round %u seed %d", round,
                      _i);
        met += shared;
    }
    ck_assert_uint_gt(met, 1000);
    ck_assert_uint_lt(met, 19000);
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("host request");
    TCase *one = tcase_create("request");
    tcase_set_timeout(one, 60);
    tcase_add_loop_test(one, wrong, 0, WRONG);
    tcase_add_test(one, strided);
    tcase_add_test(one, adjacent);
    tcase_add_test(one, call_sizes);
    tcase_add_loop_test(one, overlap, 0, 4);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
