// SPDX-License-Identifier: GPL-3.0-or-later
/* Random small planning problems (splitmix64, so that every machine draws the same ones). */
#include "plan_case.h"

#include "close.h"
#include "doc/document.h"
#include "model/ladder.h"

#include <string.h>
#include <talloc.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

uint64_t random_next(struct random *r) {
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double random_unit(struct random *r) {
    return (double)(random_next(r) >> 11) * 0x1p-53;
}

double random_between(struct random *r, double low, double high) {
    return low + (high - low) * random_unit(r);
}

int random_int(struct random *r, int low, int high) {
    return low + (int)(random_next(r) % (uint64_t)(high - low + 1));
}

int random_pick(struct random *r, const int *values, size_t count) {
    return values[random_next(r) % count];
}

bool random_chance(struct random *r, double probability) {
    return random_unit(r) < probability;
}

void case_load(const char *path, struct problem *out, struct geometry *items, size_t room) {
    struct diag_list said;
    struct document *d = NULL;
    diag_init(&said);
    if (document_load(path, NULL, 0, &said, &d) != MOSAIC_OK) {
        char *const text = diag_text(NULL, &said, false);
        print_error("%s", text ? text : path);
        talloc_free(text);
        fail();
        return;
    }
    assert_true(d->problem.geometries.count <= room);
    *out = d->problem;
    out->engine.rules = (struct engine_rules){0}; /* the document owns them */
    out->ways = (struct way_list){0};
    memcpy(items, d->problem.geometries.items, out->geometries.count * sizeof *items);
    out->geometries.items = items;
    document_free(d);
}

static void random_moe(struct random *r, struct geometry *g) {
    static const int experts[] = {4, 6, 8, 12, 16}, parts[] = {1, 2, 4, 8}, tops[] = {1, 2, 3, 4};
    g->first_dense = random_int(r, 0, 2);
    g->experts = random_pick(r, experts, COUNT(experts));
    g->top_k = random_pick(r, tops, COUNT(tops));
    g->expert_ffn = g->dense_ffn / random_pick(r, parts, COUNT(parts));
    g->shared_experts = random_int(r, 0, 1);
    g->shared_ffn = g->shared_experts > 0 ? g->expert_ffn : 0;
    g->granularity = (double)g->dense_ffn / (double)g->expert_ffn;
}

void case_random_geometry(struct random *r, const struct workload *w, struct geometry *out) {
    static const int heads[] = {4, 6, 8, 12}, groups[] = {1, 2, 4};
    struct status_error err;
    for (;;) {
        struct geometry g = {.layers = random_int(r, 3, 9),
                             .heads = random_pick(r, heads, COUNT(heads)),
                             .head_dim = 64,
                             .v_head_dim = 64,
                             .ffn_matrices = random_int(r, 2, 3),
                             .granularity = 1.0,
                             .vocab = w->vocab,
                             .tied = random_chance(r, 0.2),
                             .mtp_layers = random_chance(r, 0.2) ? 1 : 0};
        g.hidden = g.heads * g.head_dim * random_int(r, 1, 3);
        g.kv_heads = g.heads / random_pick(r, groups, COUNT(groups));
        g.dense_ffn = 4 * g.hidden;
        if (random_chance(r, 0.85))
            random_moe(r, &g);
        else
            g.first_dense = g.layers;
        *out = g;
        if (random_chance(r, 0.3) &&
            ladder_geometry(2, 4 << random_int(r, 0, 3), random_int(r, 1, 3),
                            1 << random_int(r, 0, 3), w->vocab, &g, &err) == MOSAIC_OK)
            *out = g;
        if (geometry_check(out, &err) == MOSAIC_OK)
            return;
    }
}

static void random_cluster(struct random *r, struct cluster *c) {
    static const int per_node[] = {2, 3, 4, 4, 6, 8, 8};
    c->nodes = random_int(r, 1, 4);
    c->gpus_per_node = random_pick(r, per_node, COUNT(per_node));
    if (c->nodes * c->gpus_per_node > 16)
        c->nodes = 16 / c->gpus_per_node;
    c->tiers[0].domain = c->gpus_per_node;
    c->tiers[1].bytes_per_s *= random_between(r, 0.1, 1.0);
    c->device.memory_bytes = 1e18;
}

static void random_calibration(struct random *r, struct calibration *c) {
    double *const s = c->scalar;
    s[CAL_HOST_GAP] *= random_chance(r, 0.3) ? 0.0 : random_between(r, 0.01, 0.3);
    s[CAL_HOST_MICRO_BATCH] *= random_between(r, 0.0, 0.05);
    s[CAL_HOST_EP_SYNC] *= random_between(r, 0.0, 0.1);
    s[CAL_HOST_NORM] = random_chance(r, 0.5) ? 64.0 : 4.0;
    s[CAL_DP_OVERLAP] = random_chance(r, 0.5) ? 1.0 : random_unit(r);
    s[CAL_DP_BUCKETS] = (double)random_int(r, 1, 8);
    s[CAL_OPTIMIZER_FIXED] *= random_unit(r);
    s[CAL_STRAGGLER] *= random_between(r, 0.0, 8.0);
    s[CAL_COMMUNICATOR_BYTES] *= random_between(r, 0.0, 0.1);
    s[CAL_RESERVE_BYTES] = random_chance(r, 0.5) ? 0.0 : 1e8;
    if (random_chance(r, 0.3))
        c->collective_count = 0;
}

static void random_axis(struct random *r, double is_free, struct axis *out) {
    static const int values[] = {1, 2, 3, 4, 6, 8};
    *out = (struct axis){.count = 0};
    if (random_chance(r, is_free))
        return;
    for (size_t i = 0; i < COUNT(values); ++i)
        if (random_chance(r, i == 0 ? 0.8 : 0.45))
            out->values[out->count++] = values[i];
    if (out->count == 0)
        out->values[out->count++] = random_pick(r, values, 2);
}

static void pin(struct random *r, struct axis *out) {
    static const int values[] = {1, 1, 1, 1, 1, 2};
    *out = (struct axis){.count = 1, .values = {random_pick(r, values, COUNT(values))}};
}

static void random_space(struct random *r, struct layout_space *out) {
    *out = (struct layout_space){.allow_extrapolation = random_chance(r, 0.5)};
    random_axis(r, 0.8, &out->pp);
    random_axis(r, 0.6, &out->ep);
    random_axis(r, 0.5, &out->micro_batch);
    /* The rest is pinned more often than not, so that enumeration stays possible. */
    struct axis *const rare[] = {&out->tp, &out->cp, &out->vpp, &out->etp};
    for (size_t i = 0; i < COUNT(rare); ++i)
        if (random_chance(r, 0.25))
            random_axis(r, 0.4, rare[i]);
        else
            pin(r, rare[i]);
    for (int i = 0; i < RECOMPUTE_MODES; ++i)
        out->recompute[i] = random_chance(r, 0.5);
    out->recompute[random_int(r, 0, RECOMPUTE_MODES - 1)] = true;
}

void case_random(struct random *r, struct problem *out, struct geometry *items, size_t count) {
    static const int sequences[] = {96, 128, 256, 512, 1024}, batches[] = {8, 12, 16, 24, 32, 48};
    static const int vocabs[] = {1000, 32000, 128256};
    static struct geometry unused[2048];
    case_load("configs/p6-b200-32n-20d.yaml", out, unused, COUNT(unused));
    random_cluster(r, &out->cluster);
    random_calibration(r, &out->calibration);
    out->engine.uneven_stages = random_chance(r, 0.7);
    out->engine.interleaved_batches_divide = random_chance(r, 0.5);
    out->engine.kv_replication = random_chance(r, 0.5);
    out->workload.sequence = random_pick(r, sequences, COUNT(sequences));
    out->workload.global_batch = random_pick(r, batches, COUNT(batches));
    out->workload.vocab = random_pick(r, vocabs, COUNT(vocabs));
    out->workload.optimizer = random_chance(r, 0.3) ? OPTIMIZER_MUON : OPTIMIZER_ADAMW;
    out->workload.precision = random_chance(r, 0.2) ? PRECISION_FP8 : PRECISION_BF16;
    out->workload.imbalance = random_chance(r, 0.5) ? 1.0 : random_between(r, 1.0, 1.6);
    out->budget = (struct budget){.seconds = 1e6, .goodput = random_between(r, 0.5, 1.0)};
    const double none = (double)INFINITY;
    out->limits = (struct space_limits){.n_total_max = none,
                                        .n_active_max = none,
                                        .sparsity_max = 1.0,
                                        .tokens_per_active_max = none,
                                        .unique_tokens = none};
    random_space(r, &out->layouts);
    for (size_t i = 0; i < count; ++i)
        case_random_geometry(r, &out->workload, &items[i]);
    out->geometries = (struct geometry_space){.count = count, .items = items};
}

void case_quiet_calibration(struct calibration *c) {
    static const enum scalar none[] = {
        CAL_HOST_KERNELS_MOE,    CAL_HOST_KERNELS_EXPERT, CAL_HOST_KERNELS_DENSE, CAL_HOST_GAP,
        CAL_HOST_MICRO_BATCH,    CAL_HOST_EP_SYNC,        CAL_TP_EXPOSED,         CAL_CP_EXPOSED,
        CAL_EP_EXPOSED,          CAL_PP_EXPOSED,          CAL_OPTIMIZER_FIXED,    CAL_STRAGGLER,
        CAL_CROSS_ENTROPY_PASSES};
    for (size_t i = 0; i < COUNT(none); ++i)
        c->scalar[none[i]] = 0.0;
}
