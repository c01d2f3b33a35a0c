// SPDX-License-Identifier: GPL-3.0-or-later
/* Where the step time and the memory go. */
#include "report/result.h"
#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS_MAX = 48, BAR_WIDTH = 30 };

struct term {
    const char *key;
    double seconds;
    size_t place; /* in the result, to keep equals in order */
};

static const struct {
    const char *key, *label;
} labels[] = {
    {"step_time_s", "step time"},
    {"gemm_s", "GEMMs"},
    {"grouped_gemm_s", "grouped GEMMs (experts)"},
    {"attention_s", "attention core"},
    {"elementwise_s", "norms, RoPE, activations"},
    {"router_s", "router and top-k"},
    {"permute_s", "permute and unpermute"},
    {"head_loss_s", "LM head and loss"},
    {"quantise_s", "quantisation"},
    {"recompute_s", "recomputation"},
    {"dispatch_exposed_s", "kernel launches, exposed"},
    {"tp_exposed_s", "TP collectives, exposed"},
    {"cp_exposed_s", "CP collectives, exposed"},
    {"ep_exposed_s", "EP all-to-all, exposed"},
    {"pp_exposed_s", "PP transfers, exposed"},
    {"bubble_s", "pipeline bubble"},
    {"stage_imbalance_s", "uneven stages"},
    {"dp_exposed_s", "DP collectives, exposed"},
    {"optimizer_s", "optimizer step"},
    {"offload_exposed_s", "offload, exposed"},
    {"straggler_s", "stragglers"},
    {"correction_s", "correction"},
};

const char *table_term(const char *key, char out[LABEL_MAX]) {
    for (size_t i = 0; i < COUNT_OF(labels); i++)
        if (strcmp(labels[i].key, key) == 0)
            return labels[i].label;
    return table_words(key, out);
}

const char *table_corrected_term(const char *key, bool is_anchored, char out[LABEL_MAX]) {
    if (strcmp(key, "correction_s") != 0)
        return table_term(key, out);
    return is_anchored ? "anchoring correction" : "published correction";
}

static int compare_terms(const void *left, const void *right) {
    const struct term *const a = left;
    const struct term *const b = right;
    const double x = fabs(a->seconds);
    const double y = fabs(b->seconds);
    if (x < y || x > y)
        return x < y ? 1 : -1;
    return (a->place > b->place) - (a->place < b->place);
}

static size_t collect_terms(json_t *split, struct term terms[TERMS_MAX]) {
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(split, key, value) {
        const double seconds = json_number_value(value);
        if (count < TERMS_MAX && fabs(seconds) > 0) {
            terms[count] = (struct term){key, seconds, count};
            count++;
        }
    }
    qsort(terms, count, sizeof *terms, compare_terms);
    return count;
}

static void time_row(struct grid *grid, const char *label, double seconds, double total,
                     int decimals) {
    static const char bar[BAR_WIDTH + 1] = "##############################";
    const double share = seconds / total;
    char text[NUMBER_MAX];
    grid_row(grid);
    grid_text(grid, label);
    grid_text(grid, number_fixed(decimals < 0 ? seconds * 1e3 : seconds, abs(decimals), text));
    grid_text(grid, number_human(share, NUMBER_SHARE, text));
    const double length = fmin(fmax(share, 0), 1) * BAR_WIDTH;
    grid_cell(grid, "%.*s", (int)lround(length), bar);
}

void table_time_split(struct page *page, json_t *prediction) {
    json_t *const split = result_at(prediction, "time_split");
    struct term terms[TERMS_MAX] = {{0}};
    const size_t count = collect_terms(split, terms);
    double total = 0;
    if (count == 0 || !result_real(prediction, "step_time_s", &total) || !(total > 0))
        return;
    const bool in_ms = total < 1, is_anchored = result_at(prediction, "anchored") != NULL;
    const int decimals = in_ms ? -2 : 3; /* below zero: milliseconds */
    const struct page_column columns[] = {{"term", false, false},
                                          {in_ms ? "ms" : "s", true, false},
                                          {"share", true, false},
                                          {"", false, false}};
    char label[LABEL_MAX];
    struct grid grid;
    page_heading(page, "Step time, by term (zero terms left out)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < count; i++)
        time_row(&grid, table_corrected_term(terms[i].key, is_anchored, label), terms[i].seconds,
                 total, decimals);
    char text[NUMBER_MAX];
    grid_row(&grid);
    grid_text(&grid, "step");
    grid_text(&grid, number_fixed(in_ms ? total * 1e3 : total, abs(decimals), text));
    grid_text(&grid, number_human(1, NUMBER_SHARE, text));
    grid_end(&grid);
}

static const struct {
    const char *key, *label, *column;
} items[] = {
    {"weights", "weights", "weights"},         {"gradients", "gradients", "grads"},
    {"optimizer", "optimizer state", "optim"}, {"activations", "activations", "activ"},
    {"routed", "routed tokens", "routed"},     {"logits", "logits", "logits"},
    {"workspace", "workspace", "work"},        {"communication", "communication buffers", "comm"},
    {"gathered", "gathered weights", "gath"},  {"graphs", "CUDA graphs", "graphs"},
    {"reserve", "runtime reserve", "reserve"}, {"fragmentation", "fragmentation", "frag"},
};

static double stage_total(json_t *stage) {
    double sum = 0;
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        double bytes;
        if (result_real(stage, items[i].key, &bytes))
            sum += bytes;
    }
    return sum;
}

