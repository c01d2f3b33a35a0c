// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Searches of large spaces, on one thread: what they take, and how much of the space a bound of
 * many meshes at once closes.
 *   paper      the paper's plan
 *   free       the same with TP, CP, EP and VPP free
 *   all        every twentieth of its geometries with every degree and micro-batch free
 *   simumax    the space of SimuMax's search example: DeepSeek-V3 on 2048 GPUs, EP 8 to 64, every
 *              PP and recomputation, micro-batch 1
 *   dsv3       the same model with every degree but ETP, micro-batch and recomputation
 *   ways       Qwen3-30B-A3B on 256 GPUs, every degree, in 256 ways to run the job
 * The last three find the best layout of one model, from nothing kept.
 */
#include "bench.h"

#include "plan/search.h"

#include <stdlib.h>

enum { THINNED = 20 };

static void as_it_is(struct problem *p) {
    (void)p;
}

static void free_degrees(struct problem *p) {
    struct layout_space *const s = &p->layouts;
    s->tp = s->cp = s->ep = s->vpp = (struct axis){.count = 0};
}

static void free_all(struct problem *p) {
    free_degrees(p);
    p->layouts.etp = p->layouts.micro_batch = (struct axis){.count = 0};
    size_t count = 0;
    for (size_t i = 0; i < p->geometries.count; i += THINNED)
        p->geometries.items[count++] = p->geometries.items[i];
    p->geometries.count = count;
}

static void as_simumax(struct problem *p) {
    struct layout_space *const s = &p->layouts;
    s->tp = s->cp = s->vpp = s->micro_batch = (struct axis){.count = 1, .values = {1}};
    s->ep = (struct axis){.count = 4, .values = {8, 16, 32, 64}};
}

static const struct space {
    const char *name, *plan;
    void (*edit)(struct problem *p);
    bool is_one_model;
    double goal_s; /* issue 7, on two cores; 0: none */
    double peer_s; /* SimuMax 4dcaae5, its own 169 candidates of that space */
} spaces[] = {{"paper", BENCH_PLAN, as_it_is, false, 1.0, 0.0},
              {"free", BENCH_PLAN, free_degrees, false, 5.0, 0.0},
              {"all", BENCH_PLAN, free_all, false, 0.0, 0.0},
              {"simumax", "bench/plans/dsv3-2048.yaml", as_simumax, true, 0.01, 38.7},
              {"dsv3", "bench/plans/dsv3-2048.yaml", as_it_is, true, 0.0, 0.0},
              {"ways", "bench/plans/ways-256.yaml", as_it_is, true, 0.0, 0.0}};
enum { SPACES = sizeof spaces / sizeof spaces[0] };

/* Counts of both passes. */
struct taken {
    double seconds;
    struct layout_counts counts;
};

static bool find_one(const struct problem *p, struct taken *out) {
    struct status_error err;
    struct best_layout best;
    struct layout_scratch *const scratch = layout_scratch_new();
    const bool done = scratch &&
                      best_layout_find(scratch, p, &p->geometries.items[0], &best, &out->counts,
                                       &err) == MOSAIC_OK &&
                      best.found;
    layout_scratch_free(scratch);
    return done;
}

static bool search_all(const struct problem *p, struct taken *out) {
    static struct search_result result;
    struct status_error err;
    const struct search_options options = {.threads = 1};
    if (search_run(p, &options, &result, &err) != MOSAIC_OK)
        return false;
    const long meshes = result.proof.bound_counts.meshes;
    out->counts = result.proof.bound_counts;
    layout_counts_add(&out->counts, &result.proof.counts);
    out->counts.meshes = meshes; /* each once */
    search_result_free(&result);
    return true;
}

static bool take(const struct space *space, const struct problem *p, struct taken *out) {
    *out = (struct taken){0};
    const double begun = bench_now();
    const bool done = space->is_one_model ? find_one(p, out) : search_all(p, out);
    out->seconds = bench_now() - begun;
    return done;
}

static void report(const struct space *space, const struct taken *t) {
    const struct layout_counts *const c = &t->counts;
    const double meshes = (double)c->meshes;
    (void)printf("{\"bench\": \"spaces\", \"case\": \"%s\", \"seconds\": %.4f, \"meshes\": %ld, "
                 "\"layer_tables\": %ld, \"bounded\": %ld, \"evaluations\": %ld, \"programs\": "
                 "%ld, \"meshes_per_table\": %.1f, \"meshes_per_bound\": %.1f, "
                 "\"meshes_per_evaluation\": %.1f, \"ns_per_mesh\": %.1f",
                 space->name, t->seconds, c->meshes, c->tables, c->bounded, c->work.evaluations,
                 c->work.programs, meshes / (double)c->tables, meshes / (double)c->bounded,
                 meshes / (double)c->work.evaluations, 1e9 * t->seconds / meshes);
    if (space->goal_s > 0.0)
        (void)printf(", \"goal_over_seconds\": %.2f", space->goal_s / t->seconds);
    if (space->peer_s > 0.0)
        (void)printf(", \"peer_over_seconds\": %.0f", space->peer_s / t->seconds);
    (void)printf("}\n");
}

static bool run(const struct space *space, bool is_once) {
    struct document *const document = bench_load(space->plan);
    struct taken best = {0}, taken;
    if (!document)
        return false;
    space->edit(&document->problem);
    bool done = true;
    const int runs = is_once || !space->is_one_model ? 1 : BENCH_RUNS;
    for (int i = 0; i < runs && done; ++i) {
        done = take(space, &document->problem, &taken);
        best = i == 0 || taken.seconds < best.seconds ? taken : best;
    }
    if (done && is_once)
        (void)printf("%ld\n", best.counts.meshes);
    else if (done)
        report(space, &best);
    document_free(document);
    return done;
}

int main(int argc, char **argv) {
    const char *const once = argc == 3 && strcmp(argv[1], "--once") == 0 ? argv[2] : NULL;
    for (size_t i = 0; i < SPACES; ++i)
        if ((!once || strcmp(once, spaces[i].name) == 0) && !run(&spaces[i], once != NULL)) {
            (void)fprintf(stderr, "bench_spaces: %s failed\n", spaces[i].name);
            return EXIT_FAILURE;
        }
    return EXIT_SUCCESS;
}
