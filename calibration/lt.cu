// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * cuBLASLt is column-major, and a row-major matrix read by columns is its transpose: so C^T is
 * asked for, with A and B in exchange ("first" is B).  The weight's gradient is FP32 and added to.
 */
#include "encode.h"
#include "lt.h"
#include "timing.h"

#include <stdlib.h>
#include <string.h>

#if CUBLAS_VERSION >= 120900
#define HAS_BLOCK_SCALES 1
#else
#define HAS_BLOCK_SCALES 0
#endif

static const struct lt_format formats[] = {
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 16, LT_UNSCALED, 1e-2},
    {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 16, LT_UNSCALED, 2e-3},
    {"fp32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 32, LT_UNSCALED, 1e-5},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 32, LT_UNSCALED, 2e-3},
    {"fp64", CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 64, LT_UNSCALED, 1e-6},
    /* Hopper sums 8 bits in fewer digits than FP32 has. */
    {"fp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 8, LT_TENSOR, 2e-2},
#if HAS_BLOCK_SCALES
    {"fp8_block", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 8, LT_BLOCK, 2e-2},
    {"mxfp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 8, LT_MX, 2e-2},
    {"nvfp4", CUDA_R_4F_E2M1, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 4, LT_NV, 2e-2},
#endif
};

/* What cuBLAS advises for Hopper and later; less does no harm elsewhere. */
static const size_t workspace_bytes = 32UL << 20;
enum { MOST_SETS = 1024 };

struct lt_product {
    struct lt_shape shape;
    enum gemm_form form;
    long rows, columns, depth; /* of this pass: C[rows x columns] */
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, out;
    cublasLtMatmulAlgo_t algorithm;
    cudaDataType out_type;
    char *a, *b, *c; /* sets, one after the other */
    size_t a_bytes, b_bytes, c_bytes;
    unsigned sets;
    char *workspace; /* one, or one a lane */
    double alpha64, beta64;
    float alpha32, beta32;
};

const struct lt_format *lt_format_of(const char *name) {
    for (const struct lt_format &format : formats)
        if (strcmp(format.name, name) == 0)
            return &format;
    return NULL;
}

double lt_flop(const struct lt_shape *s) {
    return 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch * (double)s->loop;
}

static size_t format_bytes(const struct lt_format *format, size_t count) {
    return (count * (size_t)format->bits + 7) / 8;
}

static size_t type_bytes(cudaDataType type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static void set_pass(struct lt_product *t) {
    const struct lt_shape *const s = &t->shape;
    const bool is_weight = s->pass == LT_BACKWARD_WEIGHT;
    t->rows = is_weight ? s->n : s->m;
    t->columns = s->pass == LT_FORWARD ? s->n : s->k;
    t->depth = s->pass == LT_FORWARD ? s->k : is_weight ? s->m : s->n;
    t->form = s->format->bits <= 8 || s->pass == LT_FORWARD ? GEMM_ABT
              : is_weight                                   ? GEMM_ATB
                                                            : GEMM_AB;
    t->out_type = is_weight && s->format->out != CUDA_R_64F ? CUDA_R_32F : s->format->out;
    t->beta32 = is_weight ? 1.0F : 0.0F;
    t->beta64 = is_weight ? 1.0 : 0.0;
    t->alpha32 = 1.0F;
    t->alpha64 = 1.0;
}

/* ---- descriptors ---- */

static void set_operation(struct lt_product *t, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t size) {
    BLAS_CHECK(cublasLtMatmulDescSetAttribute(t->operation, attribute, value, size));
}

static void set_batch(const struct lt_product *t, cublasLtMatrixLayout_t layout, long elements) {
    const int32_t batch = (int32_t)t->shape.batch;
    const int64_t stride = elements;
    if (batch <= 1)
        return;
    BLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                sizeof batch));
    BLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &stride, sizeof stride));
}

