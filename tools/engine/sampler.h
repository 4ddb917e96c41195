/* Choosing a token from logits.
 *
 * The steps, in this order: repetition penalty; then, unless the temperature is 0 (the largest
 * logit wins, nothing is random), top-k, top-p and min-p over the probabilities at temperature 1,
 * the temperature, and a draw. The draw comes from a generator and an exponential function of its
 * own, made of exactly rounded operations: a seed gives the same tokens on every machine. */
#ifndef TENON_TOOLS_ENGINE_SAMPLER_H
#define TENON_TOOLS_ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sampler_options {
    double temperature;    /* 0: greedy */
    double top_p;          /* 1: off */
    double min_p;          /* 0: off */
    double repeat_penalty; /* 1: off; more makes the last repeat_last tokens less likely */
    uint64_t top_k;        /* 0: off */
    uint64_t repeat_last;
    uint64_t seed;
} sampler_options;

typedef struct sampler sampler;

/* For logits of this many tokens. NULL when memory is out. */
sampler *sampler_open(const sampler_options *options, uint64_t vocabulary);
void sampler_close(sampler *self);

/* Is the choice nothing but the largest logit, so that nobody needs to look at the others? */
bool sampler_is_plain(const sampler *self);

/* Chooses from finite logits, which are left as they are. tokens: what came before. */
uint32_t sampler_choose(sampler *self, const float *logits, const uint32_t *tokens, size_t count);

#endif
