// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The step model under every execution and schedule: bounds never above an exact value (the
 * search's proof rests on them), terms and items that sum, physics that never runs backwards.
 */
#include "step_case.h"

enum { POINTS = 3000, BOUND_POINTS = 40000 };

static struct job job;
static struct point after;
static struct calibration unmeasured; /* link bounds decide: links may be changed */

static int load(void **state) {
    if (p6_load(state) != 0)
        return -1;
    unmeasured = p6.calibration;
    unmeasured.collective_count = 0;
    return 0;
}

/* ---- bounds ---- */

static void expect_bounds(double bound_s, double bound_bytes) {
    const struct point *const p = &job.s.at;
    double most = 0.0;
    for (int k = 0; k < p->mesh.pp; ++k)
        most = fmax(most, p->stages[k].total);
    if (bound_s <= p->out.step_time_s && bound_bytes <= most && most == p->out.memory.total)
        return;
    print_job(&job);
    fail_msg("bounds %.17g s, %.17g B above %.17g s, %.17g B", bound_s, bound_bytes,
             p->out.step_time_s, most);
}

static void test_bounds_hold(void **state) {
    (void)state;
    double tightest = 0.0, tightest_bytes = 0.0;
    for (int i = 0; i < BOUND_POINTS;) {
        random_job(&job, &p6.calibration, false);
        struct point *const p = &job.s.at;
        const double bound_s = step_bound(&p->ctx, &p->table, &p->mesh);
        const double bound_bytes = step_memory_bound(&p->ctx, &p->table, &p->mesh);
        assert_true(bound_s > 0.0 && isfinite(bound_s) && bound_bytes > 0.0);
        const int splits = p->mesh.pp > 1 && p->mesh.vpp == 1 ? 5 : 1;
        for (int k = 0; k < splits; ++k, ++i) {
            if (k > 0) {
                random_split(job.s.geometry.layers, p->mesh.pp, &p->split);
                point_predict(p);
            }
            expect_bounds(bound_s, bound_bytes);
            tightest = fmax(tightest, bound_s / p->out.step_time_s);
            tightest_bytes = fmax(tightest_bytes, bound_bytes / p->out.memory.total);
        }
    }
    assert_true(tightest > 0.99 && tightest_bytes > 0.9); /* else they hold for the wrong reason */
}

/* As many micro-batches as the batch has rows at least, few layers: nothing hides a tail bound that
 * is too high. */
static void test_bounds_of_few_micro_batches(void **state) {
    (void)state;
    for (int i = 0; i < BOUND_POINTS / 2;) {
        random_job(&job, &p6.calibration, false);
        struct point *const p = &job.s.at;
        job.s.geometry.layers = p->mesh.pp + (int)random_below(4);
        job.s.geometry.window = job.s.geometry.window_layers = 0;
        job.s.geometry.first_dense = job.s.geometry.experts ? PICK(0, 1, 2) : job.s.geometry.layers;
        job.s.workload.global_batch =
            p->mesh.micro_batch * p->mesh.dp * (p->mesh.schedule == SCHEDULE_DUALPIPE ? 2 : 1);
        struct status_error err;
        if (geometry_check(&job.s.geometry, &err) != MOSAIC_OK || !job_again(&job, p))
            continue;
        const double bound_s = step_bound(&p->ctx, &p->table, &p->mesh);
        const double bound_bytes = step_memory_bound(&p->ctx, &p->table, &p->mesh);
        for (int k = 0; k < 3; ++k, ++i) {
            if (p->mesh.vpp == 1) {
                random_split(job.s.geometry.layers, p->mesh.pp, &p->split);
                point_predict(p);
            }
            expect_bounds(bound_s, bound_bytes);
        }
    }
}

