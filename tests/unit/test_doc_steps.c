// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Tables of measured steps: what each word and number of a row becomes, which rows are left out and
 * why, what is an error and where, how layouts are counted; and the shipped tables.  Run from the
 * root of the tree.
 */
#include "doc/doc_steps.h"

#include "close.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>
#include <unistd.h>

#include "doc/step_row.h"

#define STEPS "calibration/data/steps.csv"
#define MODELS "calibration/data/step-models.csv"

static const char models[] =
    "# a comment\n"
    "model,layers,hidden,heads,kv_heads,head_dim,v_head_dim,attention_kind,q_lora_rank,"
    "kv_lora_rank,qk_rope_dim,ffn_dense,ffn_matrices,n_experts,top_k,expert_ffn,shared_ffn_total,"
    "group_limit,first_dense_layers,moe_layer_step,mtp_layers,vocab,tied_embeddings,window,"
    "window_frac\n"
    "Dense,32,4096,32,8,128,128,GQA,0,0,0,14336,3,0,0,0,0,0,0,1,0,128256,1,4096,0.5\n"
    "Moe,48,2048,32,4,128,128,GQA,0,0,0,6144,3,128,8,768,0,0,0,1,0,151936,0,0,0\n"
    "Mla,8,7168,128,128,192,128,MLA,1536,512,64,18432,3,256,8,2048,4096,4,3,1,1,129280,0,0,0\n"
    "Linear,8,2048,32,4,128,128,KDA,0,0,0,6144,3,0,0,0,0,0,0,1,0,1000,0,0,0\n"
    "Every2nd,8,2048,32,4,128,128,GQA,0,0,0,6144,3,8,2,768,0,0,0,2,0,1000,0,0,0\n";

struct cell {
    const char *column, *value;
};
static const struct cell plain[] = {{"id", "A1"},
                                    {"model", "Moe"},
                                    {"gpu", "H100"},
                                    {"n_gpus", "16"},
                                    {"gpus_per_node", "8"},
                                    {"nvlink_domain", "8"},
                                    {"fabric", "ib"},
                                    {"precision", "BF16"},
                                    {"seq_len", "4096"},
                                    {"mbs", "2"},
                                    {"gbs", "64"},
                                    {"tp", "1"},
                                    {"pp", "2"},
                                    {"vpp", "1"},
                                    {"cp", "1"},
                                    {"ep", "8"},
                                    {"etp", "1"},
                                    {"dp", "8"},
                                    {"shard", "zero1"},
                                    {"recompute", "none"},
                                    {"offload", ""},
                                    {"moment_dtype", ""},
                                    {"grad_dtype", ""},
                                    {"optimizer", "adamw"},
                                    {"dispatcher", "nccl"},
                                    {"overlap", "none"},
                                    {"cuda_graph", "none"},
                                    {"routing", "forced"},
                                    {"imbalance", ""},
                                    {"software", "26.08"},
                                    {"step_time_s", "3.5"},
                                    {"tokens_s_gpu", ""},
                                    {"peak_alloc_gib", ""},
                                    {"peak_reserved_gib", ""},
                                    {"source", "some summary"}};
enum { COLUMNS = sizeof plain / sizeof plain[0], TEXT_MAX = 16384 };

static struct diag_list said;

/* ---- building tables ---- */

static void add_header(char *text) {
    text[0] = '\0';
    for (size_t i = 0; i < COLUMNS; ++i)
        (void)snprintf(text + strlen(text), TEXT_MAX - strlen(text), "%s%s", i > 0 ? "," : "",
                       plain[i].column);
    (void)snprintf(text + strlen(text), TEXT_MAX - strlen(text), "\n");
}

/* The plain row with its id and some cells set. */
static void add_row(char *text, const char *id, const struct cell *set, size_t sets) {
    for (size_t i = 0; i < COLUMNS; ++i) {
        const char *value = i == 0 ? id : plain[i].value;
        for (size_t k = 0; k < sets; ++k)
            if (strcmp(set[k].column, plain[i].column) == 0)
                value = set[k].value;
        (void)snprintf(text + strlen(text), TEXT_MAX - strlen(text), "%s%s", i > 0 ? "," : "",
                       value);
    }
    (void)snprintf(text + strlen(text), TEXT_MAX - strlen(text), "\n");
}

