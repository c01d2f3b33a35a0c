// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic sweep FILE --vary KEY=..., mosaic sweep --merge A.csv B.csv
 *
 * With --format csv --output FILE the rows stand in FILE as they are done, so that a sweep that is
 * stopped can be resumed; at the end FILE is written anew as a whole, in the order of the grid.
 */
#include "cli/output.h"
#include "cli/session.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_point.h"
#include "cli/sweep_rows.h"
#include "report/result.h"
#include "report/sweep_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct sweep {
    struct session session;
    const struct option_set *options;
    struct sweep_view view;
    struct sweep_point point;
    json_t *head;  /* vary and points: what a line of CSV needs besides its row */
    json_t **kept; /* by point - 1: rows that were read back */
    FILE *journal; /* the output while it grows, or NULL */
    struct status_error err;
};

static const char *text_of(const struct sweep *sweep, enum option_id id) {
    return sweep->options->value[id].text;
}

static bool is_given(const struct sweep *sweep, enum option_id id) {
    return sweep->options->value[id].given;
}

static const char *output_file(const struct sweep *sweep) {
    const char *const path = text_of(sweep, OPTION_OUTPUT);
    return path && strcmp(path, "-") != 0 ? path : NULL;
}

static bool is_csv(const struct sweep *sweep) {
    return sweep->options->value[OPTION_FORMAT].number == (long)MOSAIC_CSV;
}

/* ---- what was asked for ---- */

static bool read_shard(const char *text, size_t *shard, size_t *shards) {
    enum { DECIMAL = 10 };
    char *end = NULL;
    if (strspn(text, "0123456789/") != strlen(text) || *text == '/')
        return false;
    const unsigned long index = strtoul(text, &end, DECIMAL);
    if (*end != '/' || end[1] < '0' || end[1] > '9')
        return false;
    const unsigned long of = strtoul(end + 1, &end, DECIMAL);
    *shard = index;
    *shards = of;
    return *end == '\0' && index >= 1 && index <= of && of <= SWEEP_POINTS_MAX;
}

/* NULL, or what is wrong with the command line. */
static const char *misuse(const struct sweep *sweep) {
    const struct option_set *const options = sweep->options;
    size_t pairs = 0;
    for (size_t i = 0; i < options->pair_count; i++)
        pairs += options->pair_of[i] == OPTION_VARY;
    if (is_given(sweep, OPTION_MERGE))
        return options->pair_count > 0 || is_given(sweep, OPTION_RESUME) ||
                       is_given(sweep, OPTION_SHARD)
                   ? "--merge takes tables only: no --vary, --set, --resume or --shard"
                   : NULL;
    if (options->operand_count > 1)
        return "takes one FILE; with --merge, several tables";
    if (pairs == 0)
        return "needs --vary KEY=VALUE,VALUE";
    if (strcmp(options->operands[0], "-") == 0)
        return "FILE cannot be standard input: each point reads it";
    if (is_given(sweep, OPTION_RESUME) && output_file(sweep) && !is_csv(sweep) &&
        strcmp(output_file(sweep), text_of(sweep, OPTION_RESUME)) == 0)
        return "the table to resume would be replaced by another format: add --format csv";
    return NULL;
}

static enum mosaic_status add_override(json_t *list, const char *pair) {
    const size_t length = strcspn(pair, "=");
    json_t *const entry = json_pack("{s:s%, s:s}", "key", pair, length, "value", pair + length + 1);
    return json_array_append_new(list, entry) == 0 ? MOSAIC_OK : MOSAIC_BAD_INPUT;
}

static enum mosaic_status read_options(struct sweep *sweep) {
    const struct option_set *const options = sweep->options;
    struct sweep_view *const view = &sweep->view;
    for (size_t i = 0; i < options->pair_count; i++) {
        if (options->pair_of[i] == OPTION_VARY)
            TRY(sweep_grid_add(view->vary, options->pairs[i], &sweep->err));
        else if (add_override(view->overrides, options->pairs[i]) != MOSAIC_OK)
            return status_set(&sweep->err, MOSAIC_USAGE, "--set: no UTF-8 text");
    }
    view->points = sweep_grid_points(view->vary);
    if (view->points == 0)
        return status_set(&sweep->err, MOSAIC_USAGE, "more than %d points", (int)SWEEP_POINTS_MAX);
    if (is_given(sweep, OPTION_SHARD) &&
        !read_shard(text_of(sweep, OPTION_SHARD), &view->shard, &view->shards))
        return status_set(&sweep->err, MOSAIC_USAGE,
                          "--shard takes I/N, 1/4 to 4/4 for four parts, not '%.40s'",
                          text_of(sweep, OPTION_SHARD));
    return MOSAIC_OK;
}

