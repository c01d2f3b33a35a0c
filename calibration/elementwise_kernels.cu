// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Kernels of the operators bound by memory; formulas stand in elementwise_host.cu.  A row a block
 * of threads, 16 bytes a thread and step; rows are whole in those, which the caller sees to.
 */
#include "elementwise.h"
#include "reduce.h"

#include <cuda_fp8.h>

typedef __nv_bfloat16 bf16;
enum { PACK = 8 };
typedef struct pack<bf16, PACK> row_pack;

/* The block's sum, for every thread. */
__device__ inline float sum_block(float x) {
    __shared__ float whole;
    x = merge_block(x);
    if (threadIdx.x == 0)
        whole = x;
    __syncthreads();
    const float result = whole;
    __syncthreads();
    return result;
}

/* ---- RMS norm ---- */

__global__ void __launch_bounds__(BLOCK_THREADS)
    norm_rows(const bf16 *x, const bf16 *gain, bf16 *y, float *scale, long width) {
    const long row = blockIdx.x, packs = width / PACK;
    const row_pack *const from = (const row_pack *)(x + row * width);
    row_pack *const to = (row_pack *)(y + row * width);
    float own = 0.0F;
    for (long i = threadIdx.x; i < packs; i += BLOCK_THREADS) {
        const row_pack values = from[i];
        for (int j = 0; j < PACK; ++j)
            own += to_float(values.at[j]) * to_float(values.at[j]);
    }
    const float of_row = rsqrtf(sum_block(own) / (float)width + norm_epsilon);
    for (long i = threadIdx.x; i < packs; i += BLOCK_THREADS) {
        const row_pack values = from[i], gains = ((const row_pack *)gain)[i];
        row_pack out;
        for (int j = 0; j < PACK; ++j)
            from_float(&out.at[j], to_float(values.at[j]) * of_row * to_float(gains.at[j]));
        to[i] = out;
    }
    if (threadIdx.x == 0)
        scale[row] = of_row;
}

struct norm_backward {
    const bf16 *x, *dy, *gain;
    const float *scale;
    bf16 *dx;
    float *dgain;
};

/* Blocks take rows in turn; each thread gathers the gain's gradient of its own columns. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    norm_rows_backward(const struct norm_backward a, long rows, long width) {
    extern __shared__ float gathered[];
    const long packs = width / PACK;
    const row_pack *const gain = (const row_pack *)a.gain;
    for (long i = threadIdx.x; i < packs; i += BLOCK_THREADS)
        for (int j = 0; j < PACK; ++j)
            gathered[i * PACK + j] = 0.0F;
    for (long row = blockIdx.x; row < rows; row += gridDim.x) {
        const row_pack *const x = (const row_pack *)(a.x + row * width);
        const row_pack *const dy = (const row_pack *)(a.dy + row * width);
        const float scale = a.scale[row];
        float own = 0.0F;
        for (long i = threadIdx.x; i < packs; i += BLOCK_THREADS) {
            const row_pack xs = x[i], dys = dy[i], gains = gain[i];
            for (int j = 0; j < PACK; ++j)
                own += to_float(xs.at[j]) * to_float(dys.at[j]) * to_float(gains.at[j]);
        }
        const float shared = sum_block(own) * scale * scale / (float)width;
        for (long i = threadIdx.x; i < packs; i += BLOCK_THREADS) {
            const row_pack xs = x[i], dys = dy[i], gains = gain[i];
            row_pack out;
            for (int j = 0; j < PACK; ++j) {
                const float v = to_float(xs.at[j]), d = to_float(dys.at[j]);
                from_float(&out.at[j], scale * (d * to_float(gains.at[j]) - v * shared));
                gathered[i * PACK + j] += d * v * scale;
            }
            ((row_pack *)(a.dx + row * width))[i] = out;
        }
    }
    for (long i = threadIdx.x; i < packs; i += BLOCK_THREADS)
        for (int j = 0; j < PACK; ++j)
            atomicAdd(a.dgain + i * PACK + j, gathered[i * PACK + j]);
}

void launch_norm(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    norm_rows<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (const bf16 *)at[0], (const bf16 *)at[1], (bf16 *)at[2], (float *)at[3], s->width);
}

void launch_norm_backward(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    const struct norm_backward a = {(const bf16 *)at[0],  (const bf16 *)at[1], (const bf16 *)at[2],
                                    (const float *)at[3], (bf16 *)at[4],       (float *)at[5]};
    const size_t bytes = (size_t)s->width * sizeof(float);
    const long most = 4L * p->properties.multiProcessorCount;
    if (bytes > p->properties.sharedMemPerBlockOptin - 1024)
        probe_refuse(REFUSED_UNSUPPORTED, "rows of %ld are too wide for shared memory", s->width);
    CUDA_CHECK(cudaFuncSetAttribute(norm_rows_backward, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)bytes));
    norm_rows_backward<<<(unsigned)(s->rows < most ? s->rows : most), BLOCK_THREADS, bytes,
                         p->stream>>>(a, s->rows, s->width);
}

/* ---- rotary embedding: pairs (i, i + half) of each head ---- */

