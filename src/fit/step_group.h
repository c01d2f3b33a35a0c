// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The groups that measured steps are scored by: the values of a property in the order in which
 * rows first show them, ranges, and slices that may overlap (moe, dense_2025: dense on software of
 * 2025 and later, a100; other: in none of these).
 */
#ifndef MOSAIC_FIT_STEP_GROUP_H
#define MOSAIC_FIT_STEP_GROUP_H

#include "fit/step_score.h"

#define STEP_GROUPINGS(X)                                                                          \
    X(GROUP_BY_ALL, "all")                                                                         \
    X(GROUP_BY_KIND, "kind")                                                                       \
    X(GROUP_BY_SLICE, "slice")                                                                     \
    X(GROUP_BY_GPU, "gpu")                                                                         \
    X(GROUP_BY_PRECISION, "precision")                                                             \
    X(GROUP_BY_MODEL, "model")                                                                     \
    X(GROUP_BY_SOURCE, "source")                                                                   \
    X(GROUP_BY_FABRIC, "fabric")                                                                   \
    X(GROUP_BY_GPUS, "gpus")                                                                       \
    X(GROUP_BY_SEQUENCE, "sequence")

#define STEP_GROUPING_ENUM(id, name) id,
enum step_grouping { STEP_GROUPINGS(STEP_GROUPING_ENUM) STEP_GROUPING_COUNT };
#undef STEP_GROUPING_ENUM

struct step_group {
    enum step_grouping by;
    const char *name; /* fixed, or the row's own text */
};

const char *step_grouping_name(enum step_grouping by);
/* A `take` of step_score_of; context is the group. */
bool step_group_holds(const struct measured_step *step, const void *group);

/* The groups by one property that hold a row; *groups is freed by the caller, NULL when there is
 * none.  False when memory is short. */
MOSAIC_MUST_USE bool step_groups_of(const struct step_error *errors, size_t count,
                                    enum step_grouping by, struct step_group **groups,
                                    size_t *group_count);

/* GPUs of the job. */
int measured_step_gpus(const struct measured_step *step);
bool measured_step_is_moe(const struct measured_step *step);

#endif
