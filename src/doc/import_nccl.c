// SPDX-License-Identifier: GPL-3.0-or-later
/* Judging a run of nccl-tests: whose ranks, which definition, which rows. */
#include "doc/import_nccl.h"

#include "machine/collective.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <talloc.h>

static const double giga = 1e9, micros = 1e6;
/* Two decimals are printed; factors of neighbouring rank counts differ by more. */
static const double rounding = 0.006, agrees = 0.02, factor_agrees = 0.004, average_agrees = 0.03;
static const double well_above_rounding = 2.0; /* GB/s, to tell factors apart */
enum { ROW_GROWTH = 64, RANKS_TRIED = 4096 };

void nccl_run_begin(struct nccl_run *run, struct import_set *set, const struct source *source,
                    long line) {
    memset(run, 0, sizeof *run);
    run->set = set;
    run->source = source;
    run->line = line;
    run->kind = NCCL_KIND_UNKNOWN;
    run->average = run->out_of_bounds = (double)NAN;
}

/* Letters alone, in lower case. */
static void plain(const char *text, size_t length, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < size; i++)
        if (isalpha((unsigned char)text[i]))
            out[used++] = (char)tolower((unsigned char)text[i]);
    out[used] = '\0';
}

bool nccl_run_name(struct nccl_run *run, const char *name) {
    static const struct {
        const char *name;
        int kind;
    } names[] = {{"allreduce", COLLECTIVE_ALL_REDUCE},
                 {"allgather", COLLECTIVE_ALL_GATHER},
                 {"reducescatter", COLLECTIVE_REDUCE_SCATTER},
                 {"alltoall", COLLECTIVE_ALL_TO_ALL},
                 {"sendrecv", COLLECTIVE_POINT_TO_POINT},
                 {"broadcast", NCCL_KIND_FOREIGN},
                 {"reduce", NCCL_KIND_FOREIGN},
                 {"gather", NCCL_KIND_FOREIGN},
                 {"scatter", NCCL_KIND_FOREIGN},
                 {"hypercube", NCCL_KIND_FOREIGN},
                 {"alltoallv", NCCL_KIND_FOREIGN},
                 {"bisection", NCCL_KIND_FOREIGN}};
    static const char perf[] = "perf";
    const char *const slash = strrchr(name, '/');
    const char *const base = slash ? slash + 1 : name;
    char text[NCCL_NAME];
    plain(base, strlen(base), text, sizeof text);
    const size_t length = strlen(text);
    if (length > sizeof perf - 1 && strcmp(text + length - (sizeof perf - 1), perf) == 0)
        text[length - (sizeof perf - 1)] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            run->kind = names[i].kind;
            (void)snprintf(run->program, sizeof run->program, "%s", names[i].name);
            return true;
        }
    return false;
}

void nccl_run_rank(struct nccl_run *run, int rank, int group, const char *host,
                   const char *device) {
    int at = 0;
    run->firsts += rank == 0;
    run->has_groups = run->has_groups || group != 0;
    if (rank >= run->ranks)
        run->ranks = rank + 1;
    while (at < run->hosts && strncmp(run->host[at].name, host, NCCL_NAME - 1) != 0)
        at++;
    if (at == NCCL_HOSTS)
        return;
    if (at == run->hosts) {
        (void)snprintf(run->host[at].name, sizeof run->host[at].name, "%s", host);
        run->hosts++;
    }
    run->host[at].ranks++;
    if (!run->set->device[0])
        (void)snprintf(run->set->device, sizeof run->set->device, "%s", device);
}

enum mosaic_status nccl_run_row(struct nccl_run *run, const struct nccl_row *row) {
    if (run->rows % ROW_GROWTH == 0) {
        struct nccl_row *const more = talloc_realloc(run->set->memory, run->row, struct nccl_row,
                                                     (unsigned)(run->rows + ROW_GROWTH));
        if (!more)
            return import_no_memory(run->set);
        run->row = more;
    }
    run->row[run->rows++] = *row;
    return MOSAIC_OK;
}

/* ---- whose ranks ---- */

static enum mosaic_status check_hosts(struct nccl_run *run) {
    struct import_set *const set = run->set;
    if (run->firsts > 1) {
        (void)import_refuse(set, run->source, run->line,
                            "found %d groups of %d ranks, not one of %d: these are separate jobs, "
                            "and none of them measures what crosses between",
                            run->firsts, run->ranks, run->firsts * run->ranks);
        diag_hint(set->diags, "launcher and build disagree on MPI: build nccl-tests with MPI=1 "
                              "and the launcher's own MPI");
        return MOSAIC_BAD_INPUT;
    }
    if (run->has_groups)
        return import_refuse(set, run->source, run->line,
                             "the ranks are split into groups that ran at the same time: import a "
                             "run of one group");
    for (int i = 1; i < run->hosts; i++)
        if (run->host[i].ranks != run->host[0].ranks)
            return import_refuse(set, run->source, run->line,
                                 "%s has %d ranks, %s has %d: every node of a run has as many",
                                 run->host[0].name, run->host[0].ranks, run->host[i].name,
                                 run->host[i].ranks);
    return MOSAIC_OK;
}

