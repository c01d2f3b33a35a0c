// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The linear-program layer against enumeration of 0/1 points: optimum, cut-off, certified bound,
 * warm starts; then everything that makes GLPK abort or lie: misuse, NaN, equal bounds, a second
 * thread.  Nothing may be printed.
 */
#include "close.h"
#include "plan/lp.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 8, POINTS = 1 << COLUMNS, CASES = 200 };

struct program {
    double row_lower[ROWS], row_upper[ROWS], column_lower[COLUMNS], column_upper[COLUMNS];
    double cost[COLUMNS], value[ROWS * COLUMNS];
    size_t start[COLUMNS + 1];
    int row[ROWS * COLUMNS];
};

static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static struct lp_model model_of(const struct program *p) {
    const struct lp_model model = {
        ROWS,    COLUMNS,  p->row_lower, p->row_upper, p->column_lower, p->column_upper,
        p->cost, p->start, p->row,       p->value};
    return model;
}

static void randomise(struct program *p, uint64_t *state) {
    for (int j = 0; j < COLUMNS; j++) {
        p->start[j] = (size_t)(j * ROWS);
        p->cost[j] = draw(state) * 4 - 1;
        p->column_lower[j] = 0;
        p->column_upper[j] = 1;
        for (int i = 0; i < ROWS; i++) {
            p->row[j * ROWS + i] = i;
            p->value[j * ROWS + i] = draw(state) * 2 - 0.5;
        }
    }
    p->start[COLUMNS] = ROWS * COLUMNS;
    for (int i = 0; i < ROWS; i++) {
        p->row_lower[i] = i == 0 ? 1.5 + draw(state) * 2 : -HUGE_VAL;
        p->row_upper[i] = i == 0 ? HUGE_VAL : 0.5 + draw(state) * 3;
    }
}

/* The least cost over 0/1 points, or HUGE_VAL. */
static double enumerate(const struct program *p) {
    double least = HUGE_VAL;
    for (unsigned point = 0; point < POINTS; point++) {
        double cost = 0, use[ROWS] = {0};
        int fits = 1;
        for (int j = 0; j < COLUMNS; j++) {
            const double x = (point >> j) & 1u;
            fits = fits && x >= p->column_lower[j] && x <= p->column_upper[j];
            cost += x * p->cost[j];
            for (int i = 0; i < ROWS; i++)
                use[i] += x * p->value[j * ROWS + i];
        }
        for (int i = 0; i < ROWS; i++)
            fits = fits && use[i] >= p->row_lower[i] && use[i] <= p->row_upper[i];
        if (fits && cost < least)
            least = cost;
    }
    return least;
}

static struct lp *loaded(const struct program *p) {
    struct lp *lp = NULL;
    struct status_error err;
    const struct lp_model model = model_of(p);
    assert_int_equal(lp_new(&lp, &err), MOSAIC_OK);
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_OK);
    return lp;
}

static void equals_enumeration(void **unused) {
    (void)unused;
    uint64_t state = 7;
    int feasible = 0, fractional = 0;
    for (int k = 0; k < CASES; k++) {
        struct program p;
        struct status_error err;
        randomise(&p, &state);
        const double best = enumerate(&p);
        struct lp *lp = loaded(&p);
        const enum lp_outcome outcome = lp_solve(lp, HUGE_VAL, &err);
        if (outcome == LP_INFEASIBLE) {
            assert_true(isinf(best));
        } else {
            assert_int_equal(outcome, LP_OPTIMAL);
            assert_true(lp_bound(lp) <= best);
            assert_close_abs(lp_bound(lp), lp_objective(lp), 1e-6);
            fractional += !lp_is_integral(lp);
            const enum lp_outcome whole = lp_solve_integer(lp, HUGE_VAL, 1000, &err);
            assert_int_equal(whole, isinf(best) ? LP_INFEASIBLE : LP_OPTIMAL);
            if (!isinf(best)) {
                assert_close_abs(lp_objective(lp), best, 1e-9);
                assert_true(lp_is_integral(lp));
                assert_int_equal(lp_solve_integer(lp, best - 1e-3, 1000, &err), LP_CUTOFF);
                feasible++;
            }
        }
        lp_free(lp);
    }
    assert_true(feasible > CASES / 4 && fractional > CASES / 4);
}

static void warm_equals_cold(void **unused) {
    (void)unused;
    uint64_t state = 11;
    struct program p;
    struct status_error err;
    randomise(&p, &state);
    struct lp *warm = loaded(&p);
    int solved = 0, cut = 0;
    for (int k = 0; k < CASES; k++) {
        const int j = (int)(draw(&state) * COLUMNS), i = 1 + (int)(draw(&state) * (ROWS - 1));
        p.column_upper[j] = draw(&state) < 0.3 ? 0 : 1; /* 0: equal bounds */
        p.row_upper[i] = 1 + draw(&state) * 4;
        p.cost[j] = draw(&state) * 4 - 1;
        assert_int_equal(lp_set_column_bounds(warm, j, 0, p.column_upper[j], &err), MOSAIC_OK);
        assert_int_equal(lp_set_row_bounds(warm, i, -HUGE_VAL, p.row_upper[i], &err), MOSAIC_OK);
        assert_int_equal(lp_set_cost(warm, j, p.cost[j], &err), MOSAIC_OK);
        struct lp *cold = loaded(&p);
        const enum lp_outcome outcome = lp_solve(cold, HUGE_VAL, &err);
        assert_int_equal(lp_solve(warm, HUGE_VAL, &err), outcome);
        if (outcome == LP_OPTIMAL) {
            const double optimum = lp_objective(cold);
            assert_close_abs(lp_objective(warm), optimum, 1e-9);
            assert_true(lp_bound(warm) <= optimum + 1e-12);
            solved++;
            cut += lp_solve(cold, optimum - 0.1, &err) == LP_CUTOFF;
            assert_int_equal(lp_solve(warm, optimum + 0.1, &err), LP_OPTIMAL);
        }
        lp_free(cold);
    }
    lp_free(warm);
    assert_true(solved > CASES / 4);
    assert_int_equal(cut, solved);
}

