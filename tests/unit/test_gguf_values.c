/* The GGUF reader: types and values, what the data holds, and files that are no plain files. */
#include "gguf_rig.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/format.h>
#include <tools/terminal.h>

/* G05: unknown and retired types are listed, and refused for use with a hint. */
START_TEST(unknown_and_retired_types)
{
    static const struct {
        uint32_t type, known;
        const char *hint;
    } cases[] = {{4, GGUF_TYPE_RETIRED, "convert"},       {5, GGUF_TYPE_RETIRED, "convert"},
                 {31, GGUF_TYPE_RETIRED, "convert"},      {36, GGUF_TYPE_RETIRED, "convert"},
                 {42, GGUF_TYPE_UNKNOWN, "newer"},        {200, GGUF_TYPE_UNKNOWN, "newer"},
                 {UINT32_MAX, GGUF_TYPE_UNKNOWN, "newer"}};
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        byte_list file = {0};
        gguf *opened;
        const gguf_tensor *tensor;
        gguf_error error;
        char number[24];
        gguf_head(&file, 2, 1);
        gguf_key_text(&file, "general.name", "odd");
        gguf_matrix(&file, "odd.weight", 64, 2, cases[i].type, 0);
        gguf_matrix(&file, "good.weight", 8, 2, 0, 32);
        bytes_align(&file, 32);
        bytes_zeros(&file, 96);
        opened = accepted(&file);
        ck_assert_uint_eq(gguf_tensor_count(opened), 2);
        tensor = gguf_tensor_at(opened, 0);
        ck_assert_uint_eq(tensor->known, cases[i].known);
        ck_assert_uint_eq(tensor->type, cases[i].type);
        ck_assert_uint_eq(tensor->format, TENON_FORMAT_NONE);
        ck_assert_ptr_null(tensor->data);
        ck_assert(!gguf_types_known(opened, &error));
        snprintf(number, sizeof number, "%" PRIu32, cases[i].type);
        ck_assert_ptr_nonnull(strstr(error.text, "odd.weight"));
        ck_assert_ptr_nonnull(strstr(error.text, number));
        ck_assert_ptr_nonnull(strstr(error.text, cases[i].hint));
        ck_assert(gguf_tensor_usable(gguf_tensor_at(opened, 1), &error));
        gguf_close(opened);
        bytes_free(&file);
    }
}
END_TEST

/* Every type of the table: the size of its blocks is that of SPEC.md 3.1. */
START_TEST(offered_types)
{
    uint32_t i, format, seen = 0;
    for (i = 0; (format = tenon_format_at(i)) != TENON_FORMAT_NONE; i++) {
        tenon_format_info info;
        byte_list file = {0};
        gguf *opened;
        ck_assert(tenon_format_find(format, &info));
        if (info.gguf < 0) continue;
        gguf_head(&file, 1, 0);
        gguf_matrix(&file, "w", 768, 3, (uint32_t)info.gguf, 0);
        bytes_align(&file, 32);
        bytes_zeros(&file, 768 / info.block_inputs * 3 * info.block_bytes);
        opened = accepted(&file);
        ck_assert_uint_eq(gguf_tensor_at(opened, 0)->format, format);
        ck_assert_str_eq(gguf_tensor_at(opened, 0)->type_name, info.text);
        ck_assert_uint_eq(gguf_tensor_at(opened, 0)->bytes,
                          768 / info.block_inputs * 3 * info.block_bytes);
        gguf_close(opened);
        file.size--; /* one byte too few */
        refused(&file, "'w'", "truncated", NULL);
        bytes_free(&file);
        if (info.block_inputs > 1) {
            gguf_head(&file, 1, 0);
            gguf_matrix(&file, "odd", info.block_inputs + 1, 3, (uint32_t)info.gguf, 0);
            bytes_zeros(&file, 4096);
            refused(&file, "'odd'", "whole number", info.text);
            bytes_free(&file);
        }
        seen++;
    }
    ck_assert_uint_eq(seen, 19);
}
END_TEST

