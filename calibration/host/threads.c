// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Threads: dispatch of an empty job to a device's threads (what a launch is here), collectives
 * among devices as threads of this process (exec/ranks.h; all of them share one memory, so there is
 * one domain), and a product with a collective beside it.
 */
#include "group.h"
#include "transfer.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* ---- launch ---- */

struct launch {
    struct pool *pool;
    long kernels;
    atomic_long items;
};

static void launch_item(void *context, int worker, size_t index) {
    struct launch *const l = context;
    (void)worker;
    (void)index;
    (void)atomic_fetch_add_explicit(&l->items, 1, memory_order_relaxed);
}

static void launch_run(void *context) {
    struct launch *const l = context;
    for (long i = 0; i < l->kernels; ++i)
        pool_run(l->pool, (size_t)pool_threads(l->pool), launch_item, l);
}

static bool launch_verify(void *context) {
    struct launch *const l = context;
    return atomic_load(&l->items) == l->kernels * pool_threads(l->pool);
}

bool launch_measure(struct host_job *job) {
    struct launch l = {.kernels = (long)job_size(job, "kernels")};
    struct status_error err;
    if (job_size(job, "graph") == 1)
        return job_refuse(job, REFUSED_UNSUPPORTED, "a host has no graphs");
    /* A wake-up takes microseconds. */
    const double wake_s = 2e-5;
    if (!job_foresee(job, wake_s * (double)l.kernels, 1.0, 0.0))
        return false;
    if (pool_create(job->host->options.threads, NULL, &l.pool, &err) != MOSAIC_OK)
        return job_refuse(job, REFUSED_FAILED, "%s", err.message);
    const struct host_work work = {
        .context = &l, .run = launch_run, .verify = launch_verify, .per_run = (double)l.kernels};
    const bool is_done = job_measure(job, &work);
    pool_free(l.pool);
    return is_done;
}

/* ---- collectives ---- */

struct group {
    struct transfer transfer; /* of rank 0 */
    float *to[RANKS_MAX];
    long times;
    pthread_barrier_t *start; /* met by rank 0 before the clock runs; or NULL */
    double begin_s, end_s;
};

static enum mosaic_status exchange_parts(const struct group *g, struct rank *rank,
                                         struct status_error *err) {
    const struct transfer *const t = &g->transfer;
    size_t bytes[RANKS_MAX], offsets[RANKS_MAX];
    for (int i = 0; i < t->ranks; ++i) {
        bytes[i] = t->part * sizeof(float);
        offsets[i] = (size_t)i * bytes[i];
    }
    const struct exchange exchange = {t->from[rank->index], bytes, offsets,
                                      g->to[rank->index],   bytes, offsets};
    return rank_all_to_all(rank, &exchange, err);
}

static void sum_parts(const struct transfer *t, float *parts) {
    for (int i = 1; i < t->ranks; ++i)
        for (size_t k = 0; k < t->part; ++k)
            parts[k] += parts[(size_t)i * t->part + k];
}

static enum mosaic_status collective_once(const struct group *g, struct rank *rank,
                                          struct status_error *err) {
    const struct transfer *const t = &g->transfer;
    float *const from = t->from[rank->index], *const to = g->to[rank->index];
    switch (t->kind) {
    case ALL_REDUCE:
        return rank_sum_floats(rank, to, t->count, err);
    case ALL_GATHER:
        return rank_all_gather(rank, from, t->part * sizeof *from, to, err);
    case REDUCE_SCATTER:
        TRY(exchange_parts(g, rank, err));
        sum_parts(t, to);
        return rank_barrier(rank, err);
    case ALL_TO_ALL:
        return exchange_parts(g, rank, err);
    case POINT_TO_POINT:
        break;
    }
    return rank_shift(rank, t->ranks, from, to, t->count * sizeof *from, err);
}

static enum mosaic_status group_body(void *context, struct rank *rank, struct status_error *err) {
    struct group *const g = context;
    const struct transfer *const t = &g->transfer;
    if (t->kind == ALL_REDUCE)
        memcpy(g->to[rank->index], t->from[rank->index], t->count * sizeof(float));
    TRY(rank_barrier(rank, err));
    if (rank->index == 0) {
        if (g->start)
            (void)pthread_barrier_wait(g->start);
        g->begin_s = host_clock_s();
    }
    TRY(rank_barrier(rank, err));
    for (long i = 0; i < g->times; ++i)
        TRY(collective_once(g, rank, err));
    if (rank->index == 0)
        g->end_s = host_clock_s();
    return MOSAIC_OK;
}

static double group_timed(void *context, long times) {
    struct group *const g = context;
    struct status_error err;
    g->times = times;
    if (ranks_run(g->transfer.ranks, group_body, g, NULL, NULL, &err) != MOSAIC_OK)
        return 0.0;
    return g->end_s - g->begin_s;
}

