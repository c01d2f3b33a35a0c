// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * CSV with the quoting of RFC 4180 and one newline a row.  A list of objects becomes a table whose
 * columns are the keys of all rows, in order of first appearance; any other result becomes rows of
 * key, value, unit.
 */
#include "report/emit.h"
#include "report/number.h"
#include "report/result.h"
#include "report/sweep_view.h"

#include <string.h>

enum { DEPTH_MAX = 16, KEY_MAX = 256 };

static void put_field(FILE *stream, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        (void)fputs(text, stream);
        return;
    }
    (void)fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            (void)fputc('"', stream);
        (void)fputc(*text, stream);
    }
    (void)fputc('"', stream);
}

void emit_csv_value(json_t *node, FILE *stream) {
    char text[NUMBER_MAX];
    if (json_is_string(node))
        put_field(stream, json_string_value(node));
    else if (json_is_integer(node))
        (void)fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
    else if (json_is_real(node))
        (void)fputs(number_exact(json_real_value(node), text), stream);
    else if (json_is_boolean(node))
        (void)fputs(json_is_true(node) ? "true" : "false", stream);
}

static const char *unit_of(const char *key) {
    static const struct {
        const char *end, *unit;
    } units[] = {
        {"tokens_per_s_per_gpu", "token/s"},
        {"flop_per_s", "FLOP/s"},
        {"bytes_per_s", "byte/s"},
        {"flops_per_token", "FLOP/token"},
        {"causal", "FLOP/token"},
        {"full", "FLOP/token"},
        {"six_n", "FLOP/token"},
        {"flops", "FLOP"},
        {"_flop", "FLOP"},
        {"_bytes", "byte"},
        {"_s", "s"},
        {"days", "day"},
        {"tokens", "token"},
        {"loss", "nat/token"},
        {"_nats", "nat/token"},
    };
    const size_t length = strlen(key);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t end = strlen(units[i].end);
        if (length >= end && strcmp(key + length - end, units[i].end) == 0)
            return units[i].unit;
    }
    return "";
}

/* Calls `visit` for every scalar below `node` with its dotted key. */
struct walk {
    void (*visit)(struct walk *walk, const char *key, json_t *node);
    void *context;
    bool lists; /* go into lists: key[0].name */
    bool failed;
};

static void walk_node(struct walk *walk, const char *key, json_t *node, int depth) {
    if (depth >= DEPTH_MAX) {
        walk->failed = true;
        return;
    }
    char path[KEY_MAX];
    if (json_is_object(node)) {
        const char *name;
        json_t *value;
        json_object_foreach(node, name, value) {
            const int n = snprintf(path, sizeof path, "%s%s%s", key, *key ? "." : "", name);
            if (n < 0 || (size_t)n >= sizeof path)
                walk->failed = true;
            else
                walk_node(walk, path, value, depth + 1);
        }
    } else if (json_is_array(node)) {
        for (size_t i = 0; walk->lists && i < json_array_size(node); i++) {
            const int n = snprintf(path, sizeof path, "%s[%zu]", key, i);
            if (n < 0 || (size_t)n >= sizeof path)
                walk->failed = true;
            else
                walk_node(walk, path, json_array_get(node, i), depth + 1);
        }
    } else {
        walk->visit(walk, key, node);
    }
}

static void print_row(struct walk *walk, const char *key, json_t *node) {
    FILE *const stream = walk->context;
    put_field(stream, key);
    (void)fputc(',', stream);
    emit_csv_value(node, stream);
    (void)fprintf(stream, ",%s\n", json_is_number(node) ? unit_of(key) : "");
}

static void collect_column(struct walk *walk, const char *key, json_t *node) {
    json_t *const columns = walk->context;
    (void)node;
    if (!json_object_get(columns, key) && json_object_set_new(columns, key, json_true()) != 0)
        walk->failed = true;
}

/* json_object_get cannot follow dots, and a key of the tree never holds one. */
static void put_table_row(FILE *stream, json_t *columns, json_t *row) {
    const char *key;
    json_t *unused;
    bool first = true;
    json_object_foreach(columns, key, unused) {
        if (!first)
            (void)fputc(',', stream);
        first = false;
        json_t *const value = result_at(row, key);
        if (value)
            emit_csv_value(value, stream);
    }
    (void)fputc('\n', stream);
}

static enum mosaic_status put_table(json_t *rows, FILE *stream, struct status_error *err) {
    json_t *columns = json_object();
    if (!columns)
        return status_no_memory(err);
    struct walk walk = {.visit = collect_column, .context = columns};
    for (size_t i = 0; i < json_array_size(rows); i++)
        walk_node(&walk, "", json_array_get(rows, i), 0);
    const char *key;
    json_t *unused;
    bool first = true;
    json_object_foreach(columns, key, unused) {
        if (!first)
            (void)fputc(',', stream);
        first = false;
        put_field(stream, key);
    }
    (void)fputc('\n', stream);
    for (size_t i = 0; i < json_array_size(rows); i++)
        put_table_row(stream, columns, json_array_get(rows, i));
    json_decref(columns);
    return walk.failed ? status_set(err, MOSAIC_INTERNAL, "a result cannot be written as CSV")
                       : MOSAIC_OK;
}

enum mosaic_status emit_csv(json_t *root, FILE *stream, struct status_error *err) {
    static const struct {
        const char *schema, *rows;
    } tables[] = {
        {"mosaic.plan/1", "alternatives"},   {"mosaic.compare/1", "terms"},
        {"mosaic.lint/1", "values"},         {"mosaic.validate/1", "predictions"},
        {"mosaic.fit_steps/1", "constants"}, {"mosaic.layout/1", "layouts"},
        {"mosaic.schedules/1", "live_sets"}, {"mosaic.check/1", "differences"},
        {"mosaic.import/1", "entries"},      {"mosaic.calibrate/1", "quantities"},
        {"mosaic.drift/1", "entries"},
    };
    const char *const schema = result_text(root, "schema");
    if (schema && strcmp(schema, "mosaic.sweep/1") == 0) {
        emit_sweep_csv(root, stream);
        return MOSAIC_OK;
    }
    for (size_t i = 0; schema && i < sizeof tables / sizeof *tables; i++) {
        json_t *const rows = result_at(root, tables[i].rows);
        if (strcmp(schema, tables[i].schema) == 0 && json_array_size(rows) > 0)
            return put_table(rows, stream, err);
    }
    struct walk walk = {.visit = print_row, .context = stream, .lists = true};
    (void)fputs("key,value,unit\n", stream);
    walk_node(&walk, "", root, 0);
    return walk.failed ? status_set(err, MOSAIC_INTERNAL, "a result cannot be written as CSV")
                       : MOSAIC_OK;
}
