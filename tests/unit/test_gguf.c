/* The GGUF reader: the structure of good files and of hostile ones, all made from bytes here. */
#include "gguf_rig.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <tenon/types.h>

/* Two keys, a Q4_0 matrix of 2 rows of 64 and an F32 one; data at multiples of 32. */
static byte_list small_model(void)
{
    byte_list file = {0};
    size_t i;
    gguf_head(&file, 2, 3);
    gguf_key_text(&file, "general.architecture", "llama");
    gguf_key_u32(&file, "llama.block_count", 30);
    bytes_string(&file, "tokenizer.ggml.tokens");
    bytes_u32(&file, GGUF_ARRAY);
    bytes_u32(&file, GGUF_STRING);
    bytes_u64(&file, 3);
    bytes_string(&file, "a");
    bytes_string(&file, "");
    bytes_string(&file, "\xC4\xA0t");
    gguf_matrix(&file, "blk.0.attn_q.weight", 64, 2, 2, 0); /* 2 rows of 2 blocks of 18: 72 bytes */
    gguf_matrix(&file, "output_norm.weight", 8, 1, 0, 96);
    bytes_align(&file, 32);
    for (i = 0; i < 72; i++) bytes_number(&file, i, 1);
    bytes_align(&file, 32);
    bytes_zeros(&file, 32);
    return file;
}

START_TEST(good_model)
{
    byte_list bytes = small_model();
    gguf *file = accepted(&bytes);
    const gguf_tensor *tensor;
    const gguf_key *key;
    const char *text;
    uint64_t cursor = 0, length, number;
    gguf_error error;
    ck_assert_uint_eq(gguf_version(file), 3);
    ck_assert_uint_eq(gguf_alignment(file), 32);
    ck_assert_uint_eq(gguf_file_size(file), bytes.size);
    ck_assert_uint_eq(gguf_key_count(file), 3);
    ck_assert_uint_eq(gguf_tensor_count(file), 2);
    ck_assert_str_eq(gguf_key_at(file, 1)->name, "llama.block_count");
    ck_assert_ptr_null(gguf_key_at(file, 3));
    ck_assert_ptr_null(gguf_tensor_at(file, 2));
    tensor = gguf_find_tensor(file, "blk.0.attn_q.weight");
    ck_assert_ptr_nonnull(tensor);
    ck_assert_uint_eq(tensor->format, TENON_FORMAT_Q4_0);
    ck_assert_uint_eq(tensor->known, GGUF_TYPE_OFFERED);
    ck_assert_str_eq(tensor->type_name, "Q4_0");
    ck_assert_uint_eq(tensor->cols, 64);
    ck_assert_uint_eq(tensor->rows, 2);
    ck_assert_uint_eq(tensor->bytes, 72);
    ck_assert_uint_eq(tensor->data_offset % 32, 0);
    ck_assert_uint_eq(((const uint8_t *)tensor->data)[71], 71);
    ck_assert(gguf_tensor_usable(tensor, &error));
    ck_assert(gguf_types_known(file, &error));
    ck_assert_ptr_null(gguf_find_tensor(file, "output.weight"));
    ck_assert_ptr_null(gguf_find_key(file, ""));
    ck_assert(gguf_get_u64(file, "llama.block_count", &number, &error));
    ck_assert_uint_eq(number, 30);
    ck_assert(gguf_get_string(file, "general.architecture", &text, &length, &error));
    ck_assert(length == 5 && memcmp(text, "llama", 5) == 0);
    ck_assert(gguf_get_array(file, "tokenizer.ggml.tokens", GGUF_STRING, 3, &key, &error));
    ck_assert(gguf_next_string(key, &cursor, &text, &length) && length == 1 && text[0] == 'a');
    ck_assert(gguf_next_string(key, &cursor, &text, &length) && length == 0);
    ck_assert(gguf_next_string(key, &cursor, &text, &length) && length == 3);
    ck_assert(!gguf_next_string(key, &cursor, &text, &length));
    gguf_close(file);
    bytes.data[4] = 2; /* version 2 has the same layout */
    file = accepted(&bytes);
    ck_assert_uint_eq(gguf_version(file), 2);
    gguf_close(file);
    gguf_close(NULL);
    bytes_free(&bytes);
}
END_TEST

