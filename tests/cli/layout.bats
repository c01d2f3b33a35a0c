#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# `mosaic layout`: the list for one model, against plan and predict; what it says when nothing fits.

load common

PLAN=configs/p6-b200-32n-20d.yaml

# laid OPTION...: the layouts of the paper's model
# shellcheck disable=SC2153 # MODEL is of common.bash
laid() {
    "$MOSAIC" layout "$PLAN" --model "$MODEL" "$@"
}

# column NAME ROW: of CSV on standard input, row 1 the first below the names
column() {
    awk -F, -v name="$1" -v row="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR == row + 1 { print $at[name] }'
}

# without what names the inputs
body() {
    sed '/"provenance"/,/^  }/d'
}

@test "the result fits its schema, in each outcome" {
    laid -f json >"$BATS_TEST_TMPDIR/list.json"
    run -1 --separate-stderr "$MOSAIC" layout configs/examples/impossible.yaml -f json
    echo "$output" >"$BATS_TEST_TMPDIR/none.json"
    run -1 --separate-stderr "$MOSAIC" layout "$PLAN" --model "$MODEL" --set nodes=3 \
        --set 'search.layout.pp=[1]' -f json
    echo "$output" >"$BATS_TEST_TMPDIR/illegal.json"
    "$MOSAIC" layout "$PLAN" -m tests/hf/llama-3-8b.json -n 1 -f json --set estimator=published \
        >"$BATS_TEST_TMPDIR/dense.json" 2>/dev/null
    fits_schema "$BATS_TEST_TMPDIR"/*.json
    grep -q '"limit": "memory"' "$BATS_TEST_TMPDIR/none.json"
    grep -q '"limit": "layout"' "$BATS_TEST_TMPDIR/illegal.json"
    grep -q '"closest"' "$BATS_TEST_TMPDIR/none.json"
    [[ $(grep -c '"rank"' "$BATS_TEST_TMPDIR/list.json") -eq 10 ]]
}

@test "the first layout is plan's, to the last digit" {
    for model in "$MODEL" tests/hf/qwen3-30b-a3b.json configs/models/mixtral-8x7b.yaml; do
        "$MOSAIC" plan "$PLAN" --set "model=$model" -f csv 2>/dev/null >"$BATS_TEST_TMPDIR/plan"
        "$MOSAIC" layout "$PLAN" --model "$model" -f csv 2>/dev/null >"$BATS_TEST_TMPDIR/list"
        for key in layout.pp layout.ep layout.micro_batch layout.recompute prediction.mfu \
            prediction.step_time_s prediction.memory.reserved_bytes; do
            [[ -n $(column "$key" 1 <"$BATS_TEST_TMPDIR/list") ]]
            [[ $(column "$key" 1 <"$BATS_TEST_TMPDIR/plan") == \
                $(column "$key" 1 <"$BATS_TEST_TMPDIR/list") ]]
        done
    done
}

@test "predict of any entry gives its figures" {
    laid -f csv >"$BATS_TEST_TMPDIR/list"
    for row in 2 5 9; do
        set --
        for axis in pp ep micro_batch recompute; do
            set -- "$@" --set \
                "search.layout.$axis=$(column layout.$axis $row <"$BATS_TEST_TMPDIR/list")"
        done
        got=$("$MOSAIC" predict "$PLAN" --set "model=$MODEL" "$@" -f csv |
            awk -F, '$1 == "prediction.step_time_s" { print $2 }')
        [[ -n $got && $got == "$(column step_time_s $row <"$BATS_TEST_TMPDIR/list")" ]]
    done
}

@test "--model is 'model: FILE', before any --set of it" {
    "$MOSAIC" layout "$PLAN" --set "model=$MODEL" -f json | body >"$BATS_TEST_TMPDIR/set"
    laid -f json | body >"$BATS_TEST_TMPDIR/option"
    cmp "$BATS_TEST_TMPDIR/set" "$BATS_TEST_TMPDIR/option"
    "$MOSAIC" layout - --model "$MODEL" -f json < <(sed "s|: clusters/|: configs/clusters/|
        s|: ../calibration/|: calibration/|" "$PLAN") | body >"$BATS_TEST_TMPDIR/stdin"
    cmp "$BATS_TEST_TMPDIR/stdin" "$BATS_TEST_TMPDIR/option"
    laid --set model.ladder.top_k=4 -f json | grep -q '"top_k": 4'
    grep -q '"key": "model"' < <(laid -f json)
}

@test "threads and the length of the list change no entry" {
    laid -f csv --threads 1 >"$BATS_TEST_TMPDIR/one"
    laid -f csv --threads 4 | cmp - "$BATS_TEST_TMPDIR/one"
    laid -f csv --top 4 >"$BATS_TEST_TMPDIR/four"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/four") -eq 5 ]]
    for row in 1 2 3 4; do
        [[ $(column step_time_s $row <"$BATS_TEST_TMPDIR/four") == \
            $(column step_time_s $row <"$BATS_TEST_TMPDIR/one") ]]
    done
}

@test "the table names layouts, reasons and the fewest GPUs" {
    run --separate-stderr laid
    [[ $status -eq 0 && -z $stderr ]]
    [[ $output == *'Best layouts'* && $output == *'Why not the others'* ]]
    [[ $output == *'  2. '*' % slower: '*' more for '* ]]
    [[ $output == *'Fewest GPUs that hold this model'*'8 GPUs: too large'* ]]
    [[ $output == *'Census of the declared layouts'*'legal meshes'* ]]
}

@test "nothing fits: what comes closest and what would do, exit 1" {
    run --separate-stderr "$MOSAIC" layout configs/examples/impossible.yaml
    [[ $status -eq 1 ]]
    [[ $output == *'No layout fits'*'minimum GPUs'*'The layout that comes closest'* ]]
    [[ $output == *'does not fit'*'Fewest GPUs that hold this model'* ]]
}

@test "a cluster with a budget will do; a space of models, a model alone will not" {
    run --separate-stderr "$MOSAIC" layout configs/examples/cluster.yaml -m "$MODEL" -n 1
    [[ $status -eq 0 && $output == *'Best layouts'* ]]
    run --separate-stderr "$MOSAIC" layout "$PLAN"
    refused 3
    [[ $stderr == *'models are declared'*'--model FILE'* ]]
    run --separate-stderr "$MOSAIC" layout "$MODEL"
    refused 3
    run --separate-stderr "$MOSAIC" layout "$PLAN" --model configs/nothing.yaml
    refused 3 || refused 4
    [[ $stderr == *'configs/nothing.yaml'* ]]
    run --separate-stderr "$MOSAIC" layout "$PLAN" --model "$PLAN"
    refused 3
}
