// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Quantities from arbitrary texts: what is read is finite, and its exact form reads back as the
 * same value.  The first byte picks the dimension.
 */
#include "base/suggest.h"
#include "base/units.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds) {
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const enum dimension dim = (enum dimension)(data[0] % DIM_KINDS);
    char *text = malloc(size);
    check(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct status_error err;
    double value = 0, back = 0;
    char shown[UNITS_TEXT_MAX];
    if (units_parse(text, dim, &value, &err) == MOSAIC_OK) {
        check(isfinite(value));
        units_format(value, dim, shown, sizeof shown);
        units_format_memory(value, shown, sizeof shown);
        units_format_exact(value, dim, shown, sizeof shown);
        check(units_parse(shown, dim, &back, &err) == MOSAIC_OK);
        check(!(back < value) && !(back > value));
    } else {
        check(strlen(err.message) > 0);
    }
    check(units_parse_number(text, &value, NULL) != MOSAIC_OK || isfinite(value));
    (void)suggest_distance(text, "bandwidth");
    free(text);
    return 0;
}
