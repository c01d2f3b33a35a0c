// SPDX-License-Identifier: GPL-3.0-or-later
/* Caches over the documents of the library; calibrations and engines are bound when first used. */
#include "doc/step_documents.h"

#include "doc/builtin.h"
#include "doc/calibration_find.h"
#include "doc/include.h"

#include <string.h>
#include <talloc.h>

static const char cluster_folder[] = "clusters/";
static const char generic_name[] = "generic";

static enum mosaic_status no_memory(const struct loader *l) {
    return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* ---- calibrations ---- */

/* The generic one where node is NULL. */
static enum mosaic_status bind_calibration(struct loader *l, const struct node *node,
                                           const struct calibration **out) {
    struct calibration *const c = talloc_zero(l->memory, struct calibration);
    if (!c)
        return no_memory(l);
    TRY(doc_calibration_bind(l, node, "calibration", c));
    *out = c;
    return MOSAIC_OK;
}

/* "generic", a document of the library by name, or a file. */
static enum mosaic_status load_shared(struct loader *l, const char *name,
                                      const struct calibration **out) {
    if (strcmp(name, generic_name) == 0)
        return bind_calibration(l, NULL, out);
    struct yaml_tree *tree = NULL;
    TRY(calibration_find(l, NULL, name, &tree));
    return bind_calibration(l, tree->root, out);
}

enum mosaic_status step_documents_calibration(struct step_documents *d,
                                              struct step_cluster *cluster,
                                              const struct calibration **out) {
    static const char key[] = "calibration";
    if (d->shared) {
        *out = d->shared;
        return MOSAIC_OK;
    }
    if (!cluster->calibration) {
        TRY(include_calibration(&d->loader, cluster->tree, key));
        const struct node *const node = node_find(cluster->tree->root, key);
        const bool is_generic = !node || node->kind == NODE_SCALAR;
        TRY(bind_calibration(&d->loader, is_generic ? NULL : node, &cluster->calibration));
    }
    *out = cluster->calibration;
    return MOSAIC_OK;
}

/* ---- clusters ---- */

static enum mosaic_status bind_cluster(struct loader *l, const char *name,
                                       struct step_cluster *out) {
    struct cluster_document bound = {.nodes = NULL};
    TRY(loader_builtin(l, name, &out->tree));
    TRY(doc_cluster_bind(l, out->tree->root, "cluster", &bound));
    out->cluster = bound.cluster;
    out->name = name + sizeof cluster_folder - 1;
    return MOSAIC_OK;
}

static bool is_cluster(const char *name) {
    return strncmp(name, cluster_folder, sizeof cluster_folder - 1) == 0;
}

static enum mosaic_status bind_clusters(struct step_documents *d) {
    d->clusters = talloc_zero_array(d->loader.memory, struct step_cluster,
                                    (unsigned)builtin_document_count + 1);
    if (!d->clusters)
        return no_memory(&d->loader);
    for (size_t i = 0; i < builtin_document_count; ++i)
        if (is_cluster(builtin_documents[i].name))
            TRY(bind_cluster(&d->loader, builtin_documents[i].name,
                             &d->clusters[d->cluster_count++]));
    return MOSAIC_OK;
}

struct step_cluster *step_documents_cluster(const struct step_documents *d, const char *gpu,
                                            const char *fabric) {
    for (size_t i = 0; i < d->cluster_count; ++i) {
        const struct cluster *const c = &d->clusters[i].cluster;
        if (strcmp(c->device.name, gpu) == 0 &&
            strcmp(c->tiers[c->tier_count - 1].name, fabric) == 0)
            return &d->clusters[i];
    }
    return NULL;
}

/* ---- engines ---- */

enum mosaic_status step_documents_engine(struct step_documents *d, const char *release,
                                         const struct engine **out) {
    struct loader *const l = &d->loader;
    for (size_t i = 0; i < d->engine_count; ++i)
        if (strcmp(d->engines[i].release, release) == 0) {
            *out = d->engines[i].engine;
            return MOSAIC_OK;
        }
    struct step_engine *const grown =
        talloc_realloc(l->memory, d->engines, struct step_engine, (unsigned)d->engine_count + 1);
    struct engine *const engine = talloc_zero(l->memory, struct engine);
    if (grown)
        d->engines = grown;
    if (!grown || !engine)
        return no_memory(l);
    bool found = false;
    TRY(doc_engine_find(l, release, engine, &found));
    grown[d->engine_count++] = (struct step_engine){release, found ? engine : NULL};
    *out = found ? engine : NULL;
    return MOSAIC_OK;
}

enum mosaic_status step_documents_open(struct step_documents *d, const char *calibration) {
    TRY(bind_clusters(d));
    TRY(bind_calibration(&d->loader, NULL, &d->generic));
    return calibration ? load_shared(&d->loader, calibration, &d->shared) : MOSAIC_OK;
}
