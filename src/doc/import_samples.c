// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Samples as probes answered them: a journal (a JSON object a line; a probe's first line has its
 * device and software), or the `measurements` of a calibration document.
 */
#include "doc/import_json.h"

#include "text/yaml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

/* ---- a journal ---- */

static enum mosaic_status take_hello(struct import_set *set, const struct source *source, long line,
                                     json_t *hello) {
    struct status_error err;
    const json_t *const device = json_object_get(hello, "device");
    const char *const name = json_string_value(json_object_get(device, "name"));
    json_t *const software = json_object_get(hello, "software");
    if (name && !set->device[0])
        (void)snprintf(set->device, sizeof set->device, "%s", name);
    if (record_read(hello, &set->record, &err) != MOSAIC_OK)
        return import_refuse(set, source, line, "%s", err.message);
    if (set->record.is_set && set->count > 0)
        return import_refuse(set, source, line, "a recorded set stands alone: import it by itself");
    if (set->software[0])
        return MOSAIC_OK;
    for (void *at = json_object_iter(software); at; at = json_object_iter_next(software, at)) {
        const char *const version = json_string_value(json_object_iter_value(at));
        const size_t used = strlen(set->software);
        if (version)
            (void)snprintf(set->software + used, sizeof set->software - used, "%s%s %s",
                           used ? ", " : "", json_object_iter_key(at), version);
    }
    return MOSAIC_OK;
}

/* Members that are not the sample's own: a probe may say more than it must. */
static enum mosaic_status take_sample(struct import_set *set, const struct source *source,
                                      json_t *object, long line) {
    static const char *const own[] = {"quantity", "time_s", "rounds", "verified"};
    const char *const name = json_string_value(json_object_get(object, "quantity"));
    int quantity = 0;
    while (quantity < SAMPLE_QUANTITIES && name &&
           strcmp(sample_kind((enum sample_quantity)quantity)->name, name) != 0)
        quantity++;
    json_t *const kept = json_object();
    for (size_t i = 0; kept && i < sizeof own / sizeof *own; i++)
        (void)json_object_set(kept, own[i], json_object_get(object, own[i]));
    for (int i = 0; kept && quantity < SAMPLE_QUANTITIES &&
                    i < sample_kind((enum sample_quantity)quantity)->key_count;
         i++) {
        const char *const key = sample_kind((enum sample_quantity)quantity)->keys[i].name;
        (void)json_object_set(kept, key, json_object_get(object, key));
    }
    char *const text = kept ? json_dumps(kept, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(kept);
    if (!text)
        return import_no_memory(set);
    struct sample s;
    struct status_error err;
    const enum mosaic_status status = sample_parse(text, strlen(text), NULL, &s, &err);
    free(text);
    if (status != MOSAIC_OK)
        return import_refuse(set, source, line, "%s%s%s", err.message, err.hint[0] ? "; " : "",
                             err.hint);
    return import_add(set, &s);
}

static enum mosaic_status take_line(struct import_set *set, const struct source *source, long line,
                                    const char *start, size_t size) {
    json_error_t wrong;
    json_t *const object = json_loadb(start, size, JSON_REJECT_DUPLICATES, &wrong);
    enum mosaic_status status = MOSAIC_OK;
    const char *const refused = json_string_value(json_object_get(object, "refused"));
    const char *const said = json_string_value(json_object_get(object, "text"));
    if (!json_is_object(object)) {
        set->rows++;
        set->refused++;
        import_warn(set, source, line, "no sample: %s", object ? "not an object" : wrong.text);
    } else if (json_object_get(object, "protocol")) {
        status = take_hello(set, source, line, object);
    } else if (refused) {
        set->rows++;
        set->refused++;
        import_warn(set, source, line, "the probe refused (%s)%s%s", refused, said ? ": " : "",
                    said ? said : "");
    } else if (json_object_get(object, "lost")) {
        set->rows++;
        set->refused++;
        import_warn(set, source, line, "the probe was lost over it: %s",
                    json_string_value(json_object_get(object, "lost"))
                        ? json_string_value(json_object_get(object, "lost"))
                        : "");
    } else if (json_object_get(object, "time_s")) {
        set->rows++;
        status = take_sample(set, source, object, line);
    }
    json_decref(object);
    return status;
}

/* ---- a document ---- */

static enum mosaic_status take_document(struct import_set *set, struct source *source) {
    struct yaml_tree *tree = NULL;
    TRY(yaml_tree_parse(set->memory, source, &tree, set->diags));
    const struct node *const list = node_find(tree->root, "measurements");
    if (!list || list->kind != NODE_SEQUENCE || list->count == 0)
        return import_refuse(set, source, 0, "the document keeps no measurements");
    for (size_t i = 0; i < list->count; i++) {
        const struct node *const item = list->items[i];
        struct sample s;
        struct status_error err;
        if (i == 0 && item->kind == NODE_SCALAR && record_is(item->text)) {
            TRY(take_line(set, source, item->place.line, item->text, strlen(item->text)));
            continue;
        }
        set->rows++;
        if (item->kind != NODE_SCALAR)
            return diag_error(set->diags, &item->place, "a sample is a quoted line of JSON");
        if (sample_parse(item->text, strlen(item->text), NULL, &s, &err) != MOSAIC_OK)
            return diag_from_error(set->diags, &item->place, &err);
        TRY(import_add(set, &s));
    }
    const struct node *const device = node_find(tree->root, "device");
    if (device && device->kind == NODE_SCALAR && !set->device[0])
        (void)snprintf(set->device, sizeof set->device, "%s", device->text);
    const struct node *const software = node_at(tree->root, "entries[0].software");
    if (software && software->kind == NODE_SCALAR && !set->software[0])
        (void)snprintf(set->software, sizeof set->software, "%s", software->text);
    return MOSAIC_OK;
}

enum mosaic_status import_samples(struct import_set *set, const char *path) {
    struct source *source = NULL;
    const char *start = NULL;
    size_t size = 0;
    TRY(import_read(set, path, &source));
    if (set->record.is_set)
        return import_refuse(set, source, 0,
                             "the file before is a recorded set, which stands alone");
    const size_t before = set->count;
    const char *const brace = source->text + strspn(source->text, " \t\r\n");
    if (*brace != '{' && strstr(source->text, "mosaic-calibration/1"))
        return take_document(set, source);
    for (long line = 1; source_line(source, line, &start, &size); line++) {
        size_t blank = 0;
        while (blank < size && (start[blank] == ' ' || start[blank] == '\t'))
            blank++;
        if (blank < size && start[blank] != '#')
            TRY(take_line(set, source, line, start, size));
    }
    return set->count > before ? MOSAIC_OK
                               : import_refuse(set, source, 0, "no sample of a probe is in it");
}
