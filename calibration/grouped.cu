// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Inner loop of chunked dispatch (PipelinedLLEP, arXiv 2609.14306): the experts of a rank on their
 * rows, K chunks one after the other through one chunk's interior; every chunk adds to the one
 * gradient of the weights.  Formulas in src/exec/expert_ffn.h, which --check compares with:
 *   forward   I = X W1^T (gate and up), A = weight silu(gate) up, Y = A W2^T
 *   backward  I and A anew; dA = dY W2, dW2 += dY^T A, dI from dA, dX = dI W1, dW1 += dI^T X
 * W1[2 inner x hidden], W2[hidden x inner]; all in bf16 or FP32, gradients of the weights in FP32.
 * A chunk takes ceil(rows / K) rows of each expert, the last ones what is left.
 */
#include "experts.h"
#include "gemm.h"
#include "timing.h"

extern "C" {
#include "exec/expert_ffn.h"
}

#include <math.h>
#include <stdlib.h>

enum { EXPERTS, ROWS, HIDDEN, INNER, CHUNKS, CALLS, PRECISION };

enum { BATCHED, LOOPED };
static const char *const call_words[] = {"batched", "looped", NULL};

static const struct probe_key keys[] = {
    {"experts", "experts of the rank", 16, 3, 1, 1024, NULL},
    {"rows", "rows of each expert, all chunks together", 4096, 29, 1, 1 << 20, NULL},
    {"hidden", "width of the model", 7168, 24, 1, 1 << 17, NULL},
    {"inner", "width of an expert", 2048, 20, 1, 1 << 17, NULL},
    {"chunks", "chunks, K", 1, 4, 1, 1024, NULL},
    {"calls", "one batched call, or a call an expert", BATCHED, BATCHED, 0, 0, call_words},
    {"precision", "of all but the weights' gradients", BF16, FP32, 0, 0, precision_words},
};

/* ---- the layer ---- */

struct layer {
    enum precision precision;
    long experts, rows, hidden, inner, chunks;
    bool is_looped;
    /* [chunk][expert][row]; Y, dY and dX lie the same way */
    void *x, *y, *dy, *dx;
    float *weight, *weight_gradient;
    void *w1, *w2;
    float *dw1, *dw2;
    void *interior, *active, *back; /* of one chunk */
};

/* Rows of each expert in a chunk, and of all experts in those before it. */
static long chunk_rows(const struct layer *l, long chunk) {
    const long whole = (l->rows + l->chunks - 1) / l->chunks, left = l->rows - chunk * whole;
    return left <= 0 ? 0 : left < whole ? left : whole;
}
static long chunk_begin(const struct layer *l, long chunk) {
    const long whole = (l->rows + l->chunks - 1) / l->chunks;
    return l->experts * (chunk * whole < l->rows ? chunk * whole : l->rows);
}

static void *row_of(const struct layer *l, void *base, long row) {
    return (char *)base + (size_t)row * (size_t)l->hidden * precision_bytes(l->precision);
}

/* A product of each expert, in one call or several. */
static void queue_experts(struct probe *p, const struct layer *l, const struct gemm *gemm) {
    if (!l->is_looped) {
        gemm_queue(p, gemm);
        return;
    }
    const size_t in = precision_bytes(gemm->precision);
    const size_t out = gemm->gathers ? sizeof(float) : in;
    struct gemm one = *gemm;
    one.batch = 1;
    for (long e = 0; e < gemm->batch; ++e) {
        one.a = (const char *)gemm->a + (size_t)(e * gemm->m * gemm->k) * in;
        one.b = (const char *)gemm->b + (size_t)(e * gemm->n * gemm->k) * in;
        one.c = (char *)gemm->c + (size_t)(e * gemm->m * gemm->n) * out;
        gemm_queue(p, &one);
    }
}

static void product(struct probe *p, const struct layer *l, enum gemm_form form, const long size[3],
                    const void *a, const void *b, void *c, bool gathers) {
    const struct gemm gemm = {form, l->precision, size[0], size[1], size[2], l->experts, a, b,
                              c,    gathers};
    queue_experts(p, l, &gemm);
}

