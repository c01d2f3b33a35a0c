// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface to baselines: predict every file, hold it against what was. */
#include "mosaic_session.h"

#include "doc/check_settings.h"
#include "report/check_view.h"
#include "report/result.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

/* Everything that one check holds; all of it but the documents is below `memory`. */
struct check {
    void *memory;
    const char *const *paths;
    size_t count;
    struct check_settings settings;
    struct baseline *was, now;
    struct mosaic_document *documents;
    const struct document **loaded; /* the same, for the result's provenance */
};

static enum mosaic_status short_of_memory(struct mosaic *session) {
    return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

static enum mosaic_status read_settings(struct mosaic *session, const char *const *settings,
                                        struct check_settings *out) {
    struct status_error err = {0};
    check_settings_init(out);
    for (size_t i = 0; settings && settings[i]; ++i)
        if (check_settings_put(out, settings[i], &err) != MOSAIC_OK)
            return call_report(session, &err);
    if (!out->baseline || !*out->baseline)
        return diag_status(&session->diags, MOSAIC_USAGE, NULL, "a check needs a baseline");
    return MOSAIC_OK;
}

/* A baseline is a text that has to hold the name. */
static bool is_text(const char *path) {
    enum { BLANK = 0x20, DELETE = 0x7F };
    json_t *const text = json_string(path);
    bool ok = text != NULL;
    for (const char *at = path; ok && *at; ++at)
        ok = (unsigned char)*at >= BLANK && *at != DELETE;
    json_decref(text);
    return ok;
}

static enum mosaic_status check_names(struct mosaic *session, const struct check *c) {
    char shown[STATUS_QUOTE_MAX];
    for (size_t i = 0; i < c->count; ++i)
        if (!is_text(c->paths[i]))
            return diag_status(&session->diags, MOSAIC_USAGE, NULL,
                               "the name '%s' is no text that a baseline can hold",
                               status_quote(c->paths[i], shown, sizeof shown));
    for (size_t i = 0; i < c->count; ++i)
        for (size_t k = 0; k < i; ++k)
            if (strcmp(c->paths[i], c->paths[k]) == 0)
                return diag_status(&session->diags, MOSAIC_USAGE, NULL, "'%s' is named twice",
                                   status_quote(c->paths[i], shown, sizeof shown));
    return c->count > 0 ? MOSAIC_OK
                        : diag_status(&session->diags, MOSAIC_USAGE, NULL, "no file to check");
}

/* A file that was never predicted can be no regression, and no pass. */
static enum mosaic_status all_known(struct mosaic *session, const struct check *c) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < c->count; ++i) {
        if (baseline_find(c->was, c->paths[i]))
            continue;
        struct status_error err = {0};
        char shown[STATUS_QUOTE_MAX];
        (void)status_set(&err, MOSAIC_BAD_INPUT, "'%s' is not in the baseline",
                         status_quote(c->paths[i], shown, sizeof shown));
        status_hint(&err, "files are known as they were named; --update makes a baseline of "
                          "the files that it is given");
        (void)snprintf(err.file, sizeof err.file, "%s", c->settings.baseline);
        err.line = err.column = 1;
        status = call_report(session, &err);
    }
    return status;
}

static enum mosaic_status load_baseline(struct mosaic *session, struct check *c) {
    TRY(doc_baseline_load(c->memory, c->settings.baseline, c->settings.update, &c->was,
                          &session->diags));
    return c->settings.update ? MOSAIC_OK : all_known(session, c);
}

