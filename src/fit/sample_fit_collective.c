// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Collectives by kind, ranks and placement.  A larger buffer must not take less time: robust means
 * by size are made non-decreasing by pooling adjacent violators, with equal weights in ln t. Beside
 * the curve t = latency + bytes factor / bus bandwidth is fitted and told.  What the links say:
 *   inside a domain    bus above the inner link: the switch reduced, or the definition is another
 *   all-to-all         each rank's own outer link: bus (n - g) / (n - 1), g ranks in a domain
 *   rings              the outer links of a domain pool: bus <= g x outer link
 */
#include "fit/sample_fit_parts.h"

#include "machine/collective.h"

#include <math.h>
#include <stdio.h>

static const double slack = 1.02;     /* of a link's data sheet */
static const double short_of = 0.8;   /* of the asymptote, at the largest size */
static const double fall_told = 0.02; /* of ln t that pooling moves */
static const double start_latency = 2e-5, negligible_latency_s = 1e-9;
static const double long_least = 4.0; /* latencies that the least size takes */
enum { LEAST_SIZES = 3 };

/* One group; its sizes in order. */
struct series {
    enum collective_kind kind;
    int ranks, inside;
    size_t count;
    double bytes[CURVE_MAX_SAMPLES], log_time[CURVE_MAX_SAMPLES], bus[CURVE_MAX_SAMPLES];
};

static long long word_of(enum collective_kind kind) {
    return fitting_word(SAMPLE_COLLECTIVE, "kind", collective_name(kind));
}

/* In the order of keys the sizes of a group follow each other: [from, to). */
static size_t group_end(const struct fitting *f, size_t from) {
    const struct sample *const first = &f->sample[from];
    size_t to = from;
    while (to < f->count && f->sample[to].quantity == SAMPLE_COLLECTIVE &&
           f->sample[to].value[0] == first->value[0] && f->sample[to].value[1] == first->value[1] &&
           f->sample[to].value[2] == first->value[2])
        to++;
    return to;
}

static void pick_between(struct fitting *f, size_t from, size_t to) {
    f->picked = 0;
    for (size_t i = from; i < to; i++)
        f->pick[f->picked++] = i;
}

static double constant_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    (void)f;
    (void)s;
    return p[0];
}

static double linear_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    (void)f;
    return p[0] + (double)sample_value(s, "bytes") / p[1];
}

/* Pool adjacent violators; how far the farthest moved. */
static double pool(double *y, size_t count) {
    double mean[CURVE_MAX_SAMPLES], moved = 0.0;
    size_t members[CURVE_MAX_SAMPLES], blocks = 0;
    for (size_t i = 0; i < count; i++) {
        mean[blocks] = y[i];
        members[blocks++] = 1;
        while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
            const double a = (double)members[blocks - 2], b = (double)members[blocks - 1];
            mean[blocks - 2] = (a * mean[blocks - 2] + b * mean[blocks - 1]) / (a + b);
            members[blocks - 2] += members[blocks - 1];
            blocks--;
        }
    }
    for (size_t i = 0, block = 0; block < blocks; block++)
        for (size_t k = 0; k < members[block]; k++, i++) {
            moved = fmax(moved, fabs(y[i] - mean[block]));
            y[i] = mean[block];
        }
    return moved;
}

static enum mosaic_status read_series(struct fitting *f, size_t from, size_t to,
                                      struct series *series, struct fitting_outcome *all,
                                      struct status_error *err) {
    const struct sample *const first = &f->sample[from];
    *series = (struct series){.kind = COLLECTIVE_ALL_REDUCE,
                              .ranks = (int)first->value[1],
                              .inside = (int)first->value[2]};
    while (word_of(series->kind) != first->value[0])
        series->kind = (enum collective_kind)((int)series->kind + 1);
    for (size_t i = from, end; i < to; i = end) {
        end = i;
        while (end < to && f->sample[end].value[3] == f->sample[i].value[3])
            end++;
        if (series->count == CURVE_MAX_SAMPLES) {
            fitting_note(f, SAMPLE_NOTE_LEFT_OUT, "%s over %d ranks: sizes above %.0f bytes",
                         collective_name(series->kind), series->ranks,
                         series->bytes[series->count - 1]);
            break;
        }
        pick_between(f, i, end);
        struct fitting_outcome o = {.p = {f->sample[i].median_s}};
        TRY(fitting_solve(f, constant_seconds, 1, &o, err));
        series->bytes[series->count] = (double)f->sample[i].value[3];
        series->log_time[series->count++] = log(o.p[0]);
        all->spread = fmax(all->spread, o.spread);
        all->outliers += o.outliers;
    }
    return MOSAIC_OK;
}

