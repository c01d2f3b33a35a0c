// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One expert on one row, in plain float arithmetic: y = w (silu(x Wg) * (x Wu)) Wd, w the router's
 * weight.  A row's sums always run in the same order, so where and with whom it is computed does
 * not change it.
 */
#ifndef MOSAIC_EXEC_EXPERT_FFN_H
#define MOSAIC_EXEC_EXPERT_FFN_H

#include <stddef.h>

struct expert_shape {
    int hidden, inner;
};

/* Wg [hidden x inner], Wu the same, Wd [inner x hidden], one after the other. */
size_t expert_weight_count(const struct expert_shape *shape);

/* interior[2 inner]: x Wg, x Wu. */
void expert_interior(const struct expert_shape *shape, const float *weights, const float *x,
                     float *interior);
void expert_output(const struct expert_shape *shape, const float *weights, float weight,
                   const float *interior, float *y);
/* From the interior of x and the gradient of y: adds to the weights' gradients, puts the gradient
 * of x over x and that of the interior over it, returns the gradient of the router's weight. */
struct expert_row {
    float weight;
    const float *dy;
    float *x, *interior;
};
float expert_backward(const struct expert_shape *shape, const float *weights,
                      const struct expert_row *row, float *gradients);

#endif
