// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Run tables: columns in any order, every row accounted for, each bad one named.
 */
#include "fit/run_table.h"

#include "close.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static struct diag_list said;

static enum mosaic_status read_with(const char *text, const struct run_options *options,
                                    struct run_table **table) {
    struct source *source = NULL;
    struct csv_table *csv = NULL;
    diag_init(&said);
    assert_int_equal(source_from_text(NULL, "runs.csv", text, strlen(text), &source, &said),
                     MOSAIC_OK);
    enum mosaic_status status = csv_table_parse(NULL, source, &csv, &said);
    if (status == MOSAIC_OK)
        status = run_table_read(NULL, csv, options, table, &said);
    csv_table_free(csv);
    source_free(source);
    return status;
}

static struct run_table *read_good(const char *text, const struct run_options *options) {
    struct run_table *table = NULL;
    if (read_with(text, options, &table) != MOSAIC_OK)
        fail_msg("%s", said.items[0].message);
    return table;
}

/* The table is refused and some diagnostic holds the text. */
static bool has_said(const char *text) {
    for (size_t i = 0; i < said.count; i++)
        if (strstr(said.items[i].message, text) || strstr(said.items[i].hint, text))
            return true;
    return false;
}

static void refused(const char *text, const char *why) {
    struct run_table *table = NULL;
    assert_int_equal(read_with(text, NULL, &table), MOSAIC_BAD_INPUT);
    assert_null(table);
    if (!has_said(why))
        fail_msg("'%s' not in '%s'", why, said.items[0].message);
}

static void columns_in_any_order(void **state) {
    (void)state;
    struct run_table *t =
        read_good("loss,granularity,tokens,name,n_active,weight,n_total,flops,count\n"
                  "2.5,4,2e10,x,1e8,2,1e9,1.2e19,all\n"
                  "2.4,4,3e10,y,1e8,,1e9,,all\n",
                  NULL);
    assert_int_equal(said.count, 0);
    assert_int_equal(t->rows, 2);
    assert_int_equal(t->of_fate[RUN_USED], 2);
    assert_close(t->runs[0].point.n_total, 1e9, 0);
    assert_close(t->runs[0].point.n_active, 1e8, 0);
    assert_close(t->runs[0].point.sparsity, 0.9, 1e-15);
    assert_close(t->runs[0].point.granularity, 4.0, 0);
    assert_close(t->runs[0].point.tokens, 2e10, 0);
    assert_close(t->runs[0].loss, 2.5, 0);
    assert_close(t->runs[0].weight, 2.0, 0);
    assert_close(t->runs[0].flops, 1.2e19, 0);
    assert_close(t->runs[1].weight, 1.0, 0);
    assert_string_equal(t->runs[1].name, "y");
    assert_int_equal(t->count, RUN_COUNT_ALL);
    assert_true(t->has_sparsity);
    assert_false(t->has_experts);
    run_table_free(t);
}

static void total_active_and_sparsity_are_linked(void **state) {
    (void)state;
    struct run_table *t =
        read_good("n_active,sparsity,tokens,loss,count\n1e8,0.75,1e9,3,all\n", NULL);
    assert_close(t->runs[0].point.n_total, 4e8, 1e-15);
    run_table_free(t);
    t = read_good("n_total,sparsity,tokens,loss,count\n4e8,0.75,1e9,3,all\n", NULL);
    assert_close(t->runs[0].point.n_active, 1e8, 1e-15);
    run_table_free(t);
    t = read_good("n_total,tokens,loss,count\n4e8,1e9,3,all\n", NULL);
    assert_close_abs(t->runs[0].point.sparsity, 0, 0);
    assert_true(has_said("all runs are dense"));
    run_table_free(t);
    /* By experts (K/E) it is another number than by parameters. */
    refused("n_total,n_active,sparsity,tokens,loss\n1e9,2e8,0.9,1e9,3\n",
            "sparsity 0.9, but 1 - n_active / n_total is 0.8");
    refused("n_total,n_active,tokens,loss\n1e8,2e8,1e9,3\n",
            "n_active 2e+08 exceeds n_total 1e+08");
    refused("n_active,n_experts,top_k,tokens,loss\n1e8,8,2,1e9,3\n", "only one count");
    refused("n_total,n_active,n_experts,top_k,tokens,loss\n1e9,1e8,8,9,1e9,3\n",
            "top_k 9 exceeds n_experts 8");
}

