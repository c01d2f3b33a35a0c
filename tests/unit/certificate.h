// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A checker of mosaic.certificate/1 that shares nothing with the search: it calls no function of
 * src/plan.  What it takes from the library is the plan document and the evaluator
 * (layer_table_fill, step_predict, stage_cost_of, step_bound); coverage, legality, tokens, loss,
 * score, and the least step of a mesh are its own.  It accepts when
 *   - the files are those of the certificate, and every geometry of the space stands there once,
 *     with as many meshes as its own enumeration finds;
 *   - every layout predicts its step time to the last bit, fits, and comes to its tokens, loss and
 *     score;
 *   - every bound is one: no mesh that may fit is below it;
 *   - no geometry can score below the best: mesh by mesh by the bound of its step, or by the least
 *     step of all its splits (labels of least sum and tail, for each bottleneck).
 * Where steps were measured, their factors must follow from the table (certificate_measured.h).
 * It knows 1F1B and interleaved pipelines, one way to run the job, degrees that are folded.
 */
#ifndef MOSAIC_TESTS_CERTIFICATE_H
#define MOSAIC_TESTS_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

enum { CERTIFICATE_REASON_MAX = 256 };

struct certificate_check {
    bool accepted;
    char reason[CERTIFICATE_REASON_MAX]; /* of a refusal */
    size_t geometries, meshes;
    size_t closed_by_memory; /* meshes that hold the model under no split */
    size_t closed_by_bound;  /* meshes whose bound alone keeps them off */
    size_t closed_by_splits; /* meshes for which all splits were weighed */
};

void certificate_check(const char *text, struct certificate_check *out);

#endif
