// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A recorded set: samples that somebody published, with where they come from.  It travels as the
 * `record` of a probe's hello, so that a journal of it is played by mosaic-probe-replay and a
 * calibration keeps it as the first of its `measurements`:
 *   {"protocol": ..., "device": {...}, "shapes": "recorded", "record": {"source": ...,
 *    "gemm_includes": "quantise", "origins": {"gemm": {"source": ..., "licence": ...,
 *    "software": ..., "method": ...}, ...}}}
 * The entries of a document follow from it alone, whichever way it came.
 */
#ifndef MOSAIC_DOC_RECORD_H
#define MOSAIC_DOC_RECORD_H

#include "fit/sample_fit.h"

#include <jansson.h>

enum { RECORD_TEXT = 384 };

/* Of the samples of one quantity; "" where nothing is said. */
struct record_origin {
    char source[RECORD_TEXT], licence[RECORD_TEXT], software[RECORD_TEXT], method[RECORD_TEXT];
};

struct record {
    bool is_set;
    bool gemm_quantises;      /* struct sample_facts */
    char source[RECORD_TEXT]; /* of the whole */
    struct record_origin origin[SAMPLE_QUANTITIES];
};

/* Of a hello; one without a record leaves is_set false. */
MOSAIC_MUST_USE enum mosaic_status record_read(const json_t *hello, struct record *out,
                                               struct status_error *err);
/* Whether a line is a hello with a record that can be read. */
bool record_is(const char *line);
/* What a fit of it stands on, whichever way it came; `cluster` is its data sheet, or NULL. */
void record_facts(const struct record *record, const struct cluster *cluster,
                  const struct calibration *base, const char *device, struct sample_facts *out);
/* The hello as a line of its own, without the newline; free() it.  The same record, device and
 * quantities give the same bytes. */
MOSAIC_MUST_USE enum mosaic_status record_hello(const struct record *record, const char *device,
                                                const struct sample *samples, size_t count,
                                                char **text, struct status_error *err);
/* The hello and a line a sample, in the order of their keys; free() it. */
MOSAIC_MUST_USE enum mosaic_status record_journal(const struct record *record, const char *device,
                                                  const struct sample *samples, size_t count,
                                                  char **text, struct status_error *err);
/* The samples in that order; free() it, NULL when memory is short. */
const struct sample **record_order(const struct sample *samples, size_t count);

#endif
