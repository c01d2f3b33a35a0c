// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/step/memory.c: items and their sum, bytes per parameter, what is in flight on each stage,
 * recomputation, logits, verdicts, the released estimator's shortfalls.
 */
#include "known_models.h"
#include "p6.h"

static struct point a, b;

static struct mesh plain(int pp) {
    return (struct mesh){.tp = 1, .cp = 1, .pp = pp, .vpp = 1, .ep = 8, .etp = 1, .micro_batch = 1};
}

static double parameters(const struct point *p, int stage, double *expert) {
    struct stage_content c;
    const struct stage_range range = {stage, p->split.first[stage], p->split.first[stage + 1]};
    stage_content_of(&p->ctx, &p->table, &p->mesh, range, &c);
    *expert = c.expert_params;
    return c.dense_params;
}

/* 2 + 4 + 12 bytes; the 12 over DP x CP for dense parameters, over expert-DP for routed ones. */
static void test_bytes_per_parameter(void **state) {
    (void)state;
    struct mesh m = plain(4);
    m.cp = 2;
    m.tp = 2;
    p6_predict(&a, &qwen3_30b_a3b, estimator_default(), m);
    assert_int_equal(a.mesh.dp, 16);
    assert_int_equal(mesh_edp(&a.mesh), 8);
    for (int i = 0; i < 4; ++i) {
        double expert;
        const double dense = parameters(&a, i, &expert);
        assert_close_abs(a.stages[i].weights, 2.0 * (dense + expert), 1.0);
        assert_close_abs(a.stages[i].gradients, 4.0 * (dense + expert), 1.0);
        assert_close_abs(a.stages[i].optimizer, 12.0 * (dense / 32.0 + expert / 8.0), 1.0);
    }
    p6.workload.optimizer = OPTIMIZER_MUON; /* one moment */
    p6_predict(&b, &qwen3_30b_a3b, estimator_default(), m);
    p6.workload.optimizer = OPTIMIZER_ADAMW;
    assert_close_abs(b.stages[1].optimizer, a.stages[1].optimizer * 8.0 / 12.0, 1.0);
    assert_true(b.stages[1].gradients == a.stages[1].gradients);
    assert_true(b.stages[1].activations == a.stages[1].activations);
}

/* The usual hidden bill: EP that fills DP leaves one copy of each expert, and nothing to shard its
 * optimizer state over. */
static void test_expert_optimizer_without_copies(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(1);
    const struct mesh m = plain(1);
    assert_true(point_prepare(&a, &c, &p6.calibration, &p6.workload, &qwen3_30b_a3b,
                              estimator_default(), m));
    point_predict(&a);
    double expert;
    const double dense = parameters(&a, 0, &expert);
    assert_close_abs(a.out.memory.optimizer, 12.0 * (dense / 8.0 + expert), 1.0);
}

/* 1F1B: stage i of p holds p - i micro-batches, but never more than there are. */
static void test_in_flight(void **state) {
    (void)state;
    struct geometry g = ladder(8, 64, 2, 4);
    g.first_dense = 0;
    const struct mesh m = plain(4);
    p6_predict(&a, &g, estimator_default(), m);
    assert_int_equal(a.mesh.micro_batches, 16);
    const double layer = 8.0 * a.table.cost[LAYER_MOE].kept_bytes;
    for (int i = 0; i < 4; ++i) {
        const double ends = i == 3 ? a.table.head_kept_bytes : 0.0;
        assert_close_abs(a.stages[i].activations, (4.0 - i) * layer + ends, 1.0);
        assert_close_abs(a.stages[i].routed,
                         (4.0 - i) * 8.0 * a.table.cost[LAYER_MOE].kept_routed_bytes, 1.0);
    }
    p6.workload.global_batch = 2 * a.mesh.dp; /* two micro-batches */
    p6_predict(&b, &g, estimator_default(), m);
    p6.workload.global_batch = 1024;
    assert_close_abs(b.stages[0].activations, 2.0 * layer, 1.0);
    assert_close_abs(b.stages[1].activations, 2.0 * layer, 1.0);
    assert_close_abs(b.stages[2].activations, 2.0 * layer, 1.0);
}

