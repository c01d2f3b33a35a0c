// SPDX-License-Identifier: GPL-3.0-or-later
//
// The compute optimum on an ideal machine: the paper's figures, optimality by gradient and by brute
// force, laws without an interior optimum, and input that must be refused.
#include "law/optimum.h"

#include "close.h"
#include "paper_law.h"

#include <float.h>

static struct law_optimum fixed_s(double flops, double g, double sparsity) {
    struct law_optimum at;
    assert_int_equal(law_optimum_at(&paper_law, flops, g, sparsity, &at, NULL), MOSAIC_OK);
    return at;
}

static struct law_optimum free_s(double flops, double g) {
    struct law_optimum at;
    assert_int_equal(law_optimum_free(&paper_law, flops, g, &at, NULL), MOSAIC_OK);
    return at;
}

// Figure 1: the ideal machine goes to the sparse end of the data.
static void figure_1_boundary_and_free(void **state) {
    (void)state;
    struct law_optimum at;
    assert_int_equal(law_optimum_bounded(&paper_law, 3.3e21, 4, 0.5, 0.985, &at, NULL), MOSAIC_OK);
    assert_close_abs(at.point.sparsity, 0.985, 0);
    assert_true(at.at_bound);
    assert_close_abs(at.loss, 1.5991, 5e-5);

    at = free_s(3.3e21, 4);
    assert_close_abs(at.point.sparsity, 0.9942, 5e-4);
    assert_false(at.at_bound);
}

static void figure_8_sizes(void **state) {
    (void)state;
    const double at_g4[][2] = {{0.649, 15.7}, {0.812, 24.1}, {0.904, 38.7}, {0.951, 62.6}};
    for (int i = 0; i < 4; i++) {
        assert_close_abs(fixed_s(1e22, 4, at_g4[i][0]).point.n_total / 1e9, at_g4[i][1], 0.05);
    }
    const double by_g[][2] = {{1, 96.8}, {2, 78.6}, {4, 70.0}, {8, 65.8}};
    for (int i = 0; i < 4; i++) {
        assert_close_abs(fixed_s(1e22, by_g[i][0], 0.958).point.n_total / 1e9, by_g[i][1], 0.05);
    }
}

static void loss_over_sparsity(void **state) {
    (void)state;
    const double sparsity[] = {0.5, 0.7, 0.86, 0.90, 0.95, 0.96, 0.981, 0.985, 0.99, 0.995};
    const struct {
        double flops, loss[10];
    } rows[] = {
        {3e19, {2.2021, 2.1592, 2.1019, 2.0792, 2.0381, 2.0265, 1.9940, 1.9859, 1.9745, 1.9634}},
        {3.3e21, {1.7293, 1.7017, 1.6656, 1.6517, 1.6272, 1.6205, 1.6030, 1.5991, 1.5942, 1.5919}},
        {1.23e23, {1.4578, 1.4390, 1.4154, 1.4066, 1.3920, 1.3883, 1.3798, 1.3784, 1.3776, 1.3811}},
    };
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 10; i++) {
            assert_close_abs(fixed_s(rows[r].flops, 4, sparsity[i]).loss, rows[r].loss[i], 6e-5);
        }
    }
}

static void free_sparsity_by_granularity(void **state) {
    (void)state;
    const double budgets[] = {3e19, 6e20, 3.3e21, 1e22, 1e23, 1e24};
    const double want[4][6] = {{.9760, .9745, .9725, .9707, .9644, .9541},
                               {.9910, .9896, .9880, .9867, .9824, .9747},
                               {.9963, .9953, .9942, .9932, .9900, .9838},
                               {.9983, .9976, .9968, .9960, .9935, .9883}};
    for (int g = 0; g < 4; g++) {
        for (int i = 0; i < 6; i++) {
            const struct law_optimum at = free_s(budgets[i], 1 << g);
            assert_close_abs(at.point.sparsity, want[g][i], 5e-4);
            assert_false(at.at_bound);
        }
    }
}

// Roots of the two stationarity conditions in 30-digit arithmetic.
static void high_precision_roots(void **state) {
    (void)state;
    const double rows[][4] = {{1e23, 1, 0.964611339849994052, 497811461930.0737352},
                              {3.3e21, 4, 0.994188354142200662, 156760272154.6027063},
                              {1e22, 1, 0.970598065213272403, 133103456084.0480222}};
    for (int i = 0; i < 3; i++) {
        const struct law_optimum at = free_s(rows[i][0], rows[i][1]);
        assert_close_abs(log1p(-at.point.sparsity), log1p(-rows[i][2]), 1e-12);
        assert_close_abs(log(at.point.n_total), log(rows[i][3]), 1e-12);
    }
}

