#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# search.layout.mesh: overlapping groups of one set of ranks.
load common

plan() {
    sed "s|@|$ROOT/configs|g" >"$BATS_TEST_TMPDIR/plan.yaml" <<'PLAN'
schema: mosaic-plan/1
cluster: @/clusters/h200-ib.yaml
nodes: 2
budget: {days: 10}
model: @/models/long-context-120b.yaml
engine: {name: mop, version: "2026.09"}
workload: {sequence: 131072, global_batch: 16, vocab: 200000}
execution: {sharding: fsdp, gradients: bf16, vocab_ring: 8}
search:
  layout: {mesh: overlapping, micro_batch: [1], recompute: [full], allow_extrapolation: true}
PLAN
}

@test "TP, PP, VPP and ETP are 1, the groups are free" {
    plan
    "$MOSAIC" layout "$BATS_TEST_TMPDIR/plan.yaml" -f json --top 20 >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    for axis in tp pp vpp etp; do
        ! grep -E "\"$axis\": [^1]|\"$axis\": 1[0-9]" "$BATS_TEST_TMPDIR/out.json" || return 1
    done
    [[ $(grep -E '"cp": [0-9]+' "$BATS_TEST_TMPDIR/out.json" | sort -u | wc -l) -gt 1 ]]
    [[ $(grep -E '"ep": [0-9]+' "$BATS_TEST_TMPDIR/out.json" | sort -u | wc -l) -gt 1 ]]
}

@test "the same as folded with those degrees pinned" {
    plan
    "$MOSAIC" layout "$BATS_TEST_TMPDIR/plan.yaml" -f csv >"$BATS_TEST_TMPDIR/a.csv"
    sed -i 's/mesh: overlapping/tp: [1], pp: [1], vpp: [1], etp: [1]/' "$BATS_TEST_TMPDIR/plan.yaml"
    "$MOSAIC" layout "$BATS_TEST_TMPDIR/plan.yaml" -f csv >"$BATS_TEST_TMPDIR/b.csv"
    cmp "$BATS_TEST_TMPDIR/a.csv" "$BATS_TEST_TMPDIR/b.csv"
}

@test "another degree is refused by name" {
    plan
    for key in tp pp vpp etp; do
        run --separate-stderr "$MOSAIC" layout "$BATS_TEST_TMPDIR/plan.yaml" --set "search.layout.$key=2"
        refused 3
        [[ $stderr == *"an overlapping mesh has no '$key' above 1"*folded* ]] || { echo "$stderr" && return 1; }
    done
    run --separate-stderr "$MOSAIC" layout "$BATS_TEST_TMPDIR/plan.yaml" --set search.layout.mesh=flat
    refused 3
}
