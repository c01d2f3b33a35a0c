// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic import KIND FILE... */
#include "cli/output.h"
#include "cli/session.h"
#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

static const struct setting_option table[] = {
    {OPTION_CLUSTER, "cluster", NULL},   {OPTION_DEVICE, "device", NULL},
    {OPTION_OVER, "over", NULL},         {OPTION_COLLECTIVE, "collective", NULL},
    {OPTION_RANKS, "ranks", NULL},       {OPTION_RANKS_PER_NODE, "ranks_per_node", NULL},
    {OPTION_SOFTWARE, "software", NULL}, {OPTION_LICENCE, "licence", NULL},
    {OPTION_STRICT, "strict", "on"},     {OPTION_QUANTISATION, "quantisation", NULL},
    {OPTION_SAMPLES, "journal", "on"},
};

enum mosaic_status cmd_import(const struct command *command, const struct option_set *options) {
    struct session session;
    struct settings settings = {NULL, 0, false};
    struct mosaic_result *result = NULL;
    enum mosaic_status written = MOSAIC_OK;
    const char *const path = options->value[OPTION_LAW].text;
    const size_t files = (size_t)options->operand_count - 1;
    const char *const journal = options->value[OPTION_SAMPLES].text;
    if ((path && strcmp(path, "-") == 0) || (journal && strcmp(journal, "-") == 0))
        return command_refuse(command, "standard output is taken by the report");
    const char **const paths = calloc(files + 1, sizeof *paths);
    for (size_t i = 0; paths && i < files; i++)
        paths[i] = options->operands[i + 1];
    settings_options(&settings, options, table, sizeof table / sizeof *table);
    if (path)
        settings_add_name(&settings, path);
    const char *const *const list = settings_list(&settings);
    if (session_begin(&session, options) == MOSAIC_OK) {
        session_report(&session, "import",
                       paths && list ? mosaic_import(session.mosaic, options->operands[0], paths,
                                                     list, &result)
                                     : MOSAIC_INTERNAL);
        if (result && path)
            written = output_text(path, mosaic_result_string(result, "document"));
        if (result && journal && written == MOSAIC_OK)
            written = output_text(journal, mosaic_result_string(result, "journal"));
    }
    settings_free(&settings);
    free(paths);
    const enum mosaic_status status = session_end(&session, result);
    return written != MOSAIC_OK ? written : status;
}
