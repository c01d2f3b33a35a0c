// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Threads as ranks.  Every rank runs the same body; collectives are calls that all ranks of the run
 * make in the same order.  When one rank fails, the others' next collective fails as well, so that
 * nobody waits for ever; the error of the lowest rank that failed by itself is what is reported.
 */
#ifndef MOSAIC_EXEC_RANKS_H
#define MOSAIC_EXEC_RANKS_H

#include "exec/ledger.h"

enum { RANKS_MAX = 64 };

struct ranks;

struct rank {
    int index, count;
    struct ranks *all;
    struct ledger device, host;
};

typedef enum mosaic_status rank_body(void *context, struct rank *rank, struct status_error *err);

/* Runs the body on count ranks and waits for all.  peaks (may be NULL) takes `count` ledgers of the
 * device, hosts the same of the host. A body that leaves blocks behind is an internal error. */
MOSAIC_MUST_USE enum mosaic_status ranks_run(int count, rank_body *body, void *context,
                                             struct ledger *devices, struct ledger *hosts,
                                             struct status_error *err);

MOSAIC_MUST_USE enum mosaic_status rank_barrier(struct rank *rank, struct status_error *err);
/* The largest of the ranks' values, at all of them. */
MOSAIC_MUST_USE enum mosaic_status rank_max(struct rank *rank, long *value,
                                            struct status_error *err);
/* Sum in rank order at all of them, so that it is the same to the bit. */
MOSAIC_MUST_USE enum mosaic_status rank_sum_longs(struct rank *rank, long *values, size_t count,
                                                  struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status rank_sum_floats(struct rank *rank, float *values, size_t count,
                                                   struct status_error *err);
/* all[count x bytes] takes every rank's block in rank order. */
MOSAIC_MUST_USE enum mosaic_status rank_all_gather(struct rank *rank, const void *mine,
                                                   size_t bytes, void *all,
                                                   struct status_error *err);

/* What one rank sends to and receives from each other rank: bytes and offsets into one buffer. */
struct exchange {
    const void *send;
    const size_t *send_bytes, *send_offsets; /* [count] */
    void *receive;
    const size_t *receive_bytes, *receive_offsets; /* [count] */
};
MOSAIC_MUST_USE enum mosaic_status
rank_all_to_all(struct rank *rank, const struct exchange *exchange, struct status_error *err);
/* Send a block to the next rank of a ring of `ring` ranks (a divisor of count, neighbours by
 * index), receive the previous one's; the buffers differ. */
MOSAIC_MUST_USE enum mosaic_status rank_shift(struct rank *rank, int ring, const void *send,
                                              void *receive, size_t bytes,
                                              struct status_error *err);

#endif
