// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Backward, scores made anew: a block of threads takes 128 keys of a key head and goes over the
 * queries that see them, 64 at a time, two tiles in flight, of all query heads that it serves.  A
 * warp takes 16 keys; all is held transposed, keys down and queries across:
 *   S = K Q^T, P = e^(S - log sum), dP = V dO^T, dS = P (dP - delta)
 *   dV += P dO, dK += dS Q in registers; dQ += dS^T K is added to FP32 in memory.
 */
#include "attention_tile.h"

#include <math.h>

enum { KEYS = 128, QUERIES = 64, KEYS_OF_WARP = 16, ACROSS = QUERIES + ATTENTION_PAD };

/* Shared memory of a block; the order keeps each part at 16 bytes. */
template <int D> struct tiles {
    bf16 keys[KEYS * (D + ATTENTION_PAD)], values[KEYS * (D + ATTENTION_PAD)];
    bf16 queries[2][QUERIES * (D + ATTENTION_PAD)], d_out[2][QUERIES * (D + ATTENTION_PAD)];
    bf16 d_scores[KEYS * ACROSS]; /* a row a key */
    float log_sum[2][QUERIES], delta[2][QUERIES];
};

/* One tile of queries of one head. */
struct step {
    long head, query;
};

template <int D>
__device__ inline void load_step(struct tiles<D> *t, int stage, const struct attention &a,
                                 const struct step &step) {
    const long rows = step.head * a.sequence;
    const int i = (int)threadIdx.x;
    load_tile<QUERIES, D>(t->queries[stage], a.q + rows * D, step.query, a.sequence);
    load_tile<QUERIES, D>(t->d_out[stage], a.d_out + rows * D, step.query, a.sequence);
    if (i < QUERIES) {
        const bool is_inside = step.query + i < a.sequence;
        /* A query that is not there gives no weight to any key. */
        t->log_sum[stage][i] = is_inside ? a.log_sum[rows + step.query + i] : INFINITY;
        t->delta[stage][i] = is_inside ? a.delta[rows + step.query + i] : 0.0F;
    }
}

/* Scores to weights: e^(s - log sum), 0 where a query does not see the key. */
__device__ inline void weigh(float s[QUERIES / 8][4], const float *log_sum, float scale, long key,
                             long query, bool is_masked, int lane) {
    const float log2_e = 1.44269504F;
#pragma unroll
    for (int i = 0; i < QUERIES / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int column = 8 * i + lane % 4 * 2 + j % 2;
            const float p = fast_exp2(fmaf(s[i][j], scale, -log2_e * log_sum[column]));
            s[i][j] = is_masked && key + j / 2 * 8 > query + column ? 0.0F : p;
        }
}

/* dS in place of dP, and a copy for the other warps. */
__device__ inline void differ(float dp[QUERIES / 8][4], const float p[QUERIES / 8][4],
                              const float *delta, bf16 *d_scores, int lane) {
#pragma unroll
    for (int i = 0; i < QUERIES / 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            dp[i][j] = p[i][j] * (dp[i][j] - delta[8 * i + lane % 4 * 2 + j % 2]);
        bf16 *const to = d_scores + lane / 4 * ACROSS + 8 * i + lane % 4 * 2;
        *(uint32_t *)to = pack_pair(dp[i][0], dp[i][1]);
        *(uint32_t *)(to + 8 * ACROSS) = pack_pair(dp[i][2], dp[i][3]);
    }
}

/* dQ of 16 queries and half of D a warp. */
template <int D>
__device__ inline void add_query_gradient(const struct tiles<D> *t, const struct attention &a,
                                          const struct step &step, float scale, int warp,
                                          int lane) {
    enum { STRIDE = D + ATTENTION_PAD, HALF = D / 2 };
    const struct place in_a = place_in_a_turned(lane), in_b = place_in_rows(lane);
    const int down = warp % 4 * 16, column = warp / 4 * HALF;
    float c[HALF / 8][4] = {};
#pragma unroll
    for (int k = 0; k < KEYS; k += 16) {
        uint32_t of_a[4];
        load_blocks_turned(of_a, t->d_scores + (k + in_a.row) * ACROSS + down + in_a.column);
#pragma unroll
        for (int n = 0; n < HALF; n += 16) {
            uint32_t of_b[4];
            load_blocks_turned(of_b, t->keys + (k + in_b.row) * STRIDE + column + n + in_b.column);
            multiply_add(c[n / 8], of_a, of_b[0], of_b[1]);
            multiply_add(c[n / 8 + 1], of_a, of_b[2], of_b[3]);
        }
    }
#pragma unroll
    for (int i = 0; i < HALF / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const long query = step.query + down + lane / 4 + j / 2 * 8;
            if (query < a.sequence)
                atomicAdd(a.dq_sum + (step.head * a.sequence + query) * D + column + 8 * i +
                              lane % 4 * 2 + j % 2,
                          scale * c[i][j]);
        }
}

template <int D>
__device__ inline void store_gradient(bf16 *to, const float c[D / 8][4], float scale, long key,
                                      long sequence, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const long k = key + 8 * half;
        if (k >= sequence)
            continue;
#pragma unroll
        for (int i = 0; i < D / 8; ++i)
            *(uint32_t *)(to + k * D + 8 * i + lane % 4 * 2) =
                pack_pair(scale * c[i][2 * half], scale * c[i][2 * half + 1]);
    }
}

