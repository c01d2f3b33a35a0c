// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a fit moves: parameters in a frame centred on the data, which of them are free, and what was
 * left out because the data cannot tell it: a variable that never changes, a variable that follows
 * another, a term that has become like another one, or a term that vanished on the way.
 */
#ifndef MOSAIC_FIT_FIT_MODEL_H
#define MOSAIC_FIT_FIT_MODEL_H

#include "fit/fit_data.h"

struct fit_model {
    struct form_frame frame;
    double u[FORM_MAX_COEFFICIENTS];
    bool is_free[FORM_MAX_COEFFICIENTS];
};

/* Coefficients given by the user. */
struct fit_fixed {
    bool is_fixed[FORM_MAX_COEFFICIENTS];
    double value[FORM_MAX_COEFFICIENTS];
};

enum fit_drop_reason {
    FIT_DROP_CONSTANT, /* its variable is the same in all runs */
    FIT_DROP_ALIAS,    /* its variable follows another one */
    FIT_DROP_SAME,     /* its term has become like another term */
    FIT_DROP_VANISHED, /* its term went to 0 */
    FIT_DROP_FLAT      /* its exponent went to 0 */
};

struct fit_drop {
    size_t coefficient; /* of a term: its amplitude */
    bool is_term;
    enum fit_drop_reason reason;
    enum form_variable variable, other; /* of the first two reasons */
    size_t term;                        /* the term that holds it now, of FIT_DROP_SAME */
};
struct fit_drops {
    struct fit_drop items[FORM_MAX_COEFFICIENTS + FORM_MAX_TERMS];
    size_t count;
};

/* The model of these data; the starting values of free parameters are not set.  Fails when a fixed
 * coefficient cannot be, or when nothing in the table varies. */
MOSAIC_MUST_USE enum mosaic_status
fit_model_prepare(const struct fit_data *data, const struct fit_fixed *fixed,
                  struct fit_model *model, struct fit_drops *drops, struct diag_list *diags);
size_t fit_model_free_count(const struct fit_model *model);
/* Leave out terms that have vanished and exponents that have gone flat; true when any was. */
bool fit_model_prune(struct fit_model *model, const struct fit_data *data, struct fit_drops *drops);
/* The same for one free amplitude or exponent, whatever its value. */
void fit_model_leave_out(struct fit_model *model, const struct fit_data *data, size_t coefficient,
                         struct fit_drops *drops);
/* Says each drop in a sentence. */
void fit_drops_report(const struct fit_drops *drops, const struct fit_data *data,
                      struct diag_list *diags);

#endif
