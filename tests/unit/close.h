// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Comparison of doubles for the unit tests:
 *   relative  |got - want| <= rel |want|
 *   absolute  |got - want| <= abs
 * cmocka's assert_float_equal works in float, which hides every error below 6e-8, so its name is
 * poisoned.  Include this header instead of <cmocka.h>.
 */
#ifndef MOSAIC_TESTS_CLOSE_H
#define MOSAIC_TESTS_CLOSE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef assert_float_equal
#undef assert_float_not_equal
#pragma GCC poison assert_float_equal assert_float_not_equal

/* A NaN on either side compares false, so it fails. */
static inline void assert_close_at(double got, double want, double allowed, const char *what,
                                   const char *file, int line) {
    if (fabs(got - want) <= allowed)
        return;
    print_error("%s: got %.17g, want %.17g, off by %.3g, allowed %.3g\n", what, got, want,
                fabs(got - want), allowed);
    _fail(file, line);
}

#define assert_close(got, want, rel)                                                               \
    assert_close_at((got), (want), (rel)*fabs(want), #got, __FILE__, __LINE__)
#define assert_close_abs(got, want, abs_tol)                                                       \
    assert_close_at((got), (want), (abs_tol), #got, __FILE__, __LINE__)

#endif
