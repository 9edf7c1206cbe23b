/* The fingerprint of a tensor: the layout of backsight.traces.records.PRINT, and what its hash and projection are made
 * of; backsight.traces.fingerprints has the same in NumPy, bit for bit. */
#ifndef BACKSIGHT_IMPRINT_H
#define BACKSIGHT_IMPRINT_H

#include "_row.h"

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)
#define MIX UINT64_C(0xD6E8FEB86659FD93)

enum {
    BUCKETS = 16,
    SIGNS = 64 * 1024 /* numbers after which the same signs begin anew, all of them turned or none */
};

typedef struct { uint64_t hash; Row row; double buckets[BUCKETS]; } Imprint;

/* A bit a number, set where its sign is turned: 16 numbers a word, as there are buckets. */
static uint16_t sign_bits[SIGNS / BUCKETS];

static void draw_signs(void)
{
    for (uint64_t i = 0; i < SIGNS; i++) {
        const uint64_t step = (i + 1) * GOLDEN, drawn = (step ^ step >> 32) * MIX;
        if (!(drawn >> 63))
            sign_bits[i / BUCKETS] |= (uint16_t)(1u << i % BUCKETS);
    }
}

/* Whether the signs of this stretch of SIGNS numbers are turned. */
static int is_turned(int64_t stretch) { return (int)((uint64_t)stretch * GOLDEN >> 40 & 1); }

#endif
