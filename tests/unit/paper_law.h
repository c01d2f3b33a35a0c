// SPDX-License-Identifier: GPL-3.0-or-later
//
// The published law (arXiv 2608.10605, Table 2 and Tables 6-8), as the law tests use it.
#ifndef MOSAIC_TESTS_PAPER_LAW_H
#define MOSAIC_TESTS_PAPER_LAW_H

#include "law/law.h"

static const struct law paper_law = {
    .name = "mosaic-2608.10605",
    .a = 8.462,
    .b = 88.32,
    .c = 0.1828,
    .j = 0.7123,
    .e = 0.3129,
    .alpha = 0.1048,
    .beta = 0.2070,
    .lambda = 0.1249,
    .delta = 0.5567,
    .gamma = 0.1702,
    .eta = 0.9513,
    .n_total = {0.22e9, 79.24e9},
    .n_active = {0.104e9, 2.72e9},
    .tokens = {2.88e9, 56.38e9},
    .sparsity = {0.499, 0.981},
    .granularity = {1, 8},
    .tokens_per_active = {10.8, 70},
};

#endif
