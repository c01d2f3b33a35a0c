// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/step/token_chunks.c: chunks partition tokens and routes; bounds, send ratios, peaks and times
 * against what arXiv 2609.14306 and 2601.17111 print (H200, Ep 8).
 */
#include "llep_case.h"

#include <limits.h>
#include <stdlib.h>

static const double gib = 1073741824.0;

/* Shape A: 32,768 tokens a rank; B: 65,536. */
enum { TOKENS_A = 32768, TOKENS_B = 65536, TOP_K_B = 8, CHUNKS_B = 10 };
static const struct dispatch_shape shape_b = {LLEP_RANKS, TOP_K_B, 7168, 2048, 2};

/* GiB as printed. */
static const double standard_a[LLEP_PROFILES] = {21.347, 32.549, 45.351, 64.556,
                                                 74.154, 36.885, 48.445};
static const double llep_a[LLEP_PROFILES] = {24.101, 24.476, 24.476, 24.664,
                                             24.664, 24.664, 24.664};
static const double llep_b[LLEP_PROFILES] = {52.660, 52.906, 52.906, 52.988,
                                             52.988, 52.906, 52.906};

/* ---- the descriptor ---- */

/* A1, A2, A3 */
static void test_chunk_counts(void **state) {
    (void)state;
    const struct token_chunks b = token_chunks_of(TOKENS_B, 6554, 10);
    assert_int_equal(b.count, 10);
    assert_int_equal(b.tokens, 6554);
    assert_int_equal(token_chunks_of(TOKENS_A, 10923, 10).count, 3);
    static const long tokens[] = {128, 1024, 8192, 32768, 65536, 131072},
                      want[] = {1, 1, 2, 8, 10, 10};
    for (int i = 0; i < 6; ++i) {
        const struct token_chunks c = token_chunks_of(tokens[i], 4096, 10);
        assert_int_equal(c.count, want[i]);
        /* Within the budget until K_max, then the share of the batch. */
        assert_true(tokens[i] <= 40960 ? c.tokens <= 4096 : c.tokens == (tokens[i] + 9) / 10);
    }
}

static void test_edges(void **state) {
    (void)state;
    const struct token_chunks none = token_chunks_of(0, 4096, 10);
    assert_int_equal(none.count, 1);
    assert_int_equal(none.tokens, 0);
    assert_int_equal(token_chunk_size(&none, 0), 0);
    const struct token_chunks few = token_chunks_at(2, 5); /* its group has five */
    assert_int_equal(few.tokens, 1);
    assert_int_equal(token_chunk_size(&few, 1), 1);
    assert_int_equal(token_chunk_size(&few, 2), 0);
    assert_int_equal(token_chunks_of(5, LONG_MAX, 10).count, 1);
    assert_int_equal(token_chunks_of(LONG_MAX, 1, 7).count, 7);
}

/* (a) of the paper's reference tests: chunks partition [0, N). */
static void test_chunks_partition_tokens(void **state) {
    (void)state;
    unsigned long random = 7;
    for (int i = 0; i < 2000; ++i) {
        struct token_chunks c = token_chunks_of(
            llep_random(&random, 300), 1 + llep_random(&random, 40), 1 + llep_random(&random, 20));
        c.order = i % 2 ? CHUNK_CONTIGUOUS : CHUNK_STRIDED;
        bool is_seen[300] = {false};
        long sum = 0;
        for (long k = 0; k < c.count; ++k) {
            const long size = token_chunk_size(&c, k);
            assert_in_range(size, 0, c.tokens);
            for (long n = 0; n < size; ++n) {
                const long token = token_chunk_token(&c, k, n);
                assert_in_range(token, 0, c.total - 1);
                assert_false(is_seen[token]);
                is_seen[token] = true;
                assert_int_equal(token_chunk_of(&c, token), k);
            }
            sum += size;
        }
        assert_int_equal(sum, c.total);
        if (c.total > 0)
            assert_int_equal(token_chunk_size(&c, 0), c.tokens);
    }
}

/* ---- replay of the routes ---- */

struct replay {
    long *sends; /* [source][chunk][destination] */
    long most_received;
    double ratio;
};

