// SPDX-License-Identifier: GPL-3.0-or-later
/* Geometry, layout, rates, loss terms, provenance, and short names for them. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

const char *text_at(json_t *root, const char *path) {
    const char *const text = result_text(root, path);
    return text ? text : "";
}

double real_at(json_t *root, const char *path) {
    double value;
    return result_real(root, path, &value) ? value : 0;
}

static void append(char out[LABEL_MAX], const char *separator, const char *name, const char *text) {
    const size_t used = strlen(out);
    (void)snprintf(out + used, LABEL_MAX - used, "%s%s%s", used ? separator : "", name, text);
}

static void append_number(char out[LABEL_MAX], json_t *object, const char *key, const char *name,
                          double least) {
    char text[NUMBER_MAX];
    double value;
    if (result_real(object, key, &value) && value >= least)
        append(out, " ", name, number_human(value, NUMBER_PLAIN, text));
}

/* Factors above 1, and PP always. */
static void append_factors(char out[LABEL_MAX], json_t *layout) {
    out[0] = '\0';
    append_number(out, layout, "tp", "TP", 2);
    append_number(out, layout, "cp", "CP", 2);
    append_number(out, layout, "pp", "PP", 1);
    append_number(out, layout, "vpp", "VPP", 2);
    append_number(out, layout, "ep", "EP", 2);
    append_number(out, layout, "etp", "ETP", 2);
}

/* 1F1B and its interleaved form follow from the degrees. */
static void append_schedule(char out[LABEL_MAX], json_t *layout, const char *separator) {
    const char *const schedule = result_text(layout, "schedule");
    if (schedule && strcmp(schedule, "1f1b") != 0 && strcmp(schedule, "interleaved") != 0)
        append(out, separator, "", schedule);
}

/* Choices of how the job runs that are not the plainest: a key of a layout, what is said before its
 * value, in a column and elsewhere, and after it. */
struct choice {
    const char *key, *plain; /* word that says nothing; NULL for numbers */
    const char *brief, *before, *after;
    enum number_unit unit;
};
static const struct choice choices[] = {
    {"sharding", "zero1", "", "", "", NUMBER_PLAIN},
    {"dispatcher", "nccl", "", "", "", NUMBER_PLAIN},
    {"cuda_graphs", "none", "", "", " graphs", NUMBER_PLAIN},
    {"offload_activations", NULL, "offload act ", "offload activations ", " %", NUMBER_SHARE},
    {"offload_optimizer", NULL, "offload opt ", "offload optimizer ", " %", NUMBER_SHARE},
    {"expert_balance", "none", "", "", "", NUMBER_PLAIN},
    {"dispatch_chunk", NULL, "chunk ", "chunks of ", "", NUMBER_PLAIN},
    {"vocab_ring", NULL, "ring ", "vocabulary ring ", "", NUMBER_PLAIN},
    {"checkpoint_offload", NULL, "host ", "boundaries on host ", "", NUMBER_MEMORY},
    {"optimizer_bucket", NULL, "bucket ", "optimizer buckets of ", "", NUMBER_COUNT},
};

/* Whether the layouts of some rows differ in a key. */
static bool varies(json_t *rows, const char *key) {
    json_t *const first = json_object_get(result_at(json_array_get(rows, 0), "layout"), key);
    for (size_t i = 1; i < json_array_size(rows); i++) {
        json_t *const other = json_object_get(result_at(json_array_get(rows, i), "layout"), key);
        if (first != other && !json_equal(first, other))
            return true;
    }
    return false;
}

bool table_choices_vary(json_t *rows) {
    for (size_t i = 0; i < COUNT_OF(choices); i++)
        if (varies(rows, choices[i].key))
            return true;
    return false;
}

static void append_choice(char out[LABEL_MAX], json_t *layout, const struct choice *choice,
                          bool is_brief) {
    const char *const word = result_text(layout, choice->key);
    char value[NUMBER_MAX], text[LABEL_MAX];
    double number = 0.0;
    if (choice->plain ? !word || strcmp(word, choice->plain) == 0 || strcmp(word, "none") == 0
                      : !(result_real(layout, choice->key, &number) && number > 0.0))
        return;
    if (choice->unit == NUMBER_SHARE)
        (void)snprintf(value, sizeof value, "%.3g", 100.0 * number);
    else
        (void)number_human(number, choice->unit, value);
    (void)snprintf(text, sizeof text, "%s%s%s", is_brief ? choice->brief : choice->before,
                   choice->plain ? word : value, choice->after);
    append(out, ", ", "", text);
}

