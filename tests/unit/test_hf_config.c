// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Hugging Face configurations of public models: what they count, what is derived, what is refused.
 * The fixtures in tests/hf/ are minimal files with the published numbers.
 */
#include "test_doc.h"

#include "model/count.h"

enum { TEXT_MAX = 8192 };

/* A fixture's text with one piece replaced (NULL: none); the piece must be there. */
static const char *edited(const char *name, const char *from, const char *to) {
    static char text[TEXT_MAX], out[TEXT_MAX];
    char path[128];
    (void)snprintf(path, sizeof path, "tests/hf/%s.json", name);
    FILE *const file = fopen(path, "rb");
    if (!file)
        fail_msg("%s is not there", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    if (!from)
        return text;
    const char *const at = strstr(text, from);
    if (!at)
        fail_msg("%s does not hold %s", path, from);
    (void)snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static struct geometry shape(const char *text) {
    struct document *const d = must_parse(text, NULL, 0);
    assert_int_equal(d->kind, DOCUMENT_MODEL);
    assert_true(d->has_geometry);
    const struct geometry g = d->geometry;
    document_free(d);
    return g;
}

static struct geometry model(const char *name) {
    return shape(edited(name, NULL, NULL));
}

static struct param_counts params(const struct geometry *g) {
    struct param_counts n;
    count_params(g, &n);
    return n;
}

static struct flop_counts flops(const struct geometry *g, double sequence) {
    struct flop_counts f;
    count_flops(g, sequence, &f);
    return f;
}

static bool was_said(enum diag_level level, const char *words) {
    for (size_t i = 0; i < said.count; ++i)
        if (said.items[i].level == level &&
            (strstr(said.items[i].message, words) || strstr(said.items[i].hint, words)))
            return true;
    return false;
}

static void refused(const char *text, const char *words) {
    struct document *d = NULL;
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
    if (!was_said(DIAG_ERROR, words))
        fail_msg("'%s', not '%s'", said.items[0].message, words);
    assert_true(said.items[0].line > 0 && said.items[0].column > 0);
}

static void public_totals(void **state) {
    (void)state;
    const struct {
        const char *name;
        double total, active;
    } rows[] = {
        {"llama-3-8b", 8.03e9, 8.03e9},          {"llama-3-70b", 70.55e9, 70.55e9},
        {"qwen2.5-7b", 7.615e9, 7.615e9},        {"qwen3-4b", 4.022e9, 4.022e9},
        {"mistral-7b", 7.241e9, 7.241e9},        {"gemma-2-9b", 9.241e9, 9.241e9},
        {"mixtral-8x7b", 46.70e9, 12.88e9},      {"qwen1.5-moe-a2.7b", 14.315e9, 2.689e9},
        {"qwen3-30b-a3b", 30.53e9, 3.353e9},     {"qwen3-235b-a22b", 235.09e9, 22.19e9},
        {"deepseek-v2-lite", 15.706e9, 2.661e9}, {"deepseek-v3", 671.03e9, 37.55e9},
        {"moonlight-16b-a3b", 15.96e9, 2.914e9}, {"kimi-k2", 1026.4e9, 32.86e9},
        {"gpt-oss-20b", 20.91e9, 4.19e9},        {"llama-4-scout", 107.77e9, 17.17e9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        const struct geometry g = model(rows[i].name);
        assert_close(params(&g).n_total, rows[i].total, 1e-3);
        assert_close(params(&g).n_active, rows[i].active, 1e-3);
    }
    /* Its makers say 355e9 with the MTP layer, 32e9 active without the input embedding. */
    const struct geometry glm = model("glm-4.5");
    assert_close(params(&glm).n_total + params(&glm).n_mtp, 356e9, 5e-3);
    assert_close(params(&glm).n_active - params(&glm).embedding, 32e9, 0.03);
}

/* The same model in both languages. */
static void agrees_with_model_documents(void **state) {
    (void)state;
    const char *const names[] = {"deepseek-v3", "qwen3-30b-a3b", "mixtral-8x7b", "llama3-8b",
                                 "llama3-70b"};
    const char *const configs[] = {"deepseek-v3", "qwen3-30b-a3b", "mixtral-8x7b", "llama-3-8b",
                                   "llama-3-70b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        char path[128];
        (void)snprintf(path, sizeof path, "configs/models/%s.yaml", names[i]);
        struct document *const d = must_load(path, NULL, 0);
        struct geometry g = model(configs[i]);
        if (d->geometry.first_dense == 0)
            g.dense_ffn = d->geometry.dense_ffn; /* unused, but configurations carry it */
        g.granularity = d->geometry.granularity; /* an author's choice for mixtral */
        assert_int_equal(geometry_compare(&g, &d->geometry), 0);
        document_free(d);
    }
}

static void flops_of_threads(void **state) {
    (void)state;
    const struct geometry mixtral = model("mixtral-8x7b"), q = model("qwen3-30b-a3b");
    assert_close(1024 * flops(&mixtral, 1024).full, 79.98e12, 1e-3);          /* U01 */
    assert_close(1024 * flops(&mixtral, 1024).causal, 79.15e12, 1e-3);        /* U01 */
    assert_close(flops(&q, 8192).full, 37.58e9, 1e-3);                        /* U02 */
    assert_close(flops(&q, 8192).causal, 27.91e9, 1e-3);                      /* U02 */
    assert_close(flops(&q, 8192).full / flops(&q, 8192).causal, 1.346, 1e-3); /* U05 */
    assert_close(flops(&q, 32768).attention_causal, 8 * flops(&q, 4096).attention_causal, 1e-12);

    const struct geometry wide =
        shape(edited("qwen3-30b-a3b", "\"num_key_value_heads\": 4", "\"num_key_value_heads\": 32"));
    assert_close(flops(&wide, 8192).matmul - flops(&q, 8192).matmul, 4.23e9, 1e-3); /* U07 */
    assert_close_abs(flops(&wide, 8192).attention_full, flops(&q, 8192).attention_full, 0);
    const struct geometry one =
        shape(edited("qwen3-30b-a3b", "\"num_experts_per_tok\": 8", "\"num_experts_per_tok\": 1"));
    const double experts = 6.0 * 48 * params(&q).expert;
    assert_close(flops(&q, 8192).matmul - flops(&one, 8192).matmul, 7 * experts, 1e-12); /* U08 */
    const struct geometry rows =
        shape(edited("qwen3-30b-a3b", "\"vocab_size\": 151936", "\"vocab_size\": 303872"));
    assert_close_abs(flops(&rows, 8192).causal - flops(&q, 8192).causal, 6.0 * 2048 * 151936,
                     0); /* U13 */
}

/* U06 */
static void tying(void **state) {
    (void)state;
    const struct geometry untied = model("qwen3-30b-a3b");
    const struct geometry tied = shape(
        edited("qwen3-30b-a3b", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"));
    assert_close_abs(flops(&tied, 8192).full, flops(&untied, 8192).full, 0);
    assert_close_abs(params(&untied).n_total - params(&tied).n_total, 151936.0 * 2048, 0);
    assert_true(model("gemma-2-9b").tied); /* the type's default */
    assert_false(shape(edited("llama-3-8b", "  \"tie_word_embeddings\": false,\n", "")).tied);
}

/* U03 */
static void head_width(void **state) {
    (void)state;
    assert_int_equal(model("gpt-oss-20b").head_dim, 64); /* not 2880 / 64 */
    assert_int_equal(model("qwen3-4b").head_dim, 128);   /* not 2560 / 32 */
    assert_false(was_said(DIAG_WARNING, "head_dim"));
    const char *const none[] = {"", "  \"head_dim\": null,\n"};
    for (int i = 0; i < 2; ++i) {
        const struct geometry g = shape(edited("qwen3-30b-a3b", "  \"head_dim\": 128,\n", none[i]));
        assert_true(was_said(DIAG_WARNING, "'head_dim' is left out and taken as hidden/heads: 64"));
        assert_close(params(&g).n_total, 30.079e9, 1e-4);
        assert_close(params(&g).n_active, 2.900e9, 1e-3);
    }
}

/* U04 */
static void unused_dense_width(void **state) {
    (void)state;
    const struct geometry g = model("qwen3-30b-a3b");
    assert_int_equal(said.count, 0); /* lint says what the width of 6144 is for */
    assert_close(params(&g).n_active, 3.353e9, 1e-3);
    assert_int_equal(g.expert_ffn, 768);
    assert_int_equal(model("mixtral-8x7b").dense_ffn, 0); /* its intermediate_size is an expert's */
}

static void windows(void **state) {
    (void)state;
    const struct {
        const char *name, *from, *to;
        int window, layers;
    } rows[] = {
        {"gpt-oss-20b", NULL, NULL, 128, 12},
        {"mistral-7b", NULL, NULL, 4096, 32},
        {"mistral-7b", "\"sliding_window\": 4096", "\"sliding_window\": null", 0, 0},
        {"gemma-2-9b", NULL, NULL, 4096, 21},
        {"gemma-2-9b", "\"model_type\": \"gemma2\"",
         "\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": 6", 4096, 35},
        {"qwen2.5-7b", NULL, NULL, 0, 0},
        {"qwen2.5-7b", "\"use_sliding_window\": false", "\"use_sliding_window\": true", 0, 0},
        {"qwen2.5-7b", "\"max_window_layers\": 28,\n", "\"max_window_layers\": 20,\n", 0, 0},
        {"llama-4-scout", NULL, NULL, 8192, 36},
        {"llama-4-scout", "\"attention_chunk_size\": 8192", "\"attention_chunk_size\": null", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        const struct geometry g = shape(edited(rows[i].name, rows[i].from, rows[i].to));
        assert_int_equal(g.window, rows[i].window);
        assert_int_equal(g.window_layers, rows[i].layers);
    }
    const struct geometry upper =
        shape("{\"model_type\": \"qwen2\", \"hidden_size\": 64, \"num_hidden_layers\": 28, "
              "\"num_attention_heads\": 2, \"intermediate_size\": 128, \"vocab_size\": 100, "
              "\"sliding_window\": 4096, \"use_sliding_window\": true, \"max_window_layers\": 20}");
    assert_int_equal(upper.window_layers, 8);
    assert_int_equal(upper.kv_heads, 2);

    /* U07: half the layers, s 32,768, in the full convention and in the causal one. */
    const struct geometry q = model("qwen3-4b");
    struct geometry windowed = q;
    windowed.window = 4096;
    windowed.window_layers = 18;
    assert_close(flops(&windowed, 32768).attention_full,
                 flops(&q, 32768).attention_full * (0.5 + 0.5 * 4096 / 32768), 1e-12);
    assert_close(flops(&windowed, 32768).attention_causal,
                 flops(&q, 32768).attention_causal * (0.5 + 0.5 * 8192 / 32768), 1e-12);
}

static void dense_layers(void **state) {
    (void)state;
    assert_int_equal(model("deepseek-v3").first_dense, 3);
    assert_int_equal(model("llama-3-8b").first_dense, 32);
    assert_int_equal(
        shape(edited("qwen3-30b-a3b", "\"mlp_only_layers\": []", "\"mlp_only_layers\": [1, 0]"))
            .first_dense,
        2);
    refused(edited("qwen3-30b-a3b", "\"mlp_only_layers\": []", "\"mlp_only_layers\": [5]"),
            "'mlp_only_layers': 1 dense layers stand among 47");
    refused(edited("qwen3-30b-a3b", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"),
            "'decoder_sparse_step': 24 dense");
    refused(edited("deepseek-v3", "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2"),
            "'moe_layer_freq'");
    refused(edited("llama-4-maverick", NULL, NULL), "'interleave_moe_layer_step'");

    /* Their number is right all the same: 400e9 and 17e9 active. */
    const struct document_override approx = {"approx", "true"};
    struct document *const d = must_parse(edited("llama-4-maverick", NULL, NULL), &approx, 1);
    assert_close(params(&d->geometry).n_total, 400.7e9, 5e-3);
    assert_close(params(&d->geometry).n_active, 17.2e9, 5e-3);
    document_free(d);
}

static void routing_and_latent_widths(void **state) {
    (void)state;
    const struct geometry v3 = model("deepseek-v3");
    assert_int_equal(v3.node_limit, 4);
    assert_int_equal(v3.mtp_layers, 1);
    assert_int_equal(v3.attention, ATTENTION_MLA);
    assert_int_equal(v3.kv_heads, 0);
    assert_int_equal(v3.rope_dim, 64);
    assert_int_equal(model("moonlight-16b-a3b").node_limit, 0); /* one group of one */
    assert_int_equal(model("moonlight-16b-a3b").q_rank, 0);     /* null */
    assert_int_equal(model("moonlight-16b-a3b").shared_experts, 2);
    assert_int_equal(
        shape(edited("deepseek-v3", "\"topk_method\": \"noaux_tc\"", "\"topk_method\": \"greedy\""))
            .node_limit,
        0);
    const struct geometry shared = model("qwen1.5-moe-a2.7b");
    assert_int_equal(shared.shared_experts, 1);
    assert_int_equal(shared.shared_ffn, 5632);
    assert_int_equal(model("llama-4-scout").shared_ffn, 8192);
}

static void origins(void **state) {
    (void)state;
    struct document *d = must_parse(edited("gpt-oss-20b", NULL, NULL), NULL, 0);
    assert_int_equal(origin(d, "head_dim"), DOCUMENT_GIVEN);
    assert_int_equal(origin(d, "window"), DOCUMENT_GIVEN);
    assert_int_equal(origin(d, "window_layers"), DOCUMENT_DERIVED);
    assert_int_equal(origin(d, "granularity"), DOCUMENT_DERIVED);
    assert_int_equal(origin(d, "first_dense"), DOCUMENT_DERIVED);
    assert_int_equal(document_value(d, "window")->place.line, 23);
    assert_string_equal(d->name, "gpt_oss");
    document_free(d);

    const struct document_override fewer = {"layers", "12"};
    d = must_parse(edited("llama-3-8b", NULL, NULL), &fewer, 1);
    assert_int_equal(origin(d, "layers"), DOCUMENT_OVERRIDE);
    assert_int_equal(origin(d, "head_dim"), DOCUMENT_DERIVED);
    assert_int_equal(d->geometry.layers, 12);
    document_free(d);
}

/* U12 */
static void unknown_structure(void **state) {
    (void)state;
    const char *next = edited("qwen3-next-80b-a3b", NULL, NULL);
    refused(next, "'model_type' qwen3_next");
    refused(next, "'full_attention_interval': linear attention");
    refused(next, "--set approx=true");
    refused(
        edited("qwen3-4b", "\"head_dim\": 128", "\"head_dim\": 128, \"attn_output_gate\": true"),
        "'attn_output_gate': gated attention");
    refused(edited("deepseek-v3", "\"ep_size\": 1", "\"moe_latent_size\": 1024"),
            "'moe_latent_size': latent MoE");
    refused(edited("gpt-oss-20b", "\"full_attention\"", "\"linear_attention\""),
            "'layer_types' holds linear_attention");
    refused(edited("llama-3-8b", "\"rope_scaling\": null", "\"sliding_window\": 4096"),
            "'sliding_window' 4096");
    (void)shape(
        edited("llama-3-8b", "\"rope_scaling\": null", "\"attn_output_gate\": false, \"x\": null"));

    const struct document_override approx = {"approx", "true"}, exact = {"approx", "false"};
    next = edited("qwen3-next-80b-a3b", NULL, NULL);
    struct document *d = must_parse(next, &approx, 1);
    assert_true(was_said(DIAG_WARNING, "approximate: 'model_type' qwen3_next"));
    assert_true(was_said(DIAG_WARNING, "approximate: 'linear_num_value_heads'"));
    assert_int_equal(d->geometry.experts, 512);
    document_free(d);
    d = NULL;
    assert_int_equal(parse(next, &exact, 1, &d), MOSAIC_BAD_INPUT);
}

static void sections_of_plans(void **state) {
    (void)state;
    struct document *d = must_parse(HEAD "model: ../tests/hf/qwen3-30b-a3b.json\n", NULL, 0);
    assert_true(d->has_problem && d->has_geometry);
    assert_int_equal(d->geometry.experts, 128);
    assert_int_equal(d->problem.workload.vocab, 151936);
    assert_int_equal(origin(d, "model.granularity"), DOCUMENT_DERIVED);
    document_free(d);

    const char *const next = HEAD "model: ../tests/hf/qwen3-next-80b-a3b.json\n";
    refused(next, "--set model.approx=true");
    const struct document_override approx = {"model.approx", "true"};
    d = must_parse(next, &approx, 1);
    assert_true(was_said(DIAG_WARNING, "approximate:"));
    document_free(d);
    d = must_parse(HEAD "search: {geometry: {list: [{model: ../tests/hf/llama-3-8b.json}, "
                        "{model: ../tests/hf/qwen3-4b.json}]}}\n",
                   NULL, 0);
    assert_int_equal(d->problem.geometries.count, 2);
    document_free(d);
    refused(HEAD "calibration: ../tests/hf/llama-3-8b.json\n", "mosaic-model/1");
}

/* A document of ours in JSON's clothes stays one. */
static void json_documents(void **state) {
    (void)state;
    const struct geometry g =
        shape("{\"hidden\": 64, \"schema\": \"mosaic-model/1\", \"layers\": 2, "
              "\"heads\": 2, \"head_dim\": 32, \"dense_ffn\": 128, "
              "\"vocab\": 100, \"unmodelled\": []}");
    assert_int_equal(g.layers, 2);
    refused("schema: mosaic-model/1\nlayers: 2\nhidden: 64\nheads: 2\nhead_dim: 32\n"
            "dense_ffn: 128\nvocab: 100\nunmodelled: [a gate]\n",
            "a gate");
}

/* Escapes, characters of many bytes, one line, blanks of all kinds: places stay right. */
static void places(void **state) {
    (void)state;
    refused("\xEF\xBB\xBF{\"model_type\":\"llama\",\"_name_or_path\":\"\\\"\xC3\xA4\\\\\","
            "\"hidden_size\":-1}",
            "'hidden_size' must be 0 to");
    bool is_found = false;
    for (size_t i = 0; i < said.count; ++i) {
        const bool is_it = strstr(said.items[i].message, "'hidden_size' must") != NULL;
        is_found = is_found || (is_it && said.items[i].line == 1 && said.items[i].column == 61);
    }
    assert_true(is_found);
    refused("{\r\n\t\"model_type\": \"llama\",\r\n\t\"vocab_size\":\t\"x\"}", "'vocab_size'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_totals),
        cmocka_unit_test(agrees_with_model_documents),
        cmocka_unit_test(flops_of_threads),
        cmocka_unit_test(tying),
        cmocka_unit_test(head_width),
        cmocka_unit_test(unused_dense_width),
        cmocka_unit_test(windows),
        cmocka_unit_test(dense_layers),
        cmocka_unit_test(routing_and_latent_widths),
        cmocka_unit_test(origins),
        cmocka_unit_test(unknown_structure),
        cmocka_unit_test(sections_of_plans),
        cmocka_unit_test(json_documents),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
