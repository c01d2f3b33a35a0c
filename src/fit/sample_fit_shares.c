// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What collectives reach of the links where no curve is given (collective.intra_share and
 * inter_share): the times of machine/collective.c's bounds, with the share that fits large buffers.
 * All-reduce stays out: switches reduce, and on two domains a tree sends less than a ring.
 */
#include "fit/sample_fit_parts.h"

#include "machine/collective.h"

#include <stdio.h>

static const long long large_buffers = 8; /* largest over least size that counts */
static const double start_share = 0.75;

/* The places that a sample's ranks have on the cluster; no ranks: they lie otherwise. */
static struct group group_of(const struct fitting *f, const struct sample *s) {
    const struct cluster *const c = f->facts->cluster;
    const int ranks = (int)sample_value(s, "ranks");
    const int inside = (int)sample_value(s, "ranks_per_domain"), domain = c->tiers[0].domain;
    const struct group dense = {ranks, 1}, strided = {ranks, domain / inside};
    if ((long)ranks > (long)cluster_gpus(c))
        return (struct group){0, 1};
    if (group_ranks_per_domain(c, dense) == inside)
        return dense;
    if ((long)ranks * strided.stride <= (long)cluster_gpus(c) && strided.stride > 1 &&
        group_ranks_per_domain(c, strided) == inside)
        return strided;
    return (struct group){0, 1};
}

static enum collective_kind kind_of(const struct sample *s) {
    static const enum collective_kind kinds[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER,
                                                 COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_TO_ALL,
                                                 COLLECTIVE_POINT_TO_POINT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fitting_word(SAMPLE_COLLECTIVE, "kind", collective_name(kinds[i])) == s->value[0])
            return kinds[i];
    return COLLECTIVE_KINDS;
}

static double bound_s(const struct fitting *f, const struct sample *s, double intra, double inter) {
    const struct network links = {f->facts->cluster, f->facts->base, intra, inter};
    return collective_time_s(&links, kind_of(s), group_of(f, s), (double)sample_value(s, "bytes"),
                             NULL);
}

static bool takes(const struct fitting *f, const struct sample *s, bool is_inside,
                  long long least) {
    if (s->quantity != SAMPLE_COLLECTIVE || kind_of(s) == COLLECTIVE_ALL_REDUCE ||
        sample_value(s, "bytes") < least)
        return false;
    const bool lies_inside = sample_value(s, "ranks_per_domain") >= sample_value(s, "ranks");
    return lies_inside == is_inside && group_of(f, s).ranks > 0;
}

static bool takes_inside(const struct fitting *f, const struct sample *s, long long least) {
    return takes(f, s, true, least);
}

/* Where the outer link decides, not the inner one. */
static bool takes_across(const struct fitting *f, const struct sample *s, long long least) {
    if (!takes(f, s, false, least))
        return false;
    const double intra = fitting_scalar_now(f, CAL_COLLECTIVE_INTRA_SHARE);
    return bound_s(f, s, intra, 1.0) > bound_s(f, s, intra, 2.0);
}

static double inside_s(const struct fitting *f, const struct sample *s, const double *p) {
    return bound_s(f, s, p[0], p[0]);
}

static double across_s(const struct fitting *f, const struct sample *s, const double *p) {
    return bound_s(f, s, fitting_scalar_now(f, CAL_COLLECTIVE_INTRA_SHARE), p[0]);
}

static enum mosaic_status fit_share(struct fitting *f, bool is_inside, struct status_error *err) {
    fitting_takes *const which = is_inside ? takes_inside : takes_across;
    if (fitting_pick(f, which, 0) == 0 ||
        fitting_pick(f, which, (long long)fitting_most(f, "bytes") / large_buffers) == 0)
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {start_share}};
    /* Kinds differ by what they reach; that is what curves are for, and no outlier. */
    const size_t notes = f->fit->note_count, dropped = f->fit->notes_dropped;
    TRY(fitting_solve(f, is_inside ? inside_s : across_s, 1, &o, err));
    f->fit->note_count = notes;
    f->fit->notes_dropped = dropped;
    struct sample_entry *const entry = fitting_scalar(
        f, is_inside ? CAL_COLLECTIVE_INTRA_SHARE : CAL_COLLECTIVE_INTER_SHARE, o.p[0], &o);
    if (!is_inside)
        fitting_stands_on(entry, CAL_COLLECTIVE_INTRA_SHARE);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "large buffers of all kinds but all-reduce against the %s links' data "
                       "sheet, latency taken off",
                       is_inside ? "inner" : "outer");
    return MOSAIC_OK;
}

enum mosaic_status fitting_link_shares(struct fitting *f, struct status_error *err) {
    const struct cluster *const c = f->facts->cluster;
    if (!f->facts->fits_link_shares || !c || c->tier_count < 1 ||
        f->facts->base->collective_count > 0)
        return MOSAIC_OK;
    TRY(fit_share(f, true, err));
    return c->tier_count > 1 ? fit_share(f, false, err) : MOSAIC_OK;
}
