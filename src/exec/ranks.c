// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A collective posts the rank's argument on a board, waits for everybody, reads the others'
 * arguments and waits again before anyone's buffers may change.
 */
#include "exec/ranks.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct ranks {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    int count;
    int waiting;
    unsigned long round; /* barriers passed */
    bool has_failed;
    const void *board[RANKS_MAX]; /* what each rank brings to the collective */

    rank_body *body;
    void *context;
};

/* One rank's thread and how it ended. */
struct seat {
    struct rank rank;
    pthread_t thread;
    enum mosaic_status status;
    struct status_error error;
    bool gave_up; /* failed because another rank did */
};

static enum mosaic_status abandoned(struct status_error *err) {
    return status_set(err, MOSAIC_INTERNAL, "another rank failed");
}

/* False when some rank has failed. */
static bool meet(struct ranks *all) {
    (void)pthread_mutex_lock(&all->lock);
    const unsigned long round = all->round;
    if (!all->has_failed && ++all->waiting == all->count) {
        all->waiting = 0;
        all->round++;
        (void)pthread_cond_broadcast(&all->all_here);
    }
    while (!all->has_failed && all->round == round)
        (void)pthread_cond_wait(&all->all_here, &all->lock);
    const bool is_met = all->round != round;
    (void)pthread_mutex_unlock(&all->lock);
    return is_met;
}

enum mosaic_status rank_barrier(struct rank *rank, struct status_error *err) {
    return meet(rank->all) ? MOSAIC_OK : abandoned(err);
}

/* Show `mine` to the others; after the call board[] holds everybody's until rank_barrier. */
static enum mosaic_status post(struct rank *rank, const void *mine, struct status_error *err) {
    rank->all->board[rank->index] = mine;
    return rank_barrier(rank, err);
}

enum mosaic_status rank_max(struct rank *rank, long *value, struct status_error *err) {
    const long mine = *value;
    TRY(post(rank, &mine, err));
    for (int i = 0; i < rank->count; ++i) {
        const long other = *(const long *)rank->all->board[i];
        *value = other > *value ? other : *value;
    }
    return rank_barrier(rank, err);
}

/* Adds `count` of a rank's values to the sums so far. */
typedef void add_values(void *sums, const void *values, size_t count);

static void add_longs(void *sums, const void *values, size_t count) {
    for (size_t k = 0; k < count; ++k)
        ((long *)sums)[k] += ((const long *)values)[k];
}

static void add_floats(void *sums, const void *values, size_t count) {
    for (size_t k = 0; k < count; ++k)
        ((float *)sums)[k] += ((const float *)values)[k];
}

static enum mosaic_status sum_values(struct rank *rank, void *values, size_t count, size_t size,
                                     add_values *add, struct status_error *err) {
    void *const sums = calloc(count + 1, size);
    if (!sums)
        return status_no_memory(err);
    enum mosaic_status status = MOSAIC_OK;
    TRY_GOTO(post(rank, values, err));
    for (int i = 0; i < rank->count; ++i)
        add(sums, rank->all->board[i], count);
    TRY_GOTO(rank_barrier(rank, err));
    memcpy(values, sums, count * size);
out:
    free(sums);
    return status;
}

enum mosaic_status rank_sum_longs(struct rank *rank, long *values, size_t count,
                                  struct status_error *err) {
    return sum_values(rank, values, count, sizeof *values, add_longs, err);
}

enum mosaic_status rank_sum_floats(struct rank *rank, float *values, size_t count,
                                   struct status_error *err) {
    return sum_values(rank, values, count, sizeof *values, add_floats, err);
}

enum mosaic_status rank_all_gather(struct rank *rank, const void *mine, size_t bytes, void *all,
                                   struct status_error *err) {
    TRY(post(rank, mine, err));
    for (int i = 0; bytes > 0 && i < rank->count; ++i)
        memcpy((char *)all + (size_t)i * bytes, rank->all->board[i], bytes);
    return rank_barrier(rank, err);
}

