// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A model and a layout of a problem as one line of text that a table of measured steps carries
 * back: L48-d6144-E96-K2-G4-3f9a1c pp=8 ep=8 micro_batch=4 recompute=full The model's label ends in
 * a hash of its whole shape; degrees of 1 and the schedule 1f1b are left out, and so are keys of
 * the execution in which all ways to run the job agree.  It depends neither on the order of the
 * space nor on what else is in it.
 */
#ifndef MOSAIC_PLAN_SHORTLIST_ID_H
#define MOSAIC_PLAN_SHORTLIST_ID_H

#include "plan/best_layout.h"

enum { SHORTLIST_ID_MAX = 384 };

/* On the problem's number of nodes, which is named where the plan chooses it. */
const char *shortlist_id(const struct problem *problem, size_t index, const struct mesh *mesh,
                         char out[SHORTLIST_ID_MAX]);

enum { SHORTLIST_MODEL_MAX = 96 };
/* The first word of its ids. */
const char *shortlist_model(const struct geometry *geometry, char out[SHORTLIST_MODEL_MAX]);

/* What an id says. */
struct shortlist_entry {
    size_t index;
    int nodes;
    struct layout layout;
    struct prediction prediction; /* on those nodes */
};
/* MOSAIC_BAD_INPUT for a text that is no id, or of what the problem's space does not hold. */
MOSAIC_MUST_USE enum mosaic_status shortlist_id_find(const struct problem *problem,
                                                     const char *text, struct shortlist_entry *out,
                                                     struct status_error *err);

#endif
