// SPDX-License-Identifier: GPL-3.0-or-later
/* The shrunk median residual.  Ranks are counted in place: anchors are few. */
#include "step/anchor.h"

#include <math.h>

static bool log_ratio(const double *measured_s, const double *predicted_s, size_t i,
                      double *ratio) {
    *ratio = log(measured_s[i]) - log(predicted_s[i]);
    return measured_s[i] > 0.0 && predicted_s[i] > 0.0 && isfinite(*ratio);
}

/* The usable residual of rank `rank`, from 0. */
static double ranked(const double *measured_s, const double *predicted_s, size_t count,
                     size_t rank) {
    for (size_t i = 0; i < count; ++i) {
        size_t below = 0, equal = 0;
        double mine, other;
        if (!log_ratio(measured_s, predicted_s, i, &mine))
            continue;
        for (size_t k = 0; k < count; ++k) {
            if (!log_ratio(measured_s, predicted_s, k, &other))
                continue;
            below += other < mine;
            equal += !(other < mine) && !(other > mine);
        }
        if (below <= rank && rank < below + equal)
            return mine;
    }
    return 0.0;
}

void anchor_fit(const double *measured_s, const double *predicted_s, size_t count, double between,
                double within, struct anchor_residual *out) {
    size_t usable = 0;
    double ratio;
    for (size_t i = 0; i < count; ++i)
        usable += log_ratio(measured_s, predicted_s, i, &ratio);
    const double said = (double)usable * between * between;
    const double total = said + within * within;
    const double share = total > 0.0 ? said / total : 0.0; /* of the residual that is the model's */
    const double model_sd = between * sqrt(1.0 - share);   /* what is left of `between` */
    *out = (struct anchor_residual){.steps = usable, .sigma = hypot(within, model_sd)};
    if (usable == 0)
        return;
    const double low = ranked(measured_s, predicted_s, count, (usable - 1) / 2);
    const double high = ranked(measured_s, predicted_s, count, usable / 2);
    out->log_factor = share * (low + high) / 2.0;
}

const struct anchor *anchor_find(const struct anchors *anchors, const struct geometry *geometry) {
    for (size_t i = 0; anchors && i < anchors->count; ++i)
        if (geometry_compare(&anchors->items[i].geometry, geometry) == 0)
            return &anchors->items[i];
    return NULL;
}
