// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Numbers go into data blocks and texts into quotes; nothing of the table is read as a command.
 */
#include "report/plot_fit.h"

#include "base/status.h"
#include "report/result.h"

#include <math.h>
#include <string.h>

static const double longest_labelled = 100, longest_stepped = 5; /* high over low of an axis */
static const double least_span = 1 + 1e-6;
static const double tics_wanted = 6;
static const double nice[] = {1, 2, 5};
enum { NICE = sizeof nice / sizeof *nice };
static const double margin_share = .03; /* of the logarithmic span */
enum { GROUPS_MAX = 16 };               /* more would not be told apart */

static const char HEAD[] = "set terminal svg size 720,480 fixed font 'sans,12' noenhanced "
                           "background '#ffffff'\n"
                           "set encoding utf8\nset grid\nset key outside center top horizontal\n"
                           "set format y '%.4g'\n";

static json_t *curves_of(json_t *root) {
    return result_at(root, "plots.curves");
}

static bool has_profile(json_t *root) {
    return json_array_size(result_at(root, "plots.profile")) > 0;
}

const char *plot_fit_name(json_t *root, size_t index, char name[PLOT_NAME_MAX]) {
    const size_t curves = json_array_size(curves_of(root));
    name[0] = '\0';
    if (index < curves)
        (void)snprintf(name, PLOT_NAME_MAX, "loss-%s.svg",
                       result_text(json_array_get(curves_of(root), index), "variable"));
    else if (curves > 0 && index == curves)
        (void)snprintf(name, PLOT_NAME_MAX, "residuals.svg");
    else if (curves > 0 && index == curves + 1 && has_profile(root))
        (void)snprintf(name, PLOT_NAME_MAX, "profile.svg");
    return name;
}

static double real_of(json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* A single-quoted text; what could end it, or start a command, is replaced. */
static void write_text(FILE *script, const char *text) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_quote(text, shown, sizeof shown);
    for (char *p = shown; *p; p++)
        if (strchr("'\"`\\", *p))
            *p = '_';
    (void)fprintf(script, "'%s'", shown);
}

/* Points as the data block $name, divided by the units. */
static void write_points(FILE *script, const char *name, json_t *points, double x_unit,
                         double y_unit) {
    size_t i;
    json_t *point;
    (void)fprintf(script, "$%s << EOD\n", name);
    json_array_foreach(points, i, point)(void) fprintf(
        script, "%.10g %.10g\n", real_of(point, "x") / x_unit, real_of(point, "y") / y_unit);
    (void)fputs("EOD\n", script);
}

/* Labels of a short logarithmic axis, where powers of ten alone would leave hardly one. */
static void write_tics(FILE *script, char axis, double low, double high) {
    if (high >= low * longest_labelled)
        return;
    (void)fprintf(script, "set %ctics ()\n", axis);
    if (high >= low * longest_stepped) {
        const double lowest = floor(log10(low)), highest = floor(log10(high));
        for (int power = (int)lowest; power <= (int)highest; power++)
            for (size_t i = 0; i < NICE; i++)
                (void)fprintf(script, "set %ctics add (%ge%d)\n", axis, nice[i], power);
        return;
    }
    const double rough = (high - low) / tics_wanted;
    const double power = pow(10, floor(log10(rough)));
    size_t i = 0;
    while (i < NICE && nice[i] * power < rough)
        i++;
    const double step = (i < NICE ? nice[i] : 10) * power;
    const double first = ceil(low / step), last = floor(high / step);
    for (int k = (int)first; k <= (int)last; k++)
        (void)fprintf(script, "set %ctics add (%.6g)\n", axis, k * step);
}

/* The range of an axis: gnuplot's own would end at powers of ten. */
static void write_range(FILE *script, char axis, json_t *curve) {
    const char key[] = {axis, '\0'};
    double low = (double)INFINITY, high = 0;
    json_t *const lists[] = {json_object_get(curve, "observed"), json_object_get(curve, "fitted")};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        size_t i;
        json_t *point;
        json_array_foreach(lists[k], i, point) {
            low = fmin(low, real_of(point, key));
            high = fmax(high, real_of(point, key));
        }
    }
    if (!(high > low * least_span))
        return; /* gnuplot finds one */
    const double margin = pow(high / low, margin_share);
    (void)fprintf(script, "set %crange [%.6g:%.6g]\n", axis, low / margin, high * margin);
    write_tics(script, axis, low / margin, high * margin);
}

