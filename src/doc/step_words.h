// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How a measured step was run, from the words of its row: what a row leaves unstated becomes what
 * the engine's recipes do, and is marked.
 */
#ifndef MOSAIC_DOC_STEP_WORDS_H
#define MOSAIC_DOC_STEP_WORDS_H

#include "doc/step_row.h"
#include "fit/measured_step.h"

/* A row with what is known of it: geometry, engine, degrees. */
struct step_facts {
    const struct geometry *geometry;
    const struct engine *engine;
    const struct step_numbers *numbers;
};

/* Each is false when the row is left out, with its reason. */

/* Sequence, batch, precision, optimizer, routing, and execution but for recomputation. */
bool step_words_workload(struct step_row *row, const struct step_facts *facts,
                         struct workload *workload, unsigned *unstated);
/* Recomputation and its modules; to_fit: unstated, and the recipe takes the least that fits. */
bool step_words_recompute(struct step_row *row, const struct engine *engine,
                          struct execution *execution, enum recompute *recompute, bool *to_fit,
                          unsigned *unstated);

#endif
