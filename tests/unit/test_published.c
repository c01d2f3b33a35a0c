// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The released estimator's terms (src/step/published.c, estimator.c): the paper's Table 4 plan, the
 * composition by hand, chi's cases, the list of switches.
 */
#include "p6.h"

static struct point p;

/* q 12, E 96, K 2, G 4 on 32 nodes. */
static const struct mesh table_4 = {.tp = 1,
                                    .cp = 1,
                                    .pp = 8,
                                    .vpp = 1,
                                    .ep = 8,
                                    .etp = 1,
                                    .micro_batch = 4,
                                    .recompute = RECOMPUTE_FULL};

static void test_table_4(void **state) {
    (void)state;
    const struct geometry g = ladder(12, 96, 2, 4);
    p6_predict(&p, &g, estimator_published(), table_4);
    assert_close(p.out.step_time_s, 2.55, .03);
    assert_close_abs(p.out.mfu_6n, .124, .004);
    struct param_counts n;
    count_params(&g, &n);
    assert_close_abs(n.sparsity, .956, 5e-4);
    const double seconds = 20.0 * 86400.0;
    const double tokens = p.out.tokens_per_s_per_gpu * 256.0 * seconds;
    assert_close(tokens, 1.42e12, .03);
    const struct law_point at = {n.n_total_law, tokens, n.sparsity, g.granularity};
    assert_close_abs(law_loss(&p6.law, &at), 1.3898, .001);
}

/* t_block, bubble and head by hand from the layer table. */
static void test_composition(void **state) {
    (void)state;
    const struct geometry g = ladder(12, 96, 2, 4);
    p6_predict(&p, &g, estimator_published(), table_4);
    const struct layer_cost *const layer = &p.table.cost[LAYER_MOE];
    const double m = 8.0, fraction = 7.0 / 8.0;
    assert_int_equal(p.mesh.micro_batches, 8);
    const double host_s = 6.0 * ((642.0 + 7.29 * 12.0) * 22e-6 + 10e-3) + 24e-3;
    const double micro_batch_s = fmax(6.0 * layer->gpu_s, host_s);
    const struct time_split *const t = &p.out.split;
    const double compute_s = t->gemm_s + t->grouped_gemm_s + t->attention_s + t->elementwise_s +
                             t->router_s + t->permute_s + t->quantise_s + t->recompute_s +
                             t->tp_exposed_s + t->cp_exposed_s + t->ep_exposed_s;
    assert_close(compute_s + t->dispatch_exposed_s, m * micro_batch_s, 1e-12);
    assert_close(t->bubble_s, fraction * m * (micro_batch_s + p.table.head_s), 1e-12);
    const double first_s = p.table.embedding.gpu_s, last_s = p.table.head_s;
    assert_close(t->head_loss_s, 7.0 * fmax(first_s, last_s) + first_s + last_s, 1e-12);
    assert_close_abs(t->stage_imbalance_s + t->straggler_s, 0.0, 0.0);
    /* PP 8 fills a node by the release's count: a credit of 18 % */
    assert_close(t->correction_s / (p.out.step_time_s - t->correction_s), -.18, 1e-12);
}

/* 48 layers over 5 stages count as 10 a stage. */
static void test_uneven_layers(void **state) {
    (void)state;
    const struct geometry g = ladder(12, 96, 2, 4);
    const struct cluster c = p6_nodes(5);
    struct mesh m = table_4;
    m.pp = 5;
    assert_true(point_prepare(&p, &c, &p6.calibration, &p6.workload, &g, estimator_published(), m));
    point_predict(&p);
    const double n_mb = p.mesh.micro_batches;
    assert_close(p.out.split.attention_s, 10.0 * n_mb * p.table.cost[LAYER_MOE].kernels.attention_s,
                 1e-12);
}

static double chi(struct mesh m) {
    const struct geometry g = ladder(8, 128, 3, 4);
    p6_predict(&p, &g, estimator_published(), m);
    return p.out.step_time_s / (p.out.step_time_s - p.out.split.correction_s);
}

static void test_chi(void **state) {
    (void)state;
    struct mesh m = {.tp = 1,
                     .cp = 1,
                     .pp = 4,
                     .vpp = 1,
                     .ep = 8,
                     .etp = 1,
                     .micro_batch = 1,
                     .recompute = RECOMPUTE_FULL};
    assert_close(chi(m), 1.0, 1e-12); /* inside a node */
    m.pp = 8;
    assert_close(chi(m), .82, 1e-12);
    m.pp = 16; /* two nodes */
    assert_close(chi(m), 1.5, 1e-12);
    m.pp = 32;
    assert_close(chi(m), 2.5, 1e-12);
    m.pp = 4;
    m.ep = 16; /* leaves the node: by the share of its all-to-alls */
    const double wide = chi(m);
    const double raw_s = p.out.step_time_s - p.out.split.correction_s;
    const double wire_s =
        p.mesh.micro_batches * 8.0 * p.table.cost[LAYER_MOE].all_to_all_s; /* 8 layers a stage */
    assert_close(wide, 1.0 + 1.2 * wire_s / raw_s, 1e-12);
    assert_true(wide > 1.01);
    p6.calibration.scalar[CAL_CHI_OVERLAP] = -.9;
    m.pp = 8;
    m.ep = 8;
    assert_close(chi(m), .5, 1e-12); /* never below the floor */
    assert_int_equal(p6_load(NULL), 0);
}