/* "full x 2, none x 6", stage by stage; true where they differ. */
static bool stage_recompute(json_t *stages, char text[LABEL_MAX]) {
    bool differ = false;
    const size_t count = json_array_size(stages);
    text[0] = '\0';
    for (size_t i = 0, next; i < count; i = next) {
        const char *const word = result_text(json_array_get(stages, i), "recompute");
        char times[NUMBER_MAX];
        for (next = i + 1; word && next < count; ++next) {
            const char *const other = result_text(json_array_get(stages, next), "recompute");
            if (!other || strcmp(word, other) != 0)
                break;
        }
        (void)snprintf(times, sizeof times, " x %zu", next - i);
        if (word)
            append(text, ", ", word, times);
        differ = differ || next < count;
    }
    return differ;
}

/* The layout's is the most that any stage does. */
static const char *recompute_text(json_t *layout, const char *none, char text[NUMBER_MAX]) {
    char stages[LABEL_MAX];
    const char *const word = result_text(layout, "recompute");
    if (!word)
        return NULL;
    const bool differ = stage_recompute(result_at(layout, "stages"), stages);
    (void)snprintf(text, NUMBER_MAX, "%s%s", differ ? "up to " : "",
                   strcmp(word, "none") == 0 ? none : word);
    return text;
}

const char *table_layout_short(json_t *layout, json_t *rows, char out[LABEL_MAX]) {
    char text[NUMBER_MAX];
    append_factors(out, layout);
    append_number(out, layout, "micro_batch", "mb", 1);
    const char *const recompute = recompute_text(layout, "none", text);
    if (recompute)
        append(out, " ", "", recompute);
    append_schedule(out, layout, " ");
    for (size_t i = 0; i < COUNT_OF(choices); i++)
        if (varies(rows, choices[i].key))
            append_choice(out, layout, &choices[i], true);
    return out;
}

const char *table_layout_text(json_t *layout, char out[LABEL_MAX]) {
    char text[NUMBER_MAX];
    double value;
    append_factors(out, layout);
    append_number(out, layout, "dp", "DP", 1);
    if (result_real(layout, "micro_batch", &value))
        append(out, ", ", "micro-batch ", number_human(value, NUMBER_PLAIN, text));
    const char *const recompute = recompute_text(layout, "no", text);
    if (recompute)
        append(out, ", ", recompute, " recompute");
    append_schedule(out, layout, ", ");
    for (size_t i = 0; i < COUNT_OF(choices); i++)
        append_choice(out, layout, &choices[i], false);
    return out;
}

const char *table_geometry_text(json_t *geometry, char out[LABEL_MAX]) {
    out[0] = '\0';
    append_number(out, geometry, "layers", "L", 1);
    append_number(out, geometry, "hidden", "d", 1);
    append_number(out, geometry, "experts", "E", 1);
    append_number(out, geometry, "top_k", "K", 1);
    append_number(out, geometry, "granularity", "G", 0);
    return out;
}

const char *table_words(const char *key, char out[LABEL_MAX]) {
    (void)snprintf(out, LABEL_MAX, "%s", key);
    for (char *at = out; *at; at++)
        if (*at == '_')
            *at = ' ';
    return out;
}

