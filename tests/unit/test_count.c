// SPDX-License-Identifier: GPL-3.0-or-later
//
// Counts of public models against what their makers print, and the FLOPs conventions that public
// issue threads got wrong (shown by what a change of one field must do).
#include "model/count.h"

#include "close.h"
#include "known_models.h"

static struct param_counts params(const struct geometry *g) {
    struct status_error err = {.message = ""};
    if (geometry_check(g, &err) != MOSAIC_OK) {
        fail_msg("%s", err.message);
    }
    struct param_counts n;
    count_params(g, &n);
    return n;
}

static struct flop_counts flops(const struct geometry *g, double sequence) {
    (void)params(g);
    struct flop_counts f;
    count_flops(g, sequence, &f);
    return f;
}

static void public_totals(void **state) {
    (void)state;
    const struct {
        const struct geometry *model;
        double total, active;
    } rows[] = {
        {&mixtral_8x7b, 46.70e9, 12.88e9},
        {&qwen3_30b_a3b, 30.53e9, 3.35e9},
        {&deepseek_v3, 671.03e9, 37.55e9},
        {&llama3_8b, 8.03e9, 8.03e9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct param_counts n = params(rows[i].model);
        assert_close(n.n_total, rows[i].total, 1e-3);
        assert_close(n.n_active, rows[i].active, 1e-3);
    }
    const struct param_counts q = params(&qwen3_30b_a3b);
    assert_close(q.n_total, 30.532e9, 2e-5);
    assert_close(q.n_active, 3.353e9, 1e-4);
    assert_close(q.n_active_no_embedding, 2.731e9, 2e-4);
    assert_close(q.expert * 48 * 128, 28.991e9, 2e-5);
}

static void parts_add_up(void **state) {
    (void)state;
    const struct geometry *models[] = {&mixtral_8x7b, &qwen3_30b_a3b, &deepseek_v3, &llama3_8b};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const struct geometry *g = models[i];
        const struct param_counts n = params(g);
        const double moe = g->layers - g->first_dense;
        const double total = n.embedding + n.head + g->layers * n.attention_layer +
                             g->first_dense * n.dense_ffn_layer +
                             moe * (n.router_layer + n.shared_layer + g->experts * n.expert);
        assert_close_abs(n.n_total, total, 0);
        assert_close_abs(n.n_total - n.n_active, moe * (g->experts - g->top_k) * n.expert, 0);
        assert_close_abs(n.n_total - n.n_total_law, n.embedding + n.head + moe * n.router_layer, 0);
        assert_close_abs(n.n_active_no_embedding - n.n_active_law, moe * n.router_layer, 0);
        assert_close_abs(n.n_active - n.n_active_no_embedding, n.embedding + n.head, 0);
        assert_close_abs(n.sparsity, 1 - n.n_active_law / n.n_total_law, 0);
    }
    assert_close_abs(params(&llama3_8b).sparsity, 0, 0);
}

// Mixtral counted with all 8 experts is 3.6 times too much.
static void routed_experts_count_top_k_times(void **state) {
    (void)state;
    assert_close(1024 * flops(&mixtral_8x7b, 1024).full, 79.977e12, 2e-4);
    assert_close(1024 * flops(&mixtral_8x7b, 1024).causal, 79.15e12, 1e-4);
    struct geometry all = mixtral_8x7b;
    all.top_k = all.experts;
    assert_close(1024 * flops(&all, 1024).full, 287.784e12, 1e-4);

    struct geometry one = qwen3_30b_a3b;
    one.top_k = 1;
    const double expert = params(&one).expert;
    assert_close(flops(&qwen3_30b_a3b, 8192).causal - flops(&one, 8192).causal, 6 * 48 * 7 * expert,
                 1e-14);
}

static void router_and_shared_experts_count_once(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    const double before = flops(&g, 4096).matmul;
    g.shared_experts = 2;
    g.shared_ffn = 768;
    assert_close(flops(&g, 4096).matmul - before, 6.0 * 48 * 2 * 3 * 2048 * 768, 1e-12);

    // Twice the experts: only the router works more.
    struct geometry wide = qwen3_30b_a3b;
    wide.experts *= 2;
    assert_close(flops(&wide, 4096).matmul - before, 75.5e6, 1e-3);
    assert_close(flops(&wide, 4096).matmul - before, 6.0 * 48 * 2048 * 128, 1e-14);
}

