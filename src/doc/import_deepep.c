// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * DeepEP's tests of dispatch and combine: the lines "Best dispatch (BF16): ... 43.2 GB/s (RDMA),
 * 141.1 GB/s (NVL)".  Both figures count what a rank keeps: tokens for its own node are in the RDMA
 * bytes, tokens for itself in the NVLink bytes.  Of n nodes,
 *   dispatch.inter_share = harmonic mean of dispatch and combine (n - 1) / n / outer link
 * The nodes are those that the text states (num_nodes, or num_ranks and num_local_ranks), else what
 * the caller says; the two must not differ.
 */
#include "doc/import_set.h"

#include "machine/cluster.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { LINE_MAX_BYTES = 1024, STATED_MOST = 1 << 20 };

static const double giga = 1e9, above_link = 1.02;

struct figures {
    double dispatch_bf16, dispatch_fp8, combine; /* GB/s over RDMA; 0: none */
    double nvlink;                               /* the largest over NVLink */
    long line;
    long ranks, nodes, per_node; /* as the text states; 0: it does not */
    long stated_line;            /* of the last of them */
    bool is_torn;                /* it states two different numbers of the same */
};

/* The number before "GB/s (WHAT)"; 0 when there is none. */
static double before_unit(const char *text, const char *what) {
    char unit[32];
    (void)snprintf(unit, sizeof unit, " GB/s (%s)", what);
    const char *const at = strstr(text, unit);
    if (!at)
        return 0.0;
    const char *from = at;
    while (from > text && strchr("0123456789.", from[-1]))
        from--;
    const double value = strtod(from, NULL);
    return isfinite(value) && value > 0 ? value : 0.0;
}

/* The number behind `key`, as in "num_ranks=16" or "num_ranks: 16"; 0 where there is none. */
static long stated(const char *text, const char *key) {
    const size_t length = strlen(key);
    for (const char *at = strstr(text, key); at; at = strstr(at + 1, key)) {
        const bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        const char *from = at + length;
        from += strspn(from, " \"'");
        if (!begins || (*from != '=' && *from != ':'))
            continue;
        from += 1 + strspn(from + 1, " ");
        const long value = isdigit((unsigned char)*from) ? strtol(from, NULL, 10) : 0;
        if (value > 0 && value <= STATED_MOST)
            return value;
    }
    return 0;
}

static void take_stated(struct figures *f, const char *text, long line) {
    const struct {
        const char *key;
        long *to;
    } keys[] = {{"num_ranks", &f->ranks},
                {"num_nodes", &f->nodes},
                {"num_local_ranks", &f->per_node},
                {"num_processes", &f->per_node}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const long value = stated(text, keys[i].key);
        if (value == 0)
            continue;
        f->is_torn = f->is_torn || (*keys[i].to > 0 && *keys[i].to != value);
        *keys[i].to = value;
        f->stated_line = line;
    }
}

static void take_line(struct figures *f, const char *text, long line) {
    take_stated(f, text, line);
    const double rdma = before_unit(text, "RDMA"), nvlink = before_unit(text, "NVL");
    if (!strstr(text, "Best ") || (rdma <= 0 && nvlink <= 0))
        return;
    f->line = line;
    f->nvlink = fmax(f->nvlink, nvlink);
    double *const to = strstr(text, "combine") ? &f->combine
                       : strstr(text, "FP8")   ? &f->dispatch_fp8
                                               : &f->dispatch_bf16;
    *to = fmax(*to, rdma);
}

/* Two runs in one file, or a run that is another than the one asked for. */
static enum mosaic_status check_stated(struct import_set *set, const struct source *source,
                                       const struct figures *f) {
    const struct import_settings *const s = set->settings;
    if (f->is_torn)
        return import_refuse(set, source, f->stated_line,
                             "the file states several numbers of ranks or nodes: one run a file");
    if (s->ranks > 0 && f->ranks > 0 && f->ranks != s->ranks)
        return import_refuse(set, source, f->stated_line, "the file states %ld ranks, --ranks %d",
                             f->ranks, s->ranks);
    if (s->ranks_per_node > 0 && f->per_node > 0 && f->per_node != s->ranks_per_node)
        return import_refuse(set, source, f->stated_line,
                             "the file states %ld ranks a node, --ranks-per-node %d", f->per_node,
                             s->ranks_per_node);
    return MOSAIC_OK;
}

