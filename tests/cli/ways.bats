#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# search.execution: how the job runs as a choice of the search; what explain says of it, and the
# memory of the host.

load common

# A command on a model on two nodes whose hosts have memory and a fast link
small() {
    local command=$1 plan=$BATS_TEST_TMPDIR/plan.yaml
    shift
    cat >"$plan" <<PLAN
schema: mosaic-plan/1
cluster: $ROOT/configs/clusters/p6-b200.yaml
nodes: 2
budget: {days: 20}
calibration: $ROOT/calibration/data/p6-b200-published.yaml
workload: {sequence: 4096, global_batch: 64}
model: $ROOT/configs/models/qwen3-30b-a3b.yaml
search:
  layout: {tp: 1, cp: 1, pp: 1, vpp: 1, ep: 8, etp: 1, micro_batch: 2, recompute: none}
PLAN
    "$MOSAIC" "$command" "$plan" --set 'cluster.node.host_link=450 GB/s' \
        --set cluster.node.host_memory=2TB "$@"
}

in_json() {
    small "$@" -f json >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    tr -d '\n' <"$BATS_TEST_TMPDIR/out.json" | tr -s ' '
}

# predict of a text that --layout takes
predicted() {
    local pair sets=()
    for pair in ${1//,/ }; do
        case ${pair%%=*} in
        sharding | dispatcher | cuda_graphs | offload_*) sets+=(--set "search.execution.$pair") ;;
        *) sets+=(--set "search.layout.$pair") ;;
        esac
    done
    shift
    small predict -f json "${sets[@]}" "$@"
}

@test "the best of all ways is the best of each alone" {
    local dispatcher share best=
    for dispatcher in nccl deepep hybridep; do
        for share in 0 0.5; do
            small layout -f json --set "search.execution={dispatcher: $dispatcher, offload_activations: $share}" |
                awk -F: '/"step_time_s"/ { print $2; exit }' >>"$BATS_TEST_TMPDIR/alone"
        done
    done
    best=$(sort -g "$BATS_TEST_TMPDIR/alone" | head -n 1)
    [[ $(wc -l <"$BATS_TEST_TMPDIR/alone") -eq 6 && -n $best ]]
    small layout -f json \
        --set 'search.execution={dispatcher: [nccl, deepep, hybridep], offload_activations: [0, 0.5]}' \
        >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    [[ $(awk -F: '/"step_time_s"/ { print $2; exit }' "$BATS_TEST_TMPDIR/out.json") == "$best" ]]
}

@test "rows of a list name the choices by which they differ" {
    run small layout --set 'search.execution={dispatcher: [nccl, deepep], offload_optimizer: [0, 1]}'
    [[ $status -eq 0 ]]
    [[ $output == *'EP8 mb2 none, deepep '* && $output == *', deepep, offload opt 100 %'* ]]
    run small layout --set execution.dispatcher=deepep
    [[ $output != *'none, deepep'* && $output == *'token dispatcher'*deepep* ]]
    run small layout --set search.layout.ep=1 --set search.layout.pp=4 --set 'search.execution.dispatcher=[nccl, deepep]'
    [[ $(grep -cE '^ +[0-9]+ +PP4' <<<"$output") -eq 1 ]]
}

@test "plan, layout and explain agree, and threads change nothing" {
    local ways='search.execution={dispatcher: [nccl, deepep], cuda_graphs: [none, module], offload_optimizer: [0, 0.5]}'
    small plan -f json --set "$ways" --threads 1 >"$BATS_TEST_TMPDIR/1"
    small plan -f json --set "$ways" --threads 3 >"$BATS_TEST_TMPDIR/3"
    cmp "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/3"
    fits_schema "$BATS_TEST_TMPDIR/1"
    small layout -f json --set "$ways" >"$BATS_TEST_TMPDIR/list"
    [[ $(grep -m 1 '"step_time_s"' "$BATS_TEST_TMPDIR/list" | tr -d ' ,') == \
        $(grep -m 1 '"step_time_s"' "$BATS_TEST_TMPDIR/1" | tr -d ' ,') ]]
    run in_json explain --set "$ways" --layout pp=1
    [[ $status -eq 0 && $output == *'"verdict": "is_best"'* ]]
    [[ $output == *'"axis": "cuda_graphs", "value": "module", "origin": "winner", "declared": true'* ]]
    [[ $output == *'"axis": "offload_optimizer", "value": 0.0, "origin": "winner"'* ]]
    [[ $output != *'"axis": "sharding"'* ]]
}

