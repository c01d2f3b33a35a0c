// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic lint FILE */
#include "cli/session.h"

enum mosaic_status cmd_lint(const struct command *command, const struct option_set *options) {
    struct session session;
    struct mosaic_result *result = NULL;
    (void)command;
    if (session_begin(&session, options) == MOSAIC_OK) {
        struct mosaic_document *const document = session_load(&session, 0);
        if (document)
            session_report(&session, "lint", mosaic_lint(session.mosaic, document, &result));
        mosaic_document_free(document);
    }
    return session_end(&session, result);
}
