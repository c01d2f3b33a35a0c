// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-cluster/1: the device, the node, the network tiers from the inside out, and what may be
 * said of a run on it (nodes, budget, calibration), which makes the document plannable by itself.
 */
#include "doc/sections.h"

struct peak_section {
    double bf16, fp8, mxfp8, nvfp4;
};

struct device_section {
    const char *name, *architecture;
    struct peak_section peak;
    double memory_bytes, hbm_bytes_per_s;
    double power_w;
};

struct node_section {
    int gpus;
    double host_memory_bytes, host_link_bytes_per_s;
};

struct tier_section {
    const char *name;
    int domain;
    bool has_domain;
    double bytes_per_s, latency_s;
};

struct failure_section {
    double mtbf_per_node_s;
};

struct cluster_section {
    const char *name, *source;
    struct device_section device;
    struct node_section node;
    struct record_list tiers;
    struct failure_section failures;
    double price_usd_per_gpu_h;
    int nodes;
    const struct node *budget, *calibration;
};

/* Beyond any machine, so that a slip of a prefix shows. */
#define MEMORY_MAX 1e16    /* 10 PB */
#define BANDWIDTH_MAX 1e16 /* 10 PB/s */
#define PEAK_MAX 1e20      /* 100 EFLOP/s */
#define LATENCY_MAX 1.0    /* s */
#define MTBF_MAX 1e11      /* s */
#define POWER_MAX 1e6      /* W */
#define PRICE_MAX 1e6      /* USD/h */

#define PEAK(member, words)                                                                        \
    {                                                                                              \
        .key = #member, .kind = FIELD_QUANTITY, .dimension = DIM_FLOP_PER_S,                       \
        .flags = FIELD_OPEN_MIN, FIELD_AT(struct peak_section, member), .max = PEAK_MAX,           \
        .help = "dense peak of " words " matrix multiplication, without sparsity"                  \
    }
static const struct field peak_fields[] = {
    PEAK(bf16, "bf16"),
    PEAK(fp8, "fp8 (per-tensor scales)"),
    PEAK(mxfp8, "MXFP8"),
    PEAK(nvfp4, "NVFP4"),
};
static const struct schema peak_schema = SCHEMA("peak", struct peak_section, peak_fields);

#define AMOUNT(type, name, member, dim, most, flag, text)                                          \
    {                                                                                              \
        .key = (name), .kind = FIELD_QUANTITY, .dimension = (dim),                                 \
        .flags = FIELD_OPEN_MIN | (unsigned)(flag), FIELD_AT(type, member), .max = (most),         \
        .help = (text)                                                                             \
    }
static const struct field device_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct device_section, name),
     .help = "name of the GPU, e.g. B200"},
    {.key = "architecture",
     .kind = FIELD_STRING,
     FIELD_AT(struct device_section, architecture),
     .help = "generation of the GPU, e.g. hopper: devices that share kernels and constants"},
    {.key = "peak",
     .kind = FIELD_MAPPING,
     .nested = &peak_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct device_section, peak),
     .help = "dense peak by precision; a precision left out cannot be planned"},
    AMOUNT(struct device_section, "memory", memory_bytes, DIM_BYTES, MEMORY_MAX, FIELD_REQUIRED,
           "device memory that the training process can use"),
    AMOUNT(struct device_section, "hbm_bandwidth", hbm_bytes_per_s, DIM_BYTES_PER_S, BANDWIDTH_MAX,
           FIELD_REQUIRED, "memory bandwidth of the data sheet"),
    AMOUNT(struct device_section, "power", power_w, DIM_POWER, POWER_MAX, 0, "board power"),
};
static const struct schema device_schema = SCHEMA("device", struct device_section, device_fields);

static const struct field node_fields[] = {
    {.key = "gpus",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct node_section, gpus),
     .min = 1,
     .max = CLUSTER_MAX_GPUS,
     .help = "GPUs of one node"},
    AMOUNT(struct node_section, "host_memory", host_memory_bytes, DIM_BYTES, MEMORY_MAX, 0,
           "host memory of one node"),
    AMOUNT(struct node_section, "host_link", host_link_bytes_per_s, DIM_BYTES_PER_S, BANDWIDTH_MAX,
           0, "link between host and GPU, per GPU and direction"),
};
static const struct schema node_schema = SCHEMA("node", struct node_section, node_fields);

