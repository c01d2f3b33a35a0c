// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic export PLAN.json [--to ENGINE] [--entry N] */
#include "cli/session.h"
#include "cli/settings.h"

/* In the order of --format: the text in one of the engine's styles, or the result. */
enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_STYLES };

enum mosaic_status cmd_export(const struct command *command, const struct option_set *options) {
    static const struct setting_option table[] = {{OPTION_TO, "to", NULL},
                                                  {OPTION_ENTRY, "entry", NULL}};
    struct session session;
    struct settings settings = {NULL, 0, false};
    struct mosaic_result *result = NULL;
    struct option_set adapted = *options;
    struct option_value *const format = &adapted.value[OPTION_FORMAT];
    (void)command;
    settings_options(&settings, options, table, sizeof table / sizeof *table);
    if (format->number >= FORMAT_STYLES)
        settings_add(&settings, "style", format->text);
    /* The text is what a table of this result is. */
    format->number = format->number == FORMAT_JSON ? MOSAIC_JSON : MOSAIC_TABLE;
    const char *const *const list = settings_list(&settings);
    if (session_begin(&session, &adapted) == MOSAIC_OK)
        session_report(&session, "export",
                       list ? mosaic_export(session.mosaic, options->operands[0], list, &result)
                            : MOSAIC_INTERNAL);
    settings_free(&settings);
    return session_end(&session, result);
}
