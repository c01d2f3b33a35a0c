// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the parts of sample_fit.c share.  A fit picks its rows among the samples, states seconds(p)
 * with p > 0, and is solved in ln p with Huber's loss, whose width follows the spread of the
 * residuals: every row moves the result, none by more than its share.
 */
#ifndef MOSAIC_FIT_SAMPLE_FIT_PARTS_H
#define MOSAIC_FIT_SAMPLE_FIT_PARTS_H

#include "fit/sample_fit.h"

enum { FITTING_PARAMETERS = 3 };

struct fitting {
    const struct sample *sample; /* sorted by keys */
    size_t count;
    const struct sample_facts *facts;
    struct sample_fit *fit;
    bool *is_used, *is_outlier, *is_checked;
    size_t *pick; /* rows of the fit in hand */
    size_t picked;
};

typedef bool fitting_takes(const struct fitting *f, const struct sample *s, long long argument);
typedef double fitting_seconds(const struct fitting *f, const struct sample *s, const double *p);

struct fitting_outcome {
    double p[FITTING_PARAMETERS];
    double spread; /* robust sd of ln(measured / fitted) */
    size_t outliers;
};

/* Rows that a fit takes; how many. */
size_t fitting_pick(struct fitting *f, fitting_takes *takes, long long argument);
/* p holds the start. */
MOSAIC_MUST_USE enum mosaic_status fitting_solve(struct fitting *f, fitting_seconds *seconds,
                                                 size_t parameters, struct fitting_outcome *outcome,
                                                 struct status_error *err);
/* Largest over smallest of a key among the rows picked; and the largest. */
double fitting_breadth(const struct fitting *f, const char *key);
double fitting_most(const struct fitting *f, const char *key);
/* A sample of the same keys but for one, which has this value; NULL without. */
const struct sample *fitting_partner(const struct fitting *f, const struct sample *s,
                                     const char *key, long long value);
const struct sample *fitting_find(const struct fitting *f, const struct sample *keys);
/* Place of a word among those of a key. */
long long fitting_word(enum sample_quantity quantity, const char *key, const char *word);

/* Marks the rows picked as used; the entry has their range.  NULL when there is no room. */
struct sample_entry *fitting_entry(struct fitting *f, enum sample_entry_kind kind, int id,
                                   const struct fitting_outcome *outcome);
/* A scalar of the rows picked, in six digits; one that the model would refuse becomes a note.
 * NULL then. */
struct sample_entry *fitting_scalar(struct fitting *f, enum scalar id, double value,
                                    const struct fitting_outcome *outcome);
void fitting_stands_on(struct sample_entry *entry, enum scalar id);
void fitting_note(struct fitting *f, enum sample_note_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double fitting_rounded(double value);

/* Bytes a second that streaming kernels reach; infinity where no data sheet is. */
double fitting_hbm(const struct fitting *f);
double fitting_scalar_now(const struct fitting *f, enum scalar id);
/* Of a forward attention core under a causal mask: half of all scores. */
double fitting_causal_flop(const struct sample *s);

/* The parts; later ones stand on earlier ones. */
MOSAIC_MUST_USE enum mosaic_status fitting_memory(struct fitting *f, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status fitting_gemm(struct fitting *f, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status fitting_attention(struct fitting *f, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status fitting_operators(struct fitting *f, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status fitting_host(struct fitting *f, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status fitting_collectives(struct fitting *f, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status fitting_link_shares(struct fitting *f, struct status_error *err);
/* Last: of what no part has used. */
MOSAIC_MUST_USE enum mosaic_status fitting_checks(struct fitting *f, struct status_error *err);

#endif
