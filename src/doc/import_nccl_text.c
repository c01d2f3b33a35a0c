// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nccl-tests as text.  The heading names the columns, which have changed over the years (root came,
 * "error" became "#wrong", redop is missing in old ones); without a heading the number of columns
 * tells.  Lines of a launcher, of NCCL and of the system in between are passed over.
 */
#include "doc/import_nccl.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { WORDS_MAX = 40, LINE_MAX_BYTES = 2048, BEFORE_TIME_NEW = 5, COLUMNS = 4 };

struct words {
    char text[LINE_MAX_BYTES];
    const char *word[WORDS_MAX];
    int count;
};

static void split(const char *start, size_t size, struct words *w) {
    size = size < sizeof w->text - 1 ? size : sizeof w->text - 1;
    memcpy(w->text, start, size);
    w->text[size] = '\0';
    w->count = 0;
    for (char *at = strtok(w->text, " \t"); at && w->count < WORDS_MAX; at = strtok(NULL, " \t"))
        w->word[w->count++] = at;
}

static bool is_whole(const char *word) {
    return word[0] && word[strspn(word, "0123456789")] == '\0';
}

static bool read_number(const char *word, double *out) {
    char *end = NULL;
    *out = strtod(word, &end);
    return end != word && *end == '\0' && isfinite(*out);
}

/* Where a row's columns stand: before the first time, and out of place before in place. */
struct columns {
    int first;     /* index of the out-of-place time; 0: no heading yet */
    int second;    /* of the in-place time */
    bool is_error; /* largest difference instead of a count of wrong elements */
    bool is_cpu_time;
};

static void read_heading(const struct words *w, struct columns *c) {
    int times = 0;
    *c = (struct columns){.first = 0};
    for (int i = 1; i < w->count; i++) {
        const bool is_cpu = strcmp(w->word[i], "cputime") == 0;
        if (strcmp(w->word[i], "time") == 0 || is_cpu) {
            if (times++ == 0)
                c->first = i - 1; /* the heading's '#' is a word of its own */
            else
                c->second = i - 1;
            c->is_cpu_time = is_cpu;
        }
        c->is_error = c->is_error || strcmp(w->word[i], "error") == 0;
    }
}

/* time algbw busbw wrong, from this word on. */
static bool read_result(const struct words *w, int at, const struct columns *c,
                        struct nccl_row *row) {
    if (at + COLUMNS > w->count || !read_number(w->word[at], &row->time_us) ||
        !read_number(w->word[at + 1], &row->algbw) || !read_number(w->word[at + 2], &row->busbw))
        return false;
    double wrong;
    row->wrong = (double)NAN;
    if (strcmp(w->word[at + 3], "N/A") == 0)
        return true;
    if (!read_number(w->word[at + 3], &wrong))
        return false;
    row->wrong = c->is_error ? 0.0 : wrong; /* a rounding error, judged by its own footer */
    return true;
}

static enum mosaic_status take_row(struct nccl_run *run, const struct words *w,
                                   const struct columns *heading, long line) {
    struct columns c = *heading;
    if (c.first == 0) { /* two results of four columns end the row */
        c.first = w->count - 2 * COLUMNS;
        c.second = c.first + COLUMNS;
        if (c.first < 3 || c.first > BEFORE_TIME_NEW) {
            run->broken++;
            return MOSAIC_OK;
        }
        const char *const wrong = w->word[c.first + 3];
        c.is_error = strpbrk(wrong, ".eE") != NULL;
    }
    /* A redop that is not printed leaves its column out. */
    const int width = c.second > 0 ? c.second - c.first : COLUMNS;
    const int missing = c.second > 0 ? c.second + width - w->count : 0;
    if (missing > 0 && missing <= 2 && c.first - missing >= 3) {
        c.first -= missing;
        c.second -= missing;
    }
    struct nccl_row row = {.line = line};
    if (!read_number(w->word[0], &row.bytes) || !read_result(w, c.first, &c, &row)) {
        run->broken++;
        return MOSAIC_OK;
    }
    TRY(nccl_run_row(run, &row));
    row.in_place = true;
    return c.second > 0 && read_result(w, c.second, &c, &row) ? nccl_run_row(run, &row) : MOSAIC_OK;
}

/* Of a rank or a group; what is none of them is large. */
static int number_of(const char *word) {
    const long value = strtol(word, NULL, 10);
    return value >= 0 && value < CLUSTER_MAX_GPUS ? (int)value : CLUSTER_MAX_GPUS;
}

