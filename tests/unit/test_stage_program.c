// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program against plain enumeration of every choice of columns (ties included), its two
 * methods against each other, cases worked by hand, and inputs that make no sense.
 */
#include "close.h"
#include "plan/stage_program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL_CASES = 400, MIDDLE_CASES = 24, COLUMNS_MAX = 60000, RESOURCES = 3 };

struct example {
    struct stage_problem problem;
    struct stage_column *columns;
    double *use;
    double capacity[RESOURCES];
};

/* The answer of the enumeration. */
struct answer {
    bool is_set;
    double objective, bottleneck, sum;
    int ends[STAGE_MAX], policies[STAGE_MAX];
};

static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static int draw_int(uint64_t *state, int low, int high) {
    return low + (int)(draw(state) * (high - low + 1));
}

static void example_new(struct example *example) {
    memset(example, 0, sizeof *example);
    stage_problem_init(&example->problem);
    example->columns = malloc(COLUMNS_MAX * sizeof *example->columns);
    example->use = malloc(COLUMNS_MAX * RESOURCES * sizeof *example->use);
    assert_non_null(example->columns);
    assert_non_null(example->use);
    example->problem.columns = example->columns;
    example->problem.use = example->use;
    example->problem.capacity = example->capacity;
}

static void example_free(struct example *example) {
    free(example->columns);
    free(example->use);
}

static void add(struct example *example, int stage, int first, int last, int policy, double time) {
    const struct stage_column column = {time, stage, first, last, policy};
    assert_true(example->problem.column_count < COLUMNS_MAX);
    example->columns[example->problem.column_count++] = column;
}

/* ---- enumeration ---- */

static bool precedes(const struct answer *a, const struct answer *b, int stages) {
    if (!b->is_set)
        return true;
    const double left[3] = {a->objective, a->bottleneck, a->sum};
    const double right[3] = {b->objective, b->bottleneck, b->sum};
    for (int k = 0; k < 3; k++)
        if (left[k] < right[k] || left[k] > right[k])
            return left[k] < right[k];
    for (int i = 0; i < 2 * stages; i++) {
        const int x = i < stages ? a->ends[i] : a->policies[i - stages];
        const int y = i < stages ? b->ends[i] : b->policies[i - stages];
        if (x != y)
            return x < y;
    }
    return false;
}

static void weigh(const struct stage_problem *problem, const size_t *chosen, struct answer *best) {
    struct answer made = {.is_set = true};
    for (int i = problem->stages - 1; i >= 0; i--) {
        const struct stage_column *column = &problem->columns[chosen[i]];
        if (!problem->policy_per_stage && column->policy != problem->columns[chosen[0]].policy)
            return;
        made.sum = column->time_s + made.sum;
        made.bottleneck = fmax(made.bottleneck, column->time_s);
        made.ends[i] = column->last;
        made.policies[i] = column->policy;
    }
    const size_t n = (size_t)problem->resources;
    for (size_t r = 0; r < n; r++) {
        double used = 0;
        for (int i = 0; i < problem->stages; i++)
            used += problem->use[chosen[i] * n + r];
        if (used > problem->capacity[r])
            return;
    }
    made.objective = problem->bottleneck_weight * made.bottleneck + problem->sum_weight * made.sum +
                     problem->constant_s;
    if (made.objective < problem->cutoff_s && precedes(&made, best, problem->stages))
        *best = made;
}

static void enumerate(const struct stage_problem *problem, int stage, int layer, size_t *chosen,
                      struct answer *best) {
    if (stage == problem->stages) {
        if (layer == problem->layers)
            weigh(problem, chosen, best);
        return;
    }
    for (size_t k = 0; k < problem->column_count; k++)
        if (problem->columns[k].stage == stage && problem->columns[k].first == layer) {
            chosen[stage] = k;
            enumerate(problem, stage + 1, problem->columns[k].last, chosen, best);
        }
}

static struct answer oracle(const struct stage_problem *problem) {
    struct answer best = {.is_set = false};
    size_t chosen[STAGE_MAX];
    enumerate(problem, 0, 0, chosen, &best);
    return best;
}

