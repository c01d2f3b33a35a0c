// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What is measured: jobs by quantity, from what the probe can, what fits in the device's memory and
 * what the device's speed lets end in time.  Quick takes the backbone of each curve, the default
 * its shape, full everything.  Most useful first, so that whatever ends early has the better part;
 * the same scope gives the same list.
 *
 * The seconds of a job are its rounds by the device's peak at a usual share, and an allowance for
 * setting up and checking; they decide what is asked, never what is reported.
 */
#ifndef MOSAIC_MEASURE_JOB_LIST_H
#define MOSAIC_MEASURE_JOB_LIST_H

#include "machine/cluster.h"
#include "measure/protocol.h"

enum job_level { JOB_QUICK, JOB_DEFAULT, JOB_FULL, JOB_LEVELS };
extern const char *const job_level_words[JOB_LEVELS + 1]; /* ends with NULL */
/* Seconds that a level may take unless a budget says otherwise. */
double job_level_budget_s(enum job_level level);

enum job_kind {
    JOB_LOCAL, /* each rank by itself */
    JOB_GROUP, /* one group of ranks */
    JOB_PAIRS  /* every rank with another one, all pairs at the same time */
};

struct job {
    struct sample keys;
    enum job_kind kind;
    int ranks,
        stride;     /* JOB_GROUP: places 0, stride, 2 stride, ...; JOB_PAIRS: ranks of a domain */
    int round;      /* JOB_PAIRS: which partners, from 1 */
    int rounds;     /* timed */
    int wave;       /* 0: most useful */
    int order;      /* of its quantity within a wave: the most useful first */
    double seconds; /* foreseen */
};

struct job_scope {
    enum job_level level;
    const struct probe_hello *hello;
    const struct device *device; /* its data sheet, where the probe does not tell; may be NULL */
    int ranks;                   /* processes that measure together; 1: this one alone */
    int ranks_per_domain;        /* of them in one innermost domain, side by side */
    double budget_s;             /* 0: that of the level */
};

struct job_list {
    struct job *jobs;
    size_t count, room;
    size_t too_long, too_large, beyond; /* left out: a job too long, memory, over the budget */
    double seconds;                     /* foreseen for all */
};

MOSAIC_MUST_USE enum mosaic_status job_list_make(const struct job_scope *scope,
                                                 struct job_list *out, struct status_error *err);
void job_list_free(struct job_list *list);
/* The dtype that the model's bf16 stands for on this device. */
const char *job_base_dtype(const struct probe_hello *hello);
/* The place that a place is paired with in a round of `places`, or -1; rounds are 0 to
 * job_pair_rounds() - 1, and meet every other place once. */
int job_pair_of(int place, int round, int places);
int job_pair_rounds(int places);

#endif
