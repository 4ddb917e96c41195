/* Conformance: the suite that a vendor runs over a provider.
 *
 * A case is a request, or a family of requests, that can be repeated from its name and a seed. The
 * runner gives each case a process of its own with a time limit; a case never trusts the provider
 * with anything that it still needs. Stages, in order (SPEC.md, 2.5 says how bits are compared):
 *
 *     abi     the descriptors directly: sizes, declines, pairs of create and destroy (abi.c)
 *     exact   requests through a session in mode pin, against the built-in reference (qmatmul.c,
 *             embed.c, rows.c, attention.c)
 *     model   the same with tensors of a real model as the weights (model.c)
 *     approx  products in class APPROX, within its gates (approx.c)
 *     robust  time, numbers and pressure: leaks, threads, long chains, full caches (robust*.c)
 *
 * One operation = one file here, as it is one header in abi/; those over plain rows share one. */
#ifndef TENON_CONFORMANCE_CASE_H
#define TENON_CONFORMANCE_CASE_H

#include <stdbool.h>
#include <tenon/engine.h>

/* What becomes of a case. Only PASSED, FAILED and XFAIL count as executed. */
typedef enum conformance_outcome {
    CONFORMANCE_PASSED = 1,
    CONFORMANCE_FAILED,
    CONFORMANCE_SKIPPED,     /* cannot run here: no device, level absent on this machine */
    CONFORMANCE_UNSUPPORTED, /* the provider declined all of it: not offered */
    CONFORMANCE_XFAIL        /* declared as a known failure, and still failing */
} conformance_outcome;

typedef enum conformance_stage {
    CONFORMANCE_ABI = 1,
    CONFORMANCE_EXACT,
    CONFORMANCE_MODEL,
    CONFORMANCE_APPROX,
    CONFORMANCE_ROBUST
} conformance_stage;

/* What is under test. Strings and arrays are borrowed and outlive every run. */
typedef struct conformance_target {
    const char *id;   /* provider id; "reference" is the one linked into the host */
    const char *file; /* absolute path, NULL for providers that are linked in */
    const tenon_static_symbol *symbols; /* linked in: its descriptors; NULL: file or reference */
    uint64_t symbol_count;
    const char *const *config; /* "key=value" strings, without the level */
    uint64_t config_count;
    const char *level; /* forced instruction-set level, NULL: the provider's own choice */
    uint32_t device;
    struct conformance_share *share; /* given by the runner: expected tables of this case */
} conformance_target;

/* A tensor of a model, borrowed from the mapped file. */
typedef struct conformance_tensor {
    const char *name;
    uint32_t format; /* TENON_FORMAT_* */
    uint64_t rows, cols;
    const void *data;
    uint64_t bytes;
} conformance_tensor;

#define CONFORMANCE_CPU_WORK 1u /* names hardware while the processor does the work */

typedef struct conformance_result {
    int32_t outcome;          /* conformance_outcome */
    uint32_t flags;           /* CONFORMANCE_CPU_WORK */
    uint64_t cpu_us, wall_us; /* processor time and time of large device calls; 0: not measured */
    uint64_t requests;        /* requests whose bits were compared, or single checks of stage abi */
    uint64_t declined;        /* requests that the provider declined */
    char detail[600];         /* one line: why it failed or was not run */
    char repeat[3000];        /* with a save folder: the `tenon op` line that repeats the failure */
} conformance_result;

typedef struct conformance_case conformance_case;

/* Runs one case in the current process and fills *result. Everything it opens it closes. */
typedef void (*conformance_body)(const conformance_case *self, const conformance_target *target,
                                 conformance_result *result);

struct conformance_case {
    char name[176]; /* "exact/qmatmul/Q4_0/a8/cols=576"; filters match it */
    conformance_body body;
    conformance_stage stage;
    uint64_t seed;        /* of this case's data, made from the run's seed and the name */
    bool thorough;        /* every combination instead of a covering choice */
    const char *save_dir; /* where a failing request is written, NULL: nowhere */

    /* for qmatmul; the other operations keep what tells their cases apart in them */
    uint32_t format, layout, arith, kind;
    uint64_t group_size, cols;
    const conformance_tensor *tensor;
};

/* An ordered list of cases. Zeroed is empty. */
typedef struct conformance_suite {
    conformance_case *cases;
    uint64_t count, capacity;
    uint64_t seed;        /* the run's seed */
    bool thorough;        /* given to every case that is added */
    const char *save_dir; /* given to every case that is added */
} conformance_suite;

/* Appends a case with this name and returns it for filling in, or NULL when out of memory. The
 * pointer is valid until the next add. */
conformance_case *conformance_add(conformance_suite *suite, conformance_stage stage,
                                  conformance_body body, const char *name);
/* Keeps the cases whose name (or whose name followed by "@level" for one of the levels) matches the
 * glob; returns how many are left. */
uint64_t conformance_filter(conformance_suite *suite, const char *glob, const char *const *levels,
                            uint64_t level_count);
/* Frees the list; the suite is empty afterwards. */
void conformance_clear(conformance_suite *suite);

/* The cases of each source. False: out of memory. */
bool conformance_add_abi(conformance_suite *suite);
bool conformance_add_qmatmul(conformance_suite *suite);
bool conformance_add_embed(conformance_suite *suite);
bool conformance_add_rows(conformance_suite *suite); /* rmsnorm, gated, add, argmax */
bool conformance_add_attention(conformance_suite *suite);
bool conformance_add_approx(conformance_suite *suite);
bool conformance_add_robust(conformance_suite *suite);
bool conformance_add_model(conformance_suite *suite, const conformance_tensor *tensors,
                           uint64_t count);

/* Are the cases of this stage about bits, so that each runs once a level? */
bool conformance_by_level(conformance_stage stage);

/* Sets outcome and detail (printf-like) and returns false, so that a check can end with
 *     return conformance_fail(result, "...");
 * The first failure of a case is kept. */
__attribute__((format(printf, 2, 3))) bool conformance_fail(conformance_result *result,
                                                            const char *format, ...);
/* Sets an outcome other than failed, unless a failure stands already. */
__attribute__((format(printf, 3, 4))) void
conformance_set(conformance_result *result, conformance_outcome outcome, const char *format, ...);

/* "passed", "failed", "skipped", "unsupported", "xfail". Static storage. */
const char *conformance_outcome_name(int32_t outcome);

#endif