/* ---- rows that are there already ---- */

static enum mosaic_status check_keys(struct sweep *sweep, const struct sweep_table *table) {
    const char *const path = text_of(sweep, OPTION_RESUME);
    const size_t count = json_array_size(sweep->view.vary);
    const size_t found = json_array_size(table->keys);
    if (found == 0 && json_array_size(table->rows) == 0)
        return MOSAIC_OK; /* stopped before its first line */
    if (found != count)
        return status_set(&sweep->err, MOSAIC_BAD_INPUT, "%s varies %zu keys, --vary %zu", path,
                          found, count);
    for (size_t i = 0; i < count; i++) {
        json_t *const key = json_object_get(json_array_get(sweep->view.vary, i), "key");
        json_t *const other = json_array_get(table->keys, i);
        if (!json_equal(key, other))
            return status_set(&sweep->err, MOSAIC_BAD_INPUT, "%s varies '%s' where --vary has '%s'",
                              path, json_string_value(other), json_string_value(key));
    }
    return MOSAIC_OK;
}

/* Points in error are tried again. */
static enum mosaic_status keep_row(struct sweep *sweep, json_t *row, size_t *foreign) {
    const struct sweep_view *const view = &sweep->view;
    const size_t point = sweep_grid_find(view->vary, json_object_get(row, "values"));
    const char *const status = json_string_value(json_object_get(row, "status"));
    const bool is_ours =
        point > 0 && (point - view->shard) % view->shards == 0 && point >= view->shard;
    *foreign += !is_ours;
    if (!is_ours || sweep->kept[point - 1] || strcmp(status, "error") == 0)
        return MOSAIC_OK;
    bool is_same = false;
    TRY(sweep_point_check(&sweep->point, row, &is_same));
    if (!is_same)
        return status_set(&sweep->err, MOSAIC_BAD_INPUT,
                          "%s: the inputs, --set, --seed or program of its row of point %zu are "
                          "not those of now; without --resume the sweep starts anew",
                          text_of(sweep, OPTION_RESUME), point);
    if (json_object_set_new(row, "point", json_integer((json_int_t)point)) != 0)
        return status_no_memory(&sweep->err);
    sweep->kept[point - 1] = json_incref(row);
    return MOSAIC_OK;
}

static enum mosaic_status read_kept(struct sweep *sweep) {
    const char *const path = text_of(sweep, OPTION_RESUME);
    struct sweep_table table;
    struct stat now;
    if (!path)
        return MOSAIC_OK;
    if (stat(path, &now) != 0 && errno == ENOENT) {
        (void)fprintf(stderr, "mosaic: %s is not there yet: the sweep starts at its first point\n",
                      path);
        return MOSAIC_OK;
    }
    TRY(sweep_rows_read(path, &table, &sweep->err));
    size_t foreign = 0;
    enum mosaic_status status = check_keys(sweep, &table);
    for (size_t i = 0; status == MOSAIC_OK && i < json_array_size(table.rows); i++)
        status = keep_row(sweep, json_array_get(table.rows, i), &foreign);
    if (foreign > 0)
        (void)fprintf(stderr, "mosaic: %zu rows of %s are of other points and left out\n", foreign,
                      path);
    sweep_rows_free(&table);
    return status;
}

/* ---- the output while it grows ---- */

static enum mosaic_status journal_failed(struct sweep *sweep) {
    return status_set(&sweep->err, MOSAIC_IO, "cannot write '%s': %s", output_file(sweep),
                      strerror(errno));
}

/* The rows so far and all that were kept replace the file at once; what follows is appended. */
static enum mosaic_status journal_start(struct sweep *sweep) {
    struct output output;
    struct stat now;
    const char *const path = output_file(sweep);
    if (!path || !is_csv(sweep) || (stat(path, &now) == 0 && !S_ISREG(now.st_mode)))
        return MOSAIC_OK;
    TRY(output_open(&output, path, &sweep->err));
    emit_sweep_names(sweep->head, output.stream);
    const size_t done = json_array_size(sweep->view.rows);
    for (size_t i = 0; i < done; i++)
        emit_sweep_row(sweep->head, json_array_get(sweep->view.rows, i), output.stream);
    for (size_t point = 0; point < sweep->view.points; point++)
        if (sweep->kept[point])
            emit_sweep_row(sweep->head, sweep->kept[point], output.stream);
    TRY(output_commit(&output, &sweep->err));
    sweep->journal = fopen(path, "a");
    return sweep->journal ? MOSAIC_OK : journal_failed(sweep);
}

