// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The p6-b200 cluster and its recorded calibration, read from the repository's own documents, and
 * one evaluation of a geometry under a layout.  The structs are plain copies: a test may bend them.
 */
#ifndef MOSAIC_TESTS_P6_H
#define MOSAIC_TESTS_P6_H

#include "doc/document.h"
#include "model/ladder.h"
#include "step/step.h"

#include "close.h"

#include <string.h>
#include <talloc.h>

static struct p6 {
    struct cluster cluster;
    struct calibration calibration;
    struct engine engine;
    struct workload workload;
    struct law law;
} p6;

static inline int p6_load(void **state) {
    (void)state;
    static const char text[] = "schema: mosaic-plan/1\n"
                               "cluster: clusters/p6-b200.yaml\n"
                               "nodes: 32\n"
                               "budget: {days: 20}\n"
                               "calibration: ../calibration/data/p6-b200-published.yaml\n"
                               "workload: {sequence: 2048, global_batch: 1024}\n"
                               "model: {ladder: {q: 12, experts: 96, top_k: 2, granularity: 4}}\n";
    static struct diag_list said;
    struct document *d = NULL;
    diag_init(&said);
    if (document_parse("configs/test.yaml", text, sizeof text - 1, NULL, 0, &said, &d) !=
        MOSAIC_OK) {
        char *const words = diag_text(NULL, &said, false);
        print_error("%s", words ? words : "");
        talloc_free(words);
        return -1;
    }
    p6.cluster = d->problem.cluster;
    p6.calibration = d->problem.calibration;
    p6.engine = d->problem.engine;
    p6.workload = d->problem.workload;
    p6.law = d->problem.law;
    document_free(d);
    return 0;
}

/* The cluster with another number of nodes. */
static inline struct cluster p6_nodes(int nodes) {
    struct cluster c = p6.cluster;
    c.nodes = nodes;
    c.tiers[c.tier_count - 1].domain = cluster_gpus(&c);
    return c;
}

static inline struct geometry ladder(int q, int experts, int top_k, int granularity) {
    struct geometry g;
    struct status_error err = {0};
    if (ladder_geometry(q, experts, top_k, granularity, 50257, &g, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return g;
}

/* Everything one evaluation takes; borrowed structs must outlive it. */
struct point {
    struct step_context ctx;
    struct layer_table table;
    struct mesh mesh;
    struct split split;
    struct prediction out;
    struct memory_items stages[LAYOUT_MAX_PP];
};

/* Fill the context, complete the mesh, fill the table and the even split; false where the mesh is
 * illegal. */
static inline bool point_prepare(struct point *p, const struct cluster *cluster,
                                 const struct calibration *calibration,
                                 const struct workload *workload, const struct geometry *g,
                                 struct estimator estimator, struct mesh mesh) {
    struct status_error err = {0};
    if (mesh_complete(&mesh, g, workload, cluster_gpus(cluster), &err) != MOSAIC_OK)
        return false;
    p->mesh = mesh;
    step_context_init(&p->ctx, g, cluster, calibration, workload, &p6.engine, estimator);
    layer_table_fill(&p->ctx, &p->mesh, &p->table);
    split_even(g->layers, mesh.pp, &p->split);
    return true;
}

static inline void point_predict(struct point *p) {
    step_predict(&p->ctx, &p->table, &p->mesh, &p->split, &p->out, p->stages);
}

/* The same on the cluster, calibration and workload of p6; fails on an illegal mesh. */
static inline void p6_predict(struct point *p, const struct geometry *g, struct estimator estimator,
                              struct mesh mesh) {
    if (!point_prepare(p, &p6.cluster, &p6.calibration, &p6.workload, g, estimator, mesh))
        fail_msg("illegal mesh");
    point_predict(p);
}

#endif
