// SPDX-License-Identifier: GPL-3.0-or-later
/* A list of texts that grows. */
#include "cli/settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void add(struct settings *settings, const char *before, const char *between,
                const char *after) {
    const size_t size = strlen(before) + strlen(between) + strlen(after) + 1;
    char **const grown = realloc(settings->pairs, (settings->count + 2) * sizeof *grown);
    char *const pair = malloc(size);
    if (grown)
        settings->pairs = grown;
    if (!grown || !pair) {
        free(pair);
        settings->is_short = true;
        return;
    }
    (void)snprintf(pair, size, "%s%s%s", before, between, after);
    grown[settings->count++] = pair;
    grown[settings->count] = NULL;
}

void settings_add(struct settings *settings, const char *key, const char *value) {
    add(settings, key, "=", value);
}

void settings_add_pair(struct settings *settings, const char *prefix, const char *pair) {
    add(settings, prefix, "", pair);
}

void settings_add_name(struct settings *settings, const char *path) {
    static const char suffix[] = ".yaml";
    char name[NAME_MAX + 1];
    const char *const slash = strrchr(path, '/');
    (void)snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    const size_t length = strlen(name);
    if (length > sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0)
        name[length - (sizeof suffix - 1)] = '\0';
    if (name[0])
        settings_add(settings, "name", name);
}

void settings_options(struct settings *settings, const struct option_set *options,
                      const struct setting_option *table, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct option_value *const given = &options->value[table[i].id];
        if (given->given)
            settings_add(settings, table[i].key, table[i].value ? table[i].value : given->text);
    }
}

const char *const *settings_list(const struct settings *settings) {
    static const char *const none[] = {NULL};
    if (settings->is_short)
        return NULL;
    return settings->pairs ? (const char *const *)settings->pairs : none;
}

void settings_free(struct settings *settings) {
    for (size_t i = 0; i < settings->count; i++)
        free(settings->pairs[i]);
    free(settings->pairs);
    *settings = (struct settings){NULL, 0, false};
}
