// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reading a result back: which of its layouts, its documents, its model among theirs, its degrees
 * and stages.  Every number is checked as if a person had written it.
 */
#include "doc/launch_plan.h"

#include "engine/way.h"
#include "model/count.h"
#include "step/engine_rules.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { RESULT_MAX_BYTES = 64 * 1024 * 1024, LABEL_MAX = 96 };

static const double tokens_most = 0x1p53; /* whole numbers end there */

/* What is being read, for messages: "PLAN.json: best.layout: ..." */
struct reading {
    struct launch_plan *plan;
    struct diag_list *diags;
    const struct launch_plan_options *options;
    const json_t *geometry, *layout;
    char at[LABEL_MAX]; /* of the layout's parent: "best.", "" */
};

static enum mosaic_status refuse(const struct reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum mosaic_status refuse(const struct reading *r, const char *format, ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return diag_error(r->diags, NULL, "%s: %s", r->plan->path, text);
}

static enum mosaic_status no_memory(const struct reading *r) {
    return diag_status(r->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* ---- the text ---- */

static enum mosaic_status read_text(struct reading *r) {
    struct source *source = NULL;
    json_error_t wrong;
    TRY(source_read(NULL, r->plan->path, RESULT_MAX_BYTES, NULL, &source, r->diags));
    r->plan->root = json_loadb(source->text, source->size, JSON_REJECT_DUPLICATES, &wrong);
    source_free(source);
    if (r->plan->root)
        return MOSAIC_OK;
    const bool is_cut = json_error_code(&wrong) == json_error_premature_end_of_input;
    (void)diag_error(r->diags, NULL, "%s: %s at line %d: %s", r->plan->path,
                     is_cut ? "the file was cut" : "not JSON", wrong.line, wrong.text);
    diag_hint(r->diags, "what 'mosaic plan FILE --format json --output PLAN.json' writes is taken");
    return MOSAIC_BAD_INPUT;
}

static const json_t *text_in(const json_t *object, const char *key, const char **text) {
    const json_t *const value = json_object_get(object, key);
    *text = json_string_value(value);
    return value;
}

/* ---- which layout ---- */

static enum mosaic_status no_layout(const struct reading *r) {
    const json_t *const root = r->plan->root;
    const char *status = NULL, *verdict = NULL, *why = NULL;
    (void)text_in(root, "status", &status);
    (void)text_in(root, "verdict", &verdict);
    (void)text_in(json_object_get(root, "infeasible"), "message", &why);
    (void)refuse(r, "there is no layout in it: its %s is '%s'", verdict ? "verdict" : "status",
                 verdict  ? verdict
                 : status ? status
                          : "missing");
    if (why)
        diag_hint(r->diags, "%s", why);
    return MOSAIC_BAD_INPUT;
}

/* The entry of a rank in a list, or NULL. */
static const json_t *ranked(const json_t *list, int rank) {
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)list, i, item) {
        const json_t *const has = json_object_get(item, "rank");
        if (json_is_integer(has) && json_integer_value(has) == rank)
            return item;
    }
    return NULL;
}

static enum mosaic_status pick(struct reading *r) {
    const json_t *const root = r->plan->root, *from = root;
    const int entry = r->plan->entry;
    const char *list = NULL;
    if (strcmp(r->plan->schema, "mosaic.plan/1") == 0) {
        list = "alternatives";
        from = entry == 1 ? json_object_get(root, "best") : NULL;
        (void)snprintf(r->at, sizeof r->at, "best.");
    } else if (strcmp(r->plan->schema, "mosaic.layout/1") == 0) {
        list = "layouts";
        from = NULL;
    }
    const size_t count = list ? json_array_size(json_object_get(root, list)) : 1;
    if (list && count == 0 && !from)
        return no_layout(r);
    if (list && !from) {
        from = ranked(json_object_get(root, list), entry);
        (void)snprintf(r->at, sizeof r->at, "%s[rank %d].", list, entry);
    }
    if (!from || (!list && entry != 1)) {
        (void)refuse(r, "there is no entry %d: it lists %zu", entry, count);
        return MOSAIC_BAD_INPUT;
    }
    r->layout = json_object_get(from, "layout");
    r->geometry = json_object_get(from, "geometry");
    r->geometry = r->geometry ? r->geometry : json_object_get(root, "geometry");
    if (!json_is_object(r->layout) || !json_is_object(r->geometry))
        return no_layout(r);
    const json_t *tokens = json_object_get(from, "tokens");
    r->plan->tokens = json_is_number(tokens) ? json_number_value(tokens) : 0.0;
    if (!(r->plan->tokens >= 0.0 && r->plan->tokens <= tokens_most))
        return refuse(r, "%stokens are out of range", r->at);
    const char *verdict = NULL;
    (void)text_in(json_object_get(json_object_get(from, "prediction"), "memory"), "verdict",
                  &verdict);
    r->plan->is_too_large = verdict && strcmp(verdict, "no") == 0;
    return MOSAIC_OK;
}

static enum mosaic_status check_schema(struct reading *r) {
    static const char *const taken[] = {"mosaic.plan/1", "mosaic.predict/1", "mosaic.layout/1",
                                        "mosaic.explain/1"};
    char shown[STATUS_QUOTE_MAX];
    (void)text_in(r->plan->root, "schema", &r->plan->schema);
    for (size_t i = 0; r->plan->schema && i < sizeof taken / sizeof *taken; ++i)
        if (strcmp(taken[i], r->plan->schema) == 0)
            return pick(r);
    if (r->plan->schema)
        (void)refuse(r, "a %s holds no layout to launch",
                     status_quote(r->plan->schema, shown, sizeof shown));
    else
        (void)refuse(r, "no result of mosaic: it has no 'schema'");
    diag_hint(r->diags, "a result of plan, layout, predict or explain as JSON is taken");
    return MOSAIC_BAD_INPUT;
}

/* ---- its documents ---- */

static enum mosaic_status read_overrides(struct reading *r, void *memory,
                                         struct document_options *options) {
    const json_t *const list =
        json_object_get(json_object_get(r->plan->root, "provenance"), "overrides");
    const size_t count = json_array_size(list);
    struct document_override *const pairs =
        talloc_zero_array(memory, struct document_override, (unsigned)count + 1);
    if (!pairs)
        return no_memory(r);
    for (size_t i = 0; i < count; ++i) {
        (void)text_in(json_array_get(list, i), "key", &pairs[i].key);
        (void)text_in(json_array_get(list, i), "value", &pairs[i].value);
        if (!pairs[i].key || !pairs[i].value)
            return refuse(r, "provenance.overrides[%zu] is no key and value", i);
    }
    options->overrides = pairs;
    options->override_count = count;
    return MOSAIC_OK;
}

/* The same bytes as when the result was made. */
static enum mosaic_status check_hash(const struct reading *r, const struct document_input *input) {
    const json_t *const list =
        json_object_get(json_object_get(r->plan->root, "provenance"), "inputs");
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)list, i, item) {
        const char *path = NULL, *sha256 = NULL;
        (void)text_in(item, "path", &path);
        (void)text_in(item, "sha256", &sha256);
        if (!path || !sha256 || strcmp(path, input->path) != 0)
            continue;
        if (strcmp(sha256, input->sha256) == 0)
            return MOSAIC_OK;
        (void)refuse(r, "%s is not the file that it was made of: its SHA-256 differs", path);
        diag_hint(r->diags, "make the result anew, or bring the file back");
        return MOSAIC_BAD_INPUT;
    }
    return refuse(r, "it was not made of %s, which its documents name", input->path);
}

