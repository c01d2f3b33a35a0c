// SPDX-License-Identifier: GPL-3.0-or-later
/* Settings, samples, sentences of an import. */
#include "doc/import_set.h"

#include "base/suggest.h"
#include "machine/calibration.h"

#include <sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { GROWTH = 64, MANY_WARNINGS = 200 };

const char *import_kind_name(enum import_kind kind) {
#define KIND_NAME(id, name, text) name,
    static const char *const names[IMPORT_KINDS] = {IMPORT_KIND_LIST(KIND_NAME)};
#undef KIND_NAME
    return (unsigned)kind < IMPORT_KINDS ? names[kind] : "unknown";
}

/* ---- settings ---- */

void import_settings_init(struct import_settings *settings) {
    *settings = (struct import_settings){.collective = -1, .name = "imported"};
}

static enum mosaic_status put_number(const char *key, const char *text, int *out,
                                     struct status_error *err) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (!*text || *end || value < 1 || value > CLUSTER_MAX_GPUS)
        return status_set(err, MOSAIC_USAGE, "%s=%s: a whole number within 1 to %d is due", key,
                          text, CLUSTER_MAX_GPUS);
    *out = (int)value;
    return MOSAIC_OK;
}

static enum mosaic_status put_collective(const char *text, int *out, struct status_error *err) {
    for (int i = 0; i < COLLECTIVE_KINDS; i++)
        if (strcmp(text, collective_name((enum collective_kind)i)) == 0) {
            *out = i;
            return MOSAIC_OK;
        }
    char shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_USAGE, "unknown collective '%s'",
                     status_quote(text, shown, sizeof shown));
    status_hint(err, "all_reduce, all_gather, reduce_scatter, all_to_all or point_to_point");
    return MOSAIC_USAGE;
}

static enum mosaic_status put_quantisation(const char *text, const char **out,
                                           struct status_error *err) {
    if (strcmp(text, "within") != 0 && strcmp(text, "apart") != 0)
        return status_set(err, MOSAIC_USAGE, "quantisation is within or apart");
    *out = text;
    return MOSAIC_OK;
}

enum mosaic_status import_settings_put(struct import_settings *settings, const char *pair,
                                       struct status_error *err) {
    const struct {
        const char *key;
        const char **text;
        int *number;
    } keys[] = {{"cluster", &settings->cluster, NULL},
                {"device", &settings->device, NULL},
                {"name", &settings->name, NULL},
                {"over", &settings->over, NULL},
                {"software", &settings->software, NULL},
                {"licence", &settings->licence, NULL},
                {"dtype", &settings->dtype, NULL},
                {"ranks", NULL, &settings->ranks},
                {"ranks_per_node", NULL, &settings->ranks_per_node}};
    static const char collective[] = "collective=", quantisation[] = "quantisation=";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t length = strlen(keys[i].key);
        if (strncmp(pair, keys[i].key, length) != 0 || pair[length] != '=')
            continue;
        if (keys[i].number)
            return put_number(keys[i].key, pair + length + 1, keys[i].number, err);
        *keys[i].text = pair + length + 1;
        return MOSAIC_OK;
    }
    if (strncmp(pair, collective, sizeof collective - 1) == 0)
        return put_collective(pair + sizeof collective - 1, &settings->collective, err);
    if (strncmp(pair, quantisation, sizeof quantisation - 1) == 0)
        return put_quantisation(pair + sizeof quantisation - 1, &settings->quantisation, err);
    if (strcmp(pair, "strict=on") == 0) {
        settings->strict = true;
        return MOSAIC_OK;
    }
    if (strcmp(pair, "journal=on") == 0) {
        settings->journal = true;
        return MOSAIC_OK;
    }
    char shown[STATUS_QUOTE_MAX];
    return status_set(err, MOSAIC_USAGE, "an import takes no setting '%s'",
                      status_quote(pair, shown, sizeof shown));
}

/* ---- what is gathered ---- */

enum mosaic_status import_no_memory(struct import_set *set) {
    return diag_status(set->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

enum mosaic_status import_read(struct import_set *set, const char *path, struct source **source) {
    TRY(source_read(set->memory, path, SOURCE_MAX_BYTES, NULL, source, set->diags));
    struct document_input *const more = talloc_realloc(
        set->memory, set->inputs, struct document_input, (unsigned)set->input_count + 1);
    if (!more)
        return import_no_memory(set);
    set->inputs = more;
    struct document_input *const input = &more[set->input_count];
    input->path = talloc_strdup(set->memory, path);
    if (!input->path)
        return import_no_memory(set);
    (void)SHA256Data((const uint8_t *)(*source)->text, (*source)->size, input->sha256);
    set->input_count++;
    return MOSAIC_OK;
}

enum mosaic_status import_add(struct import_set *set, const struct sample *sample) {
    if (set->count % GROWTH == 0) {
        struct sample *const more = talloc_realloc(set->memory, set->samples, struct sample,
                                                   (unsigned)(set->count + GROWTH));
        if (!more)
            return import_no_memory(set);
        set->samples = more;
    }
    set->samples[set->count++] = *sample;
    return MOSAIC_OK;
}

static void append(void *memory, struct import_texts *list, const char *text) {
    const char **const more =
        talloc_realloc(memory, list->items, const char *, (unsigned)list->count + 1);
    if (!more || !text)
        return; /* a sentence less */
    list->items = more;
    list->items[list->count++] = text;
}

void import_warn(struct import_set *set, const struct source *source, long line, const char *format,
                 ...) {
    va_list args;
    va_start(args, format);
    char *const said = talloc_vasprintf(set->memory, format, args);
    va_end(args);
    if (!said || set->warnings.count >= MANY_WARNINGS)
        return;
    const char *text = said;
    if (source)
        text = line > 0 ? talloc_asprintf(set->memory, "%s:%ld: %s", source->name, line, said)
                        : talloc_asprintf(set->memory, "%s: %s", source->name, said);
    append(set->memory, &set->warnings, text);
}

void import_define(struct import_set *set, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *const text = talloc_vasprintf(set->memory, format, args);
    va_end(args);
    for (size_t i = 0; text && i < set->definitions.count; i++)
        if (strcmp(set->definitions.items[i], text) == 0)
            return;
    append(set->memory, &set->definitions, text);
}

enum mosaic_status import_refuse(struct import_set *set, const struct source *source, long line,
                                 const char *format, ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const struct place place = {.source = source, .line = line, .column = line > 0, .span = 1};
    if (source && line > 0)
        return diag_error(set->diags, &place, "%s", text);
    return source ? diag_error(set->diags, NULL, "%s: %s", source->name, text)
                  : diag_error(set->diags, NULL, "%s", text);
}

enum mosaic_status import_file(struct import_set *set, enum import_kind kind, const char *path) {
    switch (kind) {
    case IMPORT_NCCL_TESTS:
        return import_nccl_tests(set, path);
    case IMPORT_NVBANDWIDTH:
        return import_nvbandwidth(set, path);
    case IMPORT_DEEPEP:
        return import_deepep(set, path);
    case IMPORT_KERNELS:
        return import_kernels(set, path);
    case IMPORT_STEPS:
        return import_steps(set, path);
    case IMPORT_SAMPLES:
        return import_samples(set, path);
    case IMPORT_KINDS:
        break;
    }
    return diag_status(set->diags, MOSAIC_INTERNAL, NULL, "unknown kind of import");
}
