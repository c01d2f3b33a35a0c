// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A probe that is started again after it was lost: a hang or a crash costs its one job.  A second
 * loss in a row is the end.
 */
#ifndef MOSAIC_MEASURE_PROBER_H
#define MOSAIC_MEASURE_PROBER_H

#include "measure/harness.h"
#include "measure/probe_process.h"

struct prober {
    struct probe_launch launch;
    struct probe_process *probe; /* NULL while there is none */
    int losses;                  /* in a row */
    size_t starts;
    char words[PROBE_STDERR_MAX + 1]; /* what the last one that was lost said */
};

/* The launch's strings are borrowed. */
MOSAIC_MUST_USE enum mosaic_status prober_open(const struct probe_launch *launch,
                                               struct prober *out, struct status_error *err);
void prober_close(struct prober *prober);
MOSAIC_MUST_USE enum mosaic_status prober_ask(struct prober *prober, const struct sample *keys,
                                              int rounds, double timeout_s, struct outcome *out,
                                              struct status_error *err);
/* Joins a group, or asks for a new one: group NULL, its id in `id`.  OUTCOME_SAMPLE stands for a
 * group that was formed. */
MOSAIC_MUST_USE enum mosaic_status prober_group(struct prober *prober,
                                                const struct probe_group *group, double timeout_s,
                                                struct outcome *out, char id[PROTOCOL_GROUP_MAX],
                                                struct status_error *err);
/* A harness_ask of one process: context is a struct prober. */
harness_ask prober_ask_alone;

#endif
