/* The body of the three image targets: judge any bytes as a provider of one container. */
#ifndef TENON_FUZZ_IMAGE_TARGET_H
#define TENON_FUZZ_IMAGE_TARGET_H

#include <loader/static.h>
#include <loader/verdict.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static inline int fuzz_image(const char *container, const char *machine, const uint8_t *bytes,
                             size_t size)
{
    loader_verdict verdict;
    loader_fault fault;
    image out;
    memset(&fault, 0, sizeof fault);
    memset(&out, 0, sizeof out);
    if (static_judge_bytes(bytes, size, container, machine, NULL, &out, &fault) == TENON_OK) {
        /* An accepted file has both names, as data, of this version. */
        if (fault.reason == TENON_REASON_NONE &&
            (!out.facts.symbols[SYMBOL_provider_v1].is_data ||
             !out.facts.symbols[SYMBOL_qmatmul_v1].is_data || out.facts.id[0] == '\0' ||
             strcmp(out.facts.machine, machine) != 0))
            abort();
        verdict_init(&verdict);
        if (fault.reason != TENON_REASON_NONE &&
            verdict_refuse(&verdict, fault.reason, fault.symbol, fault.have, fault.need,
                           fault.text) &&
            verdict_render(&verdict) && strpbrk(verdict.line, "\n\r\x1b") != NULL)
            abort();
        loader_verdict_clear(&verdict);
    }
    image_clear(&out);
    return 0;
}

#endif
