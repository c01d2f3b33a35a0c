// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Memory: streams of a device (copy, triad), copies between its memory and the host's (the same
 * memory here: one lane a direction, on a thread of its own, as a copy engine), the optimizer.
 */
#include "host.h"

#include "exec/adamw_stream.h"
#include "exec/copy_stream.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* ---- streams ---- */

/* A stream of so many numbers may leave a few bytes. */
enum { STREAM_FLOATS_LEAST = 4096 };

struct stream {
    const struct host *host;
    size_t count; /* floats of a block */
    bool is_triad;
    float *to, *from, *more;
};

static void stream_range(void *context, size_t first, size_t end) {
    const struct stream *const s = context;
    if (!s->is_triad) {
        memcpy(s->to + first, s->from + first, (end - first) * sizeof *s->to);
        return;
    }
    float *restrict const to = s->to;
    const float *restrict const from = s->from;
    const float *restrict const more = s->more;
    for (size_t i = first; i < end; ++i)
        to[i] = from[i] + 3.0F * more[i];
}

static void stream_run(void *context) {
    struct stream *const s = context;
    host_parallel(s->host, s->count, stream_range, s);
}

static bool stream_verify(void *context) {
    const struct stream *const s = context;
    for (size_t i = 0; i < s->count; i += 1 + s->count / 4096) {
        const double want = (double)s->from[i] + (s->is_triad ? 3.0 * (double)s->more[i] : 0.0);
        if (fabs((double)s->to[i] - want) > 1e-6)
            return false;
    }
    return true;
}

bool stream_measure(struct host_job *job) {
    struct stream s = {.host = job->host, .is_triad = job_is(job, "op", "triad")};
    const size_t bytes = job_size(job, "bytes"), blocks = s.is_triad ? 3 : 2;
    /* The bytes that do not fill a number in each block are left. */
    s.count = bytes / (blocks * sizeof(float));
    if (bytes % (blocks * sizeof(float)) != 0 && s.count < STREAM_FLOATS_LEAST)
        return job_refuse(job, REFUSED_UNSUPPORTED, "few bytes: a multiple of %zu of them",
                          blocks * sizeof(float));
    if (!job_foresee(job, 0.0, 1.0, (double)bytes) || !(s.to = job_floats(job, s.count, 1)) ||
        !(s.from = job_floats(job, s.count, 2)) ||
        (s.is_triad && !(s.more = job_floats(job, s.count, 3))))
        return false;
    const struct host_work work = {.context = &s,
                                   .run = stream_run,
                                   .verify = stream_verify,
                                   .result = s.to,
                                   .result_count = s.count};
    return job_measure(job, &work);
}

/* ---- copies ---- */

enum { LOAD_FLOATS = 4 << 20 };

struct copies {
    size_t bytes;
    int lanes;
    struct copy_stream *lane[2];
    float *to[2], *from[2];
    float *load_to, *load_from; /* what the device streams meanwhile, or NULL */
    atomic_bool is_over;
};

static void *load_main(void *context) {
    struct copies *const c = context;
    while (!atomic_load(&c->is_over))
        memcpy(c->load_to, c->load_from, LOAD_FLOATS * sizeof(float));
    return NULL;
}

static void copies_run(void *context) {
    const struct copies *const c = context;
    copy_ticket ticket[2];
    for (int i = 0; i < c->lanes; ++i)
        ticket[i] = copy_stream_copy(c->lane[i], c->to[i], c->from[i], c->bytes);
    for (int i = 0; i < c->lanes; ++i)
        copy_stream_wait(c->lane[i], ticket[i]);
}

static bool copies_verify(void *context) {
    const struct copies *const c = context;
    for (int i = 0; i < c->lanes; ++i)
        if (memcmp(c->to[i], c->from[i], c->bytes) != 0)
            return false;
    return true;
}

