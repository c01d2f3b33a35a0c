// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * GLPK's answers against another solver's, coinor-cbc, on written models: random linear programs
 * and their integer versions; and the stage program with its bottleneck as one mixed model,
 *   minimise A T + B sum t_a x_a  subject to  one path of columns, T >= a stage's time, rows.
 * Skipped where cbc is not installed.
 */
#include "close.h"
#include "plan/lp.h"
#include "plan/stage_program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = 30, STAGES = 30, COLUMNS_MAX = 4096, PATH_LENGTH = 64, TERMS_A_LINE = 6 };

extern char **environ;

static const double agreement = 1e-6; /* the solvers' tolerance; eight digits are printed */

static char folder[PATH_LENGTH], model_path[2 * PATH_LENGTH], answer_path[2 * PATH_LENGTH];

static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static int draw_int(uint64_t *state, int low, int high) {
    return low + (int)(draw(state) * (high - low + 1));
}

/* ---- the other solver ---- */

static int open_folder(void **unused) {
    (void)unused;
    const char *const base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%.40s/mosaic-cbc-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(model_path, sizeof model_path, "%s/model.lp", folder);
    (void)snprintf(answer_path, sizeof answer_path, "%s/answer", folder);
    return 0;
}

static int close_folder(void **unused) {
    (void)unused;
    (void)remove(model_path);
    (void)remove(answer_path);
    return rmdir(folder);
}

/* The exit status, or -1 where there is no such program. */
static int spawn(char *const *arguments) {
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int status = -1;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0), 0);
    const int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    if (failed == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
    return failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status)
                                                                          : -1;
}

static bool has_solver(void) {
    char name[] = "cbc", quit[] = "-quit";
    char *const arguments[] = {name, quit, NULL};
    if (spawn(arguments) == 0)
        return true;
    print_message("cbc (coinor-cbc) is not installed\n");
    return false;
}

/* The optimum of the written model, HUGE_VAL when it has none. */
static double solve_written(void) {
    char name[] = "cbc", gap[] = "ratio", zero[] = "0", solve[] = "solve", solution[] = "solution";
    char *const arguments[] = {name, model_path, gap, zero, solve, solution, answer_path, NULL};
    char line[256];
    (void)remove(answer_path);
    assert_int_equal(spawn(arguments), 0);
    FILE *const answer = fopen(answer_path, "r");
    assert_non_null(answer);
    assert_non_null(fgets(line, sizeof line, answer));
    assert_int_equal(fclose(answer), 0);
    if (strncmp(line, "Optimal", 7) != 0) {
        assert_non_null(strstr(line, "nfeasible"));
        return HUGE_VAL;
    }
    const char *const value = strstr(line, "value ");
    assert_non_null(value);
    return strtod(value + 6, NULL);
}

/* Terms of an expression, some of them a line. */
struct terms {
    FILE *file;
    int count;
};

static void put(struct terms *terms, double factor, char kind, long at) {
    if (factor == 0)
        return;
    (void)fprintf(terms->file, "%s%+.17g %c%ld", terms->count % TERMS_A_LINE ? " " : "\n ", factor,
                  kind, at);
    terms->count++;
}

static void end_row(struct terms *terms, const char *relation, double side) {
    if (terms->count == 0)
        (void)fprintf(terms->file, " 0 z0");
    (void)fprintf(terms->file, " %s %.17g\n", relation, side);
    terms->count = 0;
}

/* ---- linear programs ---- */

enum { ROWS = 6, VARIABLES = 10 };

struct program {
    double row_lower[ROWS], row_upper[ROWS], lower[VARIABLES], upper[VARIABLES], cost[VARIABLES];
    double value[ROWS * VARIABLES];
    size_t start[VARIABLES + 1];
    int row[ROWS * VARIABLES];
};

static void random_program(struct program *p, uint64_t *state) {
    for (int j = 0; j < VARIABLES; j++) {
        p->start[j] = (size_t)(j * ROWS);
        p->cost[j] = draw(state) * 6 - 3;
        p->lower[j] = draw_int(state, -2, 1);
        p->upper[j] = p->lower[j] + draw_int(state, 0, 4);
        for (int i = 0; i < ROWS; i++) {
            p->row[j * ROWS + i] = i;
            p->value[j * ROWS + i] = draw(state) < 0.3 ? 0 : draw(state) * 4 - 1.5;
        }
    }
    p->start[VARIABLES] = ROWS * VARIABLES;
    for (int i = 0; i < ROWS; i++) {
        p->row_lower[i] = i % 3 == 0 ? -HUGE_VAL : draw(state) * 4 - 3;
        p->row_upper[i] = i % 3 == 1   ? HUGE_VAL
                          : i % 3 == 2 ? p->row_lower[i] + 1 + 4 * draw(state)
                                       : 6 * draw(state) - 1;
    }
}

