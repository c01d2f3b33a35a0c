// SPDX-License-Identifier: GPL-3.0-or-later
/* Which memo a search is given, and that none changes what it finds. */
#include "doc/step_key.h"
#include "mosaic_session.h"
#include "plan/memo_store.h"
#include "plan_case.h"

#include "close.h"

#include <stdlib.h>
#include <string.h>

/* ---- the store ---- */

static struct search_memo *take(struct memo_store *store, const char *steps, int nodes,
                                double share, const struct geometry_space *space) {
    const struct memo_source source = {store, steps};
    struct search_memo *memo = NULL;
    struct status_error err;
    assert_int_equal(memo_store_take(&source, nodes, share, space, &memo, &err), MOSAIC_OK);
    assert_int_equal(memo->count, space->count);
    return memo;
}

static void a_memo_is_of_steps_machine_and_space(void **state) {
    (void)state;
    struct geometry two[2] = {{.layers = 4, .hidden = 64}, {.layers = 8, .hidden = 64}};
    struct geometry other[2] = {{.layers = 4, .hidden = 64}, {.layers = 8, .hidden = 65}};
    const struct geometry_space space = {2, two}, less = {1, two}, else_where = {2, other};
    struct memo_store *const store = memo_store_new();
    struct search_memo *const first = take(store, "a", 4, 1.0, &space);
    first->items[1].bound_s = 3.0;
    struct search_memo *const all[] = {
        first,
        take(store, "b", 4, 1.0, &space),
        take(store, "a", 5, 1.0, &space),
        take(store, "a", 4, 0.5, &space),
        take(store, "a", 4, 1.0, &less),
        take(store, "a", 4, 1.0, &else_where),
    };
    const size_t count = sizeof all / sizeof all[0];
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; k < i; ++k)
            assert_ptr_not_equal(all[i], all[k]);
    assert_int_equal(memo_store_uses(store).found, 0);
    two[0].window = 1; /* the caller's list may go */
    const struct geometry again[2] = {{.layers = 4, .hidden = 64}, {.layers = 8, .hidden = 64}};
    const struct geometry_space same = {2, (struct geometry *)(uintptr_t)again};
    assert_ptr_equal(take(store, "a", 4, 1.0, &same), first);
    assert_close(first->items[1].bound_s, 3.0, 0.0);
    memo_store_give(store, first);
    for (size_t i = 0; i < count; ++i)
        memo_store_give(store, all[i]);
    memo_store_give(store, NULL);
    assert_ptr_equal(take(store, "a", 4, 1.0, &same), first);
    assert_int_equal(memo_store_uses(store).taken, count + 2);
    assert_int_equal(memo_store_uses(store).found, 2);
    memo_store_free(store);
    memo_store_free(NULL);
}

/* What is in use stays however much there is, and so does the latest. */
static void old_memos_go(void **state) {
    (void)state;
    enum { LARGE = 60000, MACHINES = 5 };
    struct geometry *const items = calloc(LARGE, sizeof *items);
    const struct geometry_space space = {LARGE, items};
    struct memo_store *const store = memo_store_new();
    struct search_memo *const kept = take(store, "a", 1, 1.0, &space);
    kept->items[0].bound_s = 7.0;
    for (int nodes = 2; nodes <= MACHINES; ++nodes)
        memo_store_give(store, take(store, "a", nodes, 1.0, &space));
    assert_ptr_equal(take(store, "a", 1, 1.0, &space), kept);
    assert_close(kept->items[0].bound_s, 7.0, 0.0);
    (void)take(store, "a", MACHINES, 1.0, &space);
    assert_int_equal(memo_store_uses(store).found, 2);
    (void)take(store, "a", 2, 1.0, &space);
    assert_int_equal(memo_store_uses(store).found, 2);
    memo_store_free(store);
    free(items);
}

/* ---- through the library ---- */

/* A small plan under a few keys: "KEY=VALUE", ended by NULL. */
static char *planned(struct mosaic *session, const char *const *pairs) {
    struct mosaic_document *document = NULL;
    struct mosaic_result *result = NULL;
    for (size_t i = 0; pairs[i]; ++i) {
        char key[64];
        const size_t length = strcspn(pairs[i], "=");
        assert_true(length < sizeof key);
        (void)snprintf(key, sizeof key, "%.*s", (int)length, pairs[i]);
        assert_int_equal(mosaic_set(session, key, pairs[i] + length + 1), MOSAIC_OK);
    }
    if (mosaic_load(session, "configs/p6-b200-4n-5d.yaml", &document) != MOSAIC_OK)
        fail_msg("%s", mosaic_diagnostics(session));
    const enum mosaic_status status = mosaic_plan(session, document, NULL, &result);
    if (!result)
        fail_msg("%s: %s", mosaic_status_text(status), mosaic_diagnostics(session));
    char *const text = mosaic_result_json(result);
    mosaic_result_free(result);
    mosaic_document_free(document);
    return text;
}

static struct mosaic *small_session(void) {
    struct mosaic *const session = mosaic_new();
    assert_non_null(session);
    assert_int_equal(mosaic_set(session, "search.geometry.q", "[4]"), MOSAIC_OK);
    assert_int_equal(mosaic_set(session, "search.geometry.granularity", "[2, 4]"), MOSAIC_OK);
    return session;
}