static const struct field tier_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct tier_section, name),
     .help = "name of the network tier"},
    {.key = "domain",
     .kind = FIELD_INT,
     FIELD_AT(struct tier_section, domain),
     FIELD_PRESENCE(struct tier_section, has_domain),
     .min = 1,
     .max = CLUSTER_MAX_GPUS,
     .help = "GPUs that reach each other through it; left out on the last tier, all of them"},
    AMOUNT(struct tier_section, "bandwidth", bytes_per_s, DIM_BYTES_PER_S, BANDWIDTH_MAX,
           FIELD_REQUIRED, "bandwidth per GPU and direction"),
    {.key = "latency",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct tier_section, latency_s),
     .max = LATENCY_MAX,
     .help = "time of the smallest message"},
};
static const struct schema tier_schema = SCHEMA("tier", struct tier_section, tier_fields);

static const struct field failure_fields[] = {
    AMOUNT(struct failure_section, "mtbf_per_node", mtbf_per_node_s, DIM_TIME, MTBF_MAX, 0,
           "mean time between the failures of one node"),
};
static const struct schema failure_schema =
    SCHEMA("failures", struct failure_section, failure_fields);

static const struct field cluster_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct cluster_section, name),
     .help = "name of the cluster"},
    {.key = "source",
     .kind = FIELD_STRING,
     FIELD_AT(struct cluster_section, source),
     .help = "where the figures come from"},
    {.key = "device",
     .kind = FIELD_MAPPING,
     .nested = &device_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct cluster_section, device),
     .help = "the GPU"},
    {.key = "node",
     .kind = FIELD_MAPPING,
     .nested = &node_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct cluster_section, node),
     .help = "the node"},
    {.key = "tiers",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &tier_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct cluster_section, tiers),
     .max_count = CLUSTER_MAX_TIERS,
     .help = "network tiers from the inside out"},
    {.key = "failures",
     .kind = FIELD_MAPPING,
     .nested = &failure_schema,
     FIELD_AT(struct cluster_section, failures),
     .help = "failure rates"},
    AMOUNT(struct cluster_section, "price", price_usd_per_gpu_h, DIM_PRICE_PER_H, PRICE_MAX, 0,
           "price of one GPU"),
    {.key = "nodes",
     .kind = FIELD_INT,
     FIELD_AT(struct cluster_section, nodes),
     .min = 1,
     .max = CLUSTER_MAX_GPUS,
     .help = "number of nodes; a plan may say otherwise"},
    {.key = "budget",
     .kind = FIELD_FREE,
     FIELD_AT(struct cluster_section, budget),
     .help = "as in a plan; makes the cluster plannable by itself"},
    {.key = "calibration",
     .kind = FIELD_FREE,
     FIELD_AT(struct cluster_section, calibration),
     .help = "what has been measured on it: FILE or mapping"},
};
const struct schema doc_cluster_schema =
    SCHEMA_DOCUMENT("cluster", "mosaic-cluster/1", struct cluster_section, cluster_fields);

static enum mosaic_status fill_tier(struct loader *l, const struct node *node,
                                    const struct tier_section *s, bool is_last, struct tier *out) {
    TRY(loader_copy(l, node, "name", s->name, out->name, sizeof out->name));
    if (!s->has_domain && !is_last)
        return diag_error(l->diags, &node->place,
                          "tier '%s' needs 'domain'; only the last one may leave it out", s->name);
    out->domain = s->has_domain ? s->domain : CLUSTER_MAX_GPUS;
    out->bytes_per_s = s->bytes_per_s;
    out->latency_s = s->latency_s;
    return MOSAIC_OK;
}

