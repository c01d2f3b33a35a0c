// SPDX-License-Identifier: GPL-3.0-or-later
/* What the tests of documents share: loading texts and files, with what was said about them. */
#ifndef MOSAIC_TESTS_TEST_DOC_H
#define MOSAIC_TESTS_TEST_DOC_H

#include "doc/document.h"

#include "close.h"

#include <string.h>
#include <talloc.h>

static struct diag_list said; /* by the last load */

static inline enum mosaic_status parse(const char *text, const struct document_override *set,
                                       size_t sets, struct document **d) {
    diag_init(&said);
    return document_parse("configs/test.yaml", text, strlen(text), set, sets, &said, d);
}

static inline struct document *must_load(const char *path, const struct document_override *set,
                                         size_t sets) {
    struct document *d = NULL;
    diag_init(&said);
    if (document_load(path, set, sets, &said, &d) != MOSAIC_OK) {
        char *const text = diag_text(NULL, &said, false);
        print_error("%s", text ? text : "");
        talloc_free(text);
        fail();
    }
    return d;
}

static inline struct document *must_parse(const char *text, const struct document_override *set,
                                          size_t sets) {
    struct document *d = NULL;
    if (parse(text, set, sets, &d) != MOSAIC_OK) {
        char *const words = diag_text(NULL, &said, false);
        print_error("%s\n%s", text, words ? words : "");
        talloc_free(words);
        fail();
    }
    return d;
}

/* A plan's head with all that a plan needs; keys may follow. */
#define HEAD                                                                                       \
    "schema: mosaic-plan/1\n"                                                                      \
    "cluster: clusters/p6-b200.yaml\n"                                                             \
    "nodes: 32\n"                                                                                  \
    "budget: {days: 20}\n"

static inline enum document_origin origin(const struct document *d, const char *path) {
    const struct document_value *const value = document_value(d, path);
    if (!value)
        fail_msg("no value at '%s'", path);
    return value->origin;
}

#endif
