/* The tokenizer over small hand-made vocabularies: words, special tokens, bytes, limits, threads. */
#include "tokenizer_rig.h"

#include <pthread.h>
#include <tools/engine/tokenizer_split.h>

static rig self; /* too large for the stack; empty between tests */

static void check_parts(const tokenizer *words, const token_part *parts, size_t count,
                        const char *wanted)
{
    token_list tokens = {0};
    char shown[256] = "";
    size_t i, at = 0;
    ck_assert(tokenizer_encode_parts(words, parts, count, 0, &tokens, NULL, NULL));
    for (i = 0; i < tokens.count; i++)
        at += (size_t)snprintf(shown + at, sizeof shown - at, "%s%u", i == 0 ? "" : " ",
                               tokens.ids[i]);
    ck_assert_str_eq(shown, wanted);
    token_list_free(&tokens);
}

/* --- gpt2 ---------------------------------------------------------------------------------- */

static tokenizer *open_letters(const char *pre)
{
    self.model = "gpt2";
    self.pre = pre;
    rig_add_letters(&self);
    return rig_open(&self);
}

START_TEST(every_byte_has_a_letter_and_comes_back)
{
    tokenizer *words = open_letters("smollm");
    unsigned byte;
    for (byte = 0; byte < 256; byte++) {
        char text = (char)byte, wanted[8];
        size_t length;
        const char *piece = tokenizer_piece(words, byte, &length);
        ck_assert_uint_eq(length, 1);
        ck_assert_int_eq(piece[0], text);
        snprintf(wanted, sizeof wanted, "%u", byte);
        ck_assert_str_eq(rig_ids_n(words, &text, 1, 0), wanted);
    }
    tokenizer_close(words);
}
END_TEST

START_TEST(random_bytes_come_back)
{
    static const char *const families[] = {"gpt-2", "llama-bpe", "qwen2", "smollm"};
    size_t family;
    uint64_t seed = 3;
    for (family = 0; family < 4; family++) {
        tokenizer *words = open_letters(families[family]);
        int round;
        for (round = 0; round < 300; round++) {
            token_list tokens = {0};
            char text[40];
            size_t count = rig_random(&seed) % sizeof text, i;
            uint64_t lost = 99;
            for (i = 0; i < count; i++) {
                uint64_t r = rig_random(&seed);
                text[i] = " \n1a'\xC3\xA9\xE2"[r >> 9 & 7];
                if ((r & 0x100) != 0) text[i] = (char)r;
            }
            ck_assert(tokenizer_encode(words, text, count, 0, &tokens, &lost, NULL));
            ck_assert_uint_eq(lost, 0);
            ck_assert_uint_eq(tokens.count, count);
            for (i = 0; i < count; i++) ck_assert_uint_eq(tokens.ids[i], (unsigned char)text[i]);
            token_list_free(&tokens);
        }
        tokenizer_close(words);
    }
}
END_TEST

START_TEST(bytes_that_are_no_text_are_words_of_their_own)
{
    tokenizer *words;
    self.model = "gpt2";
    self.pre = "gpt-2";
    rig_add_letters(&self);
    rig_add(&self, "\xC3\x83\xC2\xA9", NORMAL, 0); /* the bytes C3 A9 as letters: 256 */
    rig_merge(&self, "\xC3\x83", "\xC2\xA9");
    rig_add(&self, "\xC3\x83\xC3\x83", NORMAL, 0); /* C3 C3: 257 */
    rig_merge(&self, "\xC3\x83", "\xC3\x83");
    rig_add(&self, "a\xC3\x83", NORMAL, 0); /* a C3: 258, never across the border */
    rig_merge(&self, "a", "\xC3\x83");
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "\xC3\xA9"), "256");
    ck_assert_str_eq(rig_ids(words, "a\xC3\xC3"), "97 257");
    ck_assert_str_eq(rig_ids(words, "a\xC3\xC3\xC3\xA9"), "97 257 256");
    ck_assert_str_eq(rig_ids_n(words, "a\0b\0", 4, 0), "97 0 98 0");
    tokenizer_close(words);
}
END_TEST