static void make_layouts(struct lt_product *t) {
    const cudaDataType in = t->shape.format->in;
    const uint64_t m = (uint64_t)t->rows, n = (uint64_t)t->columns, k = (uint64_t)t->depth;
    const bool is_b_turned = t->form == GEMM_ABT, is_a_turned = t->form == GEMM_ATB;
    BLAS_CHECK(cublasLtMatrixLayoutCreate(&t->first, in, is_b_turned ? k : n, is_b_turned ? n : k,
                                          (int64_t)(is_b_turned ? k : n)));
    BLAS_CHECK(cublasLtMatrixLayoutCreate(&t->second, in, is_a_turned ? m : k, is_a_turned ? k : m,
                                          (int64_t)(is_a_turned ? m : k)));
    BLAS_CHECK(cublasLtMatrixLayoutCreate(&t->out, t->out_type, n, m, (int64_t)n));
    set_batch(t, t->first, t->columns * t->depth);
    set_batch(t, t->second, t->rows * t->depth);
    set_batch(t, t->out, t->rows * t->columns);
}

#if HAS_BLOCK_SCALES
/* Scales are kept in tiles of 128 rows and 4 blocks; more memory than any mode needs. */
static size_t scale_bytes(long rows, long depth, enum lt_scaling scaling) {
    const size_t block = scaling == LT_MX ? 32 : scaling == LT_NV ? 16 : 128;
    const size_t down = ((size_t)rows + 127) / 128 * 128;
    const size_t along = (((size_t)depth + block - 1) / block + 3) / 4 * 4;
    return down * along * (scaling == LT_BLOCK ? sizeof(float) : 1);
}

static void set_block_scales(struct probe *p, struct lt_product *t) {
    const enum lt_scaling scaling = t->shape.format->scaling;
    /* Two is 0x80 of UE8M0 and 0x40 of UE4M3; the other operand's scale is one. */
    const int one = scaling == LT_MX ? 0x7F : 0x38, two = scaling == LT_MX ? 0x80 : 0x40;
    const size_t bytes[] = {scale_bytes(t->columns, t->depth, scaling),
                            scale_bytes(t->rows, t->depth, scaling)};
    void *const scales[] = {device_take(bytes[0]), device_take(bytes[1])};
    int32_t modes[] = {CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
                       CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0};
    if (scaling == LT_NV)
        modes[0] = modes[1] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    if (scaling == LT_BLOCK) {
        modes[0] = t->shape.pass == LT_BACKWARD_WEIGHT
                       ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                       : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
        modes[1] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
        encode_constant(p, (float *)scales[0], bytes[0] / sizeof(float), 2.0F);
        encode_constant(p, (float *)scales[1], bytes[1] / sizeof(float), 1.0F);
    } else {
        CUDA_CHECK(cudaMemsetAsync(scales[0], two, bytes[0], p->stream));
        CUDA_CHECK(cudaMemsetAsync(scales[1], one, bytes[1], p->stream));
    }
    set_operation(t, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &modes[0], sizeof modes[0]);
    set_operation(t, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &modes[1], sizeof modes[1]);
    set_operation(t, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scales[0], sizeof scales[0]);
    set_operation(t, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scales[1], sizeof scales[1]);
}
#else
static void set_block_scales(struct probe *, struct lt_product *) {
}
#endif

static void set_tensor_scales(struct probe *p, struct lt_product *t) {
    float *const scales = (float *)device_take(2 * sizeof(float));
    void *const first = scales, *const second = scales + 1;
    /* As engines do: few digits of the sum forward, all of them in gradients. */
    const int8_t is_fast = t->shape.pass == LT_FORWARD;
    encode_constant(p, scales, 1, 2.0F);
    encode_constant(p, scales + 1, 1, 1.0F);
    set_operation(t, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &first, sizeof first);
    set_operation(t, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &second, sizeof second);
    set_operation(t, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &is_fast, sizeof is_fast);
}

static void make_operation(struct probe *p, struct lt_product *t) {
    const struct lt_format *const format = t->shape.format;
    const int32_t of_first = t->form == GEMM_ABT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t of_second = t->form == GEMM_ATB ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType scalar = format->in == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    BLAS_CHECK(cublasLtMatmulDescCreate(&t->operation, format->compute, scalar));
    set_operation(t, CUBLASLT_MATMUL_DESC_TRANSA, &of_first, sizeof of_first);
    set_operation(t, CUBLASLT_MATMUL_DESC_TRANSB, &of_second, sizeof of_second);
    if (format->scaling == LT_TENSOR)
        set_tensor_scales(p, t);
    else if (format->scaling != LT_UNSCALED)
        set_block_scales(p, t);
}