static void write_program(const struct program *p, bool is_integer) {
    struct terms terms = {.file = fopen(model_path, "w")};
    assert_non_null(terms.file);
    (void)fprintf(terms.file, "Minimize\n obj:");
    for (int j = 0; j < VARIABLES; j++)
        put(&terms, p->cost[j], 'x', j);
    terms.count = 0;
    (void)fprintf(terms.file, "\nSubject To\n");
    for (int i = 0; i < ROWS; i++)
        for (int side = 0; side < 2; side++) {
            const double bound = side ? p->row_upper[i] : p->row_lower[i];
            if (isinf(bound))
                continue;
            (void)fprintf(terms.file, " r%d_%d:", i, side);
            for (int j = 0; j < VARIABLES; j++)
                put(&terms, p->value[j * ROWS + i], 'x', j);
            end_row(&terms, side ? "<=" : ">=", bound);
        }
    (void)fprintf(terms.file, "Bounds\n");
    for (int j = 0; j < VARIABLES; j++)
        (void)fprintf(terms.file, " %.17g <= x%d <= %.17g\n", p->lower[j], j, p->upper[j]);
    (void)fprintf(terms.file, "%s", is_integer ? "Generals\n" : "");
    for (int j = 0; j < VARIABLES && is_integer; j++)
        (void)fprintf(terms.file, " x%d\n", j);
    (void)fprintf(terms.file, "End\n");
    assert_int_equal(fclose(terms.file), 0);
}

static void same_optimum(const struct lp *lp, enum lp_outcome outcome, double want) {
    if (isinf(want)) {
        assert_int_equal(outcome, LP_INFEASIBLE);
        return;
    }
    assert_int_equal(outcome, LP_OPTIMAL);
    assert_close_abs(lp_objective(lp), want, agreement * (1 + fabs(want)));
}

static void linear_programs(void **unused) {
    (void)unused;
    if (!has_solver())
        skip();
    uint64_t state = 7;
    int solved = 0, infeasible = 0, fractional = 0;
    struct lp *lp = NULL;
    struct status_error err;
    assert_int_equal(lp_new(&lp, &err), MOSAIC_OK);
    for (int k = 0; k < PROGRAMS; k++) {
        struct program p;
        random_program(&p, &state);
        const struct lp_model model = {ROWS,    VARIABLES, p.row_lower, p.row_upper, p.lower,
                                       p.upper, p.cost,    p.start,     p.row,       p.value};
        assert_int_equal(lp_load(lp, &model, &err), MOSAIC_OK);
        write_program(&p, false);
        const double want = solve_written();
        const enum lp_outcome outcome = lp_solve(lp, HUGE_VAL, &err);
        same_optimum(lp, outcome, want);
        infeasible += outcome == LP_INFEASIBLE;
        if (outcome != LP_OPTIMAL)
            continue;
        assert_true(lp_bound(lp) <= want + agreement * (1 + fabs(want)));
        assert_close_abs(lp_bound(lp), want, agreement * (1 + fabs(want)));
        solved++;
        fractional += !lp_is_integral(lp);
        write_program(&p, true);
        const double whole = solve_written();
        same_optimum(lp, lp_solve_integer(lp, HUGE_VAL, 10000, &err), whole);
    }
    lp_free(lp);
    print_message("%d solved, %d of them fractional, %d infeasible\n", solved, fractional,
                  infeasible);
    assert_true(solved > PROGRAMS / 3 && fractional > PROGRAMS / 4);
}

/* ---- the stage program ---- */

enum { RESOURCES_MAX = 3 };

struct example {
    struct stage_problem problem;
    struct stage_column columns[COLUMNS_MAX];
    double use[COLUMNS_MAX * RESOURCES_MAX];
    double capacity[RESOURCES_MAX];
};

/* Layers of uneven cost; every second pair of stages shares a node, whose host one policy fills. */
static void random_stages(struct example *e, uint64_t *state) {
    struct stage_problem *const p = &e->problem;
    double cost[16];
    stage_problem_init(p);
    p->stages = draw_int(state, 3, 6);
    p->layers = draw_int(state, p->stages + 2, 14);
    p->bottleneck_weight = draw_int(state, 0, 31);
    p->policy_per_stage = true;
    p->resources = p->stages / 2;
    p->columns = e->columns;
    p->use = e->use;
    p->capacity = e->capacity;
    for (int l = 0; l < p->layers; l++)
        cost[l] = 0.5 + draw(state) + (l + 1 == p->layers ? 1 : 0);
    for (int i = 0; i < p->stages; i++)
        for (int first = i; first < p->layers; first++) {
            double time = 0;
            for (int last = first + 1; last <= p->layers - (p->stages - 1 - i); last++) {
                time += cost[last - 1];
                for (int policy = 0; policy < 2; policy++) {
                    const size_t k = p->column_count++;
                    assert_true(k < COLUMNS_MAX);
                    e->columns[k] = (struct stage_column){
                        time * (1 + 0.3 * policy) + 0.1 * draw(state), i, first, last, policy};
                    for (int r = 0; r < p->resources; r++)
                        e->use[k * (size_t)p->resources + (size_t)r] =
                            i / 2 == r ? (last - first) * (policy ? 0.3 : 1.0) : 0;
                }
            }
        }
    for (int r = 0; r < p->resources; r++)
        e->capacity[r] = p->layers * 2.0 / p->stages * (0.5 + draw(state));
}

