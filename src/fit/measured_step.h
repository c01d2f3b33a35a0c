// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One measured training step: which job ran where, and what was measured of it.  Made from tables
 * of rows by doc/doc_steps.c; calibrated by fit/step_fit.h, scored by fit/step_score.h.
 */
#ifndef MOSAIC_FIT_MEASURED_STEP_H
#define MOSAIC_FIT_MEASURED_STEP_H

#include "machine/calibration.h"
#include "step/step.h"

/* What a row leaves open, and how it was settled: listed in reports, never silent. */
enum unstated {
    UNSTATED_RECOMPUTE = 1,
    UNSTATED_OVERLAP = 2,
    UNSTATED_GRAPHS = 4,
    UNSTATED_DISPATCHER = 8,
    UNSTATED_ROUTING = 16,
    UNSTATED_STATE = 32, /* formats of gradients and moments */
    UNSTATED_SPLIT = 64  /* layers per stage, where they do not come out even */
};

struct measured_step {
    const char *id, *model, *gpu, *fabric, *software, *source, *licence; /* as written */
    const char *architecture;                                            /* of the device */
    const char *cluster_name; /* document that was chosen */
    size_t row;               /* from 1, as diagnostics count */
    struct geometry geometry;
    struct cluster cluster;
    const struct calibration *calibration; /* the cluster document's */
    const struct engine *engine;
    struct workload workload;
    struct mesh mesh; /* complete */
    struct split split;
    unsigned unstated;
    int year;           /* of the software, 0 when unknown */
    size_t layout;      /* index of the distinct layout: equal model, gpu, fabric, precision,
                           sequence, degrees, micro-batch, recompute, sharding, dispatcher, graphs,
                           EP overlap */
    size_t layout_rows; /* rows that share it */
    double step_time_s;
    double peak_allocated_bytes, peak_reserved_bytes; /* 0 when not measured */
};

struct excluded_step {
    const char *id;
    size_t row;
    const char *reason; /* names column and token */
};

struct measured_steps {
    size_t count, excluded_count, rows, layouts;
    struct measured_step *items;
    struct excluded_step *excluded;
};

/* Layers that do not come out even over the chunks are laid out by hand, since embedding, head and
 * MTP layers weigh on the ends: the split of least predicted step time among those whose first and
 * last stages have up to a few layers less.  Even ones stay even. */
void measured_step_balance(struct measured_step *step, const struct calibration *calibration);

/* The evaluator on one row under a calibration (NULL: the row's own). */
void measured_step_predict(const struct measured_step *step, const struct calibration *calibration,
                           struct prediction *out);

/* Factors off a prediction, either way, at which a row looks wrong (units, part of the job), and at
 * which no fit shall follow it.  The second is wide since fits start from data sheets, by which
 * published rows come out up to 6 times too fast. */
#define MEASURED_STEP_SUSPECT 3.0
#define MEASURED_STEP_WRONG 8.0
/* Whether the measured time is within the factor of a prediction. */
bool measured_step_is_near(const struct measured_step *step, double predicted_s, double factor);

#endif
