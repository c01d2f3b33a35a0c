// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Combining a value of each thread of a block of BLOCK_THREADS; thread 0 gets the result.  `merge`
 * is any associative operation; all threads of the block call it.
 */
#ifndef MOSAIC_CALIBRATION_REDUCE_H
#define MOSAIC_CALIBRATION_REDUCE_H

#include "device.h"

/* Maximum so far and the sum of e^(y - maximum): the state of a log-sum-exp. */
struct exp_sum {
    float top, sum;
};

__device__ inline struct exp_sum merge(struct exp_sum a, struct exp_sum b) {
    if (b.sum == 0.0F) /* its top may be -inf */
        return a;
    if (a.sum == 0.0F)
        return b;
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * __expf(a.top - top) + b.sum * __expf(b.top - top)};
}
__device__ inline float merge(float a, float b) {
    return a + b;
}

__device__ inline struct exp_sum from_lane(struct exp_sum x, int distance) {
    return {__shfl_down_sync(~0U, x.top, distance), __shfl_down_sync(~0U, x.sum, distance)};
}
__device__ inline float from_lane(float x, int distance) {
    return __shfl_down_sync(~0U, x, distance);
}

template <typename T> __device__ inline T merge_block(T x) {
    enum { WARP = 32, WARPS = BLOCK_THREADS / WARP };
    __shared__ T of_warp[WARPS];
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x = merge(x, from_lane(x, distance));
    __syncthreads(); /* an earlier call's values have been read */
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < WARPS; ++i)
            x = merge(x, of_warp[i]);
    return x;
}

#endif