static struct llep_plan plan;

/* All ranks route alike, each from where the ranks before it end. */
static void replay_sends(const struct token_chunks *chunks, const struct route_profile *p,
                         int ranks, struct replay *out) {
    const size_t row = (size_t)chunks->count * (size_t)ranks;
    long own[LLEP_MOST_EXPERTS], next[LLEP_MOST_EXPERTS];
    profile_counts(p, chunks->total, own);
    *out = (struct replay){calloc(row * (size_t)ranks, sizeof(long)), 0, 1.0};
    assert_non_null(out->sends);
    for (int r = 0; r < ranks; ++r) {
        for (int e = 0; e < p->experts; ++e)
            next[e] = r * own[e];
        const struct route_source source = {NULL, p, p->top_k, next};
        long *const mine = out->sends + (size_t)r * row;
        token_chunk_sends(chunks, &plan.plan, ranks, &source, NULL, mine);
        out->ratio = fmax(out->ratio, token_chunk_send_ratio(mine, chunks->count, ranks));
        for (int e = 0; e < p->experts; ++e)
            assert_int_equal(next[e], (r + 1) * own[e]);
    }
    for (size_t at = 0; at < row; ++at) {
        long received = 0;
        for (int r = 0; r < ranks; ++r)
            received += out->sends[(size_t)r * row + at];
        out->most_received = received > out->most_received ? received : out->most_received;
    }
}

static void replay_b(int which, enum chunk_order order, struct replay *out) {
    const struct route_profile p = llep_profile_of(which, LLEP_EXPERTS, TOP_K_B);
    struct token_chunks chunks = token_chunks_of(TOKENS_B, 6554, CHUNKS_B);
    chunks.order = order;
    llep_plan_profile(&plan, &llep_rules, &p, TOKENS_B);
    replay_sends(&chunks, &p, LLEP_RANKS, out);
    free(out->sends);
}

/* A7, A8, A10 with (d) and (e): ratios as printed, strided receives 1/Ep of the bound. */
static void test_send_ratios(void **state) {
    (void)state;
    static const struct {
        int which;
        double strided, contiguous, contiguous_share;
    } rows[] = {{BALANCED, 1.00, 1.02, 0.0},  {HOT_80_16, 2.40, 4.00, 0.0},
                {HOT_95_16, 1.35, 2.63, 0.0}, {HOT_50_4, 2.29, 6.00, 0.171},
                {HOT_30_16, 0.0, 0.0, 0.422}, {HOT_50_16, 0.0, 0.0, 0.0},
                {HOT_30_4, 0.0, 0.0, 0.0}};
    const double bound = LLEP_RANKS * TOP_K_B * 6554.0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        struct replay strided, contiguous;
        replay_b(rows[i].which, CHUNK_STRIDED, &strided);
        replay_b(rows[i].which, CHUNK_CONTIGUOUS, &contiguous);
        assert_close_abs((double)strided.most_received / bound, 0.125, 0.001);
        assert_true((double)contiguous.most_received <= bound);
        if (rows[i].strided > 0.0) {
            assert_close_abs(strided.ratio, rows[i].strided, 0.01);
            assert_close_abs(contiguous.ratio, rows[i].contiguous, 0.01);
        }
        if (rows[i].contiguous_share > 0.0)
            assert_close_abs((double)contiguous.most_received / bound, rows[i].contiguous_share,
                             0.001);
    }
}

/* (b) and (d): chunked sends add up to those of the undivided layer, and none exceeds Ep k c_eff.
 */