/* G13: types of values and elements. */
START_TEST(value_types)
{
    byte_list file = {0};
    gguf *opened;
    gguf_error error;
    const gguf_key *key;
    uint32_t depth;
    gguf_head(&file, 0, 1);
    bytes_string(&file, "k");
    bytes_u32(&file, GGUF_ARRAY);
    bytes_u32(&file, 99);
    bytes_u64(&file, 10);
    bytes_zeros(&file, 64);
    refused(&file, "key 'k'", "element type 99", NULL);
    bytes_free(&file);

    gguf_head(&file, 0, 1);
    bytes_string(&file, "k");
    bytes_u32(&file, 13);
    bytes_zeros(&file, 64);
    refused(&file, "key 'k'", "type 13", "unknown");
    bytes_free(&file);

    gguf_head(&file, 0, 1);
    bytes_string(&file, "k");
    bytes_u32(&file, GGUF_BOOL);
    bytes_number(&file, 2, 1);
    bytes_zeros(&file, 8);
    refused(&file, "key 'k'", "bool", "neither 0 nor 1");
    bytes_free(&file);

    gguf_head(&file, 0, 1);
    bytes_string(&file, "k");
    bytes_u32(&file, GGUF_ARRAY);
    bytes_u32(&file, GGUF_BOOL);
    bytes_u64(&file, 300);
    bytes_zeros(&file, 299);
    bytes_number(&file, 7, 1);
    refused(&file, "key 'k'", "holds 7", NULL);
    bytes_free(&file);

    gguf_head(&file, 0, 1);
    bytes_string(&file, "tokenizer.ggml.scores");
    bytes_u32(&file, GGUF_ARRAY);
    bytes_u32(&file, GGUF_U8);
    bytes_u64(&file, 4);
    bytes_zeros(&file, 4);
    opened = accepted(&file);
    ck_assert(!gguf_get_array(opened, "tokenizer.ggml.scores", GGUF_F32, 4, &key, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "tokenizer.ggml.scores"));
    ck_assert_ptr_nonnull(strstr(error.text, "u8"));
    ck_assert_ptr_nonnull(strstr(error.text, "4 f32"));
    ck_assert(!gguf_get_array(opened, "tokenizer.ggml.scores", GGUF_U8, 5, &key, &error));
    ck_assert(gguf_get_array(opened, "tokenizer.ggml.scores", GGUF_U8, 4, &key, &error));
    ck_assert(gguf_get_array(opened, "tokenizer.ggml.scores", GGUF_U8, UINT64_MAX, &key, &error));
    ck_assert(!gguf_get_array(opened, "nothing", GGUF_U8, 4, &key, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "missing"));
    gguf_close(opened);
    bytes_free(&file);

    /* arrays of arrays are stepped over, without end they are not */
    for (depth = 2; depth < 40; depth += 36) {
        uint32_t i;
        gguf_head(&file, 0, 1);
        bytes_string(&file, "k");
        bytes_u32(&file, GGUF_ARRAY);
        for (i = 1; i < depth; i++) {
            bytes_u32(&file, GGUF_ARRAY);
            bytes_u64(&file, 1);
        }
        bytes_u32(&file, GGUF_U8);
        bytes_u64(&file, 1);
        bytes_number(&file, 5, 1);
        if (depth == 2)
            gguf_close(accepted(&file));
        else
            refused(&file, "key 'k'", "nested", NULL);
        bytes_free(&file);
    }
}
END_TEST

