/* Fuzz target: a vocabulary and merges made of any bytes, and any text encoded with them.
 *
 * Byte 0 chooses kind, pattern and flags; with its highest bit the rest is a GGUF file as it is. Else
 * the rest has three parts that a zero ends: tokens, a line each (first its type, then its score);
 * merges, a line each; the text. The 256 tokens of single bytes are put before, or not. */
#include "../unit/gguf_bytes.h"

#include <stdbool.h>
#include <stdio.h>
#include <tools/engine/tokenizer.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NORMAL = 1, BYTE = 6, KEY_I32 = 5, KEY_F32 = 6, KEY_BOOL = 7, KEY_TEXT = 8, KEY_ARRAY = 9 };
enum { LLAMA = 1, LETTERS = 2, SPACE = 4, PATTERN = 8, BEGIN = 32, RAW = 128 };

/* What the file is made of. */
typedef struct parts {
    byte_list words, types, scores, merges;
    uint64_t word_count, merge_count;
} parts;

static void add_bytes(byte_list *out, const uint8_t *bytes, size_t count)
{
    bytes_u64(out, count);
    bytes_add(out, bytes, count);
}

static void add_word(parts *self, const uint8_t *bytes, size_t count, uint32_t type, float score)
{
    add_bytes(&self->words, bytes, count);
    bytes_u32(&self->types, type);
    bytes_add(&self->scores, &score, 4);
    self->word_count++;
}

/* Every single byte: of gpt2 in its alphabet, of llama as "<0x00>". */
static void add_letters(parts *self, bool llama)
{
    unsigned byte, other = 256;
    for (byte = 0; byte < 256; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        unsigned letter = itself ? byte : other++;
        char text[8] = {0};
        if (llama) {
            snprintf(text, sizeof text, "<0x%02X>", byte);
        } else if (letter < 0x80) {
            text[0] = (char)letter;
        } else {
            text[0] = (char)(0xC0 | letter >> 6);
            text[1] = (char)(0x80 | (letter & 0x3F));
        }
        add_word(self, (const uint8_t *)text, strlen(text), llama ? BYTE : NORMAL, 0.0f);
    }
}

/* The bytes up to the next end, and where the rest begins. */
static const uint8_t *cut(const uint8_t **at, const uint8_t *end, uint8_t by, size_t *length)
{
    const uint8_t *begin = *at, *found = memchr(begin, by, (size_t)(end - begin));
    *length = (size_t)((found != NULL ? found : end) - begin);
    *at = found != NULL ? found + 1 : end;
    return begin;
}

static void array(byte_list *out, const char *name, uint32_t type, uint64_t count,
                  const byte_list *values)
{
    bytes_string(out, name);
    bytes_u32(out, KEY_ARRAY);
    bytes_u32(out, type);
    bytes_u64(out, count);
    bytes_add(out, values->data, values->size);
}

static void add_tokens(parts *self, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        size_t length;
        const uint8_t *line = cut(&at, end, '\n', &length);
        if (length < 2)
            add_word(self, line, length, NORMAL, 0.0f);
        else
            add_word(self, line + 2, length - 2, line[0] % 8, (float)line[1] - 128.0f);
    }
}

static void add_merges(parts *self, const uint8_t *at, const uint8_t *end)
{
    for (; at < end; self->merge_count++) {
        size_t length;
        const uint8_t *line = cut(&at, end, '\n', &length);
        add_bytes(&self->merges, line, length);
    }
}