static void test_terms_and_items_add_up(void **state) {
    (void)state;
    for (int i = 0; i < POINTS * 2; ++i) {
        random_job(&job, &p6.calibration, true);
        const struct prediction *const p = &job.s.at.out;
        double sum = 0.0;
        for (int k = 0; k < TIME_TERM_COUNT; ++k) {
            double seconds = (double)NAN;
            const char *const name = time_term(&p->split, k, &seconds);
            if (!isfinite(seconds) || (seconds < 0.0 && strcmp(name, "correction_s") != 0)) {
                print_job(&job);
                fail_msg("%s is %g", name, seconds);
            }
            sum += seconds;
        }
        assert_close(sum, p->step_time_s, 1e-12);
        for (int stage = 0; stage < job.s.at.mesh.pp; ++stage) {
            double total = 0.0;
            for (int k = 0; k < MEMORY_ITEM_COUNT; ++k) {
                double bytes = (double)NAN;
                (void)memory_item(&job.s.at.stages[stage], k, &bytes);
                assert_true(bytes >= 0.0 && bytes == floor(bytes));
                total += bytes;
            }
            assert_true(total == job.s.at.stages[stage].total);
        }
        assert_true(isfinite(p->hfu) && p->hfu >= p->mfu);
    }
}

/* The planner's columns: stages and the pipeline's form make the same step; and leaving out the
 * list of stages changes no bit. */
static void test_stages_make_the_step(void **state) {
    (void)state;
    for (int i = 0; i < POINTS * 2; ++i) {
        random_job(&job, &p6.calibration, true);
        struct point *const p = &job.s.at;
        double max_s = 0.0, sum_s = 0.0, tail_s = 0.0;
        for (int k = 0; k < p->mesh.pp; ++k) {
            struct stage_cost stage;
            const struct stage_range range = {k, p->split.first[k], p->split.first[k + 1]};
            stage_cost_of(&p->ctx, &p->table, &p->mesh, range, &stage);
            max_s = fmax(max_s, stage.busy_s);
            sum_s += stage.busy_s;
            tail_s = fmax(tail_s, stage.tail_s);
            assert_true(stage.forward_s > 0.0 && stage.forward_s < stage.busy_s);
            assert_true(stage.gather_s >= 0.0 && stage.dispatch_s >= 0.0);
        }
        const struct pipeline_form form = pipeline_form_of(&p->ctx, &p->table, &p->mesh);
        assert_true(form.max_weight >= 0.0 && form.sum_weight >= 0.0);
        const double step_s = form.max_weight * max_s + form.sum_weight * sum_s + tail_s;
        assert_close(step_s * step_straggler_factor(&p->ctx), p->out.step_time_s, 1e-9);
        struct prediction again;
        step_predict(&p->ctx, &p->table, &p->mesh, &p->split, &again, NULL);
        assert_memory_equal(&again.split, &p->out.split, sizeof again.split);
        assert_memory_equal(&again.memory, &p->out.memory, sizeof again.memory);
        assert_int_equal(again.worst_stage, p->out.worst_stage);
    }
}

static void test_one_gpu_talks_to_nobody(void **state) {
    (void)state;
    for (int i = 0; i < POINTS;) {
        random_job(&job, &p6.calibration, false);
        job.s.cluster.nodes = job.s.cluster.gpus_per_node = 1;
        struct mesh *const m = &job.s.at.mesh;
        m->tp = m->cp = m->pp = m->vpp = m->ep = m->etp = 1;
        m->schedule = SCHEDULE_1F1B;
        if (!job_again(&job, &job.s.at))
            continue;
        ++i;
        const struct time_split *const t = &job.s.at.out.split;
        const double none[] = {t->tp_exposed_s, t->cp_exposed_s, t->ep_exposed_s,
                               t->pp_exposed_s, t->dp_exposed_s, t->straggler_s};
        for (size_t k = 0; k < sizeof none / sizeof none[0]; ++k)
            assert_true(none[k] == 0.0);
        /* Sums of one stage, up to rounding. */
        assert_close_abs(t->bubble_s, 0.0, 1e-14 * job.s.at.out.step_time_s);
        assert_close_abs(t->stage_imbalance_s, 0.0, 1e-14 * job.s.at.out.step_time_s);
    }
}

/* ---- never slower ---- */

/* Where a faster part makes a stage shorter, less of the data-parallel traffic hides behind it; a
 * stage that does not set the pace may then show more of it than the pipeline gains.  The step may
 * grow by no more than what came out. */
