// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One expert layer in bf16 under plain expert parallelism, routes and gates given and even: slot k
 * of token t of rank r goes to expert (t + k + r) mod E.
 *   forward   rows to their experts; I = X W1^T (gate and up), A = gate's weight silu(gate) up,
 *             Y = A W2^T; rows back; a token sums its rows
 *   backward  rows to their experts again, I and A anew; gradients of rows to the experts; dA = dY
 *             W2, dW2 += dY^T A, dI, dX = dI W1, dW1 += dI^T X; rows back, summed
 * Over ranks by NCCL's sends and receives in one group; alone, rows are moved once.  The experts of
 * a rank are one batch, each with as many rows as the fullest has; the others' last rows are zeros.
 */
#ifndef MOSAIC_CALIBRATION_MOE_LAYER_H
#define MOSAIC_CALIBRATION_MOE_LAYER_H

#include "device.h"

struct moe_sizes {
    long tokens, hidden, inner, experts, top_k, ranks, rank;
};

struct moe {
    struct moe_sizes size;
    long local, capacity; /* experts of a rank; rows of each */
    long rows, landed;    /* that leave this rank, that come to it */
    /* Of a rank, its rows' begin here before they leave and after they came; ranks + 1 of each. */
    long *sent_begin, *landed_begin;
    /* Places on the device: the token and the pair (token, slot) of a row that leaves; where a row
     * that came lies among the experts' rows; where a pair's row is when it has come back. */
    int *token, *pair, *place, *returned;
    const __nv_bfloat16 *x, *dy, *w1, *w2;
    const float *gates;
    __nv_bfloat16 *y, *dx;
    float *gate_gradients, *dw1, *dw2;
    __nv_bfloat16 *sent, *came; /* of other ranks; NULL alone */
    float *sent_weight, *came_weight;
    __nv_bfloat16 *in, *in_dy, *out; /* [local][capacity][hidden] */
    float *weight, *weight_gradient;
    __nv_bfloat16 *interior, *active, *back;
};

enum moe_series { MOE_X = 1, MOE_DY, MOE_W1, MOE_W2, MOE_SERIES };
/* Of a rank's blocks. */
uint32_t moe_series_of(enum moe_series series, long rank);
float moe_scale_of(const struct moe_sizes *size, enum moe_series series);
float moe_gate(long pair);
long moe_expert(const struct moe_sizes *size, long rank, long pair);

/* All of it is taken memory. */
struct moe moe_take(struct probe *probe, const struct moe_sizes *size);
void moe_forward(struct probe *probe, const struct moe *moe);
void moe_backward(struct probe *probe, const struct moe *moe);
/* Both passes against the host, in double. */
void moe_compare(struct probe *probe, const struct moe *moe);

#endif
