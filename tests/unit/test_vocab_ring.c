// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The vocabulary ring's descriptor against the figures that arXiv 2609.14306 prints (H 7168,
 * V 200,000, FP32, 8 H200; cases R1-R8), and its laws over many shapes.
 */
#include "step/vocab_ring.h"

#include "close.h"

#include <stdint.h>

static const double GIB = 1024.0 * 1024.0 * 1024.0;

/* Strips 2.313 and 6 copies of N x H solve the source's two figures of moving activations; the rest
 * is counted: logits, log-softmax and gradient; dX; a second shard and its gradient. */
static const struct vocab_copies paper = {.workspace_bytes = 64.0 * 1024.0 * 1024.0,
                                          .dense_strips = 3.0,
                                          .ring_strips = 2.313,
                                          .moving_hidden = 6.0,
                                          .still_hidden = 1.0,
                                          .moving_weights = 2.0};

static struct vocab_head paper_head(double tokens) {
    return (struct vocab_head){.tokens = tokens,
                               .hidden = 7168.0,
                               .vocab = 200000.0,
                               .scalar_bytes = 4.0,
                               .gradient_bytes = 4.0};
}

static struct vocab_ring paper_ring(double tokens, int ranks) {
    const struct vocab_head head = paper_head(tokens);
    struct vocab_ring ring;
    vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &ring);
    return ring;
}

static double ring_peak_gib(double tokens, int ranks, const struct vocab_copies *copies) {
    const struct vocab_ring ring = paper_ring(tokens, ranks);
    struct vocab_memory memory;
    vocab_ring_memory(&ring, copies, &memory);
    return memory.peak_bytes / GIB;
}

static void r1_weight_shards(void **state) {
    (void)state;
    assert_close_abs(paper_ring(16384.0, 1).weight_bytes / GIB, 5.3406, 1e-4);
    assert_close_abs(paper_ring(16384.0, 4).weight_bytes / GIB, 1.3351, 1e-4);
    assert_close_abs(paper_ring(16384.0, 8).weight_bytes / GIB, 0.6676, 1e-4);
}

static void r2_r3_dense(void **state) {
    (void)state;
    const struct vocab_head small = paper_head(16384.0), large = paper_head(32768.0);
    struct vocab_memory memory;
    vocab_dense_memory(&small, &paper, &memory);
    assert_close_abs((memory.logits_bytes + memory.moving_bytes) / GIB, 36.6212, 1e-3);
    assert_close_abs(memory.peak_bytes / GIB, 42.462, 0.01);
    vocab_dense_memory(&large, &paper, &memory);
    assert_close_abs(memory.peak_bytes / GIB, 79.521, 0.01);
}

static void r5_what_moves(void **state) {
    (void)state;
    assert_int_equal(paper_ring(16384.0, 8).move, VOCAB_MOVE_ACTIVATIONS);
    assert_int_equal(paper_ring(32768.0, 8).move, VOCAB_MOVE_WEIGHTS);
    assert_int_equal(paper_ring(25000.0, 8).move, VOCAB_MOVE_ACTIVATIONS); /* a tie */
}

static void r6_ring_peaks(void **state) {
    (void)state;
    /* These two gave the constants. */
    assert_close(ring_peak_gib(16384.0, 8, &paper), 7.322, 0.03);
    assert_close(ring_peak_gib(16384.0, 4, &paper), 11.519, 0.03);
    /* This one did not. */
    assert_close(ring_peak_gib(32768.0, 8, &paper), 10.622, 0.03);
}

/* Strips from the figure with moving weights, copies of N x H from one of the others: the third is
 * foretold. */
static void r6_each_from_the_others(void **state) {
    (void)state;
    struct vocab_copies copies = paper;
    copies.ring_strips = 0.0;
    copies.ring_strips =
        (10.622 - ring_peak_gib(32768.0, 8, &copies)) * GIB / paper_ring(32768.0, 8).strip_bytes;
    const double inputs_gib = 16384.0 * 7168.0 * 4.0 / GIB;
    copies.moving_hidden = 0.0;
    const double from8 = (7.322 - ring_peak_gib(16384.0, 8, &copies)) / inputs_gib;
    const double from4 = (11.5194 - ring_peak_gib(16384.0, 4, &copies)) / inputs_gib;
    copies.moving_hidden = from8;
    assert_close(ring_peak_gib(16384.0, 4, &copies), 11.519, 0.03);
    copies.moving_hidden = from4;
    assert_close(ring_peak_gib(16384.0, 8, &copies), 7.322, 0.03);
}

