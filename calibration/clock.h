// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Clocks and power of the device through NVML, where the driver brings it; otherwise nothing is
 * known and the figures are NaN.
 */
#ifndef MOSAIC_CALIBRATION_CLOCK_H
#define MOSAIC_CALIBRATION_CLOCK_H

#include "probe.h"

enum { CLOCK_TEXT = 96 };

struct clock_reading {
    double sm_hz, memory_hz, power_w, temperature_c;
};
struct clock_limits {
    double sm_hz, memory_hz, power_w;
};

/* Of the driver; "" where unknown. */
void clock_driver_version(char text[CLOCK_TEXT]);
struct clock_reading clock_read(const struct probe *probe);
struct clock_limits clock_limits(const struct probe *probe);

#endif
