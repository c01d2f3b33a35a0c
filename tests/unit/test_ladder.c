// SPDX-License-Identifier: GPL-3.0-or-later
//
// The paper's ladder: its Table 9 at every seed, Table 5, and seeds that must fail.
#include "model/ladder.h"

#include "close.h"
#include "model/count.h"

#include <string.h>

static struct param_counts counts(int q, int experts, int top_k, int granularity,
                                  struct geometry *g) {
    struct status_error err = {.message = ""};
    if (ladder_geometry(q, experts, top_k, granularity, 50257, g, &err) != MOSAIC_OK) {
        fail_msg("%s", err.message);
    }
    struct param_counts n;
    count_params(g, &n);
    return n;
}

static void table_9(void **state) {
    (void)state;
    const struct {
        int q, layers, hidden, d_ff;
        double total_b, active_b, sparsity;
    } rows[] = {
        {4, 16, 2048, 5120, 15.5, 0.7, 0.954},      {6, 24, 3072, 7680, 53.2, 2.3, 0.957},
        {8, 32, 4096, 10240, 127.3, 5.4, 0.958},    {10, 40, 5120, 12800, 250.0, 10.4, 0.958},
        {12, 48, 6144, 15360, 433.7, 17.9, 0.959},  {14, 56, 7168, 17920, 690.5, 28.2, 0.959},
        {16, 64, 8192, 20480, 1032.8, 41.9, 0.959}, {18, 72, 9216, 23040, 1472.8, 59.5, 0.960},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct geometry g;
        const struct param_counts n = counts(rows[i].q, 128, 3, 4, &g);
        assert_int_equal(g.layers, rows[i].layers);
        assert_int_equal(g.hidden, rows[i].hidden);
        assert_int_equal(g.dense_ffn, rows[i].d_ff);
        assert_int_equal(g.expert_ffn, rows[i].d_ff / 4);
        const double total = n.n_total_law / 1e9, active = n.n_active_law / 1e9;
        assert_close_abs(total, rows[i].total_b, fmax(0.05, 0.005 * rows[i].total_b));
        assert_close_abs(active, rows[i].active_b, fmax(0.05, 0.005 * rows[i].active_b));
        assert_close_abs(n.sparsity, rows[i].sparsity, 6e-4);
    }
}

static void table_5(void **state) {
    (void)state;
    const struct {
        int q, experts, top_k, granularity, layers;
        double active_b, total_b, sparsity;
    } rows[] = {{10, 128, 2, 4, 40, 8.5, 250.0, 0.966},
                {10, 128, 2, 8, 40, 5.6, 126.4, 0.956},
                {10, 32, 2, 4, 40, 8.5, 66.0, 0.872},
                {8, 32, 2, 2, 32, 7.3, 65.8, 0.889}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct geometry g;
        const struct param_counts n =
            counts(rows[i].q, rows[i].experts, rows[i].top_k, rows[i].granularity, &g);
        assert_int_equal(g.layers, rows[i].layers);
        assert_close_abs(n.n_total_law / 1e9, rows[i].total_b, 0.06);
        assert_close_abs(n.n_active_law / 1e9, rows[i].active_b, 0.06);
        assert_close_abs(n.sparsity, rows[i].sparsity, 6e-4);
    }
}

static void table_4_plan(void **state) {
    (void)state;
    struct geometry g;
    const struct param_counts n = counts(12, 96, 2, 4, &g);
    assert_close(n.n_total_law, 327.19e9, 2e-5);
    assert_close_abs(n.sparsity, 0.95571, 5e-6);
    assert_close_abs(n.n_active_law / 1e9, 14.5, 0.05);
    assert_int_equal(g.layers, 48);
    assert_int_equal(g.ladder_q, 12);
    // Printed formula, by hand.
    const double attention = 2.0 * 6144 * 6144 + 2.0 * 6144 * 1024, expert = 3.0 * 6144 * 3840;
    const double base = 48 * attention + 3.0 * 6144 * 15360;
    assert_close_abs(n.n_total_law, base + 47 * 97 * expert, 0);
    assert_close_abs(n.n_active_law, base + 47 * 3 * expert, 0);
}

// At fixed top_k finer experts shrink the active model; their number leaves it alone.
static void axes_move_what_they_should(void **state) {
    (void)state;
    struct geometry g;
    for (int q = 4; q <= 18; q++) {
        const struct param_counts base = counts(q, 64, 2, 2, &g);
        const struct param_counts fine = counts(q, 64, 2, 4, &g);
        const struct param_counts many = counts(q, 128, 2, 2, &g);
        const struct param_counts wide = counts(q, 64, 4, 2, &g);
        assert_true(fine.n_active_law < base.n_active_law);
        assert_close_abs(fine.expert * 2, base.expert, 0);
        assert_close_abs(many.n_active_law, base.n_active_law, 0);
        assert_true(many.sparsity > base.sparsity);
        assert_close_abs(wide.n_total_law, base.n_total_law, 0);
        assert_true(wide.sparsity < base.sparsity);
    }
}

static void impossible_seeds(void **state) {
    (void)state;
    const int bad[][5] = {
        {0, 128, 2, 4, 50257},  {-3, 128, 2, 4, 50257},   {257, 128, 2, 4, 50257},
        {12, 0, 2, 4, 50257},   {12, 128, 0, 4, 50257},   {12, 4, 8, 4, 50257},
        {12, 128, 2, 0, 50257}, {12, 128, 2, -4, 50257},  {8, 128, 2, 3, 50257},
        {12, 128, 2, 4, 0},     {12, 70000, 2, 4, 50257}, {12, 128, 2, 4, 1 << 30}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct geometry g = {.layers = -7};
        struct status_error err = {.message = ""};
        assert_int_equal(
            ladder_geometry(bad[i][0], bad[i][1], bad[i][2], bad[i][3], bad[i][4], &g, &err),
            MOSAIC_BAD_INPUT);
        assert_true(err.message[0] != '\0');
        assert_int_equal(g.layers, -7);
    }
    struct geometry g;
    struct status_error err;
    assert_int_equal(ladder_geometry(8, 128, 2, 3, 50257, &g, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "10240"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_9),          cmocka_unit_test(table_5),
        cmocka_unit_test(table_4_plan),     cmocka_unit_test(axes_move_what_they_should),
        cmocka_unit_test(impossible_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
