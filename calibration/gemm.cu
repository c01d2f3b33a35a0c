// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * cuBLAS is column-major, and a row-major matrix read by columns is its transpose: so C^T is asked
 * for, with A and B in exchange.
 */
#include "gemm.h"

double gemm_flop(const struct gemm *g) {
    return 2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
}

void gemm_queue(struct probe *p, const struct gemm *g) {
    const float one = 1, beta = g->gathers ? 1 : 0;
    const cudaDataType in = g->precision == BF16 ? CUDA_R_16BF : CUDA_R_32F;
    const cudaDataType out = g->gathers ? CUDA_R_32F : in;
    const cublasOperation_t of_b = g->form == GEMM_ABT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_a = g->form == GEMM_ATB ? CUBLAS_OP_T : CUBLAS_OP_N;
    const long row_of_a = g->form == GEMM_ATB ? g->m : g->k;
    const long row_of_b = g->form == GEMM_ABT ? g->k : g->n;
    if (g->m == 0 || g->n == 0 || g->k == 0)
        return;
    BLAS_CHECK(cublasGemmStridedBatchedEx(
        p->blas, of_b, of_a, (int)g->n, (int)g->m, (int)g->k, &one, g->b, in, (int)row_of_b,
        g->n * g->k, g->a, in, (int)row_of_a, g->m * g->k, &beta, g->c, out, (int)g->n, g->m * g->n,
        (int)g->batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}
