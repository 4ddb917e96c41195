/* A whole engine in a page: two products over one input, on whatever computes here.
 *
 * It includes <tenon/engine.h> and nothing else of Tenon, and builds with
 *     cc engine_example.c $(pkg-config --cflags --libs tenon)
 * The first argument, if any, is a chain such as "cpu" or "vulkan:0,cpu". Small whole numbers have
 * exact products, so the answer can be compared with plain loops. */
#include <tenon/engine.h>

#include <stdio.h>
#include <string.h>

#define ROWS 48
#define COLS 64
#define TOKENS 3

static tenon_error error = {.struct_size = sizeof error, .abi_version = TENON_ABI_VERSION};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s (status %d, reason %u: %s)\n", what, error.text, (int)error.status,
            (unsigned)error.reason, tenon_reason_text(error.reason));
    return 1;
}

/* Makes a weight of floats that stay valid as long as the weight. */
static int make_weight(tenon_session *session, const float *values, tenon_weight **out)
{
    const tenon_weight_desc desc = {.struct_size = sizeof desc,
                                    .abi_version = TENON_ABI_VERSION,
                                    .format = TENON_FORMAT_F32,
                                    .rows = ROWS,
                                    .cols = COLS};
    const tenon_weight_data data = {.struct_size = sizeof data,
                                    .abi_version = TENON_ABI_VERSION,
                                    .weights = values,
                                    .weights_bytes = ROWS * COLS * sizeof(float),
                                    .lifetime = TENON_LIFETIME_STABLE};
    return tenon_weight_create(session, &desc, &data, out, &error) == TENON_OK;
}

/* What a product of small whole numbers must be. */
static int is_right(const float *w, const float *x, const float *y)
{
    int s, o, i;
    for (s = 0; s < TOKENS; s++)
        for (o = 0; o < ROWS; o++) {
            float sum = 0.0f;
            for (i = 0; i < COLS; i++) sum += w[o * COLS + i] * x[s * COLS + i];
            if (y[s * ROWS + o] != sum) return 0;
        }
    return 1;
}

int main(int argc, char **argv)
{
    static float gate_values[ROWS * COLS], up_values[ROWS * COLS], x[TOKENS * COLS];
    static float gate_y[TOKENS * ROWS], up_y[TOKENS * ROWS];
    tenon_session_desc desc = {.struct_size = sizeof desc,
                               .abi_version = TENON_ABI_VERSION,
                               .chain = argc > 1 ? argv[1] : NULL};
    tenon_qmatmul_call call = {.struct_size = sizeof call, .abi_version = TENON_ABI_VERSION};
    tenon_weight_information info = {.struct_size = sizeof info, .abi_version = TENON_ABI_VERSION};
    tenon_host *host = NULL;
    tenon_session *session = NULL;
    tenon_weight *gate = NULL, *up = NULL;
    int i, result = 1;

    for (i = 0; i < ROWS * COLS; i++) {
        gate_values[i] = (float)(i % 7 - 3);
        up_values[i] = (float)(i % 5 - 2);
    }
    for (i = 0; i < TOKENS * COLS; i++) x[i] = (float)(i % 9 - 4);

    if (tenon_host_create(NULL, &host, &error) != TENON_OK) return failed("host");
    if (tenon_session_create(host, &desc, &session, &error) != TENON_OK) {
        failed("session");
        goto out;
    }
    if (!make_weight(session, gate_values, &gate) || !make_weight(session, up_values, &up)) {
        failed("weight");
        goto out;
    }
    call.x = (tenon_view){.host = x, .bytes = sizeof x};
    call.tokens = TOKENS;
    call.x_row_stride = COLS * sizeof(float);
    call.output_count = 2;
    call.outputs[0] = (tenon_output){.weight = gate,
                                     .y = {.host = gate_y, .bytes = sizeof gate_y},
                                     .row_stride = ROWS * sizeof(float)};
    call.outputs[1] = (tenon_output){.weight = up,
                                     .y = {.host = up_y, .bytes = sizeof up_y},
                                     .row_stride = ROWS * sizeof(float)};
    if (tenon_qmatmul(tenon_session_queue(session), &call, &error) != TENON_OK) {
        failed("qmatmul");
        goto out;
    }
    if (tenon_weight_info(gate, &info, &error) != TENON_OK) {
        failed("weight info");
        goto out;
    }
    result = is_right(gate_values, x, gate_y) && is_right(up_values, x, up_y) ? 0 : 1;
    printf("tenon %s: two products of %d x %d x %d by %s:%u are %s\n", tenon_version(), TOKENS,
           COLS, ROWS, info.provider, (unsigned)info.device, result == 0 ? "right" : "wrong");
    printf("%d passed, %d failed, 0 skipped\n", result == 0, result != 0);
out:
    tenon_session_destroy(session); /* with its weights */
    if (tenon_host_destroy(host, &error) != TENON_OK) return failed("destroy");
    return result;
}
