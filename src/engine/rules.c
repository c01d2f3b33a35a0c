// SPDX-License-Identifier: GPL-3.0-or-later
/* Features by name. */
#include "engine/rules.h"

#include <assert.h>

static_assert(FEATURES <= 64, "a set of features is one word");

const char *const feature_words[] = {
#define FEATURE_WORD(name, word) word,
    FEATURE_LIST(FEATURE_WORD)
#undef FEATURE_WORD
        NULL};