/* Planned in a session that has planned before as in one of its own. */
static void plan_both(struct mosaic *shared, const char *const *pairs) {
    struct mosaic *const fresh = small_session();
    char *const got = planned(shared, pairs), *const want = planned(fresh, pairs);
    assert_string_equal(got, want);
    free(got);
    free(want);
    mosaic_free(fresh);
}

/* Both values, one after the other; how many searches found what an earlier one had learnt. */
static size_t found_of(const char *const *values, size_t count) {
    struct mosaic *const shared = small_session();
    for (size_t i = 0; i < count; ++i) {
        const char *const pairs[] = {values[i], NULL};
        plan_both(shared, pairs);
    }
    const size_t found = memo_store_uses(shared->memos).found;
    mosaic_free(shared);
    return found;
}

static void what_a_step_is_worth_leaves_the_steps(void **state) {
    (void)state;
    static const char *const values[][2] = {
        {"budget.days=5", "budget.days=2"},
        {"budget.goodput=0.9", "budget.goodput=0.5"},
        {"budget.goodput={mtbf_per_node: 200 day, checkpoint_interval: 30 min, checkpoint_time: "
         "2 min, restart_time: 10 min}",
         "budget.goodput={mtbf_per_node: 20 day, checkpoint_interval: 30 min, checkpoint_time: "
         "2 min, restart_time: 10 min}"},
        {"law.coefficients.e=0.3", "law.coefficients.e=0.35"},
        {"law={published: mosaic-2608.10605}", "law=configs/laws/mosaic-2608.10605.yaml"},
        {"search.tokens.per_active_parameter=[20, 100]",
         "search.tokens.per_active_parameter=[30, 60]"},
        {"workload.unique_tokens=1e10", "workload.unique_tokens=none"},
        {"cluster.price=4 USD/h", "cluster.price=5 USD/h"},
        {"search.pareto={days: [2, 5]}", "search.pareto={days: [3], memory: [60 %, 100 %]}"},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
        char key[64];
        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(values[i][0], "="), values[i][0]);
        if (!step_key_is_free(key))
            fail_msg("%s", key);
        const bool is_pareto = strstr(key, "pareto") != NULL;
        assert_int_equal(found_of(values[i], 2), is_pareto ? 3 : 1);
    }
    static const char *const nodes[] = {"search.nodes=[1, 2, 4]", "search.nodes=[2, 4, 8]"};
    assert_int_equal(found_of(nodes, 2), 2);
}

static void what_steps_follow_from_does_not(void **state) {
    (void)state;
    static const char *const values[][2] = {
        {"nodes=2", "nodes=4"},
        {"cluster.device.memory=120 GB", "cluster.device.memory=60 GB"},
        {"workload.sequence=4096", "workload.sequence=2048"},
        {"workload.imbalance=1.2", "workload.imbalance=1.5"},
        {"calibration.host.launch_gap=10 us", "calibration.host.launch_gap=20 us"},
        {"search.layout.ep=[1, 2]", "search.layout.ep=[1, 4]"},
        {"search.geometry.top_k=[4]", "search.geometry.top_k=[8]"},
        {"execution.sharding=ddp", "execution.sharding=zero1"},
        {"estimator=default", "estimator=published"},
        {"engine={name: megatron, version: \"2026.01\"}",
         "engine={name: megatron, version: \"2026.08\"}"},
        {"limits.n_total=10e9", "limits.n_total=20e9"},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
        char key[64];
        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(values[i][0], "="), values[i][0]);
        assert_false(step_key_is_free(key));
        assert_int_equal(found_of(values[i], 2), 0);
    }
    assert_false(step_key_is_free("budgets") || step_key_is_free("search.token"));
    assert_true(step_key_is_free("law[0]") && step_key_is_free("budget"));
}

/* The most tokens of one model, then its least loss. */
static void objectives_share_steps(void **state) {
    (void)state;
    static const char *const values[] = {"objective=tokens", "objective=loss"};
    struct mosaic *const shared = small_session();
    for (size_t i = 0; i < 2; ++i) {
        const char *const pairs[] = {"search.geometry.experts=[128]", "search.geometry.top_k=[8]",
                                     "search.geometry.granularity=[4]", values[i], NULL};
        plan_both(shared, pairs);
    }
    assert_int_equal(memo_store_uses(shared->memos).found, 1);
    mosaic_free(shared);
}

/* Several keys at once, as a sweep sets them, and back again. */
static void a_grid_comes_back_to_what_it_knows(void **state) {
    (void)state;
    static const char *const nodes[] = {"nodes=2", "nodes=4"};
    static const char *const days[] = {"budget.days=2", "budget.days=5", "budget.days=9"};
    struct mosaic *const shared = small_session();
    for (size_t d = 0; d < 3; ++d)
        for (size_t n = 0; n < 2; ++n) {
            const char *const pairs[] = {nodes[n], days[d], NULL};
            plan_both(shared, pairs);
        }
    assert_int_equal(memo_store_uses(shared->memos).taken, 6);
    assert_int_equal(memo_store_uses(shared->memos).found, 4);
    mosaic_free(shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_memo_is_of_steps_machine_and_space),
        cmocka_unit_test(old_memos_go),
        cmocka_unit_test(what_a_step_is_worth_leaves_the_steps),
        cmocka_unit_test(what_steps_follow_from_does_not),
        cmocka_unit_test(objectives_share_steps),
        cmocka_unit_test(a_grid_comes_back_to_what_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
