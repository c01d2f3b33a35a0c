// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Arguments as text: a bash array of words, quoted where the shell would see more than letters; a
 * TOML file, a table for each name before the last dot; a YAML file of nested mappings.  What
 * stands above is a comment in all three.
 */
#include "report/launch_view.h"

#include "report/emit.h"
#include "report/number.h"
#include "report/result.h"

#include <stdlib.h>
#include <string.h>

/* One line, whatever stands in it. */
static void comment(FILE *out, const char *head, const char *text) {
    (void)fprintf(out, "# %s", head);
    for (; *text; ++text)
        (void)fputc((unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text, out);
    (void)fputc('\n', out);
}

static void comments(FILE *out, json_t *root, const char *head, const char *key) {
    size_t i;
    json_t *item;
    json_array_foreach(result_at(root, key), i, item) {
        comment(out, head, json_string_value(item));
    }
}

static void preamble(FILE *out, json_t *root) {
    char text[STATUS_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s %s, for entry %d of %s", result_text(root, "engine.name"),
                   result_text(root, "engine.version"),
                   (int)json_integer_value(result_at(root, "plan.entry")),
                   result_text(root, "plan.path"));
    comment(out, "", text);
    (void)snprintf(text, sizeof text, "%d processes: %d nodes of %d GPUs",
                   (int)json_integer_value(result_at(root, "processes.gpus")),
                   (int)json_integer_value(result_at(root, "processes.nodes")),
                   (int)json_integer_value(result_at(root, "processes.gpus_per_node")));
    comment(out, "", text);
    comments(out, root, "warning: ", "warnings");
    comments(out, root, "left to you: ", "left");
}

/* ---- atoms ---- */

static const char *plain(const json_t *value, char out[NUMBER_MAX]) {
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (json_is_real(value))
        return number_exact(json_real_value(value), out);
    (void)snprintf(out, NUMBER_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return out;
}

/* ---- the shell ---- */

static bool is_safe(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_./:=,+@%-";
    return text[0] && text[strspn(text, letters)] == '\0';
}

static void quoted(FILE *out, const char *text) {
    if (is_safe(text)) {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('\'', out);
    for (; *text; ++text) {
        if (*text == '\'')
            (void)fputs("'\\''", out);
        else
            (void)fputc(*text, out);
    }
    (void)fputc('\'', out);
}

static void flag(FILE *out, const char *name, const json_t *value) {
    char word[NUMBER_MAX];
    if (name[0] != '-')
        (void)fputs("--", out);
    quoted(out, name);
    if (json_is_true(value))
        return; /* a switch */
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; ++i) {
        (void)fputc(' ', out);
        quoted(out, plain(json_is_array(value) ? json_array_get(value, i) : value, word));
    }
}

/* A text between the quotes of Hydra's grammar, unless it is a plain word there. */
static void hydra(FILE *out, const json_t *value) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
    char word[NUMBER_MAX];
    const char *text = plain(value, word);
    if (!json_is_string(value) || (text[0] && text[strspn(text, letters)] == '\0')) {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('"', out);
    for (; *text; ++text)
        (void)fprintf(out, "%s%c", *text == '"' ? "\\" : "", *text);
    (void)fputc('"', out);
}

/* name=value, name=[a,b] in one word. */
static bool override(FILE *out, const char *name, const json_t *value) {
    char *text = NULL;
    size_t size = 0;
    FILE *const line = open_memstream(&text, &size);
    if (!line)
        return false;
    const bool is_list = json_is_array(value);
    const size_t count = is_list ? json_array_size(value) : 1;
    (void)fprintf(line, "%s=%s", name, is_list ? "[" : "");
    for (size_t i = 0; i < count; ++i) {
        (void)fputs(i ? "," : "", line);
        hydra(line, is_list ? json_array_get(value, i) : value);
    }
    (void)fputs(is_list ? "]" : "", line);
    const bool ok = fclose(line) == 0;
    if (ok)
        quoted(out, text);
    free(text);
    return ok;
}

static bool shell(FILE *out, json_t *list, bool is_flags) {
    bool ok = true;
    size_t i;
    json_t *item;
    (void)fputs("MOSAIC_ARGS=(\n", out);
    json_array_foreach(list, i, item) {
        const char *const name = json_string_value(json_object_get(item, "name"));
        const json_t *const value = json_object_get(item, "value");
        (void)fputs("    ", out);
        if (is_flags)
            flag(out, name, value);
        else
            ok = override(out, name, value) && ok;
        (void)fputc('\n', out);
    }
    (void)fputs(")\n", out);
    return ok;
}

/* ---- TOML ---- */

static void toml_string(FILE *out, const char *text) {
    (void)fputc('"', out);
    for (; *text; ++text) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

static void toml_value(FILE *out, const json_t *value) {
    char word[NUMBER_MAX];
    if (json_is_array(value)) {
        (void)fputc('[', out);
        for (size_t i = 0; i < json_array_size(value); ++i) {
            (void)fputs(i ? ", " : "", out);
            toml_value(out, json_array_get(value, i));
        }
        (void)fputc(']', out);
    } else if (json_is_string(value)) {
        toml_string(out, json_string_value(value));
    } else {
        (void)fputs(plain(value, word), out);
    }
}

static size_t table_of(const char *name) {
    const char *const dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

static bool is_in(const char *name, const char *table, size_t length) {
    return table_of(name) == length && strncmp(name, table, length) == 0;
}

/* The rows of one table. */
static void toml_table(FILE *out, json_t *list, const char *table, size_t length) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        const char *const name = json_string_value(json_object_get(item, "name"));
        if (!is_in(name, table, length))
            continue;
        (void)fprintf(out, "%s = ", name + (length ? length + 1 : 0));
        toml_value(out, json_object_get(item, "value"));
        (void)fputc('\n', out);
    }
}

/* A table is opened once, by the first of its rows. */
static void toml(FILE *out, json_t *list) {
    toml_table(out, list, "", 0);
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const char *const name =
            json_string_value(json_object_get(json_array_get(list, i), "name"));
        const size_t length = table_of(name);
        bool is_first = length > 0;
        for (size_t k = 0; k < i && is_first; ++k)
            is_first = !is_in(json_string_value(json_object_get(json_array_get(list, k), "name")),
                              name, length);
        if (!is_first)
            continue;
        (void)fprintf(out, "\n[%.*s]\n", (int)length, name);
        toml_table(out, list, name, length);
    }
}

/* ---- YAML ---- */

/* Puts a value below the mappings that a dotted name walks through. */
static bool nest(json_t *root, const char *name, json_t *value) {
    for (const char *dot; (dot = strchr(name, '.')) != NULL; name = dot + 1) {
        char key[STATUS_QUOTE_MAX];
        (void)snprintf(key, sizeof key, "%.*s", (int)(dot - name), name);
        if (!json_is_object(json_object_get(root, key)) &&
            json_object_set_new(root, key, json_object()) != 0)
            return false;
        root = json_object_get(root, key);
    }
    return json_object_set(root, name, value) == 0;
}

static bool yaml(FILE *out, json_t *list) {
    json_t *const tree = json_object();
    bool ok = tree != NULL;
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        ok = ok && nest(tree, json_string_value(json_object_get(item, "name")),
                        json_object_get(item, "value"));
    }
    ok = ok && emit_yaml(tree, out, NULL) == MOSAIC_OK;
    json_decref(tree);
    return ok;
}

char *launch_text(json_t *root, enum launch_style style) {
    json_t *const list = result_at(root, "arguments");
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    bool ok = true;
    preamble(out, root);
    if (style == LAUNCH_TOML)
        toml(out, list);
    else if (style == LAUNCH_YAML)
        ok = yaml(out, list);
    else
        ok = shell(out, list, style == LAUNCH_FLAGS);
    ok = fclose(out) == 0 && ok;
    if (ok)
        return text;
    free(text);
    return NULL;
}
