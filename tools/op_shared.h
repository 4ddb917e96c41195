/* What the operations of `tenon op` share: files in, one call on a chain, a file and a report out. */
#ifndef TENON_TOOLS_OP_SHARED_H
#define TENON_TOOLS_OP_SHARED_H

#include "json.h"
#include "options.h"

#include <tenon/engine.h>

/* ---- a weight as options and files ---- */

typedef struct op_weight {
    const char *format, *weights, *scales; /* words of the command line */
    uint32_t layout;                       /* index: pair, planar */
    bool layout_given;
    uint64_t group, rows, cols;
    tenon_weight_desc desc; /* filled by op_weight_judge, with the bytes */
    uint64_t weights_bytes, scales_bytes;
} op_weight;

/* Entries of an option table; w is the op_weight. */
#define OP_WEIGHT_OPTIONS(w) \
    {"format", \
     OPTION_TEXT, \
     &(w)->format, \
     0, \
     0, \
     NULL, \
     "F", \
     "weight format: Q4_0, Q4_K, F16, int8-row, int4-group, ...", \
     NULL}, \
        {"layout", \
         OPTION_CHOICE, \
         &(w)->layout, \
         0, \
         0, \
         "pair|planar", \
         NULL, \
         "order of int4 codes; default pair", \
         &(w)->layout_given}, \
        {"group",    OPTION_U64, &(w)->group, 1, \
         UINT64_MAX, NULL,       "N",         "inputs that share a scale, for int4-group", \
         NULL}, \
        {"rows", OPTION_U64, &(w)->rows, 1, UINT64_MAX, NULL, "O", "outputs of the weight", NULL}, \
        {"cols", OPTION_U64, &(w)->cols, 1, UINT64_MAX, NULL, "I", "inputs of the weight", NULL}, \
        {"weights", OPTION_TEXT, &(w)->weights, 0, 0, NULL, "FILE", "blocks row by row, or codes", \
         NULL}, \
    { \
        "scales", OPTION_TEXT, &(w)->scales, 0, 0, NULL, "FILE", \
            "scales, for formats that keep them apart", NULL \
    }

/* Is the weight one that a file can hold? OPTIONS_GO_ON, or a usage error of command. */
int op_weight_judge(const char *command, op_weight *self, uint32_t semantic);

/* ---- one call ---- */

#define OP_INPUTS 4u
#define OP_FACTS 8u

typedef struct op_input {
    const char *option; /* "--x" */
    const char *path;   /* NULL: there is none, and none is read */
    uint64_t bytes;     /* that the file must have */
    void *memory;       /* read from it */
} op_input;

/* A number of the request that the report tells. */
typedef struct op_fact {
    const char *name;
    uint64_t value;
} op_fact;

typedef struct op_request op_request;
/* Makes the call: inputs are read, y has room. TENON_OK, or a failure with *error filled; *doing
 * says what failed. */
typedef int32_t (*op_caller)(op_request *self, tenon_session *session, const char **doing,
                             tenon_error *error);

struct op_request {
    const char *name;    /* "rmsnorm" */
    const char *command; /* "op rmsnorm" */
    options parsed;
    const char *chain, *out;
    uint32_t mode; /* index: pin, prefer, auto */
    bool mode_given;
    uint32_t arith; /* TENON_CLASS_* of the session, 0: F32 */
    op_input inputs[OP_INPUTS];
    uint32_t input_count;
    op_fact facts[OP_FACTS];
    uint32_t fact_count;
    const char *format;      /* of the weight, NULL: none */
    const char *class_name;  /* set by the call when the report should tell it, else NULL */
    uint64_t y_bytes;        /* of the result */
    void *y;                 /* room for it */
    op_caller call;          /* what the operation does */
    char level_provider[32]; /* whom --level is for */
};

/* Entries of an option table; r is the op_request. */
#define OP_COMMON_OPTIONS(r, result) \
    {"out", OPTION_TEXT, &(r)->out, 0, 0, NULL, "FILE", "gets " result, NULL}, \
        {"provider", OPTION_TEXT, &(r)->chain, 0, \
         0,          NULL,        "CHAIN",     "providers in order, e.g. vulkan:0,cpu", \
         NULL}, \
    { \
        "mode", OPTION_CHOICE, &(r)->mode, 0, 0, "pin|prefer|auto", NULL, \
            "pin: only these; prefer: then the reference; auto: the host's order", \
            &(r)->mode_given \
    }

/* Adds an input; a path of NULL is an input that is not there. */
void op_add_input(op_request *self, const char *option, const char *path, uint64_t bytes);
void op_add_fact(op_request *self, const char *name, uint64_t value);

/* *bytes = 4 * a * b * c; false: it overflows. */
bool op_floats(uint64_t a, uint64_t b, uint64_t c, uint64_t *bytes);

/* The usage error of an option that is missing when value is 0. OPTIONS_GO_ON otherwise. */
int op_need(const op_request *self, const char *option, uint64_t value);
/* The same for a file. */
int op_need_text(const op_request *self, const char *option, const char *text);
/* A number with a fraction. NULL leaves *out as it is. OPTIONS_GO_ON, or a usage error. */
int op_float(const op_request *self, const char *option, const char *text, float *out);

/* Everything after the command line was understood: reads, calls, writes, reports. Returns the exit
 * code; frees what it took, the options too. */
int op_execute(op_request *self);

#endif
