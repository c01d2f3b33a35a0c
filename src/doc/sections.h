// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One binder a document: a node of a tree, which is a whole document or a section of a plan,
 * becomes the struct that the planner takes.  `prefix` is the path of the section, "" at a root. On
 * failure everything wrong is in the loader's diagnostics.
 */
#ifndef MOSAIC_DOC_SECTIONS_H
#define MOSAIC_DOC_SECTIONS_H

#include "doc/load.h"

extern const struct schema doc_law_schema, doc_law_runs_schema, doc_law_covariance_schema,
    doc_law_drawn_schema, doc_model_schema, doc_cluster_schema, doc_calibration_schema,
    doc_engine_schema, doc_plan_schema, doc_budget_schema;

/* Its law, what that counts, and its draws, if it has any. */
MOSAIC_MUST_USE enum mosaic_status doc_law_bind(struct loader *l, const struct node *node,
                                                const char *prefix, struct problem *problem);
/* The same from a run table: {runs: FILE, ...}. */
MOSAIC_MUST_USE enum mosaic_status doc_law_fit(struct loader *l, const struct node *node,
                                               const char *prefix, struct problem *problem);
/* Draws by the `covariance` of a law document (NULL: it is only checked), or its `draws`. */
struct form;
struct law_kind {
    const struct form *form;
    const struct law *law;
};
MOSAIC_MUST_USE enum mosaic_status doc_law_draw(struct loader *l, const struct node *node,
                                                const char *prefix, const struct law_kind *kind,
                                                struct law_draws *draws);
MOSAIC_MUST_USE enum mosaic_status doc_law_take_draws(struct loader *l, const struct node *node,
                                                      const char *prefix,
                                                      const struct law_kind *kind,
                                                      struct law_draws *draws);
MOSAIC_MUST_USE enum mosaic_status doc_engine_bind(struct loader *l, const struct node *node,
                                                   const char *prefix, struct engine *engine);
/* The engine document of the library that lists the release of a measured run; *found is false, and
 * out untouched, where none does. */
MOSAIC_MUST_USE enum mosaic_status doc_engine_find(struct loader *l, const char *release,
                                                   struct engine *out, bool *found);

/* A cluster, and what a cluster document may say of the run. */
struct cluster_document {
    struct cluster cluster; /* nodes is 0 when the document does not say */
    const struct node *nodes, *budget, *calibration;
};
MOSAIC_MUST_USE enum mosaic_status doc_cluster_bind(struct loader *l, const struct node *node,
                                                    const char *prefix,
                                                    struct cluster_document *out);
/* Once the number of nodes and the precision are known: do the tiers reach every GPU, does the
 * device state a peak. */
MOSAIC_MUST_USE enum mosaic_status doc_cluster_check(struct loader *l, const struct node *node,
                                                     const struct cluster *cluster,
                                                     enum precision precision,
                                                     const struct place *precision_place);
/* Warn of figures that are known to be something else: peaks with sparsity, links both ways. */
MOSAIC_MUST_USE enum mosaic_status doc_devices_warn(struct loader *l, const struct node *node,
                                                    const struct cluster *cluster);

/* The generic calibration with the document laid over it; node NULL for the generic one alone. */
MOSAIC_MUST_USE enum mosaic_status doc_calibration_bind(struct loader *l, const struct node *node,
                                                        const char *prefix,
                                                        struct calibration *calibration);

/* One model; vocab stands in where the document gives none (0: it must).  name is "" when absent.
 */
MOSAIC_MUST_USE enum mosaic_status doc_model_bind(struct loader *l, const struct node *node,
                                                  const char *prefix, int vocab,
                                                  struct geometry *geometry, const char **name);

/* The whole problem from a plan's tree, whose sections have been put in place. */
MOSAIC_MUST_USE enum mosaic_status doc_plan_bind(struct loader *l, const struct node *root);

/* Names of the law forms, by enum form_kind. */
extern const char *const doc_law_forms[];

#endif
