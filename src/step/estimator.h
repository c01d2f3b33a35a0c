// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One evaluator, two settings.  `default` is physically right where the paper's released estimator
 * is not; `published` turns the listed switches on and reads the release's constants from the
 * calibration (arXiv 2608.10605 section 5; differences listed in mosaic-model(7)).
 */
#ifndef MOSAIC_STEP_ESTIMATOR_H
#define MOSAIC_STEP_ESTIMATOR_H

#include <stdbool.h>

/* X(member, text): each is off in `default` and on in `published`. */
#define ESTIMATOR_SWITCHES(X)                                                                      \
    X(rows_without_ep, "rows per expert leave out what EP peers send (tokens x K / E)")            \
    X(grouped_curve, "grouped GEMM by the published utilisation table, flat beyond its last row")  \
    X(launches_ignore_recompute, "recomputation launches nothing")                                 \
    X(pipeline_fraction,                                                                           \
      "bubble = (PP - 1) / (VPP n_mb) of the block time, plus the last stage's")                   \
    X(chi, "the fitted correction chi multiplies the step")                                        \
    X(dp_average, "exposed DP time averaged over stages, only the first one fully exposed")        \
    X(balanced_experts, "routing imbalance ignored")                                               \
    X(no_straggler, "no straggler growth with the number of GPUs")                                 \
    X(hidden_hand_off, "PP hand-offs once per direction, unaffected by overlap")                   \
    X(link_peak, "links at their data-sheet bandwidth where no collective has been measured")      \
    X(kernel_rates, "GEMMs at the rate of kernels that run alone")                                 \
    X(release_memory,                                                                              \
      "memory as released: gradients and expert states sharded over all of DP, no logits")

struct estimator {
#define ESTIMATOR_MEMBER(name, text) bool name;
    ESTIMATOR_SWITCHES(ESTIMATOR_MEMBER)
#undef ESTIMATOR_MEMBER
};

enum { ESTIMATOR_SWITCH_COUNT = sizeof(struct estimator) / sizeof(bool) };

struct estimator estimator_default(void);
struct estimator estimator_published(void);
/* Name and text of switch i, and whether it is on. */
const char *estimator_switch(const struct estimator *e, int i, const char **text, bool *is_on);

#endif
