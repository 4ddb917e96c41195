/* Reads operations.bin of this folder; make_operations.py writes it and README.md describes it.
 *
 * The file is little-endian: "TENONOPS", u32 version 1, u32 records, then the records: a name of 32
 * bytes, u32 parameters[16], u32 arrays, and for each array its u32 length and that many u32. */
#ifndef TENON_TESTS_OPERATIONS_H
#define TENON_TESTS_OPERATIONS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_ARRAYS 6u

typedef struct golden_operation {
    char name[32];
    uint32_t parameters[16];
    uint32_t arrays;
    uint32_t length[GOLDEN_ARRAYS];
    uint32_t *values[GOLDEN_ARRAYS]; /* bits of float32; owned */
} golden_operation;

typedef struct golden_operations {
    FILE *file;
    uint32_t count;
} golden_operations;

static inline void golden_operation_read(FILE *file, void *to, size_t bytes)
{
    if (fread(to, 1, bytes, file) == bytes) return;
    fprintf(stderr, "operations.bin cannot be read\n");
    exit(EXIT_FAILURE);
}

/* Exits the test program when the file cannot be read: nothing can be tested without it. */
static inline golden_operations golden_operations_open(const char *folder)
{
    golden_operations self = {0};
    char path[4096], magic[8];
    uint32_t version = 0;

    snprintf(path, sizeof path, "%s/operations.bin", folder);
    self.file = fopen(path, "rb");
    if (self.file == NULL) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        exit(EXIT_FAILURE);
    }
    golden_operation_read(self.file, magic, sizeof magic);
    golden_operation_read(self.file, &version, sizeof version);
    golden_operation_read(self.file, &self.count, sizeof self.count);
    if (memcmp(magic, "TENONOPS", 8) != 0 || version != 1) {
        fprintf(stderr, "%s: not the file that is expected\n", path);
        exit(EXIT_FAILURE);
    }
    return self;
}

static inline void golden_operation_free(golden_operation *record)
{
    uint32_t i;
    for (i = 0; i < GOLDEN_ARRAYS; i++) free(record->values[i]);
    memset(record, 0, sizeof *record);
}

/* The next record, which the caller frees; call it count times. */
static inline golden_operation golden_operations_next(golden_operations *self)
{
    golden_operation record = {0};
    uint32_t i;

    golden_operation_read(self->file, record.name, sizeof record.name);
    golden_operation_read(self->file, record.parameters, sizeof record.parameters);
    golden_operation_read(self->file, &record.arrays, sizeof record.arrays);
    if (record.arrays > GOLDEN_ARRAYS) {
        fprintf(stderr, "operations.bin has a malformed record\n");
        exit(EXIT_FAILURE);
    }
    for (i = 0; i < record.arrays; i++) {
        golden_operation_read(self->file, &record.length[i], sizeof record.length[i]);
        record.values[i] = malloc(4 * (size_t)record.length[i] + 4);
        if (record.values[i] == NULL) exit(EXIT_FAILURE);
        golden_operation_read(self->file, record.values[i], 4 * (size_t)record.length[i]);
    }
    return record;
}

static inline void golden_operations_close(golden_operations *self)
{
    fclose(self->file);
}

#endif
