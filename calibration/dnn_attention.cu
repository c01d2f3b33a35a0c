// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The graphs; names as in attention.h.  A head of keys serves several of queries by broadcast.
 *   forward   S = scale Q K^T, masked; m = max S, z = sum e^(S-m), O = e^(S-m) / z V, log sum =
 *             m + log z
 *   backward  delta = sum O dO; P = e^(S - log sum), dV = P^T dO, dP = dO V^T,
 *             dS = scale P (dP - delta), dK = dS^T Q, dQ = dS K; dK and dV of all query heads, then
 *             summed by key head; dQ gathered in FP32
 */
#include "dnn_attention.h"

#include "dnn.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#ifdef PROBE_CUDNN

struct dnn_attention {
    struct dnn_graph forward, backward;
    float scale, hidden, one; /* numbers of the graphs; they read them when run */
    void *gathered;           /* FP32, zeroed before a run where the library leaves it to us */
    size_t gathered_bytes;
    bool is_zeroed_here;
};

/* Older ones split the backward otherwise; the sums of dQ are zeroed by the library only from the
 * second on. */
static const size_t least_version = 90000, zeroing_version = 90600;

typedef struct dnn_tensor tensor;

struct builder {
    struct dnn_graph *graph;
    const struct attention *a;
};

/* [batch][heads][rows][columns], or the same memory with the last two exchanged. */
static struct dnn_shape rows_of(const struct attention *a, long heads, long rows, long columns) {
    return {{a->batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}
static struct dnn_shape turned(const struct dnn_shape *s) {
    return {{s->sizes[0], s->sizes[1], s->sizes[3], s->sizes[2]},
            {s->strides[0], s->strides[1], s->strides[3], s->strides[2]}};
}

static tensor block(const struct builder *b, const struct dnn_shape *shape, cudnnDataType_t type,
                    const void *at) {
    return dnn_tensor_of(b->graph, shape, type, DNN_ON_DEVICE, const_cast<void *>(at));
}
static tensor number(const struct builder *b, float *value) {
    static const struct dnn_shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return dnn_tensor_of(b->graph, &one, CUDNN_DATA_FLOAT, DNN_VALUE, value);
}
static tensor within(const struct builder *b, const struct dnn_shape *shape, cudnnDataType_t type) {
    return dnn_tensor_of(b->graph, shape, type, DNN_WITHIN, NULL);
}

/* y of x's shape, within. */
static tensor apply(const struct builder *b, cudnnPointwiseMode_t mode, const tensor *x,
                    const tensor *other) {
    const tensor y = within(b, &x->shape, CUDNN_DATA_FLOAT);
    const struct dnn_step step = {mode, CUDNN_DATA_FLOAT, x, other, NULL, &y, 0};
    dnn_pointwise(b->graph, &step);
    return y;
}

static tensor index_along(const struct builder *b, const tensor *scores, int64_t axis) {
    const tensor y = within(b, &scores->shape, CUDNN_DATA_INT32);
    const struct dnn_step step = {
        CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, scores, NULL, NULL, &y, axis};
    dnn_pointwise(b->graph, &step);
    return y;
}

/* Keys later than the query give way to a number whose exponential is zero. */
static tensor mask(const struct builder *b, const tensor *scores, float *hidden) {
    enum { QUERIES = 2, KEYS = 3 };
    const tensor query = index_along(b, scores, QUERIES), key = index_along(b, scores, KEYS);
    const tensor is_seen = within(b, &scores->shape, CUDNN_DATA_BOOLEAN);
    const struct dnn_step compare = {
        CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, &query, &key, NULL, &is_seen, 0};
    dnn_pointwise(b->graph, &compare);
    const tensor out = number(b, hidden), y = within(b, &scores->shape, CUDNN_DATA_FLOAT);
    const struct dnn_step select = {
        CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, scores, &out, &is_seen, &y, 0};
    dnn_pointwise(b->graph, &select);
    return y;
}

static tensor product(const struct builder *b, const tensor *x, const tensor *y,
                      const struct dnn_shape *shape, cudnnDataType_t type) {
    const tensor out = within(b, shape, type);
    dnn_multiply(b->graph, x, y, &out);
    return out;
}

static tensor reduced(const struct builder *b, cudnnReduceTensorOp_t mode, const tensor *x,
                      const struct dnn_shape *shape) {
    const tensor y = within(b, shape, CUDNN_DATA_FLOAT);
    dnn_reduce(b->graph, mode, x, &y);
    return y;
}

struct shapes {
    struct dnn_shape queries, keys, keys_turned, scores, rows;
};
static struct shapes shapes_of(const struct attention *a) {
    struct shapes s;
    s.queries = rows_of(a, a->heads, a->sequence, a->head_dim);
    s.keys = rows_of(a, a->kv_heads, a->sequence, a->head_dim);
    s.keys_turned = turned(&s.keys);
    s.scores = rows_of(a, a->heads, a->sequence, a->sequence);
    s.rows = rows_of(a, a->heads, a->sequence, 1);
    return s;
}

/* ---- forward ---- */

static void make_forward(struct dnn_attention *d, const struct attention *a) {
    const struct builder made = {&d->forward, a}, *const b = &made;
    const struct shapes s = shapes_of(a);
    const tensor q = block(b, &s.queries, CUDNN_DATA_BFLOAT16, a->q);
    const tensor k = block(b, &s.keys_turned, CUDNN_DATA_BFLOAT16, a->k);
    const tensor v = block(b, &s.keys, CUDNN_DATA_BFLOAT16, a->v);
    const tensor out = block(b, &s.queries, CUDNN_DATA_BFLOAT16, a->out);
    const tensor log_sum = block(b, &s.rows, CUDNN_DATA_FLOAT, a->log_sum);
    const tensor scale = number(b, &d->scale);
    const tensor raw = product(b, &q, &k, &s.scores, CUDNN_DATA_FLOAT);
    const tensor scaled = apply(b, CUDNN_POINTWISE_MUL, &raw, &scale);
    const tensor scores = a->is_causal ? mask(b, &scaled, &d->hidden) : scaled;
    const tensor top = reduced(b, CUDNN_REDUCE_TENSOR_MAX, &scores, &s.rows);
    const tensor below = apply(b, CUDNN_POINTWISE_SUB, &scores, &top);
    const tensor powers = apply(b, CUDNN_POINTWISE_EXP, &below, NULL);
    const tensor sum = reduced(b, CUDNN_REDUCE_TENSOR_ADD, &powers, &s.rows);
    const tensor logarithm = apply(b, CUDNN_POINTWISE_LOG, &sum, NULL);
    const struct dnn_step add = {
        CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &top, &logarithm, NULL, &log_sum, 0};
    dnn_pointwise(b->graph, &add);
    const tensor weights = within(b, &s.scores, CUDNN_DATA_BFLOAT16);
    const struct dnn_step divide = {
        CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, &powers, &sum, NULL, &weights, 0};
    dnn_pointwise(b->graph, &divide);
    dnn_multiply(b->graph, &weights, &v, &out);
}

/* ---- backward ---- */

static tensor make_delta(const struct builder *b, const struct shapes *s, const tensor *out,
                         const tensor *d_out, float *one) {
    const tensor products = within(b, &s->queries, CUDNN_DATA_FLOAT);
    const struct dnn_step multiply = {
        CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, d_out, out, NULL, &products, 0};
    dnn_pointwise(b->graph, &multiply);
    const tensor sum = reduced(b, CUDNN_REDUCE_TENSOR_ADD, &products, &s->rows);
    const tensor unit = number(b, one);
    const tensor delta = block(b, &s->rows, CUDNN_DATA_FLOAT, b->a->delta);
    /* The engines know the chain with a factor, that of dropout. */
    const struct dnn_step scale = {
        CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, &sum, &unit, NULL, &delta, 0};
    dnn_pointwise(b->graph, &scale);
    return delta;
}

/* to = X^T Y, of the query heads or summed over those of a key head. */
static void multiply_turned(const struct builder *b, const struct shapes *s, const tensor *x,
                            const tensor *y, const tensor *to) {
    const struct dnn_shape shape = turned(&s->scores);
    const tensor x_turned = within(b, &shape, CUDNN_DATA_BFLOAT16);
    dnn_reshape(b->graph, x, &x_turned);
    if (b->a->heads == b->a->kv_heads) {
        dnn_multiply(b->graph, &x_turned, y, to);
        return;
    }
    const tensor all = product(b, &x_turned, y, &s->queries, CUDNN_DATA_BFLOAT16);
    dnn_reduce(b->graph, CUDNN_REDUCE_TENSOR_ADD, &all, to);
}

static void make_query_gradient(const struct builder *b, const struct shapes *s, const tensor *ds,
                                const tensor *k, void *gathered) {
    const tensor rows = within(b, &s->keys, CUDNN_DATA_BFLOAT16);
    dnn_reshape(b->graph, k, &rows);
    const tensor sum = block(b, &s->queries, CUDNN_DATA_FLOAT, gathered);
    const tensor dq = block(b, &s->queries, CUDNN_DATA_BFLOAT16, b->a->dq);
    dnn_multiply(b->graph, ds, &rows, &sum);
    const struct dnn_step narrow = {
        CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, &sum, NULL, NULL, &dq, 0};
    dnn_pointwise(b->graph, &narrow);
}

static void make_backward(struct dnn_attention *d, const struct attention *a) {
    const struct builder made = {&d->backward, a}, *const b = &made;
    const struct shapes s = shapes_of(a);
    const tensor q = block(b, &s.queries, CUDNN_DATA_BFLOAT16, a->q);
    const tensor k = block(b, &s.keys_turned, CUDNN_DATA_BFLOAT16, a->k);
    const tensor v = block(b, &s.keys_turned, CUDNN_DATA_BFLOAT16, a->v);
    const tensor out = block(b, &s.queries, CUDNN_DATA_BFLOAT16, a->out);
    const tensor d_out = block(b, &s.queries, CUDNN_DATA_BFLOAT16, a->d_out);
    const tensor log_sum = block(b, &s.rows, CUDNN_DATA_FLOAT, a->log_sum);
    const tensor dk = block(b, &s.keys, CUDNN_DATA_BFLOAT16, a->dk);
    const tensor dv = block(b, &s.keys, CUDNN_DATA_BFLOAT16, a->dv);
    const tensor scale = number(b, &d->scale);
    const tensor delta = make_delta(b, &s, &out, &d_out, &d->one);
    const tensor raw = product(b, &q, &k, &s.scores, CUDNN_DATA_FLOAT);
    const tensor scaled = apply(b, CUDNN_POINTWISE_MUL, &raw, &scale);
    const tensor below = apply(b, CUDNN_POINTWISE_SUB, &scaled, &log_sum);
    const tensor seen = a->is_causal ? mask(b, &below, &d->hidden) : below;
    const tensor p = apply(b, CUDNN_POINTWISE_EXP, &seen, NULL);
    multiply_turned(b, &s, &p, &d_out, &dv);
    const tensor dp = product(b, &d_out, &v, &s.scores, CUDNN_DATA_FLOAT);
    const tensor less = apply(b, CUDNN_POINTWISE_SUB, &dp, &delta);
    const tensor of_weights = apply(b, CUDNN_POINTWISE_MUL, &less, &p);
    const tensor ds = apply(b, CUDNN_POINTWISE_MUL, &of_weights, &scale);
    multiply_turned(b, &s, &ds, &q, &dk);
    make_query_gradient(b, &s, &ds, &k, d->gathered);
}

/* ---- both ---- */

static struct dnn_attention *make(struct probe *p, const struct attention *a, bool is_backward) {
    struct dnn_attention *const d = (struct dnn_attention *)host_take(sizeof *d);
    d->scale = attention_scale_of(a).of_scores;
    d->hidden = -FLT_MAX;
    d->one = 1.0F;
    try {
        make_forward(d, a);
        dnn_plan(p, &d->forward);
        if (is_backward) {
            d->gathered = a->dq_sum;
            d->gathered_bytes =
                (size_t)(a->batch * a->heads * a->sequence * a->head_dim) * sizeof(float);
            d->is_zeroed_here = !dnn_is_from(zeroing_version);
            make_backward(d, a);
            dnn_plan(p, &d->backward);
        }
    } catch (...) {
        dnn_attention_free(d);
        throw;
    }
    return d;
}

bool dnn_attention_is_there(void) {
    return dnn_is_from(least_version);
}

void dnn_attention_give_up(const char *why) {
    dnn_give_up(why);
}

struct dnn_attention *dnn_attention_make(struct probe *p, const struct attention *a,
                                         bool is_backward, char why[PROBE_TEXT]) {
    const size_t mark = device_mark();
    why[0] = '\0';
    try {
        dnn_require(least_version);
        return make(p, a, is_backward);
    } catch (const probe_refused &refused) {
        (void)snprintf(why, PROBE_TEXT, "%s", refused.text);
        (void)cudaGetLastError();
        device_release(mark);
        return NULL;
    }
}

void dnn_attention_forward(struct probe *p, const struct dnn_attention *d) {
    dnn_run(p, &d->forward);
}

void dnn_attention_backward(struct probe *p, const struct dnn_attention *d) {
    if (d->is_zeroed_here)
        CUDA_CHECK(cudaMemsetAsync(d->gathered, 0, d->gathered_bytes, p->stream));
    dnn_run(p, &d->backward);
}

void dnn_attention_free(struct dnn_attention *d) {
    if (!d)
        return;
    dnn_free(&d->forward);
    dnn_free(&d->backward);
}

#else

bool dnn_attention_is_there(void) {
    return false;
}
void dnn_attention_give_up(const char *) {
}
struct dnn_attention *dnn_attention_make(struct probe *, const struct attention *, bool,
                                         char why[PROBE_TEXT]) {
    (void)snprintf(why, PROBE_TEXT, "built without cuDNN's headers");
    return NULL;
}
void dnn_attention_forward(struct probe *, const struct dnn_attention *) {
}
void dnn_attention_backward(struct probe *, const struct dnn_attention *) {
}
void dnn_attention_free(struct dnn_attention *) {
}

#endif
