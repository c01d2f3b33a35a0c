// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Words of a row as an execution.  It starts from the recipe of the row's engine release.  A list
 * of overlaps that is stated is complete for what recipes switch on by name (all-to-all, 8-bit
 * attention); TP and DP overlap, on by default in those releases, are only taken away by `none`.
 */
#include "doc/step_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Rows of the busiest expert rank over the mean under the router's own choice.  Pairs of runs of
 * Megatron-MoE-ModelZoo with forced and with natural routing agree on 1.55 to 1.65. */
static const double natural_imbalance = 1.6;

struct word {
    const char *text;
    unsigned value;
};

static const struct word *find(const struct word *words, const char *text, size_t length) {
    for (; words->text; ++words)
        if (strlen(words->text) == length && strncasecmp(words->text, text, length) == 0)
            return words;
    return NULL;
}

static bool is_word(const char *text, const char *word) {
    return strcasecmp(text, word) == 0;
}

/* Nothing said, in either way of saying it. */
static bool is_unstated(const char *text) {
    return text[0] == '\0' || is_word(text, "unstated");
}

/* A whole cell that is one of the words, or the row is left out. */
static bool take(struct step_row *row, enum step_column column, const struct word *words,
                 unsigned *value) {
    const char *const text = step_row_text(row, column);
    const struct word *const word = find(words, text, strlen(text));
    if (!word)
        return step_row_exclude(row, column, "is an unknown word");
    *value = word->value;
    return true;
}

static bool exclude_part(struct step_row *row, enum step_column column, const char *part,
                         size_t length) {
    /* Longer than what is shown, so that status_quote does the cutting: between characters. */
    char text[2 * STATUS_QUOTE_MAX], shown[STATUS_QUOTE_MAX];
    (void)snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text),
                   part);
    return step_row_exclude(row, column, "has the unknown word '%s'",
                            status_quote(text, shown, sizeof shown));
}

/* ---- the job ---- */

static bool take_routing(struct step_row *row, const struct step_facts *facts, struct workload *w,
                         unsigned *unstated) {
    enum { FORCED, NATURAL, UNSTATED };
    static const struct word words[] = {{"forced", FORCED},   {"none", FORCED},
                                        {"natural", NATURAL}, {"unstated", UNSTATED},
                                        {"", UNSTATED},       {NULL, 0}};
    unsigned routing = FORCED;
    if (!take(row, STEP_ROUTING, words, &routing))
        return false;
    if (routing == UNSTATED && facts->geometry->experts > 0)
        *unstated |= UNSTATED_ROUTING;
    const double stated = facts->numbers->imbalance;
    w->imbalance = stated > 0.0 ? stated : routing == NATURAL ? natural_imbalance : 1.0;
    return true;
}

static bool take_job(struct step_row *row, const struct step_facts *facts, struct workload *w) {
    static const struct word precisions[] = {{"bf16", PRECISION_BF16},
                                             {"fp8", PRECISION_FP8},
                                             {"mxfp8", PRECISION_MXFP8},
                                             {"nvfp4", PRECISION_NVFP4},
                                             {NULL, 0}};
    static const struct word optimizers[] = {
        {"adamw", OPTIMIZER_ADAMW}, {"adam", OPTIMIZER_ADAMW}, {"muon", OPTIMIZER_MUON}, {NULL, 0}};
    unsigned precision = 0, optimizer = 0;
    if (!take(row, STEP_PRECISION, precisions, &precision) ||
        !take(row, STEP_OPTIMIZER, optimizers, &optimizer))
        return false;
    w->sequence = facts->numbers->sequence;
    w->global_batch = facts->numbers->global_batch;
    w->precision = (enum precision)precision;
    w->optimizer = (enum optimizer)optimizer;
    w->vocab = facts->geometry->vocab;
    return true;
}

/* ---- its execution ---- */

static bool take_sharding(struct step_row *row, struct execution *e) {
    static const struct word words[] = {{"ddp", SHARD_NONE},    {"zero1", SHARD_ZERO1},
                                        {"zero2", SHARD_ZERO2}, {"zero3", SHARD_FSDP},
                                        {"fsdp", SHARD_FSDP},   {NULL, 0}};
    unsigned sharding = 0;
    if (!take(row, STEP_SHARD, words, &sharding))
        return false;
    e->sharding = (enum sharding)sharding;
    return true;
}

