// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A fit's result (mosaic.fit/1 with the setting plots=on) as gnuplot scripts that draw SVG: loss
 * against each variable, residuals, profile of the objective.
 */
#ifndef MOSAIC_REPORT_PLOT_FIT_H
#define MOSAIC_REPORT_PLOT_FIT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum { PLOT_NAME_MAX = 64 };

/* File name of plot `index`, from 0; "" beyond the last, and for a result without plots. */
const char *plot_fit_name(json_t *root, size_t index, char name[PLOT_NAME_MAX]);
void plot_fit_script(json_t *root, size_t index, FILE *script);

#endif
