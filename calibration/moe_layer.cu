// SPDX-License-Identifier: GPL-3.0-or-later
/* Places, movements and products of the layer; see the header. */
#include "moe_layer.h"

#include "experts.h"
#include "gemm.h"
#include "group.h"

#include <math.h>

typedef __nv_bfloat16 bf16;

/* ---- movements ---- */

/* to[to_place[i]] = from[from_place[i]], a row a block of threads; NULL: i itself. */
template <int WIDTH>
__global__ void __launch_bounds__(BLOCK_THREADS)
    move_rows(bf16 *to, const int *to_place, const bf16 *from, const int *from_place, long width) {
    const long i = blockIdx.x;
    const long a = to_place ? to_place[i] : i, b = from_place ? from_place[i] : i;
    pack<bf16, WIDTH> *const out = (pack<bf16, WIDTH> *)(to + a * width);
    const pack<bf16, WIDTH> *const in = (const pack<bf16, WIDTH> *)(from + b * width);
    for (long j = threadIdx.x; j < width / WIDTH; j += BLOCK_THREADS)
        out[j] = in[j];
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    move_floats(float *to, const int *to_place, const float *from, const int *from_place,
                long count) {
    const long i = (long)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i < count)
        to[to_place ? to_place[i] : i] = from[from_place ? from_place[i] : i];
}

/* A token sums its rows, in the order of its slots. */
template <int WIDTH>
__global__ void __launch_bounds__(BLOCK_THREADS)
    sum_rows(bf16 *to, const bf16 *from, const int *place, long top_k, long width) {
    const long token = blockIdx.x;
    for (long j = threadIdx.x; j < width / WIDTH; j += BLOCK_THREADS) {
        float sum[WIDTH] = {};
        pack<bf16, WIDTH> out;
        for (long k = 0; k < top_k; ++k) {
            const bf16 *const row = from + (long)place[token * top_k + k] * width;
            const pack<bf16, WIDTH> values = ((const pack<bf16, WIDTH> *)row)[j];
            for (int l = 0; l < WIDTH; ++l)
                sum[l] += to_float(values.at[l]);
        }
        for (int l = 0; l < WIDTH; ++l)
            from_float(&out.at[l], sum[l]);
        ((pack<bf16, WIDTH> *)(to + token * width))[j] = out;
    }
}

enum { WIDE = 8 };

static void queue_rows(struct probe *p, const struct moe *m, long rows, bf16 *to,
                       const int *to_place, const bf16 *from, const int *from_place) {
    const long width = m->size.hidden;
    if (rows == 0)
        return;
    if (width % WIDE == 0)
        move_rows<WIDE><<<(unsigned)rows, BLOCK_THREADS, 0, p->stream>>>(to, to_place, from,
                                                                         from_place, width);
    else
        move_rows<1><<<(unsigned)rows, BLOCK_THREADS, 0, p->stream>>>(to, to_place, from,
                                                                      from_place, width);
    LAUNCH_CHECK();
}

static void queue_floats(struct probe *p, long count, float *to, const int *to_place,
                         const float *from, const int *from_place) {
    const unsigned blocks = (unsigned)((count + BLOCK_THREADS - 1) / BLOCK_THREADS);
    if (count == 0)
        return;
    move_floats<<<blocks, BLOCK_THREADS, 0, p->stream>>>(to, to_place, from, from_place, count);
    LAUNCH_CHECK();
}

static void queue_sums(struct probe *p, const struct moe *m, bf16 *to, const bf16 *from) {
    const long width = m->size.hidden, top_k = m->size.top_k;
    const unsigned tokens = (unsigned)m->size.tokens;
    if (width % WIDE == 0)
        sum_rows<WIDE>
            <<<tokens, BLOCK_THREADS, 0, p->stream>>>(to, from, m->returned, top_k, width);
    else
        sum_rows<1><<<tokens, BLOCK_THREADS, 0, p->stream>>>(to, from, m->returned, top_k, width);
    LAUNCH_CHECK();
}

/* ---- between ranks ---- */

