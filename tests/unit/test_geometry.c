// SPDX-License-Identifier: GPL-3.0-or-later
//
// What passes geometry_check, what must not, and the order of two geometries.
#include "model/geometry.h"

#include "close.h"
#include "known_models.h"

#include <limits.h>
#include <string.h>

static void assert_refused(const struct geometry *g, const char *word) {
    struct status_error err = {.message = ""};
    assert_int_equal(geometry_check(g, &err), MOSAIC_BAD_INPUT);
    if (!strstr(err.message, word)) {
        fail_msg("'%s' does not mention '%s'", err.message, word);
    }
    assert_int_equal(geometry_check(g, NULL), MOSAIC_BAD_INPUT);
}

static void known_models_pass(void **state) {
    (void)state;
    assert_int_equal(geometry_check(&mixtral_8x7b, NULL), MOSAIC_OK);
    assert_int_equal(geometry_check(&qwen3_30b_a3b, NULL), MOSAIC_OK);
    assert_int_equal(geometry_check(&deepseek_v3, NULL), MOSAIC_OK);
    assert_int_equal(geometry_check(&llama3_8b, NULL), MOSAIC_OK);
    assert_int_equal(geometry_moe_layers(&deepseek_v3), 58);
    assert_int_equal(geometry_moe_layers(&llama3_8b), 0);
    // A width that no layer uses is in public configurations.
    struct geometry g = qwen3_30b_a3b;
    g.dense_ffn = 6144;
    assert_int_equal(geometry_check(&g, NULL), MOSAIC_OK);
}

#define REFUSED(base, field, value, word)                                                          \
    do {                                                                                           \
        struct geometry g = base;                                                                  \
        g.field = (value);                                                                         \
        assert_refused(&g, word);                                                                  \
    } while (0)

static void ranges(void **state) {
    (void)state;
    REFUSED(mixtral_8x7b, layers, 0, "layers is 0");
    REFUSED(mixtral_8x7b, layers, 1025, "1024");
    REFUSED(mixtral_8x7b, hidden, -1, "hidden is -1");
    REFUSED(mixtral_8x7b, hidden, INT_MAX, "hidden");
    REFUSED(mixtral_8x7b, heads, 0, "heads");
    REFUSED(mixtral_8x7b, head_dim, 0, "head_dim");
    REFUSED(mixtral_8x7b, v_head_dim, 0, "v_head_dim");
    REFUSED(mixtral_8x7b, ffn_matrices, 1, "ffn_matrices");
    REFUSED(mixtral_8x7b, ffn_matrices, 4, "ffn_matrices");
    REFUSED(mixtral_8x7b, experts, -8, "experts");
    REFUSED(mixtral_8x7b, vocab, 0, "vocab");
    REFUSED(mixtral_8x7b, mtp_layers, -1, "mtp_layers");
    REFUSED(mixtral_8x7b, first_dense, -1, "first_dense");
    REFUSED(mixtral_8x7b, granularity, 0, "granularity");
    REFUSED(mixtral_8x7b, granularity, (double)NAN, "granularity");
    REFUSED(mixtral_8x7b, granularity, (double)INFINITY, "granularity");
    REFUSED(mixtral_8x7b, window, INT_MIN, "window");
}

static void attention_rules(void **state) {
    (void)state;
    REFUSED(mixtral_8x7b, kv_heads, 0, "kv_heads 0");
    REFUSED(mixtral_8x7b, kv_heads, 5, "heads 32");
    REFUSED(mixtral_8x7b, kv_heads, 64, "kv_heads 64");
    REFUSED(mixtral_8x7b, kv_rank, 512, "mla");
    REFUSED(mixtral_8x7b, rope_dim, 64, "mla");
    REFUSED(deepseek_v3, kv_rank, 0, "kv_rank");
    REFUSED(deepseek_v3, kv_heads, 128, "kv_heads");
    REFUSED(mixtral_8x7b, window, 4096, "window 4096");
    REFUSED(mixtral_8x7b, window_layers, 16, "window_layers 16");
    struct geometry g = mixtral_8x7b;
    g.window = 4096;
    g.window_layers = 33;
    assert_refused(&g, "layers 32");
}

static void ffn_rules(void **state) {
    (void)state;
    REFUSED(mixtral_8x7b, top_k, 0, "top_k is 0");
    REFUSED(mixtral_8x7b, top_k, 9, "1 to 8");
    REFUSED(mixtral_8x7b, expert_ffn, 0, "expert_ffn");
    REFUSED(mixtral_8x7b, first_dense, 32, "first_dense 32");
    REFUSED(mixtral_8x7b, first_dense, 1, "dense_ffn");
    REFUSED(mixtral_8x7b, shared_experts, 1, "shared_ffn");
    REFUSED(mixtral_8x7b, shared_ffn, 4096, "shared_experts");
    REFUSED(mixtral_8x7b, experts, 0, "dense");
    REFUSED(llama3_8b, first_dense, 31, "first_dense");
    REFUSED(llama3_8b, first_dense, 33, "first_dense");
    REFUSED(llama3_8b, top_k, 2, "top_k 2");
    REFUSED(llama3_8b, dense_ffn, 0, "dense_ffn");
}