__global__ void __launch_bounds__(BLOCK_THREADS)
    rotate_rows(const bf16 *x, const float *table, bf16 *y, long width, long head, float sign) {
    const long row = blockIdx.x, half = head / 2, packs = half / PACK;
    const float *const cosines = table + row * head, *const sines = cosines + half;
    for (long i = threadIdx.x; i < width / head * packs; i += BLOCK_THREADS) {
        const long at = row * width + i / packs * head + i % packs * PACK;
        const row_pack a = *(const row_pack *)(x + at), b = *(const row_pack *)(x + at + half);
        row_pack out_a, out_b;
        for (int j = 0; j < PACK; ++j) {
            const long pair = i % packs * PACK + j;
            const float c = cosines[pair], s = sign * sines[pair];
            const float u = to_float(a.at[j]), v = to_float(b.at[j]);
            from_float(&out_a.at[j], u * c - v * s);
            from_float(&out_b.at[j], v * c + u * s);
        }
        *(row_pack *)(y + at) = out_a;
        *(row_pack *)(y + at + half) = out_b;
    }
}

static void rotate(struct probe *p, const struct elementwise_shape *s, void *const at[],
                   float sign) {
    rotate_rows<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (const bf16 *)at[0], (const float *)at[1], (bf16 *)at[2], s->width, rope_head(s->width),
        sign);
}

void launch_rope(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    rotate(p, s, at, 1.0F);
}

void launch_rope_backward(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    rotate(p, s, at, -1.0F);
}

/* ---- SwiGLU: a row is gate, then up ---- */

__global__ void __launch_bounds__(BLOCK_THREADS) swiglu_rows(const bf16 *x, bf16 *y, long width) {
    const long row = blockIdx.x;
    const row_pack *const gate = (const row_pack *)(x + row * 2 * width);
    const row_pack *const up = (const row_pack *)(x + row * 2 * width + width);
    for (long i = threadIdx.x; i < width / PACK; i += BLOCK_THREADS) {
        const row_pack gates = gate[i], ups = up[i];
        row_pack out;
        for (int j = 0; j < PACK; ++j) {
            const float g = to_float(gates.at[j]);
            from_float(&out.at[j], g / (1.0F + __expf(-g)) * to_float(ups.at[j]));
        }
        ((row_pack *)(y + row * width))[i] = out;
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    swiglu_rows_backward(const bf16 *x, const bf16 *dy, bf16 *dx, long width) {
    const long row = blockIdx.x;
    const row_pack *const gate = (const row_pack *)(x + row * 2 * width);
    const row_pack *const up = (const row_pack *)(x + row * 2 * width + width);
    row_pack *const dgate = (row_pack *)(dx + row * 2 * width);
    row_pack *const dup = (row_pack *)(dx + row * 2 * width + width);
    for (long i = threadIdx.x; i < width / PACK; i += BLOCK_THREADS) {
        const row_pack gates = gate[i], ups = up[i];
        const row_pack dys = ((const row_pack *)(dy + row * width))[i];
        row_pack out_gate, out_up;
        for (int j = 0; j < PACK; ++j) {
            const float g = to_float(gates.at[j]), d = to_float(dys.at[j]);
            const float s = 1.0F / (1.0F + __expf(-g));
            from_float(&out_gate.at[j], d * to_float(ups.at[j]) * s * (1.0F + g * (1.0F - s)));
            from_float(&out_up.at[j], d * g * s);
        }
        dgate[i] = out_gate;
        dup[i] = out_up;
    }
}

void launch_swiglu(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    swiglu_rows<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>((const bf16 *)at[0],
                                                                    (bf16 *)at[1], s->width);
}

void launch_swiglu_backward(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    swiglu_rows_backward<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (const bf16 *)at[0], (const bf16 *)at[1], (bf16 *)at[2], s->width);
}

/* ---- rows moved ---- */

__global__ void __launch_bounds__(BLOCK_THREADS)
    move_rows(const bf16 *x, bf16 *y, long rows, long width, bool is_back) {
    const long row = blockIdx.x, other = shuffled_row(row, rows);
    const row_pack *const from = (const row_pack *)(x + (is_back ? row : other) * width);
    row_pack *const to = (row_pack *)(y + (is_back ? other : row) * width);
    for (long i = threadIdx.x; i < width / PACK; i += BLOCK_THREADS)
        to[i] = from[i];
}

void launch_permute(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    move_rows<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (const bf16 *)at[0], (bf16 *)at[1], s->rows, s->width, false);
}

