// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Zero bubble (ZB-H1, arXiv 2401.10241) and DualPipe (arXiv 2412.19437) run one chunk a stage over
 * at least two stages.  DualPipe feeds both ends, each with half of the micro-batches and stages,
 * and fills the pipe from both: PP even, micro-batches even and at least 2 PP.
 */
#include "step/schedule_rules.h"

static enum mosaic_status check_dualpipe(const struct mesh *m, struct status_error *err) {
    if (m->pp % 2 != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "schedule dualpipe needs an even PP, but PP %d mod 2 = 1", m->pp);
    if (m->micro_batches < 2 * m->pp)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "schedule dualpipe needs 2 x PP %d = %d micro-batches or more, but there "
                          "are %d",
                          m->pp, 2 * m->pp, m->micro_batches);
    if (m->micro_batches % 2 != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "schedule dualpipe needs even micro-batches, but %d mod 2 = 1",
                          m->micro_batches);
    return MOSAIC_OK;
}

enum mosaic_status mesh_check_schedule(const struct mesh *m, struct status_error *err) {
    if (m->schedule != SCHEDULE_ZERO_BUBBLE && m->schedule != SCHEDULE_DUALPIPE)
        return MOSAIC_OK;
    const char *const name = schedule_name(m->schedule);
    if (m->vpp != 1)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "schedule %s runs one chunk a stage: VPP %d is not 1", name, m->vpp);
    if (m->pp < 2)
        return status_set(err, MOSAIC_BAD_INPUT, "schedule %s needs PP > 1, not PP %d", name,
                          m->pp);
    return m->schedule == SCHEDULE_DUALPIPE ? check_dualpipe(m, err) : MOSAIC_OK;
}
