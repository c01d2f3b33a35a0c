// SPDX-License-Identifier: GPL-3.0-or-later
/* The parallel loop: every item once, the same result on any number of threads, hooks in place. */
#include "base/pool.h"

#include "close.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { ITEMS = 5000, THREADS = 4 };

struct job {
    double result[ITEMS];
    atomic_int visits[ITEMS];
    int per_worker[THREADS]; /* written by its worker only */
    double factor;
};

static void square(void *context, int worker, size_t index) {
    struct job *job = context;
    job->result[index] = job->factor * (double)index * (double)index;
    atomic_fetch_add(&job->visits[index], 1);
    job->per_worker[worker]++;
}

static void every_item_once(void **state) {
    (void)state;
    static struct job job;
    struct pool *pool = NULL;
    assert_int_equal(pool_create(THREADS, NULL, &pool, NULL), MOSAIC_OK);
    assert_int_equal(pool_threads(pool), THREADS);
    memset(&job, 0, sizeof job);
    job.factor = 1.5;
    pool_run(pool, ITEMS, square, &job);
    int total = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(atomic_load(&job.visits[i]), 1);
        assert_close(job.result[i], 1.5 * (double)i * (double)i, 0);
    }
    for (int w = 0; w < THREADS; w++)
        total += job.per_worker[w];
    assert_int_equal(total, ITEMS);
    pool_free(pool);
}

static void many_short_rounds(void **state) {
    (void)state;
    static struct job job;
    struct pool *pool = NULL;
    assert_int_equal(pool_create(3, NULL, &pool, NULL), MOSAIC_OK);
    memset(&job, 0, sizeof job);
    for (int round = 0; round < 2000; round++) {
        job.factor = round;
        pool_run(pool, (size_t)(round % 5), square, &job);
        for (size_t i = 0; i < (size_t)(round % 5); i++)
            assert_close(job.result[i], (double)round * (double)i * (double)i, 0);
    }
    pool_free(pool);
}

static void one_thread_gives_what_four_give(void **state) {
    (void)state;
    static struct job one, four;
    struct pool *pool = NULL;
    memset(&one, 0, sizeof one);
    memset(&four, 0, sizeof four);
    one.factor = four.factor = 0.1;
    assert_int_equal(pool_create(1, NULL, &pool, NULL), MOSAIC_OK);
    pool_run(pool, ITEMS, square, &one);
    pool_free(pool);
    assert_int_equal(pool_create(THREADS, NULL, &pool, NULL), MOSAIC_OK);
    pool_run(pool, ITEMS, square, &four);
    pool_free(pool);
    assert_memory_equal(one.result, four.result, sizeof one.result);
}

struct hook_log {
    pthread_t started[THREADS], ended[THREADS], worked[THREADS];
    atomic_int starts, exits;
    bool has_worked[THREADS];
};

static void log_start(void *context, int worker) {
    struct hook_log *log = context;
    log->started[worker] = pthread_self();
    atomic_fetch_add(&log->starts, 1);
}

static void log_exit(void *context, int worker) {
    struct hook_log *log = context;
    log->ended[worker] = pthread_self();
    atomic_fetch_add(&log->exits, 1);
}

static void log_work(void *context, int worker, size_t index) {
    struct hook_log *log = context;
    (void)index;
    log->worked[worker] = pthread_self();
    log->has_worked[worker] = true;
}

static void hooks_run_in_the_worker(void **state) {
    (void)state;
    struct hook_log log;
    memset(&log, 0, sizeof log);
    const struct pool_hooks hooks = {log_start, log_exit, &log};
    struct pool *pool = NULL;
    assert_int_equal(pool_create(THREADS, &hooks, &pool, NULL), MOSAIC_OK);
    pool_run(pool, ITEMS, log_work, &log);
    pool_free(pool);
    assert_int_equal(atomic_load(&log.starts), THREADS);
    assert_int_equal(atomic_load(&log.exits), THREADS);
    for (int w = 0; w < THREADS; w++) {
        assert_true(pthread_equal(log.started[w], log.ended[w]));
        assert_false(pthread_equal(log.started[w], pthread_self()));
        if (log.has_worked[w])
            assert_true(pthread_equal(log.started[w], log.worked[w]));
    }
}

static void see_mask(void *context, int worker, size_t index) {
    sigset_t mask;
    (void)worker;
    (void)index;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (sigismember(&mask, SIGINT) == 1)
        atomic_fetch_add((atomic_int *)context, 1);
}

static void workers_take_no_signals(void **state) {
    (void)state;
    struct pool *pool = NULL;
    atomic_int blocked = 0;
    sigset_t mask;
    assert_int_equal(pool_create(2, NULL, &pool, NULL), MOSAIC_OK);
    pool_run(pool, 10, see_mask, &blocked);
    pool_free(pool);
    assert_int_equal(atomic_load(&blocked), 10);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0); /* the caller's own is back */
}

static void edges(void **state) {
    (void)state;
    struct pool *pool = NULL;
    struct status_error err;
    assert_int_equal(pool_create(-1, NULL, &pool, &err), MOSAIC_USAGE);
    assert_int_equal(pool_create(POOL_MAX_THREADS + 1, NULL, &pool, &err), MOSAIC_USAGE);
    assert_null(pool);
    assert_int_equal(pool_create(0, NULL, &pool, &err), MOSAIC_OK);
    assert_true(pool_threads(pool) >= 1);
    pool_run(pool, 0, square, NULL);
    pool_free(pool);
    pool_free(NULL);
    assert_int_equal(pool_create(2, NULL, &pool, &err), MOSAIC_OK);
    pool_free(pool); /* never used */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(many_short_rounds),
        cmocka_unit_test(hooks_run_in_the_worker),
        cmocka_unit_test(one_thread_gives_what_four_give),
        cmocka_unit_test(workers_take_no_signals),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