static void choose_algorithm(struct probe *p, struct lt_product *t) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    BLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const cublasStatus_t limited =
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof workspace_bytes);
    const cublasStatus_t asked =
        limited != CUBLAS_STATUS_SUCCESS
            ? limited
            : cublasLtMatmulAlgoGetHeuristic(p->lt, t->operation, t->first, t->second, t->out,
                                             t->out, preference, 1, &result, &found);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    if (asked == CUBLAS_STATUS_ALLOC_FAILED || asked == CUBLAS_STATUS_INTERNAL_ERROR)
        BLAS_CHECK(asked);
    if (found == 0 || asked != CUBLAS_STATUS_SUCCESS) /* libraries differ in how they say no */
        probe_refuse(REFUSED_UNSUPPORTED,
                     "cuBLASLt has no %s product of %ld x %ld x %ld (batch of %ld) here: %s",
                     t->shape.format->name, t->rows, t->columns, t->depth, t->shape.batch,
                     cublasGetStatusString(asked));
    t->algorithm = result.algo;
}

/* ---- operands ---- */

enum { A_SERIES = 1, B_SERIES };

/* Sums of a variance of 1/3 or so. */
static float scale_of(const struct lt_product *t, uint32_t series) {
    return series == A_SERIES || t->shape.format->bits <= 8 ? 1.0F : 1.0F / sqrtf((float)t->depth);
}

static char *make_operand(struct probe *p, const struct lt_product *t, size_t count, size_t bytes,
                          uint32_t series) {
    char *const block = (char *)device_take(bytes * t->sets);
    const float scale = scale_of(t, series);
    for (unsigned i = 0; i < t->sets; ++i)
        encode_series(p, block + i * bytes, count, series, scale, t->shape.format->in);
    return block;
}

static void make_operands(struct probe *p, struct lt_product *t) {
    const struct lt_format *const format = t->shape.format;
    const size_t batch = (size_t)t->shape.batch, rows = (size_t)t->rows;
    const size_t columns = (size_t)t->columns, depth = (size_t)t->depth;
    const size_t a_count = batch * rows * depth, b_count = batch * columns * depth;
    enum { ALIGN = 256 };
    t->a_bytes = (format_bytes(format, a_count) + ALIGN - 1) / ALIGN * ALIGN;
    t->b_bytes = (format_bytes(format, b_count) + ALIGN - 1) / ALIGN * ALIGN;
    t->c_bytes = (batch * rows * columns * type_bytes(t->out_type) + ALIGN - 1) / ALIGN * ALIGN;
    const size_t all = t->a_bytes + t->b_bytes + t->c_bytes;
    const size_t wanted = 1 + 2 * (size_t)p->properties.l2CacheSize / all;
    const size_t loop = (size_t)t->shape.loop;
    t->sets = (unsigned)(wanted < MOST_SETS ? wanted : (size_t)MOST_SETS);
    t->sets = (unsigned)((t->sets + loop - 1) / loop * loop);
    t->a = make_operand(p, t, a_count, t->a_bytes, A_SERIES);
    t->b = make_operand(p, t, b_count, t->b_bytes, B_SERIES);
    t->c = (char *)device_zeros(p, t->c_bytes * t->sets);
    t->workspace = (char *)device_take(workspace_bytes * (t->shape.loop > 1 ? PROBE_LANES : 1));
}

struct lt_product *lt_make(struct probe *p, const struct lt_shape *shape) {
    const double cells = (double)shape->batch * (double)shape->loop *
                         fmax((double)shape->m, (double)shape->n) *
                         fmax((double)shape->k, fmin((double)shape->m, (double)shape->n));
    device_require(cells);
    struct lt_product *const t = (struct lt_product *)host_take(sizeof *t);
    t->shape = *shape;
    set_pass(t);
    try {
        make_operation(p, t);
        make_layouts(t);
        choose_algorithm(p, t);
        make_operands(p, t);
    } catch (...) {
        lt_free(t);
        throw;
    }
    return t;
}

