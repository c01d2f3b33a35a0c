// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What every memory estimate keeps to, over random points of every execution and schedule: items
 * that sum, layers that are all somewhere, what each degree shares out, what each switch saves, and
 * micro-batches in flight against schedules played through.
 */
#include "memory_case.h"
#include "step_case.h"

#include <math.h>

enum { POINTS = 400 };

static struct job job;
static struct point other;

/* An item is a whole byte, and fragmentation a share of them. */
static const double rounding = 32.0;

static void random_offload(void) {
    struct execution *const e = &job.s.workload.execution;
    if (job.s.cluster.host_link_bytes_per_s <= 0.0)
        return;
    if (!(e->checkpoint_host_bytes > 0.0))
        e->offload_activations = random_chance(3) ? random_share() : 0.0;
    if (!(e->bucket_params > 0.0))
        e->offload_optimizer = random_chance(3) ? random_share() : 0.0;
}

/* Prepares and predicts anew under the split that it has. */
static bool predict_again(void) {
    const struct split split = job.s.at.split;
    if (!job_again(&job, &job.s.at))
        return false;
    job.s.at.split = split;
    point_predict(&job.s.at);
    return true;
}

static void draw(void) {
    random_job(&job, &p6.calibration, true);
    random_offload();
    if (!predict_again())
        fail_msg("illegal mesh");
}

/* ---- sums ---- */

static void check_items(const struct memory_items *m) {
    double bytes = 0.0;
    const char *name;
    for (int i = 0; (name = memory_item(m, i, &bytes)); ++i)
        if (!isfinite(bytes) || bytes < 0.0 || floor(bytes) < bytes) {
            print_job(&job);
            fail_msg("%s is %.17g", name, bytes);
        }
    assert_true(item_sum(m) == m->total);
    assert_true(memory_allocated(m) + m->reserve + m->fragmentation == m->total);
}

/* Whole bytes that sum to the total exactly, under each execution; the fullest stage decides. */
static void test_items_sum(void **state) {
    (void)state;
    int sharding = 0, dispatcher = 0, graphs = 0;
    for (int i = 0; i < POINTS * 4; ++i) {
        draw();
        struct execution *const e = &job.s.workload.execution;
        e->graphs = (enum graphs)(graphs++ % GRAPH_SCOPES);
        e->dispatcher = (enum dispatcher)(dispatcher++ / GRAPH_SCOPES % DISPATCHERS);
        const enum sharding before = e->sharding;
        e->sharding = (enum sharding)(sharding++ / GRAPH_SCOPES / DISPATCHERS % SHARDINGS);
        if (!predict_again()) { /* groups that do not divide the ranks */
            e->sharding = before;
            assert_true(predict_again());
        }
        const struct point *const at = &job.s.at;
        double largest = 0.0;
        for (int stage = 0; stage < at->mesh.pp; ++stage) {
            check_items(&at->stages[stage]);
            largest = fmax(largest, at->stages[stage].total);
        }
        check_items(&at->out.memory);
        assert_true(at->out.memory.total == largest);
        assert_true(at->stages[at->out.worst_stage].total == largest);
        struct prediction alone; /* stages that repeat others are left out */
        step_predict(&at->ctx, &at->table, &at->mesh, &at->split, &alone, NULL);
        assert_true(alone.memory.total == largest);
        assert_true(isfinite(at->out.host_bytes) && at->out.host_bytes >= 0.0);
    }
}

/* Every layer is on one stage, and every parameter once; tied ends are one matrix on one stage. */
static void test_layers_and_parameters(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw();
        const struct point *const at = &job.s.at;
        const struct geometry *const g = &job.s.geometry;
        const double moe = (double)geometry_moe_layers(g);
        double dense_layers = 0.0, moe_layers = 0.0, dense = 0.0, expert = 0.0;
        for (int stage = 0; stage < at->mesh.pp; ++stage) {
            struct stage_content c;
            content_of(at, stage, &c);
            dense_layers += c.dense_layers;
            moe_layers += c.moe_layers;
            dense += c.dense_params;
            expert += c.expert_params;
            assert_true(c.dense_layers + c.moe_layers >= 1.0);
        }
        assert_true(dense_layers + moe_layers == (double)g->layers && moe_layers == moe);
        const struct layer_table *const t = &at->table;
        const bool is_shared = g->tied && at->mesh.pp == 1;
        assert_close(dense,
                     dense_layers * t->params[LAYER_DENSE].dense +
                         moe * t->params[LAYER_MOE].dense + t->mtp.dense + t->embedding_params +
                         (is_shared ? 0.0 : t->head_params),
                     1e-12);
        assert_close(expert, moe * t->params[LAYER_MOE].expert + t->mtp.expert, 1e-12);
    }
}

