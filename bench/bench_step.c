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
    if (w->failed || !w->tables)
        return false;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s)
            layer_table_fill(&w->contexts[i], &w->shapes[s].mesh, &w->tables[s]);
    return true;
}

static void clear(struct work *w) {
    free(w->contexts);
    free(w->first_shape);
    free(w->shapes);
    free(w->meshes);
    free(w->tables);
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

/* Stages that evaluations look at: an inner one like the stage before holds no more. */
static bool is_like_the_last(const struct geometry *g, const struct split *split, int i) {
    return i > 1 && i < split->stages - 1 && split->first[i - 1] >= g->first_dense &&
           split->first[i + 1] - split->first[i] == split->first[i] - split->first[i - 1];
}

static double fullest_stage(const struct step_context *ctx, const struct layer_table *table,
                            const struct mesh *mesh) {
    struct split split;
    split_even(ctx->geometry->layers, mesh->pp, &split);
    double most = 0.0;
    for (int i = 0; i < mesh->pp; ++i) {
        struct memory_items items;
        if (is_like_the_last(ctx->geometry, &split, i))
            continue;
        stage_memory_of(ctx, table, mesh,
                        (struct stage_range){i, split.first[i], split.first[i + 1]}, &items);
        most = items.total > most ? items.total : most;
    }
    return most + (double)memory_verdict(ctx, most);
}

static long memory(void *context) {
    struct work *const w = context;
    double sum = 0.0;
    for (size_t i = 0; i < w->count; ++i)
        for (size_t s = w->first_shape[i]; s < w->first_shape[i + 1]; ++s)
            for (size_t m = w->shapes[s].begin; m < w->shapes[s].end; ++m)
                sum += fullest_stage(&w->contexts[i], &w->tables[s], &w->meshes[m]);
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
