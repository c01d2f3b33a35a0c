// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic layout PLAN [--model FILE] [--top N] */
#include "cli/session.h"

enum { TOP = 10 };

static enum mosaic_status call(const struct session *session,
                               const struct mosaic_document *document,
                               struct mosaic_result **result) {
    const struct option_value *const top = &session->options->value[OPTION_TOP];
    return mosaic_layout(session->mosaic, document, top->given ? top->number : TOP, result);
}

enum mosaic_status cmd_layout(const struct command *command, const struct option_set *options) {
    (void)command;
    return session_run(options, "layout", call);
}