/* MOSAIC_NO_PLAN is a finding, all else an error. */
static enum mosaic_status check_file(struct mosaic *session, struct check *c, size_t i,
                                     struct report_point *point) {
    const struct document_options options = {.overrides = session->overrides,
                                             .override_count = session->override_count,
                                             .threads = session->threads,
                                             .seed = session->seed,
                                             .stop = &session->stop};
    assert(c->documents && point); /* there is a file */
    struct mosaic_document *const d = &c->documents[i];
    struct baseline_entry *const entry = (struct baseline_entry *)c->now.files.items + i;
    struct status_error err = {0};
    TRY(document_load_with(c->paths[i], &options, &session->diags, &d->document));
    c->loaded[i] = d->document;
    TRY(call_needs_problem(session, d->document));
    memset(point, 0, sizeof *point);
    enum mosaic_status status = call_point(session, d, point, &err);
    if (status != MOSAIC_OK && status != MOSAIC_NO_PLAN) {
        if (!err.file[0])
            status_wrap(&err, "%s", c->paths[i]);
        return call_report(session, &err);
    }
    entry->file = c->paths[i];
    status = check_entry(c->memory, d->document, status == MOSAIC_OK ? point : NULL, entry, &err);
    if (status == MOSAIC_OK && c->settings.update && entry->is_infeasible)
        diag_warning(&session->diags, NULL, "%s has no feasible plan: the baseline asks for none",
                     c->paths[i]);
    return status == MOSAIC_OK ? MOSAIC_OK : call_report(session, &err);
}

static enum mosaic_status check_files(struct mosaic *session, struct check *c) {
    struct report_point *const point = malloc(sizeof *point);
    c->documents = calloc(c->count, sizeof *c->documents);
    c->loaded = talloc_zero_array(c->memory, const struct document *, (unsigned)c->count);
    c->now.version = mosaic_version();
    c->now.files.count = c->count;
    c->now.files.items = talloc_zero_array(c->memory, struct baseline_entry, (unsigned)c->count);
    const bool has_memory = point && c->documents && c->loaded && c->now.files.items;
    enum mosaic_status status = has_memory ? MOSAIC_OK : short_of_memory(session);
    for (size_t i = 0; status == MOSAIC_OK && i < c->count; ++i)
        status = check_file(session, c, i, point);
    free(point);
    if (status == MOSAIC_OK)
        baseline_sort(&c->now);
    return status;
}

static enum mosaic_status check_result(struct mosaic *session, struct check *c,
                                       struct mosaic_result **result) {
    const struct check_view view = {.documents = c->loaded,
                                    .document_count = c->count,
                                    .was = c->was,
                                    .now = &c->now,
                                    .settings = &c->settings,
                                    .diags = &session->diags,
                                    .seed = session->seed};
    struct check_counts counts;
    struct status_error err = {0};
    char *text = NULL;
    json_t *const root = build_check(&view, &counts);
    if (!root)
        return short_of_memory(session);
    if (c->settings.update && doc_baseline_save(&c->now, &text, &err) != MOSAIC_OK) {
        json_decref(root);
        return call_report(session, &err);
    }
    const bool is_worse = counts.regressions > 0 && !c->settings.update;
    struct mosaic_result *made = NULL;
    const enum mosaic_status status =
        call_finish(session, root,
                    is_worse ? diag_status(&session->diags, MOSAIC_REGRESSION, NULL,
                                           "%zu regression%s in %zu of %zu file%s",
                                           counts.regressions, counts.regressions > 1 ? "s" : "",
                                           counts.files, c->count, c->count > 1 ? "s" : "")
                             : MOSAIC_OK,
                    &made);
    if (!made) {
        free(text);
        return status;
    }
    made->document = text;
    *result = made;
    return status;
}

enum mosaic_status mosaic_check(struct mosaic *session, const char *const *paths,
                                const char *const *settings, struct mosaic_result **result) {
    call_begin(session);
    struct check c = {.memory = talloc_new(NULL), .paths = paths};
    while (paths && paths[c.count])
        c.count++;
    enum mosaic_status status = c.memory ? MOSAIC_OK : short_of_memory(session);
    if (status == MOSAIC_OK)
        status = read_settings(session, settings, &c.settings);
    if (status == MOSAIC_OK)
        status = check_names(session, &c);
    if (status == MOSAIC_OK)
        status = load_baseline(session, &c);
    if (status == MOSAIC_OK)
        status = check_files(session, &c);
    if (status == MOSAIC_OK)
        status = check_result(session, &c, result);
    for (size_t i = 0; c.documents && i < c.count; ++i)
        document_free(c.documents[i].document);
    free(c.documents);
    talloc_free(c.memory);
    return status;
}
