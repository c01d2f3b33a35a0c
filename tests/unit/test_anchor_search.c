// SPDX-License-Identifier: GPL-3.0-or-later
/* The search of a space in which some models are anchored, against trying everything. */
#include "oracle.h"
#include "plan_case.h"
#include "step/anchor.h"

#include "close.h"

enum { SPACES = 40, GEOMETRIES = 6 };

static const double close_enough = 1e-12;
static struct oracle_answer plain, want;
static struct search_result got;
static struct anchors anchors;

/* Every other geometry, a factor of 0.5 to 2. */
static void draw_anchors(struct random *r, struct problem *p) {
    anchors.count = 0;
    for (size_t i = 0; i < p->geometries.count; i += 2)
        anchors.items[anchors.count++] =
            (struct anchor){p->geometries.items[i], {1, random_between(r, -0.7, 0.7), 0.05}};
    p->workload.anchors = &anchors;
}

static void same_best(const struct problem *p) {
    const struct oracle_plan *const best = &want.plans[0];
    assert_int_equal(got.kept[0].index, best->index);
    assert_close(got.kept[0].run.loss, best->loss, close_enough);
    assert_close(got.kept[0].step_time_s, best->step_time_s, close_enough);
    assert_true(got.kept_count >= (want.count < SEARCH_TOP ? want.count : SEARCH_TOP));
    for (size_t k = 0; k < p->geometries.count; ++k)
        assert_int_equal(want.layouts[k].wrong_time_bound, 0);
}

static void search_stays_exact(void **state) {
    (void)state;
    struct random r = {77};
    struct status_error err;
    const struct search_options options = {.threads = 1};
    int found = 0, moved = 0;
    for (int space = 0; space < SPACES; ++space) {
        struct geometry items[CASE_GEOMETRIES_MAX];
        struct problem p;
        case_random(&r, &p, items, GEOMETRIES);
        oracle_search(&p, false, &plain);
        draw_anchors(&r, &p);
        oracle_search(&p, false, &want);
        if (search_run(&p, &options, &got, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
        assert_int_equal(got.kept_count > 0, want.count > 0);
        if (want.count > 0) {
            same_best(&p);
            ++found;
            moved += want.plans[0].index != plain.plans[0].index;
        }
        for (size_t i = 0; i < p.geometries.count; ++i)
            if (plain.layouts[i].found && !anchor_find(&anchors, &items[i]))
                assert_true(want.layouts[i].step_time_s == plain.layouts[i].step_time_s);
        search_result_free(&got);
    }
    print_message("%d feasible, %d with another best model\n", found, moved);
    assert_true(found > SPACES / 2 && moved > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_stays_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
