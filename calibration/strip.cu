// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Inner loop of the vocabulary ring (Ring-DTP, arXiv 2609.14306): one meeting of a block of tokens
 * and a shard of the head; formulas in src/exec/ring_strip.h, the executor that --check compares
 * with.  One strip of logits lives; it becomes its gradient in place.
 *   forward   Y = X W^T, fold
 *   backward  Y = X W^T anew, G = g (e^(Y-m) / z - onehot), dX += G W, dW += G^T X
 * X, W, Y, G in the precision of the key, state and gradients of X and W in FP32.
 */
#include "gemm.h"
#include "quantity.h"
#include "reduce.h"

extern "C" {
#include "exec/ring_strip.h"
}

#include <math.h>
#include <stdlib.h>

enum { TOKENS, HIDDEN, COLUMNS, PRECISION };

static const struct probe_key keys[] = {
    {"tokens", "tokens of the block", 16384, 37, 1, 1 << 22, NULL},
    {"hidden", "width of the model", 7168, 24, 1, 1 << 17, NULL},
    {"columns", "columns of the shard, V/P", 25000, 53, 1, 1 << 22, NULL},
    {"precision", "of inputs and strip", BF16, FP32, 0, 0, precision_words},
};

/* A row of the strip a block of threads. */
struct rows {
    long first, columns; /* of the vocabulary */
    const int32_t *targets;
    float *top, *sum, *picked;
    const float *upstream;
};

/* The fast exponential is off by some 1e-7 (1 + |y - m|) of a term, and far terms are small. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(BLOCK_THREADS) fold(const struct rows rows, const T *strip) {
    const long i = blockIdx.x;
    const int32_t target = rows.targets[i];
    if (target < 0)
        return;
    const T *const y = strip + i * rows.columns;
    const pack<T, WIDTH> *const packs = (const pack<T, WIDTH> *)y;
    struct exp_sum own = {-INFINITY, 0.0F};
    for (long c = threadIdx.x; c < rows.columns / WIDTH; c += BLOCK_THREADS) {
        const pack<T, WIDTH> values = packs[c];
        float top = own.top;
        for (int j = 0; j < WIDTH; ++j)
            top = fmaxf(top, to_float(values.at[j]));
        float sum = own.sum * __expf(own.top - top);
        for (int j = 0; j < WIDTH; ++j)
            sum += __expf(to_float(values.at[j]) - top);
        own = {top, sum};
    }
    own = merge_block(own);
    if (threadIdx.x != 0)
        return;
    own = merge({rows.top[i], rows.sum[i]}, own);
    rows.top[i] = own.top;
    rows.sum[i] = own.sum;
    if (target >= rows.first && target - rows.first < rows.columns)
        rows.picked[i] = to_float(y[target - rows.first]);
}

template <typename T, int WIDTH>
__global__ void __launch_bounds__(BLOCK_THREADS) strip_gradient(const struct rows rows, T *strip) {
    const long i = blockIdx.x, target = rows.targets[i];
    pack<T, WIDTH> *const packs = (pack<T, WIDTH> *)(strip + i * rows.columns);
    const float g = target < 0 ? 0.0F : rows.upstream[i];
    const float top = rows.top[i], scale = target < 0 ? 0.0F : g / rows.sum[i];
    for (long c = threadIdx.x; c < rows.columns / WIDTH; c += BLOCK_THREADS) {
        pack<T, WIDTH> values = packs[c];
        for (int j = 0; j < WIDTH; ++j) {
            const bool is_target = rows.first + c * WIDTH + j == target;
            const float softmax = target < 0 ? 0.0F : scale * __expf(to_float(values.at[j]) - top);
            from_float(&values.at[j], softmax - (is_target ? g : 0.0F));
        }
        packs[c] = values;
    }
}

/* ---- a meeting ---- */

struct meeting {
    enum precision precision;
    long tokens, hidden, columns;
    struct rows rows;
    void *x, *w, *strip;
    float *dx, *dw;
};