/* U75: 17 of 24 cells done, two diverged; only finished rows count, and the rest is visible. */
static void unfinished_and_diverged_rows_are_named(void **state) {
    (void)state;
    char text[4096] = "n_total,tokens,loss,status,count\n";
    for (int i = 1; i <= 24; i++) {
        const char *status = i == 3 || i == 9 ? "diverged" : i > 19 ? "running" : "done";
        char line[96];
        (void)snprintf(line, sizeof line, "%d00000000,1e10,%s,%s,all\n", i, i == 9 ? "nan" : "3.1",
                       status);
        (void)strncat(text, line, sizeof text - strlen(text) - 1);
    }
    struct run_table *t = read_good(text, NULL);
    assert_int_equal(t->rows, 24);
    assert_int_equal(t->of_fate[RUN_USED], 17);
    assert_int_equal(t->of_fate[RUN_DIVERGED], 2);
    assert_int_equal(t->of_fate[RUN_UNFINISHED], 5);
    assert_int_equal(t->runs[8].fate, RUN_DIVERGED);
    assert_true(has_said("2 of 24 runs diverged, not used: rows 3, 9"));
    assert_true(has_said("5 of 24 runs not finished, not used: rows 20-24"));
    run_table_free(t);

    /* Without a status: NaN, or a loss above the one at the start. */
    const struct run_options options = {.count = RUN_COUNT_ALL, .start_loss = 10.8};
    t = read_good("n_total,tokens,loss\n1e8,1e9,3\n1e8,2e9,NaN\n2e8,1e9,11.5\n3e8,1e9,-inf\n",
                  &options);
    assert_int_equal(t->of_fate[RUN_USED], 1);
    assert_true(has_said("3 of 4 runs diverged, not used: rows 2-4"));
    run_table_free(t);
    refused("n_total,tokens,loss\n1e8,1e9,nan\n", "no run that can be used");
    refused("n_total,tokens,loss,status\n1e8,1e9,3,dnoe\n", "is it 'done'?");
    refused("n_total,tokens,loss,status\n1e8,1e9,3,\n", "unknown status ''");
}

static void bad_numbers_are_errors(void **state) {
    (void)state;
    refused("n_total,tokens,loss\n1e8,1e9,3\n1e8,2e9,0\n", "row 2: loss is 0");
    refused("n_total,tokens,loss\n1e8,-1e9,3\n", "row 1: tokens is -1e+09");
    refused("n_total,tokens,loss\n0,1e9,3\n", "row 1: n_total is 0");
    refused("n_total,tokens,loss\n1e308,1e9,3\n", "row 1: n_total is 1e+308");
    refused("n_total,tokens,loss\n1e8,1e9,1e308\n", "row 1: loss is 1e+308");
    refused("n_total,tokens,loss\n1e8,1e9,21.7\n", "a perplexity, or a diverged run?");
    refused("n_total,tokens,loss\n1e8,1e999,3\n", "row 1, column 'tokens'");
    refused("n_total,tokens,loss\n1e8,nan,3\n", "row 1, column 'tokens'");
    refused("n_total,tokens,loss\n1e8,,3\n", "row 1, column 'tokens' is empty");
    refused("n_total,tokens,loss\n1e8,1e9,2.1.3\n", "row 1, column 'loss'");
    refused("n_total,tokens,loss\n1e8,1e9,\n", "row 1, column 'loss' is empty");
    refused("n_total,sparsity,tokens,loss\n1e8,1,1e9,3\n", "row 1: sparsity is 1");
    refused("n_total,granularity,tokens,loss\n1e8,0,1e9,3\n", "row 1: granularity is 0");
    refused("n_total,weight,tokens,loss\n1e8,0,1e9,3\n", "row 1: weight is 0");
    /* Every bad row is named, not just the first. */
    refused("n_total,tokens,loss\n1e8,0,3\n1e8,1e9,3\n1e8,1e9,-1\n", "row 3: loss is -1");
    assert_int_equal(said.errors, 2);
}