static void write_curve(json_t *curve, FILE *script) {
    write_points(script, "observed", json_object_get(curve, "observed"), 1, 1);
    write_points(script, "fitted", json_object_get(curve, "fitted"), 1, 1);
    write_range(script, 'x', curve);
    write_range(script, 'y', curve);
    (void)fputs("set logscale xy\nset format x '%.3g'\nset ylabel 'loss (nats per token)'\n"
                "set xlabel ",
                script);
    write_text(script, result_text(curve, "label"));
    (void)fputs("\nplot $observed with points pt 7 ps 0.5 title 'runs', \\\n"
                "  $fitted with lines lw 2 title 'fit, others at medians'\n",
                script);
}

/* ---- residuals ---- */

static const char *group_of(json_t *row) {
    const char *const group = json_string_value(json_object_get(row, "group"));
    return group ? group : "";
}

/* The groups in order of appearance; one for all when there are too many. */
static size_t find_groups(json_t *rows, const char *groups[GROUPS_MAX]) {
    size_t count = 0, i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        size_t g = 0;
        while (g < count && strcmp(groups[g], group_of(row)) != 0)
            g++;
        if (g < count)
            continue;
        if (count == GROUPS_MAX)
            return 1;
        groups[count++] = group_of(row);
    }
    return count;
}

static void write_residuals(json_t *rows, FILE *script) {
    const char *groups[GROUPS_MAX];
    const size_t count = find_groups(rows, groups);
    for (size_t g = 0; g < count; g++) {
        size_t i;
        json_t *row;
        (void)fprintf(script, "$group%zu << EOD\n", g);
        json_array_foreach(rows, i, row) if (count == 1 || strcmp(groups[g], group_of(row)) == 0)(
            void) fprintf(script, "%.10g %.10g\n", real_of(row, "fitted"),
                          log(real_of(row, "observed") / real_of(row, "fitted")));
        (void)fputs("EOD\n", script);
    }
    (void)fputs("set xlabel 'fitted loss (nats per token)'\n"
                "set ylabel 'ln L, observed - fitted'\nset xzeroaxis lw 1.5\nplot ",
                script);
    for (size_t g = 0; g < count; g++) {
        (void)fprintf(script, "%s$group%zu with points pt 7 ps 0.5 title ", g ? ", \\\n  " : "", g);
        write_text(script, count == 1 ? "runs" : groups[g][0] ? groups[g] : "no group");
    }
    (void)fputc('\n', script);
}

/* ---- profile ---- */

static void write_profile(json_t *list, double least, FILE *script) {
    size_t i;
    json_t *one;
    const double unit = least > 0 ? least : 1;
    json_array_foreach(list, i, one) {
        char name[PLOT_NAME_MAX];
        (void)snprintf(name, sizeof name, "profile%zu", i);
        write_points(script, name, json_object_get(one, "points"), real_of(one, "value"), unit);
    }
    (void)fprintf(script, "set xlabel 'coefficient / its optimum'\nset ylabel '%s'\nplot ",
                  least > 0 ? "objective / its minimum" : "objective");
    json_array_foreach(list, i, one) {
        (void)fprintf(script, "%s$profile%zu with linespoints pt 7 ps 0.4 title ",
                      i ? ", \\\n  " : "", i);
        write_text(script, result_text(one, "coefficient"));
    }
    (void)fputc('\n', script);
}

void plot_fit_script(json_t *root, size_t index, FILE *script) {
    const size_t curves = json_array_size(curves_of(root));
    (void)fputs(HEAD, script);
    if (index < curves)
        write_curve(json_array_get(curves_of(root), index), script);
    else if (index == curves)
        write_residuals(result_at(root, "residuals"), script);
    else
        write_profile(result_at(root, "plots.profile"), real_of(root, "objective"), script);
}