/* ---- degrees ---- */

/* Balanced, each EP rank brings its own micro-batch: only the routed parameters are shared out. */
static void test_expert_parallelism(void **state) {
    (void)state;
    int tried = 0;
    while (tried < POINTS) {
        draw();
        job.s.workload.execution.dispatch_chunk = 0; /* of several ranks only */
        job.s.workload.imbalance = 1.0;
        job.s.workload.expert_tokens = NULL;
        job.s.workload.expert_count = 0;
        if (job.s.geometry.experts == 0 || !predict_again())
            continue;
        const int ep = job.s.at.mesh.ep;
        job.s.at.mesh.ep = 2 * ep;
        const bool is_legal = job_again(&job, &other);
        job.s.at.mesh.ep = ep;
        if (!is_legal)
            continue;
        ++tried;
        const struct layer_params *const one = &job.s.at.table.params[LAYER_MOE];
        const struct layer_params *const spread = &other.table.params[LAYER_MOE];
        assert_close(spread->expert, one->expert / 2.0, 1e-12);
        assert_close(spread->dense, one->dense, 1e-12);
        for (int stage = 0; stage < other.mesh.pp; ++stage) {
            const struct memory_items *const a = &job.s.at.stages[stage];
            const struct memory_items *const b = &other.stages[stage];
            assert_close_abs(b->activations, a->activations, 2.0);
            assert_close_abs(b->routed, a->routed, 2.0);
            assert_close_abs(b->logits, a->logits, 2.0);
            assert_close_abs(b->graphs, a->graphs, 2.0);
            assert_true(b->weights <= a->weights && b->gradients <= a->gradients + 1.0);
            /* as many copies fewer as shares more: a rank keeps as much of the experts' state */
            assert_true(b->optimizer <= a->optimizer + 1.0);
        }
    }
}

/* TP halves whatever it splits: matrices, activations of a split sequence, logits.  A router, the
 * ranks of latent attention and replicated K and V stay whole. */
static void test_tensor_parallelism(void **state) {
    (void)state;
    int tried = 0;
    while (tried < POINTS) {
        draw();
        job.s.workload.execution.dispatch_chunk = job.s.workload.execution.vocab_ring = 0;
        assert_true(predict_again());
        const struct geometry *const g = &job.s.geometry;
        const int tp = job.s.at.mesh.tp;
        job.s.at.mesh.tp = 2 * tp;
        const bool is_legal = job_again(&job, &other);
        job.s.at.mesh.tp = tp;
        if (!is_legal)
            continue;
        ++tried;
        const struct layer_table *const a = &job.s.at.table, *const b = &other.table;
        const bool is_split = g->attention != ATTENTION_MLA && 2 * tp <= g->kv_heads;
        for (int kind = 0; kind < LAYER_KINDS; ++kind) {
            const double router = kind == LAYER_MOE ? (double)g->hidden * (double)g->experts : 0.0;
            const double whole = a->params[kind].dense - router, half = whole / 2.0;
            const double rest = b->params[kind].dense - router;
            if (a->params[kind].dense <= 0.0)
                continue;
            assert_true(rest >= half * (1.0 - 1e-12) && rest <= whole);
            assert_true(b->cost[kind].kept_bytes >= a->cost[kind].kept_bytes * (0.5 - 1e-12));
            assert_true(b->cost[kind].kept_bytes < a->cost[kind].kept_bytes);
            assert_close(b->cost[kind].kept_routed_bytes, a->cost[kind].kept_routed_bytes / 2.0,
                         1e-12);
            assert_close(b->params[kind].expert, a->params[kind].expert, 1e-12);
            if (!is_split)
                continue;
            assert_close(rest, half, 1e-12);
            assert_close(b->cost[kind].kept_bytes, a->cost[kind].kept_bytes / 2.0, 1e-12);
        }
        /* but for padding of the vocabulary */
        const double padding =
            step_padded_vocab(&other.ctx, 2 * tp) / step_padded_vocab(&job.s.at.ctx, tp);
        assert_close(b->logits_bytes, a->logits_bytes / 2.0 * padding, 1e-12);
        assert_close(b->embedding_params, a->embedding_params / 2.0 * padding, 1e-12);
    }
}

/* ---- switches ---- */

static double stage_total(int stage) {
    if (!job_again(&job, &other))
        fail_msg("illegal mesh");
    return other.stages[stage].total;
}