static struct gemm logits_of(const struct meeting *m) {
    return {GEMM_ABT, m->precision, m->tokens, m->columns, m->hidden,
            1,        m->x,         m->w,      m->strip,   false};
}
static struct gemm input_gradient_of(const struct meeting *m) {
    return {GEMM_AB, m->precision, m->tokens, m->hidden, m->columns,
            1,       m->strip,     m->w,      m->dx,     true};
}
static struct gemm weight_gradient_of(const struct meeting *m) {
    return {GEMM_ATB, m->precision, m->columns, m->hidden, m->tokens,
            1,        m->strip,     m->x,       m->dw,     true};
}

template <typename T>
static void launch_rows(struct probe *p, const struct meeting *m, bool is_fold) {
    enum { WIDTH = 16 / sizeof(T) };
    const unsigned blocks = (unsigned)m->tokens;
    T *const strip = (T *)m->strip;
    const bool is_whole = m->columns % WIDTH == 0;
    if (is_fold && is_whole)
        fold<T, WIDTH><<<blocks, BLOCK_THREADS, 0, p->stream>>>(m->rows, strip);
    else if (is_fold)
        fold<T, 1><<<blocks, BLOCK_THREADS, 0, p->stream>>>(m->rows, strip);
    else if (is_whole)
        strip_gradient<T, WIDTH><<<blocks, BLOCK_THREADS, 0, p->stream>>>(m->rows, strip);
    else
        strip_gradient<T, 1><<<blocks, BLOCK_THREADS, 0, p->stream>>>(m->rows, strip);
    LAUNCH_CHECK();
}

static void queue_rows(struct probe *p, const struct meeting *m, bool is_fold) {
    if (m->precision == BF16)
        launch_rows<__nv_bfloat16>(p, m, is_fold);
    else
        launch_rows<float>(p, m, is_fold);
}

static void queue_logits(struct probe *p, void *context) {
    const struct gemm gemm = logits_of((const struct meeting *)context);
    gemm_queue(p, &gemm);
}
static void queue_fold(struct probe *p, void *context) {
    queue_rows(p, (const struct meeting *)context, true);
}
static void queue_gradient(struct probe *p, void *context) {
    queue_rows(p, (const struct meeting *)context, false);
}
static void queue_input_gradient(struct probe *p, void *context) {
    const struct gemm gemm = input_gradient_of((const struct meeting *)context);
    gemm_queue(p, &gemm);
}
static void queue_weight_gradient(struct probe *p, void *context) {
    const struct gemm gemm = weight_gradient_of((const struct meeting *)context);
    gemm_queue(p, &gemm);
}
static void queue_forward(struct probe *p, void *context) {
    queue_logits(p, context);
    queue_fold(p, context);
}
static void queue_backward(struct probe *p, void *context) {
    queue_logits(p, context);
    queue_gradient(p, context);
    queue_input_gradient(p, context);
    queue_weight_gradient(p, context);
}

/* ---- data ---- */

enum { X_SERIES = 1, W_SERIES, TARGET_SERIES };
static const float x_scale = 1.0F;

/* Logits of a variance of 2. */
static float w_scale_of(const struct probe *p) {
    return sqrtf(18.0F / (float)p->values[HIDDEN]);
}

/* Targets over `shards` shards; every 7th token has none where holes are asked for. */
static void make_targets(int32_t *targets, long tokens, long vocabulary, bool has_holes) {
    for (long i = 0; i < tokens; ++i) {
        const double at = 0.5 * (1.0 + (double)random_at(TARGET_SERIES, (uint64_t)i));
        targets[i] = has_holes && i % 7 == 3 ? -1 : (int32_t)(at * (double)vocabulary);
    }
}

static float *filled(size_t count, float value) {
    float *const block = (float *)malloc((count + 1) * sizeof *block);
    if (!block)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    for (size_t i = 0; i < count; ++i)
        block[i] = value;
    return block;
}

static float *device_filled(size_t count, float value) {
    float *const block = filled(count, value);
    float *const to = (float *)device_copy(block, count * sizeof *block);
    free(block);
    return to;
}

