// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `search.execution` of a plan: what a search may choose of how the job runs.  Each key lists the
 * values that `execution` would take one of; the ways are all their combinations.
 */
#include "doc/plan_parts.h"

#include "engine/way.h"

#include <assert.h>
#include <stdlib.h>

/* Hybrid sharding needs the size of its groups: it stays with `execution`. */
static const char *const free_sharding_words[] = {"zero1", "ddp", "zero2", "fsdp", NULL};

enum { VALUES_MAX = 16 };

#define WORDS(member, table, text)                                                                 \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_ENUM, .words = (table),                  \
        .flags = FIELD_UNIQUE, FIELD_AT(struct ways_section, member), .max_count = VALUES_MAX,     \
        .help = (text)                                                                             \
    }
#define SHARES(member, text)                                                                       \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_QUANTITY, .dimension = DIM_FRACTION,     \
        .flags = FIELD_UNIQUE, FIELD_AT(struct ways_section, member), .max = 1,                    \
        .max_count = VALUES_MAX, .help = (text)                                                    \
    }
#define COUNTS(member, least, most, text)                                                          \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_INT, .flags = FIELD_UNIQUE,              \
        FIELD_AT(struct ways_section, member), .min = (least), .max = (most),                      \
        .max_count = VALUES_MAX, .help = (text)                                                    \
    }
static const struct field fields[] = {
    WORDS(sharding, free_sharding_words, "what data-parallel ranks may share out"),
    WORDS(dispatcher, dispatcher_words, "who may move tokens to their experts"),
    WORDS(cuda_graphs, graphs_words, "what may be replayed from CUDA graphs"),
    SHARES(offload_activations, "shares of the kept activations that may wait in host memory"),
    SHARES(offload_optimizer, "shares of the optimizer state that the host may keep and step"),
    WORDS(expert_balance, balance_words, "who may compute the rows of busy experts"),
    COUNTS(dispatch_chunk, 0, 1 << 24, "tokens that may go to their experts at once; 0: all"),
    COUNTS(vocab_ring, 1, CLUSTER_MAX_GPUS, "ranks that may share the vocabulary projection"),
    {.key = "checkpoint_offload",
     .kind = FIELD_LIST,
     .item = FIELD_QUANTITY,
     .dimension = DIM_BYTES,
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct ways_section, checkpoint_offload),
     .max = 1e15,
     .max_count = VALUES_MAX,
     .help = "host memory of a GPU that layer boundaries may take"},
    {.key = "optimizer_bucket",
     .kind = FIELD_LIST,
     .item = FIELD_QUANTITY,
     .dimension = DIM_COUNT,
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct ways_section, optimizer_bucket),
     .max = 1e12,
     .max_count = VALUES_MAX,
     .help = "parameters of a bucket in which AdamW's state may stream from the host"},
};
const struct schema plan_ways_schema = SCHEMA("search.execution", struct ways_section, fields);

/* The values that a key lists. */
struct choice {
    enum way_axis axis;
    size_t count;
    const int *words;
    const double *numbers;
};

static double value_at(const struct choice *c, size_t i) {
    return c->words ? (double)c->words[i] : c->numbers[i];
}

static size_t list_choices(const struct ways_section *s, struct choice *out) {
    const struct choice all[] = {
        {WAY_SHARDING, s->sharding.count, s->sharding.items, NULL},
        {WAY_DISPATCHER, s->dispatcher.count, s->dispatcher.items, NULL},
        {WAY_CUDA_GRAPHS, s->cuda_graphs.count, s->cuda_graphs.items, NULL},
        {WAY_OFFLOAD_ACTIVATIONS, s->offload_activations.count, NULL, s->offload_activations.items},
        {WAY_OFFLOAD_OPTIMIZER, s->offload_optimizer.count, NULL, s->offload_optimizer.items},
        {WAY_EXPERT_BALANCE, s->expert_balance.count, s->expert_balance.items, NULL},
        {WAY_DISPATCH_CHUNK, s->dispatch_chunk.count, s->dispatch_chunk.items, NULL},
        {WAY_VOCAB_RING, s->vocab_ring.count, s->vocab_ring.items, NULL},
        {WAY_CHECKPOINT_OFFLOAD, s->checkpoint_offload.count, NULL, s->checkpoint_offload.items},
        {WAY_OPTIMIZER_BUCKET, s->optimizer_bucket.count, NULL, s->optimizer_bucket.items},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (all[i].count > 0)
            out[count++] = all[i];
    return count;
}

/* A key stands in one of the two sections. */
static enum mosaic_status check_once(struct loader *l, const struct node *root,
                                     const struct choice *choices, size_t count) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < count; ++i) {
        const char *const name = way_axis_name(choices[i].axis);
        char path[STATUS_QUOTE_MAX];
        (void)snprintf(path, sizeof path, "execution.%s", name);
        if (!node_at(root, path))
            continue;
        const struct place place = loader_place(root, path);
        status = diag_error(l->diags, &place, "'%s' is given here and in search.execution", name);
        diag_hint(l->diags, "leave it to one of them");
    }
    return status;
}

