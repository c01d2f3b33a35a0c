// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One run of the library on behalf of a command: settings from the options, interrupt, progress,
 * times, diagnostics, and the result on its way out.
 */
#ifndef MOSAIC_CLI_SESSION_H
#define MOSAIC_CLI_SESSION_H

#include "cli/command.h"
#include "cli/terminal.h"

struct session {
    struct mosaic *mosaic;
    const struct option_set *options;
    struct progress progress;
    enum mosaic_status status; /* sticks at the first that is not MOSAIC_OK */
    double mark_s;             /* start of the phase being timed */
};

/* Needs session_end() whatever it returns. */
enum mosaic_status session_begin(struct session *session, const struct option_set *options);
/* SIGINT, and SIGTERM and SIGHUP as schedulers, launchers and terminals send them, once: a second
 * one kills.  NULL: as usual again.  What a shell ignores for us stays ignored. */
void session_catch(void (*handler)(int));
/* Gives a session the settings of the options; session_begin() does so with its own. */
MOSAIC_MUST_USE enum mosaic_status session_apply(struct mosaic *mosaic,
                                                 const struct option_set *options);
/* Loads operand `index`; NULL on failure. */
struct mosaic_document *session_load(struct session *session, int index);
/* Takes the status of the call that is over, and reports its diagnostics and time. */
void session_report(struct session *session, const char *phase, enum mosaic_status status);
/* Writes the result, if there is one, frees it, ends the session; returns the exit status. */
enum mosaic_status session_end(struct session *session, struct mosaic_result *result);

/* One call on the one document that a command takes. */
typedef enum mosaic_status session_call(const struct session *session,
                                        const struct mosaic_document *document,
                                        struct mosaic_result **result);
/* All of a command with one operand: begin, load, call, report, end. */
enum mosaic_status session_run(const struct option_set *options, const char *phase,
                               session_call *call);

#endif
