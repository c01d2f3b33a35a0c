// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic check FILE... --baseline B.json */
#include "cli/output.h"
#include "cli/session.h"
#include "report/junit.h"
#include "report/result.h"

#include <stdlib.h>
#include <string.h>

/* Options as the library's settings, ended by NULL. */
struct settings {
    char **pairs;
    size_t count;
};

static bool add(struct settings *settings, const char *before, const char *value) {
    const size_t size = strlen(before) + strlen(value) + 1;
    char *const pair = malloc(size);
    settings->pairs[settings->count] = pair;
    if (!pair)
        return false;
    (void)snprintf(pair, size, "%s%s", before, value);
    settings->count++;
    return true;
}

static bool collect(const struct option_set *options, struct settings *settings) {
    enum { OTHERS = 3 }; /* baseline, update, the end */
    settings->pairs = calloc(options->pair_count + OTHERS, sizeof *settings->pairs);
    bool ok = settings->pairs && add(settings, "baseline=", options->value[OPTION_BASELINE].text);
    if (options->value[OPTION_UPDATE].given)
        ok = ok && add(settings, "update=", "on");
    for (size_t i = 0; ok && i < options->pair_count; i++)
        if (options->pair_of[i] == OPTION_TOLERANCE)
            ok = add(settings, "tolerance.", options->pairs[i]);
    return ok;
}

static void settings_free(struct settings *settings) {
    for (size_t i = 0; i < settings->count; i++)
        free(settings->pairs[i]);
    free(settings->pairs);
}

static const char **paths_of(const struct option_set *options) {
    const size_t count = (size_t)options->operand_count;
    const char **const paths = calloc(count + 1, sizeof *paths);
    for (size_t i = 0; paths && i < count; i++)
        paths[i] = options->operands[i];
    return paths;
}

/* The file appears whole or not at all. */
static enum mosaic_status write_file(const char *path, const struct mosaic_result *result,
                                     void (*write)(const struct mosaic_result *, FILE *)) {
    struct status_error err = {0};
    struct output output;
    enum mosaic_status status = output_open(&output, path, &err);
    if (status == MOSAIC_OK) {
        write(result, output.stream);
        status = output_commit(&output, &err);
    }
    if (status != MOSAIC_OK)
        (void)fprintf(stderr, "mosaic: %s\n", err.message);
    return status;
}

static void write_baseline(const struct mosaic_result *result, FILE *stream) {
    (void)fputs(mosaic_result_string(result, "document"), stream);
}

static void write_junit(const struct mosaic_result *result, FILE *stream) {
    junit_write(result->root, stream);
}

/* A baseline that is not written is no result. */
static enum mosaic_status write_files(const struct session *session,
                                      const struct mosaic_result *result) {
    const struct option_set *const options = session->options;
    enum mosaic_status status = MOSAIC_OK;
    if (options->value[OPTION_UPDATE].given)
        status = write_file(options->value[OPTION_BASELINE].text, result, write_baseline);
    if (status == MOSAIC_OK && options->value[OPTION_JUNIT].given)
        status = write_file(options->value[OPTION_JUNIT].text, result, write_junit);
    if (options->value[OPTION_ANNOTATIONS].given)
        annotations_write(result->root, stderr);
    return status;
}

enum mosaic_status cmd_check(const struct command *command, const struct option_set *options) {
    struct session session;
    struct settings settings = {NULL, 0};
    struct mosaic_result *result = NULL;
    const char *const baseline = options->value[OPTION_BASELINE].text;
    if (!baseline)
        return command_refuse(command, "--baseline FILE is needed");
    if (options->value[OPTION_UPDATE].given && strcmp(baseline, "-") == 0)
        return command_refuse(command, "--update writes a file: --baseline cannot be -");
    const char **const paths = paths_of(options);
    if (session_begin(&session, options) == MOSAIC_OK) {
        enum mosaic_status status = MOSAIC_INTERNAL;
        if (paths && collect(options, &settings))
            status =
                mosaic_check(session.mosaic, paths, (const char *const *)settings.pairs, &result);
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
