// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Operators bound by memory, as the table in elementwise.cu lists them: each has arrays, a launch
 * on the device and the same in plain loops on the host.  `at` holds the arrays in the table's
 * order; outputs are overwritten, or added to where the table says so.
 */
#ifndef MOSAIC_CALIBRATION_ELEMENTWISE_H
#define MOSAIC_CALIBRATION_ELEMENTWISE_H

#include "device.h"

enum { ELEMENTWISE_ARRAYS = 6, TOP_K_MOST = 8, MX_BLOCK = 32, ROPE_HEAD = 128 };

struct elementwise_shape {
    long rows, width;
};

/* Where row `row` comes from: a shuffle, as the prime divides no number of rows that is asked. */
__host__ __device__ inline long shuffled_row(long row, long rows) {
    return (long)((unsigned long long)row * 1000003ULL % (unsigned long long)rows);
}
__host__ __device__ inline long target_of(long row, long width) {
    return shuffled_row(row, width);
}
__host__ __device__ inline int top_k_of(long width) {
    return width < TOP_K_MOST ? (int)width : (int)TOP_K_MOST;
}
__host__ __device__ inline long rope_head(long width) {
    return width % ROPE_HEAD == 0 ? (long)ROPE_HEAD : width;
}
static const float norm_epsilon = 1e-5F;
/* Largest power of two of E4M3's range. */
static const int mx_top_exponent = 8;

typedef void elementwise_launch(struct probe *p, const struct elementwise_shape *s,
                                void *const at[ELEMENTWISE_ARRAYS]);
typedef void elementwise_on_host(const struct elementwise_shape *s,
                                 float *const at[ELEMENTWISE_ARRAYS]);

elementwise_launch launch_norm, launch_norm_backward, launch_rope, launch_rope_backward,
    launch_swiglu, launch_swiglu_backward, launch_top_k, launch_top_k_backward, launch_permute,
    launch_permute_backward, launch_cross_entropy, launch_cross_entropy_backward, launch_quantise;
elementwise_on_host host_norm, host_norm_backward, host_rope, host_rope_backward, host_swiglu,
    host_swiglu_backward, host_top_k, host_top_k_backward, host_permute, host_permute_backward,
    host_cross_entropy, host_cross_entropy_backward, host_quantise;

#endif
