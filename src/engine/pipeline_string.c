// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reading, checking and printing pipeline layouts.  The shortest text comes from a dynamic program
 * over suffixes of the written-out text: each starts with a character, a run x*k, or a group
 * (w)*k whose w holds characters and runs.  Matches at each distance come from those of the suffix
 * that is one shorter, so that all groups cost O(n^2 log n).
 */
#include "engine/pipeline_string.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order that a token meets them. */
static const char letters[] = "EtmL";

/* ---- reading ---- */

struct reader {
    const char *text;
    struct pipeline_chunk *chunks;
    size_t capacity, count; /* chunks; the last is open */
    size_t length;          /* written out */
    size_t rank;            /* of the last letter in `letters`, from 1; 0: none yet */
    struct status_error *err;
};

static enum mosaic_status wrong(const struct reader *r, size_t at, const char *what) {
    const char c = r->text[at];
    char shown[8] = "the end";
    if (c)
        (void)snprintf(shown, sizeof shown, "'%c'", isprint((unsigned char)c) ? c : '?');
    (void)status_set(r->err, MOSAIC_BAD_INPUT, "pipeline layout, character %zu (%s): %s", at + 1,
                     shown, what);
    if (r->err)
        r->err->column = (long)at + 1;
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status put(struct reader *r, size_t at) {
    const char c = r->text[at];
    if (++r->length > PIPELINE_MAX_LENGTH)
        return wrong(r, at, "the layout is too long");
    if (c == '|') {
        if (r->count == r->capacity)
            return wrong(r, at, "too many chunks");
        r->chunks[r->count++] = (struct pipeline_chunk){0};
        return MOSAIC_OK;
    }
    const char *const found = strchr(letters, c);
    if (!found)
        return wrong(r, at, "expected E, t, m, L, | or (");
    const size_t rank = (size_t)(found - letters) + 1;
    struct pipeline_chunk *const chunk = &r->chunks[r->count - 1];
    if (rank < r->rank)
        return wrong(r, at, "out of order: E, then t, then m, then L");
    if (rank == r->rank && (c == 'E' || c == 'L'))
        return wrong(r, at, "there is one E and one L");
    r->rank = rank;
    chunk->embedding = chunk->embedding || c == 'E';
    chunk->loss = chunk->loss || c == 'L';
    chunk->layers = (uint16_t)(chunk->layers + (c == 't'));
    chunk->mtp = (uint16_t)(chunk->mtp + (c == 'm'));
    return MOSAIC_OK;
}

/* "*n" at a place, commas between: n, and the place behind; n = 1 where there is none. */
static enum mosaic_status times(const struct reader *r, size_t at, size_t *after, long *n) {
    *after = at;
    *n = 1;
    while (r->text[at] == ',')
        ++at;
    if (r->text[at] != '*')
        return MOSAIC_OK;
    size_t digit = at + 1;
    long value = 0;
    for (; isdigit((unsigned char)r->text[digit]) && value <= PIPELINE_MAX_LENGTH; ++digit)
        value = 10 * value + (r->text[digit] - '0');
    if (value < 1)
        return wrong(r, at, "needs a number behind it, 1 or more");
    *n = value;
    *after = digit;
    return MOSAIC_OK;
}

/* Characters and runs from *at up to one of `until`, or the end. */
static enum mosaic_status read_flat(struct reader *r, size_t *at, const char *until) {
    while (r->text[*at] && !strchr(until, r->text[*at])) {
        const size_t one = *at;
        if (r->text[one] == ',') {
            ++*at;
            continue;
        }
        long n = 1;
        TRY(times(r, one + 1, at, &n));
        for (long i = 0; i < n; ++i)
            TRY(put(r, one));
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_group(struct reader *r, size_t *at) {
    const size_t open = *at, close = open + strcspn(r->text + open, ")");
    if (!r->text[close])
        return wrong(r, open, "is not closed");
    if (close == open + 1)
        return wrong(r, open, "holds nothing");
    long n = 0;
    TRY(times(r, close + 1, at, &n));
    if (*at == close + 1)
        return wrong(r, close, "needs *n behind it");
    for (long i = 0; i < n; ++i) {
        size_t inside = open + 1;
        TRY(read_flat(r, &inside, "()"));
        if (inside != close)
            return wrong(r, inside, "brackets do not nest");
    }
    return MOSAIC_OK;
}

enum mosaic_status pipeline_parse(const char *text, struct pipeline_chunk *chunks, size_t capacity,
                                  size_t *count, struct status_error *err) {
    struct reader r = {.text = text, .chunks = chunks, .capacity = capacity, .err = err};
    if (capacity == 0)
        return status_set(err, MOSAIC_BAD_INPUT, "pipeline layout: no chunks to read into");
    chunks[r.count++] = (struct pipeline_chunk){0};
    for (size_t at = 0; text[at];) {
        TRY(read_flat(&r, &at, "("));
        if (text[at])
            TRY(read_group(&r, &at));
    }
    *count = r.count;
    return MOSAIC_OK;
}

/* ---- checking ---- */

bool pipeline_is_empty(const struct pipeline_chunk *chunk) {
    return chunk->layers == 0 && chunk->mtp == 0 && !chunk->embedding && !chunk->loss;
}

static enum mosaic_status check_ends(const struct pipeline_chunk *chunks, size_t count,
                                     struct status_error *err) {
    for (size_t i = 0; i < count; ++i) {
        if (chunks[i].embedding != (i == 0))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "pipeline layout: the embedding (E) belongs to the first chunk, and "
                              "chunk %zu has %s",
                              i, i == 0 ? "none" : "one");
        if (chunks[i].loss != (i + 1 == count))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "pipeline layout: the loss (L) belongs to the last chunk, and chunk "
                              "%zu has %s",
                              i, i + 1 == count ? "none" : "one");
    }
    return MOSAIC_OK;
}

enum mosaic_status pipeline_check(const struct pipeline_chunk *chunks, size_t count,
                                  const struct pipeline_need *need, struct status_error *err) {
    const long want = (long)need->pp * (long)need->vpp;
    if ((long)count != want)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "pipeline layout: %zu chunks, but PP %d x VPP %d = %ld", count, need->pp,
                          need->vpp, want);
    long layers = 0, mtp = 0;
    for (size_t i = 0; i < count; ++i) {
        if (pipeline_is_empty(&chunks[i]))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "pipeline layout: chunk %zu (stage %zu, turn %zu) is empty", i,
                              i % (size_t)need->pp, i / (size_t)need->pp);
        layers += chunks[i].layers;
        mtp += chunks[i].mtp;
    }
    TRY(check_ends(chunks, count, err));
    if (layers != need->layers)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "pipeline layout: %ld layers (t) in all, but the model has %d", layers,
                          need->layers);
    if (mtp != need->mtp)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "pipeline layout: %ld MTP layers (m), but the model has %d", mtp,
                          need->mtp);
    return MOSAIC_OK;
}