/* U41: interleaving holds 1 + (p - 1) / (p v) times as much as 1F1B on the first stage. */
static void test_in_flight_interleaved(void **state) {
    (void)state;
    struct geometry g = ladder(8, 64, 2, 4);
    g.first_dense = 0;
    struct mesh m = plain(8);
    p6_predict(&a, &g, estimator_default(), m);
    m.vpp = 4;
    p6_predict(&b, &g, estimator_default(), m);
    assert_close(b.stages[0].activations / a.stages[0].activations, 1.0 + 7.0 / 32.0, 1e-6);
    assert_true(b.out.step_time_s < a.out.step_time_s);
}

/* Embedding on the first stage, head, logits and loss on the last (U25). */
static void test_ends(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    p6_predict(&a, &g, estimator_default(), plain(4));
    for (int i = 0; i < 3; ++i)
        assert_close_abs(a.stages[i].logits, 0.0, 0.0);
    assert_close_abs(a.stages[3].logits, 4.4 * 2048.0 * 50304.0, 1.0);
    /* a middle stage of eight MoE layers, the first with its dense layer and the embedding, the
     * last with the head */
    double expert;
    const double middle = parameters(&a, 1, &expert), end = 4096.0 * 50304.0;
    assert_close(parameters(&a, 3, &expert), middle + end, 1e-12);
    const double swapped = a.table.params[LAYER_DENSE].dense - a.table.params[LAYER_MOE].dense;
    assert_close(parameters(&a, 0, &expert), middle + end + swapped, 1e-12);
    /* the first stage holds four micro-batches: it decides here */
    assert_int_equal(a.out.worst_stage, 0);
}

static void test_recompute_saves(void **state) {
    (void)state;
    static struct sample s;
    static struct point mode[RECOMPUTE_MODES];
    struct calibration cal = p6.calibration; /* no host: the GPU decides */
    cal.scalar[CAL_HOST_GAP] = cal.scalar[CAL_HOST_MICRO_BATCH] = cal.scalar[CAL_HOST_EP_SYNC] =
        0.0;
    cal.scalar[CAL_DP_OVERLAP] = 0.0; /* nor does a longer backward hide more */
    for (int i = 0; i < 4000; ++i) {
        random_sample(&s, estimator_default());
        for (int r = 0; r < RECOMPUTE_MODES; ++r) {
            struct mesh m = s.at.mesh;
            m.recompute = (enum recompute)r;
            assert_true(point_prepare(&mode[r], &s.cluster, &cal, &s.workload, &s.geometry,
                                      estimator_default(), m));
            point_predict(&mode[r]);
        }
        for (int r = 1; r < RECOMPUTE_MODES; ++r) {
            assert_true(mode[r].out.step_time_s > mode[r - 1].out.step_time_s);
            assert_true(mode[r].out.mfu < mode[r - 1].out.mfu);
        }
        const double rounding = 32.0; /* an item is a whole byte, and fragmentation a share */
        assert_true(mode[RECOMPUTE_FULL].out.memory.total <=
                    mode[RECOMPUTE_NONE].out.memory.total + rounding);
        assert_true(mode[RECOMPUTE_SELECTIVE].out.memory.total <=
                    mode[RECOMPUTE_NONE].out.memory.total + rounding);
        assert_true(mode[RECOMPUTE_FULL].out.hfu / mode[RECOMPUTE_FULL].out.mfu >
                    mode[RECOMPUTE_NONE].out.hfu / mode[RECOMPUTE_NONE].out.mfu);
    }
}

/* What cuts memory cuts it: more EP, TP, DP; and what costs it costs it. */
static void test_directions(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    struct mesh m = plain(2);
    m.ep = 2;
    p6_predict(&a, &g, estimator_default(), m);
    m.ep = 8;
    p6_predict(&b, &g, estimator_default(), m);
    assert_true(b.stages[0].weights < a.stages[0].weights);
    assert_close(b.stages[0].activations, a.stages[0].activations, 0.0);
    assert_close(b.stages[0].routed, a.stages[0].routed, 1e-12);
    m.micro_batch = 4;
    p6_predict(&a, &g, estimator_default(), m);
    assert_close(a.stages[0].activations, 4.0 * b.stages[0].activations, 1e-6);
    assert_true(a.stages[0].weights == b.stages[0].weights);
    m.micro_batch = 1;
    m.tp = 2;
    p6_predict(&a, &g, estimator_default(), m);
    assert_true(a.out.memory.total < b.out.memory.total);
    m.tp = 1;
    m.pp = 4;
    p6_predict(&a, &g, estimator_default(), m);
    assert_true(a.out.memory.total < b.out.memory.total);
}