void table_geometry(struct page *page, json_t *geometry, bool counts) {
    enum { COUNTS = 6 }; /* at the end */
    static const struct page_fact facts[] = {
        {"layers", "layers", "", NUMBER_PLAIN},
        {"first_dense", "first dense layers", "", NUMBER_PLAIN},
        {"hidden", "hidden", "", NUMBER_PLAIN},
        {"heads", "query heads", "", NUMBER_PLAIN},
        {"kv_heads", "key/value heads", "", NUMBER_PLAIN},
        {"head_dim", "head width", "", NUMBER_PLAIN},
        {"dense_ffn", "dense FFN width", "", NUMBER_PLAIN},
        {"experts", "experts a layer", "", NUMBER_PLAIN},
        {"top_k", "experts a token", "routed", NUMBER_PLAIN},
        {"shared_experts", "shared experts", "", NUMBER_PLAIN},
        {"expert_ffn", "expert FFN width", "", NUMBER_PLAIN},
        {"granularity", "granularity G", "reference FFN width / expert width", NUMBER_PLAIN},
        {"n_total", "total parameters", "every matrix", NUMBER_COUNT},
        {"n_active", "active parameters", "every matrix, routed experts used", NUMBER_COUNT},
        {"n_total_law", "total, law's count", "no embedding, head, router", NUMBER_COUNT},
        {"n_active_law", "active, law's count", "no embedding, head, router", NUMBER_COUNT},
        {"sparsity", "sparsity S", "1 - active/total, law's count", NUMBER_RATIO},
        {"flops_per_token", "training FLOPs a token", "causal, head in, no recompute", NUMBER_FLOP},
    };
    page_facts(page, "Geometry", geometry, facts, COUNT_OF(facts) - (counts ? 0 : COUNTS));
}

/* "6 6 7 6": how many of each; true where they differ. */
static bool stage_layers(json_t *stages, char text[LABEL_MAX]) {
    text[0] = '\0';
    bool differ = false;
    double before = 0;
    for (size_t i = 0; i < json_array_size(stages); i++) {
        json_t *const stage = json_array_get(stages, i);
        double first;
        double last;
        char number[NUMBER_MAX];
        if (!result_real(stage, "layers[0]", &first) || !result_real(stage, "layers[1]", &last))
            continue;
        const double count = last - first + 1;
        append(text, " ", "", number_human(count, NUMBER_PLAIN, number));
        differ = differ || (i > 0 && (count < before || count > before));
        before = count;
    }
    return differ;
}

void table_stages(struct page *page, json_t *layout, bool is_brief) {
    char layers[LABEL_MAX];
    const bool differ = stage_layers(result_at(layout, "stages"), layers);
    const char *const text = result_text(layout, "pipeline_layout");
    if (*layers && (differ || !is_brief))
        page_textf(page, "layers of each stage: %s", layers);
    if (differ && text)
        page_textf(page, "as a pipeline layout: %s", text);
    if (stage_recompute(result_at(layout, "stages"), layers))
        page_textf(page, "recompute of each stage: %s", layers);
}

static void remove_plain(json_t *layout, const char *key, const char *plain) {
    const char *const text = result_text(layout, key);
    if (text && strcmp(text, plain) == 0)
        (void)json_object_del(layout, key);
}

/* How the job runs is shown where it is not the plainest, lists as words. */
static json_t *shown_layout(json_t *layout) {
    char text[LABEL_MAX] = "", most[NUMBER_MAX];
    json_t *const shown = json_copy(layout);
    if (!shown)
        return NULL;
    if (recompute_text(layout, "none", most))
        (void)json_object_set_new(shown, "recompute", json_string(most));
    remove_plain(shown, "sharding", "zero1");
    remove_plain(shown, "cuda_graphs", "none");
    json_t *const overlap = json_object_get(layout, "overlap");
    for (size_t i = 0; i < json_array_size(overlap); i++)
        append(text, ", ", "", json_string_value(json_array_get(overlap, i)));
    if (*text)
        (void)json_object_set_new(shown, "overlap", json_string(text));
    if (json_is_false(json_object_get(layout, "dp_overlap")))
        (void)json_object_set_new(shown, "dp_overlap", json_string("none"));
    return shown;
}

