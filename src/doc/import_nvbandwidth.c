// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nvbandwidth, text or JSON: matrices of GB/s.  Host copies, a value a GPU: the median stands for
 * the machine, and a GPU far below it is named, for a narrow or far link is a fault of one node.
 * Device-to-device copies stand for two ranks in a domain.  A matrix whose sum is not what the tool
 * says lacks devices and is left out.
 */
#include "doc/import_json.h"

#include "machine/calibration.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { DEVICES_MAX = 1024, VALUES_MAX = 65536, NAME_MAX_LENGTH = 96, LINE_MAX_BYTES = 16384 };

static const double giga = 1e9, far_below = 0.67, sums_agree = 0.01, sum_rounding = 0.5;
/* Of a copy, which the output does not say: the tool's own default. */
static const long long buffer_bytes = 512LL << 20;

struct matrix {
    char name[NAME_MAX_LENGTH];
    long line;
    size_t rows, count;
    double value[VALUES_MAX]; /* N/A left out */
    int column[VALUES_MAX];
    double sum; /* as the tool says; NaN */
    bool is_passed;
};

/* ---- what a test measures ---- */

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(const struct matrix *m, double *sorted) {
    memcpy(sorted, m->value, m->count * sizeof *sorted);
    qsort(sorted, m->count, sizeof *sorted, compare);
    return m->count % 2 ? sorted[m->count / 2]
                        : 0.5 * (sorted[m->count / 2 - 1] + sorted[m->count / 2]);
}

static void name_slow(struct import_set *set, const struct source *source, const struct matrix *m,
                      double median) {
    for (size_t i = 0; i < m->count; i++)
        if (m->value[i] < far_below * median)
            import_warn(set, source, m->line,
                        "%s: GPU %d has %.4g GB/s where the median is %.4g: a narrow or far link "
                        "of its own (width, affinity), not the machine's speed; the median is "
                        "taken",
                        m->name, m->column[i], m->value[i], median);
}

static void add_time(struct sample *s, const struct matrix *m, const double *sorted,
                     double median) {
    size_t first = 0;
    while (sorted[first] < far_below * median)
        first++;
    const double bytes = (double)buffer_bytes;
    s->median_s = bytes / (median * giga);
    s->least_s = fmin(bytes / (sorted[m->count - 1] * giga), s->median_s);
    s->most_s = fmax(bytes / (sorted[first] * giga), s->median_s);
    s->rounds = (int)m->count;
    s->is_verified = true; /* the tool checks what it copied */
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Direction of a host copy: 0 to the host, 1 to the device, 2 both; -1 none. */
static int direction_of(const char *name) {
    const bool is_bidirectional = strstr(name, "bidirectional") != NULL;
    if (begins(name, "host_to_device_") && strstr(name, "memcpy"))
        return is_bidirectional ? 2 : 1;
    if (begins(name, "device_to_host_") && strstr(name, "memcpy"))
        return is_bidirectional ? 2 : 0;
    return -1;
}

static enum mosaic_status add_host_copy(struct import_set *set, const struct matrix *m,
                                        const double *sorted, double median) {
    struct sample s = {.quantity = SAMPLE_HOST_COPY};
    s.value[0] = direction_of(m->name);
    s.value[1] = buffer_bytes;
    add_time(&s, m, sorted, median);
    import_define(set, s.value[0] == 2
                           ? "nvbandwidth, host bidirectional: GB/s of the measured direction "
                             "alone, the other runs beside it"
                           : "nvbandwidth, host copies: GB/s of one direction, one GPU at a time; "
                             "the median over the GPUs");
    return import_add(set, &s);
}

static enum mosaic_status add_pair(struct import_set *set, const struct matrix *m,
                                   const double *sorted, double median) {
    struct sample s = {.quantity = SAMPLE_COLLECTIVE};
    s.value[0] = COLLECTIVE_POINT_TO_POINT;
    s.value[1] = s.value[2] = 2;
    s.value[3] = buffer_bytes;
    add_time(&s, m, sorted, median);
    import_define(set, "nvbandwidth, device to device: GB/s of one direction between two GPUs, "
                       "the median over the pairs; stands for point_to_point in a domain");
    return import_add(set, &s);
}

static bool is_whole(struct import_set *set, const struct source *source, const struct matrix *m) {
    double sum = 0.0;
    for (size_t i = 0; i < m->count; i++)
        sum += m->value[i];
    if (!isfinite(m->sum) || fabs(sum - m->sum) <= sums_agree * m->sum + sum_rounding)
        return true;
    import_warn(set, source, m->line,
                "%s: the values come to %.4g GB/s, the tool says %.4g: devices are missing; the "
                "test is left out",
                m->name, sum, m->sum);
    return false;
}

static enum mosaic_status take(struct import_set *set, const struct source *source,
                               const struct matrix *m) {
    if (m->name[0] == '\0' || m->count == 0)
        return MOSAIC_OK;
    set->rows++;
    const bool is_pair = begins(m->name, "device_to_device_memcpy_");
    if (!m->is_passed || !is_whole(set, source, m)) {
        set->refused++;
        return MOSAIC_OK;
    }
    if (!is_pair && direction_of(m->name) < 0) {
        import_warn(set, source, m->line,
                    strstr(m->name, "bidirectional")
                        ? "%s: sums both directions; left out, for the model's links are of one"
                    : strcmp(m->name, "device_local_copy") == 0
                        ? "%s: whether bytes read and bytes written both count is not said; left "
                          "out"
                        : "%s: the model has no such quantity; left out",
                    m->name);
        return MOSAIC_OK;
    }
    double *const sorted = talloc_array(set->memory, double, (unsigned)m->count);
    if (!sorted)
        return import_no_memory(set);
    const double median = median_of(m, sorted);
    if (!(median > 0)) {
        import_warn(set, source, m->line, "%s: half of its values are 0; left out", m->name);
        set->refused++;
        return MOSAIC_OK;
    }
    name_slow(set, source, m, median);
    return is_pair ? add_pair(set, m, sorted, median) : add_host_copy(set, m, sorted, median);
}

static void add_value(struct matrix *m, double value, int column) {
    if (!isfinite(value) || m->count == VALUES_MAX)
        return;
    m->value[m->count] = value;
    m->column[m->count++] = column;
}

/* ---- text ---- */

static void begin_text(struct matrix *m, const char *name, long line) {
    m->name[0] = '\0';
    (void)snprintf(m->name, sizeof m->name, "%.*s", (int)strcspn(name, ". \t"), name);
    m->line = line;
    m->rows = m->count = 0;
    m->sum = (double)NAN;
    m->is_passed = true;
}

/* " 0     55.4     57.1": the row's number and its values; N/A is none. */
static bool take_text_row(struct matrix *m, char *line) {
    char *rest = NULL;
    const char *word = strtok_r(line, " \t", &rest);
    if (!word || word[strspn(word, "0123456789")] != '\0')
        return false;
    double value[DEVICES_MAX];
    int count = 0;
    bool has_fraction = false;
    while ((word = strtok_r(NULL, " \t", &rest)) && count < DEVICES_MAX) {
        char *end = NULL;
        value[count] = strtod(word, &end);
        if (strcmp(word, "N/A") == 0)
            value[count] = (double)NAN;
        else if (end == word || *end)
            return false;
        has_fraction = has_fraction || strchr(word, '.') || strcmp(word, "N/A") == 0;
        count++;
    }
    if (!has_fraction) /* the numbers of the columns */
        return false;
    for (int i = 0; i < count; i++)
        add_value(m, value[i], i);
    m->rows++;
    return true;
}

static enum mosaic_status take_text(struct import_set *set, const struct source *source,
                                    struct matrix *m) {
    static const char running[] = "Running ", sum[] = "SUM ", device[] = "Device 0: ";
    const char *start = NULL;
    size_t size = 0;
    m->name[0] = '\0';
    for (long line = 1; source_line(source, line, &start, &size); line++) {
        char text[LINE_MAX_BYTES];
        (void)snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text),
                       start);
        if (begins(text, running)) {
            TRY(take(set, source, m));
            begin_text(m, text + sizeof running - 1, line);
        } else if (begins(text, sum)) {
            const char *const space = strrchr(text, ' ');
            m->sum = strtod(space, NULL);
        } else if (begins(text, device)) {
            (void)snprintf(set->device, sizeof set->device, "%.*s",
                           (int)strcspn(text + sizeof device - 1, "(") > 0
                               ? (int)strcspn(text + sizeof device - 1, "(") - 1
                               : 0,
                           text + sizeof device - 1);
        } else if (begins(text, "ERROR") || begins(text, "WAIVED") || begins(text, "Waived")) {
            m->is_passed = false;
        } else if (m->name[0]) {
            (void)take_text_row(m, text);
        }
    }
    return take(set, source, m);
}

