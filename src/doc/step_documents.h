// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Documents of the library that measured steps refer to: the cluster of a GPU and a fabric with its
 * calibration, the engine of a software release; each bound once.
 */
#ifndef MOSAIC_DOC_STEP_DOCUMENTS_H
#define MOSAIC_DOC_STEP_DOCUMENTS_H

#include "doc/sections.h"

struct step_cluster {
    const char *name; /* "h100-ib" */
    struct cluster cluster;
    struct yaml_tree *tree;
    const struct calibration *calibration; /* NULL until asked for */
};
struct step_engine {
    const char *release;
    const struct engine *engine; /* NULL: no document lists the release */
};

struct step_documents {
    struct loader loader;
    const struct calibration *shared; /* of every cluster, or NULL */
    const struct calibration *generic;
    size_t cluster_count, engine_count;
    struct step_cluster *clusters;
    struct step_engine *engines;
};

/* Binds the clusters, by the loader that is set; calibration as in struct step_table_options. */
MOSAIC_MUST_USE enum mosaic_status step_documents_open(struct step_documents *documents,
                                                       const char *calibration);
/* The first cluster by name whose device and outermost tier bear these names, or NULL. */
struct step_cluster *step_documents_cluster(const struct step_documents *documents, const char *gpu,
                                            const char *fabric);
MOSAIC_MUST_USE enum mosaic_status step_documents_calibration(struct step_documents *documents,
                                                              struct step_cluster *cluster,
                                                              const struct calibration **out);
/* NULL where no engine document lists the release. */
MOSAIC_MUST_USE enum mosaic_status step_documents_engine(struct step_documents *documents,
                                                         const char *release,
                                                         const struct engine **out);

#endif
