// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The number of nodes as an axis against a search for each number by itself, the Pareto set against
 * all points of its grid, and what a stop or a limit leaves of both.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "plan/fleet.h"
#include "plan/pareto.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 60, GEOMETRIES = 6 };

static const double hour_s = 3600.0, day_s = 86400.0;

static void single(const struct problem *p, struct search_result *out) {
    struct status_error err;
    const struct search_options options = {.threads = 1};
    if (search_run(p, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

/* A problem on a number of nodes as a document of that number would be: nothing of problem_on. */
static struct problem stated_on(const struct problem *p, int nodes) {
    struct problem q = *p;
    const struct checkpointing *const c = &q.budget.checkpoints;
    q.cluster.nodes = nodes;
    q.fleet = (struct fleet_space){.has_pareto = false};
    if (q.budget.gpu_hours > 0.0)
        q.budget.seconds = q.budget.gpu_hours / (nodes * q.cluster.gpus_per_node) * hour_s;
    if (c->is_stated)
        q.budget.goodput =
            (1.0 - c->checkpoint_s / c->interval_s) *
            (1.0 - (c->interval_s / 2.0 + c->restart_s) * nodes / c->mtbf_per_node_s);
    return q;
}

static void draw(struct random *r, struct problem *p, struct geometry *items) {
    static const int per_node[] = {2, 3, 4};
    case_random(r, p, items, (size_t)random_int(r, 1, GEOMETRIES));
    p->cluster.nodes = random_int(r, 1, 4);
    p->cluster.gpus_per_node = random_pick(r, per_node, 3);
    p->cluster.tiers[0].domain = p->cluster.gpus_per_node;
    p->cluster.tiers[1].domain = 64;
    p->fleet.nodes.count = 0;
    for (int nodes = 1; nodes <= 4; ++nodes)
        if (random_chance(r, 0.7))
            p->fleet.nodes.values[p->fleet.nodes.count++] = nodes;
    p->objective = (enum objective_kind)random_int(r, 0, OBJECTIVES - 1);
    p->cluster.price_usd_per_gpu_h = random_chance(r, 0.5) ? 3.0 : 0.0;
    p->budget.seconds = random_between(r, 0.2, 3.0) * 1e4;
    if (random_chance(r, 0.4))
        p->budget.gpu_hours = random_between(r, 10.0, 100.0);
    if (random_chance(r, 0.4))
        p->budget.checkpoints =
            (struct checkpointing){.is_stated = true,
                                   .mtbf_per_node_s = exp(random_between(r, 6.0, 10.5)),
                                   .interval_s = random_between(r, 200.0, 900.0),
                                   .checkpoint_s = random_between(r, 1.0, 60.0),
                                   .restart_s = random_between(r, 10.0, 300.0)};
    if (objective_has_target(p->objective)) {
        struct oracle_counts n;
        oracle_count(&items[0], &n);
        p->budget.target_loss = oracle_loss(&p->law, n.total, n.active * random_between(r, 20, 200),
                                            n.sparsity, items[0].granularity);
        if (random_chance(r, 0.7))
            p->budget.seconds = (double)INFINITY;
    }
}

struct coverage {
    int planned, infeasible, inner, last, no_work;
};

static void one_axis(struct random *r, struct coverage *seen) {
    static struct fleet fleet;
    static struct search_result got;
    static struct problem best;
    struct geometry items[GEOMETRIES];
    struct problem p;
    struct status_error err;
    struct series series;
    draw(r, &p, items);
    const struct memo_source memos = {memo_store_new(), "steps"};
    const struct search_options options = {.threads = 1};
    const int count = fleet_size(&p);
    double score = (double)INFINITY;
    int winner = -1, idle = 0;
    for (int i = 0; i < count; ++i) {
        const int nodes = p.fleet.nodes.count > 0 ? p.fleet.nodes.values[i] : p.cluster.nodes;
        const struct problem at = stated_on(&p, nodes);
        struct search_result one;
        idle += !(at.budget.goodput > 0.0);
        if (!(at.budget.goodput > 0.0))
            continue;
        single(&at, &one);
        if (one.kept_count > 0 && one.kept[0].run.score < score) {
            score = one.kept[0].run.score;
            winner = i;
        }
        search_result_free(&one);
    }
    series_begin(&series, &options, (size_t)count);
    series.memos = &memos;
    const enum mosaic_status status = fleet_search(&p, &series, &best, &got, &fleet, &err);
    assert_int_equal(status, idle == count ? MOSAIC_NO_PLAN : MOSAIC_OK);
    seen->no_work += idle > 0;
    if (idle < count) {
        assert_int_equal(fleet.count, count);
        assert_int_equal(series.done, count);
        assert_int_equal(got.status, winner >= 0 ? SEARCH_OPTIMAL : SEARCH_INFEASIBLE);
        assert_int_equal(got.kept_count > 0, winner >= 0);
        assert_int_equal(best.cluster.nodes, fleet.points[fleet.best].nodes);
        if (winner >= 0) {
            const struct problem at = stated_on(&p, fleet.points[winner].nodes);
            assert_int_equal(fleet.best, winner);
            assert_close(got.kept[0].run.score, score, 1e-12);
            if (isfinite(at.budget.seconds))
                assert_close(best.budget.seconds, at.budget.seconds, 1e-12);
            assert_close(best.budget.goodput, at.budget.goodput, 1e-12);
            assert_true(got.proof.has_gap);
            assert_close_abs(got.proof.gap, 0.0, 0.0);
            /* The memo is that of the winner. */
            assert_close(fleet.memo->items[got.kept[0].index].best->step_time_s,
                         got.kept[0].step_time_s, 0.0);
        }
        seen->planned += winner >= 0;
        seen->infeasible += winner < 0;
        seen->last += winner == count - 1 && count > 1;
        seen->inner += winner >= 0 && winner < count - 1;
        search_result_free(&got);
        series_give(&series, fleet.memo);
    }
    memo_store_free(memos.store);
}

static void nodes_are_the_best_of_each(void **state) {
    (void)state;
    struct random r = {41};
    struct coverage seen = {0};
    for (int i = 0; i < SPACES; ++i)
        one_axis(&r, &seen);
    print_message("%d planned, %d infeasible, %d at the last, %d before it, %d with idle nodes\n",
                  seen.planned, seen.infeasible, seen.last, seen.inner, seen.no_work);
    assert_true(seen.planned > SPACES / 3 && seen.infeasible > 2);
    assert_true(seen.last > 3 && seen.inner > 3 && seen.no_work > 3);
}

/* ---- ties ---- */

/* Twice the nodes of a machine that they make no faster: the fewer are taken. */
static void ties_go_to_fewer_nodes(void **state) {
    (void)state;
    static struct fleet fleet;
    static struct search_result got;
    static struct problem best;
    static struct geometry items[2048];
    struct problem p;
    struct status_error err;
    struct series series;
    const struct search_options options = {.threads = 1};
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 40;
    p.limits.tokens_per_active_min = 0.0;
    p.limits.tokens_per_active_max = 1e-3; /* every size has the same tokens long before its days */
    p.fleet.nodes = (struct axis){.count = 3, .values = {1, 2, 4}};
    series_begin(&series, &options, 3);
    assert_int_equal(fleet_search(&p, &series, &best, &got, &fleet, &err), MOSAIC_OK);
    for (int i = 0; i < 3; ++i)
        assert_true(fleet.points[i].has_plan);
    assert_close(fleet.points[2].best.run.score, fleet.points[0].best.run.score, 0.0);
    assert_int_equal(best.cluster.nodes, 1);
    search_result_free(&got);
}

/* ---- stops and limits ---- */

struct stopper {
    atomic_bool stop;
    double at, last;
    int calls;
};

static void stop_late(void *context, double done, double total) {
    struct stopper *const s = context;
    assert_true(done >= s->last && done <= total * (1.0 + 1e-12)); /* one scale for all searches */
    s->last = done;
    s->calls++;
    if (done >= s->at * total)
        atomic_store(&s->stop, true);
}

/* Stopped in the second of three searches: what there is stays, and how good it is not known. */
static void a_stop_keeps_what_there_is(void **state) {
    (void)state;
    static struct fleet fleet;
    static struct search_result got;
    static struct problem best;
    static struct geometry items[2048];
    struct problem p;
    struct status_error err;
    struct series series;
    struct stopper stopper = {.at = 0.5};
    const struct search_options options = {
        .threads = 1, .stop = &stopper.stop, .progress = stop_late, .progress_context = &stopper};
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 100;
    p.fleet.nodes = (struct axis){.count = 3, .values = {1, 2, 4}};
    series_begin(&series, &options, 3);
    assert_int_equal(fleet_search(&p, &series, &best, &got, &fleet, &err), MOSAIC_OK);
    assert_int_equal(got.status, SEARCH_INTERRUPTED);
    assert_int_equal(fleet.points[0].status, SEARCH_OPTIMAL);
    assert_int_equal(fleet.points[1].status, SEARCH_INTERRUPTED);
    assert_int_equal(fleet.points[2].end, FLEET_UNTRIED);
    assert_true(got.kept_count > 0 && stopper.calls > 2);
    assert_false(got.proof.has_gap);
    search_result_free(&got);
}

/* Each search is cut short by itself, and the gap is over all of them. */
static void limits_make_one_gap(void **state) {
    (void)state;
    static struct fleet fleet;
    static struct search_result got;
    static struct problem best;
    static struct geometry items[2048];
    struct problem p;
    struct status_error err;
    struct series series;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 200;
    p.fleet.nodes = (struct axis){.count = 2, .values = {2, 4}};
    double exact = 0.0;
    for (int pass = 0; pass < 2; ++pass) {
        const struct search_options options = {.threads = 1, .geometry_limit = pass};
        series_begin(&series, &options, 2);
        assert_int_equal(fleet_search(&p, &series, &best, &got, &fleet, &err), MOSAIC_OK);
        assert_int_equal(got.status, pass == 0 ? SEARCH_OPTIMAL : SEARCH_LIMIT);
        assert_true(got.proof.has_gap);
        if (pass == 0)
            exact = got.kept[0].run.score;
        else
            assert_true(got.kept[0].run.score > exact &&
                        got.kept[0].run.score - got.proof.gap <= exact);
        search_result_free(&got);
    }
}

/* ---- Pareto ---- */

struct point {
    int nodes;
    double share, goals[PARETO_GOALS];
};

static bool no_worse(const struct point *a, const struct point *b) {
    for (int g = 0; g < PARETO_GOALS; ++g)
        if (a->goals[g] > b->goals[g])
            return false;
    return true;
}

/* Every point of the grid by a search of its own. */
static size_t whole_grid(const struct problem *p, struct point *points) {
    size_t count = 0;
    for (int n = 0; n < p->fleet.nodes.count; ++n)
        for (int m = 0; m < p->fleet.memory.count; ++m)
            for (int d = 0; d < p->fleet.seconds.count; ++d) {
                struct problem at = stated_on(p, p->fleet.nodes.values[n]);
                struct search_result one;
                at.cluster.device.memory_bytes *= p->fleet.memory.values[m];
                at.budget.seconds = p->fleet.seconds.values[d];
                single(&at, &one);
                if (one.kept_count > 0) {
                    const struct candidate *const c = &one.kept[0];
                    const double gpus = at.cluster.nodes * at.cluster.gpus_per_node;
                    points[count++] =
                        (struct point){.nodes = at.cluster.nodes,
                                       .share = p->fleet.memory.values[m],
                                       .goals = {c->run.loss, c->run.seconds / day_s, gpus,
                                                 p->fleet.memory.values[m],
                                                 c->run.seconds / hour_s * gpus *
                                                     (at.cluster.price_usd_per_gpu_h > 0.0
                                                          ? at.cluster.price_usd_per_gpu_h
                                                          : 1.0)}};
                }
                search_result_free(&one);
            }
    return count;
}

static size_t unbeaten(const struct point *points, size_t count, struct point *out) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        bool stays = true;
        for (size_t k = 0; k < count && stays; ++k)
            stays = k == i || !no_worse(&points[k], &points[i]) ||
                    (no_worse(&points[i], &points[k]) && k > i);
        if (stays)
            out[kept++] = points[i];
    }
    return kept;
}

static void pareto_is_the_unbeaten(void **state) {
    (void)state;
    static struct geometry items[GEOMETRIES];
    static struct oracle_answer solved;
    struct random r = {77};
    int sets = 0, beaten = 0, equal = 0;
    for (int i = 0; i < 25; ++i) {
        struct problem p;
        struct pareto got;
        struct point points[64], want[64];
        struct status_error err;
        struct series series;
        const struct search_options options = {.threads = 1};
        draw(&r, &p, items);
        p.objective = OBJECTIVE_LOSS;
        p.budget = (struct budget){.seconds = 1e4, .goodput = 0.9};
        p.fleet.nodes = (struct axis){.count = 3, .values = {1, 2, 3}};
        p.fleet.has_pareto = true;
        p.fleet.seconds = (struct number_axis){.count = 3, .values = {1e3, 1e4, 4e4}};
        p.fleet.memory = (struct number_axis){.count = 3, .values = {0.4, 0.7, 1.0}};
        /* A memory that matters: twice what some layout takes. */
        oracle_search(&p, false, &solved);
        if (solved.layouts[0].found)
            p.cluster.device.memory_bytes = solved.layouts[0].peak_bytes * 1.5;
        if (random_chance(&r, 0.5)) /* tokens run out before the days do */
            p.limits.tokens_per_active_max = random_between(&r, 5.0, 100.0);
        const size_t count = whole_grid(&p, points), kept = unbeaten(points, count, want);
        series_begin(&series, &options, pareto_size(&p));
        assert_int_equal(pareto_find(&p, &series, &got, &err), MOSAIC_OK);
        assert_int_equal(got.grid, 27);
        assert_int_equal(got.searched, 27);
        assert_int_equal(got.infeasible, 27 - count);
        assert_int_equal(got.count, kept);
        for (size_t k = 0; k < kept; ++k) {
            assert_int_equal(got.items[k].nodes, want[k].nodes);
            assert_close(got.items[k].memory_share, want[k].share, 0.0);
            for (int g = 0; g < PARETO_GOALS; ++g)
                assert_close(got.items[k].goals[g], want[k].goals[g], 1e-12);
        }
        sets += kept > 1;
        beaten += kept < count;
        for (size_t a = 0; a < count; ++a)
            for (size_t b = 0; b < a; ++b)
                equal += no_worse(&points[a], &points[b]) && no_worse(&points[b], &points[a]);
        pareto_free(&got);
    }
    print_message("%d sets of several, %d with beaten points, %d pairs of equals\n", sets, beaten,
                  equal);
    assert_true(sets > 8 && beaten > 8 && equal > 0);
}

/* The grid stopped on its way is a part of it, in its order. */
static void a_stop_keeps_part_of_the_grid(void **state) {
    (void)state;
    static struct geometry items[2048];
    struct problem p;
    struct pareto got;
    struct status_error err;
    struct series series;
    struct stopper stopper = {.at = 0.4};
    const struct search_options options = {
        .threads = 1, .stop = &stopper.stop, .progress = stop_late, .progress_context = &stopper};
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 60;
    p.fleet.nodes = (struct axis){.count = 2, .values = {2, 4}};
    p.fleet.has_pareto = true;
    p.fleet.seconds = (struct number_axis){.count = 2, .values = {2 * day_s, 5 * day_s}};
    series_begin(&series, &options, pareto_size(&p));
    assert_int_equal(pareto_find(&p, &series, &got, &err), MOSAIC_OK);
    assert_int_equal(got.grid, 4);
    assert_true(got.searched >= 1 && got.searched < 4);
    assert_true(got.count >= 1 && got.count <= got.searched);
    for (size_t i = 0; i < got.count; ++i)
        assert_int_equal(got.items[i].nodes, 2);
    pareto_free(&got);
}

static void beating(void **state) {
    (void)state;
    const double base[PARETO_GOALS] = {1, 2, 3, 4, 5}, equal[PARETO_GOALS] = {1, 2, 3, 4, 5};
    const double better[PARETO_GOALS] = {1, 2, 3, 4, 4.5}, other[PARETO_GOALS] = {0.5, 2, 3, 4, 6};
    assert_false(pareto_beats(base, equal));
    assert_true(pareto_beats(better, base));
    assert_false(pareto_beats(base, better));
    assert_false(pareto_beats(other, base));
    assert_false(pareto_beats(base, other));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_the_best_of_each),
        cmocka_unit_test(ties_go_to_fewer_nodes),
        cmocka_unit_test(a_stop_keeps_what_there_is),
        cmocka_unit_test(limits_make_one_gap),
        cmocka_unit_test(pareto_is_the_unbeaten),
        cmocka_unit_test(a_stop_keeps_part_of_the_grid),
        cmocka_unit_test(beating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
