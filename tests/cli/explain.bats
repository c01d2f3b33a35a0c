#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# explain: every verdict, its schema, and what it suggests put to the test by predict.

load common

export IMPOSSIBLE=configs/examples/impossible.yaml

# explain of the pinned example, as JSON on one line
explained() {
    "$MOSAIC" explain "$PREDICT" -f json "$@" >"$BATS_TEST_TMPDIR/out.json" || return
    fits_schema "$BATS_TEST_TMPDIR/out.json" || return
    tr -d '\n' <"$BATS_TEST_TMPDIR/out.json" | tr -s ' '
}

# predict of a text that --layout takes
predicted() {
    local pair axes=() section
    for pair in ${1//,/ }; do
        case $pair in
            tp=* | cp=* | pp=* | vpp=* | ep=* | etp=* | micro_batch=* | recompute=* | schedule=*)
                section=search.layout ;;
            *) section=execution ;;
        esac
        axes+=(--set "$section.$pair")
    done
    "$MOSAIC" predict "$PREDICT" "${axes[@]}" -f json
}

@test "illegal: every broken rule with its sum and the origin of each number" {
    run explained --layout pp=7,ep=9
    [[ $status -eq 0 ]]
    [[ $output == *'"status": "ok"'*'"verdict": "illegal"'* ]]
    [[ $output == *'TP 1 x CP 1 x PP 7 = 7 does not divide 256 GPUs'* ]]
    [[ $output == *'EP 9 does not divide 96 experts'* ]]
    [[ $output == *'EP 9 x ETP 1 x PP 7 = 63 does not divide 256 GPUs'* ]]
    [[ $output == *'{ "name": "EP", "value": 9, "origin": "given" }'* ]]
    [[ $output == *'{ "name": "ETP", "value": 1, "origin": "plan" }'* ]]
    [[ $output == *'{ "name": "GPUs", "value": 256, "origin": "cluster" }'* ]]
    [[ $output != *'"terms"'* ]]
}

@test "defaults are called defaults" {
    run "$MOSAIC" explain "$IMPOSSIBLE" --layout pp=2,ep=8
    [[ $status -eq 0 ]]
    [[ $output == *'EP 8 x ETP 1 = 8 does not divide TP 1 x CP 1 x DP 4 = 4'* ]]
    [[ $(tr -s ' \n' ' ' <<<"$output") == *'ETP 1 default'*'EP 8 x ETP 1 x PP 2 = 16 must divide 8 GPUs'* ]]
    [[ $(tr -s ' \n' ' ' <<<"$output") == *'needs at least '*' such GPUs to hold the model; there are 8'* ]]
}

@test "a global batch that does not divide: the nearest ones" {
    run explained --set nodes=1 --set workload.global_batch=100 --layout pp=1,ep=1,mbs=1
    [[ $output == *'micro-batch 1 x DP 8 = 8 does not divide the global batch 100'* ]]
    [[ $output == *'96 and 104'* ]]
    [[ $output == *'"global_batch": 100'* ]]
}

@test "rules of an engine bear its name" {
    run explained --layout vpp=3,mbs=1,pp=16,ep=1 --set workload.global_batch=65 --set nodes=2 --set search.layout.pp=16 \
        --set search.layout.ep=1 --set search.layout.micro_batch=1
    [[ $output == *'"class": "engine"'* && $output == *interleaving* ]]
    [[ $output == *'not launchable on megatron '* && $output == *'65 mod 16 = 1'* ]]
}

@test "few micro-batches: legal, with the bubble" {
    run "$MOSAIC" explain "$PREDICT" --set workload.global_batch=128 --layout pp=8,mbs=1
    [[ $status -eq 0 ]]
    [[ $(tr -s ' \n' ' ' <<<"$output") == *'4 micro-batches do not fill 8 stages'*'7/11 = 63.6 %'* ]]
}

@test "what is suggested is legal, and fits with the figures given" {
    local layouts=('pp=7,ep=9' 'ep=1' 'pp=1,ep=1,recompute=none' 'tp=3' 'pp=16,vpp=2,ep=5') asked count=0
    for asked in "${layouts[@]}"; do
        explained --layout "$asked" >/dev/null
        fixes "$BATS_TEST_TMPDIR/out.json" >"$BATS_TEST_TMPDIR/fixes"
        [[ -s $BATS_TEST_TMPDIR/fixes ]]
        while read -r layout step; do
            run predicted "$layout"
            [[ $status -eq 0 ]] || { echo "$asked: $layout: $output" && return 1; }
            grep -qF "\"step_time_s\": $step," <<<"$output" ||
                { echo "$asked: $layout: not $step" && return 1; }
            grep -qE '"verdict": "(fits|tight)"' <<<"$output"
            count=$((count + 1))
        done <"$BATS_TEST_TMPDIR/fixes"
    done
    [[ $count -ge 15 ]]
}

@test "does not fit: the stage, the bytes, the terms" {
    run explained --layout ep=1
    [[ $status -eq 0 && $output == *'"verdict": "does_not_fit"'* ]]
    [[ $output == *'GiB too much; most of it: gradients'* ]]
    [[ $output == *'"fixes"'*'"terms"'* ]]
}

@test "loses: seconds, the terms that lose, tokens and loss" {
    run explained --layout pp=4
    [[ $status -eq 0 && $output == *'"verdict": "loses"'* ]]
    [[ $output == *'it loses by '* && $output == *'nats worse'* ]]
    run "$MOSAIC" explain "$PREDICT" --layout pp=4
    [[ $output == *'The layout loses'* && $output == *'difference'* ]]
    [[ $output == *"search.layout leaves out: pp 4"* ]]
}

@test "the plan's own layout is its best" {
    run explained --layout pp=8
    [[ $status -eq 0 && $output == *'"verdict": "is_best"'* ]]
}

@test "a model that eight GPUs do not hold: how many would" {
    "$MOSAIC" explain "$IMPOSSIBLE" --layout tp=8 -f json >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    grep -q '"minimum_gpus": [1-9]' "$BATS_TEST_TMPDIR/out.json"
}

@test "a model of one's own" {
    run explained --model configs/models/qwen3-30b-a3b.yaml --layout tp=8,etp=3
    [[ $output == *'ETP 3 x PP 8 = '* || $output == *'ETP 3'* ]]
    [[ $output == *'configs/models/qwen3-30b-a3b.yaml'* ]]
}

@test "other formats" {
    for format in csv yaml table; do
        run "$MOSAIC" explain "$PREDICT" --layout pp=7 -f "$format"
        [[ $status -eq 0 && $output == *illegal* ]]
    done
}

@test "a text that cannot be read: status 2, the axes, a suggestion" {
    run --separate-stderr "$MOSAIC" explain "$PREDICT" --layout ttp=8
    refused 2
    [[ $stderr == *"did you mean 'tp'?"*'axes: tp, cp'* ]]
    run --separate-stderr "$MOSAIC" explain "$PREDICT" --layout tp=zero
    refused 2
    run --separate-stderr "$MOSAIC" explain "$PREDICT"
    refused 2
    [[ $stderr == *'--layout is missing'* ]]
}

@test "threads change nothing" {
    "$MOSAIC" explain configs/p6-b200-4n-5d.yaml --layout pp=2,tp=3 -f json --threads 1 >"$BATS_TEST_TMPDIR/1"
    "$MOSAIC" explain configs/p6-b200-4n-5d.yaml --layout pp=2,tp=3 -f json --threads 4 >"$BATS_TEST_TMPDIR/4"
    cmp "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/4"
    grep -q '"geometry_origin": "best_plan"' "$BATS_TEST_TMPDIR/1"
}