void table_layout(struct page *page, json_t *layout) {
    static const struct page_fact facts[] = {
        {"tp", "TP", "tensor parallel", NUMBER_PLAIN},
        {"cp", "CP", "context parallel", NUMBER_PLAIN},
        {"pp", "PP", "pipeline stages", NUMBER_PLAIN},
        {"vpp", "VPP", "model chunks a stage", NUMBER_PLAIN},
        {"ep", "EP", "expert parallel, inside DP x CP x TP", NUMBER_PLAIN},
        {"etp", "ETP", "tensor parallel of experts", NUMBER_PLAIN},
        {"dp", "DP", "data parallel", NUMBER_PLAIN},
        {"micro_batch", "micro-batch", "sequences", NUMBER_PLAIN},
        {"global_batch", "global batch", "sequences", NUMBER_PLAIN},
        {"micro_batches", "micro-batches a step", "of each replica", NUMBER_PLAIN},
        {"schedule", "schedule", "", NUMBER_PLAIN},
        {"recompute", "recompute", "", NUMBER_PLAIN},
        {"sharding", "sharding", "over data-parallel ranks", NUMBER_PLAIN},
        {"shard_ranks", "shard group", "ranks", NUMBER_PLAIN},
        {"dispatcher", "token dispatcher", "", NUMBER_PLAIN},
        {"overlap", "overlapped", "behind compute", NUMBER_PLAIN},
        {"dp_overlap", "DP overlap", "collectives wait for the backward pass", NUMBER_PLAIN},
        {"cuda_graphs", "CUDA graphs", "", NUMBER_PLAIN},
        {"offload_activations", "activations offloaded", "to the host", NUMBER_SHARE},
        {"offload_optimizer", "optimizer offloaded", "to the host", NUMBER_SHARE},
        {"expert_balance", "expert balance", "", NUMBER_PLAIN},
        {"dispatch_chunk", "dispatch chunk", "tokens", NUMBER_PLAIN},
        {"vocab_ring", "vocabulary ring", "ranks", NUMBER_PLAIN},
        {"checkpoint_offload", "boundaries on the host", "at most, per GPU", NUMBER_MEMORY},
        {"optimizer_bucket", "optimizer bucket", "parameters", NUMBER_COUNT},
        {"precision", "precision", "", NUMBER_PLAIN},
    };
    json_t *const shown = shown_layout(layout);
    page_facts(page, "Layout", shown, facts, COUNT_OF(facts));
    json_decref(shown);
    table_stages(page, layout, false);
}

/* Only with measured steps of the model. */
static void anchored_line(struct page *page, json_t *anchored) {
    double steps, factor, sigma, before;
    char text[NUMBER_MAX];
    if (!result_real(anchored, "steps", &steps) || !result_real(anchored, "factor", &factor) ||
        !result_real(anchored, "sigma", &sigma) ||
        !result_real(anchored, "step_time_before_s", &before))
        return;
    page_textf(page,
               "anchored: %.0f measured step%s of this model multipl%s %s by %.4g; sigma %.3g "
               "remains",
               steps, steps > 1 ? "s" : "", steps > 1 ? "y" : "ies",
               number_human(before, NUMBER_TIME, text), factor, sigma);
}

void table_rates(struct page *page, json_t *prediction) {
    static const struct page_fact facts[] = {
        {"step_time_s", "step time", "", NUMBER_TIME},
        {"tokens_per_s_per_gpu", "tokens a second", "per GPU", NUMBER_RATE},
        {"mfu", "MFU", "causal, no recompute, dense peak", NUMBER_SHARE},
        {"mfu_full_attention", "MFU, full attention", "attention square not halved", NUMBER_SHARE},
        {"mfu_6n", "MFU, 6 N", "6 x active parameters, law's count", NUMBER_SHARE},
        {"hfu", "HFU", "recomputed FLOPs in", NUMBER_SHARE},
        {"mfu_useful", "useful MFU", "dropped routed work out", NUMBER_SHARE},
    };
    page_facts(page, "Speed", prediction, facts, COUNT_OF(facts));
    double low;
    double high;
    char from[NUMBER_MAX];
    char to[NUMBER_MAX];
    const char *const basis = result_text(prediction, "interval.basis");
    if (result_real(prediction, "interval.low", &low) &&
        result_real(prediction, "interval.high", &high))
        page_textf(page, "step time from %s to %s%s%s", number_human(low, NUMBER_TIME, from),
                   number_human(high, NUMBER_TIME, to), basis ? "; basis: " : "",
                   basis ? basis : "");
    anchored_line(page, result_at(prediction, "anchored"));
}

