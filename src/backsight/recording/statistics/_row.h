/* What is known of some numbers: the layout of backsight.runs.STATISTICS, and how two of them become one. */
#ifndef BACKSIGHT_ROW_H
#define BACKSIGHT_ROW_H

#include <math.h>
#include <stdint.h>

enum {
    BLOCK = 1024,           /* numbers summed in their own precision before the sum is carried in double */
    BINS = 64,              /* of the histogram: bin k holds floor(log2|x|) == k - BIN_OF_ONE */
    BIN_OF_ONE = 48,
    WHOLE = 64 * 1024,      /* the histogram looks at all of a tensor up to this size, */
    SAMPLE = 512,           /* and at the first so many of every PERIOD numbers of a larger one */
    PERIOD = 16 * SAMPLE,
    CHUNK = 16 * PERIOD     /* numbers that one thread takes at a time */
};

typedef struct {
    int64_t count;          /* all numbers, finite or not; the next four are over the finite ones */
    double mean, m2, min, max;
    int64_t zeros, nans, infs;
} Row;

typedef struct {
    Row row;
    uint32_t histogram[BINS], negatives[BINS]; /* all that were counted, and how many of these are below zero */
    int64_t sampled;        /* numbers that the histogram looked at */
} Partial;

static const Row NO_NUMBERS = {0, 0.0, 0.0, INFINITY, -INFINITY, 0, 0, 0};

static int64_t finite_count(const Row *row) { return row->count - row->nans - row->infs; }

/* A block of finite numbers from its sums: exact where all are equal, whatever the sums were rounded to. */
static Row block_row(int n, double mean, double m2, double low, double high, int zeros)
{
    const int equal = low == high;
    return (Row){n, equal ? low : mean, equal || m2 < 0 ? 0 : m2, low, high, zeros, 0, 0};
}

/* Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances (1979). */
static void merge(Row *into, const Row *other)
{
    const double n = (double)finite_count(into), m = (double)finite_count(other);
    if (m > 0 && n > 0) {
        const double share = m / (n + m), apart = other->mean - into->mean;
        const double mean = into->mean + apart * share;
        into->m2 += other->m2 + apart * apart * n * share;
        into->mean = isfinite(apart) ? mean : into->mean * (1 - share) + other->mean * share;
    } else if (m > 0) {
        into->mean = other->mean;
        into->m2 = other->m2;
    }
    into->min = other->min < into->min ? other->min : into->min;
    into->max = other->max > into->max ? other->max : into->max;
    into->count += other->count;
    into->zeros += other->zeros;
    into->nans += other->nans;
    into->infs += other->infs;
}

/* What a row says once nothing comes to it any more. */
static void settle(Row *row)
{
    row->min += 0.0; /* -0.0 becomes 0.0: which of the two was met is a matter of order */
    row->max += 0.0;
    if (finite_count(row) == 0)
        row->mean = row->min = row->max = NAN;
}

static uint32_t saturated(uint64_t sum) { return sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum; }

static void merge_partial(Partial *into, const Partial *other)
{
    merge(&into->row, &other->row);
    into->sampled += other->sampled;
    for (int bin = 0; bin < BINS; bin++) {
        into->histogram[bin] = saturated((uint64_t)into->histogram[bin] + other->histogram[bin]);
        into->negatives[bin] = saturated((uint64_t)into->negatives[bin] + other->negatives[bin]);
    }
}

#endif
