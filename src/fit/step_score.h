// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How far predicted step times lie from measured ones.  With e = predicted / measured - 1 of each
 * distinct layout (rows that share a layout count once, |e| and e by their means):
 *   mape = mean |e|, median and p90 of |e|, bias = mean e; coverage = share of rows inside their
 *   90 % interval; pair_order = share of pairs of different layouts of the same model, GPU,
 *   precision, sequence and number of GPUs, more than 5 % apart per token, that are predicted in
 *   order; kendall_tau = mean tau-b over such groups of 3 and more; regret = mean of (measured time
 *   of the predicted best / measured best - 1) over the same groups.
 */
#ifndef MOSAIC_FIT_STEP_SCORE_H
#define MOSAIC_FIT_STEP_SCORE_H

#include "fit/measured_step.h"

#include <stdbool.h>
#include <stddef.h>

struct step_error {
    const struct measured_step *step;
    double predicted_s;
    double low_s, high_s; /* 90 % interval */
};

struct step_score {
    size_t rows, layouts;
    double mape, median, p90, bias; /* fractions */
    double coverage;                /* of the rows */
    size_t pairs;
    double pair_order; /* 0 without pairs */
    size_t ranked_groups;
    double kendall_tau, regret;
};

/* Errors of the rows that `take` (NULL: all) lets through; false when there is none. */
bool step_score_of(const struct step_error *errors, size_t count,
                   bool (*take)(const struct measured_step *step, const void *context),
                   const void *context, struct step_score *out);

/* Allocated peaks: rows that state one, mean |e| and bias of them; likewise reserved. */
struct memory_error {
    const struct measured_step *step;
    /* Predicted: in tensors; by the framework's allocator; in all, with the runtime. */
    double allocated_bytes, reserved_bytes, total_bytes;
};
struct memory_score {
    size_t allocated_rows, reserved_rows;
    double allocated_mape, allocated_bias, reserved_mape;
    size_t false_refusals; /* rows that ran and are predicted not to fit */
};
void memory_score_of(const struct memory_error *errors, size_t count, struct memory_score *out);

#endif