/* Points that are bad input start no file: perhaps all of them are. */
static enum mosaic_status journal_add(struct sweep *sweep, json_t *row) {
    if (!sweep->journal) {
        const char *const status = json_string_value(json_object_get(row, "status"));
        return strcmp(status, "error") == 0 ? MOSAIC_OK : journal_start(sweep);
    }
    emit_sweep_row(sweep->head, row, sweep->journal);
    return fflush(sweep->journal) == 0 ? MOSAIC_OK : journal_failed(sweep);
}

/* ---- the points ---- */

static enum mosaic_status run_point(struct sweep *sweep, size_t point) {
    json_t *const values = sweep_grid_values(sweep->view.vary, point);
    json_t *row = NULL;
    enum mosaic_status status =
        values ? sweep_point_run(&sweep->point, values, &row) : MOSAIC_INTERNAL;
    if (status == MOSAIC_OK &&
        (json_object_set_new(row, "point", json_integer((json_int_t)point)) != 0 ||
         json_object_set(row, "values", values) != 0 ||
         json_array_append(sweep->view.rows, row) != 0))
        status = MOSAIC_INTERNAL;
    if (status == MOSAIC_OK)
        status = journal_add(sweep, row);
    if (status == MOSAIC_INTERNAL)
        (void)status_no_memory(&sweep->err);
    json_decref(row);
    json_decref(values);
    return status;
}

/* After an interrupt the kept rows still count. */
static enum mosaic_status run_points(struct sweep *sweep) {
    struct sweep_view *const view = &sweep->view;
    for (size_t point = view->shard; point <= view->points; point += view->shards) {
        json_t *const kept = sweep->kept[point - 1];
        if (kept) {
            if (json_array_append(view->rows, kept) != 0)
                return status_no_memory(&sweep->err);
            json_decref(kept);
            sweep->kept[point - 1] = NULL;
        } else if (!view->is_interrupted) {
            const enum mosaic_status status = run_point(sweep, point);
            view->is_interrupted = status == MOSAIC_INTERRUPTED || sweep_is_interrupted();
            if (status != MOSAIC_INTERRUPTED)
                TRY(status);
        }
        sweep->point.done = (double)json_array_size(view->rows);
        progress_show(&sweep->session.progress, sweep->point.done, sweep->point.total);
    }
    return MOSAIC_OK;
}

static enum mosaic_status run_grid(struct sweep *sweep) {
    struct sweep_view *const view = &sweep->view;
    sweep->kept = calloc(view->points, sizeof *sweep->kept);
    sweep->head = json_pack("{s:O, s:I}", "vary", view->vary, "points", (json_int_t)view->points);
    if (!sweep->kept || !sweep->head)
        return status_no_memory(&sweep->err);
    const size_t count =
        view->points < view->shard ? 0 : (view->points - view->shard) / view->shards + 1;
    sweep->point.total = (double)count;
    enum mosaic_status status = read_kept(sweep);
    bool has_kept = false;
    for (size_t i = 0; i < view->points; i++)
        has_kept = has_kept || sweep->kept[i];
    if (status == MOSAIC_OK && has_kept)
        status = journal_start(sweep);
    if (status == MOSAIC_OK)
        status = run_points(sweep);
    if (sweep->journal && fclose(sweep->journal) != 0 && status == MOSAIC_OK)
        status = journal_failed(sweep);
    sweep->journal = NULL;
    return status;
}

/* ---- tables of shards ---- */

/* Puts a row in its place; the same one twice is fine. */
static enum mosaic_status place_row(struct sweep *sweep, const char *path, json_t *row) {
    const size_t point = (size_t)json_integer_value(json_object_get(row, "point"));
    json_t **const place = &sweep->kept[point - 1];
    if (!*place) {
        *place = json_incref(row);
        return MOSAIC_OK;
    }
    return json_equal(*place, row)
               ? MOSAIC_OK
               : status_set(&sweep->err, MOSAIC_BAD_INPUT,
                            "%s: point %zu is in another table with other figures", path, point);
}