static double came_out_s(const struct point *was, const struct point *is) {
    const double tail_s = is->out.split.dp_exposed_s + is->out.split.optimizer_s +
                          is->out.split.offload_exposed_s - was->out.split.dp_exposed_s -
                          was->out.split.optimizer_s - was->out.split.offload_exposed_s;
    return fmax(tail_s, 0.0);
}

/* The bubble of the pipeline in stages. */
static double bubble_stages(const struct point *p) {
    const struct pipeline_form form = pipeline_form_of(&p->ctx, &p->table, &p->mesh);
    const double stages = (double)p->mesh.pp, m = (double)p->mesh.micro_batches;
    const double spread = (1.0 - p->ctx.calibration->scalar[CAL_IMBALANCE_SHARE]) / stages;
    return stages > 1.0 ? (form.sum_weight - spread * m) / (1.0 - spread) : 0.0;
}

/* The same of job.s.at, whose inputs change under it. */
static double base_bubble_stages;

/* Schedules that fill the bubble with weight gradients have less to fill it with when those run
 * faster and launches, which set the pace, do not: that much of the bubble may open. */
static double opened_s(const struct prediction *is, double before, double now) {
    return now > before ? is->split.bubble_s * (1.0 - before / now) : 0.0;
}

/* was -> is got no slower, but for the allowance. */
static void expect_at_most(const struct point *is, const struct point *was, double allowed_s,
                           const char *what) {
    const double factor = fmax(step_straggler_factor(&is->ctx), step_straggler_factor(&was->ctx));
    const double new_s = is->out.step_time_s, old_s = was->out.step_time_s;
    if (new_s <= old_s * (1.0 + 1e-12) + allowed_s * factor * (1.0 + 1e-9))
        return;
    print_job(&job);
    fail_msg("%s: %.17g s above %.17g s, allowed %g s", what, new_s, old_s, allowed_s * factor);
}

static void expect_not_slower(const char *what) {
    const struct point *const was = &job.s.at;
    expect_at_most(&after, was,
                   came_out_s(was, &after) +
                       opened_s(&after.out, base_bubble_stages, bubble_stages(&after)),
                   what);
}

static void expect_strictly_not_slower(const char *what) {
    expect_at_most(&after, &job.s.at,
                   opened_s(&after.out, base_bubble_stages, bubble_stages(&after)), what);
}

/* What `after` is compared with from now on. */
static void base_is_after(void) {
    base_bubble_stages = bubble_stages(&after);
    job.s.at.out = after.out;
    memcpy(job.s.at.stages, after.stages, sizeof after.stages);
}

static void draw(const struct calibration *base, bool any_split) {
    random_job(&job, base, any_split);
    base_bubble_stages = bubble_stages(&job.s.at);
}

static void again(void) {
    assert_true(job_again(&job, &after));
}

static void faster_parts(void (*expect)(const char *)) {
    const struct cluster was = job.s.cluster;
    for (int tier = 0; tier < was.tier_count; ++tier) {
        job.s.cluster.tiers[tier].bytes_per_s *= 3.0;
        again();
        expect("bandwidth");
        job.s.cluster = was;
        job.s.cluster.tiers[tier].latency_s *= 0.3;
        again();
        expect("latency");
        job.s.cluster = was;
    }
    job.s.cluster.device.hbm_bytes_per_s *= 2.0;
    again();
    expect("HBM");
    job.s.cluster = was;
    for (int k = 0; k < PRECISION_COUNT; ++k)
        job.s.cluster.device.peak_flop_per_s[k] *= 2.0;
    again();
    expect("peak");
    job.s.cluster = was;
    job.calibration.scalar[CAL_HOST_GAP] *= 0.5;
    again();
    expect("launch gap");
}

static void test_faster_machine(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&unmeasured, true);
        faster_parts(expect_not_slower);
    }
}

/* With nothing hidden behind compute no excuse is left. */
static void test_faster_machine_strictly(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&unmeasured, true);
        job.s.workload.execution.serial_dp = true;
        again();
        base_is_after();
        faster_parts(expect_strictly_not_slower);
    }
}

/* ---- more work takes longer ---- */

static void expect_longer(const char *what) {
    expect_at_most(&job.s.at, &after,
                   came_out_s(&after, &job.s.at) +
                       opened_s(&job.s.at.out, bubble_stages(&after), base_bubble_stages),
                   what);
}