static void interior_of_chunk(struct probe *p, const struct layer *l, long chunk) {
    const long size[] = {chunk_rows(l, chunk), 2 * l->inner, l->hidden};
    product(p, l, GEMM_ABT, size, row_of(l, l->x, chunk_begin(l, chunk)), l->w1, l->interior,
            false);
}

static void output_of_chunk(struct probe *p, const struct layer *l, long chunk) {
    const long size[] = {chunk_rows(l, chunk), l->hidden, l->inner};
    product(p, l, GEMM_ABT, size, l->active, l->w2, row_of(l, l->y, chunk_begin(l, chunk)), false);
}

static void activation_of_chunk(struct probe *p, const struct layer *l, long chunk, bool is_back) {
    const long at = chunk_begin(l, chunk);
    const struct expert_rows rows = {l->precision,   l->experts * chunk_rows(l, chunk),
                                     l->inner,       l->interior,
                                     l->active,      l->back,
                                     l->weight + at, l->weight_gradient + at};
    if (is_back)
        experts_activate_backward(p, &rows);
    else
        experts_activate(p, &rows);
}

static void backward_of_chunk(struct probe *p, const struct layer *l, long chunk) {
    const long rows = chunk_rows(l, chunk), at = chunk_begin(l, chunk);
    void *const x = row_of(l, l->x, at), *const dy = row_of(l, l->dy, at);
    const long to_active[] = {rows, l->inner, l->hidden}, to_w2[] = {l->hidden, l->inner, rows};
    const long to_x[] = {rows, l->hidden, 2 * l->inner}, to_w1[] = {2 * l->inner, l->hidden, rows};
    product(p, l, GEMM_AB, to_active, dy, l->w2, l->back, false);
    product(p, l, GEMM_ATB, to_w2, dy, l->active, l->dw2, true);
    activation_of_chunk(p, l, chunk, true);
    product(p, l, GEMM_AB, to_x, l->interior, l->w1, row_of(l, l->dx, at), false);
    product(p, l, GEMM_ATB, to_w1, l->interior, x, l->dw1, true);
}

static void queue_up(struct probe *p, void *context) {
    const struct layer *const l = (const struct layer *)context;
    for (long i = 0; i < l->chunks; ++i)
        interior_of_chunk(p, l, i);
}
static void queue_down(struct probe *p, void *context) {
    const struct layer *const l = (const struct layer *)context;
    for (long i = 0; i < l->chunks; ++i)
        output_of_chunk(p, l, i);
}
static void queue_activation(struct probe *p, void *context) {
    const struct layer *const l = (const struct layer *)context;
    for (long i = 0; i < l->chunks; ++i)
        activation_of_chunk(p, l, i, false);
}
static void queue_forward(struct probe *p, void *context) {
    const struct layer *const l = (const struct layer *)context;
    for (long i = 0; i < l->chunks; ++i) {
        interior_of_chunk(p, l, i);
        activation_of_chunk(p, l, i, false);
        output_of_chunk(p, l, i);
    }
}
static void queue_backward(struct probe *p, void *context) {
    const struct layer *const l = (const struct layer *)context;
    for (long i = 0; i < l->chunks; ++i) {
        interior_of_chunk(p, l, i);
        activation_of_chunk(p, l, i, false);
        backward_of_chunk(p, l, i);
    }
}

/* ---- data ---- */

enum { X_SERIES = 1, DY_SERIES, W1_SERIES, W2_SERIES };
static const float row_scale = 1.0F;

/* Products of a variance of 1/3 or so. */
static float w_scale_of(long width) {
    return sqrtf(3.0F / (float)width);
}

/* The router's weight of a row. */
static float router_weight(long row) {
    return 0.5F + 0.0625F * (float)(row % 8);
}

static void *random_block(struct probe *p, const struct layer *l, size_t count, uint32_t series,
                          float scale) {
    void *const block = device_take(count * precision_bytes(l->precision));
    device_random(p, block, count, series, scale, l->precision);
    return block;
}

static float *zeroed(struct probe *p, size_t count) {
    float *const block = (float *)device_take(count * sizeof *block);
    CUDA_CHECK(cudaMemsetAsync(block, 0, count * sizeof *block, p->stream));
    return block;
}