static enum mosaic_status read_document(struct reading *r, void *memory) {
    const json_t *const provenance = json_object_get(r->plan->root, "provenance");
    const json_t *const seed = json_object_get(provenance, "seed");
    struct document_options options = {.threads = r->options->threads, .stop = r->options->stop};
    const char *path = NULL;
    (void)text_in(json_array_get(json_object_get(provenance, "inputs"), 0), "path", &path);
    if (!path)
        return refuse(r, "provenance.inputs does not say what it was made of");
    if (strcmp(path, "-") == 0 || strcmp(path, "<stdin>") == 0)
        return refuse(r, "it was made of standard input, which cannot be read again");
    TRY(read_overrides(r, memory, &options));
    r->plan->seed = json_is_integer(seed) ? (unsigned long)json_integer_value(seed) : 1;
    options.seed = r->plan->seed;
    struct diag_list *const said = talloc_zero(memory, struct diag_list);
    if (!said)
        return no_memory(r);
    diag_init(said); /* what the documents are warned of was said when the result was made */
    const enum mosaic_status status = document_load_with(path, &options, said, &r->plan->document);
    if (status != MOSAIC_OK) {
        *r->diags = *said;
        diag_hint(r->diags, "%s was made of it; paths are seen from where that was", r->plan->path);
        return status;
    }
    const struct document *const d = r->plan->document;
    if (!d->has_problem)
        return refuse(r, "%s is no plan", path);
    for (size_t i = 0; i < d->input_count; ++i)
        TRY(check_hash(r, &d->inputs[i]));
    return MOSAIC_OK;
}

