/* The tokenizer on files that are wrong, and when memory runs out. */
#include "tokenizer_rig.h"

#include <math.h>
#include <tools/engine/chat.h>

/* --- memory: the linker sends the product's calls here -------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long allocations_left = -1; /* -1: no limit */

static bool refuse_memory(void)
{
    if (allocations_left < 0) return false;
    if (allocations_left == 0) return true;
    allocations_left--;
    return false;
}

void *__wrap_malloc(size_t size)
{
    return refuse_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse_memory() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuse_memory() ? NULL : __real_realloc(old, size);
}

/* --- files ---------------------------------------------------------------------------------- */

static rig self;

static void add_gpt2(void)
{
    memset(&self, 0, sizeof self);
    self.model = "gpt2";
    self.pre = "llama-bpe";
    rig_add_letters(&self);           /* 0 to 255 */
    rig_add(&self, "ab", NORMAL, 0);  /* 256 */
    rig_add(&self, "abc", NORMAL, 0); /* 257 */
    rig_add(&self, "<|im_start|>", CONTROL, 0);
    rig_add(&self, "<|im_end|>", CONTROL, 0);
    rig_merge(&self, "a", "b");
    rig_merge(&self, "ab", "c");
}

static void add_llama(void)
{
    memset(&self, 0, sizeof self);
    self.model = "llama";
    self.no_merges = true;
    rig_add_bytes(&self);
    rig_add(&self, "a", NORMAL, -1);
    rig_add(&self, "b", NORMAL, -2);
    rig_add(&self, "ab", NORMAL, -3);
    rig_add(&self, "<unk>", UNKNOWN, 0);
    rig_add(&self, "<s>", CONTROL, 0);
}

START_TEST(models_that_are_not_known_are_named)
{
    add_gpt2();
    self.model = "bert\n";
    rig_refused(&self, "tokenizer.ggml.model is 'bert\\x0a'", "known are gpt2, llama");
    add_gpt2();
    self.model = NULL;
    rig_refused(&self, "tokenizer.ggml.model", "missing");
    add_gpt2();
    self.pre = "deepseek-llm";
    rig_refused(&self, "tokenizer.ggml.pre is 'deepseek-llm'",
                "known are gpt-2, llama-bpe, qwen2, smollm");
    add_gpt2();
    self.pre = "";
    rig_refused(&self, "tokenizer.ggml.pre is ''", "known are");
    add_gpt2();
    self.pre = NULL;
    rig_refused(&self, "tokenizer.ggml.pre", "missing");
}
END_TEST

START_TEST(scores_are_checked)
{
    uint32_t kinds;
    for (kinds = 0; kinds < 2; kinds++) { /* a kind that does not use them checks them as well */
        kinds == 0 ? add_llama() : add_gpt2();
        self.no_scores = true;
        rig_array(&self.extra, "tokenizer.ggml.scores", 0, self.count); /* u8 */
        bytes_zeros(&self.extra, self.count);
        self.extra_keys++;
        rig_refused(&self, "tokenizer.ggml.scores", "u8");
        kinds == 0 ? add_llama() : add_gpt2();
        self.no_scores = true;
        rig_array(&self.extra, "tokenizer.ggml.scores", KEY_F32, self.count - 1);
        bytes_zeros(&self.extra, (self.count - 1) * 4);
        self.extra_keys++;
        rig_refused(&self, "tokenizer.ggml.scores", "f32");
    }
    add_llama();
    self.no_scores = true;
    rig_refused(&self, "tokenizer.ggml.scores", "missing");
    add_llama();
    self.words[257].score = NAN;
    rig_refused(&self, "tokenizer.ggml.scores", "token 257");
    add_llama();
    self.words[258].score = INFINITY; /* an order like others */
    tokenizer_close(rig_open(&self));
}
END_TEST

