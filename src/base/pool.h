// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A parallel loop.  Items are handed out by index and write only their own slot, so what comes out
 * does not depend on the number of threads or their timing; merge the slots in order afterwards.
 * Every worker is a thread of the pool's own, also when there is one: what a worker keeps per
 * thread (a GLPK environment) is made and freed in it.  Workers take no signals.
 */
#ifndef MOSAIC_BASE_POOL_H
#define MOSAIC_BASE_POOL_H

#include "base/status.h"

enum { POOL_MAX_THREADS = 256 };

struct pool;

/* Run in the worker's thread when it starts and ends; either may be NULL. */
struct pool_hooks {
    void (*on_start)(void *context, int worker);
    void (*on_exit)(void *context, int worker);
    void *context;
};

/* One item; worker is 0 to threads - 1 and picks scratch memory only. */
typedef void pool_work(void *context, int worker, size_t index);

/* threads 0 takes the number of processors; hooks may be NULL. */
MOSAIC_MUST_USE enum mosaic_status pool_create(int threads, const struct pool_hooks *hooks,
                                               struct pool **pool, struct status_error *err);
/* Run work on 0 .. count - 1 and wait for all.  Not to be called from inside a work item. */
void pool_run(struct pool *pool, size_t count, pool_work *work, void *context);
int pool_threads(const struct pool *pool);
/* Ends the workers and runs their on_exit; NULL is accepted. */
void pool_free(struct pool *pool);

#endif