START_TEST(bytes_without_a_token_are_counted)
{
    tokenizer *words;
    token_list tokens = {0};
    uint64_t lost = 0;
    self.model = "gpt2";
    self.pre = "gpt-2";
    rig_add(&self, "a", NORMAL, 0);
    rig_add(&self, "aa", NORMAL, 0);
    rig_merge(&self, "a", "a");
    words = rig_open(&self);
    ck_assert(tokenizer_encode(words, "aaxaya", 6, 0, &tokens, &lost, NULL));
    ck_assert_uint_eq(lost, 2);
    ck_assert_str_eq(rig_ids(words, "aaxaya"), "1 0 0");
    token_list_free(&tokens);
    tokenizer_close(words);
}
END_TEST

START_TEST(a_whole_word_wins_where_the_family_says_so)
{
    static const char *const families[] = {"gpt-2", "llama-bpe"};
    int i;
    for (i = 0; i < 2; i++) {
        tokenizer *words;
        self.model = "gpt2";
        self.pre = families[i];
        rig_add_letters(&self);
        rig_add(&self, "ab", NORMAL, 0);
        rig_add(&self, "abc", NORMAL, 0); /* 257, and no merge leads to it */
        rig_add(&self,
                "\xC4\xA0"
                "abc",
                NORMAL, 0);
        rig_add(&self, "xyz", CONTROL, 0);
        rig_merge(&self, "a", "b");
        words = rig_open(&self);
        ck_assert_str_eq(rig_ids(words, "abc"), i == 0 ? "256 99" : "257");
        ck_assert_str_eq(rig_ids(words, "abc abc"), i == 0 ? "256 99 32 256 99" : "257 258");
        ck_assert_str_eq(rig_ids(words, "abcd"), "256 99 100");
        check_parts(words, &(token_part){"xyz", 3, true}, 1, "120 121 122");
        ck_assert_int_eq(tokenizer_adds_begin(words), i);
        tokenizer_close(words);
    }
}
END_TEST

START_TEST(a_pair_has_its_first_rank)
{
    tokenizer *words;
    self.model = "gpt2";
    self.pre = "gpt-2";
    rig_add_letters(&self);
    rig_add(&self, "bc", NORMAL, 0);
    rig_add(&self, "ab", NORMAL, 0);
    rig_merge(&self, "b", "c");
    rig_merge(&self, "a", "b");
    rig_merge(&self, "b", "c");
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "abc"), "97 256");
    tokenizer_close(words);
}
END_TEST

/* --- words --------------------------------------------------------------------------------- */

typedef struct shown_words {
    char text[512];
    size_t length;
} shown_words;

static bool show_word(void *context, const char *word, size_t length)
{
    shown_words *shown = context;
    if (shown->length > 0) shown->text[shown->length++] = '|';
    memcpy(shown->text + shown->length, word, length);
    shown->length += length;
    return true;
}

static void check_words(const char *family, const char *text, const char *wanted)
{
    bool whole, begin;
    gguf_error error = {{0}};
    splitter *split = splitter_open(family, strlen(family), &whole, &begin, &error);
    split_work *work;
    shown_words shown = {{0}, 0};
    int failure = 1;
    ck_assert_msg(split != NULL, "%s", error.text);
    work = split_work_make(split);
    ck_assert_ptr_nonnull(work);
    ck_assert(splitter_run(split, work, text, strlen(text), show_word, &shown, &failure));
    ck_assert_int_eq(failure, 0);
    ck_assert_msg(strcmp(shown.text, wanted) == 0, "%s: have '%s', want '%s'", family, shown.text,
                  wanted);
    split_work_free(work);
    splitter_close(split);
}

START_TEST(white_space_is_that_of_unicode)
{
    static const uint32_t blanks[] = {9,      10,     11,     12,     13,     0x20,   0x85,
                                      0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                      0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                      0x2029, 0x202F, 0x205F, 0x3000};
    static const uint32_t others[] = {8, 0x0E, 0x1F, 0x84, 0x180E, 0x200B, 0x2060, 0xFEFF};
    size_t i;
    for (i = 0; i < sizeof blanks / sizeof blanks[0] + sizeof others / sizeof others[0]; i++) {
        size_t at = i < sizeof blanks / sizeof blanks[0] ? i : i - sizeof blanks / sizeof blanks[0];
        bool blank = at == i;
        uint32_t code = blank ? blanks[at] : others[at];
        char letter[5] = {0}, text[16], wanted[16];
        if (code < 0x80) {
            letter[0] = (char)code;
        } else if (code < 0x800) {
            letter[0] = (char)(0xC0 | code >> 6);
            letter[1] = (char)(0x80 | (code & 0x3F));
        } else {
            letter[0] = (char)(0xE0 | code >> 12);
            letter[1] = (char)(0x80 | (code >> 6 & 0x3F));
            letter[2] = (char)(0x80 | (code & 0x3F));
        }
        /* a run of blanks leaves its last one alone, a run of marks stays together */
        snprintf(text, sizeof text, "1%s%s.", letter, letter);
        snprintf(wanted, sizeof wanted,
                 blank ? (code == 0x20 ? "1|%s|%s." : "1|%s|%s|.") : "1|%s%s.", letter, letter);
        check_words("gpt-2", text, wanted);
    }
}
END_TEST

