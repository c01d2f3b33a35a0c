// SPDX-License-Identifier: GPL-3.0-or-later
/* The table of calibrated quantities: names, dimensions, ranges; completeness of a calibration. */
#include "machine/calibration.h"

#include <math.h>
#include <string.h>

const struct scalar_info *calibration_scalar_info(enum scalar id) {
#define SCALAR_INFO(name, key, dim, min, max, text) {key, dim, min, max, text},
    static const struct scalar_info table[SCALAR_COUNT] = {SCALAR_LIST(SCALAR_INFO)};
#undef SCALAR_INFO
    return (unsigned)id < SCALAR_COUNT ? &table[id] : NULL;
}

const struct curve_info *calibration_curve_info(enum curve_quantity id) {
#define CURVE_INFO(name, key, unit, axis, text) {key, unit, axis, text},
    static const struct curve_info table[CURVE_QUANTITIES] = {CURVE_LIST(CURVE_INFO)};
#undef CURVE_INFO
    return (unsigned)id < CURVE_QUANTITIES ? &table[id] : NULL;
}

const char *collective_name(enum collective_kind kind) {
    static const char *const names[COLLECTIVE_KINDS] = {
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"};
    return (unsigned)kind < COLLECTIVE_KINDS ? names[kind] : "unknown";
}

void calibration_init(struct calibration *c) {
    memset(c, 0, sizeof *c);
    for (int i = 0; i < SCALAR_COUNT; ++i)
        c->scalar[i] = NAN;
}

enum mosaic_status calibration_check(const struct calibration *c, struct status_error *err) {
    for (int i = 0; i < SCALAR_COUNT; ++i) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)i);
        const double value = c->scalar[i];
        if (isnan(value))
            return status_set(err, MOSAIC_BAD_INPUT, "calibration '%s' gives no %s (%s)", c->name,
                              info->key, info->text);
        if (!(value >= info->min && value <= info->max))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "calibration '%s': %s is %g, not within %g to %g", c->name, info->key,
                              value, info->min, info->max);
    }
    const double exponent = c->scalar[CAL_HOST_NORM];
    if (exponent != exp2(rint(log2(exponent))))
        return status_set(err, MOSAIC_BAD_INPUT, "calibration '%s': %s is %g, not a power of two",
                          c->name, calibration_scalar_info(CAL_HOST_NORM)->key, exponent);
    return MOSAIC_OK;
}
