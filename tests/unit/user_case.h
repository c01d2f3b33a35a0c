// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Shipped clusters with the generic calibration, and one evaluation on them: what the users' cases
 * of step times are tried on.
 */
#ifndef MOSAIC_TESTS_USER_CASE_H
#define MOSAIC_TESTS_USER_CASE_H

#include "known_models.h"
#include "p6.h"

/* A shipped cluster with the generic calibration (or one of its own). */
struct site {
    struct cluster cluster;
    struct calibration calibration;
};

static struct site h100, b200;
static struct point p, q;

static inline int site_load(struct site *out, const char *cluster) {
    char text[512];
    (void)snprintf(text, sizeof text,
                   "schema: mosaic-plan/1\n"
                   "cluster: clusters/%s.yaml\n"
                   "nodes: 1\n"
                   "budget: {days: 1}\n"
                   "workload: {sequence: 4096, global_batch: 128}\n"
                   "model: {ladder: {q: 4, experts: 8, top_k: 2, granularity: 4}}\n",
                   cluster);
    static struct diag_list said;
    struct document *d = NULL;
    diag_init(&said);
    if (document_parse("configs/test.yaml", text, strlen(text), NULL, 0, &said, &d) != MOSAIC_OK)
        return -1;
    out->cluster = d->problem.cluster;
    out->calibration = d->problem.calibration;
    document_free(d);
    return 0;
}

static inline int load(void **state) {
    return p6_load(state) != 0 || site_load(&h100, "h100-ib") != 0 ||
                   site_load(&b200, "b200-ib") != 0
               ? -1
               : 0;
}

static inline struct cluster nodes_of(const struct site *site, int nodes) {
    struct cluster c = site->cluster;
    c.nodes = nodes;
    c.tiers[c.tier_count - 1].domain = cluster_gpus(&c);
    return c;
}

static inline struct cluster gpus_of(const struct site *site, int gpus) {
    struct cluster c = site->cluster;
    c.nodes = 1;
    c.gpus_per_node = c.tiers[0].domain = c.tiers[c.tier_count - 1].domain = gpus;
    c.tier_count = 1;
    return c;
}

static inline struct workload job_of(const struct geometry *g, int sequence, int global_batch) {
    return (struct workload){
        .sequence = sequence, .global_batch = global_batch, .vocab = g->vocab, .imbalance = 1.0};
}

static inline struct mesh plain(int micro_batch) {
    return (struct mesh){
        .tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = micro_batch};
}

static inline void predict(struct point *at, const struct cluster *c, const struct calibration *cal,
                           const struct workload *w, const struct geometry *g, struct mesh m) {
    if (!point_prepare(at, c, cal, w, g, estimator_default(), m))
        fail_msg("illegal mesh");
    point_predict(at);
}

/* The largest term of a step. */
static inline const char *binding(const struct prediction *of) {
    const char *name = "", *largest = "";
    double most = -1.0, seconds = 0.0;
    for (int i = 0; (name = time_term(&of->split, i, &seconds)); ++i)
        if (seconds > most) {
            most = seconds;
            largest = name;
        }
    return largest;
}

#endif
