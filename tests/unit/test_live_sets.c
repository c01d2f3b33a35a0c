// SPDX-License-Identifier: GPL-3.0-or-later
/* Live sets, phases and clocks against what the step and memory models say of the same point. */
#include "p6.h"

#include "step/live_timeline.h"

enum { ROUNDING = 16 }; /* bytes: every item is a whole one */

static const double gib = 1073741824.0;
static struct point at, other;
static struct live_sets sets;
static struct live_timeline line;
static struct geometry model;

/* Two nodes, 16 sequences of 32768 tokens, one a GPU. */
static struct mesh shape(enum recompute recompute, int pp) {
    return (struct mesh){.tp = 1,
                         .cp = 1,
                         .pp = pp,
                         .vpp = 1,
                         .ep = 8,
                         .etp = 1,
                         .micro_batch = 1,
                         .recompute = recompute};
}

static struct execution all_on(void) {
    return (struct execution){.sharding = SHARD_FSDP,
                              .bf16_gradients = true,
                              .balance = BALANCE_LLEP,
                              .dispatch_chunk = 4096,
                              .dispatch_chunks_max = 10,
                              .vocab_ring = 8,
                              .checkpoint_host_bytes = 2.0 * gib,
                              .bucket_params = 5e7,
                              .bucket_slots = 3};
}

/* Boundaries are what full recomputation keeps. */
static struct execution on_under(enum recompute recompute) {
    struct execution e = all_on();
    if (recompute != RECOMPUTE_FULL)
        e.checkpoint_host_bytes = 0.0;
    return e;
}

static void predict_with(struct point *p, struct execution e, struct mesh mesh) {
    static struct workload workloads[2];
    static struct cluster cluster;
    struct workload *const w = &workloads[p == &other];
    *w = p6.workload;
    w->sequence = 32768;
    w->global_batch = 32;
    w->imbalance = 2.0;
    w->execution = e;
    cluster = p6_nodes(2);
    model = ladder(8, 64, 4, 4);
    if (!point_prepare(p, &cluster, &p6.calibration, w, &model, estimator_default(), mesh))
        fail_msg("illegal mesh");
    point_predict(p);
}

static void run(struct execution e, struct mesh mesh) {
    predict_with(&at, e, mesh);
    live_sets_of(&at.ctx, &at.table, &at.mesh, &at.split, &sets);
    live_timeline_of(&at.ctx, &at.table, &at.mesh, &at.split, &sets, &line);
}

static void test_totals_are_those_of_the_step(void **state) {
    (void)state;
    for (int pp = 1; pp <= 2; ++pp)
        for (int mode = 0; mode < RECOMPUTE_MODES; ++mode)
            for (int on = 0; on < 2; ++on) {
                const enum recompute recompute = (enum recompute)mode;
                run(on ? on_under(recompute) : (struct execution){0}, shape(recompute, pp));
                assert_int_equal(sets.stage, at.out.worst_stage);
                assert_true(sets.memory.total == at.out.memory.total);
                /* The prediction's is the largest of all stages. */
                assert_true(pp == 1 ? sets.guarantee_bytes == at.out.guarantee_bytes
                                    : sets.guarantee_bytes <= at.out.guarantee_bytes);
                const struct live_phase *const full = &sets.phases[sets.fullest];
                assert_close_abs(full->total_bytes, memory_allocated(&sets.memory), ROUNDING);
                assert_close_abs(full->held_bytes, at.out.memory.total, 2 * ROUNDING);
                double host = 0.0;
                for (int i = 0; i < LIVE_SETS; ++i)
                    host += sets.sets[i].host_bytes;
                assert_true(host <= at.out.host_bytes * (1.0 + 1e-12));
                if (pp == 1)
                    assert_close_abs(host, at.out.host_bytes, 1.0);
            }
}

static void test_phases(void **state) {
    (void)state;
    for (int pp = 1; pp <= 2; ++pp) {
        run(all_on(), shape(RECOMPUTE_FULL, pp));
        double most = 0.0, after = 0.0;
        for (int i = 0; i < LIVE_PHASES; ++i) {
            const struct live_phase *const p = &sets.phases[i];
            const char *name;
            double sum = 0.0, bytes = 0.0;
            for (int k = 0; (name = live_part(p, k, &bytes)) != NULL; ++k) {
                assert_true(bytes >= 0.0);
                sum += bytes;
            }
            assert_close(sum, p->total_bytes, 1e-15);
            most = fmax(most, p->total_bytes);
            if (i != (int)sets.fullest)
                after = fmax(after, p->total_bytes);
            assert_string_not_equal(live_phase_name((enum live_phase_kind)i), "unknown");
        }
        assert_true(most == sets.phases[sets.fullest].total_bytes);
        assert_true(after == sets.phases[sets.next].total_bytes);
        assert_true((sets.phases[LIVE_HEAD].total_bytes > 0.0) == sets.content.is_last);
    }
}

