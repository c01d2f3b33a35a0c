// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The figures of a machine and of a job that a plan hangs on, each scaled by a factor: what-ifs in
 * memory, on a copy of the problem.  A curve is scaled as if each of its samples were.
 */
#ifndef MOSAIC_PLAN_FIGURES_H
#define MOSAIC_PLAN_FIGURES_H

#include "plan/problem.h"

enum figure {
    FIGURE_PEAK,       /* FLOP/s of every precision */
    FIGURE_HBM,        /* device memory bandwidth */
    FIGURE_MEMORY,     /* usable device memory */
    FIGURE_INNER_LINK, /* bandwidth inside the innermost domain, measured collectives with it */
    FIGURE_OUTER_LINK, /* bandwidth of the other tiers, the same */
    FIGURE_ALL_TO_ALL, /* measured all-to-all alone, and what de-duplicating dispatch reaches */
    FIGURE_LAUNCH_GAP, /* host time per kernel */
    FIGURE_IMBALANCE,  /* rows of the busiest expert rank over the mean; not below 1 */
    FIGURE_STRAGGLERS, /* step-time growth per doubling of the GPUs */
    FIGURE_GOODPUT,    /* share of the time in which training advances; not above 1 */
    FIGURES
};

/* "peak_flop_per_s", ... */
const char *figure_name(enum figure figure);
/* One line for a reader. */
const char *figure_text(enum figure figure);
/* What it is now, in its unit; 0 where the problem has none, or where it comes as curves. */
double figure_value(const struct problem *problem, enum figure figure);
/* Whether scaling it means anything: it is there, and not zero. */
bool figure_exists(const struct problem *problem, enum figure figure);
/* The largest factor that makes sense; infinity for most. */
double figure_most(const struct problem *problem, enum figure figure);
double figure_least(const struct problem *problem, enum figure figure);

/* Whether a step time follows from it, or only what a step is worth. */
bool figure_moves_steps(enum figure figure);

/* A copy of the problem that shares its lists but for the ways; free with figure_free(). */
MOSAIC_MUST_USE enum mosaic_status figure_scaled(const struct problem *problem, enum figure figure,
                                                 double factor, struct problem **out,
                                                 struct status_error *err);
void figure_free(struct problem *scaled);

#endif