static void columns_missing_or_mistyped(void **state) {
    (void)state;
    refused("n_total,tokens\n1e8,1e9\n", "no column 'loss'");
    refused("n_total,tokens,los\n1e8,1e9,3\n", "is it 'los'?");
    refused("params,tokens,loss\n1e8,1e9,3\n", "no column 'n_total' or 'n_active'");
    refused("n_total,tokens,loss\n", "no run that can be used");
    struct run_table *t =
        read_good("n_total,tokens,loss,granularty,seed,count\n1e8,1e9,3,4,1,all\n", NULL);
    assert_true(has_said("column 'granularty' is not read"));
    assert_true(has_said("is it 'granularity'?"));
    assert_true(has_said("columns not read: 'seed'"));
    run_table_free(t);
}

/* U76: losses of two tokenizers or two units are not mixed; 2.25 nats at 4.57 bytes is .710 bpb. */
static void units_and_tokenizers_do_not_mix(void **state) {
    (void)state;
    assert_close_abs(run_bits_per_byte(2.25, 4.57), 0.710, 5e-4);
    assert_close(run_nats_per_token(run_bits_per_byte(2.25, 4.57), 4.57), 2.25, 1e-15);
    refused("n_total,tokens,loss,tokenizer\n1e8,1e9,3,gpt2\n1e8,2e9,2.9,llama\n",
            "row 2: tokenizer 'llama', but row 1 has 'gpt2'");
    refused("n_total,tokens,loss,unit\n1e8,1e9,3,nats\n1e8,2e9,1.2,bits\n",
            "row 2: unit 'bits', but row 1 has 'nats'");
    refused("n_total,tokens,loss,unit\n1e8,1e9,3,nat\n", "is it 'nats'?");
    refused("n_total,tokens,loss,unit\n1e8,1e9,1,bpb\n", "need a column 'bytes_per_token'");
    refused("n_total,tokens,loss,count\n1e8,1e9,3,all\n1e8,2e9,3,no_embedding\n",
            "row 2: count 'no_embedding', but row 1 has 'all'");
    struct run_table *t = read_good("n_total,tokens,loss,unit,bytes_per_token,tokenizer,count\n"
                                    "1e8,1e9,0.710298,bpb,4.57,gpt2,all\n",
                                    NULL);
    assert_close(t->runs[0].loss, 2.25, 1e-5);
    assert_int_equal(t->unit, RUN_BITS_PER_BYTE);
    assert_string_equal(t->tokenizer, "gpt2");
    run_table_free(t);
    t = read_good("n_total,tokens,loss,unit,count\n1e8,1e9,3,bits,all\n", NULL);
    assert_close(t->runs[0].loss, 3 * log(2), 1e-15);
    run_table_free(t);
}

static void copies_are_used_once(void **state) {
    (void)state;
    struct run_table *t = read_good("name,n_total,tokens,loss,count\n"
                                    "a,1e8,1e9,3,all\n"
                                    "b,1e8,1e9,3,all\n" /* another run that ended alike */
                                    "a,1e8,1e9,3.0,all\n"
                                    "c,1e8,1e9,3.01,all\n" /* a rerun */
                                    "a,1e8,2e9,2.9,all\n",
                                    NULL);
    assert_int_equal(t->of_fate[RUN_USED], 4);
    assert_int_equal(t->runs[2].fate, RUN_DUPLICATE);
    assert_true(has_said("1 of 5 runs copy of an earlier row, used once: row 3"));
    assert_true(has_said("row 5: the name of another row with other values"));
    run_table_free(t);
}

