/* `tenon op qmatmul`: one matrix product from raw files (SPEC.md section 3) on any provider. */
#include "op.h"
#include "op_shared.h"

#include <tenon/format.h>

typedef struct product {
    op_request base;
    op_weight weight;
    const char *x;
    uint32_t arith; /* index: f32, a8 */
    uint64_t tokens;
} product;

static int32_t multiply(op_request *base, tenon_session *session, const char **doing,
                        tenon_error *error)
{
    const product *self = (const product *)base;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data),
                              .weights = base->inputs[0].memory,
                              .weights_bytes = self->weight.weights_bytes,
                              .scales = base->inputs[1].memory,
                              .scales_bytes = self->weight.scales_bytes,
                              .lifetime = TENON_LIFETIME_STABLE};
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = self->tokens};
    tenon_weight_information info = {TENON_HEAD(tenon_weight_information), .arith = 0};
    tenon_weight *weight = NULL;
    int32_t status;

    *doing = "the weight";
    status = tenon_weight_create(session, &self->weight.desc, &data, &weight, error);
    if (status != TENON_OK) return status;
    call.x = (tenon_view){.host = base->inputs[2].memory, .bytes = base->inputs[2].bytes};
    call.x_row_stride = 4 * self->weight.cols;
    call.output_count = 1;
    call.outputs[0].weight = weight;
    call.outputs[0].y = (tenon_view){.host = base->y, .bytes = base->y_bytes};
    call.outputs[0].row_stride = 4 * self->weight.rows;
    *doing = "the product";
    status = tenon_qmatmul(tenon_session_queue(session), &call, error);
    if (status == TENON_OK) {
        *doing = "the weight";
        status = tenon_weight_info(weight, &info, error);
        base->class_name = options_class_name(info.arith);
    }
    tenon_weight_destroy(weight);
    return status;
}

/* What the parser could not see alone: which options are missing, and what does not go together. */
static int judge(product *self)
{
    static const uint32_t classes[] = {TENON_CLASS_F32, TENON_CLASS_A8};
    op_request *base = &self->base;
    uint64_t x_bytes;
    int status = op_weight_judge(base->command, &self->weight, base->parsed.semantic);

    if (status == OPTIONS_GO_ON) status = op_need(base, "--tokens", self->tokens);
    if (status == OPTIONS_GO_ON) status = op_need_text(base, "--x", self->x);
    if (status != OPTIONS_GO_ON) return status;
    if (!op_floats(self->tokens, self->weight.cols, 1, &x_bytes) ||
        !op_floats(self->tokens, self->weight.rows, 1, &base->y_bytes))
        return options_usage_error(base->command, "--tokens: size overflows");
    op_add_input(base, "--weights", self->weight.weights, self->weight.weights_bytes);
    op_add_input(base, "--scales", self->weight.scales, self->weight.scales_bytes);
    op_add_input(base, "--x", self->x, x_bytes);
    base->format = self->weight.format;
    base->arith = classes[self->arith];
    op_add_fact(base, "rows", self->weight.rows);
    op_add_fact(base, "cols", self->weight.cols);
    op_add_fact(base, "tokens", self->tokens);
    return OPTIONS_GO_ON;
}

int op_qmatmul(int argc, char **argv)
{
    product self = {.base = {.name = "qmatmul", .command = "op qmatmul", .call = multiply}};
    const option_entry entries[] = {
        OP_WEIGHT_OPTIONS(&self.weight),
        {"tokens", OPTION_U64, &self.tokens, 1, UINT64_MAX, NULL, "S", "rows of x and y", NULL},
        {"x", OPTION_TEXT, &self.x, 0, 0, NULL, "FILE", "float32 [tokens][cols]", NULL},
        {"arith", OPTION_CHOICE, &self.arith, 0, 0, "f32|a8", NULL,
         "class of arithmetic; default f32", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, float32 [tokens][rows]"),
        {0},
    };
    const option_usage usage = {
        "op qmatmul",
        "--format F --rows O --cols I --tokens S --weights FILE --x FILE --out FILE [options]",
        "Multiplies: y[s][o] = sum over i of W[o][i] * x[s][i]. All files are raw and\n"
        "little-endian, and must have exactly the size that the shape needs. Prints the class of\n"
        "arithmetic and who ran it.\n\n"
        "  tenon op qmatmul --format Q4_0 --rows 64 --cols 576 --tokens 3 --weights w.bin \\\n"
        "      --x x.bin --out y.bin --arith a8 --provider cpu --mode pin\n",
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
