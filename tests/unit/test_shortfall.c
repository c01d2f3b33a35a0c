// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Why a space holds no plan: each limit with its figures, and that what is said to suffice does, by
 * planning again with it.
 */
#include "plan_case.h"

#include "close.h"
#include "plan/shortfall.h"

#include <string.h>
#include <time.h>

enum { ROOM = 2048 };

static struct geometry items[ROOM];
static struct search_result result;

static void search(const struct problem *p) {
    struct status_error err;
    const struct search_options options = {.threads = 2};
    if (search_run(p, &options, &result, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    search_result_free(&result); /* what it owns is not looked at */
}

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Plans, finds nothing, and asks why. */
static struct shortfall ask(const struct problem *p) {
    struct shortfall s;
    struct status_error err;
    search(p);
    assert_int_equal(result.status, SEARCH_INFEASIBLE);
    const double begun = seconds();
    if (shortfall_find(p, &result, &s, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_true(seconds() - begun < 30.0); /* about 1 s at worst; sanitizers are slow */
    assert_true(isfinite(s.days_needed) && isfinite(s.capacity_bytes));
    return s;
}

/* A 671e9-parameter model on eight 80 GB GPUs. */
static void model_too_large(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/impossible.yaml", &p, items, ROOM);
    const struct shortfall s = ask(&p);
    assert_int_equal(s.limit, SHORTFALL_MEMORY);
    assert_string_equal(shortfall_name(s.limit), "memory");
    assert_int_equal(s.gpus, 8);
    assert_close(s.capacity_bytes, 80e9, 0.0);
    /* Weights and gradients alone: 6 bytes each of 671e9 parameters over 8 GPUs. */
    assert_true(s.needed_bytes > 6.0 * 671e9 / 8.0 && s.needed_bytes < 1e13);
    /* 12.08 TB at 18 bytes a parameter with perfect sharding: 142 such GPUs. */
    assert_true(s.gpus_needed >= 142 && s.gpus_needed <= 512);
    assert_int_equal(s.gpus_needed % 8, 0);
    assert_int_equal(s.gpus_needed, s.gpus_tried);
    p.limits.tokens_per_active_min = 0.0;
    p.layouts.etp = p.layouts.cp = (struct axis){.count = 1, .values = {1}};
    p.cluster.nodes = s.gpus_needed / 8;
    search(&p);
    assert_int_equal(result.status, SEARCH_OPTIMAL);
    p.cluster.nodes--;
    search(&p);
    assert_int_equal(result.status, SEARCH_INFEASIBLE);
}

/* One long sequence a step: more GPUs help only by context parallelism. */
static void long_sequence(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/impossible.yaml", &p, items, ROOM);
    items[0] = (struct geometry){.layers = 32,
                                 .first_dense = 32,
                                 .hidden = 4096,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .head_dim = 128,
                                 .v_head_dim = 128,
                                 .ffn_matrices = 3,
                                 .dense_ffn = 14336,
                                 .granularity = 1,
                                 .vocab = 128256};
    p.workload.vocab = items[0].vocab;
    p.workload.sequence = 4 << 20;
    p.workload.global_batch = 1;
    const struct shortfall s = ask(&p);
    assert_int_equal(s.limit, SHORTFALL_MEMORY);
    assert_true(s.gpus_needed > 8 && s.gpus_needed < 1024);
    p.limits.tokens_per_active_min = 0.0;
    p.cluster.nodes = s.gpus_needed / 8;
    search(&p);
    assert_int_equal(result.status, SEARCH_OPTIMAL);
    p.cluster.nodes--;
    search(&p);
    assert_int_equal(result.status, SEARCH_INFEASIBLE);
}

/* No number of GPUs helps: said, not searched for ever. */
static void never_fits(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/impossible.yaml", &p, items, ROOM);
    p.cluster.device.memory_bytes = 1e9;
    const struct shortfall s = ask(&p);
    assert_int_equal(s.limit, SHORTFALL_MEMORY);
    assert_int_equal(s.gpus_needed, 0);
    assert_true(s.gpus_tried > 10000);
}

/* Stages of one node share its memory: what one leaves another may take.  On every number of nodes
 * the count that is said to suffice is that of the search. */
static void shared_hosts(void **state) {
    (void)state;
    enum { CASES = 100, NODES_MOST = 12 };
    struct problem p;
    struct random r = {7};
    int known = 0, shared = 0;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    items[0] = items[p.geometries.count / 2];
    p.geometries.count = 1;
    p.limits.tokens_per_active_min = 0.0;
    p.layouts.tp = p.layouts.cp = p.layouts.etp = p.layouts.vpp = p.layouts.micro_batch =
        (struct axis){.count = 1, .values = {1}};
    p.layouts.ep = (struct axis){.count = 1, .values = {1}};
    p.layouts.recompute[RECOMPUTE_FULL] = p.layouts.recompute[RECOMPUTE_SELECTIVE] = false;
    p.workload.global_batch = 2 * 3 * 5 * 7 * 8 * 9 * 11; /* of any ranks here */
    p.workload.execution.offload_optimizer = 1.0;
    for (int i = 0; i < CASES; ++i) {
        items[0].layers = random_int(&r, 9, 40);
        p.layouts.pp = (struct axis){.count = 1, .values = {random_int(&r, 0, 1) ? 4 : 8}};
        struct param_counts counts;
        count_params(&items[0], &counts);
        const int on = random_int(&r, 2, 5);
        const double share = counts.n_total / (double)on;
        p.cluster.device.memory_bytes = 1.0;
        p.cluster.host_memory_bytes = 0.0;
        problem_resize(&p, on);
        search(&p); /* for the least that the devices must have there */
        p.cluster.device.memory_bytes = result.least_memory_bytes * random_between(&r, 1.0, 1.4);
        p.cluster.host_memory_bytes = share * random_between(&r, 11.5, 16.0);
        struct shortfall s;
        problem_resize(&p, 1);
        search(&p);
        if (result.status != SEARCH_INFEASIBLE)
            continue;
        shortfall_gpus(&p, &items[0], &s);
        struct problem more = p;
        int nodes = 1;
        do {
            problem_resize(&more, ++nodes);
            search(&more);
        } while (nodes < NODES_MOST && result.status != SEARCH_OPTIMAL);
        if (result.status != SEARCH_OPTIMAL)
            continue;
        const struct mesh *const m = &result.kept[0].layout.mesh;
        known++;
        shared += m->tp * m->cp * m->dp % p.cluster.gpus_per_node != 0;
        assert_int_equal(s.gpus_needed, nodes * p.cluster.gpus_per_node);
    }
    print_message("%d counts, %d of them with stages that share a node\n", known, shared);
    assert_true(known > 20 && shared > 5);
}

static void too_few_days(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    p.budget.seconds = 0.02 * 86400.0;
    const struct shortfall s = ask(&p);
    assert_int_equal(s.limit, SHORTFALL_TOKENS);
    assert_close(s.tokens_per_active_min, 40.0, 0.0);
    assert_true(s.tokens_per_active > 0.0 && s.tokens_per_active < 40.0);
    assert_close(s.days_needed, 0.02 * 40.0 / s.tokens_per_active, 1e-12);
    /* A lower bound on the days: nothing below it, something not far above. */
    p.budget.seconds = 0.999 * s.days_needed * 86400.0;
    search(&p);
    assert_int_equal(result.status, SEARCH_INFEASIBLE);
    p.budget.seconds = 1.05 * s.days_needed * 86400.0;
    search(&p);
    assert_int_equal(result.status, SEARCH_OPTIMAL);
}

/* Unique tokens run out: they are repeated, and the plan is worse but there. */
static void too_few_unique_tokens(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    search(&p);
    const double fresh = result.kept[0].run.loss;
    p.limits.unique_tokens = 1e9;
    search(&p);
    assert_int_equal(result.status, SEARCH_OPTIMAL);
    assert_true(result.kept[0].run.loss > fresh + 0.1);
    assert_true(candidate_epochs(&p, result.kept[0].run.tokens) > 1.0);
}

static void no_legal_layout(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    p.layouts.ep = (struct axis){.count = 1, .values = {3}};
    struct shortfall s = ask(&p);
    assert_int_equal(s.limit, SHORTFALL_LAYOUT);
    assert_string_equal(shortfall_name(s.limit), "layout");
    assert_non_null(strstr(s.first_rule, "EP 3"));
    assert_int_equal(s.gpus_needed, 0);
    /* The engine's rule: nothing is indivisible, still no layout. */
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    p.geometries.count = 1;
    items[0].layers = 15;
    p.engine.uneven_stages = false;
    p.layouts.pp = (struct axis){.count = 1, .values = {4}};
    s = ask(&p);
    assert_int_equal(s.limit, SHORTFALL_LAYOUT);
    assert_true(result.proof.bound_counts.census.engine_rule > 0);
    assert_true(strlen(s.first_rule) > 10);
}

/* Where one candidate fits the memory but not the days and another not the memory, days would help
 * the first: time is named. */
static void memory_and_days(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    p.budget.seconds = 0.02 * 86400.0;
    search(&p);
    p.cluster.device.memory_bytes = 8.0 * result.least_memory_bytes;
    const struct shortfall s = ask(&p);
    assert_true(result.proof.ended[END_BY_MEMORY] > 0 && result.proof.ended[END_BY_TOKENS] > 0);
    assert_int_equal(s.limit, SHORTFALL_TOKENS);
}

static void above_the_peak(void **state) {
    (void)state;
    struct problem p;
    struct shortfall s;
    struct status_error err;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    memset(&result, 0, sizeof result);
    result.proof.ended[END_TOO_LARGE] = 3;
    result.proof.counts.implausible = 2;
    assert_int_equal(shortfall_find(&p, &result, &s, &err), MOSAIC_OK);
    assert_int_equal(s.limit, SHORTFALL_MFU);
    p.geometries.count = 0;
    assert_int_equal(shortfall_find(&p, &result, &s, &err), MOSAIC_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_too_large), cmocka_unit_test(long_sequence),
        cmocka_unit_test(never_fits),      cmocka_unit_test(shared_hosts),
        cmocka_unit_test(too_few_days),    cmocka_unit_test(too_few_unique_tokens),
        cmocka_unit_test(no_legal_layout), cmocka_unit_test(memory_and_days),
        cmocka_unit_test(above_the_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
