// SPDX-License-Identifier: GPL-3.0-or-later
/* One call of the public interface on a shipped document, for tests that read its result. */
#ifndef MOSAIC_TEST_PLAN_RUN_H
#define MOSAIC_TEST_PLAN_RUN_H

#include "mosaic.h"

struct run {
    struct mosaic *session;
    struct mosaic_document *document;
    struct mosaic_result *result;
};

static inline void end(struct run *r) {
    mosaic_result_free(r->result);
    mosaic_document_free(r->document);
    mosaic_free(r->session);
}

static inline double number(const struct run *r, const char *path) {
    double value = 0.0;
    if (mosaic_result_number(r->result, path, &value) != MOSAIC_OK)
        fail_msg("no number at %s", path);
    return value;
}

#endif