START_TEST(no_tensors)
{
    byte_list file = {0};
    gguf *opened;
    gguf_head(&file, 0, 0);
    opened = accepted(&file);
    ck_assert_uint_eq(gguf_tensor_count(opened), 0);
    ck_assert_uint_eq(gguf_key_count(opened), 0);
    gguf_close(opened);
    bytes_free(&file);
}
END_TEST

/* G08: cut at every byte; each refusal tells how many bytes there are. The last tensor ends the
 * file, so no proper prefix is good. */
START_TEST(cut_at_every_byte)
{
    byte_list file = small_model();
    size_t cut;
    for (cut = 0; cut < file.size; cut++) {
        byte_list part = {file.data, cut, cut};
        char actual[32];
        if (cut >= 4)
            snprintf(actual, sizeof actual, "%zu", cut);
        else
            snprintf(actual, sizeof actual, cut == 0 ? "has 0" : "has %zu", cut);
        refused(&part, actual, cut < 24 ? "at least 24" : "truncated", NULL);
    }
    bytes_free(&file);
}
END_TEST

START_TEST(cut_in_data_names_both_sizes)
{
    byte_list file = small_model();
    static const size_t percent[] = {25, 50, 99};
    size_t i, data = file.size - 128;
    char needed[48], has[48];
    snprintf(needed, sizeof needed, "at least %zu bytes", file.size);
    for (i = 0; i < 3; i++) {
        byte_list part = {file.data, data + 128 * percent[i] / 100, 0};
        snprintf(has, sizeof has, "it has %zu", part.size);
        refused(&part, needed, has, percent[i] < 90 ? "blk.0.attn_q.weight" : "output_norm.weight");
    }
    bytes_free(&file);
}
END_TEST

static long peak_kib(void)
{
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* G01, G02: lengths and counts that lie are refused without allocating what they claim. */
START_TEST(huge_lengths_and_counts)
{
    static const uint64_t lies[] = {UINT64_C(0xFFFFFFFFFFFF), UINT64_C(1) << 63, UINT64_MAX,
                                    UINT64_C(0x0666666666666666), UINT64_MAX - 31};
    long before = peak_kib();
    size_t i;
    for (i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        byte_list file = {0};
        gguf_head(&file, 0, 1);
        bytes_u64(&file, lies[i]); /* of the key's name */
        bytes_zeros(&file, 32);
        refused(&file, "key 0 at offset 24", "name", "truncated");
        bytes_free(&file);

        gguf_head(&file, 0, 1);
        bytes_string(&file, "k");
        bytes_u32(&file, GGUF_STRING);
        bytes_u64(&file, lies[i]);
        bytes_zeros(&file, 32);
        refused(&file, "key 'k' at offset 24", "string", "truncated");
        bytes_free(&file);

        gguf_head(&file, 0, 1);
        bytes_string(&file, "k");
        bytes_u32(&file, GGUF_ARRAY);
        bytes_u32(&file, i % 2 == 0 ? GGUF_STRING : GGUF_F64);
        bytes_u64(&file, lies[i]);
        bytes_zeros(&file, 32);
        refused(&file, "key 'k' at offset 24", "truncated", NULL);
        bytes_free(&file);

        gguf_head(&file, lies[i], 0);
        bytes_zeros(&file, 64);
        refused(&file, "tensor count", "at offset 8", NULL);
        bytes_free(&file);

        gguf_head(&file, 0, lies[i]);
        bytes_zeros(&file, 64);
        refused(&file, "key count", "at offset 16", NULL);
        bytes_free(&file);

        gguf_head(&file, 1, 0);
        bytes_u64(&file, lies[i]); /* of the tensor's name */
        bytes_zeros(&file, 64);
        refused(&file, "tensor 0 at offset 24", "name", NULL);
        bytes_free(&file);
    }
    for (i = 0; i < 2; i++) { /* counts that no limit stops, only the size of the file */
        byte_list file = {0};
        gguf_head(&file, i == 0 ? 1000 : 0, i == 0 ? 0 : 1000);
        bytes_zeros(&file, 64);
        refused(&file, i == 0 ? "tensor count 1000" : "key count 1000",
                i == 0 ? "at least 32024" : "at least 13024", "it has 88");
        bytes_free(&file);
    }
    ck_assert_int_lt(peak_kib() - before, 16 * 1024);
}
END_TEST

START_TEST(dimension_counts)
{
    static const uint32_t wrong[] = {0, 5, UINT32_MAX};
    size_t i;
    for (i = 0; i < 3; i++) {
        byte_list file = {0};
        gguf_head(&file, 1, 0);
        bytes_string(&file, "five.weight");
        bytes_u32(&file, wrong[i]);
        bytes_zeros(&file, 256);
        refused(&file, "five.weight", "dimensions", NULL);
        bytes_free(&file);
    }
}
END_TEST

START_TEST(wrapping_products)
{
    byte_list file = {0};
    gguf *opened;
    /* 2^32 x 2^32 elements wrap to 0; 2^62 x 2 F32 elements fit, their bytes do not */
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "wrap", UINT64_C(1) << 32, UINT64_C(1) << 32, 0, 0);
    bytes_zeros(&file, 64);
    refused(&file, "'wrap'", "overflows", NULL);
    bytes_free(&file);

    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "wrap", UINT64_C(1) << 62, 2, 0, 0);
    bytes_zeros(&file, 64);
    refused(&file, "'wrap'", "overflows", NULL);
    bytes_free(&file);

    /* a legal size at an offset that wraps back into the file */
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "wrap", 8, 1, 0, UINT64_MAX - 31);
    bytes_zeros(&file, 64);
    refused(&file, "'wrap'", "overflows", NULL);
    bytes_free(&file);

    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "far", 8, 1, 0, UINT64_C(1) << 62);
    bytes_zeros(&file, 64);
    refused(&file, "'far'", "at least 4611686018427", "truncated");
    bytes_free(&file);

    /* no elements: no product either, whatever the other dimensions */
    gguf_head(&file, 1, 0);
    bytes_string(&file, "empty");
    bytes_u32(&file, 4);
    bytes_u64(&file, UINT64_MAX);
    bytes_u64(&file, UINT64_MAX);
    bytes_u64(&file, 0);
    bytes_u64(&file, UINT64_MAX);
    bytes_u32(&file, 2);
    bytes_u64(&file, 0);
    opened = accepted(&file);
    ck_assert_uint_eq(gguf_tensor_at(opened, 0)->rows, 0);
    ck_assert_uint_eq(gguf_tensor_at(opened, 0)->bytes, 0);
    ck_assert_ptr_null(gguf_tensor_at(opened, 0)->data);
    ck_assert(!gguf_tensor_usable(gguf_tensor_at(opened, 0), NULL));
    gguf_close(opened);
    bytes_free(&file);
}
END_TEST