/* The file that the first two parts describe; *at is moved on to the text. */
static byte_list make_file(uint8_t choice, const uint8_t **at, const uint8_t *end)
{
    static const char *const patterns[] = {"gpt-2", "llama-bpe", "qwen2", "smollm"};
    const bool llama = (choice & LLAMA) != 0;
    byte_list out = {0};
    parts made = {.word_count = 0};
    const uint8_t *part;
    size_t length;
    if ((choice & LETTERS) != 0) add_letters(&made, llama);
    part = cut(at, end, 0, &length);
    add_tokens(&made, part, part + length);
    part = cut(at, end, 0, &length);
    add_merges(&made, part, part + length);
    gguf_head(&out, 0, 8);
    gguf_key_text(&out, "tokenizer.ggml.model", llama ? "llama" : "gpt2");
    gguf_key_text(&out, "tokenizer.ggml.pre", patterns[choice / PATTERN % 4]);
    array(&out, "tokenizer.ggml.tokens", KEY_TEXT, made.word_count, &made.words);
    array(&out, "tokenizer.ggml.token_type", KEY_I32, made.word_count, &made.types);
    array(&out, "tokenizer.ggml.scores", KEY_F32, made.word_count, &made.scores);
    array(&out, "tokenizer.ggml.merges", KEY_TEXT, made.merge_count, &made.merges);
    gguf_key_u32(&out, "tokenizer.ggml.bos_token_id", 0);
    bytes_string(&out, "tokenizer.ggml.add_space_prefix");
    bytes_u32(&out, KEY_BOOL);
    bytes_number(&out, (choice & SPACE) != 0, 1);
    bytes_free(&made.words);
    bytes_free(&made.types);
    bytes_free(&made.scores);
    bytes_free(&made.merges);
    return out;
}

/* Every id is one of the vocabulary, the same text gives the same ids whole and in two pieces, and
 * where single bytes are tokens, nothing is lost and the pieces of gpt2 are the text again. */
static void encode(const tokenizer *words, uint8_t choice, const char *text, size_t length)
{
    const token_part halves[] = {{text, length / 2, false},
                                 {text + length / 2, length - length / 2, false}};
    token_list whole = {0}, joined = {0};
    gguf_error error = {{0}};
    uint64_t lost = 0, lost_again = 0;
    const uint32_t flags = (choice & BEGIN) != 0 ? TOKENIZER_BEGIN : 0;
    const bool whole_again = (choice & (LLAMA | LETTERS)) == LETTERS;
    size_t i, n, at = 0;
    if (!tokenizer_encode(words, text, length, flags, &whole, &lost, &error) ||
        !tokenizer_encode_parts(words, halves, 2, flags, &joined, &lost_again, &error))
        abort();
    if (lost != lost_again || whole.count != joined.count) abort();
    if (whole_again && lost != 0) abort();
    for (i = 0; i < whole.count; i++) {
        const char *piece = tokenizer_piece(words, whole.ids[i], &n);
        if (whole.ids[i] != joined.ids[i] || whole.ids[i] >= tokenizer_count(words)) abort();
        if (piece == NULL) abort();
        if (!whole_again || (flags != 0 && i == 0)) continue;
        if (n > length - at || memcmp(piece, text + at, n) != 0) abort();
        at += n;
    }
    if (whole_again && at != length) abort();
    token_list_free(&whole);
    token_list_free(&joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sample[] = "ab <s> caf\xc3\xa9 42\n\xff<0x0A>";
    const uint8_t choice = size > 0 ? data[0] : 0;
    const uint8_t *at = data + (size > 0), *end = data + size;
    gguf_error error = {{0}};
    byte_list file = {0};
    tokenizer *words = NULL;
    gguf *opened;
    if ((choice & RAW) != 0) {
        bytes_add(&file, at, (size_t)(end - at));
        at = (const uint8_t *)sample;
        end = at + sizeof sample - 1;
    } else {
        file = make_file(choice, &at, end);
    }
    opened = gguf_open_memory(file.data, file.size, &error);
    if (opened != NULL) words = tokenizer_open(opened, &error);
    gguf_close(opened);
    bytes_free(&file); /* a tokenizer keeps nothing of the file */
    if (words == NULL) {
        /* a refusal says why, on one line */
        if (error.text[0] == '\0' || strpbrk(error.text, "\r\n\033") != NULL) abort();
        return 0;
    }
    encode(words, (choice & RAW) != 0 ? LLAMA : choice, (const char *)at, (size_t)(end - at));
    tokenizer_close(words);
    return 0;
}