static void write_file(char *path, const char *text) {
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(file), 0);
}

static enum mosaic_status load(const char *rows, const char *shapes, struct step_tables **tables) {
    char rows_path[] = "/tmp/test_doc_steps_XXXXXX", models_path[] = "/tmp/test_doc_steps_XXXXXX";
    write_file(rows_path, rows);
    write_file(models_path, shapes);
    diag_init(&said);
    const struct step_table_options generic = {.calibration = "generic"};
    const enum mosaic_status status =
        doc_steps_load(rows_path, models_path, &generic, &said, tables);
    assert_int_equal(unlink(rows_path), 0);
    assert_int_equal(unlink(models_path), 0);
    return status;
}

static void print_said(void) {
    char *const words = diag_text(NULL, &said, false);
    print_error("%s", words ? words : "");
    talloc_free(words);
}

static struct step_tables *must_load(const char *rows) {
    struct step_tables *tables = NULL;
    if (load(rows, models, &tables) != MOSAIC_OK) {
        print_said();
        fail();
    }
    return tables;
}

/* A table of one row. */
static struct step_tables *one_row(const struct cell *set, size_t sets) {
    char text[TEXT_MAX];
    add_header(text);
    add_row(text, "A1", set, sets);
    return must_load(text);
}

/* Its step; the caller frees the tables. */
static const struct measured_step *used(const struct step_tables *t) {
    if (t->steps.excluded_count > 0)
        fail_msg("left out: %s", t->steps.excluded[0].reason);
    assert_int_equal(t->steps.count, 1);
    return &t->steps.items[0];
}

static void assert_excluded(const struct cell *set, size_t sets, const char *words) {
    struct step_tables *const t = one_row(set, sets);
    assert_int_equal(t->steps.rows, 1);
    assert_int_equal(t->steps.count, 0);
    assert_int_equal(t->steps.excluded_count, 1);
    assert_string_equal(t->steps.excluded[0].id, "A1");
    assert_int_equal(t->steps.excluded[0].row, 1);
    if (!strstr(t->steps.excluded[0].reason, words))
        fail_msg("'%s' does not say '%s'", t->steps.excluded[0].reason, words);
    doc_steps_free(t);
}

#define SET(...)                                                                                   \
    ((const struct cell[]){__VA_ARGS__}),                                                          \
        sizeof((const struct cell[]){__VA_ARGS__}) / sizeof(struct cell)

/* ---- geometries, clusters, engines ---- */

static void test_models(void **state) {
    (void)state;
    struct step_tables *t = one_row(NULL, 0);
    const struct measured_step *s = used(t);
    assert_int_equal(s->geometry.experts, 128);
    assert_int_equal(s->geometry.first_dense, 0);
    assert_int_equal(s->geometry.shared_experts, 0);
    assert_close(s->geometry.granularity, 8.0, 1e-12); /* 6144 / 768 */
    assert_int_equal(s->workload.vocab, 151936);
    doc_steps_free(t);

    t = one_row(SET({"model", "Mla"}));
    s = used(t);
    assert_int_equal(s->geometry.attention, ATTENTION_MLA);
    assert_int_equal(s->geometry.head_dim, 128); /* 192 less the RoPE part */
    assert_int_equal(s->geometry.rope_dim, 64);
    assert_int_equal(s->geometry.kv_heads, 0);
    assert_int_equal(s->geometry.q_rank, 1536);
    assert_int_equal(s->geometry.kv_rank, 512);
    assert_int_equal(s->geometry.first_dense, 3);
    assert_int_equal(s->geometry.shared_experts, 1);
    assert_int_equal(s->geometry.shared_ffn, 4096);
    assert_int_equal(s->geometry.node_limit, 4);
    assert_int_equal(s->geometry.mtp_layers, 1);
    assert_false(s->geometry.tied);
    doc_steps_free(t);

    t = one_row(SET({"model", "Dense"}, {"ep", "1"}, {"dispatcher", "none"}, {"routing", "none"}));
    s = used(t);
    assert_int_equal(s->geometry.first_dense, 32);
    assert_int_equal(s->geometry.window, 4096);
    assert_int_equal(s->geometry.window_layers, 16);
    assert_true(s->geometry.tied);
    doc_steps_free(t);

    assert_excluded(SET({"model", "Linear"}), "attention_kind 'KDA'");
    assert_excluded(SET({"model", "Every2nd"}), "moe_layer_step '2'");
    assert_excluded(SET({"model", "Dence"}), "is it 'Dense'?");
}

