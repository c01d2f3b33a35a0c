// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic validate ROWS.csv */
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

/* Options as the library's settings. */
static const struct {
    enum option_id id;
    const char *key;
} keys[] = {{OPTION_MODELS, "models"},
            {OPTION_CALIBRATION, "calibration"},
            {OPTION_ANCHOR, "anchor"},
            {OPTION_GROUP_BY, "group_by"},
            {OPTION_WORST, "worst"}};
enum { KEYS = sizeof keys / sizeof *keys };

static char *pair_of(const char *key, const char *value) {
    const size_t size = strlen(key) + strlen(value) + sizeof "=";
    char *const pair = malloc(size);
    if (pair)
        (void)snprintf(pair, size, "%s=%s", key, value);
    return pair;
}

/* pairs[] ends with NULL; false when memory is short. */
static bool collect(const struct option_set *options, char *pairs[KEYS + 1]) {
    size_t count = 0;
    for (size_t i = 0; i < KEYS; i++) {
        const struct option_value *const value = &options->value[keys[i].id];
        if (!value->given)
            continue;
        pairs[count] = pair_of(keys[i].key, value->text);
        if (!pairs[count++])
            return false;
    }
    return true;
}

enum mosaic_status cmd_validate(const struct command *command, const struct option_set *options) {
    struct session session;
    struct mosaic_result *result = NULL;
    char *pairs[KEYS + 1] = {NULL};
    (void)command;
    if (session_begin(&session, options) == MOSAIC_OK) {
        enum mosaic_status status = MOSAIC_INTERNAL;
        if (collect(options, pairs))
            status = mosaic_validate(session.mosaic, options->operands[0],
                                     (const char *const *)pairs, &result);
        session_report(&session, "validate", status);
    }
    for (size_t i = 0; i < KEYS; i++)
        free(pairs[i]);
    return session_end(&session, result);
}
