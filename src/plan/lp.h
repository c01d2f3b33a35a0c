// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A safe layer over GLPK 5.0; no other file includes glpk.h.
 *
 *   minimise c'x  subject to  row_lower <= A x <= row_upper,  column_lower <= x <= column_upper
 *
 * Built once, then bounds and costs move and the dual simplex starts from the last basis.  GLPK
 * keeps one environment per thread: create, solve and free an lp in the same thread (another
 * thread gets an error).  GLPK aborts on misuse; here that becomes an error, after which every lp
 * of the thread is dead and only lp_free() may be called on it.  Nothing is ever printed.  A
 * program that uses GLPK itself must not do so in a thread while that thread holds an lp.
 */
#ifndef MOSAIC_PLAN_LP_H
#define MOSAIC_PLAN_LP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum lp_outcome {
    LP_OPTIMAL,
    LP_INFEASIBLE,
    LP_CUTOFF, /* the optimum is not below the cut-off (within tolerance: ask lp_bound) */
    LP_LIMIT,  /* iterations or nodes ran out */
    LP_FAILURE /* numerical trouble, unbounded, trapped error: see the status_error */
};

/* Borrowed during lp_load().  Infinite bounds mean none; rows and columns count from 0. */
struct lp_model {
    int rows, columns;
    const double *row_lower, *row_upper;
    const double *column_lower, *column_upper, *cost;
    const size_t *column_start; /* columns + 1: entries of column j are start[j] .. start[j+1]-1 */
    const int *entry_row;
    const double *entry_value;
};

struct lp;

/* Version of GLPK, "5.0". */
const char *lp_library_version(void);

enum mosaic_status lp_new(struct lp **lp, struct status_error *err) MOSAIC_MUST_USE;
void lp_free(struct lp *lp);
/* Replace the whole problem.  Non-finite numbers and crossed bounds are MOSAIC_BAD_INPUT. */
enum mosaic_status lp_load(struct lp *lp, const struct lp_model *model,
                           struct status_error *err) MOSAIC_MUST_USE;
enum mosaic_status lp_set_column_bounds(struct lp *lp, int column, double lower, double upper,
                                        struct status_error *err) MOSAIC_MUST_USE;
enum mosaic_status lp_set_row_bounds(struct lp *lp, int row, double lower, double upper,
                                     struct status_error *err) MOSAIC_MUST_USE;
enum mosaic_status lp_set_cost(struct lp *lp, int column, double cost,
                               struct status_error *err) MOSAIC_MUST_USE;

/* Dual simplex from the last basis; stops once the optimum is known to reach cutoff (INFINITY:
 * never). */
enum lp_outcome lp_solve(struct lp *lp, double cutoff, struct status_error *err) MOSAIC_MUST_USE;
/* All columns integer, after lp_solve() ended LP_OPTIMAL.  node_limit bounds the tree. */
enum lp_outcome lp_solve_integer(struct lp *lp, double cutoff, int node_limit,
                                 struct status_error *err) MOSAIC_MUST_USE;

int lp_rows(const struct lp *lp);
/* The last solution; valid until the next solve. */
const double *lp_primal(const struct lp *lp);
/* Multipliers of the rows of the last lp_solve(): >= 0 pushes a row's lower bound, <= 0 its upper.
 */
const double *lp_dual(const struct lp *lp);
double lp_objective(const struct lp *lp);
/* Whether every column of the last solution is within the integer tolerance of an integer. */
bool lp_is_integral(const struct lp *lp);
/*
 * A lower bound on the optimum under the present bounds and costs that holds whatever the
 * solver's tolerances did: with any multipliers y and d = c - A'y,
 *   c'x >= sum_i min(y_i row_lower_i, y_i row_upper_i) + sum_j min over the box of d_j x_j,
 * less a bound on the rounding of this very sum.  -INFINITY when no bound follows: columns without
 * a finite bound on both sides usually spoil it.
 */
double lp_bound(const struct lp *lp);

#endif
