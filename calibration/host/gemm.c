// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Dense and grouped products: forward y = x w, dx = dy w^T, dw = x^T dy.  Own loops pack a block of
 * b once and run rows of a over it, sums in FP32.
 */
#include "host.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef MOSAIC_HAS_OPENBLAS
#include <cblas.h>
#endif

const char *const host_kernels_words[HOST_KERNELS + 1] = {"blas", "own", "executor", NULL};

/* ---- BLAS ---- */

#ifdef MOSAIC_HAS_OPENBLAS
bool host_has_blas(void) {
    return true;
}

const char *blas_name(void) {
    return openblas_get_config();
}

void blas_threads(int threads) {
    openblas_set_num_threads(threads);
}

void blas_product(const struct product *p) {
    const bool turn_a = p->a.column != 1, turn_b = p->b.column != 1;
    const size_t lda = turn_a ? p->a.column : p->a.row, ldb = turn_b ? p->b.column : p->b.row;
    cblas_sgemm(CblasRowMajor, turn_a ? CblasTrans : CblasNoTrans,
                turn_b ? CblasTrans : CblasNoTrans, (blasint)p->rows, (blasint)p->columns,
                (blasint)p->depth, 1.0F, p->a.at, (blasint)lda, p->b.at, (blasint)ldb, 0.0F, p->out,
                (blasint)p->columns);
}
#else
bool host_has_blas(void) {
    return false;
}

const char *blas_name(void) {
    return NULL;
}

void blas_threads(int threads) {
    (void)threads;
}

void blas_product(const struct product *p) {
    (void)p;
}
#endif

/* ---- own loops ---- */

/* Vectors that every processor has: wider ones are taken apart by compilers where they are not. */
enum { LANES = 4, SUMS = 8, TILE = SUMS * LANES, DEPTH = 128 };
typedef float lanes
    __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

struct tile {
    size_t rows, columns, depth; /* columns <= TILE */
    struct matrix_view a;
    const float *packed; /* [depth][TILE], zeros beyond the columns */
    float *out;
    size_t out_row;
    bool is_first; /* of the depth */
};

static void tile_run(const struct tile *t) {
    for (size_t i = 0; i < t->rows; ++i) {
        float edge[TILE] = {0.0F};
        float *const out = t->out + i * t->out_row;
        if (!t->is_first)
            memcpy(edge, out, t->columns * sizeof *edge);
        lanes *const sums = (lanes *)(void *)edge;
        lanes s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
        lanes s4 = sums[4], s5 = sums[5], s6 = sums[6], s7 = sums[7];
        const float *a = t->a.at + i * t->a.row;
        const lanes *b = (const lanes *)(const void *)t->packed;
        for (size_t p = 0; p < t->depth; ++p, a += t->a.column, b += SUMS) {
            const float value = *a;
            s0 += value * b[0];
            s1 += value * b[1];
            s2 += value * b[2];
            s3 += value * b[3];
            s4 += value * b[4];
            s5 += value * b[5];
            s6 += value * b[6];
            s7 += value * b[7];
        }
        const lanes all[SUMS] = {s0, s1, s2, s3, s4, s5, s6, s7};
        memcpy(edge, all, sizeof edge);
        memcpy(out, edge, t->columns * sizeof *edge);
    }
}

static void pack(const struct product *p, size_t column, size_t depth, const struct tile *t,
                 float *to) {
    const float *const from = p->b.at + depth * p->b.row + column * p->b.column;
    for (size_t d = 0; d < t->depth; ++d)
        for (size_t j = 0; j < TILE; ++j)
            to[d * TILE + j] = j < t->columns ? from[d * p->b.row + j * p->b.column] : 0.0F;
}

static void own_rows(void *context, size_t first, size_t end) {
    const struct product *const p = context;
    float packed[DEPTH * TILE];
    for (size_t j = 0; j < p->columns; j += TILE)
        for (size_t d = 0; d < p->depth; d += DEPTH) {
            struct tile t = {.rows = end - first,
                             .columns = p->columns - j < TILE ? p->columns - j : TILE,
                             .depth = p->depth - d < DEPTH ? p->depth - d : DEPTH,
                             .a = p->a,
                             .packed = packed,
                             .out = p->out + first * p->columns + j,
                             .out_row = p->columns,
                             .is_first = d == 0};
            t.a.at += first * p->a.row + d * p->a.column;
            pack(p, j, d, &t, packed);
            tile_run(&t);
        }
}

void product_run(const struct host *host, const struct product *product) {
    if (host->options.kernels == KERNELS_BLAS) {
        blas_product(product);
        return;
    }
    struct product p = *product;
    host_parallel(host, p.rows, own_rows, &p);
}

/* ---- a pass of a product ---- */

struct product product_of(enum product_pass pass, const size_t mnk[3], const float *const xwy[3],
                          float *out) {
    const size_t m = mnk[0], n = mnk[1], k = mnk[2];
    switch (pass) {
    case PRODUCT_DATA:
        return (struct product){m, k, n, {xwy[2], n, 1}, {xwy[1], 1, n}, out};
    case PRODUCT_WEIGHT:
        return (struct product){k, n, m, {xwy[0], 1, k}, {xwy[2], n, 1}, out};
    case PRODUCT_FORWARD:
        break;
    }
    return (struct product){m, n, k, {xwy[0], k, 1}, {xwy[1], n, 1}, out};
}

