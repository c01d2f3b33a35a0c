// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The attention core in plain loops of this program (no library has one for processors): online
 * softmax over blocks of keys forward, o = softmax(q k^T / sqrt(d)) v; backward makes the scores
 * anew from the log-sum-exp,
 *   ds = p (do v^T - do . o),  dq = ds k / sqrt(d),  dk = ds^T q / sqrt(d),  dv = p^T do.
 * Layout [batch][head][token][head_dim]; query heads share key heads in order.
 */
#include "host.h"

#include <math.h>
#include <string.h>

enum { HEAD_DIM_MOST = 512, BLOCK = 32 };

struct attention {
    const struct host *host;
    size_t batch, tokens, heads, kv_heads, dim;
    bool is_causal;
    float scale;
    float *q, *k, *v, *o, *log_sum;
    float *dout, *dq, *dk, *dv;
};

static const float *keys_of(const struct attention *a, const float *from, size_t head) {
    const size_t b = head / a->heads, h = head % a->heads * a->kv_heads / a->heads;
    return from + (b * a->kv_heads + h) * a->tokens * a->dim;
}

static float dot(const float *x, const float *y, size_t count) {
    float sums[8] = {0.0F};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t j = 0; j < 8; ++j)
            sums[j] += x[i + j] * y[i + j];
    for (; i < count; ++i)
        sums[0] += x[i] * y[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

static void add_scaled(float *restrict to, float factor, const float *restrict from, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t j = 0; j < 8; ++j)
            to[i + j] += factor * from[i + j];
    for (; i < count; ++i)
        to[i] += factor * from[i];
}

static size_t keys_seen(const struct attention *a, size_t token) {
    return a->is_causal ? token + 1 : a->tokens;
}

static void forward_row(const struct attention *a, size_t row) {
    const size_t head = row / a->tokens, seen = keys_seen(a, row % a->tokens);
    const float *const q = a->q + row * a->dim;
    const float *const k = keys_of(a, a->k, head), *const v = keys_of(a, a->v, head);
    float *const o = a->o + row * a->dim;
    float most = -INFINITY, sum = 0.0F, scores[BLOCK];
    memset(o, 0, a->dim * sizeof *o);
    for (size_t at = 0; at < seen; at += BLOCK) {
        const size_t count = seen - at < BLOCK ? seen - at : BLOCK;
        float block_most = most;
        for (size_t j = 0; j < count; ++j) {
            scores[j] = a->scale * dot(q, k + (at + j) * a->dim, a->dim);
            block_most = fmaxf(block_most, scores[j]);
        }
        const float shrink = expf(most - block_most);
        sum *= shrink;
        for (size_t d = 0; d < a->dim; ++d)
            o[d] *= shrink;
        for (size_t j = 0; j < count; ++j) {
            const float weight = expf(scores[j] - block_most);
            sum += weight;
            add_scaled(o, weight, v + (at + j) * a->dim, a->dim);
        }
        most = block_most;
    }
    for (size_t d = 0; d < a->dim; ++d)
        o[d] /= sum;
    a->log_sum[row] = most + logf(sum);
}

static void forward_range(void *context, size_t first, size_t end) {
    for (size_t row = first; row < end; ++row)
        forward_row(context, row);
}

static void forward(void *context) {
    struct attention *const a = context;
    host_parallel(a->host, a->batch * a->heads * a->tokens, forward_range, a);
}

static void backward_row(const struct attention *a, size_t row, float *dk, float *dv) {
    const size_t head = row / a->tokens, seen = keys_seen(a, row % a->tokens), dim = a->dim;
    const float *const q = a->q + row * dim, *const dout = a->dout + row * dim;
    const float *const k = keys_of(a, a->k, head), *const v = keys_of(a, a->v, head);
    const float delta = dot(dout, a->o + row * dim, dim);
    float *const dq = a->dq + row * dim;
    memset(dq, 0, dim * sizeof *dq);
    for (size_t j = 0; j < seen; ++j) {
        const float p = expf(a->scale * dot(q, k + j * dim, dim) - a->log_sum[row]);
        const float ds = a->scale * p * (dot(dout, v + j * dim, dim) - delta);
        add_scaled(dv + j * dim, p, dout, dim);
        add_scaled(dq, ds, k + j * dim, dim);
        add_scaled(dk + j * dim, ds, q, dim);
    }
}

/* A range owns its key heads, and with them their gradients. */
static void backward_range(void *context, size_t first, size_t end) {
    const struct attention *const a = context;
    const size_t block = a->tokens * a->dim, group = a->heads / a->kv_heads * a->tokens;
    for (size_t h = first; h < end; ++h) {
        float *const dk = a->dk + h * block, *const dv = a->dv + h * block;
        memset(dk, 0, block * sizeof *dk);
        memset(dv, 0, block * sizeof *dv);
        for (size_t row = h * group; row < (h + 1) * group; ++row)
            backward_row(a, row, dk, dv);
    }
}