static void test_more_work(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, false);
        const struct geometry g = job.s.geometry;
        const struct workload w = job.s.workload;
        /* A longer sequence, as many micro-batches; a budget takes fewer of its boundaries, and a
         * ring may turn to moving weights. */
        job.s.workload.sequence *= 2;
        again();
        if (!(w.execution.checkpoint_host_bytes > 0.0) && w.execution.vocab_ring == 0)
            expect_longer("sequence");
        job.s.workload = w;
        /* more micro-batches of the same size */
        job.s.workload.global_batch *= 2;
        again();
        assert_int_equal(after.mesh.micro_batches, 2 * job.s.at.mesh.micro_batches);
        expect_longer("micro-batches");
        job.s.workload = w;
        /* One more layer a chunk.  (A budget's last boundary hides behind it on its way back.) */
        if ((g.first_dense == 0 || g.experts == 0) && !(w.execution.checkpoint_host_bytes > 0.0)) {
            const int more = job.s.at.mesh.vpp > 1 ? job.s.at.mesh.pp * job.s.at.mesh.vpp : 1;
            job.s.geometry.layers += more;
            job.s.geometry.first_dense += g.experts == 0 ? more : 0;
            again();
            expect_longer("layers");
        }
        job.s.geometry = g;
    }
}

static void test_overlap_is_never_slower(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        job.s.workload.execution.overlap = 0;
        job.calibration.scalar[CAL_PP_EXPOSED] = 1.0;
        again();
        base_is_after();
        for (unsigned bit = OVERLAP_TP; bit <= OVERLAP_PP; bit *= 2) {
            job.s.workload.execution.overlap = bit;
            again();
            expect_not_slower(overlap_name((enum overlap)bit));
        }
        job.s.workload.execution.overlap = 15;
        again();
        expect_not_slower("all overlaps");
        /* data parallelism hides by default */
        job.s.workload.execution.overlap = 0;
        job.s.workload.execution.serial_dp = true;
        again();
        base_is_after();
        job.s.workload.execution.serial_dp = false;
        again();
        expect_strictly_not_slower("DP overlap");
    }
}

static void test_graphs_are_never_slower(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        for (int scope = GRAPHS_NONE; scope < GRAPH_SCOPES; ++scope) {
            job.s.workload.execution.graphs = (enum graphs)scope;
            again();
            if (scope > GRAPHS_NONE) {
                expect_not_slower(graphs_name((enum graphs)scope));
                assert_true(after.out.split.dispatch_exposed_s <=
                            job.s.at.out.split.dispatch_exposed_s * (1.0 + 1e-12));
                for (int k = 0; k < after.mesh.pp; ++k)
                    assert_true(after.stages[k].total >= job.s.at.stages[k].total);
            }
            base_is_after();
        }
        assert_true(after.out.split.dispatch_exposed_s == 0.0);
    }
}

static double kept_bytes(const struct point *p) {
    double most = 0.0;
    for (int k = 0; k < p->mesh.pp; ++k)
        most = fmax(most, p->stages[k].activations + p->stages[k].routed);
    return most;
}

static void test_more_modules(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        struct execution *const e = &job.s.workload.execution;
        e->checkpoint_host_bytes = 0.0;
        job.s.at.mesh.recompute = RECOMPUTE_NONE;
        again();
        double recompute_s = after.out.split.recompute_s, kept = kept_bytes(&after);
        assert_true(recompute_s == 0.0 || e->dispatch_chunk > 0); /* chunks rebuild */
        job.s.at.mesh.recompute = RECOMPUTE_SELECTIVE;
        e->selective = 0;
        for (unsigned n = 0; n < MODULE_COUNT; ++n) {
            e->selective |= 1u << random_below(MODULE_COUNT);
            again();
            if (after.out.split.recompute_s < recompute_s * (1.0 - 1e-12) ||
                kept_bytes(&after) > kept + (double)after.mesh.pp) {
                print_job(&job);
                fail_msg("recompute %g -> %g s, kept %.17g -> %.17g", recompute_s,
                         after.out.split.recompute_s, kept, kept_bytes(&after));
            }
            recompute_s = after.out.split.recompute_s;
            kept = kept_bytes(&after);
        }
        e->selective = (1u << MODULE_COUNT) - 1;
        again();
        recompute_s = after.out.split.recompute_s;
        job.s.at.mesh.recompute = RECOMPUTE_FULL;
        again();
        assert_true(after.out.split.recompute_s >= recompute_s * (1.0 - 1e-12));
    }
}

