// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic schedules PLAN */
#include "cli/session.h"

static enum mosaic_status call(const struct session *session,
                               const struct mosaic_document *document,
                               struct mosaic_result **result) {
    return mosaic_schedules(session->mosaic, document, result);
}

enum mosaic_status cmd_schedules(const struct command *command, const struct option_set *options) {
    (void)command;
    return session_run(options, "schedules", call);
}
