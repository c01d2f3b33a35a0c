// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Keys that a causal query sees, times 2: the mean over a sequence, and the mean over the last of
 * `ranks` equal parts, which sees the most.  A window caps the keys of one query; 0: none.
 */
#ifndef MOSAIC_STEP_CAUSAL_SPAN_H
#define MOSAIC_STEP_CAUSAL_SPAN_H

double causal_span(double sequence, double window);
double causal_span_last(double sequence, double window, int ranks);

#endif
