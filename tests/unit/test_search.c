// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The exact search against brute force on small random spaces, on any number of threads, with the
 * proof's counts adding up; what the stage program is worth; refusals and interruption.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 160, GEOMETRIES = 7, BYTES_MAX = 64 * 1024 };

static const double close_enough = 1e-12;

static void run(const struct problem *p, int threads, struct search_result *out) {
    struct status_error err;
    const struct search_options options = {.threads = threads};
    if (search_run(p, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    search_result_free(out); /* what it owns is not looked at */
}

static void proof_adds_up(const struct search_result *r) {
    const struct search_proof *const p = &r->proof;
    assert_int_equal(p->geometries, p->ended[END_SOLVED] + p->ended[END_BY_BOUND] +
                                        p->ended[END_BY_TOKENS] + p->ended[END_BY_MEMORY] +
                                        p->ended[END_BY_LAYOUT] + p->ended[END_FEW_TOKENS] +
                                        p->ended[END_TOO_LARGE] + p->ended[END_OPEN]);
    const struct layout_counts *const c = &p->counts;
    assert_int_equal(c->meshes, c->closed_by_memory + c->closed_by_bound + c->opened);
    assert_int_equal(c->meshes, c->census.legal);
    assert_int_equal(p->bound_counts.meshes, p->bound_counts.census.legal);
    assert_true(c->opened <= c->work.evaluations);
}

/* ---- search == oracle ---- */

/* Memory at which the best layout without a limit fits, just fits, or not. */
static void draw_memory(struct random *r, struct problem *p, const struct oracle_answer *wide) {
    for (size_t i = 0; i < p->geometries.count; ++i)
        if (wide->layouts[i].found && random_chance(r, 0.5)) {
            p->cluster.device.memory_bytes =
                ceil(wide->layouts[i].peak_bytes * random_between(r, 0.25, 1.1));
            return;
        }
}

/* Days and ratios around what one of the geometries reaches. */
static void draw_budget(struct random *r, struct problem *p, const struct oracle_answer *solved) {
    const size_t i = (size_t)random_int(r, 0, (int)p->geometries.count - 1);
    if (!solved->layouts[i].found)
        return;
    struct oracle_counts n;
    oracle_count(&p->geometries.items[i], &n);
    const double step_tokens = (double)p->workload.sequence * (double)p->workload.global_batch;
    const double per_second = step_tokens / solved->layouts[i].step_time_s;
    const double ratio = random_between(r, 20.0, 200.0);
    p->budget.seconds = ratio * n.active / (per_second * p->budget.goodput);
    if (random_chance(r, 0.6))
        p->limits.tokens_per_active_min = ratio * random_between(r, 0.4, 1.3);
    if (random_chance(r, 0.6))
        p->limits.tokens_per_active_max =
            p->limits.tokens_per_active_min + ratio * random_between(r, 0.1, 0.8);
    if (random_chance(r, 0.3))
        p->limits.unique_tokens = ratio * n.active * random_between(r, 0.5, 3.0);
}

static bool holds(const struct oracle_answer *want, size_t index) {
    for (size_t k = 0; k < want->count; ++k)
        if (want->plans[k].index == index)
            return true;
    return false;
}

/* A kept candidate against the oracle's own look at that geometry. */
static void same_layout(const struct problem *p, const struct oracle_answer *want,
                        const struct candidate *got) {
    const struct geometry *const g = &p->geometries.items[got->index];
    const struct oracle_layout *const best = &want->layouts[got->index];
    struct mesh m = got->layout.mesh;
    assert_true(holds(want, got->index));
    assert_true(oracle_is_legal(p, g, &m));
    assert_close(got->step_time_s, best->step_time_s, close_enough);
    if (best->runner_up_s > best->step_time_s * (1.0 + close_enough))
        assert_int_equal(mesh_compare(&m, &best->layout.mesh), 0);
    struct prediction prediction;
    best_layout_predict(p, g, &got->layout, &prediction, NULL);
    assert_memory_equal(&prediction.step_time_s, &got->step_time_s, sizeof(double));
    assert_true(prediction.memory.total <= p->cluster.device.memory_bytes);
    assert_true(prediction.mfu <= 1.0);
}

static size_t count_ties(const struct oracle_answer *want, double width) {
    size_t n = 0;
    while (n < want->count && want->plans[n].loss <= want->plans[0].loss + width)
        ++n;
    return n;
}

static void same_list(const struct problem *p, const struct oracle_answer *want,
                      const struct search_result *got) {
    const size_t ties = count_ties(want, objective_tie_width(OBJECTIVE_LOSS, 0.0));
    const size_t top = want->count < SEARCH_TOP ? want->count : SEARCH_TOP;
    assert_true(got->kept_count >= (ties > top ? ties : top));
    assert_true(got->kept_count <= want->count);
    for (size_t k = 0; k < got->kept_count; ++k) {
        const struct candidate *const c = &got->kept[k];
        same_layout(p, want, c);
        if (k < top || k < ties)
            assert_close(c->run.loss, want->plans[k].loss, close_enough);
    }
    assert_int_equal(got->tie_count, ties);
    const struct oracle_plan *const best = &want->plans[0];
    if (want->count == 1 || want->plans[1].loss > best->loss * (1.0 + close_enough)) {
        assert_int_equal(got->kept[0].index, best->index);
        assert_close(got->kept[0].run.tokens, best->tokens, close_enough);
        assert_close(got->kept[0].model_flops, best->model_flops, close_enough);
    }
}

static void same_bins(const struct oracle_answer *want, const struct search_result *got) {
    for (int b = 0; b < got->bin_count; ++b) {
        assert_int_equal(got->bins[b].has_deliverable, want->has_bin[b]);
        if (want->has_bin[b])
            assert_close(got->bins[b].loss_deliverable, want->bin_loss[b], close_enough);
    }
}

static void same_answer(const struct problem *p, const struct oracle_answer *want,
                        const struct search_result *got) {
    proof_adds_up(got);
    assert_int_equal(got->proof.ended[END_OPEN], 0);
    if (want->count == 0) {
        assert_int_equal(got->status, SEARCH_INFEASIBLE);
        assert_int_equal(got->kept_count, 0);
        assert_false(got->has_most_flops);
        return;
    }
    assert_int_equal(got->status, SEARCH_OPTIMAL);
    assert_close_abs(got->proof.gap, 0.0, 0.0);
    same_list(p, want, got);
    same_bins(want, got);
    assert_true(got->has_most_flops);
    assert_close(got->most_flops.model_flops, want->plans[want->most_flops].model_flops,
                 close_enough);
    same_layout(p, want, &got->most_flops);
}

/* What the random spaces have to exercise, or the test shows less than it seems to. */
struct coverage {
    int feasible, infeasible, memory, tokens, capped, uneven, interleaved, few;
    long wrong_time_bounds, wrong_memory_bounds;
};

static void note(const struct problem *p, const struct oracle_answer *want,
                 const struct search_result *got, struct coverage *c) {
    c->feasible += want->count > 0;
    c->infeasible += want->count == 0;
    c->few += want->count > 0 && want->count < p->geometries.count;
    c->memory += got->proof.counts.closed_by_memory + got->proof.counts.too_large > 0;
    c->tokens += got->proof.ended[END_BY_TOKENS] + got->proof.ended[END_FEW_TOKENS] > 0;
    for (size_t i = 0; i < p->geometries.count; ++i) {
        c->wrong_time_bounds += want->layouts[i].wrong_time_bound;
        c->wrong_memory_bounds += want->layouts[i].wrong_memory_bound;
    }
    if (got->kept_count == 0)
        return;
    const struct layout *const best = &got->kept[0].layout;
    struct split even;
    split_even(p->geometries.items[got->kept[0].index].layers, best->mesh.pp, &even);
    c->capped += got->kept[0].run.limited_by != TOKENS_BY_BUDGET;
    c->uneven += memcmp(even.first, best->split.first,
                        sizeof even.first[0] * ((size_t)best->mesh.pp + 1)) != 0;
    c->interleaved += best->mesh.vpp > 1;
}

static void one_space(struct random *r, struct coverage *seen) {
    static struct oracle_answer want;
    static struct search_result got;
    struct geometry items[GEOMETRIES];
    struct problem p;
    case_random(r, &p, items, (size_t)random_int(r, 1, GEOMETRIES));
    if (random_chance(r, 0.15)) {
        p.estimator = estimator_published();
        p.is_published = true;
    }
    oracle_search(&p, false, &want);
    if (random_chance(r, 0.7)) {
        draw_memory(r, &p, &want);
        oracle_search(&p, false, &want);
    }
    draw_budget(r, &p, &want);
    oracle_search(&p, true, &want);
    run(&p, random_int(r, 1, 2), &got);
    note(&p, &want, &got, seen);
    same_answer(&p, &want, &got);
}

static void search_is_exact(void **state) {
    (void)state;
    struct random r = {20260810};
    struct coverage seen = {0};
    for (int i = 0; i < SPACES; ++i)
        one_space(&r, &seen);
    print_message("%d feasible, %d infeasible, %d with memory, %d with tokens binding, %d capped, "
                  "%d uneven, %d interleaved, %d in part\n",
                  seen.feasible, seen.infeasible, seen.memory, seen.tokens, seen.capped,
                  seen.uneven, seen.interleaved, seen.few);
    const int some = SPACES / 12;
    assert_true(seen.feasible >= SPACES / 2 && seen.infeasible >= some / 2);
    assert_true(seen.memory >= some && seen.tokens >= some && seen.capped >= some);
    assert_true(seen.uneven >= some && seen.few >= some && seen.interleaved > 0);
    assert_int_equal(seen.wrong_time_bounds, 0);
    assert_int_equal(seen.wrong_memory_bounds, 0);
}

/* ---- what is closed could not have mattered ---- */

/* Every geometry opened, one after the other. */
static void open_all(const struct problem *p, struct oracle_answer *out) {
    struct status_error err;
    struct layout_scratch *const scratch = layout_scratch_new();
    assert_non_null(scratch);
    assert_true(p->geometries.count <= ORACLE_GEOMETRIES_MAX);
    for (size_t i = 0; i < p->geometries.count; ++i) {
        struct best_layout best;
        struct layout_counts counts = {0};
        if (best_layout_find(scratch, p, &p->geometries.items[i], &best, &counts, &err) !=
            MOSAIC_OK)
            fail_msg("%s", err.message);
        out->layouts[i] = (struct oracle_layout){.found = best.found,
                                                 .layout = best.layout,
                                                 .step_time_s = best.step_time_s,
                                                 .runner_up_s = best.step_time_s};
    }
    layout_scratch_free(scratch);
    oracle_search(p, true, out);
}

/* Enough geometries for many rounds, at budgets that favour the small, the large and all alike. */
static void closing_loses_nothing(void **state) {
    (void)state;
    static struct geometry items[2048];
    static struct oracle_answer want;
    static struct search_result got;
    struct problem p;
    size_t closed = 0;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.layouts.micro_batch = (struct axis){.count = 2, .values = {1, 4}};
    p.layouts.recompute[RECOMPUTE_SELECTIVE] = false;
    struct random r = {3};
    for (size_t i = 0; i < ORACLE_GEOMETRIES_MAX; ++i) { /* a fair sample of the grid */
        const size_t j = (size_t)random_int(&r, (int)i, (int)p.geometries.count - 1);
        const struct geometry g = items[i];
        items[i] = items[j];
        items[j] = g;
    }
    p.geometries.count = ORACLE_GEOMETRIES_MAX;
    for (double days = 0.5; days < 40.0; days *= 3.0) {
        p.budget.seconds = days * 86400.0;
        open_all(&p, &want);
        run(&p, 2, &got);
        same_answer(&p, &want, &got);
        closed += got.proof.ended[END_BY_BOUND];
    }
    print_message("%zu closed by their bound\n", closed);
    assert_true(closed > 200);
}

/* Dense models share one bin of the curve, so the list and the ties alone keep them open. */
static void one_bin(void **state) {
    (void)state;
    static struct geometry items[2048];
    static struct oracle_answer want;
    static struct search_result got;
    struct problem p;
    size_t closed = 0, ties = 0;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 480;
    for (int i = 0; i < 480; ++i)
        items[i] = (struct geometry){.layers = 20 + i / 60,
                                     .first_dense = 20 + i / 60,
                                     .hidden = 2048,
                                     .heads = 16,
                                     .kv_heads = 4,
                                     .head_dim = 128,
                                     .v_head_dim = 128,
                                     .ffn_matrices = 3,
                                     .dense_ffn = 4096 + 2 * (i % 60),
                                     .granularity = 1,
                                     .vocab = p.workload.vocab};
    p.layouts.ep = p.layouts.micro_batch = (struct axis){.count = 1, .values = {1}};
    p.limits.tokens_per_active_min = 0.0; /* sizes alone decide, and differ little */
    p.limits.tokens_per_active_max = INFINITY;
    for (double days = 0.01; days < 1.0; days *= 4.0) {
        p.budget.seconds = days * 86400.0;
        open_all(&p, &want);
        run(&p, 2, &got);
        assert_int_equal(got.bin_count, 1);
        same_answer(&p, &want, &got);
        closed += got.proof.ended[END_BY_BOUND];
        ties = got.tie_count > ties ? got.tie_count : ties;
    }
    print_message("%zu closed by their bound, up to %zu ties\n", closed, ties);
    assert_true(closed > 200 && ties > 32); /* more than one round opens */
}

/* ---- threads ---- */

struct bytes {
    unsigned char data[BYTES_MAX];
    size_t count;
};

static void put(struct bytes *b, const void *data, size_t size) {
    assert_true(b->count + size <= BYTES_MAX);
    memcpy(b->data + b->count, data, size);
    b->count += size;
}
#define PUT(b, value) put((b), &(value), sizeof(value))

static void put_candidate(struct bytes *b, const struct candidate *c) {
    PUT(b, c->index);
    PUT(b, c->step_time_s);
    PUT(b, c->run.tokens);
    PUT(b, c->model_flops);
    PUT(b, c->run.loss);
    PUT(b, c->run.spare_seconds);
    PUT(b, c->run.limited_by);
    PUT(b, c->run.outside);
    PUT(b, c->layout.mesh);
    put(b, c->layout.split.first,
        sizeof c->layout.split.first[0] * ((size_t)c->layout.mesh.pp + 1));
}

static void put_counts(struct bytes *b, const struct layout_counts *c) {
    const long counts[] = {
        c->census.legal, c->census.indivisible, c->census.unmeasured, c->census.engine_rule,
        c->meshes,       c->closed_by_memory,   c->closed_by_bound,   c->opened,
        c->too_large,    c->implausible,        c->work.evaluations,  c->work.programs};
    put(b, counts, sizeof counts);
}

static void put_proof(struct bytes *b, const struct search_proof *p) {
    const size_t counts[] = {p->geometries,
                             p->ended[END_SOLVED],
                             p->ended[END_BY_BOUND],
                             p->ended[END_BY_TOKENS],
                             p->ended[END_BY_MEMORY],
                             p->ended[END_BY_LAYOUT],
                             p->ended[END_FEW_TOKENS],
                             p->ended[END_TOO_LARGE],
                             p->ended[END_OPEN]};
    put(b, counts, sizeof counts);
    PUT(b, p->gap);
    put_counts(b, &p->bound_counts);
    put_counts(b, &p->counts);
}

static void put_result(struct bytes *b, const struct search_result *r) {
    b->count = 0;
    PUT(b, r->status);
    PUT(b, r->kept_count);
    PUT(b, r->tie_count);
    PUT(b, r->least_memory_bytes);
    PUT(b, r->largest_tokens_per_active);
    for (size_t k = 0; k < r->kept_count; ++k)
        put_candidate(b, &r->kept[k]);
    if (r->has_most_flops)
        put_candidate(b, &r->most_flops);
    for (int i = 0; i < r->bin_count; ++i) {
        const struct sparsity_bin *const bin = &r->bins[i];
        const double values[] = {bin->low, bin->high, bin->deliverable_sparsity,
                                 bin->loss_deliverable};
        put(b, values, sizeof values);
        PUT(b, bin->has_deliverable);
    }
    put_proof(b, &r->proof);
}

static void same_on_any_threads(const struct problem *p) {
    static struct search_result result;
    static struct bytes one, more;
    run(p, 1, &result);
    put_result(&one, &result);
    for (int threads = 2; threads <= 3; ++threads) {
        run(p, threads, &result);
        put_result(&more, &result);
        assert_int_equal(one.count, more.count);
        assert_memory_equal(one.data, more.data, one.count);
    }
}

static void threads_change_nothing(void **state) {
    (void)state;
    static struct geometry items[2048];
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 200; /* several rounds */
    same_on_any_threads(&p);
    struct random r = {7};
    for (int i = 0; i < 20; ++i) {
        case_random(&r, &p, items, 40);
        same_on_any_threads(&p);
    }
}

/* ---- what the stage program is worth ---- */

/* 46 layers under a head as heavy as many of them. */
static void heavy_head(struct problem *p, struct geometry *g, int nodes) {
    static struct geometry unused[2048];
    case_load("configs/p6-b200-32n-20d.yaml", p, unused, 2048);
    *g = (struct geometry){.layers = 46,
                           .first_dense = 1,
                           .hidden = 2048,
                           .heads = 16,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .v_head_dim = 128,
                           .ffn_matrices = 3,
                           .dense_ffn = 5120,
                           .expert_ffn = 1280,
                           .experts = 16,
                           .top_k = 2,
                           .shared_experts = 1,
                           .shared_ffn = 1280,
                           .granularity = 4,
                           .vocab = 262144};
    p->cluster.nodes = nodes;
    p->workload.vocab = g->vocab;
    p->workload.global_batch = 128;
    p->calibration.scalar[CAL_HOST_GAP] = 1e-6; /* launches hidden: the head counts */
    p->calibration.scalar[CAL_HOST_MICRO_BATCH] = 0.0;
    p->calibration.scalar[CAL_HOST_EP_SYNC] = 0.0;
    p->geometries = (struct geometry_space){.count = 1, .items = g};
    p->limits.tokens_per_active_min = 0.0;
    p->limits.tokens_per_active_max = INFINITY;
}

static double even_step(const struct problem *p, const struct layout *layout) {
    struct layout even = *layout;
    struct prediction prediction;
    split_even(p->geometries.items[0].layers, even.mesh.pp, &even.split);
    best_layout_predict(p, &p->geometries.items[0], &even, &prediction, NULL);
    return prediction.step_time_s;
}

static void program_beats_even_split(void **state) {
    (void)state;
    static struct search_result result;
    struct geometry g;
    struct problem p;
    heavy_head(&p, &g, 1);
    for (int pp = 4; pp <= 8; pp += 4) {
        p.layouts.pp = (struct axis){.count = 1, .values = {pp}};
        run(&p, 1, &result);
        assert_int_equal(result.status, SEARCH_OPTIMAL);
        const struct candidate *const best = &result.kept[0];
        assert_true(result.proof.counts.work.programs > 0);
        const double even_s = even_step(&p, &best->layout);
        print_message("pp %d: even split %.4f s, program %.4f s\n", pp, even_s, best->step_time_s);
        assert_true(best->step_time_s < 0.95 * even_s);
        const uint16_t *const first = best->layout.split.first;
        assert_int_equal(first[pp], 46);
        assert_true(first[pp] - first[pp - 1] < first[2] - first[1]); /* the head's stage */
    }
}

/* Without uneven stages the same search gives a worse plan, or none. */
static void program_changes_the_answer(void **state) {
    (void)state;
    static struct search_result with, without;
    struct geometry g;
    struct problem p;
    heavy_head(&p, &g, 1);
    p.layouts.pp = (struct axis){.count = 3, .values = {2, 4, 8}};
    run(&p, 1, &with);
    p.engine.uneven_stages = false;
    run(&p, 1, &without);
    assert_int_equal(with.status, SEARCH_OPTIMAL);
    assert_int_equal(without.status, SEARCH_OPTIMAL);
    print_message("with the program %.4f s, without %.4f s\n", with.kept[0].step_time_s,
                  without.kept[0].step_time_s);
    assert_true(without.kept[0].step_time_s > 1.02 * with.kept[0].step_time_s);
    assert_true(without.kept[0].run.loss > with.kept[0].run.loss);
    assert_int_equal(without.proof.counts.work.programs, 0);
    p.layouts.pp = (struct axis){.count = 2, .values = {4, 8}};
    run(&p, 1, &without);
    assert_int_equal(without.status, SEARCH_INFEASIBLE); /* neither divides 46 layers */
    assert_int_equal(without.proof.ended[END_BY_LAYOUT], 1);
    assert_true(without.proof.bound_counts.census.engine_rule > 0);
}

/* ---- refusals ---- */

static void refusals(void **state) {
    (void)state;
    static struct search_result r;
    struct status_error err;
    struct geometry g;
    struct problem p;
    const struct search_options options = {.threads = 1};
    heavy_head(&p, &g, 1);
    p.geometries.count = 0;
    assert_int_equal(search_run(&p, &options, &r, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "no geometry"));
    p.geometries.count = 1;
    const struct search_options too_many = {.threads = -1};
    assert_int_equal(search_run(&p, &too_many, &r, &err), MOSAIC_USAGE);
    p.budget.seconds = 0.0; /* buys nothing: an answer, not an error */
    p.limits.tokens_per_active_min = 1.0;
    run(&p, 1, &r);
    assert_int_equal(r.status, SEARCH_INFEASIBLE);
    assert_int_equal(r.proof.ended[END_BY_TOKENS], 1);
    p.budget.seconds = 1e6;
    p.cluster.device.memory_bytes = 1.0;
    run(&p, 1, &r);
    assert_int_equal(r.status, SEARCH_INFEASIBLE);
    assert_int_equal(r.proof.ended[END_BY_MEMORY], 1);
    assert_true(r.least_memory_bytes > 1e9 && isfinite(r.least_memory_bytes));
    p.cluster.device.memory_bytes = 179e9;
    p.layouts.ep = (struct axis){.count = 1, .values = {3}};
    run(&p, 1, &r);
    assert_int_equal(r.status, SEARCH_INFEASIBLE);
    assert_int_equal(r.proof.ended[END_BY_LAYOUT], 1);
    assert_int_equal(r.proof.bound_counts.meshes, 0);
    proof_adds_up(&r);
}

/* Nothing that is not a number may come out, whatever goes in. */
static void not_a_number(void **state) {
    (void)state;
    static struct search_result r;
    struct status_error err;
    struct geometry g;
    struct problem p;
    const struct search_options options = {.threads = 1};
    for (int i = 0; i < 5; ++i) {
        heavy_head(&p, &g, 1);
        double *const broken[] = {
            &p.budget.seconds, &p.budget.goodput, &p.calibration.scalar[CAL_GEMM_SHARE_BF16],
            &p.cluster.device.hbm_bytes_per_s, &p.limits.tokens_per_active_max};
        *broken[i] = NAN;
        if (search_run(&p, &options, &r, &err) != MOSAIC_OK)
            continue;
        search_result_free(&r);
        if (i < 4)
            assert_int_equal(r.kept_count, 0);
        for (size_t k = 0; k < r.kept_count; ++k)
            assert_true(isfinite(r.kept[k].run.loss) && isfinite(r.kept[k].run.tokens));
        assert_false(isnan(r.proof.gap) || isnan(r.largest_tokens_per_active));
        proof_adds_up(&r);
    }
}

static void interrupted_before_the_start(void **state) {
    (void)state;
    static struct geometry items[64];
    static struct search_result r;
    struct status_error err;
    struct problem p;
    struct random random = {98};
    atomic_bool stop = true;
    case_random(&random, &p, items, 64);
    const struct search_options options = {.threads = 2, .stop = &stop};
    assert_int_equal(search_run(&p, &options, &r, &err), MOSAIC_OK);
    search_result_free(&r);
    assert_int_equal(r.status, SEARCH_INTERRUPTED);
    assert_int_equal(r.kept_count, 0);
    assert_true(r.proof.ended[END_OPEN] > 0);
    assert_int_equal(r.proof.counts.opened, 0);
    assert_true(isfinite(r.proof.gap));
    proof_adds_up(&r);
}

/* Stops in the rounds: the first half of the way is the bounds'. */
static void stop_soon(void *context, double done, double total) {
    assert_true(done >= 0.0 && done <= total);
    if (done > 0.5 * total)
        atomic_store((atomic_bool *)context, true);
}

/* After one round the list is there, and the gap says what is left. */
static void interrupted_on_the_way(void **state) {
    (void)state;
    static struct geometry items[2048];
    static struct search_result r, whole;
    struct status_error err;
    struct problem p;
    atomic_bool stop = false;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, 2048);
    p.geometries.count = 300;
    const struct search_options options = {
        .threads = 1, .stop = &stop, .progress = stop_soon, .progress_context = &stop};
    assert_int_equal(search_run(&p, &options, &r, &err), MOSAIC_OK);
    search_result_free(&r);
    assert_int_equal(r.status, SEARCH_INTERRUPTED);
    assert_true(r.kept_count > 0 && r.proof.ended[END_OPEN] > 0);
    proof_adds_up(&r);
    run(&p, 1, &whole);
    assert_int_equal(whole.status, SEARCH_OPTIMAL);
    assert_true(r.kept[0].run.loss >= whole.kept[0].run.loss);
    assert_true(r.kept[0].run.loss - r.proof.gap <= whole.kept[0].run.loss);
}

/* A machine that would beat its own peak is a broken calibration: refused and counted. */
static void above_the_peak(void **state) {
    (void)state;
    static struct search_result r;
    struct geometry g;
    struct problem p;
    heavy_head(&p, &g, 1);
    case_quiet_calibration(&p.calibration);
    p.calibration.scalar[CAL_GEMM_SHARE_BF16] = 1.0;
    p.calibration.scalar[CAL_GEMM_SUSTAINED] = 1.5;
    p.calibration.scalar[CAL_GEMM_HALF_SIZE] = 0.0;
    p.calibration.scalar[CAL_GROUPED_SHARE] = 2.0;
    p.calibration.scalar[CAL_GROUPED_HALF_ROWS] = 0.0;
    p.calibration.scalar[CAL_HEAD_FORWARD_SHARE] = 1.0;
    p.calibration.scalar[CAL_HEAD_BACKWARD_SHARE] = 1.0;
    p.cluster.device.hbm_bytes_per_s = 1e18;
    p.cluster.device.memory_bytes = 1e18;
    p.layouts.pp = (struct axis){.count = 1, .values = {1}};
    p.layouts.recompute[RECOMPUTE_FULL] = false;
    for (int i = 0; i < CURVE_QUANTITIES; ++i)
        p.calibration.has_curve[i] = false;
    p.calibration.scalar[CAL_ATTENTION_SHARE] = 1.0;
    p.calibration.scalar[CAL_ATTENTION_HALF_SEQUENCE] = 0.0;
    g.vocab = p.workload.vocab = 1000;
    for (int i = 0; i < 2; ++i)
        p.cluster.tiers[i].bytes_per_s = 1e18;
    p.calibration.collective_count = 0;
    p.layouts.allow_extrapolation = true;
    run(&p, 1, &r);
    assert_int_equal(r.status, SEARCH_INFEASIBLE);
    assert_int_equal(r.kept_count, 0);
    assert_true(r.proof.counts.implausible > 0);
    assert_int_equal(r.proof.ended[END_TOO_LARGE], 1);
    proof_adds_up(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_is_exact),
        cmocka_unit_test(closing_loses_nothing),
        cmocka_unit_test(one_bin),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(program_beats_even_split),
        cmocka_unit_test(program_changes_the_answer),
        cmocka_unit_test(refusals),
        cmocka_unit_test(not_a_number),
        cmocka_unit_test(interrupted_before_the_start),
        cmocka_unit_test(interrupted_on_the_way),
        cmocka_unit_test(above_the_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
