// SPDX-License-Identifier: GPL-3.0-or-later
/* Records read from and written as the hello of a probe. */
#include "doc/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char protocol[] = "mosaic-probe/1"; /* measure/protocol.h */
static const char quantise[] = "quantise";
enum { LINE_MOST = 4096 };

/* ---- reading ---- */

static enum mosaic_status take_text(const json_t *object, const char *key, char out[RECORD_TEXT],
                                    struct status_error *err) {
    const json_t *const value = json_object_get(object, key);
    if (!value)
        return MOSAIC_OK;
    if (!json_is_string(value) || json_string_length(value) >= RECORD_TEXT)
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' of a record is no text below %d bytes", key,
                          (int)RECORD_TEXT);
    (void)snprintf(out, RECORD_TEXT, "%s", json_string_value(value));
    return MOSAIC_OK;
}

static enum mosaic_status take_origin(const json_t *origins, const char *quantity,
                                      struct record_origin *out, struct status_error *err) {
    const json_t *const origin = json_object_get(origins, quantity);
    if (!origin)
        return MOSAIC_OK;
    TRY(take_text(origin, "source", out->source, err));
    TRY(take_text(origin, "licence", out->licence, err));
    TRY(take_text(origin, "software", out->software, err));
    return take_text(origin, "method", out->method, err);
}

enum mosaic_status record_read(const json_t *hello, struct record *out, struct status_error *err) {
    const json_t *const record = json_object_get(hello, "record");
    *out = (struct record){.is_set = false};
    if (!record)
        return MOSAIC_OK;
    char includes[RECORD_TEXT] = "";
    const json_t *const origins = json_object_get(record, "origins");
    if (!json_is_object(record) || !json_is_object(origins))
        return status_set(err, MOSAIC_BAD_INPUT, "a record has 'origins' by quantity");
    TRY(take_text(record, "source", out->source, err));
    TRY(take_text(record, "gemm_includes", includes, err));
    out->gemm_quantises = strcmp(includes, quantise) == 0;
    if (includes[0] && !out->gemm_quantises)
        return status_set(err, MOSAIC_BAD_INPUT, "'gemm_includes' of a record is \"%s\" or absent",
                          quantise);
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        TRY(take_origin(origins, sample_kind((enum sample_quantity)q)->name, &out->origin[q], err));
    out->is_set = true;
    return MOSAIC_OK;
}

bool record_is(const char *line) {
    json_t *const hello = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    struct status_error unused;
    struct record record;
    const bool is = record_read(hello, &record, &unused) == MOSAIC_OK && record.is_set;
    json_decref(hello);
    return is;
}

void record_facts(const struct record *record, const struct cluster *cluster,
                  const struct calibration *base, const char *device, struct sample_facts *out) {
    *out = (struct sample_facts){.base_dtype = precision_name(PRECISION_BF16), .base = base};
    if (cluster)
        sample_facts_of(cluster, base, out);
    else
        (void)snprintf(out->device, sizeof out->device, "%s", device);
    out->gemm_quantises = record->gemm_quantises;
}

/* ---- writing ---- */

static bool put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static bool put_text(json_t *object, const char *key, const char *text) {
    return !text[0] || put(object, key, json_string(text));
}

static json_t *origin_object(const struct record_origin *origin) {
    json_t *const object = json_object();
    if (put_text(object, "source", origin->source) &&
        put_text(object, "licence", origin->licence) &&
        put_text(object, "software", origin->software) &&
        put_text(object, "method", origin->method))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *record_object(const struct record *record, const bool *has) {
    json_t *const object = json_object(), *const origins = json_object();
    bool ok = object && origins && put_text(object, "source", record->source) &&
              (!record->gemm_quantises || put_text(object, "gemm_includes", quantise));
    for (int q = 0; ok && q < SAMPLE_QUANTITIES; ++q)
        ok = !has[q] || put(origins, sample_kind((enum sample_quantity)q)->name,
                            origin_object(&record->origin[q]));
    if (ok && json_object_set(object, "origins", origins) == 0) {
        json_decref(origins);
        return object;
    }
    json_decref(object);
    json_decref(origins);
    return NULL;
}

/* "NCCL 2.29.2": a name and its version. */
static json_t *software_object(const struct record *record, const bool *has) {
    json_t *const object = json_object();
    bool ok = object != NULL;
    for (int q = 0; ok && q < SAMPLE_QUANTITIES; ++q) {
        const char *const text = record->origin[q].software, *const space = strrchr(text, ' ');
        char name[RECORD_TEXT];
        (void)snprintf(name, sizeof name, "%.*s", (int)(space ? space - text : (long)strlen(text)),
                       text);
        if (has[q] && name[0])
            ok = put(object, name, json_string(space ? space + 1 : ""));
    }
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *hello_object(const struct record *record, const char *device, const bool *has) {
    json_t *const object = json_pack("{s:s, s:s, s:{s:s, s:i}}", "protocol", protocol, "probe",
                                     "mosaic-import", "device", "name", device, "count", 1);
    json_t *const list = json_array();
    bool ok = object && list && put(object, "software", software_object(record, has));
    for (int q = 0; ok && q < SAMPLE_QUANTITIES; ++q)
        ok = !has[q] || json_array_append_new(
                            list, json_string(sample_kind((enum sample_quantity)q)->name)) == 0;
    ok = ok && json_object_set(object, "quantities", list) == 0 &&
         put_text(object, "shapes", "recorded") &&
         put(object, "record", record_object(record, has));
    json_decref(list);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

enum mosaic_status record_hello(const struct record *record, const char *device,
                                const struct sample *samples, size_t count, char **text,
                                struct status_error *err) {
    bool has[SAMPLE_QUANTITIES] = {false};
    for (size_t i = 0; i < count; ++i)
        has[samples[i].quantity] = true;
    json_t *const hello = hello_object(record, device, has);
    *text = hello ? json_dumps(hello, 0) : NULL;
    json_decref(hello);
    return *text ? MOSAIC_OK : status_no_memory(err);
}

static int compare(const void *a, const void *b) {
    const struct sample *const one = *(const struct sample *const *)a;
    const struct sample *const other = *(const struct sample *const *)b;
    const int order = sample_compare_keys(one, other);
    return order ? order : (one->median_s > other->median_s) - (one->median_s < other->median_s);
}

const struct sample **record_order(const struct sample *samples, size_t count) {
    const struct sample **const order = malloc((count + 1) * sizeof *order);
    for (size_t i = 0; order && i < count; ++i)
        order[i] = &samples[i];
    if (order)
        qsort(order, count, sizeof *order, compare);
    return order;
}

enum mosaic_status record_journal(const struct record *record, const char *device,
                                  const struct sample *samples, size_t count, char **text,
                                  struct status_error *err) {
    char *hello = NULL, *written = NULL;
    size_t size = 0;
    TRY(record_hello(record, device, samples, count, &hello, err));
    const struct sample **const order = record_order(samples, count);
    FILE *const out = order ? open_memstream(&written, &size) : NULL;
    bool ok = out && fprintf(out, "%s\n", hello) > 0;
    for (size_t i = 0; ok && i < count; ++i) {
        char line[LINE_MOST];
        (void)sample_print(order[i], line, sizeof line);
        ok = fprintf(out, "%s\n", line) > 0;
    }
    ok = out && fclose(out) == 0 && ok;
    free(order);
    free(hello);
    if (!ok) {
        free(written);
        return status_no_memory(err);
    }
    *text = written;
    return MOSAIC_OK;
}