static void test_chunked_sends_add_up(void **state) {
    (void)state;
    unsigned long random = 3;
    for (int i = 0; i < 60; ++i) {
        const int ranks = 1 << llep_random(&random, 4), top_k = 1 + (int)llep_random(&random, 5);
        const struct balance_rules rules = {ranks * 8, ranks, 1.0, 1 + llep_random(&random, 50)};
        const struct route_profile p = {rules.experts, top_k, (int)llep_random(&random, 8),
                                        (double)llep_random(&random, 11) / 10.0};
        const long tokens = llep_random(&random, 400);
        struct token_chunks chunks = token_chunks_of(tokens, 1 + llep_random(&random, 60), 12);
        chunks.order = i % 2 ? CHUNK_CONTIGUOUS : CHUNK_STRIDED;
        const struct token_chunks whole = token_chunks_at(tokens, 1);
        llep_plan_profile(&plan, &rules, &p, tokens);
        struct replay cut, uncut;
        replay_sends(&chunks, &p, ranks, &cut);
        replay_sends(&whole, &p, ranks, &uncut);
        for (int s = 0; s < ranks; ++s)
            for (int d = 0; d < ranks; ++d) {
                long sum = 0;
                for (long k = 0; k < chunks.count; ++k)
                    sum += cut.sends[(s * chunks.count + k) * ranks + d];
                assert_int_equal(sum, uncut.sends[s * ranks + d]);
            }
        assert_true(cut.most_received <= ranks * top_k * chunks.tokens);
        free(cut.sends);
        free(uncut.sends);
    }
}

/* ---- bytes ---- */

/* A4, A5 */
static void test_bounds(void **state) {
    (void)state;
    const struct token_chunks b = token_chunks_of(TOKENS_B, 6554, CHUNKS_B);
    assert_close_abs(chunk_guarantee_bytes(&shape_b, &b) / gib, 11.20, 0.01);
    assert_close_abs(chunk_even_bytes(&shape_b, &b) / gib, 1.400, 0.001);
    assert_close_abs(chunk_staging_bytes(&shape_b, &b) / gib, 0.700, 0.001);
    assert_close(whole_layer_bytes(&shape_b, (double)TOP_K_B * TOKENS_B), 14.0 * gib, 0.0);
    /* The guarantee grows with the group: Ep 64, c 4,096. */
    const struct dispatch_shape wide = {64, TOP_K_B, 7168, 2048, 2};
    const struct token_chunks c = token_chunks_of(4096, 4096, 10);
    assert_close(chunk_guarantee_bytes(&wide, &c), 56.0 * gib, 0.0);
    /* Half the budget, half the bound. */
    const struct token_chunks whole = token_chunks_of(TOKENS_B, 8192, 32),
                              half = token_chunks_of(TOKENS_B, 4096, 32);
    assert_close(chunk_guarantee_bytes(&shape_b, &half),
                 0.5 * chunk_guarantee_bytes(&shape_b, &whole), 0.0);
}

/* A12: linear in the load multiple, through two of the printed rows. */
static void test_standard_peak(void **state) {
    (void)state;
    double load[LLEP_PROFILES];
    for (int i = 0; i < LLEP_PROFILES; ++i) {
        const struct route_profile p = llep_profile_of(i, LLEP_EXPERTS, 4);
        load[i] = profile_load_multiple(&p, LLEP_RANKS);
    }
    const double slope =
        (standard_a[HOT_95_16] - standard_a[BALANCED]) / (load[HOT_95_16] - load[BALANCED]);
    for (int i = 0; i < LLEP_PROFILES; ++i)
        assert_close_abs(standard_a[BALANCED] + slope * (load[i] - load[BALANCED]), standard_a[i],
                         0.02);
}

/* A14 and its kin: each foreign expert costs its weights, twice at shape A. */
static void test_llep_peak(void **state) {
    (void)state;
    const struct dispatch_shape shape_a = {LLEP_RANKS, 4, 4096, 4096, 2};
    assert_close(expert_weight_bytes(&shape_b), 84.0 * 1048576.0, 0.0);
    for (int i = 0; i < LLEP_PROFILES; ++i) {
        const struct route_profile a = llep_profile_of(i, LLEP_EXPERTS, 4),
                                   b = llep_profile_of(i, LLEP_EXPERTS, TOP_K_B);
        llep_plan_profile(&plan, &llep_rules, &b, TOKENS_B);
        int foreign_of[LLEP_RANKS];
        int foreign = expert_plan_foreign(&llep_rules, &plan.plan, foreign_of);
        assert_close_abs(llep_b[BALANCED] + foreign * expert_weight_bytes(&shape_b) / gib,
                         llep_b[i], 0.002);
        llep_plan_profile(&plan, &llep_rules, &a, TOKENS_A);
        foreign = expert_plan_foreign(&llep_rules, &plan.plan, foreign_of);
        assert_close_abs(llep_a[BALANCED] + 2.0 * foreign * expert_weight_bytes(&shape_a) / gib,
                         llep_a[i], 0.002);
    }
}

