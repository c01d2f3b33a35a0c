// SPDX-License-Identifier: GPL-3.0-or-later
/* The result of `sweep`: mosaic.sweep/1, and its rows as CSV, which a stopped sweep reads back. */
#include "report/emit.h"
#include "report/put.h"
#include "report/result.h"
#include "report/sweep_view.h"
#include "report/table.h"
#include "report/version.h"

#include <sha2.h>
#include <string.h>

const struct sweep_column sweep_columns[] = {
    {"status", NULL, true},
    {"message", NULL, true},
    {"layers", "geometry.layers", false},
    {"hidden", "geometry.hidden", false},
    {"experts", "geometry.experts", false},
    {"top_k", "geometry.top_k", false},
    {"granularity", "geometry.granularity", false},
    {"sparsity", "geometry.sparsity", false},
    {"n_total", "geometry.n_total", false},
    {"n_active", "geometry.n_active", false},
    {"tp", "layout.tp", false},
    {"cp", "layout.cp", false},
    {"pp", "layout.pp", false},
    {"vpp", "layout.vpp", false},
    {"ep", "layout.ep", false},
    {"etp", "layout.etp", false},
    {"dp", "layout.dp", false},
    {"micro_batch", "layout.micro_batch", false},
    {"recompute", "layout.recompute", true},
    {"layout", NULL, true},
    {"tokens", "tokens", false},
    {"loss", "loss", false},
    {"days", "days", false},
    {"gpu_hours", "gpu_hours", false},
    {"cost_usd", "cost_usd", false},
    {"step_time_s", "prediction.step_time_s", false},
    {"mfu", "prediction.mfu", false},
    {"tokens_per_s_per_gpu", "prediction.tokens_per_s_per_gpu", false},
    {"memory_bytes", "prediction.memory.reserved_bytes", false},
    {"verdict", "prediction.memory.verdict", true},
    {"gap_nats", NULL, false},
    {"inputs", NULL, true},
};
const size_t sweep_column_count = COUNT_OF(sweep_columns);

static bool put_copy(json_t *row, const char *key, json_t *value) {
    return !value || json_object_set(row, key, value) == 0;
}

/* A prediction that needed no search says `ok` or `infeasible`, a plan its own status. */
static const char *status_of(json_t *result) {
    const char *const status = result_text(result, "status");
    return !status || strcmp(status, "ok") == 0 ? "predicted" : status;
}

json_t *sweep_row(json_t *result) {
    static const char no_room[] = "the layout does not fit in memory";
    json_t *const best = result_at(result, "best");
    json_t *const point = best ? best : result;
    json_t *const layout = result_at(point, "layout");
    json_t *const row = json_object();
    const char *const status = status_of(result);
    const char *message = result_text(result, "infeasible.message");
    if (!message && layout && strcmp(status, "infeasible") == 0)
        message = no_room;
    bool ok = put(row, "status", json_string(status)) &&
              (!message || put(row, "message", json_string(message)));
    for (size_t i = 0; ok && i < sweep_column_count; i++)
        if (sweep_columns[i].path)
            ok = put_copy(row, sweep_columns[i].name, result_at(point, sweep_columns[i].path));
    char text[LABEL_MAX];
    if (ok && layout)
        ok = put(row, "layout", json_string(table_layout_text(layout, text)));
    return whole_or_null(row, ok && put_copy(row, "gap_nats", result_at(result, "proof.gap_nats")));
}

json_t *sweep_error_row(const char *message) {
    return json_pack("{s:s, s:s}", "status", "error", "message", message);
}

static void hash_text(SHA2_CTX *hash, const char *text) {
    SHA256Update(hash, (const uint8_t *)text, strlen(text) + 1);
}

bool sweep_inputs(json_t *result, json_t *overrides, char hash[SWEEP_HASH_MAX]) {
    SHA2_CTX context;
    char seed[NUMBER_MAX];
    size_t i;
    json_t *entry;
    json_t *const inputs = result_at(result, "provenance.inputs");
    if (!inputs)
        return false;
    SHA256Init(&context);
    hash_text(&context, mosaic_version());
    hash_text(&context, version_build());
    (void)snprintf(seed, sizeof seed, "%" JSON_INTEGER_FORMAT,
                   json_integer_value(result_at(result, "provenance.seed")));
    hash_text(&context, seed);
    json_array_foreach(overrides, i, entry) {
        hash_text(&context, text_at(entry, "key"));
        hash_text(&context, text_at(entry, "value"));
    }
    json_array_foreach(inputs, i, entry) {
        hash_text(&context, text_at(entry, "sha256"));
    }
    return SHA256End(&context, hash) != NULL;
}

/* Files that some point reads and another does not come in the order of the points. */
static bool add_input(json_t *inputs, json_t *input) {
    size_t i;
    json_t *entry;
    json_array_foreach(inputs, i, entry) {
        if (json_equal(entry, input))
            return true;
    }
    return json_array_append(inputs, input) == 0;
}

