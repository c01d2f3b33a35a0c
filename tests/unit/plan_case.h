// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Problems that the planner's tests share: the shipped plan files, and small random spaces in which
 * memory, tokens and the engine's rules bind often.
 */
#ifndef MOSAIC_TESTS_PLAN_CASE_H
#define MOSAIC_TESTS_PLAN_CASE_H

#include "plan/problem.h"

#include <stdint.h>

enum { CASE_GEOMETRIES_MAX = 12 };

struct random {
    uint64_t state;
};
uint64_t random_next(struct random *r);
double random_unit(struct random *r); /* [0, 1) */
double random_between(struct random *r, double low, double high);
int random_int(struct random *r, int low, int high); /* both ends included */
int random_pick(struct random *r, const int *values, size_t count);
bool random_chance(struct random *r, double probability);

/* A document's problem with the geometries copied into `items`; fails the test when it does not
 * load.  room is the length of items. */
void case_load(const char *path, struct problem *out, struct geometry *items, size_t room);

/* A small cluster, engine, workload and layout space, `count` geometries, no limits, and a budget
 * and memory without end: the caller narrows them. */
void case_random(struct random *r, struct problem *out, struct geometry *items, size_t count);
void case_random_geometry(struct random *r, const struct workload *w, struct geometry *out);

/* Costs that leave one mechanism alone: launches, data-parallel traffic and the like at nothing. */
void case_quiet_calibration(struct calibration *c);

#endif
