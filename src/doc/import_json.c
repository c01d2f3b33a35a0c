// SPDX-License-Identifier: GPL-3.0-or-later
/* Objects among other output. */
#include "doc/import_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A brace begins an object when a line or another object ends before it. */
static bool may_begin(const char *text, size_t at) {
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t'))
        at--;
    return at == 0 || text[at - 1] == '\n' || text[at - 1] == '\r' || text[at - 1] == '}' ||
           text[at - 1] == ':';
}

enum mosaic_status import_json_next(struct import_set *set, const struct source *source, size_t *at,
                                    json_t **object, long *line) {
    *object = NULL;
    for (size_t i = *at; i < source->size; i++) {
        if (source->text[i] != '{' || !may_begin(source->text, i))
            continue;
        json_error_t wrong;
        json_t *const value =
            json_loadb(source->text + i, source->size - i, JSON_DISABLE_EOF_CHECK, &wrong);
        *line = source_place(source, i, 1).line;
        if (value) {
            *at = i + (size_t)wrong.position;
            *object = value;
            return MOSAIC_OK;
        }
        if (json_error_code(&wrong) == json_error_premature_end_of_input)
            return import_refuse(set, source, *line,
                                 "the JSON that begins here ends with the file: the run was cut");
        if (source->text[i + 1] == '"' || source->text[i + 1] == '\n')
            return import_refuse(set, source, *line + wrong.line - 1, "not JSON: %s", wrong.text);
    }
    *at = source->size;
    return MOSAIC_OK;
}

double import_json_number(const json_t *value) {
    if (json_is_number(value))
        return json_number_value(value);
    if (!json_is_string(value))
        return (double)NAN;
    const char *const text = json_string_value(value);
    char *end = NULL;
    const double number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(number) ? number : (double)NAN;
}
