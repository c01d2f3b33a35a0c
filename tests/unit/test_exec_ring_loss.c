// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The executed vocabulary ring against a dense loss in plain loops, and its live peak against the
 * descriptor.  Losses and gradients may differ by the order of sums alone: a sum of terms t by at
 * most 16 FLT_EPSILON sum |t| (to the bit where the order is the same).
 */
#include "exec/ring_loss.h"

#include "close.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 12 };

struct plan {
    int ranks, ring;
    enum vocab_move move;
    long hidden, vocab, strip_rows; /* 0: whole */
    long tokens[MOST_RANKS];
    int ignored;     /* one target of so many; 0: none */
    float magnitude; /* of activations; weights are about 1 */
    uint64_t seed;
};

/* Inputs, the dense answer and the ring's, all ranks. */
struct trial {
    struct plan plan;
    struct vocab_ring ring;
    float *weight; /* [vocab x hidden] */
    float *x[MOST_RANKS], *upstream[MOST_RANKS];
    int32_t *targets[MOST_RANKS];
    float *loss[MOST_RANKS], *dx[MOST_RANKS], *dx_scale[MOST_RANKS]; /* dense */
    float *dw, *dw_scale;
    float *ring_loss[MOST_RANKS], *ring_dx[MOST_RANKS], *ring_dw[MOST_RANKS];
    size_t sent_forward[MOST_RANKS], sent_backward[MOST_RANKS];
    struct ledger device[MOST_RANKS];
};

static uint64_t bits(uint64_t *seed) {
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return *seed >> 16;
}

static float unit(uint64_t *seed) {
    return (float)(bits(seed) % 20001) / 10000.0F - 1.0F;
}

static float *floats(size_t count) {
    float *const block = calloc(count + 1, sizeof *block);
    assert_non_null(block);
    return block;
}

static long most_tokens(const struct plan *p) {
    long most = 0;
    for (int r = 0; r < p->ranks; ++r)
        most = p->tokens[r] > most ? p->tokens[r] : most;
    return most;
}

static void fill(struct trial *t) {
    const struct plan *const p = &t->plan;
    uint64_t seed = p->seed + 17;
    const size_t hidden = (size_t)p->hidden, vocab = (size_t)p->vocab;
    t->weight = floats(vocab * hidden);
    for (size_t i = 0; i < vocab * hidden; ++i)
        t->weight[i] = unit(&seed);
    for (int r = 0; r < p->ranks; ++r) {
        const size_t tokens = (size_t)p->tokens[r];
        t->x[r] = floats(tokens * hidden);
        t->upstream[r] = floats(tokens);
        t->targets[r] = calloc(tokens + 1, sizeof *t->targets[r]);
        t->ring_loss[r] = floats(tokens);
        t->ring_dx[r] = floats(tokens * hidden);
        t->ring_dw[r] = floats((size_t)t->ring.columns * hidden);
        for (size_t i = 0; i < tokens * hidden; ++i)
            t->x[r][i] = p->magnitude * unit(&seed);
        for (size_t i = 0; i < tokens; ++i) {
            t->upstream[r][i] = unit(&seed);
            t->targets[r][i] = (int32_t)(bits(&seed) % vocab);
            if (p->ignored > 0 && bits(&seed) % (uint64_t)p->ignored == 0)
                t->targets[r][i] = -100;
        }
    }
}

