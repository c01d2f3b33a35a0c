// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Measured utilisation that the paper prints (arXiv 2608.10605): the 29 bars of its validation
 * figures and the four staged runs of its Table 5, against both estimators.
 *
 * Bars are heights over the panel's best prediction, read from the figures to about 0.3 %; the MFU
 * of that prediction was found by running the authors' release (github.com/dmlc/ScalePlan, commit
 * 7ef065f) on the same layouts.  That MFU counts 6 x active parameters, every embedding matrix in:
 * 1.70e9 for the 0.7B model and 20.98e9 for the 18B one.  For the 5.4B model no count is on record;
 * the rule gives 6.47e9 (4.36e9 without shared expert, two embeddings of 257,664 rows), which would
 * put each of the release's ten predictions a fifth away from its own terms, so the nominal count
 * is taken.  Errors after one factor a panel do not depend on any of this.
 */
#include "p6.h"

enum { PANELS = 4, BARS_MAX = 15 };

struct bar {
    int pp, ep, dp, micro_batch;
    double predicted, measured; /* over the panel's best prediction */
};

static const struct panel {
    const char *name;
    int gpus, q, global_batch, shared_experts, vocab;
    double counted;  /* parameters that the release's MFU counts */
    double best_mfu; /* of the release's predictions */
    int count;
    struct bar bars[BARS_MAX];
} panels[PANELS] = {
    {"0.7B",
     32,
     4,
     256,
     0,
     257664,
     1.70e9,
     .0712,
     15,
     {{2, 8, 16, 1, .881, .907},
      {1, 8, 32, 1, .998, .890},
      {2, 4, 16, 1, .822, .881},
      {1, 4, 32, 1, .949, .860},
      {1, 2, 32, 1, .796, .824},
      {2, 2, 16, 1, .716, .743},
      {1, 1, 32, 1, .745, .646},
      {4, 4, 8, 1, .667, .635},
      {4, 8, 8, 1, .709, .629},
      {2, 1, 16, 1, .694, .624},
      {4, 2, 8, 1, .595, .588},
      {4, 1, 8, 1, .588, .573},
      {8, 1, 4, 1, .546, .518},
      {8, 2, 4, 1, .548, .506},
      {8, 4, 4, 1, .597, .427}}},
    {"5.4B",
     256,
     8,
     2048,
     0,
     257664,
     5.4e9,
     .1032,
     5,
     {{4, 8, 64, 1, .843, 1.0},
      {4, 4, 64, 1, .801, .993},
      {1, 8, 256, 1, .883, .889},
      {1, 16, 256, 1, .787, .82},
      {2, 16, 128, 1, .781, .79}}},
    /* printed as 512 devices; every label and every prediction is of 256 */
    {"5.4B, second panel",
     256,
     8,
     2048,
     0,
     257664,
     5.4e9,
     .0960,
     5,
     {{2, 8, 128, 1, .998, .936},
      {4, 4, 64, 1, .860, .925},
      {1, 8, 256, 1, .949, .820},
      {1, 16, 256, 1, .85, .750},
      {2, 16, 128, 1, .84, .739}}},
    {"18B",
     512,
     12,
     512,
     1,
     257536,
     20.98e9,
     .1139,
     4,
     {{8, 32, 64, 1, .694, 1.0},
      {16, 8, 32, 1, .441, .519},
      {16, 8, 32, 2, .432, .447},
      {16, 8, 32, 4, .278, .321}}},
};

static double bar_step_s(const struct panel *panel, double height) {
    const double flop = 6.0 * panel->counted * 8192.0 * (double)panel->global_batch;
    return flop / (height * panel->best_mfu * (double)panel->gpus * 2.25e15);
}

static double model_step_s(const struct panel *panel, const struct bar *bar,
                           struct estimator estimator) {
    static struct point p;
    const struct cluster cluster = p6_nodes(panel->gpus / 8);
    struct geometry g = ladder(panel->q, 128, 3, 4);
    g.first_dense = 0; /* the release cannot express one together with PP */
    g.vocab = panel->vocab;
    if (panel->shared_experts == 0)
        g.shared_experts = g.shared_ffn = 0;
    struct workload w = p6.workload;
    w.sequence = 8192;
    w.global_batch = panel->global_batch;
    w.optimizer = OPTIMIZER_MUON;
    const struct mesh m = {.tp = 1,
                           .cp = 1,
                           .pp = bar->pp,
                           .vpp = 1,
                           .ep = bar->ep,
                           .etp = 1,
                           .micro_batch = bar->micro_batch,
                           .recompute = RECOMPUTE_FULL};
    assert_true(point_prepare(&p, &cluster, &p6.calibration, &w, &g, estimator, m));
    assert_int_equal(p.mesh.dp, bar->dp);
    point_predict(&p);
    return p.out.step_time_s;
}

/* Mean absolute errors in time, over the bars. */
struct errors {
    double absolute, scaled; /* as they are; after one geometric-mean factor a panel */
    double bias;
    double panel[PANELS], panel_factor[PANELS];
};