static void bad_numbers_are_refused(void **unused) {
    (void)unused;
    uint64_t state = 3;
    struct program good, p;
    struct status_error err;
    randomise(&good, &state);
    struct lp *lp = loaded(&good);
    const struct lp_model model = model_of(&p);
    p = good;
    p.cost[2] = (double)NAN;
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "cost 2"));
    p = good;
    p.value[5] = HUGE_VAL;
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_BAD_INPUT);
    p = good;
    p.row_upper[1] = (double)NAN;
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_BAD_INPUT);
    p = good;
    p.column_lower[0] = 2;
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_BAD_INPUT);
    p = good;
    p.row[4] = ROWS;
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(lp_set_cost(lp, 0, (double)NAN, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(lp_set_column_bounds(lp, COLUMNS, 0, 1, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(lp_set_row_bounds(lp, 0, 2, 1, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(lp_solve(lp, (double)NAN, &err), LP_FAILURE);
    assert_int_not_equal(lp_solve(lp, HUGE_VAL, &err), LP_FAILURE); /* none of it stuck */
    lp_free(lp);
    assert_int_equal(lp_new(&lp, &err), MOSAIC_OK);
    assert_int_equal(lp_solve(lp, HUGE_VAL, &err), LP_FAILURE);
    lp_free(lp);
    lp_free(NULL);
}

static void unbounded_is_an_error(void **unused) {
    (void)unused;
    const double lower[1] = {1}, upper[1] = {HUGE_VAL}, cost[1] = {-1}, value[1] = {1};
    const size_t start[2] = {0, 1};
    const int row[1] = {0};
    const struct lp_model model = {1, 1, lower, upper, lower, upper, cost, start, row, value};
    struct status_error err;
    struct lp *lp = NULL;
    assert_int_equal(lp_new(&lp, &err), MOSAIC_OK);
    assert_int_equal(lp_load(lp, &model, &err), MOSAIC_OK);
    assert_int_equal(lp_solve(lp, HUGE_VAL, &err), LP_FAILURE);
    assert_int_equal(err.status, MOSAIC_NUMERIC);
    assert_true(isinf(lp_bound(lp)) && lp_bound(lp) < 0);
    lp_free(lp);
}

/* Two entries in one place make GLPK abort: here an error, and the thread goes on. */
static void trapped_abort(void **unused) {
    (void)unused;
    uint64_t state = 5;
    struct program good, doubled;
    struct status_error err;
    randomise(&good, &state);
    doubled = good;
    doubled.row[1] = doubled.row[0];
    for (int k = 0; k < 3; k++) {
        struct lp *other = loaded(&good), *lp = loaded(&good);
        const struct lp_model model = model_of(&doubled);
        assert_int_equal(lp_load(lp, &model, &err), MOSAIC_NUMERIC);
        assert_non_null(strstr(err.message, "duplicate"));
        assert_int_equal(lp_solve(lp, HUGE_VAL, &err), LP_FAILURE);
        assert_int_equal(lp_solve(other, HUGE_VAL, &err), LP_FAILURE); /* died with it */
        struct lp *fresh = loaded(&good);
        assert_int_not_equal(lp_solve(fresh, HUGE_VAL, &err), LP_FAILURE);
        lp_free(lp);
        lp_free(other);
        assert_int_not_equal(lp_solve(fresh, HUGE_VAL, &err), LP_FAILURE);
        lp_free(fresh);
    }
}

static void *use_elsewhere(void *argument) {
    struct status_error err;
    struct lp *own = NULL;
    const int is_refused = lp_solve(argument, HUGE_VAL, &err) == LP_FAILURE;
    const int is_made = lp_new(&own, &err) == MOSAIC_OK;
    const int is_still_refused = lp_solve(argument, HUGE_VAL, &err) == LP_FAILURE;
    lp_free(own);
    return is_refused && is_made && is_still_refused ? argument : NULL;
}

static void other_thread_is_refused(void **unused) {
    (void)unused;
    uint64_t state = 9;
    struct program p;
    struct status_error err;
    randomise(&p, &state);
    struct lp *lp = loaded(&p);
    pthread_t thread;
    void *answer = NULL;
    assert_int_equal(pthread_create(&thread, NULL, use_elsewhere, lp), 0);
    assert_int_equal(pthread_join(thread, &answer), 0);
    assert_ptr_equal(answer, lp);
    assert_int_not_equal(lp_solve(lp, HUGE_VAL, &err), LP_FAILURE);
    lp_free(lp);
}

static void nothing_is_printed(void **unused) {
    FILE *caught = tmpfile();
    assert_non_null(caught);
    fflush(stdout);
    fflush(stderr);
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);
    assert_true(dup2(fileno(caught), STDOUT_FILENO) >= 0);
    assert_true(dup2(fileno(caught), STDERR_FILENO) >= 0);
    trapped_abort(unused);
    unbounded_is_an_error(unused);
    equals_enumeration(unused);
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
        cmocka_unit_test(equals_enumeration),      cmocka_unit_test(warm_equals_cold),
        cmocka_unit_test(bad_numbers_are_refused), cmocka_unit_test(unbounded_is_an_error),
        cmocka_unit_test(trapped_abort),           cmocka_unit_test(other_thread_is_refused),
        cmocka_unit_test(nothing_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
