// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic validate ROWS.csv */
#include "cli/session.h"
#include "cli/settings.h"

static const struct setting_option table[] = {
    {OPTION_MODELS, "models", NULL}, {OPTION_CALIBRATION, "calibration", NULL},
    {OPTION_ANCHOR, "anchor", NULL}, {OPTION_GROUP_BY, "group_by", NULL},
    {OPTION_WORST, "worst", NULL},
};

enum mosaic_status cmd_validate(const struct command *command, const struct option_set *options) {
    struct session session;
    struct mosaic_result *result = NULL;
    struct settings settings = {NULL, 0, false};
    (void)command;
    settings_options(&settings, options, table, sizeof table / sizeof *table);
    const char *const *const list = settings_list(&settings);
    if (session_begin(&session, options) == MOSAIC_OK)
        session_report(&session, "validate",
                       list ? mosaic_validate(session.mosaic, options->operands[0], list, &result)
                            : MOSAIC_INTERNAL);
    settings_free(&settings);
    return session_end(&session, result);
}