/* A token that crosses once never takes longer than its copies, where the outer link is no faster
 * than the inner one and both reach the same share. */
static void test_deduplicated_dispatch(void **state) {
    (void)state;
    int crossed = 0;
    for (int i = 0; i < POINTS; ++i) {
        draw(&unmeasured, true);
        double *const scalar = job.calibration.scalar;
        scalar[CAL_DISPATCH_INTER_SHARE] = scalar[CAL_COLLECTIVE_INTRA_SHARE] =
            scalar[CAL_COLLECTIVE_INTER_SHARE] = 0.85;
        struct cluster *const c = &job.s.cluster;
        if (i % 2)
            for (int tier = 1; tier < c->tier_count; ++tier)
                c->tiers[tier] = (struct tier){.domain = c->tiers[tier].domain,
                                               .bytes_per_s = c->tiers[0].bytes_per_s,
                                               .latency_s = c->tiers[0].latency_s};
        job.s.workload.execution.dispatcher = DISPATCH_NCCL;
        again();
        base_is_after();
        const double nccl_s = after.table.cost[LAYER_MOE].all_to_all_s;
        for (int d = DISPATCH_DEEPEP; d <= DISPATCH_HYBRIDEP; ++d) {
            job.s.workload.execution.dispatcher = (enum dispatcher)d;
            again();
            expect_not_slower(dispatcher_name((enum dispatcher)d));
            assert_true(after.table.cost[LAYER_MOE].all_to_all_s <= nccl_s * (1.0 + 1e-12));
            crossed += after.table.cost[LAYER_MOE].all_to_all_s < 0.999 * nccl_s;
        }
    }
    assert_true(crossed > POINTS / 20);
}

static void test_dropped_tokens(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        job.s.workload.execution.dropped = 0.0;
        again();
        base_is_after();
        job.s.workload.execution.dropped = 0.1;
        again();
        expect_not_slower("dropped");
        if (job.s.geometry.experts == 0)
            assert_true(after.out.step_time_s == job.s.at.out.step_time_s);
        else
            assert_true(after.out.split.grouped_gemm_s < job.s.at.out.split.grouped_gemm_s);
    }
}

/* Each schedule's bubble is at most that of 1F1B with the same stages. */
static void test_schedules(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        if (job.s.at.mesh.schedule == SCHEDULE_1F1B)
            continue;
        memcpy(after.stages, job.s.at.stages, sizeof after.stages);
        const struct prediction better = job.s.at.out;
        job.s.at.mesh.schedule = SCHEDULE_1F1B;
        again();
        assert_true(better.step_time_s <= after.out.step_time_s * (1.0 + 1e-12));
        assert_true(better.split.bubble_s <= after.out.split.bubble_s * (1.0 + 1e-12));
        assert_true(better.memory.total >= after.out.memory.total);
    }
}

static double state_bytes(const struct memory_items *m) {
    return m->weights + m->gradients + m->optimizer;
}

