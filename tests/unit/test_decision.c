// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The decision under the step model's error: shares and regrets of two contenders against the
 * closed forms of log-normal steps, the shortlist against every subset, ids and anchors there and
 * back.
 */
#include "plan_case.h"

#include "close.h"
#include "plan/decision_measured.h"
#include "plan/shortlist.h"
#include "plan/shortlist_id.h"

#include <gsl/gsl_cdf.h>
#include <stdlib.h>
#include <string.h>

enum { GEOMETRIES = 6 };

static struct geometry items[GEOMETRIES];
static struct problem p;
static struct decision d;
static struct status_error err;

/* As many tokens as the step allows: score = -tokens, which is -c / step. */
static void open_problem(unsigned seed) {
    struct random r = {seed};
    case_random(&r, &p, items, GEOMETRIES);
    p.objective = OBJECTIVE_TOKENS;
    p.limits.tokens_per_active_min = 0.0;
}

static struct contender contender(size_t index, double step_time_s, struct step_errors own) {
    struct contender c = {.index = index, .step_time_s = step_time_s, .own = own};
    c.expected_s = step_time_s;
    c.layout.mesh.tp = (int)index + 1; /* told apart, never evaluated */
    c.can_be_planned = candidate_train(&p, &p.law, &items[index], step_time_s, &c.run);
    assert_true(c.can_be_planned);
    return c;
}