/* ---- what the links say ---- */

static void name_of(const struct series *s, char text[SAMPLE_FIT_TEXT / 4]) {
    (void)snprintf(text, SAMPLE_FIT_TEXT / 4, "%s over %d ranks, %d in a domain",
                   collective_name(s->kind), s->ranks, s->inside);
}

static double largest_bus(const struct series *s) {
    double most = 0.0;
    for (size_t i = 0; i < s->count; i++)
        most = fmax(most, s->bus[i]);
    return most;
}

static void doubt_inside(struct fitting *f, const struct series *s, double bus) {
    const struct tier *const inner = &f->facts->cluster->tiers[0];
    char name[SAMPLE_FIT_TEXT / 4];
    name_of(s, name);
    if (bus <= slack * inner->bytes_per_s)
        return;
    if (s->kind == COLLECTIVE_ALL_REDUCE)
        fitting_note(f, SAMPLE_NOTE_LINK,
                     "%s: bus bandwidth %.4g GB/s is above the link's %.4g: the switch reduces "
                     "(NVLS), so that this is no speed of the wire, and holds for all-reduce alone",
                     name, bus / 1e9, inner->bytes_per_s / 1e9);
    else
        fitting_note(f, SAMPLE_NOTE_LINK,
                     "%s: bus bandwidth %.4g GB/s is above the link's %.4g per direction: is it of "
                     "both directions, or does it count what stays on the rank?",
                     name, bus / 1e9, inner->bytes_per_s / 1e9);
}

/* False: not to be written. */
static bool doubt_outer(struct fitting *f, const struct series *s, double bus) {
    const struct cluster *const c = f->facts->cluster;
    const double link =
        cluster_tier_for(c, s->ranks > c->tiers[0].domain ? s->ranks : c->tiers[0].domain + 1)
            ->bytes_per_s;
    const double n = s->ranks, g = s->inside;
    const int domains = (s->ranks + s->inside - 1) / s->inside;
    char name[SAMPLE_FIT_TEXT / 4];
    name_of(s, name);
    if (s->kind == COLLECTIVE_ALL_TO_ALL) {
        const double each = bus * (n - g) / (n - 1.0);
        const bool is_possible = each <= slack * link;
        fitting_note(f, SAMPLE_NOTE_LINK,
                     is_possible
                         ? "%s: bus bandwidth %.4g GB/s is %.4g on each rank's outer link of "
                           "%.4g: an all-to-all does not pool links, and its bus bandwidth is not "
                           "the link's speed"
                         : "%s: bus bandwidth %.4g GB/s would need %.4g on an outer link of %.4g "
                           "GB/s: left out; are the sizes per peer, or the ranks of two jobs?",
                     name, bus / 1e9, each / 1e9, link / 1e9);
        return is_possible;
    }
    const double pooled = s->kind == COLLECTIVE_POINT_TO_POINT ? link : g * link;
    if (bus > slack * pooled) {
        fitting_note(f, SAMPLE_NOTE_LINK,
                     domains == 2 && s->kind == COLLECTIVE_ALL_REDUCE
                         ? "%s: bus bandwidth %.4g GB/s is above the %.4g that the domain's outer "
                           "links carry: on 2 domains a tree sends less than the ring that more "
                           "need; left out; measure 3 or more, or force the ring"
                         : "%s: bus bandwidth %.4g GB/s is above the %.4g GB/s that the outer "
                           "links carry: left out; is it of both directions?",
                     name, bus / 1e9, pooled / 1e9);
        return false;
    }
    if (domains == 2 && s->kind == COLLECTIVE_ALL_REDUCE)
        fitting_note(f, SAMPLE_NOTE_LINK,
                     "%s: on 2 domains a tree sends less than a ring: where more domains are asked "
                     "for, this needs 3 or more measured, or a forced ring",
                     name);
    return true;
}

static bool is_plausible(struct fitting *f, const struct series *s) {
    const double bus = largest_bus(s);
    if (!f->facts->cluster || f->facts->cluster->tier_count < 1)
        return true;
    if (s->inside >= s->ranks) {
        doubt_inside(f, s, bus);
        return true;
    }
    return f->facts->cluster->tier_count < 2 || doubt_outer(f, s, bus);
}

/* ---- entries ---- */

