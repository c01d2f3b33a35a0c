// SPDX-License-Identifier: GPL-3.0-or-later
/* The words and the tie widths of the objectives. */
#include "plan/objective.h"

#include <math.h>

const char *objective_name(enum objective_kind kind) {
    static const char *const names[OBJECTIVES] = {"loss", "time", "cost", "tokens"};
    return names[kind];
}

bool objective_has_target(enum objective_kind kind) {
    return kind == OBJECTIVE_TIME || kind == OBJECTIVE_COST;
}

double objective_tie_width(enum objective_kind kind, double score) {
    const double nats = 1e-3, share = 1e-2;
    return kind == OBJECTIVE_LOSS ? nats : share * fabs(score);
}
