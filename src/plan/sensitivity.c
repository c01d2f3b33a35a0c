// SPDX-License-Identifier: GPL-3.0-or-later
/* Slopes by difference, flips by bisection, prices by one search an axis. */
#include "plan/sensitivity.h"

#include <math.h>
#include <stdlib.h>

static const double farthest = 4.0, flip_width = 1.02, nudge = 1.001;
enum { SEARCHES_A_FLIP = 8 }; /* one at the end, seven halvings */

struct study {
    const struct problem *problem;
    const struct candidate *plan;
    struct search_options options;
    const struct search_options *given;
    double done, total;
    bool is_stopped;
};

static void tell(void *context, double done, double total) {
    struct study *const s = context;
    if (s->given->progress)
        s->given->progress(s->given->progress_context, s->done + done / total, s->total);
}

/* ---- slopes ---- */

/* The plan as it is laid out, with a figure scaled. */
static enum mosaic_status train_scaled(const struct study *s, enum figure figure, double factor,
                                       struct training *out, bool *is_possible,
                                       struct status_error *err) {
    struct problem *scaled = NULL;
    struct prediction predicted;
    TRY(figure_scaled(s->problem, figure, factor, &scaled, err));
    const struct geometry *const g = &scaled->geometries.items[s->plan->index];
    best_layout_predict(scaled, g, &s->plan->layout, &predicted, NULL);
    *is_possible = candidate_train(scaled, &scaled->law, g, predicted.step_time_s, out);
    figure_free(scaled);
    return MOSAIC_OK;
}

static enum mosaic_status find_slope(const struct study *s, struct figure_slope *f,
                                     struct status_error *err) {
    const struct problem *const p = s->problem;
    const double up = fmin(nudge, figure_most(p, f->figure)),
                 down = fmax(1.0 / nudge, figure_least(p, f->figure));
    struct training high, low;
    bool has_high = false, has_low = false;
    if (f->figure == FIGURE_MEMORY || !(up > down)) /* room changes no step */
        return MOSAIC_OK;
    TRY(train_scaled(s, f->figure, up, &high, &has_high, err));
    TRY(train_scaled(s, f->figure, down, &low, &has_low, err));
    if (!has_high || !has_low)
        return MOSAIC_OK;
    const double width = log(up / down);
    f->has_slope = true;
    f->tokens = log(high.tokens / low.tokens) / width;
    f->loss = log(high.loss / low.loss) / width;
    f->score = log(high.score / low.score) / width;
    return MOSAIC_OK;
}

/* ---- flips ---- */

static void take_other(const struct study *s, const struct candidate *c, struct other_plan *out) {
    *out = (struct other_plan){.index = c->index,
                               .layout = c->layout,
                               .score = c->run.score,
                               .is_other_geometry = c->index != s->plan->index};
}

/* Whether another plan is best; a search of the whole space, which says nothing once stopped. */
static enum mosaic_status differs(struct study *s, const struct problem *problem, bool *out,
                                  struct flip *flip, struct status_error *err) {
    struct search_result *const search = malloc(sizeof *search);
    if (!search)
        return status_no_memory(err);
    const enum mosaic_status status = search_run(problem, &s->options, search, err);
    s->done += 1.0;
    s->is_stopped = status == MOSAIC_OK && search->status == SEARCH_INTERRUPTED;
    if (status != MOSAIC_OK || s->is_stopped) {
        *out = false;
    } else if (search->kept_count > 0) {
        const struct candidate *const best = &search->kept[0];
        *out = best->index != s->plan->index ||
               mesh_compare(&best->layout.mesh, &s->plan->layout.mesh) != 0;
        if (*out)
            take_other(s, best, &flip->to);
        flip->is_infeasible = false;
    } else {
        *out = flip->is_infeasible = true;
    }
    search_result_free(search);
    free(search);
    return status;
}

static enum mosaic_status differs_at(struct study *s, enum figure figure, double factor, bool *out,
                                     struct flip *flip, struct status_error *err) {
    struct problem *scaled = NULL;
    TRY(figure_scaled(s->problem, figure, factor, &scaled, err));
    s->options.memo = figure_moves_steps(figure) ? NULL : s->given->memo;
    const enum mosaic_status status = differs(s, scaled, out, flip, err);
    s->options.memo = NULL;
    figure_free(scaled);
    return status;
}