enum mosaic_status rank_all_to_all(struct rank *rank, const struct exchange *exchange,
                                   struct status_error *err) {
    TRY(post(rank, exchange, err));
    for (int i = 0; i < rank->count; ++i) {
        const struct exchange *const from = rank->all->board[i];
        const size_t bytes = exchange->receive_bytes[i];
        assert(bytes == from->send_bytes[rank->index]);
        if (bytes > 0)
            memcpy((char *)exchange->receive + exchange->receive_offsets[i],
                   (const char *)from->send + from->send_offsets[rank->index], bytes);
    }
    return rank_barrier(rank, err);
}

enum mosaic_status rank_shift(struct rank *rank, int ring, const void *send, void *receive,
                              size_t bytes, struct status_error *err) {
    assert(ring > 0 && rank->count % ring == 0);
    const int base = rank->index / ring * ring;
    TRY(post(rank, send, err));
    const void *const from = rank->all->board[base + (rank->index - base + ring - 1) % ring];
    if (bytes > 0)
        memcpy(receive, from, bytes);
    return rank_barrier(rank, err);
}

static void fail_all(struct ranks *all) {
    (void)pthread_mutex_lock(&all->lock);
    all->has_failed = true;
    (void)pthread_cond_broadcast(&all->all_here);
    (void)pthread_mutex_unlock(&all->lock);
}

static void *seat_main(void *argument) {
    struct seat *const seat = argument;
    struct ranks *const all = seat->rank.all;
    seat->status = all->body(all->context, &seat->rank, &seat->error);
    if (seat->status == MOSAIC_OK && seat->rank.device.taken + seat->rank.host.taken > 0)
        seat->status =
            status_set(&seat->error, MOSAIC_INTERNAL, "rank %d ended with %zu blocks in use",
                       seat->rank.index, seat->rank.device.taken + seat->rank.host.taken);
    if (seat->status != MOSAIC_OK) {
        (void)pthread_mutex_lock(&all->lock);
        seat->gave_up = all->has_failed;
        (void)pthread_mutex_unlock(&all->lock);
        fail_all(all);
    }
    return NULL;
}

/* The first rank that failed by itself, else the first that failed. */
static enum mosaic_status outcome(const struct seat *seats, int count, struct status_error *err) {
    const struct seat *worst = NULL;
    for (int i = 0; i < count; ++i)
        if (seats[i].status != MOSAIC_OK && (!worst || (worst->gave_up && !seats[i].gave_up)))
            worst = &seats[i];
    if (!worst)
        return MOSAIC_OK;
    if (err)
        *err = worst->error;
    return worst->status;
}

static enum mosaic_status run_seats(struct ranks *all, struct seat *seats,
                                    struct status_error *err) {
    int started = 0;
    for (; started < all->count; ++started) {
        seats[started].rank = (struct rank){.index = started, .count = all->count, .all = all};
        if (pthread_create(&seats[started].thread, NULL, seat_main, &seats[started]) != 0)
            break;
    }
    if (started < all->count)
        fail_all(all);
    for (int i = 0; i < started; ++i)
        (void)pthread_join(seats[i].thread, NULL);
    if (started < all->count)
        return status_set(err, MOSAIC_INTERNAL, "cannot start a thread for rank %d of %d", started,
                          all->count);
    return outcome(seats, all->count, err);
}

enum mosaic_status ranks_run(int count, rank_body *body, void *context, struct ledger *devices,
                             struct ledger *hosts, struct status_error *err) {
    if (count < 1 || count > RANKS_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "%d ranks; 1 to %d can run", count,
                          (int)RANKS_MAX);
    struct ranks all = {.count = count, .body = body, .context = context};
    struct seat *const seats = calloc((size_t)count, sizeof *seats);
    if (!seats)
        return status_no_memory(err);
    (void)pthread_mutex_init(&all.lock, NULL);
    (void)pthread_cond_init(&all.all_here, NULL);
    const enum mosaic_status status = run_seats(&all, seats, err);
    for (int i = 0; i < count; ++i) {
        if (devices)
            devices[i] = seats[i].rank.device;
        if (hosts)
            hosts[i] = seats[i].rank.host;
    }
    (void)pthread_cond_destroy(&all.all_here);
    (void)pthread_mutex_destroy(&all.lock);
    free(seats);
    return status;
}
