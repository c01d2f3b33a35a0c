// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Physics of the default estimator at random points: a faster part never makes a slower step, more
 * of a cost never a faster one.
 */
#include "p6.h"

static struct sample s;
static struct point after;
static struct calibration unmeasured; /* link bounds decide: links may be changed */

enum { POINTS = 4000 };

/* The step of the sample after a change of its cluster and calibration. */
static double step_after(const struct cluster *cluster, const struct calibration *calibration) {
    assert_true(point_prepare(&after, cluster, calibration, &s.workload, &s.geometry,
                              s.at.ctx.estimator, s.at.mesh));
    after.split = s.at.split;
    point_predict(&after);
    return after.out.step_time_s;
}

static void draw(const struct calibration *calibration) {
    random_sample(&s, estimator_default());
    assert_true(point_prepare(&s.at, &s.cluster, calibration, &s.workload, &s.geometry,
                              s.at.ctx.estimator, s.at.mesh));
    if (s.at.mesh.vpp == 1)
        random_split(s.geometry.layers, s.at.mesh.pp, &s.at.split);
    point_predict(&s.at);
}

static int make_unmeasured(void **state) {
    if (p6_load(state) != 0)
        return -1;
    unmeasured = p6.calibration;
    unmeasured.collective_count = 0;
    return 0;
}

/* Where launches set the pace, a faster GPU moves the boundary between forward and backward, and
 * with it the windows of the DP collectives: a few buckets may come out of hiding.  That is the
 * only way for a step to get slower, and it cannot exceed what came out (straggler growth
 * included). */
static double came_out_s(void) {
    const struct time_split *const was = &s.at.out.split, *const is = &after.out.split;
    const double tail_s = is->dp_exposed_s + is->optimizer_s - was->dp_exposed_s - was->optimizer_s;
    return tail_s * step_straggler_factor(&after.ctx);
}

static void expect_not_slower(double new_s, const char *what) {
    const double slack_s = s.at.out.split.dispatch_exposed_s > 0.0 ? fmax(came_out_s(), 0.0) : 0.0;
    if (new_s > s.at.out.step_time_s * (1.0 + 1e-12) + slack_s * (1.0 + 1e-9))
        fail_msg("%s: %.17g s -> %.17g s, %g s came out of hiding", what, s.at.out.step_time_s,
                 new_s, slack_s);
}

static void expect_not_faster(double new_s, const char *what) {
    const double slack_s = fmax(-came_out_s(), 0.0);
    if (new_s < s.at.out.step_time_s * (1.0 - 1e-12) - slack_s * (1.0 + 1e-9))
        fail_msg("%s: %.17g s -> %.17g s, %g s hidden", what, s.at.out.step_time_s, new_s, slack_s);
}

static void test_faster_devices(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration);
        struct cluster c = s.cluster;
        c.device.hbm_bytes_per_s *= 1.6;
        expect_not_slower(step_after(&c, &p6.calibration), "HBM");
        c = s.cluster;
        for (int k = 0; k < PRECISION_COUNT; ++k)
            c.device.peak_flop_per_s[k] *= 1.6;
        expect_not_slower(step_after(&c, &p6.calibration), "peak");
        assert_true(after.out.mfu < s.at.out.mfu); /* of a higher peak less is reached */
    }
}

static void test_faster_links(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&unmeasured);
        for (int tier = 0; tier < s.cluster.tier_count; ++tier) {
            struct cluster c = s.cluster;
            c.tiers[tier].bytes_per_s *= 2.0;
            expect_not_slower(step_after(&c, &unmeasured), c.tiers[tier].name);
            c = s.cluster;
            c.tiers[tier].latency_s = 0.0;
            expect_not_slower(step_after(&c, &unmeasured), "latency");
        }
    }
}