// omega_S that a machine would need for an optimum at S (G = 4).
static void needed_mfu_slope(void **state) {
    (void)state;
    const double sparsity[] = {0.90, 0.95, 0.96, 0.97, 0.98, 0.985};
    const double flops[] = {3.3e21, 1e22, 1.23e23};
    const double want[3][6] = {{.514, .424, .391, .345, .274, .218},
                               {.486, .393, .359, .312, .239, .182},
                               {.412, .310, .273, .223, .145, .084}};
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 6; i++) {
            const struct law_optimum at = fixed_s(flops[r], 4, sparsity[i]);
            struct law_mfu_needed need;
            law_needed_mfu(&paper_law, &at.point, &need);
            assert_close_abs(need.one_minus_sparsity, want[r][i], 6e-4);
            assert_close_abs(need.n_total, 0, 1e-10); // N is at its own optimum
        }
    }
    struct law_mfu_needed need;
    const struct law_optimum at = free_s(3.3e21, 4);
    law_needed_mfu(&paper_law, &at.point, &need);
    assert_close_abs(need.one_minus_sparsity, 0, 1e-10);
}

// Every budget, granularity and bound: on the constraint, stationary, no neighbour better.
static void optima_are_optimal(void **state) {
    (void)state;
    for (int i = 0; i < 12 * 5; i++) {
        const double flops = 1e18 * pow(10, i % 12), g = pow(2, i / 12 - 1);
        const struct law_optimum at = free_s(flops, g);
        assert_true(at.gradient_norm < 1e-12);
        assert_close(6 * at.n_active * at.point.tokens, flops, 1e-14);
        assert_close(at.n_active, at.point.n_total * (1 - at.point.sparsity), 1e-15);
        for (int k = 0; k < 16; k++) {
            const double angle = 0.39269908169872414 * k, step = 0.01;
            const double n = at.point.n_total * exp(step * cos(angle));
            const double left = (1 - at.point.sparsity) * exp(step * sin(angle));
            const struct law_point near = {n, flops / (6 * n * left), 1 - left, g};
            assert_true(law_loss(&paper_law, &near) > at.loss);
        }
    }
}

static double grid_minimum(const struct law *law, double flops, double g, double s_min,
                           double s_max) {
    double least = DBL_MAX;
    for (int i = 0; i <= 600; i++) {
        const double u = log1p(-s_max) + (log1p(-s_min) - log1p(-s_max)) * i / 600;
        for (int k = 0; k <= 800; k++) {
            const double n = exp(log(1e6) + k * log(1e9) / 800);
            const struct law_point p = {n, flops / (6 * n * exp(u)), -expm1(u), g};
            least = fmin(least, law_loss(law, &p));
        }
    }
    return least;
}

// The grid is fine enough to come within 1e-5, and never below the optimum.
static void optimum_against_a_grid(void **state) {
    (void)state;
    struct law abnar = paper_law; // arXiv 2501.12370, eq. 6: lambda below 0, no G
    abnar.a = 16612.50;
    abnar.alpha = 0.5962;
    abnar.b = 5455.67;
    abnar.beta = 0.3954;
    abnar.c = 0.4598;
    abnar.lambda = -0.1666;
    abnar.j = 17.26;
    abnar.delta = 0.1603;
    abnar.gamma = 0.1595;
    abnar.eta = 0;
    abnar.e = 0.94;
    const struct law *laws[] = {&paper_law, &abnar};
    const double cases[][4] = {
        {1e20, 4, 0, 0.999}, {3.3e21, 1, 0, 0.99}, {1e23, 8, 0.3, 0.985}, {1e19, 2, 0.95, 0.96}};
    for (int i = 0; i < 8; i++) {
        const double *c = cases[i / 2];
        struct law_optimum at;
        assert_int_equal(law_optimum_bounded(laws[i % 2], c[0], c[1], c[2], c[3], &at, NULL),
                         MOSAIC_OK);
        const double grid = grid_minimum(laws[i % 2], c[0], c[1], c[2], c[3]);
        assert_true(at.loss <= grid);
        assert_close_abs(at.loss, grid, 1e-4);
    }
}

static void the_dense_end_binds_too(void **state) {
    (void)state;
    struct law_optimum at;
    assert_int_equal(law_optimum_bounded(&paper_law, 1e22, 4, 0.996, 0.999, &at, NULL), MOSAIC_OK);
    assert_true(at.at_bound);
    assert_close_abs(at.point.sparsity, 0.996, 0);
    assert_int_equal(law_optimum_bounded(&paper_law, 1e22, 4, 0.9, 0.9, &at, NULL), MOSAIC_OK);
    assert_true(at.at_bound);
    assert_close_abs(at.loss, fixed_s(1e22, 4, 0.9).loss, 0);

    // Where sparsity only costs, the free optimum is dense.
    struct law costly = paper_law;
    costly.lambda = 3;
    assert_int_equal(law_optimum_free(&costly, 1e22, 4, &at, NULL), MOSAIC_OK);
    assert_true(at.at_bound);
    assert_close_abs(at.point.sparsity, 0, 0);
}

// A floor that falls with sparsity: nothing stops before S = 1, and the result says so.
static void no_interior_optimum_is_reported(void **state) {
    (void)state;
    struct law law = paper_law;
    law.lambda = -0.1666;
    law.j = 0;
    struct law_optimum at;
    assert_int_equal(law_optimum_free(&law, 1e22, 4, &at, NULL), MOSAIC_OK);
    assert_true(at.at_bound);
    assert_close_abs(at.point.sparsity, LAW_OPTIMUM_SPARSEST, 0);
}

