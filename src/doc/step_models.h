// SPDX-License-Identifier: GPL-3.0-or-later
/* The models that a table of measured steps names: one row a shape. */
#ifndef MOSAIC_DOC_STEP_MODELS_H
#define MOSAIC_DOC_STEP_MODELS_H

#include "model/geometry.h"
#include "text/csv_read.h"

struct step_model {
    const char *name;
    struct geometry geometry;
    const char *unknown; /* the column and token that no geometry can say, or NULL */
};

struct step_models {
    size_t count;
    struct step_model *items;          /* row by row */
    const struct step_model **by_name; /* sorted */
};

/* Every row as a checked geometry; what is wrong is reported at its cell, all of it. */
MOSAIC_MUST_USE enum mosaic_status step_models_read(void *memory, const struct csv_table *csv,
                                                    struct diag_list *diags,
                                                    struct step_models *models);
/* By name, or NULL. */
const struct step_model *step_models_find(const struct step_models *models, const char *name);
/* The name nearest to one that is not there, or NULL. */
const char *step_models_near(const struct step_models *models, const char *name);

#endif
