// SPDX-License-Identifier: GPL-3.0-or-later
/* Checks of a cluster's figures, and which tier a group of GPUs communicates through. */
#include "machine/cluster.h"

#include <math.h>

const char *precision_name(enum precision precision) {
    static const char *const names[PRECISION_COUNT] = {"bf16", "fp8", "mxfp8", "nvfp4"};
    return (unsigned)precision < PRECISION_COUNT ? names[precision] : "unknown";
}

int cluster_gpus(const struct cluster *c) {
    return c->nodes * c->gpus_per_node;
}

const struct tier *cluster_tier_for(const struct cluster *c, int span) {
    for (int i = 0; i < c->tier_count; ++i)
        if (span <= c->tiers[i].domain)
            return &c->tiers[i];
    return &c->tiers[c->tier_count - 1];
}

static bool is_positive(double value) {
    return value > 0.0 && isfinite(value);
}

static enum mosaic_status check_tiers(const struct cluster *c, struct status_error *err) {
    if (c->tier_count < 1 || c->tier_count > CLUSTER_MAX_TIERS)
        return status_set(err, MOSAIC_BAD_INPUT, "a cluster has 1 to %d network tiers, not %d",
                          CLUSTER_MAX_TIERS, c->tier_count);
    for (int i = 0; i < c->tier_count; ++i) {
        const struct tier *const t = &c->tiers[i];
        if (!is_positive(t->bytes_per_s) || !(t->latency_s >= 0.0) || !isfinite(t->latency_s))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "tier '%s' needs a positive bandwidth and a latency of 0 or more",
                              t->name);
        if (i > 0 && t->domain <= c->tiers[i - 1].domain)
            return status_set(
                err, MOSAIC_BAD_INPUT,
                "tiers go from the inside out: domain %d of '%s' does not exceed %d of '%s'",
                t->domain, t->name, c->tiers[i - 1].domain, c->tiers[i - 1].name);
    }
    if (c->tiers[c->tier_count - 1].domain < cluster_gpus(c))
        return status_set(
            err, MOSAIC_BAD_INPUT, "the last tier '%s' reaches %d GPUs, the cluster has %d",
            c->tiers[c->tier_count - 1].name, c->tiers[c->tier_count - 1].domain, cluster_gpus(c));
    return MOSAIC_OK;
}

enum mosaic_status cluster_check(const struct cluster *c, enum precision precision,
                                 struct status_error *err) {
    if (c->nodes < 1 || c->gpus_per_node < 1 ||
        (double)c->nodes * (double)c->gpus_per_node > (double)CLUSTER_MAX_GPUS)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "%d nodes of %d GPUs: both at least 1, together at most %d", c->nodes,
                          c->gpus_per_node, CLUSTER_MAX_GPUS);
    if (!is_positive(c->device.memory_bytes) || !is_positive(c->device.hbm_bytes_per_s))
        return status_set(err, MOSAIC_BAD_INPUT, "device '%s' needs memory and HBM bandwidth",
                          c->device.name);
    if (!is_positive(c->device.peak_flop_per_s[precision]))
        return status_set(err, MOSAIC_BAD_INPUT, "device '%s' states no dense peak for %s",
                          c->device.name, precision_name(precision));
    return check_tiers(c, err);
}

int cluster_domain_in_use(const struct cluster *cluster) {
    const int domain = cluster->tiers[0].domain, gpus = cluster_gpus(cluster);
    if (gpus <= domain || gpus % domain == 0)
        return domain;
    const int domains = (gpus + domain - 1) / domain;
    const bool is_even = gpus % domains == 0 && gpus / domains % cluster->gpus_per_node == 0;
    return is_even ? gpus / domains : domain;
}
