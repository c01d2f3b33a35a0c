// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How the benchmarks measure: a pass over a fixed workload is repeated until it lasts
 * BENCH_SECONDS, five times over, and the fastest of the five counts.  One JSON object a line on
 * stdout. With --once NAME a pass of that case runs once and nothing is timed: for counting
 * instructions.
 */
#ifndef MOSAIC_BENCH_H
#define MOSAIC_BENCH_H

#include "doc/document.h"

#include <stdio.h>
#include <string.h>
#include <talloc.h>
#include <time.h>

enum { BENCH_RUNS = 5 };
#define BENCH_SECONDS 0.3
#define BENCH_PLAN "configs/p6-b200-32n-20d.yaml"

static inline double bench_clock(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    const double nano = 1e-9;
    return (double)now.tv_sec + nano * (double)now.tv_nsec;
}

static inline double bench_now(void) {
    return bench_clock(CLOCK_MONOTONIC);
}

/* What this thread had of a processor: passes run in it alone, and others may want it too. */
static inline double bench_busy(void) {
    return bench_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* One pass; returns how many items it worked on. */
typedef long bench_pass(void *context);

struct bench_result {
    double seconds; /* of one item */
    long items;     /* of one pass */
};

static inline struct bench_result bench_best(bench_pass *pass, void *context) {
    struct bench_result best = {0};
    for (int run = 0; run < BENCH_RUNS; ++run) {
        long items = 0, passes = 0;
        const double begun = bench_busy();
        double taken;
        do {
            items += pass(context);
            ++passes;
            taken = bench_busy() - begun;
        } while (taken < BENCH_SECONDS);
        const double one = taken / (double)items;
        if (run == 0 || one < best.seconds)
            best = (struct bench_result){one, items / passes};
    }
    return best;
}

/* The plan of the argument, or the paper's. */
static inline struct document *bench_load(const char *path) {
    static struct diag_list said;
    struct document *document = NULL;
    diag_init(&said);
    if (document_load(path, NULL, 0, &said, &document) == MOSAIC_OK)
        return document;
    char *const text = diag_text(NULL, &said, false);
    (void)fputs(text ? text : path, stderr);
    talloc_free(text);
    return NULL;
}

/* What a reader compares with: evaluations per second and core of other estimators (DESIGN 10). */
#define BENCH_TARGET 1e6 /* this program's own aim */
#define BENCH_FASTEST_PEER 4200.0
#define BENCH_RELEASE 240.0 /* the paper's released estimator, the upper of 70 to 240 */

#endif