/* What a ring's forward pass takes above a dense one of so many seconds. */
static double overhead(double tokens, int ranks, double dense_s, double fold_passes) {
    const struct vocab_ring ring = paper_ring(tokens, ranks);
    const struct vocab_rates rates = {.gemm_flop_per_s = ring.forward_flop / dense_s,
                                      .hbm_bytes_per_s = 4.8e12,
                                      .link_bytes_per_s = 400e9,
                                      .hop_latency_s = 10e-6,
                                      .launch_s = 5e-6,
                                      .fold_passes = fold_passes};
    struct vocab_pass_time time;
    vocab_ring_pass_time(&ring, &rates, false, &time);
    assert_true(time.is_hidden);
    return time.total_s / dense_s - 1.0;
}

/* The passes beyond a dense loss's own come from the row of 32,768 tokens; the others are foretold.
 */
static void r8_forward_overhead(void **state) {
    (void)state;
    const double passes = (2.1558 - 2.0652) * 4.8e12 / (32768.0 * 200000.0 * 4.0);
    assert_close_abs(overhead(16384.0, 4, 0.9898, passes), 0.046, 0.03);
    assert_close_abs(overhead(16384.0, 8, 1.0012, passes), 0.051, 0.03);
}

static bool is_hidden(double tokens, double vocab, int ranks, double link_bytes_per_s) {
    const struct vocab_head head = {.tokens = tokens,
                                    .hidden = 7168.0,
                                    .vocab = vocab,
                                    .scalar_bytes = 2.0,
                                    .gradient_bytes = 2.0};
    const struct vocab_rates rates = {.gemm_flop_per_s = 800e12,
                                      .hbm_bytes_per_s = 4.8e12,
                                      .link_bytes_per_s = link_bytes_per_s,
                                      .fold_passes = 3.0};
    struct vocab_ring ring;
    struct vocab_pass_time time;
    vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &ring);
    vocab_ring_pass_time(&ring, &rates, false, &time);
    assert_true(time.is_hidden || time.exposed_s > 0.0);
    return time.is_hidden;
}

/* b F / (2 BW): 2,000 columns or tokens at 400 GB/s, 16,000 at 50 GB/s. */
static void hops_hide_behind_wide_strips(void **state) {
    (void)state;
    assert_true(is_hidden(1000.0, 8.0 * 2005.0, 8, 400e9)); /* activations: state comes on top */
    assert_false(is_hidden(1000.0, 8.0 * 1995.0, 8, 400e9));
    assert_true(is_hidden(2001.0, 8000.0, 8, 400e9)); /* weights */
    assert_false(is_hidden(1999.0, 8000.0, 8, 400e9));
    assert_true(is_hidden(1000.0, 8.0 * 16020.0, 8, 50e9));
    assert_false(is_hidden(1000.0, 8.0 * 15990.0, 8, 50e9));
}

static void time_adds_up(void **state) {
    (void)state;
    const struct vocab_rates rates = {.gemm_flop_per_s = 40e12,
                                      .hbm_bytes_per_s = 4.8e12,
                                      .link_bytes_per_s = 1e9, /* hops show */
                                      .hop_latency_s = 1e-3,
                                      .launch_s = 1e-3,
                                      .fold_passes = 3.0};
    const struct vocab_ring ring = paper_ring(16384.0, 8);
    struct vocab_pass_time forward, backward;
    vocab_ring_pass_time(&ring, &rates, false, &forward);
    vocab_ring_pass_time(&ring, &rates, true, &backward);
    const double meeting_s = 2.0 * 16384.0 * 7168.0 * 25000.0 / 40e12;
    assert_close(forward.gemm_s, 8.0 * meeting_s, 1e-12);
    assert_close(backward.gemm_s, 24.0 * meeting_s, 1e-12);
    assert_close(forward.fold_s, 8.0 * 3.0 * 16384.0 * 25000.0 * 4.0 / 4.8e12, 1e-12);
    const double hop_s = (16384.0 * 7168.0 * 4.0 + 16384.0 * 16.0) / 1e9 + 1e-3;
    assert_close(forward.hop_s, hop_s, 1e-12);
    assert_false(forward.is_hidden);
    assert_close(forward.exposed_s, 7.0 * (hop_s - meeting_s) + 16384.0 * 12.0 / 1e9 + 1e-3, 1e-9);
    assert_close(forward.launches, 8.0 * 2.0 + 8.0, 1e-12);
    assert_close(backward.launches, 8.0 * 4.0 + 8.0, 1e-12);
    assert_close(backward.total_s,
                 backward.gemm_s + backward.fold_s + backward.exposed_s + 40.0 * 1e-3, 1e-12);
}

