// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The ranks that this process belongs to: one NCCL communicator.  One rank makes an id
 * (group_new), all ranks join with it; a later join replaces the group.  A build without NCCL has
 * the same functions, which refuse.
 */
#ifndef MOSAIC_CALIBRATION_GROUP_H
#define MOSAIC_CALIBRATION_GROUP_H

#include "quantity.h"

/* 128 bytes of NCCL's id in hexadecimal. */
enum { GROUP_ID_TEXT = 257 };

struct group_place {
    int rank, ranks, ranks_per_domain;
};

void group_new(char text[GROUP_ID_TEXT]);
void group_join(struct probe *probe, const char *id, const struct group_place *place);
/* A group of this rank alone, for checks; none without NCCL. */
void group_join_alone(struct probe *probe);
void group_leave(struct probe *probe);
/* Without waiting for the others. */
void group_abort(struct probe *probe);
/* After a refusal: ends a group whose communicator has failed. */
void group_recover(struct probe *probe);
/* Refuses what this group cannot measure: other ranks, other placement, no group. */
void group_require(const struct probe *probe, const struct sample *asked);
/* "2.28.9", or "" */
void group_version(char *text, size_t size);

#ifdef PROBE_NCCL
#include <nccl.h>

struct group {
    ncclComm_t comm;
    struct group_place place;
    float *token; /* of the barrier */
};

[[noreturn]] void group_failed(const struct probe_call *call, ncclResult_t status);
#define NCCL_CHECK(call)                                                                           \
    do {                                                                                           \
        const ncclResult_t nccl_status = (call);                                                   \
        if (nccl_status != ncclSuccess) {                                                          \
            const struct probe_call failed = {__FILE__, __LINE__, #call};                          \
            group_failed(&failed, nccl_status);                                                    \
        }                                                                                          \
    } while (0)

#endif

/* Queued on the stream: goes on when all ranks are there. */
void group_barrier(struct probe *probe);
/* This one's place; refuses without a group. */
int group_rank(const struct probe *probe);

/* Whether all ranks say so; all of them ask. */
bool group_agrees(struct probe *probe, bool is_so);

#endif
