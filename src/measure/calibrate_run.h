// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * All of a measurement but what is made of it: the probe is found and started, ranks meet, the jobs
 * of the scope run over the journal.
 */
#ifndef MOSAIC_MEASURE_CALIBRATE_RUN_H
#define MOSAIC_MEASURE_CALIBRATE_RUN_H

#include "measure/calibrate_settings.h"
#include "measure/launcher.h"
#include "measure/team_ask.h"

struct calibrate_request {
    const struct calibrate_settings *settings;
    const struct cluster *cluster; /* or NULL */
    bool cluster_has_nodes;        /* the document counts them */
    /* Data sheet of a device that no cluster states, by what the probe calls it: for the shapes
     * that are measured.  NULL where it is not known; may be NULL. */
    const struct device *(*sheet_of)(void *context, const char *name);
    void *sheet_context;
    const struct launcher *launcher;
    const atomic_bool *stop;
    void (*progress)(void *context, double done, double total);
    void *progress_context;
};

enum { CALIBRATE_SLOW_MAX = 32 };

/* A rank that is gone, or slower than the others by itself. */
struct calibrate_rank {
    char name[PROTOCOL_TEXT_MAX]; /* "rank 3 on node-b" */
    char failure[PROTOCOL_TEXT_MAX];
    struct team_tally tally;
};

struct calibrate_run {
    bool is_peer; /* a rank other than 0, which has done its part; nothing else is set */
    struct probe_hello hello;
    size_t jobs, too_long, too_large, beyond; /* of the list */
    struct harness_run run;
    bool journal_was_cut;
    int ranks, nodes, ranks_per_node, ranks_per_domain;
    struct calibrate_rank *members; /* by rank; NULL for one */
    struct slow_link slow[CALIBRATE_SLOW_MAX];
    size_t slow_count;
    size_t rank_losses;               /* of all ranks together */
    size_t starts;                    /* of the probe */
    char words[PROBE_STDERR_MAX + 1]; /* its last ones, where it was lost; "" */
};

/* `words` also where it fails; it is the caller's, PROBE_STDERR_MAX + 1 bytes. */
MOSAIC_MUST_USE enum mosaic_status calibrate_run(const struct calibrate_request *request,
                                                 struct calibrate_run *out, char *words,
                                                 struct status_error *err);
void calibrate_run_free(struct calibrate_run *run);

#endif