static void backward(void *context) {
    struct attention *const a = context;
    host_parallel(a->host, a->batch * a->kv_heads, backward_range, a);
}

/* ---- the last query of the last head, in double ---- */

static double score(const struct attention *a, size_t row, size_t key) {
    const float *const q = a->q + row * a->dim;
    const float *const k = keys_of(a, a->k, row / a->tokens) + key * a->dim;
    double sum = 0.0;
    for (size_t d = 0; d < a->dim; ++d)
        sum += (double)q[d] * (double)k[d];
    return sum * (double)a->scale;
}

/* Log-sum-exp of the row; scores are small whole numbers over sqrt(d), so no maximum is needed. */
static double log_sum(const struct attention *a, size_t row) {
    double sum = 0.0;
    for (size_t j = 0; j < keys_seen(a, row % a->tokens); ++j)
        sum += exp(score(a, row, j));
    return log(sum);
}

static bool is_near(double got, double want) {
    return fabs(got - want) <= 1e-3 * (1.0 + fabs(want));
}

static bool forward_verify(void *context) {
    const struct attention *const a = context;
    const size_t row = a->batch * a->heads * a->tokens - 1, d = 7919 % a->dim;
    const float *const v = keys_of(a, a->v, row / a->tokens);
    const double whole = log_sum(a, row);
    double o = 0.0;
    for (size_t j = 0; j < keys_seen(a, row % a->tokens); ++j)
        o += exp(score(a, row, j) - whole) * (double)v[j * a->dim + d];
    return is_near((double)a->o[row * a->dim + d], o);
}

static bool backward_verify(void *context) {
    const struct attention *const a = context;
    const size_t row = a->batch * a->heads * a->tokens - 1, d = 7919 % a->dim;
    const float *const v = keys_of(a, a->v, row / a->tokens);
    const float *const k = keys_of(a, a->k, row / a->tokens);
    const double whole = log_sum(a, row);
    double delta = 0.0, dq = 0.0;
    for (size_t c = 0; c < a->dim; ++c)
        delta += (double)a->dout[row * a->dim + c] * (double)a->o[row * a->dim + c];
    for (size_t j = 0; j < keys_seen(a, row % a->tokens); ++j) {
        double dp = 0.0;
        for (size_t c = 0; c < a->dim; ++c)
            dp += (double)a->dout[row * a->dim + c] * (double)v[j * a->dim + c];
        dq += exp(score(a, row, j) - whole) * (dp - delta) * (double)k[j * a->dim + d];
    }
    return is_near((double)a->dq[row * a->dim + d], dq * (double)a->scale);
}

static bool take(struct host_job *job, struct attention *a, bool is_backward) {
    const size_t queries = a->batch * a->heads * a->tokens * a->dim;
    const size_t keys = a->batch * a->kv_heads * a->tokens * a->dim;
    if (!(a->q = job_floats(job, queries, 1)) || !(a->k = job_floats(job, keys, 2)) ||
        !(a->v = job_floats(job, keys, 3)) || !(a->o = job_take(job, queries, sizeof(float))) ||
        !(a->log_sum = job_take(job, queries / a->dim, sizeof(float))))
        return false;
    if (!is_backward)
        return true;
    return (a->dout = job_floats(job, queries, 4)) &&
           (a->dq = job_take(job, queries, sizeof(float))) &&
           (a->dk = job_take(job, keys, sizeof(float))) &&
           (a->dv = job_take(job, keys, sizeof(float)));
}

bool attention_measure(struct host_job *job) {
    struct attention a = {.host = job->host,
                          .batch = job_size(job, "batch"),
                          .tokens = job_size(job, "sequence"),
                          .heads = job_size(job, "heads"),
                          .kv_heads = job_size(job, "kv_heads"),
                          .dim = job_size(job, "head_dim"),
                          .is_causal = job_size(job, "causal") == 1};
    const bool is_backward = job_is(job, "pass", "backward");
    job->how = "online softmax in this program's loops";
    if (a.heads % a.kv_heads != 0 || a.dim > HEAD_DIM_MOST)
        return job_refuse(job, REFUSED_UNSUPPORTED, "kv_heads divides heads, head_dim is up to %d",
                          (int)HEAD_DIM_MOST);
    const double queries = (double)a.batch * (double)a.heads * (double)a.tokens;
    const double pairs = queries * (double)a.tokens * (a.is_causal ? 0.5 : 1.0);
    if (!job_foresee(job, (is_backward ? 10.0 : 4.0) * pairs * (double)a.dim,
                     job->host->plain_flop_per_s, 0.0) ||
        !take(job, &a, is_backward))
        return false;
    a.scale = 1.0F / sqrtf((float)a.dim) / 4.0F;
    const struct host_work work = {.context = &a,
                                   .run = is_backward ? backward : forward,
                                   .verify = is_backward ? backward_verify : forward_verify,
                                   .result = is_backward ? a.dq : a.o,
                                   .result_count = a.batch * a.heads * a.tokens * a.dim};
    if (is_backward)
        forward(&a);
    return job_measure(job, &work);
}
