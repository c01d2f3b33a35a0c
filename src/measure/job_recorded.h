// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a probe that plays a record asks to be asked: the `shapes` of its hello, a list of the keys
 * of samples, whatever the level.
 */
#ifndef MOSAIC_MEASURE_JOB_RECORDED_H
#define MOSAIC_MEASURE_JOB_RECORDED_H

#include "measure/job_list.h"

/* False: the hello lists none. */
bool job_recorded_has(const struct probe_hello *hello);
/* A job a shape, in their order, each once and answered at once; job_list_free() it. */
MOSAIC_MUST_USE enum mosaic_status
job_recorded_make(const struct probe_hello *hello, struct job_list *out, struct status_error *err);

#endif
