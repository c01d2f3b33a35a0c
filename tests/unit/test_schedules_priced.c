// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What each memory schedule (arXiv 2609.14306, LLEP of arXiv 2601.17111) does to time and memory of
 * a step, over random points of every other execution: off it changes nothing, on it changes what
 * its descriptor says and no more; all together, under pipelines, and against the guarantee and the
 * bounds.
 */
#include "memory_case.h"
#include "step/expert_schedule.h"
#include "step/memory.h"
#include "step/ring_head.h"
#include "step_case.h"

enum { POINTS = 400, BOUND_POINTS = 12000 };

static struct job job; /* job.s.at: without what a test switches on */
static struct point on;

static struct execution *execution(void) {
    return &job.s.workload.execution;
}

static void again(struct point *p) {
    const struct split split = job.s.at.split;
    assert_true(job_again(&job, p));
    p->split = split;
    point_predict(p);
}

/* A point without schedules that may recompute in any way. */
static void draw(void) {
    random_job(&job, &p6.calibration, true);
    no_schedules(execution());
    again(&job.s.at);
}

/* The same with several expert ranks that have whole experts. */
static void draw_experts(void) {
    do {
        draw();
    } while (job.s.at.mesh.ep == 1 || job.s.at.mesh.etp > 1);
}

static void expect_same(void) {
    on.out.guarantee_bytes = job.s.at.out.guarantee_bytes; /* shown with any schedule */
    assert_memory_equal(&on.out, &job.s.at.out, sizeof on.out);
    for (int i = 0; i < on.mesh.pp; ++i)
        assert_memory_equal(&on.stages[i], &job.s.at.stages[i], sizeof on.stages[i]);
}

static double tokens_of_rank(void) {
    const struct mesh *const m = &job.s.at.mesh;
    return (double)m->micro_batch * (double)job.s.workload.sequence / ((double)m->cp * m->tp);
}

static double local_experts(void) {
    return (double)job.s.geometry.experts / (double)job.s.at.mesh.ep;
}

/* ---- off ---- */

/* Keys that only say how a schedule would run, one chunk, a ring of one, no threshold passed. */
static void test_off_changes_nothing(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw();
        struct execution *const e = execution();
        assert_true(job.s.at.out.guarantee_bytes == 0.0);
        e->dispatch_chunks_max = PICK(0, 1, 10);
        e->bucket_slots = PICK(0, 1, 2);
        e->vocab_ring = PICK(0, 1);
        e->vocab_move = PICK(0, 1, 2);
        e->restore_depth = PICK(0, 1, 5);
        again(&on);
        assert_true(on.out.guarantee_bytes == 0.0);
        expect_same();
        if (job.s.at.mesh.etp > 1)
            continue;
        e->dispatch_chunk = (int)ceil(tokens_of_rank());
        again(&on); /* K = 1 */
        assert_true(on.out.guarantee_bytes >= on.out.memory.total);
        expect_same();
        e->dispatch_chunk = 0;
        e->balance = BALANCE_LLEP;
        job.calibration.scalar[CAL_LLEP_THRESHOLD] = 1000.0;
        again(&on);
        expect_same();
    }
}

/* ---- chunks ---- */

/* Everything that a MoE layer keeps of its routed rows, and their inputs among it. */
static void routed_kept(double *kept, double *dispatched) {
    const enum recompute before = job.s.at.mesh.recompute;
    struct point none;
    job.s.at.mesh.recompute = RECOMPUTE_NONE;
    assert_true(job_again(&job, &none));
    job.s.at.mesh.recompute = before;
    const struct workload *const w = &job.s.workload;
    const double rows = tokens_of_rank() * job.s.geometry.top_k *
                        workload_imbalance(w, job.s.at.mesh.ep) * (1.0 - w->execution.dropped);
    *kept = none.table.cost[LAYER_MOE].kept_routed_bytes;
    *dispatched = none.ctx.gemm_input_bytes * job.s.geometry.hidden * rows;
}

