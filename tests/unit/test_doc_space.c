// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a plan leaves open: numbers of nodes, a Pareto grid, ranges and values that are never taken;
 * budgets that follow from the nodes.  Contradictions are refused at their place.
 */
#include "test_doc.h"

#include "plan/pareto.h"

static struct document *with(const char *tail) {
    char text[2048];
    (void)snprintf(text, sizeof text, "%s%s", HEAD, tail);
    return must_parse(text, NULL, 0);
}

static void numbers_of_nodes(void **state) {
    (void)state;
    struct document *d = with("search: {nodes: [16, 4, 8]}\n");
    const struct axis *const nodes = &d->problem.fleet.nodes;
    assert_int_equal(nodes->count, 3);
    assert_int_equal(nodes->values[0], 4);
    assert_int_equal(nodes->values[2], 16);
    assert_int_equal(d->problem.cluster.nodes, 32); /* of every other command */
    assert_int_equal(pareto_size(&d->problem), 0);
    document_free(d);
    d = with("search: {nodes: {from: 2, to: 64, factor: 2, not: [8, 32]}}\n");
    assert_int_equal(d->problem.fleet.nodes.count, 4);
    assert_int_equal(d->problem.fleet.nodes.values[2], 16);
    document_free(d);
    /* Without a number of its own the problem is of the largest. */
    d = must_parse("schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nbudget: {days: 20}\n"
                   "search: {nodes: [8, 16]}\n",
                   NULL, 0);
    assert_int_equal(d->problem.cluster.nodes, 16);
    document_free(d);
}

static void a_pareto_grid(void **state) {
    (void)state;
    struct document *d = with("search:\n  nodes: [4, 8]\n"
                              "  pareto: {days: [20, 5.5], memory: [100 %, 0.6]}\n");
    const struct fleet_space *const f = &d->problem.fleet;
    assert_int_equal(pareto_size(&d->problem), 8);
    assert_close(f->seconds.values[0], 5.5 * 86400.0, 0.0);
    assert_close(f->memory.values[0], 0.6, 0.0);
    assert_close(f->memory.values[1], 1.0, 0.0);
    document_free(d);
    d = with("search: {pareto: {}}\n");
    assert_int_equal(pareto_size(&d->problem), 1);
    document_free(d);
}

static void budgets_follow_from_the_nodes(void **state) {
    (void)state;
    static const struct document_override hours = {"budget", "{gpu_hours: 122880}"};
    static const struct document_override cost[] = {{"cluster.price", "4 USD/h"},
                                                    {"budget", "{cost: 491520 USD}"}};
    struct document *d = must_parse(HEAD, &hours, 1);
    struct problem other;
    assert_close(d->problem.budget.seconds, 20.0 * 86400.0, 1e-15);
    problem_on(&d->problem, 8, &other);
    assert_close(other.budget.seconds, 80.0 * 86400.0, 1e-15);
    assert_int_equal(other.geometries.count, d->problem.geometries.count);
    document_free(d);
    d = must_parse(HEAD, cost, 2);
    assert_close(d->problem.budget.seconds, 20.0 * 86400.0, 1e-15);
    assert_close(d->problem.budget.gpu_hours, 122880.0, 1e-15);
    document_free(d);
}

static void checkpoints_follow_from_the_nodes(void **state) {
    (void)state;
    static const char formula[] = "{days: 20, goodput: {mtbf_per_node: 320 day, "
                                  "checkpoint_interval: best, checkpoint_time: 60 s, "
                                  "restart_time: 10 min}}";
    const struct document_override best = {"budget", formula};
    struct document *const d = must_parse(HEAD, &best, 1);
    const struct budget *const b = &d->problem.budget;
    const double failing_s = 10.0 * 86400.0, alive = 1.0 - 600.0 / failing_s;
    struct problem other;
    double want = 0.0;
    struct status_error err;
    assert_true(b->checkpoints.is_stated);
    assert_int_equal(budget_goodput(320.0 * 86400.0, sqrt(2.0 * 60.0 * failing_s * alive), 60.0,
                                    600.0, 32, &want, &err),
                     MOSAIC_OK);
    assert_close(b->goodput, want, 1e-12);
    problem_on(&d->problem, 4, &other);
    assert_true(other.budget.goodput > b->goodput);
    document_free(d);
}

static void values_never_taken(void **state) {
    (void)state;
    struct document *d = with("search: {layout: {tp: {not: [2, 8]}, ep: {from: 1, to: 16, factor: "
                              "2, not: 4}}}\n");
    const struct layout_space *const s = &d->problem.layouts;
    assert_int_equal(s->tp.count, 0);
    assert_int_equal(s->tp.forbidden_count, 2);
    assert_int_equal(s->tp.forbidden[1], 8);
    assert_int_equal(s->ep.count, 4);
    assert_int_equal(s->ep.forbidden_count, 0);
    assert_int_equal(s->ep.values[2], 8);
    document_free(d);
    d = with("search: {geometry: {ladder: mosaic, q: {from: 8, to: 18, step: 2, not: [10]},\n"
             "  experts: {from: 8, to: 512, factor: 2}, top_k: 2, granularity: 1}}\n");
    assert_int_equal(d->census.products, 5 * 7);
    document_free(d);
}