static enum mosaic_status join(struct sweep *sweep, const char *path, struct sweep_table *table,
                               json_t **keys) {
    struct sweep_view *const view = &sweep->view;
    if (!*keys)
        *keys = json_incref(table->keys);
    if (view->points == 0 && table->points > 0) {
        view->points = table->points;
        sweep->kept = calloc(view->points, sizeof *sweep->kept);
        if (!sweep->kept)
            return status_no_memory(&sweep->err);
    }
    if (json_array_size(table->keys) > 0 && json_array_size(*keys) > 0 &&
        (!json_equal(*keys, table->keys) || (table->points > 0 && table->points != view->points)))
        return status_set(&sweep->err, MOSAIC_BAD_INPUT,
                          "%s is of another sweep: its keys or its number of points differ from "
                          "the first table's",
                          path);
    for (size_t i = 0; i < json_array_size(table->rows); i++)
        TRY(place_row(sweep, path, json_array_get(table->rows, i)));
    return sweep_add_file(view->inputs, path) ? MOSAIC_OK : status_no_memory(&sweep->err);
}

/* The values of each key in the order of the points, as far as there are rows. */
static enum mosaic_status collect_values(struct sweep *sweep, json_t *keys) {
    size_t i;
    json_t *key;
    json_array_foreach(keys, i, key) {
        json_t *const seen = json_object();
        json_t *const values = json_array();
        bool ok = seen && values;
        size_t at;
        json_t *row;
        json_array_foreach(sweep->view.rows, at, row) {
            json_t *const value = json_array_get(json_object_get(row, "values"), i);
            const char *const text = json_string_value(value);
            if (!json_object_get(seen, text))
                ok = ok && json_object_set(seen, text, value) == 0 &&
                     json_array_append(values, value) == 0;
        }
        json_decref(seen);
        if (!ok || json_array_append_new(sweep->view.vary,
                                         json_pack("{s:O, s:o}", "key", key, "values", values)))
            return status_no_memory(&sweep->err);
    }
    return MOSAIC_OK;
}

static enum mosaic_status merge(struct sweep *sweep) {
    struct sweep_view *const view = &sweep->view;
    json_t *keys = NULL;
    enum mosaic_status status = MOSAIC_OK;
    for (int i = 0; status == MOSAIC_OK && i < sweep->options->operand_count; i++) {
        const char *const path = sweep->options->operands[i];
        struct sweep_table table;
        status = sweep_rows_read(path, &table, &sweep->err);
        if (status != MOSAIC_OK)
            break;
        status = join(sweep, path, &table, &keys);
        sweep_rows_free(&table);
    }
    if (status == MOSAIC_OK && view->points == 0)
        status = status_set(&sweep->err, MOSAIC_BAD_INPUT, "the tables hold no row");
    for (size_t i = 0; status == MOSAIC_OK && i < view->points; i++)
        if (sweep->kept[i] && json_array_append(view->rows, sweep->kept[i]) != 0)
            status = status_no_memory(&sweep->err);
    if (status == MOSAIC_OK)
        status = collect_values(sweep, keys);
    json_decref(keys);
    return status;
}

/* ---- the end ---- */

static bool every_row_is(json_t *rows, const char *status) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (strcmp(json_string_value(json_object_get(row, "status")), status) != 0)
            return false;
    }
    return true;
}

/* Inputs in the order of the points, whichever of them were kept. */
static bool gather_inputs(struct sweep *sweep) {
    size_t i;
    json_t *row;
    json_array_foreach(sweep->view.rows, i, row) {
        if (!sweep_add_inputs(sweep->view.inputs, row))
            return false;
    }
    return true;
}

static void say_missing(json_t *missing) {
    enum { NAMED = 10 };
    const size_t count = json_array_size(missing);
    (void)fprintf(stderr, "mosaic: %zu points are missing:", count);
    for (size_t i = 0; i < count && i < NAMED; i++)
        (void)fprintf(stderr, " %" JSON_INTEGER_FORMAT,
                      json_integer_value(json_array_get(missing, i)));
    (void)fputs(count > NAMED ? " ...\n" : "\n", stderr);
}