static void test_reserve_and_fragmentation(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    struct calibration cal = p6.calibration;
    cal.scalar[CAL_RESERVE_BYTES] = 3e9;
    cal.scalar[CAL_COMMUNICATOR_BYTES] = 0.0;
    assert_true(
        point_prepare(&a, &p6.cluster, &cal, &p6.workload, &g, estimator_default(), plain(4)));
    point_predict(&a);
    assert_close_abs(a.out.memory.reserve, 3e9, 0.0);
    cal.scalar[CAL_COMMUNICATOR_BYTES] = 1e9; /* of PP, EP, DP and expert-DP */
    assert_true(
        point_prepare(&a, &p6.cluster, &cal, &p6.workload, &g, estimator_default(), plain(4)));
    point_predict(&a);
    const struct mesh *const m = &a.mesh;
    const int communicators = (m->pp > 1) + (m->ep > 1) + (m->dp > 1) + (mesh_edp(m) > 1);
    assert_close_abs(a.out.memory.reserve, 3e9 + 1e9 * communicators, 0.0);
    assert_close_abs(a.out.memory.fragmentation, 0.04 * a.out.allocated_bytes, 1.0);
    assert_close_abs(a.out.allocated_bytes + a.out.memory.reserve + a.out.memory.fragmentation,
                     a.out.memory.total, 0.0);
}

static void test_verdict(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    p6_predict(&a, &g, estimator_default(), plain(4));
    static const struct {
        double share;
        enum verdict verdict;
    } cases[] = {{.1, VERDICT_FITS},
                 {.9, VERDICT_FITS},
                 {.901, VERDICT_TIGHT},
                 {1, VERDICT_TIGHT},
                 {1.001, VERDICT_NO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        assert_int_equal(memory_verdict(&a.ctx, cases[i].share * 179e9), cases[i].verdict);
    /* a device one byte short */
    struct cluster c = p6.cluster;
    c.device.memory_bytes = a.out.memory.total;
    assert_true(
        point_prepare(&b, &c, &p6.calibration, &p6.workload, &g, estimator_default(), plain(4)));
    point_predict(&b);
    assert_int_equal(b.out.verdict, VERDICT_TIGHT);
    c.device.memory_bytes -= 1.0;
    point_predict(&b);
    assert_int_equal(b.out.verdict, VERDICT_NO);
}

/* DeepSeek-V3 has 671e9 parameters: 18 bytes each do not fit eight GPUs however they are cut. */
static void test_impossible(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(1);
    for (int ep = 1; ep <= 8; ep *= 2)
        for (int pp = 1; ep * pp <= 8; pp *= 2) {
            struct mesh m = plain(pp);
            m.ep = ep;
            m.recompute = RECOMPUTE_FULL;
            assert_true(point_prepare(&a, &c, &p6.calibration, &p6.workload, &deepseek_v3,
                                      estimator_default(), m));
            const double bound = step_memory_bound(&a.ctx, &a.table, &a.mesh);
            assert_true(bound > 671e9 * 18.0 / 8.0 * 0.95); /* all but the head counts */
            assert_int_equal(memory_verdict(&a.ctx, bound), VERDICT_NO);
        }
}

/* The release shards gradients and expert states over all of DP and holds no logits. */
static void test_released_memory(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    p6_predict(&a, &g, estimator_published(), plain(4));
    p6_predict(&b, &g, estimator_default(), plain(4));
    double expert;
    const double dense = parameters(&a, 3, &expert);
    assert_close_abs(a.stages[3].gradients, 4.0 * (dense + expert) / 64.0, 1.0);
    assert_close_abs(a.stages[3].optimizer, 10.0 * (dense + expert) / 64.0, 1.0);
    assert_close_abs(a.stages[3].logits, 0.0, 0.0);
    for (int i = 0; i < 4; ++i)
        assert_true(a.stages[i].total < b.stages[i].total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_per_parameter),
        cmocka_unit_test(test_expert_optimizer_without_copies),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_in_flight_interleaved),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_recompute_saves),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_reserve_and_fragmentation),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_impossible),
        cmocka_unit_test(test_released_memory),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
