// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Operators bound by memory, FP32, rows x width, each row by itself:
 *   norm           y = x / rms(x);  dx = (dy - x (x . dy) / (width rms^2)) / rms
 *   rope           pairs turned by an angle; backward turns them back
 *   swiglu         y = g s(g) u;  dg, du
 *   router_top_k   probabilities of a row, and its best eight;  dx = p (dy - p . dy)
 *   permute        rows gathered in another order; backward scatters them
 *   cross_entropy  log-sum-exp less the target's logit;  dx = p - onehot
 */
#include "host.h"

#include <math.h>
#include <string.h>

enum operator{ NORM, ROPE, SWIGLU, ROUTER, PERMUTE, CROSS_ENTROPY, QUANTISE };
enum { TOP_K = 8, ROW_STRIDE = 7919 };

struct element {
    const struct host *host;
    enum operator op;
    bool is_backward;
    size_t rows, width;
    float *x, *dy; /* inputs; dy of swiglu forward: the second factor */
    float *u;      /* the second factor of swiglu backward */
    float *y, *du; /* results */
    int *best;
};

/* An odd stride visits all rows of an even count in a mixed order; else the order is reversed. */
static size_t from_row(const struct element *e, size_t r) {
    return e->rows % ROW_STRIDE != 0 ? r * ROW_STRIDE % e->rows : e->rows - 1 - r;
}

static float inverse_rms(const float *x, size_t width) {
    float sum = 0.0F;
    for (size_t i = 0; i < width; ++i)
        sum += x[i] * x[i];
    return 1.0F / sqrtf(sum / (float)width + 1e-12F);
}

static void norm_row(const struct element *e, const float *x, const float *dy, float *y) {
    const float inverse = inverse_rms(x, e->width);
    float along = 0.0F;
    for (size_t i = 0; e->is_backward && i < e->width; ++i)
        along += x[i] * dy[i];
    along *= inverse * inverse / (float)e->width;
    for (size_t i = 0; i < e->width; ++i)
        y[i] = (e->is_backward ? dy[i] - x[i] * along : x[i]) * inverse;
}

/* Angles in cos, sin pairs are read as a table is: from the second input. */
static void rope_row(const struct element *e, const float *x, const float *angles, float *y) {
    for (size_t i = 0; i + 1 < e->width; i += 2) {
        const float c = angles[i], s = e->is_backward ? -angles[i + 1] : angles[i + 1];
        y[i] = x[i] * c - x[i + 1] * s;
        y[i + 1] = x[i] * s + x[i + 1] * c;
    }
}

static void swiglu_row(const struct element *e, size_t r) {
    const size_t at = r * e->width;
    for (size_t i = at; i < at + e->width; ++i) {
        const float g = e->x[i], s = 1.0F / (1.0F + expf(-g));
        if (!e->is_backward) {
            e->y[i] = g * s * e->dy[i];
            continue;
        }
        e->y[i] = e->dy[i] * e->u[i] * s * (1.0F + g * (1.0F - s));
        e->du[i] = e->dy[i] * g * s;
    }
}

/* Probabilities into y; the log-sum-exp. */
static float softmax_row(const float *x, float *y, size_t width) {
    float most = x[0], sum = 0.0F;
    for (size_t i = 1; i < width; ++i)
        most = fmaxf(most, x[i]);
    for (size_t i = 0; i < width; ++i)
        sum += y[i] = expf(x[i] - most);
    for (size_t i = 0; i < width; ++i)
        y[i] /= sum;
    return most + logf(sum);
}

static void best_of(const struct element *e, const float *p, int *best) {
    size_t found = 0;
    for (size_t i = 0; i < e->width; ++i) {
        size_t at = found < TOP_K ? found++ : TOP_K;
        if (at == TOP_K && p[i] <= p[best[TOP_K - 1]])
            continue;
        at = at == TOP_K ? TOP_K - 1 : at;
        for (; at > 0 && p[best[at - 1]] < p[i]; --at)
            best[at] = best[at - 1];
        best[at] = (int)i;
    }
}

