// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Series of random values (device.h) in the formats of matrix products, on the device and as the
 * host reads them.  4 bits: two values a byte, the earlier one low.
 */
#ifndef MOSAIC_CALIBRATION_ENCODE_H
#define MOSAIC_CALIBRATION_ENCODE_H

#include "device.h"

/* scale x the series as `type` keeps it; E2M1 takes the nearest in value only roughly. */
void encode_series(struct probe *probe, void *to, size_t count, uint32_t series, float scale,
                   cudaDataType type);
void encode_on_host(float *to, size_t count, uint32_t series, float scale, cudaDataType type);
void encode_constant(struct probe *probe, float *to, size_t count, float value);
/* Waits for the stream; 64, 32 or 16 bits. */
void encode_read(struct probe *probe, const void *from, float *to, size_t count, cudaDataType type);

#endif
