// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Scores of an objective as results name and sentences call them: a difference of 0.0005 nats, of
 * 1.2 days, of 40,000 USD (GPU-hours where no price is stated), of 3e10 tokens.
 */
#ifndef MOSAIC_REPORT_SCORE_H
#define MOSAIC_REPORT_SCORE_H

#include "plan/problem.h"

enum { SCORE_TEXT_MAX = 48 };

struct score_unit {
    const char *name; /* of the quantity: "loss", "days", "cost_usd", "gpu_hours", "tokens" */
    const char *unit; /* as keys end in it: "nats", "days", "usd", "gpu_hours", "tokens" */
    double scale;     /* from the score */
};

const struct score_unit *score_unit(const struct problem *problem);
/* A difference of two scores, >= 0, with its unit. */
const char *score_difference(const struct problem *problem, double difference,
                             char text[SCORE_TEXT_MAX]);

#endif
