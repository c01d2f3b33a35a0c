// SPDX-License-Identifier: GPL-3.0-or-later
/* Bytes and parameters by stage: what the tests of memory share. */
#ifndef MOSAIC_TESTS_MEMORY_CASE_H
#define MOSAIC_TESTS_MEMORY_CASE_H

#include "p6.h"

static const double one_gb = 1e9, one_gib = 1073741824.0;

static inline double state_bytes(const struct memory_items *m) {
    return m->weights + m->gradients + m->optimizer;
}

static inline double kept_bytes(const struct memory_items *m) {
    return m->activations + m->routed;
}

static inline double item_sum(const struct memory_items *m) {
    double sum = 0.0, bytes = 0.0;
    for (int i = 0; memory_item(m, i, &bytes); ++i)
        sum += bytes;
    return sum;
}

static inline bool has_item(const char *name) {
    static const struct memory_items none;
    double bytes = 0.0;
    const char *item;
    for (int i = 0; (item = memory_item(&none, i, &bytes)); ++i)
        if (strcmp(item, name) == 0)
            return true;
    return false;
}

static inline void content_of(const struct point *at, int stage, struct stage_content *out) {
    const struct stage_range range = {stage, at->split.first[stage], at->split.first[stage + 1]};
    stage_content_of(&at->ctx, &at->table, &at->mesh, range, out);
}

#endif
