#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# mosaic validate: what is scored, what is left out, and how it is reported.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

ROWS=calibration/data/steps.csv
MODELS=calibration/data/step-models.csv
GENERIC=(--calibration generic)

# The tree as key,value lines: a result that holds predictions has another CSV, so by way of YAML.
# number KEY: of the top level of $BATS_TEST_TMPDIR/result.yaml
number() { awk -v key="$1:" '$1 == key && /^[a-z]/ { print $2; exit }' "$BATS_TEST_TMPDIR/result.yaml"; }

# validate OPTION...: the result as YAML; stderr in said
validate() {
    "$MOSAIC" validate -f yaml "$@" >"$BATS_TEST_TMPDIR/result.yaml" 2>"$BATS_TEST_TMPDIR/said"
}

# head_of COUNT: the header and so many rows of the table, comments left out
head_of() { grep -v '^#' "$ROWS" | head -n "$(($1 + 1))"; }

# with COLUMN VALUE: standard input with one column of the last row set
with() {
    awk -F, -v OFS=, -v column="$1" -v value="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 { print line }
        { line = $0 }
        END { $0 = line; $at[column] = value; print }'
}

@test "every outcome fits the schema" {
    cd "$BATS_TEST_TMPDIR"
    local run=("$MOSAIC" validate -f json --models "$ROOT/$MODELS")
    "${run[@]}" "$ROOT/$ROWS" --anchor 3 >full.json
    "${run[@]}" "$ROOT/$ROWS" --group-by none --worst 0 "${GENERIC[@]}" >small.json
    (cd "$ROOT" && head_of 1) >one.csv
    "${run[@]}" one.csv --anchor 1 >one.json
    (cd "$ROOT" && head_of 1) | with gpu Abacus >none.csv
    "${run[@]}" none.csv >none.json || [[ $? -eq 3 ]]
    fits_schema "$PWD"/{full,small,one,none}.json
}

@test "each row is scored or excluded by name" {
    validate "$ROWS"
    [[ $(number rows_read) -eq $(($(grep -vc '^#' "$ROWS") - 1)) ]]
    [[ $(grep -c '^ *reason: ' "$BATS_TEST_TMPDIR/result.yaml") -eq \
        $(($(number rows_read) - $(number rows))) ]]
    # A kind is dense or moe, a GPU is one.
    for by in kind gpu model gpus; do
        awk -v by="$by" -v want="$(number rows)" '
            /by: / { mine = $NF == by }
            mine && $1 == "rows:" { sum += $2 }
            /^memory:/ { exit }
            END { if (sum != want) { print by ": " sum " of " want; exit 1 } }' \
            "$BATS_TEST_TMPDIR/result.yaml"
    done
}

@test "CSV: a line a row, error = predicted / measured - 1" {
    "$MOSAIC" validate -f csv "$ROWS" >"$BATS_TEST_TMPDIR/rows.csv"
    validate "$ROWS"
    [[ $(head -n 1 "$BATS_TEST_TMPDIR/rows.csv") == id,measured_s,predicted_s,low_s,high_s,error ]]
    awk -F, -v want="$(number rows)" 'NR > 1 {
            d = $3 / $2 - 1 - $6
            if (d > 1e-9 || d < -1e-9 || $4 > $3 || $5 < $3) { print; exit 1 } }
        END { exit NR - 1 != want }' "$BATS_TEST_TMPDIR/rows.csv"
}

@test "the table ends in worst rows, largest error first" {
    run --separate-stderr "$MOSAIC" validate "$ROWS" --worst 5
    [[ $status -eq 0 ]]
    for word in 'all rows' moe dense_2025 a100 other 'data sheets alone' 'Worst, one row a layout'; do
        grep -q "$word" <<<"$output"
    done
    run ! grep -q '^By ' <<<"$output"
    "$MOSAIC" validate "$ROWS" --group-by gpu,slice | grep -qx 'By gpu'
    validate "$ROWS" --worst 5
    awk '/^worst:/ { on = 1; next } /^[a-z]/ { on = 0 }
        on && $1 == "error:" { e = $2 < 0 ? -$2 : $2; if (n++ && e > last) exit 1; last = e }
        END { exit n != 5 }' "$BATS_TEST_TMPDIR/result.yaml"
}