/* ---- random problems ---- */

/* Whole times make ties; missing columns, empty stages and shared rows come and go. */
static void randomise(struct example *example, uint64_t *state) {
    struct stage_problem *problem = &example->problem;
    static const double weights[4] = {0, 1, 7, 63};
    problem->column_count = 0;
    problem->stages = draw_int(state, 1, 5);
    problem->layers = draw_int(state, 3, 10);
    problem->policy_per_stage = draw(state) < 0.5;
    problem->resources = draw_int(state, 0, RESOURCES);
    problem->bottleneck_weight = weights[draw_int(state, 0, 3)];
    problem->sum_weight = draw(state) < 0.85;
    problem->constant_s = draw_int(state, -2, 2);
    problem->cutoff_s = HUGE_VAL;
    const int policies = draw_int(state, 1, problem->stages > 4 ? 2 : 3);
    const int least = draw(state) < 0.2 ? 0 : 1;
    const bool is_whole = draw(state) < 0.4;
    const double missing = draw(state) * 0.3;
    for (int i = 0; i < problem->stages; i++)
        for (int first = 0; first <= problem->layers; first++)
            for (int last = first + least; last <= problem->layers; last++)
                for (int policy = 0; policy < policies; policy++) {
                    const double time = (last - first) * (2 - 0.3 * policy) + 4 * draw(state);
                    const size_t k = problem->column_count;
                    if (draw(state) < missing)
                        continue;
                    for (int r = 0; r < problem->resources; r++)
                        example->use[k * (size_t)problem->resources + (size_t)r] =
                            is_whole ? draw_int(state, 0, 3) + policy : draw(state) * 4 + policy;
                    add(example, i, first, last, policy, is_whole ? floor(time) : time);
                }
    for (int r = 0; r < problem->resources; r++)
        example->capacity[r] = draw_int(state, 1, 4) * problem->stages;
}

static void compare(const struct answer *want, const struct stage_result *got, int stages) {
    assert_int_equal(got->has_choice, want->is_set);
    if (!want->is_set)
        return;
    assert_int_equal(got->outcome, STAGE_OPTIMAL);
    assert_close_abs(got->objective_s, want->objective, 0);
    assert_close_abs(got->bottleneck_s, want->bottleneck, 0);
    assert_close_abs(got->sum_s, want->sum, 0);
    assert_memory_equal(got->ends, want->ends, (size_t)stages * sizeof(int));
    assert_memory_equal(got->policies, want->policies, (size_t)stages * sizeof(int));
    assert_true(got->bound_s <= got->objective_s);
}

