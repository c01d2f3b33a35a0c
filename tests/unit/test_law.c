// SPDX-License-Identifier: GPL-3.0-or-later
//
// The law: its terms at the paper's Table 4 plan, its derivatives against differences, its inverse
// in tokens, the support flags, and the rank inversion of Table 5.
#include "law/law.h"

#include "close.h"
#include "model/count.h"
#include "model/ladder.h"
#include "paper_law.h"

#include <float.h>
#include <string.h>

static const struct law_point table4 = {
    .n_total = 327.19e9, .tokens = 1.4201e12, .sparsity = 0.95571, .granularity = 4};

static void terms_of_table_4(void **state) {
    (void)state;
    struct law_terms t;
    law_evaluate(&paper_law, &table4, &t);
    assert_close_abs(t.size, 0.52568, 5e-5);
    assert_close_abs(t.data, 0.26948, 5e-5);
    assert_close_abs(t.sparsity, 0.26981, 5e-5);
    assert_close_abs(t.joint, 0.01185, 5e-5);
    assert_close_abs(t.floor, 0.3129, 0);
    assert_close_abs(t.loss, 1.38972, 5e-5);
    assert_close_abs(t.size + t.data + t.sparsity + t.joint + t.floor, t.loss, 1e-15);
    assert_close_abs(law_loss(&paper_law, &table4), t.loss, 0);
}

// The same sum written the naive way.
static void terms_equal_the_formula(void **state) {
    (void)state;
    const struct law *w = &paper_law;
    for (int i = 0; i < 40; i++) {
        const struct law_point p = {1e8 * pow(1.3, i), 3e12 / pow(1.2, i), 0.024 * i, 0.5 + i % 9};
        const double u = 1 - p.sparsity;
        const double want =
            w->a / pow(p.n_total, w->alpha) + w->b / pow(p.tokens, w->beta) +
            w->c / pow(u, w->lambda) +
            w->j / (pow(u, w->delta) * pow(p.n_total, w->gamma) * pow(p.granularity, w->eta)) +
            w->e;
        assert_close(law_loss(w, &p), want, 1e-13);
    }
}

static double *variable(struct law_point *p, int which) {
    double *all[] = {&p->n_total, &p->tokens, &p->sparsity, &p->granularity};
    return all[which];
}

// Central difference in ln(variable); for S the variable is 1-S.
static double difference(const struct law *law, struct law_point p, int which, double h) {
    struct law_point low = p, high = p;
    if (which == 2) {
        low.sparsity = 1 - (1 - p.sparsity) * exp(-h);
        high.sparsity = 1 - (1 - p.sparsity) * exp(h);
    } else {
        *variable(&low, which) *= exp(-h);
        *variable(&high, which) *= exp(h);
    }
    return (law_loss(law, &high) - law_loss(law, &low)) / (2 * h);
}

static void gradient_against_differences(void **state) {
    (void)state;
    const struct law_point points[] = {
        table4, {1e9, 2e10, 0.3, 1}, {70e9, 5e10, 0.98, 8}, {2e12, 3e13, 0.995, 2.5}};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct law_gradient g, el;
        law_differentiate(&paper_law, &points[i], &g);
        law_elasticities(&paper_law, &points[i], &el);
        const double loss = law_loss(&paper_law, &points[i]);
        const double got[] = {g.n_total, g.tokens, g.one_minus_sparsity, g.granularity};
        const double share[] = {el.n_total, el.tokens, el.one_minus_sparsity, el.granularity};
        for (int v = 0; v < 4; v++) {
            assert_close(got[v], difference(&paper_law, points[i], v, 1e-4), 1e-6);
            assert_close(share[v] * loss, got[v], 1e-14);
        }
    }
}

static void more_of_anything_but_sparsity_helps(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        const struct law_point p = {1e8 * pow(1.08, i), 1e13 / pow(1.05, i),
                                    fmod(0.37 * i, 1) * 0.99, 1 + i % 16};
        const double loss = law_loss(&paper_law, &p);
        struct law_point q = p;
        q.n_total *= 1.01;
        assert_true(law_loss(&paper_law, &q) < loss);
        q = p;
        q.tokens *= 1.01;
        assert_true(law_loss(&paper_law, &q) < loss);
        q = p;
        q.granularity *= 1.01;
        assert_true(law_loss(&paper_law, &q) < loss);
        q = p;
        q.sparsity += 0.001;
        assert_true(law_loss(&paper_law, &q) > loss);
        assert_true(loss > paper_law.e + paper_law.c);
    }
}

