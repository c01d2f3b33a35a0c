// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The measured steps of a certificate, checked: the table is the file that was read, its rows are
 * the stated layouts with their geometric means, and the factor of each model is the median of
 *   ln(measured / predicted), shrunk by n b^2 / (n b^2 + w^2)
 * over its n layouts, b and w being the calibration's anchor.between_models and within_model.
 */
#ifndef MOSAIC_TESTS_CERTIFICATE_MEASURED_H
#define MOSAIC_TESTS_CERTIFICATE_MEASURED_H

#include "plan/problem.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Reads a layout as a certificate states it. */
typedef void certificate_layout(const json_t *from, struct layout *out);

/* From the document's step model, without anchors, to the factors; false with a reason. */
bool certificate_measured(const json_t *measured, const struct problem *problem,
                          certificate_layout *read, struct anchors *out, char *reason, size_t size);

#endif
