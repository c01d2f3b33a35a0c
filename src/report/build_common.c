// SPDX-License-Identifier: GPL-3.0-or-later
/* The parts that all results share: head, geometry, layout, prediction, setting. */
#include "engine/way.h"
#include "report/build.h"
#include "report/version.h"
#include "step/engine_rules.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BASIS_MAX = 192 };

/* Documents of one call share files. */
static bool is_listed(const json_t *inputs, const char *path) {
    size_t i;
    json_t *entry;
    json_array_foreach(inputs, i, entry) {
        const char *const listed = json_string_value(json_object_get(entry, "path"));
        if (listed && strcmp(listed, path) == 0)
            return true;
    }
    return false;
}

static json_t *provenance(const struct document *const *documents, size_t count,
                          unsigned long seed) {
    json_t *const inputs = json_array(), *const overrides = json_array();
    for (size_t d = 0; d < count; ++d) {
        for (size_t i = 0; i < documents[d]->input_count; ++i) {
            if (is_listed(inputs, documents[d]->inputs[i].path))
                continue;
            (void)json_array_append_new(inputs, json_pack("{s:s, s:s}", "path",
                                                          documents[d]->inputs[i].path, "sha256",
                                                          documents[d]->inputs[i].sha256));
        }
        for (size_t i = 0; i < documents[d]->override_count; ++i)
            (void)json_array_append_new(
                overrides, json_pack("{s:s, s:s}", "key", documents[d]->overrides[i].key, "value",
                                     documents[d]->overrides[i].value));
    }
    return json_pack("{s:s, s:s, s:I, s:o, s:o}", "version", mosaic_version(), "build",
                     version_build(), "seed", (json_int_t)seed, "inputs", inputs, "overrides",
                     overrides);
}

json_t *build_head(const char *schema, const struct document *const *documents, size_t count,
                   unsigned long seed, const char *status) {
    return json_pack("{s:s, s:o, s:s}", "schema", schema, "provenance",
                     provenance(documents, count, seed), "status", status);
}

json_t *build_joined(json_t *root, json_t *parts) {
    const int failed = root && parts ? json_object_update(root, parts) : -1;
    json_decref(parts);
    if (failed) {
        json_decref(root);
        return NULL;
    }
    return root;
}

bool append_times(json_t *list, append_row *row, const struct prediction *a,
                  const struct prediction *b) {
    const char *name;
    double left, right;
    bool ok = row(list, "step_time_s", "s", a->step_time_s, b->step_time_s);
    for (int i = 0; ok && (name = time_term(&a->split, i, &left)) != NULL; ++i) {
        (void)time_term(&b->split, i, &right);
        ok = row(list, name, "s", left, right);
    }
    return ok;
}

bool append_memory(json_t *list, append_row *row, const struct prediction *a,
                   const struct prediction *b) {
    const char *name;
    double left, right;
    bool ok = true;
    for (int i = 0; ok && (name = memory_item(&a->memory, i, &left)) != NULL; ++i) {
        (void)memory_item(&b->memory, i, &right);
        ok = row(list, name, "byte", left, right);
    }
    return ok && row(list, "memory_total", "byte", a->memory.total, b->memory.total);
}

static json_t *whole(double count) {
    return json_integer((json_int_t)count);
}

json_t *build_geometry(const struct geometry *g, int sequence) {
    struct param_counts c;
    struct flop_counts f;
    count_params(g, &c);
    count_flops(g, (double)sequence, &f);
    json_t *const o =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:i}", "layers",
                  g->layers, "hidden", g->hidden, "heads", g->heads, "kv_heads", g->kv_heads,
                  "head_dim", g->head_dim, "dense_ffn", g->dense_ffn, "expert_ffn", g->expert_ffn,
                  "experts", g->experts, "top_k", g->top_k, "shared_experts", g->shared_experts,
                  "granularity", g->granularity, "first_dense", g->first_dense);
    if (!o)
        return NULL;
    if (g->ladder_q > 0)
        (void)json_object_set_new(o, "ladder_q", json_integer(g->ladder_q));
    json_t *const counts =
        json_pack("{s:o, s:o, s:o, s:o, s:f, s:f}", "n_total", whole(c.n_total), "n_active",
                  whole(c.n_active), "n_total_law", whole(c.n_total_law), "n_active_law",
                  whole(c.n_active_law), "sparsity", c.sparsity, "flops_per_token", f.causal);
    const int failed = counts ? json_object_update(o, counts) : -1;
    json_decref(counts);
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Runs of equal layer kinds, as "1 dense" or "3 moe". */
static json_t *stage_kinds(const struct geometry *g, int first, int last) {
    json_t *const kinds = json_array();
    for (int layer = first; layer < last; ++layer)
        (void)json_array_append_new(kinds, json_string(layer < g->first_dense ? "dense" : "moe"));
    return kinds;
}