static void tokens_for_loss_inverts_the_law(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        struct law_point p = {1e9 * pow(1.4, i), 1e9 * pow(1.3, i), 0.03 * i, 4};
        assert_close(law_tokens_for_loss(&paper_law, &p, law_loss(&paper_law, &p)), p.tokens, 1e-9);
    }
    struct law_point p = table4;
    struct law_terms t;
    law_evaluate(&paper_law, &p, &t);
    assert_true(isinf(law_tokens_for_loss(&paper_law, &p, t.loss - t.data)));
    assert_true(isinf(law_tokens_for_loss(&paper_law, &p, 0.5)));
    assert_true(isinf(law_tokens_for_loss(&paper_law, &p, -1)));
    // Tokens of the point itself play no part.
    p.tokens = 1;
    assert_close(law_tokens_for_loss(&paper_law, &p, t.loss), table4.tokens, 1e-9);
    assert_true(law_tokens_for_loss(&paper_law, &p, t.loss - 0.001) > table4.tokens);
}

static void outside_flags(void **state) {
    (void)state;
    const struct law_point inside = {10e9, 20e9, 0.95, 4};
    assert_int_equal(law_outside(&paper_law, &inside), 0);
    assert_int_equal(law_outside(&paper_law, &table4), LAW_OUTSIDE_N_TOTAL | LAW_OUTSIDE_N_ACTIVE |
                                                           LAW_OUTSIDE_TOKENS |
                                                           LAW_OUTSIDE_TOKENS_PER_ACTIVE);

    struct law_point p = inside;
    p.sparsity = 0.985;
    assert_int_equal(law_outside(&paper_law, &p),
                     LAW_OUTSIDE_SPARSITY | LAW_OUTSIDE_TOKENS_PER_ACTIVE);
    p = inside;
    p.granularity = 16;
    assert_int_equal(law_outside(&paper_law, &p), LAW_OUTSIDE_GRANULARITY);
    p = inside;
    p.tokens = 4e9; // 8 tokens per active parameter
    assert_int_equal(law_outside(&paper_law, &p), LAW_OUTSIDE_TOKENS_PER_ACTIVE);

    // A limit itself is inside, whatever the rounding of N(1-S) and D/N_active.
    for (int i = 0; i < 200; i++) {
        p = (struct law_point){.sparsity = 0.5 + 0.002 * i, .granularity = 4};
        p.n_total = paper_law.n_active.max / (1 - p.sparsity);
        p.tokens = paper_law.tokens_per_active.max * (p.n_total * (1 - p.sparsity));
        assert_int_equal(law_outside(&paper_law, &p) &
                             (LAW_OUTSIDE_N_ACTIVE | LAW_OUTSIDE_TOKENS_PER_ACTIVE),
                         0);
    }
    // An unknown range never flags.
    p = (struct law_point){79.24e9, 56.38e9, 0.981, 8};
    assert_int_equal(law_outside(&paper_law, &p), 0);
    struct law unknown = paper_law;
    unknown.n_total = unknown.n_active = unknown.tokens = unknown.sparsity = unknown.granularity =
        unknown.tokens_per_active = (struct law_range){1, 0};
    assert_int_equal(law_outside(&unknown, &table4), 0);
}

static void a_law_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    struct status_error err;
    assert_int_equal(law_check(&paper_law, &err), MOSAIC_OK);
    struct law w = paper_law;
    w.lambda = -0.1666; // Abnar's sign
    assert_int_equal(law_check(&w, &err), MOSAIC_OK);

    double *bad_as_nan[] = {&w.a, &w.b, &w.c, &w.j, &w.e, &w.alpha, &w.beta, &w.lambda, &w.eta};
    for (size_t i = 0; i < sizeof bad_as_nan / sizeof bad_as_nan[0]; i++) {
        w = paper_law;
        *bad_as_nan[i] = (double)NAN;
        assert_int_equal(law_check(&w, &err), MOSAIC_BAD_INPUT);
        *bad_as_nan[i] = (double)INFINITY;
        assert_int_equal(law_check(&w, &err), MOSAIC_BAD_INPUT);
    }
    double *bad_as_negative[] = {&w.a, &w.b, &w.c, &w.j, &w.e, &w.alpha, &w.beta};
    for (size_t i = 0; i < sizeof bad_as_negative / sizeof bad_as_negative[0]; i++) {
        w = paper_law;
        *bad_as_negative[i] = -1;
        assert_int_equal(law_check(&w, &err), MOSAIC_BAD_INPUT);
        assert_non_null(strstr(err.message, "mosaic-2608.10605"));
    }
    w = paper_law;
    w.b = 0;
    assert_int_equal(law_check(&w, &err), MOSAIC_BAD_INPUT);
    w = paper_law;
    w.a = w.j = 0;
    assert_int_equal(law_check(&w, NULL), MOSAIC_BAD_INPUT);
}

