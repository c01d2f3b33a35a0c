// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-probe/1 on standard input and output: a request a line, an answer a line.  A refused
 * request leaves the program running, unless the device is lost.
 */
#ifndef MOSAIC_CALIBRATION_SERVE_H
#define MOSAIC_CALIBRATION_SERVE_H

#include "probe.h"

/* The device is open.  Returns the exit status. */
int serve_run(struct probe *probe);

#endif