static void test_machine(void **state) {
    (void)state;
    struct step_tables *t = one_row(NULL, 0);
    const struct measured_step *s = used(t);
    assert_string_equal(s->cluster_name, "h100-ib");
    assert_string_equal(s->architecture, s->cluster.device.architecture);
    assert_int_equal(s->cluster.nodes, 2);
    assert_int_equal(s->cluster.gpus_per_node, 8);
    assert_non_null(s->engine);
    assert_non_null(s->calibration);
    doc_steps_free(t);

    t = one_row(SET({"n_gpus", "4"}, {"pp", "1"}, {"ep", "4"}, {"dp", "4"}));
    s = used(t);
    assert_int_equal(s->cluster.nodes, 1);
    assert_int_equal(s->cluster.gpus_per_node, 4);
    doc_steps_free(t);

    assert_excluded(SET({"gpu", "H100-80G"}), "gpu 'H100-80G' with fabric 'ib'");
    assert_excluded(SET({"fabric", "token-ring"}), "with fabric 'token-ring'");
    assert_excluded(SET({"n_gpus", "20"}), "20 mod 8 = 4");
    assert_excluded(SET({"gpus_per_node", "4"}), "gpus_per_node '4'");
    assert_excluded(SET({"nvlink_domain", "72"}), "nvlink_domain '72'");
    assert_excluded(SET({"software", "X-no-such-release"}), "software 'X-no-such-release'");
    assert_excluded(SET({"precision", "MXFP8"}), "no dense peak for mxfp8");
}

static void test_mesh(void **state) {
    (void)state;
    struct step_tables *t = one_row(SET({"vpp", "5"}));
    const struct measured_step *s = used(t);
    assert_int_equal(s->mesh.dp, 8);
    assert_int_equal(s->mesh.micro_batches, 4);
    assert_int_equal(s->mesh.vpp, 5);
    assert_true(s->workload.execution.uneven_chunks); /* 48 layers on 10 chunks */
    assert_int_equal(s->split.stages, 2);
    assert_int_equal(s->split.first[1], 24);
    struct prediction p;
    measured_step_predict(s, NULL, &p);
    assert_true(step_is_plausible(&p));
    doc_steps_free(t);

    t = one_row(SET({"vpp", "6"}));
    assert_false(used(t)->workload.execution.uneven_chunks);
    doc_steps_free(t);

    assert_excluded(SET({"dp", "4"}), "16 GPUs / (TP 1 x CP 1 x PP 2 = 2) = 8");
    assert_excluded(SET({"ep", "16"}), "does not divide TP 1 x CP 1 x DP 8");
    assert_excluded(SET({"tp", "1048576"}, {"cp", "1048576"}, {"pp", "1048576"}), "layout");
}

/* ---- words ---- */

/* One step's execution under some cells. */
static struct workload workload_of(const struct cell *set, size_t sets, unsigned *unstated,
                                   struct engine *engine) {
    struct step_tables *const t = one_row(set, sets);
    const struct measured_step *const s = used(t);
    const struct workload w = s->workload;
    if (unstated)
        *unstated = s->unstated;
    if (engine)
        *engine = *s->engine;
    doc_steps_free(t);
    return w;
}

static struct execution execution_of(const char *column, const char *value) {
    const struct cell set = {column, value};
    return workload_of(&set, 1, NULL, NULL).execution;
}

