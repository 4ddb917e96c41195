/* `tenon op embed`: rows of a weight as activations. */
#include "op.h"
#include "op_shared.h"

typedef struct embedding {
    op_request base;
    op_weight weight;
    const char *ids, *scale_text;
    float scale;
    uint64_t tokens;
} embedding;

static int32_t look_up(op_request *base, tenon_session *session, const char **doing,
                       tenon_error *error)
{
    const embedding *self = (const embedding *)base;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data),
                              .weights = base->inputs[0].memory,
                              .weights_bytes = self->weight.weights_bytes,
                              .scales = base->inputs[1].memory,
                              .scales_bytes = self->weight.scales_bytes,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_embed_call call = {
        TENON_HEAD(tenon_embed_call),
        .ids = {.host = base->inputs[2].memory, .bytes = base->inputs[2].bytes},
        .y = {.host = base->y, .bytes = base->y_bytes},
        .tokens = self->tokens,
        .y_row_stride = 4 * self->weight.cols,
        .scale = self->scale};
    tenon_weight *weight = NULL;
    int32_t status;

    *doing = "the weight";
    status = tenon_weight_create(session, &self->weight.desc, &data, &weight, error);
    if (status != TENON_OK) return status;
    *doing = "the embedding";
    call.weight = weight;
    status = tenon_embed(tenon_session_queue(session), &call, error);
    tenon_weight_destroy(weight);
    return status;
}

static int judge(embedding *self)
{
    op_request *base = &self->base;
    uint64_t ids_bytes;
    int status = op_weight_judge(base->command, &self->weight, base->parsed.semantic);

    if (status == OPTIONS_GO_ON) status = op_need(base, "--tokens", self->tokens);
    if (status == OPTIONS_GO_ON) status = op_need_text(base, "--ids", self->ids);
    if (status == OPTIONS_GO_ON) status = op_float(base, "--scale", self->scale_text, &self->scale);
    if (status != OPTIONS_GO_ON) return status;
    if (!op_floats(self->tokens, 1, 1, &ids_bytes) ||
        !op_floats(self->tokens, self->weight.cols, 1, &base->y_bytes))
        return options_usage_error(base->command, "--tokens: size overflows");
    op_add_input(base, "--weights", self->weight.weights, self->weight.weights_bytes);
    op_add_input(base, "--scales", self->weight.scales, self->weight.scales_bytes);
    op_add_input(base, "--ids", self->ids, ids_bytes);
    base->format = self->weight.format;
    op_add_fact(base, "rows", self->weight.rows);
    op_add_fact(base, "cols", self->weight.cols);
    op_add_fact(base, "tokens", self->tokens);
    return OPTIONS_GO_ON;
}

int op_embed(int argc, char **argv)
{
    embedding self = {.base = {.name = "embed", .command = "op embed", .call = look_up},
                      .scale = 1.0f};
    const option_entry entries[] = {
        OP_WEIGHT_OPTIONS(&self.weight),
        {"tokens", OPTION_U64, &self.tokens, 1, UINT64_MAX, NULL, "S", "ids, and rows of y", NULL},
        {"ids", OPTION_TEXT, &self.ids, 0, 0, NULL, "FILE", "uint32 [tokens], each below rows",
         NULL},
        {"scale", OPTION_TEXT, &self.scale_text, 0, 0, NULL, "X", "factor; default 1", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, float32 [tokens][cols]"),
        {0},
    };
    const option_usage usage = {
        "op embed",
        "--format F --rows O --cols I --tokens S --weights FILE --ids FILE --out FILE [options]",
        "Looks up: y[s][i] = W[ids[s]][i] * scale. All files are raw and little-endian, and must\n"
        "have exactly the size that the shape needs. Prints who ran it.\n",
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