#ifdef PROBE_NCCL
/* Rows, and floats where there are some, to or from the experts' ranks. */
static void exchange(struct probe *p, const struct moe *m, bool is_back, bool has_floats) {
    const long *const leave = is_back ? m->landed_begin : m->sent_begin;
    const long *const land = is_back ? m->sent_begin : m->landed_begin;
    const bf16 *const from = is_back ? m->came : m->sent;
    bf16 *const to = is_back ? m->sent : m->came;
    const float *const from_float = is_back ? m->came_weight : m->sent_weight;
    float *const to_float = is_back ? m->sent_weight : m->came_weight;
    const size_t width = (size_t)m->size.hidden;
    const ncclComm_t comm = p->group->comm;
    NCCL_CHECK(ncclGroupStart());
    for (int r = 0; r < (int)m->size.ranks; ++r) {
        const size_t out = (size_t)leave[r], sends = (size_t)leave[r + 1] - out;
        const size_t in = (size_t)land[r], takes = (size_t)land[r + 1] - in;
        if (sends > 0)
            NCCL_CHECK(
                ncclSend(from + out * width, sends * width, ncclBfloat16, r, comm, p->stream));
        if (takes > 0)
            NCCL_CHECK(ncclRecv(to + in * width, takes * width, ncclBfloat16, r, comm, p->stream));
        if (has_floats && sends > 0)
            NCCL_CHECK(ncclSend(from_float + out, sends, ncclFloat, r, comm, p->stream));
        if (has_floats && takes > 0)
            NCCL_CHECK(ncclRecv(to_float + in, takes, ncclFloat, r, comm, p->stream));
    }
    NCCL_CHECK(ncclGroupEnd());
}
#else
static void exchange(struct probe *, const struct moe *, bool, bool) {
}
#endif

/* Rows of tokens to the experts; with their gates or without. */
static void dispatch(struct probe *p, const struct moe *m, const bf16 *from, bf16 *to,
                     bool has_gates) {
    if (m->size.ranks == 1) {
        queue_rows(p, m, m->rows, to, m->place, from, m->token);
        if (has_gates)
            queue_floats(p, m->rows, m->weight, m->place, m->gates, m->pair);
        return;
    }
    queue_rows(p, m, m->rows, m->sent, NULL, from, m->token);
    if (has_gates)
        queue_floats(p, m->rows, m->sent_weight, NULL, m->gates, m->pair);
    exchange(p, m, false, has_gates);
    queue_rows(p, m, m->landed, to, m->place, m->came, NULL);
    if (has_gates)
        queue_floats(p, m->landed, m->weight, m->place, m->came_weight, NULL);
}

/* The experts' rows back to their tokens; with the gradients of the gates or without. */
static void combine(struct probe *p, const struct moe *m, bf16 *to, bool has_gradients) {
    const float *gradients = m->weight_gradient;
    const bf16 *rows = m->out;
    if (m->size.ranks > 1) {
        queue_rows(p, m, m->landed, m->came, NULL, m->out, m->place);
        if (has_gradients)
            queue_floats(p, m->landed, m->came_weight, NULL, m->weight_gradient, m->place);
        exchange(p, m, true, has_gradients);
        gradients = m->sent_weight;
        rows = m->sent;
    }
    queue_sums(p, m, to, rows);
    if (has_gradients)
        queue_floats(p, m->rows, m->gate_gradients, NULL, gradients, m->returned);
}

/* ---- the passes ---- */

static void product(struct probe *p, const struct moe *m, enum gemm_form form, const long size[3],
                    const void *const in[2], void *out) {
    const bool gathers = form == GEMM_ATB;
    const struct gemm gemm = {form,     BF16,  size[0], size[1], size[2],
                              m->local, in[0], in[1],   out,     gathers};
    gemm_queue(p, &gemm);
}

static struct expert_rows activation_of(const struct moe *m) {
    return {BF16,      m->local * m->capacity, m->size.inner, m->interior, m->active, m->back,
            m->weight, m->weight_gradient};
}

static void make_active(struct probe *p, const struct moe *m) {
    const long to_interior[] = {m->capacity, 2 * m->size.inner, m->size.hidden};
    const void *const in[] = {m->in, m->w1};
    const struct expert_rows rows = activation_of(m);
    product(p, m, GEMM_ABT, to_interior, in, m->interior);
    experts_activate(p, &rows);
}

void moe_forward(struct probe *p, const struct moe *m) {
    const long to_out[] = {m->capacity, m->size.hidden, m->size.inner};
    const void *const in[] = {m->active, m->w2};
    dispatch(p, m, m->x, m->in, true);
    make_active(p, m);
    product(p, m, GEMM_ABT, to_out, in, m->out);
    combine(p, m, m->y, false);
}