static void router_row(const struct element *e, size_t r) {
    const float *const x = e->x + r * e->width, *const dy = e->dy + r * e->width;
    float *const y = e->y + r * e->width;
    (void)softmax_row(x, y, e->width);
    if (!e->is_backward) {
        best_of(e, y, e->best + r * TOP_K);
        return;
    }
    float along = 0.0F;
    for (size_t i = 0; i < e->width; ++i)
        along += y[i] * dy[i];
    for (size_t i = 0; i < e->width; ++i)
        y[i] *= dy[i] - along;
}

/* Forward keeps the log-sum-exp alone, in y's first. */
static void cross_entropy_row(const struct element *e, size_t r) {
    const float *const x = e->x + r * e->width;
    float *const y = e->y + r * e->width;
    const size_t target = r % e->width;
    if (e->is_backward) {
        (void)softmax_row(x, y, e->width);
        y[target] -= 1.0F;
        return;
    }
    float most = x[0], sum = 0.0F;
    for (size_t i = 1; i < e->width; ++i)
        most = fmaxf(most, x[i]);
    for (size_t i = 0; i < e->width; ++i)
        sum += expf(x[i] - most);
    y[0] = most + logf(sum) - x[target];
}

static void permute_row(const struct element *e, size_t r) {
    const size_t other = from_row(e, r);
    const size_t to = e->is_backward ? other : r, from = e->is_backward ? r : other;
    memcpy(e->y + to * e->width, e->x + from * e->width, e->width * sizeof *e->y);
}

static void element_range(void *context, size_t first, size_t end) {
    const struct element *const e = context;
    for (size_t r = first; r < end; ++r) {
        const size_t at = r * e->width;
        switch (e->op) {
        case NORM:
            norm_row(e, e->x + at, e->dy + at, e->y + at);
            break;
        case ROPE:
            rope_row(e, e->x + at, e->dy + at, e->y + at);
            break;
        case SWIGLU:
            swiglu_row(e, r);
            break;
        case ROUTER:
            router_row(e, r);
            break;
        case PERMUTE:
            permute_row(e, r);
            break;
        case CROSS_ENTROPY:
            cross_entropy_row(e, r);
            break;
        case QUANTISE:
            break;
        }
    }
}

static void element_run(void *context) {
    struct element *const e = context;
    host_parallel(e->host, e->rows, element_range, e);
}

/* ---- the last row, in double ---- */

static double probability(const float *x, size_t width, size_t i) {
    double sum = 0.0;
    for (size_t k = 0; k < width; ++k)
        sum += exp((double)x[k] - (double)x[i]);
    return 1.0 / sum;
}

static double norm_want(const struct element *e, const float *x, const float *dy, size_t i) {
    double square = 1e-12, along = 0.0;
    for (size_t k = 0; k < e->width; ++k) {
        square += (double)x[k] * (double)x[k] / (double)e->width;
        along += (double)x[k] * (double)dy[k] / (double)e->width;
    }
    const double inverse = 1.0 / sqrt(square);
    return e->is_backward ? ((double)dy[i] - (double)x[i] * along / square) * inverse
                          : (double)x[i] * inverse;
}

static double swiglu_want(const struct element *e, size_t at) {
    const double g = (double)e->x[at], s = 1.0 / (1.0 + exp(-g));
    return e->is_backward ? (double)e->dy[at] * (double)e->u[at] * s * (1.0 + g * (1.0 - s))
                          : g * s * (double)e->dy[at];
}

static double rope_want(const struct element *e, const float *x, const float *angles, size_t i) {
    const size_t pair = i & ~(size_t)1;
    const double c = (double)angles[pair];
    const double s = e->is_backward ? -(double)angles[pair + 1] : (double)angles[pair + 1];
    return i == pair ? (double)x[pair] * c - (double)x[pair + 1] * s
                     : (double)x[pair] * s + (double)x[pair + 1] * c;
}

