// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The plane of ln MFU around a plan: machines whose MFU is a known power of N, 1 - S and G, and
 * neighbourhoods that do not span it.
 */
#include "plan_case.h"

#include "close.h"
#include "model/ladder.h"
#include "plan/elasticity.h"
#include "plan/search.h"

#include <string.h>

enum { ROOM = 2048 };

static struct geometry items[ROOM];

/* The ladder's grid around q 8, E 64, K 4, G 4. */
static size_t grid(struct geometry *out) {
    static const int qs[] = {6, 8, 10}, experts[] = {32, 64, 128}, tops[] = {2, 4, 8};
    static const int parts[] = {2, 4, 8};
    struct status_error err;
    size_t count = 0;
    for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b)
            for (int c = 0; c < 3; ++c)
                for (int d = 0; d < 3; ++d)
                    if (ladder_geometry(qs[a], experts[b], tops[c], parts[d], 50257, &out[count],
                                        &err) == MOSAIC_OK)
                        ++count;
    return count;
}

/* Launches alone cost time, the same for every model: MFU goes with the active parameters, which
 * are N (1 - S). */
static void launches_only(struct problem *p) {
    case_load("configs/p6-b200-4n-5d.yaml", p, items, ROOM);
    p->geometries.count = grid(items);
    case_quiet_calibration(&p->calibration);
    p->calibration.scalar[CAL_HOST_MICRO_BATCH] = 1e5;
    p->cluster.device.memory_bytes = 1e18;
    p->layouts.pp = p->layouts.micro_batch = (struct axis){.count = 1, .values = {1}};
}

static void solve(const struct problem *p, const struct geometry *g, struct candidate *plan) {
    struct status_error err;
    struct layout_scratch *const scratch = layout_scratch_new();
    struct best_layout best;
    struct layout_counts counts = {0};
    for (size_t i = 0; i < p->geometries.count; ++i)
        if (geometry_compare(&p->geometries.items[i], g) == 0)
            *plan = (struct candidate){.index = i};
    assert_int_equal(best_layout_find(scratch, p, g, &best, &counts, &err), MOSAIC_OK);
    layout_scratch_free(scratch);
    assert_true(best.found);
    plan->layout = best.layout;
    plan->step_time_s = best.step_time_s;
}

static void find(const struct problem *p, struct mfu_elasticities *out) {
    struct status_error err;
    struct geometry centre;
    struct candidate plan;
    assert_int_equal(ladder_geometry(8, 64, 4, 4, 50257, &centre, &err), MOSAIC_OK);
    solve(p, &centre, &plan);
    if (mfu_elasticities_find(p, &plan, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static void an_exact_plane(void **state) {
    (void)state;
    struct problem p;
    struct mfu_elasticities got;
    launches_only(&p);
    find(&p, &got);
    assert_true(got.is_known);
    assert_true(got.neighbours >= 7); /* the plan and one step either way along each axis */
    assert_close_abs(got.n, 1.0, 1e-3);
    assert_close_abs(got.sparsity, 1.0, 1e-3);
    assert_close_abs(got.granularity, 0.0, 1e-3);
    assert_true(got.rms < 1e-3);
}

/* On the real machine small, sparse, fine-grained models run at lower MFU. */
static void on_the_real_machine(void **state) {
    (void)state;
    struct problem p;
    struct mfu_elasticities got;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    p.geometries.count = grid(items);
    p.cluster.device.memory_bytes = 1e18;
    find(&p, &got);
    print_message("omega_N %.3f, omega_S %.3f, omega_G %.3f, rms %.3f of %d\n", got.n, got.sparsity,
                  got.granularity, got.rms, got.neighbours);
    assert_true(got.is_known && isfinite(got.rms));
    assert_true(got.n > 0.0 && got.n < 2.0);
    assert_true(got.sparsity > 0.0 && got.sparsity < 2.0);
    assert_true(got.granularity > -1.0 && got.granularity < 2.0);
}

static void too_few_neighbours(void **state) {
    (void)state;
    struct problem p;
    struct mfu_elasticities got;
    struct status_error err;
    launches_only(&p);
    assert_int_equal(ladder_geometry(8, 64, 4, 4, 50257, &items[0], &err), MOSAIC_OK);
    assert_int_equal(ladder_geometry(8, 128, 4, 4, 50257, &items[1], &err), MOSAIC_OK);
    for (size_t count = 1; count <= 2; ++count) {
        p.geometries.count = count;
        find(&p, &got);
        assert_false(got.is_known);
        assert_int_equal(got.neighbours, count);
    }
    /* Far away is no neighbour. */
    assert_int_equal(ladder_geometry(8, 512, 4, 4, 50257, &items[1], &err), MOSAIC_OK);
    find(&p, &got);
    assert_int_equal(got.neighbours, 1);
}

/* Five of them on a line: their slope across it is not made up. */
static void one_direction_only(void **state) {
    (void)state;
    static const int experts[] = {32, 48, 64, 96, 128};
    struct problem p;
    struct mfu_elasticities got;
    struct status_error err;
    launches_only(&p);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(ladder_geometry(8, experts[i], 4, 4, 50257, &items[i], &err), MOSAIC_OK);
    p.geometries.count = 5;
    find(&p, &got);
    assert_int_equal(got.neighbours, 5);
    assert_false(got.is_known);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_plane),
        cmocka_unit_test(on_the_real_machine),
        cmocka_unit_test(too_few_neighbours),
        cmocka_unit_test(one_direction_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
