// SPDX-License-Identifier: GPL-3.0-or-later
/* Shared memory of POSIX; a barrier of three counters, which a process may be killed at. */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { NAME_SIZE = 80, YIELDS = 64 };

/* Zero when the first rank makes it. */
struct group_meeting {
    atomic_int waiting, noes;
    atomic_uint round;
    atomic_bool is_over;
    atomic_long agreed;
};

enum mosaic_status group_new_id(char id[GROUP_ID_SIZE], struct status_error *err) {
    unsigned char bytes[GROUP_ID_SIZE / 2];
    FILE *const file = fopen("/dev/urandom", "rb");
    const size_t read = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        (void)fclose(file);
    if (read != sizeof bytes)
        return status_set(err, MOSAIC_IO, "cannot read /dev/urandom");
    for (size_t i = 0; i < sizeof bytes; ++i)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return MOSAIC_OK;
}

/* A block of that name; the ranks make it together. */
static void *share_block(const char *name, size_t bytes) {
    const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0)
        return NULL;
    /* Room is taken now: a store into a full file system would end the process. */
    const int refused = posix_fallocate(file, 0, (off_t)bytes);
    void *const block =
        refused ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (block != MAP_FAILED)
        return block;
    (void)shm_unlink(name);
    return NULL;
}

static void name_of(const struct host_group *g, unsigned job, char name[NAME_SIZE]) {
    (void)snprintf(name, NAME_SIZE, "/mosaic-%s-%u", g->id, job);
}

/* A barrier that all have reached holds, also when one of them has left since. */
bool group_barrier(struct host_group *g) {
    struct group_meeting *const m = g->meeting;
    const unsigned round = atomic_load(&m->round);
    if (atomic_load(&m->is_over))
        return false;
    if (atomic_fetch_add(&m->waiting, 1) + 1 == g->place.ranks) {
        atomic_store(&m->waiting, 0);
        (void)atomic_fetch_add(&m->round, 1);
        return true;
    }
    const double until_s = host_clock_s() + g->wait_s;
    for (unsigned tries = 1; atomic_load(&m->round) == round; ++tries) {
        const bool is_late = tries % YIELDS == 0 && host_clock_s() > until_s;
        if (is_late)
            atomic_store(&m->is_over, true);
        if (atomic_load(&m->is_over))
            return atomic_load(&m->round) != round;
        (void)sched_yield();
    }
    return true;
}

long group_agree(struct host_group *g, long value) {
    if (g->place.rank == 0)
        atomic_store(&g->meeting->agreed, value);
    if (!group_barrier(g))
        return -1;
    const long agreed = atomic_load(&g->meeting->agreed);
    return group_barrier(g) ? agreed : -1;
}

bool group_all(struct host_group *g, bool yes) {
    if (!yes)
        (void)atomic_fetch_add(&g->meeting->noes, 1);
    if (!group_barrier(g))
        return false;
    const bool is_all = atomic_load(&g->meeting->noes) == 0;
    const bool is_met = group_barrier(g);
    if (is_met && g->place.rank == 0)
        atomic_store(&g->meeting->noes, 0);
    return group_barrier(g) && is_all;
}

void group_leave(struct host_group *g) {
    if (!g->meeting)
        return;
    atomic_store(&g->meeting->is_over, true);
    (void)munmap(g->meeting, sizeof *g->meeting);
    g->meeting = NULL;
}

static bool is_id(const char *id) {
    return strlen(id) == GROUP_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == GROUP_ID_SIZE - 1;
}

enum mosaic_status group_join(struct host_group *g, const char *id, const struct group_place *place,
                              struct status_error *err) {
    char name[NAME_SIZE];
    if (!is_id(id))
        return status_set(err, MOSAIC_BAD_INPUT, "a group id has %d hexadecimal digits",
                          (int)GROUP_ID_SIZE - 1);
    if (place->rank >= place->ranks || place->ranks_per_domain > place->ranks)
        return status_set(err, MOSAIC_BAD_INPUT, "no such place: rank %d of %d, %d a domain",
                          place->rank, place->ranks, place->ranks_per_domain);
    group_leave(g);
    (void)snprintf(g->id, sizeof g->id, "%s", id);
    g->place = *place;
    g->jobs = 0;
    name_of(g, 0, name);
    g->meeting = share_block(name, sizeof *g->meeting);
    if (!g->meeting)
        return status_set(err, MOSAIC_IO, "no shared memory: %s", strerror(errno));
    const bool is_met = group_barrier(g);
    if (!is_met || place->rank == 0)
        (void)shm_unlink(name);
    if (is_met)
        return MOSAIC_OK;
    group_leave(g);
    return status_set(err, MOSAIC_DEVICE, "not all of the %d ranks came within %g s", place->ranks,
                      g->wait_s);
}

float *group_share(struct host_group *g, size_t floats) {
    char name[NAME_SIZE];
    name_of(g, ++g->jobs, name);
    float *const values = share_block(name, floats * sizeof *values);
    if (group_all(g, values != NULL)) {
        if (g->place.rank == 0)
            (void)shm_unlink(name);
        return values;
    }
    (void)shm_unlink(name);
    group_unshare(g, values, floats);
    return NULL;
}

void group_unshare(struct host_group *g, float *values, size_t floats) {
    (void)g;
    if (values)
        (void)munmap(values, floats * sizeof *values);
}
