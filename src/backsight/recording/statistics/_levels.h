/* The kernel at each level of the processor, and the level in use. Never -march=native: a wheel runs anywhere. */
#ifndef BACKSIGHT_LEVELS_H
#define BACKSIGHT_LEVELS_H

#include <stdint.h>
#include <string.h>

#include "_imprint.h"
#include "_row.h"

/* In the order of KINDS in native.py; the prefix because Windows has types of these names. */
enum {
    KIND_FLOAT32, KIND_FLOAT64, KIND_BFLOAT16, KIND_FLOAT16, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_UINT8,
    KIND_BOOL, KIND_COUNT
};
static const unsigned SIZES[KIND_COUNT] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1};
#define IS_DOUBLE(kind) ((kind) == KIND_FLOAT64 || (kind) == KIND_INT32 || (kind) == KIND_INT64)

/* 2^-40: the squares of deviations among smaller floats would vanish. */
#define SMALLEST_SQUARED 9.094947e-13f
#define ENLARGING 18446744073709551616.0f /* 2^64: squares of smaller floats do not vanish after it */
#define INFINITE_DOUBLE (UINT64_C(0x7ff0000000000000) << 1) /* the bits of an infinity without its sign */

/* The bins of positive numbers and those of negative ones; the last of each is for what is not counted. */
enum { SIDE = BINS + 1 };
typedef struct { uint32_t bins[4][2 * SIDE]; } Tally;

/* `#pragma omp simd` lets the compiler reorder sums without -ffast-math, and needs no OpenMP library. */
#define PRAGMA(text) _Pragma(#text)
#ifdef _MSC_VER
#define SIMD(clauses) /* its _Pragma knows no omp simd in C: correct, and not vectorised */
#else
#define SIMD(clauses) PRAGMA(omp simd clauses)
#endif

static inline uint32_t float_bits(float x) { uint32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
static inline uint64_t double_bits(double x) { uint64_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
static inline float float_of(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }

/* What minimum and maximum compare. Clang does not vectorise those of floating-point numbers, for fear of NaN and -0.0:
 * for it, integers in the same order. */
#ifdef __clang__
typedef int32_t float_order;
typedef int64_t double_order;
static inline double double_of(uint64_t bits) { double x; memcpy(&x, &bits, sizeof x); return x; }
static inline int32_t mirrored(int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); }
static inline int64_t mirrored_long(int64_t bits) { return bits ^ (bits >> 63 & INT64_MAX); }
static inline int32_t float_to_order(float x) { return mirrored((int32_t)float_bits(x)); }
static inline int64_t double_to_order(double x) { return mirrored_long((int64_t)double_bits(x)); }
static inline float float_from_order(int32_t order) { return float_of((uint32_t)mirrored(order)); }
static inline double double_from_order(int64_t order) { return double_of((uint64_t)mirrored_long(order)); }
#else
typedef float float_order;
typedef double double_order;
static inline float float_to_order(float x) { return x; }
static inline double double_to_order(double x) { return x; }
static inline float float_from_order(float order) { return order; }
static inline double double_from_order(double order) { return order; }
#endif

/* A number with its sign turned where the lowest bit says so. */
static inline float flipped_float(float x, uint32_t bit) { return float_of(float_bits(x) ^ bit << 31); }
static inline double flipped_double(double x, uint64_t bit)
{
    const uint64_t bits = double_bits(x) ^ bit << 63;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float bfloat16_value(uint16_t half) { return float_of((uint32_t)half << 16); }

/* By integer arithmetic, which every instruction set can do to many at once: F. Giesen, "half_to_float_fast5". */
static inline float float16_value(uint16_t half)
{
    const uint32_t infinite = 0x7c00u << 13, magnitude = (half & 0x7fffu) << 13, exponent = magnitude & infinite;
    const uint32_t shifted = magnitude + ((127u - 15u) << 23);
    const uint32_t denormal = float_bits(float_of(shifted + (1u << 23)) - float_of(113u << 23));
    const uint32_t is_special = 0u - (exponent == infinite), is_denormal = 0u - (exponent == 0);
    const uint32_t normal = shifted + (is_special & ((128u - 16u) << 23));
    return float_of((is_denormal & denormal) | (~is_denormal & normal) | (half & 0x8000u) << 16);
}

static inline uint64_t mixed(uint64_t word)
{
    word = (word ^ word >> 32) * MIX;
    return word ^ word >> 32;
}

static uint64_t hash_rest(const char *bytes, int size, uint64_t place)
{
    uint64_t word = 0;
    if (!size)
        return 0;
    memcpy(&word, bytes, (size_t)size);
    return mixed(word + (place + 1) * GOLDEN);
}

#define TARGET
#define LEVEL(name) name##_baseline
#include "_blocks.h"
#undef TARGET
#undef LEVEL

/* On 64-bit ARM the baseline has NEON already; elsewhere than x86 there is only the baseline. */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAS_LEVELS 1

#define TARGET __attribute__((target("avx2,fma")))
#define LEVEL(name) name##_avx2
#include "_blocks.h"
#undef TARGET
#undef LEVEL

#ifdef __clang__
#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"), min_vector_width(512)))
#else
#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define LEVEL(name) name##_avx512
#include "_blocks.h"
#undef TARGET
#undef LEVEL
#endif

typedef void (*Stretch)(const char *source, int64_t count, int kind, int sample, Partial *partial);
typedef void (*Imprinted)(const char *source, int count, int kind, int64_t first, int finite, Imprint *print);

static const struct { const char *name; Stretch stretch; Imprinted imprint; } LEVELS[] = {
    {"baseline", stretch_baseline, imprint_baseline},
#ifdef HAS_LEVELS
    {"avx2", stretch_avx2, imprint_avx2},
    {"avx512", stretch_avx512, imprint_avx512},
#endif
};

/* How many of LEVELS this processor (and its operating system) can run. */
static int levels_here(void)
{
#ifdef HAS_LEVELS
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return 1;
    /* vbmi2 is not used: it came with the processors that no longer slow down for 512-bit registers. */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") ? 3 : 2;
#else
    return 1;
#endif
}

#endif
