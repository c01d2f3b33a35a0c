// SPDX-License-Identifier: GPL-3.0-or-later
/* One session for all points, which set the same keys each: what one search has learnt of the steps
 * serves the next. */
#include "cli/sweep_point.h"

#include "report/result.h"
#include "report/sweep_view.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct mosaic *volatile running;
static volatile sig_atomic_t stopped;

static void on_interrupt(int signal_number) {
    struct mosaic *const mosaic = running;
    (void)signal_number;
    stopped = 1;
    if (mosaic)
        mosaic_interrupt(mosaic);
}

void sweep_catch_interrupt(void) {
    session_catch(on_interrupt);
}

bool sweep_is_interrupted(void) {
    return stopped != 0;
}

static void show(void *context, double done, double total) {
    const struct sweep_point *const point = context;
    progress_show(point->bar, point->done + (total > 0 ? done / total : 0), point->total);
}

bool sweep_point_begin(struct sweep_point *point) {
    point->mosaic = mosaic_new();
    if (!point->mosaic)
        return false;
    mosaic_on_progress(point->mosaic, show, point);
    running = point->mosaic;
    if (stopped)
        mosaic_interrupt(point->mosaic);
    return true;
}

void sweep_point_end(struct sweep_point *point) {
    running = NULL;
    mosaic_free(point->mosaic);
    free(point->complaint);
}

static enum mosaic_status load(struct sweep_point *point, json_t *values,
                               struct mosaic_document **document) {
    struct mosaic *const mosaic = point->mosaic;
    size_t i;
    json_t *axis;
    TRY(session_apply(mosaic, point->options));
    json_array_foreach(point->vary, i, axis) {
        TRY(mosaic_set(mosaic, json_string_value(json_object_get(axis, "key")),
                       json_string_value(json_array_get(values, i))));
    }
    return mosaic_load(mosaic, point->options->operands[0], document);
}

static bool is_answer(enum mosaic_status status) {
    return status == MOSAIC_OK || status == MOSAIC_NO_PLAN;
}

/* What cannot be predicted is searched: no axis is free where the layout is illegal or absurd, and
 * the search says so. */
static enum mosaic_status evaluate(struct sweep_point *point, json_t *values,
                                   struct mosaic_result **result) {
    struct mosaic *const mosaic = point->mosaic;
    struct mosaic_document *document = NULL;
    enum mosaic_status status = load(point, values, &document);
    if (status == MOSAIC_OK) {
        status = mosaic_predict(mosaic, document, result);
        if (!is_answer(status))
            status = mosaic_plan(mosaic, document, NULL, result);
    }
    mosaic_document_free(document);
    return status;
}

/* The first line that says what is wrong. */
static char *first_error(const char *diagnostics, enum mosaic_status status) {
    static const char mark[] = ": error: ";
    const char *line = diagnostics;
    for (const char *at = diagnostics; *at; at += *at == '\n') {
        const size_t length = strcspn(at, "\n");
        const char *const found = strstr(at, mark);
        if (found && found < at + length) {
            line = at;
            break;
        }
        at += length;
    }
    const size_t length = strcspn(line, "\n");
    return length > 0 ? strndup(line, length) : strdup(mosaic_status_text(status));
}

static json_t *error_row(struct sweep_point *point, enum mosaic_status status) {
    const char *const diagnostics = mosaic_diagnostics(point->mosaic);
    char *const message = first_error(diagnostics, status);
    json_t *const row = message ? sweep_error_row(message) : NULL;
    if (!point->complaint) {
        point->complaint = strdup(*diagnostics ? diagnostics : message ? message : "");
        point->fault = status;
    }
    free(message);
    return row;
}

static bool add_provenance(json_t *row, json_t *result) {
    json_t *const provenance = result_at(result, "provenance");
    return !provenance || json_object_set(row, "provenance", provenance) == 0;
}

static json_t *answer_row(const struct sweep_point *point, const struct mosaic_result *result) {
    char hash[SWEEP_HASH_MAX];
    json_t *const row = sweep_row(result->root);
    if (row && add_provenance(row, result->root) &&
        sweep_inputs(result->root, point->overrides, hash) &&
        json_object_set_new(row, "inputs", json_string(hash)) == 0)
        return row;
    json_decref(row);
    return NULL;
}

enum mosaic_status sweep_point_run(struct sweep_point *point, json_t *values, json_t **row) {
    struct mosaic_result *result = NULL;
    enum mosaic_status status = evaluate(point, values, &result);
    if (status != MOSAIC_INTERRUPTED) {
        *row = result && is_answer(status) ? answer_row(point, result) : error_row(point, status);
        status = *row ? MOSAIC_OK : MOSAIC_INTERNAL;
    }
    mosaic_result_free(result);
    return status;
}

enum mosaic_status sweep_point_check(struct sweep_point *point, json_t *row, bool *is_same) {
    struct mosaic_document *document = NULL;
    struct mosaic_result *result = NULL;
    char hash[SWEEP_HASH_MAX] = "";
    enum mosaic_status status = load(point, json_object_get(row, "values"), &document);
    if (status == MOSAIC_OK)
        status = mosaic_lint(point->mosaic, document, &result);
    if (status == MOSAIC_OK &&
        !(sweep_inputs(result->root, point->overrides, hash) && add_provenance(row, result->root)))
        status = MOSAIC_INTERNAL;
    const char *const was = json_string_value(json_object_get(row, "inputs"));
    *is_same = status == MOSAIC_OK && was && strcmp(was, hash) == 0;
    mosaic_result_free(result);
    mosaic_document_free(document);
    return status == MOSAIC_INTERRUPTED || status == MOSAIC_INTERNAL ? status : MOSAIC_OK;
}