static bool copies_run_all(struct host_job *job, struct copies *c) {
    const struct host_work work = {.context = c,
                                   .run = copies_run,
                                   .verify = copies_verify,
                                   .result = c->to[0],
                                   .result_count = c->bytes / sizeof(float)};
    pthread_t load;
    if (!c->load_to)
        return job_measure(job, &work);
    if (pthread_create(&load, NULL, load_main, c) != 0)
        return job_refuse(job, REFUSED_FAILED, "cannot start a thread");
    const bool is_done = job_measure(job, &work);
    atomic_store(&c->is_over, true);
    (void)pthread_join(load, NULL);
    return is_done;
}

bool host_copy_measure(struct host_job *job) {
    struct copies c = {.bytes = job_size(job, "bytes"),
                       .lanes = job_is(job, "direction", "both") ? 2 : 1};
    const size_t floats = c.bytes / sizeof(float) + 1;
    struct status_error err;
    if (!job_foresee(job, 0.0, 1.0, 2.0 * (double)c.lanes * (double)c.bytes))
        return false;
    for (int i = 0; i < c.lanes; ++i)
        if (!(c.to[i] = job_floats(job, floats, 1)) || !(c.from[i] = job_floats(job, floats, 2)))
            return false;
    if (!job_is(job, "load", "none") && (!(c.load_to = job_floats(job, LOAD_FLOATS, 3)) ||
                                         !(c.load_from = job_floats(job, LOAD_FLOATS, 4))))
        return false;
    bool is_done = true;
    for (int i = 0; is_done && i < c.lanes; ++i)
        if (copy_stream_create(&c.lane[i], &err) != MOSAIC_OK)
            is_done = job_refuse(job, REFUSED_FAILED, "%s", err.message);
    is_done = is_done && copies_run_all(job, &c);
    for (int i = 0; i < c.lanes; ++i)
        copy_stream_free(c.lane[i]);
    return is_done;
}

/* ---- the optimizer ---- */

struct stepping {
    const struct host *host;
    struct adamw adamw;
    struct adamw_state state;
    size_t buckets, first, end; /* of the bucket that runs */
};

static void stepping_range(void *context, size_t first, size_t end) {
    const struct stepping *const s = context;
    const size_t at = s->first + first;
    const struct adamw_state part = {
        end - first,          s->state.master + at,   s->state.mean + at,
        s->state.square + at, s->state.gradient + at, s->state.weight + at};
    adamw_resident(&s->adamw, &part);
}

static void stepping_run(void *context) {
    struct stepping *const s = context;
    for (size_t b = 0; b < s->buckets; ++b) {
        s->first = s->state.params * b / s->buckets;
        s->end = s->state.params * (b + 1) / s->buckets;
        host_parallel(s->host, s->end - s->first, stepping_range, s);
    }
}

/* After one step from state zero and master zero: w = -r g / (|g| + e). */
static bool stepping_verify(void *context) {
    const struct stepping *const s = context;
    for (size_t i = 0; i < s->state.params; i += 1 + s->state.params / 4096) {
        const double g = (double)s->state.gradient[i];
        const double want = -(double)s->adamw.rate * g / (fabs(g) + (double)s->adamw.epsilon);
        if (!(fabs((double)s->state.master[i] - want) <= 1e-4 * (double)s->adamw.rate))
            return false;
    }
    return true;
}

bool adamw_measure(struct host_job *job) {
    const size_t count = job_size(job, "parameters");
    struct stepping s = {
        .host = job->host,
        .adamw = {1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 1, 1.0F},
        .state = {.params = count},
        .buckets = job_size(job, "buckets"),
    };
    /* Sixteen bytes of state read, twelve and a weight of two written. */
    if (!job_foresee(job, 0.0, 1.0, 30.0 * (double)count))
        return false;
    float *const gradient = job_floats(job, count, 1);
    if (!gradient || !(s.state.master = job_take(job, count, sizeof(float))) ||
        !(s.state.mean = job_take(job, count, sizeof(float))) ||
        !(s.state.square = job_take(job, count, sizeof(float))) ||
        !(s.state.weight = job_take(job, count, sizeof(uint16_t))))
        return false;
    s.state.gradient = gradient;
    const struct host_work work = {.context = &s,
                                   .run = stepping_run,
                                   .verify = stepping_verify,
                                   .result = s.state.master,
                                   .result_count = count};
    return job_measure(job, &work);
}