static void weigh(unsigned long seed) {
    if (decision_weigh(&p, seed, &d, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_int_equal(d.draws, DECISION_DRAWS);
}

static void two(double first_s, double second_s, struct step_errors own, double noise) {
    memset(&d, 0, sizeof d);
    d.errors = own;
    d.errors.noise = noise;
    d.items[d.count++] = contender(0, first_s, own);
    d.items[d.count++] = contender(1, second_s, own);
}

/* Tokens are c exp(-x) / step: the first wins where x2 - x1 > ln(first / second), and what it loses
 * is an exchange option, E[max(B - A, 0)] = E[B] Phi(h + s/2) - E[A] Phi(h - s/2),
 * h = ln(E[B] / E[A]) / s. */
static void two_contenders_are_as_in_the_closed_form(void **state) {
    (void)state;
    open_problem(5);
    for (int i = 0; i < 4; ++i) {
        const double behind = 0.02 * i, model = 0.06, layout = 0.08;
        const double s = sqrt(2.0) * hypot(model, layout), variance = s * s / 2.0;
        two(1.0, exp(behind), (struct step_errors){.model = model, .layout = layout}, 0.01);
        weigh(1);
        const double a = d.items[0].run.tokens, b = d.items[1].run.tokens;
        const double mean = exp(variance / 2.0), h = log(b / a) / s;
        const double regret =
            mean * (b * gsl_cdf_ugaussian_P(h + s / 2.0) - a * gsl_cdf_ugaussian_P(h - s / 2.0));
        const double of_other =
            mean * (a * gsl_cdf_ugaussian_P(-h + s / 2.0) - b * gsl_cdf_ugaussian_P(-h - s / 2.0));
        assert_close_abs(d.items[0].share, gsl_cdf_ugaussian_P(behind / s), 0.02);
        assert_close_abs(d.items[0].share + d.items[1].share, 1.0, 1e-12);
        assert_close(d.regret, regret, 0.06);
        assert_close(d.items[1].regret, of_other, 0.06);
        assert_true(i == 0 || d.best == 0);
    }
}

static void a_shared_error_moves_no_rank(void **state) {
    (void)state;
    open_problem(6);
    two(1.0, 1.03, (struct step_errors){.model = 0.05, .layout = 0.05}, 0.01);
    weigh(3);
    const double share = d.items[0].share, regret = d.regret;
    two(1.0, 1.03, (struct step_errors){.shared = 0.3, .model = 0.05, .layout = 0.05}, 0.01);
    weigh(3);
    assert_close_abs(d.items[0].share, share, 1e-3); /* curves are straight between their nodes */
    assert_close(d.regret, regret, 0.1);             /* a longer step is a smaller difference */
    two(1.0, 1.03, (struct step_errors){.shared = 0.3}, 0.01);
    weigh(3);
    assert_close_abs(d.items[0].share, 1.0, 0.0);
    assert_close_abs(d.regret, 0.0, 0.0);
    assert_int_equal(d.shortlist_count, 0);
}

/* Layouts of one model differ by the layout's part alone. */
static void layouts_of_a_model_share_its_part(void **state) {
    (void)state;
    open_problem(7);
    const double layout = 0.05, behind = 0.03;
    two(1.0, 1.0, (struct step_errors){.model = 0.4, .layout = layout}, 0.01);
    d.items[1] = contender(0, exp(behind), d.errors);
    d.items[1].own.noise = 0.0;
    d.items[1].layout.mesh.pp = 2;
    weigh(1);
    assert_close_abs(d.items[0].share, gsl_cdf_ugaussian_P(behind / (sqrt(2.0) * layout)), 0.02);
}

static void several(struct random *r, size_t count) {
    const struct step_errors own = {.shared = 0.05,
                                    .model = random_between(r, 0.03, 0.1),
                                    .layout = random_between(r, 0.03, 0.1)};
    memset(&d, 0, sizeof d);
    d.errors = own;
    d.errors.noise = 0.01;
    for (size_t i = 0; i < count; ++i)
        d.items[d.count++] =
            contender(i % GEOMETRIES, i == 0 ? 1.0 : random_between(r, 1.0, 1.15), own);
}

static double worth(const struct decision_draws *draws, const size_t *set, size_t count) {
    double share = 0.0;
    assert_int_equal(shortlist_worth(draws, d.errors.noise, set, count, &share, &err), MOSAIC_OK);
    return share;
}

/* The best of all sets of a size; greedy choice may miss it, by little. */
static double best_set(const struct decision_draws *draws, size_t size) {
    double best = 0.0;
    for (unsigned bits = 0; bits < 1u << d.count; ++bits) {
        size_t set[CONTENDERS_MAX], count = 0;
        for (size_t i = 0; i < d.count; ++i)
            if (bits & 1u << i)
                set[count++] = i;
        if (count == size)
            best = fmax(best, worth(draws, set, count));
    }
    return best;
}

static void the_shortlist_is_the_best_of_all_sets(void **state) {
    (void)state;
    struct random r = {11};
    int equal = 0, all = 0;
    for (int space = 0; space < 8; ++space) {
        struct decision_draws *draws = NULL;
        open_problem(20 + (unsigned)space);
        several(&r, 5);
        weigh(1);
        assert_int_equal(decision_draws_new(&p, &d, 1, &draws, &err), MOSAIC_OK);
        assert_true(d.shortlist_count >= SHORTLIST_LEAST && d.shortlist_count <= SHORTLIST_MAX);
        size_t set[SHORTLIST_MAX];
        for (size_t i = 0; i < d.shortlist_count; ++i) {
            set[i] = d.shortlist[i].contender;
            for (size_t k = 0; k < i; ++k)
                assert_true(set[k] != set[i]);
            const double got = worth(draws, set, i + 1), best = best_set(draws, i + 1);
            assert_close(d.shortlist[i].regret_after, d.regret * fmax(1.0 - got, 0.0), 1e-9);
            assert_true(got <= best + 1e-9 && got >= 0.9 * best);
            if (i == 0)
                assert_close(got, best, 1e-9);
            equal += got >= best - 1e-9;
            ++all;
        }
        assert_true(worth(draws, (const size_t[]){0, 1, 2, 3, 4}, 5) > 0.9);
        decision_draws_free(draws);
    }
    print_message("%d of %d sets are the best of their size\n", equal, all);
    assert_true(4 * equal >= 3 * all);
}

static void the_seed_decides_everything(void **state) {
    (void)state;
    static struct decision first;
    struct random r = {3};
    open_problem(8);
    several(&r, 6);
    weigh(4);
    first = d;
    weigh(4);
    assert_memory_equal(&first, &d, sizeof d);
    weigh(5);
    assert_true(memcmp(&first, &d, sizeof d) != 0);
    for (size_t i = 0; i < d.count; ++i)
        assert_close_abs(d.items[i].share, first.items[i].share, 0.04);
}

static void a_measured_winner_wins_more(void **state) {
    (void)state;
    open_problem(9);
    two(1.0, 1.03, (struct step_errors){.model = 0.06, .layout = 0.06}, 0.01);
    weigh(1);
    const double share = d.items[0].share, regret = d.regret;
    for (size_t i = 0; i < 2; ++i) {
        d.items[i].is_measured = true;
        d.items[i].own = (struct step_errors){.noise = d.errors.noise};
        d.items[i].expected_s *= 0.99;
        weigh(1);
    }
    assert_true(d.items[0].share > share && d.items[0].share > 0.97);
    assert_true(d.regret < 0.05 * regret);
    assert_int_equal(d.shortlist_count, 0); /* nothing is left to measure */
}

static void ids_come_back(void **state) {
    (void)state;
    struct random r = {12};
    int found = 0;
    for (int space = 0; space < 20; ++space) {
        struct search_result search;
        const struct search_options options = {.threads = 1};
        case_random(&r, &p, items, GEOMETRIES);
        if (search_run(&p, &options, &search, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
        for (size_t i = 0; i < search.kept_count; ++i) {
            const struct candidate *const c = &search.kept[i];
            struct shortlist_entry entry;
            char id[SHORTLIST_ID_MAX];
            if (shortlist_id_find(&p, shortlist_id(&p, c->index, &c->layout.mesh, id), &entry,
                                  &err) != MOSAIC_OK)
                fail_msg("%s: %s", id, err.message);
            assert_int_equal(entry.index, c->index);
            assert_int_equal(mesh_compare(&entry.layout.mesh, &c->layout.mesh), 0);
            assert_close(entry.prediction.step_time_s, c->step_time_s, 1e-12);
            ++found;
        }
        search_result_free(&search);
    }
    assert_true(found > 20);
}

static void bad_ids_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "L48", " pp=8", "L1-d1-000000 pp=1"};
    struct shortlist_entry entry;
    open_problem(10);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_int_equal(shortlist_id_find(&p, bad[i], &entry, &err), MOSAIC_BAD_INPUT);
        assert_true(err.message[0] != '\0');
    }
    const struct mesh mesh = {.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1};
    char id[SHORTLIST_ID_MAX], longer[2 * SHORTLIST_ID_MAX];
    (void)shortlist_id(&p, 0, &mesh, id);
    static const char *const ends[] = {" pp=7919", " no=1", " pp", " recompute=some"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; ++i) {
        (void)snprintf(longer, sizeof longer, "%.*s%s", (int)strcspn(id, " "), id, ends[i]);
        assert_int_equal(shortlist_id_find(&p, longer, &entry, &err), MOSAIC_BAD_INPUT);
    }
}

static void measured_steps_anchor_their_model(void **state) {
    (void)state;
    static struct measured_layouts layouts;
    static struct anchored_problem anchored, again;
    const double between = 0.12, within = 0.11, off = 0.2;
    open_problem(13);
    p.calibration.scalar[CAL_ANCHOR_BETWEEN] = between;
    p.calibration.scalar[CAL_ANCHOR_WITHIN] = within;
    const struct measured_layout one = {.index = 2,
                                        .nodes = p.cluster.nodes,
                                        .steps = 1,
                                        .sum_log_s = log(2.0) + off,
                                        .predicted_s = 2.0,
                                        .anchor_factor = 1.0};
    layouts.count = 0;
    assert_true(measured_layouts_add(&layouts, &one) && measured_layouts_add(&layouts, &one));
    assert_int_equal(layouts.count, 1); /* two runs of one layout are one residual */
    assert_close(measured_layout_s(&layouts.items[0]), 2.0 * exp(off), 1e-12);
    assert_int_equal(anchored_problem_init(&p, &layouts, &anchored, &err), MOSAIC_OK);
    const struct anchor *const a = anchor_find(anchored.problem.workload.anchors, &items[2]);
    const double share = between * between / (between * between + within * within);
    assert_non_null(a);
    assert_int_equal(a->residual.steps, 1);
    assert_close(a->residual.log_factor, share * off, 1e-12);
    assert_null(anchor_find(anchored.problem.workload.anchors, &items[1]));

    /* A second time: the step before counts as it did. */
    layouts.items[0].anchor_factor = exp(a->residual.log_factor);
    layouts.items[0].predicted_s = 2.0 * layouts.items[0].anchor_factor;
    assert_int_equal(anchored_problem_init(&anchored.problem, &layouts, &again, &err), MOSAIC_OK);
    const struct anchor *const b = anchor_find(again.problem.workload.anchors, &items[2]);
    const double more = 2.0 * between * between;
    assert_int_equal(b->residual.steps, 2);
    assert_close(b->residual.log_factor, more / (more + within * within) * off, 1e-12);
    anchored_problem_free(&again);
    anchored_problem_free(&anchored);
}

/* The whole way on a small space: contenders, and a measurement that another plan must win. */
static void a_search_is_decided(void **state) {
    (void)state;
    struct random r = {21};
    int decided = 0;
    for (int space = 0; space < 12; ++space) {
        static struct search_result search;
        const struct search_options options = {.threads = 1};
        case_random(&r, &p, items, GEOMETRIES);
        if (search_run(&p, &options, &search, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
        assert_int_equal(decision_find(&p, &search, NULL, 1, &d, &err), MOSAIC_OK);
        if (d.draws > 0) {
            assert_int_equal(d.items[0].index, search.kept[0].index);
            assert_close(d.items[0].step_time_s, search.kept[0].step_time_s, 1e-12);
            double sum = 0.0;
            for (size_t i = 0; i < d.count; ++i)
                sum += d.items[i].share;
            assert_close_abs(sum, 1.0, 1e-9);
            const struct measured_pair slow = {search.kept[0].index, search.kept[0].layout,
                                               2.0 * search.kept[0].step_time_s};
            const struct measured_pairs pairs = {1, &slow};
            const double share = d.items[0].share;
            assert_int_equal(decision_find(&p, &search, &pairs, 1, &d, &err), MOSAIC_OK);
            assert_true(d.items[0].is_measured && d.items[0].share <= share);
            const double *const s = p.calibration.scalar; /* of what one model says of all */
            const double own = s[CAL_ANCHOR_BETWEEN] * s[CAL_ANCHOR_BETWEEN] +
                               s[CAL_ANCHOR_WITHIN] * s[CAL_ANCHOR_WITHIN];
            const double sigma =
                s[items[pairs.items[0].index].experts > 0 ? CAL_SIGMA_MOE : CAL_SIGMA];
            const double prior = fmax(sigma * sigma - own, 0.0);
            assert_close_abs(d.shared_mean, log(2.0) * prior / (prior + own), 1e-9);
            assert_close_abs(d.errors.shared, sqrt(prior * own / (prior + own)), 1e-9);
            for (size_t i = 1; i < d.count; ++i)
                assert_close(d.items[i].expected_s, d.items[i].step_time_s * exp(d.shared_mean),
                             1e-12);
            ++decided;
        }
        search_result_free(&search);
    }
    assert_true(decided > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_contenders_are_as_in_the_closed_form),
        cmocka_unit_test(a_shared_error_moves_no_rank),
        cmocka_unit_test(layouts_of_a_model_share_its_part),
        cmocka_unit_test(the_shortlist_is_the_best_of_all_sets),
        cmocka_unit_test(the_seed_decides_everything),
        cmocka_unit_test(a_measured_winner_wins_more),
        cmocka_unit_test(ids_come_back),
        cmocka_unit_test(bad_ids_are_refused),
        cmocka_unit_test(measured_steps_anchor_their_model),
        cmocka_unit_test(a_search_is_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