/* U69: without embeddings small models look smaller than they are. */
static void the_count_must_be_stated(void **state) {
    (void)state;
    struct run_options options = {.count = RUN_COUNT_UNSTATED};
    run_table_free(read_good("n_total,tokens,loss\n1e9,1e9,3\n", &options));
    assert_true(has_said("does not say whether N includes the embeddings"));
    options.count = RUN_COUNT_NO_EMBEDDING;
    run_table_free(read_good("n_total,tokens,loss\n1e9,1e9,3\n", &options));
    assert_false(has_said("embeddings"));
    run_table_free(read_good("n_total,tokens,loss\n1e9,1e9,3\n768,1e8,7\n", &options));
    assert_true(has_said("N leaves out embeddings that exceed 20 % of it"));
    run_table_free(read_good("n_total,tokens,loss,n_embedding\n1e9,1e9,3,3e8\n", &options));
    assert_true(has_said("N leaves out embeddings"));
    options.count = RUN_COUNT_ALL;
    struct run_table *table = NULL;
    assert_int_equal(
        read_with("n_total,tokens,loss,count\n1e9,1e9,3,no_embedding\n", &options, &table),
        MOSAIC_BAD_INPUT);
}

static void flops_are_checked(void **state) {
    (void)state;
    const struct run_options options = {.count = RUN_COUNT_ALL};
    run_table_free(read_good("n_total,n_active,tokens,loss,flops\n1e9,1e8,1e9,3,6e17\n"
                             "1e9,1e8,2e9,3,1.3e18\n1e9,1e8,1e9,3.1,6e18\n",
                             &options));
    assert_true(has_said("row 3: FLOPs differ from 6 N_active D"));
}

static void filters_keep_and_count(void **state) {
    (void)state;
    const struct run_filter filters[] = {{"name", "_rf0.5"}, {"router", "S-Base|Dense"}};
    const struct run_options options = {
        .count = RUN_COUNT_ALL, .filters = filters, .filter_count = 2};
    struct run_table *t = read_good("name,router,n_total,tokens,loss\n"
                                    "h0_rf0.5,Dense,1e8,1e9,3\n"
                                    "h1_rf1,S-Base,1e8,1e9,3\n"
                                    "h2_rf0.5,S-Base,1e8,1e9,2.9\n"
                                    "h3_rf0.5,Hash,oops,1e9,3\n",
                                    &options);
    assert_int_equal(t->of_fate[RUN_USED], 2);
    assert_int_equal(t->of_fate[RUN_FILTERED], 2);
    assert_true(has_said("2 of 4 runs left out by the filter: rows 2, 4"));
    run_table_free(t);
    const struct run_filter wrong[] = {{"routr", "x"}};
    const struct run_options mistyped = {.filters = wrong, .filter_count = 1};
    assert_int_equal(read_with("name,router,n_total,tokens,loss\nx,y,1e8,1e9,3\n", &mistyped, &t),
                     MOSAIC_BAD_INPUT);
    assert_true(has_said("is it 'router'?"));
}

/* The column that the filter reads is read; a name that nothing reads is still named. */
static void filtered_columns_are_read(void **state) {
    (void)state;
    const struct run_filter filter = {"router", "Dense"};
    const struct run_options options = {
        .count = RUN_COUNT_ALL, .filters = &filter, .filter_count = 1};
    const char *const text = "router,n_total,tokens,loss,seed\nDense,1e8,1e9,3,1\n";
    run_table_free(read_good(text, &options));
    assert_true(has_said("columns not read: 'seed'"));
    assert_false(has_said("router"));
    run_table_free(read_good(text, NULL));
    assert_true(has_said("columns not read: 'router', 'seed'"));
}

/* Two layers of width 8, 2 heads and 1 key/value head of 4: attention 192, router 16; a gated FFN
 * of width w has 24 w, a plain one 16 w. */
