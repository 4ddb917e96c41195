/* Reads the golden files of this folder; make_golden.py writes them and README.md describes them.
 *
 * A file is little-endian: "TENONGLD", u32 version 1, u32 records, then the records: the head
 * below; codes; scales; x as float32 [tokens][cols]; zero bytes up to a multiple of 4 (counted from
 * the codes); and `results` arrays of u32, bits of float32: the weights [rows][cols] of a decode
 * record (tokens 0), else y [tokens][rows] in class F32 and, where there are two, in class A8. */
#ifndef TENON_TESTS_GOLDEN_H
#define TENON_TESTS_GOLDEN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct golden_head {
    char name[32];
    uint32_t format, layout, results, reserved;
    uint64_t group, rows, cols, tokens, codes_bytes, scales_bytes;
} golden_head;

typedef struct golden_record {
    golden_head head;
    const uint8_t *codes, *scales;
    const uint8_t *x;          /* tokens * cols float32, at any alignment */
    const uint8_t *results[2]; /* u32 arrays at any alignment */
} golden_record;

typedef struct golden_file {
    uint8_t *bytes;
    size_t size, at;
    uint32_t count;
} golden_file;

static inline uint32_t golden_u32(const uint8_t *bytes, uint64_t index)
{
    uint32_t value;
    memcpy(&value, bytes + 4 * index, sizeof value);
    return value;
}

static inline float golden_f32(const uint8_t *bytes, uint64_t index)
{
    float value;
    memcpy(&value, bytes + 4 * index, sizeof value);
    return value;
}

/* Exits the test program when the file cannot be read: nothing can be tested without it. */
static inline golden_file golden_open(const char *folder, const char *name)
{
    golden_file self = {0};
    char path[4096];
    FILE *file;
    long size;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 16 ||
        fseek(file, 0, SEEK_SET) != 0 || (self.bytes = malloc((size_t)size)) == NULL ||
        fread(self.bytes, 1, (size_t)size, file) != (size_t)size ||
        memcmp(self.bytes, "TENONGLD", 8) != 0 || golden_u32(self.bytes, 2) != 1) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(EXIT_FAILURE);
    }
    fclose(file);
    self.size = (size_t)size;
    self.at = 16;
    self.count = golden_u32(self.bytes, 3);
    return self;
}

/* The next record; its pointers live as long as the file. 0 after the last one. */
static inline int golden_next(golden_file *file, golden_record *out)
{
    const uint8_t *at = file->bytes + file->at;
    uint64_t body, each, wanted;
    uint32_t i;

    if (file->at == file->size) return 0;
    memset(out, 0, sizeof *out);
    if (file->size - file->at < sizeof out->head) goto malformed;
    memcpy(&out->head, at, sizeof out->head);
    body = out->head.codes_bytes + out->head.scales_bytes + 4 * out->head.tokens * out->head.cols;
    body = (body + 3) / 4 * 4;
    each = 4 * out->head.rows * (out->head.tokens == 0 ? out->head.cols : out->head.tokens);
    wanted = sizeof out->head + body + out->head.results * each;
    if (out->head.results < 1 || out->head.results > 2 || file->size - file->at < wanted)
        goto malformed;
    out->codes = at + sizeof out->head;
    out->scales = out->codes + out->head.codes_bytes;
    out->x = out->scales + out->head.scales_bytes;
    for (i = 0; i < out->head.results; i++) out->results[i] = out->codes + body + i * each;
    file->at += wanted;
    return 1;
malformed:
    fprintf(stderr, "golden record at byte %zu is malformed\n", file->at);
    exit(EXIT_FAILURE);
}

static inline void golden_close(golden_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
}

#endif
