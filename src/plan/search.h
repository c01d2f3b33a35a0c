// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The exact search: minimise the objective's score F(Z, T*(Z)) over the geometries Z of the
 * declared space, such as the loss L(Z, D(T*(Z))).
 *
 * F never falls in T and only the step time links the layout to it, so each geometry has one best
 * step time T*(Z), whatever the law, the budget, the objective.  A lower bound of T*(Z) gives a
 * lower bound of the score.  Geometries are opened best bound first in rounds of a fixed size
 * against the incumbents of the round's start, and merged in order: results and counts do not
 * depend on the number of threads.  One is closed only when its bound beats none of the cut-off
 * (the K-th best, or best + tie width, whichever is larger), the best of its sparsity bin (the
 * curve is exact too) and, where no target is asked for, the most model FLOPs so far.  With
 * open_all none is closed by its bound: T*(Z) of all of them then serves any other law.
 */
#ifndef MOSAIC_PLAN_SEARCH_H
#define MOSAIC_PLAN_SEARCH_H

#include "plan/candidate.h"
#include "plan/search_memo.h"

#include <stdatomic.h>

enum { SEARCH_TOP = 10, SEARCH_KEPT = 64, SEARCH_BINS = 24 };

enum search_status { SEARCH_OPTIMAL, SEARCH_INFEASIBLE, SEARCH_INTERRUPTED, SEARCH_LIMIT };

struct search_options {
    int threads;              /* 0: all processors */
    bool open_all;            /* solve every geometry and keep its step time */
    bool best_only;           /* only the best is wanted: list, curve and FLOPs are not whole */
    const atomic_bool *stop;  /* may be NULL; looked at between rounds */
    long geometry_limit;      /* open no more than these; 0: as many as it takes */
    double time_limit_s;      /* of the monotonic clock, looked at like stop; 0: none */
    struct search_memo *memo; /* of this space on this machine; NULL: a new one */
    void (*progress)(void *context, double done, double total);
    void *progress_context;
};

/* What settles a geometry's place. */
enum geometry_end {
    END_OPEN,       /* stopped before: its bound is all that is known, if that */
    END_BY_BOUND,   /* its bound beats none of the incumbents */
    END_BY_TOKENS,  /* even its bound cannot be planned: too few tokens, a target out of reach */
    END_BY_MEMORY,  /* no mesh can hold it */
    END_BY_LAYOUT,  /* no legal mesh */
    END_SOLVED,     /* best layout found, score known */
    END_FEW_TOKENS, /* best layout found, and it cannot be planned */
    END_TOO_LARGE,  /* no split of any mesh fits */
    GEOMETRY_ENDS
};
const char *geometry_end_name(enum geometry_end end);

struct geometry_fate {
    enum geometry_end end;
    bool is_bounded;
    double bound_s;     /* of the step time; INFINITY when no mesh can hold it */
    double score_bound; /* INFINITY when it cannot be planned */
};

/* What proves each geometry's place, counted. */
struct search_proof {
    size_t geometries;
    size_t ended[GEOMETRY_ENDS];
    bool has_gap;                      /* there is a plan, and every open geometry has a bound */
    double gap;                        /* best score - best open bound; 0 when proved */
    struct layout_counts bound_counts; /* of the first pass over all geometries */
    struct layout_counts counts;       /* of the geometries opened */
};

/* The best among geometries whose 1 - S falls in a bin, equal in ln(1 - S). */
struct sparsity_bin {
    double low, high; /* S of the bin's ends */
    bool has_deliverable, has_model_flops;
    double deliverable_sparsity, loss_deliverable; /* of the best plan in the bin */
    double score, seconds;                         /* the same plan's */
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
    double least_memory_bytes; /* over all geometries and meshes, a bound */
    double least_loss; /* in reach of any geometry, by what is known of its step; INFINITY when none
                          may be trained, and where there is a plan */
    double largest_tokens_per_active; /* over all geometries, from the bounds */
    double *step_time_s;              /* of open_all, by geometry: T*(Z), 0 where nothing fits or
                                         the tokens are too few; owned, else NULL */
    struct geometry_fate *fates;      /* by geometry; owned */
};

MOSAIC_MUST_USE enum mosaic_status search_run(const struct problem *problem,
                                              const struct search_options *options,
                                              struct search_result *out, struct status_error *err);
/* Frees what a result owns, not the result. */
void search_result_free(struct search_result *result);

#endif
