// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Layer tables of one geometry, each kept until another falls on its place: a shape's is wanted by
 * the bound of its degrees, of its micro-batches, of its own, and by its meshes.
 */
#ifndef MOSAIC_PLAN_TABLE_CACHE_H
#define MOSAIC_PLAN_TABLE_CACHE_H

#include "step/step.h"

struct table_cache; /* of one worker */
struct table_cache *table_cache_new(void);
void table_cache_free(struct table_cache *cache);
/* Forgets all: before another geometry or machine. */
void table_cache_clear(struct table_cache *cache);
/* The table of a shape for ways that differ in nothing it reads, told apart by `group`; filled
 * where it is not known, which is_filled tells.  Lent until the next call. */
const struct layer_table *table_cache_find(struct table_cache *cache,
                                           const struct step_context *ctx, int group,
                                           const struct mesh *shape, bool *is_filled);

#endif
