// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The compute optimum on an ideal machine: minimise L(N, D, S, G) at fixed G subject to
 * 6 N (1 - S) D = C (model FLOPs), over N (continuous) and S in [s_min, s_max].
 * All three fail on a law that law_check refuses, on input out of range, and on a budget whose
 * optimum law_point_check refuses.
 * The law is a posynomial, hence convex in (ln N, ln D, ln(1-S)): one minimum.
 */
#ifndef MOSAIC_LAW_OPTIMUM_H
#define MOSAIC_LAW_OPTIMUM_H

#include "law/law.h"

/* One expert in a million: sparser than any model, and 1-S still has ten digits in a double. */
#define LAW_OPTIMUM_SPARSEST (1.0 - 1e-6)

struct law_optimum {
    struct law_point point;
    double n_active;
    double loss;
    bool at_bound;        /* S sits on s_max (or s_min) */
    double gradient_norm; /* projected, of ln-variables; ~0 at a solution */
};

/* Best N and S for `model_flops` (> 0) at granularity g with s_min <= S <= s_max < 1. */
MOSAIC_MUST_USE enum mosaic_status law_optimum_bounded(const struct law *law, double model_flops,
                                                       double granularity, double s_min,
                                                       double s_max, struct law_optimum *out,
                                                       struct status_error *err);
/* The same with S free in [0, LAW_OPTIMUM_SPARSEST].  at_bound then says that the law has no
 * optimum short of it: the loss falls all the way to S = 1 (or to S = 0). */
MOSAIC_MUST_USE enum mosaic_status law_optimum_free(const struct law *law, double model_flops,
                                                    double granularity, struct law_optimum *out,
                                                    struct status_error *err);
/* Best N at one fixed S (the sparsity curve); at_bound is false, S is no variable. */
MOSAIC_MUST_USE enum mosaic_status law_optimum_at(const struct law *law, double model_flops,
                                                  double granularity, double sparsity,
                                                  struct law_optimum *out,
                                                  struct status_error *err);

#endif
