// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic explain PLAN --layout AXES [--model FILE] */
#include "cli/session.h"

static enum mosaic_status call(const struct session *session,
                               const struct mosaic_document *document,
                               struct mosaic_result **result) {
    return mosaic_explain(session->mosaic, document, session->options->value[OPTION_LAYOUT].text,
                          result);
}

enum mosaic_status cmd_explain(const struct command *command, const struct option_set *options) {
    if (!options->value[OPTION_LAYOUT].given)
        return command_refuse(command, "--layout is missing: tp=8,pp=4,ep=8 and the like");
    return session_run(options, "explain", call);
}
