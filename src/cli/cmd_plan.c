// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic plan FILE */
#include "cli/output.h"
#include "cli/session.h"
#include "cli/settings.h"

#include <unistd.h>

static const struct setting_option table[] = {
    {OPTION_CERTIFICATE, "certificate", "on"},
    {OPTION_SENSITIVITY, "sensitivity", "on"},
    {OPTION_MEASURED, "measured", NULL},
    {OPTION_TIME_LIMIT, "time_limit", NULL},
    {OPTION_GEOMETRY_LIMIT, "geometry_limit", NULL},
};

/* What there is to search, where that may take long; to whoever watches. */
static void tell_size(const struct session *session, const struct mosaic_document *document) {
    const double worth_saying = 1e6;
    const bool is_verbose = session->options->value[OPTION_VERBOSE].given;
    struct mosaic_result *lint = NULL;
    double geometries, meshes, searches;
    if (!is_verbose && !isatty(fileno(stderr)))
        return;
    if (mosaic_lint(session->mosaic, document, &lint) == MOSAIC_OK &&
        mosaic_result_number(lint, "space.geometries", &geometries) == MOSAIC_OK &&
        mosaic_result_number(lint, "space.meshes", &meshes) == MOSAIC_OK &&
        mosaic_result_number(lint, "space.searches", &searches) == MOSAIC_OK &&
        (is_verbose || meshes * searches >= worth_saying))
        (void)fprintf(stderr,
                      "mosaic: the space holds %.0f geometries, about %.2g layouts; %.0f %s\n",
                      geometries, meshes, searches, searches > 1.0 ? "searches" : "search");
    mosaic_result_free(lint);
}

static enum mosaic_status call(const struct session *session,
                               const struct mosaic_document *document,
                               struct mosaic_result **result) {
    const struct option_set *const options = session->options;
    struct settings settings = {NULL, 0, false};
    settings_options(&settings, options, table, sizeof table / sizeof *table);
    tell_size(session, document);
    const char *const *const list = settings_list(&settings);
    enum mosaic_status status =
        list ? mosaic_plan(session->mosaic, document, list, result) : MOSAIC_INTERNAL;
    settings_free(&settings);
    if (*result && options->value[OPTION_CERTIFICATE].given) {
        const enum mosaic_status written = output_text(options->value[OPTION_CERTIFICATE].text,
                                                       mosaic_result_string(*result, "document"));
        status = status == MOSAIC_OK ? written : status;
    }
    return status;
}

enum mosaic_status cmd_plan(const struct command *command, const struct option_set *options) {
    (void)command;
    return session_run(options, "plan", call);
}