/* One rank's tokens against the whole vocabulary; dw gets its own gradient. */
static void dense_rank(struct trial *t, int r, float *dw) {
    const size_t hidden = (size_t)t->plan.hidden, vocab = (size_t)t->plan.vocab;
    float *const y = floats(vocab);
    for (long i = 0; i < t->plan.tokens[r]; ++i) {
        const float *const x = t->x[r] + (size_t)i * hidden;
        float *const dx = t->dx[r] + (size_t)i * hidden;
        float *const dx_scale = t->dx_scale[r] + (size_t)i * hidden;
        if (t->targets[r][i] < 0)
            continue;
        float top = -INFINITY;
        for (size_t c = 0; c < vocab; ++c) {
            double dot = 0.0;
            for (size_t h = 0; h < hidden; ++h)
                dot += (double)x[h] * (double)t->weight[c * hidden + h];
            y[c] = (float)dot;
            top = fmaxf(top, y[c]);
        }
        double sum = 0.0;
        for (size_t c = 0; c < vocab; ++c)
            sum += exp((double)y[c] - (double)top);
        sum = (double)(float)sum;
        t->loss[r][i] = (float)((double)top + log(sum) - (double)y[t->targets[r][i]]);
        for (size_t c = 0; c < vocab; ++c) {
            const double hot = (int32_t)c == t->targets[r][i] ? 1.0 : 0.0;
            const float g =
                (float)((double)t->upstream[r][i] * (exp((double)y[c] - (double)top) / sum - hot));
            for (size_t h = 0; h < hidden; ++h) {
                const float w = t->weight[c * hidden + h];
                dx[h] += g * w;
                dx_scale[h] += fabsf(g * w);
                dw[c * hidden + h] += g * x[h];
                t->dw_scale[c * hidden + h] += fabsf(g * x[h]);
            }
        }
    }
    free(y);
}

