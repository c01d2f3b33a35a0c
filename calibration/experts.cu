// SPDX-License-Identifier: GPL-3.0-or-later
/* One row of gate and up a block of threads; see the header. */
#include "experts.h"

#include "reduce.h"

template <typename T, int WIDTH>
__global__ void activate(const T *interior, const float *weight, T *active, long inner) {
    const long row = blockIdx.x;
    const T *const gate = interior + row * 2 * inner, *const up = gate + inner;
    const float of_row = weight[row];
    for (long i = threadIdx.x; i < inner / WIDTH; i += BLOCK_THREADS) {
        const pack<T, WIDTH> gates = ((const pack<T, WIDTH> *)gate)[i];
        const pack<T, WIDTH> ups = ((const pack<T, WIDTH> *)up)[i];
        pack<T, WIDTH> out;
        for (int j = 0; j < WIDTH; ++j) {
            const float g = to_float(gates.at[j]);
            const float s = 1.0F / (1.0F + __expf(-g));
            from_float(&out.at[j], of_row * (g * s * to_float(ups.at[j])));
        }
        ((pack<T, WIDTH> *)(active + row * inner))[i] = out;
    }
}

/* `back` is dY W2; the interior becomes its gradient. */
template <typename T, int WIDTH>
__global__ void __launch_bounds__(BLOCK_THREADS)
    activate_backward(T *interior, const T *back, const float *weight, float *weight_gradient,
                      long inner) {
    const long row = blockIdx.x;
    pack<T, WIDTH> *const gate = (pack<T, WIDTH> *)(interior + row * 2 * inner);
    pack<T, WIDTH> *const up = (pack<T, WIDTH> *)(interior + row * 2 * inner + inner);
    const float of_row = weight[row];
    float own = 0.0F;
    for (long i = threadIdx.x; i < inner / WIDTH; i += BLOCK_THREADS) {
        pack<T, WIDTH> gates = gate[i], ups = up[i];
        const pack<T, WIDTH> backs = ((const pack<T, WIDTH> *)(back + row * inner))[i];
        for (int j = 0; j < WIDTH; ++j) {
            const float g = to_float(gates.at[j]), u = to_float(ups.at[j]);
            const float s = 1.0F / (1.0F + __expf(-g));
            const float unweighted = to_float(backs.at[j]), d = unweighted * of_row;
            own += g * s * u * unweighted;
            from_float(&gates.at[j], d * u * s * (1.0F + g * (1.0F - s)));
            from_float(&ups.at[j], d * g * s);
        }
        gate[i] = gates;
        up[i] = ups;
    }
    own = merge_block(own);
    if (threadIdx.x == 0)
        weight_gradient[row] = own;
}

template <typename T, int WIDTH>
static void launch(struct probe *p, const struct expert_rows *r, bool is_back) {
    if (r->rows == 0)
        return;
    if (is_back)
        activate_backward<T, WIDTH><<<(unsigned)r->rows, BLOCK_THREADS, 0, p->stream>>>(
            (T *)r->interior, (const T *)r->back, r->weight, r->weight_gradient, r->inner);
    else
        activate<T, WIDTH><<<(unsigned)r->rows, BLOCK_THREADS, 0, p->stream>>>(
            (const T *)r->interior, r->weight, (T *)r->active, r->inner);
    LAUNCH_CHECK();
}

static void launch_any(struct probe *p, const struct expert_rows *r, bool is_back) {
    const bool is_whole = (size_t)r->inner * precision_bytes(r->precision) % 16 == 0;
    if (r->precision == BF16 && is_whole)
        launch<__nv_bfloat16, 8>(p, r, is_back);
    else if (r->precision == BF16)
        launch<__nv_bfloat16, 1>(p, r, is_back);
    else if (is_whole)
        launch<float, 4>(p, r, is_back);
    else
        launch<float, 1>(p, r, is_back);
}

void experts_activate(struct probe *p, const struct expert_rows *r) {
    launch_any(p, r, false);
}

void experts_activate_backward(struct probe *p, const struct expert_rows *r) {
    launch_any(p, r, true);
}
