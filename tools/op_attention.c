/* `tenon op attention`: attention over keys and values given as files. */
#include "op.h"
#include "op_shared.h"

#include <math.h>

typedef struct attention {
    op_request base;
    const char *q, *k, *v, *table, *scale_text;
    float scale;
    uint32_t type, pairing; /* indices of their words */
    uint64_t tokens, positions, heads, kv_heads, head_size, window, rotary;
} attention;

static tenon_view view(const op_request *base, uint32_t input)
{
    return (tenon_view){.host = base->inputs[input].memory, .bytes = base->inputs[input].bytes};
}

static int32_t attend(op_request *base, tenon_session *session, const char **doing,
                      tenon_error *error)
{
    const attention *self = (const attention *)base;
    const uint64_t kv_row = 4 * self->kv_heads * self->head_size;
    const uint64_t q_row = 4 * self->heads * self->head_size;
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                                   .kv_heads = self->kv_heads,
                                   .head_size = self->head_size,
                                   .capacity = self->positions,
                                   .window = self->window,
                                   .type = TENON_CACHE_F32 + self->type,
                                   .pairing = TENON_ROPE_NONE + self->pairing,
                                   .rotary = (uint32_t)self->rotary,
                                   .table = base->inputs[3].memory,
                                   .table_bytes = base->inputs[3].bytes};
    tenon_append_call append = {
        TENON_HEAD(tenon_append_call), .k = view(base, 1),     .v = view(base, 2),
        .tokens = self->positions,     .k_row_stride = kv_row, .v_row_stride = kv_row};
    tenon_attention_call call = {TENON_HEAD(tenon_attention_call),
                                 .q = view(base, 0),
                                 .y = {.host = base->y, .bytes = base->y_bytes},
                                 .tokens = self->tokens,
                                 .heads = self->heads,
                                 .q_row_stride = q_row,
                                 .y_row_stride = q_row,
                                 .scale = self->scale};
    tenon_queue *queue = tenon_session_queue(session);
    tenon_cache *cache = NULL;
    int32_t status;

    *doing = "the cache";
    status = tenon_cache_create(session, &desc, &cache, error);
    if (status != TENON_OK) return status;
    append.cache = call.cache = cache;
    status = tenon_append(queue, &append, error);
    if (status == TENON_OK) {
        *doing = "the attention";
        status = tenon_attention(queue, &call, error);
    }
    tenon_cache_destroy(cache);
    return status;
}

/* What belongs to a rotation: all of it, or nothing. */
static int judge_rotation(const attention *self, uint64_t *table_bytes)
{
    const char *command = self->base.command;

    *table_bytes = 0;
    if (self->pairing == 0) {
        if (self->rotary != 0 || self->table != NULL)
            return options_usage_error(command, "--rotary and --table need --rope");
        return OPTIONS_GO_ON;
    }
    if (self->table == NULL) return options_usage_error(command, "--table is missing");
    if (self->rotary == 0) return options_usage_error(command, "--rotary is missing");
    if (!op_floats(self->positions, self->rotary, 1, table_bytes))
        return options_usage_error(command, "--rotary: size overflows");
    return OPTIONS_GO_ON;
}