/* Flow rows of a node (stage, layer): the columns that leave it less those that enter. */
static void write_node(struct terms *terms, const struct stage_problem *p, int stage, int layer) {
    for (size_t k = 0; k < p->column_count; k++) {
        const struct stage_column *const c = &p->columns[k];
        put(terms, c->stage == stage && c->first == layer ? 1 : 0, 'x', (long)k);
        put(terms, c->stage == stage - 1 && c->last == layer ? -1 : 0, 'x', (long)k);
    }
    if (terms->count > 0)
        end_row(terms, "=", stage == 0 && layer == 0 ? 1 : 0);
}

static void write_stages(const struct stage_problem *p, bool is_integer) {
    struct terms terms = {.file = fopen(model_path, "w")};
    assert_non_null(terms.file);
    const size_t n = (size_t)p->resources;
    (void)fprintf(terms.file, "Minimize\n obj:");
    put(&terms, p->bottleneck_weight, 't', 0);
    for (size_t k = 0; k < p->column_count; k++)
        put(&terms, p->sum_weight * p->columns[k].time_s, 'x', (long)k);
    terms.count = 0;
    (void)fprintf(terms.file, "\nSubject To\n");
    for (int stage = 0; stage < p->stages; stage++)
        for (int layer = 0; layer <= p->layers; layer++)
            write_node(&terms, p, stage, layer);
    for (size_t k = 0; k < p->column_count; k++)
        put(&terms, p->columns[k].stage == p->stages - 1 && p->columns[k].last == p->layers, 'x',
            (long)k);
    end_row(&terms, "=", 1);
    for (int stage = 0; stage < p->stages; stage++) {
        put(&terms, 1, 't', 0);
        for (size_t k = 0; k < p->column_count; k++)
            put(&terms, p->columns[k].stage == stage ? -p->columns[k].time_s : 0, 'x', (long)k);
        end_row(&terms, ">=", 0);
    }
    for (size_t r = 0; r < n; r++) {
        for (size_t k = 0; k < p->column_count; k++)
            put(&terms, p->use[k * n + r], 'x', (long)k);
        end_row(&terms, "<=", p->capacity[r]);
    }
    (void)fprintf(terms.file, "Bounds\n");
    for (size_t k = 0; k < p->column_count; k++)
        (void)fprintf(terms.file, " 0 <= x%zu <= 1\n", k);
    (void)fprintf(terms.file, "%s", is_integer ? "Generals\n" : "");
    for (size_t k = 0; k < p->column_count && is_integer; k++)
        (void)fprintf(terms.file, " x%zu\n", k);
    (void)fprintf(terms.file, "End\n");
    assert_int_equal(fclose(terms.file), 0);
}

static void stage_programs(void **unused) {
    (void)unused;
    if (!has_solver())
        skip();
    static struct example example;
    struct stage_workspace *const workspace = stage_workspace_new();
    assert_non_null(workspace);
    struct status_error err;
    uint64_t state = 11;
    int solved = 0, infeasible = 0, bound = 0;
    for (int k = 0; k < STAGES; k++) {
        static const enum stage_method methods[] = {STAGE_AUTO, STAGE_GLPK};
        memset(&example, 0, sizeof example);
        random_stages(&example, &state);
        write_stages(&example.problem, true);
        const double want = solve_written();
        write_stages(&example.problem, false);
        const double relaxed = solve_written();
        assert_true(relaxed <= want * (1 + agreement));
        for (int m = 0; m < 2; m++) {
            struct stage_result got;
            example.problem.method = methods[m];
            if (stage_program_solve(workspace, &example.problem, &got, &err) != MOSAIC_OK)
                fail_msg("%s", err.message);
            assert_int_equal(got.outcome, isinf(want) ? STAGE_INFEASIBLE : STAGE_OPTIMAL);
            if (isinf(want))
                continue;
            assert_close(got.objective_s, want, agreement);
            assert_true(got.bound_s <= want * (1 + agreement));
            bound += got.nodes > 0 || got.relaxations > 0 || got.trees > 0;
        }
        solved += !isinf(want);
        infeasible += isinf(want);
    }
    stage_workspace_free(workspace);
    print_message("%d solved, %d infeasible\n", solved, infeasible);
    assert_true(solved > STAGES / 2 && bound > STAGES / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_programs),
        cmocka_unit_test(stage_programs),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
