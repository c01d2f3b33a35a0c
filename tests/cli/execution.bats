#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# How a job runs: what a plan says of it, what results and `lint` show, what is refused.

load common

# predict of the pinned example, as JSON or a table
predicted() {
    "$MOSAIC" predict "$PREDICT" "$@"
}

@test "the plainest job is named in the result and hidden in the table" {
    predicted -f json >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    grep -q '"sharding": "zero1"' "$BATS_TEST_TMPDIR/out.json"
    grep -q '"cuda_graphs": "none"' "$BATS_TEST_TMPDIR/out.json"
    grep -q '"overlap": \[\]' "$BATS_TEST_TMPDIR/out.json"
    grep -q '"dp_overlap": true' "$BATS_TEST_TMPDIR/out.json"
    grep -q '"schedule": "1f1b"' "$BATS_TEST_TMPDIR/out.json"
    run predicted
    [[ $output != *sharding* && $output != *'CUDA graphs'* && $output != *'DP overlap'* ]]
}

@test "stating the plainest job changes no number" {
    predicted -f json | sed '/"provenance"/,/^  }/d' >"$BATS_TEST_TMPDIR/plain"
    predicted -f json --set 'execution={sharding: zero1, dispatcher: nccl, cuda_graphs: none,
        overlap: [], dp_overlap: true, selective: [norm, activation, rope], gradients: fp32,
        moments: fp32, attention: bf16, fused_attention: true, dropped: 0, uneven_chunks: false,
        context_shards: balanced}' \
        --set 'search.layout.schedule=1f1b' --set workload.capacity_factor=none |
        sed '/"provenance"/,/^  }/d' >"$BATS_TEST_TMPDIR/stated"
    cmp "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/stated"
}

@test "what is not the plainest is in the result and in the table" {
    set -- --set execution.dispatcher=deepep --set execution.cuda_graphs=module \
        --set 'execution.overlap=[tp, ep]' --set execution.dp_overlap=false \
        --set execution.sharding=hybrid --set execution.shard_ranks=8 \
        --set 'engine={name: torchtitan, version: "2025.12"}'
    predicted -f json "$@" >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    tr -d ' \n' <"$BATS_TEST_TMPDIR/out.json" >"$BATS_TEST_TMPDIR/flat"
    grep -qF '"dispatcher":"deepep"' "$BATS_TEST_TMPDIR/flat"
    grep -qF '"sharding":"hybrid","cuda_graphs":"module","overlap":["tp","ep"],"dp_overlap":false' \
        "$BATS_TEST_TMPDIR/flat"
    grep -qF '"shard_ranks":8' "$BATS_TEST_TMPDIR/flat"
    run predicted "$@"
    [[ $output == *'token dispatcher'*deepep* && $output == *'CUDA graphs'*module* ]]
    [[ $output == *sharding*hybrid* && $output == *'shard group'*8* ]]
    [[ $output == *overlapped*'tp, ep'* && $output == *'DP overlap'*none* ]]
}

@test "the rest of the execution is in the workload of the result" {
    predicted -f json --set "execution={gradients: bf16, moments: bf16, attention: fp8,
        fused_attention: false, dropped: 0.1, uneven_chunks: true,
        selective: [core_attention, experts]}" >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    tr -d ' \n' <"$BATS_TEST_TMPDIR/out.json" >"$BATS_TEST_TMPDIR/flat"
    grep -qF '"execution":{"gradients":"bf16","moments":"bf16","attention":"fp8","fused_attention":false,"uneven_chunks":true,"dropped":0.1' \
        "$BATS_TEST_TMPDIR/flat"
    grep -qF '"selective":["core_attention","experts"]' "$BATS_TEST_TMPDIR/flat"
}

@test "contiguous context shards cost the core (2 CP - 1)/CP and stand in every result" {
    local ratio command
    set -- configs/h200-long-context.yaml --set budget.days=90 --set 'search.layout.cp=[16]' \
        --set 'search.layout.ep=[64]' --set search.layout.recompute=full \
        --set 'search.execution={expert_balance: [llep], dispatch_chunk: [8192], vocab_ring: [8],
            checkpoint_offload: [64 GiB], optimizer_bucket: [100M]}'
    core() { sed -n 's/.*"attention_s": \([0-9.e+-]*\).*/\1/p' "$1" | head -n 1; }
    "$MOSAIC" predict "$@" -f json >"$BATS_TEST_TMPDIR/even"
    "$MOSAIC" predict "$@" -f json --set execution.context_shards=contiguous \
        >"$BATS_TEST_TMPDIR/uneven"
    run grep -q context_shards "$BATS_TEST_TMPDIR/even"
    [[ $status -eq 1 ]]
    ratio="$(core "$BATS_TEST_TMPDIR/uneven") / $(core "$BATS_TEST_TMPDIR/even")"
    awk "BEGIN { r = $ratio; exit !(r > 1.937499 && r < 1.937501) }" # 31/16
    for command in predict layout plan 'explain --layout cp=16,ep=64'; do
        # shellcheck disable=SC2086 # a command and its options
        "$MOSAIC" $command "$@" -f json --set execution.context_shards=contiguous \
            >"$BATS_TEST_TMPDIR/out.json"
        fits_schema "$BATS_TEST_TMPDIR/out.json"
        grep -q '"context_shards": "contiguous"' "$BATS_TEST_TMPDIR/out.json" ||
            { echo "$command" && return 1; }
    done
}