/* G06: the alignment key. */
START_TEST(alignments)
{
    static const struct {
        uint64_t value;
        bool good;
    } cases[] = {{0, false}, {4, false}, {7, false}, {8, true},
                 {24, true}, {64, true}, {32, true}, {UINT64_C(1) << 31, false},
                 {12, false}};
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        byte_list file = {0};
        gguf_head(&file, 1, 1);
        gguf_key_u32(&file, "general.alignment", (uint32_t)cases[i].value);
        gguf_matrix(&file, "w", 8, 1, 0, 0);
        bytes_align(&file, cases[i].good ? (size_t)cases[i].value : 32);
        bytes_zeros(&file, 32);
        if (cases[i].good) {
            gguf *opened = accepted(&file);
            ck_assert_uint_eq(gguf_alignment(opened), cases[i].value);
            ck_assert_uint_eq(gguf_tensor_at(opened, 0)->data_offset % cases[i].value, 0);
            gguf_close(opened);
        } else {
            refused(&file, "general.alignment", "offset 24", "multiple of 8");
        }
        bytes_free(&file);
    }
}
END_TEST

START_TEST(alignment_of_a_wrong_type)
{
    static const uint32_t types[] = {GGUF_I32, GGUF_U64, GGUF_STRING, GGUF_F32, GGUF_ARRAY};
    size_t i;
    for (i = 0; i < sizeof types / sizeof types[0]; i++) {
        byte_list file = {0};
        gguf_head(&file, 0, 1);
        bytes_string(&file, "general.alignment");
        bytes_u32(&file, types[i]);
        if (types[i] == GGUF_STRING) {
            bytes_string(&file, "32");
        } else if (types[i] == GGUF_ARRAY) {
            bytes_u32(&file, GGUF_U32);
            bytes_u64(&file, 1);
            bytes_u32(&file, 32);
        } else {
            bytes_number(&file, 32, types[i] == GGUF_U64 ? 8 : 4);
        }
        refused(&file, "general.alignment", "u32", gguf_value_type_name(types[i]));
        bytes_free(&file);
    }
}
END_TEST