static void qwen_under_both_conventions(void **state) {
    (void)state;
    const struct flop_counts f = flops(&qwen3_30b_a3b, 8192);
    // That figure counts norm weights as well: two a layer, those of q and k, one at the end.
    const double norms = 48 * (2 * 2048 + 2 * 128) + 2048;
    assert_close_abs(f.full + 6 * norms, 37578559488.0, 0);
    assert_close(f.causal, 27.91e9, 1e-3);
    assert_close(f.full / f.causal, 1.346, 1e-3);
    assert_close_abs(f.full, f.matmul + f.attention_full, 0);
    assert_close_abs(f.causal, f.matmul + f.attention_causal, 0);
    assert_close_abs(f.attention_full, 2 * f.attention_causal, 0);
    assert_close_abs(f.six_n, 6 * params(&qwen3_30b_a3b).n_active_law, 0);

    // Attention grows linearly in the sequence, the matrices not at all.
    const double sequences[] = {1, 4096, 32768, 1048576};
    for (int i = 0; i < 4; i++) {
        const struct flop_counts at = flops(&qwen3_30b_a3b, sequences[i]);
        assert_close(at.attention_causal / f.attention_causal, sequences[i] / 8192, 1e-14);
        assert_close_abs(at.matmul, f.matmul, 0);
    }
}

static void tying_changes_parameters_only(void **state) {
    (void)state;
    struct geometry tied = qwen3_30b_a3b;
    tied.tied = true;
    assert_close_abs(flops(&tied, 8192).full, flops(&qwen3_30b_a3b, 8192).full, 0);
    assert_close_abs(params(&qwen3_30b_a3b).n_total - params(&tied).n_total, 151936.0 * 2048, 0);
    assert_close_abs(params(&qwen3_30b_a3b).n_active - params(&tied).n_active, 151936.0 * 2048, 0);
    assert_close_abs(params(&tied).head, 0, 0);
}

static void key_value_heads_shrink_projections_only(void **state) {
    (void)state;
    struct geometry mha = qwen3_30b_a3b;
    mha.kv_heads = 32;
    const struct flop_counts a = flops(&mha, 8192), b = flops(&qwen3_30b_a3b, 8192);
    assert_close_abs(a.matmul - b.matmul, 6.0 * 48 * 2 * 2048 * 128 * 28, 0);
    assert_close(a.matmul - b.matmul, 4.23e9, 1e-3);
    assert_close_abs(a.attention_full, b.attention_full, 0);
}

static void windows_cap_their_layers(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.window = 4096;
    g.window_layers = 24;
    const double whole = flops(&qwen3_30b_a3b, 32768).attention_full;
    assert_close(flops(&g, 32768).attention_full, whole * (0.5 + 0.5 * 4096 / 32768), 1e-14);
    // Causal: below the diagonal a band of w keys, not half of one.
    const double half = flops(&qwen3_30b_a3b, 32768).attention_causal;
    assert_close(flops(&g, 32768).attention_causal, half * (0.5 + 0.5 * 8192 / 32768), 1e-14);
    // From half the sequence on it hides nothing of an average query.
    assert_close_abs(flops(&g, 8192).attention_causal, flops(&qwen3_30b_a3b, 8192).attention_causal,
                     0);
    assert_close_abs(flops(&g, 32768).matmul, flops(&qwen3_30b_a3b, 32768).matmul, 0);
    // A window longer than the sequence is none.
    assert_close_abs(flops(&g, 2048).full, flops(&qwen3_30b_a3b, 2048).full, 0);
}

static void the_head_costs_six_per_weight(void **state) {
    (void)state;
    struct geometry wide = qwen3_30b_a3b;
    wide.vocab *= 2;
    assert_close_abs(flops(&wide, 8192).causal - flops(&qwen3_30b_a3b, 8192).causal,
                     6.0 * 2048 * 151936, 0);
}

