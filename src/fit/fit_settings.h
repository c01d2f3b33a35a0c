// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The options of a fit as KEY=VALUE texts, as the command line and the library's users give them:
 *   form       mosaic, mosaic-no-g, abnar, chinchilla, krajewski, clark
 *   loss       least-squares, least-squares-raw (of L, not ln L), huber:DELTA, lad
 *   count      all, no_embedding: what N counts
 *   fix        NAME=VALUE, a coefficient; may be repeated
 *   filter     COLUMN=VALUE|VALUE, rows to take; may be repeated
 *   starts, draws          whole numbers
 *   bootstrap  wild, residual, none
 *   cross_validation, comparison   on, off
 *   plots      on, off: the numbers of plots among the results
 *   at         MODEL_FLOPS or MODEL_FLOPS,G
 */
#ifndef MOSAIC_FIT_FIT_SETTINGS_H
#define MOSAIC_FIT_FIT_SETTINGS_H

#include "fit/fit_job.h"

enum { FIT_SETTINGS_FILTERS = 16 };

struct fit_settings {
    struct fit_job_options job; /* points into the rest: do not copy */
    struct fit_job_fix fixes[FORM_MAX_COEFFICIENTS];
    struct run_filter filters[FIT_SETTINGS_FILTERS];
    void *memory;
};

void fit_settings_init(struct fit_settings *settings);
/* MOSAIC_USAGE for a key or a value that is not known. */
MOSAIC_MUST_USE enum mosaic_status fit_settings_put(struct fit_settings *settings, const char *pair,
                                                    struct status_error *err);
/* What only shows once all are known: a fixed coefficient that the form lacks, an
 * optimum asked of a form that has none. */
MOSAIC_MUST_USE enum mosaic_status fit_settings_check(const struct fit_settings *settings,
                                                      struct status_error *err);
void fit_settings_free(struct fit_settings *settings);
/* MOSAIC_USAGE: what a setting takes, and what it got. */
enum mosaic_status fit_settings_refuse(const char *key, const char *value, const char *takes,
                                       struct status_error *err);

/* "least-squares", "huber:0.001", ... of a measure; returns buffer. */
const char *fit_settings_loss(const struct fit_measure *measure, char *buffer, size_t size);

#endif
