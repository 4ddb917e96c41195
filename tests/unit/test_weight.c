/* Weights: class, identity and generation, lifetimes, alignment, changes in place, what is refused,
 * what fits. */

#include "test_host_rig.h"

#include <fcntl.h>
#include <sys/mman.h>

static rig self;

static void start(void)
{
    fake_reset(0, "acme");
    rig_start(&self, 1, 1);
}

static int32_t create(const tenon_weight_desc *desc, const tenon_weight_data *data,
                      tenon_weight **out)
{
    *out = (tenon_weight *)(void *)&self;
    return tenon_weight_create(self.session, desc, data, out, &rig_error);
}

/* The class follows from the session and the format, for every format there is. */
START_TEST(classes)
{
    static const uint32_t floats[] = {TENON_FORMAT_F32, TENON_FORMAT_F16, TENON_FORMAT_BF16,
                                      TENON_FORMAT_FP8_E4M3_B128};
    tenon_session_desc session = {.struct_size = sizeof session,
                                  .abi_version = TENON_ABI_VERSION,
                                  .chain = "acme",
                                  .arith = _i == 0 ? TENON_CLASS_F32 : TENON_CLASS_A8};
    static unsigned char bytes[65536];
    uint32_t i, j, format;
    start();
    rig_ok(tenon_session_create(self.host, &session, &self.session, &rig_error));
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        tenon_weight_desc desc = {.struct_size = sizeof desc,
                                  .abi_version = TENON_ABI_VERSION,
                                  .format = format,
                                  .rows = 3,
                                  .cols = 256};
        tenon_weight_data data = rig_data(bytes, sizeof bytes, TENON_LIFETIME_STABLE);
        uint64_t weights, scales;
        uint32_t reason, expected = session.arith;
        tenon_weight *weight;
        if (format == TENON_FORMAT_INT4_ROW || format == TENON_FORMAT_INT4_GROUP)
            desc.layout = TENON_LAYOUT_PLANAR;
        if (format == TENON_FORMAT_INT4_GROUP) desc.group_size = 48;
        ck_assert_int_eq(tenon_weight_bytes(&desc, &weights, &scales, &reason), TENON_OK);
        if (scales > 0) {
            data.scales = bytes;
            data.scales_bytes = sizeof bytes;
        }
        for (j = 0; j < 4; j++)
            if (format == floats[j]) expected = TENON_CLASS_F32;
        rig_ok(create(&desc, &data, &weight));
        ck_assert_uint_eq(rig_info(weight).arith, expected);
        ck_assert_str_eq(rig_info(weight).provider, "acme");
        ck_assert_uint_eq(rig_info(weight).generation, 1);
        tenon_weight_destroy(weight);
    }
    ck_assert_uint_gt(i, 20);
    rig_end(&self);
}
END_TEST

/* Identities are never reused, whatever becomes of the address. */
START_TEST(identities)
{
    uint64_t last = 0;
    unsigned i;
    start();
    rig_open(&self, "acme", 0);
    for (i = 0; i < 50; i++) {
        tenon_weight *weight = rig_weight(self.session, self.values, RIG_ROWS);
        ck_assert_uint_gt(rig_info(weight).identity, last);
        last = rig_info(weight).identity;
        ck_assert_uint_eq(fake[0].identity_seen, last);
        ck_assert_uint_eq(fake[0].generation_seen, 1);
        tenon_weight_destroy(weight);
    }
    rig_end(&self);
}
END_TEST

