// SPDX-License-Identifier: GPL-3.0-or-later
/* Texts are quoted: names of devices and files may hold anything.  Numbers read back the same. */
#include "doc/save_calibration.h"

#include "base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX_TEXT = 1024, DIGITS = 10 };

static void put_text(FILE *out, const char *key, const char *text) {
    (void)fprintf(out, "%s: \"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', out);
        (void)fputc(iscntrl((unsigned char)*text) ? ' ' : *text, out);
    }
    (void)fputs("\"\n", out);
}

/* In the unit that a person would take, where it reads back the same; else in any that does. */
static void put_quantity(FILE *out, double value, enum dimension dimension) {
    static const struct {
        enum dimension dimension;
        double factor;
        const char *unit;
    } liked[] = {{DIM_BYTES, 1073741824.0, "GiB"},
                 {DIM_BYTES, 1048576.0, "MiB"},
                 {DIM_BYTES, 1024.0, "KiB"},
                 {DIM_BYTES, 1.0, "B"},
                 {DIM_BYTES_PER_S, 1e9, "GB/s"},
                 {DIM_FLOP_PER_S, 1e12, "TFLOP/s"},
                 {DIM_TIME, 1e-6, "us"}};
    char text[UNITS_TEXT_MAX];
    for (size_t i = 0; i < sizeof liked / sizeof *liked; i++) {
        const double in_unit = value / liked[i].factor;
        double back = 0.0;
        if (liked[i].dimension != dimension || (dimension == DIM_BYTES && in_unit < 1.0))
            continue;
        (void)snprintf(text, sizeof text, "%.*g %s", DIGITS, in_unit, liked[i].unit);
        if (units_parse(text, dimension, &back, NULL) == MOSAIC_OK && back <= value &&
            back >= value) {
            (void)fputs(text, out);
            return;
        }
    }
    units_format_exact(value, dimension, text, sizeof text);
    (void)fputs(text, out);
}

static void put_samples(FILE *out, const struct curve *curve, enum dimension x, enum dimension y) {
    (void)fputs("    samples: [", out);
    for (int i = 0; i < curve->samples; i++) {
        (void)fputs(i ? ", [" : "[", out);
        put_quantity(out, curve->x[i], x);
        (void)fputs(", ", out);
        put_quantity(out, curve->y[i], y);
        (void)fputc(']', out);
    }
    (void)fputs("]\n", out);
}

static void put_quantities(FILE *out, const struct sample_fit *fit, const struct sample_entry *e) {
    const struct calibration *const c = &fit->calibration;
    if (e->kind == SAMPLE_ENTRY_SCALAR) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)e->id);
        (void)fprintf(out, "  - quantity: %s\n    value: ", info->key);
        put_quantity(out, e->value, info->dimension);
        (void)fputc('\n', out);
        return;
    }
    if (e->kind == SAMPLE_ENTRY_CURVE) {
        const struct curve_info *const info = calibration_curve_info((enum curve_quantity)e->id);
        (void)fprintf(out, "  - quantity: %s\n    against: %s\n    interpolate: steffen\n",
                      info->key, info->axis);
        put_samples(out, &c->curve[e->id], DIM_NUMBER, info->dimension);
        return;
    }
    const struct collective_curve *const curve = &c->collective[e->id];
    (void)fprintf(out,
                  "  - collective: %s\n    ranks: %d\n    ranks_per_domain: %d\n"
                  "    interpolate: %s\n",
                  collective_name(curve->kind), curve->ranks, curve->ranks_per_domain,
                  curve->bus.method == CURVE_LATENCY ? "latency" : "steffen");
    put_samples(out, &curve->bus, DIM_BYTES, DIM_BYTES_PER_S);
}

/* NULL: that of the whole document. */
static const struct record_origin *origin_of(const struct save_calibration *what,
                                             const struct sample_entry *e) {
    if (!what->record || e->quantity == SAMPLE_QUANTITIES)
        return NULL;
    const struct record_origin *const origin = &what->record->origin[e->quantity];
    return origin->source[0] ? origin : NULL;
}