/* ---- numbers ---- */

static enum mosaic_status whole(const struct reading *r, const json_t *object, const char *where,
                                const char *key, int *out) {
    const json_t *const value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT_MAX)
        return refuse(r, "%s%s.%s is missing, or no whole number", r->at, where, key);
    *out = (int)json_integer_value(value);
    return MOSAIC_OK;
}

static enum mosaic_status word(const struct reading *r, const json_t *object, const char *where,
                               const char *key, const char *(*name_of)(int i), int *out) {
    char shown[STATUS_QUOTE_MAX];
    const char *text = NULL;
    (void)text_in(object, key, &text);
    for (int i = 0; text && name_of(i); ++i)
        if (strcmp(name_of(i), text) == 0) {
            *out = i;
            return MOSAIC_OK;
        }
    return refuse(r, "%s%s.%s '%s' is not known", r->at, where, key,
                  status_quote(text ? text : "", shown, sizeof shown));
}

static const char *schedule_at(int i) {
    return i < SCHEDULES ? schedule_name((enum schedule)i) : NULL;
}

static const char *recompute_at(int i) {
    return i < RECOMPUTE_MODES ? recompute_name((enum recompute)i) : NULL;
}

/* ---- the model ---- */

static bool is_count(const json_t *geometry, const char *key, double count) {
    const json_t *const value = json_object_get(geometry, key);
    return json_is_number(value) && fabs(json_number_value(value) - count) <= 1e-9 * count;
}

static enum mosaic_status same_geometry(const struct reading *r, const struct geometry *g,
                                        bool *is_same) {
    const struct {
        const char *key;
        int value;
    } parts[] = {{"layers", g->layers},
                 {"hidden", g->hidden},
                 {"heads", g->heads},
                 {"kv_heads", g->kv_heads},
                 {"head_dim", g->head_dim},
                 {"dense_ffn", g->dense_ffn},
                 {"expert_ffn", g->expert_ffn},
                 {"experts", g->experts},
                 {"top_k", g->top_k},
                 {"shared_experts", g->shared_experts},
                 {"first_dense", g->first_dense}};
    *is_same = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        int value = 0;
        TRY(whole(r, r->geometry, "geometry", parts[i].key, &value));
        *is_same = *is_same && value == parts[i].value;
    }
    struct param_counts counts;
    count_params(g, &counts);
    *is_same = *is_same && is_count(r->geometry, "n_total", counts.n_total) &&
               is_count(r->geometry, "n_active", counts.n_active);
    return MOSAIC_OK;
}

/* The law's granularity and the place on the ladder are no part of what is launched. */
static bool launch_alike(struct geometry a, struct geometry b) {
    a.granularity = b.granularity = 1.0;
    a.ladder_q = b.ladder_q = 0;
    return geometry_compare(&a, &b) == 0;
}