/* none >= some modules >= more modules >= everything, on each stage. */
static void test_recomputation_never_costs_memory(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw();
        struct execution *const e = &job.s.workload.execution;
        struct mesh *const m = &job.s.at.mesh;
        e->checkpoint_host_bytes = 0.0;
        e->offload_activations = 0.0;
        const int stage = (int)random_below((unsigned)m->pp);
        m->recompute = RECOMPUTE_NONE;
        double most = stage_total(stage);
        m->recompute = RECOMPUTE_SELECTIVE;
        e->selective = 1U << random_below(MODULE_COUNT);
        for (int more = 0; more < 4; ++more) {
            const double total = stage_total(stage);
            if (total > most + rounding) {
                print_job(&job);
                fail_msg("%.0f bytes after %.0f", total, most);
            }
            most = total;
            e->selective |= 1U << random_below(MODULE_COUNT);
        }
        m->recompute = RECOMPUTE_FULL;
        assert_true(stage_total(stage) <= most + rounding);
    }
}

static double stage_state(int stage) {
    (void)stage_total(stage);
    return state_bytes(&other.stages[stage]);
}

/* ddp >= ZeRO-1 >= ZeRO-2 >= hybrid of few ranks >= of many >= FSDP. */
static void test_sharding_saves(void **state) {
    (void)state;
    static const enum sharding order[] = {SHARD_NONE, SHARD_ZERO1, SHARD_ZERO2, SHARD_FSDP};
    enum { ORDERS = sizeof order / sizeof order[0] };
    for (int i = 0; i < POINTS; ++i) {
        draw();
        struct execution *const e = &job.s.workload.execution;
        const struct mesh *const m = &job.s.at.mesh;
        const int stage = (int)random_below((unsigned)m->pp);
        /* Under a pipeline fully sharded weights stay gathered for the step. */
        const int orders = m->pp == 1 ? ORDERS : ORDERS - 1;
        double held[ORDERS];
        for (int k = 0; k < orders; ++k) {
            e->sharding = order[k];
            held[k] = stage_state(stage);
            assert_true(k == 0 || held[k] <= held[k - 1]);
        }
        double most = held[0];
        e->sharding = SHARD_HYBRID;
        const int ranks = m->dp * m->cp;
        for (int group = 1; group <= ranks; ++group) {
            if (ranks % group != 0)
                continue;
            e->shard_ranks = group;
            const double now = stage_state(stage);
            assert_true(now <= most);
            most = now;
        }
        if (m->pp == 1)
            assert_close_abs(most, held[ORDERS - 1], 0.0);
    }
}

/* Gradients in bf16 save 2 bytes of each held one, moments 2 of each; nothing else moves. */
static void test_formats_of_the_state(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw();
        struct execution *const e = &job.s.workload.execution;
        const int stage = (int)random_below((unsigned)job.s.at.mesh.pp);
        e->bucket_params = 0.0;
        e->bf16_gradients = e->bf16_moments = false;
        (void)stage_total(stage);
        const struct memory_items plain = other.stages[stage];
        e->bf16_gradients = true;
        (void)stage_total(stage);
        const struct memory_items *const now = &other.stages[stage];
        assert_close_abs(2.0 * now->gradients, plain.gradients, 2.0);
        assert_true(now->weights == plain.weights && now->optimizer == plain.optimizer);
        assert_true(kept_bytes(now) == kept_bytes(&plain) && now->logits == plain.logits);
        assert_true(now->total < plain.total);
        e->bf16_moments = true;
        (void)stage_total(stage);
        const bool has_one = job.s.workload.optimizer == OPTIMIZER_MUON;
        assert_close_abs(now->optimizer, plain.optimizer * (has_one ? 6.0 / 8.0 : 8.0 / 12.0), 2.0);
        assert_true(now->weights == plain.weights && kept_bytes(now) == kept_bytes(&plain));
    }
}

/* What goes to the host leaves the GPU, but for two layers in transit, and is found there. */
static void test_offload(void **state) {
    (void)state;
    int tried = 0;
    while (tried < POINTS) {
        draw();
        struct execution *const e = &job.s.workload.execution;
        if (job.s.cluster.host_link_bytes_per_s <= 0.0)
            fail_msg("no link to the host");
        ++tried;
        const int stage = (int)random_below((unsigned)job.s.at.mesh.pp);
        e->checkpoint_host_bytes = e->bucket_params = 0.0;
        e->offload_activations = e->offload_optimizer = 0.0;
        (void)stage_total(stage);
        const struct memory_items plain = other.stages[stage];
        assert_true(other.out.host_bytes <= 0.0);
        const double share = random_share();
        e->offload_optimizer = share;
        (void)stage_total(stage);
        const struct memory_items *const now = &other.stages[stage];
        assert_close_abs(now->optimizer, (1.0 - share) * plain.optimizer, 2.0);
        assert_true(now->total <= plain.total + rounding);
        assert_true(other.out.host_bytes >= plain.optimizer - now->optimizer - 2.0);
        e->offload_optimizer = 0.0;
        e->offload_activations = share;
        (void)stage_total(stage);
        assert_true(kept_bytes(now) <= kept_bytes(&plain));
        assert_true(now->optimizer == plain.optimizer && now->weights == plain.weights);
        assert_true(other.out.host_bytes >= kept_bytes(&plain) - kept_bytes(now) - 4.0);
        /* Two layers are in transit: fewer than that stay as they were. */
        double largest = 0.0;
        for (int kind = 0; kind < LAYER_KINDS; ++kind)
            largest = fmax(largest, other.table.cost[kind].kept_bytes +
                                        other.table.cost[kind].kept_routed_bytes);
        const double ends = stage == other.mesh.pp - 1 ? other.table.head_kept_bytes : 0.0;
        if (kept_bytes(&plain) - ends >= 2.0 * largest)
            assert_true(now->total <= plain.total + rounding);
    }
}

