// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One measurement of a machine, as probes print it and calibration documents keep it: what was
 * timed, under which keys, and the spread of its rounds.  A line of JSON each:
 *   {"quantity": "gemm", "dtype": "bf16", "pass": "forward", "m": 4096, "n": 4096, "k": 4096,
 *    "time_s": {"median": 1e-4, "least": 9e-5, "most": 2e-4}, "rounds": 9, "verified": true}
 * Each quantity has its keys, each with its range or its words: nothing else is accepted.
 * Sizes are elements or bytes, times seconds; `bytes` of a collective is the whole buffer on one
 * rank (all-gather, reduce-scatter: the gathered size), as in struct collective_curve.
 */
#ifndef MOSAIC_MACHINE_SAMPLE_H
#define MOSAIC_MACHINE_SAMPLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { SAMPLE_KEYS_MAX = 10 };

/* X(identifier, name, text) */
#define SAMPLE_QUANTITY_LIST(X)                                                                    \
    X(SAMPLE_GEMM, "gemm", "one dense matrix product, [m, k] x [k, n]")                            \
    X(SAMPLE_GROUPED_GEMM, "grouped_gemm", "one product an expert, [rows, k] x [k, n] each")       \
    X(SAMPLE_ATTENTION, "attention", "the attention core, without projections")                    \
    X(SAMPLE_ELEMENTWISE, "elementwise", "an operator bound by memory, rows x width")              \
    X(SAMPLE_STREAM, "stream", "device memory: bytes read and written")                            \
    X(SAMPLE_SUSTAINED, "sustained", "one GEMM of a loop that lasts `seconds`, at its end")        \
    X(SAMPLE_LAUNCH, "launch", "an empty kernel, one of `kernels` in a row")                       \
    X(SAMPLE_HOST_COPY, "host_copy", "a copy between device and pinned host memory")               \
    X(SAMPLE_ADAMW, "adamw", "one fused optimizer step over `parameters`")                         \
    X(SAMPLE_RING_STRIP, "ring_strip", "one strip of the ring vocabulary projection")              \
    X(SAMPLE_COLLECTIVE, "collective", "one collective among `ranks`")                             \
    X(SAMPLE_OVERLAP, "overlap", "a GEMM with a collective under it: `alone` without it")          \
    X(SAMPLE_MOE_LAYER, "moe_layer", "one expert layer: dispatch, experts, combine")

#define SAMPLE_QUANTITY_ENUM(id, name, text) id,
enum sample_quantity { SAMPLE_QUANTITY_LIST(SAMPLE_QUANTITY_ENUM) SAMPLE_QUANTITIES };
#undef SAMPLE_QUANTITY_ENUM

/* A key of a quantity: a whole number within [least, most], or one of `words` (ends with NULL;
 * the value is its place). */
struct sample_key {
    const char *name;
    long long least, most;
    const char *const *words;
    const char *help;
};

struct sample_kind {
    const char *name, *help;
    const struct sample_key *keys;
    int key_count;
};
const struct sample_kind *sample_kind(enum sample_quantity quantity);
/* Place of a key among those of its quantity; -1 when it has none such. */
int sample_key_index(enum sample_quantity quantity, const char *name);

struct sample {
    enum sample_quantity quantity;
    long long value[SAMPLE_KEYS_MAX]; /* in the order of the quantity's keys */
    double median_s, least_s, most_s; /* > 0, finite; least <= median <= most */
    int rounds;                       /* >= 1 */
    bool is_verified;                 /* the probe checked the data that it computed */
};

/* By quantity, then by key values: a total order of what was asked, not of what was measured. */
int sample_compare_keys(const struct sample *a, const struct sample *b);
/* Value of a key by its name; the caller knows that the quantity has it. */
long long sample_value(const struct sample *s, const char *key);

/* One line of JSON, no more; the message names what is missing, unknown or out of range.  Members
 * of `others` (ends with NULL) are passed over. */
MOSAIC_MUST_USE enum mosaic_status sample_parse(const char *line, size_t length,
                                                const char *const *others, struct sample *out,
                                                struct status_error *err);
/* The same for a line that asks, without `time_s`, `rounds` and `verified`: those of `out` are 0.
 */
MOSAIC_MUST_USE enum mosaic_status sample_parse_keys(const char *line, size_t length,
                                                     const char *const *others, struct sample *out,
                                                     struct status_error *err);
/* The keys alone as members of a JSON object, "\"quantity\": ..." without braces, as a probe is
 * asked; the number of characters as of snprintf. */
int sample_print_keys(const struct sample *s, char *text, size_t size);
/* For a person: "gemm bf16 forward m=4096 n=4096 k=4096". */
int sample_print_name(const struct sample *s, char *text, size_t size);
/* The whole sample as an object on one line, without the newline. */
int sample_print(const struct sample *s, char *text, size_t size);

#endif
