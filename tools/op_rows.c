/* `tenon op gated`, `add`, `argmax`: the operations over rows of one width. */
#include "op.h"
#include "op_shared.h"

typedef struct rows {
    op_request base;
    const char *first, *second; /* files: gate and up, a and b, x */
    uint32_t activation;        /* index */
    uint64_t tokens, width;
} rows;

static tenon_view view(const op_request *base, uint32_t input)
{
    return (tenon_view){.host = base->inputs[input].memory, .bytes = base->inputs[input].bytes};
}

static int32_t call_gated(op_request *base, tenon_session *session, const char **doing,
                          tenon_error *error)
{
    const rows *self = (const rows *)base;
    const tenon_gated_call call = {TENON_HEAD(tenon_gated_call),
                                   .gate = view(base, 0),
                                   .up = view(base, 1),
                                   .y = {.host = base->y, .bytes = base->y_bytes},
                                   .tokens = self->tokens,
                                   .width = self->width,
                                   .gate_row_stride = 4 * self->width,
                                   .up_row_stride = 4 * self->width,
                                   .y_row_stride = 4 * self->width,
                                   .activation = TENON_ACT_SILU + self->activation};

    (void)doing;
    return tenon_gated(tenon_session_queue(session), &call, error);
}

static int32_t call_add(op_request *base, tenon_session *session, const char **doing,
                        tenon_error *error)
{
    const rows *self = (const rows *)base;
    const tenon_add_call call = {TENON_HEAD(tenon_add_call),
                                 .a = view(base, 0),
                                 .b = view(base, 1),
                                 .y = {.host = base->y, .bytes = base->y_bytes},
                                 .tokens = self->tokens,
                                 .width = self->width,
                                 .a_row_stride = 4 * self->width,
                                 .b_row_stride = 4 * self->width,
                                 .y_row_stride = 4 * self->width};

    (void)doing;
    return tenon_add(tenon_session_queue(session), &call, error);
}

static int32_t call_argmax(op_request *base, tenon_session *session, const char **doing,
                           tenon_error *error)
{
    const rows *self = (const rows *)base;
    const tenon_argmax_call call = {TENON_HEAD(tenon_argmax_call),
                                    .x = view(base, 0),
                                    .y = {.host = base->y, .bytes = base->y_bytes},
                                    .tokens = self->tokens,
                                    .width = self->width,
                                    .x_row_stride = 4 * self->width};

    (void)doing;
    return tenon_argmax(tenon_session_queue(session), &call, error);
}

/* second NULL: the operation has one input, and a result of one number a row. */
static int execute(rows *self, const char *first, const char *second)
{
    op_request *base = &self->base;
    uint64_t bytes;
    int status = op_need(base, "--tokens", self->tokens);

    if (status == OPTIONS_GO_ON) status = op_need(base, "--width", self->width);
    if (status == OPTIONS_GO_ON) status = op_need_text(base, first, self->first);
    if (status == OPTIONS_GO_ON && second != NULL)
        status = op_need_text(base, second, self->second);
    if (status == OPTIONS_GO_ON &&
        (!op_floats(self->tokens, self->width, 1, &bytes) ||
         !op_floats(self->tokens, second == NULL ? 1 : self->width, 1, &base->y_bytes)))
        status = options_usage_error(base->command, "--width: size overflows");
    if (status != OPTIONS_GO_ON) {
        options_free(&base->parsed);
        return status;
    }
    op_add_input(base, first, self->first, bytes);
    if (second != NULL) op_add_input(base, second, self->second, bytes);
    op_add_fact(base, "tokens", self->tokens);
    op_add_fact(base, "width", self->width);
    return op_execute(base);
}

#define SHAPE_OPTIONS(self) \
    {"tokens", OPTION_U64, &(self).tokens, 1, UINT64_MAX, NULL, "S", "rows", NULL}, \
    { \
        "width", OPTION_U64, &(self).width, 1, UINT64_MAX, NULL, "N", "elements of a row", NULL \
    }
#define FILES_HELP \
    " All files are raw and\n" \
    "little-endian, and must have exactly the size that the shape needs. Prints who ran it.\n"

int op_gated(int argc, char **argv)
{
    rows self = {.base = {.name = "gated", .command = "op gated", .call = call_gated}};
    const option_entry entries[] = {
        SHAPE_OPTIONS(self),
        {"act", OPTION_CHOICE, &self.activation, 0, 0, "silu|gelu-tanh|gelu-erf|relu", NULL,
         "activation; default silu", NULL},
        {"gate", OPTION_TEXT, &self.first, 0, 0, NULL, "FILE", "float32 [tokens][width]", NULL},
        {"up", OPTION_TEXT, &self.second, 0, 0, NULL, "FILE", "float32 [tokens][width]", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, float32 [tokens][width]"),
        {0},
    };
    const option_usage usage = {"op gated",
                                "--tokens S --width N --gate FILE --up FILE --out FILE [options]",
                                "Computes y = act(gate) * up, element by element." FILES_HELP,
                                entries,
                                0,
                                0,
                                NULL};
    int status = options_parse(&self.base.parsed, &usage, argc, argv);

    return status != OPTIONS_GO_ON ? status : execute(&self, "--gate", "--up");
}

int op_add(int argc, char **argv)
{
    rows self = {.base = {.name = "add", .command = "op add", .call = call_add}};
    const option_entry entries[] = {
        SHAPE_OPTIONS(self),
        {"a", OPTION_TEXT, &self.first, 0, 0, NULL, "FILE", "float32 [tokens][width]", NULL},
        {"b", OPTION_TEXT, &self.second, 0, 0, NULL, "FILE", "float32 [tokens][width]", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, float32 [tokens][width]"),
        {0},
    };
    const option_usage usage = {"op add",
                                "--tokens S --width N --a FILE --b FILE --out FILE [options]",
                                "Computes y = a + b, element by element." FILES_HELP,
                                entries,
                                0,
                                0,
                                NULL};
    int status = options_parse(&self.base.parsed, &usage, argc, argv);

    return status != OPTIONS_GO_ON ? status : execute(&self, "--a", "--b");
}

int op_argmax(int argc, char **argv)
{
    rows self = {.base = {.name = "argmax", .command = "op argmax", .call = call_argmax}};
    const option_entry entries[] = {
        SHAPE_OPTIONS(self),
        {"x", OPTION_TEXT, &self.first, 0, 0, NULL, "FILE", "float32 [tokens][width]", NULL},
        OP_COMMON_OPTIONS(&self.base, "y, uint32 [tokens]; 0xFFFFFFFF: a row of only NaN"),
        {0},
    };
    const option_usage usage = {"op argmax",
                                "--tokens S --width N --x FILE --out FILE [options]",
                                "Finds the index of the first maximum of each row." FILES_HELP,
                                entries,
                                0,
                                0,
                                NULL};
    int status = options_parse(&self.base.parsed, &usage, argc, argv);

    return status != OPTIONS_GO_ON ? status : execute(&self, "--x", NULL);
}
