// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What `serve` can be asked: a quantity of machine/sample.h and how it is measured and checked
 * here.  Everything is taken memory, which the caller releases.  A quantity may be refused for the
 * keys asked (probe_refuse).
 */
#ifndef MOSAIC_CALIBRATION_QUANTITY_H
#define MOSAIC_CALIBRATION_QUANTITY_H

#include "timing.h"

extern "C" {
#include "machine/sample.h"
}

enum { MEASURED_FIGURES = 6, MEASURED_TEXT = 48 };

struct measured {
    struct timing timing; /* time_s is the sample's */
    int rounds;
    const char *how;            /* what did the work, in a few words */
    char kernel[MEASURED_TEXT]; /* where there is a choice: "own", or whose; "" otherwise */
    char instead[PROBE_TEXT];   /* why it is not the better one */
    /* Further members of the answer. */
    int figure_count;
    struct figure figures[MEASURED_FIGURES];
};

struct quantity {
    enum sample_quantity id;
    bool needs_group;
    void (*measure)(struct probe *probe, const struct sample *asked, struct measured *out);
    /* The same code on a small shape against the host, with the words and the switches of `asked`;
     * sizes are the check's own. */
    void (*check)(struct probe *probe, const struct sample *asked);
};

extern const struct quantity gemm_quantity, grouped_gemm_quantity, sustained_quantity,
    attention_quantity, elementwise_quantity, stream_quantity, launch_quantity, host_copy_quantity,
    adamw_quantity, ring_strip_quantity, moe_layer_quantity;
#ifdef PROBE_NCCL
extern const struct quantity collective_quantity, overlap_quantity;
#endif

/* Ends with NULL. */
extern const struct quantity *const quantities[];

/* NULL where this build has it not. */
const struct quantity *quantity_of(enum sample_quantity id);

/* Fills time, rounds and whether it is verified; the check runs once for each choice of words.
 * Refuses what differs from the host. */
void quantity_measure(struct probe *probe, struct sample *asked, struct measured *out);
/* Checks that depend on the group are run anew. */
void quantity_forget_group(void);

/* Every check, a line each, then a summary; false when one differs or fails. */
bool quantity_self_check(struct probe *probe);

/* Shorthand. */
long asked_value(const struct sample *asked, const char *key);
const char *asked_word(const struct sample *asked, const char *key);
void measured_add(struct measured *out, const char *name, double value);

#endif