/* G10: duplicates name both places. */
START_TEST(duplicates)
{
    byte_list file = {0};
    gguf_head(&file, 3, 0);
    gguf_matrix(&file, "blk.0.attn_q.weight", 8, 1, 0, 0);
    gguf_matrix(&file, "other", 8, 1, 0, 32);
    gguf_matrix(&file, "blk.0.attn_q.weight", 8, 1, 0, 64);
    bytes_align(&file, 32);
    bytes_zeros(&file, 96);
    refused(&file, "'blk.0.attn_q.weight' occurs twice", "number 0", "number 2");
    bytes_free(&file);

    gguf_head(&file, 0, 2);
    gguf_key_text(&file, "general.architecture", "a");
    gguf_key_text(&file, "general.architecture", "b");
    refused(&file, "'general.architecture' occurs twice", "number 0", "number 1");
    bytes_free(&file);
}
END_TEST

START_TEST(many_tensors)
{
    enum { COUNT = 20000 };
    byte_list file = {0};
    gguf *opened;
    char name[32];
    uint64_t i;
    gguf_head(&file, COUNT, 0);
    for (i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "t.%" PRIu64, i * 7919 % COUNT);
        gguf_matrix(&file, name, 8, 1, 0, 32 * i);
    }
    bytes_align(&file, 32);
    bytes_zeros(&file, 32 * (size_t)COUNT);
    opened = accepted(&file);
    ck_assert_uint_eq(gguf_tensor_count(opened), COUNT);
    ck_assert_ptr_eq(gguf_find_tensor(opened, "t.7919"), gguf_tensor_at(opened, 1));
    gguf_close(opened);
    bytes_free(&file);
}
END_TEST

/* G11: byte order and versions. */
START_TEST(byte_order_and_versions)
{
    static const uint32_t wrong[] = {0, 1, 4, 0x00010003u};
    byte_list file = small_model();
    size_t i;
    char number[32];
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        file.data[4] = (uint8_t)wrong[i];
        file.data[5] = (uint8_t)(wrong[i] >> 8);
        file.data[6] = (uint8_t)(wrong[i] >> 16);
        file.data[7] = (uint8_t)(wrong[i] >> 24);
        snprintf(number, sizeof number, "version %" PRIu32 " ", wrong[i]);
        refused(&file, number, "not supported", NULL);
    }
    memcpy(file.data + 4, "\0\0\0\3", 4);
    refused(&file, "big-endian", "not supported", NULL);
    memcpy(file.data, "FUGG", 4);
    refused(&file, "reversed", "FUGG", NULL);
    memcpy(file.data, "GGML", 4);
    refused(&file, "no GGUF file", NULL, NULL);
    bytes_free(&file);
}
END_TEST