/* A16 and A17: through K = 1 (8.3 GiB above LLEP) and K = 10 of profile 80/16. */
static void test_pipelined_peak(void **state) {
    (void)state;
    const double at_1 = llep_b[HOT_80_16] + 8.3, at_10 = 22.861;
    const double interior = (at_1 - at_10) / (1.0 - 1.0 / 10.0);
    const double kept = at_1 - interior;
    assert_close_abs(chunked_peak_bytes(kept, interior, 20), 20.46, 0.4);
    assert_close_abs(1.0 - chunked_peak_bytes(kept, interior, 10) / llep_b[HOT_80_16], 0.569,
                     0.001);
    assert_close_abs(1.0 - 21.430 / llep_b[BALANCED], 0.593, 0.001);
}

/* L2, L3: figure 4 of LLEP, 16,384 tokens a GPU, Ep 8. */
static void test_route_scale_tensors(void **state) {
    (void)state;
    const struct route_scale scale = {3, 7};
    const double slope = route_interior_bytes(&shape_b, &scale, 16384) / gib;
    assert_close(slope, 8.75, 0.01);
    const struct route_profile kimi = {384, 8, 1, 0.95};
    const double balanced = 42.6;
    assert_close(balanced + slope * (profile_load_multiple(&kimi, 8) - 1.0), 100.5, 0.01);
}

/* ---- time and work ---- */

static double time_by_chunks(const struct chunk_times *t, long chunks) {
    double sum = t->plan_s + t->migrate_s + t->dispatch_s;
    for (long i = 0; i < chunks; ++i)
        sum += fmax(t->compute_s,
                    (i + 1 < chunks ? t->dispatch_s : 0.0) + (i > 0 ? t->combine_s : 0.0));
    return sum + t->combine_s;
}

static void test_time(void **state) {
    (void)state;
    unsigned long random = 11;
    for (int i = 0; i < 500; ++i) {
        const struct chunk_times t = {1e-4, 2e-4, (double)llep_random(&random, 100) * 1e-5,
                                      (double)llep_random(&random, 100) * 1e-5,
                                      (double)llep_random(&random, 100) * 1e-5};
        const long chunks = 1 + llep_random(&random, 20);
        assert_close(chunk_time_s(&t, chunks), time_by_chunks(&t, chunks), 1e-12);
        assert_close_abs(chunk_exposed_s(&t, chunks),
                         time_by_chunks(&t, chunks) - (double)chunks * t.compute_s, 1e-12);
    }
    /* Compute hides all transfers but the first and the last. */
    const struct chunk_times hidden = {0, 0, 5e-3, 1e-3, 2e-3};
    assert_close_abs(chunk_exposed_s(&hidden, 10), 3e-3, 1e-15);
}

static void test_work(void **state) {
    (void)state;
    assert_close(chunk_launches(10, 1), 70.0, 0.0);
    assert_close(chunk_launches(10, 2) - chunk_launches(10, 1), 40.0, 0.0);
    /* Forward and backward count 3: 4 units under recomputation become 5. */
    assert_int_equal(chunk_expert_forwards(false, false), 1);
    assert_int_equal(chunk_expert_forwards(true, false), 2);
    assert_int_equal(chunk_expert_forwards(true, true), 3);
    /* One way at shape B: 6.58 GB a rank in all chunks. */
    const struct token_chunks b = token_chunks_of(TOKENS_B, 6554, CHUNKS_B);
    assert_close((double)b.count * chunk_wire_bytes(&shape_b, &b), 6.58e9, 0.001);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_chunk_counts),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_chunks_partition_tokens),
        cmocka_unit_test(test_send_ratios),
        cmocka_unit_test(test_chunked_sends_add_up),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_standard_peak),
        cmocka_unit_test(test_llep_peak),
        cmocka_unit_test(test_pipelined_peak),
        cmocka_unit_test(test_route_scale_tensors),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_work),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
