/* `tenon perplexity MODEL -f TEXT`: how surprised a model is by a text, so that formats, classes of
 * arithmetic and engines can be compared.
 *
 * The rule of the field: the tokens of the text are cut into chunks of the context's length, what
 * is left over at the end is not used; each chunk is read with an empty memory, its first token
 * replaced by the begin token where the model has that habit; scored is how well the second half of
 * a chunk is foretold, token by token, without its last one. */
#include "command.h"
#include "engine/engine.h"
#include "json.h"
#include "loaded.h"
#include "options.h"
#include "read_text.h"
#include "terminal.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CONTEXT 512u
#define DEFAULT_BATCH 128u

typedef struct request {
    options parsed;
    placement on;
    const char *file;
    uint64_t context, batch, chunks;
    uint32_t kv;
} request;

/* The sum over tokens of -ln p, and of its square. */
typedef struct score {
    const request *asked;
    loaded it;
    engine *engine;
    token_list tokens;
    const uint32_t *chunk;
    double sum, squares;
    uint64_t count;
} score;

static int parse(request *self, int argc, char **argv)
{
    const option_entry entries[] = {
        {"file", OPTION_TEXT, &self->file, 0, 0, NULL, "FILE", "the text", NULL},
        {"provider", OPTION_TEXT, &self->on.chain, 0, 0, NULL, "CHAIN",
         "providers in order, e.g. vulkan:0,cpu", NULL},
        {"mode", OPTION_CHOICE, &self->on.mode, 0, 0, PLACEMENT_MODES, NULL,
         "pin: only these; prefer: then the reference; auto: the host's order",
         &self->on.mode_given},
        {"arith", OPTION_CHOICE, &self->on.arith, 0, 0, PLACEMENT_CLASSES, NULL,
         "class of arithmetic; default f32", &self->on.arith_given},
        {"ctx", OPTION_U64, &self->context, 4, UINT64_C(1) << 20, NULL, "N",
         "tokens of a chunk; default 512", NULL},
        {"chunks", OPTION_U64, &self->chunks, 1, UINT64_MAX, NULL, "N",
         "use at most N chunks; default all", NULL},
        {"batch", OPTION_U64, &self->batch, 1, 65536, NULL, "N", "tokens of one step; default 128",
         NULL},
        {"kv", OPTION_CHOICE, &self->kv, 0, 0, "f16|f32", NULL, "type of the cache; default f16",
         NULL},
        {0},
    };
    const option_usage usage = {
        "perplexity",
        "MODEL.gguf -f TEXT [options]",
        "Prints the mean negative logarithm of the probability that the model gives to the tokens\n"
        "of a text, and its exponential, the perplexity. Chunks of --ctx tokens, each read anew;\n"
        "the second half of each is scored.\n\n"
        "  tenon perplexity model.gguf -f text.txt --arith a8\n",
        entries,
        1,
        1,
        "f:file"};
    int status;
    memset(self, 0, sizeof *self);
    self->context = DEFAULT_CONTEXT;
    self->batch = DEFAULT_BATCH;
    status = options_parse(&self->parsed, &usage, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    if (self->file == NULL)
        status = options_usage_error("perplexity", "--file is missing");
    else
        status = placement_judge(&self->on, &self->parsed, "perplexity");
    if (status != OPTIONS_GO_ON) options_free(&self->parsed);
    return status;
}

/* Adds the surprise of the token behind position index of the chunk. */
static bool add_row(void *context, size_t index, const float *logits)
{
    score *self = context;
    uint64_t vocabulary = self->it.of->vocabulary, i;
    double largest = (double)logits[0], sum = 0.0, surprise;
    if (index + 1 >= self->asked->context) return false; /* nothing is known behind the last one */
    for (i = 1; i < vocabulary; i++)
        if ((double)logits[i] > largest) largest = (double)logits[i];
    for (i = 0; i < vocabulary; i++) sum += exp((double)logits[i] - largest);
    surprise = log(sum) + largest - (double)logits[self->chunk[index + 1]];
    self->sum += surprise;
    self->squares += surprise * surprise;
    self->count++;
    return true;
}

static int encode(score *self)
{
    gguf_error error = {{0}};
    char *text;
    size_t length;
    uint32_t flags = 0;
    bool good;
    int status = read_text(self->asked->file, &text, &length);
    if (status != EXIT_GOOD) return status;
    if (tokenizer_adds_begin(self->it.words) && tokenizer_begin(self->it.words) != TOKEN_NONE)
        flags = TOKENIZER_BEGIN;
    good = tokenizer_encode(self->it.words, text, length, flags, &self->tokens, NULL, &error);
    free(text);
    if (!good) {
        terminal_error("%s", error.text);
        return EXIT_FAILED;
    }
    if (self->tokens.count >= self->asked->context) return EXIT_GOOD;
    return options_usage_error("perplexity",
                               "the text has %zu tokens, a chunk needs %" PRIu64 " (--ctx)",
                               self->tokens.count, self->asked->context);
}

static int report(const score *self, uint64_t chunks)
{
    double n = (double)self->count, mean = self->sum / n;
    double variance = self->squares / n - mean * mean;
    double error = n > 1.0 && variance > 0.0 ? sqrt(variance / (n - 1.0)) : 0.0;
    if (self->asked->parsed.json) {
        json_t *document = json_document();
        json_put(document, "tokens", json_u64(self->tokens.count));
        json_put(document, "chunks", json_u64(chunks));
        json_put(document, "scored", json_u64(self->count));
        json_put(document, "mean_nll", json_number(mean));
        json_put(document, "mean_nll_error", json_number(error));
        json_put(document, "perplexity", json_number(exp(mean)));
        return json_emit(document) ? EXIT_GOOD : EXIT_FAILED;
    }
    fprintf(terminal_out(),
            "mean negative log-likelihood %.6f +- %.6f, perplexity %.4f +- %.4f (%" PRIu64
            " tokens of %" PRIu64 " chunks)\n",
            mean, error, exp(mean), exp(mean) * error, self->count, chunks);
    return EXIT_GOOD;
}

static int walk(score *self)
{
    const request *asked = self->asked;
    size_t size = (size_t)asked->context;
    uint64_t chunks = self->tokens.count / asked->context, i;
    uint32_t begin = tokenizer_begin(self->it.words);
    engine_fault fault;
    if (asked->chunks != 0 && asked->chunks < chunks) chunks = asked->chunks;
    for (i = 0; i < chunks; i++) {
        uint32_t *chunk = self->tokens.ids + i * size;
        uint32_t kept = chunk[0];
        bool good;
        terminal_progress("chunk %" PRIu64 " of %" PRIu64, i + 1, chunks);
        if (tokenizer_adds_begin(self->it.words) && begin != TOKEN_NONE) chunk[0] = begin;
        self->chunk = chunk;
        good = engine_truncate(self->engine, 0, &fault) &&
               engine_score(self->engine, chunk, size, size / 2, add_row, self, &fault);
        chunk[0] = kept;
        if (!good) {
            terminal_progress_end();
            return loaded_failed(&self->it, &fault);
        }
    }
    terminal_progress_end();
    return report(self, chunks);
}

int command_perplexity(int argc, char **argv)
{
    request asked;
    score self = {.asked = &asked};
    engine_options wanted = {.context = 0};
    engine_fault fault;
    int status = parse(&asked, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    status = loaded_open(&self.it, asked.parsed.arguments.items[0], &asked.parsed, &asked.on,
                         false);
    if (status != EXIT_GOOD) goto out;
    status = encode(&self);
    if (status != EXIT_GOOD) goto out;
    wanted.context = asked.context;
    wanted.batch = asked.batch;
    wanted.cache_type = asked.kv == 0 ? TENON_CACHE_F16 : TENON_CACHE_F32;
    self.engine = engine_open(self.it.of, &wanted, &fault);
    status = self.engine != NULL ? walk(&self) : loaded_failed(&self.it, &fault);
out:
    engine_close(self.engine);
    loaded_close(&self.it);
    token_list_free(&self.tokens);
    options_free(&asked.parsed);
    return status;
}