static double router_want(const struct element *e, const float *x, const float *dy, size_t i) {
    double along = 0.0;
    const double p = probability(x, e->width, i);
    if (!e->is_backward)
        return p;
    for (size_t k = 0; k < e->width; ++k)
        along += p * exp((double)x[k] - (double)x[i]) * (double)dy[k];
    return p * ((double)dy[i] - along);
}

static double want(const struct element *e, size_t r, size_t i) {
    const float *const x = e->x + r * e->width, *const dy = e->dy + r * e->width;
    switch (e->op) {
    case NORM:
        return norm_want(e, x, dy, i);
    case ROPE:
        return rope_want(e, x, dy, i);
    case SWIGLU:
        return swiglu_want(e, r * e->width + i);
    case ROUTER:
        return router_want(e, x, dy, i);
    case CROSS_ENTROPY:
        if (!e->is_backward)
            return -log(probability(x, e->width, r % e->width));
        return probability(x, e->width, i) - (i == r % e->width ? 1.0 : 0.0);
    case PERMUTE:
    case QUANTISE:
        break;
    }
    return (double)e->x[from_row(e, r) * e->width + i];
}

static bool element_verify(void *context) {
    const struct element *const e = context;
    const size_t row = e->rows - 1;
    const bool is_one = e->op == CROSS_ENTROPY && !e->is_backward;
    for (size_t i = 0; i < (is_one ? 1 : e->width); i += 1 + e->width / 16) {
        size_t at = row * e->width + i;
        double wanted = want(e, row, i);
        if (e->op == PERMUTE && e->is_backward) {
            at = from_row(e, row) * e->width + i;
            wanted = (double)e->x[row * e->width + i];
        }
        if (!(fabs((double)e->y[at] - wanted) <= 1e-3 * (1.0 + fabs(wanted))))
            return false;
    }
    for (size_t k = 1; e->best && k < TOP_K && k < e->width; ++k)
        if (e->x[row * e->width + (size_t)e->best[row * TOP_K + k]] >
            e->x[row * e->width + (size_t)e->best[row * TOP_K + k - 1]])
            return false;
    return true;
}

static bool take(struct host_job *job, struct element *e) {
    const size_t count = e->rows * e->width;
    if (!(e->x = job_floats(job, count, 1)) || !(e->dy = job_floats(job, count, 2)) ||
        !(e->y = job_take(job, count, sizeof(float))))
        return false;
    if (e->op == ROUTER && !(e->best = job_take(job, e->rows * TOP_K, sizeof *e->best)))
        return false;
    if (e->op == SWIGLU && e->is_backward)
        return (e->u = job_floats(job, count, 3)) && (e->du = job_take(job, count, sizeof(float)));
    return true;
}

bool elementwise_measure(struct host_job *job) {
    struct element e = {.host = job->host,
                        .op = (enum operator)job_size(job, "op"),
                        .is_backward = job_is(job, "pass", "backward"),
                        .rows = job_size(job, "rows"),
                        .width = job_size(job, "width")};
    if (e.op == QUANTISE)
        return job_refuse(job, REFUSED_UNSUPPORTED, "a host has no 8- or 4-bit formats");
    if (e.op == ROPE && e.width % 2 != 0)
        return job_refuse(job, REFUSED_UNSUPPORTED, "rope turns pairs: width is even");
    const double count = (double)e.rows * (double)e.width;
    if (4.0 * count * (double)sizeof(float) > job->host->available_bytes)
        return job_refuse(job, REFUSED_MEMORY, "%.3g bytes, %.3g free",
                          4.0 * count * (double)sizeof(float), job->host->available_bytes);
    /* About ten operations a number, and an exponential is as much again. */
    if (!job_foresee(job, 20.0 * count, job->host->plain_flop_per_s,
                     3.0 * count * (double)sizeof(float)) ||
        !take(job, &e))
        return false;
    const struct host_work work = {.context = &e,
                                   .run = element_run,
                                   .verify = element_verify,
                                   .result = e.y,
                                   .result_count = e.rows * e.width};
    return job_measure(job, &work);
}
