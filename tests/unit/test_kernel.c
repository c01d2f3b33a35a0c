// SPDX-License-Identifier: GPL-3.0-or-later
/* src/step/kernel.c: each kernel's time by hand, its limits, what precision and windows change. */
#include "p6.h"
#include "step/kernel.h"

static struct step_context ctx;
static struct geometry model;
static struct workload work;

/* p6's rates: 2.25 PFLOP/s x .6867 x .7035, 8 TB/s x .57. */
#define GEMM_RATE (2.25e15 * 0.6867 * 0.7035)
#define HBM (8e12 * 0.57)

static void begin(enum precision precision) {
    model = ladder(8, 64, 2, 4);
    work = p6.workload;
    work.precision = precision;
    step_context_init(&ctx, &model, &p6.cluster, &p6.calibration, &work, &p6.engine,
                      estimator_default());
}

static void test_gemm(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    const double m = 4096, n = 6144, k = 2048;
    struct layer_work w = {0};
    kernel_gemm(&ctx, m, n, k, false, &w);
    const double compute_s =
        2.0 * m * n * k / GEMM_RATE * (1 + 50 / m) * (1 + 50 / n) * (1 + 50 / k);
    const double operands = 2.0 * (m * k + k * n + m * n);
    assert_close(w.forward.gemm_s, compute_s + operands / HBM, 1e-12);
    /* dgrad and wgrad; the weight gradient is read and written in FP32, not written in bf16 */
    assert_close(w.backward.gemm_s, 2.0 * compute_s + (2.0 * operands + 6.0 * k * n) / HBM, 1e-12);
    assert_close(w.forward_flop, 2.0 * m * n * k, 0.0);
    assert_close_abs(w.forward.quantise_s + w.backward.quantise_s, 0.0, 0.0);
    const double once_s = w.forward.gemm_s;
    kernel_gemm(&ctx, m, n, k, false, &w);
    assert_close(w.forward.gemm_s, 2.0 * once_s, 1e-12); /* it accumulates */
}

/* Large ones run at the sustained share of the peak, thin ones at the speed of memory. */
static void test_gemm_limits(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    const double big = 1 << 20;
    struct layer_work w = {0};
    kernel_gemm(&ctx, big, big, big, false, &w);
    assert_close(2.0 * big * big * big / w.forward.gemm_s, GEMM_RATE, 1e-3);
    struct layer_work thin = {0};
    kernel_gemm(&ctx, 1.0, big, big, false, &thin);
    assert_true(thin.forward.gemm_s > 2.0 * big * big / HBM);
    for (double size = 1.0; size < 1e5; size *= 1.7) {
        struct layer_work a = {0}, b = {0};
        kernel_gemm(&ctx, size, 4096, 4096, false, &a);
        kernel_gemm(&ctx, 1.7 * size, 4096, 4096, false, &b);
        assert_true(b.forward.gemm_s > a.forward.gemm_s);       /* more work, more time */
        assert_true(b.forward.gemm_s / 1.7 < a.forward.gemm_s); /* at a better rate */
        assert_true(a.backward.gemm_s > 1.99 * a.forward.gemm_s);
    }
}

static void test_low_precision(void **state) {
    (void)state;
    static const double share[] = {.6867, .69, .75, .59}, peak[] = {2.25e15, 4.5e15, 4.5e15, 9e15};
    const double m = 8192, n = 4096, k = 4096;
    for (int p = 0; p < PRECISION_COUNT; ++p) {
        begin((enum precision)p);
        struct layer_work low = {0}, high = {0};
        kernel_gemm(&ctx, m, n, k, false, &low);
        kernel_gemm(&ctx, m, n, k, true, &high);
        const double saturated = 2.0 * m * n * k * (1 + 50 / m) * (1 + 50 / n) * (1 + 50 / k);
        const double bytes_s = 2.0 * (m * k + k * n + m * n) / HBM;
        assert_close(low.forward.gemm_s, saturated / (peak[p] * share[p] * .7035) + bytes_s, 1e-12);
        assert_close(high.forward.gemm_s, saturated / GEMM_RATE + bytes_s, 1e-12);
        assert_close_abs(high.forward.quantise_s, 0.0, 0.0);
        const double pass = p == PRECISION_BF16 ? 0.0 : 4.0 / HBM;
        assert_close_abs(low.forward.quantise_s, pass * m * k, 1e-15);
        assert_close_abs(low.backward.quantise_s, pass * m * n, 1e-15);
    }
}

static void test_grouped(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    const double h = 4096, width = 2560, rows = 1024, experts = 8;
    struct layer_work w = {0};
    kernel_grouped_ffn(&ctx, rows, experts, width, &w);
    const double flop = 2.0 * 3.0 * h * width * rows * experts;
    const double weights = 3.0 * h * width * experts;
    const double bytes = 2.0 * (weights + rows * experts * (2.0 * h + 3.0 * width));
    const double compute_s = flop / GEMM_RATE * (1.0 + 100.0 / rows);
    assert_close(w.forward_flop, flop, 1e-15);
    assert_close(w.forward.grouped_gemm_s, compute_s + bytes / HBM, 1e-12);
    assert_close(w.backward.grouped_gemm_s, 2.0 * compute_s + (2.2 * bytes + 4.0 * weights) / HBM,
                 1e-12);
    /* the same rows over more experts: the same FLOPs, more weight traffic, worse saturation */
    struct layer_work many = {0};
    kernel_grouped_ffn(&ctx, rows / 4.0, 4.0 * experts, width, &many);
    assert_close(many.forward_flop, flop, 1e-15);
    assert_true(many.forward.grouped_gemm_s > w.forward.grouped_gemm_s + 3.0 * 2.0 * weights / HBM);
}

