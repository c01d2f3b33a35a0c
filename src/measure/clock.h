// SPDX-License-Identifier: GPL-3.0-or-later
/* How long a poll may wait: until a deadline, but never so long that a stop goes unseen. */
#ifndef MOSAIC_MEASURE_CLOCK_H
#define MOSAIC_MEASURE_CLOCK_H

#include "base/clock.h"

/* Milliseconds for poll(): 0 once the deadline has passed. */
int clock_wait_ms(double deadline_s);
void clock_sleep_s(double seconds);

#endif
