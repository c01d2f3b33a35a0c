// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Forward: a block of threads takes 128 queries of a head and goes over the keys, 64 at a time,
 * two tiles in flight; a warp takes 16 queries, which it keeps in registers.
 */
#include "attention_tile.h"

#include <math.h>

enum { QUERIES = 128, KEYS = 64, QUERIES_OF_WARP = 16 };

/* What a lane knows of its two rows. */
struct rows {
    float top[2], sum[2];
};

/* Scores become exponentials over the new maximum; what has been summed is scaled to it. */
template <int D>
__device__ inline void fold_scores(float s[KEYS / 8][4], struct rows *r, float o[D / 8][4],
                                   float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float top = r->top[half];
#pragma unroll
        for (int i = 0; i < KEYS / 8; ++i)
            top = fmaxf(top, fmaxf(s[i][2 * half], s[i][2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(~0U, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0U, top, 2));
        const float base = top == -INFINITY ? 0.0F : top * scale; /* nothing seen yet */
        const float kept = fast_exp2(fmaf(r->top[half], scale, -base));
        float sum = 0.0F;
#pragma unroll
        for (int i = 0; i < KEYS / 8; ++i)
#pragma unroll
            for (int j = 2 * half; j < 2 * half + 2; ++j) {
                s[i][j] = fast_exp2(fmaf(s[i][j], scale, -base));
                sum += s[i][j];
            }
        r->sum[half] = r->sum[half] * kept + sum;
        r->top[half] = top;
#pragma unroll
        for (int i = 0; i < D / 8; ++i) {
            o[i][2 * half] *= kept;
            o[i][2 * half + 1] *= kept;
        }
    }
}

__device__ inline void mask_scores(float s[KEYS / 8][4], long query, long key, long sequence,
                                   bool is_causal) {
#pragma unroll
    for (int i = 0; i < KEYS / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const long k = key + 8 * i + j % 2, q = query + j / 2 * 8;
            if (k >= sequence || (is_causal && k > q))
                s[i][j] = -INFINITY;
        }
}

/* Scores of the warp's queries, held in registers, with the tile's keys. */
template <int D>
__device__ inline void score_keys(float s[KEYS / 8][4], const uint32_t q[D / 16][4],
                                  const bf16 *keys, int lane) {
    enum { STRIDE = D + ATTENTION_PAD };
    const struct place in_keys = place_in_columns(lane);
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
        for (int n = 0; n < KEYS; n += 16) {
            uint32_t of_keys[4];
            load_blocks(of_keys, keys + (n + in_keys.row) * STRIDE + in_keys.column + 16 * k);
            multiply_add(s[n / 8], q[k], of_keys[0], of_keys[1]);
            multiply_add(s[n / 8 + 1], q[k], of_keys[2], of_keys[3]);
        }
}

template <int D>
__device__ inline void store_rows(const struct attention &a, long head, long query,
                                  float o[D / 8][4], struct rows *r, float scale, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const long q = query + 8 * half;
        float sum = r->sum[half];
        sum += __shfl_xor_sync(~0U, sum, 1);
        sum += __shfl_xor_sync(~0U, sum, 2);
        if (q >= a.sequence)
            continue;
        bf16 *const to = a.out + (head * a.sequence + q) * D + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < D / 8; ++i)
            *(uint32_t *)(to + 8 * i) = pack_pair(o[i][2 * half] / sum, o[i][2 * half + 1] / sum);
        if (lane % 4 == 0)
            a.log_sum[head * a.sequence + q] = r->top[half] * scale + logf(sum);
    }
}

template <int D>
__device__ inline void load_queries(uint32_t q[D / 16][4], bf16 *tile, const bf16 *queries,
                                    long first, long sequence, int warp, int lane) {
    enum { STRIDE = D + ATTENTION_PAD };
    const struct place in_a = place_in_a(lane);
    load_tile<QUERIES, D>(tile, queries, first, sequence);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
        load_blocks(q[k],
                    tile + (warp * QUERIES_OF_WARP + in_a.row) * STRIDE + in_a.column + 16 * k);
    __syncthreads(); /* keys come to the same place */
}

template <int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    forward(const struct attention a, const struct attention_scale scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    enum { TILE = KEYS * (D + ATTENTION_PAD) };
    bf16 *const tiles = (bf16 *)memory; /* keys of two stages, then values of two */
    const int lane = (int)threadIdx.x % WARP_LANES, warp = (int)threadIdx.x / WARP_LANES;
    const long head = (long)blockIdx.z * a.heads + blockIdx.y;
    const long kv_head = (long)blockIdx.z * a.kv_heads + blockIdx.y * a.kv_heads / a.heads;
    /* The longest first. */
    const long first = (long)(gridDim.x - 1 - blockIdx.x) * QUERIES;
    const long query = first + warp * QUERIES_OF_WARP + lane / 4;
    const bf16 *const keys = a.k + kv_head * a.sequence * D;
    const bf16 *const values = a.v + kv_head * a.sequence * D;
    const long seen = a.is_causal && first + QUERIES < a.sequence ? first + QUERIES : a.sequence;
    uint32_t q[D / 16][4];
    load_queries<D>(q, tiles, a.q + head * a.sequence * D, first, a.sequence, warp, lane);
    float o[D / 8][4] = {};
    struct rows rows = {{-INFINITY, -INFINITY}, {0.0F, 0.0F}};
    load_tile<KEYS, D>(tiles, keys, 0, a.sequence);
    load_tile<KEYS, D>(tiles + 2 * TILE, values, 0, a.sequence);
    copy_async_commit();
    for (long at = 0; at < seen; at += KEYS) {
        const int stage = (int)(at / KEYS % 2), next = 1 - stage;
        if (at + KEYS < seen) {
            load_tile<KEYS, D>(tiles + next * TILE, keys, at + KEYS, a.sequence);
            load_tile<KEYS, D>(tiles + (2 + next) * TILE, values, at + KEYS, a.sequence);
        }
        copy_async_commit();
        copy_async_wait<1>();
        __syncthreads();
        float s[KEYS / 8][4] = {};
        score_keys<D>(s, q, tiles + stage * TILE, lane);
        if (at + KEYS > a.sequence || (a.is_causal && at + KEYS > first + warp * QUERIES_OF_WARP))
            mask_scores(s, query, at + lane % 4 * 2, a.sequence, a.is_causal);
        fold_scores<D>(s, &rows, o, scale.of_exponents);
        multiply_by_rows<KEYS, D>(o, s, tiles + (2 + stage) * TILE, lane);
        __syncthreads(); /* before the stage is filled again */
    }
    store_rows<D>(a, head, query, o, &rows, scale.of_scores, lane);
}

template <int D> static void launch(struct probe *p, const struct attention *a) {
    const size_t bytes = 4 * KEYS * (D + ATTENTION_PAD) * sizeof(bf16);
    const dim3 blocks((unsigned)((a->sequence + QUERIES - 1) / QUERIES), (unsigned)a->heads,
                      (unsigned)a->batch);
    CUDA_CHECK(
        cudaFuncSetAttribute(forward<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    forward<D><<<blocks, ATTENTION_THREADS, bytes, p->stream>>>(*a, attention_scale_of(a));
    LAUNCH_CHECK();
}

bool attention_has(long head_dim) {
    return head_dim == 64 || head_dim == 128;
}

void attention_forward(struct probe *p, const struct attention *a) {
    if (a->head_dim == 64)
        launch<64>(p, a);
    else
        launch<128>(p, a);
}
