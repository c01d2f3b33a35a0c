// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Products as the executors of the memory schedules compute them (exec/expert_ffn.h): one row at a
 * time, in plain loops.  A product [rows, k] x [k, n] is gate and up of an expert of hidden k and
 * inner n / 2.  Its backward makes all gradients of an expert's three matrices in one walk, which
 * no clock can split: each gradient of gate and up is told the share of the walk that its FLOPs
 * have, 4 of 12 per row, hidden and inner.
 */
#include "host.h"

#include "exec/expert_ffn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_PER_WALK = 3 };

struct experts {
    struct expert_shape shape;
    size_t count, rows; /* experts; of each */
    size_t weights;     /* of one */
    bool is_backward;
    float *w, *x, *interior, *dy, *gradients;
    float *first_x, *first_interior; /* what backward overwrites */
};

static size_t row_count(const struct experts *e) {
    return e->count * e->rows;
}

static void forward(const struct experts *e) {
    const size_t hidden = (size_t)e->shape.hidden, inner = (size_t)e->shape.inner;
    for (size_t r = 0; r < row_count(e); ++r)
        expert_interior(&e->shape, e->w + r / e->rows * e->weights, e->x + r * hidden,
                        e->interior + r * 2 * inner);
}

static void backward(const struct experts *e) {
    const size_t hidden = (size_t)e->shape.hidden, inner = (size_t)e->shape.inner;
    for (size_t r = 0; r < row_count(e); ++r) {
        const size_t at = r / e->rows * e->weights;
        const struct expert_row row = {1.0F, e->dy + r * hidden, e->x + r * hidden,
                                       e->interior + r * 2 * inner};
        (void)expert_backward(&e->shape, e->w + at, &row, e->gradients + at);
    }
}

static void run(void *context) {
    const struct experts *const e = context;
    if (e->is_backward)
        backward(e);
    else
        forward(e);
}

static void reset(void *context) {
    const struct experts *const e = context;
    memcpy(e->x, e->first_x, row_count(e) * (size_t)e->shape.hidden * sizeof *e->x);
    memcpy(e->interior, e->first_interior,
           row_count(e) * 2 * (size_t)e->shape.inner * sizeof *e->interior);
}

static bool is_near(double got, double want, double size) {
    return fabs(got - want) <= 1e-4 * (size + 1.0);
}

/* Gradients of gate (0) and up (1) for row r at inner i. */
static double inner_gradient(const struct experts *e, size_t r, size_t i, int is_up) {
    const size_t hidden = (size_t)e->shape.hidden, inner = (size_t)e->shape.inner;
    const float *const down = e->w + r / e->rows * e->weights + 2 * hidden * inner + i * hidden;
    const double g = (double)e->first_interior[r * 2 * inner + i];
    const double u = (double)e->first_interior[r * 2 * inner + inner + i];
    const double s = 1.0 / (1.0 + exp(-g));
    double back = 0.0;
    for (size_t h = 0; h < hidden; ++h)
        back += (double)e->dy[r * hidden + h] * (double)down[h];
    return is_up ? back * g * s : back * u * s * (1.0 + g * (1.0 - s));
}

/* One entry of dx and one of the gate's gradient, of the last expert. */
static bool backward_is_right(const struct experts *e) {
    const size_t hidden = (size_t)e->shape.hidden, inner = (size_t)e->shape.inner;
    const size_t r = row_count(e) - 1, at = (e->count - 1) * e->weights;
    const size_t h = 7919 % hidden, i = 104729 % inner;
    double dx = 0.0, dx_size = 0.0, dw = 0.0, dw_size = 0.0;
    for (size_t j = 0; j < inner; ++j) {
        const double gate = inner_gradient(e, r, j, 0) * (double)e->w[at + h * inner + j];
        const double up = inner_gradient(e, r, j, 1) * (double)e->w[at + (hidden + h) * inner + j];
        dx += gate + up;
        dx_size += fabs(gate) + fabs(up);
    }
    for (size_t k = row_count(e) - e->rows; k <= r; ++k) {
        const double one = inner_gradient(e, k, i, 0) * (double)e->first_x[k * hidden + h];
        dw += one;
        dw_size += fabs(one);
    }
    return is_near((double)e->x[r * hidden + h], dx, dx_size) &&
           is_near((double)e->gradients[at + h * inner + i], dw, dw_size);
}

