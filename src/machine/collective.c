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

double collective_bus_factor(enum collective_kind kind, int ranks) {
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

/* The curve of these ranks with so many in a domain; else the nearest ones of fewer and of more
 * ranks that cross domains as well. */
struct curves {
    const struct collective_curve *exact, *shorter, *longer;
};

static void find(const struct calibration *calibration, struct group group, int inside,
                 struct curves of_kind[COLLECTIVE_KINDS]) {
    for (int i = 0; i < calibration->collective_count; ++i) {
        const struct collective_curve *const c = &calibration->collective[i];
        if (c->ranks_per_domain != inside)
            continue;
        struct curves *const found = &of_kind[c->kind];
        if (c->ranks == group.ranks)
            found->exact = found->exact ? found->exact : c;
        else if (c->ranks <= inside || group.ranks <= inside)
            continue;
        else if (c->ranks > group.ranks)
            found->longer = !found->longer || c->ranks < found->longer->ranks ? c : found->longer;
        else if (!found->shorter || c->ranks > found->shorter->ranks)
            found->shorter = c;
    }
}

static bool has_kind(const struct calibration *calibration, enum collective_kind kind) {
    for (int i = 0; i < calibration->collective_count; ++i)
        if (calibration->collective[i].kind == kind)
            return true;
    return false;
}

bool collective_is_measured(const struct network *network, enum collective_kind kind,
                            struct group group) {
    struct curves of_kind[COLLECTIVE_KINDS] = {{NULL, NULL, NULL}};
    if (group.ranks <= 1 || !has_kind(network->calibration, kind))
        return true;
    find(network->calibration, group, group_ranks_per_domain(network->cluster, group), of_kind);
    return of_kind[kind].exact != NULL;
}

/* A ring's rate and latency from its links. */
static void bound_ring(const struct network *network, struct group group, int inside,
                       struct collective_path *path) {
    const struct cluster *const cluster = network->cluster;
    const struct tier *const inner = &cluster->tiers[0];
    path->rate_bytes_per_s = network->intra_share * inner->bytes_per_s;
    path->latency_s = inner->latency_s * (double)(inside - 1);
    const int domains = (group.ranks + inside - 1) / inside;
    if (domains <= 1)
        return;
    const struct tier *const outer = cluster_tier_for(cluster, group.ranks * group.stride);
    const double outer_rate = (double)inside * network->inter_share * outer->bytes_per_s;
    path->rate_bytes_per_s = inside > 1 ? fmin(path->rate_bytes_per_s, outer_rate) : outer_rate;
    path->latency_s += outer->latency_s * (double)(domains - 1);
}

static void bound_all_to_all(const struct network *network, struct group group,
                             struct collective_path *path) {
    const struct tier *const inner = &network->cluster->tiers[0];
    const struct tier *const outer = cluster_tier_for(network->cluster, group.ranks * group.stride);
    path->inner_bytes_per_s = network->intra_share * inner->bytes_per_s;
    path->inner_latency_s = inner->latency_s;
    path->outer_bytes_per_s = network->inter_share * outer->bytes_per_s;
    path->latency_s = outer->latency_s;
}

/* The part of the bus bandwidth that does not depend on how many ranks there are. */
static double steady_share(enum collective_kind kind, int ranks, int inside) {
    const double n = (double)ranks, g = (double)inside;
    return kind == COLLECTIVE_ALL_TO_ALL ? (n - g) / (n - 1.0) : 1.0;
}

/* No faster than other ranks that were measured. */
static void hold_to(enum collective_kind kind, struct group group, int inside,
                    const struct collective_curve *measured, struct collective_path *path) {
    path->other = &measured->bus;
    path->rate_factor =
        steady_share(kind, measured->ranks, inside) / steady_share(kind, group.ranks, inside);
}

/* A rate between two measured ones. */
static void bring_between(enum collective_kind kind, struct group group, int inside,
                          const struct curves *found, struct collective_path *path) {
    const double ranks = (double)found->shorter->ranks;
    const double shorter = steady_share(kind, found->shorter->ranks, inside);
    const double longer = steady_share(kind, found->longer->ranks, inside);
    path->curve = &found->shorter->bus;
    path->other = &found->longer->bus;
    path->other_weight =
        log((double)group.ranks / ranks) / log((double)found->longer->ranks / ranks);
    path->rate_factor = pow(shorter, 1.0 - path->other_weight) * pow(longer, path->other_weight) /
                        steady_share(kind, group.ranks, inside);
}

/* Of ranks that were not measured; a ring beyond the widest one keeps its rate. */
static void take_nearest(enum collective_kind kind, struct group group, int inside,
                         const struct curves *found, struct collective_path *path) {
    if (kind == COLLECTIVE_POINT_TO_POINT)
        return;
    if (found->shorter && found->longer)
        bring_between(kind, group, inside, found, path);
    else if (found->longer)
        hold_to(kind, group, inside, found->longer, path);
    else if (found->shorter && path->is_ring)
        path->curve = &found->shorter->bus;
    else if (found->shorter)
        hold_to(kind, group, inside, found->shorter, path);
}

static struct collective_path path_of(const struct network *network, enum collective_kind kind,
                                      struct group group, int inside, const struct curves *found) {
    struct collective_path path = {.ranks = (double)group.ranks,
                                   .inside = (double)inside,
                                   .bus = collective_bus_factor(kind, group.ranks),
                                   .is_measured = found->exact != NULL,
                                   .is_ring = kind != COLLECTIVE_ALL_TO_ALL};
    if (found->exact)
        path.curve = &found->exact->bus;
    else
        take_nearest(kind, group, inside, found, &path);
    if (path.curve)
        return path;
    if (path.is_ring)
        bound_ring(network, group, inside, &path);
    else
        bound_all_to_all(network, group, &path);
    return path;
}

void collective_paths_of(const struct network *network, struct group group,
                         const enum collective_kind *kinds, int count,
                         struct collective_path *out) {
    struct curves of_kind[COLLECTIVE_KINDS] = {{NULL, NULL, NULL}};
    int inside = 1;
    if (group.ranks > 1) {
        inside = group_ranks_per_domain(network->cluster, group);
        find(network->calibration, group, inside, of_kind);
    }
    for (int i = 0; i < count; ++i)
        out[i] = group.ranks > 1 ? path_of(network, kinds[i], group, inside, &of_kind[kinds[i]])
                                 : (struct collective_path){.ranks = 1.0};
}

static double all_to_all_s(const struct collective_path *p, double bytes) {
    double time_s = p->inside > 1.0 ? p->inner_latency_s + bytes * (p->inside - 1.0) / p->ranks /
                                                               p->inner_bytes_per_s
                                    : 0.0;
    if (p->ranks > p->inside)
        time_s += p->latency_s + bytes * (p->ranks - p->inside) / p->ranks / p->outer_bytes_per_s;
    return time_s;
}

/* Between two curves, at a size that both hold or not. */
static double between_s(const struct collective_path *p, double bytes,
                        struct lookup_count *lookups) {
    struct lookup_count both = {{0}};
    const double narrow = log(curve_at(p->curve, bytes, &both));
    const double wide = log(curve_at(p->other, bytes, &both));
    if (lookups)
        lookups->tag[both.tag[LOOKUP_OUTSIDE] > 0 ? LOOKUP_OUTSIDE : LOOKUP_INTERPOLATED]++;
    return bytes * p->bus / (p->rate_factor * exp(narrow + p->other_weight * (wide - narrow)));
}

static double bound_s(const struct collective_path *p, double bytes) {
    const double links_s =
        p->is_ring ? p->latency_s + bytes * p->bus / p->rate_bytes_per_s : all_to_all_s(p, bytes);
    if (!p->other)
        return links_s;
    return fmax(links_s, bytes * p->bus / (p->rate_factor * curve_at(p->other, bytes, NULL)));
}

double collective_path_s(const struct collective_path *path, double bytes,
                         struct lookup_count *lookups) {
    if (path->ranks <= 1.0 || !(bytes > 0.0))
        return 0.0;
    if (path->is_measured)
        return bytes * path->bus / curve_at(path->curve, bytes, lookups);
    if (path->curve && path->other)
        return between_s(path, bytes, lookups);
    if (lookups)
        lookups->tag[LOOKUP_OUTSIDE]++;
    if (path->curve)
        return bytes * path->bus / curve_at(path->curve, bytes, NULL);
    return bound_s(path, bytes);
}

double collective_time_s(const struct network *network, enum collective_kind kind,
                         struct group group, double bytes, struct lookup_count *lookups) {
    if (group.ranks <= 1 || !(bytes > 0.0))
        return 0.0;
    struct collective_path path;
    collective_paths_of(network, group, &kind, 1, &path);
    return collective_path_s(&path, bytes, lookups);
}
