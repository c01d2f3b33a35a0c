// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic lint FILE */
#include "cli/session.h"

static enum mosaic_status call(const struct session *session,
                               const struct mosaic_document *document,
                               struct mosaic_result **result) {
    return mosaic_lint(session->mosaic, document, result);
}

enum mosaic_status cmd_lint(const struct command *command, const struct option_set *options) {
    (void)command;
    return session_run(options, "lint", call);
}
