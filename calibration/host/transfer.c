// SPDX-License-Identifier: GPL-3.0-or-later
#include "transfer.h"

#include <math.h>

bool transfer_of(struct host_job *job, struct transfer *t) {
    const size_t bytes = job_size(job, "bytes"), ranks = job_size(job, "ranks");
    if (ranks > RANKS_MAX)
        return job_refuse(job, REFUSED_UNSUPPORTED, "%zu ranks, at most %d", ranks, (int)RANKS_MAX);
    if (bytes % (ranks * sizeof(float)) != 0)
        return job_refuse(job, REFUSED_UNSUPPORTED, "bytes of whole numbers: a multiple of %zu",
                          ranks * sizeof(float));
    if (2.0 * (double)bytes * (double)ranks > job->host->available_bytes)
        return job_refuse(job, REFUSED_MEMORY, "two buffers of %zu bytes a rank, %.3g free", bytes,
                          job->host->available_bytes);
    /* Ranks write and read their buffers, and read one another's. */
    if (!job_foresee(job, 0.0, 1.0, 2.0 * (double)ranks * (double)bytes))
        return false;
    t->kind = (enum transfer_kind)job_size(job, "kind");
    t->ranks = (int)ranks;
    t->count = bytes / sizeof(float);
    t->part = t->count / ranks;
    return true;
}

/* What float k of the result is. */
static double want(const struct transfer *t, size_t k) {
    const size_t mine = (size_t)t->rank * t->part;
    double sum = 0.0;
    switch (t->kind) {
    case ALL_REDUCE:
    case REDUCE_SCATTER:
        for (int r = 0; r < t->ranks; ++r)
            sum += (double)t->from[r][t->kind == ALL_REDUCE ? k : mine + k];
        return sum;
    case ALL_GATHER:
        return (double)t->from[k / t->part][k % t->part];
    case ALL_TO_ALL:
        return (double)t->from[k / t->part][mine + k % t->part];
    case POINT_TO_POINT:
        break;
    }
    return (double)t->from[(t->rank + t->ranks - 1) % t->ranks][k];
}

bool transfer_is_right(const struct transfer *t) {
    const size_t count = t->kind == REDUCE_SCATTER ? t->part : t->count;
    for (size_t k = 0; k < count; k += 1 + count / 1024)
        if (!(fabs((double)t->to[k] - want(t, k)) <= 1e-6))
            return false;
    return true;
}