/* ---- printing ---- */

struct printer {
    size_t length;
    char text[PIPELINE_MAX_LENGTH + 1];
    uint16_t run[PIPELINE_MAX_LENGTH + 1];    /* equal characters from here on */
    uint16_t match[PIPELINE_MAX_LENGTH + 1];  /* by distance: characters equal to those so far on */
    uint16_t cost[PIPELINE_MAX_LENGTH + 1];   /* of the suffix */
    uint16_t period[PIPELINE_MAX_LENGTH + 1]; /* of what the suffix starts with */
    uint16_t repeat[PIPELINE_MAX_LENGTH + 1];
};

static size_t digits(size_t n) {
    return n < 10 ? 1 : n < 100 ? 2 : n < 1000 ? 3 : 4;
}

/* Of equal characters: as they are, or x*n. */
static size_t run_cost(size_t n) {
    return n < 2 + digits(n) ? n : 2 + digits(n);
}

static void offer(struct printer *p, size_t at, size_t period, size_t repeat, size_t cost) {
    const size_t total = cost + p->cost[at + period * repeat];
    if (total >= p->cost[at])
        return;
    p->cost[at] = (uint16_t)total;
    p->period[at] = (uint16_t)period;
    p->repeat[at] = (uint16_t)repeat;
}

/* Cost of the first `period` characters from a place, runs cut at its end. */
static size_t flat_cost(const struct printer *p, size_t at, size_t period) {
    size_t cost = 0;
    for (size_t i = 0; i < period;) {
        const size_t run = p->run[at + i] < period - i ? p->run[at + i] : period - i;
        cost += run_cost(run);
        i += run;
    }
    return cost;
}

