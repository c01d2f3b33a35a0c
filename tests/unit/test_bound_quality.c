// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Bounds of one mesh and of many: never above what they bound, on 1e5 random points, and close to
 * it on the paper's space; the queue against bounding every mesh; lists of meshes and layer tables
 * that ways share.
 */
#include "plan_case.h"

#include "close.h"
#include "plan/mesh_queue.h"
#include "plan/search.h"
#include "plan/shape_bound.h"
#include "plan/split_room.h"
#include "plan/way_classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 2048, POINTS = 100000, PROBLEMS_MOST = 40000, WAYS = 5 };

static struct geometry items[ITEMS];
static struct problem problem;
static struct step_context ctx;

/* ---- random jobs ---- */

static void draw_execution(struct random *r, enum optimizer optimizer, struct execution *e) {
    static const double shares[] = {0.0, 0.0, 0.25, 0.5, 1.0};
    static const int rings[] = {0, 0, 2, 4}, chunks[] = {0, 0, 64, 512};
    enum { SHARES = sizeof shares / sizeof shares[0] };
    e->sharding = (enum sharding)random_int(r, SHARD_ZERO1, SHARD_FSDP);
    e->dispatcher = (enum dispatcher)random_int(r, 0, DISPATCHERS - 1);
    e->graphs = (enum graphs)random_int(r, GRAPHS_NONE, GRAPHS_FULL);
    e->overlap = random_chance(r, 0.5) ? 0 : (unsigned)random_int(r, 0, 15);
    e->selective = random_chance(r, 0.5) ? 0 : (unsigned)random_int(r, 1, 255);
    e->serial_dp = random_chance(r, 0.2);
    e->bf16_gradients = random_chance(r, 0.3);
    e->bf16_moments = random_chance(r, 0.3);
    e->no_master = random_chance(r, 0.2);
    e->unfused_attention = random_chance(r, 0.2);
    e->dropped = random_chance(r, 0.2) ? 0.1 : 0.0;
    e->offload_activations = shares[random_int(r, 0, SHARES - 1)];
    e->offload_optimizer = shares[random_int(r, 0, SHARES - 1)];
    e->balance = random_chance(r, 0.3) ? BALANCE_LLEP : BALANCE_NONE;
    e->dispatch_chunk = random_pick(r, chunks, sizeof chunks / sizeof chunks[0]);
    e->dispatch_chunks_max = 10;
    e->vocab_ring = random_pick(r, rings, sizeof rings / sizeof rings[0]);
    e->bucket_slots = 2;
    if (random_chance(r, 0.2)) {
        e->checkpoint_host_bytes = random_between(r, 1e6, 1e10);
        e->offload_activations = 0.0;
    }
    if (optimizer == OPTIMIZER_ADAMW && random_chance(r, 0.2)) {
        e->bucket_params = random_between(r, 1e4, 1e8);
        e->offload_optimizer = 0.0;
        e->no_master = e->bf16_moments = false;
    }
}

/* Several jobs and models a machine and space: a document takes longer to load than to search. */
static void draw(struct random *r) {
    static int left;
    if (left-- > 0) {
        case_random_geometry(r, &problem.workload, &items[0]);
    } else {
        case_random(r, &problem, items, 1);
        left = 7;
    }
    draw_execution(r, problem.workload.optimizer, &problem.workload.execution);
    if (random_chance(r, 0.3)) {
        memset(&problem.workload.execution, 0, sizeof problem.workload.execution);
        problem.workload.execution.overlap = (unsigned)random_int(r, 0, 15);
    }
    problem.engine.memory_schedules = random_chance(r, 0.8);
    problem.engine.recompute_per_stage = random_chance(r, 0.3);
    problem.cluster.host_link_bytes_per_s = random_between(r, 1e9, 1e11);
    problem.layouts.micro_batch = (struct axis){.count = 0};
    for (int i = 0; i < RECOMPUTE_MODES; ++i)
        problem.layouts.recompute[i] = true;
    if (random_chance(r, 0.3)) {
        problem.layouts.schedule[SCHEDULE_1F1B] = true;
        problem.layouts.schedule[SCHEDULE_DUALPIPE] = true;
        problem.layouts.schedule[SCHEDULE_ZERO_BUBBLE] = true;
    }
    problem_context(&problem, &items[0], 0, &ctx);
}

static void draw_split(struct random *r, const struct mesh *m, struct split *out) {
    const int layers = ctx.geometry->layers;
    split_even(layers, m->pp, out);
    if (m->vpp > 1 || random_chance(r, 0.3))
        return;
    for (int i = 1; i < m->pp; ++i)
        out->first[i] = (uint16_t)random_int(r, out->first[i - 1] + 1, layers - (m->pp - i));
}

