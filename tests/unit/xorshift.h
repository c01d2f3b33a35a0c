// SPDX-License-Identifier: GPL-3.0-or-later
/* Random whole numbers of a test program (xorshift), the same in every run. */
#ifndef MOSAIC_TESTS_XORSHIFT_H
#define MOSAIC_TESTS_XORSHIFT_H

#include <stdint.h>

static uint64_t seed = 0x9e3779b97f4a7c15u;

static inline long below(long n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (long)(seed >> 33) % n;
}

#endif
