// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Compute-optimal pairs of a chinchilla law lie on alpha A / N^alpha = beta B / D^beta.
 */
#include "law/form_repeat.h"

#include <math.h>

/* arXiv 2305.16264, section 5 */
static const double token_half_life = 15.387756;
static const double parameter_half_life = 5.309743;

static double worth(double amount, double unique, double half_life) {
    if (!(amount > unique))
        return amount;
    return unique - unique * half_life * expm1(-(amount / unique - 1) / half_life);
}

double form_repeat_tokens(double tokens, double unique) {
    return worth(tokens, unique, token_half_life);
}

double form_repeat_needed(double worth_tokens, double unique) {
    if (!(worth_tokens > unique))
        return worth_tokens;
    const double share = (worth_tokens - unique) / (unique * token_half_life);
    return share < 1.0 ? unique - unique * token_half_life * log1p(-share) : (double)INFINITY;
}

double form_repeat_parameters(double parameters, double suited) {
    return worth(parameters, suited, parameter_half_life);
}

double form_repeat_suited(const double chinchilla[5], double unique) {
    const double a = chinchilla[0], b = chinchilla[1], alpha = chinchilla[3], beta = chinchilla[4];
    return exp((log(alpha * a / (beta * b)) + beta * log(unique)) / alpha);
}
