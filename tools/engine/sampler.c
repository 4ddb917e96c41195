#include "sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate {
    float logit;
    uint32_t id;
} candidate;

struct sampler {
    sampler_options options;
    uint64_t vocabulary, state;
    float *logits;     /* [vocabulary] with the penalty */
    candidate *heap;   /* [vocabulary] */
    candidate *chosen; /* [vocabulary] taken from the heap in order */
    double *weights;   /* [vocabulary] of the chosen ones */
};

sampler *sampler_open(const sampler_options *options, uint64_t vocabulary)
{
    sampler *self = calloc(1, sizeof *self);
    size_t n = (size_t)vocabulary;
    if (self == NULL) return NULL;
    self->options = *options;
    self->vocabulary = vocabulary;
    self->state = options->seed;
    if (sampler_is_plain(self)) return self;
    self->logits = calloc(n, sizeof *self->logits);
    self->heap = calloc(n, sizeof *self->heap);
    self->chosen = calloc(n, sizeof *self->chosen);
    self->weights = calloc(n, sizeof *self->weights);
    if (self->logits != NULL && self->heap != NULL && self->chosen != NULL && self->weights != NULL)
        return self;
    sampler_close(self);
    return NULL;
}

void sampler_close(sampler *self)
{
    if (self == NULL) return;
    free(self->logits);
    free(self->heap);
    free(self->chosen);
    free(self->weights);
    free(self);
}

bool sampler_is_plain(const sampler *self)
{
    return self->options.temperature == 0.0 &&
           (self->options.repeat_penalty == 1.0 || self->options.repeat_last == 0);
}

/* splitmix64, then the upper 53 bits as a fraction of 1 */
static double draw(sampler *self)
{
    uint64_t z = self->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* e^x for x <= 0: the Taylor series where it is short, to the power of two that undoes the cut. */
static double exponential(double x)
{
    double n, r, sum = 1.0;
    int i;
    if (x < -700.0) return 0.0;
    n = floor(x * 0x1.71547652b82fep0 + 0.5);
    r = x - n * 0x1.62e42fefa39efp-1;
    for (i = 16; i > 0; i--) sum = 1.0 + sum * r / i;
    return ldexp(sum, (int)n);
}

static void apply_penalty(sampler *self, const uint32_t *tokens, size_t count)
{
    float penalty = (float)self->options.repeat_penalty;
    size_t last = self->options.repeat_last < count ? (size_t)self->options.repeat_last : count, i;
    if (penalty == 1.0f) return;
    for (i = count - last; i < count; i++) {
        size_t earlier = count - last;
        float *logit;
        if (tokens[i] >= self->vocabulary) continue;
        while (earlier < i && tokens[earlier] != tokens[i]) earlier++;
        if (earlier < i) continue; /* has had it */
        logit = &self->logits[tokens[i]];
        *logit = *logit > 0.0f ? *logit / penalty : *logit * penalty;
    }
}

static bool is_before(candidate a, candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(candidate *heap, size_t count, size_t at)
{
    candidate moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], moved)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static uint32_t largest(const float *logits, uint64_t count)
{
    uint64_t best = 0, i;
    for (i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (uint32_t)best;
}

/* Without top-k, top-p and min-p there is no order to make: all of them as they stand. */
static size_t take_all(sampler *self)
{
    size_t i;
    for (i = 0; i < self->vocabulary; i++)
        self->chosen[i] = (candidate){self->logits[i], (uint32_t)i};
    return (size_t)self->vocabulary;
}

/* Takes candidates in order until top-k, top-p or min-p says enough. Returns how many. */
static size_t take(sampler *self)
{
    size_t count = (size_t)self->vocabulary, taken = 0, i;
    uint64_t most = self->options.top_k == 0 ? self->vocabulary : self->options.top_k;
    double all = 0.0, sum = 0.0, top;
    for (i = 0; i < count; i++) self->heap[i] = (candidate){self->logits[i], (uint32_t)i};
    for (i = count / 2; i-- > 0;) sift_down(self->heap, count, i);
    top = (double)self->heap[0].logit;
    if (self->options.top_k == 0) {
        if (self->options.top_p < 1.0)
            for (i = 0; i < count; i++) all += exponential((double)self->logits[i] - top);
        else
            all = INFINITY; /* nobody asks for the share */
    }
    while (taken < most && count > 0) {
        candidate next = self->heap[0];
        double weight = exponential((double)next.logit - top);
        if (weight < self->options.min_p) break; /* of the first, weight is 1 */
        self->chosen[taken++] = next;
        self->heap[0] = self->heap[--count];
        if (count > 0) sift_down(self->heap, count, 0);
        sum += weight;
        if (self->options.top_k == 0 && sum >= self->options.top_p * all) break;
    }
    if (self->options.top_k == 0 || self->options.top_p >= 1.0) return taken;
    /* top-p counts the share among those that top-k left */
    all = sum;
    sum = 0.0;
    for (i = 0; i < taken; i++) {
        sum += exponential((double)self->chosen[i].logit - top);
        if (sum >= self->options.top_p * all) return i + 1;
    }
    return taken;
}

uint32_t sampler_choose(sampler *self, const float *logits, const uint32_t *tokens, size_t count)
{
    const sampler_options *options = &self->options;
    double sum = 0.0, at, top;
    size_t taken, i;
    if (sampler_is_plain(self)) return largest(logits, self->vocabulary);
    memcpy(self->logits, logits, (size_t)self->vocabulary * sizeof *logits);
    apply_penalty(self, tokens, count);
    if (options->temperature == 0.0) return largest(self->logits, self->vocabulary);
    top = (double)self->logits[largest(self->logits, self->vocabulary)];
    taken = options->top_k == 0 && options->top_p >= 1.0 && options->min_p <= 0.0 ? take_all(self)
                                                                                  : take(self);
    for (i = 0; i < taken; i++) {
        self->weights[i] = exponential(((double)self->chosen[i].logit - top) /
                                       options->temperature);
        sum += self->weights[i];
    }
    at = draw(self) * sum;
    for (i = 0; i + 1 < taken; i++) {
        at -= self->weights[i];
        if (at < 0.0) break;
    }
    return self->chosen[i].id;
}
