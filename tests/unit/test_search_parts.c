// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The best of a space is the best of its parts: random small problems, one axis cut into its values
 * (or the geometries, or the recomputations, one by one), each part searched for itself.  Scores
 * are equal to the last bit, and the meshes of the parts are those of the whole.
 */
#include "plan_case.h"

#include "close.h"
#include "plan/search.h"

#include <math.h>

enum { PROBLEMS = 400, GEOMETRIES = 3, AXES = 7, CUTS = AXES + 2, VALUES = 4 };

static struct geometry items[GEOMETRIES];
static struct search_result result;

struct found {
    double score; /* INFINITY without a plan */
    long meshes;
};

static struct found search(const struct problem *p, int threads) {
    struct status_error err;
    const struct search_options options = {.threads = threads, .best_only = threads == 1};
    if (search_run(p, &options, &result, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    const struct found f = {result.kept_count > 0 ? result.kept[0].run.score : (double)INFINITY,
                            result.proof.bound_counts.meshes};
    search_result_free(&result);
    return f;
}

static struct axis *axis_of(struct layout_space *s, int axis) {
    struct axis *const axes[AXES] = {&s->tp, &s->cp,  &s->pp,         &s->vpp,
                                     &s->ep, &s->etp, &s->micro_batch};
    return axes[axis];
}

/* Lists that hold odd values too: 1 and three others. */
static void list_axis(struct random *r, struct axis *out) {
    static const int values[] = {2, 3, 4, 5, 6, 8, 16, 1024};
    *out = (struct axis){.count = 1, .values = {1}};
    for (size_t i = 0; i < sizeof values / sizeof *values && out->count < VALUES; ++i)
        if (random_chance(r, 0.5))
            out->values[out->count++] = values[i];
}

/* Memory, objective and execution so that each limit binds now and then. */
static void draw(struct random *r, struct problem *p) {
    case_random(r, p, items, GEOMETRIES);
    p->workload.execution.offload_optimizer = random_chance(r, 0.3) ? 1.0 : 0.0;
    struct param_counts counts;
    count_params(&items[0], &counts);
    const double each = counts.n_total / (double)cluster_gpus(&p->cluster);
    if (random_chance(r, 0.7))
        p->cluster.device.memory_bytes = each * random_between(r, 6.0, 60.0) + 3e8;
    if (random_chance(r, 0.3))
        p->cluster.host_memory_bytes =
            each * (double)p->cluster.gpus_per_node * random_between(r, 4.0, 30.0);
    if (random_chance(r, 0.3)) {
        p->objective = OBJECTIVE_TIME;
        p->budget.target_loss = random_between(r, 2.0, 8.0);
        p->budget.seconds = random_chance(r, 0.5) ? (double)INFINITY : 1e7;
    }
}

static void add(struct found *sum, struct found part) {
    sum->score = fmin(sum->score, part.score);
    sum->meshes += part.meshes;
}

static struct found by_axis(const struct problem *p, int axis) {
    struct found sum = {(double)INFINITY, 0};
    struct layout_space layouts = p->layouts;
    const struct axis whole = *axis_of(&layouts, axis);
    for (int i = 0; i < whole.count; ++i) {
        struct problem part = *p;
        *axis_of(&part.layouts, axis) = (struct axis){.count = 1, .values = {whole.values[i]}};
        add(&sum, search(&part, 1));
    }
    return sum;
}

static struct found by_recomputation(const struct problem *p) {
    struct found sum = {(double)INFINITY, 0};
    for (int i = 0; i < RECOMPUTE_MODES; ++i) {
        struct problem part = *p;
        if (!p->layouts.recompute[i])
            continue;
        for (int k = 0; k < RECOMPUTE_MODES; ++k)
            part.layouts.recompute[k] = k == i;
        add(&sum, search(&part, 1));
    }
    return sum;
}

static struct found by_geometry(const struct problem *p) {
    struct found sum = {(double)INFINITY, 0};
    for (size_t i = 0; i < p->geometries.count; ++i) {
        struct problem part = *p;
        part.geometries = (struct geometry_space){.count = 1, .items = &items[i]};
        add(&sum, search(&part, 1));
    }
    return sum;
}

static void whole_is_its_parts(void **state) {
    (void)state;
    struct random r = {20261130};
    int planned = 0, left = 0;
    for (int i = 0; i < PROBLEMS; ++i) {
        struct problem p;
        const int cut = i % CUTS;
        draw(&r, &p);
        if (cut < AXES)
            list_axis(&r, axis_of(&p.layouts, cut));
        const struct found whole = search(&p, 1), threads = search(&p, 3);
        const struct found parts = cut < AXES    ? by_axis(&p, cut)
                                   : cut == AXES ? by_recomputation(&p)
                                                 : by_geometry(&p);
        planned += isfinite(whole.score);
        left += !isfinite(whole.score) && whole.meshes > 0;
        if (!(whole.score == parts.score && whole.score == threads.score))
            fail_msg("problem %d, cut %d: %.17g, by parts %.17g, by three threads %.17g", i, cut,
                     whole.score, parts.score, threads.score);
        assert_int_equal(whole.meshes, parts.meshes);
        assert_int_equal(whole.meshes, threads.meshes);
    }
    print_message("%d problems with a plan, %d with meshes and none\n", planned, left);
    assert_true(planned > 100 && left > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_is_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
