#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Memory schedules of arXiv 2609.14306 in plans: what their keys take, what rules them out, and the
# shipped plan of a million tokens of context.

load common

# A command on the pinned layout of the 667 B model on 64 H200, all schedules on
million() {
    local command=$1 plan=$BATS_TEST_TMPDIR/plan.yaml
    shift
    cat >"$plan" <<PLAN
schema: mosaic-plan/1
cluster: $ROOT/configs/clusters/h200-ib.yaml
nodes: 8
budget: {days: 20}
engine: {name: mop, version: "2026.09"}
workload: {sequence: 1048576, global_batch: 4}
model: $ROOT/configs/models/long-context-667b.yaml
execution:
  sharding: fsdp
  expert_balance: llep
  dispatch_chunk: 8192
  vocab_ring: 8
  checkpoint_offload: 64 GiB
  optimizer_bucket: 100M
search:
  layout: {tp: 1, cp: 16, pp: 1, vpp: 1, ep: 64, etp: 1, micro_batch: 1, recompute: full}
PLAN
    "$MOSAIC" "$command" "$plan" "$@"
}

# says TEXT OPTIONS: a plan error that says so
says() {
    local text=$1
    shift
    run million predict "$@"
    [[ $status -eq 3 && $(tr -s ' \n' ' ' <<<"$output") == *"$text"* ]] ||
        { echo "status $status: $output" && return 1; }
}

@test "all schedules at once" {
    run million predict
    [[ $status -eq 0 && $output == *': fits'* && $output == *'host memory of a GPU'* ]]
    [[ $output == *'optimizer bucket'* && $output != *'optimizer state '* ]]
    run million predict --set execution.optimizer_bucket=0
    [[ $status -eq 1 && $output == *'optimizer state '* ]]
}

@test "units and ranges" {
    says "'64' has no unit" --set execution.checkpoint_offload=64
    # none needs no unit
    run million predict --set execution.checkpoint_offload=0
    [[ $status -ne 3 && $output == *'CP16'* && $output != *'boundaries on host'* ]]
    "$MOSAIC" lint configs/h200-long-context.yaml \
        --set 'search.execution.checkpoint_offload=[0, 64 GiB]'
    says 'must be 0 B to 1 PB' --set 'execution.checkpoint_offload=-1 GiB'
    says 'must be a whole number, not 1.5' --set execution.dispatch_chunk=1.5
    says "'execution.dispatch_chunk' must be 0 to 16777216" --set execution.dispatch_chunk=-1
    says "'execution.dispatch_chunks_max' must be 1 to 4096" --set execution.dispatch_chunks_max=0
    says "'execution.vocab_ring' must be 1 to" --set execution.vocab_ring=0
    says "'0.5' is not a whole number" --set execution.optimizer_bucket=0.5
    says "'execution.optimizer_slots' must be 1 to 64" --set execution.optimizer_slots=65
    says "cannot be 'ep'; expected: one of none, llep" --set execution.expert_balance=ep
}

@test "units and ranges of the values to choose from" {
    local other
    for other in checkpoint_offload='[64]' dispatch_chunk='[1.5]' vocab_ring='[0]' \
        optimizer_bucket='[0.5]' expert_balance='[ep]' vocab_ring='[8, 8]'; do
        run "$MOSAIC" lint configs/h200-long-context.yaml --set "search.execution.$other"
        [[ $status -eq 3 && $output == *"--set search.execution.${other%%=*}"*error* ]] ||
            { echo "$other: $output" && return 1; }
    done
    says "'vocab_ring' is given here and in search.execution" --set 'search.execution.vocab_ring=[8]'
}

