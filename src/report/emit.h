// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One result tree, four formats.  emit() composes in memory, writes once and flushes, so that a
 * full disk cannot pass for success (MOSAIC_IO) and a failure elsewhere writes nothing.
 *
 * JSON   the tree itself, 17 significant digits, keys in the order they were built.
 * YAML   the same tree; a string that a reader could take for something else is quoted.
 * CSV    mosaic.plan/1: a row per alternative, best first, nested keys joined with dots, lists left
 *        out; mosaic.compare/1: the rows of `terms`; mosaic.lint/1: the rows of `values`;
 *        mosaic.validate/1: the rows of `predictions`; mosaic.fit_steps/1: of `constants`;
 *        mosaic.layout/1: of `layouts`;
 *        mosaic.sweep/1: of `rows`, in fixed columns;
 *        mosaic.schedules/1: of `live_sets`; mosaic.check/1: of `differences`;
 *        mosaic.calibrate/1: of `quantities`; mosaic.drift/1: of `entries`; all else
 *        and a plan without alternatives: rows of key, value, unit.
 * table  a report for a person.
 */
#ifndef MOSAIC_REPORT_EMIT_H
#define MOSAIC_REPORT_EMIT_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

struct emit_options {
    int width;        /* columns of a table, 0 for no limit */
    bool color;       /* bold headings */
    bool show_values; /* mosaic.lint/1: list every value in the table */
};

MOSAIC_MUST_USE enum mosaic_status emit(json_t *root, enum mosaic_format format,
                                        const struct emit_options *options, FILE *stream,
                                        struct status_error *err);

/* The JSON text with a newline at its end; free() it. */
MOSAIC_MUST_USE enum mosaic_status emit_json_text(json_t *root, char **text,
                                                  struct status_error *err);
/* The writers behind emit(); they leave the stream's error flag to the caller. */
MOSAIC_MUST_USE enum mosaic_status emit_json(json_t *root, FILE *stream, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status emit_yaml(json_t *root, FILE *stream, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status emit_csv(json_t *root, FILE *stream, struct status_error *err);
/* A cell of CSV; nothing for NULL. */
void emit_csv_value(json_t *node, FILE *stream);
MOSAIC_MUST_USE enum mosaic_status emit_table(json_t *root, const struct emit_options *options,
                                              FILE *stream, struct status_error *err);

#endif
