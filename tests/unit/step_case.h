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

/* The memory schedules, each in one execution of four; what they rule out goes. */
static inline void random_schedules(struct execution *e) {
    if (random_chance(4))
        e->balance = BALANCE_LLEP;
    if (random_chance(4)) {
        e->dispatch_chunk = PICK(1, 128, 1000, 4096, 32768);
        e->dispatch_chunks_max = PICK(1, 3, 10, 64);
    }
    if (random_chance(4)) {
        e->vocab_ring = PICK(2, 4, 8, 16);
        e->vocab_move = PICK(0, 0, 1, 2);
    }
    if (random_chance(4)) {
        e->checkpoint_host_bytes = (double)PICK(1, 100, 10000, 1000000) * 1e6 * random_share();
        e->restore_depth = PICK(0, 1, 2, 8);
        e->offload_activations = 0.0;
    }
    if (random_chance(4)) {
        e->bucket_params = (double)PICK(1, 1000, 1000000, 100000000) * (1.0 + random_share());
        e->bucket_slots = PICK(1, 2, 3, 8);
        e->offload_optimizer = 0.0;
        e->bf16_moments = false;
    }
}

/* None of them: where a test switches what they rule out. */
static inline void no_schedules(struct execution *e) {
    e->balance = BALANCE_NONE;
    e->dispatch_chunk = e->vocab_ring = 0;
    e->checkpoint_host_bytes = e->bucket_params = 0.0;
}

/* Workload and mesh as the schedules need them. */
static inline void suit_schedules(struct workload *w, struct mesh *m) {
    const struct execution *const e = &w->execution;
    if (e->bucket_params > 0.0)
        w->optimizer = OPTIMIZER_ADAMW;
    if (e->checkpoint_host_bytes > 0.0)
        m->recompute = RECOMPUTE_FULL;
    if (e->balance == BALANCE_LLEP || e->dispatch_chunk > 0)
        m->etp = 1;
}

static inline struct execution random_execution(void) {
    struct execution e = {.sharding = (enum sharding)random_below(SHARDINGS),
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
                          .context_shards = (enum context_shards)random_below(CONTEXT_SHARDS),
                          .uneven_chunks = random_chance(2),
                          .offload_activations = random_chance(2) ? 0.0 : random_share(),
                          .offload_optimizer = random_chance(2) ? 0.0 : random_share(),
                          .dropped = random_chance(2) ? 0.0 : 0.9 * random_share()};
    random_schedules(&e);
    return e;
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
    s[CAL_HOST_MEMORY_RATE] *= (double)PICK(1, 1, 10) * (0.01 + random_share());
    s[CAL_LLEP_THRESHOLD] = 1.0 + random_share();
    s[CAL_LLEP_LAYER] *= 2.0 * random_share();
    s[CAL_RING_STRIP_COPIES] *= 2.0 * (0.05 + random_share());
    s[CAL_RING_MOVING_HIDDEN] *= 2.0 * random_share();
    s[CAL_RING_MOVING_WEIGHTS] *= 2.0 * random_share();
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
            suit_schedules(&s->workload, &m);
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
                "share %g, host norm %g, DP overlap %g, buckets %g, context %s\n",
                sharding_name(e->sharding), e->shard_ranks, dispatcher_name(e->dispatcher),
                graphs_name(e->graphs), e->overlap, e->serial_dp, e->selective, e->dropped,
                job->calibration.scalar[CAL_IMBALANCE_SHARE],
                job->calibration.scalar[CAL_HOST_NORM], job->calibration.scalar[CAL_DP_OVERLAP],
                job->calibration.scalar[CAL_DP_BUCKETS], context_shards_name(e->context_shards));
    print_error(
        "balance %d, chunks of %d (%d), ring %d, checkpoints %g B, buckets %g x %d, imbalance %g; "
        "offload %g, %g; optimizer %d, bf16 moments %d\n",
        (int)e->balance, e->dispatch_chunk, e->dispatch_chunks_max, e->vocab_ring,
        e->checkpoint_host_bytes, e->bucket_params, e->bucket_slots,
        workload_imbalance(&s->workload, m->ep), e->offload_activations, e->offload_optimizer,
        (int)s->workload.optimizer, e->bf16_moments);
}

#endif