void launch_permute_backward(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    move_rows<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (const bf16 *)at[0], (bf16 *)at[1], s->rows, s->width, true);
}

/* ---- cross entropy, FP32 logits ---- */

enum { WIDE = 4 };
typedef struct pack<float, WIDE> float_pack;

__global__ void __launch_bounds__(BLOCK_THREADS)
    loss_rows(const float *logits, float *log_sum, float *loss, long width) {
    const long row = blockIdx.x;
    const float *const y = logits + row * width;
    struct exp_sum own = {-INFINITY, 0.0F};
    for (long i = threadIdx.x; i < width / WIDE; i += BLOCK_THREADS) {
        const float_pack values = ((const float_pack *)y)[i];
        float top = own.top;
        for (int j = 0; j < WIDE; ++j)
            top = fmaxf(top, values.at[j]);
        float sum = own.sum * __expf(own.top - top);
        for (int j = 0; j < WIDE; ++j)
            sum += __expf(values.at[j] - top);
        own = {top, sum};
    }
    own = merge_block(own);
    if (threadIdx.x != 0)
        return;
    log_sum[row] = own.top + logf(own.sum);
    loss[row] = log_sum[row] - y[target_of(row, width)];
}

/* In place. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    loss_rows_backward(float *logits, const float *log_sum, long width, float upstream) {
    const long row = blockIdx.x, target = target_of(row, width);
    float_pack *const y = (float_pack *)(logits + row * width);
    const float of_row = log_sum[row];
    for (long i = threadIdx.x; i < width / WIDE; i += BLOCK_THREADS) {
        float_pack values = y[i];
        for (int j = 0; j < WIDE; ++j) {
            const float hit = i * WIDE + j == target ? 1.0F : 0.0F;
            values.at[j] = upstream * (__expf(values.at[j] - of_row) - hit);
        }
        y[i] = values;
    }
}

void launch_cross_entropy(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    loss_rows<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (const float *)at[0], (float *)at[1], (float *)at[2], s->width);
}

void launch_cross_entropy_backward(struct probe *p, const struct elementwise_shape *s,
                                   void *const at[]) {
    loss_rows_backward<<<(unsigned)s->rows, BLOCK_THREADS, 0, p->stream>>>(
        (float *)at[0], (const float *)at[1], s->width, 1.0F / (float)s->rows);
}

/* ---- router: softmax and the largest, a row a warp ---- */

enum { WARP = 32, ROUTER_ROWS = BLOCK_THREADS / WARP };

__device__ inline float warp_top(float x) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0U, x, distance));
    return x;
}
__device__ inline float warp_sum(float x) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(~0U, x, distance);
    return x;
}

/* The largest of the row and its first place, for every lane. */
__device__ inline int warp_largest(const float *row, long width, int lane, float *value) {
    float best = -INFINITY;
    int at = (int)width;
    for (long i = lane; i < width; i += WARP)
        if (row[i] > best) {
            best = row[i];
            at = (int)i;
        }
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(~0U, best, distance);
        const int other_at = __shfl_xor_sync(~0U, at, distance);
        if (other > best || (other == best && other_at < at)) {
            best = other;
            at = other_at;
        }
    }
    *value = best;
    return at;
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    top_k_rows(const float *logits, float *shares, float *weights, float *places, long rows,
               long width, int k) {
    extern __shared__ float kept[];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const long row = (long)blockIdx.x * ROUTER_ROWS + warp;
    float *const own = kept + warp * width;
    if (row >= rows)
        return;
    float top = -INFINITY, sum = 0.0F;
    for (long i = lane; i < width; i += WARP) {
        own[i] = logits[row * width + i];
        top = fmaxf(top, own[i]);
    }
    top = warp_top(top);
    for (long i = lane; i < width; i += WARP) {
        own[i] = __expf(own[i] - top);
        sum += own[i];
    }
    sum = warp_sum(sum);
    for (long i = lane; i < width; i += WARP) {
        own[i] = own[i] / sum;
        shares[row * width + i] = own[i];
    }
    for (int j = 0; j < k; ++j) {
        float value;
        __syncwarp();
        const int at = warp_largest(own, width, lane, &value);
        __syncwarp();
        if (lane == 0) {
            weights[row * k + j] = value;
            places[row * k + j] = (float)at;
            own[at] = -INFINITY;
        }
    }
}

