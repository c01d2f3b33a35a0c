// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Anchoring: the shrunk residual by hand, what it does to a prediction and its bounds.
 */
#include "step_case.h"

enum { POINTS = 3000 };

static const double b = 0.12, w = 0.06;

static struct anchor_residual fitted(const double *measured, const double *predicted, size_t n) {
    struct anchor_residual out;
    anchor_fit(measured, predicted, n, b, w, &out);
    return out;
}

/* ---- the fit ---- */

static void by_hand(void **state) {
    (void)state;
    const double measured[] = {1.1, 8, 3.6}, predicted[] = {1, 2, 3}; /* ln 1.1, 4, 1.2 */
    struct anchor_residual got = fitted(measured, predicted, 1);
    assert_int_equal(got.steps, 1);
    assert_close(got.log_factor, 0.8 * log(1.1), 1e-12); /* .0144 / (.0144 + .0036) */
    assert_close(got.sigma, sqrt(0.0036 + 0.0144 * 0.0036 / 0.018), 1e-12);
    got = fitted(measured, predicted, 2);
    assert_close(got.log_factor, 0.0288 / 0.0324 * log(sqrt(4.4)), 1e-12);
    assert_close(got.sigma, sqrt(0.0036 + 0.0144 * 0.0036 / 0.0324), 1e-12);
    got = fitted(measured, predicted, 3); /* the odd one of 4 does not count */
    assert_int_equal(got.steps, 3);
    assert_close(got.log_factor, 0.0432 / 0.0468 * log(1.2), 1e-12);
    assert_close(got.sigma, sqrt(0.0036 + 0.0144 * 0.0036 / 0.0468), 1e-12);
}

static void in_any_order(void **state) {
    (void)state;
    static const int orders[][3] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const double measured[] = {1.13, 0.97, 1.02}, predicted[] = {1.01, 1.03, 0.99};
    const struct anchor_residual want = fitted(measured, predicted, 3);
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; ++k) {
        double m[3], p[3];
        for (int i = 0; i < 3; ++i) {
            m[i] = measured[orders[k][i]];
            p[i] = predicted[orders[k][i]];
        }
        const struct anchor_residual got = fitted(m, p, 3);
        assert_true(got.log_factor == want.log_factor && got.sigma == want.sigma);
    }
}

static void what_does_not_count(void **state) {
    (void)state;
    const double measured[] = {0, -1, (double)NAN, (double)INFINITY, 1, 1.1, 1};
    const double predicted[] = {1, 1, 1, 1, 0, 1, (double)NAN};
    struct anchor_residual got = fitted(measured, predicted, 7);
    assert_int_equal(got.steps, 1);
    assert_close(got.log_factor, 0.8 * log(1.1), 1e-12);
    got = fitted(measured, predicted, 5);
    assert_true(got.steps == 0 && got.log_factor == 0.0);
    assert_close(got.sigma, hypot(b, w), 1e-12); /* nothing is known of the model */
}

static void limits_of_the_spreads(void **state) {
    (void)state;
    const double measured[] = {1.1, 1.1, 1.1}, predicted[] = {1, 1, 1};
    struct anchor_residual got;
    anchor_fit(measured, predicted, 3, 0.0, w, &got); /* models do not differ */
    assert_true(got.log_factor == 0.0);
    assert_close(got.sigma, w, 1e-12);
    anchor_fit(measured, predicted, 1, b, 0.0, &got); /* a step says all */
    assert_close(got.log_factor, log(1.1), 1e-12);
    assert_true(got.sigma == 0.0);
    anchor_fit(measured, predicted, 1, 0.0, 0.0, &got);
    assert_true(got.log_factor == 0.0 && got.sigma == 0.0);
    double last = 1.0;
    for (size_t n = 0; n <= 3; ++n) { /* every step narrows */
        anchor_fit(measured, predicted, n, b, w, &got);
        assert_true(got.sigma < last && got.sigma >= w);
        last = got.sigma;
    }
}

/* ---- a prediction ---- */

static struct job job;
static struct anchors anchors;

