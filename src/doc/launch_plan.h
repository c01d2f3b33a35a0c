// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The layout to launch, from a result of `plan`, `layout`, `predict` or `explain` as JSON.  A
 * result names the files that it was made of with their SHA-256, and what was set on the command
 * line: they are read again, for a result says less of a model and its job than they do.  Files
 * that have changed since, and a layout that is not of them, are refused.
 */
#ifndef MOSAIC_DOC_LAUNCH_PLAN_H
#define MOSAIC_DOC_LAUNCH_PLAN_H

#include "doc/document.h"

#include <jansson.h>

struct launch_plan {
    const char *path; /* of the result */
    const char *schema;
    int entry; /* its rank, 1 the best */
    json_t *root;
    struct document *document;
    struct problem problem;   /* on the result's nodes; borrows the document's lists */
    struct workload workload; /* with the layout's execution and stages */
    struct geometry geometry;
    struct layout layout;
    struct stated_stages stages;
    struct pipeline_chunk *chunks;
    double tokens;      /* 0: the result has none */
    bool is_too_large;  /* does not fit in memory */
    unsigned long seed; /* of the result */
};

struct launch_plan_options {
    int entry;
    int threads;
    const atomic_bool *stop;
};

/* On failure the plan is empty; else free it with launch_plan_free. */
MOSAIC_MUST_USE enum mosaic_status launch_plan_load(const char *path,
                                                    const struct launch_plan_options *options,
                                                    struct diag_list *diags,
                                                    struct launch_plan *out);
void launch_plan_free(struct launch_plan *plan);

#endif
