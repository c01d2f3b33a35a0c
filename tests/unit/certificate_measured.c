// SPDX-License-Identifier: GPL-3.0-or-later
/* Rows of a table of measured steps against the layouts of a certificate. */
#include "certificate_measured.h"

#include "step/step.h"

#include <math.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUTS_MOST = 64, LINE_MOST = 1024 };

/* What the file says of one layout. */
struct tally {
    long steps;
    double sum_log_s;
};

struct reading {
    const json_t *measured, *layouts, *factors;
    const struct problem *p;
    certificate_layout *read;
    struct tally tallies[LAYOUTS_MOST];
    char *reason;
    size_t size;
};

static bool refuse(struct reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse(struct reading *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(r->reason, r->size, format, args);
    va_end(args);
    return false;
}

static const char *word(const json_t *object, const char *key) {
    const char *const text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static long whole(const json_t *object, const char *key) {
    return (long)json_integer_value(json_object_get(object, key));
}

static double real(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static bool is_close(double a, double b) {
    return fabs(a - b) <= 1e-11 * fmax(1e-6, fmax(fabs(a), fabs(b)));
}

/* ---- the table ---- */

/* "L48-d6144-E96-K2-G4-3f9a1c pp=8 recompute=full": the model's figures, then what is not 1. */
static bool is_id_of(const struct reading *r, const char *id, const json_t *entry) {
    static const char *const keys[] = {"tp", "cp", "pp", "vpp", "ep", "etp", "micro_batch"};
    const long index = whole(entry, "index");
    const json_t *const layout = json_object_get(entry, "layout");
    char expected[LINE_MOST], *end;
    if (index < 0 || (size_t)index >= r->p->geometries.count)
        return false;
    const struct geometry *const g = &r->p->geometries.items[index];
    (void)snprintf(expected, sizeof expected, "L%d-d%d-E%d-K%d-G%.4g-", g->layers, g->hidden,
                   g->experts, g->top_k, g->granularity);
    if (strncmp(id, expected, strlen(expected)) != 0)
        return false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        (void)snprintf(expected, sizeof expected, " %s=", keys[i]);
        const char *const at = strstr(id, expected);
        const long said = at ? strtol(at + strlen(expected), &end, 10) : 1;
        if (said != whole(layout, keys[i]))
            return false;
    }
    const char *const at = strstr(id, " recompute=");
    const char *const said = word(layout, "recompute");
    return at && strncmp(at + strlen(" recompute="), said, strlen(said)) == 0;
}

static bool take_row(struct reading *r, const char *id, const char *time) {
    char *end;
    const double measured_s = strtod(time, &end);
    if (end == time) /* a run not made yet */
        return true;
    for (size_t i = 0; i < json_array_size(r->layouts); ++i)
        if (is_id_of(r, id, json_array_get(r->layouts, i))) {
            r->tallies[i].steps++;
            r->tallies[i].sum_log_s += log(measured_s);
            return true;
        }
    return refuse(r, "the step of '%s' is left out", id);
}

/* Two plain columns, in the order that a plan prints. */
static bool take_table(struct reading *r, FILE *file) {
    char line[LINE_MOST];
    if (!fgets(line, sizeof line, file) || strncmp(line, "id,step_time_s", 14) != 0)
        return refuse(r, "a table that this checker cannot read");
    while (fgets(line, sizeof line, file)) {
        char *const comma = strchr(line, ',');
        if (!comma)
            return refuse(r, "a table that this checker cannot read");
        *comma = '\0';
        if (!take_row(r, line, comma + 1))
            return false;
    }
    return true;
}

static bool table_holds(struct reading *r) {
    const char *const path = word(r->measured, "path");
    char now[SHA256_DIGEST_STRING_LENGTH];
    if (!SHA256File(path, now) || strcmp(now, word(r->measured, "sha256")) != 0)
        return refuse(r, "%s is not the table that was read", path);
    FILE *const file = fopen(path, "r");
    if (!file)
        return refuse(r, "%s does not open", path);
    const bool holds = take_table(r, file);
    (void)fclose(file);
    for (size_t i = 0; holds && i < json_array_size(r->layouts); ++i) {
        const json_t *const entry = json_array_get(r->layouts, i);
        const struct tally *const t = &r->tallies[i];
        if (t->steps == 0 || t->steps != whole(entry, "steps") ||
            !is_close(real(entry, "step_time_s"), exp(t->sum_log_s / (double)t->steps)))
            return refuse(r, "measured layout %zu: not the steps of the table", i);
    }
    return holds;
}

/* ---- factors ---- */

static double residual_of(const struct reading *r, const json_t *entry) {
    const struct geometry *const g = &r->p->geometries.items[whole(entry, "index")];
    struct step_context ctx;
    struct layer_table table;
    struct layout layout;
    struct prediction predicted;
    r->read(json_object_get(entry, "layout"), &layout);
    step_context_init(&ctx, g, &r->p->cluster, &r->p->calibration, &r->p->workload, &r->p->engine,
                      r->p->estimator);
    layer_table_fill(&ctx, &layout.mesh, &table);
    step_predict(&ctx, &table, &layout.mesh, &layout.split, &predicted, NULL);
    return log(real(entry, "step_time_s") / predicted.step_time_s);
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static bool factor_holds(struct reading *r, const json_t *factor) {
    double residuals[LAYOUTS_MOST];
    size_t n = 0;
    const long index = whole(factor, "index");
    for (size_t i = 0; i < json_array_size(r->layouts); ++i) {
        const json_t *const entry = json_array_get(r->layouts, i);
        if (whole(entry, "nodes") != r->p->cluster.nodes)
            return refuse(r, "a step on another number of nodes: not known to this checker");
        if (whole(entry, "index") == index)
            residuals[n++] = residual_of(r, entry);
    }
    if (n == 0 || (long)n != whole(factor, "steps"))
        return refuse(r, "geometry %ld: not as many measured layouts as stated", index);
    qsort(residuals, n, sizeof residuals[0], by_size);
    const double middle = 0.5 * (residuals[(n - 1) / 2] + residuals[n / 2]);
    const double between = r->p->calibration.scalar[CAL_ANCHOR_BETWEEN],
                 within = r->p->calibration.scalar[CAL_ANCHOR_WITHIN];
    const double said = (double)n * between * between;
    return is_close(real(factor, "log_factor"), middle * said / (said + within * within)) ||
           refuse(r, "geometry %ld: a factor that does not follow from its steps", index);
}

static bool all_models_have_one(struct reading *r) {
    for (size_t i = 0; i < json_array_size(r->layouts); ++i) {
        int factors = 0;
        for (size_t k = 0; k < json_array_size(r->factors); ++k)
            factors += whole(json_array_get(r->layouts, i), "index") ==
                       whole(json_array_get(r->factors, k), "index");
        if (factors != 1)
            return refuse(r, "measured layout %zu: %d factors of its model", i, factors);
    }
    return true;
}

bool certificate_measured(const json_t *measured, const struct problem *problem,
                          certificate_layout *read, struct anchors *out, char *reason,
                          size_t size) {
    struct reading r = {.measured = measured,
                        .layouts = json_object_get(measured, "layouts"),
                        .factors = json_object_get(measured, "factors"),
                        .p = problem,
                        .read = read,
                        .reason = reason,
                        .size = size};
    *out = (struct anchors){.count = 0};
    if (problem->workload.anchors && problem->workload.anchors->count > 0)
        return refuse(&r, "a calibration with steps of its own: not known to this checker");
    if (json_array_size(r.layouts) > LAYOUTS_MOST || json_array_size(r.factors) > ANCHORS_MAX)
        return refuse(&r, "more measured layouts than this checker takes");
    if (!table_holds(&r) || !all_models_have_one(&r))
        return false;
    for (size_t i = 0; i < json_array_size(r.factors); ++i) {
        const json_t *const factor = json_array_get(r.factors, i);
        const long index = whole(factor, "index");
        if (index < 0 || (size_t)index >= problem->geometries.count)
            return refuse(&r, "a factor of no geometry");
        if (!factor_holds(&r, factor))
            return false;
        out->items[out->count++] =
            (struct anchor){.geometry = problem->geometries.items[index],
                            .residual = {.steps = (size_t)whole(factor, "steps"),
                                         .log_factor = real(factor, "log_factor")}};
    }
    return true;
}