static int judge(attention *self)
{
    op_request *base = &self->base;
    const struct {
        const char *option;
        uint64_t value;
    } numbers[] = {{"--tokens", self->tokens},
                   {"--positions", self->positions},
                   {"--heads", self->heads},
                   {"--head-size", self->head_size}};
    const struct {
        const char *option, *path;
    } files[] = {{"--q", self->q}, {"--k", self->k}, {"--v", self->v}};
    uint64_t kv_bytes, table_bytes = 0;
    size_t i;
    int status = OPTIONS_GO_ON;

    for (i = 0; i < sizeof numbers / sizeof numbers[0] && status == OPTIONS_GO_ON; i++)
        status = op_need(base, numbers[i].option, numbers[i].value);
    for (i = 0; i < sizeof files / sizeof files[0] && status == OPTIONS_GO_ON; i++)
        status = op_need_text(base, files[i].option, files[i].path);
    if (status != OPTIONS_GO_ON) return status;
    if (self->kv_heads == 0) self->kv_heads = self->heads;
    self->scale = (float)(1.0 / sqrt((double)self->head_size));
    status = op_float(base, "--scale", self->scale_text, &self->scale);
    if (status == OPTIONS_GO_ON) status = judge_rotation(self, &table_bytes);
    if (status != OPTIONS_GO_ON) return status;
    if (self->tokens > self->positions)
        return options_usage_error(base->command, "--tokens: more than --positions");
    if (self->heads % self->kv_heads != 0)
        return options_usage_error(base->command, "--heads: not a multiple of --kv-heads");
    if (!tenon_mul_u64(self->heads, self->head_size, &base->y_bytes) ||
        !op_floats(self->tokens, base->y_bytes, 1, &base->y_bytes) ||
        !op_floats(self->positions, self->kv_heads, self->head_size, &kv_bytes))
        return options_usage_error(base->command, "--head-size: size overflows");
    op_add_input(base, "--q", self->q, base->y_bytes);
    op_add_input(base, "--k", self->k, kv_bytes);
    op_add_input(base, "--v", self->v, kv_bytes);
    op_add_input(base, "--table", self->table, table_bytes);
    op_add_fact(base, "tokens", self->tokens);
    op_add_fact(base, "positions", self->positions);
    op_add_fact(base, "heads", self->heads);
    op_add_fact(base, "kv_heads", self->kv_heads);
    op_add_fact(base, "head_size", self->head_size);
    op_add_fact(base, "window", self->window);
    return OPTIONS_GO_ON;
}

int op_attention(int argc, char **argv)
{
    attention self = {.base = {.name = "attention", .command = "op attention", .call = attend}};
    const option_entry entries[] = {
        {"tokens", OPTION_U64, &self.tokens, 1, UINT64_MAX, NULL, "S",
         "rows of q and y: the last positions", NULL},
        {"positions", OPTION_U64, &self.positions, 1, UINT64_MAX, NULL, "P", "rows of k and v",
         NULL},
        {"heads", OPTION_U64, &self.heads, 1, UINT64_MAX, NULL, "H", "query heads", NULL},
        {"kv-heads", OPTION_U64, &self.kv_heads, 1, UINT64_MAX, NULL, "K",
         "key-value heads; default: as many as query heads", NULL},
        {"head-size", OPTION_U64, &self.head_size, 1, UINT64_MAX, NULL, "D", "inputs of a head",
         NULL},
        {"window", OPTION_U64, &self.window, 1, UINT64_MAX, NULL, "W",
         "positions that a row sees, its own included; default: all before", NULL},
        {"kv", OPTION_CHOICE, &self.type, 0, 0, "f32|f16", NULL,
         "how the cache keeps k and v; default f32", NULL},
        {"rope", OPTION_CHOICE, &self.pairing, 0, 0, "none|adjacent|halves", NULL,
         "which inputs are rotated together; default none", NULL},
        {"rotary", OPTION_U64, &self.rotary, 2, UINT32_MAX, NULL, "R",
         "inputs of a head that are rotated", NULL},
        {"table", OPTION_TEXT, &self.table, 0, 0, NULL, "FILE",
         "cos and sin, float32 [positions][rotary / 2][2]", NULL},
        {"scale", OPTION_TEXT, &self.scale_text, 0, 0, NULL, "X",
         "factor on every score; default 1 / sqrt(head size)", NULL},
        {"q", OPTION_TEXT, &self.q, 0, 0, NULL, "FILE", "float32 [tokens][heads][head size]", NULL},
        {"k", OPTION_TEXT, &self.k, 0, 0, NULL, "FILE",
         "float32 [positions][key-value heads][head size]", NULL},
        {"v", OPTION_TEXT, &self.v, 0, 0, NULL, "FILE", "the same", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, float32 [tokens][heads][head size]"),
        {0},
    };
    const option_usage usage = {
        "op attention",
        "--tokens S --positions P --heads H --head-size D --q FILE --k FILE --v FILE --out FILE "
        "[options]",
        "Causal attention of the last S positions over a cache of P. q and k are given "
        "un-rotated.\n"
        "All files are raw and little-endian, and must have exactly the size that the shape\n"
        "needs. Prints who ran it.\n",
        entries,
        0,
        0,
        NULL};
    int status = options_parse(&self.base.parsed, &usage, argc, argv);

    if (status != OPTIONS_GO_ON) return status;
    status = judge(&self);
    if (status == OPTIONS_GO_ON) return op_execute(&self.base);
    options_free(&self.base.parsed);
    return status;
}