static void dense(struct trial *t) {
    const size_t hidden = (size_t)t->plan.hidden, weights = (size_t)t->plan.vocab * hidden;
    t->dw = floats(weights);
    t->dw_scale = floats(weights);
    float *const mine = floats(weights);
    for (int r = 0; r < t->plan.ranks; ++r) {
        const size_t tokens = (size_t)t->plan.tokens[r];
        t->loss[r] = floats(tokens);
        t->dx[r] = floats(tokens * hidden);
        t->dx_scale[r] = floats(tokens * hidden);
        memset(mine, 0, weights * sizeof *mine);
        dense_rank(t, r, mine);
        for (size_t i = 0; i < weights; ++i)
            t->dw[i] += mine[i];
    }
    free(mine);
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* A counted copy; an empty block as well. */
static void *counted(struct rank *rank, const void *from, size_t bytes) {
    void *const block = ledger_take(&rank->device, bytes);
    if (block && from && bytes > 0)
        memcpy(block, from, bytes);
    return block;
}

struct blocks {
    float *x, *weight, *upstream;
    int32_t *targets;
    struct ring_loss loss;
    struct ring_gradients gradients;
};

static enum mosaic_status both_passes(struct trial *t, struct rank *rank, struct blocks *b,
                                      struct status_error *err) {
    const size_t tokens = (size_t)t->plan.tokens[rank->index];
    const struct ring_part part = {
        .tokens = tokens, .x = b->x, .targets = b->targets, .weight = b->weight};
    if (!b->x || !b->weight || !b->upstream || !b->targets || !b->gradients.x ||
        !b->gradients.weight)
        return status_no_memory(err);
    TRY(ring_loss_forward(&t->ring, rank, &part, &b->loss, err));
    return ring_loss_backward(&t->ring, rank, &part, &b->loss, b->upstream, &b->gradients, err);
}

static enum mosaic_status body(void *context, struct rank *rank, struct status_error *err) {
    struct trial *const t = context;
    const int r = rank->index;
    const size_t hidden = (size_t)t->plan.hidden, tokens = (size_t)t->plan.tokens[r];
    const struct vocab_shard shard = vocab_ring_shard(&t->ring, r % t->plan.ring);
    const size_t x_bytes = tokens * hidden * sizeof(float),
                 w_bytes = (size_t)shard.columns * hidden * sizeof(float);
    struct blocks b = {
        .x = counted(rank, t->x[r], x_bytes),
        .weight = counted(rank, t->weight + (size_t)shard.first * hidden, w_bytes),
        .upstream = counted(rank, t->upstream[r], tokens * sizeof(float)),
        .targets = counted(rank, t->targets[r], tokens * sizeof(int32_t)),
        .gradients = {.x = counted(rank, NULL, x_bytes), .weight = counted(rank, NULL, w_bytes)}};
    const enum mosaic_status status = both_passes(t, rank, &b, err);
    if (status == MOSAIC_OK) {
        memcpy(t->ring_loss[r], b.loss.loss, tokens * sizeof(float));
        memcpy(t->ring_dx[r], b.gradients.x, x_bytes);
        memcpy(t->ring_dw[r], b.gradients.weight, w_bytes);
        t->sent_forward[r] = b.loss.sent_bytes;
        t->sent_backward[r] = b.gradients.sent_bytes;
    }
    ring_loss_free(&b.loss, rank);
    ledger_give(&rank->device, b.gradients.weight);
    ledger_give(&rank->device, b.gradients.x);
    ledger_give(&rank->device, b.targets);
    ledger_give(&rank->device, b.upstream);
    ledger_give(&rank->device, b.weight);
    ledger_give(&rank->device, b.x);
    return status;
}

static void describe(struct trial *t) {
    const struct vocab_head head = {.tokens = (double)most_tokens(&t->plan),
                                    .hidden = (double)t->plan.hidden,
                                    .vocab = (double)t->plan.vocab,
                                    .scalar_bytes = sizeof(float),
                                    .gradient_bytes = sizeof(float),
                                    .strip_rows = (double)t->plan.strip_rows};
    vocab_ring_of(&head, t->plan.ring, t->plan.move, &t->ring);
}

static struct trial *trial_new(const struct plan *plan) {
    struct trial *const t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->plan = *plan;
    describe(t);
    fill(t);
    return t;
}

static void trial_free(struct trial *t) {
    for (int r = 0; r < t->plan.ranks; ++r) {
        free(t->x[r]);
        free(t->upstream[r]);
        free(t->targets[r]);
        free(t->loss[r]);
        free(t->dx[r]);
        free(t->dx_scale[r]);
        free(t->ring_loss[r]);
        free(t->ring_dx[r]);
        free(t->ring_dw[r]);
    }
    free(t->weight);
    free(t->dw);
    free(t->dw_scale);
    free(t);
}

static void run(struct trial *t) {
    struct status_error err = {0};
    if (ranks_run(t->plan.ranks, body, t, t->device, NULL, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

/* ---- comparison ------------------------------------------------------------------------------ */

static void assert_sums(const float *got, const float *want, const float *scale, size_t count) {
    for (size_t i = 0; i < count; ++i)
        assert_close_abs((double)got[i], (double)want[i],
                         16.0 * (double)FLT_EPSILON * (double)scale[i]);
}

static void assert_answers(const struct trial *t) {
    const size_t hidden = (size_t)t->plan.hidden;
    for (int r = 0; r < t->plan.ranks; ++r) {
        const size_t tokens = (size_t)t->plan.tokens[r];
        for (size_t i = 0; i < tokens; ++i) {
            const double want = (double)t->loss[r][i];
            /* z is rounded at each meeting, the loss once. */
            assert_close_abs((double)t->ring_loss[r][i], want,
                             (double)FLT_EPSILON * (t->plan.ring + fabs(want)));
        }
        assert_sums(t->ring_dx[r], t->dx[r], t->dx_scale[r], tokens * hidden);
        const struct vocab_shard shard = vocab_ring_shard(&t->ring, r % t->plan.ring);
        const size_t from = (size_t)shard.first * hidden;
        assert_sums(t->ring_dw[r], t->dw + from, t->dw_scale + from,
                    (size_t)shard.columns * hidden);
    }
}

static void assert_same_bits(const struct trial *a, const struct trial *b) {
    const size_t hidden = (size_t)a->plan.hidden;
    for (int r = 0; r < a->plan.ranks; ++r) {
        const size_t tokens = (size_t)a->plan.tokens[r];
        const size_t columns = (size_t)vocab_ring_shard(&a->ring, r % a->plan.ring).columns;
        assert_memory_equal(a->ring_loss[r], b->ring_loss[r], tokens * sizeof(float));
        assert_memory_equal(a->ring_dx[r], b->ring_dx[r], tokens * hidden * sizeof(float));
        assert_memory_equal(a->ring_dw[r], b->ring_dw[r], columns * hidden * sizeof(float));
    }
}

/* The bound holds everywhere and is met where a rank is as full as any. */
static void assert_peaks(const struct trial *t) {
    struct vocab_blocks blocks;
    vocab_ring_blocks(&t->ring, &blocks);
    for (int r = 0; r < t->plan.ranks; ++r) {
        const double peak = (double)t->device[r].peak_bytes;
        assert_true(peak <= blocks.total_bytes);
        if (t->plan.tokens[r] == most_tokens(&t->plan) &&
            (double)vocab_ring_shard(&t->ring, r % t->plan.ring).columns >= t->ring.columns)
            assert_close_abs(peak, blocks.total_bytes, 0.0);
    }
}

static void assert_traffic(const struct trial *t) {
    const struct vocab_ring *const ring = &t->ring;
    for (int r = 0; r < t->plan.ranks; ++r) {
        assert_close_abs((double)t->sent_forward[r],
                         ring->hops * ring->hop_forward_bytes + ring->return_forward_bytes, 0.0);
        assert_close_abs((double)t->sent_backward[r],
                         ring->hops * ring->hop_backward_bytes + ring->return_backward_bytes, 0.0);
    }
}

static void assert_trial(const struct plan *plan) {
    struct trial *const t = trial_new(plan);
    dense(t);
    run(t);
    assert_answers(t);
    assert_peaks(t);
    assert_traffic(t);
    trial_free(t);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const struct plan small = {.ranks = 4,
                                  .ring = 4,
                                  .hidden = 12,
                                  .vocab = 101,
                                  .tokens = {9, 9, 9, 9},
                                  .magnitude = 1.0F,
                                  .seed = 1};

static void both_movements(void **state) {
    (void)state;
    struct plan plan = small;
    for (int move = VOCAB_MOVE_AUTO; move <= VOCAB_MOVE_WEIGHTS; ++move) {
        plan.move = (enum vocab_move)move;
        assert_trial(&plan);
    }
}

/* Order is unchanged by a ring of one, so nothing else is; gradients of copies add in rank order.
 */
static void ring_of_one_is_dense_to_the_bit(void **state) {
    (void)state;
    for (int move = VOCAB_MOVE_AUTO; move <= VOCAB_MOVE_WEIGHTS; ++move)
        for (int ranks = 1; ranks <= 3; ranks += 2)
            for (long strip_rows = 0; strip_rows <= 4; strip_rows += 2) {
                struct plan plan = small;
                plan.ranks = ranks;
                plan.ring = 1;
                plan.move = (enum vocab_move)move;
                plan.strip_rows = strip_rows;
                plan.ignored = 5;
                struct trial *const t = trial_new(&plan);
                dense(t);
                run(t);
                for (int r = 0; r < ranks; ++r) {
                    assert_memory_equal(t->ring_loss[r], t->loss[r], 9 * sizeof(float));
                    assert_memory_equal(t->ring_dx[r], t->dx[r], 9 * 12 * sizeof(float));
                    assert_memory_equal(t->ring_dw[r], t->dw, 101 * 12 * sizeof(float));
                }
                assert_peaks(t);
                assert_traffic(t);
                trial_free(t);
            }
}

static void odd_and_empty_ranks(void **state) {
    (void)state;
    for (int move = VOCAB_MOVE_ACTIVATIONS; move <= VOCAB_MOVE_WEIGHTS; ++move) {
        struct plan plan = small;
        plan.move = (enum vocab_move)move;
        memcpy(plan.tokens, (const long[MOST_RANKS]){7, 0, 13, 1}, sizeof plan.tokens);
        assert_trial(&plan);
        memset(plan.tokens, 0, sizeof plan.tokens); /* nobody has any */
        assert_trial(&plan);
        plan = small;
        plan.move = (enum vocab_move)move;
        plan.vocab = 3; /* fewer columns than ranks */
        assert_trial(&plan);
        plan.hidden = plan.vocab = 1;
        assert_trial(&plan);
    }
}

static void rings_side_by_side(void **state) {
    (void)state;
    for (int ring = 1; ring <= 8; ring *= 2)
        for (int move = VOCAB_MOVE_ACTIVATIONS; move <= VOCAB_MOVE_WEIGHTS; ++move) {
            struct plan plan = small;
            plan.ranks = 8;
            plan.ring = ring;
            plan.move = (enum vocab_move)move;
            plan.strip_rows = 3;
            plan.ignored = 4;
            memcpy(plan.tokens, (const long[MOST_RANKS]){5, 9, 0, 2, 9, 1, 4, 8},
                   sizeof plan.tokens);
            assert_trial(&plan);
        }
}

static void copies_and_runs_agree_to_the_bit(void **state) {
    (void)state;
    struct plan plan = small;
    plan.ranks = 12;
    plan.ring = 4;
    for (int r = 0; r < 12; ++r)
        plan.tokens[r] = r;
    struct trial *const t = trial_new(&plan), *const again = trial_new(&plan);
    run(t);
    run(again);
    assert_same_bits(t, again);
    for (int r = 4; r < 12; ++r) {
        const size_t columns = (size_t)vocab_ring_shard(&t->ring, r % 4).columns;
        assert_memory_equal(t->ring_dw[r], t->ring_dw[r % 4], columns * 12 * sizeof(float));
    }
    trial_free(again);
    trial_free(t);
}

static void strips_of_any_height_agree_to_the_bit(void **state) {
    (void)state;
    for (int move = VOCAB_MOVE_ACTIVATIONS; move <= VOCAB_MOVE_WEIGHTS; ++move) {
        struct plan plan = small;
        plan.move = (enum vocab_move)move;
        struct trial *const whole = trial_new(&plan);
        run(whole);
        for (plan.strip_rows = 1; plan.strip_rows <= 10; plan.strip_rows += 3) {
            struct trial *const cut = trial_new(&plan);
            run(cut);
            assert_same_bits(whole, cut);
            trial_free(cut);
        }
        trial_free(whole);
    }
}

static void everything_ignored(void **state) {
    (void)state;
    struct plan plan = small;
    plan.ignored = 1;
    assert_trial(&plan); /* nothing to sum: zeros, with no tolerance */
}

static void extreme_logits_stay_finite(void **state) {
    (void)state;
    for (int move = VOCAB_MOVE_ACTIVATIONS; move <= VOCAB_MOVE_WEIGHTS; ++move) {
        struct plan plan = small;
        plan.move = (enum vocab_move)move;
        plan.magnitude = 1e4F;
        struct trial *const t = trial_new(&plan);
        dense(t);
        double most = 0.0;
        for (int r = 0; r < 4; ++r)
            for (int i = 0; i < 9; ++i)
                most = fmax(most, (double)t->loss[r][i]);
        assert_true(most > 2e4 && isfinite(most));
        run(t);
        assert_answers(t);
        trial_free(t);
    }
}

/* Strips rule here, so that the peak falls as 1 / P; N x V is never there. */
static void peak_falls_with_the_ring(void **state) {
    (void)state;
    struct plan plan = {.ranks = 8, .hidden = 2, .vocab = 2048, .magnitude = 1.0F, .seed = 3};
    for (int r = 0; r < 8; ++r)
        plan.tokens[r] = 64;
    const double whole = 64.0 * 2048.0 * sizeof(float);
    double before = 0.0;
    for (int ring = 1; ring <= 8; ring *= 2) {
        plan.ring = ring;
        struct trial *const t = trial_new(&plan);
        run(t);
        assert_peaks(t);
        const double peak = (double)t->device[0].peak_bytes;
        if (ring > 1) {
            assert_close(peak, before / 2.0, 0.1);
            assert_true(peak < 1.3 * whole / ring);
        }
        before = peak;
        trial_free(t);
    }
}

static void half_a_strip_changes_plan_and_peak_alike(void **state) {
    (void)state;
    for (int move = VOCAB_MOVE_ACTIVATIONS; move <= VOCAB_MOVE_WEIGHTS; ++move) {
        struct plan plan = small;
        plan.move = (enum vocab_move)move;
        for (int r = 0; r < 4; ++r)
            plan.tokens[r] = 16;
        plan.strip_rows = 16;
        struct trial *const whole = trial_new(&plan);
        plan.strip_rows = 8;
        struct trial *const half = trial_new(&plan);
        run(whole);
        run(half);
        assert_close_abs(half->ring.strip_bytes, whole->ring.strip_bytes / 2.0, 0.0);
        assert_close_abs((double)whole->device[0].peak_bytes - (double)half->device[0].peak_bytes,
                         half->ring.strip_bytes, 0.0);
        trial_free(half);
        trial_free(whole);
    }
}

/* The paper's proportions of N, H and V/P, 1 : 256; its code holds more strips than this one. */
static void peak_beside_the_estimate(void **state) {
    (void)state;
    const struct vocab_copies paper = {.dense_strips = 3.0,
                                       .ring_strips = 2.313,
                                       .moving_hidden = 6.0,
                                       .still_hidden = 1.0,
                                       .moving_weights = 2.0};
    for (long tokens = 64; tokens <= 128; tokens += 64) {
        struct plan plan = {
            .ranks = 8, .ring = 8, .hidden = 28, .vocab = 781, .magnitude = 0.1F, .seed = 5};
        for (int r = 0; r < 8; ++r)
            plan.tokens[r] = tokens;
        struct trial *const t = trial_new(&plan);
        assert_int_equal(t->ring.move, tokens > 97 ? VOCAB_MOVE_WEIGHTS : VOCAB_MOVE_ACTIVATIONS);
        run(t);
        assert_peaks(t);
        struct vocab_memory memory;
        vocab_ring_memory(&t->ring, &paper, &memory);
        const double estimate = memory.peak_bytes + memory.gradient_bytes;
        const double ratio = (double)t->device[0].peak_bytes / estimate;
        assert_true(ratio > 0.6 && ratio < 1.0);
        trial_free(t);
    }
}

static void any_shape(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 6, 8, 12};
    uint64_t seed = 11;
    for (int i = 0; i < 120; ++i) {
        struct plan plan = {.ranks = counts[bits(&seed) % 7],
                            .move = (enum vocab_move)(bits(&seed) % 3),
                            .hidden = 1 + (long)(bits(&seed) % 9),
                            .vocab = 1 + (long)(bits(&seed) % 60),
                            .strip_rows = (long)(bits(&seed) % 6),
                            .ignored = (int)(bits(&seed) % 4),
                            .magnitude = bits(&seed) % 4 == 0 ? 1000.0F : 2.0F,
                            .seed = bits(&seed)};
        do
            plan.ring = 1 + (int)(bits(&seed) % (uint64_t)plan.ranks);
        while (plan.ranks % plan.ring != 0);
        for (int r = 0; r < plan.ranks; ++r)
            plan.tokens[r] = (long)(bits(&seed) % 12);
        assert_trial(&plan);
    }
}

static void assert_refused(struct trial *t, enum mosaic_status want, const char *word) {
    struct status_error err = {0};
    assert_int_equal(ranks_run(t->plan.ranks, body, t, t->device, NULL, &err), want);
    assert_non_null(strstr(err.message, word));
    for (int r = 0; r < t->plan.ranks; ++r)
        assert_int_equal(t->device[r].taken, 0);
    trial_free(t);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    struct trial *t = trial_new(&small);
    t->targets[2][3] = 101;
    assert_refused(t, MOSAIC_BAD_INPUT, "target 101 of token 3 of rank 2");
    t = trial_new(&small);
    t->ring.head.scalar_bytes = 2.0;
    assert_refused(t, MOSAIC_BAD_INPUT, "4-byte floats");
    t = trial_new(&small);
    t->ring.head.tokens = 8.0;
    assert_refused(t, MOSAIC_BAD_INPUT, "more than the ring's 8");
    t = trial_new(&(struct plan){.ranks = 3, .ring = 4, .hidden = 2, .vocab = 9});
    assert_refused(t, MOSAIC_BAD_INPUT, "do not divide 3 ranks");
    t = trial_new(&small);
    for (int i = 0; i < 12; ++i)
        t->x[1][i] = FLT_MAX;
    for (int i = 0; i < 101 * 12; ++i)
        t->weight[i] = 2.0F;
    assert_refused(t, MOSAIC_NUMERIC, "token 0 of rank 1 is not finite");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_movements),
        cmocka_unit_test(ring_of_one_is_dense_to_the_bit),
        cmocka_unit_test(odd_and_empty_ranks),
        cmocka_unit_test(rings_side_by_side),
        cmocka_unit_test(copies_and_runs_agree_to_the_bit),
        cmocka_unit_test(strips_of_any_height_agree_to_the_bit),
        cmocka_unit_test(everything_ignored),
        cmocka_unit_test(extreme_logits_stay_finite),
        cmocka_unit_test(peak_falls_with_the_ring),
        cmocka_unit_test(half_a_strip_changes_plan_and_peak_alike),
        cmocka_unit_test(peak_beside_the_estimate),
        cmocka_unit_test(any_shape),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
