// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The operators in plain loops on floats, sums in double.
 *   norm      y = x r gain, r = (mean x^2 + e)^-1/2;  dx = r (dy gain - x r^2 mean(dy gain x))
 *   rope      (u, v) of a pair turned by the table's cosine and sine; backward the other way round
 *   swiglu    y = silu(gate) up
 *   router    shares = softmax(logits), the k largest and their places
 *   loss      log sum e^y - y_target; its gradient in place
 *   quantise  a block of 32: x / 2^(floor(log2 max) - 8) in E4M3, the exponent + 127 beside
 */
#include "elementwise.h"

#include <cuda_fp8.h>
#include <math.h>

void host_norm(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r) {
        const float *const x = at[0] + r * s->width;
        double sum = 0;
        for (long i = 0; i < s->width; ++i)
            sum += (double)x[i] * (double)x[i];
        const double scale = 1 / sqrt(sum / (double)s->width + (double)norm_epsilon);
        for (long i = 0; i < s->width; ++i)
            at[2][r * s->width + i] = (float)((double)x[i] * scale * (double)at[1][i]);
        at[3][r] = (float)scale;
    }
}

void host_norm_backward(const struct elementwise_shape *s, float *const at[]) {
    const float *const gain = at[2];
    for (long r = 0; r < s->rows; ++r) {
        const float *const x = at[0] + r * s->width, *const dy = at[1] + r * s->width;
        const double scale = (double)at[3][r];
        double sum = 0;
        for (long i = 0; i < s->width; ++i)
            sum += (double)x[i] * (double)dy[i] * (double)gain[i];
        const double shared = sum * scale * scale / (double)s->width;
        for (long i = 0; i < s->width; ++i) {
            const double v = (double)x[i], d = (double)dy[i];
            at[4][r * s->width + i] = (float)(scale * (d * (double)gain[i] - v * shared));
            at[5][i] += (float)(d * v * scale);
        }
    }
}

static void rotate(const struct elementwise_shape *s, float *const at[], float sign) {
    const long head = rope_head(s->width), half = head / 2;
    for (long r = 0; r < s->rows; ++r)
        for (long i = 0; i < s->width / head * half; ++i) {
            const long pair = i % half, first = r * s->width + i / half * head + pair;
            const float c = at[1][r * head + pair], t = sign * at[1][r * head + half + pair];
            const float u = at[0][first], v = at[0][first + half];
            at[2][first] = u * c - v * t;
            at[2][first + half] = v * c + u * t;
        }
}

void host_rope(const struct elementwise_shape *s, float *const at[]) {
    rotate(s, at, 1.0F);
}

void host_rope_backward(const struct elementwise_shape *s, float *const at[]) {
    rotate(s, at, -1.0F);
}

static float sigmoid(float x) {
    return 1.0F / (1.0F + expf(-x));
}

void host_swiglu(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r)
        for (long i = 0; i < s->width; ++i) {
            const float g = at[0][r * 2 * s->width + i], u = at[0][(2 * r + 1) * s->width + i];
            at[1][r * s->width + i] = g * sigmoid(g) * u;
        }
}

void host_swiglu_backward(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r)
        for (long i = 0; i < s->width; ++i) {
            const long gate = r * 2 * s->width + i, up = (2 * r + 1) * s->width + i;
            const float g = at[0][gate], d = at[1][r * s->width + i], t = sigmoid(g);
            at[2][gate] = d * at[0][up] * t * (1.0F + g * (1.0F - t));
            at[2][up] = d * g * t;
        }
}

void host_permute(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r)
        for (long i = 0; i < s->width; ++i)
            at[1][r * s->width + i] = at[0][shuffled_row(r, s->rows) * s->width + i];
}

void host_permute_backward(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r)
        for (long i = 0; i < s->width; ++i)
            at[1][shuffled_row(r, s->rows) * s->width + i] = at[0][r * s->width + i];
}

void host_cross_entropy(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r) {
        const float *const y = at[0] + r * s->width;
        double sum = 0;
        for (long i = 0; i < s->width; ++i)
            sum += exp((double)y[i]);
        at[1][r] = (float)log(sum);
        at[2][r] = (float)(log(sum) - (double)y[target_of(r, s->width)]);
    }
}

void host_cross_entropy_backward(const struct elementwise_shape *s, float *const at[]) {
    for (long r = 0; r < s->rows; ++r)
        for (long i = 0; i < s->width; ++i) {
            float *const y = at[0] + r * s->width + i;
            const float hit = i == target_of(r, s->width) ? 1.0F : 0.0F;
            *y = (expf(*y - at[1][r]) - hit) / (float)s->rows;
        }
}

static void pick_largest(float *shares, long width, int k, float *weights, float *places) {
    for (int j = 0; j < k; ++j) {
        long best = 0;
        for (long i = 1; i < width; ++i)
            if (shares[i] > shares[best])
                best = i;
        weights[j] = shares[best];
        places[j] = (float)best;
        shares[best] = -INFINITY;
    }
    for (int j = 0; j < k; ++j) /* as they were */
        shares[(long)places[j]] = weights[j];
}

void host_top_k(const struct elementwise_shape *s, float *const at[]) {
    const int k = top_k_of(s->width);
    for (long r = 0; r < s->rows; ++r) {
        const float *const logits = at[0] + r * s->width;
        double sum = 0;
        for (long i = 0; i < s->width; ++i)
            sum += exp((double)logits[i]);
        for (long i = 0; i < s->width; ++i)
            at[1][r * s->width + i] = (float)(exp((double)logits[i]) / sum);
        pick_largest(at[1] + r * s->width, s->width, k, at[2] + r * k, at[3] + r * k);
    }
}

void host_top_k_backward(const struct elementwise_shape *s, float *const at[]) {
    const int k = top_k_of(s->width);
    for (long r = 0; r < s->rows; ++r) {
        const float *const shares = at[0] + r * s->width, *const d = at[1] + r * k;
        float sum = 0;
        for (int j = 0; j < k; ++j)
            sum += shares[(r + j) % s->width] * d[j];
        for (long i = 0; i < s->width; ++i)
            at[2][r * s->width + i] = -shares[i] * sum;
        for (int j = 0; j < k; ++j) {
            const long i = (r + j) % s->width;
            at[2][r * s->width + i] = shares[i] * (d[j] - sum);
        }
    }
}

void host_quantise(const struct elementwise_shape *s, float *const at[]) {
    for (long b = 0; b < s->rows * s->width / MX_BLOCK; ++b) {
        const float *const x = at[0] + b * MX_BLOCK;
        float top = 0;
        for (int i = 0; i < MX_BLOCK; ++i)
            top = fmaxf(top, fabsf(x[i]));
        const int wanted = top > 0 ? ilogbf(top) - mx_top_exponent : -127;
        const int exponent = wanted < -127 ? -127 : wanted;
        for (int i = 0; i < MX_BLOCK; ++i)
            at[1][b * MX_BLOCK + i] = (float)__nv_cvt_float_to_fp8(x[i] * exp2f((float)-exponent),
                                                                   __NV_SATFINITE, __NV_E4M3);
        at[2][b] = (float)(exponent + 127);
    }
}
