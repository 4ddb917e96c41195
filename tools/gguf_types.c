/* The tables of the GGUF file format: types of tensors and of key values. */
#include "gguf_internal.h"

#include <tenon/format.h>

gguf_type gguf_type_of(uint32_t number)
{
    /* current types that no provider multiplies with: number, name, inputs and bytes of a block */
    static const struct {
        uint32_t number;
        gguf_type type;
    } others[] = {
        {9, {"Q8_1", GGUF_TYPE_OTHER, 0, 32, 40}},
        {15, {"Q8_K", GGUF_TYPE_OTHER, 0, 256, 292}},
        {16, {"IQ2_XXS", GGUF_TYPE_OTHER, 0, 256, 66}},
        {17, {"IQ2_XS", GGUF_TYPE_OTHER, 0, 256, 74}},
        {18, {"IQ3_XXS", GGUF_TYPE_OTHER, 0, 256, 98}},
        {19, {"IQ1_S", GGUF_TYPE_OTHER, 0, 256, 50}},
        {21, {"IQ3_S", GGUF_TYPE_OTHER, 0, 256, 110}},
        {22, {"IQ2_S", GGUF_TYPE_OTHER, 0, 256, 82}},
        {24, {"I8", GGUF_TYPE_OTHER, 0, 1, 1}},
        {25, {"I16", GGUF_TYPE_OTHER, 0, 1, 2}},
        {26, {"I32", GGUF_TYPE_OTHER, 0, 1, 4}},
        {27, {"I64", GGUF_TYPE_OTHER, 0, 1, 8}},
        {28, {"F64", GGUF_TYPE_OTHER, 0, 1, 8}},
        {29, {"IQ1_M", GGUF_TYPE_OTHER, 0, 256, 56}},
        {41, {"Q1_0", GGUF_TYPE_OTHER, 0, 128, 18}},
    };
    static const struct {
        uint32_t number;
        const char *name;
    } retired[] = {
        {4, "Q4_2 (retired)"},        {5, "Q4_3 (retired)"},        {31, "Q4_0_4_4 (retired)"},
        {32, "Q4_0_4_8 (retired)"},   {33, "Q4_0_8_8 (retired)"},   {36, "IQ4_NL_4_4 (retired)"},
        {37, "IQ4_NL_4_8 (retired)"}, {38, "IQ4_NL_8_8 (retired)"},
    };
    gguf_type type = {"unknown", GGUF_TYPE_UNKNOWN, TENON_FORMAT_NONE, 0, 0};
    uint32_t i, format;
    for (i = 0; (format = tenon_format_at(i)) != 0; i++) {
        tenon_format_info info;
        if (!tenon_format_find(format, &info) || info.gguf < 0 || (uint32_t)info.gguf != number)
            continue;
        type.name = info.text;
        type.known = GGUF_TYPE_OFFERED;
        type.format = format;
        type.block_inputs = info.block_inputs;
        type.block_bytes = info.block_bytes;
        return type;
    }
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].number == number) return others[i].type;
    for (i = 0; i < sizeof retired / sizeof retired[0]; i++) {
        if (retired[i].number != number) continue;
        type.name = retired[i].name;
        type.known = GGUF_TYPE_RETIRED;
    }
    return type;
}

uint32_t gguf_value_size(uint32_t type)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL: return 1;
    case GGUF_U16:
    case GGUF_I16: return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32: return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64: return 8;
    default: return 0;
    }
}

const char *gguf_value_type_name(uint32_t type)
{
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}