static enum mosaic_status fit_line(struct fitting *f, const struct series *s,
                                   struct sample_entry *entry, struct status_error *err) {
    char name[SAMPLE_FIT_TEXT / 4];
    name_of(s, name);
    if (s->count < LEAST_SIZES) {
        fitting_note(f, SAMPLE_NOTE_EXTRAPOLATED,
                     "%s: of %zu size%s; no other size tells its latency", name, s->count,
                     s->count > 1 ? "s" : "");
        entry->is_extrapolated = true;
        return MOSAIC_OK;
    }
    const size_t last = s->count - 1;
    struct fitting_outcome line = {.p = {start_latency, s->bytes[last] / exp(s->log_time[last])}};
    const size_t notes = f->fit->note_count, dropped = f->fit->notes_dropped;
    TRY(fitting_solve(f, linear_seconds, 2, &line, err));
    f->fit->note_count = notes; /* the curve is what is kept: a step in it is no outlier */
    f->fit->notes_dropped = dropped;
    entry->latency_s = line.p[0] < negligible_latency_s ? 0.0 : line.p[0];
    entry->asymptote = line.p[1] * collective_bus_factor(s->kind, s->ranks);
    (void)snprintf(entry->method, sizeof entry->method,
                   "bus bandwidth by size, times non-decreasing; latency %.3g us, asymptote %.4g "
                   "GB/s",
                   1e6 * entry->latency_s, entry->asymptote / 1e9);
    if (s->bus[last] < short_of * entry->asymptote) {
        entry->is_extrapolated = true;
        fitting_note(f, SAMPLE_NOTE_EXTRAPOLATED,
                     "%s: the largest size reaches %.4g of %.4g GB/s that latency and bandwidth "
                     "point at: larger ones are taken at the former",
                     name, s->bus[last] / 1e9, entry->asymptote / 1e9);
    }
    if (exp(s->log_time[0]) > long_least * entry->latency_s)
        fitting_note(f, SAMPLE_NOTE_EXTRAPOLATED,
                     "%s: the least size takes %.3g us, %.3g of them latency: smaller ones are "
                     "taken at the former",
                     name, 1e6 * exp(s->log_time[0]), 1e6 * entry->latency_s);
    return MOSAIC_OK;
}

static enum mosaic_status fit_group(struct fitting *f, size_t from, size_t to,
                                    struct status_error *err) {
    struct calibration *const c = &f->fit->calibration;
    struct series s;
    struct fitting_outcome all = {.spread = 0.0};
    char name[SAMPLE_FIT_TEXT / 4];
    TRY(read_series(f, from, to, &s, &all, err));
    name_of(&s, name);
    const double moved = pool(s.log_time, s.count);
    if (moved > fall_told)
        fitting_note(f, SAMPLE_NOTE_FALLING,
                     "%s: a larger size takes less time, by up to %.1f %%: such times are pooled",
                     name, 100.0 * (exp(moved) - 1.0));
    for (size_t i = 0; i < s.count; i++)
        s.bus[i] = fitting_rounded(collective_bus_factor(s.kind, s.ranks) * s.bytes[i] /
                                   exp(s.log_time[i]));
    pick_between(f, from, to);
    const bool is_kept = is_plausible(f, &s);
    if (is_kept && c->collective_count == CALIBRATION_MAX_COLLECTIVES)
        fitting_note(f, SAMPLE_NOTE_LEFT_OUT, "%s: a calibration holds %d collectives", name,
                     CALIBRATION_MAX_COLLECTIVES);
    if (!is_kept || c->collective_count == CALIBRATION_MAX_COLLECTIVES) {
        for (size_t i = from; i < to; i++)
            f->is_used[i] = true; /* said already */
        return MOSAIC_OK;
    }
    struct collective_curve *const curve = &c->collective[c->collective_count];
    /* Below its least size a rate curve keeps the time of that: two sizes tell their latency. */
    const enum curve_method method = s.count < LEAST_SIZES ? CURVE_LATENCY : CURVE_RATE;
    TRY(curve_build(&curve->bus, method, s.bytes, s.bus, s.count, err));
    curve->kind = s.kind;
    curve->ranks = s.ranks;
    curve->ranks_per_domain = s.inside;
    struct sample_entry *const entry =
        fitting_entry(f, SAMPLE_ENTRY_COLLECTIVE, c->collective_count++, &all);
    if (!entry)
        return MOSAIC_OK;
    (void)snprintf(entry->method, sizeof entry->method,
                   "bus bandwidth by size, times non-decreasing");
    return fit_line(f, &s, entry, err);
}

enum mosaic_status fitting_collectives(struct fitting *f, struct status_error *err) {
    for (size_t from = 0; from < f->count;) {
        if (f->sample[from].quantity != SAMPLE_COLLECTIVE) {
            from++;
            continue;
        }
        const size_t to = group_end(f, from);
        TRY(fit_group(f, from, to, err));
        from = to;
    }
    return MOSAIC_OK;
}
