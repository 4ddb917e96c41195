/* GGUF reader: the optional look at the data. A file can be well formed and still hold scales that
 * are not finite (a writer that divided zero by zero); the products then are NaN. */
#include "gguf.h"
#include "gguf_internal.h"
#include "text.h"

#include <string.h>
#include <tenon/format.h>

/* How the numbers that must be finite are stored. */
typedef enum number_kind {
    NUMBER_F32,
    NUMBER_F16,
    NUMBER_BF16,
    NUMBER_E8M0,
    NUMBER_E4M3
} number_kind;

typedef struct scale_place {
    number_kind kind;
    uint32_t count;  /* of them in a block, one after the other ... */
    uint32_t offset; /* ... from this byte on */
} scale_place;

/* Where each format keeps its scales and minima (SPEC.md 3.1). Returns false for other formats. */
static bool scales_of(uint32_t format, scale_place *out)
{
    switch (format) {
    case TENON_FORMAT_F32: *out = (scale_place){NUMBER_F32, 1, 0}; return true;
    case TENON_FORMAT_F16: *out = (scale_place){NUMBER_F16, 1, 0}; return true;
    case TENON_FORMAT_BF16: *out = (scale_place){NUMBER_BF16, 1, 0}; return true;
    case TENON_FORMAT_Q4_0:
    case TENON_FORMAT_Q5_0:
    case TENON_FORMAT_Q8_0:
    case TENON_FORMAT_IQ4_NL:
    case TENON_FORMAT_IQ4_XS: *out = (scale_place){NUMBER_F16, 1, 0}; return true;
    case TENON_FORMAT_Q4_1:
    case TENON_FORMAT_Q5_1:
    case TENON_FORMAT_Q4_K:
    case TENON_FORMAT_Q5_K: *out = (scale_place){NUMBER_F16, 2, 0}; return true;
    case TENON_FORMAT_Q2_K: *out = (scale_place){NUMBER_F16, 2, 80}; return true;
    case TENON_FORMAT_Q3_K: *out = (scale_place){NUMBER_F16, 1, 108}; return true;
    case TENON_FORMAT_Q6_K: *out = (scale_place){NUMBER_F16, 1, 208}; return true;
    case TENON_FORMAT_TQ1_0: *out = (scale_place){NUMBER_F16, 1, 52}; return true;
    case TENON_FORMAT_TQ2_0: *out = (scale_place){NUMBER_F16, 1, 64}; return true;
    case TENON_FORMAT_MXFP4: *out = (scale_place){NUMBER_E8M0, 1, 0}; return true;
    case TENON_FORMAT_NVFP4: *out = (scale_place){NUMBER_E4M3, 4, 0}; return true;
    default: return false;
    }
}

static bool finite_at(const uint8_t *at, number_kind kind)
{
    switch (kind) {
    case NUMBER_F32: return (((uint32_t)at[3] << 8 | at[2]) & 0x7F80u) != 0x7F80u;
    case NUMBER_F16: return (at[1] & 0x7Cu) != 0x7Cu;
    case NUMBER_BF16: return (((uint32_t)at[1] << 8 | at[0]) & 0x7F80u) != 0x7F80u;
    case NUMBER_E8M0: return at[0] != 0xFF;
    case NUMBER_E4M3: return (at[0] & 0x7Fu) != 0x7Fu;
    }
    return true;
}

static uint32_t size_of_kind(number_kind kind)
{
    switch (kind) {
    case NUMBER_F32: return 4;
    case NUMBER_F16:
    case NUMBER_BF16: return 2;
    case NUMBER_E8M0:
    case NUMBER_E4M3: return 1;
    }
    return 1;
}

bool gguf_check_data(const gguf_tensor *tensor, uint64_t *block, gguf_error *error)
{
    const uint8_t *at = tensor->data;
    tenon_format_info info;
    scale_place place;
    char name[140];
    uint64_t blocks, b;
    uint32_t i, size;
    if (at == NULL || !tenon_format_find(tensor->format, &info) ||
        !scales_of(tensor->format, &place))
        return true;
    size = size_of_kind(place.kind);
    blocks = tensor->bytes / info.block_bytes;
    for (b = 0; b < blocks; b++, at += info.block_bytes) {
        for (i = 0; i < place.count; i++)
            if (!finite_at(at + place.offset + i * size, place.kind)) break;
        if (i == place.count) continue;
        *block = b;
        return gguf_fail(error,
                         "tensor '%s': block %llu (row %llu, from input %llu) has a %s that is not "
                         "finite",
                         text_escape(name, sizeof name, tensor->name, strlen(tensor->name)),
                         (unsigned long long)b,
                         (unsigned long long)(b * info.block_inputs / tensor->cols),
                         (unsigned long long)(b * info.block_inputs % tensor->cols),
                         info.block_inputs == 1 ? "value" : "scale");
    }
    return true;
}
