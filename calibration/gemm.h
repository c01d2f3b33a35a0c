// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Matrix products of row-major matrices through cuBLAS, sums in FP32 (no TF32), on the probe's
 * stream.  With a batch, each matrix follows the one before it without a gap.
 */
#ifndef MOSAIC_CALIBRATION_GEMM_H
#define MOSAIC_CALIBRATION_GEMM_H

#include "device.h"

enum gemm_form {
    GEMM_ABT, /* C[m x n] = A[m x k] B[n x k]^T */
    GEMM_AB,  /* C[m x n] = A[m x k] B[k x n] */
    GEMM_ATB  /* C[m x n] = A[k x m]^T B[k x n] */
};

struct gemm {
    enum gemm_form form;
    enum precision precision; /* of A and B */
    long m, n, k, batch;
    const void *a, *b;
    void *c;
    /* C is FP32 and added to; else it has the precision of A and is overwritten. */
    bool gathers;
};

double gemm_flop(const struct gemm *gemm);
void gemm_queue(struct probe *probe, const struct gemm *gemm);

#endif
