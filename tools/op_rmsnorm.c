/* `tenon op rmsnorm`: root-mean-square normalisation of groups of rows. */
#include "op.h"
#include "op_shared.h"

typedef struct normalisation {
    op_request base;
    const char *x, *w, *eps_text;
    float eps;
    uint64_t tokens, groups, width;
} normalisation;

static int32_t normalise(op_request *base, tenon_session *session, const char **doing,
                         tenon_error *error)
{
    const normalisation *self = (const normalisation *)base;
    const uint64_t row = 4 * self->groups * self->width;
    const tenon_rmsnorm_call call = {
        TENON_HEAD(tenon_rmsnorm_call),
        .x = {.host = base->inputs[0].memory, .bytes = base->inputs[0].bytes},
        .w = {.host = base->inputs[1].memory, .bytes = base->inputs[1].bytes},
        .y = {.host = base->y, .bytes = base->y_bytes},
        .tokens = self->tokens,
        .groups = self->groups,
        .width = self->width,
        .x_row_stride = row,
        .y_row_stride = row,
        .eps = self->eps};

    (void)doing;
    return tenon_rmsnorm(tenon_session_queue(session), &call, error);
}

static int judge(normalisation *self)
{
    op_request *base = &self->base;
    uint64_t w_bytes;
    int status = op_need(base, "--tokens", self->tokens);

    if (status == OPTIONS_GO_ON) status = op_need(base, "--width", self->width);
    if (status == OPTIONS_GO_ON) status = op_need_text(base, "--x", self->x);
    if (status == OPTIONS_GO_ON) status = op_need_text(base, "--w", self->w);
    if (status == OPTIONS_GO_ON) status = op_float(base, "--eps", self->eps_text, &self->eps);
    if (status != OPTIONS_GO_ON) return status;
    if (!op_floats(self->tokens, self->groups, self->width, &base->y_bytes) ||
        !op_floats(self->width, 1, 1, &w_bytes))
        return options_usage_error(base->command, "--width: size overflows");
    op_add_input(base, "--x", self->x, base->y_bytes);
    op_add_input(base, "--w", self->w, w_bytes);
    op_add_fact(base, "tokens", self->tokens);
    op_add_fact(base, "groups", self->groups);
    op_add_fact(base, "width", self->width);
    return OPTIONS_GO_ON;
}

int op_rmsnorm(int argc, char **argv)
{
    normalisation self = {.base = {.name = "rmsnorm", .command = "op rmsnorm", .call = normalise},
                          .groups = 1,
                          .eps = 1e-5f};
    const option_entry entries[] = {
        {"tokens", OPTION_U64, &self.tokens, 1, UINT64_MAX, NULL, "S", "rows of x and y", NULL},
        {"groups", OPTION_U64, &self.groups, 1, UINT64_MAX, NULL, "G",
         "groups of a row, each normalised by itself; default 1", NULL},
        {"width", OPTION_U64, &self.width, 1, UINT64_MAX, NULL, "N", "inputs of a group", NULL},
        {"eps", OPTION_TEXT, &self.eps_text, 0, 0, NULL, "X",
         "added to the mean of squares; default 1e-5", NULL},
        {"x", OPTION_TEXT, &self.x, 0, 0, NULL, "FILE", "float32 [tokens][groups][width]", NULL},
        {"w", OPTION_TEXT, &self.w, 0, 0, NULL, "FILE", "float32 [width]", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, float32 [tokens][groups][width]"),
        {0},
    };
    const option_usage usage = {
        "op rmsnorm",
        "--tokens S --width N --x FILE --w FILE --out FILE [options]",
        "Normalises: y = x / sqrt(mean of squares + eps) * w, group by group. All files are raw\n"
        "and little-endian, and must have exactly the size that the shape needs. Prints who ran\n"
        "it.\n",
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
