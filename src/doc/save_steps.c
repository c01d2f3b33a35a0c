// SPDX-License-Identifier: GPL-3.0-or-later
/* Texts of tables are quoted: they may hold whatever a cell may. */
#include "doc/save_steps.h"

#include "base/units.h"
#include "fit/step_residual.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 64, LISTED_MAX = 6, NUMBER_TEXT = 32 };

/* ---- numbers and texts ---- */

static double rounded(double value) {
    char text[NUMBER_TEXT];
    (void)snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

static void put_quantity(FILE *out, double value, enum dimension dimension) {
    char text[UNITS_TEXT_MAX];
    units_format_exact(rounded(value), dimension, text, sizeof text);
    (void)fputs(text, out);
}

/* Inside double quotes. */
static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', out);
        (void)fputc(iscntrl((unsigned char)*text) ? ' ' : *text, out);
    }
}

/* Different texts of rows, sorted. */
struct texts {
    size_t count;
    const char *item[TEXTS_MAX];
    bool is_more; /* than the list holds */
};

static void add(struct texts *texts, const char *text) {
    size_t at = 0;
    while (at < texts->count && strcmp(texts->item[at], text) < 0)
        at++;
    if (!text[0] || (at < texts->count && strcmp(texts->item[at], text) == 0))
        return;
    if (texts->count == TEXTS_MAX) {
        texts->is_more = true;
        return;
    }
    memmove(&texts->item[at + 1], &texts->item[at], (texts->count - at) * sizeof *texts->item);
    texts->item[at] = text;
    texts->count++;
}

/* All of a few, or the first and the last of many. */
static void put_texts(FILE *out, const struct texts *texts, const char *noun) {
    const bool is_few = texts->count <= LISTED_MAX;
    if (!is_few) {
        (void)fprintf(out, "%s%zu %s from ", texts->is_more ? "more than " : "", texts->count,
                      noun);
        put_text(out, texts->item[0]);
        (void)fputs(" to ", out);
        put_text(out, texts->item[texts->count - 1]);
        return;
    }
    for (size_t i = 0; i < texts->count; i++) {
        (void)fputs(i ? ", " : "", out);
        put_text(out, texts->item[i]);
    }
    if (texts->count == 0)
        (void)fputs("unstated", out);
}

/* ---- targets ---- */

/* The row's fabric when a constant was fitted to it, else "". */
static const char *own_fabric(const struct step_study *study, const struct measured_step *step) {
    for (size_t j = 0; j < study->fit.parameters; j++) {
        const struct step_parameter *const parameter = &study->fit.parameter[j];
        if (parameter->constant->scope == STEP_FABRIC && step_parameter_touches(parameter, step))
            return step->fabric;
    }
    return "";
}

static struct save_steps_target target_of(const struct step_study *study,
                                          const struct measured_step *step) {
    return (struct save_steps_target){step->cluster.device.name, own_fabric(study, step)};
}

static int compare_targets(const struct save_steps_target *a, const struct save_steps_target *b) {
    const int order = strcmp(a->device, b->device);
    return order != 0 ? order : strcmp(a->fabric, b->fabric);
}

size_t save_steps_targets(const struct step_study *study,
                          struct save_steps_target targets[SAVE_STEPS_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < study->steps->count && count < SAVE_STEPS_MAX; i++) {
        const struct save_steps_target next = target_of(study, &study->steps->items[i]);
        size_t at = 0;
        while (at < count && compare_targets(&targets[at], &next) < 0)
            at++;
        if (at < count && compare_targets(&targets[at], &next) == 0)
            continue;
        memmove(&targets[at + 1], &targets[at], (count - at) * sizeof *targets);
        targets[at] = next;
        count++;
    }
    return count;
}

void save_steps_name(const struct save_steps_target *target, char name[SAVE_STEPS_NAME_MAX]) {
    (void)snprintf(name, SAVE_STEPS_NAME_MAX, "%.64s%s%.32s-steps", target->device,
                   target->fabric[0] ? "-" : "", target->fabric);
    for (char *at = name; *at; at++)
        *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '-';
}

/* ---- rows behind an entry ---- */

struct basis {
    size_t rows, layouts;
    struct texts sources, licences, software;
};

/* Rows of a constant, or of an architecture (NULL: all) and a kind. */
struct rows_of {
    const struct step_parameter *parameter;
    const char *architecture;
    bool moe, both_kinds;
};

static bool is_of(const struct measured_step *step, const struct rows_of *of) {
    if (of->parameter)
        return step_parameter_touches(of->parameter, step);
    return (of->both_kinds || (geometry_moe_layers(&step->geometry) > 0) == of->moe) &&
           (!of->architecture || strcmp(of->architecture, step->architecture) == 0);
}

static bool is_first_of_layout(const struct measured_steps *steps, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (steps->items[k].layout == steps->items[i].layout)
            return false;
    return true;
}