static enum mosaic_status fill_tiers(struct loader *l, const struct node *node,
                                     const struct cluster_section *s, struct cluster *c) {
    const struct tier_section *const tiers = s->tiers.items;
    const struct node *const list = node_find(node, "tiers");
    for (size_t i = 0; i < s->tiers.count; ++i) {
        const struct node *const item = list->items[i];
        TRY(fill_tier(l, item, &tiers[i], i + 1 == s->tiers.count, &c->tiers[i]));
        if (i > 0 && c->tiers[i].domain <= c->tiers[i - 1].domain) {
            const struct place place = loader_place(item, "domain");
            return diag_error(
                l->diags, &place, "domain %d of '%s' does not exceed %d of '%s' further in",
                c->tiers[i].domain, c->tiers[i].name, c->tiers[i - 1].domain, c->tiers[i - 1].name);
        }
    }
    c->tier_count = (int)s->tiers.count;
    return MOSAIC_OK;
}

static void fill_device(const struct device_section *s, struct device *d) {
    d->peak_flop_per_s[PRECISION_BF16] = s->peak.bf16;
    d->peak_flop_per_s[PRECISION_FP8] = s->peak.fp8;
    d->peak_flop_per_s[PRECISION_MXFP8] = s->peak.mxfp8;
    d->peak_flop_per_s[PRECISION_NVFP4] = s->peak.nvfp4;
    d->memory_bytes = s->memory_bytes;
    d->hbm_bytes_per_s = s->hbm_bytes_per_s;
}

enum mosaic_status doc_cluster_bind(struct loader *l, const struct node *node, const char *prefix,
                                    struct cluster_document *out) {
    struct cluster_section s = {0};
    TRY(loader_bind(l, &doc_cluster_schema, node, prefix, &s));
    struct cluster c = {.nodes = s.nodes,
                        .gpus_per_node = s.node.gpus,
                        .host_memory_bytes = s.node.host_memory_bytes,
                        .host_link_bytes_per_s = s.node.host_link_bytes_per_s,
                        .mtbf_per_node_s = s.failures.mtbf_per_node_s,
                        .price_usd_per_gpu_h = s.price_usd_per_gpu_h,
                        .power_w_per_gpu = s.device.power_w};
    TRY(loader_copy(l, node, "name", s.name, c.name, sizeof c.name));
    const struct node *const device = node_find(node, "device");
    TRY(loader_copy(l, device, "name", s.device.name, c.device.name, sizeof c.device.name));
    TRY(loader_copy(l, device, "architecture", s.device.architecture, c.device.architecture,
                    sizeof c.device.architecture));
    fill_device(&s.device, &c.device);
    TRY(fill_tiers(l, node, &s, &c));
    *out = (struct cluster_document){c, node_find(node, "nodes"), s.budget, s.calibration};
    return MOSAIC_OK;
}

enum mosaic_status doc_cluster_check(struct loader *l, const struct node *node,
                                     const struct cluster *c, enum precision precision,
                                     const struct place *precision_place) {
    const struct node *const tiers = node_find(node, "tiers");
    const struct tier *const last = &c->tiers[c->tier_count - 1];
    const double gpus = (double)c->nodes * (double)c->gpus_per_node;
    if (gpus > (double)CLUSTER_MAX_GPUS) {
        const struct place place = loader_place(node, "node.gpus");
        return diag_error(l->diags, &place, "%d nodes of %d GPUs are %.0f GPUs; at most %d",
                          c->nodes, c->gpus_per_node, gpus, CLUSTER_MAX_GPUS);
    }
    if ((double)last->domain < gpus) {
        const struct place place = loader_place(tiers->items[tiers->count - 1], "domain");
        (void)diag_error(l->diags, &place,
                         "the last tier '%s' reaches %d GPUs, the cluster has %.0f", last->name,
                         last->domain, gpus);
        diag_hint(l->diags, "leave 'domain' out of the last tier, or add the tier beyond it");
        return MOSAIC_BAD_INPUT;
    }
    if (!(c->device.peak_flop_per_s[precision] > 0.0)) {
        const struct place place = loader_place(node, "device.peak");
        (void)diag_error(
            l->diags, precision_place && precision_place->source ? precision_place : &place,
            "device '%s' states no dense peak for %s", c->device.name, precision_name(precision));
        diag_hint(l->diags, "add cluster.device.peak.%s", precision_name(precision));
        return MOSAIC_BAD_INPUT;
    }
    struct status_error err;
    if (cluster_check(c, precision, &err) != MOSAIC_OK)
        return diag_from_error(l->diags, &node->place, &err);
    return MOSAIC_OK;
}