@test "a layout counts once however many rows it has" {
    validate "$ROWS" "${GENERIC[@]}" --models "$MODELS"
    local layouts mape rows order
    layouts=$(number layouts) mape=$(number mape) rows=$(number rows) order=$(number pair_order)
    { grep -v '^#' "$ROWS" && grep -v '^#' "$ROWS" | sed '1d; s/^/again-/'; } \
        >"$BATS_TEST_TMPDIR/twice.csv"
    validate "$BATS_TEST_TMPDIR/twice.csv" "${GENERIC[@]}" --models "$MODELS"
    [[ $(number layouts) -eq $layouts && $(number rows) -eq $((2 * rows)) ]]
    awk -v a="$mape" -v b="$(number mape)" 'BEGIN { d = a - b; exit !(d < 1e-12 && d > -1e-12) }'
    [[ $(number pair_order) == "$order" ]]
}

@test "--calibration generic is what data sheets alone give" {
    validate "$ROWS" "${GENERIC[@]}"
    local sheet
    sheet=$(awk '/^datasheet:/ { on = 1 } on && $1 == "mape:" { print $2; exit }' \
        "$BATS_TEST_TMPDIR/result.yaml")
    [[ $(number mape) == "$sheet" ]]
}

@test "U11: a row above its peak is refused with likely causes" {
    head_of 3 | with step_time_s 0.01 | with tokens_s_gpu '' >"$BATS_TEST_TMPDIR/fast.csv"
    validate "$BATS_TEST_TMPDIR/fast.csv" --models "$MODELS"
    [[ $(number rows) -eq 2 ]]
    grep -qE 'reason: .*measured MFU [0-9.e+]+ is above 1; likely causes: gpu names' \
        "$BATS_TEST_TMPDIR/result.yaml"
}

@test "an unknown token excludes its row by name" {
    for change in 'gpu Abacus' 'precision fp3' 'software none-such' 'model Nobody-7B'; do
        # shellcheck disable=SC2086 # two words
        head_of 2 | with $change >"$BATS_TEST_TMPDIR/odd.csv"
        validate "$BATS_TEST_TMPDIR/odd.csv" --models "$MODELS"
        [[ $(number rows) -eq 1 ]] || { echo "$change" && return 1; }
        grep -q "reason: .*${change#* }" "$BATS_TEST_TMPDIR/result.yaml"
    done
}

@test "no row that can be scored: exit 3, and the result says why" {
    head_of 1 | with gpu Abacus >"$BATS_TEST_TMPDIR/none.csv"
    run --separate-stderr "$MOSAIC" validate -f json "$BATS_TEST_TMPDIR/none.csv" --models "$MODELS"
    [[ $status -eq 3 ]]
    grep -q '"status": "error"' <<<"$output"
    grep -q Abacus <<<"$output"
    [[ $stderr == *"none of 1 rows can be scored"* ]]
    run ! grep -qE '"(mape|bias|groups|coverage_90)"' <<<"$output"
    for format in table csv yaml; do
        run --separate-stderr "$MOSAIC" validate -f $format "$BATS_TEST_TMPDIR/none.csv" \
            --models "$MODELS"
        [[ $status -eq 3 && $output == *Abacus* ]]
    done
}

