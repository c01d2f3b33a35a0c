// SPDX-License-Identifier: GPL-3.0-or-later
/* Activations and optimizer state on the host: bytes, time, capacity, bounds. */
#include "p6.h"

static struct point a, b;

static struct mesh shape(void) {
    return (struct mesh){.tp = 1, .cp = 1, .pp = 4, .vpp = 1, .ep = 8, .etp = 1, .micro_batch = 2};
}

static void run(struct point *at, double activations, double optimizer) {
    const struct geometry g = ladder(8, 64, 2, 4);
    p6.workload.execution =
        (struct execution){.offload_activations = activations, .offload_optimizer = optimizer};
    p6_predict(at, &g, estimator_default(), shape());
}

static void test_bytes_move(void **state) {
    (void)state;
    run(&a, 0.0, 0.0);
    assert_true(a.out.host_bytes == 0.0 && a.out.split.offload_exposed_s == 0.0);
    run(&b, 0.25, 0.5);
    for (int i = 0; i < 4; ++i) {
        /* The head's activations, a fixed amount of the last stage, stay. */
        const double fixed = i == 3 ? a.table.head_kept_bytes : 0.0;
        assert_close(b.stages[i].activations - fixed, 0.75 * (a.stages[i].activations - fixed),
                     1e-6);
        assert_close(b.stages[i].routed, 0.75 * a.stages[i].routed, 1e-6);
        assert_close(b.stages[i].optimizer, 0.5 * a.stages[i].optimizer, 1e-6);
        assert_true(b.stages[i].weights == a.stages[i].weights);
        assert_true(b.stages[i].gradients == a.stages[i].gradients);
    }
    /* Stage 0 has most micro-batches in flight and the embedding. */
    assert_close(
        b.out.host_bytes,
        0.25 * (a.stages[0].activations + a.stages[0].routed) + 0.5 * a.stages[0].optimizer, 1e-6);
}

/* Half of what a part keeps, part by part: they add up to half of all, whatever is recomputed. */
static void test_parts(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        struct mesh m = shape();
        m.recompute = (enum recompute)r;
        double sum = 0.0;
        for (int part = 0; part < OFFLOADS; ++part) {
            p6.workload.execution = (struct execution){.offload_activations = 0.5,
                                                       .offload_parts = 1U << (unsigned)part};
            p6_predict(&a, &g, estimator_default(), m);
            sum += a.out.host_bytes;
            const bool is_routed = part == PART_EXPERT_INPUT || part == PART_EXPERT_ACTIVATION;
            const bool keeps = r != (int)RECOMPUTE_FULL || part == PART_NORM;
            const struct layer_cost *const cost = &a.table.cost[LAYER_MOE];
            assert_true((cost->away_routed_bytes > 0.0) == (keeps && is_routed));
            if (part != PART_FFN) /* no layer of this model has one */
                assert_true((cost->away_bytes > 0.0) == (keeps && !is_routed));
        }
        p6.workload.execution = (struct execution){.offload_activations = 0.5};
        p6_predict(&b, &g, estimator_default(), m);
        assert_close(sum, b.out.host_bytes, 1e-9);
        assert_true(b.out.host_bytes > 0.0);
    }
}

static void test_time(void **state) {
    (void)state;
    const double link = p6.cluster.host_link_bytes_per_s;
    double before_s = INFINITY;
    for (double factor = 0.125; factor < 100.0; factor *= 4.0) {
        p6.cluster.host_link_bytes_per_s = factor * link;
        run(&b, 1.0, 1.0);
        assert_true(b.out.step_time_s <= before_s);
        assert_true(step_bound(&b.ctx, &b.table, &b.mesh) <= b.out.step_time_s);
        assert_true(step_memory_bound(&b.ctx, &b.table, &b.mesh) <= b.out.memory.total);
        before_s = b.out.step_time_s;
    }
    /* Activations alone hide wholly behind compute when the link is fast enough. */
    run(&a, 0.0, 0.0);
    run(&b, 1.0, 0.0);
    assert_close_abs(b.out.split.offload_exposed_s, 0.0, 0.0);
    assert_close(b.out.step_time_s, a.out.step_time_s, 1e-12);
    p6.cluster.host_link_bytes_per_s = link;
}

/* Gradients there, weights back, and the host's own step. */
static void test_optimizer_time(void **state) {
    (void)state;
    run(&a, 0.0, 0.0);
    run(&b, 0.0, 1.0);
    const double *const scalar = p6.calibration.scalar;
    const double rate = p6.cluster.host_link_bytes_per_s * scalar[CAL_HOST_LINK_SHARE];
    double longest_s = 0.0;
    for (int i = 0; i < 4; ++i) {
        const double params = a.stages[i].optimizer / 12.0;
        longest_s = fmax(longest_s, params * (6.0 / rate + 1.0 / scalar[CAL_HOST_OPTIMIZER_RATE]));
    }
    assert_close(b.out.split.offload_exposed_s, longest_s, 1e-6);
    assert_close(b.out.split.optimizer_s, scalar[CAL_OPTIMIZER_FIXED], 1e-9);
}

static void test_host_capacity(void **state) {
    (void)state;
    run(&a, 1.0, 1.0);
    assert_int_not_equal(a.out.verdict, VERDICT_NO);
    p6.cluster.host_memory_bytes = 7.9 * a.out.host_bytes;
    run(&a, 1.0, 1.0);
    assert_int_equal(a.out.verdict, VERDICT_NO);
    p6.cluster.host_memory_bytes = 8.1 * a.out.host_bytes;
    run(&a, 1.0, 1.0);
    assert_int_not_equal(a.out.verdict, VERDICT_NO);
    p6.cluster.host_memory_bytes = 0.0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_move),    cmocka_unit_test(test_parts),
        cmocka_unit_test(test_time),          cmocka_unit_test(test_optimizer_time),
        cmocka_unit_test(test_host_capacity),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
