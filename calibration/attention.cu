// SPDX-License-Identifier: GPL-3.0-or-later
/* The quantity `attention` and the host's version of it; see attention.h. */
#include "attention.h"
#include "dnn.h"
#include "dnn_attention.h"
#include "quantity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q_SERIES = 1, K_SERIES, V_SERIES, OUT_SERIES };

struct attention_scale attention_scale_of(const struct attention *a) {
    const double scale = 1 / sqrt((double)a->head_dim);
    return {(float)scale, (float)(scale * 1.4426950408889634)};
}

static size_t query_count(const struct attention *a) {
    return (size_t)(a->batch * a->heads * a->sequence) * (size_t)a->head_dim;
}
static size_t key_count(const struct attention *a) {
    return (size_t)(a->batch * a->kv_heads * a->sequence) * (size_t)a->head_dim;
}

static void take_blocks(struct probe *p, struct attention *a, bool is_backward) {
    const size_t queries = query_count(a), keys = key_count(a);
    const size_t rows = (size_t)(a->batch * a->heads * a->sequence);
    a->q = (const __nv_bfloat16 *)device_series(p, queries, Q_SERIES, 1, BF16);
    a->k = (const __nv_bfloat16 *)device_series(p, keys, K_SERIES, 1, BF16);
    a->v = (const __nv_bfloat16 *)device_series(p, keys, V_SERIES, 1, BF16);
    a->out = (__nv_bfloat16 *)device_take(queries * sizeof *a->out);
    a->log_sum = (float *)device_take(rows * sizeof *a->log_sum);
    if (!is_backward)
        return;
    a->d_out = (const __nv_bfloat16 *)device_series(p, queries, OUT_SERIES, 1, BF16);
    a->dq = (__nv_bfloat16 *)device_take(queries * sizeof *a->dq);
    a->dk = (__nv_bfloat16 *)device_take(keys * sizeof *a->dk);
    a->dv = (__nv_bfloat16 *)device_take(keys * sizeof *a->dv);
    a->delta = (float *)device_take(rows * sizeof *a->delta);
    a->dq_sum = (float *)device_take(queries * sizeof *a->dq_sum);
}

static void require(const struct attention *a, const char *dtype) {
    enum { GRID_MOST = 65535 };
    if (strcmp(dtype, "bf16") != 0)
        probe_refuse(REFUSED_UNSUPPORTED, "attention is measured in bf16, not in %s", dtype);
    if (!attention_has(a->head_dim))
        probe_refuse(REFUSED_UNSUPPORTED, "heads of 64 or 128, not of %ld", a->head_dim);
    if (a->heads % a->kv_heads != 0)
        probe_refuse(REFUSED_UNSUPPORTED, "%ld heads do not divide among %ld key heads", a->heads,
                     a->kv_heads);
    if (a->heads > GRID_MOST || a->batch > GRID_MOST)
        probe_refuse(REFUSED_UNSUPPORTED, "%d heads and sequences at most", (int)GRID_MOST);
}

/* Who does it. */
struct kernels {
    const struct attention *a;
    struct dnn_attention *dnn; /* NULL: own */
};

static void run_forward(struct probe *p, const struct kernels *k) {
    if (k->dnn)
        dnn_attention_forward(p, k->dnn);
    else
        attention_forward(p, k->a);
}
static void run_backward(struct probe *p, const struct kernels *k) {
    if (k->dnn)
        dnn_attention_backward(p, k->dnn);
    else
        attention_backward(p, k->a);
}

static void queue_forward(struct probe *p, void *context) {
    run_forward(p, (const struct kernels *)context);
}
static void queue_backward(struct probe *p, void *context) {
    run_backward(p, (const struct kernels *)context);
}

/* Two products forward; five backward, the scores made anew among them. */
static double flop_of(const struct attention *a, bool is_backward) {
    const double pairs = (double)a->sequence * (double)a->sequence * (a->is_causal ? 0.5 : 1.0);
    const double forward = 4.0 * pairs * (double)(a->batch * a->heads * a->head_dim);
    return is_backward ? 2.5 * forward : forward;
}

static bool is_backward_asked(const struct sample *asked) {
    return strcmp(asked_word(asked, "pass"), "backward") == 0;
}

static void name_kernels(const struct kernels *k, const char *why, struct measured *out) {
    char version[DNN_TEXT];
    dnn_version(version);
    if (k->dnn)
        (void)snprintf(out->kernel, sizeof out->kernel, "cudnn %s", version);
    else
        (void)snprintf(out->kernel, sizeof out->kernel, "own");
    (void)snprintf(out->instead, sizeof out->instead, "%s", why);
    out->how =
        k->dnn ? "cuDNN, the first plan of its heuristic" : "own kernel, warp products of sm_80";
}