static void smallest_ring_that_fits(void **state) {
    (void)state;
    const struct vocab_head head = paper_head(16384.0);
    const double whole = 16384.0 * 200000.0 * 4.0;
    assert_int_equal(vocab_ring_smallest(&head, 24, 1.0, whole), 1);
    assert_int_equal(vocab_ring_smallest(&head, 24, 2.0, whole), 2);
    assert_int_equal(vocab_ring_smallest(&head, 24, 1.0, whole / 5.0), 6); /* 5 divides no 24 */
    assert_int_equal(vocab_ring_smallest(&head, 24, 2.313, whole / 4.0), 12);
    assert_int_equal(vocab_ring_smallest(&head, 8, 1.0, whole / 9.0), 0);
}

/* A ring of one whose strips are cut is a chunked loss. */
static void chunks_are_a_ring_of_one(void **state) {
    (void)state;
    struct vocab_head head = paper_head(16384.0);
    head.strip_rows = 1024.0;
    struct vocab_copies copies = paper;
    copies.ring_strips = copies.dense_strips;
    struct vocab_ring ring;
    struct vocab_memory chunked, one, dense;
    vocab_ring_of(&head, 1, VOCAB_MOVE_AUTO, &ring);
    vocab_ring_memory(&ring, &copies, &one);
    vocab_chunked_memory(&head, &copies, &chunked);
    vocab_dense_memory(&head, &copies, &dense);
    assert_close(chunked.peak_bytes, one.peak_bytes, 1e-15);
    assert_close(chunked.logits_bytes, dense.logits_bytes / 16.0, 1e-15);
    assert_close(ring.pieces, 16.0, 1e-15);
    assert_close_abs(ring.hop_backward_bytes + ring.return_backward_bytes, 0.0, 0.0);
}

/* ---- laws ------------------------------------------------------------------------------------ */

static double draw(uint64_t *seed, double low, double high) {
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return floor(low + (double)(*seed >> 11) * 0x1p-53 * (high - low + 1.0));
}

static struct vocab_head any_head(uint64_t *seed) {
    const double tokens = draw(seed, 0.0, 5000.0), hidden = draw(seed, 1.0, 300.0);
    return (struct vocab_head){.tokens = tokens,
                               .hidden = hidden,
                               .vocab = draw(seed, 1.0, 20000.0),
                               .scalar_bytes = draw(seed, 0.0, 1.0) > 0.5 ? 4.0 : 2.0,
                               .gradient_bytes = 4.0,
                               .strip_rows = draw(seed, 0.0, 1.0) * draw(seed, 1.0, 5000.0)};
}

static void shards_tile_the_vocabulary(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 2000; ++i) {
        const struct vocab_head head = any_head(&seed);
        const int ranks = (int)draw(&seed, 1.0, 64.0);
        struct vocab_ring ring;
        vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &ring);
        long next = 0, least = (long)head.vocab, most = 0;
        for (int place = 0; place < ranks; ++place) {
            const struct vocab_shard shard = vocab_ring_shard(&ring, place);
            assert_int_equal(shard.first, next);
            next += shard.columns;
            least = shard.columns < least ? shard.columns : least;
            most = shard.columns > most ? shard.columns : most;
        }
        assert_int_equal(next, (long)head.vocab);
        assert_true(most - least <= 1);
        assert_close_abs(ring.columns, (double)most, 0.0);
    }
}

/* Weights move iff N > V/P, and then a shard is no more than the tokens' activations. */
static void less_moves_than_the_other_way(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 2000; ++i) {
        const struct vocab_head head = any_head(&seed);
        const int ranks = (int)draw(&seed, 2.0, 64.0);
        struct vocab_ring ring, weights, activations;
        vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &ring);
        vocab_ring_of(&head, ranks, VOCAB_MOVE_WEIGHTS, &weights);
        vocab_ring_of(&head, ranks, VOCAB_MOVE_ACTIVATIONS, &activations);
        const bool moves_weights = head.tokens > head.vocab / (double)ranks;
        assert_int_equal(ring.move, moves_weights ? VOCAB_MOVE_WEIGHTS : VOCAB_MOVE_ACTIVATIONS);
        if (moves_weights)
            assert_true(ring.hop_forward_bytes < activations.hop_forward_bytes);
        else /* but for the scalars of a token */
            assert_true(ring.hop_forward_bytes - 16.0 * head.tokens <= weights.hop_forward_bytes);
    }
}