static void queue_set(struct probe *p, const struct lt_product *t, unsigned set, char *workspace,
                      cudaStream_t stream) {
    char *const c = t->c + set * t->c_bytes;
    const bool is_64 = t->shape.format->in == CUDA_R_64F;
    const void *const alpha = is_64 ? (const void *)&t->alpha64 : (const void *)&t->alpha32;
    const void *const beta = is_64 ? (const void *)&t->beta64 : (const void *)&t->beta32;
    const cublasStatus_t status = cublasLtMatmul(
        p->lt, t->operation, alpha, t->b + set * t->b_bytes, t->first, t->a + set * t->a_bytes,
        t->second, beta, c, t->out, c, t->out, &t->algorithm, workspace, workspace_bytes, stream);
    if (status == CUBLAS_STATUS_INVALID_VALUE && t->shape.format->scaling != LT_UNSCALED)
        probe_refuse(REFUSED_UNSUPPORTED, "cuBLASLt does not take these scales of %s here",
                     t->shape.format->name);
    BLAS_CHECK(status);
}

void lt_queue(struct probe *p, const struct lt_product *t, cudaStream_t stream) {
    const unsigned loop = (unsigned)t->shape.loop, first = p->turn * loop;
    if (loop == 1)
        queue_set(p, t, first % t->sets, t->workspace, stream);
    for (unsigned i = 0; loop > 1 && i < loop; ++i)
        queue_set(p, t, (first + i) % t->sets, t->workspace + (i % PROBE_LANES) * workspace_bytes,
                  p->lane[i % PROBE_LANES]);
}

void lt_free(struct lt_product *t) {
    if (t->operation)
        (void)cublasLtMatmulDescDestroy(t->operation);
    for (cublasLtMatrixLayout_t layout : {t->first, t->second, t->out})
        if (layout)
            (void)cublasLtMatrixLayoutDestroy(layout);
    t->operation = NULL;
    t->first = t->second = t->out = NULL;
}

/* ---- against the host ---- */

static void multiply_on_host(const struct lt_product *t, const float *a, const float *b, float *c) {
    const double scale = t->shape.format->scaling == LT_UNSCALED ? 1 : 2;
    const long m = t->rows, n = t->columns, k = t->depth;
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j) {
            double sum = 0;
            for (long l = 0; l < k; ++l)
                sum += (double)a[t->form == GEMM_ATB ? l * m + i : i * k + l] *
                       (double)b[t->form == GEMM_ABT ? j * k + l : l * n + j];
            c[i * n + j] = (float)(scale * sum);
        }
}

static void compare_product(struct probe *p, const struct lt_product *t) {
    const size_t batch = (size_t)t->shape.batch, m = (size_t)t->rows, n = (size_t)t->columns;
    const size_t k = (size_t)t->depth, count = batch * m * n;
    const cudaDataType in = t->shape.format->in;
    float *const a = (float *)host_take(batch * m * k * sizeof *a);
    float *const b = (float *)host_take(batch * n * k * sizeof *b);
    float *const want = (float *)host_take(count * sizeof *want);
    float *const got = (float *)host_take(count * sizeof *got);
    encode_on_host(a, batch * m * k, A_SERIES, scale_of(t, A_SERIES), in);
    encode_on_host(b, batch * n * k, B_SERIES, scale_of(t, B_SERIES), in);
    for (size_t i = 0; i < batch; ++i)
        multiply_on_host(t, a + i * m * k, b + i * n * k, want + i * m * n);
    p->turn = 0;
    CUDA_CHECK(cudaDeviceSynchronize()); /* lanes do not wait for the stream that filled */
    lt_queue(p, t, p->stream);
    CUDA_CHECK(cudaDeviceSynchronize());
    for (long i = 0; i < t->shape.loop; ++i) {
        encode_read(p, t->c + (size_t)i * t->c_bytes, got, count, t->out_type);
        timing_compare(p, t->shape.format->name, got, want, count, t->shape.format->tolerance);
    }
}

void lt_check(struct probe *p, const struct lt_shape *shape) {
    struct lt_product *const t = lt_make(p, shape);
    try {
        compare_product(p, t);
    } catch (...) {
        lt_free(t);
        throw;
    }
    lt_free(t);
}
