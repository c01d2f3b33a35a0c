// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Up to 20 diagnostics with place, excerpt and hint; the rest is counted.  Each holds a copy of its
 * excerpt, so a list outlives the sources that it speaks of.  Printed in GNU form:
 *   cluster.yaml:12:5: error: unknown key 'bandwith' in 'tiers[1]'; did you mean 'bandwidth'?
 *      12 |     bandwith: 400 Gb/s
 *         |     ^~~~~~~~
 */
#ifndef MOSAIC_TEXT_DIAG_H
#define MOSAIC_TEXT_DIAG_H

#include "text/source.h"

enum { DIAG_MAX = 20, DIAG_EXCERPT_MAX = 432, DIAG_EXCERPT_COLUMNS = 100 };

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE };

struct diag {
    enum diag_level level;
    enum mosaic_status status; /* MOSAIC_OK for a warning or a note */
    char file[STATUS_FILE_MAX];
    long line, column;
    char message[STATUS_TEXT_MAX];
    char hint[STATUS_TEXT_MAX];
    char excerpt[DIAG_EXCERPT_MAX]; /* printable, cut around the column; "" when none */
    int caret, span;                /* cells before the caret in the excerpt, cells marked */
};

struct diag_list {
    struct diag items[DIAG_MAX];
    size_t count;              /* items in use */
    size_t errors, warnings;   /* all that were reported, also those beyond the 20 */
    size_t dropped;            /* reported but not kept */
    enum mosaic_status status; /* of the first error, MOSAIC_OK when there is none */
};

void diag_init(struct diag_list *list);

/* Report; place may be NULL.  The error's status is MOSAIC_BAD_INPUT and comes back as the result.
 */
enum mosaic_status diag_error(struct diag_list *list, const struct place *place, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));
void diag_warning(struct diag_list *list, const struct place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(struct diag_list *list, const struct place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Report an error of another kind, e.g. MOSAIC_IO; returns status. */
enum mosaic_status diag_status(struct diag_list *list, enum mosaic_status status,
                               const struct place *place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Report what a lower function said, at this place unless it brings its own; returns its status. */
enum mosaic_status diag_from_error(struct diag_list *list, const struct place *place,
                                   const struct status_error *err);
/* Give the diagnostic just reported a hint. */
void diag_hint(struct diag_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The first error as a status_error; its status comes back, MOSAIC_OK when there is none. */
enum mosaic_status diag_to_error(const struct diag_list *list, struct status_error *err);
/* All of it as text for a person, each line ended; NULL when memory is short. */
char *diag_text(void *memory, const struct diag_list *list, bool colour);

#endif