/* ---- JSON ---- */

static enum mosaic_status take_case(struct import_set *set, const struct source *source,
                                    const json_t *test, long line, struct matrix *m) {
    const char *const name = json_string_value(json_object_get(test, "name"));
    const char *const status = json_string_value(json_object_get(test, "status"));
    const json_t *const rows = json_object_get(test, "bandwidth_matrix");
    begin_text(m, name ? name : "", line);
    m->sum = import_json_number(json_object_get(test, "sum"));
    m->is_passed = !status || strcmp(status, "Passed") == 0;
    if (!m->is_passed && name)
        import_warn(set, source, line, "%s: %s; left out", name, status);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *const row = json_array_get(rows, i);
        for (size_t k = 0; k < json_array_size(row); k++)
            add_value(m, import_json_number(json_array_get(row, k)), (int)k);
    }
    return take(set, source, m);
}

static enum mosaic_status take_json(struct import_set *set, const struct source *source,
                                    struct matrix *m) {
    for (size_t at = 0;;) {
        json_t *object = NULL;
        long line = 1;
        TRY(import_json_next(set, source, &at, &object, &line));
        if (!object)
            return MOSAIC_OK;
        const json_t *const root = json_object_get(object, "nvbandwidth");
        const json_t *const tests = json_object_get(root, "testcases");
        const char *const wrong = json_string_value(json_object_get(root, "error"));
        enum mosaic_status status = MOSAIC_OK;
        if (wrong)
            import_warn(set, source, line, "nvbandwidth reports: %s", wrong);
        for (size_t i = 0; status == MOSAIC_OK && i < json_array_size(tests); i++)
            status = take_case(set, source, json_array_get(tests, i), line, m);
        json_decref(object);
        TRY(status);
    }
}

enum mosaic_status import_nvbandwidth(struct import_set *set, const char *path) {
    struct source *source = NULL;
    TRY(import_read(set, path, &source));
    struct matrix *const m = talloc_zero(set->memory, struct matrix);
    if (!m)
        return import_no_memory(set);
    const size_t before = set->rows;
    if (strstr(source->text, "\"testcases\""))
        TRY(take_json(set, source, m));
    else
        TRY(take_text(set, source, m));
    talloc_free(m);
    return set->rows > before ? MOSAIC_OK
                              : import_refuse(set, source, 0, "no test of nvbandwidth is in it");
}
