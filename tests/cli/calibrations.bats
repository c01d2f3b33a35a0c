#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Calibrations by name, over one another, of another device; small tables of steps and wrong times.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

ROWS=configs/examples/steps.csv
MODELS=configs/examples/steps-models.csv

# document NAME LINE...: a calibration of these lines; prints its path
document() {
    local file=$BATS_TEST_TMPDIR/$1.yaml
    printf '%s\n' 'schema: mosaic-calibration/1' "name: $1" "${@:2}" >"$file"
    echo "$file"
}

# value KEY FILE: of lint's list
value() {
    "$MOSAIC" lint --show-defaults -f csv "$2" | awk -F, -v key="$1" '$1 == key { print $2 }'
}

# edited COLUMN VALUE [ROW]: the table of examples with one cell set, of its last row
edited() {
    awk -F, -v OFS=, -v column="$1" -v value="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        $1 == "V0263" { $at[column] = value } 1' "${3:-$ROWS}"
}

@test "a document over another keeps what it does not give" {
    file=$(document mine 'over: h100-steps' 'entries:' '  - quantity: gemm.sustained' '    value: 0.5' \
        '    source: own' '    licence: own')
    [[ $(value gemm.sustained "$file") == 0.5 ]]
    for key in gemm.bf16.share interval.sigma anchor.within_model optimizer.fixed; do
        [[ -n $(value $key "$file") ]]
        [[ $(value $key "$file") == "$(value $key calibration/data/h100-steps.yaml)" ]]
    done
    beside=$(document beside "over: $BATS_TEST_TMPDIR/base.yaml" 'entries: []')
    sed 's/^name: .*/name: base/' calibration/data/h100-steps.yaml >"$BATS_TEST_TMPDIR/base.yaml"
    [[ $(value gemm.sustained "$beside") == "$(value gemm.sustained calibration/data/h100-steps.yaml)" ]]
}

@test "collectives and curves of the lower document stay, or give way to the same of the upper" {
    step() { "$MOSAIC" predict -f csv "$PREDICT" --set "calibration=$1" | awk -F, '$1 == "prediction.step_time_s" { print $2 }'; }
    same=$(document same 'over: p6-b200-published' 'entries: []')
    [[ $(step "$same") == "$(step p6-b200-published)" ]]
    slow=$(document slow 'over: p6-b200-published' 'entries:' '  - collective: all_to_all' '    ranks: 8' \
        '    ranks_per_domain: 8' '    samples: [[1 kB, 1 kB/s], [1 GB, 1 MB/s]]' '    source: own' '    licence: own')
    awk -v slow="$(step "$slow")" -v plain="$(step "$same")" 'BEGIN { exit !(slow > 10 * plain) }'
}

@test "one level, by place; a device or a lower document is due" {
    document middle 'over: h100-steps' 'entries: []'
    top=$(document top 'over: middle.yaml' 'entries: []')
    run --separate-stderr "$MOSAIC" lint "$top"
    refused 3
    [[ $stderr == *"top.yaml:3:7: error: 'middle.yaml' is itself laid over 'h100-steps'"* ]]
    none=$(document none 'entries: []')
    run --separate-stderr "$MOSAIC" lint "$none"
    refused 3
    [[ $stderr == *"missing key 'device'"* ]]
    self=$(document self 'over: self.yaml' 'entries: []')
    run --separate-stderr "$MOSAIC" lint "$self"
    refused 3
    base=$(document base 'device: H100' 'entries: []')
    printf '%s\n' 'measured_steps:' "  - {model: $ROOT/configs/models/qwen3-30b-a3b.yaml, nodes: 1, sequence: 4096," \
        '     global_batch: 64, precision: bf16, layout: {ep: 8, micro_batch: 1, recompute: none},' \
        '     step_time: 9 s, source: own}' >>"$base"
    upper=$(document upper 'over: base.yaml' 'entries: []')
    run --separate-stderr "$MOSAIC" lint "$upper"
    [[ $status -eq 0 && $stderr == *'these steps are not taken'* ]]
}