START_TEST(typed_access)
{
    byte_list file = {0};
    gguf *opened;
    gguf_error error;
    uint64_t u;
    double d;
    bool b;
    const char *text;
    float f = 0.1f;
    double g = -1e300;
    gguf_head(&file, 0, 6);
    bytes_string(&file, "big");
    bytes_u32(&file, GGUF_U64);
    bytes_u64(&file, UINT64_MAX);
    bytes_string(&file, "minus");
    bytes_u32(&file, GGUF_I8);
    bytes_number(&file, 0xFF, 1);
    bytes_string(&file, "plus");
    bytes_u32(&file, GGUF_I16);
    bytes_number(&file, 300, 2);
    bytes_string(&file, "yes");
    bytes_u32(&file, GGUF_BOOL);
    bytes_number(&file, 1, 1);
    bytes_string(&file, "f");
    bytes_u32(&file, GGUF_F32);
    bytes_add(&file, &f, 4);
    bytes_string(&file, "g");
    bytes_u32(&file, GGUF_F64);
    bytes_add(&file, &g, 8);
    opened = accepted(&file);
    ck_assert(gguf_get_u64(opened, "big", &u, &error) && u == UINT64_MAX);
    ck_assert(!gguf_get_u64(opened, "minus", &u, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "'minus'"));
    ck_assert(gguf_get_u64(opened, "plus", &u, &error) && u == 300);
    ck_assert(!gguf_get_u64(opened, "yes", &u, &error));
    ck_assert(!gguf_get_u64(opened, "f", &u, &error));
    ck_assert(gguf_get_bool(opened, "yes", &b, &error) && b);
    ck_assert(!gguf_get_bool(opened, "plus", &b, &error));
    ck_assert(gguf_get_f64(opened, "f", &d, &error) && d == (double)f);
    ck_assert(gguf_get_f64(opened, "g", &d, &error) && d == g);
    ck_assert(!gguf_get_f64(opened, "big", &d, &error));
    ck_assert(!gguf_get_string(opened, "big", &text, &u, &error));
    gguf_close(opened);
    bytes_free(&file);
}
END_TEST

/* G16: scales that are not finite are found in every format, at the right block. */
START_TEST(data_check)
{
    static const struct {
        uint32_t type, place;
        uint8_t bad[4];
        uint32_t bad_bytes;
    } cases[] = {
        {0, 0, {0, 0, 0xC0, 0x7F}, 4},
        {0, 0, {0, 0, 0x80, 0xFF}, 4},
        {1, 0, {0, 0x7C}, 2},
        {30, 0, {0x80, 0x7F}, 2},
        {2, 0, {1, 0x7C}, 2},
        {2, 0, {0, 0xFC}, 2},
        {3, 0, {0, 0x7E}, 2},
        {3, 2, {0, 0x7E}, 2},
        {6, 0, {0, 0x7E}, 2},
        {7, 0, {0, 0x7E}, 2},
        {7, 2, {0, 0x7E}, 2},
        {8, 0, {0, 0x7E}, 2},
        {10, 80, {0, 0x7E}, 2},
        {10, 82, {0, 0xFC}, 2},
        {11, 108, {0, 0x7E}, 2},
        {12, 0, {0, 0x7E}, 2},
        {12, 2, {0, 0x7C}, 2},
        {13, 0, {0, 0x7E}, 2},
        {13, 2, {0, 0x7E}, 2},
        {14, 208, {0, 0x7E}, 2},
        {14, 208, {0, 0x7C}, 2},
        {20, 0, {0, 0x7E}, 2},
        {23, 0, {0, 0x7E}, 2},
        {39, 0, {0xFF}, 1},
        {40, 3, {0x7F}, 1},
        {40, 0, {0xFF}, 1},
        {34, 52, {0, 0x7E}, 2},
        {35, 64, {0, 0x7E}, 2},
    };
    size_t i, n, j;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tenon_format_info info = {0};
        byte_list file = {0};
        gguf *opened;
        gguf_error error;
        size_t start, size;
        uint32_t format, f;
        uint64_t block = 0, per_row, bad_block;
        for (f = 0; (format = tenon_format_at(f)) != TENON_FORMAT_NONE; f++)
            if (tenon_format_find(format, &info) && info.gguf == (int32_t)cases[i].type) break;
        ck_assert_uint_ne(format, TENON_FORMAT_NONE);
        gguf_head(&file, 1, 0);
        gguf_matrix(&file, "w", 768, 2, cases[i].type, 0);
        bytes_align(&file, 32);
        start = file.size;
        per_row = 768 / info.block_inputs;
        size = (size_t)per_row * 2 * info.block_bytes;
        /* everything that is no scale may hold any bits: all ones, if they are no floats */
        for (n = 0; n < size; n++)
            bytes_number(&file, info.traits & TENON_TRAIT_FLOATS ? 0 : 0xFF, 1);
        for (n = 0; n < per_row * 2; n++)
            for (j = 0; j < sizeof cases / sizeof cases[0]; j++)
                if (cases[j].type == cases[i].type && cases[i].type != 40)
                    memset(file.data + start + n * info.block_bytes + cases[j].place, 0,
                           cases[j].bad_bytes);
                else if (cases[i].type == 40)
                    memset(file.data + start + n * info.block_bytes, 0x7E, 4);
        opened = accepted(&file);
        ck_assert_msg(gguf_check_data(gguf_tensor_at(opened, 0), &block, &error),
                      "%s: good data: %s", info.text, error.text);
        gguf_close(opened);
        bad_block = per_row + 1;
        memcpy(file.data + start + bad_block * info.block_bytes + cases[i].place, cases[i].bad,
               cases[i].bad_bytes);
        opened = accepted(&file);
        ck_assert_msg(!gguf_check_data(gguf_tensor_at(opened, 0), &block, &error), "%s, place %u",
                      info.text, cases[i].place);
        ck_assert_uint_eq(block, bad_block);
        ck_assert_ptr_nonnull(strstr(error.text, "'w'"));
        ck_assert_ptr_nonnull(strstr(error.text, "row 1"));
        gguf_close(opened);
        bytes_free(&file);
    }
}
END_TEST