// Every field may be in range and the product still beyond exact counting.
static void counts_stay_exact(void **state) {
    (void)state;
    struct geometry g = mixtral_8x7b;
    g.layers = GEOMETRY_MAX_LAYERS;
    g.hidden = GEOMETRY_MAX_HIDDEN;
    g.experts = GEOMETRY_MAX_EXPERTS;
    g.expert_ffn = GEOMETRY_MAX_FFN;
    assert_refused(&g, "2^53");
}

static void reference_granularity(void **state) {
    (void)state;
    assert_close(geometry_reference_granularity(&deepseek_v3), 9.0, 1e-15);
    assert_close(geometry_reference_granularity(&llama3_8b), 1.0, 1e-15);
    assert_close(geometry_reference_granularity(&qwen3_30b_a3b), 2.5 * 2048 / 768, 1e-15);
}

static void order_of_the_leading_fields(void **state) {
    (void)state;
    const struct geometry base = deepseek_v3;
    assert_int_equal(geometry_compare(&base, &base), 0);

    // Each row raises one field and lowers every later one: the earlier field decides.
    struct geometry a = base, b = base;
    a.ladder_q = 1;
    b.hidden -= 1;
    assert_true(geometry_compare(&b, &a) < 0 && geometry_compare(&a, &b) > 0);
    a = b = base;
    a.hidden += 1;
    b.layers += 1;
    assert_true(geometry_compare(&b, &a) < 0 && geometry_compare(&a, &b) > 0);
    a = b = base;
    a.layers += 1;
    b.experts += 1;
    assert_true(geometry_compare(&b, &a) < 0 && geometry_compare(&a, &b) > 0);
    a = b = base;
    a.experts += 1;
    b.top_k += 1;
    assert_true(geometry_compare(&b, &a) < 0 && geometry_compare(&a, &b) > 0);
    a = b = base;
    a.top_k += 1;
    b.granularity += 1;
    assert_true(geometry_compare(&b, &a) < 0 && geometry_compare(&a, &b) > 0);
    a = b = base;
    a.granularity += 0.5;
    b.first_dense += 1;
    assert_true(geometry_compare(&b, &a) < 0 && geometry_compare(&a, &b) > 0);
}

// No field is forgotten: a change of any one is seen, in both directions.
static void order_sees_every_field(void **state) {
    (void)state;
    int geometry_field_count = 0;
#define SEEN(field, value)                                                                         \
    do {                                                                                           \
        struct geometry g = deepseek_v3;                                                           \
        g.field = (value);                                                                         \
        assert_true(geometry_compare(&g, &deepseek_v3) > 0);                                       \
        assert_true(geometry_compare(&deepseek_v3, &g) < 0);                                       \
        geometry_field_count++;                                                                    \
    } while (0)
    SEEN(layers, 62);
    SEEN(first_dense, 4);
    SEEN(hidden, 7169);
    SEEN(heads, 129);
    SEEN(kv_heads, 1);
    SEEN(head_dim, 129);
    SEEN(v_head_dim, 129);
    SEEN(q_rank, 1537);
    SEEN(kv_rank, 513);
    SEEN(rope_dim, 65);
    SEEN(ffn_matrices, 4);
    SEEN(dense_ffn, 18433);
    SEEN(expert_ffn, 2049);
    SEEN(experts, 257);
    SEEN(top_k, 9);
    SEEN(node_limit, 1);
    SEEN(shared_experts, 2);
    SEEN(shared_ffn, 2049);
    SEEN(granularity, 9.5);
    SEEN(window, 1);
    SEEN(window_layers, 1);
    SEEN(mtp_layers, 2);
    SEEN(vocab, 129281);
    SEEN(tied, true);
    SEEN(ladder_q, 1);
#undef SEEN
    struct geometry gqa = deepseek_v3;
    gqa.attention = ATTENTION_GQA;
    assert_true(geometry_compare(&gqa, &deepseek_v3) < 0);
    assert_int_equal(geometry_field_count, 25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_models_pass),
        cmocka_unit_test(ranges),
        cmocka_unit_test(attention_rules),
        cmocka_unit_test(ffn_rules),
        cmocka_unit_test(counts_stay_exact),
        cmocka_unit_test(reference_granularity),
        cmocka_unit_test(order_of_the_leading_fields),
        cmocka_unit_test(order_sees_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
