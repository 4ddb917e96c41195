/* `tenon make-model FILE`: a small GGUF model with random weights in every format of SPEC.md 3.1,
 * for tests, and for the quickstart when the real model cannot be had. The same seed gives the
 * same bytes. Scales are finite and of everyday size; all other bits are random. */
#include "command.h"
#include "gguf.h"
#include "json.h"
#include "options.h"
#include "output_file.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/format.h>

#define ALIGNMENT 32u

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void put(uint8_t *at, uint64_t value, uint32_t bytes)
{
    uint32_t i;
    for (i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

/* A binary16 from 2^-8 to 2^-4 in size, of either sign. */
static void put_f16(uint8_t *at, uint64_t random)
{
    put(at, (random & 0x83FFu) | (7 + (random >> 16) % 4) << 10, 2);
}

/* A binary32 from 2^-6 to 2 in size, of either sign. */
static uint32_t random_f32(uint64_t random)
{
    return (uint32_t)((random & 0x807FFFFFu) | (121 + (random >> 32) % 7) << 23);
}

/* Makes the scales of a block of random bytes finite. */
static void mend_block(uint32_t format, uint8_t *block, uint64_t random)
{
    uint32_t i;
    switch (format) {
    case TENON_FORMAT_F32: put(block, random_f32(random), 4); break;
    case TENON_FORMAT_F16: put_f16(block, random); break;
    case TENON_FORMAT_BF16: put(block, random_f32(random) >> 16, 2); break;
    case TENON_FORMAT_Q4_1:
    case TENON_FORMAT_Q5_1:
    case TENON_FORMAT_Q4_K:
    case TENON_FORMAT_Q5_K:
        put_f16(block, random);
        put_f16(block + 2, random >> 20);
        break;
    case TENON_FORMAT_Q2_K:
        put_f16(block + 80, random);
        put_f16(block + 82, random >> 20);
        break;
    case TENON_FORMAT_Q3_K: put_f16(block + 108, random); break;
    case TENON_FORMAT_Q6_K: put_f16(block + 208, random); break;
    case TENON_FORMAT_TQ1_0: put_f16(block + 52, random); break;
    case TENON_FORMAT_TQ2_0: put_f16(block + 64, random); break;
    case TENON_FORMAT_MXFP4: block[0] = (uint8_t)(118 + random % 8); break;
    case TENON_FORMAT_NVFP4:
        for (i = 0; i < 4; i++) block[i] = (uint8_t)(0x20 + (random >> (8 * i) & 0x2F));
        break;
    default: put_f16(block, random); break;
    }
}

typedef struct plan {
    char name[GGUF_NAME_LENGTH + 1];
    tenon_format_info info;
    uint64_t cols, rows, bytes, offset;
} plan;

#define PLANS_LIMIT 64u

/* One tensor a format: rows of 576 inputs, as in a small model, where blocks allow it; else 768. */
static uint32_t make_plans(plan *plans, uint64_t rows, uint64_t *data_bytes)
{
    uint32_t i, count = 0, format;
    uint64_t offset = 0;
    for (i = 0; (format = tenon_format_at(i)) != TENON_FORMAT_NONE && count < PLANS_LIMIT; i++) {
        plan *p = &plans[count];
        if (!tenon_format_find(format, &p->info) || p->info.gguf < 0) continue;
        p->cols = 576 % p->info.block_inputs == 0 ? 576 : 768;
        p->rows = rows;
        p->bytes = tenon_row_bytes(format, p->cols) * rows; /* rows is at most 2^20 */
        p->offset = offset;
        snprintf(p->name, sizeof p->name, "blk.%lu.%s.weight", (unsigned long)count, p->info.text);
        offset = (offset + p->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        count++;
    }
    *data_bytes = offset;
    return count;
}

/* Everything is written through one counter, so that the data begins where it must. */
typedef struct writer {
    FILE *stream;
    uint64_t written;
} writer;

static void write_bytes(writer *self, const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, self->stream) == count) self->written += count;
}

static void write_number(writer *self, uint64_t value, uint32_t bytes)
{
    uint8_t out[8];
    put(out, value, bytes);
    write_bytes(self, out, bytes);
}

static void write_string(writer *self, const char *text)
{
    write_number(self, strlen(text), 8);
    write_bytes(self, text, strlen(text));
}

static void write_head(writer *self, const plan *plans, uint32_t count, uint64_t seed)
{
    static const uint8_t zeros[ALIGNMENT];
    uint32_t i;
    write_bytes(self, "GGUF", 4);
    write_number(self, 3, 4);
    write_number(self, count, 8);
    write_number(self, 4, 8);
    write_string(self, "general.architecture");
    write_number(self, GGUF_STRING, 4);
    write_string(self, "tenon-random");
    write_string(self, "general.name");
    write_number(self, GGUF_STRING, 4);
    write_string(self, "random weights in every format");
    write_string(self, "general.alignment");
    write_number(self, GGUF_U32, 4);
    write_number(self, ALIGNMENT, 4);
    write_string(self, "tenon.seed");
    write_number(self, GGUF_U64, 4);
    write_number(self, seed, 8);
    for (i = 0; i < count; i++) {
        write_string(self, plans[i].name);
        write_number(self, 2, 4);
        write_number(self, plans[i].cols, 8);
        write_number(self, plans[i].rows, 8);
        write_number(self, (uint64_t)plans[i].info.gguf, 4);
        write_number(self, plans[i].offset, 8);
    }
    write_bytes(self, zeros, (size_t)((ALIGNMENT - self->written % ALIGNMENT) % ALIGNMENT));
}

static void write_data(writer *self, const plan *p, uint64_t seed)
{
    static const uint8_t zeros[ALIGNMENT];
    uint64_t state = seed ^ (uint64_t)p->info.format << 56, b, i;
    uint8_t block[256];
    for (b = 0; b < p->bytes / p->info.block_bytes && ferror(self->stream) == 0; b++) {
        for (i = 0; i < p->info.block_bytes; i += 8) put(block + i, next(&state), 8);
        mend_block(p->info.format, block, next(&state));
        write_bytes(self, block, p->info.block_bytes);
    }
    write_bytes(self, zeros, (size_t)((ALIGNMENT - self->written % ALIGNMENT) % ALIGNMENT));
}

int command_make_model(int argc, char **argv)
{
    uint64_t seed = 1, rows = 67, data_bytes = 0;
    const option_entry entries[] = {
        {"seed", OPTION_U64, &seed, 0, UINT64_MAX, NULL, "N", "another seed, other weights", NULL},
        {"rows", OPTION_U64, &rows, 1, 1u << 20, NULL, "N", "rows of every tensor", NULL},
        {0},
    };
    const option_usage usage = {
        "make-model",
        "[options] FILE",
        "Writes a small GGUF model with random weights, one tensor in every format. Nothing can "
        "be\n"
        "generated with it; it is for trying out verify, bench and inspect.\n",
        entries,
        1,
        1,
        NULL};
    plan plans[PLANS_LIMIT];
    options parsed;
    output_file file;
    writer out;
    uint32_t count, i;
    int status = options_parse(&parsed, &usage, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    status = EXIT_FAILED;
    count = make_plans(plans, rows, &data_bytes);
    if (!output_file_begin(&file, parsed.arguments.items[0])) {
        status = EXIT_REFUSED;
        goto out;
    }
    out.stream = file.stream;
    out.written = 0;
    write_head(&out, plans, count, seed);
    for (i = 0; i < count; i++) {
        terminal_progress("writing tensor %lu of %lu", (unsigned long)i + 1, (unsigned long)count);
        write_data(&out, &plans[i], seed);
    }
    terminal_progress_end();
    if (!output_file_commit(&file)) goto out;
    if (parsed.json) {
        json_t *document = json_document();
        json_put(document, "file", json_text(parsed.arguments.items[0]));
        json_put(document, "tensors", json_integer(count));
        json_put(document, "bytes", json_u64(out.written));
        if (!json_emit(document)) goto out;
    } else if (!parsed.quiet) {
        fprintf(terminal_out(), "%lu tensors, %" PRIu64 " bytes\n", (unsigned long)count,
                out.written);
    }
    status = EXIT_GOOD;
out:
    options_free(&parsed);
    return status;
}