@test "search.execution: what is refused" {
    run --separate-stderr small plan --set 'search.execution.dispatcher=[nccl, deeep]'
    refused 3
    [[ $stderr == *deepep* ]]
    run --separate-stderr small plan --set 'search.execution.dispatcher=[nccl, nccl]'
    refused 3
    run --separate-stderr small plan --set 'search.execution.sharding=[zero1, hybrid]'
    refused 3
    [[ $stderr == *hybrid* ]]
    run --separate-stderr small plan --set execution.dispatcher=nccl \
        --set 'search.execution.dispatcher=[nccl, deepep]'
    refused 3
    [[ $stderr == *"'dispatcher' is given here and in search.execution"* ]]
    run --separate-stderr small plan --set 'search.execution={sharding: [zero1, ddp, zero2, fsdp],
        dispatcher: [nccl, deepep, hybridep, allgather], cuda_graphs: [none, router, module, full],
        offload_activations: [0, 0.2, 0.4, 0.6, 0.8]}'
    refused 3
    [[ $stderr == *'320 combinations; a search takes at most 256'* ]]
    run --separate-stderr small plan --set 'search.execution.offload_activations=[0, 1.5]'
    refused 3
}

@test "offloading without a link to the host" {
    sed '/host_link/d' configs/clusters/p6-b200.yaml >"$BATS_TEST_TMPDIR/bare.yaml"
    run --separate-stderr "$MOSAIC" layout "$PREDICT" --set "cluster=$BATS_TEST_TMPDIR/bare.yaml" \
        --set 'search.execution.offload_optimizer=[0, 1]'
    refused 3
    [[ $stderr == *'needs the cluster'*node.host_link* ]]
    run --separate-stderr "$MOSAIC" explain "$PREDICT" --set "cluster=$BATS_TEST_TMPDIR/bare.yaml" \
        --layout offload_optimizer=1
    refused 3
    [[ $stderr == *'layout: offload_optimizer needs'*node.host_link* ]]
}

@test "predict wants one way: the key with several is named" {
    run --separate-stderr small predict --set 'search.execution.offload_activations=[0, 0.5]'
    refused 3
    [[ $stderr == *offload_activations* ]]
    run small predict -f json --set 'search.execution.offload_activations=[0.5]'
    [[ $status -eq 0 && $output == *'"offload_activations": 0.5'* ]]
}

@test "explain reads keys of the execution" {
    run in_json explain --layout dispatcher=deepep,offload_optimizer=1
    [[ $status -eq 0 && $output == *'"verdict": "loses"'* ]]
    [[ $output == *'"axis": "offload_optimizer", "value": 1.0, "origin": "given", "declared": false'* ]]
    [[ $output == *'"dispatcher": "deepep"'*'"offload_optimizer": 1.0'* ]]
    [[ $output == *'it loses by offload '* && $output == *'search.execution leave out: dispatcher deepep'* ]]
    run --separate-stderr small explain --layout dispatcher=deeep
    refused 2
    [[ $stderr == *'dispatcher takes nccl, deepep, hybridep, allgather'* ]]
    run --separate-stderr small explain --layout ofload_optimizer=1
    refused 2
    [[ $stderr == *"did you mean 'offload_optimizer'?"* ]]
    run --separate-stderr small explain --layout sharding=hybrid
    refused 3
    [[ $stderr == *shard_ranks* ]]
}

