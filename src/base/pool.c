// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A parallel loop on pthreads.  A run is announced by raising `round` under the lock; workers take
 * indices from one atomic counter and the last to finish wakes the caller.
 */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;
    struct pool_hooks hooks;
    struct worker *workers;
    int threads;

    /* Under the lock. */
    unsigned long round; /* number of the run in progress */
    int busy;            /* workers that have not finished it */
    bool is_closing;

    /* Set before the round is announced, read after. */
    pool_work *work;
    void *context;
    size_t count;
    atomic_size_t next;
};

static void work_on_round(struct pool *pool, int worker) {
    for (;;) {
        const size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count)
            return;
        pool->work(pool->context, worker, index);
    }
}

static void *worker_main(void *argument) {
    const struct worker *worker = argument;
    struct pool *pool = worker->pool;
    unsigned long seen = 0;
    if (pool->hooks.on_start)
        pool->hooks.on_start(pool->hooks.context, worker->index);
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->is_closing)
            (void)pthread_cond_wait(&pool->work_ready, &pool->lock);
        if (pool->is_closing)
            break;
        seen = pool->round;
        (void)pthread_mutex_unlock(&pool->lock);
        work_on_round(pool, worker->index);
        (void)pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            (void)pthread_cond_signal(&pool->work_done);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (pool->hooks.on_exit)
        pool->hooks.on_exit(pool->hooks.context, worker->index);
    return NULL;
}

/* Start up to `wanted` workers; how many run is in pool->threads. */
static void start_workers(struct pool *pool, int wanted) {
    sigset_t all, before;
    (void)sigfillset(&all);
    const bool is_masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    while (pool->threads < wanted) {
        struct worker *worker = &pool->workers[pool->threads];
        worker->pool = pool;
        worker->index = pool->threads;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
            break;
        pool->threads++;
    }
    if (is_masked)
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int processors(void) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online < 1)
        return 1;
    return online > POOL_MAX_THREADS ? POOL_MAX_THREADS : (int)online;
}

enum mosaic_status pool_create(int threads, const struct pool_hooks *hooks, struct pool **out,
                               struct status_error *err) {
    if (threads < 0 || threads > POOL_MAX_THREADS)
        return status_set(err, MOSAIC_USAGE, "threads must be 1 to %d, not %d",
                          (int)POOL_MAX_THREADS, threads);
    const int wanted = threads == 0 ? processors() : threads;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return status_no_memory(err);
    pool->workers = calloc((size_t)wanted, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return status_no_memory(err);
    }
    if (hooks)
        pool->hooks = *hooks;
    atomic_init(&pool->next, 0);
    /* Default attributes: these cannot fail with glibc or musl. */
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->work_ready, NULL);
    (void)pthread_cond_init(&pool->work_done, NULL);
    start_workers(pool, wanted);
    if (pool->threads == 0) { /* fewer than wanted is slower, none is an error */
        pool_free(pool);
        return status_set(err, MOSAIC_INTERNAL, "cannot start a thread");
    }
    *out = pool;
    return MOSAIC_OK;
}

void pool_run(struct pool *pool, size_t count, pool_work *work, void *context) {
    if (count == 0)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->work = work;
    pool->context = context;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->busy = pool->threads;
    pool->round++;
    (void)pthread_cond_broadcast(&pool->work_ready);
    while (pool->busy > 0)
        (void)pthread_cond_wait(&pool->work_done, &pool->lock);
    (void)pthread_mutex_unlock(&pool->lock);
}

int pool_threads(const struct pool *pool) {
    return pool->threads;
}

void pool_free(struct pool *pool) {
    if (!pool)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->is_closing = true;
    (void)pthread_cond_broadcast(&pool->work_ready);
    (void)pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->threads; i++)
        (void)pthread_join(pool->workers[i].thread, NULL);
    (void)pthread_cond_destroy(&pool->work_done);
    (void)pthread_cond_destroy(&pool->work_ready);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}
