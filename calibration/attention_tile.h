// SPDX-License-Identifier: GPL-3.0-or-later
/* Tiles of attention in shared memory; see attention.h. */
#ifndef MOSAIC_CALIBRATION_ATTENTION_TILE_H
#define MOSAIC_CALIBRATION_ATTENTION_TILE_H

#include "attention.h"
#include "mma.h"

typedef __nv_bfloat16 bf16;

/* Rows `first` on of a matrix of `rows`, ROWS of them, zeros beyond; 16 bytes a thread and step. */
template <int ROWS, int D>
__device__ inline void load_tile(bf16 *tile, const bf16 *matrix, long first, long rows) {
    enum { PACK = 8, ACROSS = D / PACK, STRIDE = D + ATTENTION_PAD };
    for (int i = (int)threadIdx.x; i < ROWS * ACROSS; i += ATTENTION_THREADS) {
        const int row = i / ACROSS, column = i % ACROSS * PACK;
        const bool is_inside = first + row < rows;
        copy_async(tile + row * STRIDE + column,
                   matrix + (is_inside ? (first + row) * D + column : 0), is_inside);
    }
}

/* c[tile of 8 columns] += A B over D, A a fragment's rows at `a`, B by columns at `b`. */
template <int COLUMNS, int D>
__device__ inline void multiply_by_columns(float c[COLUMNS / 8][4], const bf16 *a, const bf16 *b,
                                           int lane) {
    enum { STRIDE = D + ATTENTION_PAD };
    const struct place in_a = place_in_a(lane), in_b = place_in_columns(lane);
    for (int k = 0; k < D; k += 16) {
        uint32_t of_a[4];
        load_blocks(of_a, a + in_a.row * STRIDE + in_a.column + k);
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 16) {
            uint32_t of_b[4];
            load_blocks(of_b, b + (n + in_b.row) * STRIDE + in_b.column + k);
            multiply_add(c[n / 8], of_a, of_b[0], of_b[1]);
            multiply_add(c[n / 8 + 1], of_a, of_b[2], of_b[3]);
        }
    }
}

/* c[tile of 8 of D] += P B over DEPTH: P in the lane's C fragments, B by rows at `b`. */
template <int DEPTH, int D>
__device__ inline void multiply_by_rows(float c[D / 8][4], const float p[DEPTH / 8][4],
                                        const bf16 *b, int lane) {
    enum { STRIDE = D + ATTENTION_PAD };
    const struct place in_b = place_in_rows(lane);
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        const float *const left = p[k / 8], *const right = p[k / 8 + 1];
        const uint32_t of_p[4] = {pack_pair(left[0], left[1]), pack_pair(left[2], left[3]),
                                  pack_pair(right[0], right[1]), pack_pair(right[2], right[3])};
#pragma unroll
        for (int n = 0; n < D; n += 16) {
            uint32_t of_b[4];
            load_blocks_turned(of_b, b + (k + in_b.row) * STRIDE + in_b.column + n);
            multiply_add(c[n / 8], of_p, of_b[0], of_b[1]);
            multiply_add(c[n / 8 + 1], of_p, of_b[2], of_b[3]);
        }
    }
}

#endif