/* Where tensors lie. */
START_TEST(placement)
{
    byte_list file = {0};
    gguf *opened;
    /* G17: an offset that is not aligned */
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "w", 8, 1, 0, 4);
    bytes_align(&file, 32);
    bytes_zeros(&file, 64);
    refused(&file, "'w'", "offset 4", "alignment 32");
    bytes_free(&file);

    /* alignment 8: data at 8 mod 32 is legal */
    gguf_head(&file, 2, 1);
    gguf_key_u32(&file, "general.alignment", 8);
    gguf_matrix(&file, "a", 2, 1, 0, 0);
    gguf_matrix(&file, "b", 32, 1, 2, 8);
    bytes_align(&file, 8);
    bytes_zeros(&file, 26);
    opened = accepted(&file);
    ck_assert_ptr_eq((const uint8_t *)gguf_find_tensor(opened, "b")->data,
                     (const uint8_t *)gguf_find_tensor(opened, "a")->data + 8);
    gguf_close(opened);
    bytes_free(&file);

    /* overlap, by one byte and whole, in either order */
    gguf_head(&file, 2, 0);
    gguf_matrix(&file, "second", 8, 1, 0, 32);
    gguf_matrix(&file, "first", 9, 1, 0, 0); /* 36 bytes */
    bytes_align(&file, 32);
    bytes_zeros(&file, 96);
    refused(&file, "'second'", "overlaps", "'first'");
    bytes_free(&file);

    gguf_head(&file, 2, 0);
    gguf_matrix(&file, "one", 8, 1, 0, 32);
    gguf_matrix(&file, "two", 8, 1, 0, 32);
    bytes_align(&file, 32);
    bytes_zeros(&file, 96);
    refused(&file, "overlaps", "'one'", "'two'");
    bytes_free(&file);

    /* by a single byte: one MXFP4 block has 17 */
    gguf_head(&file, 2, 1);
    gguf_key_u32(&file, "general.alignment", 8);
    gguf_matrix(&file, "first", 32, 1, 39, 0);
    gguf_matrix(&file, "second", 2, 1, 0, 16);
    bytes_align(&file, 8);
    bytes_zeros(&file, 96);
    refused(&file, "'second'", "overlaps", "'first'");
    bytes_free(&file);

    /* a type of unknown size still covers something */
    gguf_head(&file, 2, 0);
    gguf_matrix(&file, "known", 8, 1, 0, 0);
    gguf_matrix(&file, "odd", 8, 1, 200, 0);
    bytes_align(&file, 32);
    bytes_zeros(&file, 96);
    refused(&file, "overlaps", NULL, NULL);
    bytes_free(&file);

    /* gaps, and an order of its own, are legal; so are empty tensors inside others */
    gguf_head(&file, 3, 0);
    gguf_matrix(&file, "late", 8, 1, 0, 256);
    gguf_matrix(&file, "early", 8, 2, 0, 32);
    gguf_matrix(&file, "empty", 8, 0, 0, 64);
    bytes_align(&file, 32);
    bytes_zeros(&file, 288);
    opened = accepted(&file);
    ck_assert_ptr_null(gguf_find_tensor(opened, "empty")->data);
    gguf_close(opened);
    bytes_free(&file);

    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "empty", 8, 0, 0, UINT64_C(1) << 40);
    bytes_zeros(&file, 64);
    refused(&file, "'empty'", "needed", NULL);
    bytes_free(&file);
}
END_TEST

START_TEST(names)
{
    byte_list file = {0};
    gguf *opened;
    char long_name[66];
    memset(long_name, 'n', 65);
    long_name[65] = '\0';
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, long_name, 8, 1, 0, 0);
    bytes_align(&file, 32);
    bytes_zeros(&file, 32);
    refused(&file, "65 bytes", "longer than 64", NULL);
    bytes_free(&file);

    long_name[64] = '\0';
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, long_name, 8, 1, 0, 0);
    bytes_align(&file, 32);
    bytes_zeros(&file, 32);
    opened = accepted(&file);
    ck_assert_str_eq(gguf_tensor_at(opened, 0)->name, long_name);
    gguf_close(opened);
    bytes_free(&file);

    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "", 8, 1, 0, 0);
    bytes_zeros(&file, 64);
    refused(&file, "tensor 0", "empty", NULL);
    bytes_free(&file);

    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "abcd", 8, 1, 0, 0);
    file.data[24 + 8 + 1] = '\0';
    bytes_zeros(&file, 64);
    refused(&file, "tensor 0", "zero byte", NULL);
    bytes_free(&file);

    /* control characters cannot reach a terminal through an error */
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "a\nb\033[2J\xFF", 8, 1, 0, 4);
    bytes_zeros(&file, 64);
    refused(&file, "'a\\x0ab\\x1b[2J\\xff'", "alignment", NULL);
    bytes_free(&file);

    gguf_head(&file, 0, 1);
    bytes_u64(&file, 70000);
    bytes_zeros(&file, 80000);
    refused(&file, "key 0", "70000 bytes", "65535");
    bytes_free(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *tests = tcase_create("gguf");
    int status;
    if (!rig_begin()) return EXIT_FAILURE;
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, good_model);
    tcase_add_test(tests, no_tensors);
    tcase_add_test(tests, cut_at_every_byte);
    tcase_add_test(tests, cut_in_data_names_both_sizes);
    tcase_add_test(tests, huge_lengths_and_counts);
    tcase_add_test(tests, dimension_counts);
    tcase_add_test(tests, wrapping_products);
    tcase_add_test(tests, alignments);
    tcase_add_test(tests, alignment_of_a_wrong_type);
    tcase_add_test(tests, duplicates);
    tcase_add_test(tests, many_tensors);
    tcase_add_test(tests, byte_order_and_versions);
    tcase_add_test(tests, placement);
    tcase_add_test(tests, names);
    suite_add_tcase(suite, tests);
    status = runner_main(srunner_create(suite));
    rig_end();
    return status;
}