START_TEST(words_are_those_of_the_family)
{
    check_words("gpt-2", "Hello world's  12 x!!\n", "Hello| world|'s| | 12| x|!!|\n");
    check_words("gpt-2", "IT'S a123 \n\n b", "IT|'|S| a|123| \n\n| b");
    check_words("gpt-2", "x\n  y\t\tz", "x|\n | y|\t|\t|z");
    check_words("gpt-2", "caf\xC3\xA9\xE3\x80\x80\xE5\x85\xA8", /* U+3000 is white space */
                "caf\xC3\xA9|\xE3\x80\x80|\xE5\x85\xA8");
    check_words("gpt-2",
                "a\xE1\xA0\x8E"
                "b",
                "a|\xE1\xA0\x8E|b"); /* U+180E is none */
    check_words("gpt-2", "", "");

    check_words("smollm", "a12 34", "a|1|2| |3|4");
    check_words("smollm", " 1  2", " |1|  |2"); /* digits stand alone: blanks do not join them */
    check_words("smollm", "it's 5\n\nok", "it|'s| |5|\n|\n|ok");

    check_words("qwen2", "a  b\n\n c123 I'LL", "a| | b|\n\n| c|1|2|3| I|'LL");
    check_words("qwen2", "x.\n\ny (z)", "x|.\n\n|y| (|z|)");
    check_words("qwen2", "#tag 'quoted'", "#tag| '|quoted|'"); /* one mark joins letters */
    check_words("qwen2", "a \r\n  b", "a| \r\n| | b");

    check_words("llama-bpe", "1234567 12", "123|456|7| |12");
    check_words("llama-bpe", "can't CAN'T", "can|'t| CAN|'T");
    check_words("llama-bpe", "!?\n\n\tx", "!?\n\n|\tx");
}
END_TEST

/* --- special tokens ------------------------------------------------------------------------ */

static tokenizer *open_specials(void)
{
    self.model = "gpt2";
    self.pre = "gpt-2";
    rig_add_letters(&self);
    rig_add(&self, "<s>", CONTROL, 0);           /* 256 */
    rig_add(&self, "<s>>", CONTROL, 0);          /* 257 */
    rig_add(&self, "<sep>", USER, 0);            /* 258 */
    rig_add(&self, "  ", USER, 0);               /* 259 */
    rig_add(&self, "    ", USER, 0);             /* 260 */
    rig_add(&self, "<u>", UNKNOWN, 0);           /* 261 */
    rig_add(&self, "<n>", NORMAL, 0);            /* 262 */
    rig_add(&self, "\xF0\x9F\x99\x82", USER, 0); /* 263 */
    rig_id(&self, "tokenizer.ggml.bos_token_id", 256);
    rig_id(&self, "tokenizer.ggml.eos_token_id", 257);
    rig_id(&self, "tokenizer.ggml.eot_token_id", UINT32_MAX);
    return rig_open(&self);
}

