// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Arithmetic of one meeting of the vocabulary ring: a block of tokens and a shard of the head.
 *   fold     Y = X W; m' = max(m, max Y); z' = z e^(m-m') + sum e^(Y-m'); y = Y_target where it is
 *            in the shard
 *   replay   G = g (e^(Y-m) / z - onehot); dX += G W^T; dW += X^T G
 * Products and exponentials are summed in double and kept as float; gradients gather in float, over
 * columns in rising order for dX and tokens in rising order for dW, whatever the strips' height.
 * A token whose target is negative takes no part.
 */
#ifndef MOSAIC_EXEC_RING_STRIP_H
#define MOSAIC_EXEC_RING_STRIP_H

#include <stddef.h>
#include <stdint.h>

struct ring_meeting {
    size_t rows, hidden;
    size_t first, columns; /* of the vocabulary */
    const float *x;        /* [rows x hidden] */
    const float *w;        /* [columns x hidden] */
    const int32_t *targets;
    float *top, *sum;      /* m, z */
    float *picked;         /* y; fold only */
    const float *upstream; /* g; replay only, and dx, dw */
    float *dx, *dw;
};

/* `strip` has room for strip_rows x columns. */
void ring_strip_fold(const struct ring_meeting *meeting, float *strip, size_t strip_rows);
void ring_strip_replay(const struct ring_meeting *meeting, float *strip, size_t strip_rows);

#endif
