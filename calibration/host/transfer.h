// SPDX-License-Identifier: GPL-3.0-or-later
/* A collective as a job asks for it: who sends what, and what one rank's result is. */
#ifndef MOSAIC_CALIBRATION_HOST_TRANSFER_H
#define MOSAIC_CALIBRATION_HOST_TRANSFER_H

#include "host.h"

#include "exec/ranks.h"

/* In the order of the key's words. */
enum transfer_kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, POINT_TO_POINT };

struct transfer {
    enum transfer_kind kind;
    int rank, ranks;
    size_t count, part;     /* floats of a buffer, and of a rank's part of it */
    float *from[RANKS_MAX]; /* every rank's buffer */
    float *to;              /* of this rank */
};

/* Kind and sizes from a job's keys; false and refused where they do not divide or fit. */
bool transfer_of(struct host_job *job, struct transfer *transfer);
bool transfer_is_right(const struct transfer *transfer);

#endif