@test "a conflict of features that another way of the plan lifts" {
    run in_json explain --set 'search.execution.cuda_graphs=[none, module]' \
        --layout recompute=full,cuda_graphs=module
    [[ $status -eq 0 && $output == *'"verdict": "illegal"'* ]]
    [[ $output == *'"neighbours": [ { "text": "cuda_graphs module -> none"'* ]]
    [[ $output == *'"axis": "cuda_graphs", "from": "module", "to": "none"'* ]]
}

@test "offloads that are suggested are legal, and fit with the figures given" {
    local asked layout step count=0 offloads=0
    for asked in ep=8 ep=4,micro_batch=2 ep=16,dispatcher=deepep ep=8,offload_activations=0.25; do
        in_json explain --set cluster.device.memory=70GB --layout "$asked" >/dev/null
        fixes "$BATS_TEST_TMPDIR/out.json" >"$BATS_TEST_TMPDIR/fixes"
        [[ -s $BATS_TEST_TMPDIR/fixes ]]
        while read -r layout step; do
            [[ $layout != *offload_* ]] || offloads=$((offloads + 1))
            run predicted "$layout" --set cluster.device.memory=70GB
            [[ $status -eq 0 ]] || { echo "$asked: $layout: $output" && return 1; }
            grep -qF "\"step_time_s\": $step," <<<"$output" ||
                { echo "$asked: $layout: not $step" && return 1; }
            grep -qE '"verdict": "(fits|tight)"' <<<"$output"
            count=$((count + 1))
        done <"$BATS_TEST_TMPDIR/fixes"
    done
    [[ $count -ge 10 && $offloads -ge 5 ]] || { echo "$count fixes, $offloads offload" && return 1; }
}

@test "the host's memory binds: arithmetic, the change that fits, and how many GPUs" {
    run in_json explain --layout offload_optimizer=1 --set cluster.node.host_memory=40GB
    [[ $output == *'"verdict": "does_not_fit"'* ]]
    [[ $output == *'host memory is too small: '*' GiB a GPU (offload_optimizer 1) x 8 GPUs a node = '*' GiB of 37.3 GiB'* ]]
    [[ $output == *'device memory suffices'* && $output == *'does not fit in host memory'* ]]
    [[ $output == *'"text": "offload_optimizer 1 -> 0"'* ]]
    run small layout --set execution.offload_optimizer=1 --set cluster.node.host_memory=40GB
    [[ $status -eq 1 ]]
    [[ $output == *'host memory: the leanest layout'*'host memory needed'* ]]
    [[ $output == *"the host's memory is too small"* ]]
    run small layout -f json --set execution.offload_optimizer=1 --set cluster.node.host_memory=40GB
    [[ $output == *'"host_needed_bytes"'* ]]
}

@test "layout and explain give one number of GPUs" {
    local least
    "$MOSAIC" explain "$PREDICT" --layout ep=8 --set execution.offload_optimizer=1 \
        --set cluster.node.host_memory=90GB --set search.layout.pp=8 -f json >"$BATS_TEST_TMPDIR/e.json"
    "$MOSAIC" layout "$PREDICT" --set execution.offload_optimizer=1 \
        --set cluster.node.host_memory=90GB -f json >"$BATS_TEST_TMPDIR/l.json" || [[ $? -eq 1 ]]
    fits_schema "$BATS_TEST_TMPDIR/e.json" "$BATS_TEST_TMPDIR/l.json"
    least=$(sed -n 's/.*"minimum_gpus": \([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/l.json")
    [[ -n $least ]]
    sed -n '/"fewest_gpus"/,/^  }/p' "$BATS_TEST_TMPDIR/l.json" | grep -q "\"gpus\": $least,"
}

@test "lint shows the lists" {
    run small lint --show-defaults --set 'search.execution.dispatcher=[nccl, deepep]'
    [[ $status -eq 0 && $output == *search.execution.dispatcher* ]]
}