static bool take_dispatcher(struct step_row *row, const struct step_facts *facts,
                            struct execution *e, unsigned *unstated) {
    static const struct word words[] = {{"nccl", DISPATCH_NCCL},
                                        {"deepep", DISPATCH_DEEPEP},
                                        {"hybridep", DISPATCH_HYBRIDEP},
                                        {"allgather", DISPATCH_ALL_GATHER},
                                        {NULL, 0}};
    const char *const text = step_row_text(row, STEP_DISPATCHER);
    const bool has_exchange = facts->geometry->experts > 0 && facts->numbers->ep > 1;
    if (is_unstated(text)) {
        *unstated |= has_exchange ? (unsigned)UNSTATED_DISPATCHER : 0U;
        return true;
    }
    if (is_word(text, "none"))
        return !has_exchange ||
               step_row_exclude(row, STEP_DISPATCHER, "with experts and ep %d", facts->numbers->ep);
    unsigned dispatcher = 0;
    if (!take(row, STEP_DISPATCHER, words, &dispatcher))
        return false;
    e->dispatcher = (enum dispatcher)dispatcher;
    return true;
}

/* "IMPLEMENTATION:SCOPE"; an implementation `none` captures nothing whatever the scope. */
static bool take_graphs(struct step_row *row, struct execution *e, unsigned *unstated) {
    static const char none[] = "none", module[] = "transformer_engine:";
    const char *const text = step_row_text(row, STEP_GRAPHS);
    if (is_unstated(text)) {
        *unstated |= UNSTATED_GRAPHS;
        return true;
    }
    if (is_word(text, none) || strncasecmp(text, "none:", sizeof none) == 0)
        e->graphs = GRAPHS_NONE;
    else if (strstr(text, "full_iteration"))
        e->graphs = GRAPHS_FULL;
    else if (strncasecmp(text, module, sizeof module - 1) == 0)
        e->graphs = strstr(text, "attn") ? GRAPHS_MODULE : GRAPHS_ROUTER;
    else
        return step_row_exclude(row, STEP_GRAPHS, "is an unknown word");
    return true;
}

/* Words of the overlap column that change the execution; the others are known and change nothing
 * that is modelled. */
enum overlap_word { WORD_EP, WORD_TP, WORD_DP, WORD_FP8_ATTENTION, WORD_FSDP, WORD_NOTHING };

static void set_overlap(enum overlap_word word, const struct workload *w, struct execution *e) {
    switch (word) {
    case WORD_EP:
        e->overlap |= OVERLAP_EP;
        break;
    case WORD_TP:
        e->overlap |= OVERLAP_TP;
        break;
    case WORD_DP:
        e->serial_dp = false;
        break;
    case WORD_FP8_ATTENTION:
        e->fp8_attention = w->precision != PRECISION_BF16;
        break;
    case WORD_FSDP:
        e->sharding = SHARD_FSDP;
        break;
    case WORD_NOTHING:
        break;
    }
}

static bool take_overlap(struct step_row *row, struct workload *w, unsigned *unstated) {
    static const struct word words[] = {{"ep_1f1b_overlap", WORD_EP},
                                        {"no_ep_overlap", WORD_NOTHING},
                                        {"tp_overlap", WORD_TP},
                                        {"AsyncTP", WORD_TP},
                                        {"dp_grad_overlap", WORD_DP},
                                        {"dp_param_overlap", WORD_DP},
                                        {"fp8_attention", WORD_FP8_ATTENTION},
                                        {"megatron_fsdp", WORD_FSDP},
                                        {"delay_wgrad", WORD_NOTHING},
                                        {"fp8_param_gather", WORD_NOTHING},
                                        {"paged_stash", WORD_NOTHING},
                                        {"te_op_fuser", WORD_NOTHING},
                                        {NULL, 0}};
    static const char blank[] = " ";
    struct execution *const e = &w->execution;
    const char *text = step_row_text(row, STEP_OVERLAP);
    if (is_unstated(text)) {
        *unstated |= UNSTATED_OVERLAP;
        e->fp8_attention = e->fp8_attention && w->precision != PRECISION_BF16;
        return true;
    }
    e->fp8_attention = false;
    if (is_word(text, "none")) {
        e->overlap = 0;
        e->serial_dp = true;
        return true;
    }
    e->overlap &= ~(unsigned)OVERLAP_EP;
    for (text += strspn(text, blank); *text; text += strspn(text, blank)) {
        const size_t length = strcspn(text, blank);
        const struct word *const word = find(words, text, length);
        if (!word)
            return exclude_part(row, STEP_OVERLAP, text, length);
        set_overlap((enum overlap_word)word->value, w, e);
        text += length;
    }
    return true;
}

