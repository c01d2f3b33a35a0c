// SPDX-License-Identifier: GPL-3.0-or-later
/* Seconds of a clock that never runs back, and whether somebody has asked for an end. */
#ifndef MOSAIC_BASE_CLOCK_H
#define MOSAIC_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>

/* Since some fixed moment; 0 where the system has no such clock. */
double clock_now_s(void);
/* stop may be NULL: nobody can ask. */
bool clock_stopped(const atomic_bool *stop);

#endif
