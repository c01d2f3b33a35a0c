// SPDX-License-Identifier: GPL-3.0-or-later
/* The evaluator applied to one measured step: the same call as for any candidate of a plan. */
#include "fit/measured_step.h"

void measured_step_predict(const struct measured_step *step, const struct calibration *calibration,
                           struct prediction *out) {
    struct step_context ctx;
    struct layer_table table;
    step_context_init(&ctx, &step->geometry, &step->cluster,
                      calibration ? calibration : step->calibration, &step->workload, step->engine,
                      estimator_default());
    layer_table_fill(&ctx, &step->mesh, &table);
    step_predict(&ctx, &table, &step->mesh, &step->split, out, NULL);
}

/* `head` and `tail` layers less on the ends, the others as even as can be. */
static bool split_lighter_ends(int layers, int stages, int head, int tail, struct split *out) {
    const int inner = stages - 2;
    const double mean = (double)(layers + head + tail) / (double)stages;
    const int first = (int)mean - head, last = (int)mean - tail;
    const int rest = layers - first - last;
    if (inner < 1 || first < 1 || last < 1 || rest < inner)
        return false;
    struct split middle;
    split_even(rest, inner, &middle);
    out->stages = stages;
    out->first[0] = 0;
    for (int i = 0; i <= inner; ++i)
        out->first[i + 1] = (uint16_t)(first + middle.first[i]);
    out->first[stages] = (uint16_t)layers;
    return true;
}

void measured_step_balance(struct measured_step *step, const struct calibration *calibration) {
    const struct mesh *const m = &step->mesh;
    const int layers = step->geometry.layers, most_less = 4;
    split_even(layers, m->pp, &step->split);
    if (m->pp <= 2 || layers % (m->pp * m->vpp) == 0)
        return;
    step->unstated |= UNSTATED_SPLIT;
    struct split best = step->split;
    struct prediction p;
    measured_step_predict(step, calibration, &p);
    double least_s = p.step_time_s;
    for (int head = 0; head <= most_less; ++head)
        for (int tail = 0; tail <= most_less; ++tail) {
            if (!split_lighter_ends(layers, m->pp, head, tail, &step->split))
                continue;
            measured_step_predict(step, calibration, &p);
            if (p.step_time_s < least_s) {
                least_s = p.step_time_s;
                best = step->split;
            }
        }
    step->split = best;
}

bool measured_step_is_near(const struct measured_step *step, double predicted_s, double factor) {
    return step->step_time_s <= factor * predicted_s && predicted_s <= factor * step->step_time_s;
}
