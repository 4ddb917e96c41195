/* The floating point mode of a thread: what the arithmetic of SPEC.md 2 needs, and what was there.
 *
 * The answer of a product may not depend on the mode that an engine runs in, and an engine's mode
 * may not be changed by a provider. So every call into a provider is bracketed: the default mode
 * is set (round to nearest, subnormals kept, no traps), and afterwards the caller's is put back.
 * Only control bits count; the sticky exception flags are left to whoever computes. */
#ifndef TENON_HOST_FPENV_H
#define TENON_HOST_FPENV_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <fenv.h>
#include <xmmintrin.h>

typedef uint32_t fp_mode;

/* MXCSR: exceptions masked, nearest, neither flush-to-zero nor denormals-are-zero. */
#define FP_MODE_DEFAULT 0x1f80u
#define FP_MODE_FLAGS 0x3fu

/* Sets the default mode and returns the one found. */
static inline fp_mode fp_enter(void)
{
    fp_mode found = _mm_getcsr();
    if ((found & ~FP_MODE_FLAGS) != FP_MODE_DEFAULT) _mm_setcsr(FP_MODE_DEFAULT);
    return found;
}

/* Puts the found mode back. Returns true when the mode had been changed since fp_enter. */
static inline bool fp_leave(fp_mode found)
{
    static const int directions[4] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    bool changed = (_mm_getcsr() & ~FP_MODE_FLAGS) != FP_MODE_DEFAULT;
    if (changed) fesetround(directions[(found >> 13) & 3u]); /* the x87 unit follows */
    if (changed || (found & ~FP_MODE_FLAGS) != FP_MODE_DEFAULT) _mm_setcsr(found);
    return changed;
}

#elif defined(__aarch64__)

typedef uint64_t fp_mode;

static inline fp_mode fp_read(void)
{
    fp_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void fp_write(fp_mode mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

static inline fp_mode fp_enter(void)
{
    fp_mode found = fp_read();
    if (found != 0) fp_write(0);
    return found;
}

static inline bool fp_leave(fp_mode found)
{
    bool changed = fp_read() != 0;
    if (changed || found != 0) fp_write(found);
    return changed;
}

#else
#include <fenv.h>

typedef fenv_t fp_mode;

static inline fp_mode fp_enter(void)
{
    fp_mode found;
    fegetenv(&found);
    fesetenv(FE_DFL_ENV);
    return found;
}

/* Portable C sees the rounding direction only. */
static inline bool fp_leave(fp_mode found)
{
    bool changed = fegetround() != FE_TONEAREST;
    fesetenv(&found);
    return changed;
}
#endif

#endif
