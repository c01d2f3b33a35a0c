// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A causal sequence over context-parallel ranks: keys of every cut counted one query at a time, the
 * spans of the model against the count, rings that wait at each step, and what the step makes of
 * it.
 */
#include "known_models.h"
#include "step_case.h"

#include "step/causal_span.h"

#include <string.h>

enum { ROUNDS = 400, MOST_RANKS = 16 };

/* Keys of the queries [from, to), the window 0 for none. */
static double keys_of(int from, int to, int window) {
    double keys = 0.0;
    for (int q = from; q < to; ++q)
        keys += (double)(window > 0 && window < q + 1 ? window : q + 1);
    return keys;
}

/* Keys of a rank that holds the pieces of `length` at these places. */
static double keys_at(int first, int second, int length, int window) {
    return keys_of(first * length, (first + 1) * length, window) +
           keys_of(second * length, (second + 1) * length, window);
}

static void test_spans_are_counted(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; ++i) {
        const int ranks = 1 + (int)random_below(MOST_RANKS), piece = 1 + (int)random_below(40);
        const int length = 2 * piece, sequence = ranks * length;
        const int window = random_chance(3) ? 0 : 1 + (int)random_below(2u * (unsigned)sequence);
        const double last = keys_of(sequence - length, sequence, window);
        const double span = causal_span_last((double)sequence, (double)window, ranks);
        double all = 0.0;
        for (int r = 0; r < ranks; ++r) {
            const double contiguous = keys_at(2 * r, 2 * r + 1, piece, window);
            const double paired = keys_at(r, 2 * ranks - 1 - r, piece, window);
            all += contiguous;
            assert_true(contiguous <= last);
            if (window == 0 || window >= sequence)
                assert_close(paired, keys_of(0, sequence, 0) / (double)ranks, 1e-15);
            /* The busiest of balanced ranks is what the mean span says, or less. */
            assert_true(2.0 * paired / (double)length <=
                        causal_span((double)sequence, (double)window) + 1.0);
        }
        assert_close(all, keys_of(0, sequence, window), 1e-15);
        /* To the diagonal: one key of a query. */
        if (ranks > 1)
            assert_close_abs(span, 2.0 * last / (double)length, 1.0 + 1e-9);
        assert_true(span >= causal_span((double)sequence, (double)window));
        if (window == 0 || window >= sequence)
            assert_close(span / (double)sequence, (2.0 * ranks - 1.0) / (double)ranks, 1e-14);
        else if (ranks > 1 && window <= sequence - length)
            assert_close(span, 2.0 * window, 1e-15);
    }
}

/* Squares of 1M tokens and windows at the ends of their cases. */
static void test_spans_meet(void **state) {
    (void)state;
    const double sequence = 1048576.0;
    for (int ranks = 2; ranks <= 4096; ranks *= 2) {
        const double before = sequence - sequence / (double)ranks;
        assert_close(causal_span_last(sequence, before, ranks), 2.0 * before, 1e-12);
        assert_close(causal_span_last(sequence, before + 1e-6, ranks), 2.0 * before, 1e-9);
        assert_close(causal_span_last(sequence, sequence, ranks),
                     causal_span_last(sequence, 0.0, ranks), 1e-15);
        double least = 0.0;
        for (double window = 1.0; window <= sequence; window *= 1.37) {
            const double span = causal_span_last(sequence, window, ranks);
            assert_true(span >= least && span <= 2.0 * window);
            least = span;
        }
    }
}

/* Scores of one block of queries and keys, by their first tokens: all, the causal half, none. */
static double block_scores(int queries, int keys, int length) {
    const double square = (double)length * (double)length;
    return queries > keys ? square : queries == keys ? square / 2.0 : 0.0;
}

/* A ring whose steps wait for the slowest rank: contiguous shards take what the last rank computes,
 * pairs what each does. */
static void test_rings_that_wait(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ++ranks) {
        enum { PIECE = 32 };
        double contiguous = 0.0, paired = 0.0;
        for (int step = 0; step < ranks; ++step) {
            double most = 0.0, most_paired = 0.0;
            for (int r = 0; r < ranks; ++r) {
                const int from = (r - step + ranks) % ranks;
                const int mine[2] = {r, 2 * ranks - 1 - r}, its[2] = {from, 2 * ranks - 1 - from};
                double scores = 0.0;
                for (int q = 0; q < 4; ++q)
                    scores += block_scores(mine[q / 2], its[q % 2], PIECE);
                most_paired = fmax(most_paired, scores);
                most = fmax(most, block_scores(r, from, 2 * PIECE));
            }
            contiguous += most;
            paired += most_paired;
        }
        const double length = 2.0 * PIECE, sequence = length * (double)ranks;
        const double per_span = length / 2.0;
        assert_close(contiguous, causal_span_last(sequence, 0.0, ranks) * per_span, 1e-15);
        assert_close(paired, causal_span(sequence, 0.0) * per_span, 1e-15);
    }
}

/* ---- the step ---- */

static struct point balanced, contiguous;
static struct calibration links; /* link bounds alone */

static int load(void **state) {
    if (p6_load(state) != 0)
        return -1;
    links = p6.calibration;
    links.collective_count = 0;
    return 0;
}

static void predict_both(struct workload w, const struct geometry *g, struct mesh m) {
    static struct workload under[CONTEXT_SHARDS]; /* contexts borrow them */
    static const struct cluster *cluster;
    static struct cluster nodes;
    nodes = p6_nodes(4);
    cluster = &nodes;
    for (int shards = 0; shards < CONTEXT_SHARDS; ++shards) {
        struct point *const at = shards == CONTEXT_CONTIGUOUS ? &contiguous : &balanced;
        under[shards] = w;
        under[shards].execution.context_shards = (enum context_shards)shards;
        if (!point_prepare(at, cluster, &links, &under[shards], g, estimator_default(), m))
            fail_msg("illegal mesh");
        point_predict(at);
    }
}