/* w, dw and targets span `shards` shards; the meeting is with the first. */
static struct meeting make_meeting(struct probe *p, long shards, const int32_t *targets) {
    struct meeting m = {};
    m.precision = (enum precision)p->values[PRECISION];
    m.tokens = p->values[TOKENS];
    m.hidden = p->values[HIDDEN];
    m.columns = p->values[COLUMNS];
    const size_t tokens = (size_t)m.tokens, x_count = tokens * (size_t)m.hidden;
    const size_t w_count = (size_t)(shards * m.columns) * (size_t)m.hidden;
    const size_t width = precision_bytes(m.precision);
    m.x = device_take(x_count * width);
    m.w = device_take(w_count * width);
    m.strip = device_take(tokens * (size_t)m.columns * width);
    m.dx = (float *)device_take(x_count * sizeof(float));
    m.dw = (float *)device_take(w_count * sizeof(float));
    CUDA_CHECK(cudaMemsetAsync(m.dx, 0, x_count * sizeof(float), p->stream));
    CUDA_CHECK(cudaMemsetAsync(m.dw, 0, w_count * sizeof(float), p->stream));
    device_random(p, m.x, x_count, X_SERIES, x_scale, m.precision);
    device_random(p, m.w, w_count, W_SERIES, w_scale_of(p), m.precision);
    m.rows = {0,
              m.columns,
              (const int32_t *)device_copy(targets, tokens * sizeof *targets),
              device_filled(tokens, -INFINITY),
              device_filled(tokens, 0.0F),
              device_filled(tokens, 0.0F),
              device_filled(tokens, 1.0F / (float)m.tokens)};
    return m;
}

static int32_t *new_targets(const struct probe *p, long shards, bool has_holes) {
    const long tokens = p->values[TOKENS];
    int32_t *const targets = (int32_t *)calloc((size_t)tokens, sizeof *targets);
    if (!targets)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    make_targets(targets, tokens, shards * p->values[COLUMNS], has_holes);
    return targets;
}

static void run(struct probe *p) {
    int32_t *const targets = new_targets(p, 1, false);
    struct meeting m = make_meeting(p, 1, targets);
    const struct gemm logits = logits_of(&m);
    const double flop = gemm_flop(&logits);
    const double strip_bytes =
        (double)m.tokens * (double)m.columns * (double)precision_bytes(m.precision);
    const struct work works[] = {
        {"logits", queue_logits, &m, flop, 0, 0, {}},
        {"fold", queue_fold, &m, 0, strip_bytes, 0, {}},
        {"forward", queue_forward, &m, flop, 0, 0, {}},
        {"gradient", queue_gradient, &m, 0, 2 * strip_bytes, 0, {}},
        {"input_gradient", queue_input_gradient, &m, flop, 0, 0, {}},
        {"weight_gradient", queue_weight_gradient, &m, flop, 0, 0, {}},
        {"backward", queue_backward, &m, 3 * flop, 0, 0, {}},
    };
    for (const struct work &work : works)
        timing_take(p, &work);
    free(targets);
}

/* ---- against the executor ---- */

enum { SHARDS = 2 };

/* The ring over the shards, one after the other: all folds, then all replays. */
static void meet_on_device(struct probe *p, const struct meeting *first) {
    const size_t shard = (size_t)first->columns * (size_t)first->hidden;
    for (int pass = 0; pass < 2; ++pass)
        for (int i = 0; i < SHARDS; ++i) {
            struct meeting m = *first;
            m.rows.first = i * m.columns;
            m.w = (char *)first->w + (size_t)i * shard * precision_bytes(m.precision);
            m.dw = first->dw + (size_t)i * shard;
            pass == 0 ? queue_forward(p, &m) : queue_backward(p, &m);
        }
}

struct reference {
    float *top, *sum, *picked, *dx, *dw;
};

static void meet_on_host(const struct probe *p, const int32_t *targets, struct reference *out) {
    const enum precision precision = (enum precision)p->values[PRECISION];
    const size_t tokens = (size_t)p->values[TOKENS], hidden = (size_t)p->values[HIDDEN];
    const size_t columns = (size_t)p->values[COLUMNS], shard = columns * hidden;
    float *const x = filled(tokens * hidden, 0), *const w = filled(SHARDS * shard, 0);
    float *const upstream = filled(tokens, 1.0F / (float)tokens);
    float *const strip = filled(tokens * columns, 0);
    host_random(x, tokens * hidden, X_SERIES, x_scale, precision);
    host_random(w, SHARDS * shard, W_SERIES, w_scale_of(p), precision);
    *out = {filled(tokens, -INFINITY), filled(tokens, 0), filled(tokens, 0),
            filled(tokens * hidden, 0), filled(SHARDS * shard, 0)};
    for (int pass = 0; pass < 2; ++pass)
        for (size_t i = 0; i < SHARDS; ++i) {
            const struct ring_meeting m = {
                tokens,   hidden,   i * columns, columns,  x,       w + i * shard,      targets,
                out->top, out->sum, out->picked, upstream, out->dx, out->dw + i * shard};
            pass == 0 ? ring_strip_fold(&m, strip, tokens) : ring_strip_replay(&m, strip, tokens);
        }
    free(strip);
    free(upstream);
    free(w);
    free(x);
}

