// SPDX-License-Identifier: GPL-3.0-or-later
/* Variance components of held-out errors, each layout once. */
#include "fit/step_spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct residual {
    const struct measured_step *step;
    double value;
};

static int compare_groups(const struct measured_step *a, const struct measured_step *b) {
    const int texts[] = {strcmp(a->cluster_name, b->cluster_name), strcmp(a->model, b->model),
                         strcmp(a->engine->name, b->engine->name),
                         strcmp(a->engine->version, b->engine->version)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
        if (texts[i] != 0)
            return texts[i];
    return 0;
}

static int by_group(const void *a, const void *b) {
    const struct residual *const one = a, *const other = b;
    const int groups = compare_groups(one->step, other->step);
    if (groups != 0)
        return groups;
    if (one->step->layout != other->step->layout)
        return one->step->layout < other->step->layout ? -1 : 1;
    return one->step < other->step ? -1 : one->step > other->step;
}

/* Rows of one layout of a group become one residual, their mean; returns how many are left. */
static size_t merge_layouts(struct residual *rows, size_t count) {
    size_t kept = 0;
    for (size_t i = 0, end; i < count; i = end) {
        double sum = 0.0;
        for (end = i; end < count && rows[end].step->layout == rows[i].step->layout &&
                      compare_groups(rows[end].step, rows[i].step) == 0;
             ++end)
            sum += rows[end].value;
        rows[kept++] = (struct residual){rows[i].step, sum / (double)(end - i)};
    }
    return kept;
}

static size_t gather(const struct step_error *errors, size_t count, const char *architecture,
                     struct residual *rows) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        const struct measured_step *const s = errors[i].step;
        if (!architecture || strcmp(architecture, s->architecture) == 0)
            rows[kept++] = (struct residual){s, log(s->step_time_s) - log(errors[i].predicted_s)};
    }
    qsort(rows, kept, sizeof *rows, by_group);
    return merge_layouts(rows, kept);
}

enum mosaic_status step_spread_of(const struct step_error *errors, size_t count,
                                  const char *architecture, struct step_spread *out,
                                  struct status_error *err) {
    *out = (struct step_spread){0};
    struct residual *const rows = calloc(count > 0 ? count : 1, sizeof *rows);
    if (!rows)
        return status_no_memory(err);
    out->layouts = gather(errors, count, architecture, rows);
    double squares = 0.0, means = 0.0, shares = 0.0;
    for (size_t i = 0, end; i < out->layouts; i = end) {
        double sum = 0.0;
        for (end = i; end < out->layouts && compare_groups(rows[end].step, rows[i].step) == 0;
             ++end)
            sum += rows[end].value;
        const double n = (double)(end - i), mean = sum / n;
        for (size_t k = i; k < end; ++k)
            squares += (rows[k].value - mean) * (rows[k].value - mean);
        means += mean * mean;
        shares += 1.0 / n;
        out->groups++;
    }
    free(rows);
    if (out->groups < STEP_SPREAD_GROUPS || out->layouts < out->groups + STEP_SPREAD_DEGREES)
        return MOSAIC_OK;
    const double within2 = squares / (double)(out->layouts - out->groups);
    const double between2 = (means - within2 * shares) / (double)out->groups;
    out->within = sqrt(within2);
    out->between = sqrt(fmax(between2, 0.0));
    return MOSAIC_OK;
}
