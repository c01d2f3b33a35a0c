// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Matrix products of row-major matrices in any format that cuBLASLt knows here, with the algorithm
 * that its heuristic puts first, as engines take it.  8 and 4 bits: only A B^T is asked for, so
 * gradients too read operands of which engines keep transposed copies; scales, one a tensor or one
 * a block, are powers of two and the same everywhere, which costs what any scales do.
 */
#ifndef MOSAIC_CALIBRATION_LT_H
#define MOSAIC_CALIBRATION_LT_H

#include "gemm.h"

enum lt_scaling {
    LT_UNSCALED,
    LT_TENSOR, /* fp32 each tensor */
    LT_BLOCK,  /* fp32 each 128 x 128 of weights, each 1 x 128 of the rest */
    LT_MX,     /* UE8M0 each 32 */
    LT_NV      /* UE4M3 each 16 */
};

struct lt_format {
    const char *name; /* a word of `dtype` */
    cudaDataType in, out;
    cublasComputeType_t compute;
    int bits; /* of an element */
    enum lt_scaling scaling;
    double tolerance; /* of a product of a few hundred terms, over its largest value */
};
/* NULL where the toolkit has no such format. */
const struct lt_format *lt_format_of(const char *name);

/* What a training step multiplies for Y[m x n] = X[m x k] W[n x k]^T. */
enum lt_pass { LT_FORWARD, LT_BACKWARD_DATA, LT_BACKWARD_WEIGHT };

struct lt_shape {
    const struct lt_format *format;
    enum lt_pass pass;
    long m, n, k, batch;
    /* Products of a call, one after the other over the lanes, each with operands of its own; 1: a
     * single one. */
    long loop;
};

struct lt_product;
/* Operands with random values, as many sets as overflow the cache; all of it is taken memory.
 * Refuses what the library cannot do. */
struct lt_product *lt_make(struct probe *probe, const struct lt_shape *shape);
/* On the stream; a loop goes to all lanes instead. */
void lt_queue(struct probe *probe, const struct lt_product *product, cudaStream_t stream);
/* Ends descriptors, which are not taken memory. */
void lt_free(struct lt_product *product);
double lt_flop(const struct lt_shape *shape);

/* A small product compared with the host's. */
void lt_check(struct probe *probe, const struct lt_shape *shape);

#endif
