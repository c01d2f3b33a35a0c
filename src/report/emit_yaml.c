// SPDX-License-Identifier: GPL-3.0-or-later
/* YAML by libyaml's emitter.  Plain style only for strings no reader can take for another type. */
#include "report/emit.h"
#include "report/number.h"

#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { DEPTH_MAX = 64 };

/* 1.1 and 1.2 readers together. */
static const char *const reserved[] = {"y",    "n",     "yes",  "no",  "on", "off",
                                       "true", "false", "null", "nan", "inf"};

static bool is_plain_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(" _./()+-", c));
}

/* Starts with a letter, so it is neither a number nor an indicator. */
static bool is_plain(const char *text) {
    const char first = text[0];
    if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z')))
        return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcasecmp(text, reserved[i]) == 0)
            return false;
    size_t length = 0;
    for (; text[length]; length++)
        if (!is_plain_character(text[length]))
            return false;
    return text[length - 1] != ' ';
}

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

static bool put_scalar(yaml_emitter_t *emitter, const char *text, yaml_scalar_style_t style) {
    yaml_event_t event;
    const bool plain = style == YAML_PLAIN_SCALAR_STYLE;
    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                        (int)strlen(text), plain, !plain, style) &&
           yaml_emitter_emit(emitter, &event);
}

static bool put_string(yaml_emitter_t *emitter, const char *text) {
    return put_scalar(emitter, text,
                      is_plain(text)      ? YAML_PLAIN_SCALAR_STYLE
                      : has_control(text) ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                          : YAML_SINGLE_QUOTED_SCALAR_STYLE);
}

static bool put_atom(yaml_emitter_t *emitter, json_t *node) {
    char text[NUMBER_MAX];
    if (json_is_string(node))
        return put_string(emitter, json_string_value(node));
    if (json_is_integer(node))
        (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(node));
    else if (json_is_real(node))
        (void)number_exact(json_real_value(node), text);
    else
        (void)snprintf(text, sizeof text, "%s",
                       json_is_null(node)   ? "null"
                       : json_is_true(node) ? "true"
                                            : "false");
    return put_scalar(emitter, text, YAML_PLAIN_SCALAR_STYLE);
}

static bool put_node(yaml_emitter_t *emitter, json_t *node, int depth);

static bool put_mapping(yaml_emitter_t *emitter, json_t *object, int depth) {
    yaml_event_t event;
    if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) ||
        !yaml_emitter_emit(emitter, &event))
        return false;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!put_string(emitter, key) || !put_node(emitter, value, depth))
            return false;
    }
    return yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool put_sequence(yaml_emitter_t *emitter, json_t *list, int depth) {
    yaml_event_t event;
    bool flat = true;
    for (size_t i = 0; i < json_array_size(list); i++)
        flat = flat && !json_is_object(json_array_get(list, i)) &&
               !json_is_array(json_array_get(list, i));
    const yaml_sequence_style_t style = flat ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE;
    if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, style) ||
        !yaml_emitter_emit(emitter, &event))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!put_node(emitter, json_array_get(list, i), depth))
            return false;
    return yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool put_node(yaml_emitter_t *emitter, json_t *node, int depth) {
    if (depth >= DEPTH_MAX)
        return false;
    if (json_is_object(node))
        return put_mapping(emitter, node, depth + 1);
    if (json_is_array(node))
        return put_sequence(emitter, node, depth + 1);
    return put_atom(emitter, node);
}

static bool put_document(yaml_emitter_t *emitter, json_t *root) {
    yaml_event_t event;
    return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
           yaml_emitter_emit(emitter, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
           yaml_emitter_emit(emitter, &event) && put_node(emitter, root, 0) &&
           yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event) &&
           yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

enum mosaic_status emit_yaml(json_t *root, FILE *stream, struct status_error *err) {
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter))
        return status_no_memory(err);
    yaml_emitter_set_output_file(&emitter, stream);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1); /* no folding: lines are values */
    const bool done = put_document(&emitter, root);
    yaml_emitter_delete(&emitter);
    if (done)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_INTERNAL, "a result cannot be written as YAML");
}