void moe_backward(struct probe *p, const struct moe *m) {
    const long hidden = m->size.hidden, inner = m->size.inner, rows = m->capacity;
    const long to_back[] = {rows, inner, hidden}, to_w2[] = {hidden, inner, rows};
    const long to_out[] = {rows, hidden, 2 * inner}, to_w1[] = {2 * inner, hidden, rows};
    const void *const of_back[] = {m->in_dy, m->w2}, *const of_w2[] = {m->in_dy, m->active};
    const void *const of_out[] = {m->interior, m->w1}, *const of_w1[] = {m->interior, m->in};
    const struct expert_rows activation = activation_of(m);
    dispatch(p, m, m->x, m->in, true);
    make_active(p, m);
    dispatch(p, m, m->dy, m->in_dy, false);
    product(p, m, GEMM_AB, to_back, of_back, m->back);
    product(p, m, GEMM_ATB, to_w2, of_w2, m->dw2);
    experts_activate_backward(p, &activation);
    product(p, m, GEMM_AB, to_out, of_out, m->out);
    product(p, m, GEMM_ATB, to_w1, of_w1, m->dw1);
    combine(p, m, m->dx, true);
}

/* ---- places ---- */

long moe_expert(const struct moe_sizes *s, long rank, long pair) {
    return (pair / s->top_k + pair % s->top_k + rank) % s->experts;
}

float moe_gate(long pair) {
    return 0.5F + 0.0625F * (float)(pair % 8);
}

uint32_t moe_series_of(enum moe_series series, long rank) {
    return (uint32_t)series + MOE_SERIES * (uint32_t)rank;
}

float moe_scale_of(const struct moe_sizes *s, enum moe_series series) {
    return series == MOE_W1   ? sqrtf(3.0F / (float)s->hidden)
           : series == MOE_W2 ? sqrtf(3.0F / (float)s->inner)
                              : 1.0F;
}

static long *longs(size_t count) {
    return (long *)host_take(count * sizeof(long));
}

/* That a rank sends to an expert: of each slot a token in `experts`. */
static long rows_between(const struct moe_sizes *s, long rank, long expert) {
    long rows = 0;
    for (long k = 0; k < s->top_k; ++k) {
        const long past = (expert - k - rank) % s->experts;
        const long first = past < 0 ? past + s->experts : past;
        rows += first < s->tokens ? (s->tokens - first - 1) / s->experts + 1 : 0;
    }
    return rows;
}

static int *on_device(const int *places, long count) {
    return (int *)device_copy(places, (size_t)count * sizeof *places);
}

/* What comes lies by rank, then by expert; among the experts' rows by expert, then by rank. */
static int *place_landed(struct moe *m) {
    const struct moe_sizes *const s = &m->size;
    const long first = s->rank * m->local;
    long *const filled = longs((size_t)m->local);
    m->landed_begin = longs((size_t)s->ranks + 1);
    for (long r = 0; r < s->ranks; ++r) {
        m->landed_begin[r + 1] = m->landed_begin[r];
        for (long e = 0; e < m->local; ++e)
            m->landed_begin[r + 1] += rows_between(s, r, first + e);
    }
    m->landed = m->landed_begin[s->ranks];
    int *const place = (int *)host_take((size_t)m->landed * sizeof *place);
    long at = 0;
    for (long r = 0; r < s->ranks; ++r)
        for (long e = 0; e < m->local; ++e)
            for (long i = rows_between(s, r, first + e); i > 0; --i)
                place[at++] = (int)(e * m->capacity + filled[e]++);
    m->place = on_device(place, m->landed);
    return place;
}

/* Rows leave in the order of their experts, so of the experts' ranks. */
static void place_sent(struct moe *m, const int *place) {
    const struct moe_sizes *const s = &m->size;
    long *const next = longs((size_t)s->experts);
    const size_t bytes = (size_t)m->rows * sizeof(int);
    int *const token = (int *)host_take(bytes), *const pair = (int *)host_take(bytes);
    int *const returned = (int *)host_take(bytes);
    long at = 0;
    m->sent_begin = longs((size_t)s->ranks + 1);
    for (long e = 0; e < s->experts; ++e) {
        next[e] = at;
        at += rows_between(s, s->rank, e);
        m->sent_begin[e / m->local + 1] = at;
    }
    for (long i = 0; i < m->rows; ++i) {
        const long sent = next[moe_expert(s, s->rank, i)]++;
        token[sent] = (int)(i / s->top_k);
        pair[sent] = (int)i;
        returned[i] = s->ranks == 1 ? place[sent] : (int)sent;
    }
    m->token = on_device(token, m->rows);
    m->pair = on_device(pair, m->rows);
    m->returned = on_device(returned, m->rows);
}