/* Format of gradients or moments. */
static bool take_format(struct step_row *row, enum step_column column, bool *is_bf16,
                        unsigned *unstated) {
    static const struct word words[] = {
        {"bf16", 1}, {"fp32", 0}, {"float32", 0}, {"bfloat16", 1}, {NULL, 0}};
    if (is_unstated(step_row_text(row, column))) {
        *unstated |= UNSTATED_STATE;
        return true;
    }
    unsigned value = 0;
    if (!take(row, column, words, &value))
        return false;
    *is_bf16 = value == 1;
    return true;
}

/* "cpu_layers:N": activations of N layers of a stage wait on the host. */
static bool take_offload(struct step_row *row, const struct step_facts *facts,
                         struct execution *e) {
    static const char layers_of[] = "cpu_layers:";
    const char *const word = step_row_text(row, STEP_OFFLOAD);
    if (word[0] == '\0' || is_word(word, "none"))
        return true;
    char *end = NULL;
    const size_t length = sizeof layers_of - 1;
    const long layers = strncmp(word, layers_of, length) == 0 ? strtol(word + length, &end, 10) : 0;
    if (layers < 1 || !end || *end != '\0')
        return step_row_exclude(row, STEP_OFFLOAD, "is not modelled");
    const double of_stage = (double)facts->geometry->layers / (double)facts->numbers->pp;
    e->offload_activations = fmin((double)layers / of_stage, 1.0);
    return true;
}

bool step_words_workload(struct step_row *row, const struct step_facts *facts,
                         struct workload *workload, unsigned *unstated) {
    struct workload w = {.execution = facts->engine->recipe.execution};
    struct execution *const e = &w.execution;
    if (!take_offload(row, facts, e) || !take_job(row, facts, &w) ||
        !take_routing(row, facts, &w, unstated) || !take_sharding(row, e) ||
        !take_dispatcher(row, facts, e, unstated) || !take_graphs(row, e, unstated) ||
        !take_overlap(row, &w, unstated) ||
        !take_format(row, STEP_MOMENTS, &e->bf16_moments, unstated) ||
        !take_format(row, STEP_GRADIENTS, &e->bf16_gradients, unstated))
        return false;
    *workload = w;
    return true;
}

/* ---- recomputation ---- */

/* Modules "a+b+c". */
static bool take_modules(struct step_row *row, const char *list, unsigned *modules) {
    static const struct word words[] = {{"core_attn", MODULE_CORE_ATTENTION},
                                        {"layernorm", MODULE_NORM},
                                        {"norm", MODULE_NORM},
                                        {"act", MODULE_ACTIVATION},
                                        {"moe_act", MODULE_ACTIVATION},
                                        {"rope", MODULE_ROPE},
                                        {"mla_up_proj", MODULE_MLA_UP},
                                        {"mlp", MODULE_MLP},
                                        {"shared_experts", MODULE_SHARED},
                                        {"moe", MODULE_EXPERTS},
                                        {NULL, 0}};
    *modules = 0;
    for (;;) {
        const size_t length = strcspn(list, "+");
        const struct word *const word = find(words, list, length);
        if (!word)
            return exclude_part(row, STEP_RECOMPUTE, list, length);
        *modules |= word->value;
        if (list[length] == '\0')
            return true;
        list += length + 1;
    }
}

bool step_words_recompute(struct step_row *row, const struct engine *engine,
                          struct execution *execution, enum recompute *recompute, bool *to_fit,
                          unsigned *unstated) {
    static const struct word words[] = {{"none", RECOMPUTE_NONE},
                                        {"selective", RECOMPUTE_SELECTIVE},
                                        {"full", RECOMPUTE_FULL},
                                        {NULL, 0}};
    static const char listed[] = "selective:";
    const char *const text = step_row_text(row, STEP_RECOMPUTE);
    *to_fit = false;
    if (is_unstated(text)) {
        *unstated |= UNSTATED_RECOMPUTE;
        *recompute = engine->recipe.recompute;
        *to_fit = engine->recipe.recompute_to_fit;
        return true;
    }
    if (strncasecmp(text, listed, sizeof listed - 1) == 0) {
        *recompute = RECOMPUTE_SELECTIVE;
        return take_modules(row, text + sizeof listed - 1, &execution->selective);
    }
    unsigned value = 0;
    if (!take(row, STEP_RECOMPUTE, words, &value))
        return false;
    *recompute = (enum recompute)value;
    return true;
}
