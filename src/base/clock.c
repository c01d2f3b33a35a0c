// SPDX-License-Identifier: GPL-3.0-or-later
/* The monotonic clock. */
#include "base/clock.h"

#include <time.h>

double clock_now_s(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0.0;
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool clock_stopped(const atomic_bool *stop) {
    return stop && atomic_load(stop);
}
