// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One strip of the vocabulary ring: logits of all rows, folded into maximum, sum and target's logit
 * of each.  The executors' kernels are exec/ring_strip.h itself; others make the logits by their
 * product and fold in FP32.
 */
#include "host.h"

#include "exec/ring_strip.h"

#include <math.h>

enum { SUM_BLOCK = 64 };

struct strip {
    const struct host *host;
    struct ring_meeting meeting;
    struct product product;
    float *logits;
};

static void strip_reset(void *context) {
    const struct ring_meeting *const m = &((struct strip *)context)->meeting;
    for (size_t i = 0; i < m->rows; ++i) {
        m->top[i] = -INFINITY;
        m->sum[i] = 0.0F;
    }
}

static void fold_range(void *context, size_t first, size_t end) {
    const struct strip *const s = context;
    const struct ring_meeting *const m = &s->meeting;
    for (size_t i = first; i < end; ++i) {
        const float *const y = s->logits + i * m->columns;
        float top = y[0];
        double sum = 0.0; /* of blocks in FP32: a vocabulary is too long for one sum */
        for (size_t c = 1; c < m->columns; ++c)
            top = y[c] > top ? y[c] : top;
        for (size_t c = 0; c < m->columns; c += SUM_BLOCK) {
            const size_t stop = m->columns - c < SUM_BLOCK ? m->columns : c + SUM_BLOCK;
            float block = 0.0F;
            for (size_t k = c; k < stop; ++k)
                block += expf(y[k] - top);
            sum += (double)block;
        }
        m->top[i] = top;
        m->sum[i] = (float)sum;
        m->picked[i] = y[m->targets[i]];
    }
}

static void strip_run(void *context) {
    struct strip *const s = context;
    if (s->host->options.kernels == KERNELS_EXECUTOR) {
        ring_strip_fold(&s->meeting, s->logits, s->meeting.rows);
        return;
    }
    product_run(s->host, &s->product);
    host_parallel(s->host, s->meeting.rows, fold_range, s);
}

/* ln(sum) + top of the last row, and its target's logit. */
static bool strip_verify(void *context) {
    const struct ring_meeting *const m = &((struct strip *)context)->meeting;
    const size_t row = m->rows - 1;
    double sum = 0.0, picked = 0.0;
    for (size_t c = 0; c < m->columns; ++c) {
        double logit = 0.0;
        for (size_t h = 0; h < m->hidden; ++h)
            logit += (double)m->x[row * m->hidden + h] * (double)m->w[c * m->hidden + h];
        sum += exp(logit - (double)m->top[row]);
        picked = c == (size_t)m->targets[row] ? logit : picked;
    }
    return fabs(sum / (double)m->sum[row] - 1.0) <= 1e-4 &&
           fabs(picked - (double)m->picked[row]) <= 1e-4 * (1.0 + fabs(picked));
}

bool ring_strip_measure(struct host_job *job) {
    const size_t rows = job_size(job, "rows"), hidden = job_size(job, "width");
    const size_t columns = job_size(job, "vocab");
    const double flop = 2.0 * (double)rows * (double)hidden * (double)columns;
    const bool is_plain = job->host->options.kernels == KERNELS_EXECUTOR;
    const double rate = is_plain ? job->host->plain_flop_per_s : job->host->gemm_flop_per_s;
    if (!job_foresee(job, flop, rate, 4.0 * (double)rows * (double)columns))
        return false;
    float *const x = job_floats(job, rows * hidden, 1), *const w =
                                                            job_floats(job, columns * hidden, 2);
    int32_t *const targets = job_take(job, rows, sizeof *targets);
    struct strip s = {.host = job->host,
                      .meeting = {.rows = rows,
                                  .hidden = hidden,
                                  .columns = columns,
                                  .x = x,
                                  .w = w,
                                  .targets = targets}};
    if (!x || !w || !targets || !(s.meeting.top = job_take(job, rows, sizeof(float))) ||
        !(s.meeting.sum = job_take(job, rows, sizeof(float))) ||
        !(s.meeting.picked = job_take(job, rows, sizeof(float))) ||
        !(s.logits = job_take(job, rows * columns, sizeof(float))))
        return false;
    const size_t mnk[] = {rows, columns, hidden};
    s.product = product_of(PRODUCT_FORWARD, mnk, (const float *const[]){x, w, NULL}, s.logits);
    s.product.b.row = 1; /* the head lies by columns */
    s.product.b.column = hidden;
    for (size_t i = 0; i < rows; ++i)
        targets[i] = (int32_t)(i % columns);
    const struct host_work work = {.context = &s,
                                   .reset = strip_reset,
                                   .run = strip_run,
                                   .verify = strip_verify,
                                   .result = s.meeting.picked,
                                   .result_count = rows};
    return job_measure(job, &work);
}