static enum mosaic_status verdict(const struct sweep *sweep, json_t *root) {
    json_t *const missing = json_object_get(root, "missing");
    const char *const status = result_text(root, "status");
    if (missing && sweep->view.is_interrupted)
        return MOSAIC_INTERRUPTED;
    if (missing)
        say_missing(missing);
    if (missing || strcmp(status, "error") == 0)
        return MOSAIC_BAD_INPUT;
    return strcmp(status, "infeasible") == 0 ? MOSAIC_NO_PLAN : MOSAIC_OK;
}

static enum mosaic_status finish(struct sweep *sweep, struct mosaic_result **result) {
    struct sweep_view *const view = &sweep->view;
    const size_t rows = json_array_size(view->rows);
    if (sweep->point.complaint && !view->is_interrupted && every_row_is(view->rows, "error")) {
        (void)fputs(sweep->point.complaint, stderr);
        (void)fprintf(stderr, "mosaic: %s\n",
                      rows > 1 ? "no point can be planned; the first says why"
                               : "the point cannot be planned");
        if (view->shards == 1)
            return sweep->point.fault;
    }
    if (rows == 0 && view->is_interrupted && output_file(sweep))
        return MOSAIC_INTERRUPTED; /* what is in the file is worth more */
    if (!gather_inputs(sweep))
        return status_no_memory(&sweep->err);
    json_t *const root = build_sweep(view);
    const enum mosaic_status end = root ? verdict(sweep, root) : MOSAIC_INTERNAL;
    TRY(result_new(root, end, result, &sweep->err));
    return end;
}

static enum mosaic_status run(struct sweep *sweep, struct mosaic_result **result) {
    enum mosaic_status status = is_given(sweep, OPTION_MERGE) ? merge(sweep) : run_grid(sweep);
    if (status == MOSAIC_INTERRUPTED) {
        sweep->view.is_interrupted = true; /* while reading what is there */
        status = MOSAIC_OK;
    }
    if (status == MOSAIC_OK)
        status = finish(sweep, result);
    progress_end(&sweep->session.progress);
    if (*sweep->err.message)
        (void)fprintf(stderr, "mosaic: %s%s%s\n", sweep->err.message, *sweep->err.hint ? "; " : "",
                      sweep->err.hint);
    return status;
}

static void sweep_free(struct sweep *sweep) {
    for (size_t i = 0; sweep->kept && i < sweep->view.points; i++)
        json_decref(sweep->kept[i]);
    free(sweep->kept);
    sweep_point_end(&sweep->point);
    json_decref(sweep->head);
    json_decref(sweep->view.vary);
    json_decref(sweep->view.rows);
    json_decref(sweep->view.inputs);
    json_decref(sweep->view.overrides);
}

enum mosaic_status cmd_sweep(const struct command *command, const struct option_set *options) {
    struct sweep sweep = {.options = options};
    struct mosaic_result *result = NULL;
    const char *const wrong = misuse(&sweep);
    if (wrong)
        return command_refuse(command, wrong);
    sweep.view = (struct sweep_view){.vary = json_array(),
                                     .rows = json_array(),
                                     .inputs = json_array(),
                                     .overrides = json_array(),
                                     .shard = 1,
                                     .shards = 1,
                                     .seed = 1};
    if (is_given(&sweep, OPTION_SEED))
        sweep.view.seed = (unsigned long)options->value[OPTION_SEED].number;
    if (!is_given(&sweep, OPTION_MERGE) && read_options(&sweep) != MOSAIC_OK) {
        char message[OPTION_MESSAGE_MAX];
        (void)snprintf(message, sizeof message, "%.180s%s%.60s", sweep.err.message,
                       *sweep.err.hint ? "; " : "", sweep.err.hint);
        sweep_free(&sweep);
        return command_refuse(command, message);
    }
    if (session_begin(&sweep.session, options) == MOSAIC_OK) {
        sweep_catch_interrupt();
        sweep.point = (struct sweep_point){.options = options,
                                           .vary = sweep.view.vary,
                                           .overrides = sweep.view.overrides,
                                           .bar = &sweep.session.progress};
        const enum mosaic_status status =
            sweep_point_begin(&sweep.point) ? run(&sweep, &result) : status_no_memory(&sweep.err);
        session_report(&sweep.session, "sweep", MOSAIC_OK); /* its time */
        sweep.session.status = status;
    }
    const enum mosaic_status status = session_end(&sweep.session, result);
    sweep_free(&sweep);
    return status;
}