static void solve_both(struct stage_workspace *workspace, struct stage_problem *problem,
                       struct stage_result results[2]) {
    static const enum stage_method methods[2] = {STAGE_AUTO, STAGE_GLPK};
    struct status_error err = {0};
    for (int k = 0; k < 2; k++) {
        problem->method = methods[k];
        if (k == 1 && problem->stages > 5 && problem->resources > 0 && results[0].has_choice)
            problem->cutoff_s = results[0].objective_s * (1 + 1e-6); /* or its trees grow long */
        if (stage_program_solve(workspace, problem, &results[k], &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
    }
}

static void equals_enumeration(void **unused) {
    (void)unused;
    struct example example;
    example_new(&example);
    struct stage_workspace *workspace = stage_workspace_new();
    uint64_t state = 20260101;
    int counts[4] = {0}, bound = 0, trees = 0;
    for (int k = 0; k < SMALL_CASES; k++) {
        struct stage_result results[2];
        randomise(&example, &state);
        struct answer want = oracle(&example.problem);
        const double optimum = want.objective;
        const int kind = want.is_set ? draw_int(&state, 0, 2) : 0;
        if (kind > 0) { /* at the optimum nothing is better; just above it the same is best */
            example.problem.cutoff_s = kind == 1 ? optimum : optimum + 0.5;
            want = oracle(&example.problem);
        }
        solve_both(workspace, &example.problem, results);
        for (int m = 0; m < 2; m++) {
            compare(&want, &results[m], example.problem.stages);
            if (!want.is_set)
                assert_int_equal(results[m].outcome, kind ? STAGE_CUTOFF : STAGE_INFEASIBLE);
            counts[results[m].outcome]++;
        }
        bound += results[0].nodes > 0 || results[0].relaxations > 0;
        trees += results[1].trees > 0;
    }
    assert_true(counts[STAGE_OPTIMAL] > SMALL_CASES / 2 && counts[STAGE_CUTOFF] > SMALL_CASES / 8);
    assert_true(counts[STAGE_INFEASIBLE] > 10 && counts[STAGE_LIMIT] == 0);
    assert_true(bound > 20 && trees > 20); /* the rows did bind */
    stage_workspace_free(workspace);
    example_free(&example);
}

/* Layers of uneven cost, a heavy end; columns slower than twice the mean left out. */
static void middle_size(struct example *example, uint64_t *state, int resources) {
    struct stage_problem *problem = &example->problem;
    double cost[48], total = 0;
    problem->column_count = 0;
    problem->stages = draw_int(state, 8, resources > 0 ? 10 : 16);
    problem->layers = draw_int(state, 24, resources > 0 ? 30 : 48);
    problem->resources = resources;
    problem->policy_per_stage = draw(state) < 0.5;
    problem->bottleneck_weight = draw_int(state, 0, 64);
    problem->sum_weight = 1;
    problem->cutoff_s = HUGE_VAL;
    for (int l = 0; l < problem->layers; l++)
        total += cost[l] = 0.5 + draw(state) + (l + 1 == problem->layers ? 2 : 0);
    for (int i = 0; i < problem->stages; i++)
        for (int first = i; first < problem->layers; first++) {
            double time = 0;
            for (int last = first + 1; last <= problem->layers; last++)
                for (int policy = 0; policy < 2; policy++) {
                    time += policy == 0 ? cost[last - 1] : 0;
                    const double made = time * (1 + 0.25 * policy) + 0.05 * draw(state);
                    if (made > 2 * total / problem->stages + 2)
                        continue;
                    double *use = example->use + example->problem.column_count * RESOURCES;
                    if (resources > 0) { /* each policy spares one resource */
                        use[0] = (last - first) * (policy ? 0.4 : 1) * (0.9 + 0.2 * draw(state));
                        use[1] = (last - first) * (policy ? 1 : 0.5);
                        use[2] = (last - first) * 0.6; /* in every path's reach */
                    }
                    add(example, i, first, last, policy, made);
                }
        }
    example->capacity[0] = problem->layers * 0.7;
    example->capacity[1] = problem->layers * 0.8;
    example->capacity[2] = problem->layers * 0.75;
}

static void methods_agree(void **unused) {
    (void)unused;
    struct example example;
    example_new(&example);
    struct stage_workspace *workspace = stage_workspace_new();
    uint64_t state = 42;
    int relaxed = 0;
    for (int k = 0; k < MIDDLE_CASES; k++) {
        struct stage_result results[2];
        middle_size(&example, &state, k % 2 == 1 ? RESOURCES : 0);
        solve_both(workspace, &example.problem, results);
        assert_int_equal(results[0].outcome, results[1].outcome);
        relaxed += results[0].relaxations > 0;
        assert_true(example.problem.resources > 0 || results[0].relaxations == 0);
        assert_true(results[1].relaxations > 0);
        assert_close(results[0].objective_s, results[1].objective_s, 1e-12);
        assert_memory_equal(results[0].ends, results[1].ends, sizeof results[0].ends);
        assert_memory_equal(results[0].policies, results[1].policies, sizeof results[0].policies);
    }
    assert_true(relaxed > 0);
    stage_workspace_free(workspace);
    example_free(&example);
}

/* ---- by hand ---- */

struct head {
    double head_s;
    int stages, calls;
};

static bool price(void *context, int stage, int first, int last, int policy, double *time_s) {
    struct head *head = context;
    head->calls++;
    (void)policy;
    *time_s = last - first + (stage + 1 == head->stages ? head->head_s : 0);
    return true;
}

static struct stage_result solve_head(struct head *head, int layers, bool is_monotone,
                                      double cutoff_s) {
    struct stage_workspace *workspace = stage_workspace_new();
    struct stage_problem problem;
    struct stage_result result;
    struct status_error err;
    stage_problem_init(&problem);
    problem.stages = head->stages;
    problem.layers = layers;
    problem.bottleneck_weight = 63; /* 64 micro-batches */
    problem.cutoff_s = cutoff_s;
    const struct stage_space space = {.stages = head->stages,
                                      .layers = layers,
                                      .policies = 1,
                                      .is_monotone = is_monotone,
                                      .bottleneck_limit_s = stage_bottleneck_limit(&problem),
                                      .column = price,
                                      .context = head};
    problem.is_pruned = !isinf(space.bottleneck_limit_s);
    head->calls = 0;
    assert_int_equal(
        stage_columns_build(workspace, &space, &problem.columns, &problem.column_count, &err),
        MOSAIC_OK);
    assert_int_equal(stage_program_solve(workspace, &problem, &result, &err), MOSAIC_OK);
    stage_workspace_free(workspace);
    return result;
}

/*
 * 46 layers of 1 s and a head of h on the last stage: p T >= 46 + h, and every stage time is a
 * whole number, so T = ceil((46 + h) / p).  The even split gives the last stage floor(46/p) layers
 * at best.
 *   p = 4, h = 3: T = ceil(49/4) = 13; even split 12 12 11 11: 11 + 3 = 14
 *   p = 8, h = 3: T = ceil(49/8) = 7;  even split 6 x 6, 5 5:   5 + 3 = 8
 *   p = 4, h = 6: T = 52/4 = 13; even split 17; even 12 12 12 and the rest, 10: 16
 */
static void heavy_head(void **unused) {
    (void)unused;
    struct head head = {.head_s = 3, .stages = 4};
    struct stage_result result = solve_head(&head, 46, false, HUGE_VAL);
    const int first_of_ties[4] = {10, 23, 36, 46}; /* 13 s after the first, 10 layers in the last */
    assert_close_abs(result.bottleneck_s, 13, 0);
    assert_close_abs(result.objective_s, 63 * 13 + 49, 0);
    assert_memory_equal(result.ends, first_of_ties, sizeof first_of_ties);
    assert_true(result.objective_s < 63 * (46 / 4 + 3) + 49);
    head.stages = 8;
    result = solve_head(&head, 46, false, HUGE_VAL);
    assert_close_abs(result.bottleneck_s, 7, 0);
    assert_close_abs(result.objective_s, 63 * 7 + 49, 0);
    assert_true(result.objective_s < 63 * (46 / 8 + 3) + 49);
    head.stages = 4;
    head.head_s = 6;
    result = solve_head(&head, 46, false, HUGE_VAL);
    const int balanced[4] = {13, 26, 39, 46}; /* the only way: 13 13 13 and 7 + 6 */
    assert_close_abs(result.bottleneck_s, 13, 0);
    assert_memory_equal(result.ends, balanced, sizeof balanced);
    assert_true(result.objective_s < 63 * (46 - 3 * 12 + 6) + 52);
}

static void pruned_columns_change_nothing(void **unused) {
    (void)unused;
    struct head head = {.head_s = 3, .stages = 8};
    const struct stage_result full = solve_head(&head, 46, false, HUGE_VAL);
    const int calls = head.calls;
    const struct stage_result less = solve_head(&head, 46, true, full.objective_s + 10);
    assert_true(head.calls < calls / 2);
    assert_int_equal(less.outcome, STAGE_OPTIMAL);
    assert_close_abs(less.objective_s, full.objective_s, 0);
    assert_memory_equal(less.ends, full.ends, sizeof full.ends);
    assert_int_equal(solve_head(&head, 46, true, full.objective_s).outcome, STAGE_CUTOFF);
    assert_int_equal(solve_head(&head, 46, true, 1).outcome, STAGE_CUTOFF);
}

static void edge_cases(void **unused) {
    (void)unused;
    struct head head = {.head_s = 2, .stages = 1};
    struct stage_result result = solve_head(&head, 5, false, HUGE_VAL);
    assert_int_equal(head.calls, 1);
    assert_close_abs(result.objective_s, 64 * 7, 0);
    result = solve_head(&head, 1, true, HUGE_VAL);
    assert_close_abs(result.objective_s, 64 * 3, 0);
    head.stages = 6; /* more stages than layers */
    result = solve_head(&head, 5, false, HUGE_VAL);
    assert_int_equal(result.outcome, STAGE_INFEASIBLE);
    assert_false(result.has_choice);
    head.stages = STAGE_MAX;
    result = solve_head(&head, STAGE_MAX, true, HUGE_VAL);
    assert_close_abs(result.objective_s, 63 * 3 + STAGE_MAX + 2, 0);
}

/* The same columns in another order, empty stages, and a shared row that is exactly full. */
static void order_and_full_rows(void **unused) {
    (void)unused;
    struct example example;
    example_new(&example);
    struct stage_workspace *workspace = stage_workspace_new();
    struct stage_result results[2];
    example.problem.stages = 3;
    example.problem.layers = 2;
    add(&example, 2, 2, 2, 0, 0.5);
    add(&example, 1, 1, 2, 0, 4);
    add(&example, 1, 1, 2, 0, 1); /* the same interval, faster, thirstier */
    add(&example, 0, 0, 1, 0, 1);
    add(&example, 2, 1, 2, 0, 1);
    const double use[5] = {0.25, 0.25, 0.75, 0.5, 0.75};
    memcpy(example.use, use, sizeof use);
    solve_both(workspace, &example.problem, results);
    assert_close_abs(results[0].sum_s, 2.5, 0);
    example.problem.resources = 1;
    example.capacity[0] = 1.5; /* 0.5 + 0.75 + 0.25: full to the last bit */
    solve_both(workspace, &example.problem, results);
    for (int m = 0; m < 2; m++) {
        assert_close_abs(results[m].sum_s, 2.5, 0);
        assert_int_equal(results[m].columns[0], 3);
        assert_int_equal(results[m].columns[1], 2);
        assert_int_equal(results[m].columns[2], 0);
    }
    example.capacity[0] = nextafter(1.5, 0); /* one bit less: the solver's tolerance would pass */
    solve_both(workspace, &example.problem, results);
    for (int m = 0; m < 2; m++)
        assert_close_abs(results[m].sum_s, 5.5, 0);
    example.capacity[0] = 0.9;
    solve_both(workspace, &example.problem, results);
    for (int m = 0; m < 2; m++)
        assert_int_equal(results[m].outcome, STAGE_INFEASIBLE);
    example.capacity[0] = 0;
    solve_both(workspace, &example.problem, results);
    for (int m = 0; m < 2; m++)
        assert_int_equal(results[m].outcome, STAGE_INFEASIBLE);
    stage_workspace_free(workspace);
    example_free(&example);
}

/* ---- bad input ---- */

static bool price_nan(void *context, int stage, int first, int last, int policy, double *time_s) {
    (void)context;
    (void)stage;
    (void)first;
    (void)last;
    (void)policy;
    *time_s = (double)NAN;
    return true;
}

static enum mosaic_status solve_one(struct stage_workspace *workspace,
                                    const struct example *example) {
    struct stage_result result;
    struct status_error err;
    return stage_program_solve(workspace, &example->problem, &result, &err);
}

static void bad_input_is_refused(void **unused) {
    (void)unused;
    struct example example;
    example_new(&example);
    struct stage_workspace *workspace = stage_workspace_new();
    struct stage_problem *problem = &example.problem;
    problem->stages = 1;
    problem->layers = 1;
    struct stage_result result;
    struct status_error err;
    assert_int_equal(stage_program_solve(workspace, problem, &result, &err), MOSAIC_OK);
    assert_int_equal(result.outcome, STAGE_INFEASIBLE); /* no columns */
    add(&example, 0, 0, 1, 0, 1);
    assert_int_equal(solve_one(workspace, &example), MOSAIC_OK);
    const double bad[4] = {(double)NAN, HUGE_VAL, -1, 1.7e308};
    problem->bottleneck_weight = 8;
    for (int k = 0; k < 4; k++) {
        example.columns[0].time_s = bad[k];
        assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
    }
    example.columns[0].time_s = 1;
    problem->resources = 1;
    for (int k = 0; k < 3; k++) {
        example.use[0] = bad[k];
        example.capacity[0] = 1;
        assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
        example.use[0] = 1;
        example.capacity[0] = bad[k];
        assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
    }
    problem->resources = 0;
    problem->cutoff_s = (double)NAN;
    assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
    problem->cutoff_s = -HUGE_VAL;
    assert_int_equal(solve_one(workspace, &example), MOSAIC_OK);
    problem->sum_weight = -1;
    assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
    problem->sum_weight = 1;
    example.columns[0].last = 2;
    assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
    problem->stages = STAGE_MAX + 1;
    assert_int_equal(solve_one(workspace, &example), MOSAIC_BAD_INPUT);
    const struct stage_space space = {
        .stages = 1, .layers = 1, .policies = 1, .bottleneck_limit_s = 1, .column = price_nan};
    assert_int_equal(
        stage_columns_build(workspace, &space, &problem->columns, &problem->column_count, &err),
        MOSAIC_BAD_INPUT);
    stage_workspace_free(workspace);
    stage_workspace_free(NULL);
    example_free(&example);
}

/* ---- threads, output ---- */

struct batch {
    struct example example;
    struct stage_workspace *workspace;
    struct stage_result results[2 * SMALL_CASES];
    bool is_fine;
};

static void *solve_batch(void *argument) {
    struct batch *batch = argument;
    struct status_error err;
    uint64_t state = 99;
    batch->is_fine = true;
    for (int k = 0; k < 2 * SMALL_CASES; k++) {
        if (k % 2 == 0)
            randomise(&batch->example, &state);
        batch->example.problem.method = k % 2 == 0 ? STAGE_AUTO : STAGE_GLPK;
        if (stage_program_solve(batch->workspace, &batch->example.problem, &batch->results[k],
                                &err) != MOSAIC_OK)
            batch->is_fine = false;
    }
    return NULL;
}

static void threads_agree(void **unused) {
    (void)unused;
    struct batch *batches = calloc(2, sizeof *batches);
    pthread_t threads[2];
    assert_non_null(batches);
    for (int k = 0; k < 2; k++) {
        example_new(&batches[k].example);
        batches[k].workspace = stage_workspace_new();
    }
    for (int k = 0; k < 2; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, solve_batch, &batches[k]), 0);
    for (int k = 0; k < 2; k++)
        assert_int_equal(pthread_join(threads[k], NULL), 0);
    assert_true(batches[0].is_fine && batches[1].is_fine);
    assert_memory_equal(batches[0].results, batches[1].results, sizeof batches[0].results);
    for (int k = 0; k < 2; k++) {
        stage_workspace_free(batches[k].workspace);
        example_free(&batches[k].example);
    }
    free(batches);
}

static void nothing_is_printed(void **unused) {
    FILE *caught = tmpfile();
    assert_non_null(caught);
    fflush(stdout);
    fflush(stderr);
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);
    assert_true(dup2(fileno(caught), STDOUT_FILENO) >= 0);
    assert_true(dup2(fileno(caught), STDERR_FILENO) >= 0);
    equals_enumeration(unused);
    bad_input_is_refused(unused);
    order_and_full_rows(unused);
    fflush(stdout);
    fflush(stderr);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(error, STDERR_FILENO);
    close(out);
    close(error);
    assert_int_equal(lseek(fileno(caught), 0, SEEK_END), 0);
    fclose(caught);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_enumeration),   cmocka_unit_test(methods_agree),
        cmocka_unit_test(heavy_head),           cmocka_unit_test(pruned_columns_change_nothing),
        cmocka_unit_test(edge_cases),           cmocka_unit_test(order_and_full_rows),
        cmocka_unit_test(bad_input_is_refused), cmocka_unit_test(threads_agree),
        cmocka_unit_test(nothing_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
