// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * For the tests of the step model's accuracy: the shipped table of measured steps, and figures held
 * against their aims.  Run from the root of the tree.
 */
#ifndef MOSAIC_TESTS_ACCURACY_H
#define MOSAIC_TESTS_ACCURACY_H

#include "close.h"
#include "doc/doc_steps.h"
#include "fit/step_group.h"
#include "fit/step_score.h"

#include <stdio.h>
#include <talloc.h>

#define ACCURACY_STEPS "calibration/data/steps.csv"
#define ACCURACY_MODELS "calibration/data/step-models.csv"

/* calibration NULL: what each cluster document names. */
static inline struct step_tables *accuracy_load(const char *steps, const char *models,
                                                const char *calibration) {
    static struct diag_list said;
    const struct step_table_options options = {.calibration = calibration};
    struct step_tables *tables = NULL;
    diag_init(&said);
    if (doc_steps_load(steps, models, &options, &said, &tables) != MOSAIC_OK) {
        char *const words = diag_text(NULL, &said, false);
        print_error("%s", words ? words : "");
        talloc_free(words);
        fail();
    }
    return tables;
}

/* A figure at most `aim`; where that is not reached yet, at most what is reached today, and the
 * distance is printed. */
static inline void figure_at_most(const char *group, const char *what, double got, double aim,
                                  double reached, const char *file, int line) {
    const bool is_missed = !(got <= aim);
    print_message("%-14s %-34s %8.4f  at most %.4g%s\n", group, what, got, aim,
                  is_missed ? "  MISSED" : "");
    if (!is_missed || got <= reached)
        return;
    print_error("%s, %s: %g; the aim is %g, and %g was reached\n", group, what, got, aim, reached);
    _fail(file, line);
}

/* A figure of at least `aim`, likewise. */
static inline void figure_at_least(const char *group, const char *what, double got, double aim,
                                   double reached, const char *file, int line) {
    const bool is_missed = !(got >= aim);
    print_message("%-14s %-34s %8.4f  at least %.4g%s\n", group, what, got, aim,
                  is_missed ? "  MISSED" : "");
    if (!is_missed || got >= reached)
        return;
    print_error("%s, %s: %g; the aim is %g, and %g was reached\n", group, what, got, aim, reached);
    _fail(file, line);
}

/* AT_MOST: the aim holds.  AT_MOST_SO_FAR: `reached`, above it, holds. */
#define AT_MOST(group, what, got, aim)                                                             \
    figure_at_most((group), (what), (got), (aim), (aim), __FILE__, __LINE__)
#define AT_MOST_SO_FAR(group, what, got, aim, reached)                                             \
    figure_at_most((group), (what), (got), (aim), (reached), __FILE__, __LINE__)
#define AT_LEAST(group, what, got, aim)                                                            \
    figure_at_least((group), (what), (got), (aim), (aim), __FILE__, __LINE__)
#define AT_LEAST_SO_FAR(group, what, got, aim, reached)                                            \
    figure_at_least((group), (what), (got), (aim), (reached), __FILE__, __LINE__)

static inline struct step_score score_of_group(const struct step_error *errors, size_t count,
                                               enum step_grouping by, const char *name) {
    const struct step_group group = {by, name};
    struct step_score score;
    if (!step_score_of(errors, count, step_group_holds, &group, &score))
        fail_msg("no row in %s", name);
    return score;
}

#endif