static void test_stated(void **state) {
    (void)state;
    assert_int_equal(execution_of("shard", "ddp").sharding, SHARD_NONE);
    assert_int_equal(execution_of("shard", "zero1").sharding, SHARD_ZERO1);
    assert_int_equal(execution_of("shard", "zero2").sharding, SHARD_ZERO2);
    assert_int_equal(execution_of("shard", "fsdp").sharding, SHARD_FSDP);
    assert_int_equal(execution_of("dispatcher", "nccl").dispatcher, DISPATCH_NCCL);
    assert_int_equal(execution_of("dispatcher", "deepep").dispatcher, DISPATCH_DEEPEP);
    assert_int_equal(execution_of("dispatcher", "hybridep").dispatcher, DISPATCH_HYBRIDEP);
    assert_int_equal(execution_of("cuda_graph", "none").graphs, GRAPHS_NONE);
    assert_int_equal(execution_of("cuda_graph", "none:attn+moe_router").graphs, GRAPHS_NONE);
    assert_int_equal(execution_of("cuda_graph", "transformer_engine:attn").graphs, GRAPHS_MODULE);
    assert_int_equal(execution_of("cuda_graph", "full_iteration").graphs, GRAPHS_FULL);
    assert_int_equal(execution_of("cuda_graph", "local:full_iteration").graphs, GRAPHS_FULL);
    assert_true(execution_of("moment_dtype", "bf16").bf16_moments);
    assert_false(execution_of("moment_dtype", "fp32").bf16_moments);
    assert_true(execution_of("grad_dtype", "bf16").bf16_gradients);
    assert_false(execution_of("grad_dtype", "fp32").bf16_gradients);

    struct workload w = workload_of(SET({"precision", "FP8"}, {"optimizer", "muon"}), NULL, NULL);
    assert_int_equal(w.precision, PRECISION_FP8);
    assert_int_equal(w.optimizer, OPTIMIZER_MUON);
    assert_int_equal(w.sequence, 4096);
    assert_int_equal(w.global_batch, 64);
    assert_close(w.imbalance, 1.0, 0.0);
    w = workload_of(SET({"routing", "natural"}), NULL, NULL);
    assert_close(w.imbalance, 1.6, 0.0);
    w = workload_of(SET({"routing", "natural"}, {"imbalance", "1.25"}), NULL, NULL);
    assert_close(w.imbalance, 1.25, 0.0);
}

static void test_overlap(void **state) {
    (void)state;
    struct execution e = execution_of("overlap", "none");
    assert_int_equal(e.overlap, 0);
    assert_true(e.serial_dp);
    e = execution_of("overlap", "ep_1f1b_overlap delay_wgrad dp_grad_overlap");
    assert_true((e.overlap & OVERLAP_EP) != 0);
    assert_false(e.serial_dp);
    assert_false(e.fp8_attention);
    e = execution_of("overlap", "no_ep_overlap fp8_param_gather dp_param_overlap");
    assert_int_equal(e.overlap & OVERLAP_EP, 0);
    assert_false(e.serial_dp);
    assert_true((execution_of("overlap", "tp_overlap").overlap & OVERLAP_TP) != 0);
    assert_true((execution_of("overlap", "AsyncTP").overlap & OVERLAP_TP) != 0);
    assert_int_equal(execution_of("overlap", "megatron_fsdp").sharding, SHARD_FSDP);
    assert_int_equal(execution_of("overlap", "paged_stash te_op_fuser").overlap & OVERLAP_EP, 0);
    const struct workload fp8 =
        workload_of(SET({"overlap", "fp8_attention"}, {"precision", "FP8"}), NULL, NULL);
    assert_true(fp8.execution.fp8_attention);
}

static void assert_modules(const char *word, enum recompute recompute, unsigned modules) {
    struct step_tables *const t = one_row(SET({"recompute", word}));
    const struct measured_step *const s = used(t);
    assert_int_equal(s->mesh.recompute, recompute);
    if (modules)
        assert_int_equal(s->workload.execution.selective, modules);
    assert_int_equal(s->unstated & UNSTATED_RECOMPUTE, 0);
    doc_steps_free(t);
}

