// SPDX-License-Identifier: GPL-3.0-or-later
/* The shapes that each quantity is measured at. */
#ifndef MOSAIC_MEASURE_JOB_SHAPES_H
#define MOSAIC_MEASURE_JOB_SHAPES_H

#include "measure/job_list.h"

enum { TURNS_MAX = 1 << 16 };

struct shape_limits {
    double job_s;
    int rounds, waves;
};

/* Appends all that the scope takes; MOSAIC_INTERNAL where a shape is none that samples know. */
MOSAIC_MUST_USE enum mosaic_status job_shapes_all(const struct job_scope *scope,
                                                  const struct shape_limits *limits,
                                                  struct job_list *list, struct status_error *err);

/* For the files that share the work. */
struct shapes {
    const struct job_scope *scope;
    const struct shape_limits *limits;
    struct job_list *list;
    const char *base; /* dtype */
    enum mosaic_status status;
    struct status_error *err;
};
/* One run of a job: what it computes, of which dtype (NULL: of none), what it moves and holds. */
struct shape_cost {
    const char *dtype;
    double flop, bytes, holds_bytes, seconds;
};
/* keys: "dtype=bf16 pass=forward m=4096 ...". */
void shapes_add(struct shapes *s, enum sample_quantity quantity, int wave,
                const struct shape_cost *cost, const char *keys, ...)
    __attribute__((format(printf, 5, 6)));
/* A processor, by its peak. */
bool shapes_is_slow(const struct shapes *s);
/* Collectives and what runs under them (job_groups.c). */
void shapes_add_groups(struct shapes *s);
/* The job just added, where it was; NULL where it was left out. */
struct job *shapes_last(struct shapes *s, size_t count_before);

#endif