START_TEST(special_tokens_are_found_in_text)
{
    tokenizer *words = open_specials();
    ck_assert_str_eq(rig_ids(words, "<s>"), "256");
    ck_assert_str_eq(rig_ids(words, "<s>>"), "257");
    ck_assert_str_eq(rig_ids(words, "<s>>>"), "257 62");
    ck_assert_str_eq(rig_ids(words, "a<s><s>b"), "97 256 256 98");
    ck_assert_str_eq(rig_ids(words, "<s"), "60 115");
    ck_assert_str_eq(rig_ids(words, "<<s>"), "60 256");
    ck_assert_str_eq(rig_ids(words, "<sep><u>"), "258 261");
    ck_assert_str_eq(rig_ids(words, "<n>"), "60 110 62");
    ck_assert_str_eq(rig_ids(words, "       "), "260 259 32"); /* seven blanks */
    ck_assert_str_eq(rig_ids(words, "x\xF0\x9F\x99\x82y"), "120 263 121");
    ck_assert_str_eq(rig_ids(words, ""), "");
    ck_assert_str_eq(rig_ids_n(words, "", 0, TOKENIZER_BEGIN), "256");
    ck_assert_str_eq(rig_ids_n(words, "a", 1, TOKENIZER_BEGIN), "256 97");
    tokenizer_close(words);
}
END_TEST

START_TEST(control_tokens_are_not_found_in_literal_parts)
{
    tokenizer *words = open_specials();
    const token_part literal[] = {{"<s>", 3, false}, {"<s><sep>", 8, true}, {"<s>", 3, false}};
    const token_part across[] = {{"<s", 2, false}, {">", 1, true}};
    const token_part back[] = {{"<", 1, true}, {"s>", 2, false}};
    const token_part shorter[] = {{"<s>", 3, false}, {">", 1, true}};
    const token_part empty[] = {{"<s", 2, false}, {"", 0, true}, {NULL, 0, false}, {">", 1, false}};
    /* user-defined tokens are words like others, and recognised everywhere */
    check_parts(words, literal, 3, "256 60 115 62 258 256");
    check_parts(words, across, 2, "60 115 62");
    check_parts(words, back, 2, "60 115 62");
    check_parts(words, shorter, 2, "256 62");
    check_parts(words, empty, 4, "256");
    check_parts(words, NULL, 0, "");
    tokenizer_close(words);
}
END_TEST

START_TEST(parts_are_one_text)
{
    tokenizer *words;
    const token_part parts[] = {{"a", 1, false}, {"b", 1, true}, {"c", 1, false}};
    self.model = "gpt2";
    self.pre = "gpt-2";
    rig_add_letters(&self);
    rig_add(&self, "ab", NORMAL, 0);
    rig_add(&self, "abc", NORMAL, 0);
    rig_merge(&self, "a", "b");
    rig_merge(&self, "ab", "c");
    words = rig_open(&self);
    check_parts(words, parts, 3, "257");
    tokenizer_close(words);
}
END_TEST

START_TEST(single_tokens_are_known)
{
    tokenizer *words = open_specials();
    size_t length = 1;
    ck_assert_uint_eq(tokenizer_count(words), 264);
    ck_assert_uint_eq(tokenizer_begin(words), 256);
    ck_assert_uint_eq(tokenizer_end(words), 257);
    ck_assert_uint_eq(tokenizer_end_of_turn(words), TOKEN_NONE);
    ck_assert_uint_eq(tokenizer_unknown(words), 261);
    ck_assert(tokenizer_is_end(words, 257));
    ck_assert(!tokenizer_is_end(words, 256));
    ck_assert(!tokenizer_is_end(words, 264));
    ck_assert(!tokenizer_is_end(words, TOKEN_NONE));
    ck_assert(tokenizer_is_control(words, 256));
    ck_assert(!tokenizer_is_control(words, 258));
    ck_assert(!tokenizer_is_control(words, TOKEN_NONE));
    ck_assert_uint_eq(tokenizer_find(words, "<sep>", 5), 258);
    ck_assert_uint_eq(tokenizer_find(words, "<sep", 4), TOKEN_NONE);
    ck_assert_uint_eq(tokenizer_find(words, "", 0), TOKEN_NONE);
    ck_assert_ptr_null(tokenizer_piece(words, 264, &length));
    ck_assert_uint_eq(length, 0);
    ck_assert_ptr_null(tokenizer_piece(words, TOKEN_NONE, &length));
    ck_assert(!tokenizer_adds_begin(words));
    tokenizer_close(words);
    self.model = "gpt2";
    self.pre = "llama-bpe";
    rig_add(&self, "<|eot_id|>", CONTROL, 0);
    rig_add(&self, "<|im_end|>", NORMAL, 0);
    rig_flag(&self, "tokenizer.ggml.add_bos_token", false);
    words = rig_open(&self);
    ck_assert(tokenizer_is_end(words, 0)); /* by its name, though the file does not list it */
    ck_assert(!tokenizer_is_end(words, 1));
    ck_assert(!tokenizer_adds_begin(words));
    tokenizer_close(words);
}
END_TEST