/* Of the fullest expert of any rank, so that all ranks multiply alike. */
static long capacity_of(const struct moe_sizes *s) {
    long most = 0;
    for (long e = 0; e < s->experts; ++e) {
        long rows = 0;
        for (long r = 0; r < s->ranks; ++r)
            rows += rows_between(s, r, e);
        most = rows > most ? rows : most;
    }
    return most;
}

/* ---- blocks ---- */

static const bf16 *series(struct probe *p, const struct moe *m, long count, enum moe_series which) {
    return (const bf16 *)device_series(p, (size_t)count, moe_series_of(which, m->size.rank),
                                       moe_scale_of(&m->size, which), BF16);
}

static bf16 *rows_zeroed(struct probe *p, long rows, long width) {
    return (bf16 *)device_zeros(p, (size_t)rows * (size_t)width * sizeof(bf16));
}
static float *floats_zeroed(struct probe *p, long count) {
    return (float *)device_zeros(p, (size_t)count * sizeof(float));
}

static void take_exchange(struct probe *p, struct moe *m) {
    m->sent = rows_zeroed(p, m->rows, m->size.hidden);
    m->came = rows_zeroed(p, m->landed, m->size.hidden);
    m->sent_weight = floats_zeroed(p, m->rows);
    m->came_weight = floats_zeroed(p, m->landed);
}

static void take_experts(struct probe *p, struct moe *m) {
    const long hidden = m->size.hidden, inner = m->size.inner, rows = m->local * m->capacity;
    const long matrix = m->local * hidden * inner;
    m->w1 = series(p, m, 2 * matrix, MOE_W1);
    m->w2 = series(p, m, matrix, MOE_W2);
    m->dw1 = floats_zeroed(p, 2 * matrix);
    m->dw2 = floats_zeroed(p, matrix);
    m->in = rows_zeroed(p, rows, hidden);
    m->in_dy = rows_zeroed(p, rows, hidden);
    m->out = rows_zeroed(p, rows, hidden);
    m->interior = rows_zeroed(p, rows, 2 * inner);
    m->active = rows_zeroed(p, rows, inner);
    m->back = rows_zeroed(p, rows, inner);
    m->weight = floats_zeroed(p, rows);
    m->weight_gradient = floats_zeroed(p, rows);
}

static void take_tokens(struct probe *p, struct moe *m) {
    const long tokens = m->size.tokens, hidden = m->size.hidden;
    float *const gates = (float *)host_take((size_t)m->rows * sizeof *gates);
    for (long i = 0; i < m->rows; ++i)
        gates[i] = moe_gate(i);
    m->gates = (const float *)device_copy(gates, (size_t)m->rows * sizeof *gates);
    m->x = series(p, m, tokens * hidden, MOE_X);
    m->dy = series(p, m, tokens * hidden, MOE_DY);
    m->y = rows_zeroed(p, tokens, hidden);
    m->dx = rows_zeroed(p, tokens, hidden);
    m->gate_gradients = floats_zeroed(p, m->rows);
}

/* Places are whole numbers of 32 bits. */
static void require(const struct moe_sizes *s) {
    const double rows = (double)s->tokens * (double)s->top_k;
    const double cells = (double)s->experts / (double)s->ranks * (double)s->hidden;
    if (s->experts % s->ranks != 0)
        probe_refuse(REFUSED_UNSUPPORTED, "%ld experts do not divide among %ld ranks", s->experts,
                     s->ranks);
    if (s->top_k > s->experts)
        probe_refuse(REFUSED_UNSUPPORTED, "%ld of %ld experts a token", s->top_k, s->experts);
    if (!(rows * (double)s->ranks < 0x1p30))
        probe_refuse(REFUSED_MEMORY, "%.3g rows of tokens", rows * (double)s->ranks);
    device_require(3.0 * cells * (double)s->inner + 6.0 * rows * (double)(s->hidden + s->inner));
}

struct moe moe_take(struct probe *p, const struct moe_sizes *size) {
    struct moe m = {};
    require(size);
    m.size = *size;
    m.local = size->experts / size->ranks;
    m.capacity = capacity_of(size);
    m.rows = size->tokens * size->top_k;
    if (!((double)m.local * (double)m.capacity < 0x1p30))
        probe_refuse(REFUSED_MEMORY, "%ld experts of %ld rows", m.local, m.capacity);
    const int *const place = place_landed(&m);
    place_sent(&m, place);
    take_tokens(p, &m);
    take_experts(p, &m);
    if (size->ranks > 1)
        take_exchange(p, &m);
    return m;
}
