/* A tensor of any strides, put in the order of its elements, a stretch at a time. */
#ifndef BACKSIGHT_STRIDED_H
#define BACKSIGHT_STRIDED_H

#include <stdint.h>
#include <string.h>

enum {
    MOST_DIMENSIONS = 64, /* PyTorch's own limit */
    TILE = 16,            /* numbers: as many of 4 bytes as a line of the cache holds */
    AT_ONCE = 64          /* rows that are copied together */
};

/* Sizes and strides in numbers, outermost first; contiguous if there are no dimensions. */
typedef struct { int dimensions; int64_t sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS]; } Layout;

/* Adds an inner dimension, which is one with the last where they lie as one. */
static void add_dimension(Layout *layout, int64_t size, int64_t stride)
{
    const int last = layout->dimensions - 1;
    if (size == 1)
        return;
    if (last >= 0 && layout->strides[last] == size * stride) {
        layout->sizes[last] *= size;
        layout->strides[last] = stride;
        return;
    }
    layout->sizes[last + 1] = size;
    layout->strides[last + 1] = stride;
    layout->dimensions++;
}

/* Where the row of this number begins, in numbers from the first element. */
static int64_t row_at(const Layout *layout, int64_t row)
{
    int64_t at = 0;
    for (int i = layout->dimensions - 2; i >= 0; row /= layout->sizes[i--])
        at += row % layout->sizes[i] * layout->strides[i];
    return at;
}

/* Copies part of some rows: `columns` numbers of each, tile by tile, so that a line of the cache is read once, and some
 * lines beside one another. Rows that begin beside one another, as those of a transposed matrix, are turned in a tile of
 * their own: lines that lie a power of two apart do not all fit into the cache. */
#define COPY_TILES(TYPE)                                                                                               \
    static void turn_##TYPE(const TYPE *first, int64_t stride, TYPE *out, int64_t to)                                  \
    {                                                                                                                  \
        TYPE tile[TILE][TILE];                                                                                         \
        for (int c = 0; c < TILE; c++)                                                                                 \
            memcpy(tile[c], first + c * stride, sizeof tile[c]);                                                       \
        for (int r = 0; r < TILE; r++)                                                                                 \
            for (int c = 0; c < TILE; c++)                                                                             \
                out[r * to + c] = tile[c][r];                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static void copy_##TYPE(const TYPE *const *rows, int count, int64_t columns, int64_t stride, TYPE *out, int64_t to) \
    {                                                                                                                  \
        int beside = 1;                                                                                                \
        for (int r = 1; r < count; r++)                                                                                \
            beside &= rows[r] == rows[0] + r;                                                                          \
        for (int64_t left = 0; left < columns; left += TILE) {                                                         \
            const int64_t right = columns - left < TILE ? columns : left + TILE;                                       \
            int r = 0;                                                                                                 \
            for (; beside && right - left == TILE && r + TILE <= count; r += TILE)                                     \
                turn_##TYPE(rows[r] + left * stride, stride, out + r * to + left, to);                                 \
            for (; r < count; r++)                                                                                     \
                for (int64_t c = left; c < right; c++)                                                                 \
                    out[r * to + c] = rows[r][c * stride];                                                             \
        }                                                                                                              \
    }

COPY_TILES(uint8_t)
COPY_TILES(uint16_t)
COPY_TILES(uint32_t)
COPY_TILES(uint64_t)

static void copy_rows(const char *const *rows, int count, int64_t columns, int64_t stride, int size, char *out,
                      int64_t to)
{
    if (stride == 1) {
        for (int r = 0; r < count; r++)
            memcpy(out + r * to * size, rows[r], (size_t)(columns * size));
        return;
    }
    switch (size) {
    case 1: copy_uint8_t((const uint8_t *const *)rows, count, columns, stride, (uint8_t *)out, to); break;
    case 2: copy_uint16_t((const uint16_t *const *)rows, count, columns, stride, (uint16_t *)out, to); break;
    case 4: copy_uint32_t((const uint32_t *const *)rows, count, columns, stride, (uint32_t *)out, to); break;
    default: copy_uint64_t((const uint64_t *const *)rows, count, columns, stride, (uint64_t *)out, to); break;
    }
}

/* Copies `count` numbers from the place `first` on, in the order of elements. */
static void gather(const char *address, const Layout *layout, int size, int64_t first, int64_t count, char *out)
{
    const int inner = layout->dimensions - 1;
    const int64_t length = layout->sizes[inner], stride = layout->strides[inner];
    while (count > 0) {
        const int64_t row = first / length, column = first % length;
        const char *rows[AT_ONCE];
        int whole = 1;
        int64_t columns = length - column < count ? length - column : count;
        if (column == 0 && columns == length) /* whole rows, several at once */
            whole = count / length < AT_ONCE ? (int)(count / length) : AT_ONCE;
        for (int r = 0; r < whole; r++)
            rows[r] = address + (row_at(layout, row + r) + column * stride) * size;
        copy_rows(rows, whole, columns, stride, size, out, length);
        first += whole * columns;
        count -= whole * columns;
        out += whole * columns * size;
    }
}

#endif
