// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic compare A B */
#include "cli/session.h"

#include <string.h>

enum mosaic_status cmd_compare(const struct command *command, const struct option_set *options) {
    struct session session;
    struct mosaic_result *result = NULL;
    if (strcmp(options->operands[0], "-") == 0 && strcmp(options->operands[1], "-") == 0)
        return command_refuse(command, "only one of A and B can be standard input");
    if (session_begin(&session, options) == MOSAIC_OK) {
        struct mosaic_document *const a = session_load(&session, 0);
        struct mosaic_document *const b = a ? session_load(&session, 1) : NULL;
        if (b)
            session_report(&session, "compare", mosaic_compare(session.mosaic, a, b, &result));
        mosaic_document_free(b);
        mosaic_document_free(a);
    }
    return session_end(&session, result);
}