static void anchor_at(const struct geometry *g, double factor, double sigma) {
    anchors.count = 2;
    anchors.items[0].geometry = *g;
    anchors.items[0].geometry.layers++; /* another model, which must not be taken */
    anchors.items[0].residual = (struct anchor_residual){3, log(3.0), 0.001};
    anchors.items[1].geometry = *g;
    anchors.items[1].residual = (struct anchor_residual){1, log(factor), sigma};
}

static void every_prediction_scales(void **state) {
    (void)state;
    static struct point after;
    for (int i = 0; i < POINTS; ++i) {
        random_job(&job, &p6.calibration, true);
        const struct point *const before = &job.s.at;
        const double factor = exp(2.0 * random_share() - 1.0),
                     bound_s = step_bound(&before->ctx, &before->table, &before->mesh);
        anchor_at(&job.s.geometry, factor, 0.05);
        job.s.workload.anchors = &anchors;
        assert_true(job_again(&job, &after));
        const struct prediction *const p = &after.out;
        assert_close(p->step_time_s, factor * before->out.step_time_s, 1e-12);
        assert_close(p->split.correction_s, (factor - 1.0) * before->out.step_time_s, 1e-9);
        assert_true(p->split.gemm_s == before->out.split.gemm_s);
        assert_close(p->mfu * factor, before->out.mfu, 1e-12);
        assert_int_equal(p->anchor_steps, 1);
        assert_close(log(p->interval_high_s / p->step_time_s), 1.6448536269514722 * 0.05, 1e-9);
        const double after_s = step_bound(&after.ctx, &after.table, &after.mesh);
        assert_close(after_s, factor * bound_s, 1e-12);
        assert_true(after_s <= p->step_time_s);
        assert_true(p->memory.total == before->out.memory.total);
    }
}

/* Another model, another estimator: to the last bit what it was. */
static void others_stay(void **state) {
    (void)state;
    static struct point plain, anchored;
    const struct geometry g = ladder(12, 96, 2, 4);
    const struct mesh mesh = {.tp = 1,
                              .cp = 1,
                              .pp = 8,
                              .vpp = 1,
                              .ep = 8,
                              .etp = 1,
                              .micro_batch = 4,
                              .recompute = RECOMPUTE_FULL};
    struct workload workload = p6.workload;
    p6_predict(&plain, &g, estimator_default(), mesh);
    anchor_at(&g, 1.5, 0.05);
    anchors.items[1].geometry.vocab++;
    workload.anchors = &anchors;
    assert_true(point_prepare(&anchored, &p6.cluster, &p6.calibration, &workload, &g,
                              estimator_default(), mesh));
    point_predict(&anchored);
    assert_memory_equal(&anchored.out, &plain.out, sizeof plain.out);
    anchor_at(&g, 1.5, 0.05);
    p6_predict(&plain, &g, estimator_published(), mesh);
    assert_true(point_prepare(&anchored, &p6.cluster, &p6.calibration, &workload, &g,
                              estimator_published(), mesh));
    point_predict(&anchored);
    assert_memory_equal(&anchored.out, &plain.out, sizeof plain.out);
    assert_int_equal(anchored.out.anchor_steps, 0);
}

/* A step that somebody measured makes nobody less sure. */
static void interval_never_widens(void **state) {
    (void)state;
    struct point p;
    struct workload workload = p6.workload;
    const struct geometry g = ladder(12, 96, 2, 4);
    const struct mesh mesh = {.tp = 1,
                              .cp = 1,
                              .pp = 8,
                              .vpp = 1,
                              .ep = 8,
                              .etp = 1,
                              .micro_batch = 4,
                              .recompute = RECOMPUTE_FULL};
    anchor_at(&g, 1.1, 1.5);
    workload.anchors = &anchors;
    assert_true(
        point_prepare(&p, &p6.cluster, &p6.calibration, &workload, &g, estimator_default(), mesh));
    point_predict(&p);
    assert_true(p.out.sigma == p6.calibration.scalar[CAL_SIGMA_MOE]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(in_any_order),
        cmocka_unit_test(what_does_not_count),
        cmocka_unit_test(limits_of_the_spreads),
        cmocka_unit_test(every_prediction_scales),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(interval_never_widens),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
