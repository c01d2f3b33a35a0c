// SPDX-License-Identifier: GPL-3.0-or-later
/* The two settings of the evaluator and the list of their differences. */
#include "step/estimator.h"

#include <stddef.h>

struct estimator estimator_default(void) {
    return (struct estimator){0};
}

struct estimator estimator_published(void) {
#define SWITCH_ON(name, text) .name = true,
    return (struct estimator){ESTIMATOR_SWITCHES(SWITCH_ON)};
#undef SWITCH_ON
}

const char *estimator_switch(const struct estimator *e, int i, const char **text, bool *is_on) {
    const struct {
        const char *name, *text;
        bool is_on;
    } table[] = {
#define SWITCH_ROW(name, text) {#name, text, e->name},
        ESTIMATOR_SWITCHES(SWITCH_ROW)
#undef SWITCH_ROW
    };
    if (i < 0 || (size_t)i >= sizeof table / sizeof table[0])
        return NULL;
    *text = table[i].text;
    *is_on = table[i].is_on;
    return table[i].name;
}
