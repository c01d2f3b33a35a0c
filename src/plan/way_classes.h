// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Ways to run the job that a search may treat alike.  What one way's layers cost, or which meshes
 * it allows, holds for another whose execution differs in nothing that those read: the rest of two
 * workloads is compared as bytes, so that a key nobody thought of keeps them apart.
 */
#ifndef MOSAIC_PLAN_WAY_CLASSES_H
#define MOSAIC_PLAN_WAY_CLASSES_H

#include "step/context.h"

enum { WAY_CONFLICTS_MAX = 64 };

struct way_key {
    unsigned char workload[sizeof(struct workload)];
    unsigned char
        conflicts[(1 + 2 * WAY_CONFLICTS_MAX) * sizeof(uint64_t)]; /* how many, and their sets */
};
bool way_key_equal(const struct way_key *a, const struct way_key *b);

/* The same for jobs of one geometry, machine and engine with the same layer tables. */
void way_table_key(const struct step_context *ctx, struct way_key *key);
/* The same for jobs that legality tells apart by degrees and their divisors alone, of one engine
 * and model. */
void way_rules_key(const struct step_context *ctx, struct way_key *key);

/* Conflicts of the engine that some mesh of this job and model has, without the features that all
 * of them have; returns how many, SIZE_MAX where there are too many to look at. */
size_t way_conflicts(const struct step_context *ctx, struct engine_rule out[WAY_CONFLICTS_MAX]);

#endif
