// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the probe calls of NCCL, between processes of this machine: a file that all ranks map, with
 * a ring of messages for each pair.  Collectives are sends and receives of whole buffers.  As with
 * the real one, sends and receives of a group start together at its end, and what one rank sends
 * another must receive in the same order.
 */
#include <nccl.h>

#include <cuda_bf16.h>

#include <atomic>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vector>

enum { RANKS_MOST = 4, SLOTS = 16, SLOT_BYTES = 256 << 10 };
static const double wait_most_s = 60;

struct ring {
    std::atomic<unsigned> written, read;
    size_t bytes[SLOTS];
    char slots[SLOTS][SLOT_BYTES];
};
struct shared {
    std::atomic<int> joined;
    struct ring rings[RANKS_MOST][RANKS_MOST]; /* from, to */
};
struct ncclComm {
    struct shared *shared;
    int rank, ranks;
};

static double now_s() {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
template <typename T> static bool wait_for(const T &is_so) {
    for (const double from = now_s(); !is_so(); sched_yield())
        if (now_s() - from > wait_most_s)
            return false;
    return true;
}

ncclResult_t ncclGetVersion(int *version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t) {
    return "emulated error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static int made;
    const char *const folder = getenv("TMPDIR");
    *id = {};
    (void)snprintf(id->internal, sizeof id->internal, "%s/nccl.%d.%d", folder ? folder : "/tmp",
                   (int)getpid(), made++);
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t *to, int ranks, ncclUniqueId id, int rank) {
    if (ranks > RANKS_MOST)
        return ncclInvalidArgument;
    const int file = open(id.internal, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct shared)) != 0)
        return ncclSystemError;
    void *const at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (at == MAP_FAILED)
        return ncclSystemError;
    struct shared *const shared = (struct shared *)at;
    ++shared->joined;
    if (!wait_for([&] { return shared->joined >= ranks; }))
        return ncclSystemError;
    *to = new ncclComm{shared, rank, ranks};
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    (void)munmap(comm->shared, sizeof *comm->shared);
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    return ncclCommDestroy(comm);
}

/* ---- messages ---- */

struct message {
    ncclComm_t comm;
    int peer;
    const void *from; /* or */
    void *to;
    size_t bytes;
};
static std::vector<struct message> queued;
static int depth;

static size_t bytes_of(ncclDataType_t type) {
    return type == ncclFloat ? 4 : 2;
}

static ncclResult_t send(const struct message &m) {
    struct ring *const r = &m.comm->shared->rings[m.comm->rank][m.peer];
    if (m.bytes > SLOT_BYTES)
        return ncclInvalidArgument;
    if (!wait_for([&] { return r->written - r->read < SLOTS; }))
        return ncclSystemError;
    const unsigned slot = r->written % SLOTS;
    memcpy(r->slots[slot], m.from, m.bytes);
    r->bytes[slot] = m.bytes;
    ++r->written;
    return ncclSuccess;
}
static ncclResult_t receive(const struct message &m) {
    struct ring *const r = &m.comm->shared->rings[m.peer][m.comm->rank];
    if (!wait_for([&] { return r->written != r->read; }))
        return ncclSystemError;
    const unsigned slot = r->read % SLOTS;
    if (r->bytes[slot] != m.bytes) /* the real one would hang or write elsewhere */
        return ncclInvalidUsage;
    memcpy(m.to, r->slots[slot], m.bytes);
    ++r->read;
    return ncclSuccess;
}

static ncclResult_t flush() {
    ncclResult_t result = ncclSuccess;
    for (const struct message &m : queued)
        if (m.from && result == ncclSuccess)
            result = send(m);
    for (const struct message &m : queued)
        if (m.to && result == ncclSuccess)
            result = receive(m);
    queued.clear();
    return result;
}

ncclResult_t ncclGroupStart() {
    ++depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    return --depth == 0 ? flush() : ncclSuccess;
}
static ncclResult_t queue(const struct message &m) {
    queued.push_back(m);
    return depth == 0 ? flush() : ncclSuccess;
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t) {
    return queue({comm, peer, from, NULL, count * bytes_of(type)});
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
    return queue({comm, peer, NULL, to, count * bytes_of(type)});
}

/* ---- collectives ---- */

/* Each rank's part of `from` to it, its part of ours to `all`, one after the other. */
static ncclResult_t exchange(ncclComm_t comm, const void *from, size_t stride, size_t bytes,
                             std::vector<char> *all) {
    all->resize((size_t)comm->ranks * bytes);
    (void)ncclGroupStart();
    for (int r = 0; r < comm->ranks; ++r) {
        queued.push_back({comm, r, (const char *)from + (size_t)r * stride, NULL, bytes});
        queued.push_back({comm, r, NULL, all->data() + (size_t)r * bytes, bytes});
    }
    return ncclGroupEnd();
}

static double value_at(const char *from, ncclDataType_t type, size_t i) {
    return type == ncclFloat
               ? (double)((const float *)(const void *)from)[i]
               : (double)__bfloat162float(((const __nv_bfloat16 *)(const void *)from)[i]);
}
static void merge(void *to, const std::vector<char> &all, size_t count, ncclDataType_t type,
                  ncclRedOp_t op) {
    const size_t bytes = count * bytes_of(type);
    for (size_t i = 0; i < count; ++i) {
        double value = value_at(all.data(), type, i);
        for (size_t at = bytes; at < all.size(); at += bytes) {
            const double other = value_at(all.data() + at, type, i);
            value = op == ncclSum ? value + other : other < value ? other : value;
        }
        if (type == ncclFloat)
            ((float *)to)[i] = (float)value;
        else
            ((__nv_bfloat16 *)to)[i] = __float2bfloat16_rn((float)value);
    }
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
    std::vector<char> all;
    const ncclResult_t result = exchange(comm, from, 0, count * bytes_of(type), &all);
    if (result == ncclSuccess)
        merge(to, all, count, type, op);
    return result;
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
    std::vector<char> all;
    const size_t bytes = count * bytes_of(type);
    const ncclResult_t result = exchange(comm, from, bytes, bytes, &all);
    if (result == ncclSuccess)
        merge(to, all, count, type, op);
    return result;
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
    std::vector<char> all;
    const ncclResult_t result = exchange(comm, from, 0, count * bytes_of(type), &all);
    memcpy(to, all.data(), all.size());
    return result;
}