static void find_basis(const struct measured_steps *steps, const struct rows_of *of,
                       struct basis *out) {
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < steps->count; i++) {
        const struct measured_step *const step = &steps->items[i];
        if (!is_of(step, of))
            continue;
        out->rows++;
        out->layouts += is_first_of_layout(steps, i);
        add(&out->sources, step->source);
        add(&out->licences, step->licence ? step->licence : "");
        add(&out->software, step->software);
    }
}

struct document {
    FILE *out;
    const struct step_study *study;
    const struct measured_step *step; /* one of the target */
    const char *table;
};

static void put_basis(const struct document *d, const struct rows_of *of) {
    struct basis basis;
    find_basis(d->study->steps, of, &basis);
    (void)fprintf(d->out, "    source: \"fitted to step times: %zu rows, %zu layouts", basis.rows,
                  basis.layouts);
    (void)fprintf(d->out, ", %s%zu sources; ", basis.sources.is_more ? "more than " : "",
                  basis.sources.count);
    put_text(d->out, d->table);
    (void)fputs("\"\n    licence: \"", d->out);
    put_texts(d->out, &basis.licences, "licences");
    (void)fputs("\"\n    software: \"", d->out);
    put_texts(d->out, &basis.software, "releases");
    (void)fputs("\"\n", d->out);
}

/* ---- parts ---- */

/* Moved by rows, and not overlaid by a later constant of the same scalar. */
static bool holds(const struct document *d, size_t j) {
    const struct step_fit *const fit = &d->study->fit;
    for (size_t k = j + 1; k < fit->parameters; k++)
        if (fit->parameter[k].constant->scalar == fit->parameter[j].constant->scalar &&
            step_parameter_touches(&fit->parameter[k], d->step))
            return false;
    return fit->parameter[j].rows > 0 && step_parameter_touches(&fit->parameter[j], d->step);
}

static void put_scope(FILE *out, const struct step_parameter *parameter) {
    static const char *const words[] = {[STEP_SHARED] = "all rows",
                                        [STEP_ARCHITECTURE] = "architecture ",
                                        [STEP_DEVICE] = "device ",
                                        [STEP_FABRIC] = "fabric "};
    (void)fputs(words[parameter->constant->scope], out);
    put_text(out, parameter->where);
}

static void put_constant(const struct document *d, const struct step_parameter *parameter) {
    const struct scalar_info *const info = calibration_scalar_info(parameter->constant->scalar);
    (void)fprintf(d->out, "  - quantity: %s\n    value: ", info->key);
    put_quantity(d->out, parameter->value, info->dimension);
    (void)fputc('\n', d->out);
    const struct rows_of of = {.parameter = parameter};
    put_basis(d, &of);
    (void)fputs("    method: \"robust least squares of ln(predicted / measured) on ", d->out);
    put_scope(d->out, parameter);
    (void)fprintf(d->out, ", each layout once; %zu rows move with it; ", parameter->rows);
    if (parameter->at_bound)
        (void)fprintf(d->out, "at the end of its range %g to %g\"\n", parameter->constant->least,
                      parameter->constant->most);
    else
        (void)fprintf(d->out, "standard error %.2g of its logarithm\"\n",
                      parameter->standard_error);
}

/* Scalars that follow from the fitted ones (step_constants_follow). */
static enum mosaic_status put_followers(const struct document *d, struct status_error *err) {
    const struct step_fit *const fit = &d->study->fit;
    struct calibration *const c = malloc(sizeof *c);
    if (!c)
        return status_no_memory(err);
    step_fit_apply(fit, d->step, c);
    for (size_t j = 0; j < fit->parameters; j++)
        if (step_parameter_touches(&fit->parameter[j], d->step))
            c->scalar_origin[fit->parameter[j].constant->scalar] = ORIGIN_GENERIC;
    for (int i = 0; i < SCALAR_COUNT; i++) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)i);
        if (c->scalar_origin[i] != ORIGIN_CALIBRATED ||
            d->step->calibration->scalar_origin[i] == ORIGIN_CALIBRATED)
            continue;
        (void)fprintf(d->out, "  - quantity: %s\n    value: ", info->key);
        put_quantity(d->out, c->scalar[i], info->dimension);
        (void)fputs("\n    source: \"follows from the constants above\"\n"
                    "    licence: \"own\"\n"
                    "    method: \"set by them while they were fitted\"\n",
                    d->out);
    }
    free(c);
    return MOSAIC_OK;
}

static void put_sigma(const struct document *d, const struct step_sigma *sigma, int moe) {
    const enum scalar scalar = moe ? CAL_SIGMA_MOE : CAL_SIGMA;
    const bool is_own = sigma->rows[moe] >= STEP_SIGMA_ROWS;
    if (!(sigma->sigma[moe] > 0))
        return;
    (void)fprintf(d->out, "  - quantity: %s\n    value: %.3g\n",
                  calibration_scalar_info(scalar)->key, sigma->sigma[moe]);
    const struct rows_of of = {.architecture = is_own ? d->step->architecture : NULL,
                               .moe = moe != 0};
    put_basis(d, &of);
    (void)fprintf(d->out,
                  "    method: \"90 %% quantile of |ln(measured / predicted)| over 1.645; each row "
                  "by constants fitted without its layout, %d folds%s%s\"\n",
                  (int)STEP_FOLDS,
                  is_own ? "" : "; rows of every architecture, for there are few of this one",
                  d->study->steps->layouts < STEP_FEW_LAYOUTS
                      ? "; not below the base's, for there are few layouts"
                      : "");
}

