// SPDX-License-Identifier: GPL-3.0-or-later
/* One layout against the best of its plan. */
#include "plan/explain.h"

#include "plan/explain_changes.h"
#include "plan/explain_ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *explain_verdict_name(enum explain_verdict verdict) {
    static const char *const names[] = {"illegal", "does_not_fit", "loses", "is_best"};
    return (unsigned)verdict <= EXPLAIN_IS_BEST ? names[verdict] : "unknown";
}

const char *explain_origin_name(enum explain_origin origin) {
    static const char *const names[] = {"given", "plan", "winner", "default"};
    return (unsigned)origin <= EXPLAIN_DEFAULT ? names[origin] : "unknown";
}

/* The geometry and layout of the best of several candidates. */
static enum mosaic_status search_geometry(const struct problem *problem,
                                          const struct search_options *options,
                                          struct explanation *out, struct status_error *err) {
    struct search_result *const search = malloc(sizeof *search);
    if (!search)
        return status_no_memory(err);
    enum mosaic_status status = search_run(problem, options, search, err);
    if (status == MOSAIC_OK && search->status == SEARCH_INTERRUPTED)
        status = status_set(err, MOSAIC_INTERRUPTED, "interrupted while looking for the best plan");
    else if (status == MOSAIC_OK && search->kept_count == 0) {
        status = status_set(err, MOSAIC_NO_PLAN,
                            "none of the %zu geometries has a feasible plan to explain a layout of",
                            problem->geometries.count);
        status_hint(err, "name one with 'model', or see why with 'mosaic plan'");
    }
    if (status == MOSAIC_OK) {
        out->geometry = problem->geometries.items[search->kept[0].index];
        out->winner.layout = search->kept[0].layout;
        out->has_winner = out->is_searched = true;
    }
    search_result_free(search);
    free(search);
    return status;
}

static enum mosaic_status search_layout(const struct problem *problem, struct explanation *out,
                                        struct status_error *err) {
    struct layout_scratch *const scratch = layout_scratch_new();
    if (!scratch)
        return status_no_memory(err);
    struct best_layout best;
    struct layout_counts counts = {0};
    out->geometry = problem->geometries.items[0];
    const enum mosaic_status status =
        best_layout_find(scratch, problem, &out->geometry, &best, &counts, err);
    layout_scratch_free(scratch);
    if (status == MOSAIC_OK && best.found) {
        out->has_winner = true;
        out->winner.layout = best.layout;
    }
    return status;
}

/* Axes that the text left out. */
static void fill_axes(const struct problem *problem, unsigned given, struct explanation *out) {
    struct mesh *const m = &out->point.mesh;
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        int value = axis == LAYOUT_RECOMPUTE || axis == LAYOUT_SCHEDULE ? 0 : 1;
        out->origins[i] = EXPLAIN_DEFAULT;
        if (given & 1u << i) {
            out->origins[i] = EXPLAIN_GIVEN;
            value = layout_axis_get(m, axis);
        } else if (layout_axis_pinned(&problem->layouts, axis, &value)) {
            out->origins[i] = EXPLAIN_PLAN;
        } else if (out->has_winner) {
            out->origins[i] = EXPLAIN_WINNER;
            value = layout_axis_get(&out->winner.layout.mesh, axis);
        }
        layout_axis_set(m, axis, value);
        if (!layout_axis_declared(&problem->layouts, axis, value))
            out->undeclared |= 1u << i;
    }
}

/* What training at this step time comes to. */
static void fill_training(const struct problem *problem, const struct geometry *g,
                          struct explain_side *side) {
    side->has_tokens =
        candidate_train(problem, &problem->law, g, side->prediction.step_time_s, &side->run) &&
        side->prediction.verdict != VERDICT_NO;
}

static void predict_winner(struct explanation *out) {
    struct explain_side *const w = &out->winner;
    best_layout_predict(&out->problem, &out->geometry, &w->layout, &w->prediction, w->stages);
    fill_training(&out->problem, &out->geometry, w);
}

static enum mosaic_status predict_side(struct explanation *out, struct status_error *err) {
    const struct problem *const problem = &out->problem;
    struct explain_side *const s = &out->side;
    TRY(best_layout_evaluate(problem, &out->geometry, &out->point.mesh, &s->layout, &s->prediction,
                             s->stages, err));
    TRY(best_layout_check(&s->prediction, err));
    fill_training(problem, &out->geometry, s);
    return MOSAIC_OK;
}

/* Where nothing near fits: how many GPUs the declared layouts need, or else any layout. */
static void find_fewest(const struct problem *problem, struct explanation *out) {
    out->has_fewest = true;
    shortfall_gpus(problem, &out->geometry, &out->fewest);
    if (out->fewest.gpus_needed > 0)
        return;
    struct problem free = *problem;
    memset(&free.layouts, 0, sizeof free.layouts);
    for (int r = 0; r < RECOMPUTE_MODES; ++r)
        free.layouts.recompute[r] = true;
    free.layouts.allow_extrapolation = true;
    out->fewest = (struct shortfall){0};
    out->fewest_is_free = true;
    shortfall_gpus(&free, &out->geometry, &out->fewest);
}

static enum mosaic_status explain_illegal(const struct problem *problem, struct explanation *out,
                                          struct status_error *err) {
    out->verdict = EXPLAIN_ILLEGAL;
    TRY(explain_neighbours(out, err));
    if (out->neighbour_count > 0)
        TRY(explain_fixes(out, err));
    if (!out->has_winner && out->fix_count == 0)
        find_fewest(problem, out);
    return MOSAIC_OK;
}

static enum mosaic_status explain_legal(const struct problem *problem, struct explanation *out,
                                        struct status_error *err) {
    TRY(predict_side(out, err));
    if (out->side.prediction.verdict == VERDICT_NO) {
        out->verdict = EXPLAIN_DOES_NOT_FIT;
        TRY(explain_fixes(out, err));
        if (out->fix_count == 0 && !out->has_winner)
            find_fewest(problem, out);
        return MOSAIC_OK;
    }
    const bool loses =
        out->has_winner && out->side.prediction.step_time_s > out->winner.prediction.step_time_s;
    out->verdict = loses ? EXPLAIN_LOSES : EXPLAIN_IS_BEST;
    return MOSAIC_OK;
}

enum mosaic_status explain_layout(const struct problem *problem, const char *text,
                                  const struct search_options *options, struct explanation *out,
                                  struct status_error *err) {
    struct layout_request request;
    TRY(layout_text_read(text, &request, err));
    if (problem->geometries.count == 0)
        return status_set(err, MOSAIC_BAD_INPUT, "the declared space holds no geometry");
    memset(out, 0, sizeof *out);
    if (problem->geometries.count == 1)
        TRY(search_layout(problem, out, err));
    else
        TRY(search_geometry(problem, options, out, err));
    out->point.mesh = request.mesh;
    TRY(explain_ways_open(problem, &request, out, err));
    if (out->has_winner)
        predict_winner(out);
    fill_axes(problem, request.given, out);
    out->point.geometry = &out->geometry;
    out->point.workload = problem_workload(&out->problem, out->point.mesh.way);
    out->point.engine = &problem->engine;
    out->point.gpus = cluster_gpus(&problem->cluster);
    out->violation_count = legality_find(&out->point, out->violations);
    return out->violation_count > 0 ? explain_illegal(problem, out, err)
                                    : explain_legal(problem, out, err);
}
