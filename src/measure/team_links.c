// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Which links are bad.  Links of one size and kind (inside a domain or between two) are alike; one
 * is slow whose fastest round took longer than the slowest round of the middle link, and by more
 * than a tenth.  Where most links of a rank are slow it is the rank that is named.
 */
#include "measure/team_ask.h"

#include <stdlib.h>

static const double slow_factor = 1.1;

struct link {
    int a, b;
    long long bytes, inside;
    double median, least, most, ratio;
    bool is_slow;
};

static double number_at(const json_t *row, size_t i) {
    return json_number_value(json_array_get(row, i));
}

/* A file may hold anything: -1 for what is no whole number that fits. */
static long long whole_at(const json_t *row, size_t i) {
    const json_t *const value = json_array_get(row, i);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static int rank_at(const json_t *row, size_t i, int ranks) {
    const long long rank = whole_at(row, i);
    return rank < 0 || rank >= ranks ? -1 : (int)rank;
}

static size_t read_links(const json_t *const *links, size_t count, int ranks, struct link *out) {
    size_t used = 0;
    for (size_t l = 0; l < count; ++l)
        for (size_t i = 0; i < json_array_size(links[l]); ++i) {
            const json_t *const row = json_array_get(links[l], i);
            const struct link link = {.a = rank_at(row, 0, ranks),
                                      .b = rank_at(row, 1, ranks),
                                      .bytes = whole_at(row, 2),
                                      .inside = whole_at(row, 3),
                                      .median = number_at(row, 4),
                                      .least = number_at(row, 5),
                                      .most = number_at(row, 6)};
            if (link.a >= 0 && link.b >= 0 && link.median > 0.0)
                out[used++] = link;
        }
    return used;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_alike(const struct link *a, const struct link *b) {
    return a->bytes == b->bytes && a->inside == b->inside;
}

/* The lower middle of a value among links like this one. */
static double middle(const struct link *all, size_t count, const struct link *like, bool of_most,
                     double *scratch) {
    size_t used = 0;
    for (size_t i = 0; i < count; ++i)
        if (is_alike(&all[i], like))
            scratch[used++] = of_most ? all[i].most : all[i].median;
    qsort(scratch, used, sizeof *scratch, by_value);
    return scratch[(used - 1) / 2];
}

/* At least three of a kind tell which of them is the odd one. */
static size_t alike(const struct link *all, size_t count, const struct link *like) {
    size_t same = 0;
    for (size_t i = 0; i < count; ++i)
        same += is_alike(&all[i], like);
    return same;
}

static void judge(struct link *all, size_t count, double *scratch) {
    enum { ENOUGH = 3 };
    for (size_t i = 0; i < count; ++i) {
        all[i].ratio = all[i].median / middle(all, count, &all[i], false, scratch);
        all[i].is_slow = alike(all, count, &all[i]) >= ENOUGH && all[i].ratio > slow_factor &&
                         all[i].least > middle(all, count, &all[i], true, scratch);
    }
}

/* Most of its links, and more than one. */
static bool rank_is_slow(const struct link *all, size_t count, int rank, double *ratio) {
    size_t slow = 0, links = 0;
    double worst = 0.0;
    for (size_t i = 0; i < count; ++i) {
        if (all[i].a != rank && all[i].b != rank)
            continue;
        links++;
        slow += all[i].is_slow;
        worst = all[i].is_slow && all[i].ratio > worst ? all[i].ratio : worst;
    }
    *ratio = worst;
    return slow > 1 && 2 * slow > links;
}

size_t team_slow_links(const json_t *const *links, size_t count, int ranks, struct slow_link *out,
                       size_t room) {
    size_t all = 0, found = 0;
    for (size_t i = 0; i < count; ++i)
        all += json_array_size(links[i]);
    struct link *const list = calloc(all + 1, sizeof *list);
    double *const scratch = calloc(all + 1, sizeof *scratch);
    bool *const named = calloc((size_t)ranks + 1, sizeof *named);
    if (list && scratch && named) {
        all = read_links(links, count, ranks, list);
        judge(list, all, scratch);
        for (int r = 0; r < ranks && found < room; ++r) {
            double ratio;
            named[r] = rank_is_slow(list, all, r, &ratio);
            if (named[r])
                out[found++] = (struct slow_link){r, -1, ratio};
        }
        for (size_t i = 0; i < all && found < room; ++i)
            if (list[i].is_slow && !named[list[i].a] && !named[list[i].b])
                out[found++] = (struct slow_link){list[i].a, list[i].b, list[i].ratio};
    }
    free(list);
    free(scratch);
    free(named);
    return found;
}
