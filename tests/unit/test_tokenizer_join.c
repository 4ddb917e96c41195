/* Joining: against a plain quadratic reading of the rule, and over runs that would take such a
 * reading for ever. */
#include "tokenizer_rig.h"

static rig self; /* too large for the stack; empty between tests */

typedef struct plain_symbol {
    char text[RIG_TEXT];
} plain_symbol;

/* What two neighbours give: smaller is joined first, DBL_MAX: nothing. */
typedef double plain_order(const char *left, const char *right);

static size_t join_plainly(plain_symbol *symbols, size_t count, plain_order *order)
{
    for (;;) {
        double best = 1e300;
        size_t at = 0, left, i;
        for (i = 0; i + 1 < count; i++) {
            double here = order(symbols[i].text, symbols[i + 1].text);
            if (here < best) {
                best = here;
                at = i;
            }
        }
        if (best >= 1e300) return count;
        left = strlen(symbols[at].text);
        for (i = 0; left + i < RIG_TEXT - 1 && symbols[at + 1].text[i] != '\0'; i++)
            symbols[at].text[left + i] = symbols[at + 1].text[i];
        symbols[at].text[left + i] = '\0';
        memmove(&symbols[at + 1], &symbols[at + 2], (count - at - 2) * sizeof *symbols);
        count--;
    }
}

static uint32_t find_word(const char *text)
{
    uint32_t i;
    for (i = 0; i < self.count; i++)
        if (strcmp(self.words[i].text, text) == 0) return i;
    return TOKEN_NONE;
}

static double order_of_merge(const char *left, const char *right)
{
    char pair[2 * RIG_TEXT];
    uint32_t i;
    snprintf(pair, sizeof pair, "%s %s", left, right);
    for (i = 0; i < self.merge_count; i++)
        if (strcmp(self.merges[i], pair) == 0) return i;
    return 1e300;
}

static double order_of_score(const char *left, const char *right)
{
    char joined[2 * RIG_TEXT];
    uint32_t id;
    snprintf(joined, sizeof joined, "%s%s", left, right);
    id = find_word(joined);
    return id == TOKEN_NONE ? 1e300 : -(double)self.words[id].score;
}

/* Random words of a, b, c and d (which is no token of its own) through both. */
static void compare_joining(plain_order *order, bool spelled, uint64_t *seed)
{
    gguf_error error;
    byte_list file = rig_file(&self);
    tokenizer *words = rig_open_bytes(&file, &error);
    int round;
    ck_assert_msg(words != NULL, "%s", error.text);
    for (round = 0; round < 60; round++) {
        plain_symbol symbols[50];
        char text[51], wanted[1024];
        size_t count = 1 + rig_random(seed) % 50, i, at = 0;
        for (i = 0; i < count; i++) {
            text[i] = (char)('a' + rig_random(seed) % (spelled ? 4 : 3));
            symbols[i].text[0] = text[i];
            symbols[i].text[1] = '\0';
        }
        text[count] = '\0';
        count = join_plainly(symbols, count, order);
        for (i = 0; i < count; i++) {
            uint32_t id = find_word(symbols[i].text);
            if (id == TOKEN_NONE) id = find_word("<0x64>");
            at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%u", i == 0 ? "" : " ", id);
        }
        ck_assert_msg(strcmp(rig_ids(words, text), wanted) == 0, "%s: have %s, want %s", text,
                      rig_ids(words, text), wanted);
    }
    tokenizer_close(words);
    bytes_free(&file);
}

