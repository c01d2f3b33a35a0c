// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Uncertainty by refitting: each draw gives every run a new loss, ln L^ plus a residual scaled by
 * sqrt(n / (n - p)), and is fitted again, from where the fit stands, to convergence.
 *   wild      the run's own residual with a random sign: noise may differ between runs
 *   residual  a residual of any run: noise is alike
 * Whole coefficient vectors are kept, so that whatever follows from a law (a loss, an optimum, a
 * plan) gets its interval from the same draws.
 */
#ifndef MOSAIC_FIT_BOOTSTRAP_H
#define MOSAIC_FIT_BOOTSTRAP_H

#include "fit/fit_report.h"

enum { BOOTSTRAP_DRAWS = 200, BOOTSTRAP_MAX_DRAWS = 100000 };

enum bootstrap_kind { BOOTSTRAP_WILD, BOOTSTRAP_RESIDUAL };

struct bootstrap_options {
    enum bootstrap_kind kind;
    size_t draws; /* 200 at least */
    unsigned long seed;
    struct descend_limits limits;
    const atomic_bool *stop; /* or NULL; must outlive the bootstrap */
};

struct bootstrap {
    struct fit fit;    /* what the draws scatter around */
    struct fit *draws; /* those that converged, in order */
    size_t count, asked, failed;
    const atomic_bool *stop;
};

struct interval {
    double low, middle, high; /* 2.5 %, median, 97.5 % */
    size_t draws;             /* that had a value */
};

void bootstrap_options_init(struct bootstrap_options *options);
/* Refused for a fit without degrees of freedom; MOSAIC_INTERRUPTED, and nothing said or made, when
 * stopped. */
MOSAIC_MUST_USE enum mosaic_status bootstrap_run(const struct fit_data *data, const struct fit *fit,
                                                 const struct bootstrap_options *options,
                                                 struct pool *pool, struct bootstrap **bootstrap,
                                                 struct diag_list *diags);
void bootstrap_free(struct bootstrap *bootstrap);

/* A number of one draw; false when it has none. */
typedef bool bootstrap_value(const void *context, const struct fit *draw, double *value);
/* Interval of any number; fails when fewer than half the draws have one. */
MOSAIC_MUST_USE enum mosaic_status bootstrap_interval(const struct bootstrap *bootstrap,
                                                      bootstrap_value *value, const void *context,
                                                      struct interval *interval,
                                                      struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status bootstrap_coefficient(const struct bootstrap *bootstrap,
                                                         size_t coefficient,
                                                         struct interval *interval,
                                                         struct status_error *err);
/* A term (by its index) or, for -1, the loss at a point. */
MOSAIC_MUST_USE enum mosaic_status bootstrap_at_point(const struct bootstrap *bootstrap,
                                                      const struct form_point *point, int term,
                                                      struct interval *interval,
                                                      struct status_error *err);

/* The optimum of each draw under 6 N_active D = model_flops at granularity g. */
struct bootstrap_optimum {
    struct interval sparsity, loss, n_total;
    size_t at_bound; /* draws whose best sparsity is the bound */
    size_t draws;
};
/* s_max: the sparsest allowed; 1 lets S go free, and at_bound then counts draws without an interior
 * optimum. */
MOSAIC_MUST_USE enum mosaic_status
bootstrap_at_optimum(const struct fit_data *data, const struct bootstrap *bootstrap,
                     double model_flops, double granularity, double s_max,
                     struct bootstrap_optimum *optimum, struct status_error *err);

#endif
