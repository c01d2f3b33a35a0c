// SPDX-License-Identifier: GPL-3.0-or-later
/* What a plan hangs on: slopes, flips, prices of pins. */
#include "report/build.h"
#include "report/put.h"
#include "report/score.h"

#include <math.h>

static json_t *other(const struct problem *problem, const struct other_plan *to) {
    const struct geometry *const g = &problem->geometries.items[to->index];
    return json_pack("{s:s, s:o, s:o, s:f}", "change", to->is_other_geometry ? "model" : "layout",
                     "geometry", build_geometry(g, problem->workload.sequence), "layout",
                     build_layout(problem, g, &to->layout), score_unit(problem)->name,
                     to->score * score_unit(problem)->scale);
}

/* Absent where the figure cannot go that way. */
static json_t *flip(const struct problem *problem, const struct figure_slope *f,
                    const struct flip *at) {
    if (!at->is_tried)
        return NULL;
    if (!at->is_found)
        return json_pack("{s:b, s:f}", "flips", 0, "to_factor", at->factor);
    json_t *const o =
        json_pack("{s:b, s:f, s:f}", "flips", 1, "factor", at->factor, "last_same", at->last_same);
    const bool ok = o && (!(f->value > 0.0) || put_real(o, "value", f->value * at->factor)) &&
                    (at->is_infeasible ? put(o, "change", json_string("nothing can be planned"))
                                       : put(o, "to", other(problem, &at->to)));
    return whole_or_null(o, ok);
}

static json_t *figure(const struct problem *problem, const struct figure_slope *f) {
    json_t *const o =
        json_pack("{s:s, s:s}", "figure", figure_name(f->figure), "text", figure_text(f->figure));
    const bool has_score = objective_has_target(problem->objective);
    bool ok = o && (!(f->value > 0.0) || put_real(o, "value", f->value));
    if (ok && f->has_slope)
        ok = put_real(o, "tokens", f->tokens) && put_real(o, "loss", f->loss) &&
             (!has_score || put_real(o, score_unit(problem)->name, f->score));
    json_t *const down = flip(problem, f, &f->down), *const up = flip(problem, f, &f->up);
    ok = ok && (!f->down.is_tried || put(o, "below", down));
    ok = ok && (!f->up.is_tried || put(o, "above", up));
    return whole_or_null(o, ok);
}

static json_t *pin(const struct problem *problem, const struct pin_price *p) {
    const double scale = fabs(score_unit(problem)->scale);
    char key[SCORE_TEXT_MAX];
    (void)snprintf(key, sizeof key, "gain_%s", score_unit(problem)->unit);
    json_t *const o =
        json_pack("{s:s, s:f}", "axis", layout_axis_name(p->axis), key, p->gain * scale);
    return whole_or_null(o, o && (!(p->gain > 0.0) || put(o, "to", other(problem, &p->to))));
}

json_t *build_sensitivity(const struct problem *problem, const struct sensitivity *s) {
    if (!s)
        return NULL;
    json_t *const figures = json_array(), *const pins = json_array();
    bool ok = figures && pins;
    for (int i = 0; ok && i < s->figure_count; ++i)
        ok = json_array_append_new(figures, figure(problem, &s->figures[i])) == 0;
    for (int i = 0; ok && i < s->pin_count; ++i)
        ok = json_array_append_new(pins, pin(problem, &s->pins[i])) == 0;
    json_t *const o = json_pack("{s:s, s:o, s:o}", "basis",
                                "slopes d ln / d ln at the plan's own layout; flips: the nearest "
                                "factor from which another plan is best, by whole searches",
                                "figures", figures, "pins", pins);
    return whole_or_null(o, ok);
}