static enum mosaic_status read_geometry(struct reading *r) {
    const struct document *const d = r->plan->document;
    const struct geometry_space *const space = &d->problem.geometries;
    struct geometry *const out = &r->plan->geometry;
    bool is_found = false;
    for (size_t i = 0; i < space->count; ++i) {
        bool is_same = false;
        TRY(same_geometry(r, &space->items[i], &is_same));
        if (is_same && is_found && !launch_alike(*out, space->items[i]))
            return refuse(r,
                          "%sgeometry is that of several models of %s: name the one with "
                          "'model' and plan again",
                          r->at, d->path);
        if (is_same && !is_found)
            *out = space->items[i];
        is_found = is_found || is_same;
    }
    return is_found
               ? MOSAIC_OK
               : refuse(r, "%sgeometry is none of the %zu of %s", r->at, space->count, d->path);
}

/* ---- the job ---- */

static enum mosaic_status read_ways(const struct reading *r, struct execution *e) {
    char shown[STATUS_QUOTE_MAX];
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        const json_t *const value = json_object_get(r->layout, way_axis_name(axis));
        const char *const text = json_string_value(value);
        double number = 0.0;
        const bool is_moot = axis == WAY_DISPATCHER && text && strcmp(text, "none") == 0;
        if (is_moot || (!value && axis <= WAY_CUDA_GRAPHS))
            continue; /* the document's */
        if (text && !way_axis_read(axis, text, &number))
            return refuse(r, "%slayout.%s '%s' is not known", r->at, way_axis_name(axis),
                          status_quote(text, shown, sizeof shown));
        if (!text && value) {
            number = json_number_value(value);
            if (!json_is_number(value) || !way_axis_takes(axis, number))
                return refuse(r, "%slayout.%s is out of range", r->at, way_axis_name(axis));
        }
        way_axis_set(e, axis, number);
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_overlap(const struct reading *r, struct execution *e) {
    const json_t *const list = json_object_get(r->layout, "overlap");
    size_t i;
    json_t *item;
    if (!json_is_array(list))
        return MOSAIC_OK;
    e->overlap = 0;
    json_array_foreach((json_t *)(uintptr_t)list, i, item) {
        unsigned bit = 1;
        const char *const text = json_string_value(item);
        for (; text && overlap_name((enum overlap)bit); bit <<= 1)
            if (strcmp(overlap_name((enum overlap)bit), text) == 0)
                break;
        if (!text || !overlap_name((enum overlap)bit))
            return refuse(r, "%slayout.overlap[%zu] is not known", r->at, i);
        e->overlap |= bit;
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_job(struct reading *r) {
    struct workload *const w = &r->plan->workload;
    const json_t *const dp_overlap = json_object_get(r->layout, "dp_overlap");
    *w = r->plan->problem.workload;
    TRY(read_ways(r, &w->execution));
    TRY(read_overlap(r, &w->execution));
    if (json_is_boolean(dp_overlap))
        w->execution.serial_dp = !json_is_true(dp_overlap);
    if (w->execution.sharding == SHARD_HYBRID && json_object_get(r->layout, "shard_ranks"))
        TRY(whole(r, r->layout, "layout", "shard_ranks", &w->execution.shard_ranks));
    return MOSAIC_OK;
}

/* ---- the layout ---- */

static enum mosaic_status read_mesh(struct reading *r) {
    struct mesh *const m = &r->plan->layout.mesh;
    struct mesh whole_mesh = {0};
    const struct {
        const char *key;
        int *value;
    } parts[] = {{"tp", &whole_mesh.tp},
                 {"cp", &whole_mesh.cp},
                 {"pp", &whole_mesh.pp},
                 {"vpp", &whole_mesh.vpp},
                 {"ep", &whole_mesh.ep},
                 {"etp", &whole_mesh.etp},
                 {"dp", &whole_mesh.dp},
                 {"micro_batch", &whole_mesh.micro_batch},
                 {"micro_batches", &whole_mesh.micro_batches}};
    int schedule = 0, recompute = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        TRY(whole(r, r->layout, "layout", parts[i].key, parts[i].value));
        if (*parts[i].value < 1)
            return refuse(r, "%slayout.%s is 0", r->at, parts[i].key);
    }
    TRY(word(r, r->layout, "layout", "schedule", schedule_at, &schedule));
    TRY(word(r, r->layout, "layout", "recompute", recompute_at, &recompute));
    whole_mesh.schedule =
        schedule == SCHEDULE_INTERLEAVED ? SCHEDULE_1F1B : (enum schedule)schedule;
    whole_mesh.recompute = (enum recompute)recompute;
    if (whole_mesh.pp > LAYOUT_MAX_PP)
        return refuse(r, "%slayout.pp %d exceeds %d", r->at, whole_mesh.pp, (int)LAYOUT_MAX_PP);
    *m = whole_mesh;
    return MOSAIC_OK;
}

/* Stages of a list: layers [first, last], and what they recompute. */
static enum mosaic_status read_stage(const struct reading *r, size_t i, const json_t *item) {
    struct launch_plan *const p = r->plan;
    struct split *const split = &p->stages.split;
    const json_t *const layers = json_object_get(item, "layers");
    const json_int_t first = json_integer_value(json_array_get(layers, 0));
    const json_int_t last = json_integer_value(json_array_get(layers, 1));
    int recompute = (int)p->layout.mesh.recompute;
    if (json_array_size(layers) != 2 || first < 0 || last < first - 1 ||
        last >= GEOMETRY_MAX_LAYERS)
        return refuse(r, "%slayout.stages[%zu].layers are no first and last layer", r->at, i);
    if (json_object_get(item, "recompute"))
        TRY(word(r, item, "layout.stages[]", "recompute", recompute_at, &recompute));
    p->chunks[i].layers = (uint16_t)(last - first + 1);
    split->recompute[i % (size_t)p->stages.pp] = (uint8_t)recompute;
    split->is_mixed = split->is_mixed || recompute != (int)p->layout.mesh.recompute;
    return MOSAIC_OK;
}

/* The pipeline layout, where there is one, says more: where MTP layers are. */
static enum mosaic_status read_string(const struct reading *r, const char *text) {
    struct launch_plan *const p = r->plan;
    struct status_error err = {0};
    const size_t want = p->stages.count;
    size_t count = 0;
    struct pipeline_chunk *const chunks = calloc(want + 1, sizeof *chunks);
    if (!chunks)
        return no_memory(r);
    enum mosaic_status status = pipeline_parse(text, chunks, want + 1, &count, &err);
    bool is_same = status == MOSAIC_OK && count == want;
    for (size_t i = 0; is_same && i < want; ++i)
        is_same = chunks[i].layers == p->chunks[i].layers;
    if (status != MOSAIC_OK)
        (void)refuse(r, "%slayout.pipeline_layout: %s", r->at, err.message);
    else if (!is_same)
        status = refuse(r, "%slayout.pipeline_layout is not that of its stages", r->at);
    else
        memcpy(p->chunks, chunks, want * sizeof *chunks);
    free(chunks);
    return status;
}

static enum mosaic_status read_stages(struct reading *r) {
    struct launch_plan *const p = r->plan;
    struct stated_stages *const s = &p->stages;
    const json_t *const list = json_object_get(r->layout, "stages");
    const char *text = NULL;
    struct status_error err = {0};
    s->pp = p->layout.mesh.pp;
    s->vpp = p->layout.mesh.vpp;
    s->count = json_array_size(list);
    if (s->count > PIPELINE_MAX_LENGTH || s->count != (size_t)s->pp * (size_t)s->vpp)
        return refuse(r, "%slayout.stages has %zu entries, but PP %d x VPP %d = %ld", r->at,
                      s->count, s->pp, s->vpp, (long)s->pp * (long)s->vpp);
    p->chunks = calloc(s->count, sizeof *p->chunks);
    if (!p->chunks)
        return no_memory(r);
    for (size_t i = 0; i < s->count; ++i)
        TRY(read_stage(r, i, json_array_get(list, i)));
    p->chunks[0].embedding = true;
    p->chunks[s->count - 1].loss = true;
    p->chunks[s->count - 1].mtp = (uint16_t)p->geometry.mtp_layers;
    (void)text_in(r->layout, "pipeline_layout", &text);
    if (text)
        TRY(read_string(r, text));
    const struct pipeline_need need = {p->geometry.layers, p->geometry.mtp_layers, s->pp, s->vpp};
    if (pipeline_check(p->chunks, s->count, &need, &err) != MOSAIC_OK)
        return refuse(r, "%slayout.stages: %s", r->at, err.message);
    const struct split states = s->split;
    split_from_pipeline(p->chunks, s->count, s->pp, &s->split);
    s->split.is_mixed = states.is_mixed;
    memcpy(s->split.recompute, states.recompute, sizeof states.recompute);
    s->recompute = p->layout.mesh.recompute;
    s->chunks = p->chunks;
    p->layout.split = s->split;
    if (s->vpp > 1 && !stages_are_even(s))
        p->workload.execution.uneven_chunks = true;
    p->workload.stages = s;
    return MOSAIC_OK;
}

/* The nodes that the result is for: a plan may have had a choice of them. */
static enum mosaic_status read_nodes(struct reading *r) {
    const json_t *const cluster = json_object_get(r->plan->root, "cluster");
    int nodes = 0;
    r->at[0] = '\0';
    TRY(whole(r, cluster, "cluster", "nodes", &nodes));
    if (nodes < 1 ||
        (double)nodes * r->plan->document->problem.cluster.gpus_per_node > (double)CLUSTER_MAX_GPUS)
        return refuse(r, "cluster.nodes %d is out of range", nodes);
    problem_on(&r->plan->document->problem, nodes, &r->plan->problem);
    return MOSAIC_OK;
}

/* Data-parallel ranks and micro-batches follow from the rest: a result that says otherwise was
 * changed by hand. */
static enum mosaic_status check_arithmetic(const struct reading *r) {
    const struct launch_plan *const p = r->plan;
    const int gpus = cluster_gpus(&p->problem.cluster), batch = p->workload.global_batch;
    const struct mesh *const m = &p->layout.mesh;
    if ((double)m->tp * m->cp * m->pp * m->dp != (double)gpus)
        return refuse(r, "TP %d x CP %d x PP %d x DP %d are not its %d GPUs", m->tp, m->cp, m->pp,
                      m->dp, gpus);
    if ((double)m->micro_batch * m->micro_batches * m->dp != (double)batch)
        return refuse(r, "micro-batch %d x micro-batches %d x DP %d are not its global batch %d",
                      m->micro_batch, m->micro_batches, m->dp, batch);
    return MOSAIC_OK;
}

static enum mosaic_status read_all(struct reading *r, void *memory) {
    TRY(read_text(r));
    TRY(check_schema(r));
    char at[LABEL_MAX];
    memcpy(at, r->at, sizeof at);
    TRY(read_document(r, memory));
    TRY(read_nodes(r));
    memcpy(r->at, at, sizeof at);
    TRY(read_geometry(r));
    TRY(read_job(r));
    TRY(read_mesh(r));
    TRY(read_stages(r));
    return check_arithmetic(r);
}

enum mosaic_status launch_plan_load(const char *path, const struct launch_plan_options *options,
                                    struct diag_list *diags, struct launch_plan *out) {
    void *const memory = talloc_new(NULL);
    *out = (struct launch_plan){.path = path, .entry = options->entry};
    struct reading reading = {.plan = out, .diags = diags, .options = options};
    const enum mosaic_status status = memory ? read_all(&reading, memory) : no_memory(&reading);
    talloc_free(memory);
    if (status != MOSAIC_OK)
        launch_plan_free(out);
    return status;
}

void launch_plan_free(struct launch_plan *plan) {
    free(plan->chunks);
    document_free(plan->document);
    json_decref(plan->root);
    *plan = (struct launch_plan){0};
}
