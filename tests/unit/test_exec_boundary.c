// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Selective checkpoint offload as executed: bit for bit the gradients of a chain that keeps
 * everything, for any budget, depth and number of streams; the ledgers against the descriptor.
 */
/* The ledger with a switch: the n-th block from now is refused. */
#define ledger_take granted_take
#include "exec/ledger.c"
#undef ledger_take

void *ledger_take(struct ledger *ledger, size_t bytes);

#include "exec/boundary_store.h"

#include "close.h"

#include <stdbool.h>
#include <string.h>

static long refused = -1; /* none; set where one thread works */

void *ledger_take(struct ledger *ledger, size_t bytes) {
    return refused >= 0 && refused-- == 0 ? NULL : granted_take(ledger, bytes);
}

enum { MOST_LAYERS = 9, MOST_WIDTH = 9, MOST_ROWS = 12, MOST_CELLS = MOST_ROWS * MOST_WIDTH };
enum { MOST_WEIGHTS = MOST_LAYERS * MOST_WIDTH * (MOST_WIDTH + 1) };

/* ---- random ---- */

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 33;
}

static uint64_t seed = 0x9e3779b97f4a7c15u;

static long below(long n) {
    return (long)next_random(&seed) % n;
}

static void fill(uint64_t *from, float *values, size_t count) {
    for (size_t i = 0; i < count; ++i)
        values[i] = (float)((double)(next_random(from) % 4001) / 2000.0 - 1.0);
}

/* ---- a chain that keeps everything ---- */

struct kept {
    float in[MOST_LAYERS][MOST_CELLS], change[MOST_LAYERS][MOST_CELLS];
    float gradient[MOST_CELLS];
};

static void oracle_forward(const struct boundary_chain *c, const struct boundary_batch *b,
                           struct kept *k) {
    const int w = c->width;
    for (int layer = 0; layer < c->layers; ++layer)
        for (int r = 0; r < (int)b->rows; ++r)
            for (int j = 0; j < w; ++j) {
                const float *const weights = c->weights + layer * w * (w + 1);
                float sum = weights[w * w + j];
                for (int i = 0; i < w; ++i) {
                    const float in =
                        layer == 0 ? b->input[r * w + i]
                                   : k->in[layer - 1][r * w + i] + k->change[layer - 1][r * w + i];
                    k->in[layer][r * w + i] = in;
                    sum += in * weights[i * w + j];
                }
                k->change[layer][r * w + j] = tanhf(sum);
            }
}

static void oracle(const struct boundary_chain *c, const struct boundary_batch *b,
                   float *gradients) {
    static struct kept k;
    const int w = c->width;
    oracle_forward(c, b, &k);
    for (int i = 0; i < (int)b->rows * w; ++i) {
        const float out = k.in[c->layers - 1][i] + k.change[c->layers - 1][i];
        k.gradient[i] = out - b->target[i];
        if (b->output)
            b->output[i] = out;
    }
    for (int layer = c->layers - 1; layer >= 0; --layer)
        for (int r = 0; r < (int)b->rows; ++r) {
            const float *const weights = c->weights + layer * w * (w + 1);
            float *const into = gradients + layer * w * (w + 1), inner[MOST_WIDTH];
            for (int j = 0; j < w; ++j) {
                const float u = k.change[layer][r * w + j];
                inner[j] = k.gradient[r * w + j] * (1.0F - u * u);
                into[w * w + j] += inner[j];
            }
            for (int i = 0; i < w; ++i) {
                float sum = 0.0F;
                for (int j = 0; j < w; ++j) {
                    into[i * w + j] += k.in[layer][r * w + i] * inner[j];
                    sum += inner[j] * weights[i * w + j];
                }
                k.gradient[r * w + i] += sum;
            }
        }
}

/* ---- a run ---- */

struct counted {
    struct ledger device, host, work;
};