/* "by srun; causal FLOPs over time; 8 samples, 1 far off, spread 1.2 %; stands on hbm.share" */
static void put_method(FILE *out, const struct save_calibration *what,
                       const struct sample_entry *e) {
    char text[LINE_MAX_TEXT];
    const struct record_origin *const origin = origin_of(what, e);
    const char *const before = origin ? origin->method : what->method ? what->method : "";
    int used = snprintf(text, sizeof text, "%s%s%s", before, before[0] && e->method[0] ? "; " : "",
                        e->method);
    if (e->samples > 0)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%zu sample%s",
                         used > 0 ? "; " : "", e->samples, e->samples == 1 ? "" : "s");
    if (e->outliers > 0)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %zu far off", e->outliers);
    if (e->spread > 0.0)
        used += snprintf(text + used, sizeof text - (size_t)used, ", spread %.2g %%",
                         100.0 * e->spread);
    for (int i = 0; i < e->stands_on_count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i ? ", " : "; stands on ",
                         calibration_scalar_info(e->stands_on[i])->key);
    if (e->is_extrapolated)
        (void)snprintf(text + used, sizeof text - (size_t)used, "; extrapolated");
    put_text(out, "    method", text);
}

static void put_entry(FILE *out, const struct save_calibration *what,
                      const struct sample_entry *e) {
    const struct record_origin *const origin = origin_of(what, e);
    const char *const licence = origin ? origin->licence : what->licence ? what->licence : "";
    const char *const software = origin ? origin->software : what->software ? what->software : "";
    put_quantities(out, what->fit, e);
    put_text(out, "    source", origin ? origin->source : what->source);
    put_text(out, "    licence", licence[0] ? licence : "measured by the user");
    if (software[0])
        put_text(out, "    software", software);
    put_method(out, what, e);
    put_text(out, "    range", e->range);
}

static void put_line(FILE *out, const char *text) {
    (void)fputs("  - '", out);
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputc(*text, out);
        (void)fputc(*text, out);
    }
    (void)fputs("'\n", out);
}

static enum mosaic_status put_measurements(FILE *out, const struct save_calibration *what,
                                           struct status_error *err) {
    if (what->sample_count == 0)
        return MOSAIC_OK;
    char *hello = NULL;
    if (what->record)
        TRY(record_hello(what->record, what->record_device, what->samples, what->sample_count,
                         &hello, err));
    const struct sample **const order = record_order(what->samples, what->sample_count);
    if (!order) {
        free(hello);
        return status_no_memory(err);
    }
    (void)fputs("# As measured, a sample a line; the entries follow from them.\nmeasurements:\n",
                out);
    if (hello)
        put_line(out, hello);
    for (size_t i = 0; i < what->sample_count; i++) {
        char line[LINE_MAX_TEXT];
        (void)sample_print(order[i], line, sizeof line);
        put_line(out, line);
    }
    free(hello);
    free(order);
    return MOSAIC_OK;
}

static enum mosaic_status put_document(FILE *out, const struct save_calibration *what,
                                       struct status_error *err) {
    const size_t entries = what->fit ? what->fit->entry_count : 0;
    (void)fprintf(out,
                  "# SPDX-License-Identifier: GPL-3.0-or-later\n# Written by %s; do not edit.\n"
                  "schema: mosaic-calibration/1\n",
                  what->writer);
    put_text(out, "name", what->name);
    put_text(out, "device", what->device);
    if (what->over)
        put_text(out, "over", what->over);
    put_text(out, "source", what->source);
    (void)fputs(entries > 0 ? "entries:\n" : "entries: []\n", out);
    for (size_t i = 0; i < entries; i++)
        put_entry(out, what, &what->fit->entry[i]);
    if (what->measured_steps)
        (void)fprintf(out, "measured_steps:\n%s", what->measured_steps);
    return put_measurements(out, what, err);
}

enum mosaic_status save_calibration(const struct save_calibration *what, char **text,
                                    struct status_error *err) {
    char *written = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&written, &size);
    if (!out)
        return status_no_memory(err);
    enum mosaic_status status = put_document(out, what, err);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        status = status_no_memory(err);
    if (status == MOSAIC_OK)
        *text = written;
    else
        free(written);
    return status;
}
