#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The 31 malformed or hostile inputs that the paper's released estimator was tried on: here each is
# refused with its place (3), or answered where it is a legal question.

setup() {
    root=$BATS_TEST_DIRNAME/../..
    mosaic=${MOSAIC:-$root/build/mosaic}
    file=$BATS_TEST_TMPDIR/plan.yaml
    cat >"$file" <<EOF
schema: mosaic-plan/1
cluster: $root/configs/clusters/p6-b200.yaml
nodes: 8
budget: {days: 10}
calibration: $root/calibration/data/p6-b200-published.yaml
workload: {sequence: 8192, global_batch: 1024, precision: bf16, optimizer: adamw, vocab: 50257}
model: {layers: 48, first_dense: 1, hidden: 6144, heads: 48, kv_heads: 8, head_dim: 128, dense_ffn: 15360, expert_ffn: 3840, experts: 128, top_k: 3, shared_experts: 1, shared_ffn: 3840, vocab: 50257}
search:
  layout: {tp: [1], cp: [1], pp: [8], vpp: [1], ep: [8], etp: [1], micro_batch: [1], recompute: [full]}
EOF
}

edit() {
    sed -i "$1" "$file"
}

# refused PATTERN: exit 3, nothing on stdout, file:line:column and PATTERN on stderr.
refused() {
    run --separate-stderr timeout 5 "$mosaic" predict "$file"
    [ "$status" -eq 3 ] || { echo "exit $status: $output $stderr"; return 1; }
    [ -z "$output" ]
    [[ "$stderr" =~ plan.yaml:[0-9]+:[0-9]+:\ error: ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *$1* ]] || { echo "$stderr"; return 1; }
}

# A file that is not there is an I/O error at the place that names it.
refused_file() {
    run --separate-stderr timeout 5 "$mosaic" predict "$file"
    [ "$status" -eq 4 ]
    [ -z "$output" ]
    [[ "$stderr" =~ plan.yaml:[0-9]+:[0-9]+:\ error: && "$stderr" == *$1* ]]
}

answered() {
    run --separate-stderr timeout 20 "$mosaic" predict "$file" --format json
    [ "$status" -eq 0 ] || [ "$status" -eq 1 ] || { echo "exit $status: $stderr"; return 1; }
    [[ "$output" == *'"schema": "mosaic.predict/1"'* ]]
}

bats_require_minimum_version 1.5.0

@test "the file itself is answered" { answered; }
@test "empty file" { : >"$file"; refused "no document"; }
@test "missing section" { edit '/^workload/d; /^budget/d'; refused "budget"; }
@test "no experts" { edit 's/experts: 128/experts: 0/'; refused "experts"; }
@test "a word for the width" { edit 's/hidden: 6144/hidden: wide/'; refused "hidden"; }
@test "negative width" { edit 's/hidden: 6144/hidden: -6144/'; refused "hidden"; }
@test "global batch 0" { edit 's/global_batch: 1024/global_batch: 0/'; refused "global_batch"; }
@test "negative global batch" { edit 's/global_batch: 1024/global_batch: -1024/'; refused "global_batch"; }
@test "unknown optimizer" { edit 's/adamw/sgdw/'; refused "sgdw"; }
@test "precision fp64" { edit 's/bf16/fp64/'; refused "fp64"; }
@test "precision fp4" { edit 's/bf16/fp4/'; refused "fp4"; }
@test "precision int4" { edit 's/bf16/int4/'; refused "int4"; }
@test "unknown node type" { edit 's/p6-b200.yaml/p9-z900.yaml/'; refused_file "p9-z900"; }
@test "a ZeRO stage that is not modelled" { edit 's/optimizer: adamw/optimizer: adamw, zero: 3/'; refused "zero"; }
@test "sequence parallelism off" { edit 's/tp: \[1\]/tp: [1], sequence_parallel: false/'; refused "sequence_parallel"; }
@test "PP that does not divide" { edit 's/pp: \[8\]/pp: [7]/'; refused "7"; }
@test "part of a node" { edit 's/nodes: 8/nodes: 0.5/'; refused "0.5"; }
@test "EP 12" { edit 's/ep: \[8\]/ep: [12]/'; refused "12"; }
@test "0 buckets" {
    edit "s#^calibration: .*#calibration: {schema: mosaic-calibration/1, name: x, device: B200, entries: [{quantity: dp.buckets, value: 0, source: s, licence: l}]}#"
    refused "dp.buckets"
}
@test "more experts a token than experts" { edit 's/top_k: 3/top_k: 129/'; refused "top_k"; }
@test "a sequence of 1,048,576 is a legal question" { edit 's/sequence: 8192/sequence: 1048576/'; answered; }
@test "capacity factor 0.5" { edit 's/top_k: 3/top_k: 3, capacity_factor: 0.5/'; refused "capacity_factor"; }
@test "capacity factor 1.25" { edit 's/top_k: 3/top_k: 3, capacity_factor: 1.25/'; refused "capacity_factor"; }
@test "7 heads over 8 KV heads" { edit 's/heads: 48, kv/heads: 7, kv/'; refused "7"; }
@test "5 KV heads of 48" { edit 's/kv_heads: 8/kv_heads: 5/'; refused "5"; }
@test "1 KV head with TP 2" { edit 's/kv_heads: 8/kv_heads: 1/; s/tp: \[1\]/tp: [2]/'; run timeout 5 "$mosaic" predict "$file"; [ "$status" -eq 3 ]; [[ "$output" == *"1 KV heads"* ]]; }
@test "misspelt recompute key" { edit 's/recompute: \[full\]/recompte: [full]/'; refused "did you mean 'recompute'"; }
@test "misspelt shared expert key" { edit 's/shared_experts/shared_expert/'; refused "did you mean"; }
@test "a section twice" { echo 'nodes: 4' >>"$file"; refused "twice"; }
@test "vocabulary 0" { edit 's/vocab: 50257/vocab: 0/g'; refused "vocab"; }
@test "more dense layers than layers (MoE share beyond 1)" { edit 's/first_dense: 1/first_dense: 96/'; refused "first_dense"; }
@test "dropout maybe" { edit 's/top_k: 3/top_k: 3, dropout: maybe/'; refused "dropout"; }