static void shapes_are_counted(void **state) {
    (void)state;
    const char *const text =
        "layers,hidden,heads,kv_heads,head_dim,dense_ffn,expert_ffn,n_experts,top_k,"
        "shared_experts,first_dense,ffn_matrices,vocab,tied,tokens,loss,n_total,n_active\n"
        "2,8,2,1,4,16,,,,,,2,10,true,1e9,3,,\n"
        "2,8,2,1,4,16,4,8,2,1,1,,10,false,1e9,3,,\n"
        "2,8,2,1,4,16,4,8,2,,,,10,,1e9,3,5000,4000\n";
    struct run_options options = {.count = RUN_COUNT_NO_EMBEDDING};
    struct run_table *t = read_good(text, &options);
    const struct run *r = t->runs;
    assert_close(r[0].point.n_total, 2.0 * (192 + 256), 0);
    assert_close(r[0].point.n_active, 2.0 * (192 + 256), 0);
    assert_close(r[0].point.experts, 1.0, 0);
    assert_close(r[0].point.granularity, 1.0, 0);
    assert_close(r[1].point.n_total, 2.0 * 192 + 384 + 9 * 96, 0);
    assert_close(r[1].point.n_active, 2.0 * 192 + 384 + 3 * 96, 0);
    assert_close(r[1].point.sparsity, 1.0 - 1056. / 1632, 1e-15);
    assert_close(r[1].point.granularity, 4.0, 0);
    assert_close(r[1].point.experts, 8.0, 0);
    assert_close(r[1].point.top_k, 2.0, 0);
    assert_close(r[2].point.n_total, 5000.0, 0); /* a stated count stands */
    assert_close(r[2].point.n_active, 4000.0, 0);
    assert_true(t->has_sparsity);
    assert_false(has_said("not read"));
    run_table_free(t);
    options.count = RUN_COUNT_ALL;
    t = read_good(text, &options);
    assert_close(t->runs[0].point.n_total, 2.0 * (192 + 256) + 80, 0);
    assert_close(t->runs[1].point.n_total, 2.0 * 192 + 384 + 9 * 96 + 64 + 2 * 80, 0);
    assert_close(t->runs[1].point.n_active, 2.0 * 192 + 384 + 3 * 96 + 64 + 2 * 80, 0);
    run_table_free(t);
}

/* q = 2 has 8 layers of width 1024, 8 heads of 128 and as many key/value heads, one dense layer. */
static void ladder_places_are_counted(void **state) {
    (void)state;
    struct run_table *t = read_good("ladder_q,n_experts,top_k,granularity,tokens,loss,count\n"
                                    "2,64,4,4,1e9,3,no_embedding\n",
                                    NULL);
    const double attention = 4. * 1024 * 1024, ffn = 3. * 1024 * 2560;
    assert_close(t->runs[0].point.n_total, 8.0 * attention + ffn + 7 * 65 * ffn / 4, 1e-15);
    assert_close(t->runs[0].point.n_active, 8.0 * attention + ffn + 7 * 5 * ffn / 4, 1e-15);
    assert_close(t->runs[0].point.granularity, 4.0, 0);
    run_table_free(t);
}

