// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rules of a target engine that are data of its document: conflicts of features, and how many
 * micro-batches its interleaved schedule takes.
 */
#ifndef MOSAIC_STEP_ENGINE_RULES_H
#define MOSAIC_STEP_ENGINE_RULES_H

#include "engine/pipeline_string.h"
#include "step/layout.h"

/* What a completed mesh, its model and its job have: a set of FEATURE_BITs.  What a word turns on
 * counts only where it does something: overlap_ep needs EP > 1 and experts, a recomputed module
 * needs to be in the model.  FSDP is hybrid sharding too, and module graphs capture the router. */
uint64_t engine_features(const struct mesh *m, const struct geometry *g, const struct workload *w);

/* First rule from *from on that the features break, which *from is then moved behind; or NULL. */
const struct engine_rule *engine_rule_broken(const struct engine_rules *rules, uint64_t features,
                                             size_t *from);

/* Whether the engine can launch a completed mesh, by these rules; the message names the features,
 * with their degrees, and the hint what lifts the conflict and where the rule comes from. */
MOSAIC_MUST_USE enum mosaic_status
engine_rules_check(const struct mesh *m, const struct geometry *g, const struct workload *w,
                   const struct engine *e, struct status_error *err);

/* Layers of each stage: of vpp > 1 those of its chunks together.  Chunks that pass
 * pipeline_check. */
void split_from_pipeline(const struct pipeline_chunk *chunks, size_t count, int pp,
                         struct split *out);
/* A split as pp x vpp chunks: those of a stage differ by a layer at most, the longer first; MTP
 * layers and the loss are at the end.  Untouched and an error where a chunk would be empty. */
MOSAIC_MUST_USE enum mosaic_status pipeline_from_split(const struct split *split, int vpp, int mtp,
                                                       struct pipeline_chunk *chunks,
                                                       size_t capacity, struct status_error *err);

#endif