@test "the table of models is found beside the rows, or asked for" {
    cd "$BATS_TEST_TMPDIR"
    (cd "$ROOT" && head_of 2) >runs.csv
    run --separate-stderr "$MOSAIC" validate runs.csv
    refused 2
    [[ $stderr == *"no table of models lies beside 'runs.csv'"* && $stderr == *--models* ]]
    cp "$ROOT/$MODELS" runs-models.csv
    "$MOSAIC" validate runs.csv -f yaml | grep -q 'path: .*runs-models.csv'
    mv runs-models.csv run_models.csv
    mv runs.csv run_rows.csv
    "$MOSAIC" validate run_rows.csv -f yaml | grep -q 'path: .*run_models.csv'
    run --separate-stderr "$MOSAIC" validate run_rows.csv --models none.csv
    refused 4
    run --separate-stderr "$MOSAIC" validate none.csv --models run_models.csv
    refused 4
}

@test "anchors: most of a factor on a job's rows is measured by one of them" {
    # The program's own predictions, half as long again, as measurements.
    "$MOSAIC" validate -f csv --calibration generic "$ROWS" >"$BATS_TEST_TMPDIR/rows.csv"
    grep -v '^#' "$ROWS" | awk -F, -v OFS=, -v predictions="$BATS_TEST_TMPDIR/rows.csv" '
        BEGIN { while ((getline line < predictions) > 0) {
                    split(line, cell, ",")
                    time[cell[1]] = cell[3] } }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print; next }
        $1 in time {
            $at["step_time_s"] = sprintf("%.17g", 1.5 * time[$1])
            $at["tokens_s_gpu"] = $at["model_tflops_gpu"] = ""
            print }' \
        >"$BATS_TEST_TMPDIR/half.csv"
    validate "$BATS_TEST_TMPDIR/half.csv" --models "$MODELS" --calibration generic --anchor 1
    # By the generic spreads w^2 / (b^2 + w^2) of ln 1.5 is left, by further rows of a layout less.
    awk '/^anchored:/ { on = 1 } /^clusters:/ { on = 0 }
        on && $1 == "mape:" && !after { after = 1; if ($2 <= 0 || $2 > 1 - 1.5 ^ -0.46) exit 1 }
        on && $1 == "before:" { before = 1 }
        before && $1 == "mape:" { d = $2 - 1 / 3; found = d < 1e-9 && d > -1e-9; exit }
        END { exit !found }' "$BATS_TEST_TMPDIR/result.yaml"
}

@test "usage errors" {
    for bad in --anchor=17 --anchor=x --worst=1001 --group-by=speed '--group-by=gpu,,' \
        --set=a=1 --sequence=8; do
        run --separate-stderr "$MOSAIC" validate "$bad" "$ROWS"
        refused 2 || { echo "for $bad" && return 1; }
    done
    run --separate-stderr "$MOSAIC" validate --group-by precison "$ROWS"
    [[ $stderr == *"is it 'precision'"* ]]
    run --separate-stderr "$MOSAIC" validate --calibration none.yaml "$ROWS"
    [[ $status -eq 3 || $status -eq 4 ]]
    [[ -z $output && -n $stderr ]]
}

@test "the same bytes whatever the threads, and to a file" {
    "$MOSAIC" validate -f json "$ROWS" --threads 1 >"$BATS_TEST_TMPDIR/one"
    "$MOSAIC" validate -f json "$ROWS" --threads 3 -o "$BATS_TEST_TMPDIR/three"
    cmp "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/three"
    run --separate-stderr bash -c "'$MOSAIC' validate '$ROWS' >/dev/full"
    [[ $status -eq 4 ]]
}

@test "twenty thousand rows" {
    grep -v '^#' "$ROWS" | awk 'NR == 1 { print; next } { row[++n] = $0 }
        END { for (k = 1; k * n <= 20000 + n; k++) for (i = 1; i <= n; i++) print k "-" row[i] }' \
        >"$BATS_TEST_TMPDIR/many.csv"
    timeout 30 "$MOSAIC" validate -f csv "$BATS_TEST_TMPDIR/many.csv" --models "$MODELS" \
        >"$BATS_TEST_TMPDIR/rows.csv"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/rows.csv") -gt 15000 ]]
}