// 250.4e9 per token at 4,096 without the MTP module (arXiv 2412.19437's geometry).
static void mla_and_mtp(void **state) {
    (void)state;
    struct geometry main_model = deepseek_v3;
    main_model.mtp_layers = 0;
    assert_close(flops(&main_model, 4096).causal, 250.4e9, 1e-3);

    const struct param_counts n = params(&deepseek_v3);
    assert_close_abs(n.n_total, params(&main_model).n_total, 0);
    assert_close_abs(params(&main_model).n_mtp, 0, 0);
    // The module's makers count 14e9 with a copy of embedding and head.
    assert_close(n.n_mtp + n.embedding + n.head, 14e9, 0.05);
    const double moe_layer = n.attention_layer + n.router_layer + n.shared_layer + 256 * n.expert;
    assert_close_abs(n.mtp_layer, moe_layer + 2.0 * 7168 * 7168, 0);
    assert_close_abs(n.mtp_layer - n.mtp_layer_active, (256 - 8) * n.expert, 0);

    const double extra = flops(&deepseek_v3, 4096).matmul - flops(&main_model, 4096).matmul;
    assert_close(extra, 6 * (n.mtp_layer_active + n.embedding), 1e-12);
    assert_close(flops(&deepseek_v3, 4096).attention_causal,
                 flops(&main_model, 4096).attention_causal * 62 / 61, 1e-14);

    // Per head 128 + 64 wide queries and keys, 128 wide values.
    assert_close(flops(&main_model, 4096).attention_causal, 6.0 * 61 * 128 * 160 * 4096, 1e-14);

    struct geometry full_rank = main_model;
    full_rank.q_rank = 0;
    assert_close_abs(params(&full_rank).attention_layer - n.attention_layer,
                     7168.0 * 128 * 192 - (7168.0 * 1536 + 1536.0 * 128 * 192), 0);
}

static void mtp_of_a_dense_model_is_dense(void **state) {
    (void)state;
    struct geometry g = llama3_8b;
    g.mtp_layers = 2;
    const struct param_counts n = params(&g);
    assert_close_abs(n.mtp_layer, n.attention_layer + n.dense_ffn_layer + 2.0 * 4096 * 4096, 0);
    assert_close_abs(n.mtp_layer_active, n.mtp_layer, 0);
    assert_close_abs(n.n_mtp, 2 * n.mtp_layer, 0);
}

static void plain_ffn_has_two_matrices(void **state) {
    (void)state;
    struct geometry plain = llama3_8b;
    plain.ffn_matrices = 2;
    assert_close_abs(params(&llama3_8b).n_total - params(&plain).n_total, 32.0 * 4096 * 14336, 0);
}

// A dense width that no layer uses changes nothing.
static void unused_dense_width_is_ignored(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.dense_ffn = 6144;
    assert_close_abs(params(&g).n_active, params(&qwen3_30b_a3b).n_active, 0);
    assert_close_abs(flops(&g, 8192).causal, flops(&qwen3_30b_a3b, 8192).causal, 0);
}

static void vocabulary_padding(void **state) {
    (void)state;
    assert_int_equal(count_padded_vocab(50257, 128, 8), 51200);
    assert_int_equal(count_padded_vocab(129280, 128, 24), 132096);
    assert_int_equal(count_padded_vocab(151936, 128, 8), 152576);
    assert_int_equal(count_padded_vocab(51200, 128, 8), 51200);
    assert_int_equal(count_padded_vocab(1, 1, 1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_totals),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(routed_experts_count_top_k_times),
        cmocka_unit_test(router_and_shared_experts_count_once),
        cmocka_unit_test(qwen_under_both_conventions),
        cmocka_unit_test(tying_changes_parameters_only),
        cmocka_unit_test(key_value_heads_shrink_projections_only),
        cmocka_unit_test(windows_cap_their_layers),
        cmocka_unit_test(the_head_costs_six_per_weight),
        cmocka_unit_test(mla_and_mtp),
        cmocka_unit_test(mtp_of_a_dense_model_is_dense),
        cmocka_unit_test(plain_ffn_has_two_matrices),
        cmocka_unit_test(unused_dense_width_is_ignored),
        cmocka_unit_test(vocabulary_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