/* With one stage all DP traffic shows and the head counts once a micro-batch. */
static void test_one_stage(void **state) {
    (void)state;
    const struct geometry g = ladder(4, 128, 3, 4);
    struct mesh m = table_4;
    m.pp = 1;
    m.micro_batch = 1;
    p6_predict(&p, &g, estimator_published(), m);
    const struct time_split *const t = &p.out.split;
    assert_close_abs(t->bubble_s + t->pp_exposed_s + t->correction_s, 0.0, 0.0);
    assert_close(t->head_loss_s, p.mesh.micro_batches * (p.table.embedding.gpu_s + p.table.head_s),
                 1e-12);
    const struct network *const net = &p.ctx.network;
    const struct group dense = {256, 1}, expert = {32, 8};
    const double dense_params =
        p.table.params[LAYER_DENSE].dense + 15.0 * p.table.params[LAYER_MOE].dense;
    const double expert_params = 15.0 * p.table.params[LAYER_MOE].expert;
    assert_close(
        t->dp_exposed_s,
        collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, dense, 4.0 * dense_params, NULL) +
            collective_time_s(net, COLLECTIVE_ALL_GATHER, dense, 2.0 * dense_params, NULL) +
            collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, expert, 4.0 * expert_params, NULL) +
            collective_time_s(net, COLLECTIVE_ALL_GATHER, expert, 2.0 * expert_params, NULL),
        1e-12);
}

/* Under its launch floor active parameters are free: K 1 and K 8 take the same time (so a search of
 * this estimator runs to large K). */
static void test_active_parameters_are_free(void **state) {
    (void)state;
    struct mesh m = table_4;
    m.pp = 1;
    m.micro_batch = 1;
    m.recompute = RECOMPUTE_NONE;
    const struct geometry few = ladder(4, 128, 1, 4), many = ladder(4, 128, 4, 4);
    p6_predict(&p, &few, estimator_published(), m);
    const double few_s = p.out.step_time_s;
    p6_predict(&p, &many, estimator_published(), m);
    assert_close(p.out.step_time_s, few_s, 1e-9);
}

/* No stage splits: the release knows the ceiling of layers per stage only. */
static void test_split_does_not_matter(void **state) {
    (void)state;
    const struct geometry g = ladder(12, 96, 2, 4);
    p6_predict(&p, &g, estimator_published(), table_4);
    const double even_s = p.out.step_time_s;
    random_split(g.layers, 8, &p.split);
    point_predict(&p);
    assert_close(p.out.step_time_s, even_s, 0.0);
}

static void test_switches(void **state) {
    (void)state;
    const struct estimator on = estimator_published(), off = estimator_default();
    const char *text;
    bool is_on;
    for (int i = 0; i < ESTIMATOR_SWITCH_COUNT; ++i) {
        const char *const name = estimator_switch(&on, i, &text, &is_on);
        assert_non_null(name);
        assert_true(is_on && text[0] != '\0');
        assert_string_equal(estimator_switch(&off, i, &text, &is_on), name);
        assert_false(is_on);
    }
    assert_null(estimator_switch(&on, ESTIMATOR_SWITCH_COUNT, &text, &is_on));
    assert_null(estimator_switch(&on, -1, &text, &is_on));
}

static void test_names(void **state) {
    (void)state;
    const struct prediction zero = {.step_time_s = 0.0};
    double value;
    assert_string_equal(time_term(&zero.split, 0, &value), "gemm_s");
    assert_string_equal(time_term(&zero.split, TIME_TERM_COUNT - 1, &value), "correction_s");
    assert_null(time_term(&zero.split, TIME_TERM_COUNT, &value));
    assert_null(time_term(&zero.split, -1, &value));
    assert_string_equal(memory_item(&zero.memory, MEMORY_ITEM_COUNT - 1, &value), "fragmentation");
    assert_null(memory_item(&zero.memory, MEMORY_ITEM_COUNT, &value));
    assert_string_equal(verdict_name(VERDICT_FITS), "fits");
    assert_string_equal(verdict_name(VERDICT_TIGHT), "tight");
    assert_string_equal(verdict_name(VERDICT_NO), "no");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_4),
        cmocka_unit_test(test_composition),
        cmocka_unit_test(test_uneven_layers),
        cmocka_unit_test(test_chi),
        cmocka_unit_test(test_one_stage),
        cmocka_unit_test(test_active_parameters_are_free),
        cmocka_unit_test(test_split_does_not_matter),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