/* Between what does not flip and what does, in equal ratios. */
static enum mosaic_status bisect(struct study *s, enum figure figure, struct flip *flip,
                                 struct status_error *err) {
    while (!s->is_stopped &&
           fmax(flip->factor / flip->last_same, flip->last_same / flip->factor) > flip_width) {
        const double middle = sqrt(flip->factor * flip->last_same);
        struct flip at = *flip;
        bool is_other = false;
        TRY(differs_at(s, figure, middle, &is_other, &at, err));
        if (is_other) {
            *flip = at;
            flip->factor = middle;
        } else {
            flip->last_same = middle;
        }
    }
    return MOSAIC_OK;
}

static enum mosaic_status find_flip(struct study *s, enum figure figure, double end,
                                    struct flip *flip, struct status_error *err) {
    const double before = s->done;
    flip->is_tried = fabs(log(end)) > log(flip_width);
    flip->factor = end;
    flip->last_same = 1.0;
    if (flip->is_tried) {
        TRY(differs_at(s, figure, end, &flip->is_found, flip, err));
        if (flip->is_found)
            TRY(bisect(s, figure, flip, err));
    }
    s->done = before + (double)SEARCHES_A_FLIP;
    return MOSAIC_OK;
}

static enum mosaic_status find_figure(struct study *s, enum figure figure, struct sensitivity *out,
                                      struct status_error *err) {
    const struct problem *const p = s->problem;
    struct figure_slope *const f = &out->figures[out->figure_count];
    *f = (struct figure_slope){.figure = figure, .value = figure_value(p, figure)};
    TRY(find_slope(s, f, err));
    TRY(find_flip(s, figure, fmax(1.0 / farthest, figure_least(p, figure)), &f->down, err));
    if (!s->is_stopped)
        TRY(find_flip(s, figure, fmin(farthest, figure_most(p, figure)), &f->up, err));
    out->figure_count += !s->is_stopped;
    return MOSAIC_OK;
}

/* ---- pins ---- */

/* False where the axis is free as it is. */
static bool release(struct layout_space *space, enum layout_axis axis) {
    struct axis *const axes[] = {&space->tp, &space->cp,  &space->pp,         &space->vpp,
                                 &space->ep, &space->etp, &space->micro_batch};
    bool is_pinned = false;
    if (axis == LAYOUT_RECOMPUTE) {
        for (int i = 0; i < RECOMPUTE_MODES; ++i) {
            is_pinned = is_pinned || !space->recompute[i];
            space->recompute[i] = true;
        }
        return is_pinned;
    }
    if (axis >= LAYOUT_RECOMPUTE) /* schedules are what the engine can launch */
        return false;
    is_pinned = axes[axis]->count > 0;
    axes[axis]->count = 0;
    return is_pinned;
}

static enum mosaic_status find_price(struct study *s, enum layout_axis axis,
                                     struct sensitivity *out, struct status_error *err) {
    struct problem freed = *s->problem;
    struct flip found = {.is_infeasible = false};
    bool is_other = false;
    if (!release(&freed.layouts, axis))
        return MOSAIC_OK;
    TRY(differs(s, &freed, &is_other, &found, err));
    if (s->is_stopped)
        return MOSAIC_OK;
    struct pin_price *const price = &out->pins[out->pin_count++];
    *price = (struct pin_price){.axis = axis};
    if (is_other && !found.is_infeasible) {
        price->to = found.to;
        price->gain = fmax(0.0, s->plan->run.score - found.to.score);
    }
    return MOSAIC_OK;
}

enum mosaic_status sensitivity_find(const struct problem *problem,
                                    const struct search_result *search,
                                    const struct search_options *options, struct sensitivity *out,
                                    struct status_error *err) {
    struct study s = {.problem = problem,
                      .plan = &search->kept[0],
                      .options = *options,
                      .given = options,
                      .total =
                          2.0 * (double)FIGURES * (double)SEARCHES_A_FLIP + (double)LAYOUT_AXES};
    *out = (struct sensitivity){.farthest = farthest};
    s.options.memo = NULL;
    s.options.open_all = false;
    s.options.best_only = true;
    s.options.geometry_limit = 0;
    s.options.time_limit_s = 0.0;
    s.options.progress = tell;
    s.options.progress_context = &s;
    for (int i = 0; i < FIGURES && !s.is_stopped; ++i)
        if (figure_exists(problem, (enum figure)i))
            TRY(find_figure(&s, (enum figure)i, out, err));
    for (int axis = 0; axis < LAYOUT_AXES && !s.is_stopped; ++axis)
        TRY(find_price(&s, (enum layout_axis)axis, out, err));
    out->is_stopped = s.is_stopped;
    return MOSAIC_OK;
}