struct refusal {
    const char *tail, *message;
};

/* U86: what contradicts itself is said before anything is searched. */
static const struct refusal refusals[] = {
    {"search: {nodes: []}\n", "must not be empty"},
    {"search: {nodes: [0]}\n", "nodes"},
    {"search: {nodes: [4, 4]}\n", "twice"},
    {"search: {nodes: {from: 8, to: 2, step: 1}}\n", "larger to the smaller"},
    {"search: {nodes: {from: 2, to: 4, step: 1, not: [2, 3, 4]}}\n", "leaves no value"},
    {"search: {nodes: {not: [4]}}\n", "from"},
    {"search: {nodes: [200000]}\n", "at most"},
    {"search: {nodes: {from: 1, to: 65, step: 1}}\n", "at most 64"},
    {"search: {pareto: {days: [0]}}\n", "above 0"},
    {"search: {pareto: {memory: [1.5]}}\n", "memory"},
    {"search: {pareto: {memory: [0]}}\n", "memory"},
    {"search: {pareto: {gpus: [1]}}\n", "unknown key"},
    {"search: {pareto: {days: {from: 1, to: 3, step: 1}}}\n", "days"},
    {"objective: tokens\nsearch: {pareto: {days: [1]}}\n", "no use for objective tokens"},
    {"search: {layout: {tp: {not: []}}}\n", "must not be empty"},
    {"search: {layout: {tp: {not: [1, 2, 4, 8, 16, 32, 64, 128, 256]}}}\n", "leaves no divisor"},
    {"search: {layout: {tp: {not: [1], to: 4}}}\n", "unknown key 'to'"},
    {"search: {layout: {pp: {not: [2]}, vpp: 1, stages: [24, 24]}}\n", "forbids"},
    {"search: {geometry: {ladder: mosaic, q: {not: [8]}, experts: 8, top_k: 2, granularity: 1}}\n",
     "from"},
    {"objective: time\n", "needs a budget.target_loss"},
};

static void contradictions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; ++i) {
        char text[2048];
        struct document *d = NULL;
        (void)snprintf(text, sizeof text, "%s%s", HEAD, refusals[i].tail);
        if (parse(text, NULL, 0, &d) == MOSAIC_OK)
            fail_msg("taken: %s", refusals[i].tail);
        char *const words = diag_text(NULL, &said, false);
        if (!words || !strstr(words, refusals[i].message) || !strstr(words, ".yaml:"))
            fail_msg("%s says: %s", refusals[i].tail, words ? words : "");
        talloc_free(words);
    }
}

static const struct refusal budgets[] = {
    {"{days: 2, gpu_hours: 4}", "not several"},
    {"{cost: 100 USD}", "needs the cluster's 'price'"},
    {"{cost: 100}", "USD"},
    {"{cost: 0 USD}", "above 0"},
    {"{gpu_hours: 1e308}", "gpu_hours"},
    {"{gpu_hours: nan}", "gpu_hours"},
    {"{days: 1e308}", "days"},
    {"{target_loss: 0}", "above 0"},
    {"{target_loss: -1}", "target_loss"},
    {"{target_loss: .nan}", "target_loss"},
    {"{target_loss: 1e308}", "target_loss"},
    {"{days: 2, goodput: {mtbf_per_node: 9 day, checkpoint_interval: least, checkpoint_time: 1 s, "
     "restart_time: 1 s}}",
     "checkpoint_interval"},
    {"{days: 2, goodput: {mtbf_per_node: 9 day, checkpoint_interval: best, checkpoint_time: 0 s, "
     "restart_time: 1 s}}",
     "no best interval"},
    {"{days: 2, goodput: {mtbf_per_node: 9 day, checkpoint_interval: best, checkpoint_time: 1 s, "
     "restart_time: 2 day}}",
     "before a restart is over"},
    {"{days: 2, goodput: {mtbf_per_node: 9 day, checkpoint_time: 1 s, restart_time: 1 s}}",
     "checkpoint_interval"},
};

static void budgets_that_make_no_sense(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; ++i) {
        const struct document_override set = {"budget", budgets[i].tail};
        struct document *d = NULL;
        if (parse(HEAD, &set, 1, &d) == MOSAIC_OK)
            fail_msg("taken: %s", budgets[i].tail);
        char *const words = diag_text(NULL, &said, false);
        if (!words || !strstr(words, budgets[i].message))
            fail_msg("%s says: %s", budgets[i].tail, words ? words : "");
        talloc_free(words);
    }
    static const struct document_override price = {"cluster.price", "nan USD/h"};
    struct document *d = NULL;
    assert_int_equal(parse(HEAD, &price, 1, &d), MOSAIC_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_nodes),
        cmocka_unit_test(a_pareto_grid),
        cmocka_unit_test(budgets_follow_from_the_nodes),
        cmocka_unit_test(checkpoints_follow_from_the_nodes),
        cmocka_unit_test(values_never_taken),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(budgets_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
