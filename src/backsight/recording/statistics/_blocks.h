/* Statistics of a stretch of numbers. Included once for each instruction set: LEVEL(name) names the copy, and TARGET
 * is the attribute that lets the compiler use that set.
 *
 * A block is swept once, about a centre that an earlier block left: deviations from it keep the digits that a large
 * offset would cost. Where the centre proves to lie far outside, the block is swept again about its own mean, while it
 * still lies in the first-level cache. The squares of a block with a NaN or an infinity do not sum to a finite number:
 * such a block, and one whose squares would leave the range of float, is done again in double, with care. */

#define SWEEP(TYPE, INTEGER)                                                                                           \
    typedef struct { TYPE sum, squares, low, high; int zeros; } LEVEL(Sweep_##TYPE);                                   \
                                                                                                                       \
    TARGET static LEVEL(Sweep_##TYPE) LEVEL(sweep_##TYPE)(const TYPE *x, int n, TYPE centre)                           \
    {                                                                                                                  \
        TYPE sum = 0, squares = 0;                                                                                     \
        TYPE##_order low = TYPE##_to_order((TYPE)INFINITY), high = TYPE##_to_order(-(TYPE)INFINITY);                   \
        INTEGER zeros = 0; /* as wide as the numbers: lanes of one width */                                            \
        SIMD(reduction(+ : sum, squares, zeros) reduction(min : low) reduction(max : high))                            \
        for (int i = 0; i < n; i++) {                                                                                  \
            const TYPE d = x[i] - centre;                                                                              \
            const TYPE##_order v = TYPE##_to_order(x[i]);                                                              \
            sum += d;                                                                                                  \
            squares += d * d;                                                                                          \
            low = v < low ? v : low;                                                                                   \
            high = v > high ? v : high;                                                                                \
            zeros += (INTEGER)(x[i] == 0);                                                                             \
        }                                                                                                              \
        return (LEVEL(Sweep_##TYPE)){sum, squares, TYPE##_from_order(low), TYPE##_from_order(high), (int)zeros};       \
    }                                                                                                                  \
                                                                                                                       \
    /* The sum of squares about the mean; the sweep is done again if it cancels more than half. */                     \
    TARGET static double LEVEL(settle_##TYPE)(const TYPE *x, int n, TYPE *centre, LEVEL(Sweep_##TYPE) *swept)          \
    {                                                                                                                  \
        double m2 = swept->squares - (double)swept->sum * swept->sum / n;                                              \
        if (m2 < swept->squares / 2) {                                                                                 \
            *centre += swept->sum / n;                                                                                 \
            *swept = LEVEL(sweep_##TYPE)(x, n, *centre);                                                               \
            m2 = swept->squares - (double)swept->sum * swept->sum / n;                                                 \
        }                                                                                                              \
        return m2;                                                                                                     \
    }

SWEEP(float, int32_t)
SWEEP(double, int64_t)

/* Any numbers: NaN and infinities are counted and left out, and of the largest neither sum nor squares need fit. */
TARGET static void LEVEL(careful_block)(const double *x, int n, Row *row)
{
    double kept[BLOCK];
    int k = 0, nans = 0;
    for (int i = 0; i < n; i++) {
        const uint64_t magnitude = double_bits(x[i]) << 1; /* compared without a branch: masks are half infinite */
        kept[k] = x[i];
        k += magnitude < INFINITE_DOUBLE;
        nans += magnitude > INFINITE_DOUBLE;
    }
    row->count += n - k;
    row->nans += nans;
    row->infs += n - k - nans;
    if (k == 0)
        return;
    double mean = LEVEL(sweep_double)(kept, k, 0).sum / k;
    if (!isfinite(mean)) {
        mean = 0;
        for (int i = 0; i < k; i++)
            mean += kept[i] / k;
    }
    const LEVEL(Sweep_double) swept = LEVEL(sweep_double)(kept, k, mean);
    const double m2 = isfinite(swept.squares) ? swept.squares - swept.sum * swept.sum / k : INFINITY;
    const Row block = block_row(k, mean, m2, swept.low, swept.high, swept.zeros);
    merge(row, &block);
}

TARGET static void LEVEL(block_double)(const double *x, int n, double *centre, Row *row)
{
    LEVEL(Sweep_double) swept = LEVEL(sweep_double)(x, n, *centre);
    if (isfinite(swept.squares)) {
        const double m2 = LEVEL(settle_double)(x, n, centre, &swept);
        const Row block = block_row(n, *centre + swept.sum / n, m2, swept.low, swept.high, swept.zeros);
        merge(row, &block);
    } else {
        LEVEL(careful_block)(x, n, row);
        *centre = 0; /* the next block is not to meet one that is itself too large */
    }
}

/* Finite numbers whose squares would vanish, as the second moments of Adam: 2^64 times each, which is exact. */
TARGET static void LEVEL(tiny_block)(const float *x, int n, Row *row)
{
    float enlarged[BLOCK], centre = 0;
    SIMD()
    for (int i = 0; i < n; i++)
        enlarged[i] = x[i] * ENLARGING;
    LEVEL(Sweep_float) swept = LEVEL(sweep_float)(enlarged, n, centre);
    const double m2 = LEVEL(settle_float)(enlarged, n, &centre, &swept) / ENLARGING / ENLARGING;
    const double mean = (centre + (double)swept.sum / n) / ENLARGING;
    const Row block = block_row(n, mean, m2, (double)swept.low / ENLARGING, (double)swept.high / ENLARGING, swept.zeros);
    merge(row, &block);
}

TARGET static void LEVEL(block_float)(const float *x, int n, float *centre, Row *row)
{
    LEVEL(Sweep_float) swept = LEVEL(sweep_float)(x, n, *centre);
    const float largest = fmaxf(-swept.low, swept.high);
    const int finite = isfinite(swept.squares);
    if (finite && (largest > SMALLEST_SQUARED || largest == 0)) {
        const double m2 = LEVEL(settle_float)(x, n, centre, &swept);
        const Row block = block_row(n, *centre + (double)swept.sum / n, m2, swept.low, swept.high, swept.zeros);
        merge(row, &block);
    } else if (finite && largest > SMALLEST_SQUARED / ENLARGING) {
        LEVEL(tiny_block)(x, n, row);
        *centre = 0;
    } else {
        double wide[BLOCK];
        for (int i = 0; i < n; i++)
            wide[i] = x[i];
        LEVEL(careful_block)(wide, n, row);
        *centre = 0;
    }
}

/* The bin of each number, on the side of its sign; BINS, which nobody reads, for zeros, NaN and infinities. */
#define TALLY(TYPE, BITS, UNSIGNED, MANTISSA, INFINITE, BIAS)                                                          \
    TARGET static void LEVEL(tally_##TYPE)(const TYPE *x, int n, Tally *tally)                                         \
    {                                                                                                                  \
        UNSIGNED bins[BLOCK];                                                                                          \
        SIMD()                                                                                                         \
        for (int i = 0; i < n; i++) {                                                                                  \
            const UNSIGNED signed_ = BITS(x[i]), bits = signed_ << 1;                                                  \
            const UNSIGNED exponent = bits >> (MANTISSA + 1);                                                          \
            UNSIGNED bin = exponent < (BIAS) - BIN_OF_ONE ? 0 : exponent - ((BIAS) - BIN_OF_ONE);                      \
            bin = bin > BINS - 1 ? BINS - 1 : bin;                                                                     \
            bin = bits == 0 || exponent == (INFINITE) ? BINS : bin;                                                    \
            bins[i] = bin + (SIDE & (0 - (signed_ >> (8 * sizeof signed_ - 1))));                                      \
        }                                                                                                              \
        int i = 0; /* four tables, so that equal neighbours do not wait for one another */                             \
        for (; i + 4 <= n; i += 4) {                                                                                   \
            tally->bins[0][bins[i]]++;                                                                                 \
            tally->bins[1][bins[i + 1]]++;                                                                             \
            tally->bins[2][bins[i + 2]]++;                                                                             \
            tally->bins[3][bins[i + 3]]++;                                                                             \
        }                                                                                                              \
        for (; i < n; i++)                                                                                             \
            tally->bins[0][bins[i]]++;                                                                                 \
    }

TALLY(float, float_bits, uint32_t, 23, 255, 127)
TALLY(double, double_bits, uint64_t, 52, 2047, 1023)

/* Numbers of every other kind become float where that is exact, double where it is not. */
#define WIDEN(FROM, TO, STORED, VALUE)                                                                                 \
    TARGET static void LEVEL(widen_##FROM)(const void *source, int n, TO *out)                                         \
    {                                                                                                                  \
        const STORED *x = source;                                                                                      \
        SIMD()                                                                                                         \
        for (int i = 0; i < n; i++)                                                                                    \
            out[i] = VALUE(x[i]);                                                                                      \
    }

WIDEN(bfloat16, float, uint16_t, bfloat16_value)
WIDEN(float16, float, uint16_t, float16_value)
WIDEN(int8, float, int8_t, (float))
WIDEN(int16, float, int16_t, (float))
WIDEN(uint8, float, uint8_t, (float))
WIDEN(bool, float, uint8_t, (float)!!)
WIDEN(int32, double, int32_t, (double))
WIDEN(int64, double, int64_t, (double))

TARGET static void LEVEL(widen)(int kind, const void *source, int n, float *narrow, double *wide)
{
    switch (kind) {
    case KIND_BFLOAT16: LEVEL(widen_bfloat16)(source, n, narrow); break;
    case KIND_FLOAT16: LEVEL(widen_float16)(source, n, narrow); break;
    case KIND_INT8: LEVEL(widen_int8)(source, n, narrow); break;
    case KIND_INT16: LEVEL(widen_int16)(source, n, narrow); break;
    case KIND_UINT8: LEVEL(widen_uint8)(source, n, narrow); break;
    case KIND_BOOL: LEVEL(widen_bool)(source, n, narrow); break;
    case KIND_INT32: LEVEL(widen_int32)(source, n, wide); break;
    case KIND_INT64: LEVEL(widen_int64)(source, n, wide); break;
    default: break; /* KIND_FLOAT32 and KIND_FLOAT64 are read where they lie */
    }
}

/* The statistics of `count` numbers at `source`, and the histogram of `sample` of every PERIOD numbers. */
TARGET static void LEVEL(stretch)(const char *source, int64_t count, int kind, int sample, Partial *partial)
{
    float narrow[BLOCK], narrow_centre = 0;
    double wide[BLOCK], wide_centre = 0, copy[BLOCK];
    Tally tally;
    if (sample)
        memset(&tally, 0, sizeof tally);
    const int aligned = (uintptr_t)source % SIZES[kind] == 0, is_double = IS_DOUBLE(kind);
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int n = count - start < BLOCK ? (int)(count - start) : BLOCK;
        const int left = sample - (int)(start % PERIOD), looked_at = left < 0 ? 0 : left < n ? left : n;
        const void *here = source + start * SIZES[kind];
        if (!aligned)
            here = memcpy(copy, here, (size_t)n * SIZES[kind]);
        LEVEL(widen)(kind, here, n, narrow, wide);
        if (is_double) {
            const double *x = kind == KIND_FLOAT64 ? here : wide;
            LEVEL(block_double)(x, n, &wide_centre, &partial->row);
            if (looked_at)
                LEVEL(tally_double)(x, looked_at, &tally);
        } else {
            const float *x = kind == KIND_FLOAT32 ? here : narrow;
            LEVEL(block_float)(x, n, &narrow_centre, &partial->row);
            if (looked_at)
                LEVEL(tally_float)(x, looked_at, &tally);
        }
        partial->sampled += looked_at;
    }
    for (int bin = 0; sample && bin < BINS; bin++) {
        uint32_t positive = 0, negative = 0;
        for (int table = 0; table < 4; table++) {
            positive += tally.bins[table][bin];
            negative += tally.bins[table][SIDE + bin];
        }
        partial->histogram[bin] += positive + negative;
        partial->negatives[bin] += negative;
    }
}

/* Adds each number to the bucket of its place, with the sign of its place: in this order, whatever the processor. */
#define SKETCH(TYPE, WIDE, FLIPPED)                                                                                    \
    TARGET static void LEVEL(sketch_##TYPE)(const TYPE *x, int n, const uint16_t *signs, double *buckets)              \
    {                                                                                                                  \
        double sums[BUCKETS];                                                                                          \
        memcpy(sums, buckets, sizeof sums);                                                                            \
        int i = 0;                                                                                                     \
        for (; i + BUCKETS <= n; i += BUCKETS) {                                                                       \
            const WIDE bits = signs[i / BUCKETS];                                                                      \
            SIMD()                                                                                                     \
            for (int b = 0; b < BUCKETS; b++)                                                                          \
                sums[b] += (double)FLIPPED(x[i + b], bits >> b);                                                       \
        }                                                                                                              \
        for (int b = 0; i + b < n; b++)                                                                                \
            sums[b] += (double)FLIPPED(x[i + b], (WIDE)signs[i / BUCKETS] >> b);                                       \
        memcpy(buckets, sums, sizeof sums);                                                                            \
    }                                                                                                                  \
                                                                                                                       \
    TARGET static void LEVEL(finite_##TYPE)(const TYPE *x, int n, TYPE *kept)                                          \
    {                                                                                                                  \
        SIMD()                                                                                                         \
        for (int i = 0; i < n; i++)                                                                                    \
            kept[i] = x[i] - x[i] == 0 ? x[i] : 0;                                                                     \
    }

SKETCH(float, uint32_t, flipped_float)
SKETCH(double, uint64_t, flipped_double)

/* The sum of the words, each mixed with its place. */
TARGET static uint64_t LEVEL(hash_words)(const char *bytes, int count, uint64_t first)
{
    uint64_t sum = 0, place = (first + 1) * GOLDEN;
    SIMD(reduction(+ : sum) linear(place : GOLDEN)) /* a product in its place would take as long as all else */
    for (int i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, sizeof word);
        sum += mixed(word + place);
        place += GOLDEN;
    }
    return sum;
}

/* Statistics, hash and projection of numbers of which the first has the place `first`: at most SIGNS of them, which is
 * where the signs begin anew. With `finite`, the projection alone, of finite numbers only. */
TARGET static void LEVEL(imprint)(const char *source, int count, int kind, int64_t first, int finite, Imprint *print)
{
    float narrow[BLOCK], narrow_centre = 0;
    double wide[BLOCK], wide_centre = 0, copy[BLOCK];
    const int aligned = (uintptr_t)source % SIZES[kind] == 0, is_double = IS_DOUBLE(kind);
    for (int start = 0; start < count; start += BLOCK) {
        const int n = count - start < BLOCK ? count - start : BLOCK, size = (int)(n * SIZES[kind]);
        const uint16_t *signs = sign_bits + start / BUCKETS;
        const void *here = source + (int64_t)start * SIZES[kind];
        if (!aligned)
            here = memcpy(copy, here, (size_t)size);
        LEVEL(widen)(kind, here, n, narrow, wide);
        const double *x = kind == KIND_FLOAT64 ? here : wide;
        const float *y = kind == KIND_FLOAT32 ? here : narrow;
        if (finite) {
            is_double ? LEVEL(finite_double)(x, n, wide) : LEVEL(finite_float)(y, n, narrow);
            x = wide, y = narrow;
        } else {
            const int words = size / 8;
            const uint64_t word = (uint64_t)(first + start) * SIZES[kind] / 8;
            print->hash += LEVEL(hash_words)(here, words, word);
            print->hash += hash_rest((const char *)here + 8 * words, size % 8, word + (uint64_t)words);
            is_double ? LEVEL(block_double)(x, n, &wide_centre, &print->row)
                      : LEVEL(block_float)(y, n, &narrow_centre, &print->row);
        }
        is_double ? LEVEL(sketch_double)(x, n, signs, print->buckets) : LEVEL(sketch_float)(y, n, signs, print->buckets);
    }
}

#undef SWEEP
#undef TALLY
#undef WIDEN
#undef SKETCH