static json_t *stage_entry(const struct geometry *g, const struct layout *layout, int stage,
                           int first, int last, const char *offload) {
    const enum recompute recompute = split_recompute(&layout->split, &layout->mesh, stage);
    return json_pack("{s:[i,i], s:o, s:s, s:s, s:f}", "layers", first, last - 1, "kinds",
                     stage_kinds(g, first, last), "recompute", recompute_name(recompute), "offload",
                     offload, "in_flight", stage_in_flight(&layout->mesh, stage));
}

/* With VPP > 1 the chunks in layer order, each with the stage that holds it. */
static json_t *stage_list(const struct geometry *g, const struct layout *layout,
                          const struct pipeline_chunk *chunks, const char *offload) {
    const struct mesh *const m = &layout->mesh;
    json_t *const stages = json_array();
    if (m->vpp == 1) {
        for (int i = 0; i < m->pp; ++i)
            (void)json_array_append_new(stages, stage_entry(g, layout, i, layout->split.first[i],
                                                            layout->split.first[i + 1], offload));
        return stages;
    }
    const long count = (long)m->pp * m->vpp;
    int first = 0;
    for (int chunk = 0; chunk < m->pp * m->vpp; ++chunk) {
        /* Without chunks an engine would find one of them empty: these differ by a layer. */
        const int last =
            chunks ? first + chunks[chunk].layers : (int)((chunk + 1) * (long)g->layers / count);
        json_t *const entry = stage_entry(g, layout, chunk % m->pp, first, last, offload);
        if (entry) {
            (void)json_object_set_new(entry, "stage", json_integer(chunk % m->pp));
            (void)json_object_set_new(entry, "chunk", json_integer(chunk / m->pp));
        }
        (void)json_array_append_new(stages, entry);
        first = last;
    }
    return stages;
}

/* NULL for a pipeline that has an empty chunk, or when memory is short. */
static struct pipeline_chunk *chunks_of(const struct geometry *g, const struct layout *layout) {
    const size_t count = (size_t)layout->mesh.pp * (size_t)layout->mesh.vpp;
    struct pipeline_chunk *const chunks = calloc(count, sizeof *chunks);
    if (chunks && pipeline_from_split(&layout->split, layout->mesh.vpp, g->mtp_layers, chunks,
                                      count, NULL) == MOSAIC_OK)
        return chunks;
    free(chunks);
    return NULL;
}

static bool takes_pipeline_layout(const struct engine *e, const struct mesh *m) {
    const enum schedule schedule = mesh_schedule(m);
    return m->pp > 1 && e->pipeline_layouts &&
           (schedule == SCHEDULE_1F1B || schedule == SCHEDULE_INTERLEAVED);
}

/* NULL where there is none. */
static json_t *pipeline_layout(const struct engine *e, const struct mesh *m,
                               const struct pipeline_chunk *chunks) {
    char text[PIPELINE_MAX_LENGTH + 1];
    const size_t count = (size_t)m->pp * (size_t)m->vpp;
    if (!chunks || !takes_pipeline_layout(e, m) ||
        pipeline_print(chunks, count, text, sizeof text, NULL) != MOSAIC_OK)
        return NULL;
    return json_string(text);
}

static const char *overlap_bit(unsigned bit) {
    return overlap_name((enum overlap)bit);
}

static const char *module_bit(unsigned bit) {
    return module_name((enum module)bit);
}

static const char *part_bit(unsigned bit) {
    for (int i = 0; i < OFFLOADS; ++i)
        if (bit == 1U << (unsigned)i)
            return offload_part_name((enum offload_part)i);
    return NULL;
}

static json_t *bit_names(unsigned set, const char *(*name_of)(unsigned bit)) {
    json_t *const list = json_array();
    const char *name;
    for (unsigned bit = 1; (name = name_of(bit)) != NULL; bit <<= 1)
        if (set & bit)
            (void)json_array_append_new(list, json_string(name));
    return list;
}

