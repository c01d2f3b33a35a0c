// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Which chunk of a pipeline holds which layers, as Megatron-LM writes it
 * (--pipeline-model-parallel-layout): E embedding, t transformer layer, m MTP layer, L loss, in the
 * order that a token passes them; | ends a chunk; x*n repeats one character and (...)*n what is in
 * the brackets, which do not nest; commas mean nothing.  Chunk i is on stage i mod PP.
 */
#ifndef MOSAIC_ENGINE_PIPELINE_STRING_H
#define MOSAIC_ENGINE_PIPELINE_STRING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct pipeline_chunk {
    uint16_t layers, mtp;
    bool embedding, loss;
};

/* Of characters when written out: layers, MTP layers, ends and chunks together. */
enum { PIPELINE_MAX_LENGTH = 4096 };

/* Errors say at which character, from 1; err->column has it too.  Layers out of order are errors;
 * what a whole pipeline needs is pipeline_check's. */
MOSAIC_MUST_USE enum mosaic_status pipeline_parse(const char *text, struct pipeline_chunk *chunks,
                                                  size_t capacity, size_t *count,
                                                  struct status_error *err);

/* The shortest text, of equals the one with repetitions furthest back: what it parses to prints the
 * same.  MOSAIC_BAD_INPUT where it does not fit the buffer or is longer than
 * PIPELINE_MAX_LENGTH written out. */
MOSAIC_MUST_USE enum mosaic_status pipeline_print(const struct pipeline_chunk *chunks, size_t count,
                                                  char *buffer, size_t size,
                                                  struct status_error *err);

/* What a pipeline is to hold. */
struct pipeline_need {
    int layers, mtp, pp, vpp;
};
/* PP x VPP chunks, none of them empty, the embedding in the first, the loss in the last, and every
 * layer; the message has the numbers. */
MOSAIC_MUST_USE enum mosaic_status pipeline_check(const struct pipeline_chunk *chunks, size_t count,
                                                  const struct pipeline_need *need,
                                                  struct status_error *err);
/* Holds nothing: engines wait for it for ever. */
bool pipeline_is_empty(const struct pipeline_chunk *chunk);

#endif
