#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The memory schedules under hostile and careless input: searches agree with predict, refusals say
# the rule, results fit their schemas.

load common

# A command on a small MoE model on one node, every axis pinned, with an engine that runs all
small() {
    local command=$1 plan=$BATS_TEST_TMPDIR/plan.yaml
    shift
    cat >"$BATS_TEST_TMPDIR/engine.yaml" <<ENGINE
schema: mosaic-engine/1
name: all
version: "1"
uneven_stages: true
recompute_per_stage: false
interleaved_batches_divide: false
kv_replication: true
vocab_pad_unit: 1
memory_schedules: true
ENGINE
    cat >"$plan" <<PLAN
schema: mosaic-plan/1
cluster: $ROOT/configs/clusters/h200-ib.yaml
nodes: 2
budget: {days: 10}
engine: $BATS_TEST_TMPDIR/engine.yaml
model: $ROOT/configs/models/qwen3-30b-a3b.yaml
workload: {sequence: 8192, global_batch: 64, imbalance: 2}
execution: {sharding: fsdp}
search:
  tokens: {per_active_parameter: none}
  layout: {tp: 1, cp: 1, pp: 1, vpp: 1, ep: 8, etp: 1, micro_batch: 1, recompute: full}
PLAN
    "$MOSAIC" "$command" "$plan" "$@"
}

in_json() {
    small "$@" -f json >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
}

step() {
    grep -m 1 '"step_time_s"' "$BATS_TEST_TMPDIR/out.json" | tr -d ' ,'
}

@test "searches take checkpoint offload, and give predict's figures" {
    local one command
    in_json predict --set 'execution.checkpoint_offload=10 GB'
    one=$(step)
    for command in layout plan; do
        in_json "$command" --set 'execution.checkpoint_offload=10 GB'
        [[ -n $one && $(step) == "$one" ]]
        in_json "$command" --set 'search.execution.checkpoint_offload=[10 GB]'
        [[ $(step) == "$one" ]]
    done
    # recomputation is a choice too: only full keeps boundaries
    in_json layout --set 'execution.checkpoint_offload=10 GB' \
        --set 'search.layout.recompute=[none, selective, full]'
    [[ $(step) == "$one" ]]
}

@test "without a legal layout the rule is said, that of a listed way too" {
    run small layout --set search.layout.recompute=none --set 'execution.checkpoint_offload=1 GB'
    [[ $status -eq 1 && $output == *'checkpoint offload takes layer boundaries'*'not none'* ]]
    run small layout --set 'search.execution={offload_optimizer: [0.5, 1], optimizer_bucket: 1}'
    [[ $status -eq 1 && $output == *'not'*'together with offload_optimizer'* ]]
    run small layout --set 'search.execution.vocab_ring=[3, 5]'
    [[ $status -eq 1 && $output == *'a vocabulary ring of 3 ranks does not divide DP 16'* ]]
    run small layout --set 'engine={name: megatron, version: "2026.08"}' --set execution.vocab_ring=8
    [[ $status -eq 1 && $output == *'it has no vocab_ring'* ]]
}

@test "a broken rule without numbers fits the schema" {
    in_json explain --layout 'recompute=none,checkpoint_offload=1 GB'
    grep -q '"rule": "boundaries"' "$BATS_TEST_TMPDIR/out.json"
    in_json explain --layout optimizer_bucket=100,offload_optimizer=1
    in_json explain --layout vocab_ring=8 --set 'engine={name: megatron, version: "2026.08"}'
}

@test "explain takes the numbers of a plan, no others, and gives them back exactly" {
    in_json explain --layout 'optimizer_bucket=10 G'
    for axis in 'checkpoint_offload=2 PB' dispatch_chunk=16777217 vocab_ring=1048577 \
        'optimizer_bucket=2 T'; do
        run --separate-stderr small explain --layout "$axis"
        refused 2
    done
    in_json explain --layout 'checkpoint_offload=1234567891 B'
    grep -q 'checkpoint_offload=1234567891 B' "$BATS_TEST_TMPDIR/out.json" ||
        grep -q '"value": 1234567891' "$BATS_TEST_TMPDIR/out.json"
}

@test "less than a byte, and the host that only the optimizer stream fills" {
    in_json predict --set 'execution.checkpoint_offload=1 b'
    in_json explain --layout optimizer_bucket=1000 --set 'cluster.node.host_memory=1 GB'
    grep -q 'GiB a GPU (optimizer_bucket 1e3) x 8' "$BATS_TEST_TMPDIR/out.json"
}

@test "a model of petabytes is too large, with every schedule" {
    cat >"$BATS_TEST_TMPDIR/model.yaml" <<MODEL
schema: mosaic-model/1
name: huge
layers: 1024
hidden: 262144
heads: 64
kv_heads: 64
head_dim: 4096
ffn_matrices: 3
expert_ffn: 262144
experts: 16
top_k: 15
vocab: 1000000
MODEL
    for command in predict layout schedules; do
        run -1 --separate-stderr small "$command" -f json --set "model=$BATS_TEST_TMPDIR/model.yaml" \
            --set 'execution={optimizer_bucket: 1000, optimizer_slots: 64, checkpoint_offload: 1 PB}'
        echo "$output" >"$BATS_TEST_TMPDIR/out.json"
        fits_schema "$BATS_TEST_TMPDIR/out.json"
    done
    # boundaries of more than 2^53 bytes
    run -1 --separate-stderr small predict -f json --set workload.sequence=16777216 \
        --set workload.global_batch=1048576 --set search.layout.micro_batch=65536 \
        --set 'execution.checkpoint_offload=1 PB'
    echo "$output" >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
}

@test "the published estimator warns of what it does not know" {
    run --separate-stderr small predict --set estimator=published --set execution.vocab_ring=8
    [[ $stderr == *'published estimator knows no offloading and no memory schedules'*vocab_ring* ]]
    run --separate-stderr small predict --set estimator=published
    [[ $stderr != *'published estimator'* ]]
}
