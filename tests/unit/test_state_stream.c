// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The optimizer state's stream as priced: buckets, staging and times of the measured runs of arXiv
 * 2609.14306 (gpt-oss-20b on 8 GPUs), persistent state and shapes of its long-context models, and
 * over random streams an event-by-event play.
 */
#include "model/count.h"
#include "step/state_stream.h"

#include "close.h"
#include "xorshift.h"

#include <stdbool.h>
#include <string.h>

static const double gib = 1024.0 * 1024.0 * 1024.0;

/* ---- the measured runs ---- */

static const struct geometry gpt_oss_20b = {
    .layers = 24,
    .hidden = 2880,
    .heads = 64,
    .kv_heads = 8,
    .head_dim = 64,
    .v_head_dim = 64,
    .ffn_matrices = 3,
    .expert_ffn = 2880,
    .experts = 32,
    .top_k = 4,
    .granularity = 1,
    .vocab = 201088,
};

enum { RANKS = 8, MOST_TENSORS = 256 };

/* A rank's share of the matrices in the model's order; biases and norms, which do not decay, are a
 * group and a bucket of their own. */
static size_t matrices_of(const struct geometry *g, size_t *tensors) {
    struct param_counts c;
    count_params(g, &c);
    const double query = (double)g->hidden * g->heads * g->head_dim;
    const double key = (double)g->hidden * g->kv_heads * g->head_dim;
    const double layer[] = {query,
                            key,
                            key,
                            c.attention_layer - query - 2.0 * key,
                            c.router_layer,
                            g->experts * c.expert * 2.0 / 3.0,
                            g->experts * c.expert / 3.0};
    size_t count = 0;
    tensors[count++] = (size_t)c.embedding / RANKS;
    for (int i = 0; i < g->layers; ++i)
        for (size_t k = 0; k < sizeof layer / sizeof *layer; ++k)
            tensors[count++] = (size_t)layer[k] / RANKS;
    tensors[count++] = (size_t)c.head / RANKS;
    return count;
}

