// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Numbers as text, with '.' whatever the locale: exact ones for programs, short ones with their
 * unit for people (GiB for memory; K, M, B, T for parameters and tokens).
 */
#ifndef MOSAIC_REPORT_NUMBER_H
#define MOSAIC_REPORT_NUMBER_H

#include <stddef.h>

enum { NUMBER_MAX = 48 };

enum number_unit {
    NUMBER_PLAIN,  /* 4 significant digits, integers whole */
    NUMBER_COUNT,  /* 327.2 B */
    NUMBER_TIME,   /* 12.34 ms */
    NUMBER_DAYS,   /* 20 days */
    NUMBER_SHARE,  /* 12.4 % */
    NUMBER_MEMORY, /* 151.2 GiB */
    NUMBER_FLOP,   /* 1.234e+23 FLOP */
    NUMBER_LOSS,   /* 1.3897 */
    NUMBER_RATIO,  /* 0.9557 */
    NUMBER_RATE    /* 1234 /s */
};

/* Fewest digits that read back as the same double; always marked as a real by '.' or 'e'. */
const char *number_exact(double value, char out[NUMBER_MAX]);
/* For a person. */
const char *number_human(double value, enum number_unit unit, char out[NUMBER_MAX]);
/* value with a fixed count of decimals. */
const char *number_fixed(double value, int decimals, char out[NUMBER_MAX]);

#endif
