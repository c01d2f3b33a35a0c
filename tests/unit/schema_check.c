// SPDX-License-Identifier: GPL-3.0-or-later
/* A small JSON schema validator for the tests. */
#include "schema_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_MAX_HERE = 512, FILES_MAX = 8, DEPTH_MAX = 64 };

struct file {
    char path[PATH_MAX_HERE];
    json_t *root;
};

struct check {
    struct file files[FILES_MAX];
    size_t file_count;
    char *message;
};

/* Where in the value the check stands. */
struct at {
    char path[PATH_MAX_HERE];
    int depth;
};

static bool check_node(struct check *check, size_t file, json_t *schema, json_t *value,
                       const struct at *at);

static bool fail(struct check *check, const struct at *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(struct check *check, const struct at *at, const char *format, ...) {
    char text[SCHEMA_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(check->message, SCHEMA_MESSAGE_MAX, "%.200s: %s",
                   *at->path ? at->path : "(root)", text);
    return false;
}

static struct at below(const struct at *at, const char *key, size_t index) {
    struct at next = {.depth = at->depth + 1};
    if (key)
        (void)snprintf(next.path, sizeof next.path, "%.400s%s%.100s", at->path,
                       *at->path ? "." : "", key);
    else
        (void)snprintf(next.path, sizeof next.path, "%.400s[%zu]", at->path, index);
    return next;
}

static bool open_file(struct check *check, const char *path, size_t *index) {
    json_error_t error;
    for (size_t i = 0; i < check->file_count; i++) {
        if (strcmp(check->files[i].path, path) == 0) {
            *index = i;
            return true;
        }
    }
    if (check->file_count == FILES_MAX)
        return false;
    struct file *const file = &check->files[check->file_count];
    file->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!file->root) {
        (void)snprintf(check->message, SCHEMA_MESSAGE_MAX, "schema %.200s: %.200s", path,
                       error.text);
        return false;
    }
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    *index = check->file_count++;
    return true;
}

/* "other.json#/definitions/name" */
static bool check_ref(struct check *check, size_t file, const char *ref, json_t *value,
                      const struct at *at) {
    const char *const hash = strchr(ref, '#');
    if (!hash)
        return fail(check, at, "schema: $ref without '#': %s", ref);
    if (hash != ref) {
        char path[PATH_MAX_HERE];
        const char *const slash = strrchr(check->files[file].path, '/');
        const int folder = slash ? (int)(slash + 1 - check->files[file].path) : 0;
        (void)snprintf(path, sizeof path, "%.*s%.*s", folder, check->files[file].path,
                       (int)(hash - ref), ref);
        if (!open_file(check, path, &file))
            return false;
    }
    json_t *node = check->files[file].root;
    for (const char *part = hash + 1; node && *part == '/';) {
        char key[PATH_MAX_HERE];
        const size_t length = strcspn(++part, "/");
        (void)snprintf(key, sizeof key, "%.*s", (int)length, part);
        node = json_object_get(node, key);
        part += length;
    }
    return node ? check_node(check, file, node, value, at)
                : fail(check, at, "schema: dead $ref %s", ref);
}

static bool is_type(const char *type, json_t *value) {
    const bool whole = json_is_real(value) && fabs(fmod(json_real_value(value), 1)) <= 0;
    return (strcmp(type, "object") == 0 && json_is_object(value)) ||
           (strcmp(type, "array") == 0 && json_is_array(value)) ||
           (strcmp(type, "string") == 0 && json_is_string(value)) ||
           (strcmp(type, "number") == 0 && json_is_number(value)) ||
           (strcmp(type, "integer") == 0 && (json_is_integer(value) || whole)) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(value)) ||
           (strcmp(type, "null") == 0 && json_is_null(value));
}

static bool check_type(struct check *check, json_t *types, json_t *value, const struct at *at) {
    if (json_is_string(types))
        return is_type(json_string_value(types), value) ||
               fail(check, at, "is no %s", json_string_value(types));
    for (size_t i = 0; i < json_array_size(types); i++)
        if (is_type(json_string_value(json_array_get(types, i)), value))
            return true;
    return fail(check, at, "has none of its types");
}

static bool check_enum(struct check *check, json_t *list, json_t *value, const struct at *at) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    return fail(check, at, "has no allowed value: '%s'",
                json_is_string(value) ? json_string_value(value) : "(no string)");
}

static bool check_required(struct check *check, json_t *keys, json_t *value, const struct at *at) {
    for (size_t i = 0; json_is_object(value) && i < json_array_size(keys); i++) {
        const char *const key = json_string_value(json_array_get(keys, i));
        if (!json_object_get(value, key))
            return fail(check, at, "lacks '%s'", key);
    }
    return true;
}