/* --- llama --------------------------------------------------------------------------------- */

#define B "\xE2\x96\x81" /* U+2581 */

static void add_llama(void)
{
    self.model = "llama";
    self.no_merges = true;
    rig_add(&self, "<unk>", UNKNOWN, 0); /* 0 */
    rig_add(&self, "<s>", CONTROL, 0);   /* 1 */
    rig_add_bytes(&self);                /* 2 to 257 */
    rig_add(&self, B, NORMAL, -1);       /* 258 */
    rig_add(&self, "h", NORMAL, -1);     /* 259 */
    rig_add(&self, "i", NORMAL, -1);     /* 260 */
    rig_add(&self, "hi", NORMAL, -2);    /* 261 */
    rig_add(&self, B "hi", NORMAL, -3);  /* 262 */
    rig_add(&self, B B, NORMAL, -4);     /* 263 */
    rig_add(&self, "<", NORMAL, -5);     /* 264 */
    rig_add(&self, "<s", NORMAL, -6);    /* 265 */
    rig_add(&self, "s", NORMAL, -7);     /* 266 */
    rig_add(&self, ">", NORMAL, -8);     /* 267 */
    rig_add(&self, "\n\n", USER, 0);     /* 268 */
}

START_TEST(a_space_goes_before_text)
{
    tokenizer *words;
    add_llama();
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, ""), "");
    ck_assert_str_eq(rig_ids(words, "hi"), "262");
    ck_assert_str_eq(rig_ids(words, " hi"), "258 262");
    ck_assert_str_eq(rig_ids(words, "hi hi"), "262 262");
    ck_assert_str_eq(rig_ids(words, "hi  hi"), "262 258 262");
    ck_assert_str_eq(rig_ids(words, "<s>hi<s>hi"), "1 262 1 262");
    ck_assert_str_eq(rig_ids(words, "<s>"), "1");
    ck_assert_str_eq(rig_pieces(words, "hi hi"), " hi| hi");
    ck_assert(tokenizer_adds_begin(words));
    tokenizer_close(words);
    add_llama();
    rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "hi"), "261");
    ck_assert_str_eq(rig_ids(words, " hi"), "262");
    ck_assert_str_eq(rig_ids(words, "  "), "263");
    ck_assert_str_eq(rig_ids(words, "<s>hi\n\nhi"), "1 261 268 261");
    ck_assert_str_eq(rig_pieces(words, "<s>  hi"), "<s>| | hi");
    tokenizer_close(words);
}
END_TEST

START_TEST(what_is_no_token_is_spelled_in_bytes)
{
    tokenizer *words;
    add_llama();
    rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "hx"), "259 122"); /* 2 + 0x78 */
    ck_assert_str_eq(rig_ids(words, "\xC3\xA9"), "197 171");
    ck_assert_str_eq(rig_ids(words, "\xFF"
                                    "hi\xC3"),
                     "257 261 197");
    ck_assert_str_eq(rig_ids_n(words, "\0", 1, 0), "2");
    ck_assert_str_eq(rig_pieces(words, "\xC3\xA9"), "\xC3|\xA9");
    /* the text "<s>" is found as a token before anything is joined; as literal text it is not,
     * and joining must not end in a control or byte token either */
    check_parts(words, &(token_part){"<s>", 3, true}, 1, "265 267");
    check_parts(words, &(token_part){"<0x41>", 6, true}, 1, "264 50 122 54 51 267");
    tokenizer_close(words);
    add_llama();
    rig_add(&self, "<0", NORMAL, 0); /* 269 */
    rig_add(&self, "<0x", NORMAL, 0);
    rig_add(&self, "<0x4", NORMAL, 0);
    rig_add(&self, "<0x41", NORMAL, 0); /* 272 */
    rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "<0x41>"), "272 267");
    tokenizer_close(words);
}
END_TEST

