// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Time of one collective of a process group on a cluster.  A measured curve of the same kind, ranks
 * and placement is used where there is one.  Across domains, between a narrower and a wider group
 * that were measured, ln rate follows ln ranks, with the rate that does not depend on their number:
 *   rings:              bus bandwidth (flat where bytes decide, 1 / ranks where latency does)
 *   all-to-all:         what a rank sends over its outer link, bus (n - g) / (n - 1), g in a domain
 * Otherwise the links bound it:
 *   ring over domains:  bus = min(share * inner link, members per domain * share * outer link)
 *   all-to-all:         inner and outer traffic one after the other
 * (a ring moves each byte once per domain, so the members of a domain pool their outer links; an
 * all-to-all cannot).  Beyond the widest measured ring its rate holds; an all-to-all of more ranks,
 * and whatever is of fewer than were measured, is thought no faster.  Such a look-up is tagged
 * outside.
 */
#ifndef MOSAIC_MACHINE_COLLECTIVE_H
#define MOSAIC_MACHINE_COLLECTIVE_H

#include "machine/calibration.h"
#include "machine/cluster.h"

/* A process group of `ranks` members, `stride` GPUs apart. */
struct group {
    int ranks;
    int stride;
};

/* Members of the group that share one innermost domain (at least 1). */
int group_ranks_per_domain(const struct cluster *cluster, struct group group);
/* Innermost domains that the group touches. */
int group_domains(const struct cluster *cluster, struct group group);

/* A cluster's links with what has been measured of them, and the share of a link's bandwidth that
 * counts where nothing has. */
struct network {
    const struct cluster *cluster;
    const struct calibration *calibration;
    double intra_share, inter_share;
};
struct network network_of(const struct cluster *cluster, const struct calibration *calibration);

/* Share of the buffer that one rank sends, in NCCL's convention busbw = algbw * factor. */
double collective_bus_factor(enum collective_kind kind, int ranks);

/* How a group's collectives of one kind travel, resolved once for many sizes. */
struct collective_path {
    const struct curve *curve; /* measured, of these ranks or of fewer; or NULL */
    const struct curve *other; /* with `curve` the rate lies between, else no higher; or NULL */
    double other_weight;       /* of ln rate, between the two */
    double rate_factor;        /* on the rate between, or of the other one */
    bool is_measured;          /* of these very ranks */
    bool is_ring;              /* else inner and outer traffic one after the other */
    double ranks, inside;      /* members, and of them in one domain */
    double bus;                /* share of the buffer that one rank sends */
    double rate_bytes_per_s;   /* of a ring */
    double outer_bytes_per_s;  /* of an all-to-all; the same inside its domain: */
    double inner_bytes_per_s;
    double latency_s, inner_latency_s; /* ring or outer; inner */
};
/* One path for each of several kinds. */
void collective_paths_of(const struct network *network, struct group group,
                         const enum collective_kind *kinds, int count, struct collective_path *out);
double collective_path_s(const struct collective_path *path, double bytes,
                         struct lookup_count *lookups);

/* Seconds for `bytes` (whole buffer on one rank, as in struct collective_curve); 0 for one rank. */
double collective_time_s(const struct network *network, enum collective_kind kind,
                         struct group group, double bytes, struct lookup_count *lookups);
/* Whether this kind has been measured for these ranks and this placement; that it lies between two
 * that were does not count.  A calibration without
 * any curve of the kind singles out no rank count: all of them are estimates, and all count. */
bool collective_is_measured(const struct network *network, enum collective_kind kind,
                            struct group group);

#endif
