// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A fitted law as a mosaic-law/1 document, which loads again (doc_law.c): form, coefficients,
 * intervals, labels, support, the covariance of ln(coefficient), the draws of the bootstrap, and in
 * comments what it came from.
 */
#ifndef MOSAIC_DOC_SAVE_LAW_H
#define MOSAIC_DOC_SAVE_LAW_H

#include "fit/fit_job.h"

/* Not krajewski and clark, which no plan can use. */
bool save_law_can(const struct form *form);
/* free() the text.  MOSAIC_NUMERIC for a fit that is not FIT_DONE: there is no law to write. */
MOSAIC_MUST_USE enum mosaic_status save_law(const struct fit_job *job, unsigned long seed,
                                            char **text, struct status_error *err);

#endif
