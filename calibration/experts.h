// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Between an expert's products: A = weight silu(gate) up of rows [gate, up], and backward. `weight`
 * is the router's, one a row.
 */
#ifndef MOSAIC_CALIBRATION_EXPERTS_H
#define MOSAIC_CALIBRATION_EXPERTS_H

#include "device.h"

struct expert_rows {
    enum precision precision;
    long rows, inner;
    void *interior;   /* [rows][2 inner] */
    void *active;     /* [rows][inner] */
    const void *back; /* gradient of A */
    const float *weight;
    float *weight_gradient;
};

void experts_activate(struct probe *probe, const struct expert_rows *rows);
/* The interior becomes its gradient. */
void experts_activate_backward(struct probe *probe, const struct expert_rows *rows);

#endif
