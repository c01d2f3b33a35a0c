// SPDX-License-Identifier: GPL-3.0-or-later
/* Plain loops; formulas and the order of sums in the header. */
#include "exec/ring_strip.h"

#include <math.h>

/* Logits of tokens [from, to). */
static void make_strip(const struct ring_meeting *m, size_t from, size_t to, float *strip) {
    for (size_t i = from; i < to; ++i) {
        const float *const x = m->x + i * m->hidden;
        float *const y = strip + (i - from) * m->columns;
        for (size_t c = 0; m->targets[i] >= 0 && c < m->columns; ++c) {
            const float *const w = m->w + c * m->hidden;
            double sum = 0.0;
            for (size_t h = 0; h < m->hidden; ++h)
                sum += (double)x[h] * (double)w[h];
            y[c] = (float)sum;
        }
    }
}

/* The column of the target, or `columns` where another shard has it. */
static size_t target_column(const struct ring_meeting *m, size_t i) {
    const size_t target = (size_t)m->targets[i];
    return target >= m->first && target - m->first < m->columns ? target - m->first : m->columns;
}

static void fold_row(const struct ring_meeting *m, size_t i, const float *y) {
    float top = m->top[i];
    for (size_t c = 0; c < m->columns; ++c)
        top = y[c] > top ? y[c] : top;
    double sum = 0.0;
    if (m->sum[i] > 0.0F) /* else m is still -inf */
        sum = (double)m->sum[i] * exp((double)m->top[i] - (double)top);
    for (size_t c = 0; c < m->columns; ++c)
        sum += exp((double)y[c] - (double)top);
    m->top[i] = top;
    m->sum[i] = (float)sum;
    const size_t target = target_column(m, i);
    if (target < m->columns)
        m->picked[i] = y[target];
}

static void gradient_of_row(const struct ring_meeting *m, size_t i, float *y) {
    const size_t target = target_column(m, i);
    const double top = (double)m->top[i], sum = (double)m->sum[i], g = (double)m->upstream[i];
    for (size_t c = 0; c < m->columns; ++c) {
        const double softmax = exp((double)y[c] - top) / sum;
        y[c] = (float)(g * (softmax - (c == target ? 1.0 : 0.0)));
    }
}

static void add_products(const struct ring_meeting *m, size_t i, const float *g) {
    const float *const x = m->x + i * m->hidden;
    float *const dx = m->dx + i * m->hidden;
    for (size_t c = 0; c < m->columns; ++c) {
        const float *const w = m->w + c * m->hidden;
        float *const dw = m->dw + c * m->hidden;
        for (size_t h = 0; h < m->hidden; ++h) {
            dx[h] += g[c] * w[h];
            dw[h] += g[c] * x[h];
        }
    }
}

void ring_strip_fold(const struct ring_meeting *m, float *strip, size_t strip_rows) {
    if (m->columns == 0) /* more ranks than columns */
        return;
    for (size_t from = 0, to; from < m->rows; from = to) {
        to = m->rows - from > strip_rows ? from + strip_rows : m->rows;
        make_strip(m, from, to, strip);
        for (size_t i = from; i < to; ++i)
            if (m->targets[i] >= 0)
                fold_row(m, i, strip + (i - from) * m->columns);
    }
}

void ring_strip_replay(const struct ring_meeting *m, float *strip, size_t strip_rows) {
    for (size_t from = 0, to; from < m->rows; from = to) {
        to = m->rows - from > strip_rows ? from + strip_rows : m->rows;
        make_strip(m, from, to, strip);
        for (size_t i = from; i < to; ++i) {
            float *const y = strip + (i - from) * m->columns;
            if (m->targets[i] < 0)
                continue;
            gradient_of_row(m, i, y);
            add_products(m, i, y);
        }
    }
}
