// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Random points over everything that an execution can say (sharding, dispatch, graphs, overlap,
 * modules, number formats), every schedule, and constants far from any calibrated ones: what bounds
 * and properties must stand.  Laid over the points of p6.h.
 */
#ifndef MOSAIC_TESTS_STEP_CASE_H
#define MOSAIC_TESTS_STEP_CASE_H

#include "p6.h"

static inline double random_share(void) {
    return (double)random_below(1001) / 1000.0;
}

static inline struct execution random_execution(void) {
    return (struct execution){.sharding = (enum sharding)random_below(SHARDINGS),
                              .shard_ranks = PICK(1, 2, 8, 16, 64),
                              .dispatcher = (enum dispatcher)random_below(DISPATCHERS),
                              .graphs = (enum graphs)random_below(GRAPH_SCOPES),
                              .overlap = random_below(16),
                              .serial_dp = random_chance(4),
                              .selective = random_below(1u << MODULE_COUNT),
                              .bf16_gradients = random_chance(2),
                              .bf16_moments = random_chance(2),
                              .fp8_attention = random_chance(3),
                              .unfused_attention = random_chance(4),
                              .uneven_chunks = random_chance(2),
                              .offload_activations = random_chance(2) ? 0.0 : random_share(),
                              .offload_optimizer = random_chance(2) ? 0.0 : random_share(),
                              .dropped = random_chance(2) ? 0.0 : 0.9 * random_share()};
}

/* Constants anywhere in their ranges that a fit or a user may reach. */
static inline struct calibration random_constants(const struct calibration *base) {
    struct calibration c = *base;
    double *const s = c.scalar;
    s[CAL_IMBALANCE_SHARE] = random_chance(2) ? 1.0 : random_share();
    s[CAL_HOST_NORM] = (double)PICK(1, 2, 4, 8, 64);
    s[CAL_HOST_GAP] *= random_chance(4) ? 0.0 : 2.0 * random_share();
    s[CAL_HOST_MICRO_BATCH] *= random_share();
    s[CAL_HOST_EP_SYNC] *= random_share();
    s[CAL_DP_OVERLAP] = random_chance(2) ? 1.0 : random_share();
    s[CAL_DP_BUCKETS] = (double)PICK(1, 2, 5, 40);
    s[CAL_FSDP_EXPOSED] = random_share();
    s[CAL_PP_EXPOSED] = random_share();
    s[CAL_STRAGGLER] *= 4.0 * random_share();
    s[CAL_GRAPHS_SHARE] = random_share();
    s[CAL_COMMUNICATOR_BYTES] *= random_share();
    s[CAL_CROSS_ENTROPY_PASSES] *= 2.0 * random_share();
    if (random_chance(2))
        c.collective_count = 0;
    return c;
}

/* A point whose context borrows the constants beside it. */
struct job {
    struct sample s;
    struct calibration calibration;
    double expert_tokens[GEOMETRY_MAX_EXPERTS > 512 ? 512 : GEOMETRY_MAX_EXPERTS];
};

/* Prepares and predicts again after a change of anything but the split. */
static inline bool job_again(struct job *job, struct point *out) {
    struct sample *const s = &job->s;
    if (!point_prepare(out, &s->cluster, &job->calibration, &s->workload, &s->geometry,
                       estimator_default(), s->at.mesh))
        return false;
    if (out != &s->at && s->at.split.first[out->mesh.pp] == s->geometry.layers)
        out->split = s->at.split;
    point_predict(out);
    return true;
}

static inline void random_tokens(struct job *job) {
    struct workload *const w = &job->s.workload;
    w->expert_tokens = NULL;
    w->expert_count = 0;
    if (job->s.geometry.experts == 0 || job->s.geometry.experts > 512 || !random_chance(3))
        return;
    for (int i = 0; i < job->s.geometry.experts; ++i)
        job->expert_tokens[i] = 0.1 + random_share();
    w->expert_tokens = job->expert_tokens;
    w->expert_count = job->s.geometry.experts;
}

/* A legal point of any execution and schedule, predicted under an even split, or any split. */
static inline void random_job(struct job *job, const struct calibration *base, bool any_split) {
    struct sample *const s = &job->s;
    for (;;) {
        s->cluster = p6_nodes(PICK(1, 2, 3, 4, 8, 32, 64));
        if (random_chance(32))
            s->cluster.gpus_per_node = s->cluster.nodes = 1;
        s->geometry = random_geometry();
        s->workload = random_workload();
        s->workload.execution = random_execution();
        random_tokens(job);
        job->calibration = random_constants(base);
        for (int tries = 0; tries < 40; ++tries) {
            struct mesh m = random_mesh();
            m.schedule = m.vpp > 1 ? SCHEDULE_1F1B
                                   : (enum schedule)PICK(SCHEDULE_1F1B, SCHEDULE_ZERO_BUBBLE,
                                                         SCHEDULE_DUALPIPE);
            if (!point_prepare(&s->at, &s->cluster, &job->calibration, &s->workload, &s->geometry,
                               estimator_default(), m))
                continue;
            if (any_split && s->at.mesh.vpp == 1)
                random_split(s->geometry.layers, s->at.mesh.pp, &s->at.split);
            point_predict(&s->at);
            return;
        }
    }
}

static inline void print_job(const struct job *job) {
    const struct sample *const s = &job->s;
    const struct mesh *const m = &s->at.mesh;
    const struct execution *const e = &s->workload.execution;
    print_error("%d GPUs, %d layers (%d dense, %d MTP), hidden %d, %d experts top %d; tp %d cp %d "
                "pp %d vpp %d ep %d etp %d dp %d, %d x %d, recompute %s, %s, sequence %d\n",
                cluster_gpus(&s->cluster), s->geometry.layers, s->geometry.first_dense,
                s->geometry.mtp_layers, s->geometry.hidden, s->geometry.experts, s->geometry.top_k,
                m->tp, m->cp, m->pp, m->vpp, m->ep, m->etp, m->dp, m->micro_batches, m->micro_batch,
                recompute_name(m->recompute), schedule_name(mesh_schedule(m)),
                s->workload.sequence);
    print_error("%s (%d), %s, graphs %s, overlap %u, serial %d, modules %u, dropped %g, imbalance "
                "share %g, host norm %g, DP overlap %g, buckets %g\n",
                sharding_name(e->sharding), e->shard_ranks, dispatcher_name(e->dispatcher),
                graphs_name(e->graphs), e->overlap, e->serial_dp, e->selective, e->dropped,
                job->calibration.scalar[CAL_IMBALANCE_SHARE],
                job->calibration.scalar[CAL_HOST_NORM], job->calibration.scalar[CAL_DP_OVERLAP],
                job->calibration.scalar[CAL_DP_BUCKETS]);
}

#endif