/* Off: nothing changes.  On, one alone: before is what the plain point has. */
static void test_before_and_after(void **state) {
    (void)state;
    double plain[LIVE_SETS];
    run((struct execution){.sharding = SHARD_FSDP, .bf16_gradients = true},
        shape(RECOMPUTE_FULL, 1));
    for (int i = 0; i < LIVE_SETS; ++i) {
        const struct live_set *const l = &sets.sets[i];
        assert_false(l->is_on);
        assert_true(l->bytes == l->before_bytes && l->bytes > 0.0);
        assert_true(l->link_bytes == 0.0 && l->extra_s == 0.0 && l->extra_flop == 0.0);
        plain[i] = l->bytes;
    }
    assert_true(sets.sets[LIVE_DISPATCH].guarantee_bytes > sets.sets[LIVE_DISPATCH].bytes);
    run(all_on(), shape(RECOMPUTE_FULL, 1));
    for (int i = 0; i < LIVE_SETS; ++i) {
        const struct live_set *const l = &sets.sets[i];
        assert_true(l->is_on);
        assert_true(l->bytes < l->before_bytes && l->guarantee_bytes >= l->bytes);
        /* A rank of the ring has less of the head's state. */
        assert_close(l->before_bytes, plain[i], i == LIVE_OPTIMIZER ? 1e-2 : 1e-9);
        assert_true(l->link_bytes > 0.0);
    }
}

/* The extra time is the difference of two predictions, bytes are those of the descriptors. */
static void test_costs(void **state) {
    (void)state;
    const struct execution all = all_on();
    run(all, shape(RECOMPUTE_FULL, 1));
    struct execution without[LIVE_SETS] = {all, all, all, all};
    without[LIVE_DISPATCH].dispatch_chunk = 0;
    without[LIVE_DISPATCH].balance = BALANCE_NONE;
    without[LIVE_VOCABULARY].vocab_ring = 0;
    without[LIVE_BOUNDARIES].checkpoint_host_bytes = 0.0;
    without[LIVE_OPTIMIZER].bucket_params = 0.0;
    for (int i = 0; i < LIVE_SETS; ++i) {
        predict_with(&other, without[i], shape(RECOMPUTE_FULL, 1));
        assert_close_abs(sets.sets[i].extra_s, at.out.step_time_s - other.out.step_time_s, 1e-12);
    }
    const double batches = (double)at.mesh.micro_batches;
    const struct vocab_ring *const ring = &sets.ring.ring;
    assert_close(sets.sets[LIVE_VOCABULARY].extra_flop, batches * ring->extra_flop, 1e-12);
    assert_close(sets.sets[LIVE_BOUNDARIES].link_bytes,
                 2.0 * batches * (double)sets.boundaries.selected * sets.boundaries.bytes, 1e-12);
    assert_close(sets.sets[LIVE_OPTIMIZER].link_bytes, 24.0 * sets.stream.params, 1e-12);
    assert_close(sets.sets[LIVE_OPTIMIZER].bytes, sets.stream.staging_bytes, 1e-12);
    assert_close(sets.sets[LIVE_OPTIMIZER].host_bytes, sets.stream.host_bytes, 1e-9);
    /* One forward of the experts more: 2 FLOPs for each of 3 matrices and each route. */
    const double routes = (double)model.top_k * (double)at.ctx.workload->sequence;
    const double expert = 3.0 * (double)model.hidden * (double)model.expert_ffn;
    assert_close(sets.sets[LIVE_DISPATCH].extra_flop,
                 batches * sets.content.moe_layers * 2.0 * routes * expert, 1e-9);
}

/* The parts of a set that the memory model itself names. */
static void test_parts(void **state) {
    (void)state;
    run(all_on(), shape(RECOMPUTE_FULL, 1));
    struct memory_form form;
    memory_form_of(&at.ctx, &at.table, &at.mesh, &form);
    const struct live_set *const dispatch = &sets.sets[LIVE_DISPATCH];
    assert_close(dispatch->guarantee_bytes - dispatch->bytes,
                 form.exchange_guarantee - form.exchange, 1e-9);
    assert_true(dispatch->bytes > sets.memory.communication);
    assert_true(sets.sets[LIVE_VOCABULARY].bytes > at.table.logits_bytes);
    struct boundary_offload boundaries;
    memory_boundaries(&at.ctx, &at.table, &sets.content, sets.in_flight, &boundaries);
    assert_close_abs(sets.sets[LIVE_BOUNDARIES].bytes, boundaries.device_bytes, ROUNDING);
    assert_int_equal(boundaries.selected, sets.boundaries.selected);
    /* Nothing recomputed: rows that wait in all layers are dispatch's, activations boundaries'. */
    run((struct execution){0}, shape(RECOMPUTE_NONE, 1));
    assert_close_abs(sets.sets[LIVE_DISPATCH].bytes, sets.memory.routed + sets.memory.communication,
                     ROUNDING);
    assert_close_abs(sets.sets[LIVE_BOUNDARIES].bytes,
                     sets.memory.activations - at.table.head_kept_bytes, ROUNDING);
    assert_close_abs(sets.sets[LIVE_OPTIMIZER].bytes, sets.memory.optimizer, ROUNDING);
}

