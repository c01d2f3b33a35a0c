// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The streamed optimizer step as executed: bit for bit the step with all state in place, for any
 * tensors, bucket and number of slots; the staging against the descriptor.
 */
/* The ledger with a switch: the n-th block from now is refused. */
#define ledger_take granted_take
#include "exec/ledger.c"
#undef ledger_take

void *ledger_take(struct ledger *ledger, size_t bytes);

#include "exec/adamw_stream.h"

#include "close.h"
#include "xorshift.h"

#include <stdbool.h>
#include <string.h>

static long refused = -1; /* none */

void *ledger_take(struct ledger *ledger, size_t bytes) {
    return refused >= 0 && refused-- == 0 ? NULL : granted_take(ledger, bytes);
}

enum { MOST_TENSORS = 24, MOST_PARAMS = 4000, STEPS = 4 };

static float drawn(void) {
    return (float)((double)below(200001) / 100000.0 - 1.0);
}

/* ---- the step written out ---- */

/* Nearest by trying both neighbours. */
static uint16_t oracle_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t down = bits & 0xFFFF0000u, up = down + 0x10000u;
    float low, high;
    memcpy(&low, &down, sizeof low);
    memcpy(&high, &up, sizeof high);
    const double above = isinf(high) ? (double)copysign(0x1p128, (double)value) : (double)high;
    const double to_low = fabs((double)value - (double)low), to_high = fabs(above - (double)value);
    const bool is_up = to_high < to_low || (!(to_low < to_high) && (down >> 16 & 1u) != 0);
    return (uint16_t)((is_up ? up : down) >> 16);
}

/* One array of each kind; the weights follow. */
struct arrays {
    float master[MOST_PARAMS], mean[MOST_PARAMS], square[MOST_PARAMS], gradient[MOST_PARAMS];
    uint16_t weight[MOST_PARAMS];
};

static void oracle_step(const struct adamw *a, struct arrays *x, size_t params) {
    const float c1 = (float)(1.0 - pow((double)a->beta1, (double)a->step));
    const float c2 = (float)(1.0 - pow((double)a->beta2, (double)a->step));
    for (size_t i = 0; i < params; ++i) {
        const float g = x->gradient[i] * a->gradient_scale;
        x->mean[i] = a->beta1 * x->mean[i] + (1.0F - a->beta1) * g;
        x->square[i] = a->beta2 * x->square[i] + (1.0F - a->beta2) * g * g;
        const float decay = a->rate * a->decay * x->master[i];
        x->master[i] = x->master[i] - decay;
        x->master[i] -= a->rate * (x->mean[i] / c1 / (sqrtf(x->square[i] / c2) + a->epsilon));
        x->weight[i] = oracle_bf16(x->master[i]);
    }
}

static struct adamw_state state_of(struct arrays *x, size_t params) {
    return (struct adamw_state){params, x->master, x->mean, x->square, x->gradient, x->weight};
}

static void draw_state(struct arrays *x) {
    memset(x, 0, sizeof *x);
    for (size_t i = 0; i < MOST_PARAMS; ++i)
        x->master[i] = drawn();
}

static void draw_gradient(struct arrays *x) {
    for (size_t i = 0; i < MOST_PARAMS; ++i)
        x->gradient[i] = below(50) == 0 ? 0.0F : drawn() * (below(9) == 0 ? 1e-12F : 1.0F);
}

static const struct adamw usual = {1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 1, 1.0F};

/* ---- streamed ---- */

struct cut {
    size_t tensors[MOST_TENSORS], starts[MOST_TENSORS + 1], count;
    struct state_stream stream;
};