static void test_recompute(void **state) {
    (void)state;
    assert_modules("none", RECOMPUTE_NONE, 0);
    assert_modules("full", RECOMPUTE_FULL, 0);
    assert_modules("selective", RECOMPUTE_SELECTIVE, 0);
    assert_modules("selective:core_attn", RECOMPUTE_SELECTIVE, MODULE_CORE_ATTENTION);
    assert_modules("selective:norm+act", RECOMPUTE_SELECTIVE, MODULE_NORM | MODULE_ACTIVATION);
    assert_modules("selective:layernorm+moe", RECOMPUTE_SELECTIVE, MODULE_NORM | MODULE_EXPERTS);
    assert_modules("selective:mlp+moe_act", RECOMPUTE_SELECTIVE, MODULE_MLP | MODULE_ACTIVATION);
    assert_modules("selective:mla_up_proj+mlp", RECOMPUTE_SELECTIVE, MODULE_MLA_UP | MODULE_MLP);
}

static void test_unstated(void **state) {
    (void)state;
    unsigned marks = 0;
    struct engine engine = {.name = ""};
    struct workload w = workload_of(SET({"dispatcher", "unstated"}, {"overlap", "unstated"},
                                        {"cuda_graph", "unstated"}, {"recompute", "unstated"},
                                        {"routing", "unstated"}),
                                    &marks, &engine);
    const struct execution *const recipe = &engine.recipe.execution;
    assert_int_equal(w.execution.dispatcher, recipe->dispatcher);
    assert_int_equal(w.execution.overlap, recipe->overlap);
    assert_int_equal(w.execution.serial_dp, recipe->serial_dp);
    assert_int_equal(w.execution.graphs, recipe->graphs);
    assert_int_equal(w.execution.bf16_gradients, recipe->bf16_gradients);
    assert_int_equal(w.execution.bf16_moments, recipe->bf16_moments);
    assert_close(w.imbalance, 1.0, 0.0);
    assert_int_equal(marks, UNSTATED_RECOMPUTE | UNSTATED_OVERLAP | UNSTATED_GRAPHS |
                                UNSTATED_DISPATCHER | UNSTATED_ROUTING | UNSTATED_STATE);

    (void)workload_of(SET({"moment_dtype", "fp32"}, {"grad_dtype", "fp32"}), &marks, NULL);
    assert_int_equal(marks, 0);
    /* A dense model leaves open neither its dispatcher nor its routing. */
    (void)workload_of(SET({"model", "Dense"}, {"ep", "1"}, {"dispatcher", "unstated"},
                          {"routing", "unstated"}, {"moment_dtype", "fp32"},
                          {"grad_dtype", "fp32"}),
                      &marks, NULL);
    assert_int_equal(marks, 0);
}

