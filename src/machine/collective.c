// SPDX-License-Identifier: GPL-3.0-or-later
/* Collectives: measured bus bandwidth where there is some, link bounds elsewhere. */
#include "machine/collective.h"

#include <math.h>

static int greatest_divisor(int a, int b) {
    while (b != 0) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Groups of a size that does not divide the domain lie across its ends: the least of their parts
 * decides, a multiple of the greatest common divisor. */
int group_ranks_per_domain(const struct cluster *cluster, struct group group) {
    const int domain = cluster_domain_in_use(cluster);
    const long span = (long)group.ranks * group.stride;
    if (cluster_gpus(cluster) <= domain || (span <= domain && domain % span == 0))
        return group.ranks;
    const int part = greatest_divisor(domain, (int)(span % domain == 0 ? domain : span % domain));
    const int fit = part / group.stride;
    return fit < 1 ? 1 : fit < group.ranks ? fit : group.ranks;
}

int group_domains(const struct cluster *cluster, struct group group) {
    const int inside = group_ranks_per_domain(cluster, group);
    return (group.ranks + inside - 1) / inside;
}

struct network network_of(const struct cluster *cluster, const struct calibration *calibration) {
    return (struct network){cluster, calibration, calibration->scalar[CAL_COLLECTIVE_INTRA_SHARE],
                            calibration->scalar[CAL_COLLECTIVE_INTER_SHARE]};
}

/* Share of the buffer that one rank sends, in NCCL's convention busbw = algbw * factor. */
static double bus_factor(enum collective_kind kind, int ranks) {
    const double n = (double)ranks;
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE:
        return 2.0 * (n - 1.0) / n;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_TO_ALL:
        return (n - 1.0) / n;
    case COLLECTIVE_POINT_TO_POINT:
    case COLLECTIVE_KINDS:
        break;
    }
    return 1.0;
}

static const struct collective_curve *find(const struct calibration *calibration,
                                           enum collective_kind kind, int ranks, int inside) {
    for (int i = 0; i < calibration->collective_count; ++i) {
        const struct collective_curve *const c = &calibration->collective[i];
        if (c->kind == kind && c->ranks == ranks && c->ranks_per_domain == inside)
            return c;
    }
    return NULL;
}

static bool has_kind(const struct calibration *calibration, enum collective_kind kind) {
    for (int i = 0; i < calibration->collective_count; ++i)
        if (calibration->collective[i].kind == kind)
            return true;
    return false;
}

bool collective_is_measured(const struct network *network, enum collective_kind kind,
                            struct group group) {
    return group.ranks <= 1 || !has_kind(network->calibration, kind) ||
           find(network->calibration, kind, group.ranks,
                group_ranks_per_domain(network->cluster, group)) != NULL;
}

/* A ring's bandwidth does not depend on its length: the widest measured ring with the same members
 * per domain that still crosses domains stands in for a longer one. */
static const struct collective_curve *widest_ring(const struct calibration *calibration,
                                                  enum collective_kind kind, int ranks,
                                                  int inside) {
    const struct collective_curve *best = NULL;
    for (int i = 0; i < calibration->collective_count; ++i) {
        const struct collective_curve *const c = &calibration->collective[i];
        if (c->kind == kind && c->ranks_per_domain == inside && c->ranks < ranks &&
            c->ranks > inside && (!best || c->ranks > best->ranks))
            best = c;
    }
    return best;
}

static double ring_bound_s(const struct network *network, struct group group, double sent_bytes) {
    const struct cluster *const cluster = network->cluster;
    const int inside = group_ranks_per_domain(cluster, group);
    const struct tier *const inner = &cluster->tiers[0];
    double rate = network->intra_share * inner->bytes_per_s;
    double latency_s = inner->latency_s * (double)(inside - 1);
    const int domains = group_domains(cluster, group);
    if (domains > 1) {
        const struct tier *const outer = cluster_tier_for(cluster, group.ranks * group.stride);
        const double outer_rate = (double)inside * network->inter_share * outer->bytes_per_s;
        rate = inside > 1 ? fmin(rate, outer_rate) : outer_rate;
        latency_s += outer->latency_s * (double)(domains - 1);
    }
    return latency_s + sent_bytes / rate;
}

static double all_to_all_bound_s(const struct network *network, struct group group, double bytes) {
    const struct cluster *const cluster = network->cluster;
    const double n = (double)group.ranks;
    const double inside = (double)group_ranks_per_domain(cluster, group);
    const struct tier *const inner = &cluster->tiers[0];
    double time_s = inside > 1.0
                        ? inner->latency_s + bytes * (inside - 1.0) / n /
                                                 (network->intra_share * inner->bytes_per_s)
                        : 0.0;
    if (n > inside) {
        const struct tier *const outer = cluster_tier_for(cluster, group.ranks * group.stride);
        time_s += outer->latency_s +
                  bytes * (n - inside) / n / (network->inter_share * outer->bytes_per_s);
    }
    return time_s;
}

double collective_time_s(const struct network *network, enum collective_kind kind,
                         struct group group, double bytes, struct lookup_count *lookups) {
    const struct calibration *const calibration = network->calibration;
    if (group.ranks <= 1 || !(bytes > 0.0))
        return 0.0;
    const int inside = group_ranks_per_domain(network->cluster, group);
    const double sent_bytes = bytes * bus_factor(kind, group.ranks);
    const struct collective_curve *curve = find(calibration, kind, group.ranks, inside);
    if (curve)
        return sent_bytes / curve_at(&curve->bus, bytes, lookups);
    if (lookups)
        lookups->tag[LOOKUP_OUTSIDE]++;
    const bool is_ring = kind != COLLECTIVE_ALL_TO_ALL && kind != COLLECTIVE_POINT_TO_POINT;
    if (is_ring) {
        curve = widest_ring(calibration, kind, group.ranks, inside);
        return curve ? sent_bytes / curve_at(&curve->bus, bytes, NULL)
                     : ring_bound_s(network, group, sent_bytes);
    }
    if (kind == COLLECTIVE_ALL_TO_ALL)
        return all_to_all_bound_s(network, group, bytes);
    return ring_bound_s(network, group, sent_bytes);
}
