#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Plans whose law is fitted first, and plans that repeat their data.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

CLARK=configs/clark-2022.yaml

@test "a plan with runs says what they allow and counts the table among its inputs" {
    "$MOSAIC" plan -f json "$CLARK" >"$BATS_TEST_TMPDIR/plan.json" 2>/dev/null
    fits_schema "$BATS_TEST_TMPDIR/plan.json"
    grep -qF "$(sha256sum configs/runs/clark2022_final.csv | cut -d' ' -f1)" "$BATS_TEST_TMPDIR/plan.json"
    grep -qF '"winners"' "$BATS_TEST_TMPDIR/plan.json"
    "$MOSAIC" plan "$CLARK" 2>/dev/null | grep -qE 'This plan wins [0-9.]+ % of the draws'
}

@test "threads change no byte of a plan with runs, the seed changes its draws" {
    "$MOSAIC" plan -f json --threads 1 "$CLARK" >"$BATS_TEST_TMPDIR/one" 2>/dev/null
    "$MOSAIC" plan -f json --threads 2 "$CLARK" 2>/dev/null | cmp - "$BATS_TEST_TMPDIR/one"
    "$MOSAIC" plan -f json --seed 2 "$CLARK" 2>/dev/null | sed 's/"seed": 2/"seed": 1/' >"$BATS_TEST_TMPDIR/two"
    run ! cmp -s "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two"
}

@test "a bad row of the table is named by file and row" {
    local runs=$BATS_TEST_TMPDIR/runs.csv
    printf '%s\n' n_total,n_active,tokens,loss 1e9,1e9,2e10,3.1 1e9,1e9,4e10,-2 >"$runs"
    run --separate-stderr "$MOSAIC" plan --set law="{runs: $runs, count: all}" configs/p6-b200-4n-5d.yaml
    refused 3
    [[ $stderr == *"runs.csv:3:"*"row 2"* ]]
    run --separate-stderr "$MOSAIC" plan --set law="{runs: $runs, form: clark}" configs/p6-b200-4n-5d.yaml
    refused 3
    [[ $stderr == *"clark form cannot plan"* ]]
}

@test "a law that mosaic fit wrote plans as its runs do" {
    local law=$BATS_TEST_TMPDIR/law.yaml
    "$MOSAIC" fit --count no_embedding -o "$law" configs/runs/mosaic_synth_s0078.csv >/dev/null 2>&1
    "$MOSAIC" plan -f csv configs/p6-b200-32n-20d-fit.yaml 2>/dev/null >"$BATS_TEST_TMPDIR/runs.csv"
    "$MOSAIC" plan -f csv --set law="$law" configs/p6-b200-32n-20d.yaml 2>/dev/null |
        cmp - "$BATS_TEST_TMPDIR/runs.csv"
}

@test "scarce data are repeated, and the loss of predict is that of its terms" {
    "$MOSAIC" plan --set workload.unique_tokens=2e10 configs/p6-b200-4n-5d.yaml |
        tr -s '\n ' ' ' | grep -qE 'trains [0-9.]+ epochs of the unique tokens'
    "$MOSAIC" predict -f csv --set workload.unique_tokens=2e11 "$PREDICT" | awk -F, '
        { is[$1] = $2 }
        END { d = is["loss"] - is["loss_terms.loss"]
              exit !(is["epochs"] > 1 && is["tokens_effective"] < is["tokens"] && d * d < 1e-20) }'
}
