// SPDX-License-Identifier: GPL-3.0-or-later
/* With s = 1 / (1 + e^-g): silu(g) = g s, silu'(g) = s (1 + g (1 - s)). */
#include "exec/expert_ffn.h"

#include <math.h>

size_t expert_weight_count(const struct expert_shape *s) {
    return 3 * (size_t)s->hidden * (size_t)s->inner;
}

struct matrices {
    size_t hidden, inner, up, down; /* the last two: offsets */
};

static struct matrices matrices_of(const struct expert_shape *s) {
    const size_t hidden = (size_t)s->hidden, inner = (size_t)s->inner;
    return (struct matrices){hidden, inner, hidden * inner, 2 * hidden * inner};
}

static float sigmoid(float g) {
    return 1.0F / (1.0F + expf(-g));
}

void expert_interior(const struct expert_shape *shape, const float *weights, const float *x,
                     float *interior) {
    const struct matrices m = matrices_of(shape);
    for (size_t i = 0; i < 2 * m.inner; ++i)
        interior[i] = 0.0F;
    for (size_t h = 0; h < m.hidden; ++h) {
        const float *const gate = weights + h * m.inner, *const up = gate + m.up;
        for (size_t i = 0; i < m.inner; ++i) {
            interior[i] += x[h] * gate[i];
            interior[m.inner + i] += x[h] * up[i];
        }
    }
}

void expert_output(const struct expert_shape *shape, const float *weights, float weight,
                   const float *interior, float *y) {
    const struct matrices m = matrices_of(shape);
    for (size_t h = 0; h < m.hidden; ++h)
        y[h] = 0.0F;
    for (size_t i = 0; i < m.inner; ++i) {
        const float *const down = weights + m.down + i * m.hidden;
        const float g = interior[i];
        const float active = g * sigmoid(g) * interior[m.inner + i];
        for (size_t h = 0; h < m.hidden; ++h)
            y[h] += active * down[h];
    }
    for (size_t h = 0; h < m.hidden; ++h)
        y[h] *= weight;
}

/* Through Wd and the activation; the interior becomes its gradient. */
static float backward_down(const struct matrices *m, const float *weights,
                           const struct expert_row *row, float *gradients) {
    float weight_gradient = 0.0F;
    for (size_t i = 0; i < m->inner; ++i) {
        const float *const down = weights + m->down + i * m->hidden;
        float *const down_gradient = gradients + m->down + i * m->hidden;
        const float g = row->interior[i], u = row->interior[m->inner + i];
        const float s = sigmoid(g);
        const float active = g * s * u;
        const float scaled = active * row->weight;
        float back = 0.0F;
        for (size_t h = 0; h < m->hidden; ++h) {
            back += row->dy[h] * down[h];
            down_gradient[h] += scaled * row->dy[h];
        }
        weight_gradient += active * back;
        back *= row->weight;
        row->interior[i] = back * u * s * (1.0F + g * (1.0F - s));
        row->interior[m->inner + i] = back * g * s;
    }
    return weight_gradient;
}

float expert_backward(const struct expert_shape *shape, const float *weights,
                      const struct expert_row *row, float *gradients) {
    const struct matrices m = matrices_of(shape);
    const float weight_gradient = backward_down(&m, weights, row, gradients);
    const float *const dg = row->interior, *const du = dg + m.inner;
    for (size_t h = 0; h < m.hidden; ++h) {
        const float *const gate = weights + h * m.inner, *const up = gate + m.up;
        float *const gate_gradient = gradients + h * m.inner, *const up_gradient =
                                                                  gate_gradient + m.up;
        float dx = 0.0F;
        for (size_t i = 0; i < m.inner; ++i) {
            dx += dg[i] * gate[i] + du[i] * up[i];
            gate_gradient[i] += row->x[h] * dg[i];
            up_gradient[i] += row->x[h] * du[i];
        }
        row->x[h] = dx;
    }
    return weight_gradient;
}