START_TEST(tokens_are_checked)
{
    add_gpt2();
    rig_add(&self, "ab", NORMAL, 0);
    rig_refused(&self, "'ab' twice", "as 256 and 260");
    memset(&self, 0, sizeof self);
    self.model = "llama";
    rig_refused(&self, "tokenizer.ggml.tokens", "empty");
    add_gpt2();
    rig_add(&self, "", UNUSED, 0); /* holes are fine, also several */
    rig_add(&self, "", CONTROL, 0);
    tokenizer_close(rig_open(&self));
    add_llama();
    self.words[7].type = 7;
    rig_refused(&self, "tokenizer.ggml.token_type says 7 of token 7", "");
    add_llama();
    self.words[7].type = -1;
    rig_refused(&self, "tokenizer.ggml.token_type says -1 of token 7", "");
    add_llama();
    self.no_types = true;
    rig_array(&self.extra, "tokenizer.ggml.token_type", KEY_I32, 1);
    bytes_u32(&self.extra, 1);
    self.extra_keys++;
    rig_refused(&self, "tokenizer.ggml.token_type", "i32");
    add_llama();
    self.words[256].type = BYTE;
    rig_refused(&self, "byte token 256, 'a'", "names no byte");
    add_llama();
    rig_add(&self, "<0x1f>", BYTE, 0); /* another spelling of <0x1F> */
    rig_refused(&self, "'<0x1f>'", "has a token");
}
END_TEST

START_TEST(merges_are_checked)
{
    add_gpt2();
    rig_merge(&self, "ab", "nothing");
    rig_refused(&self, "merge 2, 'ab nothing'", "names a token that does not exist");
    add_gpt2();
    rig_merge(&self, "abc", "ab");
    rig_refused(&self, "merge 2, 'abc ab'", "gives a token that does not exist");
    add_gpt2();
    strcpy(self.merges[1], "abc");
    rig_refused(&self, "merge 1, 'abc'", "is no pair");
    add_gpt2();
    strcpy(self.merges[1], "ab ");
    rig_refused(&self, "merge 1, 'ab '", "is no pair");
    add_gpt2();
    strcpy(self.merges[1], " ");
    rig_refused(&self, "merge 1", "is no pair");
    add_gpt2();
    strcpy(self.merges[1], "");
    rig_refused(&self, "merge 1", "is no pair");
    add_gpt2();
    self.no_merges = true;
    rig_refused(&self, "tokenizer.ggml.merges", "missing");
    add_gpt2();
    rig_merge(&self, "a", "b"); /* a pair again: its first rank holds */
    tokenizer_close(rig_open(&self));
}
END_TEST

START_TEST(ids_are_checked)
{
    static const char *const names[] = {
        "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        add_llama();
        rig_id(&self, names[i], self.count);
        rig_refused(&self, names[i], "there are 261 tokens");
        add_llama();
        rig_id(&self, names[i], self.count - 1);
        tokenizer_close(rig_open(&self));
        add_llama();
        rig_flag(&self, names[i], true);
        rig_refused(&self, names[i], "");
    }
    add_llama();
    rig_id(&self, "tokenizer.ggml.add_bos_token", 1);
    rig_refused(&self, "tokenizer.ggml.add_bos_token", "bool");
    add_llama();
    rig_id(&self, "tokenizer.ggml.add_space_prefix", 1);
    rig_refused(&self, "tokenizer.ggml.add_space_prefix", "bool");
}
END_TEST

START_TEST(special_tokens_have_a_longest_length)
{
    byte_list file = {0};
    gguf_error error;
    tokenizer *words;
    size_t length;
    for (length = 4096; length <= 4097; length++) {
        gguf_head(&file, 0, 5);
        rig_array(&file, "tokenizer.ggml.tokens", KEY_TEXT, 1);
        bytes_u64(&file, length);
        bytes_zeros(&file, length);
        rig_array(&file, "tokenizer.ggml.token_type", KEY_I32, 1);
        bytes_u32(&file, CONTROL);
        rig_array(&file, "tokenizer.ggml.scores", KEY_F32, 1);
        bytes_u32(&file, 0);
        gguf_key_text(&file, "tokenizer.ggml.model", "llama");
        gguf_key_text(&file, "tokenizer.ggml.pre", "default");
        words = rig_open_bytes(&file, &error);
        ck_assert((words != NULL) == (length == 4096));
        if (words == NULL) ck_assert_ptr_nonnull(strstr(error.text, "special token 0"));
        tokenizer_close(words);
        bytes_free(&file);
    }
}
END_TEST

/* --- everything at once ---------------------------------------------------------------------- */

static const char template
    [] = "{{'<|im_start|>' + x + '<|im_end|>'}} <|im_start|>system\\nBe<|im_end|>";

static void use(const tokenizer *words)
{
    static const char text[] = "abc ab<s>\n\n<|im_start|>12 \xC3\xA9\xFF";
    token_list tokens = {0};
    size_t i, n, at;
    for (at = 0; at < sizeof text; at++) {
        if (!tokenizer_encode(words, text, at, TOKENIZER_BEGIN, &tokens, NULL, NULL)) continue;
        for (i = 0; i < tokens.count; i++)
            ck_assert_ptr_nonnull(tokenizer_piece(words, tokens.ids[i], &n));
        tokens.count = 0;
    }
    token_list_free(&tokens);
}