static double last_end(enum live_set_kind set) {
    double end_s = 0.0;
    for (int i = 0; i < line.count; ++i)
        if (line.rows[i].set == set)
            end_s = fmax(end_s, line.rows[i].end_s);
    return end_s;
}

static void test_clocks_end_as_priced(void **state) {
    (void)state;
    run(all_on(), shape(RECOMPUTE_FULL, 1));
    for (int i = 0; i < LIVE_SETS; ++i) {
        assert_true(line.end_s[i] > 0.0);
        assert_close(last_end((enum live_set_kind)i), line.end_s[i], 1e-12);
    }
    const long chunks = sets.routes.chunks.count;
    assert_int_equal(chunks, 8);
    assert_close(line.end_s[LIVE_DISPATCH], chunk_time_s(&line.chunk, chunks), 1e-12);
    assert_close(line.chunk.plan_s, p6.calibration.scalar[CAL_LLEP_LAYER], 1e-12);
    /* The ring's rates are those that it is priced with. */
    const double scalar_gemm =
        at.ctx.peak16_flop_per_s * p6.calibration.scalar[CAL_HEAD_FORWARD_SHARE];
    const struct vocab_ring *const ring = &sets.ring.ring;
    assert_close(line.end_s[LIVE_VOCABULARY],
                 sets.ring.forward_s + sets.ring.backward_s +
                     (ring->forward_flop + ring->backward_flop) / scalar_gemm,
                 1e-4);
    struct stage_cost cost;
    const struct stage_range range = {0, 0, model.layers};
    stage_cost_of(&at.ctx, &at.table, &at.mesh, range, &cost);
    const struct boundary_exposed exposed =
        boundary_offload_exposed(&sets.boundaries, line.layer_forward_s, line.layer_backward_s,
                                 step_host_bytes_per_s(&at.ctx));
    assert_close_abs(exposed.forward_s + exposed.backward_s, cost.offload_s, 1e-12);
    struct shard_links links;
    struct data_parallel dp;
    shard_links_of(&at.ctx, &at.mesh, &links);
    data_parallel_of(&at.ctx, &at.table, &at.mesh, &links, &cost, NULL, &dp);
    assert_close(line.end_s[LIVE_OPTIMIZER], dp.offload_s, 1e-12);
}

static int rows_of(enum live_set_kind set, const char *what, long *left_out) {
    int count = 0;
    for (int i = 0; i < line.count; ++i) {
        const struct live_row *const r = &line.rows[i];
        if (r->set != set || strcmp(r->what, what) != 0)
            continue;
        if (r->is_left_out)
            *left_out += r->last - r->first + 1;
        else
            count++;
    }
    return count;
}

/* Pieces shown and left out are all there are; a lane of compute never does two things. */
static void test_rows(void **state) {
    (void)state;
    struct execution e = all_on();
    for (int i = 0; i < 3; ++i) {
        e.dispatch_chunk = (const int[]){40000, 4096, 512}[i];
        e.dispatch_chunks_max = 64;
        e.bucket_params = (const double[]){1e12, 5e7, 1e3}[i];
        run(e, shape(RECOMPUTE_FULL, 1));
        long left = 0;
        assert_int_equal(rows_of(LIVE_DISPATCH, "experts", &left) + left, sets.routes.chunks.count);
        assert_true((left > 0) == (sets.routes.chunks.count > LIVE_CHUNKS_ALL));
        left = 0;
        assert_int_equal(rows_of(LIVE_VOCABULARY, "meeting", &left) + left, sets.ring.ring.ranks);
        left = 0;
        (void)rows_of(LIVE_OPTIMIZER, "buckets", &left);
        assert_int_equal(rows_of(LIVE_OPTIMIZER, "update", &left) + left, sets.stream.buckets);
        assert_true(line.count <= LIVE_ROWS_MAX);
        assert_close(last_end(LIVE_DISPATCH), line.end_s[LIVE_DISPATCH], 1e-12);
        double busy_s[LIVE_SETS] = {0};
        for (int k = 0; k < line.count; ++k) {
            const struct live_row *const r = &line.rows[k];
            assert_true(r->start_s >= 0.0 && r->end_s >= r->start_s);
            if (r->lane != LIVE_COMPUTE)
                continue;
            assert_true(r->start_s >= busy_s[r->set] * (1.0 - 1e-9));
            busy_s[r->set] = r->end_s;
        }
    }
}

/* No schedule, no clock but the dispatch, in one piece. */
static void test_clocks_without_schedules(void **state) {
    (void)state;
    run((struct execution){0}, shape(RECOMPUTE_FULL, 1));
    long left = 0;
    assert_int_equal(rows_of(LIVE_DISPATCH, "experts", &left), 1);
    assert_true(line.end_s[LIVE_DISPATCH] > 0.0);
    assert_true(line.end_s[LIVE_VOCABULARY] == 0.0 && line.end_s[LIVE_BOUNDARIES] == 0.0 &&
                line.end_s[LIVE_OPTIMIZER] == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals_are_those_of_the_step),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_before_and_after),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_clocks_end_as_priced),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_clocks_without_schedules),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