/* More of each of these costs time, and takes none away. */
static void test_costs_cost(void **state) {
    (void)state;
    static const enum scalar costs[] = {CAL_HOST_KERNELS_MOE, CAL_HOST_KERNELS_DENSE,
                                        CAL_HOST_GAP,         CAL_HOST_MICRO_BATCH,
                                        CAL_HOST_EP_SYNC,     CAL_CROSS_ENTROPY_PASSES,
                                        CAL_ROUTER_BYTES,     CAL_OPTIMIZER_BYTES,
                                        CAL_OPTIMIZER_FIXED,  CAL_STRAGGLER,
                                        CAL_TP_BACKWARD,      CAL_GROUPED_HALF_ROWS,
                                        CAL_GEMM_HALF_SIZE,   CAL_ATTENTION_BACKWARD_FLOP};
    int grew[sizeof costs / sizeof costs[0]] = {0};
    for (int i = 0; i < POINTS / 2; ++i) {
        draw(&p6.calibration);
        for (size_t k = 0; k < sizeof costs / sizeof costs[0]; ++k) {
            struct calibration cal = p6.calibration;
            cal.scalar[costs[k]] *= 1.5;
            const double new_s = step_after(&s.cluster, &cal);
            expect_not_faster(new_s, calibration_scalar_info(costs[k])->key);
            grew[k] += new_s > s.at.out.step_time_s;
        }
    }
    for (size_t k = 0; k < sizeof costs / sizeof costs[0]; ++k)
        if (grew[k] == 0)
            fail_msg("%s never mattered", calibration_scalar_info(costs[k])->key);
}

/* A busier expert rank costs; a lighter precision helps where GEMMs are large and shows in none of
 * the 16-bit parts. */
static void test_imbalance_and_precision(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration);
        const struct workload before = s.workload;
        s.workload.imbalance = before.imbalance * 1.5;
        const double new_s = step_after(&s.cluster, &p6.calibration);
        expect_not_faster(new_s, "imbalance");
        assert_true(after.out.memory.total >= s.at.out.memory.total);
        s.workload = before;
        s.workload.precision = PRECISION_BF16;
        (void)step_after(&s.cluster, &p6.calibration);
        assert_close_abs(after.out.split.quantise_s, 0.0, 0.0);
        assert_close(after.out.split.attention_s, s.at.out.split.attention_s, 1e-12);
        if (s.geometry.mtp_layers == 0) /* their GEMMs count with the head */
            assert_close(after.out.split.head_loss_s, s.at.out.split.head_loss_s, 1e-12);
        assert_close(after.out.split.router_s, s.at.out.split.router_s, 1e-12);
        if (before.precision != PRECISION_BF16) {
            assert_true(s.at.out.split.quantise_s > 0.0);
            assert_true(s.at.out.split.gemm_s < after.out.split.gemm_s);
        }
    }
}

/* The whole model's work does not depend on how it is laid out: with TP, EP, PP and DP changed at
 * will, recomputation off and perfect balance, the GPUs together run the same GEMM FLOPs. */
static void test_work_is_conserved(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration);
        s.workload.imbalance = 1.0;
        struct mesh m = s.at.mesh;
        m.recompute = RECOMPUTE_FULL; /* tells the forward FLOPs of the layers */
        assert_true(point_prepare(&after, &s.cluster, &p6.calibration, &s.workload, &s.geometry,
                                  estimator_default(), m));
        const double moe = geometry_moe_layers(&s.geometry);
        const double per_gpu =
            (s.geometry.layers - moe) * after.table.cost[LAYER_DENSE].recompute_flop +
            moe * after.table.cost[LAYER_MOE].recompute_flop;
        const double tokens = (double)m.micro_batch * s.workload.sequence;
        struct geometry g = s.geometry;
        g.mtp_layers = 0;
        struct flop_counts f;
        count_flops(&g, s.workload.sequence, &f);
        const double head = 6.0 * g.hidden * (double)g.vocab;
        double want = (f.causal - head) / 3.0;
        const double kv = g.kv_heads > 0 && m.tp > g.kv_heads ? m.tp - g.kv_heads : 0.0;
        want += 2.0 * g.hidden * kv * (g.head_dim + g.v_head_dim) * g.layers; /* replicated */
        assert_close(per_gpu * m.tp * m.cp / tokens, want, 1e-9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faster_devices),    cmocka_unit_test(test_faster_links),
        cmocka_unit_test(test_costs_cost),        cmocka_unit_test(test_imbalance_and_precision),
        cmocka_unit_test(test_work_is_conserved),
    };
    return cmocka_run_group_tests(tests, make_unmeasured, NULL);
}