bool sweep_add_inputs(json_t *inputs, json_t *result) {
    size_t i;
    json_t *entry;
    bool ok = true;
    json_array_foreach(result_at(result, "provenance.inputs"), i, entry) {
        ok = ok && add_input(inputs, entry);
    }
    return ok;
}

bool sweep_add_file(json_t *inputs, const char *path) {
    char hash[SWEEP_HASH_MAX];
    if (!SHA256File(path, hash))
        return true; /* nothing that has a digest */
    json_t *const input = json_pack("{s:s, s:s}", "path", path, "sha256", hash);
    const bool ok = input && add_input(inputs, input);
    json_decref(input);
    return ok;
}

/* Points of the shard that have no row. */
static json_t *missing_points(const struct sweep_view *view) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    size_t at = 0;
    for (size_t point = view->shard; ok && point <= view->points; point += view->shards) {
        json_t *const row = json_array_get(view->rows, at);
        if (row && (size_t)json_integer_value(json_object_get(row, "point")) == point)
            at++;
        else
            ok = json_array_append_new(list, json_integer((json_int_t)point)) == 0;
    }
    return whole_or_null(list, ok);
}

/* Of all rows: a plan outweighs what has none, and that what cannot be planned. */
static const char *outcome(json_t *rows) {
    bool has_answer = json_array_size(rows) == 0;
    size_t i;
    json_t *row;
    if (has_answer)
        return "ok"; /* a shard without points */
    json_array_foreach(rows, i, row) {
        const char *const status = text_at(row, "status");
        const bool is_error = strcmp(status, "error") == 0;
        if (!is_error && strcmp(status, "infeasible") != 0)
            return "ok";
        has_answer = has_answer || !is_error;
    }
    return has_answer ? "infeasible" : "error";
}

/* The same keys in the same order, whether a row was computed or read back. */
static json_t *ordered_row(json_t *from) {
    json_t *const row = json_object();
    bool ok = row && put_copy(row, "point", json_object_get(from, "point")) &&
              put_copy(row, "values", json_object_get(from, "values"));
    for (size_t i = 0; ok && i < sweep_column_count; i++)
        ok = put_copy(row, sweep_columns[i].name, json_object_get(from, sweep_columns[i].name));
    return whole_or_null(row, ok);
}

static json_t *ordered_rows(json_t *from) {
    json_t *const rows = json_array();
    bool ok = rows != NULL;
    for (size_t i = 0; ok && i < json_array_size(from); i++)
        ok = json_array_append_new(rows, ordered_row(json_array_get(from, i))) == 0;
    return whole_or_null(rows, ok);
}

json_t *build_sweep(const struct sweep_view *view) {
    json_t *const missing = missing_points(view);
    const bool is_whole = json_array_size(missing) == 0;
    const char *const status = is_whole               ? outcome(view->rows)
                               : view->is_interrupted ? "interrupted"
                                                      : "incomplete";
    json_t *const root =
        missing ? json_pack("{s:s, s:{s:s, s:s, s:I, s:O, s:O}, s:s, s:O, s:I}", "schema",
                            "mosaic.sweep/1", "provenance", "version", mosaic_version(), "build",
                            version_build(), "seed", (json_int_t)view->seed, "inputs", view->inputs,
                            "overrides", view->overrides, "status", status, "vary", view->vary,
                            "points", (json_int_t)view->points)
                : NULL;
    bool ok = root != NULL;
    if (ok && view->shards > 1)
        ok = put(root, "shard",
                 json_pack("{s:I, s:I}", "index", (json_int_t)view->shard, "of",
                           (json_int_t)view->shards));
    if (ok && !is_whole)
        ok = put_copy(root, "missing", missing);
    json_decref(missing);
    return whole_or_null(root, ok && put(root, "rows", ordered_rows(view->rows)));
}

void emit_sweep_names(json_t *root, FILE *stream) {
    size_t i;
    json_t *axis;
    (void)fputs("point,points", stream);
    json_array_foreach(json_object_get(root, "vary"), i, axis) {
        (void)fputc(',', stream);
        emit_csv_value(json_object_get(axis, "key"), stream);
    }
    for (i = 0; i < sweep_column_count; i++)
        (void)fprintf(stream, ",%s", sweep_columns[i].name);
    (void)fputc('\n', stream);
}

void emit_sweep_row(json_t *root, json_t *row, FILE *stream) {
    size_t i;
    json_t *value;
    emit_csv_value(json_object_get(row, "point"), stream);
    (void)fputc(',', stream);
    emit_csv_value(json_object_get(root, "points"), stream);
    json_array_foreach(json_object_get(row, "values"), i, value) {
        (void)fputc(',', stream);
        emit_csv_value(value, stream);
    }
    for (i = 0; i < sweep_column_count; i++) {
        (void)fputc(',', stream);
        emit_csv_value(json_object_get(row, sweep_columns[i].name), stream);
    }
    (void)fputc('\n', stream);
}

void emit_sweep_csv(json_t *root, FILE *stream) {
    size_t i;
    json_t *row;
    emit_sweep_names(root, stream);
    json_array_foreach(json_object_get(root, "rows"), i, row) {
        emit_sweep_row(root, row, stream);
    }
}