/* What of a stage's activations waits in host memory. */
static const char *offload_name(const struct execution *e) {
    return e->offload_activations > 0.0     ? "activations"
           : e->checkpoint_host_bytes > 0.0 ? "boundaries"
                                            : "none";
}

static json_t *choice_value(enum way_axis axis, double value) {
    const char *const *const words = way_axis_words(axis);
    if (words)
        return json_string(words[(int)value]);
    return axis == WAY_OFFLOAD_ACTIVATIONS || axis == WAY_OFFLOAD_OPTIMIZER ? json_real(value)
                                                                            : whole(ceil(value));
}

/* Choices that most jobs do not make: they stand in a layout where they are made. */
static bool add_choices(json_t *layout, const struct execution *e) {
    bool ok = true;
    for (int i = WAY_CUDA_GRAPHS + 1; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        const double value = way_axis_get(e, axis);
        if (value > 0.0)
            ok = json_object_set_new(layout, way_axis_name(axis), choice_value(axis, value)) == 0 &&
                 ok;
    }
    return ok;
}

static json_t *layout_of(const struct problem *problem, const struct geometry *g,
                         const struct layout *layout, const struct pipeline_chunk *chunks) {
    const struct mesh *const m = &layout->mesh;
    const struct execution *const e = &problem_workload(problem, m->way)->execution;
    json_t *const o =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s}", "tp", m->tp,
                  "cp", m->cp, "pp", m->pp, "vpp", m->vpp, "ep", m->ep, "etp", m->etp, "dp", m->dp,
                  "micro_batch", m->micro_batch, "global_batch", problem->workload.global_batch,
                  "micro_batches", m->micro_batches, "schedule", schedule_name(mesh_schedule(m)),
                  "recompute", recompute_name(m->recompute), "dispatcher",
                  m->ep > 1 ? dispatcher_name(e->dispatcher) : "none");
    json_t *const rest = json_pack(
        "{s:s, s:s, s:s, s:o, s:b, s:o}", "precision", precision_name(problem->workload.precision),
        "sharding", sharding_name(e->sharding), "cuda_graphs", graphs_name(e->graphs), "overlap",
        bit_names(e->overlap, overlap_bit), "dp_overlap", !e->serial_dp, "stages",
        stage_list(g, layout, chunks, offload_name(e)));
    if (rest && e->sharding == SHARD_HYBRID)
        (void)json_object_set_new(rest, "shard_ranks", json_integer(e->shard_ranks));
    json_t *const text = pipeline_layout(&problem->engine, m, chunks);
    if (rest && text)
        (void)json_object_set(rest, "pipeline_layout", text);
    json_decref(text);
    const int failed = o && rest && add_choices(rest, e) ? json_object_update(o, rest) : -1;
    json_decref(rest);
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *build_layout(const struct problem *problem, const struct geometry *g,
                     const struct layout *layout) {
    const struct stated_stages *const stated =
        workload_stages(problem_workload(problem, layout->mesh.way), &layout->mesh);
    if (stated)
        return layout_of(problem, g, layout, stated->chunks);
    struct pipeline_chunk *const chunks = chunks_of(g, layout);
    json_t *const o = layout_of(problem, g, layout, chunks);
    free(chunks);
    return o;
}

static json_t *time_terms(const struct time_split *split) {
    json_t *const o = json_object();
    double seconds;
    const char *name;
    for (int i = 0; (name = time_term(split, i, &seconds)) != NULL; ++i)
        (void)json_object_set_new(o, name, json_real(seconds));
    return o;
}

static json_t *memory_stage(const struct memory_items *items) {
    json_t *const o = json_object();
    double bytes;
    const char *name;
    for (int i = 0; (name = memory_item(items, i, &bytes)) != NULL; ++i)
        (void)json_object_set_new(o, name, whole(bytes));
    return o;
}

static json_t *memory(const struct prediction *p, const struct memory_items *stages,
                      int stage_count) {
    json_t *const list = json_array();
    for (int i = 0; i < stage_count; ++i)
        (void)json_array_append_new(list, memory_stage(&stages[i]));
    return json_pack("{s:o, s:o, s:o*, s:o, s:s, s:o, s:o*, s:i, s:o}", "peak_bytes",
                     whole(p->allocated_bytes), "reserved_bytes", whole(p->memory.total),
                     "guarantee_bytes", p->guarantee_bytes > 0.0 ? whole(p->guarantee_bytes) : NULL,
                     "capacity_bytes", whole(p->capacity_bytes), "verdict",
                     verdict_name(p->verdict), "host_bytes", whole(p->host_bytes),
                     "host_node_bytes", p->host_node_bytes > 0.0 ? whole(p->host_node_bytes) : NULL,
                     "worst_stage", p->worst_stage, "stages", list);
}

