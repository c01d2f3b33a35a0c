// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Zero bubble (ZB-H1, arXiv 2401.10241) and DualPipe (arXiv 2412.19437) run one chunk a stage over
 * at least two stages.  DualPipe feeds both ends, each with half of the micro-batches and stages,
 * and fills the pipe from both: PP even, micro-batches even and at least 2 PP.
 */
#include "step/schedule_rules.h"

static bool has_one_chunk(const struct mesh *m) {
    return m->schedule == SCHEDULE_ZERO_BUBBLE || m->schedule == SCHEDULE_DUALPIPE;
}

enum mosaic_status schedule_one_chunk(const struct mesh *m, struct status_error *err) {
    if (!has_one_chunk(m) || m->vpp == 1)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "schedule %s runs one chunk a stage: VPP %d is not 1",
                      schedule_name(m->schedule), m->vpp);
}

enum mosaic_status schedule_stages(const struct mesh *m, struct status_error *err) {
    if (!has_one_chunk(m) || m->pp >= 2)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "schedule %s needs PP > 1, not PP %d",
                      schedule_name(m->schedule), m->pp);
}

enum mosaic_status schedule_even_stages(const struct mesh *m, struct status_error *err) {
    if (m->schedule != SCHEDULE_DUALPIPE || m->pp < 2 || m->pp % 2 == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "schedule dualpipe needs an even PP, but PP %d mod 2 = 1", m->pp);
}

enum mosaic_status schedule_enough_batches(const struct mesh *m, struct status_error *err) {
    if (m->schedule != SCHEDULE_DUALPIPE || m->micro_batches >= 2 * m->pp)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "schedule dualpipe needs 2 x PP %d = %d micro-batches or more, but there "
                      "are %d",
                      m->pp, 2 * m->pp, m->micro_batches);
}

enum mosaic_status schedule_even_batches(const struct mesh *m, struct status_error *err) {
    if (m->schedule != SCHEDULE_DUALPIPE || m->micro_batches % 2 == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "schedule dualpipe needs even micro-batches, but %d mod 2 = 1",
                      m->micro_batches);
}