static bool verify(void *context) {
    const struct experts *const e = context;
    if (e->is_backward)
        return backward_is_right(e);
    const size_t hidden = (size_t)e->shape.hidden, inner = (size_t)e->shape.inner;
    const size_t r = row_count(e) - 1, at = (e->count - 1) * e->weights;
    for (size_t i = 0; i < inner; i += 1 + inner / 8) {
        double gate = 0.0, size = 0.0;
        for (size_t h = 0; h < hidden; ++h) {
            const double term = (double)e->x[r * hidden + h] * (double)e->w[at + h * inner + i];
            gate += term;
            size += fabs(term);
        }
        if (!is_near((double)e->interior[r * 2 * inner + i], gate, size))
            return false;
    }
    return true;
}

static bool take(struct host_job *job, struct experts *e) {
    const size_t hidden = (size_t)e->shape.hidden, inner = (size_t)e->shape.inner;
    const size_t rows = row_count(e);
    if (!(e->w = job_floats(job, e->count * e->weights, 1)) ||
        !(e->x = job_floats(job, rows * hidden, 2)) ||
        !(e->interior = job_floats(job, rows * 2 * inner, 3)))
        return false;
    if (!e->is_backward)
        return true;
    if (!(e->dy = job_floats(job, rows * hidden, 4)) ||
        !(e->first_x = job_floats(job, rows * hidden, 2)) ||
        !(e->first_interior = job_floats(job, rows * 2 * inner, 3)))
        return false;
    e->gradients = job_take(job, e->count * e->weights, sizeof *e->gradients);
    return e->gradients != NULL;
}

bool executor_gemm_measure(struct host_job *job, enum product_pass pass, const size_t mnk[3],
                           size_t experts, double warm_s) {
    const size_t n = mnk[1], k = mnk[2];
    if (n % 2 != 0)
        return job_refuse(job, REFUSED_UNSUPPORTED,
                          "the executors' kernels make gate and up together: n is even");
    struct experts e = {.shape = {(int)k, (int)(n / 2)},
                        .count = experts,
                        .rows = mnk[0],
                        .is_backward = pass != PRODUCT_FORWARD};
    e.weights = expert_weight_count(&e.shape);
    if (!take(job, &e))
        return false;
    for (const double until_s = host_clock_s() + warm_s; host_clock_s() < until_s;)
        forward(&e);
    const struct host_work work = {.context = &e,
                                   .reset = e.is_backward ? reset : NULL,
                                   .run = run,
                                   .verify = verify,
                                   .result = e.is_backward ? e.x : e.interior,
                                   .result_count = row_count(&e) * (e.is_backward ? k : n),
                                   .per_run = e.is_backward ? SPLIT_PER_WALK : 1};
    return job_measure(job, &work);
}

double executor_gemm_flop_per_s(void) {
    enum { ROWS = 16, HIDDEN = 128, INNER = 64 };
    const struct expert_shape shape = {HIDDEN, INNER};
    float *const w = calloc(expert_weight_count(&shape), sizeof *w);
    float x[HIDDEN] = {1.0F}, interior[2 * INNER];
    double least_s = INFINITY;
    for (int round = 0; w && round < 3; ++round) {
        const double start = host_clock_s();
        for (int r = 0; r < ROWS; ++r)
            expert_interior(&shape, w, x, interior);
        const double time_s = host_clock_s() - start;
        least_s = time_s < least_s ? time_s : least_s;
    }
    free(w);
    return 4.0 * ROWS * HIDDEN * INNER / least_s;
}