@test "a name that is neither a file nor in the library has a suggestion" {
    run --separate-stderr "$MOSAIC" predict "$PREDICT" --set calibration=b200-stps
    refused 4
    [[ $stderr == *"no file 'b200-stps', and no calibration of that name"*"did you mean 'b200-steps'"* ]]
    run --separate-stderr "$MOSAIC" validate "$ROWS" --calibration h100-step
    refused 4
    [[ $stderr == *"did you mean 'h100-steps'"* ]]
    run --separate-stderr "$MOSAIC" predict "$PREDICT" --set engine=megatron
    refused 4
    [[ $stderr == *"no engine of that name"*"{name: megatron, version"* ]]
}

@test "a calibration of another device is warned of, a longer name of the same one is not" {
    run --separate-stderr "$MOSAIC" predict "$PREDICT" --set calibration=h100-steps
    [[ $status -eq 0 && $stderr == *"was made on H100, the cluster's device is B200"* ]]
    run --separate-stderr "$MOSAIC" predict "$PREDICT" --set calibration=generic
    [[ $stderr != *'was made on'* ]]
    run --separate-stderr "$MOSAIC" lint configs/examples/cluster.yaml # an H100 SXM
    [[ $status -eq 0 && $stderr != *'was made on'* ]]
    run --separate-stderr "$MOSAIC" lint configs/examples/cluster.yaml --set calibration=a100-steps
    [[ $stderr == *"was made on A100, the cluster's device is H100 SXM"* ]]
}

@test "a time in milliseconds is no step to fit, and is flagged first where it is scored" {
    edited step_time_s 3230.9 >"$BATS_TEST_TMPDIR/rows.csv"
    "$MOSAIC" fit --steps "$BATS_TEST_TMPDIR/rows.csv" --models "$MODELS" --no-cross-validation -f json \
        >"$BATS_TEST_TMPDIR/fit.json"
    fits_schema "$BATS_TEST_TMPDIR/fit.json"
    grep -q '"reason": "measured 3.23e+03 s, predicted .* off by more than 8; units?"' "$BATS_TEST_TMPDIR/fit.json"
    run "$MOSAIC" validate "$BATS_TEST_TMPDIR/rows.csv" --models "$MODELS"
    [[ $output == *'3 of 3 rows'*'off by more than 3: units?; '* ]]
}

@test "tokens that contradict the time exclude the row" {
    awk -v OFS=, 'NR == 1 { print $0, "tokens_s_gpu"; next } { print $0, "" }' "$ROWS" >"$BATS_TEST_TMPDIR/rows.csv"
    for case in '10142 3 of 3' '9700 3 of 3' '20284 2 of 3'; do
        edited tokens_s_gpu "${case%% *}" "$BATS_TEST_TMPDIR/rows.csv" >"$BATS_TEST_TMPDIR/case.csv"
        run "$MOSAIC" validate "$BATS_TEST_TMPDIR/case.csv" --models "$MODELS"
        [[ $output == *"${case#* } rows"* ]] || { echo "$case: $output" && return 1; }
    done
    [[ $output == *"tokens_s_gpu '20284' makes a step of 1.615 s, but step_time_s is 3.231"* ]]
}

@test "few layouts: intervals do not fall below the base's, and the report says what to do instead" {
    "$MOSAIC" fit --steps "$ROWS" -f json -o "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/fit.json"
    fits_schema "$BATS_TEST_TMPDIR/fit.json"
    grep -q '3 layouts: the priors decide' "$BATS_TEST_TMPDIR/fit.json"
    for key in interval.sigma interval.sigma_moe; do
        awk -v least="$(value $key calibration/data/generic.yaml)" \
            -v got="$(value $key "$BATS_TEST_TMPDIR/out/h100-steps.yaml")" 'BEGIN { exit !(got >= least && least > 0) }'
    done
}

@test "a single model is not held out" {
    grep -v '^#' calibration/data/steps.csv | awk -F, 'NR == 1 || $2 == "Nemotron4-340B"' \
        >"$BATS_TEST_TMPDIR/one.csv"
    run "$MOSAIC" fit --steps "$BATS_TEST_TMPDIR/one.csv" --models calibration/data/step-models.csv
    [[ $status -eq 0 && $output != *'unseen model'* && $output == *'5-fold MAPE'* ]]
}

@test "a layout that is illegal as a whole blames no column" {
    edited ep 7 >"$BATS_TEST_TMPDIR/rows.csv"
    run "$MOSAIC" validate "$BATS_TEST_TMPDIR/rows.csv" --models "$MODELS"
    [[ $output == *'V0263 (row 2): this layout: EP 7 does not divide 128 experts'* ]]
}
