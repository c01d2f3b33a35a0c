// SPDX-License-Identifier: GPL-3.0-or-later
/* Coverage, values and bounds of a certificate, re-derived. */
#include "certificate.h"

#include "certificate_measured.h"
#include "doc/load.h"
#include "least_step.h"
#include "oracle.h"

#include <jansson.h>
#include <math.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checker {
    struct certificate_check *out;
    struct document *document;
    const struct problem *p;
    struct workload workload; /* of all predictions */
    struct anchors anchors;   /* of measured steps */
    json_t *root, *entries;
    const char *status;
    double best_score, open_bound;
    struct least_step *scratch;
};

static bool refuse(struct checker *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse(struct checker *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->out->reason, sizeof c->out->reason, format, args);
    va_end(args);
    return false;
}

static const double rounding = 1e-11;

/* a is b but for the last digits. */
static bool is_close(double a, double b) {
    return fabs(a - b) <= rounding * fmax(fabs(a), fabs(b));
}

static bool has_number(const json_t *object, const char *key, double *value) {
    const json_t *const at = json_object_get(object, key);
    *value = json_number_value(at);
    return json_is_number(at);
}

static int whole(const json_t *object, const char *key) {
    return (int)json_integer_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key) {
    const char *const text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- the documents ---- */

static bool files_are_same(struct checker *c) {
    json_t *const inputs = json_object_get(json_object_get(c->root, "provenance"), "inputs");
    if (json_array_size(inputs) != c->document->input_count)
        return refuse(c, "other files than the plan reads");
    for (size_t i = 0; i < json_array_size(inputs); ++i) {
        char now[SHA256_DIGEST_STRING_LENGTH];
        const json_t *const one = json_array_get(inputs, i);
        if (!SHA256File(word(one, "path"), now) || strcmp(now, word(one, "sha256")) != 0)
            return refuse(c, "%s is not the file that was planned", word(one, "path"));
    }
    return true;
}

static bool load_plan(struct checker *c) {
    const json_t *const provenance = json_object_get(c->root, "provenance");
    const json_t *const given = json_object_get(provenance, "overrides");
    const char *const path = word(json_array_get(json_object_get(provenance, "inputs"), 0), "path");
    enum { OVERRIDES_MAX = 64 };
    struct document_override overrides[OVERRIDES_MAX];
    size_t count = 0;
    for (; count < json_array_size(given) && count < OVERRIDES_MAX; ++count)
        overrides[count] = (struct document_override){word(json_array_get(given, count), "key"),
                                                      word(json_array_get(given, count), "value")};
    const struct document_options options = {
        .overrides = overrides, .override_count = count, .threads = 1, .seed = 1};
    struct diag_list diags;
    diag_init(&diags);
    if (document_load_with(path, &options, &diags, &c->document) != MOSAIC_OK)
        return refuse(c, "%s does not load", path);
    c->p = &c->document->problem;
    return files_are_same(c);
}

static bool is_covered(struct checker *c) {
    const struct problem *const p = c->p;
    if (p->ways.count > 1 || p->workload.stages || p->layouts.schedule[SCHEDULE_ZERO_BUBBLE] ||
        p->layouts.schedule[SCHEDULE_DUALPIPE])
        return refuse(c, "a space that this checker does not know");
    static const char *const objectives[] = {"loss", "time", "cost", "tokens"};
    double target = 0.0;
    (void)has_number(c->root, "target_loss", &target);
    if (strcmp(word(c->root, "objective"), objectives[p->objective]) != 0 ||
        !is_close(target, p->budget.target_loss))
        return refuse(c, "another objective than the plan's");
    return whole(c->root, "nodes") == p->cluster.nodes || refuse(c, "another number of nodes");
}

/* ---- values ---- */

/* Tokens, loss and score at a step time, by the texts of the manual. */
struct worth {
    bool is_possible;
    double tokens, loss, score;
};

/* Least tokens that the law asks for, by bisection in their logarithm. */
static double tokens_to_target(const struct problem *p, const struct geometry *g,
                               const struct oracle_counts *n) {
    double low = log(n->active * fmax(p->limits.tokens_per_active_min, 1e-6)),
           high = log(n->active * fmin(p->limits.tokens_per_active_max, 1e9));
    enum { HALVINGS = 200 };
    for (int i = 0; i < HALVINGS; ++i) {
        const double middle = 0.5 * (low + high);
        const double loss = oracle_loss(&p->law, n->total, oracle_worth(p, exp(middle)),
                                        n->sparsity, g->granularity);
        *(loss > p->budget.target_loss ? &low : &high) = middle;
    }
    return exp(high);
}

static struct worth worth_of(const struct problem *p, const struct geometry *g,
                             double step_time_s) {
    struct oracle_counts n;
    struct worth w = {.is_possible = false};
    oracle_count(g, &n);
    const double step_tokens = (double)p->workload.global_batch * p->workload.sequence;
    const double seconds = p->budget.seconds * p->budget.goodput;
    const bool has_target = p->budget.target_loss > 0.0;
    w.tokens = has_target ? tokens_to_target(p, g, &n) : oracle_tokens(p, n.active, step_time_s);
    if (!(w.tokens > 0.0))
        return w;
    w.loss = oracle_loss(&p->law, n.total, oracle_worth(p, w.tokens), n.sparsity, g->granularity);
    const double needed = w.tokens / step_tokens * step_time_s;
    if (has_target && (w.loss > p->budget.target_loss * (1.0 + rounding) || needed > seconds))
        return w;
    const double wall = needed / p->budget.goodput, price = p->cluster.price_usd_per_gpu_h;
    const double gpus = (double)p->cluster.nodes * p->cluster.gpus_per_node;
    w.score = p->objective == OBJECTIVE_LOSS   ? w.loss
              : p->objective == OBJECTIVE_TIME ? wall
              : p->objective == OBJECTIVE_COST ? wall / 3600.0 * gpus * (price > 0.0 ? price : 1.0)
                                               : -w.tokens;
    w.is_possible = true;
    return w;
}

static enum recompute recompute_of(const char *name) {
    return strcmp(name, "full") == 0        ? RECOMPUTE_FULL
           : strcmp(name, "selective") == 0 ? RECOMPUTE_SELECTIVE
                                            : RECOMPUTE_NONE;
}

static void read_layout(const json_t *from, struct layout *out) {
    const json_t *const stages = json_object_get(from, "stages");
    *out = (struct layout){.mesh = {.tp = whole(from, "tp"),
                                    .cp = whole(from, "cp"),
                                    .pp = whole(from, "pp"),
                                    .vpp = whole(from, "vpp"),
                                    .ep = whole(from, "ep"),
                                    .etp = whole(from, "etp"),
                                    .dp = whole(from, "dp"),
                                    .micro_batch = whole(from, "micro_batch"),
                                    .micro_batches = whole(from, "micro_batches"),
                                    .recompute = recompute_of(word(from, "recompute"))}};
    out->split.stages = (int)json_array_size(stages);
    for (size_t i = 0; i < json_array_size(stages) && i < LAYOUT_MAX_PP; ++i) {
        const json_t *const layers = json_object_get(json_array_get(stages, i), "layers");
        out->split.first[i + 1] =
            (uint16_t)(json_integer_value(json_array_get(layers, 1)) + 1); /* last, inclusive */
    }
}

/* Steps that were measured move those of their models. */
static bool take_measured(struct checker *c) {
    const json_t *const measured = json_object_get(c->root, "measured");
    c->workload = c->p->workload;
    if (!measured)
        return true;
    if (!certificate_measured(measured, c->p, read_layout, &c->anchors, c->out->reason,
                              sizeof c->out->reason))
        return false;
    c->workload.anchors = &c->anchors;
    return true;
}

/* Every degree legal, the split a tiling. */
static bool is_launchable(const struct problem *p, const struct geometry *g,
                          const struct layout *l) {
    const struct mesh *const m = &l->mesh;
    if (m->tp < 1 || m->cp < 1 || m->pp < 1 || m->vpp < 1 || m->ep < 1 || m->etp < 1 ||
        m->micro_batch < 1 || m->pp > LAYOUT_MAX_PP || l->split.stages != m->pp)
        return false;
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    if (!oracle_is_declared(p, m) || !oracle_is_legal(p, g, m) ||
        m->dp != world / (m->tp * m->cp * m->pp) ||
        m->micro_batches != p->workload.global_batch / (m->micro_batch * m->dp))
        return false;
    for (int i = 0; i < m->pp; ++i)
        if (l->split.first[i] >= l->split.first[i + 1])
            return false;
    return l->split.first[m->pp] == g->layers;
}

static bool value_holds(struct checker *c, const struct step_context *ctx, const json_t *entry) {
    const struct geometry *const g = ctx->geometry;
    struct layout layout;
    struct layer_table table;
    struct prediction predicted;
    double stated, tokens, loss, score;
    const size_t i = (size_t)whole(entry, "index");
    read_layout(json_object_get(entry, "layout"), &layout);
    if (!is_launchable(c->p, g, &layout))
        return refuse(c, "geometry %zu: its layout is none of the space", i);
    layer_table_fill(ctx, &layout.mesh, &table);
    step_predict(ctx, &table, &layout.mesh, &layout.split, &predicted, NULL);
    if (!has_number(entry, "step_time_s", &stated) || stated != predicted.step_time_s)
        return refuse(c, "geometry %zu: its layout does not run at the stated step time", i);
    if (predicted.verdict == VERDICT_NO)
        return refuse(c, "geometry %zu: its layout does not fit", i);
    const struct worth w = worth_of(c->p, g, stated);
    const bool is_solved = strcmp(word(entry, "end"), "solved") == 0;
    if (w.is_possible != is_solved)
        return refuse(c, "geometry %zu: whether it can be planned", i);
    if (is_solved && (!has_number(entry, "tokens", &tokens) || !is_close(tokens, w.tokens) ||
                      !has_number(entry, "loss", &loss) || !is_close(loss, w.loss) ||
                      !has_number(entry, "score", &score) || !is_close(score, w.score)))
        return refuse(c, "geometry %zu: its tokens, loss or score", i);
    return true;
}

/* ---- bounds ---- */

/* What the walk over the meshes of one geometry looks for. */
struct survey {
    struct checker *c;
    const struct step_context *ctx;
    double bound_s; /* claimed; 0 without a claim */
    double beats_s; /* a step below this one would score below the best */
    size_t meshes;
    bool has_bound, is_broken;
};

static void weigh(struct survey *s, const struct mesh *m) {
    struct checker *const c = s->c;
    struct layer_table table;
    s->meshes++;
    layer_table_fill(s->ctx, m, &table);
    if (memory_verdict(s->ctx, step_memory_bound(s->ctx, &table, m)) == VERDICT_NO)
        return;
    const double bound = least_step_bound(s->ctx, &table, m);
    if (!s->has_bound || bound < s->bound_s * (1.0 - rounding)) {
        /* The claim leaves it out: it must not fit at all. */
        c->out->closed_by_memory++;
        if (least_step_fits(c->scratch, s->ctx, &table, m))
            s->is_broken = !refuse(c, "a mesh that may fit lies below the bound of its geometry");
        return;
    }
    if (bound >= s->beats_s * (1.0 - rounding)) {
        c->out->closed_by_bound++;
        return;
    }
    c->out->closed_by_splits++;
    if (least_step_find(c->scratch, s->ctx, &table, m, s->beats_s) < s->beats_s * (1.0 - rounding))
        s->is_broken = !refuse(c, "a layout that nobody names beats the best");
}

/* A step time below which a geometry would score below the best: the score falls with it. */
static double step_to_beat(const struct checker *c, const struct geometry *g) {
    double low = 1e-9, high = 1e9;
    enum { HALVINGS = 200 };
    for (int i = 0; i < HALVINGS; ++i) {
        const double middle = sqrt(low * high);
        const struct worth w = worth_of(c->p, g, middle);
        *(w.is_possible && w.score < c->best_score ? &low : &high) = middle;
    }
    return low;
}

/* A value that the space lists, or any where it lists none. */
static bool is_listed(const struct axis *axis, int value) {
    bool is = axis->count == 0;
    for (int i = 0; i < axis->count; ++i)
        is = is || axis->values[i] == value;
    return is;
}

static void each_batch(struct survey *s, struct mesh m) {
    const struct problem *const p = s->c->p;
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    for (m.micro_batch = 1; m.micro_batch <= p->workload.global_batch && !s->is_broken;
         ++m.micro_batch)
        for (int r = 0; r < RECOMPUTE_MODES && is_listed(&p->layouts.micro_batch, m.micro_batch) &&
                        p->workload.global_batch % m.micro_batch == 0;
             ++r) {
            m.recompute = (enum recompute)r;
            if (!oracle_is_declared(p, &m) || !oracle_is_legal(p, s->ctx->geometry, &m))
                continue;
            m.dp = world / (m.tp * m.cp * m.pp);
            m.micro_batches = p->workload.global_batch / (m.micro_batch * m.dp);
            weigh(s, &m);
        }
}

/* Expert groups and chunks of the degrees so far. */
static void each_expert_group(struct survey *s, struct mesh m) {
    const struct layout_space *const space = &s->c->p->layouts;
    const int world = s->c->p->cluster.nodes * s->c->p->cluster.gpus_per_node, most = world / m.pp;
    for (m.ep = 1; m.ep <= most; ++m.ep)
        for (m.etp = 1; is_listed(&space->ep, m.ep) && m.ep * m.etp <= most; ++m.etp)
            for (m.vpp = 1; is_listed(&space->etp, m.etp) && most % (m.ep * m.etp) == 0 &&
                            m.vpp <= s->ctx->geometry->layers;
                 ++m.vpp)
                if (is_listed(&space->vpp, m.vpp))
                    each_batch(s, m);
}

static void each_degree(struct survey *s) {
    const struct layout_space *const space = &s->c->p->layouts;
    const int world = s->c->p->cluster.nodes * s->c->p->cluster.gpus_per_node;
    struct mesh m = {0};
    for (m.tp = 1; m.tp <= world; ++m.tp)
        for (m.cp = 1; is_listed(&space->tp, m.tp) && m.tp * m.cp <= world; ++m.cp)
            for (m.pp = 1; is_listed(&space->cp, m.cp) && m.tp * m.cp * m.pp <= world; ++m.pp)
                if (is_listed(&space->pp, m.pp) && world % (m.tp * m.cp * m.pp) == 0)
                    each_expert_group(s, m);
}

static bool bound_holds(struct checker *c, const struct step_context *ctx, const json_t *entry) {
    const size_t i = (size_t)whole(entry, "index");
    double score;
    /* What a stopped search has left open may beat its best: the gap says by how much. */
    const bool is_open = strcmp(word(entry, "end"), "open") == 0;
    struct survey s = {
        .c = c, .ctx = ctx, .beats_s = is_open ? 0.0 : step_to_beat(c, ctx->geometry)};
    const bool has_bound = has_number(entry, "bound_s", &s.bound_s);
    s.has_bound = has_bound;
    each_degree(&s);
    c->out->meshes += s.meshes;
    if (s.is_broken)
        return false;
    if (s.meshes != (size_t)whole(entry, "meshes"))
        return refuse(c, "geometry %zu: %zu meshes, not as many as stated", i, s.meshes);
    const struct worth w =
        has_bound ? worth_of(c->p, ctx->geometry, s.bound_s) : (struct worth){.is_possible = false};
    const bool has_score = has_number(entry, "score_bound", &score);
    if (has_score != (has_bound && w.is_possible))
        return refuse(c, "geometry %zu: whether its bound can be planned", i);
    if (has_score && score > w.score + rounding * fabs(w.score))
        return refuse(c, "geometry %zu: a score bound above what its step bound allows", i);
    return true;
}

/* What settles a geometry is what its numbers say. */
static bool end_holds(struct checker *c, const json_t *entry) {
    const char *const end = word(entry, "end");
    const size_t i = (size_t)whole(entry, "index");
    double bound, score = (double)INFINITY;
    const bool has_bound = has_number(entry, "bound_s", &bound),
               has_score = has_number(entry, "score_bound", &score);
    const bool is_known = json_object_get(entry, "meshes") != NULL;
    bool holds = false;
    if (strcmp(end, "loss_bound") == 0)
        holds = has_score && score >= c->best_score - rounding * fabs(c->best_score);
    else if (strcmp(end, "tokens_bound") == 0)
        holds = has_bound && !has_score;
    else if (strcmp(end, "memory_bound") == 0)
        holds = is_known && !has_bound && whole(entry, "meshes") > 0;
    else if (strcmp(end, "no_legal_layout") == 0)
        holds = is_known && !has_bound && whole(entry, "meshes") == 0;
    else if (strcmp(end, "solved") == 0 || strcmp(end, "solved_few_tokens") == 0)
        holds = has_bound && json_object_get(entry, "layout") != NULL;
    else if (strcmp(end, "solved_too_large") == 0)
        holds = has_bound;
    else if (strcmp(end, "open") == 0)
        holds = strcmp(c->status, "optimal") != 0;
    return holds || refuse(c, "geometry %zu: '%s' is not what settles it", i, end);
}

/* ---- the whole ---- */

static bool is_shape(const json_t *stated, const struct geometry *g) {
    return whole(stated, "layers") == g->layers && whole(stated, "first_dense") == g->first_dense &&
           whole(stated, "hidden") == g->hidden && whole(stated, "heads") == g->heads &&
           whole(stated, "kv_heads") == g->kv_heads && whole(stated, "head_dim") == g->head_dim &&
           whole(stated, "dense_ffn") == g->dense_ffn && whole(stated, "experts") == g->experts &&
           whole(stated, "top_k") == g->top_k &&
           whole(stated, "shared_experts") == g->shared_experts &&
           whole(stated, "expert_ffn") == g->expert_ffn &&
           json_number_value(json_object_get(stated, "granularity")) == g->granularity;
}

static bool entry_holds(struct checker *c, size_t i) {
    const json_t *const entry = json_array_get(c->entries, i);
    const struct problem *const p = c->p;
    const struct geometry *const g = &p->geometries.items[i];
    struct step_context ctx;
    if (whole(entry, "index") != (int)i || !is_shape(json_object_get(entry, "geometry"), g))
        return refuse(c, "geometry %zu is not that of the space", i);
    step_context_init(&ctx, g, &p->cluster, &p->calibration, &c->workload, &p->engine,
                      p->estimator);
    c->out->geometries++;
    if (!end_holds(c, entry))
        return false;
    if (strcmp(word(entry, "end"), "open") == 0) {
        double bound = -(double)INFINITY;
        (void)has_number(entry, "score_bound", &bound);
        c->open_bound = fmin(c->open_bound, bound);
        return json_object_get(entry, "meshes") == NULL || bound_holds(c, &ctx, entry);
    }
    return (!json_object_get(entry, "layout") || value_holds(c, &ctx, entry)) &&
           bound_holds(c, &ctx, entry);
}

/* The best is one of the entries, and the least of their scores. */
static bool best_holds(struct checker *c) {
    const json_t *const best = json_object_get(c->root, "best");
    const size_t at = (size_t)whole(best, "index");
    double own;
    if (!has_number(best, "score", &c->best_score) || at >= json_array_size(c->entries))
        return refuse(c, "there is no best");
    if (!has_number(json_array_get(c->entries, at), "score", &own) || own != c->best_score)
        return refuse(c, "the best does not score what its geometry does");
    for (size_t i = 0; i < json_array_size(c->entries); ++i)
        if (has_number(json_array_get(c->entries, i), "score", &own) && own < c->best_score)
            return refuse(c, "geometry %zu scores below the best", i);
    return true;
}

static bool gap_holds(struct checker *c) {
    double gap;
    const bool has_gap = has_number(c->root, "gap", &gap);
    const double true_gap = fmax(0.0, c->best_score - c->open_bound);
    if (!has_gap)
        return !isfinite(true_gap) || refuse(c, "no gap is stated");
    return is_close(gap, true_gap) || fabs(gap - true_gap) < rounding ||
           refuse(c, "another gap than the open geometries leave");
}

static bool check_all(struct checker *c) {
    if (strcmp(word(c->root, "schema"), "mosaic.certificate/1") != 0)
        return refuse(c, "no mosaic.certificate/1");
    c->status = word(c->root, "status");
    c->entries = json_object_get(c->root, "geometries");
    if (!load_plan(c) || !is_covered(c) || !take_measured(c))
        return false;
    if (json_array_size(c->entries) != c->p->geometries.count)
        return refuse(c, "%zu geometries, the space has %zu", json_array_size(c->entries),
                      c->p->geometries.count);
    if (!best_holds(c))
        return false;
    for (size_t i = 0; i < c->p->geometries.count; ++i)
        if (!entry_holds(c, i))
            return false;
    return gap_holds(c);
}

void certificate_check(const char *text, struct certificate_check *out) {
    *out = (struct certificate_check){.accepted = false};
    struct checker c = {.out = out, .open_bound = (double)INFINITY};
    c.root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    c.scratch = least_step_new();
    if (!c.root || !c.scratch)
        (void)refuse(&c, "no JSON");
    else
        out->accepted = check_all(&c);
    document_free(c.document);
    json_decref(c.root);
    least_step_free(c.scratch);
}