/* Why cuDNN was not compared with the host in this kind of case; "" once it was. */
static char *doubt_of(const struct attention *a, bool is_backward) {
    static char doubts[2][2][2][PROBE_TEXT];
    return doubts[a->head_dim == 128][a->is_causal][is_backward];
}

/* cuDNN where it is there, does it, and has been compared. */
static struct dnn_attention *make_compared(struct probe *p, const struct attention *a,
                                           bool is_backward, char why[PROBE_TEXT]) {
    (void)snprintf(why, PROBE_TEXT, "%s", doubt_of(a, is_backward));
    return why[0] ? NULL : dnn_attention_make(p, a, is_backward, why);
}

static void time_kernels(struct probe *p, const struct attention *a, bool is_backward,
                         struct measured *out) {
    char why[PROBE_TEXT];
    struct kernels k = {a, make_compared(p, a, is_backward, why)};
    struct work work = {};
    work.queue = is_backward ? queue_backward : queue_forward;
    work.context = &k;
    work.calls = CALLS_FILL;
    try {
        if (is_backward)
            run_forward(p, &k);
        timing_measure(p, &work, &out->timing);
    } catch (...) {
        dnn_attention_free(k.dnn);
        throw;
    }
    name_kernels(&k, why, out);
    dnn_attention_free(k.dnn);
}

static void measure_attention(struct probe *p, const struct sample *asked, struct measured *out) {
    const bool is_backward = is_backward_asked(asked);
    struct attention a = {};
    a.batch = asked_value(asked, "batch");
    a.sequence = asked_value(asked, "sequence");
    a.heads = asked_value(asked, "heads");
    a.kv_heads = asked_value(asked, "kv_heads");
    a.head_dim = asked_value(asked, "head_dim");
    a.is_causal = asked_value(asked, "causal") != 0;
    require(&a, asked_word(asked, "dtype"));
    device_require((double)a.batch * (double)a.heads * (double)a.sequence * (double)a.head_dim);
    take_blocks(p, &a, is_backward);
    time_kernels(p, &a, is_backward, out);
    measured_add(out, "flop_per_s", flop_of(&a, is_backward) / out->timing.time_s.median);
}

/* ---- on the host ---- */

/* Row of weights of a query over its keys; how many it sees. */
static long weigh_keys(const struct attention *a, const float *q, const float *keys, long query,
                       double *weights) {
    const long seen = a->is_causal ? query + 1 : a->sequence;
    const double scale = 1 / sqrt((double)a->head_dim);
    double top = -INFINITY, sum = 0;
    for (long k = 0; k < seen; ++k) {
        double score = 0;
        for (long d = 0; d < a->head_dim; ++d)
            score += (double)q[d] * (double)keys[k * a->head_dim + d];
        weights[k] = score * scale;
        top = fmax(top, weights[k]);
    }
    for (long k = 0; k < seen; ++k) {
        weights[k] = exp(weights[k] - top);
        sum += weights[k];
    }
    for (long k = 0; k < seen; ++k)
        weights[k] /= sum;
    return seen;
}

/* Where the matrices of a query and its head begin. */
struct at {
    size_t query, keys;
};

static void turn_back(const struct attention *a, const struct attention_on_host *h,
                      const struct at *at, const double *weights, long seen) {
    const size_t width = (size_t)a->head_dim;
    const double scale = 1 / sqrt((double)a->head_dim);
    double delta = 0;
    for (size_t d = 0; d < width; ++d)
        delta += (double)h->out[at->query + d] * (double)h->d_out[at->query + d];
    for (long k = 0; k < seen; ++k) {
        const size_t key = at->keys + (size_t)k * width;
        double back = 0;
        for (size_t d = 0; d < width; ++d)
            back += (double)h->d_out[at->query + d] * (double)h->v[key + d];
        const double score = weights[k] * (back - delta) * scale;
        for (size_t d = 0; d < width; ++d) {
            h->dv[key + d] += (float)(weights[k] * (double)h->d_out[at->query + d]);
            h->dk[key + d] += (float)(score * (double)h->q[at->query + d]);
            h->dq[at->query + d] += (float)(score * (double)h->k[key + d]);
        }
    }
}