START_TEST(files_with_a_changed_byte_do_no_harm)
{
    uint64_t seed = 5;
    uint64_t opened_count = 0;
    int kind, round;
    for (kind = 0; kind < 2; kind++) {
        byte_list file;
        kind == 0 ? add_gpt2() : add_llama();
        self.chat_template = template;
        rig_id(&self, "tokenizer.ggml.bos_token_id", 3);
        file = rig_file(&self);
        bytes_free(&self.extra);
        for (round = 0; round < 1500; round++) {
            size_t at = rig_random(&seed) % file.size;
            uint8_t old = file.data[at];
            gguf_error error = {{0}};
            gguf *opened;
            tokenizer *words = NULL;
            file.data[at] = (uint8_t)(round % 3 == 0 ? 0xFF : rig_random(&seed));
            opened = gguf_open_memory(file.data, file.size, &error);
            if (opened != NULL) words = tokenizer_open(opened, &error);
            if (words != NULL) {
                chat_close(chat_open(opened, words, &error));
                use(words);
                opened_count++;
            }
            tokenizer_close(words);
            gguf_close(opened);
            file.data[at] = old;
        }
        bytes_free(&file);
    }
    ck_assert_uint_gt(opened_count, 100); /* else this tested the reader of files alone */
}
END_TEST

/* *kept: a list that was added to in vain is as before. No assertion here: they need memory, too. */
static bool open_and_use(const gguf *file, bool *kept, gguf_error *error)
{
    static const char text[] = "abc ab<s>\n\n<|im_start|>12 \xC3\xA9\xFF";
    const chat_message message = {"user", text, sizeof text - 1};
    token_list tokens = {0};
    token_stream stream = {0};
    chat_prompt prompt = {0};
    tokenizer *words = tokenizer_open(file, error);
    chat *talk = NULL;
    const char *out;
    size_t n;
    bool good = false;
    if (words == NULL) goto out;
    if (!token_list_add(&tokens, 1)) goto out;
    if (!tokenizer_encode(words, text, sizeof text - 1, 0, &tokens, NULL, error)) {
        *kept = *kept && tokens.count == 1 && tokens.ids[0] == 1;
        goto out;
    }
    if (gguf_find_key(file, "tokenizer.chat_template") != NULL) {
        talk = chat_open(file, words, error);
        if (talk == NULL || !chat_build(talk, &message, 1, true, &prompt, error) ||
            !tokenizer_encode_parts(words, prompt.parts, prompt.count, prompt.flags, &tokens, NULL,
                                    error))
            goto out;
    }
    good = token_stream_add(&stream, text, sizeof text - 1, &out, &n) &&
           token_stream_end(&stream, &out, &n);
out:
    chat_prompt_free(&prompt);
    chat_close(talk);
    token_stream_free(&stream);
    token_list_free(&tokens);
    tokenizer_close(words);
    return good;
}

START_TEST(memory_may_run_out_anywhere)
{
    int kind;
    for (kind = 0; kind < 2; kind++) {
        byte_list bytes;
        gguf_error error = {{0}};
        gguf *file;
        long allowed;
        bool good = false, kept = true;
        kind == 0 ? add_gpt2() : add_llama();
        if (kind == 0) self.chat_template = template;
        bytes = rig_file(&self);
        file = gguf_open_memory(bytes.data, bytes.size, &error);
        ck_assert_ptr_nonnull(file);
        for (allowed = 0; allowed < 200 && !good; allowed++) {
            allocations_left = allowed;
            good = open_and_use(file, &kept, &error);
            allocations_left = -1;
        }
        ck_assert(good);
        ck_assert(kept);
        ck_assert_int_gt(allowed, 12); /* else nothing was refused on the way */
        gguf_close(file);
        bytes_free(&bytes);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer files");
    TCase *tcase = tcase_create("tokenizer files");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, models_that_are_not_known_are_named);
    tcase_add_test(tcase, scores_are_checked);
    tcase_add_test(tcase, tokens_are_checked);
    tcase_add_test(tcase, merges_are_checked);
    tcase_add_test(tcase, ids_are_checked);
    tcase_add_test(tcase, special_tokens_have_a_longest_length);
    tcase_add_test(tcase, files_with_a_changed_byte_do_no_harm);
    tcase_add_test(tcase, memory_may_run_out_anywhere);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
