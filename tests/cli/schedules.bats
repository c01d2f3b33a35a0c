#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# `mosaic schedules`: live sets without and with each memory schedule, phases, timelines.

load common

PLAN=configs/examples/schedules-h200.yaml

# column NAME SET: of CSV on standard input; texts with commas go
column() {
    sed "s/\"[^\"]*\"/text/g" | awk -F, -v name="$1" -v set="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == set { print $at[name] }'
}

# value FILE KEY: the first number at a key of JSON
value() {
    sed -nE "s/^ *\"$2\": (-?[0-9][^,]*),?$/\1/p" "$1" | head -n 1
}

@test "the table shows sets, phases and charts of at most 100 columns" {
    run --separate-stderr "$MOSAIC" schedules "$PLAN"
    [[ $status -eq 0 && -z $stderr ]]
    for text in 'Live sets of a GPU' 'expert dispatch ' 'Ring-DTP' 'Selective Checkpoint Offload' \
        'OffloadStreamAdamW' 'Phases of a step' 'backward layer' '8 chunks of 8192 tokens, balanced' \
        '8 shards, weights move' '7 of 7 boundaries' '2 slots' 'Timeline of the expert dispatch' \
        'Timeline of the vocabulary projection' 'Timeline of the checkpoint boundaries' \
        'Timeline of the AdamW state' 'left out' 'phase is the fullest' 'the next is'; do
        [[ $output == *"$text"* ]] || { echo "no '$text'" && return 1; }
    done
    [[ -z $(awk 'length > 100' <<<"$output") ]]
}

@test "the result fits its schema with every schedule, with one, with none" {
    "$MOSAIC" schedules "$PLAN" -f json >"$BATS_TEST_TMPDIR/all.json"
    "$MOSAIC" schedules "$PLAN" -f json --set execution.dispatch_chunk=0 \
        --set execution.expert_balance=none --set execution.vocab_ring=1 \
        --set 'execution.checkpoint_offload=0 B' >"$BATS_TEST_TMPDIR/one.json"
    "$MOSAIC" schedules "$PREDICT" -f json >"$BATS_TEST_TMPDIR/none.json"
    fits_schema "$BATS_TEST_TMPDIR"/*.json
    [[ $(grep -c '"on": true' "$BATS_TEST_TMPDIR/all.json") -eq 4 ]]
    [[ $(grep -c '"on": true' "$BATS_TEST_TMPDIR/one.json") -eq 1 ]]
    [[ $(grep -c '"on": true' "$BATS_TEST_TMPDIR/none.json") -eq 0 ]]
}

@test "the memory is that of predict, and its fullest phase" {
    "$MOSAIC" schedules "$PLAN" -f json >"$BATS_TEST_TMPDIR/schedules.json"
    "$MOSAIC" predict "$PLAN" -f json >"$BATS_TEST_TMPDIR/predict.json"
    for key in step_time_s reserved_bytes guarantee_bytes host_bytes; do
        [[ -n $(value "$BATS_TEST_TMPDIR/predict.json" "$key") ]]
        [[ $(value "$BATS_TEST_TMPDIR/predict.json" "$key") == \
            $(value "$BATS_TEST_TMPDIR/schedules.json" "$key") ]]
    done
    awk -v total="$(value "$BATS_TEST_TMPDIR/predict.json" reserved_bytes)" '
        /"held_bytes":/ { sub(/,/, "", $2); if ($2 + 0 > most) most = $2 + 0 }
        END { exit !(most >= total - 64 && most <= total + 64) }' "$BATS_TEST_TMPDIR/schedules.json"
}

@test "CSV has a row a live set, smaller with its schedule than without" {
    "$MOSAIC" schedules "$PLAN" -f csv >"$BATS_TEST_TMPDIR/sets"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/sets") -eq 5 ]]
    for set in 'expert dispatch' 'vocabulary projection' 'checkpoint boundaries' 'AdamW state'; do
        before=$(column before_bytes "$set" <"$BATS_TEST_TMPDIR/sets")
        after=$(column bytes "$set" <"$BATS_TEST_TMPDIR/sets")
        guarantee=$(column guarantee_bytes "$set" <"$BATS_TEST_TMPDIR/sets")
        [[ $before -gt $after && $guarantee -ge $after && $after -gt 0 ]]
    done
    [[ $(column stream.count 'expert dispatch' <"$BATS_TEST_TMPDIR/sets") -eq 8 ]]
    [[ $(column stream.slots 'AdamW state' <"$BATS_TEST_TMPDIR/sets") -eq 2 ]]
}

@test "a schedule that is off leaves its set as it was" {
    "$MOSAIC" schedules "$PLAN" -f csv --set execution.vocab_ring=1 >"$BATS_TEST_TMPDIR/sets"
    set='vocabulary projection'
    [[ $(column on "$set" <"$BATS_TEST_TMPDIR/sets") == false ]]
    [[ $(column bytes "$set" <"$BATS_TEST_TMPDIR/sets") == \
        $(column before_bytes "$set" <"$BATS_TEST_TMPDIR/sets") ]]
    run "$MOSAIC" schedules "$PLAN" --set execution.vocab_ring=1
    [[ $output != *'Timeline of the vocabulary'* && $output == *'vocabulary projection  off'* ]]
}

@test "a layout that does not fit is shown all the same, exit 1" {
    run --separate-stderr "$MOSAIC" schedules "$PLAN" --set execution.optimizer_bucket=0
    [[ $status -eq 1 && $stderr == *'does not fit in memory'* ]]
    [[ $output == *'DOES NOT FIT'* && $output == *'Live sets of a GPU'* ]]
    run -1 --separate-stderr "$MOSAIC" schedules "$PLAN" --set execution.optimizer_bucket=0 -f json
    echo "$output" >"$BATS_TEST_TMPDIR/none.json"
    fits_schema "$BATS_TEST_TMPDIR/none.json"
    grep -q '"status": "infeasible"' "$BATS_TEST_TMPDIR/none.json"
}

@test "a plan that is not pinned is refused with its free keys, the published estimator too" {
    run --separate-stderr "$MOSAIC" schedules "$PLAN" --set 'search.layout.ep=[8, 16]'
    refused 3
    [[ $stderr == *'ep (2 values)'* ]]
    run --separate-stderr "$MOSAIC" schedules configs/p6-b200-32n-20d.yaml
    refused 3
    run --separate-stderr "$MOSAIC" schedules "$PLAN" --set 'execution={}' --set estimator=published
    refused 3
    [[ $stderr == *'published estimator'* ]]
    run --separate-stderr "$MOSAIC" schedules "$MODEL"
    refused 3
}
