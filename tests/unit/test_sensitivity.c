// SPDX-License-Identifier: GPL-3.0-or-later
/* What a plan hangs on, against what-ifs made by hand. */
#include "close.h"

#include "plan/sensitivity.h"
#include "plan_case.h"

enum { ROOM = 2048 };
static struct geometry items[ROOM];
static struct search_result search, other;
static struct sensitivity found, whole; /* whole: unlimited, unstopped, made once */

/* Every ninth model of a shipped plan: neighbours far enough apart, searches short. */
static void start(struct problem *p, struct search_options *options) {
    struct status_error err;
    case_load("configs/p6-b200-4n-5d.yaml", p, items, ROOM);
    size_t count = 0;
    for (size_t i = 0; i < p->geometries.count; i += 9)
        items[count++] = items[i];
    p->geometries.count = count;
    p->budget.goodput = 0.8;
    *options = (struct search_options){.threads = 2};
    assert_int_equal(search_run(p, options, &search, &err), MOSAIC_OK);
    search_result_free(&search);
    assert_int_equal(search.status, SEARCH_OPTIMAL);
    assert_true(search.kept_count > 1);
}

static void find(const struct problem *p, const struct search_options *options) {
    struct status_error err;
    assert_int_equal(sensitivity_find(p, &search, options, &found, &err), MOSAIC_OK);
}

static void find_whole(const struct problem *p, const struct search_options *options) {
    if (whole.figure_count == 0) {
        find(p, options);
        whole = found;
    }
}

/* The best of the whole space with one figure scaled. */
static void search_scaled(const struct problem *p, enum figure figure, double factor) {
    struct status_error err;
    struct problem *scaled = NULL;
    const struct search_options options = {.threads = 2};
    assert_int_equal(figure_scaled(p, figure, factor, &scaled, &err), MOSAIC_OK);
    assert_int_equal(search_run(scaled, &options, &other, &err), MOSAIC_OK);
    search_result_free(&other);
    figure_free(scaled);
}

static bool is_plan(const struct candidate *c) {
    return c->index == search.kept[0].index &&
           mesh_compare(&c->layout.mesh, &search.kept[0].layout.mesh) == 0;
}

static void flip_holds(const struct problem *p, enum figure figure, const struct flip *flip) {
    if (!flip->is_tried)
        return;
    if (!flip->is_found) {
        search_scaled(p, figure, flip->factor);
        assert_true(other.kept_count > 0 && is_plan(&other.kept[0]));
        return;
    }
    const double ratio = flip->factor / flip->last_same;
    assert_true(fmax(ratio, 1.0 / ratio) <= 1.02 + 1e-12);
    assert_true(fabs(log(flip->factor)) >= fabs(log(flip->last_same)));
    search_scaled(p, figure, flip->last_same);
    assert_true(other.kept_count > 0 && is_plan(&other.kept[0]));
    search_scaled(p, figure, flip->factor);
    assert_int_equal(other.kept_count == 0, flip->is_infeasible);
    if (flip->is_infeasible)
        return;
    assert_false(is_plan(&other.kept[0]));
    assert_int_equal(other.kept[0].index, flip->to.index);
    assert_close(other.kept[0].run.score, flip->to.score, 0.0);
    assert_int_equal(flip->to.is_other_geometry, flip->to.index != search.kept[0].index);
}

static void flips_are_where_whole_searches_differ(void **state) {
    (void)state;
    struct problem p;
    struct search_options options;
    start(&p, &options);
    find_whole(&p, &options);
    assert_true(whole.figure_count >= 7);
    int flips = 0;
    for (int i = 0; i < whole.figure_count; ++i) {
        const struct figure_slope *const f = &whole.figures[i];
        flips += f->down.is_found + f->up.is_found;
        flip_holds(&p, f->figure, &f->down);
        flip_holds(&p, f->figure, &f->up);
    }
    assert_true(flips >= 3);
}

/* The plan as it is laid out: more goodput buys as many more tokens, more of what is good never
 * fewer, more of what is bad never more. */