/* Ranks and those in one domain. */
static enum mosaic_status place_run(const struct nccl_run *run, int *ranks, int *inside) {
    struct import_set *const set = run->set;
    const struct import_settings *const asked = set->settings;
    *ranks = run->ranks > 0 ? run->ranks : asked->ranks;
    if (*ranks == 0) {
        (void)import_refuse(set, run->source, run->line, "how many ranks ran this is not said");
        diag_hint(set->diags, "--ranks N, and --ranks-per-node N where they span nodes");
        return MOSAIC_BAD_INPUT;
    }
    if (asked->ranks > 0 && asked->ranks != *ranks)
        return import_refuse(set, run->source, run->line, "found %d ranks, not the %d of --ranks",
                             *ranks, asked->ranks);
    if (*ranks < 2)
        return import_refuse(set, run->source, run->line, "a run of 1 rank measures no link");
    int per_node = run->hosts > 0 ? run->host[0].ranks : asked->ranks_per_node;
    if (per_node == 0)
        per_node = set->cluster ? set->cluster->gpus_per_node : *ranks;
    if (run->hosts > 0 && asked->ranks_per_node > 0 && asked->ranks_per_node != per_node)
        return import_refuse(set, run->source, run->line,
                             "found %d ranks on each node, not the %d of --ranks-per-node",
                             per_node, asked->ranks_per_node);
    *inside = per_node < *ranks ? per_node : *ranks;
    if (set->cluster && set->cluster->tiers[0].domain > per_node &&
        per_node == set->cluster->gpus_per_node) {
        const int domain = set->cluster->tiers[0].domain;
        *inside = domain < *ranks ? domain : *ranks;
        import_define(set, "nodes lie in one domain of %d as far as they fit", domain);
    }
    return MOSAIC_OK;
}

/* ---- which definition ---- */

/* Ranks whose factor this is, the nearest; 0 for none. */
static int ranks_of_factor(enum collective_kind kind, double factor) {
    double least = factor_agrees * factor;
    int best = 0;
    for (int n = 2; n <= RANKS_TRIED; n++) {
        const double apart = fabs(collective_bus_factor(kind, n) - factor);
        if (apart < least) {
            least = apart;
            best = n;
        }
    }
    return best;
}

static enum mosaic_status check_factor(const struct nccl_run *run, const struct nccl_row *row,
                                       int ranks) {
    const enum collective_kind kind = (enum collective_kind)run->kind;
    const double want = collective_bus_factor(kind, ranks), is = row->busbw / row->algbw;
    if (!(row->algbw > well_above_rounding) || !isfinite(row->busbw) ||
        fabs(is - want) <= factor_agrees * want + rounding / row->algbw)
        return MOSAIC_OK;
    const int other = ranks_of_factor(kind, is);
    if (other > 0)
        return import_refuse(run->set, run->source, row->line,
                             "busbw / algbw is %.4g, which %s has over %d ranks; over %d it is "
                             "%.4g",
                             is, collective_name(kind), other, ranks, want);
    return import_refuse(run->set, run->source, row->line,
                         "busbw / algbw is %.4g, which %s has over no number of ranks; over %d it "
                         "is %.4g: is it another collective?",
                         is, collective_name(kind), ranks, want);
}

/* False, said, for a row that cannot be used. */
static bool is_right(const struct nccl_run *run, const struct nccl_row *row) {
    struct import_set *const set = run->set;
    const double algbw = row->bytes / row->time_us * (micros / giga);
    if (row->wrong > 0) {
        import_warn(set, run->source, row->line,
                    "%.0f elements of %.0f bytes came out wrong: the row is left out; this "
                    "machine computes falsely",
                    row->wrong, row->bytes);
        return false;
    }
    if (!(row->time_us > 0)) {
        import_warn(set, run->source, row->line, "%.0f bytes in no time: the row is left out",
                    row->bytes);
        return false;
    }
    if (isfinite(row->algbw) && fabs(algbw - row->algbw) > agrees * algbw + rounding) {
        import_warn(set, run->source, row->line,
                    "algbw is %.4g GB/s, but size over time is %.4g: the row is left out; is the "
                    "size that of the whole buffer, the time in us?",
                    row->algbw, algbw);
        return false;
    }
    return true;
}

/* Out of place; in place where there is no such row. */
static bool is_doubled(const struct nccl_run *run, size_t i) {
    if (!run->row[i].in_place)
        return false;
    for (size_t k = 0; k < run->rows; k++)
        if (!run->row[k].in_place && fabs(run->row[k].bytes - run->row[i].bytes) < 0.5)
            return true;
    return false;
}

