// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Objects of JSON, one a line, over a TCP connection, each way with a deadline.  A peer that
 * closes, stays silent or sends what is no object gives MOSAIC_DEVICE; MOSAIC_INTERRUPTED once
 * `stop` is set.  No signal is raised by a peer that is gone.
 */
#ifndef MOSAIC_MEASURE_WIRE_H
#define MOSAIC_MEASURE_WIRE_H

#include "measure/protocol.h"

#include <stdatomic.h>

enum { WIRE_LINE_MAX = 2 * PROTOCOL_LINE_MAX };

struct wire {
    int socket; /* -1: closed */
    char *buffer;
    size_t used;
};

/* Takes the socket over. */
MOSAIC_MUST_USE enum mosaic_status wire_open(int socket, struct wire *out,
                                             struct status_error *err);
void wire_close(struct wire *wire);
MOSAIC_MUST_USE enum mosaic_status wire_send(struct wire *wire, const json_t *object,
                                             double deadline_s, const atomic_bool *stop,
                                             struct status_error *err);
/* A last word: whether it arrives is of no account. */
void wire_tell(struct wire *wire, const json_t *object);
MOSAIC_MUST_USE enum mosaic_status wire_receive(struct wire *wire, double deadline_s,
                                                const atomic_bool *stop, json_t **out,
                                                struct status_error *err);
/* What has come so far, without waiting: *out stays NULL while no line is whole. */
MOSAIC_MUST_USE enum mosaic_status wire_peek(struct wire *wire, json_t **out,
                                             struct status_error *err);

/* A listening socket on all addresses; *port 0 takes any and tells which. */
MOSAIC_MUST_USE enum mosaic_status wire_listen(int *port, int *socket, struct status_error *err);
/* Tries each of the host's addresses once; a host that is not known has a hint too. */
MOSAIC_MUST_USE enum mosaic_status wire_connect(const char *address, int port, double deadline_s,
                                                const atomic_bool *stop, struct wire *out,
                                                struct status_error *err);

#endif
