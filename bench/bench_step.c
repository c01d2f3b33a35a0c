// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Speed of the evaluator on one core, over every geometry and layout of a plan file.
 *   evaluations  contexts, layer tables and full predictions of layouts not seen before
 *   predictions  the same with contexts and tables ready
 *   tables       layer tables alone
 *   bounds       bounds of step time and memory, tables ready
 *   memory       fullest stage of a layout alone, tables ready: a part of both above
 *   legality     rules of arithmetic and engine on a layout alone: no part of them
 *   walk         enumerating legal meshes
 */
#include "bench.h"

#include "plan/mesh_walk.h"
#include "step/memory.h"
#include "step/step.h"

#include <stdlib.h>

struct shape {
    struct mesh mesh;
    size_t begin, end; /* of its meshes */
};

struct work {
    const struct problem *problem;
    size_t count; /* geometries */
    struct shape *shapes;
    size_t *first_shape; /* by geometry, and one more */
    size_t shape_count, shape_room;
    struct mesh *meshes;
    size_t mesh_count, mesh_room;
    struct layer_table *tables; /* by shape */
    struct stage_run *runs;     /* of the even splits, mesh after mesh */
    size_t *first_run;          /* by mesh, and one more */
    size_t run_count, run_room;
    struct step_context *contexts;
    bool failed;
    volatile double sink;
};

static void *room_for(void *items, size_t count, size_t *room, size_t size, bool *failed) {
    if (count < *room)
        return items;
    const size_t larger = *room * 2 + 1024;
    void *const moved = realloc(items, larger * size);
    *failed = *failed || !moved;
    if (!moved)
        return items;
    *room = larger;
    return moved;
}

static void on_shape(void *context, const struct mesh *shape) {
    struct work *const w = context;
    w->shapes = room_for(w->shapes, w->shape_count, &w->shape_room, sizeof *w->shapes, &w->failed);
    if (!w->failed)
        w->shapes[w->shape_count++] = (struct shape){*shape, w->mesh_count, w->mesh_count};
}

static void on_mesh(void *context, const struct mesh *mesh) {
    struct work *const w = context;
    w->meshes = room_for(w->meshes, w->mesh_count, &w->mesh_room, sizeof *w->meshes, &w->failed);
    if (w->failed)
        return;
    w->meshes[w->mesh_count++] = *mesh;
    w->shapes[w->shape_count - 1].end = w->mesh_count;
}

static void context_of(const struct work *w, size_t i, struct step_context *ctx) {
    const struct problem *const p = w->problem;
    step_context_init(ctx, &p->geometries.items[i], &p->cluster, &p->calibration, &p->workload,
                      &p->engine, p->estimator);
}

/* Room for the most runs that a mesh may have is kept free. */
static void list_runs(struct work *w, size_t geometry, size_t shape, size_t mesh) {
    while (!w->failed && w->run_room < w->run_count + LAYOUT_MAX_PP)
        w->runs = room_for(w->runs, w->run_room, &w->run_room, sizeof *w->runs, &w->failed);
    if (w->failed)
        return;
    const struct step_context *const ctx = &w->contexts[geometry];
    struct split split;
    split_even(ctx->geometry->layers, w->meshes[mesh].pp, &split);
    w->first_run[mesh] = w->run_count;
    w->run_count += (size_t)stage_runs_find(ctx, &w->tables[shape], &w->meshes[mesh], &split,
                                            &w->runs[w->run_count]);
    w->first_run[mesh + 1] = w->run_count;
}

/* Every eleventh geometry: enough to leave the caches cold, few enough to keep in memory. */
enum { STRIDE = 11 };

static bool prepare(struct work *w, const struct problem *problem) {
    w->problem = problem;
    w->count = (problem->geometries.count + STRIDE - 1) / STRIDE;
    w->contexts = calloc(w->count, sizeof *w->contexts);
    w->first_shape = calloc(w->count + 1, sizeof *w->first_shape);
    if (!w->contexts || !w->first_shape)
        return false;
    struct mesh_census census = {0};
    for (size_t i = 0; i < w->count && !w->failed; ++i) {
        context_of(w, i * STRIDE, &w->contexts[i]);
        mesh_walk(&w->contexts[i], &problem->layouts, on_shape, on_mesh, w, &census);
        w->first_shape[i + 1] = w->shape_count;
    }
    w->tables = calloc(w->shape_count + 1, sizeof *w->tables);
    w->first_run = calloc(w->mesh_count + 1, sizeof *w->first_run);
    if (w->failed || !w->tables || !w->first_run)
        return false;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s) {
            layer_table_fill(&w->contexts[i], &w->shapes[s].mesh, &w->tables[s]);
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m)
                list_runs(w, i, s, m);
        }
    return !w->failed;
}

static void clear(struct work *w) {
    free(w->contexts);
    free(w->first_shape);
    free(w->shapes);
    free(w->meshes);
    free(w->tables);
    free(w->runs);
    free(w->first_run);
}

