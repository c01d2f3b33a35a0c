// SPDX-License-Identifier: GPL-3.0-or-later
/* Units of the objectives. */
#include "report/score.h"

#include "base/units.h"

#include <math.h>
#include <stdio.h>

const struct score_unit *score_unit(const struct problem *problem) {
    static const struct score_unit nats = {"loss", "nats", 1.0},
                                   days = {"days", "days", 1.0 / UNITS_SECONDS_PER_DAY},
                                   usd = {"cost_usd", "usd", 1.0},
                                   hours = {"gpu_hours", "gpu_hours", 1.0},
                                   tokens = {"tokens", "tokens", -1.0};
    switch (problem->objective) {
    case OBJECTIVE_TIME:
        return &days;
    case OBJECTIVE_COST:
        return problem->cluster.price_usd_per_gpu_h > 0.0 ? &usd : &hours;
    case OBJECTIVE_TOKENS:
        return &tokens;
    case OBJECTIVE_LOSS:
    case OBJECTIVES:
        break;
    }
    return &nats;
}

const char *score_difference(const struct problem *problem, double difference,
                             char text[SCORE_TEXT_MAX]) {
    const struct score_unit *const unit = score_unit(problem);
    const double shown = fabs(difference * unit->scale), whole = 1e4; /* from here on */
    switch (problem->objective) {
    case OBJECTIVE_TIME:
        (void)snprintf(text, SCORE_TEXT_MAX, "%.3g days", shown);
        break;
    case OBJECTIVE_COST:
        (void)snprintf(text, SCORE_TEXT_MAX, shown < whole ? "%.4g %s" : "%.0f %s", shown,
                       problem->cluster.price_usd_per_gpu_h > 0.0 ? "USD" : "GPU-hours");
        break;
    case OBJECTIVE_TOKENS:
        (void)snprintf(text, SCORE_TEXT_MAX, "%.3g tokens", shown);
        break;
    case OBJECTIVE_LOSS:
    case OBJECTIVES:
        (void)snprintf(text, SCORE_TEXT_MAX, "%.2g nats", shown);
        break;
    }
    return text;
}
