// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Processes that measure together, one a GPU, meet at rank 0 by TCP.  Each proves that it knows the
 * job's secret, and shows its card: host, program, probe, device.  Rank 0 refuses what cannot give
 * one calibration, and says why to all:
 *   ranks that come twice, or with another number of ranks: two jobs in one
 *   another program, probe, device or software; a probe that did not start
 *   hosts with fewer ranks or devices than the others; ranks that never come
 * After that rank 0 asks and the others answer, until it lets them go.
 */
#ifndef MOSAIC_MEASURE_RENDEZVOUS_H
#define MOSAIC_MEASURE_RENDEZVOUS_H

#include "measure/launcher.h"
#include "measure/wire.h"

enum { RENDEZVOUS_HOST_MAX = 64 };

/* What a rank says of itself. */
struct rendezvous_card {
    char host[RENDEZVOUS_HOST_MAX];
    int rank, ranks, local_rank;
    const struct probe_hello *hello; /* NULL: the probe did not start */
    const char *failure;             /* then why, else NULL */
};

struct member {
    char host[RENDEZVOUS_HOST_MAX];
    int rank, local_rank, node; /* node: 0 for the host of the lowest rank, ... */
    struct wire wire;           /* not of rank 0 */
    bool is_here;
    char failure[PROTOCOL_TEXT_MAX]; /* of its probe, or "" */
    json_t *card;
};

struct team {
    int ranks, nodes, ranks_per_node;
    struct member *members; /* by rank */
    int *places;            /* ranks in the order of hosts, then of local ranks */
};

struct rendezvous_options {
    const struct launcher *launcher;
    double timeout_s;
    int gpus_per_node;       /* that a cluster document states; 0: none */
    int cluster_gpus;        /* the same of all of it */
    const atomic_bool *stop; /* may be NULL */
};

/* Rank 0: waits for all.  MOSAIC_DEVICE with a message that names the ranks; everybody who came has
 * been told. */
MOSAIC_MUST_USE enum mosaic_status rendezvous_host(const struct rendezvous_options *options,
                                                   const struct rendezvous_card *card,
                                                   struct team *out, struct status_error *err);
/* The others: a wire to rank 0, which has found all to be well. */
MOSAIC_MUST_USE enum mosaic_status rendezvous_join(const struct rendezvous_options *options,
                                                   const struct rendezvous_card *card,
                                                   struct wire *out, struct status_error *err);
/* Tells the members that it is over (text NULL: all is well) and closes. */
void team_close(struct team *team, const char *text);
/* "rank 3 on node-b". */
void team_name(const struct team *team, int rank, char *text, size_t size);

/* Nodes and places, once all cards are there. */
MOSAIC_MUST_USE enum mosaic_status team_seat(struct team *team, struct status_error *err);
/* Checks what is known of all ranks before anything is measured. */
MOSAIC_MUST_USE enum mosaic_status team_check(const struct team *team,
                                              const struct rendezvous_options *options,
                                              struct status_error *err);

#endif
