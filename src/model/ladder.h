// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The paper's ladder (arXiv 2608.10605, section 7.1 and Table 9): seed q gives 4q layers, 4q heads
 * of width 128, hidden 512 q, d_ff = 2.5 d, expert width d_ff / G, 8 KV heads, one shared expert,
 * first layer dense, SwiGLU.
 */
#ifndef MOSAIC_MODEL_LADDER_H
#define MOSAIC_MODEL_LADDER_H

#include "model/geometry.h"

/* Odd seeds, which the paper's sweep has too, give heads that 8 does not divide: they count, and an
 * engine that needs whole groups must refuse them.
 * The head is untied.  Fails when G does not divide d_ff or the shape is out of range. */
MOSAIC_MUST_USE enum mosaic_status ladder_geometry(int q, int experts, int top_k, int granularity,
                                                   int vocab, struct geometry *out,
                                                   struct status_error *err);

#endif
