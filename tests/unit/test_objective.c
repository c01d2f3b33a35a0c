// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Every objective against brute force on small random spaces: tokens to a target by bisection, each
 * limit by its definition.  Then searches that share a memo, and limits of a search.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 120, GEOMETRIES = 7 };

static const double close_enough = 1e-9, day_s = 86400.0;

static void run(const struct problem *p, struct search_memo *memo, struct search_result *out) {
    struct status_error err;
    const struct search_options options = {.threads = 1, .memo = memo};
    if (search_run(p, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

/* ---- the oracle's own training ---- */

/* Fewest tokens down to the target, by bisection in their logarithm; INFINITY where none do. */
static double needed(const struct problem *p, const struct geometry *g,
                     const struct oracle_counts *n) {
    double low = 0.0, high = log(1e30);
    for (int i = 0; i < 200; ++i) {
        const double middle = 0.5 * (low + high);
        const double loss = oracle_loss(&p->law, n->total, oracle_worth(p, exp(middle)),
                                        n->sparsity, g->granularity);
        if (loss > p->budget.target_loss)
            low = middle;
        else
            high = middle;
    }
    return high < log(0.99e30) ? exp(high) : (double)INFINITY;
}

struct outcome {
    bool is_planned;
    double tokens, seconds, loss, score;
};

static double gpu_hours(const struct problem *p, double seconds) {
    return seconds / 3600.0 * p->cluster.nodes * p->cluster.gpus_per_node;
}

static struct outcome train(const struct problem *p, size_t index, double step_time_s) {
    const struct geometry *const g = &p->geometries.items[index];
    struct oracle_counts n;
    struct outcome out = {.seconds = p->budget.seconds};
    oracle_count(g, &n);
    if (p->objective == OBJECTIVE_TIME || p->objective == OBJECTIVE_COST) {
        const double per_s = (double)p->workload.global_batch * p->workload.sequence / step_time_s;
        out.tokens = fmax(needed(p, g, &n), p->limits.tokens_per_active_min * n.active);
        out.seconds = out.tokens / (per_s * p->budget.goodput);
        out.is_planned = out.tokens <= p->limits.tokens_per_active_max * n.active &&
                         isfinite(out.tokens) && out.seconds <= p->budget.seconds;
    } else {
        out.tokens = oracle_tokens(p, n.active, step_time_s);
        out.is_planned = out.tokens > 0.0;
    }
    if (!out.is_planned)
        return out;
    out.loss =
        oracle_loss(&p->law, n.total, oracle_worth(p, out.tokens), n.sparsity, g->granularity);
    const double price = p->cluster.price_usd_per_gpu_h;
    out.score = p->objective == OBJECTIVE_TIME ? out.seconds
                : p->objective == OBJECTIVE_COST
                    ? gpu_hours(p, out.seconds) * (price > 0.0 ? price : 1.0)
                : p->objective == OBJECTIVE_TOKENS ? -out.tokens
                                                   : out.loss;
    return out;
}

/* ---- random questions ---- */

struct coverage {
    int feasible[OBJECTIVES], infeasible[OBJECTIVES];
    int limited_by[4], repeated, late, priced;
};

/* A target that some geometry reaches with a sensible number of tokens. */
static void draw_question(struct random *r, struct problem *p, const struct oracle_answer *solved) {
    const size_t i = (size_t)random_int(r, 0, (int)p->geometries.count - 1);
    const struct geometry *const g = &p->geometries.items[i];
    struct oracle_counts n;
    oracle_count(g, &n);
    p->objective = (enum objective_kind)random_int(r, 0, OBJECTIVES - 1);
    p->cluster.price_usd_per_gpu_h = random_chance(r, 0.5) ? random_between(r, 1.0, 9.0) : 0.0;
    const double tokens = n.active * random_between(r, 20.0, 200.0);
    if (random_chance(r, 0.3))
        p->limits.unique_tokens = tokens * random_between(r, 0.3, 2.0);
    if (random_chance(r, 0.6))
        p->limits.tokens_per_active_min = tokens / n.active * random_between(r, 0.4, 1.3);
    if (random_chance(r, 0.6))
        p->limits.tokens_per_active_max =
            p->limits.tokens_per_active_min + tokens / n.active * random_between(r, 0.1, 0.8);
    if (objective_has_target(p->objective))
        p->budget.target_loss =
            oracle_loss(&p->law, n.total, oracle_worth(p, tokens), n.sparsity, g->granularity);
    const double step_s = solved->layouts[i].found ? solved->layouts[i].step_time_s : 1.0;
    const double asked_s = tokens / ((double)p->workload.global_batch * p->workload.sequence) *
                           step_s / p->budget.goodput;
    p->budget.seconds = objective_has_target(p->objective) && random_chance(r, 0.5)
                            ? (double)INFINITY
                            : asked_s * random_between(r, 0.7, 2.0);
}

static void note(const struct problem *p, const struct outcome *outcomes, const bool *found,
                 const struct search_result *got, struct coverage *c) {
    const bool has = got->kept_count > 0;
    c->feasible[p->objective] += has;
    c->infeasible[p->objective] += !has;
    for (size_t i = 0; i < p->geometries.count; ++i)
        c->late += found[i] && !outcomes[i].is_planned && objective_has_target(p->objective) &&
                   outcomes[i].seconds > p->budget.seconds;
    if (!has)
        return;
    c->limited_by[got->kept[0].run.limited_by]++;
    c->repeated += candidate_epochs(p, got->kept[0].run.tokens) > 1.0;
    c->priced += p->objective == OBJECTIVE_COST && p->cluster.price_usd_per_gpu_h > 0.0;
}

static int by_score(const void *left, const void *right) {
    const struct outcome *const a = left, *const b = right;
    return (a->score > b->score) - (a->score < b->score);
}

static void same_list(const struct problem *p, struct outcome *planned, size_t count,
                      const struct search_result *got) {
    qsort(planned, count, sizeof *planned, by_score);
    const double width = p->objective == OBJECTIVE_LOSS ? 1e-3 : 1e-2 * fabs(planned[0].score);
    size_t ties = 0;
    while (ties < count && planned[ties].score <= planned[0].score + width)
        ++ties;
    assert_int_equal(got->status, SEARCH_OPTIMAL);
    assert_int_equal(got->tie_count, ties);
    assert_int_equal(got->kept_count >= (count < SEARCH_TOP ? count : SEARCH_TOP), 1);
    for (size_t k = 0; k < got->kept_count && k < SEARCH_TOP; ++k)
        assert_close(got->kept[k].run.score, planned[k].score, close_enough);
    assert_true(got->proof.has_gap);
    assert_close_abs(got->proof.gap, 0.0, 0.0);
}

static void one_space(struct random *r, struct coverage *seen) {
    static struct oracle_answer want;
    struct search_result got;
    struct geometry items[GEOMETRIES];
    struct outcome outcomes[GEOMETRIES], planned[GEOMETRIES];
    bool found[GEOMETRIES];
    struct problem p;
    size_t count = 0;
    case_random(r, &p, items, (size_t)random_int(r, 1, GEOMETRIES));
    oracle_search(&p, false, &want);
    draw_question(r, &p, &want);
    for (size_t i = 0; i < p.geometries.count; ++i) {
        found[i] = want.layouts[i].found;
        outcomes[i] = found[i] ? train(&p, i, want.layouts[i].step_time_s)
                               : (struct outcome){.is_planned = false};
        if (outcomes[i].is_planned)
            planned[count++] = outcomes[i];
    }
    run(&p, NULL, &got);
    note(&p, outcomes, found, &got, seen);
    if (count == 0) {
        assert_int_equal(got.status, SEARCH_INFEASIBLE);
        assert_int_equal(got.kept_count, 0);
    } else {
        same_list(&p, planned, count, &got);
        const struct candidate *const best = &got.kept[0];
        const struct outcome *const its = &outcomes[best->index];
        assert_close(best->run.tokens, its->tokens, close_enough);
        assert_close(best->run.loss, its->loss, close_enough);
        if (objective_has_target(p.objective))
            assert_close(best->run.seconds, its->seconds, close_enough);
    }
    search_result_free(&got);
}

static void objectives_are_exact(void **state) {
    (void)state;
    struct random r = {20261130};
    struct coverage seen = {{0}, {0}, {0}, 0, 0, 0};
    for (int i = 0; i < SPACES; ++i)
        one_space(&r, &seen);
    int infeasible = 0;
    for (int k = 0; k < OBJECTIVES; ++k) {
        print_message("%s: %d feasible, %d infeasible\n", objective_name((enum objective_kind)k),
                      seen.feasible[k], seen.infeasible[k]);
        assert_true(seen.feasible[k] >= SPACES / 12);
        infeasible += seen.infeasible[k];
    }
    print_message("limited by %d %d %d %d; %d repeat, %d too late, %d priced\n", seen.limited_by[0],
                  seen.limited_by[1], seen.limited_by[2], seen.limited_by[3], seen.repeated,
                  seen.late, seen.priced);
    for (int k = 0; k < 4; ++k)
        assert_true(seen.limited_by[k] > 0);
    assert_true(infeasible > 4 && seen.repeated > 4 && seen.late > 4 && seen.priced > 4);
}

/* ---- a target out of reach ---- */

/* What is said to be in reach is above the target, and within the ratios that are allowed. */
static void least_loss_is_honest(void **state) {
    (void)state;
    static struct geometry items[2048];
    struct search_result got;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 60;
    p.objective = OBJECTIVE_TIME;
    p.budget.target_loss = 1.2;
    p.budget.seconds = 20.0 * day_s;
    run(&p, NULL, &got);
    assert_int_equal(got.status, SEARCH_INFEASIBLE);
    const double in_reach = got.least_loss;
    assert_true(isfinite(in_reach) && in_reach > p.budget.target_loss);
    search_result_free(&got);
    p.budget.target_loss = in_reach + 0.01; /* the bound of a step is near its best */
    run(&p, NULL, &got);
    assert_int_equal(got.status, SEARCH_OPTIMAL);
    search_result_free(&got);
    p.budget.target_loss = 1.2;
    p.budget.seconds = 60.0; /* no model may be trained on what a minute buys */
    run(&p, NULL, &got);
    assert_int_equal(got.status, SEARCH_INFEASIBLE);
    assert_false(isfinite(got.least_loss));
    search_result_free(&got);
}

/* ---- memos ---- */

static void same_search(const struct problem *p, const struct search_result *a,
                        const struct search_result *b) {
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->kept_count, b->kept_count);
    assert_int_equal(a->tie_count, b->tie_count);
    assert_memory_equal(&a->least_loss, &b->least_loss, sizeof a->least_loss);
    for (size_t k = 0; k < a->kept_count; ++k) {
        assert_int_equal(a->kept[k].index, b->kept[k].index);
        assert_close_abs(a->kept[k].run.score, b->kept[k].run.score, 0.0);
        assert_int_equal(mesh_compare(&a->kept[k].layout.mesh, &b->kept[k].layout.mesh), 0);
    }
    struct search_proof of_a = a->proof, of_b = b->proof;
    of_a.counts.tables = of_b.counts.tables =
        0; /* shared with the bound, if it is of this search */
    assert_memory_equal(&of_a, &of_b, sizeof of_a);
    for (size_t i = 0; i < p->geometries.count; ++i) {
        assert_int_equal(a->fates[i].end, b->fates[i].end);
        assert_close_abs(a->fates[i].bound_s, b->fates[i].bound_s, 0.0);
    }
}

/* Other budgets, targets, prices and limits on the same machine. */
static void memos_change_nothing(void **state) {
    (void)state;
    static struct geometry items[2048];
    struct search_memo *memo = NULL;
    struct status_error err;
    struct search_result fresh, again;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 150;
    assert_int_equal(search_memo_new(p.geometries.count, &memo, &err), MOSAIC_OK);
    static const struct {
        enum objective_kind objective;
        double days, target;
    } questions[] = {{OBJECTIVE_LOSS, 5, 0},     {OBJECTIVE_LOSS, 5, 0},
                     {OBJECTIVE_LOSS, 2, 0},     {OBJECTIVE_TIME, 30, 1.7},
                     {OBJECTIVE_TOKENS, 5, 0},   {OBJECTIVE_COST, 60, 1.65},
                     {OBJECTIVE_LOSS, 0.001, 0}, {OBJECTIVE_TIME, 1, 1.5}};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; ++i) {
        p.objective = questions[i].objective;
        p.budget.seconds = questions[i].days * day_s;
        p.budget.target_loss = questions[i].target;
        run(&p, NULL, &fresh);
        run(&p, memo, &again);
        same_search(&p, &fresh, &again);
        search_result_free(&fresh);
        search_result_free(&again);
    }
    search_memo_free(memo);
}

/* ---- limits ---- */

static void limited(const struct problem *p, const struct search_options *options, double best) {
    struct status_error err;
    struct search_result got;
    assert_int_equal(search_run(p, options, &got, &err), MOSAIC_OK);
    assert_int_equal(got.status, SEARCH_LIMIT);
    if (got.kept_count > 0) {
        assert_true(got.kept[0].run.score >= best);
        if (got.proof.has_gap)
            assert_true(got.kept[0].run.score - got.proof.gap <= best);
        assert_true(got.proof.ended[END_OPEN] > 0);
    }
    search_result_free(&got);
}

/* The incumbent is no better than the optimum, and its bound no worse. */
static void limits_bracket_the_optimum(void **state) {
    (void)state;
    static struct geometry items[2048];
    struct search_result whole;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 200;
    static const enum objective_kind objectives[] = {OBJECTIVE_LOSS, OBJECTIVE_TIME,
                                                     OBJECTIVE_TOKENS};
    for (size_t i = 0; i < 3; ++i) {
        p.objective = objectives[i];
        p.budget.target_loss = objective_has_target(p.objective) ? 1.7 : 0.0;
        run(&p, NULL, &whole);
        assert_int_equal(whole.status, SEARCH_OPTIMAL);
        const double best = whole.kept[0].run.score;
        search_result_free(&whole);
        for (long opened = 1; opened <= 9; opened += 4)
            limited(&p, &(struct search_options){.threads = 1, .geometry_limit = opened}, best);
        limited(&p, &(struct search_options){.threads = 1, .time_limit_s = 1e-9}, best);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objectives_are_exact),
        cmocka_unit_test(least_loss_is_honest),
        cmocka_unit_test(memos_change_nothing),
        cmocka_unit_test(limits_bracket_the_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