static void check_footer(const struct nccl_run *run) {
    double sum = 0.0;
    size_t count = 0;
    if (run->out_of_bounds > 0)
        import_warn(run->set, run->source, run->line,
                    "the run ends with %.0f values out of bounds: FAILED", run->out_of_bounds);
    for (size_t i = 0; i < run->rows; i++)
        if (isfinite(run->row[i].busbw)) {
            sum += run->row[i].busbw;
            count++;
        }
    if (count > 0 && isfinite(run->average) &&
        fabs(sum / (double)count - run->average) > average_agrees * run->average + rounding)
        import_warn(run->set, run->source, run->line,
                    "the run says %.4g GB/s on average, its rows come to %.4g: rows are missing, "
                    "or those of two runs are mixed",
                    run->average, sum / (double)count);
    if (run->broken > 0)
        import_warn(run->set, run->source, run->line, "%zu rows are cut or mixed with other output",
                    run->broken);
}

static enum mosaic_status add_row(const struct nccl_run *run, const struct nccl_row *row, int ranks,
                                  int inside) {
    struct sample s = {.quantity = SAMPLE_COLLECTIVE,
                       .median_s = row->time_us / micros,
                       .least_s = row->time_us / micros,
                       .most_s = row->time_us / micros,
                       .rounds = 1, /* a mean of many */
                       .is_verified = row->wrong <= 0};
    const bool is_pair = run->kind == COLLECTIVE_POINT_TO_POINT;
    s.value[0] = run->kind;
    s.value[1] = is_pair ? 2 : ranks;
    s.value[2] = is_pair ? (inside < ranks ? 1 : 2) : inside;
    s.value[3] = (long long)row->bytes;
    return import_add(run->set, &s);
}

static void define(const struct nccl_run *run, int ranks) {
    const enum collective_kind kind = (enum collective_kind)run->kind;
    import_define(run->set,
                  "%s over %d ranks: size is the whole buffer on one rank, bus bandwidth is %.4g x "
                  "size / time; out of place",
                  collective_name(kind), ranks, collective_bus_factor(kind, ranks));
    if (kind == COLLECTIVE_POINT_TO_POINT)
        import_define(run->set,
                      "send/recv in a ring of %d ranks is as fast as its slowest pair, "
                      "and stands for two ranks",
                      ranks);
}

static enum mosaic_status judge(struct nccl_run *run) {
    struct import_set *const set = run->set;
    int ranks = 0, inside = 0;
    if (run->kind == NCCL_KIND_UNKNOWN)
        run->kind = set->settings->collective >= 0 ? set->settings->collective : NCCL_KIND_UNKNOWN;
    if (run->kind == NCCL_KIND_UNKNOWN) {
        (void)import_refuse(set, run->source, run->line, "which collective this is is not said");
        diag_hint(set->diags, "--collective all_reduce (or another); new releases name it");
        return MOSAIC_BAD_INPUT;
    }
    if (run->kind == NCCL_KIND_FOREIGN) {
        import_warn(set, run->source, run->line, "%s: the model has no such collective; left out",
                    run->program);
        return MOSAIC_OK;
    }
    TRY(check_hosts(run));
    TRY(place_run(run, &ranks, &inside));
    define(run, ranks);
    check_footer(run);
    for (size_t i = 0; i < run->rows; i++) {
        const struct nccl_row *const row = &run->row[i];
        set->rows++;
        if (is_doubled(run, i) || !(row->bytes >= 1.0))
            continue;
        if (!is_right(run, row)) {
            set->refused++;
            continue;
        }
        TRY(check_factor(run, row, ranks));
        TRY(add_row(run, row, ranks, inside));
    }
    return MOSAIC_OK;
}

enum mosaic_status nccl_run_end(struct nccl_run *run) {
    const enum mosaic_status status = run->rows > 0     ? judge(run)
                                      : run->firsts > 1 ? check_hosts(run)
                                                        : MOSAIC_OK;
    talloc_free(run->row);
    run->row = NULL;
    run->rows = 0;
    return status;
}

/* ---- which shape ---- */

/* A header line of names with commas between. */
static bool looks_like_csv(const struct source *source) {
    const char *start = NULL;
    size_t size = 0;
    for (long line = 1; source_line(source, line, &start, &size); line++) {
        if (size == 0 || start[0] == '#')
            continue;
        char text[256];
        size_t commas = 0;
        for (size_t i = 0; i < size; i++)
            commas += start[i] == ',';
        plain(start, size, text, sizeof text);
        return commas >= 3 && strstr(text, "size") && strstr(text, "time");
    }
    return false;
}

static bool looks_like_json(const struct source *source) {
    const char *const brace = strchr(source->text, '{');
    return brace && (strstr(brace, "\"results\"") || strstr(brace, "\"nccl_version\"") ||
                     strstr(brace, "\"busBw\"") || strstr(brace, "\"benchmark\"") ||
                     strstr(brace, "\"bus_bw\""));
}

enum mosaic_status import_nccl_tests(struct import_set *set, const char *path) {
    struct source *source = NULL;
    TRY(import_read(set, path, &source));
    const size_t before = set->count, refused = set->refused, warned = set->warnings.count;
    if (looks_like_json(source))
        TRY(import_nccl_json(set, source));
    else if (looks_like_csv(source))
        TRY(import_nccl_csv(set, source));
    else
        TRY(import_nccl_text(set, source));
    if (set->count == before && set->refused == refused && set->warnings.count == warned)
        return import_refuse(set, source, 0, "no result of nccl-tests is in it");
    return MOSAIC_OK;
}
