// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Samples of a machine -> the scalars, curves and collectives of a calibration.  Each scalar is the
 * one that its term of the step model (step/kernel.c, step/end_cost.c, ...) takes, fitted by robust
 * least squares of ln(measured / predicted):
 *   GEMM           2 m n k / (share peak) (1+h/m)(1+h/n)(1+h/k) + operands / (hbm.share HBM)
 *   grouped GEMM   the same rate times its share, (1 + half_rows/rows)^exponent, weights each time
 *   attention      causal FLOPs / rate(sequence), and share peak / (1 + half/sequence)
 *   streams        bytes / (share data sheet), AdamW fixed + bytes per parameter
 *   collectives    bus bandwidth by bytes; times first made non-decreasing in size
 * Only what was measured is fitted; what a term needs besides is the base's.  So a sample moves the
 * entries it feeds, and those that stand on them: an entry's `stands_on`.
 */
#ifndef MOSAIC_FIT_SAMPLE_FIT_H
#define MOSAIC_FIT_SAMPLE_FIT_H

#include "machine/calibration.h"
#include "machine/cluster.h"
#include "machine/sample.h"

enum {
    SAMPLE_FIT_ENTRIES = 96,
    SAMPLE_FIT_CHECKS = 48,
    SAMPLE_FIT_NOTES = 128,
    SAMPLE_FIT_TEXT = 384,
    SAMPLE_FIT_STANDS_ON = 4
};

/* Data sheet of what was measured; 0 is not stated, and what needs it is not fitted. */
struct sample_facts {
    char device[64];
    double peak_flop_per_s[PRECISION_COUNT];
    double hbm_bytes_per_s;
    double host_link_bytes_per_s; /* per GPU and direction */
    /* The samples' dtype that the model's bf16 stands for: "bf16"; "fp32" on a processor. */
    const char *base_dtype;
    const struct cluster *cluster;  /* its links, to doubt what exceeds them; may be NULL */
    bool fits_link_shares;          /* of collectives, beside their curves; needs the cluster */
    const struct calibration *base; /* complete */
    /* Times of 8- and 4-bit GEMMs hold the quantisation of their input. */
    bool gemm_quantises;
};
/* Bytes of a number of the base dtype. */
double sample_number_bytes(const struct sample_facts *facts);
/* Of a cluster; base_dtype "bf16". */
void sample_facts_of(const struct cluster *cluster, const struct calibration *base,
                     struct sample_facts *out);

enum sample_entry_kind { SAMPLE_ENTRY_SCALAR, SAMPLE_ENTRY_CURVE, SAMPLE_ENTRY_COLLECTIVE };

struct sample_entry {
    enum sample_entry_kind kind;
    int id;                        /* enum scalar, curve_quantity; index of a collective */
    enum sample_quantity quantity; /* of its samples; SAMPLE_QUANTITIES: it has none */
    double value;                  /* of a scalar; six digits */
    size_t samples, outliers;      /* used, and of them far off */
    double spread;                 /* robust sd of ln(measured / fitted); 0: one each */
    double latency_s, asymptote;   /* of a collective; bytes/s of the bus */
    enum scalar stands_on[SAMPLE_FIT_STANDS_ON]; /* scalars of the base or fitted here */
    int stands_on_count;
    bool is_extrapolated; /* the value lies beyond what was measured */
    char method[SAMPLE_FIT_TEXT], range[SAMPLE_FIT_TEXT];
};

enum sample_note_kind {
    SAMPLE_NOTE_OUTLIER,
    SAMPLE_NOTE_RANGE,        /* a value that the model does not take: not written */
    SAMPLE_NOTE_EXTRAPOLATED, /* beyond what was measured */
    SAMPLE_NOTE_FALLING,      /* time falls with size */
    SAMPLE_NOTE_LINK,         /* more than a link carries, or not what it seems */
    SAMPLE_NOTE_LEFT_OUT      /* samples that feed nothing, and why */
};
const char *sample_note_name(enum sample_note_kind kind);

struct sample_note {
    enum sample_note_kind kind;
    char text[SAMPLE_FIT_TEXT];
};

/* Samples that feed nothing, held against what the entries say of them. */
struct sample_check {
    enum sample_quantity quantity;
    char name[96]; /* "moe_layer backward" */
    char text[96]; /* what the prediction is */
    size_t samples;
    double error, worst;  /* predicted / measured - 1: the median, and the farthest off */
    struct sample sample; /* the longest one */
    double predicted_s;   /* of it */
};

struct sample_fit {
    /* The base's scalars with the fitted ones over them; no curve but the fitted ones. */
    struct calibration calibration;
    size_t entry_count;
    struct sample_entry entry[SAMPLE_FIT_ENTRIES];
    size_t check_count;
    struct sample_check check[SAMPLE_FIT_CHECKS];
    size_t note_count, notes_dropped;
    struct sample_note note[SAMPLE_FIT_NOTES];
    size_t samples, used; /* given, and that feed an entry */
    size_t checked;       /* that a check stands for */
};

/* The order of the samples does not count; none of them is a fit without entries. */
MOSAIC_MUST_USE enum mosaic_status sample_fit_run(const struct sample *samples, size_t count,
                                                  const struct sample_facts *facts,
                                                  struct sample_fit **out,
                                                  struct status_error *err);
void sample_fit_free(struct sample_fit *fit);
/* What the step model says of an expert layer (quantity moe_layer) by the fitted calibration; false
 * where the facts or the all-to-all that it needs are not known. */
bool sample_layer_seconds(const struct sample_fit *fit, const struct sample_facts *facts,
                          const struct sample *sample, double *seconds);
/* One more scalar, found without samples.  MOSAIC_BAD_INPUT out of its range. */
MOSAIC_MUST_USE enum mosaic_status sample_fit_put(struct sample_fit *fit, enum scalar id,
                                                  double value, const char *method,
                                                  const char *range, struct status_error *err);
/* Key of an entry: "gemm.bf16.share", "all_reduce over 8 ranks, 8 in a domain". */
int sample_entry_name(const struct sample_fit *fit, const struct sample_entry *entry, char *text,
                      size_t size);

#endif