static float *router_weights(size_t rows) {
    float *const host = (float *)malloc(rows * sizeof *host);
    if (!host)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    for (size_t i = 0; i < rows; ++i)
        host[i] = router_weight((long)i);
    float *const to = (float *)device_copy(host, rows * sizeof *host);
    free(host);
    return to;
}

static struct layer make_layer(struct probe *p) {
    struct layer l = {};
    l.precision = (enum precision)p->values[PRECISION];
    l.experts = p->values[EXPERTS];
    l.rows = p->values[ROWS];
    l.hidden = p->values[HIDDEN];
    l.inner = p->values[INNER];
    l.chunks = p->values[CHUNKS];
    l.is_looped = p->values[CALLS] == LOOPED;
    const size_t rows = (size_t)(l.experts * l.rows), hidden = (size_t)l.hidden;
    const size_t matrix = (size_t)(l.experts * l.inner) * hidden;
    const size_t held = (size_t)(l.experts * chunk_rows(&l, 0) * l.inner);
    l.x = random_block(p, &l, rows * hidden, X_SERIES, row_scale);
    l.dy = random_block(p, &l, rows * hidden, DY_SERIES, row_scale);
    l.w1 = random_block(p, &l, 2 * matrix, W1_SERIES, w_scale_of(l.hidden));
    l.w2 = random_block(p, &l, matrix, W2_SERIES, w_scale_of(l.inner));
    const size_t width = precision_bytes(l.precision);
    l.y = device_take(rows * hidden * width);
    l.dx = device_take(rows * hidden * width);
    l.interior = device_take(2 * held * width);
    l.active = device_take(held * width);
    l.back = device_take(held * width);
    l.dw1 = zeroed(p, 2 * matrix);
    l.dw2 = zeroed(p, matrix);
    l.weight = router_weights(rows);
    l.weight_gradient = zeroed(p, rows);
    return l;
}

static void run(struct probe *p) {
    struct layer l = make_layer(p);
    /* Multiply-adds of one matrix; up has two of them, down one, backward 6 and 2 anew. */
    const double rows = (double)l.experts * (double)l.rows;
    const double matrix_flop = 2.0 * rows * (double)l.hidden * (double)l.inner;
    const double active_bytes = rows * (double)l.inner * (double)precision_bytes(l.precision);
    const struct work works[] = {
        {"up", queue_up, &l, 2 * matrix_flop, 0, 0, {}},
        {"activation", queue_activation, &l, 0, 3 * active_bytes, 0, {}},
        {"down", queue_down, &l, matrix_flop, 0, 0, {}},
        {"forward", queue_forward, &l, 3 * matrix_flop, 0, 0, {}},
        {"backward", queue_backward, &l, 8 * matrix_flop, 0, 0, {}},
    };
    for (const struct work &work : works)
        timing_take(p, &work);
}

/* ---- against the executor ---- */

static float *new_floats(size_t count) {
    float *const block = (float *)calloc(count + 1, sizeof *block);
    if (!block)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    return block;
}

static float *random_floats(const struct layer *l, size_t count, uint32_t series, float scale) {
    float *const block = new_floats(count);
    host_random(block, count, series, scale, l->precision);
    return block;
}

/* The executor keeps Wg and Wu as [hidden x inner] and Wd as [inner x hidden]: the transposes of
 * the halves of W1 and of W2.  One expert; to the executor's form or back from it. */
static void exchange_forms(const struct layer *l, float *w1, float *w2, float *own, bool is_back) {
    const long hidden = l->hidden, inner = l->inner;
    for (long h = 0; h < hidden; ++h)
        for (long i = 0; i < 3 * inner; ++i) {
            const long part = i / inner, j = i % inner;
            float *const ours = part < 2 ? &w1[i * hidden + h] : &w2[h * inner + j];
            float *const theirs = part < 2 ? &own[part * hidden * inner + h * inner + j]
                                           : &own[2 * hidden * inner + j * hidden + h];
            *(is_back ? ours : theirs) = *(is_back ? theirs : ours);
        }
}