START_TEST(without_byte_tokens_there_is_the_unknown_one)
{
    tokenizer *words;
    token_list tokens = {0};
    uint64_t lost = 0;
    self.model = "llama";
    rig_add(&self, "a", NORMAL, 0);
    rig_add(&self, "<unk>", UNKNOWN, 0);
    rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "aba"), "0 1 0");
    ck_assert(tokenizer_encode(words, "ab\xC3\xA9", 4, 0, &tokens, &lost, NULL));
    ck_assert_uint_eq(lost, 3);
    token_list_free(&tokens);
    tokenizer_close(words);
    self.model = "llama";
    rig_add(&self, "a", NORMAL, 0);
    rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "aba"), "0 0");
    tokenizer_close(words);
}
END_TEST

START_TEST(a_file_without_types_has_byte_tokens_by_their_names)
{
    tokenizer *words;
    add_llama();
    self.no_types = true;
    words = rig_open(&self);
    ck_assert_str_eq(rig_ids(words, "hi\x01"), "262 3");
    ck_assert_str_eq(rig_pieces(words, "\x01"), " |\x01");
    tokenizer_close(words);
}
END_TEST

/* --- limits and many threads ------------------------------------------------------------ */

START_TEST(a_text_that_is_too_long_is_refused)
{
    tokenizer *words = open_letters("gpt-2");
    token_list tokens = {0};
    gguf_error error = {{0}};
    /* never looked at: the length alone decides */
    const token_part parts[] = {{"a", 1, false}, {"b", (size_t)TOKENIZER_TEXT_LONGEST, false}};
    ck_assert(token_list_add(&tokens, 7));
    ck_assert(!tokenizer_encode_parts(words, parts, 2, TOKENIZER_BEGIN, &tokens, NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "longer than 1 GiB"));
    ck_assert_uint_eq(tokens.count, 1);
    token_list_free(&tokens);
    tokenizer_close(words);
}
END_TEST

typedef struct reader {
    pthread_t thread;
    const tokenizer *words;
    bool good;
} reader;

static void *read_text(void *context)
{
    static const char text[] = "Hello  world 123, it's <s> h\xC3\xA9llo\n\n";
    reader *mine = context;
    int round;
    mine->good = true;
    for (round = 0; round < 200; round++) {
        token_list tokens = {0};
        size_t i, at = 0;
        if (!tokenizer_encode(mine->words, text, sizeof text - 1, 0, &tokens, NULL, NULL))
            mine->good = false;
        for (i = 0; i < tokens.count; i++) {
            size_t n;
            const char *piece = tokenizer_piece(mine->words, tokens.ids[i], &n);
            if (at + n > sizeof text - 1 || memcmp(text + at, piece, n) != 0) mine->good = false;
            at += n;
        }
        if (at != sizeof text - 1) mine->good = false;
        token_list_free(&tokens);
    }
    return NULL;
}

START_TEST(threads_share_a_tokenizer)
{
    tokenizer *words = open_specials();
    reader readers[4];
    int i;
    for (i = 0; i < 4; i++) {
        readers[i].words = words;
        ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_text, &readers[i]), 0);
    }
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(readers[i].thread, NULL), 0);
        ck_assert(readers[i].good);
    }
    tokenizer_close(words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tcase = tcase_create("tokenizer");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_byte_has_a_letter_and_comes_back);
    tcase_add_test(tcase, random_bytes_come_back);
    tcase_add_test(tcase, bytes_that_are_no_text_are_words_of_their_own);
    tcase_add_test(tcase, bytes_without_a_token_are_counted);
    tcase_add_test(tcase, a_whole_word_wins_where_the_family_says_so);
    tcase_add_test(tcase, a_pair_has_its_first_rank);
    tcase_add_test(tcase, white_space_is_that_of_unicode);
    tcase_add_test(tcase, words_are_those_of_the_family);
    tcase_add_test(tcase, special_tokens_are_found_in_text);
    tcase_add_test(tcase, control_tokens_are_not_found_in_literal_parts);
    tcase_add_test(tcase, parts_are_one_text);
    tcase_add_test(tcase, single_tokens_are_known);
    tcase_add_test(tcase, a_space_goes_before_text);
    tcase_add_test(tcase, what_is_no_token_is_spelled_in_bytes);
    tcase_add_test(tcase, without_byte_tokens_there_is_the_unknown_one);
    tcase_add_test(tcase, a_file_without_types_has_byte_tokens_by_their_names);
    tcase_add_test(tcase, a_text_that_is_too_long_is_refused);
    tcase_add_test(tcase, threads_share_a_tokenizer);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
