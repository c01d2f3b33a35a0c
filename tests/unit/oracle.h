// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The planner once more, by brute force: every tuple of degrees from 1 up, legality by the engine's
 * stated rules, every way to cut the layers into stages, one full prediction each.  It shares only
 * the evaluator (layer_table_fill, step_predict) with the library; divisors, rules, counts, tokens,
 * law, order and bins are its own.
 */
#ifndef MOSAIC_TESTS_ORACLE_H
#define MOSAIC_TESTS_ORACLE_H

#include "plan/search.h"

enum { ORACLE_GEOMETRIES_MAX = 512 };

/* Whether a layout may be launched, degrees and divisors alone. */
bool oracle_is_legal(const struct problem *p, const struct geometry *g, const struct mesh *m);

/* Whether the declared space has it, measured ranks included. */
bool oracle_is_declared(const struct problem *p, const struct mesh *m);

struct oracle_split {
    bool found; /* fits the memory; MFU at most 1 */
    double step_time_s;
    struct split split;
    long tried;
    double least_time_s, least_bytes; /* of any split, fitting or not: what bounds must not pass */
};
/* All splits of one mesh whose stages recompute what it says. */
void oracle_best_split(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, struct oracle_split *out);
/* And all lists of the listed recomputations, one a stage, the mesh's among them and none beyond,
 * where the engine lets stages differ. */
void oracle_best_stages(const struct step_context *ctx, const struct mesh *mesh,
                        const bool *recompute, struct oracle_split *out);

struct oracle_layout {
    bool found;
    struct layout layout;
    double step_time_s;
    double runner_up_s;  /* best of the other meshes */
    double peak_bytes;   /* of the best */
    long meshes, splits; /* legal, tried */
    long
        wrong_time_bound; /* meshes whose bound of step time or memory lies above the exact value */
    long wrong_memory_bound;
};
void oracle_best_layout(const struct problem *p, const struct geometry *g,
                        struct oracle_layout *out);

struct oracle_counts {
    double total, active, sparsity; /* the law's own count */
};
void oracle_count(const struct geometry *g, struct oracle_counts *out);
double oracle_loss(const struct law *law, double total, double tokens, double sparsity,
                   double granularity);
/* What so many tokens are worth where unique ones run out. */
double oracle_worth(const struct problem *p, double tokens);
/* 0 when the budget buys too few. */
double oracle_tokens(const struct problem *p, double active, double step_time_s);

struct oracle_plan {
    size_t index;
    double loss, tokens, model_flops, step_time_s;
};

struct oracle_answer {
    struct oracle_layout layouts[ORACLE_GEOMETRIES_MAX]; /* by geometry */
    struct oracle_plan plans[ORACLE_GEOMETRIES_MAX];     /* best first */
    size_t count;
    size_t most_flops; /* into plans */
    bool has_bin[SEARCH_BINS];
    double bin_loss[SEARCH_BINS];
};
/* layouts[] filled by the caller or, where is_solved is false, here. */
void oracle_search(const struct problem *p, bool is_solved, struct oracle_answer *out);

#endif