struct reference {
    float *x, *y, *dy, *dx, *weight_gradient, *w1, *w2, *dw1, *dw2;
};

/* Rows `from` to `to` of all, which are one expert's; `own`: its weights in the executor's form. */
static void rows_on_host(const struct layer *l, const float *own, long from, long to,
                         const struct reference *r, float *gradients) {
    const struct expert_shape shape = {(int)l->hidden, (int)l->inner};
    float *const interior = new_floats(2 * (size_t)l->inner);
    for (long row = from; row < to; ++row) {
        const long at = row * l->hidden;
        for (long h = 0; h < l->hidden; ++h)
            r->dx[at + h] = r->x[at + h];
        expert_interior(&shape, own, r->x + at, interior);
        expert_output(&shape, own, router_weight(row), interior, r->y + at);
        const struct expert_row backward = {router_weight(row), r->dy + at, r->dx + at, interior};
        r->weight_gradient[row] = expert_backward(&shape, own, &backward, gradients);
    }
    free(interior);
}

static struct reference layer_on_host(const struct layer *l) {
    const size_t rows = (size_t)(l->experts * l->rows), hidden = (size_t)l->hidden;
    const size_t matrix = (size_t)l->inner * hidden, all = (size_t)l->experts * matrix;
    const struct reference r = {random_floats(l, rows * hidden, X_SERIES, row_scale),
                                new_floats(rows * hidden),
                                random_floats(l, rows * hidden, DY_SERIES, row_scale),
                                new_floats(rows * hidden),
                                new_floats(rows),
                                random_floats(l, 2 * all, W1_SERIES, w_scale_of(l->hidden)),
                                random_floats(l, all, W2_SERIES, w_scale_of(l->inner)),
                                new_floats(2 * all),
                                new_floats(all)};
    for (long e = 0; e < l->experts; ++e) {
        const size_t at = (size_t)e * matrix;
        float *const own = new_floats(3 * matrix), *const gradients = new_floats(3 * matrix);
        exchange_forms(l, r.w1 + 2 * at, r.w2 + at, own, false);
        for (long chunk = 0; chunk < l->chunks; ++chunk) {
            const long from = chunk_begin(l, chunk) + e * chunk_rows(l, chunk);
            rows_on_host(l, own, from, from + chunk_rows(l, chunk), &r, gradients);
        }
        exchange_forms(l, r.dw1 + 2 * at, r.dw2 + at, gradients, true);
        free(gradients);
        free(own);
    }
    return r;
}

static void compare(struct probe *p, const char *quantity, const void *device, const float *want,
                    size_t count, enum precision precision) {
    /* bf16 rounds the interior and what becomes of it to 8 bits, four times in a row. */
    const double tolerance = p->values[PRECISION] == BF16 ? 1e-2 : 1e-5;
    float *const got = device_read(p, device, count, precision);
    timing_compare(p, quantity, got, want, count, tolerance);
    free(got);
}

static void check(struct probe *p) {
    struct layer l = make_layer(p);
    const struct reference want = layer_on_host(&l);
    const size_t rows = (size_t)(l.experts * l.rows), hidden = (size_t)l.hidden;
    const size_t matrix = (size_t)(l.experts * l.inner) * hidden;
    queue_forward(p, &l);
    queue_backward(p, &l);
    compare(p, "output", l.y, want.y, rows * hidden, l.precision);
    compare(p, "input_gradient", l.dx, want.dx, rows * hidden, l.precision);
    compare(p, "router_gradient", l.weight_gradient, want.weight_gradient, rows, FP32);
    compare(p, "up_gradient", l.dw1, want.dw1, 2 * matrix, FP32);
    compare(p, "down_gradient", l.dw2, want.dw2, matrix, FP32);
    for (float *block : {want.x, want.y, want.dy, want.dx, want.weight_gradient, want.w1, want.w2,
                         want.dw1, want.dw2})
        free(block);
}

const struct probe_kind grouped_probe = {
    "schedule",
    "grouped",
    "experts on their rows, chunk by chunk",
    keys,
    sizeof keys / sizeof *keys,
    run,
    check,
};
