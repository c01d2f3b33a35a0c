// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What changed between two calibrations of one kind of machine, entry by entry: a scalar by its
 * value, a curve or a collective where the two differ most over the samples of both, within what
 * both measured; where one has no sample, those beside it bound what it may be.  A
 * change counts when it is larger than the tolerance and than the spread of the rounds that the
 * documents' own samples of that quantity show; a tolerance of its own takes the place of both.
 */
#ifndef MOSAIC_MEASURE_DRIFT_H
#define MOSAIC_MEASURE_DRIFT_H

#include "machine/calibration.h"
#include "measure/calibrate_settings.h"

enum drift_verdict { DRIFT_SAME, DRIFT_CHANGED, DRIFT_MISSING, DRIFT_NEW, DRIFT_VERDICTS };
const char *drift_verdict_name(enum drift_verdict verdict);

enum { DRIFT_NAME_MAX = 96 };

struct drift_row {
    char name[DRIFT_NAME_MAX]; /* "gemm.bf16.share", "all_reduce over 8 ranks, 8 in a domain" */
    enum drift_verdict verdict;
    enum dimension dimension;
    bool has_was, has_now, has_at;
    double at, was, now; /* at: of a curve, on its axis */
    double limit;        /* share that is no drift */
    double spread;       /* of the samples; 0: not known */
};

/* Samples of a quantity that both documents hold. */
struct drift_samples {
    size_t both, changed; /* changed: apart by more than the limit and both spreads */
    double ratio;         /* middle of new time over old */
    double spread;        /* middle of the rounds' half range over the median; 0: none */
};

struct drift_side {
    const struct calibration *calibration;
    const struct sample *samples;
    size_t count;
};

struct drift {
    struct drift_row *rows;
    size_t count, drifted; /* changed or missing */
    struct drift_samples samples[SAMPLE_QUANTITIES];
};

MOSAIC_MUST_USE enum mosaic_status drift_find(const struct drift_side *was,
                                              const struct drift_side *now,
                                              const struct calibrate_settings *settings,
                                              struct drift *out, struct status_error *err);
void drift_free(struct drift *drift);

#endif
