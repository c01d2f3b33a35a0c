// SPDX-License-Identifier: GPL-3.0-or-later
/* Key paths into a result, and the part of mosaic.h that reads results. */
#include "report/result.h"
#include "report/emit.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 128, INDEX_MAX = 1000000 };

enum mosaic_status result_new(json_t *root, enum mosaic_status status, struct mosaic_result **out,
                              struct status_error *err) {
    struct mosaic_result *result = root ? malloc(sizeof *result) : NULL;
    if (!result) {
        json_decref(root);
        return status_no_memory(err);
    }
    result->root = root;
    result->status = status;
    result->document = NULL;
    *out = result;
    return MOSAIC_OK;
}

void mosaic_result_free(struct mosaic_result *result) {
    if (!result)
        return;
    json_decref(result->root);
    free(result->document);
    free(result);
}

/* Reads "[12]" at *path; moves past it. */
static json_t *step_index(json_t *list, const char **path) {
    const char *at = *path + 1;
    size_t index = 0;
    if (*at < '0' || *at > '9')
        return NULL;
    for (; *at >= '0' && *at <= '9'; at++) {
        index = index * 10 + (size_t)(*at - '0');
        if (index > INDEX_MAX)
            return NULL;
    }
    if (*at != ']')
        return NULL;
    *path = at + 1;
    return json_array_get(list, index);
}

static json_t *step_key(json_t *object, const char **path) {
    const size_t length = strcspn(*path, ".[");
    char key[KEY_MAX];
    if (length == 0 || length >= sizeof key)
        return NULL;
    memcpy(key, *path, length);
    key[length] = '\0';
    *path += length;
    return json_object_get(object, key);
}

json_t *result_at(json_t *root, const char *path) {
    json_t *node = root;
    bool first = true;
    while (node && *path) {
        if (*path == '[') {
            node = step_index(node, &path);
        } else {
            if (!first) {
                if (*path != '.')
                    return NULL;
                path++;
            }
            node = step_key(node, &path);
        }
        first = false;
    }
    return node;
}

bool result_real(json_t *root, const char *path, double *value) {
    const json_t *node = result_at(root, path);
    if (!json_is_number(node))
        return false;
    *value = json_number_value(node);
    return true;
}

const char *result_text(json_t *root, const char *path) {
    return json_string_value(result_at(root, path));
}

enum mosaic_status mosaic_result_number(const struct mosaic_result *result, const char *path,
                                        double *value) {
    if (!result || !path || !value)
        return MOSAIC_USAGE;
    return result_real(result->root, path, value) ? MOSAIC_OK : MOSAIC_USAGE;
}

const char *mosaic_result_string(const struct mosaic_result *result, const char *path) {
    if (!result || !path)
        return NULL;
    return result->document && strcmp(path, "document") == 0 ? result->document
                                                             : result_text(result->root, path);
}

size_t mosaic_result_length(const struct mosaic_result *result, const char *path) {
    return result && path ? json_array_size(result_at(result->root, path)) : 0;
}

char *mosaic_result_json(const struct mosaic_result *result) {
    char *text = NULL;
    if (!result || emit_json_text(result->root, &text, NULL) != MOSAIC_OK)
        return NULL;
    return text;
}

enum mosaic_status mosaic_result_write(const struct mosaic_result *result,
                                       enum mosaic_format format, int width, FILE *stream) {
    if (!result || !stream || width < 0)
        return MOSAIC_USAGE;
    const struct emit_options options = {.width = width};
    return emit(result->root, format, &options, stream, NULL);
}