/* Routed interior, buffers and the work of K chunks against one. */
static void expect_chunks(double kept, double dispatched, double count) {
    const struct layer_cost *const was = &job.s.at.table.cost[LAYER_MOE];
    const struct layer_cost *const is = &on.table.cost[LAYER_MOE];
    const struct geometry *const g = &job.s.geometry;
    const bool is_full = on.mesh.recompute == RECOMPUTE_FULL;
    assert_close(was->interior_bytes - is->interior_bytes,
                 (kept - dispatched) * (1.0 - 1.0 / count), 1e-6);
    assert_true(is->kept_routed_bytes <= was->kept_routed_bytes);
    const double share = execution()->dispatcher == DISPATCH_ALL_GATHER ? 1.0 : count;
    assert_close(on.table.routed_payload_bytes * share, job.s.at.table.routed_payload_bytes, 1e-9);
    /* once more the experts' matrices, forward */
    const double rows = dispatched / (on.ctx.gemm_input_bytes * g->hidden);
    const bool was_again = was->recompute_flop > 0.0;
    const double flop = 2.0 * g->ffn_matrices * (double)g->hidden * g->expert_ffn * rows;
    assert_close(is->recompute_flop - was->recompute_flop, flop, was_again ? 1e-6 : 1e-9);
    assert_true(is->recompute_s > was->recompute_s);
    assert_true(is->ep_s <= was->ep_s * (1.0 + 1e-9) + 1e-12);
    /* four collectives a chunk in each forward, three in backward */
    const double launches = (count - 1.0) * (is_full ? 11.0 : 7.0);
    if (execution()->graphs == GRAPHS_NONE)
        assert_close_abs(
            is->host_s - was->host_s,
            launches * on.ctx.calibration->scalar[CAL_HOST_GAP] *
                (on.ctx.engine.profile.host_factor > 0.0 ? on.ctx.engine.profile.host_factor : 1.0),
            1e-9);
    if (execution()->graphs == GRAPHS_FULL)
        assert_true(is->host_s == 0.0);
}

static void test_chunks(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw_experts();
        const long tokens = (long)tokens_of_rank();
        const int counts[] = {2, 3, 10};
        double kept, dispatched;
        routed_kept(&kept, &dispatched);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; ++k) {
            if (tokens < (long)counts[k] * counts[k])
                continue;
            execution()->dispatch_chunk = (int)((tokens + counts[k] - 1) / counts[k]);
            execution()->dispatch_chunks_max = counts[k];
            again(&on);
            expect_chunks(kept, dispatched, (double)counts[k]);
            execution()->dispatch_chunk = 1; /* K sticks at the most */
            struct point same;
            again(&same);
            assert_memory_equal(&same.table, &on.table, sizeof same.table);
        }
    }
}

/* ---- LLEP ---- */

/* Rows as balanced, one plan a forward, and what lending moves and takes. */
static void expect_balanced(const struct point *even) {
    const struct layer_cost *const was = &even->table.cost[LAYER_MOE];
    const struct layer_cost *const is = &on.table.cost[LAYER_MOE];
    const struct geometry *const g = &job.s.geometry;
    struct expert_schedule routes;
    expert_schedule_of(&on.ctx, &on.mesh, tokens_of_rank(), &routes);
    assert_true(routes.is_balanced && routes.imbalance == 1.0);
    assert_true(routes.foreign_experts >= 0.0 && routes.foreign_experts <= local_experts());
    assert_true(is->kernels.grouped_gemm_s == was->kernels.grouped_gemm_s);
    assert_true(is->all_to_all_s == was->all_to_all_s);
    const double params = (double)g->ffn_matrices * g->hidden * g->expert_ffn;
    const double gradient = execution_gradient_bytes(execution());
    const double lent = routes.foreign_experts * params * (2.0 + gradient);
    assert_close(expert_lending_bytes(&on.ctx, &routes, params), lent, 1e-12);
    assert_close_abs(is->interior_bytes - was->interior_bytes, lent, 1e-6 * is->interior_bytes);
    const bool again =
        on.mesh.recompute == RECOMPUTE_FULL ||
        (on.mesh.recompute == RECOMPUTE_SELECTIVE && (on.ctx.selective & MODULE_EXPERTS) != 0);
    const double lending_s = expert_lending_s(&on.ctx, &on.mesh, &routes, params);
    const double plan_s = on.ctx.calibration->scalar[CAL_LLEP_LAYER] * (again ? 2.0 : 1.0);
    assert_close_abs(is->ep_s - was->ep_s, plan_s + lending_s, 1e-9);
    const double slowest = on.ctx.cluster->tiers[on.ctx.cluster->tier_count - 1].bytes_per_s;
    const double moved = routes.foreign_experts * params * (4.0 + gradient);
    assert_true(lending_s <= moved / (0.01 * slowest) + 1.0 &&
                lending_s >= moved / on.ctx.cluster->tiers[0].bytes_per_s);
}

