// SPDX-License-Identifier: GPL-3.0-or-later
/* Tokens and loss of a solved geometry, the caps, and the total order of candidates. */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "plan/candidate.h"

#include <string.h>

static struct geometry items[2048];

/* 32 nodes, 20 days, 1024 x 2048 tokens a step. */
static void start(struct problem *p) {
    case_load("configs/p6-b200-32n-20d.yaml", p, items, 2048);
}

static void tokens_by_hand(void **state) {
    (void)state;
    struct problem p;
    double spare;
    enum token_limit limit;
    start(&p);
    p.budget = (struct budget){.seconds = 1000.0, .goodput = 0.5};
    /* 500 s / 2 s = 250 steps of 2^21 tokens */
    const double bought = 250.0 * 2097152.0, active = bought / 100.0;
    assert_close(candidate_tokens(&p, active, 2.0, &spare, &limit), bought, 1e-15);
    assert_int_equal(limit, TOKENS_BY_BUDGET);
    assert_close_abs(spare, 0.0, 0.0);
    /* Capped at 150 per active parameter: a quarter of the days is spare. */
    assert_close(candidate_tokens(&p, bought / 200.0, 2.0, &spare, &limit), 0.75 * bought, 1e-15);
    assert_int_equal(limit, TOKENS_BY_RATIO);
    assert_close(spare, 250.0, 1e-12);
    /* Half of them unique: they are trained on twice. */
    p.limits.unique_tokens = 0.5 * bought;
    assert_close(candidate_tokens(&p, active, 2.0, &spare, &limit), bought, 1e-15);
    assert_int_equal(limit, TOKENS_BY_BUDGET);
    assert_close(candidate_epochs(&p, bought), 2.0, 1e-15);
    p.limits.unique_tokens = INFINITY;
    assert_close_abs(candidate_epochs(&p, bought), 0.0, 0.0);
    /* 39 are too few, 40 are not. */
    assert_close_abs(candidate_tokens(&p, bought / 39.0, 2.0, &spare, &limit), 0.0, 0.0);
    assert_true(candidate_tokens(&p, bought / 40.000001, 2.0, &spare, &limit) > 0.0);
}

/* 4 epochs keep 93 % of their tokens, 16 keep 66 %, and ever more are worth 16.39 U at most. */
static void repeats_lose_their_worth(void **state) {
    (void)state;
    struct problem p;
    const double unique = 1e11;
    start(&p);
    p.limits.unique_tokens = unique;
    const struct geometry *const g = &items[100];
    assert_close(candidate_point(&p, g, 0.7 * unique).tokens, 0.7 * unique, 0.0);
    assert_close(candidate_point(&p, g, unique).tokens, unique, 1e-15);
    assert_close_abs(candidate_point(&p, g, 4.0 * unique).tokens / (4.0 * unique), 0.93, 0.005);
    assert_close_abs(candidate_point(&p, g, 16.0 * unique).tokens / (16.0 * unique), 0.66, 0.005);
    assert_close(candidate_point(&p, g, 1e4 * unique).tokens, 16.387756 * unique, 1e-9);
    double before = 0.0;
    for (double tokens = 0.1 * unique; tokens < 100.0 * unique; tokens *= 1.1) {
        const double worth = candidate_point(&p, g, tokens).tokens;
        assert_true(worth > before && worth <= tokens);
        before = worth;
    }
    assert_true(candidate_loss(&p, 100, 4.0 * unique, NULL) <
                candidate_loss(&p, 100, unique, NULL));
    p.limits.unique_tokens = INFINITY;
    const double fresh = candidate_loss(&p, 100, 4.0 * unique, NULL);
    p.limits.unique_tokens = unique;
    assert_true(candidate_loss(&p, 100, 4.0 * unique, NULL) > fresh);
}

/* Laws that count otherwise are evaluated by their own count. */
static void the_laws_own_count(void **state) {
    (void)state;
    struct problem p;
    struct param_counts n;
    start(&p);
    const struct geometry *const g = &items[100];
    count_params(g, &n);
    assert_close(candidate_point(&p, g, 1e12).n_total, n.n_total_law, 0.0);
    assert_close(candidate_point(&p, g, 1e12).sparsity, n.sparsity, 0.0);
    p.law_counts_all = true;
    assert_close(candidate_point(&p, g, 1e12).n_total, n.n_total, 0.0);
    assert_close(candidate_point(&p, g, 1e12).sparsity, 1.0 - n.n_active / n.n_total, 1e-15);
    p.law_counts_experts = true;
    assert_close(candidate_point(&p, g, 1e12).sparsity, 1.0 - (double)g->top_k / g->experts, 1e-15);
}