static void test_excluded_words(void **state) {
    (void)state;
    static const struct {
        struct cell set;
        const char *words;
    } cases[] = {
        {{"precision", "INT8"}, "precision 'INT8' is an unknown word"},
        {{"optimizer", "lion"}, "optimizer 'lion' is an unknown word"},
        {{"shard", "unstated"}, "shard 'unstated' is an unknown word"},
        {{"dispatcher", "pigeon"}, "dispatcher 'pigeon' is an unknown word"},
        {{"dispatcher", "none"}, "dispatcher 'none' with experts and ep 8"},
        {{"cuda_graph", "some"}, "cuda_graph 'some' is an unknown word"},
        {{"routing", "magic"}, "routing 'magic' is an unknown word"},
        {{"overlap", "dp_grad_overlap warp"}, "has the unknown word 'warp'"},
        {{"recompute", "partly"}, "recompute 'partly' is an unknown word"},
        {{"recompute", "selective:"}, "has the unknown word ''"},
        {{"recompute", "selective:mlp+tail"}, "has the unknown word 'tail'"},
        {{"moment_dtype", "fp4"}, "moment_dtype 'fp4' is an unknown word"},
        {{"grad_dtype", "fp4"}, "grad_dtype 'fp4' is an unknown word"},
        {{"offload", "weights"}, "offload 'weights' is not modelled"},
        {{"tokens_s_gpu", "1"}, "tokens_s_gpu '1' makes a step of "},
        {{"step_time_s", ""}, "step_time_s '' is empty, and so is tokens_s_gpu"},
        {{"tp", ""}, "tp '' is empty"},
        {{"dp", ""}, "dp '' is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        assert_excluded(&cases[i].set, 1, cases[i].words);
}

/* ---- numbers ---- */

static void test_measured(void **state) {
    (void)state;
    struct step_tables *t = one_row(SET({"peak_alloc_gib", "40"}, {"peak_reserved_gib", "50.5"}));
    const struct measured_step *s = used(t);
    assert_close(s->step_time_s, 3.5, 0.0);
    assert_close(s->peak_allocated_bytes, 40.0 * 1073741824.0, 1e-15);
    assert_close(s->peak_reserved_bytes, 50.5 * 1073741824.0, 1e-15);
    assert_int_equal(s->year, 2026);
    assert_string_equal(s->source, "some summary");
    doc_steps_free(t);

    t = one_row(SET({"step_time_s", ""}, {"tokens_s_gpu", "2048"}));
    s = used(t);
    assert_close(s->step_time_s, 64.0 * 4096.0 / (2048.0 * 16.0), 1e-15);
    assert_close(s->peak_allocated_bytes, 0.0, 0.0);
    doc_steps_free(t);
}

static void test_year(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int year;
    } cases[] = {{"25.04", 2025},
                 {"26.04.01", 2026},
                 {"NV26.01", 2026},
                 {"2025-10-30", 2025},
                 {"Tool 2023", 2023},
                 {"Bridge 0.4.2", 0},
                 {"summary (24.07)", 2024},
                 {"12.1", 0},
                 {"25.13", 0},
                 {"20251", 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        assert_int_equal(step_year(cases[i].text), cases[i].year);
}

static void assert_error(const char *rows, const char *shapes, long line, const char *words) {
    struct step_tables *t = NULL;
    assert_int_equal(load(rows, shapes, &t), MOSAIC_BAD_INPUT);
    assert_null(t);
    for (size_t i = 0; i < said.count; ++i)
        if (said.items[i].line == line && strstr(said.items[i].message, words)) {
            assert_true(said.items[i].column > 0);
            return;
        }
    print_said();
    fail_msg("nothing on line %ld says '%s'", line, words);
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        struct cell set;
        const char *words;
    } cases[] = {
        {{"tp", "two"}, "row 2, column 'tp'"},
        {{"pp", "1.5"}, "row 2: pp is 1.5, not a whole number"},
        {{"mbs", "0"}, "row 2: mbs is 0; it must be above 0"},
        {{"gbs", "-4"}, "row 2: gbs is -4; it must be above 0"},
        {{"seq_len", "1e12"}, "row 2: seq_len is 1e+12"},
        {{"step_time_s", "fast"}, "row 2, column 'step_time_s'"},
        {{"peak_alloc_gib", "much"}, "row 2, column 'peak_alloc_gib'"},
        {{"imbalance", "0.5"}, "row 2: imbalance is 0.5; it must be at least 1"},
        {{"id", ""}, "row 2: the id is empty"},
        {{"id", "A1"}, "row 2: id 'A1' is that of row 1"},
    };
    char text[TEXT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        add_header(text);
        add_row(text, "A1", NULL, 0);
        add_row(text, "A2", &cases[i].set, 1);
        assert_error(text, models, 3, cases[i].words);
    }
    assert_error("id,model\nA1,Moe\n", models, 1, "no column 'gpu'");
    add_header(text);
    add_row(text, "A1", NULL, 0);
    assert_error(text, "model,layers\nX,2\n", 1, "no column 'hidden'");
    char shapes[sizeof models + 128];
    (void)snprintf(shapes, sizeof shapes, "%s%s", models,
                   "Moe,4,64,2,2,32,32,MHA,0,0,0,64,2,0,0,0,0,0,0,1,0,100,0,0,0\n");
    assert_error(text, shapes, 8, "model 'Moe' is given twice");
    (void)snprintf(shapes, sizeof shapes, "%s%s", models,
                   "Odd,4,64,3,2,32,32,GQA,0,0,0,64,2,0,0,0,0,0,0,1,0,100,0,0,0\n");
    assert_error(text, shapes, 8, "model 'Odd': heads 3 is not a multiple of kv_heads 2");
    (void)snprintf(shapes, sizeof shapes, "%s%s", models,
                   "Bad,x,64,2,2,32,32,GQA,0,0,0,64,2,0,0,0,0,0,0,1,0,100,0,0,0\n");
    assert_error(text, shapes, 8, "column 'layers'");
}

/* ---- whole tables ---- */

static void test_layouts(void **state) {
    (void)state;
    char text[TEXT_MAX];
    add_header(text);
    add_row(text, "A1", NULL, 0);
    add_row(text, "A2", SET({"mbs", "1"}));
    add_row(text, "A3", SET({"n_gpus", "32"}, {"dp", "16"}, {"step_time_s", "9"}));
    add_row(text, "A4", SET({"gpu", "nothing"}));
    add_row(text, "A5", SET({"recompute", "full"}));
    add_row(text, "A6", SET({"dispatcher", "deepep"}));
    struct step_tables *const t = must_load(text);
    static const size_t layouts[] = {0, 1, 0, 2, 3}, counts[] = {2, 1, 2, 1, 1};
    assert_int_equal(t->steps.rows, 6);
    assert_int_equal(t->steps.count, 5);
    assert_int_equal(t->steps.layouts, 4);
    for (size_t i = 0; i < t->steps.count; ++i) {
        assert_int_equal(t->steps.items[i].layout, layouts[i]);
        assert_int_equal(t->steps.items[i].layout_rows, counts[i]);
    }
    assert_int_equal(t->steps.items[3].row, 5);
    assert_int_equal(t->steps.excluded_count, 1);
    assert_int_equal(t->steps.excluded[0].row, 4);
    assert_int_equal(t->input_count, 2);
    doc_steps_free(t);
}

static void test_shipped(void **state) {
    (void)state;
    enum { ROWS = 601, NO_GPU = 15, OFFLOADED = 2 };
    struct step_tables *t = NULL;
    diag_init(&said);
    if (doc_steps_load(STEPS, MODELS, NULL, &said, &t) != MOSAIC_OK) {
        print_said();
        fail();
    }
    size_t no_gpu = 0, offloaded = 0, moe = 0;
    for (size_t i = 0; i < t->steps.excluded_count; ++i) {
        no_gpu += strncmp(t->steps.excluded[i].reason, "gpu 'unstated-80GB'", 19) == 0;
        offloaded += strncmp(t->steps.excluded[i].reason, "offload ", 8) == 0;
    }
    assert_int_equal(t->steps.rows, ROWS);
    assert_int_equal(no_gpu, NO_GPU);
    assert_int_equal(offloaded, OFFLOADED);
    for (size_t i = 0; i < t->steps.excluded_count; ++i)
        if (t->steps.excluded_count != NO_GPU + OFFLOADED)
            print_error("%s: %s\n", t->steps.excluded[i].id, t->steps.excluded[i].reason);
    assert_int_equal(t->steps.excluded_count, NO_GPU + OFFLOADED);
    assert_int_equal(t->steps.count, ROWS - NO_GPU - OFFLOADED);
    for (size_t i = 0; i < t->steps.count; ++i) {
        struct prediction p;
        measured_step_predict(&t->steps.items[i], NULL, &p);
        if (!step_is_plausible(&p))
            fail_msg("%s: %g s, MFU %g", t->steps.items[i].id, p.step_time_s, p.mfu);
        moe += t->steps.items[i].geometry.experts > 0;
    }
    assert_true(moe > 100);
    assert_true(t->steps.layouts > 300 && t->steps.layouts < t->steps.count);
    doc_steps_free(t);
}

/* Unstated recomputation of a recipe that fits: nothing lighter does. */
static void test_to_fit(void **state) {
    (void)state;
    struct step_tables *t = NULL;
    diag_init(&said);
    const struct step_table_options generic = {.calibration = "generic"};
    assert_int_equal(doc_steps_load(STEPS, MODELS, &generic, &said, &t), MOSAIC_OK);
    for (size_t i = 0; i < t->steps.count; ++i) {
        struct measured_step s = t->steps.items[i];
        split_even(s.geometry.layers, s.mesh.pp, &s.split); /* it was chosen before the split */
        const enum recompute chosen = s.mesh.recompute;
        if (!(s.unstated & UNSTATED_RECOMPUTE))
            continue;
        if (!s.engine->recipe.recompute_to_fit) {
            assert_int_equal(chosen, s.engine->recipe.recompute);
            continue;
        }
        for (int mode = RECOMPUTE_NONE; mode <= (int)chosen; ++mode) {
            struct prediction p;
            s.mesh.recompute = (enum recompute)mode;
            measured_step_predict(&s, NULL, &p);
            const bool fits = p.memory.total <= p.capacity_bytes;
            assert_true(mode < (int)chosen ? !fits : fits || chosen == RECOMPUTE_SELECTIVE);
        }
    }
    doc_steps_free(t);
}

static void test_calibration(void **state) {
    (void)state;
    static const struct {
        const char *calibration, *name;
        enum mosaic_status status;
    } cases[] = {{"generic", "generic", MOSAIC_OK},
                 {"p6-b200-published", "p6-b200-published", MOSAIC_OK},
                 {"calibration/data/p6-b200-published.yaml", "p6-b200-published", MOSAIC_OK},
                 {"no/such/file.yaml", "", MOSAIC_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const struct step_table_options options = {.calibration = cases[i].calibration};
        struct step_tables *t = NULL;
        diag_init(&said);
        assert_int_equal(doc_steps_load(STEPS, MODELS, &options, &said, &t), cases[i].status);
        if (!t)
            continue;
        assert_string_equal(t->steps.items[0].calibration->name, cases[i].name);
        assert_ptr_equal(t->steps.items[0].calibration, t->steps.items[1].calibration);
        doc_steps_free(t);
    }
}

/* A calibration by its name in the library; inside the library also by its file. */
static void test_named_calibration(void **state) {
    (void)state;
    static const char cluster[] =
        "schema: mosaic-cluster/1\n"
        "name: here\n"
        "device: {name: B200, peak: {bf16: 2.25 PFLOP/s}, memory: 179 GB, "
        "hbm_bandwidth: 8 TB/s}\n"
        "node: {gpus: 8}\n"
        "tiers: [{name: nvlink, bandwidth: 900 GB/s, latency: 3 us}]\n"
        "calibration: %s\n";
    static const struct {
        const char *file, *calibration, *name;
        enum mosaic_status status;
    } cases[] = {
        {"configs/here.yaml", "p6-b200-published", "p6-b200-published", MOSAIC_OK},
        {"configs/here.yaml", "../calibration/data/p6-b200-published.yaml", "p6-b200-published",
         MOSAIC_OK},
        {"configs/here.yaml", "generic", "generic", MOSAIC_OK},
        {"configs/here.yaml", "p6-b200-publisht", "", MOSAIC_IO},
        {"built-in clusters/here", "p6-b200-published", "p6-b200-published", MOSAIC_OK},
        {"built-in clusters/here", "../../calibration/data/p6-b200-published.yaml",
         "p6-b200-published", MOSAIC_OK},
        {"built-in clusters/here", "p6-b200-publisht", "", MOSAIC_BAD_INPUT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[1024];
        struct document *d = NULL;
        (void)snprintf(text, sizeof text, cluster, cases[i].calibration);
        diag_init(&said);
        const enum mosaic_status status =
            document_parse(cases[i].file, text, strlen(text), NULL, 0, &said, &d);
        if (status != cases[i].status)
            print_said();
        assert_int_equal(status, cases[i].status);
        if (d)
            assert_string_equal(d->problem.calibration.name, cases[i].name);
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_mesh),
        cmocka_unit_test(test_stated),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_unstated),
        cmocka_unit_test(test_excluded_words),
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_year),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_named_calibration),
        cmocka_unit_test(test_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