static struct boundary_store *store_of(const struct boundary_offload *o, struct counted *l) {
    struct boundary_store *store = NULL;
    struct status_error err = {0};
    const struct boundary_ledgers ledgers = {&l->device, &l->host, &l->work};
    if (boundary_store_create(o, &ledgers, &store, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return store;
}

static struct boundary_offload offload_of(long boundaries, double bytes, double budget, int depth,
                                          int streams) {
    struct boundary_offload out;
    struct status_error err = {0};
    if (boundary_offload_of(boundaries, bytes, budget, depth, streams, &out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return out;
}

static void run(struct boundary_store *store, const struct boundary_chain *chain,
                const struct boundary_batch *batch, float *gradients) {
    struct status_error err = {0};
    if (boundary_store_run(store, chain, batch, gradients, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static void assert_empty(const struct counted *l) {
    assert_true(l->device.taken == 0 && l->host.taken == 0 && l->work.taken == 0);
    assert_true(l->device.live_bytes + l->host.live_bytes + l->work.live_bytes == 0);
}

/* A chain, micro-batches of it, and the gradients that they should add up to. */
struct problem {
    struct boundary_chain chain;
    float weights[MOST_WEIGHTS], wanted[MOST_WEIGHTS], got[MOST_WEIGHTS];
    float input[MOST_CELLS], target[MOST_CELLS], output[MOST_CELLS], wanted_output[MOST_CELLS];
};

static void draw_chain(struct problem *p, int layers, int width) {
    memset(p, 0, sizeof *p);
    p->chain = (struct boundary_chain){layers, width, p->weights};
    fill(&seed, p->weights, boundary_chain_size(&p->chain));
}

static struct boundary_batch draw_batch(struct problem *p, size_t rows) {
    fill(&seed, p->input, MOST_CELLS);
    fill(&seed, p->target, MOST_CELLS);
    return (struct boundary_batch){rows, p->input, p->target, p->output};
}

static double bytes_of(const struct problem *p, size_t rows) {
    return (double)(rows * (size_t)p->chain.width * sizeof(float));
}

/* One micro-batch through the store and through the oracle. */
static void session(struct problem *p, struct boundary_store *store, size_t rows) {
    struct boundary_batch batch = draw_batch(p, rows);
    run(store, &p->chain, &batch, p->got);
    batch.output = p->wanted_output;
    oracle(&p->chain, &batch, p->wanted);
    assert_memory_equal(p->got, p->wanted, sizeof p->got);
    assert_memory_equal(p->output, p->wanted_output, (size_t)bytes_of(p, rows));
}

/* ---- tests ---- */

static void any_schedule_is_exact(void **state) {
    (void)state;
    static struct problem p;
    for (int i = 0; i < 400; ++i) {
        draw_chain(&p, 1 + (int)below(MOST_LAYERS), 1 + (int)below(MOST_WIDTH));
        const size_t most_rows = 1 + (size_t)below(MOST_ROWS);
        const int streams = 1 + (int)below(2), depth = (int)below(5);
        const double bytes = bytes_of(&p, most_rows);
        const long count = boundary_count(p.chain.layers, streams);
        const double budget =
            below(4) == 0 ? (double)INFINITY : (double)below((long)bytes * (count + 1));
        const struct boundary_offload o = offload_of(count, bytes, budget, depth, streams);
        struct counted l = {0};
        struct boundary_store *const store = store_of(&o, &l);
        for (int batch = 0; batch < 3; ++batch) {
            session(&p, store, batch == 1 ? most_rows : (size_t)below((long)most_rows + 1));
            assert_empty(&l);
            assert_true((double)l.device.peak_bytes <= o.device_bytes);
            assert_true((double)l.host.peak_bytes <= o.host_bytes);
        }
        /* Of the longest micro-batch; the shorter ones hold less. */
        assert_true((double)l.device.peak_bytes == o.device_phase_bytes);
        assert_true((double)l.host.peak_bytes == o.host_bytes);
        boundary_store_free(store);
    }
}

/* The work beside the boundaries does not know the schedule. */
static void work_is_apart(void **state) {
    (void)state;
    static struct problem p;
    draw_chain(&p, 6, 5);
    size_t peaks[2];
    for (int i = 0; i < 2; ++i) {
        struct counted l = {0};
        const struct boundary_offload o =
            offload_of(6, bytes_of(&p, 7), i == 0 ? 0.0 : (double)INFINITY, 1, 1);
        struct boundary_store *const store = store_of(&o, &l);
        session(&p, store, 7);
        peaks[i] = l.work.peak_bytes;
        boundary_store_free(store);
    }
    assert_true(peaks[0] == peaks[1]);
    assert_true((double)peaks[0] == bytes_of(&p, 7 + 2));
}

static struct counted peaks_at(double budget, int depth) {
    static struct problem p;
    draw_chain(&p, 8, 4);
    const struct boundary_offload o = offload_of(8, bytes_of(&p, 6), budget, depth, 1);
    struct counted l = {0};
    struct boundary_store *const store = store_of(&o, &l);
    session(&p, store, 6);
    boundary_store_free(store);
    assert_true((double)l.device.peak_bytes == o.device_phase_bytes);
    return l;
}

static void halving_the_budget_halves_the_host(void **state) {
    (void)state;
    const double one = 6 * 4 * 4;
    const struct counted whole = peaks_at(6 * one, 1), half = peaks_at(3 * one, 1),
                         none = peaks_at(0, 1), all = peaks_at(8 * one, 1);
    assert_true(half.host.peak_bytes * 2 == whole.host.peak_bytes);
    assert_true((double)(half.device.peak_bytes - whole.device.peak_bytes) == 3 * one);
    assert_true(none.host.peak_bytes == 0 && (double)none.device.peak_bytes == 8 * one);
    assert_true((double)all.device.peak_bytes == 2 * one); /* the paper's bound */
}

static void depth_is_paid_on_the_device(void **state) {
    (void)state;
    const double one = 6 * 4 * 4;
    for (int depth = 0; depth < 10; ++depth)
        assert_true((double)peaks_at((double)INFINITY, depth).device.peak_bytes ==
                    one * fmin(8, fmax(2, 1 + depth)));
}

/* A hundred micro-batches of other lengths hold what one does. */
static void sessions_do_not_accumulate(void **state) {
    (void)state;
    static struct problem p;
    draw_chain(&p, 5, 3);
    const struct boundary_offload o = offload_of(9, bytes_of(&p, 11), 5 * bytes_of(&p, 11), 1, 2);
    struct counted l = {0};
    struct boundary_store *const store = store_of(&o, &l);
    for (size_t i = 0; i < 100; ++i) {
        ledger_mark(&l.device);
        ledger_mark(&l.host);
        session(&p, store, i % 12);
        assert_empty(&l);
        assert_true((double)l.host.peak_bytes <= o.host_bytes);
        if (i % 12 == 11)
            assert_true((double)l.host.peak_bytes == o.host_bytes);
    }
    boundary_store_free(store);
}

/* Numbers that only a wrong place would show: NaN and infinity pass through as they are. */
static void unusual_values(void **state) {
    (void)state;
    static struct problem p;
    draw_chain(&p, 4, 3);
    const struct boundary_offload o = offload_of(4, bytes_of(&p, 5), (double)INFINITY, 1, 1);
    struct counted l = {0};
    struct boundary_store *const store = store_of(&o, &l);
    struct boundary_batch batch = draw_batch(&p, 5);
    p.input[0] = INFINITY;
    p.input[4] = 1e-42F;
    p.input[5] = 3e38F;
    run(store, &p.chain, &batch, p.got);
    batch.output = p.wanted_output;
    oracle(&p.chain, &batch, p.wanted);
    assert_memory_equal(p.output, p.wanted_output, (size_t)bytes_of(&p, 5));
    boundary_store_free(store);
}

static void faults_leave_nothing(void **state) {
    (void)state;
    static struct problem p;
    draw_chain(&p, 5, 3);
    const struct boundary_offload o = offload_of(9, bytes_of(&p, 6), 6 * bytes_of(&p, 6), 2, 2);
    struct counted l = {0};
    struct boundary_store *const store = store_of(&o, &l);
    struct status_error err = {0};
    long survived = 0;
    for (;; ++survived) { /* each block in turn is refused */
        const struct boundary_batch batch = draw_batch(&p, 6);
        refused = survived;
        const enum mosaic_status status = boundary_store_run(store, &p.chain, &batch, p.got, &err);
        const bool is_through = refused >= 0;
        refused = -1;
        assert_empty(&l);
        if (is_through) {
            assert_int_equal(status, MOSAIC_OK);
            break;
        }
        assert_int_equal(status, MOSAIC_INTERNAL);
    }
    assert_int_equal(survived, 3 + 9 + 6 + 6); /* work, boundaries, host's, restored */
    const struct boundary_batch longer = draw_batch(&p, 7);
    assert_int_equal(boundary_store_run(store, &p.chain, &longer, p.got, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "7 rows"));
    p.chain.layers = 4;
    const struct boundary_batch batch = draw_batch(&p, 6);
    assert_int_equal(boundary_store_run(store, &p.chain, &batch, p.got, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "9 boundaries"));
    assert_empty(&l);
    boundary_store_free(store);
    boundary_store_free(NULL);
}

/* ---- ranks ---- */

enum { RANKS = 4, BATCHES = 5, LAYERS = 6, WIDTH = 4, SIZE = LAYERS * WIDTH * (WIDTH + 1) };

struct together {
    float weights[SIZE];
    float gradients[RANKS][SIZE];
    struct boundary_offload offload[RANKS];
    int too_long; /* the rank whose micro-batch is longer than it said, or -1 */
};

static size_t most_rows(int rank) {
    return (size_t)(3 * rank); /* rank 0 has none */
}

static void rank_batch(int rank, int batch, float *input, float *target) {
    uint64_t from = (uint64_t)(rank * BATCHES + batch + 1) * 0x9e3779b97f4a7c15u;
    fill(&from, input, MOST_CELLS);
    fill(&from, target, MOST_CELLS);
}

static size_t rank_rows(int rank, int batch) {
    return most_rows(rank) * (size_t)batch / (BATCHES - 1);
}

static enum mosaic_status rank_batches(struct rank *rank, struct together *t,
                                       struct boundary_store *store, struct status_error *err) {
    const struct boundary_chain chain = {LAYERS, WIDTH, t->weights};
    float *const mine = t->gradients[rank->index];
    for (int i = 0; i < BATCHES; ++i) {
        float input[MOST_CELLS], target[MOST_CELLS];
        rank_batch(rank->index, i, input, target);
        struct boundary_batch batch = {rank_rows(rank->index, i), input, target, NULL};
        if (rank->index == t->too_long && i == 2)
            batch.rows = most_rows(RANKS - 1) + 1;
        TRY(boundary_store_run(store, &chain, &batch, mine, err));
        TRY(rank_barrier(rank, err)); /* the others wait here */
    }
    return rank_sum_floats(rank, mine, SIZE, err);
}

static enum mosaic_status rank_main(void *context, struct rank *rank, struct status_error *err) {
    struct together *const t = context;
    const struct boundary_request mine = {
        .boundaries = LAYERS,
        .bytes = most_rows(rank->index) * WIDTH * sizeof(float),
        .budget_bytes = 400 + 100 * (size_t)((rank->index + 1) % RANKS),
        .depth = 1,
        .streams = 1,
    };
    struct boundary_offload *const o = &t->offload[rank->index];
    TRY(boundary_store_agree(rank, &mine, o, err));
    struct ledger work = {0};
    const struct boundary_ledgers ledgers = {&rank->device, &rank->host, &work};
    struct boundary_store *store = NULL;
    TRY(boundary_store_create(o, &ledgers, &store, err));
    const enum mosaic_status status = rank_batches(rank, t, store, err);
    boundary_store_free(store);
    return status;
}

/* All select alike, whatever their own lengths and room. */
static void ranks_agree(void **state) {
    (void)state;
    static struct together t;
    memset(&t, 0, sizeof t);
    t.too_long = -1;
    fill(&seed, t.weights, SIZE);
    struct ledger devices[RANKS], hosts[RANKS];
    struct status_error err = {0};
    if (ranks_run(RANKS, rank_main, &t, devices, hosts, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    const struct boundary_chain chain = {LAYERS, WIDTH, t.weights};
    float wanted[SIZE] = {0};
    for (int r = 0; r < RANKS; ++r) {
        const struct boundary_offload *const o = &t.offload[r];
        assert_close(o->bytes, 9.0 * WIDTH * 4.0, 0);
        assert_int_equal(o->selected, 400 / (9 * WIDTH * 4));
        assert_true((double)devices[r].peak_bytes <= o->device_bytes);
        assert_true((double)hosts[r].peak_bytes <= o->host_bytes);
        float own[SIZE] = {0};
        for (int i = 0; i < BATCHES; ++i) {
            float input[MOST_CELLS], target[MOST_CELLS];
            rank_batch(r, i, input, target);
            oracle(&chain, &(struct boundary_batch){rank_rows(r, i), input, target, NULL}, own);
        }
        for (int i = 0; i < SIZE; ++i)
            wanted[i] += own[i];
    }
    assert_true((double)hosts[RANKS - 1].peak_bytes == t.offload[0].host_bytes);
    for (int r = 0; r < RANKS; ++r)
        assert_memory_equal(t.gradients[r], wanted, sizeof wanted);
}

/* One that breaks its word ends the run; the others do not wait for it. */
static void a_rank_that_fails_ends_the_run(void **state) {
    (void)state;
    static struct together t;
    memset(&t, 0, sizeof t);
    t.too_long = 2;
    struct status_error err = {0};
    assert_int_equal(ranks_run(RANKS, rank_main, &t, NULL, NULL, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "10 rows"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_schedule_is_exact),
        cmocka_unit_test(work_is_apart),
        cmocka_unit_test(halving_the_budget_halves_the_host),
        cmocka_unit_test(depth_is_paid_on_the_device),
        cmocka_unit_test(sessions_do_not_accumulate),
        cmocka_unit_test(unusual_values),
        cmocka_unit_test(faults_leave_nothing),
        cmocka_unit_test(ranks_agree),
        cmocka_unit_test(a_rank_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