static void against_the_oracle(void **state) {
    (void)state;
    struct problem p;
    struct random r = {5};
    start(&p);
    p.limits.unique_tokens = 4e12;
    int few = 0, capped = 0, repeated = 0;
    for (int i = 0; i < 2000; ++i) {
        const size_t index = (size_t)random_int(&r, 0, (int)p.geometries.count - 1);
        const struct best_layout layout = {.found = true,
                                           .step_time_s = exp(random_between(&r, -2.0, 3.0))};
        struct oracle_counts n;
        struct candidate got;
        oracle_count(&items[index], &n);
        const double tokens = oracle_tokens(&p, n.active, layout.step_time_s);
        assert_int_equal(candidate_fill(&p, index, &layout, &got), tokens > 0.0);
        few += tokens <= 0.0;
        if (tokens <= 0.0)
            continue;
        capped += got.run.limited_by == TOKENS_BY_RATIO;
        repeated += candidate_epochs(&p, tokens) > 1.0;
        assert_close(got.run.tokens, tokens, 1e-13);
        assert_close(got.model_flops, 6.0 * n.active * tokens, 1e-13);
        assert_close(got.run.loss,
                     oracle_loss(&p.law, n.total, oracle_worth(&p, tokens), n.sparsity,
                                 items[index].granularity),
                     1e-12);
        assert_true(got.run.spare_seconds >= 0.0 && got.run.spare_seconds < p.budget.seconds);
        assert_int_equal(got.run.spare_seconds > 0.0, got.run.limited_by != TOKENS_BY_BUDGET);
    }
    assert_true(few > 100 && capped > 100 && repeated > 100);
}

/* The paper's Table 4 plan at its own tokens. */
static void the_papers_plan(void **state) {
    (void)state;
    struct problem p;
    unsigned outside;
    start(&p);
    for (size_t i = 0; i < p.geometries.count; ++i) {
        const struct geometry *const g = &items[i];
        if (g->ladder_q != 12 || g->experts != 96 || g->top_k != 2 || g->granularity < 4.0 ||
            g->granularity > 4.0)
            continue;
        assert_close_abs(candidate_loss(&p, i, 1.4201e12, &outside), 1.38972, 1e-3);
        assert_true(outside & LAW_OUTSIDE_TOKENS); /* the fit saw 56e9 at most */
        assert_true(outside & LAW_OUTSIDE_N_TOTAL);
        assert_false(outside & (LAW_OUTSIDE_SPARSITY | LAW_OUTSIDE_GRANULARITY));
        return;
    }
    fail_msg("the plan is not in the grid");
}

static void total_order(void **state) {
    (void)state;
    struct problem p;
    start(&p);
    struct candidate a = {.index = 3, .run.score = 1.4, .step_time_s = 2.0};
    a.layout.mesh =
        (struct mesh){.tp = 1, .cp = 1, .pp = 2, .vpp = 1, .ep = 4, .etp = 1, .micro_batch = 1};
    struct candidate b = a;
    assert_int_equal(candidate_compare(&p, &a, &b), 0);
    b.layout.mesh.micro_batch = 2;
    assert_true(candidate_compare(&p, &a, &b) < 0 && candidate_compare(&p, &b, &a) > 0);
    b.layout.mesh.pp = 1;
    assert_true(candidate_compare(&p, &b, &a) < 0); /* PP before the micro-batch */
    b.index = 4;                                    /* the space is sorted by geometry */
    assert_true(candidate_compare(&p, &a, &b) < 0);
    b.step_time_s = 1.9;
    assert_true(candidate_compare(&p, &b, &a) < 0);
    a.run.score = nextafter(a.run.score, 0.0);
    assert_true(candidate_compare(&p, &a, &b) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_by_hand),     cmocka_unit_test(repeats_lose_their_worth),
        cmocka_unit_test(the_laws_own_count), cmocka_unit_test(against_the_oracle),
        cmocka_unit_test(the_papers_plan),    cmocka_unit_test(total_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