/* ---- never above ---- */

struct tally {
    long points, mixed, batches, recomputes, memories, rooms;
    double tightest;
};

/* Some stages recompute less than the mesh says, where they may. */
static void draw_policies(struct random *r, const struct mesh *m, struct split *out) {
    const unsigned policies = mesh_policies(&ctx, m);
    out->is_mixed = false;
    if ((policies & (policies - 1)) == 0 || random_chance(r, 0.4))
        return;
    out->is_mixed = true;
    for (int i = 0; i < m->pp; ++i)
        do
            out->recompute[i] = (uint8_t)random_int(r, 0, RECOMPUTE_MODES - 1);
        while (!(policies & 1U << out->recompute[i]));
    out->recompute[random_int(r, 0, m->pp - 1)] = (uint8_t)m->recompute;
}

static double predicted(struct random *r, const struct layer_table *table, const struct mesh *m,
                        double *bytes, bool *is_mixed) {
    struct prediction p;
    struct split split;
    draw_split(r, m, &split);
    draw_policies(r, m, &split);
    *is_mixed = split.is_mixed;
    step_predict(&ctx, table, m, &split, &p, NULL);
    *bytes = p.memory.total;
    return p.step_time_s;
}

static void check_mesh(struct random *r, const struct layer_table *table, const struct mesh *m,
                       double shape_s, struct tally *t) {
    double bytes;
    bool is_mixed;
    const double time_s = predicted(r, table, m, &bytes, &is_mixed),
                 bound_s = step_bound(&ctx, table, m);
    assert_true(bound_s <= time_s);
    assert_true(shape_s <= bound_s);
    assert_true(step_memory_bound(&ctx, table, m) <= bytes);
    struct mesh other = *m;
    other.vpp = 1;
    if (m->vpp > 1) { /* of which the bound of memory knows nothing */
        other.schedule = SCHEDULE_1F1B;
        assert_close(step_memory_bound(&ctx, table, &other), step_memory_bound(&ctx, table, m),
                     0.0);
    }
    t->points++;
    t->mixed += is_mixed;
    t->tightest = fmax(t->tightest, shape_s / time_s);
}

/* Against the same degrees with another micro-batch, no smaller, and a recomputation, no less. */
static void check_shape(const struct mesh_catalog *c, const struct catalog_shape *shape,
                        const struct layer_table *table, double dip, struct tally *t) {
    for (size_t i = 0; i < c->shape_count; ++i) {
        const struct catalog_shape *const large = &c->shapes[i];
        if (large->tp != shape->tp || large->cp != shape->cp || large->ep != shape->ep ||
            large->etp != shape->etp || large->micro_batch < shape->micro_batch ||
            large->recompute > shape->recompute || large->count == 0)
            continue;
        struct layer_table of_large;
        struct mesh m, small;
        catalog_shape_fill(large, 0, &m);
        catalog_shape_fill(shape, 0, &small);
        layer_table_fill(&ctx, &m, &of_large);
        const bool is_any = large->recompute < shape->recompute;
        if (batches_are_bounded(&ctx)) {
            const double coarse_s = batches_bound_s(&ctx, &of_large, &m, is_any, dip);
            assert_true(coarse_s <= shape_bound_s(&ctx, table, &small));
            t->batches++;
            t->recomputes += is_any;
        }
        if (is_any || !memory_rises(&ctx))
            continue;
        struct mesh at, at_small;
        const struct catalog_mesh *const place = &c->meshes[large->first];
        catalog_mesh_fill(large, place, &ctx, &at);
        catalog_mesh_fill(shape, place, &ctx, &at_small);
        assert_true(step_memory_bound(&ctx, table, &at_small) <=
                    step_memory_bound(&ctx, &of_large, &at));
        t->memories++;
    }
}