static void points_are_checked(void **state) {
    (void)state;
    struct status_error err;
    assert_int_equal(law_point_check(&table4, &err), MOSAIC_OK);
    const double bad[] = {0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY, DBL_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (int v = 0; v < 4; v++) {
            struct law_point p = table4;
            *variable(&p, v) = bad[i];
            const bool zero_sparsity = v == 2 && i == 0;
            assert_int_equal(law_point_check(&p, &err),
                             zero_sparsity ? MOSAIC_OK : MOSAIC_BAD_INPUT);
        }
    }
    struct law_point p = table4;
    p.sparsity = 1;
    assert_int_equal(law_point_check(&p, &err), MOSAIC_BAD_INPUT);
}

// Whatever passes the check evaluates to numbers.
static void extreme_points_stay_finite(void **state) {
    (void)state;
    const double sizes[] = {1, 7e11, 1e30}, sparsities[] = {0, 0.5, 1 - DBL_EPSILON / 2};
    const double granularities[] = {1e-6, 1, 1e6};
    struct law steep = {.a = 1e60, .b = 1e60, .c = 1e60, .j = 1e60, .e = 1e60};
    steep.alpha = steep.beta = steep.lambda = steep.delta = steep.gamma = steep.eta = 4;
    struct law rising = steep;
    rising.lambda = rising.delta = rising.eta = -4;
    const struct law *laws[] = {&paper_law, &steep, &rising};
    for (int i = 0; i < 3 * 3 * 3 * 3 * 3; i++) {
        const struct law *law = laws[i / 81];
        const struct law_point p = {sizes[i % 3], sizes[i / 3 % 3], sparsities[i / 9 % 3],
                                    granularities[i / 27 % 3]};
        assert_int_equal(law_check(law, NULL), MOSAIC_OK);
        assert_int_equal(law_point_check(&p, NULL), MOSAIC_OK);
        struct law_gradient g;
        law_differentiate(law, &p, &g);
        assert_true(isfinite(law_loss(law, &p)));
        assert_true(isfinite(g.n_total) && isfinite(g.tokens));
        assert_true(isfinite(g.one_minus_sparsity) && isfinite(g.granularity));
    }
}

struct staged {
    int q, experts, top_k, granularity;
    double mfu; // measured, ID 1 = 14 %
};

static double loss_of(const struct staged *run, double model_flops) {
    struct geometry g;
    struct status_error err;
    assert_int_equal(
        ladder_geometry(run->q, run->experts, run->top_k, run->granularity, 50257, &g, &err),
        MOSAIC_OK);
    struct param_counts n;
    count_params(&g, &n);
    const struct law_point p = {n.n_total_law, model_flops / (6 * n.n_active_law), n.sparsity,
                                run->granularity};
    return law_loss(&paper_law, &p);
}

// Table 5: ID 2 is the better use of a model FLOP, ID 1 of a day of this cluster.
static void rank_inversion_of_table_5(void **state) {
    (void)state;
    const struct staged id1 = {10, 128, 2, 4, 0.14}, id2 = {10, 128, 2, 8, 0.14 * 0.69 / 0.84};
    assert_true(loss_of(&id2, 1.4e22) < loss_of(&id1, 1.4e22));
    assert_true(loss_of(&id1, 1e23 * id1.mfu) < loss_of(&id2, 1e23 * id2.mfu));
}

// The table of omega_S in terms of the law alone is tested with the optimum; here its definition.
static void needed_mfu_makes_the_point_stationary(void **state) {
    (void)state;
    struct law_mfu_needed need;
    law_needed_mfu(&paper_law, &table4, &need);
    const double h = 1e-5;
    for (int v = 0; v < 3; v++) {
        double ends[2];
        for (int side = 0; side < 2; side++) {
            const double step = side ? h : -h;
            struct law_point p = table4;
            if (v == 0) {
                p.n_total *= exp(step);
                p.tokens *= exp(step * (need.n_total - 1));
            } else if (v == 1) {
                p.sparsity = 1 - (1 - p.sparsity) * exp(step);
                p.tokens *= exp(step * (need.one_minus_sparsity - 1));
            } else {
                p.granularity *= exp(step);
                p.tokens *= exp(-step * need.granularity);
            }
            ends[side] = law_loss(&paper_law, &p);
        }
        assert_close_abs((ends[1] - ends[0]) / (2 * h), 0, 1e-8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_of_table_4),
        cmocka_unit_test(terms_equal_the_formula),
        cmocka_unit_test(gradient_against_differences),
        cmocka_unit_test(more_of_anything_but_sparsity_helps),
        cmocka_unit_test(tokens_for_loss_inverts_the_law),
        cmocka_unit_test(outside_flags),
        cmocka_unit_test(a_law_that_makes_no_sense_is_refused),
        cmocka_unit_test(points_are_checked),
        cmocka_unit_test(extreme_points_stay_finite),
        cmocka_unit_test(rank_inversion_of_table_5),
        cmocka_unit_test(needed_mfu_makes_the_point_stationary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
