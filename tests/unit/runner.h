/* One way to run a Check suite: prints "N passed, N failed, N skipped" last, and fails when nothing
 * ran. meson hides Check's own closing line, and a run of zero tests must not pass. */
#ifndef TENON_TESTS_RUNNER_H
#define TENON_TESTS_RUNNER_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Tests that cannot run here (no such instruction set, no wine, ...) call this and return. Counted
 * across Check's forked children through a file named by the environment of the run. */
static inline void runner_skip(const char *why)
{
    const char *path = getenv("TENON_TEST_SKIP_FILE");
    FILE *file = path != NULL ? fopen(path, "ab") : NULL;
    printf("SKIP: %s\n", why);
    if (file != NULL) {
        fputc('s', file);
        fclose(file);
    }
}

/* Runs every suite of the runner and returns the exit status for main. Frees the runner. */
static inline int runner_main(SRunner *runner)
{
    char path[] = "/tmp/tenon-skips-XXXXXX";
    int file = mkstemp(path), total, failed, skipped = 0;
    FILE *skips;
    if (file >= 0) setenv("TENON_TEST_SKIP_FILE", path, 1);
    srunner_run_all(runner, CK_ENV);
    total = srunner_ntests_run(runner);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    skips = file >= 0 ? fdopen(file, "rb") : NULL;
    if (skips != NULL) {
        while (fgetc(skips) != EOF) skipped++;
        fclose(skips);
        unlink(path);
    }
    if (skipped > total - failed) skipped = total - failed;
    printf("%d passed, %d failed, %d skipped\n", total - failed - skipped, failed, skipped);
    return failed == 0 && total > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