static void test_sharding_and_memory(void **state) {
    (void)state;
    static const enum sharding order[] = {SHARD_NONE, SHARD_ZERO1, SHARD_ZERO2, SHARD_FSDP};
    enum { ORDERS = sizeof order / sizeof order[0] };
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        double most = (double)INFINITY;
        /* Under a pipeline fully sharded weights stay gathered for the step. */
        const int orders = job.s.at.mesh.pp == 1 ? ORDERS : ORDERS - 1;
        for (int k = 0; k < orders; ++k) {
            job.s.workload.execution.sharding = order[k];
            again();
            assert_true(state_bytes(&after.stages[0]) <= most);
            most = state_bytes(&after.stages[0]);
        }
        if (orders == ORDERS) {
            /* groups of one rank share nothing; groups of all are FSDP */
            job.s.workload.execution.sharding = SHARD_HYBRID;
            job.s.workload.execution.shard_ranks = after.mesh.dp * after.mesh.cp;
            again();
            assert_true(state_bytes(&after.stages[0]) == most);
            job.s.workload.execution.shard_ranks = 1;
            again();
            const double copies_bytes = state_bytes(&after.stages[0]);
            job.s.workload.execution.sharding = SHARD_NONE;
            again();
            assert_true(copies_bytes <= state_bytes(&after.stages[0]));
        }
        /* U18: bf16 gradients save two bytes of each held one and nothing else */
        job.s.workload.execution.bf16_gradients = false;
        again();
        const struct memory_items plain = after.stages[0];
        job.s.workload.execution.bf16_gradients = true;
        again();
        assert_true(fabs(2.0 * after.stages[0].gradients - plain.gradients) <= 2.0);
        assert_true(after.stages[0].weights == plain.weights &&
                    after.stages[0].optimizer == plain.optimizer &&
                    after.stages[0].activations == plain.activations);
    }
}

/* ---- routing ---- */

/* U90: a list of equal counts is the balanced answer, to the bit; the scale of a list does not
 * matter; a list costs as much as the factor that it comes to. */
static void test_tokens_per_expert(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        struct workload *const w = &job.s.workload;
        if (job.s.geometry.experts == 0)
            continue;
        w->execution.balance = BALANCE_NONE;
        w->expert_tokens = NULL;
        w->imbalance = 1.0;
        again();
        base_is_after();
        for (int k = 0; k < job.s.geometry.experts; ++k)
            job.expert_tokens[k] = 3.0;
        w->expert_tokens = job.expert_tokens;
        w->expert_count = job.s.geometry.experts;
        w->imbalance = 1.7; /* not read beside a list */
        again();
        assert_true(after.out.step_time_s == job.s.at.out.step_time_s);
        assert_true(after.out.memory.total == job.s.at.out.memory.total);
        job.expert_tokens[random_below((unsigned)job.s.geometry.experts)] = 12.0;
        again();
        if (job.s.at.mesh.ep > 1)
            assert_true(after.out.split.grouped_gemm_s > job.s.at.out.split.grouped_gemm_s);
        const double list_s = after.out.step_time_s;
        w->imbalance = workload_imbalance(w, job.s.at.mesh.ep);
        w->expert_tokens = NULL;
        again();
        assert_true(after.out.step_time_s == list_s);
    }
}

/* U19, U20: the score matrix costs time and memory; running the fused core again saves nothing. */
static void test_unfused_attention(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw(&p6.calibration, true);
        struct execution *const e = &job.s.workload.execution;
        e->checkpoint_host_bytes = e->offload_activations = 0.0;
        job.s.at.mesh.recompute = RECOMPUTE_NONE;
        e->unfused_attention = false;
        again();
        base_is_after();
        const double fused = kept_bytes(&after);
        e->unfused_attention = true;
        again();
        assert_true(after.out.split.attention_s > job.s.at.out.split.attention_s);
        assert_true(kept_bytes(&after) > fused);
        job.s.at.mesh.recompute = RECOMPUTE_SELECTIVE;
        e->selective = MODULE_CORE_ATTENTION;
        again();
        assert_true(fabs(kept_bytes(&after) - fused) <= 4.0);
        e->unfused_attention = false;
        again();
        assert_true(kept_bytes(&after) > 0.97 * fused);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_hold),
        cmocka_unit_test(test_bounds_of_few_micro_batches),
        cmocka_unit_test(test_terms_and_items_add_up),
        cmocka_unit_test(test_stages_make_the_step),
        cmocka_unit_test(test_one_gpu_talks_to_nobody),
        cmocka_unit_test(test_faster_machine),
        cmocka_unit_test(test_faster_machine_strictly),
        cmocka_unit_test(test_more_work),
        cmocka_unit_test(test_overlap_is_never_slower),
        cmocka_unit_test(test_graphs_are_never_slower),
        cmocka_unit_test(test_more_modules),
        cmocka_unit_test(test_deduplicated_dispatch),
        cmocka_unit_test(test_dropped_tokens),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_sharding_and_memory),
        cmocka_unit_test(test_tokens_per_expert),
        cmocka_unit_test(test_unfused_attention),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