static struct errors compare(struct estimator estimator, bool with_measured) {
    struct errors e = {0};
    int bars = 0;
    for (int k = 0; k < PANELS; ++k) {
        const struct panel *const panel = &panels[k];
        double ratio[BARS_MAX], log_sum = 0.0;
        for (int i = 0; i < panel->count; ++i) {
            const struct bar *const bar = &panel->bars[i];
            ratio[i] = model_step_s(panel, bar, estimator) /
                       bar_step_s(panel, with_measured ? bar->measured : bar->predicted);
            log_sum += log(ratio[i]);
        }
        e.panel_factor[k] = exp(log_sum / panel->count);
        for (int i = 0; i < panel->count; ++i) {
            e.panel[k] += fabs(ratio[i] - 1.0) / panel->count;
            e.absolute += fabs(ratio[i] - 1.0);
            e.bias += ratio[i] - 1.0;
            e.scaled += fabs(ratio[i] / e.panel_factor[k] - 1.0);
        }
        bars += panel->count;
        print_message("%s: error %.1f %%, factor %.3f\n", panel->name, 100.0 * e.panel[k],
                      e.panel_factor[k]);
    }
    assert_int_equal(bars, 29);
    e.absolute /= bars;
    e.scaled /= bars;
    e.bias /= bars;
    print_message("29 bars: %.1f %% (bias %+.1f), with one factor a panel %.1f %%\n",
                  100.0 * e.absolute, 100.0 * e.bias, 100.0 * e.scaled);
    return e;
}

static void test_published_on_measured_bars(void **state) {
    (void)state;
    const struct errors e = compare(estimator_published(), true);
    assert_true(e.absolute <= .12);
    assert_true(e.scaled <= .09);
}

/* The published estimator is a copy of the release's terms: it must give the release's bars. */
static void test_published_repeats_the_release(void **state) {
    (void)state;
    const struct errors e = compare(estimator_published(), false);
    assert_true(e.panel[0] <= .025);
    assert_true(e.absolute <= .05);
    assert_true(e.scaled <= .03);
}

static void test_default_on_measured_bars(void **state) {
    (void)state;
    const struct errors e = compare(estimator_default(), true);
    assert_true(e.absolute <= .19);
    assert_true(e.scaled <= .16);
    /* four bars that no physical term found brings together (EP 32 too slow, EP 8 too fast) */
    assert_true(e.panel[3] <= .40);
    assert_true(e.panel[0] <= .10);
}

/* ---- Table 5: 8 nodes, PP 4, EP 8, four sequences a micro-batch, 1024 a step ---- */

static const struct {
    int q, experts, top_k, granularity;
    double measured; /* MFU over the best of the four */
} staged[4] = {{10, 128, 2, 4, .84}, {10, 128, 2, 8, .69}, {10, 32, 2, 4, .91}, {8, 32, 2, 2, 1}};

static void expect_table_5(struct estimator estimator, double allowed) {
    static struct point p;
    const struct cluster cluster = p6_nodes(8);
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        double mfu[4], error = 0.0;
        for (int i = 0; i < 4; ++i) {
            const struct geometry g =
                ladder(staged[i].q, staged[i].experts, staged[i].top_k, staged[i].granularity);
            const struct mesh m = {.tp = 1,
                                   .cp = 1,
                                   .pp = 4,
                                   .vpp = 1,
                                   .ep = 8,
                                   .etp = 1,
                                   .micro_batch = 4,
                                   .recompute = (enum recompute)r};
            assert_true(
                point_prepare(&p, &cluster, &p6.calibration, &p6.workload, &g, estimator, m));
            point_predict(&p);
            assert_int_not_equal(p.out.verdict, VERDICT_NO);
            mfu[i] = p.out.mfu_6n;
        }
        assert_true(mfu[3] > mfu[2] && mfu[2] > mfu[0] && mfu[0] > mfu[1]);
        for (int i = 0; i < 4; ++i)
            error += fabs(mfu[i] / mfu[3] / staged[i].measured - 1.0) / 4.0;
        print_message("%s: %.2f %.2f %.2f %.2f %%, normalised error %.1f %%\n",
                      recompute_name((enum recompute)r), 100.0 * mfu[0], 100.0 * mfu[1],
                      100.0 * mfu[2], 100.0 * mfu[3], 100.0 * error);
        assert_true(error <= allowed);
    }
}

static void test_table_5_default(void **state) {
    (void)state;
    expect_table_5(estimator_default(), .08);
}

static void test_table_5_published(void **state) {
    (void)state;
    expect_table_5(estimator_published(), .08);
}

static int with_own_rates(void **state) {
    return p6_load(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_published_on_measured_bars, p6_load, NULL),
        cmocka_unit_test_setup_teardown(test_published_repeats_the_release, p6_load, NULL),
        cmocka_unit_test_setup_teardown(test_default_on_measured_bars, with_own_rates, NULL),
        cmocka_unit_test_setup_teardown(test_table_5_default, with_own_rates, NULL),
        cmocka_unit_test_setup_teardown(test_table_5_published, with_own_rates, NULL),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
