#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# `search.layout.stages`: layers of each stage by list or pipeline layout string, and the string of
# a result.

load common

# DeepSeek-V3 (61 layers, 3 dense, 1 MTP) on 1024 GPUs, PP 16: predict with these settings
deepseek() {
    "$MOSAIC" predict configs/examples/predict-table4.yaml --set nodes=128 \
        --set cluster=configs/clusters/p5-h100.yaml --set calibration=generic \
        --set workload.global_batch=8192 --set workload.sequence=4096 \
        --set model=configs/models/deepseek-v3.yaml --set search.layout.pp=16 \
        --set search.layout.tp=2 --set search.layout.ep=64 --set search.layout.micro_batch=1 "$@"
}

# without what names the settings: the stages, and warnings with their place
body() {
    sed -e '/"provenance"/,/^  }/d' -e '/--set/d' "$1"
}

# csv KEY: of predict's CSV on standard input
csv() {
    awk -F, -v key="$1" '$1 == key { print $2 }'
}

# layers of each stage of a table on standard input
layers() {
    sed -n 's/.*layers of each stage: //p'
}

@test "a layout string of 32 chunks holds 61 layers and comes back (U38)" {
    local text='Et*3|(tt|)*29,m|L'
    run --separate-stderr deepseek --set search.layout.vpp=2 --set "search.layout.stages=$text"
    [[ $output == *'layers of each stage: 3 2 2 2 '*' 2 0 0'* ]]
    [[ $output == *'as a pipeline layout: Et(tt|)*30m|L'* ]]
    [[ -z $stderr ]]
    deepseek --set search.layout.vpp=2 --set "search.layout.stages=$text" -f json \
        >"$BATS_TEST_TMPDIR/given.json" 2>/dev/null || true
    deepseek --set search.layout.vpp=2 --set 'search.layout.stages=Et(tt|)*30m|L' -f json \
        >"$BATS_TEST_TMPDIR/back.json" 2>/dev/null || true
    fits_schema "$BATS_TEST_TMPDIR"/*.json
    cmp <(body "$BATS_TEST_TMPDIR/given.json") <(body "$BATS_TEST_TMPDIR/back.json")
    [[ $(grep -c '"chunk":' "$BATS_TEST_TMPDIR/given.json") -eq 32 ]]
    [[ $(grep -cE '"(dense|moe)"' "$BATS_TEST_TMPDIR/given.json") -eq 61 ]]
}

@test "empty chunks, other sums and other numbers of chunks are refused with the arithmetic" {
    run --separate-stderr deepseek --set search.layout.vpp=2 \
        --set 'search.layout.stages=Et*3|(tt|)*29|mL'
    refused 3
    [[ $stderr == *'chunk 30 (stage 14, turn 1) is empty'* ]]
    run --separate-stderr deepseek --set search.layout.vpp=2 \
        --set 'search.layout.stages=Et*3|(tt|)*30mL'
    refused 3
    [[ $stderr == *'3 + 30 x 2 + 0 = 63 layers, but the model has 61; as even as can be: E'* ]]
    run --separate-stderr deepseek --set search.layout.vpp=1 \
        --set 'search.layout.stages=Et*3|(tt|)*29,m|L'
    refused 3
    [[ $stderr == *'32 chunks, but PP 16 x VPP 1 = 16'* ]]
}

@test "a list and the string of it are one layout" {
    local list='[0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 2]'
    deepseek --set "search.layout.stages=$list" >"$BATS_TEST_TMPDIR/list" || true
    [[ $(layers <"$BATS_TEST_TMPDIR/list") == '0 4 4 4 4 4 4 4 4 4 4 4 5 5 5 2' ]]
    text=$(sed -n 's/.*as a pipeline layout: //p' "$BATS_TEST_TMPDIR/list")
    [[ $text == 'E|(t*4|)*11(t*5|)*3ttmL' ]]
    deepseek --set "search.layout.stages=$text" >"$BATS_TEST_TMPDIR/string" || true
    diff <(grep -v -e '--set' "$BATS_TEST_TMPDIR/list") \
        <(grep -v -e '--set' "$BATS_TEST_TMPDIR/string")
}

@test "what plan found comes back bit for bit when its stages are pinned" {
    local text
    deepseek -f csv >"$BATS_TEST_TMPDIR/found" || true
    text=$(csv layout.pipeline_layout <"$BATS_TEST_TMPDIR/found" | tr -d '"')
    [[ -n $text ]]
    deepseek --set "search.layout.stages=$text" -f csv >"$BATS_TEST_TMPDIR/pinned" || true
    for key in prediction.step_time_s prediction.mfu prediction.memory.reserved_bytes \
        layout.pipeline_layout; do
        [[ -n $(csv $key <"$BATS_TEST_TMPDIR/found") ]]
        [[ $(csv $key <"$BATS_TEST_TMPDIR/found") == "$(csv $key <"$BATS_TEST_TMPDIR/pinned")" ]]
    done
}

@test "stages are what is priced: one stage with all that others lack is slower and larger" {
    local even skewed
    even=$("$MOSAIC" predict "$PREDICT" --set 'search.layout.stages=[6, 6, 6, 6, 6, 6, 6, 6]' -f csv)
    skewed=$("$MOSAIC" predict "$PREDICT" --set 'search.layout.stages=[2, 6, 6, 6, 10, 6, 6, 6]' -f csv)
    awk -v a="$(csv prediction.step_time_s <<<"$even")" -v b="$(csv prediction.step_time_s <<<"$skewed")" \
        'BEGIN { exit !(a > 0 && b > 1.3 * a) }'
    awk -v a="$(csv prediction.memory.reserved_bytes <<<"$even")" \
        -v b="$(csv prediction.memory.reserved_bytes <<<"$skewed")" 'BEGIN { exit !(a > 0 && b > a) }'
}

@test "only engines with the argument have a layout string" {
    deepseek -f json --set 'engine={name: torchtitan, version: "2026.08"}' >"$BATS_TEST_TMPDIR/json" || true
    grep -q '"stages"' "$BATS_TEST_TMPDIR/json"
    run ! grep -q pipeline_layout "$BATS_TEST_TMPDIR/json"
    "$MOSAIC" predict "$PREDICT" --set search.layout.pp=1 --set nodes=4 -f json >"$BATS_TEST_TMPDIR/json" || true
    grep -q '"stages"' "$BATS_TEST_TMPDIR/json"
    run ! grep -q pipeline_layout "$BATS_TEST_TMPDIR/json"
}

@test "tables of explain have uneven stages" {
    run --separate-stderr "$MOSAIC" explain "$PREDICT" --layout pp=8 \
        --set model=configs/models/deepseek-v3.yaml --set nodes=128 --set search.layout.ep=8
    [[ $output == *'layers of each stage: '* && $output == *'as a pipeline layout: E'* ]]
}

@test "searches price the stated stages and choose the rest" {
    local key list='[2, 6, 6, 6, 10, 6, 6, 6]'
    "$MOSAIC" predict "$PREDICT" --set "search.layout.stages=$list" -f csv >"$BATS_TEST_TMPDIR/one"
    set -- --set "search.layout.stages=$list" --set 'search.layout.micro_batch=[1, 2, 4]'
    "$MOSAIC" layout "$PREDICT" "$@" -f csv >"$BATS_TEST_TMPDIR/list"
    "$MOSAIC" plan "$PREDICT" "$@" -f json >"$BATS_TEST_TMPDIR/plan.json"
    "$MOSAIC" explain "$PREDICT" "$@" --layout micro_batch=4 -f json >"$BATS_TEST_TMPDIR/explain.json"
    fits_schema "$BATS_TEST_TMPDIR"/*.json
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 && index($at["layout.pipeline_layout"], "Ett(|t*6)*4t*4(|t*6)*3L") { n++ }
        END { exit !(NR > 2 && n == NR - 1) }' "$BATS_TEST_TMPDIR/list"
    key=$(csv prediction.step_time_s <"$BATS_TEST_TMPDIR/one")
    grep -qF "$key" "$BATS_TEST_TMPDIR/list"
    grep -qF "${key:0:16}" "$BATS_TEST_TMPDIR/explain.json" # JSON has 17 digits
    [[ $(grep -c '"pipeline_layout"' "$BATS_TEST_TMPDIR/plan.json") -gt 0 ]]
}
