// SPDX-License-Identifier: GPL-3.0-or-later
/* Names of the terms and items of a prediction, in the order of their lists. */
#include "step/prediction.h"

#include <stddef.h>

const char *verdict_name(enum verdict verdict) {
    switch (verdict) {
    case VERDICT_FITS:
        return "fits";
    case VERDICT_TIGHT:
        return "tight";
    case VERDICT_NO:
        break;
    }
    return "no";
}

const char *time_term(const struct time_split *split, int i, double *seconds) {
#define TERM_NAME(name) #name,
#define TERM_VALUE(name) split->name,
    static const char *const names[] = {TIME_TERMS(TERM_NAME)};
    const double values[] = {TIME_TERMS(TERM_VALUE)};
#undef TERM_NAME
#undef TERM_VALUE
    if (i < 0 || i >= TIME_TERM_COUNT)
        return NULL;
    *seconds = values[i];
    return names[i];
}

const char *memory_item(const struct memory_items *items, int i, double *bytes) {
#define ITEM_NAME(name) #name,
#define ITEM_VALUE(name) items->name,
    static const char *const names[] = {MEMORY_ITEMS(ITEM_NAME)};
    const double values[] = {MEMORY_ITEMS(ITEM_VALUE)};
#undef ITEM_NAME
#undef ITEM_VALUE
    if (i < 0 || i >= MEMORY_ITEM_COUNT)
        return NULL;
    *bytes = values[i];
    return names[i];
}
