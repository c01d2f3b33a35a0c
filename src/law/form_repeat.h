// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Repeated data are worth less than new data (arXiv 2305.16264, eqs. 5 and 7):
 *   D' = U + U R* (1 - exp(-R / R*)),  R = D / U - 1 repeats of U unique tokens, R* = 15.39
 *   N' likewise over the parameters that U unique tokens call for, R* = 5.31
 * Put in place of D (and N) in a law.  The constants were fitted to dense models up to 9B
 * parameters and 1500 epochs.
 */
#ifndef MOSAIC_LAW_FORM_REPEAT_H
#define MOSAIC_LAW_FORM_REPEAT_H

/* What D tokens drawn from `unique` ones are worth; D itself up to one epoch. */
double form_repeat_tokens(double tokens, double unique);
/* How many tokens are worth that much: the inverse; infinity where no number of repeats is. */
double form_repeat_needed(double worth, double unique);
/* What N parameters are worth when `suited` ones would do for the unique tokens. */
double form_repeat_parameters(double parameters, double suited);
/* The size for which `unique` tokens are compute-optimal under a chinchilla law A B E alpha beta.
 */
double form_repeat_suited(const double chinchilla[5], double unique);

#endif
