// SPDX-License-Identifier: GPL-3.0-or-later
/* calibration/mma.h for the emulator, instruction by instruction as PTX defines them. */
#ifndef MOSAIC_CALIBRATION_MMA_H
#define MOSAIC_CALIBRATION_MMA_H

#include "emulator.h"

#include <cuda_bf16.h>
#include <stdint.h>

enum { WARP_LANES = 32 };

inline void load_blocks(uint32_t out[4], const __nv_bfloat16 *row) {
    const int lane = emulated_lane();
    memcpy(emulated_board(lane), &row, sizeof row);
    emulated_meet_warp();
    for (int i = 0; i < 4; ++i) {
        const __nv_bfloat16 *from;
        memcpy(&from, emulated_board(8 * i + lane / 4), sizeof from);
        memcpy(&out[i], from + lane % 4 * 2, sizeof out[i]);
    }
    emulated_meet_warp();
}

inline void load_blocks_turned(uint32_t out[4], const __nv_bfloat16 *row) {
    const int lane = emulated_lane();
    memcpy(emulated_board(lane), &row, sizeof row);
    emulated_meet_warp();
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) {
            const __nv_bfloat16 *from;
            memcpy(&from, emulated_board(8 * i + lane % 4 * 2 + j), sizeof from);
            memcpy((char *)&out[i] + 2 * j, from + lane / 4, 2);
        }
    emulated_meet_warp();
}

inline float emulated_half_of(const uint32_t *pair, int which) {
    __nv_bfloat16 half;
    memcpy(&half, (const char *)pair + 2 * which, sizeof half);
    return __bfloat162float(half);
}

inline void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    const int lane = emulated_lane(), group = lane / 4;
    const uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(emulated_board(lane), own, sizeof own);
    emulated_meet_warp();
    for (int i = 0; i < 4; ++i) {
        const int below = i / 2, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            const int at = k % 8 / 2, late = k / 8;
            const uint32_t *const of_a = (const uint32_t *)emulated_board(4 * group + at);
            const uint32_t *const of_b = (const uint32_t *)emulated_board(4 * column + at);
            c[i] += emulated_half_of(of_a + 2 * late + below, k % 2) *
                    emulated_half_of(of_b + 4 + late, k % 2);
        }
    }
    emulated_meet_warp();
}

inline void copy_async(void *to, const void *from, bool is_inside) {
    if (is_inside)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}
inline void copy_async_commit() {
}
template <int LEFT> inline void copy_async_wait() {
}

/* A second a look: what waits for the host gives up at once. */
inline unsigned long long device_clock_ns() {
    static unsigned long long now;
    return now += 1000000000ULL;
}

inline float fast_exp2(float x) {
    return exp2f(x);
}

inline uint32_t pack_pair(float low, float high) {
    const __nv_bfloat16 pair[2] = {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
    uint32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return bits;
}

struct place {
    int row, column;
};
inline struct place place_in_a(int lane) {
    return {lane % 16, lane / 16 * 8};
}
inline struct place place_in_columns(int lane) {
    return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8};
}
inline struct place place_in_rows(int lane) {
    return {lane % 16, lane / 16 * 8};
}
inline struct place place_in_a_turned(int lane) {
    return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8};
}

#endif
