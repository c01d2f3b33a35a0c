// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Where a result goes: standard output, or a file that appears complete or not at all (written
 * beside its place and renamed; a device or pipe is written in place).
 */
#ifndef MOSAIC_CLI_OUTPUT_H
#define MOSAIC_CLI_OUTPUT_H

#include "base/status.h"

#include <stdbool.h>

struct output {
    FILE *stream;
    char *path;      /* where it ends up; NULL for standard output */
    char *temporary; /* where it is until then, or NULL */
};

/* path NULL or "-" is standard output. */
enum mosaic_status output_open(struct output *output, const char *path, struct status_error *err);
/* Closes; on success the file is in its place. */
enum mosaic_status output_commit(struct output *output, struct status_error *err);
/* Closes and leaves what was there before. */
void output_abandon(struct output *output);
/* A whole file of text, or what was there before; MOSAIC_IO with a message on standard error. */
enum mosaic_status output_text(const char *path, const char *text);
/* Makes the directory, unless it is there. */
enum mosaic_status output_directory(const char *path, struct status_error *err);
/* Flushes standard output at the end of the program: MOSAIC_IO, with a message on standard error,
 * when something did not arrive. */
enum mosaic_status output_check_stdout(void);

#endif