static struct state_stream measured(double bucket, int slots) {
    size_t tensors[MOST_TENSORS];
    const size_t count = matrices_of(&gpt_oss_20b, tensors);
    struct state_stream out;
    struct status_error err = {0};
    if (state_stream_form(&(struct state_stream_request){bucket, slots, 4}, tensors, count, NULL,
                          &out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return out;
}

/* Formed from the model's shapes: the printed buckets to the parameter, and the printed staging. */
static void buckets_and_staging_of_the_runs(void **state) {
    (void)state;
    static const struct {
        double bucket;
        int slots;
        long printed_buckets;
        double largest, staging_gib;
    } rows[] = {
        {100e6, 2, 26, 142.076e6, 4.234}, {100e6, 3, 26, 142.076e6, 6.351},
        {150e6, 2, 14, 208.431e6, 6.212}, {150e6, 3, 14, 208.431e6, 9.318},
        {200e6, 2, 14, 244.938e6, 7.300}, {200e6, 3, 14, 244.938e6, 10.950},
        {250e6, 2, 10, 308.586e6, 9.197}, {250e6, 3, 10, 308.586e6, 13.795},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const struct state_stream s = measured(rows[i].bucket, rows[i].slots);
        assert_int_equal(s.buckets + 1, rows[i].printed_buckets);
        assert_close_abs(s.largest_params, rows[i].largest, 500.0);
        assert_close_abs(s.staging_bytes / gib, rows[i].staging_gib, 0.001);
    }
}

static struct state_stream_time time_of(const struct state_stream *s,
                                        const struct state_stream_rates *rates) {
    struct state_stream_time out;
    struct status_error err = {0};
    if (state_stream_time(s, rates, &out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return out;
}

/* Every copy at one rate, the update in a moment. */
static struct state_stream_rates copies_at(double bytes_per_s) {
    return (struct state_stream_rates){bytes_per_s, bytes_per_s, (double)INFINITY,
                                       (double)INFINITY};
}

/* 16 B up, 12 B down: a slot's round of 28 in two slots is below 16. */
static void a_third_slot_gains_nothing(void **state) {
    (void)state;
    const struct state_stream one = measured(100e6, 1), two = measured(100e6, 2),
                              three = measured(100e6, 3);
    const struct state_stream_rates rates = copies_at(22e9);
    const double two_s = time_of(&two, &rates).period_s;
    assert_close(time_of(&three, &rates).period_s, two_s, 0);
    assert_close(two_s, 16.0 * two.params / (double)two.buckets / 22e9, 1e-12);
    assert_close(time_of(&one, &rates).period_s, two_s * 1.75, 1e-12);
    assert_close(time_of(&three, &rates).total_s / time_of(&two, &rates).total_s, 1.951 / 1.930,
                 0.015);
}

/* The rate that the first measured row implies, against the host's 5.3e9 parameters/s a node. */
static void stream_against_the_host(void **state) {
    (void)state;
    const struct state_stream s = measured(100e6, 2);
    const struct state_stream_rates unit = copies_at(1.0);
    const struct state_stream_rates rates = copies_at(time_of(&s, &unit).total_s / 1.93);
    const double stream_s = time_of(&s, &rates).total_s;
    assert_close(stream_s, 1.93, 1e-9);
    assert_close_abs(state_stream_host_s(&s, 5.3e9 / RANKS) / stream_s, 2.05, 0.01);
    /* With the drain counted, the link of a GPU and the memory of a node reach what is printed. */
    assert_close(rates.up_bytes_per_s, 21.7e9, 0.04);
    assert_close(RANKS * 28.0 / 16.0 * rates.up_bytes_per_s, 303e9, 0.04);
}

/* Host memory that carries both directions limits like a slower link. */
static void host_memory_is_shared(void **state) {
    (void)state;
    const struct state_stream s = measured(100e6, 2);
    struct state_stream_rates rates = copies_at(55e9);
    const double free_s = time_of(&s, &rates).period_s;
    rates.host_bytes_per_s = 28.0 / 16.0 * 55e9;
    assert_close(time_of(&s, &rates).period_s, free_s, 1e-12);
    rates.host_bytes_per_s /= 2.0;
    assert_close(time_of(&s, &rates).period_s, 2.0 * free_s, 1e-12);
    rates.host_bytes_per_s = 303e9 / RANKS;
    assert_close(time_of(&s, &rates).period_s, 28.0 * s.params / (double)s.buckets * RANKS / 303e9,
                 1e-12);
}

/* ---- what stays ---- */

static struct state_stream planned(double params, double bucket, double tensor, int slots) {
    struct state_stream out;
    struct status_error err = {0};
    if (state_stream_of(&(struct state_stream_request){bucket, slots, 0}, params, tensor, &out,
                        &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return out;
}

static void persistent_state(void **state) {
    (void)state;
    assert_close_abs(planned(1e12 / 96, 100e6, 50e6, 2).host_bytes / gib, 116.4, 0.5);
    const struct state_stream s = planned(667e9 / 64, 100e6, 50e6, 2);
    const double resident_bytes = s.device_bytes + s.host_bytes, memory_bytes = 141e9;
    assert_close_abs(resident_bytes / gib, 155.3, 0.1);
    assert_close_abs(s.device_bytes / gib, 38.8, 0.1);
    assert_true(resident_bytes > memory_bytes);
    assert_true(s.device_bytes + s.staging_bytes < memory_bytes);
}

/* ---- shapes of the long-context models ---- */

static struct geometry long_context(int layers) {
    return (struct geometry){
        .layers = layers,
        .hidden = 7168,
        .heads = 56,
        .kv_heads = 56,
        .head_dim = 128,
        .v_head_dim = 128,
        .ffn_matrices = 3,
        .dense_ffn = 18432,
        .expert_ffn = 2048,
        .experts = 384,
        .top_k = 8,
        .granularity = 9,
        .vocab = 200000,
    };
}

static void long_context_models(void **state) {
    (void)state;
    static const struct {
        int layers;
        double routed, more_flop;
    } rows[] = {{7, 118.4e9, 277e9}, {14, 236.8e9, 551e9}, {39, 659.5e9, 1540e9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const struct geometry g = long_context(rows[i].layers);
        struct status_error err = {0};
        assert_int_equal(geometry_check(&g, &err), MOSAIC_OK);
        struct param_counts c;
        struct flop_counts near, far;
        count_params(&g, &c);
        count_flops(&g, 131072, &near);
        count_flops(&g, 1048576, &far);
        assert_close_abs(geometry_moe_layers(&g) * g.experts * c.expert, rows[i].routed, 0.1e9);
        assert_close(far.causal - near.causal, rows[i].more_flop, 0.01);
    }
}

/* ---- any tensors ---- */

static void buckets_of_any_tensors(void **state) {
    (void)state;
    for (int i = 0; i < 20000; ++i) {
        size_t tensors[40], starts[41], sum = 0, largest = 0;
        const size_t count = (size_t)below(40);
        for (size_t k = 0; k < count; ++k) {
            tensors[k] = below(5) == 0 ? 0 : (size_t)below(below(3) == 0 ? 400 : 20);
            sum += tensors[k];
            largest = tensors[k] > largest ? tensors[k] : largest;
        }
        const struct state_stream_request request = {(double)(1 + below(300)), 1 + (int)below(4),
                                                     4};
        struct state_stream s, bound;
        struct status_error err = {0};
        assert_int_equal(state_stream_form(&request, tensors, count, starts, &s, &err), MOSAIC_OK);
        assert_true(starts[s.buckets] == sum && (s.buckets == 0 || starts[0] == 0));
        size_t widest = 0, end = 0, next = 0;
        for (long b = 0; b < s.buckets; ++b) {
            const size_t params = starts[b + 1] - starts[b];
            size_t before_last = 0;
            while (end < starts[b + 1]) { /* whole tensors, and no more than it takes */
                before_last = end - starts[b];
                end += tensors[next++];
            }
            assert_true(end == starts[b + 1] && params > 0);
            assert_true((double)before_last < request.bucket_params);
            assert_true((double)params >= request.bucket_params || b == s.buckets - 1);
            widest = params > widest ? params : widest;
        }
        assert_close(s.staging_bytes, 16.0 * (double)widest * request.slots, 0);
        assert_int_equal(state_stream_of(&request, (double)sum, (double)largest, &bound, &err),
                         MOSAIC_OK);
        assert_true(bound.buckets >= s.buckets);
        assert_true(bound.staging_bytes >= s.staging_bytes);
        assert_true(bound.up_bytes == s.up_bytes && bound.host_bytes == s.host_bytes);
    }
}

static void halving_slots_and_buckets(void **state) {
    (void)state;
    const struct state_stream s = planned(1e9, 8e6, 1.0, 4);
    assert_close(planned(1e9, 8e6, 1.0, 2).staging_bytes, s.staging_bytes / 2.0, 0);
    assert_close(planned(1e9, 4e6, 1.0, 4).staging_bytes, s.staging_bytes / 2.0, 0);
    assert_int_equal(planned(1e9, 4e6, 1.0, 4).buckets, 2 * s.buckets);
}

/* ---- times against a clock ---- */

static double played(const struct state_stream *s, const struct state_stream_time *t) {
    enum { MOST = 64 };
    double up[MOST] = {0}, update[MOST] = {0}, down[MOST] = {0};
    for (long i = 0; i < s->buckets; ++i) {
        const double free_s = i >= s->slots ? down[i - s->slots] : 0.0;
        up[i] = fmax(free_s, i > 0 ? up[i - 1] : 0.0) + t->up_s;
        update[i] = fmax(up[i], i > 0 ? update[i - 1] : 0.0) + t->update_s;
        down[i] = fmax(update[i], i > 0 ? down[i - 1] : 0.0) + t->down_s;
    }
    return s->buckets > 0 ? down[s->buckets - 1] : 0.0;
}

static void times_as_played(void **state) {
    (void)state;
    for (int i = 0; i < 20000; ++i) {
        const struct state_stream s = planned((double)(1 + below(60)), 1.0, 1.0, 1 + (int)below(5));
        const struct state_stream_rates rates = {(double)(1 + below(100)), (double)(1 + below(100)),
                                                 (double)INFINITY, (double)(1 + below(20))};
        const struct state_stream_time t = time_of(&s, &rates);
        const double played_s = played(&s, &t), sum_s = t.up_s + t.update_s + t.down_s;
        assert_true(t.total_s >= played_s * (1.0 - 1e-12));
        if (s.slots == 2) /* its buckets go in pairs: the last pair may end early */
            assert_true(t.total_s <= played_s + sum_s);
        else
            assert_close(t.total_s, played_s, 1e-12);
    }
}

static void faster_is_never_slower(void **state) {
    (void)state;
    for (int i = 0; i < 5000; ++i) {
        const struct state_stream s = planned((double)(1 + below(60)), 1.0, 1.0, 1 + (int)below(5));
        double rate[4];
        for (int k = 0; k < 4; ++k)
            rate[k] = (double)(1 + below(1000));
        const struct state_stream_rates slow = {rate[0], rate[1], rate[2], rate[3]};
        rate[below(4)] *= 1.5;
        const struct state_stream_rates quick = {rate[0], rate[1], rate[2], rate[3]};
        assert_true(time_of(&s, &quick).total_s <= time_of(&s, &slow).total_s);
        struct state_stream more = s;
        more.slots++;
        assert_true(time_of(&more, &slow).total_s <= time_of(&s, &slow).total_s);
    }
}

/* ---- edges and faults ---- */

static void nothing_to_update(void **state) {
    (void)state;
    const struct state_stream s = planned(0.0, 100.0, 0.0, 2);
    assert_int_equal(s.buckets, 0);
    const struct state_stream_rates rates = copies_at(1.0);
    assert_close_abs(s.staging_bytes + time_of(&s, &rates).total_s, 0.0, 0);
}

static void check_fault(const struct state_stream_request *request, double params, double tensor,
                        const char *words) {
    struct state_stream out = {.buckets = 77};
    struct status_error err = {0};
    assert_int_equal(state_stream_of(request, params, tensor, &out, &err), MOSAIC_BAD_INPUT);
    if (!strstr(err.message, words))
        fail_msg("'%s' is not in '%s'", words, err.message);
    assert_int_equal(out.buckets, 77);
}

static void faults(void **state) {
    (void)state;
    const double nan = (double)NAN;
    check_fault(&(struct state_stream_request){0, 2, 4}, 10, 5, "bucket of 0");
    check_fault(&(struct state_stream_request){nan, 2, 4}, 10, 5, "bucket of nan");
    check_fault(&(struct state_stream_request){5, 0, 4}, 10, 5, "0 slots");
    check_fault(&(struct state_stream_request){5, 2, 5}, 10, 5, "gradient of 5");
    check_fault(&(struct state_stream_request){5, 2, nan}, 10, 5, "gradient of nan");
    check_fault(&(struct state_stream_request){5, 2, 4}, -1, 0, "-1 parameters");
    check_fault(&(struct state_stream_request){5, 2, 4}, nan, 0, "nan parameters");
    check_fault(&(struct state_stream_request){5, 2, 4}, 10, 11, "largest tensor of 11");
    check_fault(&(struct state_stream_request){5, 2, 4}, 10, 0, "largest tensor of 0");
    const size_t tensors[] = {SIZE_MAX, 2};
    const struct state_stream_request request = {5, 2, 4};
    struct state_stream out;
    struct status_error err = {0};
    assert_int_equal(state_stream_form(&request, tensors, 2, NULL, &out, &err), MOSAIC_BAD_INPUT);
    const struct state_stream s = planned(10.0, 5.0, 5.0, 2);
    struct state_stream_rates rates = copies_at(1.0);
    rates.update_params_per_s = nan;
    struct state_stream_time time;
    assert_int_equal(state_stream_time(&s, &rates, &time, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "above 0"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_and_staging_of_the_runs),
        cmocka_unit_test(a_third_slot_gains_nothing),
        cmocka_unit_test(stream_against_the_host),
        cmocka_unit_test(host_memory_is_shared),
        cmocka_unit_test(persistent_state),
        cmocka_unit_test(long_context_models),
        cmocka_unit_test(buckets_of_any_tensors),
        cmocka_unit_test(halving_slots_and_buckets),
        cmocka_unit_test(times_as_played),
        cmocka_unit_test(faster_is_never_slower),
        cmocka_unit_test(nothing_to_update),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
