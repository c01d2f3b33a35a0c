// SPDX-License-Identifier: GPL-3.0-or-later
/* Joining and leaving; see the header. */
#include "device.h"
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void group_require(const struct probe *p, const struct sample *asked) {
#ifdef PROBE_NCCL
    if (!p->group)
        probe_refuse(REFUSED_UNSUPPORTED, "no group has been joined");
    const struct group_place *const place = &p->group->place;
    const int domain = sample_key_index(asked->quantity, "ranks_per_domain");
    if (asked_value(asked, "ranks") != place->ranks)
        probe_refuse(REFUSED_UNSUPPORTED, "%ld ranks asked, the group has %d",
                     asked_value(asked, "ranks"), place->ranks);
    if (domain >= 0 && asked->value[domain] != place->ranks_per_domain)
        probe_refuse(REFUSED_UNSUPPORTED, "%lld ranks a domain asked, the group has %d",
                     asked->value[domain], place->ranks_per_domain);
#else
    (void)p;
    (void)asked;
#endif
}

#ifdef PROBE_NCCL

static bool is_broken;

[[noreturn]] void group_failed(const struct probe_call *call, ncclResult_t status) {
    is_broken = true;
    probe_refuse(REFUSED_FAILED, "%s:%d: %s: %s", call->file, call->line, call->text,
                 ncclGetErrorString(status));
}

void group_version(char *text, size_t size) {
    int version = 0;
    text[0] = '\0';
    if (ncclGetVersion(&version) == ncclSuccess)
        (void)snprintf(text, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void group_new(char text[GROUP_ID_TEXT]) {
    ncclUniqueId id;
    static_assert(2 * sizeof id + 1 == GROUP_ID_TEXT, "two digits a byte");
    NCCL_CHECK(ncclGetUniqueId(&id));
    for (size_t i = 0; i < sizeof id; ++i)
        (void)snprintf(text + 2 * i, 3, "%02x", (unsigned)(unsigned char)id.internal[i]);
}

static void read_id(const char *text, ncclUniqueId *id) {
    if (strlen(text) != 2 * sizeof *id || strspn(text, "0123456789abcdef") != 2 * sizeof *id)
        probe_refuse(REFUSED_FAILED, "a group id has %zu hexadecimal digits", 2 * sizeof *id);
    for (size_t i = 0; i < sizeof *id; ++i) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        id->internal[i] = (char)strtoul(digits, NULL, 16);
    }
}

static void join(struct probe *p, ncclUniqueId id, const struct group_place *place) {
    group_leave(p);
    struct group *const g = (struct group *)calloc(1, sizeof *g);
    if (!g)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    const ncclResult_t joined = ncclCommInitRank(&g->comm, place->ranks, id, place->rank);
    if (joined != ncclSuccess) {
        free(g);
        const struct probe_call failed = {__FILE__, __LINE__, "ncclCommInitRank"};
        group_failed(&failed, joined);
    }
    g->place = *place;
    p->group = g; /* from here on group_abort ends it */
    CUDA_CHECK(cudaMalloc((void **)&g->token, sizeof *g->token));
    CUDA_CHECK(cudaMemsetAsync(g->token, 0, sizeof *g->token, p->stream));
    group_barrier(p);
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
}

void group_join(struct probe *p, const char *text, const struct group_place *place) {
    ncclUniqueId id;
    read_id(text, &id);
    if (place->ranks < 1 || place->rank < 0 || place->rank >= place->ranks ||
        place->ranks_per_domain < 1 || place->ranks_per_domain > place->ranks)
        probe_refuse(REFUSED_FAILED, "no such place: rank %d of %d, %d a domain", place->rank,
                     place->ranks, place->ranks_per_domain);
    join(p, id, place);
    quantity_forget_group();
}

void group_join_alone(struct probe *p) {
    const struct group_place alone = {0, 1, 1};
    ncclUniqueId id;
    NCCL_CHECK(ncclGetUniqueId(&id));
    join(p, id, &alone);
}

static void end_group(struct probe *p, ncclResult_t (*end)(ncclComm_t)) {
    if (!p->group)
        return;
    (void)end(p->group->comm);
    (void)cudaFree(p->group->token);
    free(p->group);
    p->group = NULL;
}

void group_leave(struct probe *p) {
    end_group(p, ncclCommDestroy);
}

void group_abort(struct probe *p) {
    end_group(p, ncclCommAbort);
}

void group_recover(struct probe *p) {
    if (is_broken)
        group_abort(p);
    is_broken = false;
}

void group_barrier(struct probe *p) {
    struct group *const g = p->group;
    NCCL_CHECK(ncclAllReduce(g->token, g->token, 1, ncclFloat, ncclSum, g->comm, p->stream));
}

int group_rank(const struct probe *p) {
    if (!p->group)
        probe_refuse(REFUSED_UNSUPPORTED, "no group has been joined");
    return p->group->place.rank;
}

bool group_agrees(struct probe *p, bool is_so) {
    struct group *const g = p->group;
    float value = is_so ? 1.0F : 0.0F;
    CUDA_CHECK(cudaMemcpyAsync(g->token, &value, sizeof value, cudaMemcpyHostToDevice, p->stream));
    NCCL_CHECK(ncclAllReduce(g->token, g->token, 1, ncclFloat, ncclMin, g->comm, p->stream));
    CUDA_CHECK(cudaMemcpyAsync(&value, g->token, sizeof value, cudaMemcpyDeviceToHost, p->stream));
    CUDA_CHECK(cudaMemsetAsync(g->token, 0, sizeof value, p->stream));
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    return value > 0.0F;
}

#else

[[noreturn]] static void refuse_groups(void) {
    probe_refuse(REFUSED_UNSUPPORTED, "built without NCCL");
}

void group_version(char *text, size_t size) {
    if (size > 0)
        text[0] = '\0';
}

void group_new(char *) {
    refuse_groups();
}

void group_join(struct probe *, const char *, const struct group_place *) {
    refuse_groups();
}

void group_join_alone(struct probe *) {
}

void group_leave(struct probe *) {
}

void group_abort(struct probe *) {
}

void group_recover(struct probe *) {
}

void group_barrier(struct probe *) {
    refuse_groups();
}

int group_rank(const struct probe *) {
    refuse_groups();
}

bool group_agrees(struct probe *, bool is_so) {
    return is_so;
}

#endif