static size_t worst_stage(json_t *stages) {
    size_t worst = 0;
    double most = -1;
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const double sum = stage_total(json_array_get(stages, i));
        if (sum > most) {
            most = sum;
            worst = i;
        }
    }
    return worst;
}

/* The verdict is on what the allocator holds, fragmentation included. */
static void memory_verdict(struct page *page, json_t *memory) {
    double held;
    double capacity;
    const char *const verdict = result_text(memory, "verdict");
    if ((!result_real(memory, "reserved_bytes", &held) &&
         !result_real(memory, "peak_bytes", &held)) ||
        !result_real(memory, "capacity_bytes", &capacity))
        return;
    char used[NUMBER_MAX];
    char has[NUMBER_MAX];
    char rest[NUMBER_MAX];
    page_textf(page, "%s of %s usable: %s, %s %s", number_human(held, NUMBER_MEMORY, used),
               number_human(capacity, NUMBER_MEMORY, has),
               !verdict                     ? "no verdict"
               : strcmp(verdict, "no") != 0 ? verdict
               : held > capacity            ? "does not fit"
                                            : "fits; the host's memory is too small",
               number_human(fabs(capacity - held), NUMBER_MEMORY, rest),
               held > capacity ? "over" : "free");
    if (result_real(memory, "host_bytes", &held) && held > 0)
        page_textf(page, "host memory of a GPU: %s", number_human(held, NUMBER_MEMORY, used));
}

/* Less is shown in MiB, with its unit. */
static const double gib = 1024.0 * 1024 * 1024, least_gib = 0.1;

static void memory_items(struct page *page, json_t *stage) {
    static const struct page_column columns[] = {
        {"item", false, false}, {"GiB", true, false}, {"share", true, false}};
    const double total = stage_total(stage);
    char text[NUMBER_MAX];
    struct grid grid;
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i <= COUNT_OF(items); i++) {
        const bool is_sum = i == COUNT_OF(items);
        double bytes = total;
        if (!is_sum && (!result_real(stage, items[i].key, &bytes) || !(bytes > 0)))
            continue;
        grid_row(&grid);
        grid_text(&grid, is_sum ? "sum" : items[i].label);
        grid_text(&grid, bytes < least_gib * gib ? number_human(bytes, NUMBER_MEMORY, text)
                                                 : number_fixed(bytes / gib, 2, text));
        grid_text(&grid, total > 0 ? number_human(bytes / total, NUMBER_SHARE, text) : "");
    }
    grid_end(&grid);
}

static void memory_stages(struct page *page, json_t *stages) {
    struct page_column columns[COUNT_OF(items) + 2] = {{"stage", true, false}};
    for (size_t i = 0; i < COUNT_OF(items); i++)
        columns[i + 1] = (struct page_column){items[i].column, true, false};
    columns[COUNT_OF(items) + 1] = (struct page_column){"sum", true, false};
    struct grid grid;
    page_heading(page, "Memory of each stage (GiB)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t s = 0; s < json_array_size(stages); s++) {
        json_t *const stage = json_array_get(stages, s);
        char text[NUMBER_MAX];
        grid_row(&grid);
        grid_cell(&grid, "%zu", s);
        for (size_t i = 0; i <= COUNT_OF(items); i++) {
            double bytes = stage_total(stage);
            if (i < COUNT_OF(items) && !result_real(stage, items[i].key, &bytes))
                bytes = 0;
            grid_text(&grid, bytes > 0 ? number_fixed(bytes / gib, 1, text) : "");
        }
    }
    grid_end(&grid);
}

void table_memory(struct page *page, json_t *prediction, bool each) {
    json_t *const memory = result_at(prediction, "memory");
    json_t *const stages = result_at(memory, "stages");
    if (!memory)
        return;
    const size_t count = json_array_size(stages);
    const size_t worst = worst_stage(stages);
    char heading[LABEL_MAX];
    if (count > 1)
        (void)snprintf(heading, sizeof heading,
                       "Memory of the fullest stage (%zu; stages 0 to %zu)", worst, count - 1);
    else
        (void)snprintf(heading, sizeof heading, "Memory of a GPU");
    page_heading(page, heading);
    memory_verdict(page, memory);
    if (count > 0)
        memory_items(page, json_array_get(stages, worst));
    if (each && count > 1)
        memory_stages(page, stages);
}
