// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Cholesky on the scaled Gram matrix; a pivot below its rounding noise means dependent columns.
 */
#include "fit/normal.h"

#include <math.h>
#include <string.h>

static const double smallest_pivot = 1e-13;

void normal_init(struct normal *normal, size_t columns) {
    memset(normal, 0, sizeof *normal);
    normal->columns = columns;
}

void normal_add(struct normal *normal, const double *column, double target, double weight) {
    for (size_t i = 0; i < normal->columns; i++) {
        for (size_t j = 0; j <= i; j++)
            normal->gram[i][j] += weight * column[i] * column[j];
        normal->right[i] += weight * column[i] * target;
    }
    normal->target_square += weight * target * target;
}

bool normal_solve(const struct normal *normal, unsigned columns, double *solution) {
    size_t at[NORMAL_MAX] = {0}, count = 0;
    double low[NORMAL_MAX][NORMAL_MAX] = {{0}}, y[NORMAL_MAX] = {0}, scale[NORMAL_MAX] = {0};
    for (size_t i = 0; i < normal->columns; i++) {
        solution[i] = 0;
        if (columns >> i & 1U)
            at[count++] = i;
    }
    for (size_t i = 0; i < count; i++) {
        if (!(normal->gram[at[i]][at[i]] > 0))
            return false;
        scale[i] = 1 / sqrt(normal->gram[at[i]][at[i]]);
        for (size_t j = 0; j <= i; j++) {
            double sum = normal->gram[at[i]][at[j]] * scale[i] * scale[j];
            for (size_t k = 0; k < j; k++)
                sum -= low[i][k] * low[j][k];
            if (i != j)
                low[i][j] = sum / low[j][j];
            else if (sum > smallest_pivot)
                low[i][i] = sqrt(sum);
            else
                return false;
        }
        y[i] = normal->right[at[i]] * scale[i];
        for (size_t k = 0; k < i; k++)
            y[i] -= low[i][k] * y[k];
        y[i] /= low[i][i];
    }
    for (size_t i = count; i-- > 0;) {
        for (size_t k = i + 1; k < count; k++)
            y[i] -= low[k][i] * y[k];
        y[i] /= low[i][i];
        solution[at[i]] = y[i] * scale[i];
    }
    return true;
}

double normal_residual(const struct normal *normal, const double *solution) {
    double sum = normal->target_square;
    for (size_t i = 0; i < normal->columns; i++) {
        double row = 0;
        for (size_t j = 0; j < normal->columns; j++)
            row += (i >= j ? normal->gram[i][j] : normal->gram[j][i]) * solution[j];
        sum += solution[i] * (row - 2 * normal->right[i]);
    }
    return fmax(sum, 0);
}

double normal_solve_nonnegative(const struct normal *normal, double *solution) {
    double best = normal->target_square;
    memset(solution, 0, normal->columns * sizeof *solution);
    for (unsigned set = 1; set < 1U << normal->columns; set++) {
        double candidate[NORMAL_MAX];
        bool is_positive = normal_solve(normal, set, candidate);
        for (size_t i = 0; i < normal->columns && is_positive; i++)
            is_positive = candidate[i] >= 0;
        if (!is_positive)
            continue;
        const double left = normal_residual(normal, candidate);
        if (left < best) {
            best = left;
            memcpy(solution, candidate, normal->columns * sizeof *solution);
        }
    }
    return best;
}