void attention_reference(const struct attention *a, const struct attention_on_host *h) {
    const size_t width = (size_t)a->head_dim, matrix = (size_t)a->sequence * width;
    double *const weights = (double *)host_take((size_t)a->sequence * sizeof *weights);
    for (long head = 0; head < a->batch * a->heads; ++head)
        for (long query = 0; query < a->sequence; ++query) {
            const long batch = head / a->heads;
            const long kv_head = batch * a->kv_heads + head % a->heads * a->kv_heads / a->heads;
            const struct at at = {(size_t)head * matrix + (size_t)query * width,
                                  (size_t)kv_head * matrix};
            const long seen = weigh_keys(a, h->q + at.query, h->k + at.keys, query, weights);
            for (size_t d = 0; d < width; ++d) {
                double sum = 0;
                for (long k = 0; k < seen; ++k)
                    sum += weights[k] * (double)h->v[at.keys + (size_t)k * width + d];
                h->out[at.query + d] = (float)sum;
            }
            if (h->d_out)
                turn_back(a, h, &at, weights, seen);
        }
}

/* bf16 rounds scores' weights and their gradients to 8 bits. */
static void compare(struct probe *p, const char *what, const __nv_bfloat16 *device,
                    const float *want, size_t count) {
    float *const got = device_read(p, device, count, BF16);
    timing_compare(p, what, got, want, count, 2e-2);
    free(got);
}

/* Both passes where the host has them. */
static void compare_kernels(struct probe *p, const struct kernels *k,
                            const struct attention_on_host *host) {
    const struct attention *const a = k->a;
    const size_t queries = query_count(a), keys = key_count(a);
    run_forward(p, k);
    compare(p, k->dnn ? "cuDNN's output" : "output", a->out, host->out, queries);
    if (!host->d_out)
        return;
    run_backward(p, k);
    compare(p, k->dnn ? "cuDNN's query gradient" : "query gradient", a->dq, host->dq, queries);
    compare(p, k->dnn ? "cuDNN's key gradient" : "key gradient", a->dk, host->dk, keys);
    compare(p, k->dnn ? "cuDNN's value gradient" : "value gradient", a->dv, host->dv, keys);
}

/* So that nothing is compared which the other kernels left. */
static void clear_results(struct probe *p, const struct attention *a, bool is_backward) {
    const size_t queries = query_count(a) * sizeof *a->out, keys = key_count(a) * sizeof *a->dk;
    CUDA_CHECK(cudaMemsetAsync(a->out, 0, queries, p->stream));
    if (!is_backward)
        return;
    CUDA_CHECK(cudaMemsetAsync(a->dq, 0, queries, p->stream));
    CUDA_CHECK(cudaMemsetAsync(a->dk, 0, keys, p->stream));
    CUDA_CHECK(cudaMemsetAsync(a->dv, 0, keys, p->stream));
}

static void check_shape(struct probe *p, struct attention *a, bool is_backward) {
    const size_t queries = query_count(a), keys = key_count(a);
    take_blocks(p, a, is_backward);
    const struct attention_on_host host = {
        host_series(queries, Q_SERIES, 1, BF16),
        host_series(keys, K_SERIES, 1, BF16),
        host_series(keys, V_SERIES, 1, BF16),
        is_backward ? host_series(queries, OUT_SERIES, 1, BF16) : NULL,
        (float *)host_take(queries * sizeof(float)),
        (float *)host_take(queries * sizeof(float)),
        (float *)host_take(keys * sizeof(float)),
        (float *)host_take(keys * sizeof(float)),
    };
    attention_reference(a, &host);
    const struct kernels own = {a, NULL};
    compare_kernels(p, &own, &host);
    char why[PROBE_TEXT];
    const struct kernels theirs = {a, dnn_attention_make(p, a, is_backward, why)};
    (void)snprintf(doubt_of(a, is_backward), PROBE_TEXT, "%s", why);
    if (!theirs.dnn)
        return;
    try {
        clear_results(p, a, is_backward);
        compare_kernels(p, &theirs, &host);
    } catch (const probe_refused &refused) {
        if (device_is_lost(p)) {
            dnn_attention_free(theirs.dnn);
            throw;
        }
        dnn_attention_give_up(refused.text);
        (void)snprintf(doubt_of(a, is_backward), PROBE_TEXT, "%s", refused.text);
    }
    dnn_attention_free(theirs.dnn);
}

static void check_attention(struct probe *p, const struct sample *asked) {
    for (long head_dim = 64; head_dim <= 128; head_dim *= 2) {
        struct attention a = {};
        a.batch = 2;
        a.sequence = 150; /* whole in no tile */
        a.heads = 4;
        a.kv_heads = 2;
        a.head_dim = head_dim;
        a.is_causal = asked_value(asked, "causal") != 0;
        require(&a, asked_word(asked, "dtype"));
        check_shape(p, &a, is_backward_asked(asked));
    }
}

const struct quantity attention_quantity = {SAMPLE_ATTENTION, false, measure_attention,
                                            check_attention};