static void every_bound_is_one(void **state) {
    (void)state;
    struct random r = {701};
    struct status_error err;
    struct tally t = {0};
    struct catalog_cache *const cache = catalog_cache_new();
    assert_non_null(cache);
    for (int i = 0; i < PROBLEMS_MOST && t.points < POINTS; ++i) {
        const struct mesh_catalog *c;
        draw(&r);
        catalog_cache_trim(cache);
        assert_int_equal(catalog_find(cache, &ctx, &problem.layouts, &c, &err), MOSAIC_OK);
        const double dip = collective_dip(&problem.calibration);
        assert_true(dip >= 1.0);
        for (size_t s = 0; s < c->shape_count; ++s) {
            struct layer_table table;
            struct mesh m;
            catalog_shape_fill(&c->shapes[s], 0, &m);
            layer_table_fill(&ctx, &m, &table);
            const double shape_s = shape_bound_s(&ctx, &table, &m);
            for (uint32_t k = 0; k < c->shapes[s].count; ++k) {
                catalog_mesh_fill(&c->shapes[s], &c->meshes[c->shapes[s].first + k], &ctx, &m);
                check_mesh(&r, &table, &m, shape_s, &t);
            }
            if (random_chance(&r, 0.2))
                check_shape(c, &c->shapes[s], &table, dip, &t);
        }
    }
    catalog_cache_free(cache);
    print_message("%ld points, %ld of them mixed; %ld micro-batches, %ld of them under less "
                  "recomputation; %ld "
                  "memories; the tightest shape at %.4f\n",
                  t.points, t.mixed, t.batches, t.recomputes, t.memories, t.tightest);
    assert_true(t.points >= POINTS && t.batches > POINTS / 4 && t.recomputes > POINTS / 16);
    assert_true(t.mixed > POINTS / 50);
    assert_true(t.memories > POINTS / 16 && t.tightest > 0.9);
}

/* A measured curve that dips: what was lost since its highest point. */
static void dips(void **state) {
    (void)state;
    struct random r = {702};
    struct status_error err;
    double deepest = 1.0;
    for (int i = 0; i < 2000; ++i) {
        static struct calibration c;
        double x[12], y[12];
        const int n = random_int(&r, 1, 12);
        for (int k = 0; k < n; ++k) {
            x[k] = (k > 0 ? x[k - 1] : 1e3) * random_between(&r, 1.2, 9.0);
            y[k] = (k > 0 ? y[k - 1] : 1e9) * random_between(&r, 0.7, 2.0);
        }
        const enum curve_method method = (enum curve_method)random_int(&r, 0, 2);
        c.collective_count = 1;
        assert_int_equal(curve_build(&c.collective[0].bus, method, x, y, (size_t)n, &err),
                         MOSAIC_OK);
        const double dip = collective_dip(&c);
        for (int k = 0; k < 200; ++k) {
            const double at = x[0] * exp(random_between(&r, -1.0, 1.0 + log(x[n - 1] / x[0])));
            const double later = at * exp(random_between(&r, 0.0, 3.0));
            const double lost = curve_at(&c.collective[0].bus, at, NULL) /
                                curve_at(&c.collective[0].bus, later, NULL);
            assert_true(lost <= dip * (1.0 + 1e-9));
            deepest = fmax(deepest, lost / dip);
        }
    }
    assert_true(deepest > 0.999);
}

/* ---- the queue is that of bounding every mesh ---- */

struct whole {
    struct layer_table table;
    struct split_scratch *scratch;
    long meshes, closed, count;
    double least_s;
};

static void whole_shape(void *context, const struct mesh *shape) {
    struct whole *const w = context;
    layer_table_fill(&ctx, shape, &w->table);
}

/* Memory closes a mesh only if no split of it fits. */
static void whole_mesh(void *context, const struct mesh *m) {
    struct whole *const w = context;
    struct status_error err;
    w->meshes++;
    const bool fits = memory_verdict(&ctx, step_memory_bound(&ctx, &w->table, m)) != VERDICT_NO;
    if (fits && split_has_room(&ctx, &w->table, m)) {
        w->count++;
        w->least_s = fmin(w->least_s, best_split_bound(&ctx, &w->table, m));
        return;
    }
    struct best_split best;
    struct split_work work = {0};
    const struct split_request request = {&ctx, &w->table, m, (double)INFINITY};
    assert_int_equal(best_split_find(w->scratch, &request, &best, &work, &err), MOSAIC_OK);
    assert_false(best.found);
    w->closed += fits;
}

static void draw_memory(struct random *r) {
    struct prediction p;
    struct layer_table table;
    struct split split;
    struct mesh m = {.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1};
    if (mesh_complete(&m, &items[0], &problem.workload, cluster_gpus(&problem.cluster), NULL) !=
        MOSAIC_OK)
        return;
    layer_table_fill(&ctx, &m, &table);
    split_even(items[0].layers, 1, &split);
    step_predict(&ctx, &table, &m, &split, &p, NULL);
    problem.cluster.device.memory_bytes = p.memory.total * random_between(r, 0.1, 1.2);
    if (random_chance(r, 0.3))
        problem.cluster.host_memory_bytes =
            problem.cluster.device.memory_bytes * random_between(r, 0.1, 1.0);
}

