// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Options as the library's settings: KEY=VALUE texts, ended by NULL.
 */
#ifndef MOSAIC_CLI_SETTINGS_H
#define MOSAIC_CLI_SETTINGS_H

#include "cli/option.h"

struct settings {
    char **pairs;
    size_t count;
    bool is_short; /* of memory: what was added last is not there */
};

/* Starts from {NULL, 0, false}; settings_free() whatever comes of it. */
void settings_add(struct settings *settings, const char *key, const char *value);
/* A KEY=VALUE under a prefix: "tolerance." and "mfu=1 %". */
void settings_add_pair(struct settings *settings, const char *prefix, const char *pair);
/* "name": what a document in the file of that path is called, the path without folder and .yaml. */
void settings_add_name(struct settings *settings, const char *path);
/* An option and the setting that it stands for: its text, or `value` where there is one. */
struct setting_option {
    enum option_id id;
    const char *key, *value;
};
/* Those that were given. */
void settings_options(struct settings *settings, const struct option_set *options,
                      const struct setting_option *table, size_t count);
/* For the library; NULL when memory is short. */
const char *const *settings_list(const struct settings *settings);
void settings_free(struct settings *settings);

#endif
