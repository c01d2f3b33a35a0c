// SPDX-License-Identifier: GPL-3.0-or-later
/* What the files behind mosaic.h share: the session, how a call begins and ends. */
#ifndef MOSAIC_SESSION_H
#define MOSAIC_SESSION_H

#include "doc/document.h"
#include "mosaic.h"
#include "plan/memo_store.h"
#include "report/build.h"

#include <jansson.h>

struct mosaic {
    int threads;
    unsigned long seed;
    atomic_bool stop;
    void (*progress)(void *context, double done, double total);
    void *progress_context;
    struct document_override *overrides;
    size_t override_count;
    struct memo_store *memos; /* steps that earlier plans have found */
    struct diag_list diags;
    char *text; /* of diags, made when asked for */
};

struct mosaic_document {
    struct document *document;
    struct diag_list diags; /* warnings and notes of loading */
};

/* Every call begins with a clean list. */
void call_begin(struct mosaic *session);
enum mosaic_status call_report(struct mosaic *session, const struct status_error *err);
/* The result of a call, which takes `root`; status unless it cannot be made. */
MOSAIC_MUST_USE enum mosaic_status call_finish(struct mosaic *session, json_t *root,
                                               enum mosaic_status status,
                                               struct mosaic_result **result);
/* Threads, stop and progress of the session. */
struct search_options call_search_options(const struct mosaic *session);
/* MOSAIC_BAD_INPUT unless the document is a plan, or a cluster with a budget. */
MOSAIC_MUST_USE enum mosaic_status call_needs_problem(struct mosaic *session,
                                                      const struct document *document);
/* A pinned document as it is; any other plan by its best plan, MOSAIC_NO_PLAN when it has none. */
MOSAIC_MUST_USE enum mosaic_status call_point(struct mosaic *session,
                                              const struct mosaic_document *document,
                                              struct report_point *point, struct status_error *err);

#endif