static void bytes_and_flops_add_up(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 2000; ++i) {
        const struct vocab_head head = any_head(&seed);
        const int ranks = (int)draw(&seed, 2.0, 64.0);
        struct vocab_ring ring;
        struct vocab_blocks blocks;
        vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &ring);
        vocab_ring_blocks(&ring, &blocks);
        const bool moves_weights = ring.move == VOCAB_MOVE_WEIGHTS;
        const double elements = head.hidden * (moves_weights ? ring.columns : head.tokens);
        const double scalars = moves_weights ? 0.0 : 16.0 * head.tokens;
        assert_close(ring.hop_forward_bytes, elements * head.scalar_bytes + scalars, 1e-14);
        assert_close(ring.hop_backward_bytes, ring.hop_forward_bytes + elements * 4.0, 1e-14);
        assert_close(ring.return_backward_bytes, elements * 4.0, 1e-14);
        assert_close(ring.return_forward_bytes, 0.75 * scalars, 1e-14);
        assert_int_equal(ring.hops, ranks - 1);
        assert_close(ring.forward_flop + ring.backward_flop,
                     8.0 * head.tokens * head.hidden * head.vocab, 1e-14);
        assert_close(ring.extra_flop, 0.25 * (ring.forward_flop + ring.backward_flop), 1e-14);
        assert_close(blocks.moving_bytes, 2.0 * ring.hop_backward_bytes, 1e-14);
        assert_close(blocks.total_bytes,
                     blocks.resident_bytes + blocks.results_bytes + blocks.moving_bytes +
                         blocks.strip_bytes,
                     1e-14);
    }
}

static void half_a_strip_is_half_the_bytes(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 500; ++i) {
        struct vocab_head head = any_head(&seed);
        const int ranks = (int)draw(&seed, 1.0, 32.0);
        head.tokens = 2.0 * draw(&seed, 1.0, 2000.0);
        struct vocab_ring whole, half;
        struct vocab_blocks of_whole, of_half;
        struct vocab_memory whole_memory, half_memory;
        head.strip_rows = 0.0;
        vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &whole);
        head.strip_rows = head.tokens / 2.0;
        vocab_ring_of(&head, ranks, VOCAB_MOVE_AUTO, &half);
        vocab_ring_blocks(&whole, &of_whole);
        vocab_ring_blocks(&half, &of_half);
        vocab_ring_memory(&whole, &paper, &whole_memory);
        vocab_ring_memory(&half, &paper, &half_memory);
        assert_close(half.strip_bytes, whole.strip_bytes / 2.0, 0.0);
        assert_close(half.pieces, 2.0, 0.0);
        assert_close(of_whole.total_bytes - of_half.total_bytes, half.strip_bytes, 1e-9);
        assert_close(whole_memory.peak_bytes - half_memory.peak_bytes, 2.313 * half.strip_bytes,
                     1e-6);
    }
}

static void more_ranks_hold_less(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 500; ++i) {
        const struct vocab_head head = any_head(&seed);
        const int ranks = (int)draw(&seed, 2.0, 32.0);
        struct vocab_ring few, many;
        vocab_ring_of(&head, ranks, VOCAB_MOVE_ACTIVATIONS, &few);
        vocab_ring_of(&head, 2 * ranks, VOCAB_MOVE_ACTIVATIONS, &many);
        struct vocab_memory of_few, of_many;
        vocab_ring_memory(&few, &paper, &of_few);
        vocab_ring_memory(&many, &paper, &of_many);
        assert_true(of_many.peak_bytes <= of_few.peak_bytes);
        const int world = (int)draw(&seed, 1.0, 96.0);
        const double budget = draw(&seed, 0.0, 1e6);
        const int found = vocab_ring_smallest(&head, world, 1.0, budget);
        for (int p = 1; p <= world; ++p) {
            struct vocab_ring ring;
            vocab_ring_of(&head, p, VOCAB_MOVE_AUTO, &ring);
            const bool would_do = world % p == 0 && ring.strip_bytes <= budget;
            if (p == found)
                assert_true(would_do);
            else if (p < found || found == 0)
                assert_false(would_do);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_weight_shards),
        cmocka_unit_test(r2_r3_dense),
        cmocka_unit_test(r5_what_moves),
        cmocka_unit_test(r6_ring_peaks),
        cmocka_unit_test(r6_each_from_the_others),
        cmocka_unit_test(r8_forward_overhead),
        cmocka_unit_test(hops_hide_behind_wide_strips),
        cmocka_unit_test(time_adds_up),
        cmocka_unit_test(smallest_ring_that_fits),
        cmocka_unit_test(chunks_are_a_ring_of_one),
        cmocka_unit_test(shards_tile_the_vocabulary),
        cmocka_unit_test(less_moves_than_the_other_way),
        cmocka_unit_test(bytes_and_flops_add_up),
        cmocka_unit_test(half_a_strip_is_half_the_bytes),
        cmocka_unit_test(more_ranks_hold_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
