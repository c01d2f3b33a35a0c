// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One cluster as plain data: the device, the node and the network tiers from the inside out.
 * SI units; bandwidths are per GPU and per direction, in bytes per second.
 */
#ifndef MOSAIC_MACHINE_CLUSTER_H
#define MOSAIC_MACHINE_CLUSTER_H

#include "base/status.h"

#include <stdbool.h>

/* Precision of the matrix multiplications; storage and communication follow in step/. */
enum precision { PRECISION_BF16, PRECISION_FP8, PRECISION_MXFP8, PRECISION_NVFP4, PRECISION_COUNT };

const char *precision_name(enum precision precision);

enum { CLUSTER_MAX_TIERS = 4, CLUSTER_MAX_GPUS = 1 << 20 };

struct device {
    char name[64];
    char architecture[32]; /* generation that shares kernels: "hopper"; "" = not stated */
    double peak_flop_per_s[PRECISION_COUNT]; /* dense; 0 when the device has none */
    double memory_bytes;                     /* usable by the training process */
    double hbm_bytes_per_s;                  /* data sheet */
};

struct tier {
    char name[32];
    int domain;         /* GPUs that reach each other through it; the last one spans the cluster */
    double bytes_per_s; /* per GPU and direction */
    double latency_s;
};

struct cluster {
    char name[64];
    struct device device;
    int nodes;
    int gpus_per_node;
    double host_memory_bytes;     /* per node; 0 = not stated */
    double host_link_bytes_per_s; /* per GPU and direction; 0 = not stated */
    struct tier tiers[CLUSTER_MAX_TIERS];
    int tier_count;
    double mtbf_per_node_s;     /* 0 = not stated */
    double price_usd_per_gpu_h; /* 0 = not stated */
    double power_w_per_gpu;     /* 0 = not stated */
};

/* Number of GPUs. */
int cluster_gpus(const struct cluster *c);
/* GPUs of the job that share an innermost domain: where they do not fill the domains, schedulers
 * spread them evenly over as few as hold them, in whole nodes (128 GPUs on domains of 72: 64 and
 * 64), if that comes out even. */
int cluster_domain_in_use(const struct cluster *c);
/* Ranges, tier order, a peak for `precision`; the message has the numbers. */
MOSAIC_MUST_USE enum mosaic_status cluster_check(const struct cluster *c, enum precision precision,
                                                 struct status_error *err);
/* Innermost tier whose domain holds `span` consecutive GPUs. */
const struct tier *cluster_tier_for(const struct cluster *c, int span);

#endif