/* Paths that are no plain files are refused without waiting. */
START_TEST(odd_paths)
{
    gguf_error error;
    char fifo[80];
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_ptr_null(gguf_open(fifo, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "regular"));
    ck_assert(!gguf_is_model(fifo));
    unlink(fifo);
    ck_assert_ptr_null(gguf_open(folder, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "directory"));
    ck_assert_ptr_null(gguf_open("/dev/zero", &error));
    ck_assert_ptr_null(gguf_open("/nonexistent/model.gguf", &error));
    ck_assert_ptr_nonnull(strstr(error.text, "No such file"));
    ck_assert_ptr_null(gguf_open("", &error));
    ck_assert_ptr_null(gguf_open("/nonexistent/model.gguf", NULL));
    write_file("GGUF", 4);
    ck_assert(gguf_is_model(path));
    write_file("GGU", 3);
    ck_assert(!gguf_is_model(path));
}
END_TEST

/* Cut while it is mapped: the tool names the file and ends, with an exit code and no signal. */
START_TEST(cut_while_mapped)
{
    byte_list file = {0};
    int status, ends[2];
    char said[256] = "";
    pid_t child;
    gguf_head(&file, 1, 0);
    gguf_matrix(&file, "w", 65536, 4, 0, 0);
    bytes_align(&file, 32);
    bytes_zeros(&file, 65536 * 16);
    write_file(file.data, file.size);
    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        gguf_error error;
        gguf *opened;
        const volatile uint8_t *data;
        if (dup2(ends[1], STDERR_FILENO) < 0 || !terminal_begin()) _exit(77);
        opened = gguf_open(path, &error);
        if (opened == NULL || truncate(path, 4096) != 0) _exit(78);
        data = gguf_tensor_at(opened, 0)->data;
        _exit(data[65536 * 16 - 1] == 0 ? 79 : 80);
    }
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_ge(read(ends[0], said, sizeof said - 1), 0);
    close(ends[0]);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x", (unsigned)status);
    ck_assert_ptr_nonnull(strstr(said, path));
    ck_assert_ptr_nonnull(strstr(said, "cut short"));
    bytes_free(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf_values");
    TCase *tests = tcase_create("gguf_values");
    int status;
    if (!rig_begin()) return EXIT_FAILURE;
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, unknown_and_retired_types);
    tcase_add_test(tests, offered_types);
    tcase_add_test(tests, value_types);
    tcase_add_test(tests, typed_access);
    tcase_add_test(tests, data_check);
    tcase_add_test(tests, odd_paths);
    tcase_add_test(tests, cut_while_mapped);
    suite_add_tcase(suite, tests);
    status = runner_main(srunner_create(suite));
    rig_end();
    return status;
}
