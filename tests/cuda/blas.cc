// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the probe calls of cuBLAS and cuBLASLt, in plain loops with sums in double.  Column-major,
 * as theirs: C[m x n] = alpha op(A) op(B) + beta C.  Scales are taken to be the same everywhere, as
 * the probe sets them; what the libraries refuse is refused here where their manuals say so:
 * 8 and 4 bits ask for op(A) = transposed and sizes whole in 16 (4 bits: 32).
 */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <math.h>
#include <string.h>
#include <vector>

enum { E2M1 = 33 };

static int bits_of(cudaDataType type) {
    return type == CUDA_R_64F       ? 64
           : type == CUDA_R_32F     ? 32
           : type == CUDA_R_8F_E4M3 ? 8
           : (int)type == E2M1      ? 4
                                    : 16;
}

static double of_e4m3(unsigned char bits) {
    return (double)__half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
}

static double element(const void *from, cudaDataType type, size_t i) {
    static const double halves[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const unsigned char *const bytes = (const unsigned char *)from;
    if (type == CUDA_R_64F)
        return ((const double *)from)[i];
    if (type == CUDA_R_32F)
        return (double)((const float *)from)[i];
    if (type == CUDA_R_16F)
        return (double)__half2float(((const __half *)from)[i]);
    if (type == CUDA_R_16BF)
        return (double)__bfloat162float(((const __nv_bfloat16 *)from)[i]);
    if (type == CUDA_R_8F_E4M3)
        return of_e4m3(bytes[i]);
    const unsigned code = bytes[i / 2] >> (i % 2 * 4) & 15U;
    return (code & 8U ? -1 : 1) * halves[code & 7U];
}

static void store(void *to, cudaDataType type, size_t i, double x) {
    if (type == CUDA_R_64F)
        ((double *)to)[i] = x;
    else if (type == CUDA_R_32F)
        ((float *)to)[i] = (float)x;
    else if (type == CUDA_R_16F)
        ((__half *)to)[i] = __float2half_rn((float)x);
    else
        ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn((float)x);
}

struct matrix {
    void *at;
    cudaDataType type;
    bool is_turned;
    size_t lead, stride;
};

static double entry(const struct matrix *m, size_t batch, size_t row, size_t column) {
    const size_t at = m->is_turned ? row * m->lead + column : column * m->lead + row;
    return element(m->at, m->type, batch * m->stride + at);
}

struct problem {
    size_t m, n, k, batch;
    double alpha, beta;
    struct matrix a, b, c;
};

static void multiply(const struct problem *p) {
    std::vector<double> a(p->m * p->k), b(p->n * p->k);
    for (size_t batch = 0; batch < p->batch; ++batch) {
        for (size_t i = 0; i < p->m * p->k; ++i)
            a[i] = entry(&p->a, batch, i / p->k, i % p->k);
        for (size_t i = 0; i < p->n * p->k; ++i)
            b[i] = entry(&p->b, batch, i % p->k, i / p->k);
        for (size_t j = 0; j < p->n; ++j)
            for (size_t i = 0; i < p->m; ++i) {
                double sum = 0;
                for (size_t l = 0; l < p->k; ++l)
                    sum += a[i * p->k + l] * b[j * p->k + l];
                const size_t at = batch * p->c.stride + j * p->c.lead + i;
                const double old = p->beta != 0 ? p->beta * element(p->c.at, p->c.type, at) : 0;
                store(p->c.at, p->c.type, at, p->alpha * sum + old);
            }
    }
}

/* ---- cuBLAS ---- */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = (cublasHandle_t)1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version) {
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) {
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "failed";
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t of_a,
                                          cublasOperation_t of_b, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType a_type,
                                          int a_lead, long long a_stride, const void *b,
                                          cudaDataType b_type, int b_lead, long long b_stride,
                                          const void *beta, void *c, cudaDataType c_type,
                                          int c_lead, long long c_stride, int batch,
                                          cublasComputeType_t, cublasGemmAlgo_t) {
    const bool is_a_turned = of_a == CUBLAS_OP_T, is_b_turned = of_b == CUBLAS_OP_T;
    if (m <= 0 || n <= 0 || k <= 0 || batch <= 0 || a_lead < (is_a_turned ? k : m) ||
        b_lead < (is_b_turned ? n : k) || c_lead < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    const struct problem p = {
        (size_t)m,
        (size_t)n,
        (size_t)k,
        (size_t)batch,
        (double)*(const float *)alpha,
        (double)*(const float *)beta,
        {const_cast<void *>(a), a_type, is_a_turned, (size_t)a_lead, (size_t)a_stride},
        {const_cast<void *>(b), b_type, is_b_turned, (size_t)b_lead, (size_t)b_stride},
        {c, c_type, false, (size_t)c_lead, (size_t)c_stride}};
    multiply(&p);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuBLASLt: opaque blocks of ours, reached through their first bytes ---- */

struct operation {
    cudaDataType scalar;
    int32_t of_a, of_b, a_mode, b_mode;
    const void *a_scale, *b_scale;
};
struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t lead, stride;
    int32_t batch;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    *handle = (cublasLtHandle_t)1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *to, cublasComputeType_t,
                                        cudaDataType_t scalar) {
    *to = (cublasLtMatmulDesc_t) new operation{scalar, CUBLAS_OP_N, CUBLAS_OP_N, 0, 0, NULL, NULL};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t at) {
    delete (struct operation *)at;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t at,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size) {
    struct operation *const o = (struct operation *)at;
    void *to = NULL;
    size_t wanted = sizeof(int32_t);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        to = &o->of_a;
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        to = &o->of_b;
        break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
        to = &o->a_mode;
        break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
        to = &o->b_mode;
        break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        to = &o->a_scale;
        wanted = sizeof(void *);
        break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        to = &o->b_scale;
        wanted = sizeof(void *);
        break;
    default:
        return CUBLAS_STATUS_SUCCESS;
    }
    if (size != wanted)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t lead) {
    *to = (cublasLtMatrixLayout_t) new layout{type, rows, columns, lead, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t at) {
    delete (struct layout *)at;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t at,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size) {
    struct layout *const l = (struct layout *)at;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        memcpy(&l->batch, value, size);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        memcpy(&l->stride, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to) {
    *to = (cublasLtMatmulPreference_t)1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_known(const struct operation *o, const struct layout *a, const struct layout *b) {
    const int bits = bits_of(a->type);
    const uint64_t multiple = bits == 4 ? 32 : 16;
    if (bits > 8)
        return true;
    return o->of_a == CUBLAS_OP_T && o->of_b == CUBLAS_OP_N && a->rows % multiple == 0 &&
           a->columns % multiple == 0 && b->columns % multiple == 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
    *count = is_known((const struct operation *)operation, (const struct layout *)a,
                      (const struct layout *)b);
    results[0] = {};
    return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* The first of its scales. */
static double scale_of(int mode, const void *scales) {
    if (!scales)
        return 1;
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0)
        return ldexp(1, (int)*(const unsigned char *)scales - 127);
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3)
        return of_e4m3(*(const unsigned char *)scales);
    return (double)*(const float *)scales;
}

static double number(cudaDataType type, const void *at) {
    return type == CUDA_R_64F ? *(const double *)at : (double)*(const float *)at;
}

static struct matrix matrix_of(const struct layout *l, const void *at, bool is_turned) {
    return {const_cast<void *>(at), l->type, is_turned, (size_t)l->lead, (size_t)l->stride};
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t) {
    const struct operation *const o = (const struct operation *)operation;
    const struct layout *const of_a = (const struct layout *)a_layout;
    const struct layout *const of_b = (const struct layout *)b_layout;
    const struct layout *const of_d = (const struct layout *)d_layout;
    const bool is_a_turned = o->of_a == CUBLAS_OP_T;
    const uint64_t k = is_a_turned ? of_a->rows : of_a->columns;
    const struct problem p = {of_d->rows,
                              of_d->columns,
                              k,
                              (size_t)of_d->batch,
                              number(o->scalar, alpha) * scale_of(o->a_mode, o->a_scale) *
                                  scale_of(o->b_mode, o->b_scale),
                              number(o->scalar, beta),
                              matrix_of(of_a, a, is_a_turned),
                              matrix_of(of_b, b, o->of_b == CUBLAS_OP_T),
                              matrix_of(of_d, d, false)};
    multiply(&p);
    return CUBLAS_STATUS_SUCCESS;
}