static struct mesh mesh_of(int cp, enum recompute recompute) {
    return (struct mesh){.tp = 1,
                         .cp = cp,
                         .pp = 1,
                         .vpp = 1,
                         .ep = 1,
                         .etp = 1,
                         .micro_batch = 1,
                         .recompute = recompute};
}

/* Forward, backward and what is run again take (2 c - 1) / c; bytes and FLOPs stay. */
static void test_busiest_rank(void **state) {
    (void)state;
    struct workload w = p6.workload;
    w.sequence = 65536;
    w.global_batch = 32;
    for (int cp = 1; cp <= 16; cp *= 2)
        for (int r = 0; r < RECOMPUTE_MODES; ++r) {
            predict_both(w, &llama3_8b, mesh_of(cp, (enum recompute)r));
            const struct time_split *const few = &balanced.out.split, *const many =
                                                                          &contiguous.out.split;
            const double ratio = (2.0 * cp - 1.0) / (double)cp;
            assert_close(many->attention_s / few->attention_s, ratio, 1e-9);
            assert_true(contiguous.out.memory.total == balanced.out.memory.total);
            assert_true(contiguous.out.hfu * contiguous.out.step_time_s <=
                        balanced.out.hfu * balanced.out.step_time_s * (1.0 + 1e-12));
            assert_close(contiguous.out.hfu * contiguous.out.step_time_s,
                         balanced.out.hfu * balanced.out.step_time_s, 1e-12);
            if (r == RECOMPUTE_FULL && cp > 1) /* the core is run once more */
                assert_true(many->recompute_s > few->recompute_s);
            if (cp == 1)
                assert_true(contiguous.out.step_time_s == balanced.out.step_time_s);
        }
}

/* Layers with a window that the last shard has reached are even, the others are not; an unfused
 * core computes the masked half anyway. */
static void test_windows_and_squares(void **state) {
    (void)state;
    struct geometry g = llama3_8b;
    struct workload w = p6.workload;
    w.sequence = 65536;
    w.global_batch = 32;
    g.window = 4096;
    g.window_layers = g.layers;
    predict_both(w, &g, mesh_of(8, RECOMPUTE_NONE));
    assert_close(contiguous.out.step_time_s, balanced.out.step_time_s, 1e-12);
    g.window_layers = g.layers / 2;
    predict_both(w, &g, mesh_of(8, RECOMPUTE_NONE));
    assert_close(contiguous.out.split.attention_s / balanced.out.split.attention_s,
                 (65536.0 * 15.0 / 8.0 + 8192.0) / (65536.0 + 8192.0), 1e-9);
    g.window = 0;
    w.execution.unfused_attention = true;
    predict_both(w, &g, mesh_of(8, RECOMPUTE_NONE));
    assert_true(contiguous.out.step_time_s == balanced.out.step_time_s);
}

/* Pairs need 2 CP x TP pieces of the sequence, single shards CP x TP. */
static void test_pieces_of_a_sequence(void **state) {
    (void)state;
    struct workload w = p6.workload;
    struct point at;
    const struct cluster nodes = p6_nodes(4);
    w.sequence = 8 * 1001;
    w.global_batch = 32;
    assert_false(point_prepare(&at, &nodes, &links, &w, &llama3_8b, estimator_default(),
                               mesh_of(8, RECOMPUTE_NONE)));
    w.execution.context_shards = CONTEXT_CONTIGUOUS;
    assert_true(point_prepare(&at, &nodes, &links, &w, &llama3_8b, estimator_default(),
                              mesh_of(8, RECOMPUTE_NONE)));
    w.sequence = 8 * 1001 + 1;
    assert_false(point_prepare(&at, &nodes, &links, &w, &llama3_8b, estimator_default(),
                               mesh_of(8, RECOMPUTE_NONE)));
}

/* Never faster where nothing hides behind compute (several copies may hide behind the same second);
 * without context parallelism the same, bytes always. */
static void test_never_faster(void **state) {
    (void)state;
    static struct job job;
    static struct point after;
    int slower = 0;
    for (int i = 0; i < 3000; ++i) {
        random_job(&job, &p6.calibration, true);
        struct execution *const e = &job.s.workload.execution;
        e->context_shards = CONTEXT_BALANCED;
        e->serial_dp = true;
        e->overlap = 0;
        e->offload_activations = e->checkpoint_host_bytes = 0.0;
        job.s.at.mesh.schedule = SCHEDULE_1F1B;
        if (!job_again(&job, &job.s.at)) /* pairs need more pieces */
            continue;
        e->context_shards = CONTEXT_CONTIGUOUS;
        assert_true(job_again(&job, &after));
        const double few_s = job.s.at.out.step_time_s, many_s = after.out.step_time_s;
        if (many_s < few_s * (1.0 - 1e-12) || (job.s.at.mesh.cp == 1 && many_s != few_s) ||
            after.out.memory.total != job.s.at.out.memory.total) {
            print_job(&job);
            fail_msg("%.17g s, %.17g s contiguous", few_s, many_s);
        }
        slower += many_s > few_s;
    }
    assert_true(slower > 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_are_counted),   cmocka_unit_test(test_spans_meet),
        cmocka_unit_test(test_rings_that_wait),     cmocka_unit_test(test_busiest_rank),
        cmocka_unit_test(test_windows_and_squares), cmocka_unit_test(test_pieces_of_a_sequence),
        cmocka_unit_test(test_never_faster),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