static void terms_may_be_absent(void **state) {
    (void)state;
    struct law law = paper_law;
    law.c = law.e = law.j = 0;
    struct law_optimum at;
    // Chinchilla's closed form: N^(alpha+beta) = (alpha a / beta b) (C/6)^beta at S = 0.
    assert_int_equal(law_optimum_at(&law, 1e22, 4, 0, &at, NULL), MOSAIC_OK);
    const double ratio = law.alpha * law.a / (law.beta * law.b) * pow(1e22 / 6, law.beta);
    assert_close(at.point.n_total, pow(ratio, 1 / (law.alpha + law.beta)), 1e-12);
    law = paper_law;
    law.a = 0;
    assert_int_equal(law_optimum_free(&law, 1e22, 4, &at, NULL), MOSAIC_OK);
    assert_true(at.gradient_norm < 1e-12);
}

static void more_compute_is_never_worse(void **state) {
    (void)state;
    struct law_optimum before = free_s(1e17, 4);
    for (int i = 1; i < 120; i++) {
        const struct law_optimum at = free_s(1e17 * pow(1.2, i), 4);
        assert_true(at.loss < before.loss);
        assert_true(at.point.n_total > before.point.n_total);
        assert_true(at.point.tokens > before.point.tokens);
        assert_true(fixed_s(1e17 * pow(1.2, i), 4, 0.9).loss >= at.loss);
        before = at;
    }
}

static void bad_input_is_refused_and_leaves_the_result(void **state) {
    (void)state;
    const double nan_value = (double)NAN, infinite = (double)INFINITY;
    const double cases[][4] = {
        {0, 4, .5, .9},        {-1, 4, .5, .9},          {nan_value, 4, .5, .9},
        {infinite, 4, .5, .9}, {1e22, 0, .5, .9},        {1e22, nan_value, .5, .9},
        {1e22, 4, .9, .5},     {1e22, 4, -0.1, .9},      {1e22, 4, .5, 1},
        {1e22, 4, .5, 1.5},    {1e22, 4, nan_value, .9}, {1e22, 4, .5, nan_value},
        {3, 4, .5, .9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct law_optimum at = {.loss = -7};
        struct status_error err = {.message = ""};
        const double *c = cases[i];
        assert_int_equal(law_optimum_bounded(&paper_law, c[0], c[1], c[2], c[3], &at, &err),
                         MOSAIC_BAD_INPUT);
        assert_true(err.message[0] != '\0');
        assert_close_abs(at.loss, -7, 0);
    }
    struct law_optimum at;
    assert_int_equal(law_optimum_at(&paper_law, 1e22, 4, 1, &at, NULL), MOSAIC_BAD_INPUT);
    struct law law = paper_law;
    law.beta = nan_value;
    assert_int_equal(law_optimum_free(&law, 1e22, 4, &at, NULL), MOSAIC_BAD_INPUT);
}

// Far out the answer is a finite number or an error, never anything else.
static void extremes_stay_finite_or_fail(void **state) {
    (void)state;
    const double values[] = {DBL_MIN, 1e-9, 7, 1e40, 1e150, 1e308, DBL_MAX};
    for (int i = 0; i < 7 * 7 * 3; i++) {
        struct law law = paper_law;
        law.alpha *= i / 49 == 1 ? 1e-3 : 1;
        law.gamma *= i / 49 == 2 ? 50 : 1;
        struct law_optimum at;
        const double flops = values[i % 7], g = values[i / 7 % 7];
        if (law_optimum_free(&law, flops, g, &at, NULL) == MOSAIC_OK) {
            assert_true(isfinite(at.loss) && isfinite(at.point.n_total));
            assert_true(isfinite(at.point.tokens) && isfinite(at.gradient_norm));
            assert_true(at.n_active >= 1 && at.point.tokens >= 1);
            assert_true(at.point.sparsity >= 0 && at.point.sparsity < 1);
        }
    }
    struct law_optimum at;
    assert_int_equal(law_optimum_bounded(&paper_law, 1e22, 4, 0, 1 - DBL_EPSILON, &at, NULL),
                     MOSAIC_OK);
    assert_close_abs(at.point.sparsity, free_s(1e22, 4).point.sparsity, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_1_boundary_and_free),
        cmocka_unit_test(figure_8_sizes),
        cmocka_unit_test(loss_over_sparsity),
        cmocka_unit_test(free_sparsity_by_granularity),
        cmocka_unit_test(high_precision_roots),
        cmocka_unit_test(needed_mfu_slope),
        cmocka_unit_test(optima_are_optimal),
        cmocka_unit_test(optimum_against_a_grid),
        cmocka_unit_test(the_dense_end_binds_too),
        cmocka_unit_test(no_interior_optimum_is_reported),
        cmocka_unit_test(terms_may_be_absent),
        cmocka_unit_test(more_compute_is_never_worse),
        cmocka_unit_test(bad_input_is_refused_and_leaves_the_result),
        cmocka_unit_test(extremes_stay_finite_or_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
