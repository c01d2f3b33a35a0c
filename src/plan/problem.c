// SPDX-License-Identifier: GPL-3.0-or-later
/* A problem owns its list of geometries and the draws of its law, nothing else. */
#include "plan/problem.h"

#include <stdlib.h>

void problem_free(struct problem *p) {
    if (!p)
        return;
    free(p->geometries.items);
    p->geometries.items = NULL;
    p->geometries.count = 0;
    free(p->law_draws.items);
    p->law_draws.items = NULL;
    p->law_draws.count = 0;
}