static void test_llep(void **state) {
    (void)state;
    struct point even;
    for (int i = 0; i < POINTS; ++i) {
        draw_experts();
        struct workload *const w = &job.s.workload;
        double *const threshold = &job.calibration.scalar[CAL_LLEP_THRESHOLD];
        w->expert_tokens = NULL;
        w->expert_count = 0;
        w->imbalance = 1.0;
        again(&even);
        w->imbalance = 1.0 + random_share() * (double)(job.s.at.mesh.ep - 1);
        again(&job.s.at);
        execution()->balance = BALANCE_LLEP;
        *threshold = w->imbalance * 1.001;
        again(&on);
        expect_same();
        *threshold = w->imbalance;
        again(&on);
        expect_balanced(&even);
    }
}

/* ---- vocabulary ring ---- */

static void expect_ring(int ranks) {
    const struct layer_table *const was = &job.s.at.table, *const is = &on.table;
    const double *const scalar = on.ctx.calibration->scalar;
    const double tokens = (double)on.mesh.micro_batch * job.s.workload.sequence / on.mesh.cp;
    const double columns = step_padded_vocab(&on.ctx, on.mesh.tp) / on.mesh.tp;
    const double hidden = (double)job.s.geometry.hidden;
    struct ring_head ring;
    ring_head_of(&on.ctx, &on.mesh, tokens, columns, &ring);
    assert_true(ring.is_on && ring.ring.ranks == ranks);
    assert_close(is->head_params * ranks, was->head_params, 1e-12);
    const double strip = 2.0 * tokens * ceil(columns / ranks);
    const double dense = scalar[CAL_RING_DENSE_COPIES] * 2.0 * tokens * columns;
    assert_close(ring.logits_share, scalar[CAL_RING_STRIP_COPIES] * strip / dense, 1e-12);
    assert_close(is->logits_bytes, ring.logits_share * was->logits_bytes + ring.moving_bytes, 1e-9);
    /* weights go round where a shard is narrower than the batch is long, unless stated */
    const bool narrow = tokens > ceil(columns / ranks);
    const int move = execution()->vocab_move;
    assert_int_equal(ring.ring.move == VOCAB_MOVE_WEIGHTS,
                     move == (int)VOCAB_MOVE_AUTO ? narrow : move == (int)VOCAB_MOVE_WEIGHTS);
    const double more = 2.0 * tokens * hidden * columns;
    assert_close(ring.ring.backward_flop - 2.0 * more, more, 1e-9);
    assert_true(ring.forward_s >= 0.0 && ring.backward_s >= 0.0);
    const double rate = on.ctx.peak16_flop_per_s * scalar[CAL_HEAD_BACKWARD_SHARE];
    const double heads = 1.0 + job.s.geometry.mtp_layers;
    assert_close(is->head_s - was->head_s, heads * (more / rate + ring.forward_s + ring.backward_s),
                 1e-6);
    assert_memory_equal(is->cost, was->cost, sizeof is->cost);
}

