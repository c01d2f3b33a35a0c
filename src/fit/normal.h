// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Small linear least squares by normal equations, and the non-negative solution by trying every
 * set of columns (2^5 at most).  Only for starting points and for finding dependent columns: the
 * fit itself never forms normal equations.
 */
#ifndef MOSAIC_FIT_NORMAL_H
#define MOSAIC_FIT_NORMAL_H

#include <stdbool.h>
#include <stddef.h>

enum { NORMAL_MAX = 5 };

struct normal {
    size_t columns;
    double gram[NORMAL_MAX][NORMAL_MAX], right[NORMAL_MAX];
    double target_square;
};

void normal_init(struct normal *normal, size_t columns);
void normal_add(struct normal *normal, const double *column, double target, double weight);
/* Least squares over the columns whose bit is set, the others 0; false when they are dependent. */
bool normal_solve(const struct normal *normal, unsigned columns, double *solution);
/* Sum of squares left by a solution. */
double normal_residual(const struct normal *normal, const double *solution);
/* The best solution without a negative entry; 0 when nothing helps. */
double normal_solve_nonnegative(const struct normal *normal, double *solution);

#endif