@test "lint shows every key of the execution with its origin" {
    run "$MOSAIC" lint --show-defaults --format csv "$PREDICT" --set execution.moments=bf16
    for key in sharding dispatcher cuda_graphs overlap dp_overlap selective gradients attention \
        fused_attention context_shards dropped uneven_chunks; do
        grep -qE "^execution\.$key,.*,default," <<<"$output" || { echo "no $key" && return 1; }
    done
    grep -qE '^execution\.moments,bf16,override,' <<<"$output"
    grep -qE '^search\.layout\.schedule,\[1f1b\],default,' <<<"$output"
    grep -qE '^workload\.capacity_factor,none,default,' <<<"$output"
}

@test "wrong values are refused where they stand" {
    printf '%s\n' 'schema: mosaic-plan/1' "cluster: $ROOT/configs/clusters/p6-b200.yaml" 'nodes: 4' \
        'budget: {days: 1}' 'execution: {sharding: zero4}' >"$BATS_TEST_TMPDIR/bad.yaml"
    run --separate-stderr "$MOSAIC" lint "$BATS_TEST_TMPDIR/bad.yaml"
    refused 3
    [[ $stderr == *"bad.yaml:5:23: error: 'execution.sharding' cannot be 'zero4'"* ]]
    run --separate-stderr predicted --set execution.sharding=hybrid
    refused 3
    [[ $stderr == *"needs 'shard_ranks'"* ]]
    run --separate-stderr predicted --set execution.sharing=ddp
    refused 3
    [[ $stderr == *"did you mean 'sharding'"* ]]
}

@test "a capacity that cannot hold one copy, or holds a terabyte, is refused" {
    run --separate-stderr predicted --set workload.capacity_factor=0.001
    refused 3
    [[ $stderr == *'holds less than one copy of each token'* ]]
    run --separate-stderr predicted --set workload.capacity_factor=16384
    refused 3
    [[ $stderr == *'GB a layer for one sequence'* ]]
}

@test "an equal list of tokens is the balanced answer, an uneven one is slower" {
    step() { predicted -f json "$@" | grep -m1 -o '"step_time_s": [0-9.e+-]*' | cut -d' ' -f2; }
    experts=$(predicted -f json | grep -m1 -o '"experts": [0-9]*' | cut -d' ' -f2)
    equal=$(printf '7,%.0s' $(seq "$experts"))
    balanced=$(step)
    [[ $balanced == "$(step --set "workload.expert_tokens=[${equal%,}]")" ]]
    uneven=$(step --set "workload.expert_tokens=[${equal#7,}70]")
    awk -v a="$balanced" -v b="$uneven" 'BEGIN { exit !(b > a) }'
    run --separate-stderr predicted --set 'workload.expert_tokens=[1, 2, 3]'
    refused 3
    [[ $stderr == *"lists 3 experts, but the model has $experts"* ]]
}

@test "schedules are pinned, refused with their arithmetic, and searched" {
    run --separate-stderr predicted --set search.layout.pp=1 --set search.layout.schedule=zero_bubble
    refused 3
    [[ $stderr == *'schedule zero_bubble needs PP > 1, not PP 1'* ]]
    run --separate-stderr predicted --set 'search.layout.schedule=[1f1b, dualpipe]'
    refused 3
    [[ $stderr == *'schedule (2 values)'* ]]
    "$MOSAIC" plan configs/examples/table5-id1.yaml -f json --set 'search.layout.pp=[2, 4]' \
        --set 'search.layout.schedule=[1f1b, zero_bubble]' >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
}

@test "each engine of the library can be named" {
    for file in configs/engines/*.yaml; do
        name=$(sed -n 's/^name: //p' "$file")
        version=$(sed -n 's/^version: //p' "$file")
        "$MOSAIC" lint "$PREDICT" --set "engine={name: $name, version: $version}" >/dev/null
        "$MOSAIC" lint "$file" >/dev/null
    done
}

@test "zero3 is another name of fsdp" {
    predicted --set execution.sharding=zero3 >"$BATS_TEST_TMPDIR/zero3"
    predicted --set execution.sharding=fsdp >"$BATS_TEST_TMPDIR/fsdp"
    [[ -s $BATS_TEST_TMPDIR/fsdp ]]
    diff <(grep -v -- --set "$BATS_TEST_TMPDIR/zero3") <(grep -v -- --set "$BATS_TEST_TMPDIR/fsdp")
}
