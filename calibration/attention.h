// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The attention core in bf16, O = softmax(Q K^T / sqrt(head_dim)) V, in tiles that never leave the
 * chip (the scheme of FlashAttention-2, arXiv 2307.08691), on the warp's matrix products that every
 * device has: slower than kernels written for one device, and said so in the answer.
 * Q, O [batch][heads][sequence][head_dim], K and V the same with kv_heads, each of which serves
 * heads / kv_heads query heads in a row.
 */
#ifndef MOSAIC_CALIBRATION_ATTENTION_H
#define MOSAIC_CALIBRATION_ATTENTION_H

#include "device.h"

struct attention {
    long batch, sequence, heads, kv_heads, head_dim;
    bool is_causal;
    const __nv_bfloat16 *q, *k, *v, *d_out;
    __nv_bfloat16 *out, *dq, *dk, *dv;
    float *log_sum; /* of each row's exponentials; forward writes it, backward reads it */
    float *delta;   /* sum of O dO of each row */
    float *dq_sum;  /* FP32, what the key blocks add up */
};

/* A tile of rows of head_dim, and space so that eight rows lie in different banks. */
enum { ATTENTION_THREADS = 256, ATTENTION_PAD = 8 };

struct attention_scale {
    float of_scores, of_exponents; /* 1 / sqrt(head_dim), and times log2 e */
};
struct attention_scale attention_scale_of(const struct attention *a);

void attention_forward(struct probe *probe, const struct attention *a);
void attention_backward(struct probe *probe, const struct attention *a);
bool attention_has(long head_dim);

/* In double, on floats that the caller has rounded. */
struct attention_on_host {
    const float *q, *k, *v, *d_out;
    float *out, *dq, *dk, *dv; /* gradients start at zero */
};
void attention_reference(const struct attention *a, const struct attention_on_host *host);

#endif
