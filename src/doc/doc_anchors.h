// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `measured_steps` of a calibration: a few training steps that somebody measured, of which the
 * predictions for their models learn a factor each (step/anchor.h).
 */
#ifndef MOSAIC_DOC_DOC_ANCHORS_H
#define MOSAIC_DOC_DOC_ANCHORS_H

#include "doc/load.h"

/* The list under `measured_steps` of a calibration (a mapping, or NULL) on its own: everything but
 * what a cluster and an engine say.  prefix is the calibration's, "" at a root. */
MOSAIC_MUST_USE enum mosaic_status
doc_anchors_check(struct loader *l, const struct node *calibration, const char *prefix);

/* The same with each step predicted on the problem's cluster, calibration and engine, all of which
 * are bound; problem->workload.anchors borrows what they give, NULL without one. */
MOSAIC_MUST_USE enum mosaic_status doc_anchors_bind(struct loader *l,
                                                    const struct node *calibration,
                                                    const char *prefix, struct problem *problem);

#endif
