// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One thread works a ring of jobs in order.  Tickets are the jobs' running numbers: a job is done
 * when `done` has reached its ticket.
 */
#include "exec/copy_stream.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE = 64 };

/* A copy, or waiting for another stream. */
struct job {
    void *to;
    const void *from;
    size_t bytes;
    struct copy_stream *other;
    copy_ticket ticket;
};

struct copy_stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct job jobs[QUEUE];
    copy_ticket queued, done; /* jobs so far */
    bool is_closing;
};

void copy_stream_wait(struct copy_stream *stream, copy_ticket ticket) {
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->done < ticket)
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    (void)pthread_mutex_unlock(&stream->lock);
}

static void run_job(const struct job *job) {
    if (job->other)
        copy_stream_wait(job->other, job->ticket);
    else if (job->bytes > 0)
        memcpy(job->to, job->from, job->bytes);
}

static void *stream_main(void *argument) {
    struct copy_stream *const s = argument;
    (void)pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->done == s->queued && !s->is_closing)
            (void)pthread_cond_wait(&s->changed, &s->lock);
        if (s->done == s->queued)
            break;
        const struct job job = s->jobs[s->done % QUEUE];
        (void)pthread_mutex_unlock(&s->lock);
        run_job(&job);
        (void)pthread_mutex_lock(&s->lock);
        s->done++;
        (void)pthread_cond_broadcast(&s->changed);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

static copy_ticket push(struct copy_stream *stream, const struct job *job) {
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->queued - stream->done == QUEUE)
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    stream->jobs[stream->queued % QUEUE] = *job;
    const copy_ticket ticket = ++stream->queued;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    return ticket;
}

copy_ticket copy_stream_copy(struct copy_stream *stream, void *to, const void *from, size_t bytes) {
    const struct job job = {.to = to, .from = from, .bytes = bytes};
    return push(stream, &job);
}

void copy_stream_after(struct copy_stream *stream, struct copy_stream *other, copy_ticket ticket) {
    const struct job job = {.other = other, .ticket = ticket};
    (void)push(stream, &job);
}

enum mosaic_status copy_stream_create(struct copy_stream **out, struct status_error *err) {
    struct copy_stream *const s = calloc(1, sizeof *s);
    if (!s)
        return status_no_memory(err);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) {
        (void)pthread_cond_destroy(&s->changed);
        (void)pthread_mutex_destroy(&s->lock);
        free(s);
        return status_set(err, MOSAIC_INTERNAL, "cannot start a thread for copies");
    }
    *out = s;
    return MOSAIC_OK;
}

void copy_stream_free(struct copy_stream *s) {
    if (!s)
        return;
    (void)pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->thread, NULL);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
