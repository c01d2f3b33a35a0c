// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Optimal string alignment by three rows of the usual dynamic program: row i depends on rows i - 1
 * and (for a swap of neighbours) i - 2.
 */
#include "base/suggest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 64 };

static unsigned char lower(char c) {
    const unsigned char byte = (unsigned char)c;
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20) : byte;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Fill row i from the two before it. */
static void fill_row(const char *a, size_t i, const char *b, size_t columns,
                     size_t rows[3][WORD_MAX + 1]) {
    size_t *row = rows[i % 3];
    const size_t *above = rows[(i + 2) % 3];
    const size_t *two_above = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= columns; j++) {
        const size_t cost = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
        row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
        if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
            lower(a[i - 2]) == lower(b[j - 1]))
            row[j] = least(row[j], two_above[j - 2] + 1);
    }
}

size_t suggest_distance(const char *a, const char *b) {
    const size_t rows_due = strlen(a), columns = strlen(b);
    if (rows_due > WORD_MAX || columns > WORD_MAX)
        return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1] = {{0}};
    for (size_t j = 0; j <= columns; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= rows_due; i++)
        fill_row(a, i, b, columns, rows);
    return rows[rows_due % 3][columns];
}

const char *suggest_from(const char *word, suggest_at *at, const void *context, size_t count) {
    const size_t length = strlen(word);
    /* A third of the letters may be wrong; short words get one. */
    size_t limit = length < 3 ? 1 : (length + 2) / 3;
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *known = at(context, i);
        if (!known)
            continue;
        const size_t distance = suggest_distance(word, known);
        /* All letters replaced is no likeness. */
        if (distance <= limit && distance < strlen(known) && (distance < length || length == 0)) {
            best = known;
            if (distance == 0)
                break;
            limit = distance - 1;
        }
    }
    return best;
}

struct word_list {
    const char *const *words;
};

static const char *word_at(const void *context, size_t index) {
    const struct word_list *list = context;
    return list->words[index];
}

const char *suggest(const char *word, const char *const *known, size_t count) {
    const struct word_list list = {known};
    return suggest_from(word, word_at, &list, count);
}