static void put_spread(const struct document *d, const struct step_spread *spread) {
    const struct {
        enum scalar scalar;
        double value;
    } both[] = {{CAL_ANCHOR_BETWEEN, spread->between}, {CAL_ANCHOR_WITHIN, spread->within}};
    if (!(spread->within > 0))
        return;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        (void)fprintf(d->out, "  - quantity: %s\n    value: %.3g\n",
                      calibration_scalar_info(both[i].scalar)->key, both[i].value);
        const struct rows_of of = {.both_kinds = true, .architecture = d->step->architecture};
        put_basis(d, &of);
        (void)fprintf(d->out,
                      "    method: \"variance components of ln(measured / predicted) by constants "
                      "fitted without the model: %zu layouts in %zu groups of cluster, engine and "
                      "model\"\n",
                      spread->layouts, spread->groups);
    }
}

static void put_covariance(const struct document *d) {
    const struct step_fit *const fit = &d->study->fit;
    size_t at[STEP_PARAMETERS_MAX], count = 0;
    for (size_t j = 0; j < fit->parameters; j++)
        if (holds(d, j) && fit->covariance[j][j] > 0)
            at[count++] = j;
    if (count == 0)
        return;
    (void)fputs("# Of the natural logarithms of these constants; what ends at its range is left "
                "out.\ncovariance:\n  quantities:\n",
                d->out);
    for (size_t a = 0; a < count; a++)
        (void)fprintf(d->out, "    - %s\n",
                      calibration_scalar_info(fit->parameter[at[a]].constant->scalar)->key);
    (void)fputs("  matrix:\n", d->out);
    for (size_t a = 0; a < count; a++) {
        (void)fputs("    - [", d->out);
        for (size_t b = 0; b < count; b++) {
            (void)fputs(b ? ", " : "", d->out);
            put_quantity(d->out, fit->covariance[at[a]][at[b]], DIM_NUMBER);
        }
        (void)fputs("]\n", d->out);
    }
}

static void put_head(const struct document *d, const struct save_steps_target *target) {
    char name[SAVE_STEPS_NAME_MAX];
    save_steps_name(target, name);
    (void)fputs("# SPDX-License-Identifier: GPL-3.0-or-later\n"
                "# Written by mosaic fit --steps; do not edit.\n"
                "schema: mosaic-calibration/1\n",
                d->out);
    (void)fprintf(d->out, "name: %s\ndevice: \"", name);
    put_text(d->out, target->device);
    (void)fprintf(d->out, "\"\nsource: \"mosaic %s: %zu step constants fitted to %zu rows of ",
                  mosaic_version(), d->study->fit.parameters, d->study->steps->count);
    put_text(d->out, d->table);
    (void)fputs("\"\nentries:\n", d->out);
}

static enum mosaic_status put_document(const struct document *d,
                                       const struct save_steps_target *target,
                                       struct status_error *err) {
    const struct step_fit *const fit = &d->study->fit;
    const struct step_sigma *const sigma = step_study_sigma(d->study, d->step->architecture);
    put_head(d, target);
    for (size_t j = 0; j < fit->parameters; j++)
        if (holds(d, j))
            put_constant(d, &fit->parameter[j]);
    TRY(put_followers(d, err));
    for (int moe = 0; moe < 2 && sigma; moe++)
        put_sigma(d, sigma, moe);
    if (sigma)
        put_spread(d, &sigma->spread);
    put_covariance(d);
    return MOSAIC_OK;
}

static const struct measured_step *step_of(const struct step_study *study,
                                           const struct save_steps_target *target) {
    for (size_t i = 0; i < study->steps->count; i++) {
        const struct save_steps_target at = target_of(study, &study->steps->items[i]);
        if (compare_targets(&at, target) == 0)
            return &study->steps->items[i];
    }
    return NULL;
}

enum mosaic_status save_steps(const struct step_study *study,
                              const struct save_steps_target *target, const char *table,
                              char **text, struct status_error *err) {
    char *written = NULL;
    size_t size = 0;
    const char *const slash = strrchr(table, '/');
    struct document d = {.study = study, .table = slash ? slash + 1 : table};
    d.step = step_of(study, target);
    if (!d.step)
        return status_set(err, MOSAIC_USAGE, "no row was measured on '%.64s'", target->device);
    if (!study->fit.converged)
        return status_set(err, MOSAIC_NUMERIC, "no constants to write: the fit did not converge");
    d.out = open_memstream(&written, &size);
    if (!d.out)
        return status_no_memory(err);
    enum mosaic_status status = put_document(&d, target, err);
    const bool failed = ferror(d.out) != 0;
    if ((fclose(d.out) != 0 || failed) && status == MOSAIC_OK)
        status = status_no_memory(err);
    if (status == MOSAIC_OK)
        *text = written;
    else
        free(written);
    return status;
}