/* Of the weights of experts row, row + 1, ...: dlogit = share (d - sum share d). */
__global__ void __launch_bounds__(BLOCK_THREADS)
    top_k_rows_backward(const float *shares, const float *dweights, float *dlogits, long rows,
                        long width, int k) {
    const int lane = (int)threadIdx.x % WARP;
    const long row = (long)blockIdx.x * ROUTER_ROWS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    const float *const own = shares + row * width, *const d = dweights + row * k;
    const float picked = lane < k ? own[(row + lane) % width] * d[lane] : 0.0F;
    const float sum = warp_sum(picked);
    for (long i = lane; i < width; i += WARP) {
        const long slot = (i - row % width + width) % width;
        dlogits[row * width + i] = own[i] * ((slot < k ? d[slot] : 0.0F) - sum);
    }
}

static unsigned router_blocks(const struct elementwise_shape *s) {
    return (unsigned)((s->rows + ROUTER_ROWS - 1) / ROUTER_ROWS);
}

void launch_top_k(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    const size_t bytes = (size_t)ROUTER_ROWS * (size_t)s->width * sizeof(float);
    if (bytes > p->properties.sharedMemPerBlockOptin - 1024)
        probe_refuse(REFUSED_UNSUPPORTED, "%ld experts are too many for shared memory", s->width);
    CUDA_CHECK(
        cudaFuncSetAttribute(top_k_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    top_k_rows<<<router_blocks(s), BLOCK_THREADS, bytes, p->stream>>>(
        (const float *)at[0], (float *)at[1], (float *)at[2], (float *)at[3], s->rows, s->width,
        top_k_of(s->width));
}

void launch_top_k_backward(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    top_k_rows_backward<<<router_blocks(s), BLOCK_THREADS, 0, p->stream>>>(
        (const float *)at[0], (const float *)at[1], (float *)at[2], s->rows, s->width,
        top_k_of(s->width));
}

/* ---- MXFP8: a power of two each 32, four threads a block of values ---- */

struct e4m3_pack {
    uint2 bits;
};

__global__ void __launch_bounds__(BLOCK_THREADS)
    quantise_packs(const bf16 *x, struct e4m3_pack *y, uint8_t *scales, size_t packs) {
    enum { SHARERS = MX_BLOCK / PACK };
    const size_t i = (size_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    const bool is_inside = i < packs;
    row_pack values = {};
    float top = 0.0F;
    if (is_inside)
        values = ((const row_pack *)x)[i];
    for (int j = 0; j < PACK; ++j)
        top = fmaxf(top, fabsf(to_float(values.at[j])));
    for (int distance = SHARERS / 2; distance > 0; distance /= 2)
        top = fmaxf(top, __shfl_xor_sync(~0U, top, distance));
    if (!is_inside)
        return;
    const int exponent = top > 0.0F ? max(ilogbf(top) - mx_top_exponent, -127) : -127;
    const float inverse = exp2f((float)-exponent);
    union {
        struct e4m3_pack whole;
        __nv_fp8_storage_t at[PACK];
    } out;
    for (int j = 0; j < PACK; ++j)
        out.at[j] =
            __nv_cvt_float_to_fp8(to_float(values.at[j]) * inverse, __NV_SATFINITE, __NV_E4M3);
    y[i] = out.whole;
    if (i % SHARERS == 0)
        scales[i / SHARERS] = (uint8_t)(exponent + 127);
}

void launch_quantise(struct probe *p, const struct elementwise_shape *s, void *const at[]) {
    const size_t packs = (size_t)s->rows * (size_t)s->width / PACK;
    const unsigned blocks = (unsigned)((packs + BLOCK_THREADS - 1) / BLOCK_THREADS);
    quantise_packs<<<blocks, BLOCK_THREADS, 0, p->stream>>>(
        (const bf16 *)at[0], (struct e4m3_pack *)at[1], (uint8_t *)at[2], packs);
}
