// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Why a declared space holds no plan: the limit that binds, with its figures, and the least number
 * of GPUs of this kind that could hold some candidate.
 */
#ifndef MOSAIC_PLAN_SHORTFALL_H
#define MOSAIC_PLAN_SHORTFALL_H

#include "plan/search.h"
#include "plan/stage_need.h"

enum shortfall_limit {
    SHORTFALL_MEMORY,
    SHORTFALL_LAYOUT,
    SHORTFALL_TOKENS,
    SHORTFALL_TARGET,
    SHORTFALL_MFU
};

/* Leanest: the least of the larger need, of devices or of hosts, each by its share of what there
 * is. */
struct shortfall {
    enum shortfall_limit limit;
    /* Of the leanest layout's fullest stage, per GPU; INFINITY when none is legal. */
    double needed_bytes, capacity_bytes;
    /* Where not the devices but the hosts are too small for it, per node; else 0. */
    double host_needed_bytes, host_capacity_bytes;
    int gpus, gpus_needed;                           /* 0: not below the largest count tried */
    int gpus_tried;                                  /* the largest */
    double tokens_per_active, tokens_per_active_min; /* best reachable, and asked for */
    double days_needed;                              /* to reach the least ratio; 0 when unknown */
    double target_loss, least_loss;   /* SHORTFALL_TARGET: asked for, and the least in reach */
    char first_rule[STATUS_TEXT_MAX]; /* SHORTFALL_LAYOUT: the arithmetic of one refusal */
};

const char *shortfall_name(enum shortfall_limit limit);
MOSAIC_MUST_USE enum mosaic_status shortfall_find(const struct problem *problem,
                                                  const struct search_result *search,
                                                  struct shortfall *out, struct status_error *err);

/* Fills what is needed and the capacities from a layout's need. */
void shortfall_need(const struct problem *problem, const struct stage_need *need,
                    struct shortfall *out);

/* The least number of GPUs of the problem's kind that holds one geometry in some declared layout:
 * fills what is needed, the capacities and the gpus.  Every number of nodes from the problem's own
 * on is tried, by memory alone. */
void shortfall_gpus(const struct problem *problem, const struct geometry *g, struct shortfall *out);

#endif