START_TEST(merges_join_in_the_order_of_their_ranks)
{
    uint64_t seed = 1;
    int round, k;
    for (round = 0; round < 40; round++) {
        memset(&self, 0, sizeof self);
        self.model = "gpt2";
        self.pre = round % 2 == 0 ? "gpt-2" : "smollm";
        rig_add(&self, "a", NORMAL, 0);
        rig_add(&self, "b", NORMAL, 0);
        rig_add(&self, "c", NORMAL, 0);
        for (k = 0; k < 30; k++) {
            char left[RIG_TEXT], right[RIG_TEXT], joined[2 * RIG_TEXT];
            strcpy(left, self.words[rig_random(&seed) % self.count].text);
            strcpy(right, self.words[rig_random(&seed) % self.count].text);
            if (strlen(left) + strlen(right) > 12 || order_of_merge(left, right) < 1e300) continue;
            snprintf(joined, sizeof joined, "%s%s", left, right);
            rig_merge(&self, left, right);
            if (find_word(joined) == TOKEN_NONE) rig_add(&self, joined, NORMAL, 0);
        }
        compare_joining(order_of_merge, false, &seed);
    }
    memset(&self, 0, sizeof self);
}
END_TEST

START_TEST(pieces_join_in_the_order_of_their_scores)
{
    uint64_t seed = 2;
    int round, k;
    for (round = 0; round < 40; round++) {
        memset(&self, 0, sizeof self);
        self.model = "llama";
        self.no_merges = true;
        rig_add_bytes(&self);
        rig_add(&self, "a", NORMAL, -1);
        rig_add(&self, "b", NORMAL, -1);
        rig_add(&self, "c", NORMAL, -1);
        rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
        for (k = 0; k < 40; k++) {
            char text[8] = {0};
            size_t count = 2 + rig_random(&seed) % 5, i;
            /* few scores, so that many are equal; both signs and both zeros */
            static const float scores[] = {-3, -2, -0.0f, 0.0f, 1e-40f, -1e-40f, 2, -1e30f};
            for (i = 0; i < count; i++) text[i] = (char)('a' + rig_random(&seed) % 4);
            if (find_word(text) == TOKEN_NONE)
                rig_add(&self, text, NORMAL, scores[rig_random(&seed) % 8]);
        }
        compare_joining(order_of_score, true, &seed);
        bytes_free(&self.extra);
    }
    memset(&self, 0, sizeof self);
}
END_TEST

START_TEST(long_runs_are_encoded)
{
    enum { LENGTH = 1 << 20 };
    static const char runs[] = "a \n<\xFF";
    char *text = malloc(LENGTH);
    int kind, run;
    ck_assert_ptr_nonnull(text);
    for (kind = 0; kind < 2; kind++) {
        tokenizer *words;
        if (kind == 0) {
            self.model = "gpt2";
            self.pre = "llama-bpe";
            rig_add_letters(&self);
            rig_merge(&self, "a", "a");
            rig_merge(&self, "aa", "aa");
            rig_add(&self, "aa", NORMAL, 0);
            rig_add(&self, "aaaa", NORMAL, 0);
        } else {
            self.model = "llama";
            rig_add_bytes(&self);
            rig_add(&self, "a", NORMAL, -1);
            rig_add(&self, "\n", USER, 0);
            rig_add(&self, "\xE2\x96\x81", NORMAL, -1); /* U+2581, a space */
            rig_add(&self, "aa", NORMAL, -9);
            rig_add(&self, "aaaa", NORMAL, -9);
            rig_flag(&self, "tokenizer.ggml.add_space_prefix", false);
        }
        words = rig_open(&self);
        for (run = 0; run < 5; run++) {
            token_list tokens = {0};
            uint64_t lost = 0;
            size_t i, total = 0, length;
            memset(text, runs[run], LENGTH);
            ck_assert(tokenizer_encode(words, text, LENGTH, 0, &tokens, &lost, NULL));
            for (i = 0; i < tokens.count; i++) {
                tokenizer_piece(words, tokens.ids[i], &length);
                total += length;
            }
            ck_assert_uint_eq(total, LENGTH);
            if (run == 0) ck_assert_uint_eq(tokens.count, LENGTH / 4);
            token_list_free(&tokens);
        }
        tokenizer_close(words);
    }
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer join");
    TCase *tcase = tcase_create("tokenizer join");
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, merges_join_in_the_order_of_their_ranks);
    tcase_add_test(tcase, pieces_join_in_the_order_of_their_scores);
    tcase_add_test(tcase, long_runs_are_encoded);
    suite_add_tcase(suite, tcase);
    return runner_main(srunner_create(suite));
}
