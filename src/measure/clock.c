// SPDX-License-Identifier: GPL-3.0-or-later
/* Slices of waiting. */
#include "measure/clock.h"

#include <math.h>
#include <stddef.h>
#include <time.h>

enum { SLICE_MS = 50 };

int clock_wait_ms(double deadline_s) {
    const double left_ms = (deadline_s - clock_now_s()) * 1e3;
    return left_ms <= 0.0 ? 0 : left_ms < SLICE_MS ? (int)ceil(left_ms) : SLICE_MS;
}

void clock_sleep_s(double seconds) {
    struct timespec rest = {.tv_sec = (time_t)seconds};
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    (void)nanosleep(&rest, NULL);
}