static bool check_properties(struct check *check, size_t file, json_t *schema, json_t *value,
                             const struct at *at) {
    json_t *const properties = json_object_get(schema, "properties");
    json_t *const other = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    if (!json_is_object(value))
        return true;
    json_object_foreach(value, key, member) {
        const struct at next = below(at, key, 0);
        json_t *const known = json_object_get(properties, key);
        if (known && !check_node(check, file, known, member, &next))
            return false;
        if (!known && json_is_false(other))
            return fail(check, &next, "is not allowed");
        if (!known && json_is_object(other) && !check_node(check, file, other, member, &next))
            return false;
    }
    return true;
}

static bool check_items(struct check *check, size_t file, json_t *items, json_t *value,
                        const struct at *at) {
    for (size_t i = 0; i < json_array_size(value); i++) {
        const struct at next = below(at, NULL, i);
        if (!check_node(check, file, items, json_array_get(value, i), &next))
            return false;
    }
    return true;
}

/* minimum and the like: numbers by value, strings and lists by length. */
static bool check_limit(struct check *check, const char *key, double limit, json_t *value,
                        const struct at *at) {
    double size = json_number_value(value);
    const bool items = strstr(key, "Items") != NULL;
    const bool length = strstr(key, "Length") != NULL;
    if (items ? !json_is_array(value) : length ? !json_is_string(value) : !json_is_number(value))
        return true;
    if (items)
        size = (double)json_array_size(value);
    if (length)
        size = (double)json_string_length(value);
    const bool fine = strcmp(key, "exclusiveMinimum") == 0 ? size > limit
                      : strncmp(key, "min", 3) == 0        ? size >= limit
                                                           : size <= limit;
    return fine || fail(check, at, "%g breaks %s %g", size, key, limit);
}

static bool check_any(struct check *check, size_t file, json_t *schemas, json_t *value,
                      const struct at *at) {
    for (size_t i = 0; i < json_array_size(schemas); i++)
        if (check_node(check, file, json_array_get(schemas, i), value, at))
            return true;
    char last[SCHEMA_MESSAGE_MAX];
    (void)snprintf(last, sizeof last, "%s", check->message);
    return fail(check, at, "fits no case of anyOf; the last: %.150s", last);
}

static bool is_annotation(const char *key) {
    static const char *const known[] = {"$schema", "$id", "title", "description", "definitions"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

static bool is_limit(const char *key) {
    static const char *const known[] = {"minimum",  "maximum",   "exclusiveMinimum", "minItems",
                                        "maxItems", "minLength", "maxLength"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

static bool check_keyword(struct check *check, size_t file, const char *key, json_t *argument,
                          json_t *value, const struct at *at) {
    if (strcmp(key, "$ref") == 0)
        return check_ref(check, file, json_string_value(argument), value, at);
    if (strcmp(key, "type") == 0)
        return check_type(check, argument, value, at);
    if (strcmp(key, "enum") == 0)
        return check_enum(check, argument, value, at);
    if (strcmp(key, "const") == 0)
        return json_equal(argument, value) || fail(check, at, "is not the constant");
    if (strcmp(key, "required") == 0)
        return check_required(check, argument, value, at);
    if (strcmp(key, "items") == 0)
        return check_items(check, file, argument, value, at);
    if (strcmp(key, "anyOf") == 0)
        return check_any(check, file, argument, value, at);
    if (is_limit(key))
        return check_limit(check, key, json_number_value(argument), value, at);
    return is_annotation(key) || fail(check, at, "schema: unknown keyword '%s'", key);
}

static bool check_node(struct check *check, size_t file, json_t *schema, json_t *value,
                       const struct at *at) {
    const char *key;
    json_t *argument;
    if (at->depth > DEPTH_MAX)
        return fail(check, at, "too deep");
    json_object_foreach(schema, key, argument) {
        if (strcmp(key, "properties") == 0 || strcmp(key, "additionalProperties") == 0)
            continue;
        if (!check_keyword(check, file, key, argument, value, at))
            return false;
    }
    return check_properties(check, file, schema, value, at);
}

bool schema_check_file(const char *schema_path, json_t *value, char message[SCHEMA_MESSAGE_MAX]) {
    struct check check = {.message = message};
    const struct at root = {.depth = 0};
    size_t file = 0;
    const bool fine = open_file(&check, schema_path, &file) &&
                      check_node(&check, file, check.files[file].root, value, &root);
    for (size_t i = 0; i < check.file_count; i++)
        json_decref(check.files[i].root);
    return fine;
}