/* Lifetime COPY: the engine's memory may go at once; a fallback finds the host's copy. */
START_TEST(copied)
{
    tenon_weight_desc desc = rig_desc(RIG_ROWS);
    tenon_weight_data data;
    float *passing;
    start();
    self.session = rig_session(self.host, "acme", 0);
    passing = malloc(sizeof self.values);
    ck_assert_ptr_nonnull(passing);
    memcpy(passing, self.values, sizeof self.values);
    data = rig_data(passing, sizeof self.values, TENON_LIFETIME_COPY);
    rig_ok(create(&desc, &data, &self.weight));
    memset(passing, 0xee, sizeof self.values);
    free(passing);
    rig_run_right(&self, 3);
    fake[0].run_status = TENON_IO;
    rig_run_right(&self, 4);
    ck_assert_uint_eq(rig_counter(self.session, 1).fallbacks, 1);
    rig_fails(tenon_weight_begin_update(self.weight, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    rig_end(&self);
}
END_TEST

/* Weights below the alignment that a provider asks for are copied by the host. */
START_TEST(alignment)
{
    static _Alignas(4096) unsigned char room[RIG_ROWS * RIG_COLS * 4 + 128];
    tenon_weight_desc desc = rig_desc(RIG_ROWS);
    uint32_t shift;
    start();
    fake[0].alignment = _i == 0 ? 0 : 1ull << _i;
    self.session = rig_session(self.host, "acme", TENON_MODE_PIN);
    for (shift = 0; shift < 65; shift++) {
        tenon_weight_data data;
        memcpy(room + shift, self.values, sizeof self.values);
        data = rig_data(room + shift, sizeof self.values, TENON_LIFETIME_STABLE);
        rig_ok(create(&desc, &data, &self.weight));
        if (fake[0].alignment > 1) ck_assert_uint_eq(fake[0].weights_seen % fake[0].alignment, 0);
        if (_i == 0 || shift % (1u << _i) == 0) /* and no others */
            ck_assert_uint_eq(fake[0].weights_seen, (uintptr_t)(room + shift));
        rig_run_right(&self, 2);
        tenon_weight_destroy(self.weight);
    }
    rig_end(&self);
}
END_TEST

/* So are scales. */
START_TEST(alignment_of_scales)
{
    static _Alignas(64) unsigned char codes[RIG_ROWS * RIG_COLS], room[RIG_ROWS * 4 + 1];
    float scales[RIG_ROWS];
    tenon_weight_desc desc = rig_desc(RIG_ROWS);
    tenon_weight_data data = rig_data(codes, sizeof codes, TENON_LIFETIME_STABLE);
    start();
    fake[0].alignment = 16;
    self.session = rig_session(self.host, "acme", TENON_MODE_PIN);
    rig_fill(scales, RIG_ROWS, 9);
    memcpy(room + 1, scales, sizeof scales);
    desc.format = TENON_FORMAT_INT8_ROW;
    data.scales = room + 1;
    data.scales_bytes = sizeof scales;
    rig_ok(create(&desc, &data, &self.weight));
    ck_assert_uint_eq(fake[0].scales_seen % 16, 0);
    ck_assert_uint_eq(fake[0].weights_seen, (uintptr_t)codes);
    rig_end(&self);
}
END_TEST

/* A change in place: calls between begin and end answer UPDATING, the new bytes have a new
 * generation, and nothing prepared of the old ones is left. */
START_TEST(update)
{
    float values[RIG_ROWS * RIG_COLS];
    start();
    self.session = rig_session(self.host, "acme", 0);
    memset(values, 0, sizeof values);
    self.weight = rig_weight(self.session, values, RIG_ROWS);
    rig_ok(rig_run(&self, 2));
    ck_assert_float_eq(self.y[0], 0.0f);
    rig_fails(tenon_weight_end_update(self.weight, &rig_error), TENON_STATE, TENON_REASON_NOT_OPEN);
    rig_ok(tenon_weight_begin_update(self.weight, &rig_error));
    rig_fails(tenon_weight_begin_update(self.weight, &rig_error), TENON_STATE,
              TENON_REASON_UPDATING);
    rig_fails(rig_run(&self, 2), TENON_STATE, TENON_REASON_UPDATING);
    ck_assert_uint_eq(((unsigned char *)self.y)[0], 0xa5); /* untouched */
    memcpy(values, self.values, sizeof values);
    rig_ok(tenon_weight_end_update(self.weight, &rig_error));
    ck_assert_uint_eq(rig_info(self.weight).generation, 2);
    ck_assert_uint_eq(fake[0].generation_seen, 2);
    ck_assert_uint_eq(fake[0].prepared_now, 1);
    rig_run_right(&self, 2);
    /* a call of several outputs with one that is being updated touches none */
    {
        tenon_weight *other = rig_weight(self.session, self.values, RIG_ROWS);
        float y[2 * RIG_ROWS];
        rig_ok(tenon_weight_begin_update(other, &rig_error));
        memset(self.y, 0xa5, sizeof self.y);
        self.call = rig_call(self.x, 2, self.weight, self.y, RIG_ROWS);
        rig_add_output(&self.call, other, y, RIG_ROWS);
        rig_fails(tenon_qmatmul(tenon_session_queue(self.session), &self.call, &rig_error),
                  TENON_STATE, TENON_REASON_UPDATING);
        ck_assert_uint_eq(((unsigned char *)self.y)[0], 0xa5);
        tenon_weight_destroy(other); /* while it is being updated */
    }
    rig_end(&self);
}
END_TEST

/* An update forgets refusals and failures; when nobody takes the new bytes it can be ended again. */
START_TEST(update_asks_anew)
{
    start();
    fake[0].supports_status = TENON_DECLINED;
    rig_open(&self, "acme", 0);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    fake[0].supports_status = 0;
    rig_ok(tenon_weight_begin_update(self.weight, &rig_error));
    rig_ok(tenon_weight_end_update(self.weight, &rig_error));
    ck_assert_str_eq(rig_info(self.weight).provider, "acme");
    rig_run_right(&self, 2);
    tenon_session_destroy(self.session);

    rig_open(&self, "acme", TENON_MODE_PIN);
    rig_ok(tenon_weight_begin_update(self.weight, &rig_error));
    fake[0].prepare_status = TENON_NOMEM;
    fake[0].answer_reason = TENON_REASON_OUT_OF_MEMORY;
    fake[0].answer_scope = TENON_SCOPE_WEIGHT;
    rig_fails(tenon_weight_end_update(self.weight, &rig_error), TENON_NOMEM,
              TENON_REASON_OUT_OF_MEMORY);
    rig_fails(rig_run(&self, 2), TENON_STATE, TENON_REASON_UPDATING);
    fake[0].prepare_status = 0;
    rig_ok(tenon_weight_end_update(self.weight, &rig_error));
    rig_run_right(&self, 2);
    rig_end(&self);
}
END_TEST

/* Resident pages of a range. */
static unsigned resident(const void *bytes, size_t count)
{
    uint64_t entry;
    unsigned pages = 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
    int file = open("/proc/self/pagemap", O_RDONLY);
    ck_assert_int_ge(file, 0);
    for (i = 0; i < count; i += page)
        if (pread(file, &entry, 8, (off_t)(((uintptr_t)bytes + i) / page * 8)) == 8 &&
            (entry >> 63 & 1) != 0)
            pages++;
    close(file);
    return pages;
}

/* Lifetime STABLE_FILE: clean pages go after preparing and come back when read; pages written since
 * they were mapped, and memory that is no file, stay. */
START_TEST(pages_of_a_file)
{
    char path[] = "/tmp/tenon-pages-XXXXXX";
    size_t page = (size_t)sysconf(_SC_PAGESIZE), rows = 16 * page / (RIG_COLS * 4), bytes, i;
    int file = mkstemp(path);
    tenon_weight_desc desc = rig_desc(rows);
    tenon_weight_data data;
    unsigned char *map, *anonymous;
    float *values;
    bytes = rows * RIG_COLS * 4;
    ck_assert_int_ge(file, 0);
    unlink(path);
    values = malloc(bytes + page);
    ck_assert_ptr_nonnull(values);
    rig_fill(values, bytes / 4 + page / 4, 5);
    ck_assert_int_eq(write(file, values, bytes + page), (ssize_t)(bytes + page));
    map = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    anonymous = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(map != MAP_FAILED && anonymous != MAP_FAILED);
    memcpy(anonymous, values, bytes);
    for (i = 0; i < bytes + page; i += page)
        ck_assert_uint_eq(map[i], ((unsigned char *)values)[i]);
    map[3 * page + 8] = 0x3f; /* one page is ours now */
    ck_assert_uint_eq(resident(map, bytes + page), 17);
    start();
    self.session = rig_session(self.host, "acme", 0);
    /* the range starts and ends inside a page: those two stay whole */
    data = rig_data(map + 16, bytes, TENON_LIFETIME_STABLE_FILE);
    rig_ok(create(&desc, &data, &self.weight));
    ck_assert_uint_eq(resident(map, bytes + page), 3);
    ck_assert_uint_eq(map[3 * page + 8], 0x3f);
    for (i = 0; i < bytes; i++)
        if (i != 3 * page + 8) ck_assert(map[i] == ((unsigned char *)values)[i]);
    data = rig_data(anonymous, bytes, TENON_LIFETIME_STABLE_FILE);
    rig_ok(create(&desc, &data, &self.weight));
    ck_assert_int_eq(memcmp(anonymous, values, bytes), 0);
    /* the same bits after a fallback that reads the dropped pages again */
    {
        tenon_qmatmul_call call;
        float *right = malloc(rows * 4), *y = malloc(rows * 4);
        ck_assert(right != NULL && y != NULL);
        rig_expect(values, self.x, 1, right, rows);
        fake[0].run_status = TENON_IO;
        call = rig_call(self.x, 1, self.weight, y, rows);
        rig_ok(tenon_qmatmul(tenon_session_queue(self.session), &call, &rig_error));
        ck_assert_int_eq(memcmp(y, right, rows * 4), 0);
        free(right);
        free(y);
    }
    rig_end(&self);
    munmap(map, bytes + page);
    munmap(anonymous, bytes);
    free(values);
    close(file);
}
END_TEST

START_TEST(refused)
{
    static unsigned char bytes[4096];
    tenon_weight_desc desc = {.struct_size = sizeof desc,
                              .abi_version = TENON_ABI_VERSION,
                              .format = TENON_FORMAT_Q4_0,
                              .rows = 4,
                              .cols = 64};
    tenon_weight_data data = rig_data(bytes, sizeof bytes, TENON_LIFETIME_STABLE);
    tenon_weight *weight;
    int32_t status = TENON_ARG;
    uint32_t reason = 0;
    struct {
        tenon_weight_desc desc;
        uint64_t more;
    } longer = {.more = 0};
    const tenon_weight_desc *given = &desc;
    const tenon_weight_data *bytes_given = &data;
    start();
    self.session = rig_session(self.host, "acme", 0);
    switch (_i) {
    case 0:
        desc.rows = 0;
        reason = TENON_REASON_EMPTY_SHAPE;
        break;
    case 1:
        desc.cols = 0;
        reason = TENON_REASON_EMPTY_SHAPE;
        break;
    case 2:
        desc.cols = 33;
        reason = TENON_REASON_ROW_LENGTH;
        break;
    case 3:
        desc.format = 5555;
        reason = TENON_REASON_UNKNOWN_FORMAT;
        break;
    case 4:
        desc.format = 0;
        reason = TENON_REASON_UNKNOWN_FORMAT;
        break;
    case 5:
        desc.layout = TENON_LAYOUT_PAIR;
        reason = TENON_REASON_UNSUPPORTED_LAYOUT;
        break;
    case 6:
        desc.group_size = 32;
        reason = TENON_REASON_UNSUPPORTED_GROUP;
        break;
    case 7:
        desc.rows = UINT64_MAX / 2;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 8:
        desc.format = TENON_FORMAT_INT8_ROW;
        desc.cols = 1;
        desc.rows = UINT64_MAX / 3; /* bytes fit, floats of y do not */
        reason = TENON_REASON_OVERFLOW;
        break;
    case 9:
        desc.arith = TENON_CLASS_F32;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 10:
        desc.semantic = TENON_SEM_LAST + 1;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 11:
        desc.reserved0[1] = 1;
        reason = TENON_REASON_RESERVED;
        break;
    case 12:
        data.weights = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 13:
        data.weights_bytes = 4 * 36 - 1;
        reason = TENON_REASON_SHORT_BUFFER;
        break;
    case 14:
        data.scales = bytes;
        data.scales_bytes = 4;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 15:
        desc.format = TENON_FORMAT_INT8_ROW;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 16:
        desc.format = TENON_FORMAT_INT8_ROW;
        data.scales = bytes;
        data.scales_bytes = 15;
        reason = TENON_REASON_SHORT_BUFFER;
        break;
    case 17:
        data.side = bytes;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 18:
        data.side_bytes = 1;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 19:
        data.identity = 1;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 20:
        data.generation = 1;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 21:
        data.lifetime = 0;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 22:
        data.lifetime = 4;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 23:
        data.reserved0 = 1;
        reason = TENON_REASON_RESERVED;
        break;
    case 24:
        data.reserved1[1] = 1;
        reason = TENON_REASON_RESERVED;
        break;
    case 25:
        data.weights_bytes = UINT64_MAX;
        reason = TENON_REASON_OVERFLOW;
        break;
    case 26:
        desc.struct_size = 4;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 27:
        desc.abi_version = 2;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 28:
        data.abi_version = 0;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 29:
        data.struct_size = 1u << 30;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 30:
        longer.desc = desc;
        longer.desc.struct_size = sizeof longer;
        longer.more = 1;
        given = &longer.desc;
        reason = TENON_REASON_STRUCT_TAIL;
        break;
    case 31:
        given = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 32:
        bytes_given = NULL;
        reason = TENON_REASON_NULL_POINTER;
        break;
    default:
        desc.format = TENON_FORMAT_FP8_E4M3_B128;
        desc.cols = UINT64_MAX;
        reason = TENON_REASON_OVERFLOW;
        break;
    }
    rig_fails(create(given, bytes_given, &weight), status, reason);
    ck_assert_ptr_null(weight);
    ck_assert_uint_eq(fake[0].supports, 0); /* refused before anybody was asked */
    rig_end(&self);
}
END_TEST
#define REFUSED 34

/* A longer struct of a later header with a zero tail, and a shorter one of an earlier header. */
START_TEST(struct_sizes)
{
    struct {
        tenon_weight_desc desc;
        uint64_t more[4];
    } longer = {.more = {0}};
    tenon_weight_data data = rig_data(NULL, 0, TENON_LIFETIME_STABLE);
    tenon_weight_information info;
    unsigned char room[128];
    start();
    self.session = rig_session(self.host, "acme", 0);
    data.weights = self.values;
    data.weights_bytes = sizeof self.values;
    longer.desc = rig_desc(RIG_ROWS);
    longer.desc.struct_size = sizeof longer;
    rig_ok(create(&longer.desc, &data, &self.weight));
    rig_run_right(&self, 1);
    longer.desc.struct_size = 40; /* knows nothing after cols */
    data.struct_size = 80;
    rig_ok(create(&longer.desc, &data, &self.weight));
    rig_run_right(&self, 1);
    /* answers */
    memset(room, 0xcc, sizeof room);
    info = (tenon_weight_information){.struct_size = 24, .abi_version = TENON_ABI_VERSION};
    memcpy(room, &info, 8);
    rig_ok(tenon_weight_info(self.weight, (tenon_weight_information *)(void *)room, &rig_error));
    ck_assert_uint_eq(room[23], 0);
    ck_assert_uint_eq(room[24], 0xcc);
    info.struct_size = 96;
    memcpy(room, &info, 8);
    rig_ok(tenon_weight_info(self.weight, (tenon_weight_information *)(void *)room, &rig_error));
    ck_assert_uint_eq(room[95], 0);
    ck_assert_uint_eq(room[96], 0xcc);
    rig_end(&self);
}
END_TEST

/* In mode pin a weight that the links do not take is an error that says what they answered. */
START_TEST(pin)
{
    tenon_weight_desc desc = rig_desc(RIG_ROWS);
    tenon_weight_data data = rig_data(self.values, sizeof self.values, TENON_LIFETIME_STABLE);
    tenon_weight *weight;
    start();
    self.session = rig_session(self.host, "acme", TENON_MODE_PIN);
    fake[0].supports_status = TENON_DECLINED;
    fake[0].answer_reason = TENON_REASON_UNSUPPORTED_SHAPE;
    rig_fails(create(&desc, &data, &weight), TENON_DECLINED, TENON_REASON_CHAIN_DECLINED);
    ck_assert_ptr_nonnull(strstr(rig_error.text, "acme:0: told to"));
    fake[0].supports_status = 0;
    fake[0].prepare_status = TENON_NOMEM;
    fake[0].answer_reason = TENON_REASON_OUT_OF_MEMORY;
    rig_fails(create(&desc, &data, &weight), TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY);
    fake[0].prepare_status = 0;
    rig_ok(create(&desc, &data, &self.weight));
    rig_run_right(&self, 2);
    rig_end(&self);
}
END_TEST

START_TEST(fits)
{
    tenon_weight_desc desc = rig_desc(RIG_ROWS), wrong = rig_desc(0);
    const tenon_weight_desc *descs[3] = {&desc, &desc, &desc};
    tenon_fit fit = {.struct_size = sizeof fit, .abi_version = TENON_ABI_VERSION};
    static const struct {
        uint64_t each, total, free;
        uint32_t answer;
        uint64_t wanted, available;
    } cases[] = {
        {100, 1000, 300, TENON_FITS_OK, 300, 300},
        {100, 1000, 299, TENON_FITS_TOO_BIG, 300, 299},
        {TENON_UNKNOWN, 1000, 300, TENON_FITS_UNKNOWN, TENON_UNKNOWN, 300},
        {100, 1000, TENON_UNKNOWN, TENON_FITS_UNKNOWN, 300, TENON_UNKNOWN},
        {100, TENON_UNKNOWN, 300, TENON_FITS_OK, 300, 300},
        {100, 62, 120, TENON_FITS_UNKNOWN, 300, TENON_UNKNOWN}, /* more free than there is */
        {100, 0, 0, TENON_FITS_UNKNOWN, 300, TENON_UNKNOWN},    /* nothing of nothing */
        {100, 1000, 0, TENON_FITS_TOO_BIG, 300, 0},
        {UINT64_MAX / 2, 1000, 300, TENON_FITS_TOO_BIG, UINT64_MAX - 1, 300},
    };
    unsigned i;
    start();
    self.session = rig_session(self.host, "acme", 0);
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake[0].prepared_bytes = cases[i].each;
        fake[0].memory_total = cases[i].total;
        fake[0].memory_free = cases[i].free;
        rig_ok(tenon_fits(self.session, 0, descs, 3, &fit, &rig_error));
        ck_assert_msg(fit.answer == cases[i].answer, "case %u: answer %u", i, fit.answer);
        ck_assert_uint_eq(fit.wanted, cases[i].wanted);
        ck_assert_uint_eq(fit.available, cases[i].available);
    }
    fake[0].supports_status = TENON_DECLINED; /* what it declines takes no room */
    fake[0].memory_total = 1000;
    fake[0].memory_free = 1;
    rig_ok(tenon_fits(self.session, 0, descs, 3, &fit, &rig_error));
    ck_assert_uint_eq(fit.answer, TENON_FITS_OK);
    ck_assert_uint_eq(fit.wanted, 0);
    rig_ok(tenon_fits(self.session, 0, NULL, 0, &fit, &rig_error));
    ck_assert_uint_eq(fit.wanted, 0);
    rig_ok(
        tenon_fits(self.session, 1, descs, 1, &fit, &rig_error)); /* the reference does not tell */
    ck_assert_uint_eq(fit.answer, TENON_FITS_UNKNOWN);
    rig_fails(tenon_fits(self.session, 2, descs, 1, &fit, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    descs[1] = &wrong;
    rig_fails(tenon_fits(self.session, 0, descs, 3, &fit, &rig_error), TENON_ARG,
              TENON_REASON_EMPTY_SHAPE);
    descs[1] = NULL;
    rig_fails(tenon_fits(self.session, 0, descs, 3, &fit, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    ck_assert_uint_eq(fake[0].prepares, 0);
    rig_end(&self);
}
END_TEST

/* Links count the weights they hold and the bytes of these. */
START_TEST(held)
{
    tenon_weight *weights[3];
    unsigned i;
    start();
    fake[0].prepared_bytes = 1000;
    self.session = rig_session(self.host, "acme", 0);
    for (i = 0; i < 3; i++) weights[i] = rig_weight(self.session, self.values, RIG_ROWS);
    ck_assert_uint_eq(rig_link(self.session, 0).weights, 3);
    ck_assert_uint_eq(rig_link(self.session, 0).bytes, 3000);
    ck_assert_uint_eq(rig_link(self.session, 1).weights, 0);
    tenon_weight_destroy(weights[1]);
    tenon_weight_destroy(NULL);
    ck_assert_uint_eq(rig_link(self.session, 0).weights, 2);
    ck_assert_uint_eq(rig_link(self.session, 0).bytes, 2000);
    rig_end(&self); /* the session destroys the rest */
    ck_assert_uint_eq(fake[0].releases, 3);
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("weight");
    TCase *one = tcase_create("weight");
    tcase_set_timeout(one, 60);
    tcase_add_loop_test(one, classes, 0, 2);
    tcase_add_test(one, identities);
    tcase_add_test(one, copied);
    tcase_add_loop_test(one, alignment, 0, 7);
    tcase_add_test(one, alignment_of_scales);
    tcase_add_test(one, update);
    tcase_add_test(one, update_asks_anew);
    tcase_add_test(one, pages_of_a_file);
    tcase_add_loop_test(one, refused, 0, REFUSED);
    tcase_add_test(one, struct_sizes);
    tcase_add_test(one, pin);
    tcase_add_test(one, fits);
    tcase_add_test(one, held);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
