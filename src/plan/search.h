// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The exact search: minimise L(Z, D(T*(Z))) over the geometries Z of the declared space.
 *
 * L falls in D and only the step time links the layout to D, so each geometry has one best step
 * time T*(Z), whatever the law.  A lower bound of T*(Z) gives an upper bound of the tokens and a
 * lower bound of the loss.  Geometries are opened best bound first in rounds of a fixed size
 * against the incumbents of the round's start, and merged in order: results and counts do not
 * depend on the number of threads.  One is closed only when its bound beats none of the cut-off
 * (the K-th best, or best + tie width, whichever is larger), the best of its sparsity bin (the
 * curve is exact too), the most model FLOPs so far.  With open_all none is closed by its bound:
 * T*(Z) of all of them then serves any other law.
 */
#ifndef MOSAIC_PLAN_SEARCH_H
#define MOSAIC_PLAN_SEARCH_H

#include "plan/candidate.h"

#include <stdatomic.h>

enum { SEARCH_TOP = 10, SEARCH_KEPT = 64, SEARCH_BINS = 24 };

enum search_status { SEARCH_OPTIMAL, SEARCH_INFEASIBLE, SEARCH_INTERRUPTED };

struct search_options {
    int threads;             /* 0: all processors */
    bool open_all;           /* solve every geometry and keep its step time */
    const atomic_bool *stop; /* may be NULL; looked at between rounds */
    void (*progress)(void *context, double done, double total);
    void *progress_context;
};

/* What proves each geometry's place. */
struct search_proof {
    size_t geometries;
    size_t solved;                     /* best layout found, loss known */
    size_t closed_by_bound;            /* its bound beats none of the incumbents */
    size_t closed_by_tokens;           /* even its bound buys too few tokens */
    size_t closed_by_memory;           /* no mesh can hold it */
    size_t closed_by_layout;           /* no legal mesh */
    size_t solved_few_tokens;          /* solved: too few tokens */
    size_t solved_too_large;           /* solved: no split of any mesh fits */
    size_t bounded_only;               /* interrupted before they were opened */
    bool has_gap;                      /* there is a plan, and every open geometry has a bound */
    double gap_nats;                   /* best loss - best open bound; 0 when proved */
    struct layout_counts bound_counts; /* of the first pass over all geometries */
    struct layout_counts counts;       /* of the geometries opened */
};

/* Best losses among geometries whose 1 - S falls in a bin, equal in ln(1 - S). */
struct sparsity_bin {
    double low, high; /* S of the bin's ends */
    bool has_deliverable, has_model_flops;
    double deliverable_sparsity, loss_deliverable; /* of the best plan in the bin */
    double model_flops_sparsity, loss_model_flops; /* at the comparison budget */
};

struct search_result {
    enum search_status status;
    size_t kept_count; /* best first: all within the tie width, and at least the top ten */
    struct candidate kept[SEARCH_KEPT];
    size_t tie_count; /* within the tie width of the best, the best included; may exceed kept */
    bool has_most_flops;
    struct candidate most_flops;
    int bin_count;
    struct sparsity_bin bins[SEARCH_BINS];
    struct search_proof proof;
    double least_memory_bytes;        /* over all geometries and meshes, a bound */
    double largest_tokens_per_active; /* over all geometries, from the bounds */
    double *step_time_s;              /* of open_all, by geometry: T*(Z), 0 where nothing fits or
                                         the tokens are too few; owned, else NULL */
};

/* Width of a near tie in nats: below what a re-run of the same training differs by. */
double search_tie_width(void);

MOSAIC_MUST_USE enum mosaic_status search_run(const struct problem *problem,
                                              const struct search_options *options,
                                              struct search_result *out, struct status_error *err);
/* Frees what a result owns, not the result. */
void search_result_free(struct search_result *result);

#endif
