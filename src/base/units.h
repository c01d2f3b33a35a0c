// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Quantities: decimal number, blank, unit.  Inside the program every value is in the base unit of
 * its dimension (bytes, seconds, watts, FLOP/s, USD, USD per hour, plain numbers and fractions).
 * b is bit and B byte; k M G T P E Z Y are powers of 1000, Ki Mi Gi Ti Pi Ei of 1024.  A bare
 * number where a unit is due is an error, and so is a unit of another dimension.  Independent of
 * the locale.
 */
#ifndef MOSAIC_BASE_UNITS_H
#define MOSAIC_BASE_UNITS_H

#include "base/status.h"

#include <stdbool.h>

enum dimension {
    DIM_NUMBER,      /* any finite number, no unit */
    DIM_COUNT,       /* a whole number >= 0, no unit; a decimal prefix may follow: `1.4 T` */
    DIM_BYTES,       /* bytes */
    DIM_BYTES_PER_S, /* bytes per second */
    DIM_FLOP,        /* floating-point operations */
    DIM_FLOP_PER_S,  /* floating-point operations per second */
    DIM_TIME,        /* seconds */
    DIM_POWER,       /* watts */
    DIM_PRICE,       /* USD */
    DIM_PRICE_PER_H, /* USD per hour */
    DIM_FRACTION     /* plain or in per cent: 0.9 or 90 % */
};
/* For sums that show days and GiB. */
#define UNITS_SECONDS_PER_DAY 86400.0
#define UNITS_SECONDS_PER_HOUR 3600.0
#define UNITS_BYTES_PER_GIB 1073741824.0

enum { DIM_KINDS = DIM_FRACTION + 1, UNITS_TEXT_MAX = 48 };

/* Name for messages ("bandwidth"), one example ("400 Gb/s"), and whether a unit must be given. */
const char *units_name(enum dimension dim);
const char *units_example(enum dimension dim);
/* The unit of plain numbers, as results state it: "B/s"; "1" where there is none. */
const char *units_base(enum dimension dim);
bool units_need_unit(enum dimension dim);

/* A finite decimal number that fills the whole text: no octal, hex, sexagesimal, separators. */
MOSAIC_MUST_USE enum mosaic_status units_parse_number(const char *text, double *value,
                                                      struct status_error *err);
/* A quantity of the given dimension, in base units. */
MOSAIC_MUST_USE enum mosaic_status units_parse(const char *text, enum dimension dim, double *value,
                                               struct status_error *err);

/* For people, three digits: "2.25 PFLOP/s", "179 GB", "2.55 s".  size >= UNITS_TEXT_MAX fits all.
 */
void units_format(double value, enum dimension dim, char *buffer, size_t size);
/* Memory in powers of 1024: "167 GiB". */
void units_format_memory(double bytes, char *buffer, size_t size);
/* The fewest digits that units_parse reads back as the very same value. */
void units_format_exact(double value, enum dimension dim, char *buffer, size_t size);

#endif