/* "Rank 0 Group 0 Pid 12 on host device 0 [..] NVIDIA B200"; old ones have no group. */
static bool take_rank(struct nccl_run *run, const struct words *w) {
    int rank = -1, group = 0, on = 0, device = 0;
    for (int i = 1; i + 1 < w->count; i++) {
        if (strcmp(w->word[i], "Rank") == 0 && is_whole(w->word[i + 1]) && rank < 0)
            rank = number_of(w->word[i + 1]);
        else if (strcmp(w->word[i], "Group") == 0)
            group = number_of(w->word[i + 1]);
        else if (strcmp(w->word[i], "on") == 0 && on == 0)
            on = i + 1;
        else if (strcmp(w->word[i], "device") == 0)
            device = i + 3;
    }
    if (rank < 0 || on == 0)
        return false;
    char name[NCCL_NAME] = "";
    for (int i = device; device > 0 && i < w->count; i++) {
        const size_t used = strlen(name);
        (void)snprintf(name + used, sizeof name - used, "%s%s", used ? " " : "", w->word[i]);
    }
    nccl_run_rank(run, rank, group, w->word[on], name);
    return true;
}

static double number_after_colon(const struct words *w) {
    double value;
    for (int i = 0; i + 1 < w->count; i++)
        if (strcmp(w->word[i], ":") == 0 && read_number(w->word[i + 1], &value))
            return value;
    return (double)NAN;
}

static bool has(const struct words *w, const char *word) {
    for (int i = 0; i < w->count; i++)
        if (strcmp(w->word[i], word) == 0)
            return true;
    return false;
}

static void take_comment(struct nccl_run *run, const struct words *w, struct columns *columns) {
    if (has(w, "size") && has(w, "algbw"))
        read_heading(w, columns);
    else if (has(w, "bounds"))
        run->out_of_bounds = number_after_colon(w);
    else if (has(w, "Avg") && has(w, "bandwidth"))
        run->average = number_after_colon(w);
    else if (has(w, "starting:"))
        (void)nccl_run_name(run, w->word[w->count - 1]);
    else if (has(w, "Rank"))
        (void)take_rank(run, w);
}

/* A comment that only a new run has, once rows have come. */
static bool begins_run(const struct words *w) {
    return has(w, "nThread") || has(w, "starting:") || (has(w, "Using") && has(w, "devices"));
}

/* "[1,0]<stdout>:" of a launcher. */
static void skip_tag(const char **start, size_t *size) {
    const char *const end = memchr(*start, '>', *size);
    if (*size == 0 || (*start)[0] != '[' || !end || end + 1 >= *start + *size || end[1] != ':')
        return;
    *size -= (size_t)(end + 2 - *start);
    *start = end + 2;
}

static void find_program(struct nccl_run *run, const struct words *w) {
    for (int i = 0; i < w->count && run->kind == NCCL_KIND_UNKNOWN; i++)
        if (strstr(w->word[i], "_perf"))
            (void)nccl_run_name(run, w->word[i]);
}

static enum mosaic_status take_line(struct nccl_run *run, const struct words *w,
                                    struct columns *columns, long line) {
    if (w->word[0][0] == '#') {
        if (run->rows > 0 && begins_run(w)) {
            struct import_set *const set = run->set;
            const struct source *const source = run->source;
            TRY(nccl_run_end(run));
            nccl_run_begin(run, set, source, line);
        }
        take_comment(run, w, columns);
        return MOSAIC_OK;
    }
    if (is_whole(w->word[0]) && w->count > 3 && is_whole(w->word[1])) {
        if (columns->is_cpu_time)
            return import_refuse(run->set, run->source, line,
                                 "these are times of the host (cputime), not of the device");
        return take_row(run, w, columns, line);
    }
    find_program(run, w);
    return MOSAIC_OK;
}

enum mosaic_status import_nccl_text(struct import_set *set, const struct source *source) {
    struct nccl_run *const run = talloc_zero(set->memory, struct nccl_run);
    if (!run)
        return import_no_memory(set);
    struct columns columns = {.first = 0};
    struct words w;
    const char *start = NULL;
    size_t size = 0;
    enum mosaic_status status = MOSAIC_OK;
    nccl_run_begin(run, set, source, 1);
    for (long line = 1; status == MOSAIC_OK && source_line(source, line, &start, &size); line++) {
        skip_tag(&start, &size);
        split(start, size, &w);
        if (w.count > 0)
            status = take_line(run, &w, &columns, line);
    }
    return status == MOSAIC_OK ? nccl_run_end(run) : status;
}
