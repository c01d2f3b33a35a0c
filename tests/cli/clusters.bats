#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Figures of a device that are something else than they are taken for: warned about, with the right
# one, and used as given.  Cluster documents as users pick them.

load common

# A dense 70B of one node, all but the lines given: cluster and TP.
plan() {
    cat >"$BATS_TEST_TMPDIR/plan.yaml" <<EOF
schema: mosaic-plan/1
cluster: $ROOT/configs/clusters/$1.yaml
nodes: 1
budget: {days: 1}
model: $ROOT/configs/models/llama3-70b.yaml
workload: {sequence: 8192, global_batch: 32}
search:
  layout: {tp: $2, cp: 1, pp: 1, vpp: 1, ep: 1, etp: 1, micro_batch: 1, recompute: none}
EOF
}

# predicted KEY [OPTION...]; status 1 says that 70B do not fit, which is not asked here
predicted() {
    "$MOSAIC" predict -f csv "$BATS_TEST_TMPDIR/plan.yaml" "${@:2}" 2>"$BATS_TEST_TMPDIR/said" |
        awk -F, -v key="prediction.$1" '$1 == key { print $2 }'
}
said() { cat "$BATS_TEST_TMPDIR/said"; }

# within VALUE LOW HIGH
within() {
    awk -v v="$1" -v low="$2" -v high="$3" 'BEGIN { exit !(low <= v && v <= high) }' ||
        { echo "$1 is not in $2 .. $3" && return 1; }
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }

@test "U09: a sparse peak on H100 SXM is warned about and used" {
    plan h100-ib 1
    mfu=$(predicted mfu)
    sparse=$(predicted mfu --set 'cluster.device.name=H100 SXM' \
        --set 'cluster.device.peak.bf16=1979 TFLOP/s')
    [[ $(said) == *warning*"2:4 sparsity; dense is 989 TFLOP/s"* ]]
    within "$(ratio "$sparse" "$mfu")" 0.5 0.999
}

@test "U10: the peak of PCIe makes a GEMM-bound step about 989/756 slower, without a warning" {
    plan h100-ib 1
    sxm=$(predicted step_time_s)
    pcie=$(predicted step_time_s --set 'cluster.device.name=H100 PCIe' \
        --set 'cluster.device.peak.bf16=756 TFLOP/s')
    [[ $(said) != *warning* ]]
    # What memory and optimizer take of the step does not follow the peak.
    within "$(ratio "$pcie" "$sxm")" 1.22 "$(ratio 989 756)"
}

@test "U10: a dense peak of A100 that was halved is warned about and used" {
    plan a100-ib 1
    step=$(predicted step_time_s)
    half=$(predicted step_time_s --set 'cluster.device.peak.bf16=156 TFLOP/s')
    [[ $(said) == *warning*"half of the bf16 peak of 'A100'"*"dense is 312 TFLOP/s"* ]]
    within "$(ratio "$half" "$step")" 1.7 2
}

@test "U52: a link of both directions is warned about; the time inside the node halves" {
    plan h100-ib 8
    one_way=$(predicted time_split.tp_exposed_s)
    both=$(predicted time_split.tp_exposed_s --set 'cluster.tiers[0].bandwidth=900 GB/s')
    [[ $(said) == *warning*"900 GB/s is the link of 'H100' in both directions; one way is 450 GB/s"* ]]
    # What is left of it is latency.
    within "$(ratio "$both" "$one_way")" 0.5 0.6
}

@test "cluster documents pass lint without a word, every figure has a source beside it" {
    for file in configs/clusters/*.yaml; do
        run --separate-stderr "$MOSAIC" lint "$file"
        [[ $status -eq 0 && -z $stderr ]] || { echo "$file: $stderr" && false; }
        # A bandwidth, capacity or power has its source on its line or on the one that opens its block.
        bare=$(awk '/^  (hbm_bandwidth|power|host_link):/ && !/#/' "$file")
        [[ -z $bare ]] || { echo "$file: $bare" && false; }
    done
}