/* m + log z - y over top; 0 without a target. */
static void make_loss(float *top, const float *sum, const float *picked, const int32_t *targets,
                      long tokens) {
    for (long i = 0; i < tokens; ++i)
        top[i] = targets[i] < 0 ? 0 : top[i] + logf(sum[i]) - picked[i];
}

static void check(struct probe *p) {
    const long tokens = p->values[TOKENS];
    const size_t x_count = (size_t)tokens * (size_t)p->values[HIDDEN];
    const size_t w_count = (size_t)(SHARDS * p->values[COLUMNS]) * (size_t)p->values[HIDDEN];
    /* bf16 rounds logits of up to some 6 and their gradients to 8 bits. */
    const double tolerance = p->values[PRECISION] == BF16 ? 1e-2 : 1e-5;
    int32_t *const targets = new_targets(p, SHARDS, true);
    struct reference want;
    meet_on_host(p, targets, &want);
    const struct meeting m = make_meeting(p, SHARDS, targets);
    meet_on_device(p, &m);
    float *const top = device_read(p, m.rows.top, (size_t)tokens, FP32);
    float *const sum = device_read(p, m.rows.sum, (size_t)tokens, FP32);
    float *const picked = device_read(p, m.rows.picked, (size_t)tokens, FP32);
    float *const dx = device_read(p, m.dx, x_count, FP32);
    float *const dw = device_read(p, m.dw, w_count, FP32);
    make_loss(top, sum, picked, targets, tokens);
    make_loss(want.top, want.sum, want.picked, targets, tokens);
    timing_compare(p, "loss", top, want.top, (size_t)tokens, tolerance);
    timing_compare(p, "input_gradient", dx, want.dx, x_count, tolerance);
    timing_compare(p, "weight_gradient", dw, want.dw, w_count, tolerance);
    for (float *block :
         {top, sum, picked, dx, dw, want.top, want.sum, want.picked, want.dx, want.dw})
        free(block);
    free(targets);
}

const struct probe_kind strip_probe = {
    "schedule",
    "strip",
    "strip of logits, log-sum-exp fold, its backward",
    keys,
    sizeof keys / sizeof *keys,
    run,
    check,
};

/* ---- the quantity: a strip of logits and its fold; the backward beside ---- */

static void set_values(struct probe *p, long tokens, long hidden, long columns) {
    p->values[TOKENS] = tokens;
    p->values[HIDDEN] = hidden;
    p->values[COLUMNS] = columns;
    p->values[PRECISION] = BF16;
}

static void measure_strip(struct probe *p, const struct sample *asked, struct measured *out) {
    struct timing backward;
    struct work work = {};
    set_values(p, asked_value(asked, "rows"), asked_value(asked, "width"),
               asked_value(asked, "vocab"));
    int32_t *const targets = (int32_t *)host_take((size_t)p->values[TOKENS] * sizeof *targets);
    make_targets(targets, p->values[TOKENS], p->values[COLUMNS], false);
    struct meeting m = make_meeting(p, 1, targets);
    work.context = &m;
    work.queue = queue_forward;
    timing_measure(p, &work, &out->timing);
    work.queue = queue_backward;
    timing_measure(p, &work, &backward);
    out->how = "cublas and own kernels, bf16";
    measured_add(out, "backward_s", backward.time_s.median);
}

static void check_strip(struct probe *p, const struct sample *) {
    set_values(p, 37, 24, 53);
    check(p);
}

const struct quantity ring_strip_quantity = {SAMPLE_RING_STRIP, false, measure_strip, check_strip};
