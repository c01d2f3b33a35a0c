// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Runs the jobs of a list: skips what the journal has, asks for the rest, keeps each answer at
 * once. A job over which the probe hangs or crashes is lost and not tried again; the next start
 * tries it last.  Nothing is begun that would end beyond the budget, as the jobs before it went.
 */
#ifndef MOSAIC_MEASURE_HARNESS_H
#define MOSAIC_MEASURE_HARNESS_H

#include "measure/job_list.h"
#include "measure/journal.h"

#include <stdatomic.h>

enum outcome_kind {
    OUTCOME_SAMPLE,
    OUTCOME_REFUSED,
    OUTCOME_LOST,   /* the probe was, over it */
    OUTCOME_SKIPPED /* a rank that it needs is gone */
};

struct outcome {
    enum outcome_kind kind;
    struct sample sample;
    enum refusal refusal;
    char text[PROTOCOL_TEXT_MAX];
    json_t *object; /* the probe's answer, or NULL; the receiver frees it */
    json_t *links;  /* of pairs, or NULL; the same */
};

/* Asks for one job.  Anything but MOSAIC_OK ends the run. */
typedef enum mosaic_status harness_ask(void *context, const struct job *job, double timeout_s,
                                       struct outcome *out, struct status_error *err);

struct harness {
    const struct job_list *jobs;
    struct journal *journal;
    harness_ask *ask;
    void *context;
    double timeout_s, budget_s;
    const atomic_bool *stop; /* may be NULL */
    void (*progress)(void *context, double done, double total);
    void *progress_context;
};

enum left_out { LEFT_REFUSED, LEFT_LOST, LEFT_SKIPPED, LEFT_BUDGET, LEFT_KINDS };
const char *left_out_name(enum left_out why);

/* A job that gave no sample. */
struct harness_gap {
    struct sample keys;
    enum left_out why;
    enum refusal refusal; /* LEFT_REFUSED */
    char text[PROTOCOL_TEXT_MAX];
};

struct harness_run {
    struct sample *samples; /* of the jobs, new or from the journal; one for each keys, in order */
    size_t count;
    struct harness_gap *gaps;
    size_t gap_count;
    size_t measured, resumed; /* samples asked for now, and found */
    size_t left[LEFT_KINDS], refused[REFUSALS], unverified;
    bool was_stopped;
    enum mosaic_status status; /* MOSAIC_OK, or what ended it, with `error` */
    struct status_error error;
};

/* Fails only for want of memory; what else went wrong, also where the journal cannot be written, is
 * in the run. */
MOSAIC_MUST_USE enum mosaic_status harness_run(const struct harness *harness,
                                               struct harness_run *out, struct status_error *err);
void harness_run_free(struct harness_run *run);

#endif