bool product_is_right(const struct product *p) {
    enum { CHECKS = 32 };
    for (size_t c = 0; c < CHECKS; ++c) {
        const size_t i = c * 7919 % p->rows, j = c * 104729 % p->columns;
        double sum = 0.0, size = 1.0;
        for (size_t d = 0; d < p->depth; ++d) {
            const double term = (double)p->a.at[i * p->a.row + d * p->a.column] *
                                (double)p->b.at[d * p->b.row + j * p->b.column];
            sum += term;
            size += fabs(term);
        }
        if (!(fabs(sum - (double)p->out[i * p->columns + j]) <= 1e-6 * size))
            return false;
    }
    return true;
}

/* ---- jobs ---- */

struct products {
    const struct host *host;
    size_t count;
    struct product *each;
};

static void products_run(void *context) {
    const struct products *const all = context;
    for (size_t i = 0; i < all->count; ++i)
        product_run(all->host, &all->each[i]);
}

static bool products_verify(void *context) {
    const struct products *const all = context;
    return product_is_right(&all->each[0]) && product_is_right(&all->each[all->count - 1]);
}

static enum product_pass pass_of(const struct host_job *job) {
    return job_is(job, "pass", "forward")         ? PRODUCT_FORWARD
           : job_is(job, "pass", "backward_data") ? PRODUCT_DATA
                                                  : PRODUCT_WEIGHT;
}

/* Blocks of x, w and dy, and of the pass's result, for all products. */
static bool products_take(struct host_job *job, enum product_pass pass, const size_t mnk[3],
                          struct products *all, size_t *result_count) {
    const size_t m = mnk[0], n = mnk[1], k = mnk[2], count = all->count;
    const size_t sizes[] = {m * k, k * n, m * n};
    const size_t out_size[] = {m * n, m * k, k * n};
    const float *from[3];
    for (unsigned i = 0; i < 3; ++i)
        if (!(from[i] = job_floats(job, count * sizes[i], i + 1)))
            return false;
    float *const out = job_take(job, count * out_size[pass], sizeof *out);
    all->each = job_take(job, count, sizeof *all->each);
    if (!out || !all->each)
        return false;
    for (size_t e = 0; e < count; ++e) {
        const float *const own[] = {from[0] + e * sizes[0], from[1] + e * sizes[1],
                                    from[2] + e * sizes[2]};
        all->each[e] = product_of(pass, mnk, own, out + e * out_size[pass]);
    }
    *result_count = count * out_size[pass];
    return true;
}

/* Sizes beyond what BLAS counts with are refused before any block is asked for. */
static bool products_foresee(struct host_job *job, const size_t mnk[3], size_t count) {
    const double m = (double)mnk[0], n = (double)mnk[1], k = (double)mnk[2];
    const double numbers = (double)count * (m * k + k * n + m * n);
    if (numbers * (double)sizeof(float) > job->host->available_bytes)
        return job_refuse(job, REFUSED_MEMORY, "%.3g bytes for the matrices, %.3g free",
                          numbers * (double)sizeof(float), job->host->available_bytes);
    return job_foresee(job, 2.0 * m * n * k * (double)count, job->host->gemm_flop_per_s,
                       numbers * (double)sizeof(float));
}

static const char *const kernel_names[HOST_KERNELS] = {"OpenBLAS sgemm", "this program's loops",
                                                       "the executors' loops"};

static bool products_measure(struct host_job *job, const size_t mnk[3], size_t count) {
    job->how = kernel_names[job->host->options.kernels];
    const enum product_pass pass = pass_of(job);
    if (!products_foresee(job, mnk, count))
        return false;
    if (job->host->options.kernels == KERNELS_EXECUTOR)
        return executor_gemm_measure(job, pass, mnk, count, 0.0);
    struct products all = {job->host, count, NULL};
    struct host_work work = {.context = &all, .run = products_run, .verify = products_verify};
    if (!products_take(job, pass, mnk, &all, &work.result_count))
        return false;
    work.result = all.each[0].out;
    return job_measure(job, &work);
}

bool gemm_measure(struct host_job *job) {
    const size_t mnk[] = {job_size(job, "m"), job_size(job, "n"), job_size(job, "k")};
    return products_measure(job, mnk, 1);
}

bool grouped_gemm_measure(struct host_job *job) {
    const size_t mnk[] = {job_size(job, "rows"), job_size(job, "n"), job_size(job, "k")};
    return products_measure(job, mnk, job_size(job, "experts"));
}

/* ---- sustained ---- */

struct loop {
    struct products all;
    double until_s; /* of the clock: when the rounds may begin */
};

/* The first run lasts until the clocks and the power have settled. */
static double loop_timed(void *context, long times) {
    struct loop *const loop = context;
    if (loop->until_s > 0.0) {
        while (host_clock_s() < loop->until_s)
            products_run(&loop->all);
        loop->until_s = 0.0;
    }
    const double start = host_clock_s();
    for (long i = 0; i < times; ++i)
        products_run(&loop->all);
    return host_clock_s() - start;
}

static bool loop_verify(void *context) {
    return products_verify(&((struct loop *)context)->all);
}

bool sustained_measure(struct host_job *job) {
    const size_t mnk[] = {job_size(job, "m"), job_size(job, "n"), job_size(job, "k")};
    if (!products_foresee(job, mnk, 1))
        return false;
    if (job->host->options.kernels == KERNELS_EXECUTOR)
        return executor_gemm_measure(job, PRODUCT_FORWARD, mnk, 1,
                                     (double)job_size(job, "seconds"));
    struct loop loop = {.all = {job->host, 1, NULL}};
    struct host_work work = {.context = &loop, .timed = loop_timed, .verify = loop_verify};
    if (!products_take(job, PRODUCT_FORWARD, mnk, &loop.all, &work.result_count))
        return false;
    work.result = loop.all.each[0].out;
    loop.until_s = host_clock_s() + (double)job_size(job, "seconds");
    return job_measure(job, &work);
}
