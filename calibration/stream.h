// SPDX-License-Identifier: GPL-3.0-or-later
/* Device memory streamed by a kernel: to = from, or to = from + 3 more. */
#ifndef MOSAIC_CALIBRATION_STREAM_H
#define MOSAIC_CALIBRATION_STREAM_H

#include "device.h"

struct stream_blocks {
    size_t packs; /* of 16 bytes, in each block */
    unsigned sets;
    float4 *to, *from, *more; /* the last NULL for a copy; sets one after the other */
};

/* `bytes` are read and written together; as many sets as overflow the cache. */
struct stream_blocks stream_take(struct probe *probe, size_t bytes, bool is_triad);
void stream_queue(struct probe *probe, const struct stream_blocks *blocks, cudaStream_t stream);

#endif
