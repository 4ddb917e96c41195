/* The GGUF reader when memory runs out: each allocation fails in turn, and every time the answer is
 * a refusal with a text, with nothing leaked and no descriptor left. The reader is compiled in here
 * with allocators that fail on demand. */
#include "gguf_bytes.h"
#include "runner.h"

#include <fcntl.h>
#include <stdbool.h>

static int64_t until_failure; /* allocations that still succeed; negative: all */
static int64_t held;          /* allocated and not freed */

static bool fails(void)
{
    if (until_failure < 0) return false;
    return until_failure-- == 0;
}

static void *failing_malloc(size_t size)
{
    void *block = fails() ? NULL : malloc(size);
    if (block != NULL) held++;
    return block;
}

static void *failing_calloc(size_t count, size_t size)
{
    void *block = fails() ? NULL : calloc(count, size);
    if (block != NULL) held++;
    return block;
}

static void *failing_realloc(void *old, size_t size)
{
    void *block = fails() ? NULL : realloc(old, size);
    if (block != NULL && old == NULL) held++;
    return block;
}

static void failing_free(void *block)
{
    if (block != NULL) held--;
    free(block);
}

#define malloc failing_malloc
#define calloc failing_calloc
#define realloc failing_realloc
#define free failing_free
#include <tools/gguf.c>
#include <tools/gguf_access.c>
#include <tools/gguf_check.c>
#include <tools/gguf_parse.c>
#include <tools/gguf_types.c>
#undef malloc
#undef calloc
#undef realloc
#undef free

/* Enough keys and tensors that the lists grow several times. */
static byte_list model(void)
{
    byte_list file = {0};
    char name[32];
    unsigned i;
    gguf_head(&file, 40, 40);
    for (i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "key.%u", i);
        gguf_key_u32(&file, name, i);
    }
    for (i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "tensor.%u", i);
        gguf_matrix(&file, name, 8, 1, 0, 32 * (uint64_t)i);
    }
    bytes_align(&file, 32);
    bytes_zeros(&file, 40 * 32);
    return file;
}

static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    close(fd);
    return fd;
}

static void every_failure(const byte_list *file, const char *path)
{
    int descriptor = next_descriptor();
    int64_t n;
    for (n = 0;; n++) {
        gguf_error error = {{0}};
        gguf *opened;
        until_failure = n;
        opened = path != NULL ? gguf_open(path, &error)
                              : gguf_open_memory(file->data, file->size, &error);
        if (opened != NULL) {
            ck_assert_int_ge(until_failure, 0); /* it had no need of the one that would fail */
            ck_assert_uint_eq(gguf_tensor_count(opened), 40);
            gguf_close(opened);
            ck_assert_int_eq(held, 0);
            break;
        }
        ck_assert_ptr_nonnull(strstr(error.text, "out of memory"));
        ck_assert_int_eq(held, 0);
        ck_assert_int_eq(next_descriptor(), descriptor);
    }
    ck_assert_int_ge(n, 40); /* at least the names of the keys */
    until_failure = -1;
}

START_TEST(from_memory)
{
    byte_list file = model();
    every_failure(&file, NULL);
    bytes_free(&file);
}
END_TEST

START_TEST(from_a_file)
{
    char path[] = "/tmp/tenon-gguf-memory-XXXXXX";
    byte_list file = model();
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert(write(fd, file.data, file.size) == (ssize_t)file.size);
    close(fd);
    every_failure(&file, path);
    unlink(path);
    bytes_free(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf_memory");
    TCase *tests = tcase_create("gguf_memory");
    tcase_add_test(tests, from_memory);
    tcase_add_test(tests, from_a_file);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
