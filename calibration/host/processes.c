// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Collectives among processes of one machine: each puts its buffer into shared memory and reads the
 * others'; a barrier before and after, as exec/ranks.h has among threads.
 */
#include "group.h"
#include "transfer.h"

#include <string.h>

struct exchange_job {
    struct host_group *group;
    struct transfer transfer;
};

static void sum_of(const struct transfer *t, size_t first, size_t count) {
    memcpy(t->to, t->from[0] + first, count * sizeof *t->to);
    for (int r = 1; r < t->ranks; ++r)
        for (size_t k = 0; k < count; ++k)
            t->to[k] += t->from[r][first + k];
}

static void read_others(const struct transfer *t) {
    const size_t mine = (size_t)t->rank * t->part;
    const int previous = (t->rank + t->ranks - 1) % t->ranks;
    switch (t->kind) {
    case ALL_REDUCE:
        sum_of(t, 0, t->count);
        return;
    case REDUCE_SCATTER:
        sum_of(t, mine, t->part);
        return;
    case ALL_GATHER:
        for (int r = 0; r < t->ranks; ++r)
            memcpy(t->to + (size_t)r * t->part, t->from[r], t->part * sizeof *t->to);
        return;
    case ALL_TO_ALL:
        for (int r = 0; r < t->ranks; ++r)
            memcpy(t->to + (size_t)r * t->part, t->from[r] + mine, t->part * sizeof *t->to);
        return;
    case POINT_TO_POINT:
        break;
    }
    memcpy(t->to, t->from[previous], t->count * sizeof *t->to);
}

static double exchange_timed(void *context, long times) {
    struct exchange_job *const e = context;
    if (!group_barrier(e->group))
        return 0.0;
    const double start = host_clock_s();
    for (long i = 0; i < times; ++i) {
        if (!group_barrier(e->group))
            return 0.0;
        read_others(&e->transfer);
        if (!group_barrier(e->group))
            return 0.0;
    }
    return host_clock_s() - start;
}

static bool exchange_verify(void *context) {
    const struct exchange_job *const e = context;
    return group_all(e->group, transfer_is_right(&e->transfer));
}

static long exchange_agree(void *context, long value) {
    return group_agree(((const struct exchange_job *)context)->group, value);
}

static bool exchange_run(struct host_job *job, struct exchange_job *e, float *shared) {
    struct transfer *const t = &e->transfer;
    for (int r = 0; r < t->ranks; ++r)
        t->from[r] = shared + (size_t)r * t->count;
    float *const values = job_floats(job, t->count, (unsigned)t->rank + 1);
    t->to = job_take(job, t->count, sizeof *t->to);
    if (!group_all(e->group, values && t->to))
        return job->refusal == REFUSED_NOT ? job_refuse(job, REFUSED_MEMORY, "another rank's")
                                           : false;
    memcpy(t->from[t->rank], values, t->count * sizeof *values);
    const struct host_work work = {.context = e,
                                   .timed = exchange_timed,
                                   .agree = exchange_agree,
                                   .verify = exchange_verify,
                                   .result = t->to,
                                   .result_count = t->count};
    return job_measure(job, &work);
}

bool process_collective_measure(struct host_job *job) {
    struct host_group *const group = job->group;
    struct exchange_job e = {.group = group};
    struct transfer *const t = &e.transfer;
    if (job_size(job, "ranks") != (size_t)group->place.ranks ||
        job_size(job, "ranks_per_domain") != (size_t)group->place.ranks_per_domain)
        return job_refuse(job, REFUSED_UNSUPPORTED, "the group has %d ranks, %d a domain",
                          group->place.ranks, group->place.ranks_per_domain);
    /* Each foresees by its own rates. */
    if (!group_all(group, transfer_of(job, t)))
        return job->refusal == REFUSED_NOT
                   ? job_refuse(job, REFUSED_FAILED, "another rank refused, or is gone")
                   : false;
    t->rank = group->place.rank;
    const size_t floats = (size_t)t->ranks * t->count;
    float *const shared = group_share(group, floats);
    if (!shared)
        return job_refuse(job, REFUSED_MEMORY, "no %zu bytes of shared memory, or a rank is gone",
                          floats * sizeof *shared);
    const bool is_done = exchange_run(job, &e, shared);
    group_unshare(group, shared, floats);
    return is_done;
}