static void offer_groups(struct printer *p, size_t at) {
    for (size_t period = 1; at + period < p->length; ++period) {
        p->match[period] =
            (uint16_t)(p->text[at] == p->text[at + period] ? p->match[period] + 1 : 0);
        if (p->match[period] < period)
            continue;
        const size_t inside = flat_cost(p, at, period);
        for (size_t repeat = 1 + p->match[period] / period; repeat > 1; --repeat)
            offer(p, at, period, repeat, 3 + inside + digits(repeat));
    }
}

static void solve(struct printer *p) {
    p->cost[p->length] = 0;
    for (size_t at = p->length; at-- > 0;) {
        p->run[at] =
            (uint16_t)(at + 1 < p->length && p->text[at + 1] == p->text[at] ? p->run[at + 1] + 1
                                                                            : 1);
        p->cost[at] = UINT16_MAX;
        offer(p, at, 1, 1, 1);
        for (size_t n = p->run[at]; n > 1; --n)
            if (run_cost(n) < n)
                offer(p, at, 1, n, run_cost(n));
        offer_groups(p, at);
    }
}

static bool write_out(struct printer *p, const struct pipeline_chunk *chunks, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const struct pipeline_chunk *const c = &chunks[i];
        const size_t length = (size_t)c->layers + c->mtp + c->embedding + c->loss + (i > 0);
        if (length > PIPELINE_MAX_LENGTH - p->length)
            return false;
        char *at = p->text + p->length;
        if (i > 0)
            *at++ = '|';
        if (c->embedding)
            *at++ = 'E';
        memset(at, 't', c->layers);
        memset(at + c->layers, 'm', c->mtp);
        if (c->loss)
            at[c->layers + c->mtp] = 'L';
        p->length += length;
    }
    return true;
}

struct writer {
    char *out;
    size_t size, used;
};

static void write_format(struct writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void write_format(struct writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int wrote = vsnprintf(w->out + w->used, w->size - w->used, format, args);
    va_end(args);
    w->used += wrote > 0 ? (size_t)wrote : 0;
}

static void write_run(struct writer *w, char c, size_t n) {
    if (run_cost(n) < n)
        write_format(w, "%c*%zu", c, n);
    else
        for (size_t i = 0; i < n; ++i)
            write_format(w, "%c", c);
}

/* Room for cost[0] characters and a NUL. */
static void write_text(const struct printer *p, char *out, size_t size) {
    struct writer w = {out, size, 0};
    out[0] = '\0';
    for (size_t at = 0; at < p->length; at += (size_t)p->period[at] * p->repeat[at]) {
        const size_t period = p->period[at];
        if (period == 1) {
            write_run(&w, p->text[at], p->repeat[at]);
            continue;
        }
        write_format(&w, "(");
        for (size_t i = 0; i < period;) {
            const size_t run = p->run[at + i] < period - i ? p->run[at + i] : period - i;
            write_run(&w, p->text[at + i], run);
            i += run;
        }
        write_format(&w, ")*%u", p->repeat[at]);
    }
}

enum mosaic_status pipeline_print(const struct pipeline_chunk *chunks, size_t count, char *buffer,
                                  size_t size, struct status_error *err) {
    struct printer *const p = calloc(1, sizeof *p);
    if (!p)
        return status_no_memory(err);
    enum mosaic_status status = MOSAIC_OK;
    if (!write_out(p, chunks, count)) {
        status = status_set(err, MOSAIC_BAD_INPUT,
                            "pipeline layout: more than %d layers and chunks", PIPELINE_MAX_LENGTH);
    } else {
        solve(p);
        if (p->cost[0] >= size)
            status = status_set(err, MOSAIC_BAD_INPUT,
                                "pipeline layout: %u characters do not fit %zu", p->cost[0], size);
        else
            write_text(p, buffer, size);
    }
    free(p);
    return status;
}
