// SPDX-License-Identifier: GPL-3.0-or-later
/* Groups as names: a row is in a group when it has the group's name under that property. */
#include "fit/step_group.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { RECENT_YEAR = 2025 };

static const char *const slices[] = {"moe", "dense_2025", "a100", "other"};
static const char without_efa[] = "without efa";

/* Least value that is above the bucket; the last has none. */
struct bucket {
    int above;
    const char *name;
};
static const struct bucket gpu_buckets[] = {
    {17, "<=16"}, {129, "17-128"}, {513, "129-512"}, {0, ">512"}};
static const struct bucket sequence_buckets[] = {
    {2049, "<=2048"}, {8193, "2049-8192"}, {32769, "8193-32768"}, {0, ">32768"}};

const char *step_grouping_name(enum step_grouping by) {
#define NAME(id, name) [id] = name,
    static const char *const names[STEP_GROUPING_COUNT] = {STEP_GROUPINGS(NAME)};
#undef NAME
    return (unsigned)by < STEP_GROUPING_COUNT ? names[by] : NULL;
}

int measured_step_gpus(const struct measured_step *step) {
    return step->mesh.tp * step->mesh.cp * step->mesh.pp * step->mesh.dp;
}

bool measured_step_is_moe(const struct measured_step *step) {
    return step->geometry.experts > 0;
}

static const char *bucket_of(const struct bucket *buckets, int value) {
    while (buckets->above > 0 && value >= buckets->above)
        ++buckets;
    return buckets->name;
}

static bool in_slice(const struct measured_step *step, const char *name) {
    static const char a100[] = "A100";
    const bool is_moe = measured_step_is_moe(step);
    const bool is_recent = !is_moe && step->year >= RECENT_YEAR;
    const bool is_a100 = strncmp(step->gpu, a100, sizeof a100 - 1) == 0;
    if (strcmp(name, slices[0]) == 0)
        return is_moe;
    if (strcmp(name, slices[1]) == 0)
        return is_recent;
    return strcmp(name, slices[2]) == 0 ? is_a100 : !is_moe && !is_recent && !is_a100;
}

static const char *stated(const char *text) {
    return text && *text ? text : "unstated";
}

/* Of the properties with one value a row. */
static const char *value_of(const struct measured_step *step, enum step_grouping by) {
    switch (by) {
    case GROUP_BY_KIND:
        return measured_step_is_moe(step) ? "moe" : "dense";
    case GROUP_BY_GPU:
        return stated(step->gpu);
    case GROUP_BY_PRECISION:
        return stated(precision_name(step->workload.precision));
    case GROUP_BY_MODEL:
        return stated(step->model);
    case GROUP_BY_SOURCE:
        return stated(step->source);
    case GROUP_BY_FABRIC:
        return stated(step->fabric);
    case GROUP_BY_GPUS:
        return bucket_of(gpu_buckets, measured_step_gpus(step));
    case GROUP_BY_SEQUENCE:
        return bucket_of(sequence_buckets, step->workload.sequence);
    case GROUP_BY_ALL:
    case GROUP_BY_SLICE:
    case STEP_GROUPING_COUNT:
        break;
    }
    return "";
}

bool step_group_holds(const struct measured_step *step, const void *group) {
    const struct step_group *const g = group;
    if (g->by == GROUP_BY_ALL)
        return !step->fabric || strcmp(step->fabric, "efa") != 0;
    if (g->by == GROUP_BY_SLICE)
        return in_slice(step, g->name);
    return strcmp(value_of(step, g->by), g->name) == 0;
}

static bool holds_any(const struct step_error *errors, size_t count,
                      const struct step_group *group) {
    for (size_t i = 0; i < count; ++i)
        if (step_group_holds(errors[i].step, group))
            return true;
    return false;
}

/* Room for one more is kept by doubling at powers of two. */
static bool append(struct step_group **groups, size_t *count, struct step_group group) {
    if ((*count & (*count - 1)) == 0) {
        const size_t room = *count > 0 ? 2 * *count : 1;
        struct step_group *const grown = realloc(*groups, room * sizeof *grown);
        if (!grown)
            return false;
        *groups = grown;
    }
    (*groups)[(*count)++] = group;
    return true;
}

static bool is_known(const struct step_group *groups, size_t count, const char *name) {
    for (size_t i = 0; i < count; ++i)
        if (strcmp(groups[i].name, name) == 0)
            return true;
    return false;
}

/* Names of the groupings with a fixed list, in its order; NULL at the end and for the others. */
static const char *fixed_name(enum step_grouping by, size_t index) {
    switch (by) {
    case GROUP_BY_ALL:
        return index == 0 ? without_efa : NULL;
    case GROUP_BY_SLICE:
        return index < COUNT_OF(slices) ? slices[index] : NULL;
    case GROUP_BY_GPUS:
        return index < COUNT_OF(gpu_buckets) ? gpu_buckets[index].name : NULL;
    case GROUP_BY_SEQUENCE:
        return index < COUNT_OF(sequence_buckets) ? sequence_buckets[index].name : NULL;
    case GROUP_BY_KIND:
    case GROUP_BY_GPU:
    case GROUP_BY_PRECISION:
    case GROUP_BY_MODEL:
    case GROUP_BY_SOURCE:
    case GROUP_BY_FABRIC:
    case STEP_GROUPING_COUNT:
        break;
    }
    return NULL;
}

static bool has_fixed_names(enum step_grouping by) {
    return by == GROUP_BY_ALL || by == GROUP_BY_SLICE || by == GROUP_BY_GPUS ||
           by == GROUP_BY_SEQUENCE;
}

static bool fixed_groups(const struct step_error *errors, size_t count, enum step_grouping by,
                         struct step_group **groups, size_t *group_count) {
    const char *name;
    for (size_t i = 0; (name = fixed_name(by, i)) != NULL; ++i) {
        const struct step_group group = {by, name};
        if (holds_any(errors, count, &group) && !append(groups, group_count, group))
            return false;
    }
    return true;
}

static bool found_groups(const struct step_error *errors, size_t count, enum step_grouping by,
                         struct step_group **groups, size_t *group_count) {
    for (size_t i = 0; i < count; ++i) {
        const struct step_group group = {by, value_of(errors[i].step, by)};
        if (!is_known(*groups, *group_count, group.name) && !append(groups, group_count, group))
            return false;
    }
    return true;
}

bool step_groups_of(const struct step_error *errors, size_t count, enum step_grouping by,
                    struct step_group **groups, size_t *group_count) {
    *groups = NULL;
    *group_count = 0;
    if (has_fixed_names(by) ? fixed_groups(errors, count, by, groups, group_count)
                            : found_groups(errors, count, by, groups, group_count))
        return true;
    free(*groups);
    *groups = NULL;
    *group_count = 0;
    return false;
}
