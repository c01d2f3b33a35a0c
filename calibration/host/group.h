// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Ranks as processes of one machine: a group that this process has joined.  They meet in a block of
 * shared memory named after the group; whoever waits longer than the limit for another rank gives
 * the group up, so that a dead or silent peer costs that limit and no more.
 */
#ifndef MOSAIC_CALIBRATION_HOST_GROUP_H
#define MOSAIC_CALIBRATION_HOST_GROUP_H

#include "host.h"

enum { GROUP_ID_SIZE = 33 };

struct group_place {
    int rank, ranks, ranks_per_domain;
};

struct host_group {
    struct group_place place;
    char id[GROUP_ID_SIZE];
    double wait_s;
    struct group_meeting *meeting; /* NULL: in no group */
    unsigned jobs;
};

MOSAIC_MUST_USE enum mosaic_status group_new_id(char id[GROUP_ID_SIZE], struct status_error *err);
/* Returns when all ranks are there; leaves the group that was joined before. */
MOSAIC_MUST_USE enum mosaic_status group_join(struct host_group *group, const char *id,
                                              const struct group_place *place,
                                              struct status_error *err);
void group_leave(struct host_group *group);

/* False when the group is given up. */
bool group_barrier(struct host_group *group);
/* Rank 0's value; -1 when the group is given up. */
long group_agree(struct host_group *group, long value);
/* Whether all ranks say yes. */
bool group_all(struct host_group *group, bool yes);

/* The floats of all ranks, one after the other, in shared memory. */
float *group_share(struct host_group *group, size_t floats);
void group_unshare(struct host_group *group, float *values, size_t floats);

#endif