static void test_vocabulary_ring(void **state) {
    (void)state;
    int weights = 0, tried = 0;
    while (tried < POINTS) {
        draw();
        const int ranks = PICK(2, 4, 8, 16);
        if (job.s.at.mesh.dp * job.s.at.mesh.cp % ranks != 0)
            continue;
        ++tried;
        execution()->vocab_ring = ranks;
        execution()->vocab_move = PICK(0, 0, 1, 2);
        again(&on);
        expect_ring(ranks);
        const double shard = step_padded_vocab(&on.ctx, on.mesh.tp) / on.mesh.tp / ranks;
        weights += (double)on.mesh.micro_batch * job.s.workload.sequence / on.mesh.cp > shard;
    }
    assert_true(weights > POINTS / 10 && weights < POINTS);
}

/* ---- checkpoint offload ---- */

static void form_of(const struct point *p, struct memory_form *form) {
    memory_form_of(&p->ctx, &p->table, &p->mesh, form);
}

/* Each stage as its descriptor says: the budget is for all micro-batches in flight. */
static void expect_boundaries(double budget) {
    const int depth = execution()->restore_depth;
    struct memory_form form;
    double host = 0.0;
    form_of(&on, &form);
    for (int i = 0; i < on.mesh.pp; ++i) {
        struct stage_content c;
        struct boundary_offload o;
        struct status_error err;
        content_of(&on, i, &c);
        const double flight = stage_in_flight(&on.mesh, i), layers = c.dense_layers + c.moe_layers;
        const double bytes = 2.0 * job.s.geometry.hidden * tokens_of_rank();
        assert_int_equal(boundary_offload_of((long)layers, bytes, budget / flight,
                                             depth > 0 ? depth : 1, 1, &o, &err),
                         MOSAIC_OK);
        assert_true(flight * o.host_bytes <= budget * (1.0 + 1e-12));
        const double stay = (double)(o.boundaries - o.selected) * o.bytes;
        const double here = flight * stay + o.device_bytes - stay;
        const double ends = c.is_last ? on.table.head_kept_bytes : 0.0;
        assert_close_abs(on.stages[i].activations, here + ends, 2.0);
        assert_true(on.stages[i].activations <= job.s.at.stages[i].activations + 1.0);
        /* a power of two for each */
        const double block = exp2(ceil(log2(o.bytes)));
        const double blocks = flight * (double)o.selected * block;
        const double state_host = memory_host_bytes(&form, &c, flight) - blocks;
        assert_close_abs(state_host,
                         form.state.host[0] * c.dense_params + form.state.host[1] * c.expert_params,
                         1e-9 * (blocks + state_host) + 1.0);
        host = fmax(host, blocks + state_host);
    }
    assert_close(on.out.host_bytes, host, 1e-9);
}

static void draw_full(void) {
    draw();
    job.s.at.mesh.recompute = RECOMPUTE_FULL;
    execution()->offload_activations = 0.0;
    again(&job.s.at);
}

static void test_checkpoint_offload(void **state) {
    (void)state;
    int piped = 0;
    for (int i = 0; i < POINTS; ++i) {
        draw_full();
        const double bytes = 2.0 * job.s.geometry.hidden * tokens_of_rank();
        execution()->restore_depth = PICK(0, 1, 2, 8);
        execution()->checkpoint_host_bytes = bytes * (double)random_below(400) * 0.5 + 1.0;
        again(&on);
        expect_boundaries(execution()->checkpoint_host_bytes);
        piped += on.mesh.pp > 1;
        /* A copy that is shorter than a layer hides, all but the first one back. */
        const double plain_s = job.s.at.out.split.offload_exposed_s;
        assert_true(on.out.split.offload_exposed_s >= plain_s);
        job.s.cluster.host_link_bytes_per_s = 1e18;
        again(&job.s.at);
        again(&on);
        assert_close_abs(on.out.split.offload_exposed_s, job.s.at.out.split.offload_exposed_s,
                         1e-6 * on.out.step_time_s);
        job.s.cluster.host_link_bytes_per_s = 1e6;
        again(&on);
        execution()->checkpoint_host_bytes = 0.0;
        again(&job.s.at);
        bool any = false;
        for (int k = 0; k < on.mesh.pp; ++k)
            any = any || on.stages[k].activations + 4.0 < job.s.at.stages[k].activations;
        if (any)
            assert_true(on.out.split.offload_exposed_s > job.s.at.out.split.offload_exposed_s);
    }
    assert_true(piped > POINTS / 4);
}

