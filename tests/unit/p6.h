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
    p6.engine.rules = (struct engine_rules){0}; /* the document owns them */
    p6.engine.memory_schedules = true;
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

/* ---- random points ---- */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static inline unsigned random_below(unsigned n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % n;
}
#define PICK(...)                                                                                  \
    ((const int[]){__VA_ARGS__})[random_below(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))]

static inline bool random_chance(unsigned one_in) {
    return random_below(one_in) == 0;
}

/* Dense, MoE, latent attention, shared experts, windows, MTP, tied ends, plain FFNs. */
static inline struct geometry random_geometry(void) {
    struct geometry g = {.granularity = 1};
    struct status_error err;
    do {
        g = (struct geometry){.granularity = 1};
        g.layers = 1 + (int)random_below(96);
        g.hidden = 256 * (1 + (int)random_below(32));
        g.heads = PICK(8, 16, 24, 32, 64, 128);
        g.head_dim = g.v_head_dim = PICK(64, 128);
        if (random_chance(4)) {
            g.attention = ATTENTION_MLA;
            g.q_rank = PICK(0, 1536);
            g.kv_rank = 512;
            g.rope_dim = 64;
        } else {
            g.kv_heads = PICK(1, 2, 4, 8);
        }
        g.ffn_matrices = PICK(2, 3, 3);
        g.first_dense = g.layers;
        g.dense_ffn = 256 * (1 + (int)random_below(80));
        if (!random_chance(4)) {
            g.experts = PICK(4, 8, 16, 48, 64, 96, 128, 256, 512);
            g.top_k = PICK(1, 2, 4, 8);
            g.expert_ffn = 128 * (1 + (int)random_below(60));
            g.first_dense = (int)random_below(4);
            g.shared_experts = PICK(0, 0, 1, 2);
            g.shared_ffn = g.shared_experts ? g.expert_ffn : 0;
        }
        if (random_chance(4)) {
            g.window = PICK(128, 1024, 4096);
            g.window_layers = (int)random_below((unsigned)g.layers + 1u);
        }
        g.mtp_layers = PICK(0, 0, 0, 1, 2);
        g.vocab = PICK(32000, 50257, 129280, 257536);
        g.tied = random_chance(3);
    } while (geometry_check(&g, &err) != MOSAIC_OK);
    return g;
}

static inline struct workload random_workload(void) {
    struct workload w = p6.workload;
    w.sequence = PICK(1024, 2048, 8192, 32768);
    w.global_batch = PICK(32, 256, 1024, 3072);
    w.precision = (enum precision)random_below(PRECISION_COUNT);
    w.optimizer = (enum optimizer)random_below(OPTIMIZERS);
    w.imbalance = random_chance(2) ? 1.0 : 1.0 + 0.01 * (double)random_below(100);
    return w;
}

static inline struct mesh random_mesh(void) {
    return (struct mesh){.tp = PICK(1, 1, 2, 4, 8),
                         .cp = PICK(1, 1, 1, 2, 4),
                         .pp = PICK(1, 2, 3, 4, 5, 7, 8, 16, 32),
                         .vpp = PICK(1, 1, 1, 2, 3),
                         .ep = PICK(1, 2, 4, 8, 16, 32, 64),
                         .etp = PICK(1, 1, 1, 2, 4),
                         .micro_batch = PICK(1, 2, 4, 8),
                         .recompute = (enum recompute)random_below(RECOMPUTE_MODES)};
}

/* Any tiling of the layers, at least one a stage; needs vpp 1. */
static inline void random_split(int layers, int stages, struct split *out) {
    out->stages = stages;
    out->is_mixed = false;
    out->first[0] = 0;
    int left = layers - stages; /* beyond one a stage */
    for (int i = 0; i < stages; ++i) {
        const int more =
            i == stages - 1 ? left : (int)random_below((unsigned)(2 * left / (stages - i)) + 1u);
        const int extra = more < left ? more : left;
        out->first[i + 1] = (uint16_t)(out->first[i] + 1 + extra);
        left -= extra;
    }
}

/* What a random point borrows. */
struct sample {
    struct cluster cluster;
    struct geometry geometry;
    struct workload workload;
    struct point at;
};

/* A legal random point on 1 to 64 nodes, or on a single GPU. */
static inline void random_sample(struct sample *s, struct estimator estimator) {
    do {
        s->cluster = p6_nodes(PICK(1, 2, 3, 4, 8, 32, 64));
        if (random_chance(32))
            s->cluster.gpus_per_node = s->cluster.nodes = 1;
        s->geometry = random_geometry();
        s->workload = random_workload();
        for (int tries = 0; tries < 40; ++tries)
            if (point_prepare(&s->at, &s->cluster, &p6.calibration, &s->workload, &s->geometry,
                              estimator, random_mesh()))
                return;
    } while (true);
}

#endif
