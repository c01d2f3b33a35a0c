// SPDX-License-Identifier: GPL-3.0-or-later
/* A result of `check` for machines that show tests. */
#ifndef MOSAIC_REPORT_JUNIT_H
#define MOSAIC_REPORT_JUNIT_H

#include <jansson.h>
#include <stdio.h>

/* JUnit XML: a test suite a file, a test case a metric, a failure a regression.  No times: the same
 * result gives the same bytes. */
void junit_write(json_t *root, FILE *stream);
/* Workflow commands of GitHub Actions: an error a regression, a notice what is better. */
void annotations_write(json_t *root, FILE *stream);

#endif
