/* What the fixtures of whole operations share: the reference, which computes for them, and how they
 * read their configuration.
 *
 * A fixture is a provider of its own: its objects hold those of the reference, which is linked into
 * the same file. Nothing of it reaches the host. */
#ifndef TENON_TESTS_INNER_H
#define TENON_TESTS_INNER_H

#include <tenon/provider.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;

/* The text of setting "<id>.<name>", NULL when it is not set. */
static inline const char *inner_text(const tenon_services *services, const char *id,
                                     const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", id, name);
    return services->config(services->host, key);
}

/* Its number; *value stays when it is not set. */
static inline int32_t inner_number(const tenon_services *services, const char *id, const char *name,
                                   uint64_t *value, tenon_error *error)
{
    const char *text = inner_text(services, id, name);
    char *end;
    if (text == NULL) return TENON_OK;
    if (text[0] >= '0' && text[0] <= '9') {
        unsigned long long number = strtoull(text, &end, 10);
        if (*end == '\0') {
            *value = number;
            return TENON_OK;
        }
    }
    return tenon_fail(error, TENON_STATE, TENON_REASON_UNKNOWN_CONFIG, TENON_SCOPE_PROVIDER, name);
}

static inline int32_t inner_no_memory(uint64_t bytes, uint32_t scope, tenon_error *error)
{
    return tenon_fail_amount(error, TENON_NOMEM, TENON_REASON_OUT_OF_MEMORY, scope, bytes,
                             TENON_UNKNOWN, "host memory of a fixture");
}

/* A fixture stands for an accelerator: it has one device, and that is no processor. */
static inline void inner_describe(const char *id, uint64_t total, uint64_t unused,
                                  tenon_device_info *out)
{
    *out = (tenon_device_info){TENON_HEAD(tenon_device_info), .kind = TENON_DEVICE_DISCRETE};
    out->arith = TENON_CLASS_BIT(TENON_CLASS_F32) | TENON_CLASS_BIT(TENON_CLASS_A8);
    out->memory_total = total;
    out->memory_free = unused;
    snprintf(out->name, sizeof out->name, "fixture %s", id);
    snprintf(out->detail, sizeof out->detail, "scalar");
}

/* Rows that a call writes. */
typedef struct inner_rows {
    uint8_t *at;
    uint64_t rows, stride, bytes; /* of one row */
} inner_rows;

static inline inner_rows inner_rows_of(const tenon_view *view, uint64_t rows, uint64_t stride,
                                       uint64_t values)
{
    return (inner_rows){(uint8_t *)view->host + view->offset, rows, stride, values * sizeof(float)};
}

/* Leaves what a call leaves that died in the middle: the first half of y is written, with values
 * that nobody would want. */
static inline void inner_write_half(const inner_rows *y)
{
    uint64_t row;
    for (row = 0; row < y->rows / 2; row++) memset(y->at + row * y->stride, 0x5A, (size_t)y->bytes);
    if (y->rows % 2 != 0) memset(y->at + row * y->stride, 0x5A, (size_t)(y->bytes / 8 * 4));
}

#endif
