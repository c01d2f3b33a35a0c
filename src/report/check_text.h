// SPDX-License-Identifier: GPL-3.0-or-later
/* Rows of mosaic.check/1 in words, for tables, JUnit and annotations alike. */
#ifndef MOSAIC_REPORT_CHECK_TEXT_H
#define MOSAIC_REPORT_CHECK_TEXT_H

#include "report/number.h"

#include <jansson.h>

enum { CHECK_TEXT_MAX = 512 };

/* The number at `key` ("baseline", "now") of a row in its metric's unit; "" where it is absent. */
const char *check_figure(json_t *row, const char *key, char out[NUMBER_MAX]);
/* "+1.31 %", or a difference in the row's unit where there is no share. */
const char *check_difference(json_t *row, char out[NUMBER_MAX]);
/* "0.1 %" or "0.001 nat". */
const char *check_tolerance_text(json_t *row, char out[NUMBER_MAX]);
/* "2.553 s -> 2.587 s (+1.31 %, tolerance 0.1 %)". */
const char *check_row_text(json_t *row, char out[CHECK_TEXT_MAX]);
/* "gemm_s +12.3 ms". */
const char *check_cause_text(json_t *cause, char out[CHECK_TEXT_MAX]);
/* Causes, then inputs that changed, in one line; "" when the file has none. */
const char *check_why_text(json_t *file, char out[CHECK_TEXT_MAX]);

#endif
