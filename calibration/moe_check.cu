// SPDX-License-Identifier: GPL-3.0-or-later
/* The layer on the host: rows of all ranks that this one's results come from; see moe_layer.h. */
#include "moe_layer.h"
#include "timing.h"

#include <math.h>
#include <stdlib.h>

struct reference {
    const struct moe *m;
    float *y, *dx, *gate_gradients, *dw1, *dw2;
    double *interior, *active; /* of a row: gate and up, A before its weight and its gradient */
};

/* A row: its rank, pair and expert, and what it reads. */
struct row {
    long rank, pair, expert;
    const float *x, *dy, *w1, *w2; /* the token's; the expert's matrices */
};

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double dot(const float *a, const float *b, long count, long stride) {
    double sum = 0.0;
    for (long i = 0; i < count; ++i)
        sum += (double)a[i] * (double)b[i * stride];
    return sum;
}

/* Gate and up; the active value without its weight, and the gradient of the active value. */
static void fill_interior(const struct reference *r, const struct row *row) {
    const long hidden = r->m->size.hidden, inner = r->m->size.inner;
    for (long i = 0; i < inner; ++i) {
        const double g = dot(row->x, row->w1 + i * hidden, hidden, 1);
        const double u = dot(row->x, row->w1 + (inner + i) * hidden, hidden, 1);
        r->interior[i] = g;
        r->interior[inner + i] = u;
        r->active[i] = g * sigmoid(g) * u;
        r->active[inner + i] = dot(row->dy, row->w2 + i, hidden, inner);
    }
}

static void add_to_token(const struct reference *r, const struct row *row) {
    const long hidden = r->m->size.hidden, inner = r->m->size.inner;
    const long at = row->pair / r->m->size.top_k * hidden;
    const double weight = (double)moe_gate(row->pair);
    double gradient = 0.0;
    for (long i = 0; i < inner; ++i) {
        const double g = r->interior[i], u = r->interior[inner + i], s = sigmoid(g);
        const double back = r->active[inner + i];
        const double dg = weight * back * u * s * (1.0 + g * (1.0 - s));
        const double du = weight * back * g * s;
        gradient += r->active[i] * back;
        for (long h = 0; h < hidden; ++h) {
            r->y[at + h] += (float)(weight * r->active[i] * (double)row->w2[h * inner + i]);
            r->dx[at + h] += (float)(dg * (double)row->w1[i * hidden + h] +
                                     du * (double)row->w1[(inner + i) * hidden + h]);
        }
    }
    r->gate_gradients[row->pair] = (float)gradient;
}

static void add_to_weights(const struct reference *r, const struct row *row) {
    const long hidden = r->m->size.hidden, inner = r->m->size.inner;
    const long local = row->expert - r->m->size.rank * r->m->local;
    float *const dw1 = r->dw1 + local * 2 * inner * hidden, *const dw2 =
                                                                r->dw2 + local * inner * hidden;
    const double weight = (double)moe_gate(row->pair);
    for (long i = 0; i < inner; ++i) {
        const double g = r->interior[i], u = r->interior[inner + i], s = sigmoid(g);
        const double back = weight * r->active[inner + i];
        const double dg = back * u * s * (1.0 + g * (1.0 - s)), du = back * g * s;
        for (long h = 0; h < hidden; ++h) {
            dw1[i * hidden + h] += (float)(dg * (double)row->x[h]);
            dw1[(inner + i) * hidden + h] += (float)(du * (double)row->x[h]);
            dw2[h * inner + i] += (float)(weight * r->active[i] * (double)row->dy[h]);
        }
    }
}

static const float *host_block(const struct moe *m, enum moe_series series, long rank, long count) {
    return host_series((size_t)count, moe_series_of(series, rank), moe_scale_of(&m->size, series),
                       BF16);
}

/* All rows of a rank that lead to this rank's tokens or experts. */
static void add_rank(const struct reference *r, long rank, const float *const w1[],
                     const float *const w2[]) {
    const struct moe *const m = r->m;
    const long hidden = m->size.hidden, matrix = hidden * m->size.inner;
    const float *const x = host_block(m, MOE_X, rank, m->size.tokens * hidden);
    const float *const dy = host_block(m, MOE_DY, rank, m->size.tokens * hidden);
    for (long i = 0; i < m->rows; ++i) {
        const long expert = moe_expert(&m->size, rank, i), owner = expert / m->local;
        const long token = i / m->size.top_k, local = expert % m->local;
        const struct row row = {rank,
                                i,
                                expert,
                                x + token * hidden,
                                dy + token * hidden,
                                w1[owner] + local * 2 * matrix,
                                w2[owner] + local * matrix};
        if (rank != m->size.rank && owner != m->size.rank)
            continue;
        fill_interior(r, &row);
        if (rank == m->size.rank)
            add_to_token(r, &row);
        if (owner == m->size.rank)
            add_to_weights(r, &row);
    }
}

static float *host_floats(long count) {
    return (float *)host_take((size_t)count * sizeof(float));
}

static struct reference make_reference(const struct moe *m) {
    const long wide = m->size.tokens * m->size.hidden, inner = m->size.inner;
    const long matrix = m->local * m->size.hidden * inner;
    const struct reference r = {m,
                                host_floats(wide),
                                host_floats(wide),
                                host_floats(m->rows),
                                host_floats(2 * matrix),
                                host_floats(matrix),
                                (double *)host_take((size_t)(2 * inner) * sizeof(double)),
                                (double *)host_take((size_t)(2 * inner) * sizeof(double))};
    const size_t list = (size_t)m->size.ranks * sizeof(const float *);
    const float **const w1 = (const float **)host_take(list);
    const float **const w2 = (const float **)host_take(list);
    for (long rank = 0; rank < m->size.ranks; ++rank) {
        w1[rank] = host_block(m, MOE_W1, rank, 2 * matrix);
        w2[rank] = host_block(m, MOE_W2, rank, matrix);
    }
    for (long rank = 0; rank < m->size.ranks; ++rank)
        add_rank(&r, rank, w1, w2);
    return r;
}

/* bf16 rounds rows, interior and what becomes of them to 8 bits, several times in a row. */
static void compare(struct probe *p, const char *what, const void *device, const float *want,
                    long count, enum precision precision) {
    float *const got = device_read(p, device, (size_t)count, precision);
    timing_compare(p, what, got, want, (size_t)count, 1e-2);
    free(got);
}

void moe_compare(struct probe *p, const struct moe *m) {
    const long wide = m->size.tokens * m->size.hidden;
    const long matrix = m->local * m->size.hidden * m->size.inner;
    const struct reference want = make_reference(m);
    moe_forward(p, m);
    compare(p, "output", m->y, want.y, wide, BF16);
    moe_backward(p, m);
    compare(p, "input gradient", m->dx, want.dx, wide, BF16);
    compare(p, "gate gradient", m->gate_gradients, want.gate_gradients, m->rows, FP32);
    compare(p, "up gradient", m->dw1, want.dw1, 2 * matrix, FP32);
    compare(p, "down gradient", m->dw2, want.dw2, matrix, FP32);
}