static bool group_verify(void *context) {
    const struct group *const g = context;
    for (int r = 0; r < g->transfer.ranks; ++r) {
        struct transfer one = g->transfer;
        one.rank = r;
        one.to = g->to[r];
        if (!transfer_is_right(&one))
            return false;
    }
    return true;
}

static bool group_take(struct host_job *job, struct group *g) {
    struct transfer *const t = &g->transfer;
    if (!transfer_of(job, t))
        return false;
    if (t->ranks > job->host->devices)
        return job_refuse(job, REFUSED_UNSUPPORTED, "%d ranks, the machine has %d devices",
                          t->ranks, job->host->devices);
    const size_t ranks = (size_t)t->ranks;
    float *const from = job_floats(job, ranks * t->count, 1);
    float *const to = job_take(job, ranks * t->count, sizeof *to);
    for (size_t r = 0; from && to && r < ranks; ++r) {
        t->from[r] = from + r * t->count;
        g->to[r] = to + r * t->count;
    }
    return from && to;
}

bool collective_measure(struct host_job *job) {
    struct group g = {.times = 1};
    if (job->group && job->group->meeting)
        return process_collective_measure(job);
    if (job_size(job, "ranks_per_domain") != job_size(job, "ranks"))
        return job_refuse(job, REFUSED_UNSUPPORTED, "threads share one domain");
    if (!group_take(job, &g))
        return false;
    const struct host_work work = {.context = &g,
                                   .timed = group_timed,
                                   .verify = group_verify,
                                   .result = g.to[0],
                                   .result_count = g.transfer.count};
    return job_measure(job, &work);
}

/* ---- overlap ---- */

struct overlap {
    const struct host *host;
    struct group group;
    struct product product;
    bool has_gemm, has_collective;
    pthread_barrier_t start;
};

static void *overlap_main(void *context) {
    struct overlap *const o = context;
    static const double failed_s = 0.0;
    return group_timed(&o->group, o->group.times) > failed_s ? o : NULL;
}

static void product_times(const struct overlap *o, long times) {
    for (long i = 0; i < times; ++i)
        product_run(o->host, &o->product);
}

/* From when both begin to when both have ended. */
static double overlap_both_s(struct overlap *o, long times) {
    pthread_t beside;
    void *is_done = NULL;
    if (pthread_create(&beside, NULL, overlap_main, o) != 0)
        return 0.0;
    (void)pthread_barrier_wait(&o->start);
    const double begin_s = host_clock_s();
    if (o->has_gemm)
        product_times(o, times);
    const double end_s = host_clock_s();
    (void)pthread_join(beside, &is_done);
    if (!is_done)
        return 0.0;
    return o->has_gemm ? fmax(end_s, o->group.end_s) - begin_s : o->group.end_s - o->group.begin_s;
}

static double overlap_timed(void *context, long times) {
    struct overlap *const o = context;
    o->group.times = times;
    if (o->has_collective)
        return overlap_both_s(o, times);
    const double begin_s = host_clock_s();
    product_times(o, times);
    return host_clock_s() - begin_s;
}

static bool overlap_verify(void *context) {
    struct overlap *const o = context;
    return (!o->has_gemm || product_is_right(&o->product)) &&
           (!o->has_collective || group_verify(&o->group));
}

bool overlap_measure(struct host_job *job) {
    const size_t mnk[] = {job_size(job, "m"), job_size(job, "n"), job_size(job, "k")};
    struct overlap o = {.host = job->host,
                        .has_gemm = !job_is(job, "part", "collective"),
                        .has_collective = !job_is(job, "part", "gemm")};
    if (job->host->options.kernels == KERNELS_EXECUTOR)
        return job_refuse(job, REFUSED_UNSUPPORTED, "not with the executors' kernels");
    const double flop = 2.0 * (double)mnk[0] * (double)mnk[1] * (double)mnk[2];
    if (!job_foresee(job, flop, job->host->gemm_flop_per_s, 0.0) || !group_take(job, &o.group))
        return false;
    const float *const from[] = {job_floats(job, mnk[0] * mnk[2], 1),
                                 job_floats(job, mnk[2] * mnk[1], 2), NULL};
    float *const out = job_take(job, mnk[0] * mnk[1], sizeof *out);
    if (!from[0] || !from[1] || !out)
        return false;
    o.product = product_of(PRODUCT_FORWARD, mnk, from, out);
    if (pthread_barrier_init(&o.start, NULL, 2) != 0)
        return job_refuse(job, REFUSED_FAILED, "no barrier");
    o.group.start = &o.start;
    const struct host_work work = {.context = &o,
                                   .timed = overlap_timed,
                                   .verify = overlap_verify,
                                   .result = o.has_gemm ? out : o.group.to[0],
                                   .result_count =
                                       o.has_gemm ? mnk[0] * mnk[1] : o.group.transfer.count};
    const bool is_done = job_measure(job, &work);
    (void)pthread_barrier_destroy(&o.start);
    return is_done;
}