static void the_queue_leaves_nothing_out(void **state) {
    (void)state;
    enum { SPACES = 100 };
    struct random r = {703};
    struct status_error err;
    struct mesh_queue *const queue = mesh_queue_new();
    struct whole w = {.scratch = split_scratch_new()};
    long opened = 0, closed = 0, meshes = 0, bounded = 0;
    assert_true(queue && w.scratch);
    for (int i = 0; i < SPACES; ++i) {
        draw(&r);
        draw_memory(&r);
        struct mesh_census census = {0};
        struct queue_counts counts = {0};
        w.meshes = w.count = w.closed = 0;
        w.least_s = (double)INFINITY;
        mesh_walk(&ctx, &problem.layouts, whole_shape, whole_mesh, &w, &census);
        assert_int_equal(mesh_queue_open(queue, &problem, &items[0], &counts, &err), MOSAIC_OK);
        long given = 0;
        double before_s = 0.0;
        for (;;) {
            struct queued_mesh next;
            bool found;
            assert_int_equal(mesh_queue_next(queue, (double)INFINITY, &next, &found, &err),
                             MOSAIC_OK);
            if (!found)
                break;
            assert_true(next.bound_s >= before_s);
            assert_close(next.bound_s, best_split_bound(next.ctx, next.table, &next.mesh), 0.0);
            if (given++ == 0)
                assert_close(next.bound_s, w.least_s, 0.0);
            before_s = next.bound_s;
        }
        assert_int_equal(given, w.count);
        assert_int_equal(counts.closed_by_memory, w.meshes - w.count);
        assert_memory_equal(&counts.census, &census, sizeof census);
        opened += given;
        closed += w.closed;
        meshes += w.meshes;
        bounded += counts.bounded;
    }
    print_message("%ld of %ld meshes opened, %ld of %ld bounded had no room for any split\n",
                  opened, meshes, closed, bounded);
    assert_true(opened > SPACES && closed > SPACES / 8);
    split_scratch_free(w.scratch);
    mesh_queue_free(queue);
}

/* ---- what ways share ---- */

static void ways_of_one_table(void **state) {
    (void)state;
    struct random r = {704};
    int same = 0;
    for (int i = 0; i < 3000; ++i) {
        if (i % 10 == 0)
            draw(&r);
        struct workload other = problem.workload;
        struct way_key keys[2];
        struct step_context its;
        struct problem of_other = problem;
        struct execution *const e = &other.execution;
        struct execution drawn = {0};
        draw_execution(&r, other.optimizer, &drawn);
        if (random_chance(&r, 0.8)) { /* else anything may differ */
            drawn.dispatcher = e->dispatcher;
            drawn.graphs = e->graphs;
            drawn.overlap = e->overlap;
            drawn.selective = e->selective;
            drawn.bf16_gradients = e->bf16_gradients;
            drawn.unfused_attention = e->unfused_attention;
            drawn.dropped = e->dropped;
            drawn.balance = e->balance;
            drawn.dispatch_chunk = e->dispatch_chunk;
            drawn.dispatch_chunks_max = e->dispatch_chunks_max;
            drawn.vocab_ring = e->vocab_ring;
        }
        *e = drawn;
        of_other.workload = other;
        problem_context(&of_other, &items[0], 0, &its);
        way_table_key(&ctx, &keys[0]);
        way_table_key(&its, &keys[1]);
        if (!way_key_equal(&keys[0], &keys[1]))
            continue;
        struct layer_table tables[2];
        struct mesh m = {.tp = random_int(&r, 1, 4),
                         .cp = random_int(&r, 1, 2),
                         .ep = random_int(&r, 1, 4),
                         .etp = random_int(&r, 1, 2),
                         .micro_batch = random_int(&r, 1, 4),
                         .recompute = (enum recompute)random_int(&r, 0, RECOMPUTE_MODES - 1)};
        layer_table_fill(&ctx, &m, &tables[0]);
        layer_table_fill(&its, &m, &tables[1]);
        assert_memory_equal(&tables[0], &tables[1], sizeof tables[0]);
        same++;
    }
    assert_true(same > 1000);
}

/* ---- how close ---- */

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double ratios[ITEMS * 512];