/* One combination: the number's digits, in the base of each list's length, pick the values. */
static void choose(const struct choice *choices, size_t count, size_t number,
                   struct execution *out) {
    for (size_t i = count; i-- > 0;) {
        way_axis_set(out, choices[i].axis, value_at(&choices[i], number % choices[i].count));
        number /= choices[i].count;
    }
}

/* What offloads needs to know the link to the host. */
static enum mosaic_status check_offload(struct loader *l, const struct node *root,
                                        const struct problem *p) {
    if (p->cluster.host_link_bytes_per_s > 0.0)
        return MOSAIC_OK;
    for (int way = 0; way < problem_ways(p); ++way)
        for (int i = 0; i < WAY_AXES; ++i) {
            const enum way_axis axis = (enum way_axis)i;
            if (!way_axis_needs_host(axis) ||
                !(way_axis_get(&problem_workload(p, way)->execution, axis) > 0.0))
                continue;
            char path[STATUS_QUOTE_MAX];
            (void)snprintf(path, sizeof path, "execution.%s", way_axis_name(axis));
            if (!node_at(root, path))
                (void)snprintf(path, sizeof path, "search.execution.%s", way_axis_name(axis));
            const struct place place = loader_place(root, path);
            (void)diag_error(l->diags, &place, "offloading needs the cluster's node.host_link");
            diag_hint(l->diags, "bandwidth per GPU and direction, e.g. node: {host_link: 63 GB/s}");
            return MOSAIC_BAD_INPUT;
        }
    return MOSAIC_OK;
}

/* The release knows no host and no memory schedule: times without them stand in for what runs. */
static void warn_published(struct loader *l, const struct node *root, const struct problem *p) {
    for (int way = 0; p->is_published && way < problem_ways(p); ++way)
        for (int i = WAY_OFFLOAD_ACTIVATIONS; i < WAY_AXES; ++i) {
            const enum way_axis axis = (enum way_axis)i;
            if (!(way_axis_get(&problem_workload(p, way)->execution, axis) > 0.0))
                continue;
            const struct place place = loader_place(root, "estimator");
            diag_warning(l->diags, &place,
                         "the published estimator knows no offloading and no memory schedules: "
                         "what it says of %s means nothing",
                         way_axis_name(axis));
            return;
        }
}

enum mosaic_status plan_ways(struct loader *l, const struct node *root,
                             const struct ways_section *section, struct problem *p) {
    struct choice choices[WAY_AXES];
    const size_t count = list_choices(section, choices);
    TRY(check_once(l, root, choices, count));
    size_t ways = 1;
    for (size_t i = 0; i < count; ++i)
        ways *= choices[i].count;
    if (ways > PROBLEM_WAYS_MAX) {
        const struct place place = loader_place(root, "search.execution");
        (void)diag_error(l->diags, &place, "%zu combinations; a search takes at most %d", ways,
                         (int)PROBLEM_WAYS_MAX);
        diag_hint(l->diags, "list fewer values");
        return MOSAIC_BAD_INPUT;
    }
    if (ways == 1) {
        choose(choices, count, 0, &p->workload.execution);
        warn_published(l, root, p);
        return check_offload(l, root, p);
    }
    p->ways.items = calloc(ways, sizeof *p->ways.items);
    if (!p->ways.items)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    p->ways.count = (int)ways;
    for (size_t i = 0; i < ways; ++i) {
        p->ways.items[i] = p->workload;
        choose(choices, count, i, &p->ways.items[i].execution);
    }
    warn_published(l, root, p);
    return check_offload(l, root, p);
}
