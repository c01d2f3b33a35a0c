// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From the file of a run table to a judged fit, as the command and plan files both need it: read,
 * fit, report, cross-validate, compare forms, bootstrap.  Whatever a run does not determine ends in
 * an outcome, not in an error; errors are bad tables and bad options.
 */
#ifndef MOSAIC_FIT_FIT_JOB_H
#define MOSAIC_FIT_FIT_JOB_H

#include "fit/bootstrap.h"
#include "fit/crossval.h"
#include "fit/profile.h"
#include "law/optimum.h"

#include <stdatomic.h>

enum { FIT_JOB_HASH_MAX = 65, FIT_JOB_GROUPS = 16 };

enum fit_outcome {
    FIT_DONE,
    FIT_UNKNOWABLE, /* undetermined: the runs hold no such law, or not all of it */
    FIT_LIMIT,      /* the best start did not converge */
    FIT_STOPPED     /* interrupted: later steps are missing */
};
const char *fit_outcome_text(enum fit_outcome outcome); /* "ok", "undetermined", ... */

struct fit_job_fix {
    const char *name;
    double value;
};

struct fit_job_options {
    enum form_kind form;
    struct run_options runs;
    struct fit_options fit; /* its `fixed` comes from fixes[] */
    const struct fit_job_fix *fixes;
    size_t fix_count;
    bool has_cross_validation, has_comparison, has_bootstrap, has_plots;
    struct bootstrap_options bootstrap;
    double model_flops; /* where to put the optimum; 0 for none */
    double granularity; /* there; 0 takes the largest of the runs */
    const atomic_bool *stop;
};

struct fit_job_group { /* left out of a fit that then predicted it */
    const char *name;  /* of the table's group column, or "" */
    double value;      /* of the variable otherwise */
    struct held_out held;
};

/* Compute-optimal model on an ideal machine; intervals only with a bootstrap. */
struct fit_job_optimum {
    bool is_found, has_draws;
    double max_sparsity; /* 1 when S goes free */
    struct law_optimum best;
    struct bootstrap_optimum draws;
};

struct fit_job {
    struct run_table *table;
    char sha256[FIT_JOB_HASH_MAX]; /* of the file */
    const struct form *form;
    struct fit_data *data;
    enum fit_outcome outcome;
    bool has_fit; /* the numbers from here on are there */
    struct fit fit;
    struct fit_report report;
    double ssr_log; /* weighted, of ln L */

    bool has_largest; /* the largest runs of each granularity held out */
    struct held_out largest;
    const char *grouped_by; /* "group", "granularity", ...; NULL for no groups */
    struct fit_job_group groups[FIT_JOB_GROUPS];
    size_t group_count;
    struct contestant forms[FORM_KINDS];
    size_t form_count;

    struct bootstrap *bootstrap; /* NULL without */
    double model_flops, granularity;
    struct fit_job_optimum bounded, free; /* S within the runs; S free */
    bool has_plots;
    struct profile profiles[FORM_MAX_COEFFICIENTS];
    size_t profile_count;
    void *memory;
};

/* mosaic form, least squares, cross-validation, wild bootstrap of 200 draws. */
void fit_job_options_init(struct fit_job_options *options);
/* Of the fit and of the bootstrap. */
void fit_job_options_seed(struct fit_job_options *options, unsigned long seed);

/* `from` is where the path was written, or NULL.  The job keeps nothing of the options but `stop`.
 */
MOSAIC_MUST_USE enum mosaic_status fit_job_run(const char *path, const struct place *from,
                                               const struct fit_job_options *options,
                                               struct pool *pool, struct fit_job **job,
                                               struct diag_list *diags);
void fit_job_free(struct fit_job *job);

/* Geometric middle of the runs. */
struct form_point fit_job_centre(const struct fit_job *job);
/* The run behind a row of the data. */
const struct run *fit_job_run_of(const struct fit_job *job, size_t i);

#endif
