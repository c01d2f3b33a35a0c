// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic check FILE... --baseline B.json */
#include "cli/output.h"
#include "cli/session.h"
#include "cli/settings.h"
#include "report/junit.h"
#include "report/result.h"

#include <stdlib.h>
#include <string.h>

static void collect(const struct option_set *options, struct settings *settings) {
    static const struct setting_option table[] = {{OPTION_BASELINE, "baseline", NULL},
                                                  {OPTION_UPDATE, "update", "on"}};
    settings_options(settings, options, table, sizeof table / sizeof *table);
    for (size_t i = 0; i < options->pair_count; i++)
        if (options->pair_of[i] == OPTION_TOLERANCE)
            settings_add_pair(settings, "tolerance.", options->pairs[i]);
}

static const char **paths_of(const struct option_set *options) {
    const size_t count = (size_t)options->operand_count;
    const char **const paths = calloc(count + 1, sizeof *paths);
    for (size_t i = 0; paths && i < count; i++)
        paths[i] = options->operands[i];
    return paths;
}

static enum mosaic_status write_junit(const char *path, const struct mosaic_result *result) {
    struct status_error err = {0};
    struct output output;
    enum mosaic_status status = output_open(&output, path, &err);
    if (status == MOSAIC_OK) {
        junit_write(result->root, output.stream);
        status = output_commit(&output, &err);
    }
    if (status != MOSAIC_OK)
        (void)fprintf(stderr, "mosaic: %s\n", err.message);
    return status;
}

/* A baseline that is not written is no result. */
static enum mosaic_status write_files(const struct session *session,
                                      const struct mosaic_result *result) {
    const struct option_set *const options = session->options;
    enum mosaic_status status = MOSAIC_OK;
    if (options->value[OPTION_UPDATE].given)
        status = output_text(options->value[OPTION_BASELINE].text,
                             mosaic_result_string(result, "document"));
    if (status == MOSAIC_OK && options->value[OPTION_JUNIT].given)
        status = write_junit(options->value[OPTION_JUNIT].text, result);
    if (options->value[OPTION_ANNOTATIONS].given)
        annotations_write(result->root, stderr);
    return status;
}

enum mosaic_status cmd_check(const struct command *command, const struct option_set *options) {
    struct session session;
    struct settings settings = {NULL, 0, false};
    struct mosaic_result *result = NULL;
    const char *const baseline = options->value[OPTION_BASELINE].text;
    if (!baseline)
        return command_refuse(command, "--baseline FILE is needed");
    if (options->value[OPTION_UPDATE].given && strcmp(baseline, "-") == 0)
        return command_refuse(command, "--update writes a file: --baseline cannot be -");
    const char **const paths = paths_of(options);
    if (session_begin(&session, options) == MOSAIC_OK) {
        collect(options, &settings);
        const char *const *const list = settings_list(&settings);
        enum mosaic_status status =
            paths && list ? mosaic_check(session.mosaic, paths, list, &result) : MOSAIC_INTERNAL;
        session_report(&session, "check", status);
        status = result ? write_files(&session, result) : MOSAIC_OK;
        if (status != MOSAIC_OK) {
            session.status = status;
            mosaic_result_free(result);
            result = NULL;
        }
    }
    settings_free(&settings);
    free(paths);
    return session_end(&session, result);
}