/* Which of the three situations the interval's width is of, and whose sigma it is. */
static void interval_basis(const struct problem *problem, const struct geometry *g,
                           const struct prediction *p, char text[BASIS_MAX]) {
    const struct calibration *const c = &problem->calibration;
    const enum scalar scalar = g->experts > 0 ? CAL_SIGMA_MOE : CAL_SIGMA;
    const char *const key = calibration_scalar_info(scalar)->key;
    const int used = snprintf(text, BASIS_MAX,
                              "90 %% of a log-normal step-time error with sigma %.3g: ", p->sigma);
    char *const rest = text + used;
    const size_t left = BASIS_MAX - (size_t)used;
    if (p->anchor_steps > 0)
        (void)snprintf(rest, left, "anchored by %zu measured step%s of the model", p->anchor_steps,
                       p->anchor_steps == 1 ? "" : "s");
    else if (c->scalar_origin[scalar] == ORIGIN_GENERIC)
        (void)snprintf(rest, left, "uncalibrated, the generic %s", key);
    else
        (void)snprintf(rest, left, "calibrated, %s of calibration %s", key, c->name);
}

static json_t *anchored(const struct prediction *p) {
    return json_pack("{s:I, s:f, s:f, s:f}", "steps", (json_int_t)p->anchor_steps, "factor",
                     p->anchor_factor, "sigma", p->sigma, "step_time_before_s",
                     p->step_time_s - p->split.correction_s);
}

json_t *build_prediction(const struct problem *problem, const struct geometry *g,
                         const struct prediction *p, const struct memory_items *stages,
                         int stage_count) {
    char basis[BASIS_MAX];
    interval_basis(problem, g, p, basis);
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:o*, s:{s:f, s:f, s:s}, s:o*, s:{s:i, s:i, s:i}, s:o, "
        "s:o}",
        "step_time_s", p->step_time_s, "tokens_per_s_per_gpu", p->tokens_per_s_per_gpu, "mfu",
        p->mfu, "mfu_full_attention", p->mfu_full_attention, "mfu_6n", p->mfu_6n, "hfu", p->hfu,
        "mfu_useful", p->mfu_useful < p->mfu ? json_real(p->mfu_useful) : NULL, "interval", "low",
        p->interval_low_s, "high", p->interval_high_s, "basis", basis, "anchored",
        p->anchor_steps > 0 ? anchored(p) : NULL, "lookups", "exact",
        (int)p->lookups.tag[LOOKUP_EXACT], "interpolated", (int)p->lookups.tag[LOOKUP_INTERPOLATED],
        "outside", (int)p->lookups.tag[LOOKUP_OUTSIDE], "time_split", time_terms(&p->split),
        "memory", memory(p, stages, stage_count));
}

json_t *build_law_terms(const struct law *law, const struct law_point *point) {
    struct law_terms t;
    law_evaluate(law, point, &t);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "size", t.size, "data", t.data, "sparsity",
                     t.sparsity, "joint", t.joint, "floor", t.floor, "loss", t.loss);
}

/* Quantities that only the generic document gives. */
static json_t *generic_quantities(const struct calibration *c) {
    json_t *const list = json_array();
    for (int i = 0; i < SCALAR_COUNT; ++i)
        if (c->scalar_origin[i] == ORIGIN_GENERIC)
            (void)json_array_append_new(list,
                                        json_string(calibration_scalar_info((enum scalar)i)->key));
    return list;
}

static json_t *switches(const struct estimator *e) {
    json_t *const list = json_array();
    const char *name, *text;
    bool is_on;
    for (int i = 0; (name = estimator_switch(e, i, &text, &is_on)) != NULL; ++i)
        if (is_on)
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s}", "switch", name, "text", text));
    return list;
}

static bool put(json_t *root, const char *key, json_t *value) {
    return json_object_set_new(root, key, value) == 0;
}

static bool put_text(json_t *o, bool is_due, const char *key, const char *text) {
    return !is_due || put(o, key, json_string(text));
}

/* A count that is not the usual one; 0: none was stated. */
static bool put_count(json_t *o, const char *key, int value, int usual) {
    return value == 0 || value == usual || put(o, key, json_integer(value));
}