/* The published table instead: flat beyond its ends, no weight traffic. */
static void test_grouped_by_table(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    ctx.estimator.grouped_curve = true;
    static const struct {
        double rows, forward, backward;
    } cases[] = {
        {64, .021, .012}, {1024, .31, .19}, {4096, .59, .48}, {1e6, .59, .48}, {1, .021, .012}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct layer_work w = {0};
        kernel_grouped_ffn(&ctx, cases[i].rows, 16.0, 2560.0, &w);
        assert_close(w.forward_flop / w.forward.grouped_gemm_s / 2.25e15, cases[i].forward, 2e-3);
        assert_close(2.0 * w.forward_flop / w.backward.grouped_gemm_s / 2.25e15, cases[i].backward,
                     2e-3);
    }
}

/* A core's FLOPs are half the full square: 2 s (d_qk + d_v) / 2 per query, head and direction. */
static void test_attention(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    struct layer_work w = {0};
    kernel_attention(&ctx, 4096.0, 32.0, 1, &w);
    const double flop = 4096.0 * 2048.0 * 32.0 * (128.0 + 128.0);
    assert_close(w.forward_flop, flop, 1e-15);
    assert_close(w.forward.attention_s, flop / 584e12, 1e-9); /* the curve's sample at 2048 */
    assert_close(w.backward.attention_s / w.forward.attention_s, 2.5 / .85, 1e-12);
    struct flop_counts f;
    count_flops(&model, 2048.0, &f);
    assert_close(3.0 * w.forward_flop * model.layers / 4096.0, f.attention_causal, 1e-12);
}

static void test_attention_without_a_curve(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    struct calibration cal = p6.calibration;
    cal.has_curve[CAL_ATTENTION_CURVE] = false;
    double last_rate = 0.0;
    for (int sequence = 1024; sequence <= 1 << 20; sequence *= 2) {
        work.sequence = sequence;
        step_context_init(&ctx, &model, &p6.cluster, &cal, &work, &p6.engine, estimator_default());
        assert_close(ctx.attention_flop_per_s, 2.25e15 * .59 / (1.0 + 800.0 / sequence), 1e-12);
        assert_true(ctx.attention_flop_per_s > last_rate);
        last_rate = ctx.attention_flop_per_s;
    }
}

/* A query of a windowed layer sees at most `window` keys; the others see half the sequence. */
static void test_window(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    work.sequence = 32768;
    step_context_init(&ctx, &model, &p6.cluster, &p6.calibration, &work, &p6.engine,
                      estimator_default());
    struct layer_work full = {0}, half = {0}, wide = {0};
    kernel_attention(&ctx, 1000.0, 32.0, 1, &full);
    model.window = 4096;
    model.window_layers = model.layers / 2;
    kernel_attention(&ctx, 1000.0, 32.0, 1, &half);
    assert_close(half.forward_flop / full.forward_flop, 0.5 + 0.5 * 2.0 * 4096.0 / 32768.0, 1e-12);
    model.window = 1 << 20; /* wider than the sequence */
    kernel_attention(&ctx, 1000.0, 32.0, 1, &wide);
    assert_close(wide.forward_flop, full.forward_flop, 1e-15);
}

static void test_stream(void **state) {
    (void)state;
    begin(PRECISION_BF16);
    struct layer_work w = {0};
    kernel_stream(&ctx, 1e9, 2.0, &w);
    kernel_stream(&ctx, 3e9, 1.5, &w);
    assert_close(w.forward.elementwise_s, 4e9 / HBM, 1e-12);
    assert_close(w.backward.elementwise_s, 6.5e9 / HBM, 1e-12);
    assert_close_abs(w.forward_flop, 0.0, 0.0);
}

/* A scale per block: another rate, and more bytes to quantise. */
static void test_block_scaling(void **state) {
    (void)state;
    begin(PRECISION_FP8);
    struct layer_work tensor = {0}, block = {0};
    kernel_gemm(&ctx, 8192.0, 8192.0, 8192.0, false, &tensor);
    struct calibration cal = p6.calibration;
    cal.scalar[CAL_GEMM_BLOCK_FACTOR] = 0.5;
    cal.scalar[CAL_QUANTISE_BLOCK_BYTES] = 2.0 * cal.scalar[CAL_QUANTISE_BYTES];
    work.execution.block_scaling = true;
    step_context_init(&ctx, &model, &p6.cluster, &cal, &work, &p6.engine, estimator_default());
    kernel_gemm(&ctx, 8192.0, 8192.0, 8192.0, false, &block);
    assert_close(block.forward.quantise_s, 2.0 * tensor.forward.quantise_s, 1e-12);
    assert_true(block.forward.gemm_s > 1.5 * tensor.forward.gemm_s);
    assert_true(block.forward.gemm_s < 2.0 * tensor.forward.gemm_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_limits),
        cmocka_unit_test(test_low_precision),
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_grouped_by_table),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_without_a_curve),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_block_scaling),
        cmocka_unit_test(test_stream),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