/* ---- optimizer stream ---- */

static void expect_stream(double bucket) {
    struct memory_form form;
    form_of(&on, &form);
    const struct shard_groups g = sharding_groups(&on.ctx, &on.mesh);
    for (int i = 0; i < on.mesh.pp; ++i) {
        struct stage_content c;
        content_of(&on, i, &c);
        const double params = c.dense_params / g.dense_states + c.expert_params / g.expert_states;
        const struct state_stream s = optimizer_stream_of(&on.ctx, &on.table, &g, params);
        const struct memory_items *const is = &on.stages[i], *const was = &job.s.at.stages[i];
        assert_true(is->optimizer == 0.0 && is->weights == was->weights);
        const double kept = memory_host_bytes(&form, &c, stage_in_flight(&on.mesh, i));
        execution()->bucket_params = 0.0;
        struct memory_form plain;
        form_of(&job.s.at, &plain);
        execution()->bucket_params = bucket;
        const double beside = memory_host_bytes(&plain, &c, stage_in_flight(&on.mesh, i));
        assert_close(kept - beside, 12.0 * params, 1e-6);
        /* The step's own buffers are gone by then. */
        const double step = was->activations + was->routed + was->logits + was->workspace +
                            was->communication + was->gathered;
        const double more = fmax(s.staging_bytes - step, 0.0);
        assert_close_abs(is->workspace - was->workspace, more, 8.0);
        assert_true(s.staging_bytes == 16.0 * s.largest_params * s.slots);
    }
}

static double stream_s(const struct point *p, double params) {
    const double *const scalar = p->ctx.calibration->scalar;
    const struct shard_groups g = sharding_groups(&p->ctx, &p->mesh);
    const struct state_stream s = optimizer_stream_of(&p->ctx, &p->table, &g, params);
    const double link = p->ctx.cluster->host_link_bytes_per_s * scalar[CAL_HOST_LINK_SHARE];
    const struct state_stream_rates rates = {link, link, scalar[CAL_HOST_MEMORY_RATE],
                                             p->ctx.hbm_raw_bytes_per_s /
                                                 scalar[CAL_OPTIMIZER_BYTES]};
    struct state_stream_time time;
    struct status_error err;
    assert_int_equal(state_stream_time(&s, &rates, &time, &err), MOSAIC_OK);
    return time.total_s + scalar[CAL_OPTIMIZER_FIXED];
}

/* Of one stage, so that its tail is the step's. */
static void expect_stream_time(void) {
    struct stage_content c;
    if (on.mesh.pp > 1)
        return;
    content_of(&on, 0, &c);
    const struct shard_groups g = sharding_groups(&on.ctx, &on.mesh);
    const double params = c.dense_params / g.dense_states + c.expert_params / g.expert_states;
    const double more = on.out.split.offload_exposed_s - job.s.at.out.split.offload_exposed_s;
    assert_close_abs(more, stream_s(&on, params), 1e-9 * on.out.step_time_s);
    assert_true(on.out.split.optimizer_s == 0.0);
}

static void test_optimizer_stream(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw();
        struct execution *const e = execution();
        e->offload_optimizer = 0.0;
        e->bf16_moments = false;
        job.s.workload.optimizer = OPTIMIZER_ADAMW;
        again(&job.s.at);
        const double bucket = (double)PICK(1, 1000, 1000000, 100000000) * (1.0 + random_share());
        e->bucket_params = bucket;
        e->bucket_slots = PICK(1, 2, 3, 8);
        again(&on);
        expect_stream_time();
        expect_stream(bucket);
    }
}

/* ---- all of them ---- */