/* No split of a mesh needs less than its bound, offloading or not. */
static void test_bound_holds(void **state) {
    (void)state;
    for (int i = 0; i < POINTS * 4; ++i) {
        draw();
        const struct point *const at = &job.s.at;
        if (step_memory_bound(&at->ctx, &at->table, &at->mesh) > at->out.memory.total) {
            print_job(&job);
            fail_msg("bound %.0f, total %.0f", step_memory_bound(&at->ctx, &at->table, &at->mesh),
                     at->out.memory.total);
        }
    }
}

/* ---- schedules ---- */

/* Most chunks that stage i of p holds when it runs `warm` forwards, then one forward and one
 * backward in turn, of `total`. */
static int played(int warm, int total) {
    int forwards = 0, backwards = 0, most = 0;
    while (backwards < total) {
        const bool is_forward = forwards < total && forwards - backwards < warm + 1;
        forwards += is_forward;
        backwards += !is_forward;
        most = forwards - backwards > most ? forwards - backwards : most;
    }
    return most;
}

static void test_in_flight(void **state) {
    (void)state;
    for (int i = 0; i < 2000; ++i) {
        struct mesh m = {.pp = PICK(1, 2, 3, 4, 8, 16), .vpp = PICK(1, 2, 3, 4)};
        if (m.pp == 1)
            m.vpp = 1;
        m.micro_batches = m.vpp == 1 ? PICK(1, 2, 3, 5, 8, 40) : m.pp * PICK(1, 2, 3, 8);
        const int stage = (int)random_below((unsigned)m.pp), after = m.pp - 1 - stage;
        const int warm = m.vpp == 1 ? after : 2 * after + (m.vpp - 1) * m.pp;
        const double chunks = played(warm, m.micro_batches * m.vpp);
        assert_close(stage_in_flight(&m, stage), chunks / (double)m.vpp, 1e-12);
        if (m.vpp > 1 || m.pp == 1)
            continue;
        m.schedule = SCHEDULE_ZERO_BUBBLE; /* ZB-H1 keeps to 1F1B's memory */
        assert_close(stage_in_flight(&m, stage), chunks, 1e-12);
        m.schedule = SCHEDULE_DUALPIPE; /* p + 1 on every device */
        assert_close(stage_in_flight(&m, stage), fmin(m.micro_batches, m.pp + 1.0), 1e-12);
    }
}

/* A stage holds its layers' kept bytes as often as micro-batches are in flight. */
static void test_stages_hold_what_is_in_flight(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        draw();
        job.s.workload.execution.checkpoint_host_bytes = 0.0;
        job.s.workload.execution.offload_activations = 0.0;
        (void)stage_total(0);
        const struct layer_cost *const cost = other.table.cost;
        for (int stage = 0; stage < other.mesh.pp; ++stage) {
            struct stage_content c;
            content_of(&other, stage, &c);
            const double flight = stage_in_flight(&other.mesh, stage);
            const double ends = c.is_last ? other.table.head_kept_bytes : 0.0;
            assert_close_abs(other.stages[stage].activations,
                             flight * (c.dense_layers * cost[LAYER_DENSE].kept_bytes +
                                       c.moe_layers * cost[LAYER_MOE].kept_bytes) +
                                 ends,
                             2.0);
            assert_close_abs(other.stages[stage].routed,
                             flight * c.moe_layers * cost[LAYER_MOE].kept_routed_bytes, 2.0);
            assert_true(c.is_last || other.stages[stage].logits <= 0.0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_sum),
        cmocka_unit_test(test_layers_and_parameters),
        cmocka_unit_test(test_expert_parallelism),
        cmocka_unit_test(test_tensor_parallelism),
        cmocka_unit_test(test_recomputation_never_costs_memory),
        cmocka_unit_test(test_sharding_saves),
        cmocka_unit_test(test_formats_of_the_state),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_bound_holds),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_stages_hold_what_is_in_flight),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