template <int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    backward(const struct attention a, const struct attention_scale scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    enum { STRIDE = D + ATTENTION_PAD };
    struct tiles<D> *const t = (struct tiles<D> *)memory;
    const int lane = (int)threadIdx.x % WARP_LANES, warp = (int)threadIdx.x / WARP_LANES;
    const long kv_head = (long)blockIdx.z * a.kv_heads + blockIdx.y;
    const long group = a.heads / a.kv_heads;
    const long head = (long)blockIdx.z * a.heads + blockIdx.y * group;
    const long first_key = (long)blockIdx.x * KEYS;
    const long first_query = a.is_causal ? first_key / QUERIES : 0; /* in tiles */
    const long of_head = (a.sequence + QUERIES - 1) / QUERIES - first_query;
    const int own = warp * KEYS_OF_WARP; /* the warp's keys */
    load_tile<KEYS, D>(t->keys, a.k + kv_head * a.sequence * D, first_key, a.sequence);
    load_tile<KEYS, D>(t->values, a.v + kv_head * a.sequence * D, first_key, a.sequence);
    load_step<D>(t, 0, a, {head, first_query * QUERIES});
    copy_async_commit();
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    for (long i = 0; i < group * of_head; ++i) {
        const int stage = (int)(i % 2);
        const long next = i + 1;
        const struct step step = {head + i / of_head, (first_query + i % of_head) * QUERIES};
        if (next < group * of_head)
            load_step<D>(t, 1 - stage, a,
                         {head + next / of_head, (first_query + next % of_head) * QUERIES});
        copy_async_commit();
        copy_async_wait<1>();
        __syncthreads();
        const long key = first_key + own + lane / 4;
        const bool is_masked = a.is_causal && first_key + own + KEYS_OF_WARP > step.query + 1;
        float p[QUERIES / 8][4] = {}, dp[QUERIES / 8][4] = {};
        multiply_by_columns<QUERIES, D>(p, t->keys + own * STRIDE, t->queries[stage], lane);
        weigh(p, t->log_sum[stage], scale.of_exponents, key, step.query, is_masked, lane);
        multiply_by_columns<QUERIES, D>(dp, t->values + own * STRIDE, t->d_out[stage], lane);
        multiply_by_rows<QUERIES, D>(dv, p, t->d_out[stage], lane);
        differ(dp, p, t->delta[stage], t->d_scores + own * ACROSS, lane);
        multiply_by_rows<QUERIES, D>(dk, dp, t->queries[stage], lane);
        __syncthreads(); /* all of dS is there */
        add_query_gradient<D>(t, a, step, scale.of_scores, warp, lane);
        __syncthreads(); /* before dS and the stage are written again */
    }
    const long key = first_key + own + lane / 4;
    store_gradient<D>(a.dk + kv_head * a.sequence * D, dk, scale.of_scores, key, a.sequence, lane);
    store_gradient<D>(a.dv + kv_head * a.sequence * D, dv, 1.0F, key, a.sequence, lane);
}

/* ---- before and after ---- */

/* delta = sum of O dO, a row a warp. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    make_delta(const bf16 *out, const bf16 *d_out, float *delta, long rows, int head_dim) {
    const int lane = (int)threadIdx.x % WARP_LANES;
    const long row = (long)blockIdx.x * (BLOCK_THREADS / WARP_LANES) + threadIdx.x / WARP_LANES;
    if (row >= rows)
        return;
    float sum = 0.0F;
    for (int i = lane; i < head_dim; i += WARP_LANES)
        sum += to_float(out[row * head_dim + i]) * to_float(d_out[row * head_dim + i]);
    for (int distance = WARP_LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0U, sum, distance);
    if (lane == 0)
        delta[row] = sum;
}

__global__ void __launch_bounds__(BLOCK_THREADS) narrow(const float *from, bf16 *to, size_t count) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        from_float(to + i, from[i]);
}

template <int D> static void launch(struct probe *p, const struct attention *a) {
    const dim3 blocks((unsigned)((a->sequence + KEYS - 1) / KEYS), (unsigned)a->kv_heads,
                      (unsigned)a->batch);
    const size_t bytes = sizeof(struct tiles<D>);
    if (bytes > p->properties.sharedMemPerBlockOptin)
        probe_refuse(REFUSED_UNSUPPORTED, "%zu bytes of shared memory wanted, %zu are there", bytes,
                     p->properties.sharedMemPerBlockOptin);
    CUDA_CHECK(
        cudaFuncSetAttribute(backward<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    backward<D><<<blocks, ATTENTION_THREADS, bytes, p->stream>>>(*a, attention_scale_of(a));
}

void attention_backward(struct probe *p, const struct attention *a) {
    enum { ROWS = BLOCK_THREADS / WARP_LANES };
    const long rows = a->batch * a->heads * a->sequence;
    const size_t count = (size_t)rows * (size_t)a->head_dim;
    make_delta<<<(unsigned)((rows + ROWS - 1) / ROWS), BLOCK_THREADS, 0, p->stream>>>(
        a->out, a->d_out, a->delta, rows, (int)a->head_dim);
    CUDA_CHECK(cudaMemsetAsync(a->dq_sum, 0, count * sizeof(float), p->stream));
    if (a->head_dim == 64)
        launch<64>(p, a);
    else
        launch<128>(p, a);
    narrow<<<device_blocks(p, count), BLOCK_THREADS, 0, p->stream>>>(a->dq_sum, a->dq, count);
    LAUNCH_CHECK();
}
