/* Opens the reference provider through its descriptors, as a host does, for tests of it. */
#ifndef TENON_TESTS_REFERENCE_FIXTURE_H
#define TENON_TESTS_REFERENCE_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/provider.h>

extern const tenon_provider_v1 tenon_reference_provider_v1;
extern const tenon_qmatmul_v1 tenon_reference_qmatmul_v1;
extern const tenon_embed_v1 tenon_reference_embed_v1;
extern const tenon_rmsnorm_v1 tenon_reference_rmsnorm_v1;
extern const tenon_attention_v1 tenon_reference_attention_v1;
extern const tenon_gated_v1 tenon_reference_gated_v1;
extern const tenon_add_v1 tenon_reference_add_v1;
extern const tenon_argmax_v1 tenon_reference_argmax_v1;

typedef struct fixture {
    tenon_services services;
    tenon_provider *provider;
    tenon_device *device;
    int backwards; /* parallel_for takes the units in descending order */
} fixture;

static inline void TENON_CALL fixture_log(void *host, uint32_t level, const char *text)
{
    (void)host;
    (void)level;
    (void)text;
}

static inline void TENON_CALL fixture_parallel_for(void *host, uint64_t count,
                                                   tenon_parallel_body body, void *context)
{
    const fixture *self = host;
    uint64_t i;
    for (i = 0; i < count; i++) body(context, self->backwards ? count - 1 - i : i, 0);
}

static inline uint32_t TENON_CALL fixture_team_size(void *host)
{
    (void)host;
    return 1;
}

static inline const char *TENON_CALL fixture_config(void *host, const char *key)
{
    (void)host;
    (void)key;
    return NULL;
}

static inline void fixture_services(fixture *self)
{
    memset(self, 0, sizeof *self);
    self->services = (tenon_services){TENON_HEAD(tenon_services),
                                      .host = self,
                                      .log = fixture_log,
                                      .parallel_for = fixture_parallel_for,
                                      .team_size = fixture_team_size,
                                      .config = fixture_config};
}

static inline void fixture_open(fixture *self)
{
    fixture_services(self);
    ck_assert_int_eq(tenon_reference_provider_v1.open(&self->services, &self->provider, NULL),
                     TENON_OK);
    ck_assert_int_eq(
        tenon_reference_provider_v1.device_open(self->provider, 0, &self->device, NULL), TENON_OK);
}

static inline void fixture_close(fixture *self)
{
    tenon_reference_provider_v1.device_close(self->device);
    tenon_reference_provider_v1.close(self->provider);
}

static inline tenon_weight_desc fixture_desc(uint32_t format, uint32_t layout, uint64_t group,
                                             uint64_t rows, uint64_t cols, uint32_t arith)
{
    return (tenon_weight_desc){TENON_HEAD(tenon_weight_desc),
                               .format = format,
                               .layout = layout,
                               .group_size = group,
                               .rows = rows,
                               .cols = cols,
                               .arith = arith};
}

/* Prepares a weight whose bytes lie `shift` bytes past an aligned address and are gone afterwards. */
static inline tenon_prepared *fixture_prepare(const fixture *self, const tenon_weight_desc *desc,
                                              const void *codes, const void *scales, size_t shift)
{
    uint64_t codes_bytes, scales_bytes;
    uint32_t reason;
    uint8_t *c, *s;
    tenon_prepared *prepared = NULL;
    tenon_weight_data data = {TENON_HEAD(tenon_weight_data), .identity = 1};

    ck_assert_int_eq(tenon_weight_bytes(desc, &codes_bytes, &scales_bytes, &reason), TENON_OK);
    c = malloc((size_t)codes_bytes + shift);
    s = malloc((size_t)scales_bytes + shift + 1);
    ck_assert(c != NULL && s != NULL);
    memcpy(c + shift, codes, (size_t)codes_bytes);
    if (scales != NULL) memcpy(s + shift, scales, (size_t)scales_bytes);
    data.weights = c + shift;
    data.weights_bytes = codes_bytes;
    data.scales = scales_bytes != 0 ? s + shift : NULL;
    data.scales_bytes = scales_bytes;
    data.lifetime = TENON_LIFETIME_COPY;
    ck_assert_int_eq(tenon_reference_qmatmul_v1.prepare(self->device, desc, &data, &prepared, NULL),
                     TENON_OK);
    ck_assert_ptr_nonnull(prepared);
    memset(c, 0xA5, (size_t)codes_bytes + shift);
    memset(s, 0xA5, (size_t)scales_bytes + shift);
    free(c);
    free(s);
    return prepared;
}

/* A call of one output over tightly packed x and y. */
static inline tenon_qmatmul_call fixture_call(tenon_prepared *prepared, const float *x, float *y,
                                              uint64_t tokens, uint64_t cols, uint64_t rows)
{
    tenon_qmatmul_call call = {TENON_HEAD(tenon_qmatmul_call), .tokens = tokens};
    call.x.host = (void *)(uintptr_t)x;
    call.x.bytes = 4 * tokens * cols;
    call.x_row_stride = 4 * cols;
    call.output_count = 1;
    call.outputs[0].weight = prepared;
    call.outputs[0].y.host = y;
    call.outputs[0].y.bytes = 4 * tokens * rows;
    call.outputs[0].row_stride = 4 * rows;
    return call;
}

/* y = x . W^T in one go: prepare, run, release. */
static inline void fixture_product(const fixture *self, const tenon_weight_desc *desc,
                                   const void *codes, const void *scales, const float *x,
                                   uint64_t tokens, float *y)
{
    tenon_prepared *prepared = fixture_prepare(self, desc, codes, scales, 1);
    tenon_qmatmul_call call = fixture_call(prepared, x, y, tokens, desc->cols, desc->rows);
    ck_assert_int_eq(tenon_reference_qmatmul_v1.run(self->device, NULL, &call, NULL), TENON_OK);
    tenon_reference_qmatmul_v1.release(self->device, prepared);
}

/* A view of count values of 4 bytes. */
static inline tenon_view fixture_view(const void *values, uint64_t count)
{
    return (tenon_view){.host = (void *)(uintptr_t)values, .bytes = 4 * count};
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Equal bits, any NaN equal to any NaN (SPEC.md 2.5). */
static inline int same_value(uint32_t a, uint32_t b)
{
    int nan_a = (a & 0x7fffffffu) > 0x7f800000u, nan_b = (b & 0x7fffffffu) > 0x7f800000u;
    return nan_a || nan_b ? nan_a && nan_b : a == b;
}

#endif