/* Any imbalance up to that of one rank which gets everything. */
static void test_guarantee_holds(void **state) {
    (void)state;
    for (int i = 0; i < BOUND_POINTS; ++i) {
        random_job(&job, &p6.calibration, true);
        struct workload *const w = &job.s.workload;
        if (random_chance(2)) {
            w->expert_tokens = NULL;
            w->expert_count = 0;
            w->imbalance = 1.0 + random_share() * (double)(job.s.at.mesh.ep - 1);
        }
        again(&on);
        const struct execution *const e = execution();
        const bool is_on = e->dispatch_chunk > 0 || e->vocab_ring > 1 ||
                           e->checkpoint_host_bytes > 0.0 || e->bucket_params > 0.0;
        if (is_on ? on.out.guarantee_bytes >= on.out.memory.total : on.out.guarantee_bytes == 0.0)
            continue;
        print_job(&job);
        fail_msg("guarantee %.17g, total %.17g", on.out.guarantee_bytes, on.out.memory.total);
    }
}

/* All five at once, where the ranks let them; false where they do not. */
static bool switch_all_on(void) {
    struct execution *const e = execution();
    const struct mesh *const m = &job.s.at.mesh;
    if (m->etp > 1 || m->dp * m->cp % 2 != 0)
        return false;
    e->balance = BALANCE_LLEP;
    e->dispatch_chunk = PICK(100, 1000, 5000);
    e->dispatch_chunks_max = 10;
    e->vocab_ring = m->dp * m->cp % 8 == 0 ? 8 : 2;
    e->checkpoint_host_bytes = 1e12;
    e->bucket_params = 1e6 * (double)(1 + random_below(300));
    e->bucket_slots = PICK(1, 2);
    e->offload_activations = e->offload_optimizer = 0.0;
    e->bf16_moments = false;
    job.s.workload.optimizer = OPTIMIZER_ADAMW;
    job.s.at.mesh.recompute = RECOMPUTE_FULL;
    return true;
}

static double sum_of_terms(void) {
    double sum = 0.0, seconds = 0.0;
    for (int i = 0; time_term(&on.out.split, i, &seconds); ++i)
        sum += seconds;
    return sum;
}

/* Together they hold no more than what the workspace of lent experts adds, and bounds stand. */
static void test_all_at_once(void **state) {
    (void)state;
    int tried = 0, piped = 0;
    while (tried < BOUND_POINTS) {
        draw();
        struct workload *const w = &job.s.workload;
        w->optimizer = OPTIMIZER_ADAMW;
        job.s.at.mesh.recompute = RECOMPUTE_FULL;
        execution()->offload_activations = execution()->offload_optimizer = 0.0;
        execution()->bf16_moments = false;
        again(&job.s.at);
        if (!switch_all_on())
            continue;
        ++tried;
        again(&on);
        piped += on.mesh.pp > 1;
        const double bound_s = step_bound(&on.ctx, &on.table, &on.mesh);
        const double bound = step_memory_bound(&on.ctx, &on.table, &on.mesh);
        if (bound_s > on.out.step_time_s || bound > on.out.memory.total) {
            print_job(&job);
            fail_msg("bounds %.17g s, %.17g B above %.17g s, %.17g B", bound_s, bound,
                     on.out.step_time_s, on.out.memory.total);
        }
        assert_true(on.out.guarantee_bytes >= on.out.memory.total);
        assert_close(sum_of_terms(), on.out.step_time_s, 1e-12);
        assert_true(on.out.host_bytes > job.s.at.out.host_bytes);
        for (int i = 0; i < on.mesh.pp; ++i) {
            const struct memory_items *const is = &on.stages[i], *const was = &job.s.at.stages[i];
            assert_true(is->optimizer == 0.0 && is->weights <= was->weights);
            assert_true(is->activations <= was->activations + 1.0);
            assert_true(is->communication <= was->communication + 1.0);
            assert_true(is->total <= on.out.memory.total);
        }
    }
    assert_true(piped > BOUND_POINTS / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_changes_nothing),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_llep),
        cmocka_unit_test(test_vocabulary_ring),
        cmocka_unit_test(test_checkpoint_offload),
        cmocka_unit_test(test_optimizer_stream),
        cmocka_unit_test(test_guarantee_holds),
        cmocka_unit_test(test_all_at_once),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