/* Bounds over the best split's time, of every mesh that some split of it fits. */
static size_t find_ratios(size_t stride) {
    struct status_error err;
    struct mesh_queue *const queue = mesh_queue_new();
    struct split_scratch *const scratch = split_scratch_new();
    struct queue_counts counts = {0};
    struct split_work work = {0};
    size_t count = 0;
    assert_true(queue && scratch);
    for (size_t i = 0; i < problem.geometries.count; i += stride) {
        assert_int_equal(mesh_queue_open(queue, &problem, &items[i], &counts, &err), MOSAIC_OK);
        for (;;) {
            struct queued_mesh next;
            struct best_split best;
            bool found;
            assert_int_equal(mesh_queue_next(queue, (double)INFINITY, &next, &found, &err),
                             MOSAIC_OK);
            if (!found)
                break;
            const struct split_request request = {next.ctx, next.table, &next.mesh,
                                                  (double)INFINITY};
            assert_int_equal(best_split_find(scratch, &request, &best, &work, &err), MOSAIC_OK);
            if (!best.found)
                continue;
            assert_true(next.bound_s <= best.step_time_s);
            ratios[count++] = next.bound_s / best.step_time_s;
        }
    }
    split_scratch_free(scratch);
    mesh_queue_free(queue);
    qsort(ratios, count, sizeof ratios[0], ascending);
    return count;
}

static void bounds_are_close(void **state) {
    (void)state;
    case_load("configs/p6-b200-32n-20d.yaml", &problem, items, ITEMS);
    const size_t count = find_ratios(121);
    assert_true(count > 400);
    print_message("%zu meshes of the paper's space: bound / exact %.3f at a tenth, %.3f in the "
                  "middle, %.3f at nine tenths\n",
                  count, ratios[count / 10], ratios[count / 2], ratios[count * 9 / 10]);
    assert_true(ratios[count / 2] >= 0.85);
    assert_true(ratios[count / 10] >= 0.7);
}

static void most_are_closed(void **state) {
    (void)state;
    static struct search_result found;
    struct status_error err;
    const struct search_options options = {.threads = 2};
    case_load("configs/p6-b200-32n-20d.yaml", &problem, items, ITEMS);
    if (search_run(&problem, &options, &found, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    const struct layout_counts *const b = &found.proof.bound_counts, *const c = &found.proof.counts;
    const double closed = 1.0 - (double)c->opened / (double)b->meshes;
    print_message("%ld (geometry, mesh) pairs: %.2f %% closed by a bound, %.1f %% of them without "
                  "one of their own; %.2f layer tables a shape\n",
                  b->meshes, 100.0 * closed, 100.0 * (1.0 - (double)b->bounded / (double)b->meshes),
                  (double)b->tables / (double)b->shapes);
    assert_int_equal(b->meshes, b->closed_by_memory + b->closed_by_shape + b->bounded);
    assert_true(closed >= 0.95);
    search_result_free(&found);
}

/* A queue that goes on, of another worker too, finds and counts what a new one does; layer tables
 * it may fill again. */
static void goes_on_as_anew(void **state) {
    (void)state;
    struct status_error err;
    struct layout_scratch *const first = layout_scratch_new(), *const other = layout_scratch_new();
    int kept = 0, left = 0;
    assert_true(first && other);
    case_load("configs/p6-b200-32n-20d.yaml", &problem, items, ITEMS);
    for (size_t i = 0; i < problem.geometries.count; i += 11) {
        const struct geometry *const g = &items[i];
        struct layout_bound bound;
        struct best_layout anew, on;
        struct layout_counts anew_counts = {.meshes = 0}, on_counts = {.meshes = 0};
        assert_int_equal(best_layout_bound(first, &problem, g, &bound, &err), MOSAIC_OK);
        kept += bound.start != NULL;
        left += !bound.start && isfinite(bound.bound_s);
        assert_int_equal(best_layout_resume(i % 2 ? first : other, &problem, g, bound.start, &on,
                                            &on_counts, &err),
                         MOSAIC_OK);
        free(bound.start);
        assert_int_equal(best_layout_find(first, &problem, g, &anew, &anew_counts, &err),
                         MOSAIC_OK);
        assert_int_equal(on.found, anew.found);
        assert_true(on.step_time_s == anew.step_time_s);
        assert_true(on.least_memory_bytes == anew.least_memory_bytes);
        assert_true(!on.found || mesh_compare(&on.layout.mesh, &anew.layout.mesh) == 0);
        assert_true(on_counts.tables >= anew_counts.tables);
        on_counts.tables = anew_counts.tables;
        assert_memory_equal(&on_counts, &anew_counts, sizeof on_counts);
        assert_true(!on.found || bound.bound_s <= on.step_time_s);
    }
    print_message("%d queues went on, %d were opened anew\n", kept, left);
    assert_true(kept > 40);
    layout_scratch_free(first);
    layout_scratch_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bound_is_one),
        cmocka_unit_test(dips),
        cmocka_unit_test(the_queue_leaves_nothing_out),
        cmocka_unit_test(goes_on_as_anew),
        cmocka_unit_test(ways_of_one_table),
        cmocka_unit_test(bounds_are_close),
        cmocka_unit_test(most_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
