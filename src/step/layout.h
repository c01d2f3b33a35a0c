// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How one model is laid out on the GPUs.  World = TP x CP x PP x DP; expert parallelism
 * repartitions TP x CP x DP: EP x ETP divides it.  Rank order from the inside out: TP, CP, EP, DP,
 * PP.
 */
#ifndef MOSAIC_STEP_LAYOUT_H
#define MOSAIC_STEP_LAYOUT_H

#include "engine/engine.h"
#include "engine/execution.h"
#include "engine/pipeline_string.h"
#include "machine/cluster.h"
#include "model/geometry.h"

#include <stdint.h>

enum schedule {
    SCHEDULE_1F1B,
    SCHEDULE_INTERLEAVED, /* 1F1B over vpp > 1 chunks a stage */
    SCHEDULE_ZERO_BUBBLE, /* weight gradients fill the drain (ZB-H1, arXiv 2401.10241) */
    SCHEDULE_DUALPIPE,    /* both ends feed; two copies of the weights (arXiv 2412.19437) */
    SCHEDULES
};
enum optimizer { OPTIMIZER_ADAMW, OPTIMIZER_MUON, OPTIMIZERS };

const char *schedule_name(enum schedule schedule);
const char *optimizer_name(enum optimizer optimizer);

struct anchors;
struct stated_stages;

enum { LAYOUT_MAX_PP = 128 };

/* Which job: fixed by the plan, never searched. */
struct workload {
    int sequence;     /* tokens per sequence */
    int global_batch; /* sequences per step */
    enum precision precision;
    enum optimizer optimizer;
    int vocab;
    double imbalance;  /* rows of the busiest expert rank over the mean, >= 1 */
    bool has_capacity; /* an expert takes no more than a stated share: sizes do not vary */
    /* Tokens by expert, as measured; NULL: `imbalance` holds at every EP. Borrowed. */
    const double *expert_tokens;
    int expert_count;
    struct execution execution;
    const struct anchors *anchors; /* of measured steps, or NULL; borrowed */
    /* Of meshes with their PP and VPP; NULL: layers may lie on any stage. Borrowed. */
    const struct stated_stages *stages;
};

/* The degrees, without the split of layers over stages. */
struct mesh {
    int tp, cp, pp, vpp, ep, etp, dp;
    int micro_batch;   /* sequences */
    int micro_batches; /* per step and data-parallel rank */
    enum recompute recompute;
    enum schedule schedule; /* of vpp 1; more chunks are always interleaved */
    int way;                /* of the problem's ways to run the job; the evaluator does not look */
};

/* Layers of stage i: first[i] <= layer < first[i + 1].  With vpp > 1 stage i holds every
 * pp-th chunk; first[] then counts layers per stage only.  Stages that recompute differently have
 * their own list; the mesh then states the most that any of them does. */
struct split {
    int stages;
    uint16_t first[LAYOUT_MAX_PP + 1];
    bool is_mixed;                    /* recompute[] counts, not the mesh */
    uint8_t recompute[LAYOUT_MAX_PP]; /* enum recompute, by stage */
};

/* A stated pipeline: which chunk holds what; chunk i is on stage i mod pp. */
struct stated_stages {
    int pp, vpp;
    size_t count; /* pp x vpp */
    const struct pipeline_chunk *chunks;
    struct split split;       /* layers by stage, and its recomputation where that is stated too */
    enum recompute recompute; /* the most of any stage, of a mixed split */
};

struct layout {
    struct mesh mesh;
    struct split split;
};

/* Rows of the busiest expert rank over the mean, 1 where one rank has every expert: by the list of
 * tokens where there is one (experts lie on the ranks in order), else as stated. */
double workload_imbalance(const struct workload *w, int ep);

/* Expert-data-parallel ranks: copies of one routed expert. */
int mesh_edp(const struct mesh *m);
enum schedule mesh_schedule(const struct mesh *m);
/* Order of the search's ties: (tp, cp, pp, vpp, ep, etp, micro_batch, recompute,
 * schedule, way) ascending. */
int mesh_compare(const struct mesh *a, const struct mesh *b);

/* Fills dp and micro_batches from the world size and the batch, then checks every divisibility; the
 * message prints the arithmetic ("EP 8 x ETP 1 = 8 does not divide TP x CP x DP = 12"). */
MOSAIC_MUST_USE enum mosaic_status mesh_complete(struct mesh *m, const struct geometry *g,
                                                 const struct workload *w, int gpus,
                                                 struct status_error *err);

/* Whether the engine can launch a completed mesh; the message names the engine and the rule.
 * Without a workload its conflicts of features are not looked at. */
MOSAIC_MUST_USE enum mosaic_status mesh_check_engine(const struct mesh *m, const struct geometry *g,
                                                     const struct workload *w,
                                                     const struct engine *engine,
                                                     struct status_error *err);

/* What stage i of a split recomputes. */
static inline enum recompute split_recompute(const struct split *s, const struct mesh *m, int i) {
    return s->is_mixed ? (enum recompute)s->recompute[i] : m->recompute;
}
/* ceil / floor division of the layers, the longer stages in the middle; needs pp <= layers. */
void split_even(int layers, int stages, struct split *out);
/* The stages that are stated for this mesh, or NULL. */
const struct stated_stages *workload_stages(const struct workload *w, const struct mesh *m);
/* Whether every chunk has as many layers. */
bool stages_are_even(const struct stated_stages *stages);
/* The stated split (true), else the even one.  Stated recomputation holds where the mesh states
 * the most of it. */
bool split_first(const struct workload *w, const struct mesh *m, int layers, struct split *out);

#endif
