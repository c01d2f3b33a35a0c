// SPDX-License-Identifier: GPL-3.0-or-later
/* The monotonic clock. */
#include "measure/clock.h"

#include <math.h>
#include <stddef.h>
#include <time.h>

enum { SLICE_MS = 50 };

double clock_now_s(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0.0;
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int clock_wait_ms(double deadline_s) {
    const double left_ms = (deadline_s - clock_now_s()) * 1e3;
    return left_ms <= 0.0 ? 0 : left_ms < SLICE_MS ? (int)ceil(left_ms) : SLICE_MS;
}

void clock_sleep_s(double seconds) {
    struct timespec rest = {.tv_sec = (time_t)seconds};
    rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
    (void)nanosleep(&rest, NULL);
}

bool clock_stopped(const atomic_bool *stop) {
    return stop && atomic_load(stop);
}