/* What of the execution is not the plainest and stands nowhere else in a result. */
static json_t *execution(const struct execution *e) {
    json_t *const o = json_object();
    bool ok = put_text(o, e->bf16_gradients, "gradients", "bf16");
    ok = put_text(o, e->bf16_moments, "moments", "bf16") && ok;
    ok = put_text(o, e->no_master, "master", "none") && ok;
    ok = put_text(o, e->block_scaling, "fp8_scaling", "block") && ok;
    ok = put_text(o, e->fp8_attention, "attention", "fp8") && ok;
    ok = (!e->unfused_attention || put(o, "fused_attention", json_false())) && ok;
    ok = put_text(o, e->context_shards != CONTEXT_BALANCED, "context_shards",
                  context_shards_name(e->context_shards)) &&
         ok;
    ok = (!e->uneven_chunks || put(o, "uneven_chunks", json_true())) && ok;
    ok = (!(e->dropped > 0.0) || put(o, "dropped", json_real(e->dropped))) && ok;
    ok = (!(e->offload_activations > 0.0) ||
          put(o, "offload_activations", json_real(e->offload_activations))) &&
         ok;
    ok = (!(e->offload_optimizer > 0.0) ||
          put(o, "offload_optimizer", json_real(e->offload_optimizer))) &&
         ok;
    ok = put_count(o, "dispatch_chunks_max", e->dispatch_chunks_max, 10) && ok;
    ok = put_count(o, "restore_depth", e->restore_depth, 1) && ok;
    ok = put_count(o, "optimizer_slots", e->bucket_slots, 2) && ok;
    ok = put_text(o, e->vocab_move > 0, "vocab_move",
                  e->vocab_move == 1 ? "activations" : "weights") &&
         ok;
    if (e->offload_parts)
        ok = put(o, "offload_modules", bit_names(e->offload_parts, part_bit)) && ok;
    if (e->selective)
        ok = put(o, "selective", bit_names(e->selective, module_bit)) && ok;
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *workload(const struct workload *w) {
    json_t *const o =
        json_pack("{s:i, s:i, s:s, s:s, s:i, s:f}", "sequence", w->sequence, "global_batch",
                  w->global_batch, "precision", precision_name(w->precision), "optimizer",
                  optimizer_name(w->optimizer), "vocab", w->vocab, "imbalance", w->imbalance);
    json_t *const how = execution(&w->execution);
    if (how && json_object_size(how) > 0)
        (void)json_object_set(o, "execution", how);
    json_decref(how);
    if (!o || !w->expert_tokens)
        return o;
    json_t *const tokens = json_array();
    for (int i = 0; i < w->expert_count; ++i)
        (void)json_array_append_new(tokens, json_real(w->expert_tokens[i]));
    (void)json_object_set_new(o, "expert_tokens", tokens);
    return o;
}

static json_t *real_or_null(double value, bool is_known) {
    return is_known ? json_real(value) : NULL;
}

static json_t *budget(const struct budget *b) {
    return json_pack("{s:o*, s:o*, s:o*, s:f, s:o*}", "days",
                     real_or_null(b->seconds / UNITS_SECONDS_PER_DAY, isfinite(b->seconds)),
                     "gpu_hours", real_or_null(b->gpu_hours, b->gpu_hours > 0.0), "cost_usd",
                     real_or_null(b->cost_usd, b->cost_usd > 0.0), "goodput", b->goodput,
                     "target_loss", real_or_null(b->target_loss, b->target_loss > 0.0));
}

bool build_setting(json_t *root, const struct problem *problem) {
    const struct cluster *const c = &problem->cluster;
    bool ok = put(root, "estimator", json_string(problem->is_published ? "published" : "default"));
    if (problem->is_published)
        ok = put(root, "estimator_switches", switches(&problem->estimator)) && ok;
    ok = put(root, "calibration",
             json_pack("{s:s, s:s, s:o}", "name", problem->calibration.name, "device",
                       problem->calibration.device, "generic",
                       generic_quantities(&problem->calibration))) &&
         ok;
    const enum precision precision = problem->workload.precision;
    ok = put(root, "cluster",
             json_pack("{s:s, s:i, s:i, s:s, s:f, s:f}", "name", c->name, "nodes", c->nodes, "gpus",
                       cluster_gpus(c), "device", c->device.name, "peak_flop_per_s",
                       c->device.peak_flop_per_s[precision], "memory_bytes",
                       c->device.memory_bytes)) &&
         ok;
    ok = put(root, "engine",
             json_pack("{s:s, s:s}", "name", problem->engine.name, "version",
                       problem->engine.version)) &&
         ok;
    ok = put(root, "workload", workload(&problem->workload)) && ok;
    ok = put(root, "objective", json_string(objective_name(problem->objective))) && ok;
    ok = put(root, "budget", budget(&problem->budget)) && ok;
    return put(root, "law",
               json_pack("{s:s, s:s, s:s}", "name", problem->law.name, "form", "mosaic", "source",
                         problem->law.source)) &&
           ok;
}

/* What has been said once is not said again. */
bool append_text(json_t *list, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t i;
    json_t *said;
    json_array_foreach(list, i, said) {
        if (strcmp(json_string_value(said), text) == 0)
            return true;
    }
    return json_array_append_new(list, json_string(text)) == 0;
}

bool append_diagnostics(json_t *list, const struct diag_list *diags) {
    bool ok = true;
    for (size_t i = 0; i < diags->count; ++i) {
        const struct diag *const d = &diags->items[i];
        const char *const gap = d->hint[0] ? "; " : "";
        if (d->line > 0)
            ok = append_text(list, "%s:%ld:%ld: %s%s%s", d->file, d->line, d->column, d->message,
                             gap, d->hint) &&
                 ok;
        else
            ok = append_text(list, "%s%s%s%s%s", d->file, d->file[0] ? ": " : "", d->message, gap,
                             d->hint) &&
                 ok;
    }
    return ok;
}

static bool append_host_warning(json_t *list, const struct cluster *c, const struct prediction *p) {
    const double gib = UNITS_BYTES_PER_GIB, host_gib = c->host_memory_bytes / gib;
    if (p->host_node_bytes < p->host_bytes * (double)c->gpus_per_node) /* stages share nodes */
        return append_text(list,
                           "the layout does not fit in host memory: %.1f GiB on the fullest node, "
                           "up to %.1f GiB a GPU, of %.1f GiB a node",
                           p->host_node_bytes / gib, p->host_bytes / gib, host_gib);
    return append_text(list,
                       "the layout does not fit in host memory: %.1f GiB a GPU x %d GPUs of "
                       "%.1f GiB a node",
                       p->host_bytes / gib, c->gpus_per_node, host_gib);
}

bool append_prediction_warnings(json_t *list, const struct problem *problem,
                                const struct prediction *p) {
    bool ok = true;
    const unsigned outside = p->lookups.tag[LOOKUP_OUTSIDE];
    if (outside > 0)
        ok = append_text(list,
                         "%u look-ups leave what calibration %s has measured: link bounds or flat "
                         "ends stand in",
                         outside, problem->calibration.name);
    const double share = p->memory.total / p->capacity_bytes;
    const double *const scalar = problem->calibration.scalar;
    if (p->verdict == VERDICT_TIGHT && share > scalar[CAL_TIGHT_SHARE])
        ok = append_text(list, "memory is tight: %.1f %% of what the device has", 100.0 * share) &&
             ok;
    else if (p->verdict == VERDICT_TIGHT)
        ok = append_text(list,
                         "memory is tight: %.1f %% of what the device has, above the %.0f %% that "
                         "are safe where the sizes of what is allocated vary (VPP, routed tokens "
                         "without a capacity)",
                         100.0 * share, 100.0 * scalar[CAL_VARIABLE_TIGHT_SHARE]) &&
             ok;
    if (p->verdict == VERDICT_NO && p->memory.total <= p->capacity_bytes)
        ok = append_host_warning(list, &problem->cluster, p) && ok;
    else if (p->verdict == VERDICT_NO)
        ok = append_text(list,
                         "the layout does not fit in memory: stage %d (from 0) needs %.1f GiB of "
                         "%.1f GiB",
                         p->worst_stage, p->memory.total / UNITS_BYTES_PER_GIB,
                         p->capacity_bytes / UNITS_BYTES_PER_GIB) &&
             ok;
    int generic = 0;
    for (int i = 0; i < SCALAR_COUNT; ++i)
        generic += problem->calibration.scalar_origin[i] == ORIGIN_GENERIC;
    if (generic > 0)
        ok = append_text(list,
                         "%d of %d calibrated quantities are generic defaults "
                         "(calibration.generic)",
                         generic, (int)SCALAR_COUNT) &&
             ok;
    return ok;
}
