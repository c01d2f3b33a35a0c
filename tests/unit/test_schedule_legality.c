// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the memory schedules ask of a layout and of each other: a ring divides the ranks that share
 * weights, boundaries are what full recomputation keeps, chunks and LLEP take whole experts, the
 * optimizer stream is AdamW's in FP32.
 */
#include "p6.h"

#include "known_models.h"
#include "step/legality.h"

static struct violation broken[VIOLATIONS_MAX];

/* 64 GPUs, everything 1 but EP 8 and CP 2: DP 32. */
static struct workload job;
static struct mesh mesh;

static int reset(void **state) {
    (void)state;
    job = p6.workload;
    job.sequence = 4096;
    job.global_batch = 1024;
    job.execution = (struct execution){0};
    mesh = (struct mesh){.tp = 1,
                         .cp = 2,
                         .pp = 1,
                         .vpp = 1,
                         .ep = 8,
                         .etp = 1,
                         .micro_batch = 1,
                         .recompute = RECOMPUTE_FULL};
    return 0;
}

/* "" where the rule holds. */
static const char *said(const char *rule) {
    struct legality_point p = {.mesh = mesh,
                               .geometry = &qwen3_30b_a3b,
                               .workload = &job,
                               .engine = &p6.engine,
                               .gpus = 64};
    const int count = legality_find(&p, broken);
    struct mesh complete = mesh;
    struct status_error err;
    const enum mosaic_status status = mesh_complete(&complete, &qwen3_30b_a3b, &job, 64, &err);
    assert_int_equal(status == MOSAIC_OK, count == 0); /* the search's answer */
    for (int i = 0; i < count; ++i)
        if (strcmp(broken[i].rule, rule) == 0)
            return broken[i].text;
    if (count > 0)
        fail_msg("%s: %s", broken[0].rule, broken[0].text);
    return "";
}

static void expect(const char *rule, const char *text) {
    const char *const got = said(rule);
    if (text[0] == '\0' ? got[0] != '\0' : !strstr(got, text))
        fail_msg("%s: '%s', not '%s'", rule, got, text);
}

static void ring_divides_the_ranks(void **state) {
    (void)state;
    static const int legal[] = {0, 1, 2, 4, 8, 16, 32, 64};
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; ++i) {
        job.execution.vocab_ring = legal[i];
        expect("vocab_ring", "");
    }
    job.execution.vocab_ring = 3;
    expect("vocab_ring", "a vocabulary ring of 3 ranks does not divide DP 32 x CP 2 = 64");
    assert_true(broken[0].operands & 1u << OPERAND_VOCAB_RING);
    job.execution.vocab_ring = 128;
    expect("vocab_ring", "128 ranks does not divide");
    /* TP and PP take ranks away from it */
    mesh.tp = 2;
    job.execution.vocab_ring = 64;
    expect("vocab_ring", "DP 16 x CP 2 = 32");
    job.execution.vocab_ring = 32;
    expect("vocab_ring", "");
    mesh.tp = 1;
    mesh.pp = 2;
    expect("vocab_ring", "");
    job.execution.vocab_ring = 64;
    expect("vocab_ring", "DP 16 x CP 2 = 32");
}

static void boundaries_need_full_recomputation(void **state) {
    (void)state;
    job.execution.checkpoint_host_bytes = 1.0;
    expect("boundaries", "");
    mesh.recompute = RECOMPUTE_SELECTIVE;
    expect("boundaries", "which full recomputation keeps, not selective");
    mesh.recompute = RECOMPUTE_NONE;
    expect("boundaries", "which full recomputation keeps, not none");
    mesh.recompute = RECOMPUTE_FULL;
    mesh.pp = 4;
    expect("boundaries", "");
    job.execution.offload_activations = 0.1;
    expect("boundaries", "both move what a layer keeps");
    job.execution.checkpoint_host_bytes = 0.0;
    expect("boundaries", "");
}

static void experts_stay_whole(void **state) {
    (void)state;
    mesh.etp = 2;
    expect("whole_experts", "");
    job.execution.dispatch_chunk = 1;
    expect("whole_experts", "chunked dispatch needs whole experts, not ETP 2");
    job.execution.balance = BALANCE_LLEP;
    job.execution.dispatch_chunk = 0;
    expect("whole_experts", "LLEP needs whole experts, not ETP 2");
    mesh.etp = 1;
    job.execution.dispatch_chunk = 1;
    expect("whole_experts", "");
    mesh.ep = 1; /* nothing is dispatched, and nothing forbidden */
    expect("whole_experts", "");
}

static void stream_steps_adamw(void **state) {
    (void)state;
    struct execution *const e = &job.execution;
    e->bucket_params = 1e8;
    for (int sharding = 0; sharding < SHARDINGS; ++sharding) {
        e->sharding = (enum sharding)sharding;
        e->shard_ranks = 8;
        expect("state_stream", "");
    }
    e->bf16_gradients = true;
    expect("state_stream", "");
    job.optimizer = OPTIMIZER_MUON;
    expect("state_stream", "steps adamw, not muon");
    job.optimizer = OPTIMIZER_ADAMW;
    e->offload_optimizer = 0.5;
    expect("state_stream", "not together with offload_optimizer");
    e->offload_optimizer = 0.0;
    e->no_master = true;
    expect("state_stream", "not together with master none");
    e->no_master = false;
    e->bf16_moments = true;
    expect("state_stream", "not together with bf16 moments");
    e->bucket_params = 0.0;
    e->offload_optimizer = 1.0;
    expect("state_stream", "");
}

/* None rules another one out. */
static void all_together(void **state) {
    (void)state;
    job.execution = (struct execution){.sharding = SHARD_FSDP,
                                       .balance = BALANCE_LLEP,
                                       .dispatch_chunk = 4096,
                                       .dispatch_chunks_max = 10,
                                       .vocab_ring = 8,
                                       .checkpoint_host_bytes = 1e10,
                                       .bucket_params = 1e8,
                                       .bucket_slots = 2};
    expect("state_stream", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ring_divides_the_ranks, reset),
        cmocka_unit_test_setup(boundaries_need_full_recomputation, reset),
        cmocka_unit_test_setup(experts_stay_whole, reset),
        cmocka_unit_test_setup(stream_steps_adamw, reset),
        cmocka_unit_test_setup(all_together, reset),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