static double predict(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh) {
    struct split split;
    struct prediction prediction;
    split_even(ctx->geometry->layers, mesh->pp, &split);
    step_predict(ctx, table, mesh, &split, &prediction, NULL);
    return prediction.step_time_s + prediction.memory.total;
}

static long evaluations(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i) {
        struct step_context ctx;
        context_of(w, i * STRIDE, &ctx);
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s) {
            struct layer_table table;
            layer_table_fill(&ctx, &w->shapes[s].mesh, &table);
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m)
                sum += predict(&ctx, &table, &w->meshes[m]);
        }
    }
    w->sink = sum;
    return (long)w->mesh_count;
}

static long predictions(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s)
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m)
                sum += predict(&w->contexts[i], &w->tables[s], &w->meshes[m]);
    w->sink = sum;
    return (long)w->mesh_count;
}

static long tables(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s) {
            struct layer_table table;
            layer_table_fill(&w->contexts[i], &w->shapes[s].mesh, &table);
            sum += table.head_s;
        }
    w->sink = sum;
    return (long)w->shape_count;
}

static long bounds(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s)
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m)
                sum += step_bound(&w->contexts[i], &w->tables[s], &w->meshes[m]) +
                       step_memory_bound(&w->contexts[i], &w->tables[s], &w->meshes[m]);
    w->sink = sum;
    return (long)w->mesh_count;
}

static double fullest_stage(const struct step_context *ctx, const struct layer_table *table,
                            const struct mesh *mesh, const struct stage_run *runs, size_t count) {
    struct memory_items items;
    struct memory_form form;
    memory_form_of(ctx, table, mesh, &form);
    (void)memory_fullest(&form, runs, (int)count, &items);
    return items.total + (double)memory_verdict(ctx, items.total);
}

static long memory(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s)
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m)
                sum +=
                    fullest_stage(&w->contexts[i], &w->tables[s], &w->meshes[m],
                                  &w->runs[w->first_run[m]], w->first_run[m + 1] - w->first_run[m]);
    w->sink = sum;
    return (long)w->mesh_count;
}

static long legality(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i) {
        const struct step_context *const ctx = &w->contexts[i];
        const int gpus = cluster_gpus(ctx->cluster);
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s)
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m) {
                struct mesh mesh = w->meshes[m];
                struct status_error err;
                sum +=
                    mesh_complete(&mesh, ctx->geometry, ctx->workload, gpus, &err) == MOSAIC_OK &&
                    mesh_check_engine(&mesh, ctx->geometry, ctx->workload, &ctx->engine, &err) ==
                        MOSAIC_OK;
            }
    }
    w->sink = sum;
    return (long)w->mesh_count;
}

static void ignore_mesh(void *context, const struct mesh *mesh) {
    (void)context;
    (void)mesh;
}

static long walk(void *context) {
    struct work *const w = context;
    struct mesh_census census = {0};
    for (size_t i = 0; i < w->count; ++i)
        mesh_walk(&w->contexts[i], &w->problem->layouts, ignore_mesh, ignore_mesh, w, &census);
    return census.legal;
}

static const struct {
    const char *name;
    bench_pass *pass;
} cases[] = {{"evaluations", evaluations},
             {"predictions", predictions},
             {"tables", tables},
             {"bounds", bounds},
             {"memory", memory},
             {"legality", legality},
             {"walk", walk}};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Seconds of one evaluation, and of the memory in it. */
static double evaluation_s, memory_s;

static void report(size_t i, const struct bench_result *r) {
    const double rate = 1.0 / r->seconds, nano = 1e9;
    (void)printf("{\"bench\": \"step\", \"case\": \"%s\", \"items\": %ld, \"ns\": %.1f, "
                 "\"per_second\": %.0f",
                 cases[i].name, r->items, nano * r->seconds, rate);
    if (cases[i].pass == evaluations)
        (void)printf(", \"over_target\": %.2f, \"over_fastest_peer\": %.0f, \"over_release\": %.0f",
                     rate / BENCH_TARGET, rate / BENCH_FASTEST_PEER, rate / BENCH_RELEASE);
    if (cases[i].pass == evaluations)
        evaluation_s = r->seconds;
    if (cases[i].pass == memory)
        memory_s = r->seconds;
    if (cases[i].pass == legality)
        (void)printf(", \"with_memory_over_step_time\": %.2f",
                     (memory_s + r->seconds) / (evaluation_s - memory_s));
    (void)printf("}\n");
}

int main(int argc, char **argv) {
    static struct work work;
    const char *const once = argc == 3 && strcmp(argv[1], "--once") == 0 ? argv[2] : NULL;
    struct document *const document = bench_load(BENCH_PLAN);
    if (!document || !prepare(&work, &document->problem))
        return EXIT_FAILURE;
    for (size_t i = 0; i < CASES; ++i) {
        if (once && strcmp(once, cases[i].name) == 0) {
            (void)printf("%ld\n", cases[i].pass(&work));
        } else if (!once) {
            const struct bench_result result = bench_best(cases[i].pass, &work);
            report(i, &result);
        }
    }
    clear(&work);
    document_free(document);
    return EXIT_SUCCESS;
}