static enum mosaic_status nodes_of(struct import_set *set, const struct source *source,
                                   const struct figures *f, double *nodes) {
    const struct import_settings *const s = set->settings;
    const long ranks = f->ranks > 0 ? f->ranks : s->ranks;
    const long per_node = f->per_node > 0         ? f->per_node
                          : s->ranks_per_node > 0 ? s->ranks_per_node
                          : set->cluster          ? set->cluster->gpus_per_node
                                                  : 0;
    TRY(check_stated(set, source, f));
    if (f->nodes > 1 || (ranks > 0 && per_node > 0 && ranks > per_node)) {
        *nodes = f->nodes > 1 ? (double)f->nodes : ceil((double)ranks / (double)per_node);
        return MOSAIC_OK;
    }
    (void)import_refuse(set, source, 0,
                        "over how many nodes RDMA figures were measured is not said, and they "
                        "count what stays on the own node");
    diag_hint(set->diags, "--ranks N and --ranks-per-node N");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status put_share(struct import_set *set, const struct source *source,
                                    const struct figures *f) {
    const double dispatch = f->dispatch_bf16 > 0 ? f->dispatch_bf16 : f->dispatch_fp8;
    const double both = f->combine > 0 ? 2.0 / (1.0 / dispatch + 1.0 / f->combine) : dispatch;
    double nodes = 0;
    TRY(nodes_of(set, source, f, &nodes));
    const double wire = both * (nodes - 1.0) / nodes;
    import_define(set,
                  "DeepEP, RDMA: %.4g GB/s counts tokens for the own node; %.4g crosses between "
                  "%.0f nodes",
                  both, wire, nodes);
    if (!set->cluster || set->cluster->tier_count < 2) {
        import_warn(set, source, f->line,
                    "a share of the outer link needs --cluster with that link; left out");
        return MOSAIC_OK;
    }
    const double link = set->cluster->tiers[set->cluster->tier_count - 1].bytes_per_s;
    const double share = wire * giga / link;
    if (share > above_link) {
        import_warn(set, source, f->line,
                    "%.4g GB/s cross between nodes, more than the %.4g of a GPU's outer link: is "
                    "the link's figure per GPU and direction? left out",
                    wire, link / giga);
        set->refused++;
        return MOSAIC_OK;
    }
    struct import_value *const v = &set->value[set->value_count++];
    *v = (struct import_value){.scalar = CAL_DISPATCH_INTER_SHARE,
                               .value = fmin(share, 1.0),
                               .count = 1 + (f->combine > 0)};
    v->method =
        talloc_asprintf(set->memory,
                        "%s, GB/s over RDMA with the own node's tokens %.4g, times (n-1)/n "
                        "for %.0f nodes, over the link's %.4g GB/s",
                        f->combine > 0 ? "harmonic mean of dispatch and combine" : "dispatch", both,
                        nodes, link / giga);
    v->range = talloc_asprintf(set->memory, "%.0f nodes", nodes);
    return v->method && v->range ? MOSAIC_OK : import_no_memory(set);
}

enum mosaic_status import_deepep(struct import_set *set, const char *path) {
    struct source *source = NULL;
    struct figures f = {.line = 0};
    const char *start = NULL;
    size_t size = 0;
    TRY(import_read(set, path, &source));
    for (long line = 1; source_line(source, line, &start, &size); line++) {
        char text[LINE_MAX_BYTES];
        (void)snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text),
                       start);
        take_line(&f, text, line);
    }
    if (f.line == 0)
        return import_refuse(set, source, 0,
                             "no 'Best dispatch' or 'Best combine' of a DeepEP test is in it");
    set->rows++;
    if (f.nvlink > 0)
        import_define(set,
                      "DeepEP, NVL: %.4g GB/s counts tokens that stay on their rank; no entry "
                      "takes it",
                      f.nvlink);
    if (f.dispatch_bf16 <= 0 && f.dispatch_fp8 <= 0) {
        import_warn(set, source, f.line,
                    "no dispatch over RDMA: a run inside one node feeds no "
                    "entry");
        return MOSAIC_OK;
    }
    return set->value_count < IMPORT_VALUES ? put_share(set, source, &f) : MOSAIC_OK;
}