static void cut_into(struct cut *c, double bucket, int slots) {
    struct status_error err = {0};
    const struct state_stream_request request = {bucket, slots, 4};
    if (state_stream_form(&request, c->tensors, c->count, c->starts, &c->stream, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static struct adamw_stream *stream_of(const struct cut *c, struct ledger *staging) {
    struct adamw_stream *out = NULL;
    struct status_error err = {0};
    if (adamw_stream_create(&c->stream, c->starts, staging, &out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return out;
}

static void draw_tensors(struct cut *c) {
    c->count = (size_t)below(MOST_TENSORS + 1);
    for (size_t i = 0; i < c->count; ++i)
        c->tensors[i] = (size_t)below(below(4) == 0 ? MOST_PARAMS / MOST_TENSORS : 20);
}

/* Several steps, streamed, in place and written out, of the same gradients. */
static void run_steps(const struct cut *c, struct adamw_stream *stream) {
    static struct arrays streamed, placed, written;
    const size_t params = (size_t)c->stream.params;
    draw_state(&streamed);
    placed = written = streamed;
    struct adamw a = usual;
    for (a.step = 1; a.step <= STEPS; ++a.step) {
        struct status_error err = {0};
        draw_gradient(&streamed);
        memcpy(placed.gradient, streamed.gradient, sizeof placed.gradient);
        memcpy(written.gradient, streamed.gradient, sizeof written.gradient);
        a.gradient_scale = 1.0F / (float)(1 + below(7));
        const struct adamw_state at = state_of(&streamed, params), in = state_of(&placed, params);
        if (adamw_stream_step(stream, &a, &at, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
        adamw_resident(&a, &in);
        oracle_step(&a, &written, params);
        assert_memory_equal(&streamed, &placed, sizeof streamed);
        assert_memory_equal(&streamed, &written, sizeof streamed);
    }
}

static void any_buckets_are_exact(void **state) {
    (void)state;
    for (int i = 0; i < 200; ++i) {
        struct cut c;
        draw_tensors(&c);
        cut_into(&c, (double)(1 + below(600)), 1 + (int)below(5));
        struct ledger staging = {0};
        struct adamw_stream *const stream = stream_of(&c, &staging);
        run_steps(&c, stream);
        assert_true((double)staging.peak_bytes == c.stream.staging_bytes);
        adamw_stream_free(stream);
        assert_true(staging.taken == 0 && staging.live_bytes == 0);
    }
}

static size_t staging_at(double bucket, int slots) {
    struct cut c = {.count = MOST_TENSORS};
    for (size_t i = 0; i < c.count; ++i)
        c.tensors[i] = 100;
    cut_into(&c, bucket, slots);
    struct ledger staging = {0};
    struct adamw_stream *const stream = stream_of(&c, &staging);
    run_steps(&c, stream);
    adamw_stream_free(stream);
    assert_true((double)staging.peak_bytes == c.stream.staging_bytes);
    return staging.peak_bytes;
}

static void halving_slots_or_buckets_halves_the_staging(void **state) {
    (void)state;
    const size_t whole = staging_at(800, 4);
    assert_true(whole == 4 * 800 * 16);
    assert_true(staging_at(800, 2) * 2 == whole);
    assert_true(staging_at(400, 4) * 2 == whole);
    assert_true(staging_at(1, 1) == 100 * 16); /* a tensor is not cut */
}

/* ---- single numbers ---- */

static void bf16_is_the_nearest(void **state) {
    (void)state;
    static const uint32_t edges[] = {
        0x00000000u, 0x80000000u, 0x00000001u, 0x00008000u, 0x00018000u, 0x3F808000u, 0x3F818000u,
        0x3F808001u, 0x3F807FFFu, 0x7F7F7FFFu, 0x7F7F8000u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x807FFFFFu};
    const size_t known = sizeof edges / sizeof *edges;
    for (size_t i = 0; i < 200000; ++i) {
        const uint32_t bits =
            i < known ? edges[i] : (uint32_t)(below(1 << 16) << 16 | below(1 << 16));
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            assert_int_equal(adamw_bf16(value), oracle_bf16(value));
    }
    assert_int_equal(adamw_bf16(INFINITY), 0x7F80);
    assert_int_equal(adamw_bf16(-INFINITY), 0xFF80);
    const uint32_t low_nan = 0x7F800001u;
    float value;
    memcpy(&value, &low_nan, sizeof value);
    assert_true((adamw_bf16(value) & 0x7F80) == 0x7F80 && (adamw_bf16(value) & 0x7F) != 0);
}

/* Against the definition in doubles: the first step moves by the rate, whatever the gradient. */
static void the_first_step(void **state) {
    (void)state;
    static struct arrays x;
    draw_state(&x);
    static const float gradient[] = {0.5F, -2.0F, 1e-4F};
    for (int i = 0; i < 3; ++i) {
        x.master[i] = 1.0F;
        x.gradient[i] = gradient[i];
    }
    const struct adamw_state at = state_of(&x, 3);
    adamw_resident(&usual, &at);
    for (int i = 0; i < 3; ++i) {
        const double sign = gradient[i] > 0 ? 1.0 : -1.0;
        assert_close((double)x.master[i], 1.0 - 1e-4 - 1e-3 * sign, 2e-7);
        assert_close((double)x.mean[i], 0.1 * (double)gradient[i], 1e-6);
        assert_close((double)x.square[i], 0.05 * (double)gradient[i] * (double)gradient[i], 1e-6);
    }
}

/* A gradient scaled is the step of the scaled gradient: clipping from outside. */
static void scale_is_clipping(void **state) {
    (void)state;
    static struct arrays scaled, clipped;
    draw_state(&scaled);
    draw_gradient(&scaled);
    clipped = scaled;
    for (size_t i = 0; i < MOST_PARAMS; ++i)
        clipped.gradient[i] *= 0.25F;
    struct adamw a = usual;
    const struct adamw_state in = state_of(&clipped, MOST_PARAMS),
                             at = state_of(&scaled, MOST_PARAMS);
    adamw_resident(&a, &in);
    a.gradient_scale = 0.25F;
    adamw_resident(&a, &at);
    assert_memory_equal(scaled.master, clipped.master, sizeof scaled.master);
    assert_memory_equal(scaled.weight, clipped.weight, sizeof scaled.weight);
}

/* ---- faults ---- */

static void faults(void **state) {
    (void)state;
    static struct arrays x;
    draw_state(&x);
    struct cut c = {.tensors = {10, 20, 30}, .count = 3};
    cut_into(&c, 10, 2);
    struct ledger staging = {0};
    struct status_error err = {0};
    struct adamw_stream *stream = NULL;
    for (refused = 0; refused < 2;) { /* each slot in turn */
        const long which = refused;
        assert_int_equal(adamw_stream_create(&c.stream, c.starts, &staging, &stream, &err),
                         MOSAIC_INTERNAL);
        assert_true(!stream && staging.taken == 0);
        refused = which + 1;
    }
    refused = -1;
    stream = stream_of(&c, &staging);
    struct adamw a = usual;
    const struct adamw_state less = state_of(&x, 59), whole = state_of(&x, 60);
    assert_int_equal(adamw_stream_step(stream, &a, &less, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "59 parameters"));
    a.step = 0;
    assert_int_equal(adamw_stream_step(stream, &a, &whole, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "step 0"));
    adamw_stream_free(stream);
    adamw_stream_free(NULL);
    c.stream.largest_params = 29.0; /* not the buckets' own */
    stream = NULL;
    assert_int_equal(adamw_stream_create(&c.stream, c.starts, &staging, &stream, &err),
                     MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "bucket 2"));
    assert_true(!stream && staging.taken == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_buckets_are_exact),
        cmocka_unit_test(halving_slots_or_buckets_halves_the_staging),
        cmocka_unit_test(bf16_is_the_nearest),
        cmocka_unit_test(the_first_step),
        cmocka_unit_test(scale_is_clipping),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