static void impossible_shapes_are_named(void **state) {
    (void)state;
    static const char head[] = "layers,hidden,heads,kv_heads,head_dim,dense_ffn,expert_ffn,"
                               "n_experts,top_k,vocab,tied,granularity,ladder_q,tokens,loss,count";
    static const struct {
        const char *row, *why;
    } bad[] = {
        {"2,8,6,4,4,16,,,,10,,,,1e9,3,all",
         "row 1, column 'heads': impossible shape: heads 6 is not a multiple of kv_heads 4"},
        {"2,8,2,1,4,16,4,8,9,10,,,,1e9,3,all", "row 1, column 'top_k': impossible shape"},
        {"2,8,2,1,4,,,,,10,,,,1e9,3,all", "need dense_ffn"},
        {"2.5,8,2,1,4,16,,,,10,,,,1e9,3,all", "row 1: layers is 2.5"},
        {"2,-8,2,1,4,16,,,,10,,,,1e9,3,all", "row 1: hidden is -8"},
        {"2,8,2,1,4,16,,,,1e30,,,,1e9,3,all", "row 1: vocab is 1e+30"},
        {"2,8,two,1,4,16,,,,10,,,,1e9,3,all", "row 1, column 'heads'"},
        {"2,8,2,1,,16,,,,10,,,,1e9,3,all", "row 1: to count its parameters needs 'head_dim'"},
        {"2,8,2,1,4,16,,,,,,,,1e9,3,all", "row 1: to count its parameters needs 'vocab'"},
        {"2,8,2,1,4,16,,,,10,maybe,,,1e9,3,all", "row 1: tied is 'maybe'"},
        {"2,,,,,,,8,2,10,,4,2,1e9,3,all", "row 1: layers beside ladder_q"},
        {",,,,,,,8,2,10,,3,2,1e9,3,all",
         "row 1, column 'granularity': impossible shape: granularity 3 does not divide d_ff 2560"},
        {",,,,,,,8,2,10,,0.5,2,1e9,3,all", "row 1: granularity is 0.5"},
        {",,,,,,,8,,10,,4,2,1e9,3,all", "row 1: to count its parameters needs 'top_k'"},
        {",,,,,,,8,2,10,,4,,1e9,3,all", "row 1: neither 'layers' nor 'ladder_q' is given"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, "%s\n%s\n", head, bad[i].row);
        refused(text, bad[i].why);
    }
    /* Which count is meant is never guessed. */
    refused("layers,hidden,heads,kv_heads,head_dim,dense_ffn,vocab,tokens,loss\n"
            "2,8,2,1,4,16,10,1e9,3\n",
            "row 1: which parameters of its shape to count is not stated");
}

/* 15,100 rows: every row 100 times over. */
static void many_copies_are_named_in_short(void **state) {
    (void)state;
    enum { ROWS = 151, TIMES = 100, LINE = 32 };
    char *text = calloc(ROWS * TIMES + 1, LINE);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "n_total,tokens,loss,count\n");
    for (int i = 0; i < ROWS * TIMES; i++)
        used += (size_t)snprintf(text + used, LINE, "%de7,1e9,3,all\n", i % ROWS + 1);
    struct run_table *t = read_good(text, NULL);
    free(text);
    assert_int_equal(t->of_fate[RUN_USED], ROWS);
    assert_int_equal(t->of_fate[RUN_DUPLICATE], ROWS * (TIMES - 1));
    assert_true(has_said("rows 152-15100"));
    run_table_free(t);
}

/* Lists too long for a line say how many more there are. */
static void long_lists_are_cut(void **state) {
    (void)state;
    enum { ROWS = 600, LINE = 40 };
    char *text = calloc(ROWS + 2, LINE);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "n_total,tokens,loss,count,status\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)snprintf(text + used, LINE, "%de7,1e9,3,all,%s\n", i + 1,
                                 i % 2 ? "running" : "done");
    struct run_table *t = read_good(text, NULL);
    free(text);
    assert_int_equal(t->of_fate[RUN_UNFINISHED], ROWS / 2);
    assert_true(has_said("300 of 600 runs not finished, not used: rows 2, 4, 6"));
    assert_true(has_said(" more"));
    assert_int_equal(t->runs[ROWS - 1].fate, RUN_UNFINISHED);
    run_table_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_in_any_order),
        cmocka_unit_test(total_active_and_sparsity_are_linked),
        cmocka_unit_test(unfinished_and_diverged_rows_are_named),
        cmocka_unit_test(bad_numbers_are_errors),
        cmocka_unit_test(columns_missing_or_mistyped),
        cmocka_unit_test(units_and_tokenizers_do_not_mix),
        cmocka_unit_test(copies_are_used_once),
        cmocka_unit_test(the_count_must_be_stated),
        cmocka_unit_test(flops_are_checked),
        cmocka_unit_test(filters_keep_and_count),
        cmocka_unit_test(filtered_columns_are_read),
        cmocka_unit_test(shapes_are_counted),
        cmocka_unit_test(ladder_places_are_counted),
        cmocka_unit_test(impossible_shapes_are_named),
        cmocka_unit_test(many_copies_are_named_in_short),
        cmocka_unit_test(long_lists_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
