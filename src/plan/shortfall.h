// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Why a declared space holds no plan: the limit that binds, with its figures, and the least number
 * of GPUs of this kind that could hold some candidate.
 */
#ifndef MOSAIC_PLAN_SHORTFALL_H
#define MOSAIC_PLAN_SHORTFALL_H

#include "plan/search.h"

enum shortfall_limit { SHORTFALL_MEMORY, SHORTFALL_LAYOUT, SHORTFALL_TOKENS, SHORTFALL_MFU };

struct shortfall {
    enum shortfall_limit limit;
    double needed_bytes, capacity_bytes; /* per GPU, of the fullest stage of the leanest layout */
    int gpus, gpus_needed;               /* 0: not below the largest count tried */
    int gpus_tried;                      /* the largest */
    double tokens_per_active, tokens_per_active_min; /* best reachable, and asked for */
    double days_needed;                              /* to reach the least ratio; 0 when unknown */
    char first_rule[STATUS_TEXT_MAX]; /* SHORTFALL_LAYOUT: the arithmetic of one refusal */
};

const char *shortfall_name(enum shortfall_limit limit);
MOSAIC_MUST_USE enum mosaic_status shortfall_find(const struct problem *problem,
                                                  const struct search_result *search,
                                                  struct shortfall *out, struct status_error *err);

/* The least number of GPUs of the problem's kind that holds one geometry in some declared layout:
 * fills needed_bytes, capacity_bytes and the gpus. */
void shortfall_gpus(const struct problem *problem, const struct geometry *g, struct shortfall *out);

#endif