void table_loss_terms(struct page *page, const char *law, json_t *terms) {
    static const struct page_fact facts[] = {
        {"size", "model size", "a/N^alpha", NUMBER_LOSS},
        {"data", "data", "b/D^beta", NUMBER_LOSS},
        {"sparsity", "sparsity", "c/(1-S)^lambda", NUMBER_LOSS},
        {"joint", "granularity and sparsity", "j/((1-S)^delta N^gamma G^eta)", NUMBER_LOSS},
        {"floor", "floor", "e", NUMBER_LOSS},
        {"loss", "loss", "nats per token", NUMBER_LOSS},
    };
    char heading[LABEL_MAX];
    (void)snprintf(heading, sizeof heading, "Loss by term%s%s%s", law ? " (law " : "",
                   law ? law : "", law ? ")" : "");
    page_facts(page, heading, terms, facts, COUNT_OF(facts));
}

void table_lookups(struct page *page, json_t *prediction) {
    static const struct page_fact facts[] = {
        {"exact", "exact", "on a calibrated sample", NUMBER_PLAIN},
        {"interpolated", "interpolated", "between samples", NUMBER_PLAIN},
        {"outside", "outside", "beyond the calibrated range, or a stated default", NUMBER_PLAIN},
    };
    page_facts(page, "Look-ups of calibrated values", result_at(prediction, "lookups"), facts,
               COUNT_OF(facts));
}

/* Texts stand in a column of their own, so that they do not push the numbers apart. */
static void any_row(struct grid *grid, const char *label, json_t *value) {
    char text[NUMBER_MAX];
    grid_row(grid);
    grid_text(grid, label);
    if (json_is_number(value))
        grid_text(grid, number_human(json_number_value(value), NUMBER_PLAIN, text));
    else
        grid_text(grid, "");
    grid_text(grid, json_string_value(value));
}

/* Zeros of an inner object are left out: there they count what did not happen. */
static void any_rows(struct grid *grid, const char *prefix, json_t *object, bool is_inner) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char words[LABEL_MAX];
        char label[2 * LABEL_MAX];
        (void)snprintf(label, sizeof label, "%s%s%s", prefix, *prefix ? " " : "",
                       table_words(key, words));
        const double number = json_number_value(value);
        if (json_is_object(value) && !is_inner)
            any_rows(grid, label, value, true);
        else if (json_is_string(value) ||
                 (json_is_number(value) && (!is_inner || number > 0 || number < 0)))
            any_row(grid, label, value);
    }
}

void table_any(struct page *page, const char *heading, json_t *object) {
    static const struct page_column columns[] = {
        {"", false, false}, {"", true, false}, {"", false, true}};
    if (json_object_size(object) == 0)
        return;
    struct grid grid;
    page_heading(page, heading);
    grid_begin(&grid, page, columns, COUNT_OF(columns), false);
    any_rows(&grid, "", object, false);
    grid_end(&grid);
}

enum { DIGEST_SHOWN = 12 };

void table_provenance(struct page *page, json_t *root) {
    json_t *const provenance = result_at(root, "provenance");
    const char *const version = result_text(provenance, "version");
    const char *const build = result_text(provenance, "build");
    if (!provenance)
        return;
    page_heading(page, "From");
    if (version)
        page_textf(page, "mosaic %s%s%s%s", version, build ? " (" : "", build ? build : "",
                   build ? ")" : "");
    json_t *const inputs = result_at(provenance, "inputs");
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        json_t *const input = json_array_get(inputs, i);
        const char *const path = result_text(input, "path");
        const char *const digest = result_text(input, "sha256");
        if (path)
            page_textf(page, "%s%s%.*s", path, digest ? "  sha256 " : "", DIGEST_SHOWN,
                       digest ? digest : "");
    }
    json_t *const overrides = result_at(provenance, "overrides");
    for (size_t i = 0; i < json_array_size(overrides); i++) {
        json_t *const override = json_array_get(overrides, i);
        const char *const key = result_text(override, "key");
        const char *const value = result_text(override, "value");
        if (key && value)
            page_textf(page, "--set %s=%s", key, value);
    }
}