@test "what a layout or another key rules out" {
    says 'a vocabulary ring of 3 ranks does not divide DP 4 x CP 16 = 64' --set execution.vocab_ring=3
    says 'which full recomputation keeps, not none' --set search.layout.recompute=none
    says 'which full recomputation keeps, not selective' --set search.layout.recompute=selective
    says 'both move what a layer keeps' --set execution.offload_activations=0.2
    says 'not together with offload_optimizer' --set execution.offload_optimizer=0.5
    says 'not together with bf16 moments' --set execution.moments=bf16
    says 'not together with master none' --set execution.master=none
    says 'steps adamw, not muon' --set workload.optimizer=muon
    says 'chunked dispatch needs whole experts, not ETP 2' --set search.layout.ep=32 --set search.layout.etp=2
    says 'LLEP needs whole experts, not ETP 2' --set search.layout.ep=32 --set search.layout.etp=2 \
        --set execution.dispatch_chunk=0
}

@test "no link to the host" {
    sed '/host_link/d' "$ROOT/configs/clusters/h200-ib.yaml" |
        sed "s|../../calibration|$ROOT/calibration|" >"$BATS_TEST_TMPDIR/cluster.yaml"
    says "offloading needs the cluster's node.host_link" --set "cluster=$BATS_TEST_TMPDIR/cluster.yaml"
    says "offloading needs the cluster's node.host_link" --set "cluster=$BATS_TEST_TMPDIR/cluster.yaml" \
        --set execution.checkpoint_offload=0B
    run million predict --set "cluster=$BATS_TEST_TMPDIR/cluster.yaml" \
        --set execution.checkpoint_offload=0B --set execution.optimizer_bucket=0
    [[ $output != *host_link* ]]
}

@test "a host that is too small" {
    run million predict --set 'cluster.node.host_memory=1 TB'
    [[ $status -eq 1 && $output == *'host memory'* ]]
}

off=(--set search.execution.expert_balance=none --set search.execution.dispatch_chunk=0
    --set search.execution.vocab_ring=1 --set search.execution.checkpoint_offload=0B
    --set search.execution.optimizer_bucket=0)

@test "a million tokens of context: schedules win" {
    run "$MOSAIC" layout "$ROOT/configs/h200-long-context.yaml"
    [[ $status -eq 0 && $output == *'expert balance llep: without it'* ]]
    [[ $output == *'optimizer bucket'*'too much'* ]]
    # tokens of a million are held by chunks, by the ring, or by boundaries on the host
    [[ $output == *'dispatch chunk'*'without it'* || $output == *'vocab ring'*'without it'* ||
        $output == *'checkpoint offload'*'without it'* ]]
    grep -qE '^ +1 +CP16 .*(chunk [0-9]+|ring 8|host 64)' <<<"$output"
    run "$MOSAIC" plan "$ROOT/configs/h200-long-context.yaml"
    [[ $status -eq 0 && $output == *'optimizer buckets of 100.0 M'* ]]
}

@test "without them eight nodes do not hold it, and what binds is named" {
    run "$MOSAIC" layout "$ROOT/configs/h200-long-context.yaml" "${off[@]}"
    [[ $status -eq 1 && $output == *'binding limit'*memory* && $output == *'minimum GPUs'*128* ]]
    # more than half of what the leanest one holds
    awk '/^ +optimizer state/ { found = $4 > 50 } END { exit !found }' <<<"$output"
}

@test "on twice the nodes it fits without them, and falls behind" {
    local plan=$ROOT/configs/h200-long-context.yaml
    step() {
        "$MOSAIC" layout "$plan" --set nodes=16 --set workload.global_batch=8 -f json "$@" |
            awk -F: '/"step_time_s"/ { print $2 + 0; exit }'
    }
    awk -v on="$(step)" -v off="$(step "${off[@]}")" 'BEGIN { exit !(on > 0 && off > 1.02 * on) }'
    # a host that steps the optimizer is another way, slower
    local cpu on
    cpu=$("$MOSAIC" layout "$plan" "${off[@]}" --set execution.offload_optimizer=1 -f json |
        awk -F: '/"step_time_s"/ { print $2 + 0; exit }')
    on=$("$MOSAIC" layout "$plan" -f json | awk -F: '/"step_time_s"/ { print $2 + 0; exit }')
    awk -v on="$on" -v cpu="$cpu" 'BEGIN { exit !(on > 0 && cpu > 1.02 * on) }'
}
