// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One error with its place.  Every fallible function returns enum mosaic_status and fills the
 * caller's struct status_error, which has a fixed size so that reporting cannot fail itself.
 * On failure the out-parameters of a function are untouched.
 */
#ifndef MOSAIC_BASE_STATUS_H
#define MOSAIC_BASE_STATUS_H

#include "mosaic.h"

enum { STATUS_FILE_MAX = 256, STATUS_TEXT_MAX = 512, STATUS_QUOTE_MAX = 64 };

struct status_error {
    enum mosaic_status status;
    char file[STATUS_FILE_MAX];    /* "" when there is no file */
    long line, column;             /* from 1; 0 when unknown */
    char message[STATUS_TEXT_MAX]; /* one line, no newline */
    char hint[STATUS_TEXT_MAX];    /* what to do about it, or "" */
};

/* Set status and message, clear the rest; returns status, so that `return status_set(...)` reads
 * well. */
enum mosaic_status status_set(struct status_error *err, enum mosaic_status status,
                              const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Add a hint to an error already set. */
void status_hint(struct status_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Put "context: " before the message of an error already set. */
void status_wrap(struct status_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Copy a text to be quoted in a message, cut between characters, control bytes as '?'; returns
 * buffer. */
const char *status_quote(const char *text, char *buffer, size_t size);
/* The usual report of short memory. */
enum mosaic_status status_no_memory(struct status_error *err);

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const enum mosaic_status try_status = (call);                                              \
        if (try_status != MOSAIC_OK)                                                               \
            return try_status;                                                                     \
    } while (0)

/* Needs a variable `status` and a label `out`. */
#define TRY_GOTO(call)                                                                             \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != MOSAIC_OK)                                                                   \
            goto out;                                                                              \
    } while (0)

#endif
