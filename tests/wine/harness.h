/* A test program without Check, which needs fork: CHECK counts, harness_end prints the line. */
#ifndef TENON_TESTS_WINE_HARNESS_H
#define TENON_TESTS_WINE_HARNESS_H

#include <stdio.h>

static int harness_passed, harness_failed, harness_skipped;

#define CHECK(condition, ...) \
    do { \
        if (condition) { \
            harness_passed++; \
        } else { \
            harness_failed++; \
            printf("FAIL %s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            fflush(stdout); \
        } \
    } while (0)

#define SKIP(what, why) \
    do { \
        harness_skipped++; \
        printf("SKIP %s: %s\n", what, why); \
    } while (0)

static inline int harness_end(void)
{
    printf("%d passed, %d failed, %d skipped\n", harness_passed, harness_failed, harness_skipped);
    return harness_failed == 0 && harness_passed > 0 ? 0 : 1;
}

#endif