static void slopes_have_their_signs(void **state) {
    (void)state;
    static const bool is_bad[FIGURES] = {
        [FIGURE_LAUNCH_GAP] = true, [FIGURE_IMBALANCE] = true, [FIGURE_STRAGGLERS] = true};
    struct problem p;
    struct search_options options;
    start(&p, &options);
    find_whole(&p, &options);
    for (int i = 0; i < whole.figure_count; ++i) {
        const struct figure_slope *const f = &whole.figures[i];
        assert_int_equal(f->has_slope, f->figure != FIGURE_MEMORY);
        if (f->figure == FIGURE_GOODPUT)
            assert_close(f->tokens, 1.0, 1e-9);
        const double good = is_bad[f->figure] ? -f->tokens : f->tokens;
        assert_true(good >= -1e-9);
        assert_true(f->loss * f->tokens <= 1e-12); /* loss falls with tokens */
        assert_close(f->score, f->loss, 1e-12);
    }
}

static void pins_cost_what_freeing_them_gains(void **state) {
    (void)state;
    struct problem p;
    struct search_options options;
    struct status_error err;
    start(&p, &options);
    find_whole(&p, &options);
    assert_true(whole.pin_count >= 3);
    for (int i = 0; i < whole.pin_count; ++i) {
        const struct pin_price *const price = &whole.pins[i];
        struct problem freed = p;
        struct axis *const axes[] = {
            &freed.layouts.tp, &freed.layouts.cp,  &freed.layouts.pp,         &freed.layouts.vpp,
            &freed.layouts.ep, &freed.layouts.etp, &freed.layouts.micro_batch};
        assert_true(price->axis < LAYOUT_RECOMPUTE); /* the plan allows every recomputation */
        assert_true(axes[price->axis]->count > 0);
        axes[price->axis]->count = 0;
        assert_int_equal(search_run(&freed, &options, &other, &err), MOSAIC_OK);
        search_result_free(&other);
        const double gain = search.kept[0].run.score - other.kept[0].run.score;
        assert_true(gain >= 0.0);
        assert_close_abs(price->gain, gain, 1e-15);
    }
}

/* A what-if that ended early would answer nothing: limits are of the search alone. */
static void limits_do_not_count(void **state) {
    (void)state;
    struct problem p;
    struct search_options options;
    start(&p, &options);
    find_whole(&p, &options);
    options.geometry_limit = 1;
    options.time_limit_s = 1e-9;
    find(&p, &options);
    assert_int_equal(found.figure_count, whole.figure_count);
    for (int i = 0; i < whole.figure_count; ++i) {
        assert_close(found.figures[i].up.factor, whole.figures[i].up.factor, 0.0);
        assert_close(found.figures[i].down.factor, whole.figures[i].down.factor, 0.0);
    }
}

static void stop_late(void *context, double done, double total) {
    if (done > 0.3 * total)
        atomic_store((atomic_bool *)context, true);
}

/* What there is when it is stopped is whole, and no error. */
static void a_stop_keeps_what_is_done(void **state) {
    (void)state;
    struct problem p;
    struct search_options options;
    atomic_bool stop;
    start(&p, &options);
    find_whole(&p, &options);
    assert_false(whole.is_stopped);
    atomic_init(&stop, false);
    options.stop = &stop;
    options.progress = stop_late;
    options.progress_context = &stop;
    find(&p, &options);
    assert_true(found.is_stopped);
    assert_true(found.figure_count > 0 && found.figure_count < whole.figure_count);
    assert_int_equal(found.pin_count, 0);
    for (int i = 0; i < found.figure_count; ++i) {
        assert_close(found.figures[i].up.factor, whole.figures[i].up.factor, 0.0);
        assert_close(found.figures[i].down.factor, whole.figures[i].down.factor, 0.0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flips_are_where_whole_searches_differ),
        cmocka_unit_test(slopes_have_their_signs),
        cmocka_unit_test(pins_cost_what_freeing_them_gains),
        cmocka_unit_test(limits_do_not_count),
        cmocka_unit_test(a_stop_keeps_what_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
