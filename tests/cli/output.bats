#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Where results go and in what form.

load common

@test "JSON of every command fits its schema" {
    cd "$ROOT"
    "$MOSAIC" predict -f json "$PREDICT" >"$BATS_TEST_TMPDIR/predict.json"
    "$MOSAIC" count -f json "$MODEL" >"$BATS_TEST_TMPDIR/count.json"
    "$MOSAIC" compare -f json "$PREDICT" "$PREDICT" >"$BATS_TEST_TMPDIR/compare.json"
    "$MOSAIC" lint -f json "$PREDICT" >"$BATS_TEST_TMPDIR/lint.json"
    fits_schema "$BATS_TEST_TMPDIR"/*.json
}

@test "JSON of a plan fits its schema" {
    "$MOSAIC" plan -f json configs/p6-b200-4n-5d.yaml >"$BATS_TEST_TMPDIR/plan.json"
    fits_schema "$BATS_TEST_TMPDIR/plan.json"
}

@test "no feasible plan: exit 1, and still a result that fits its schema" {
    run --separate-stderr "$MOSAIC" plan -f json configs/examples/impossible.yaml
    [[ $status -eq 1 ]]
    printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/plan.json"
    fits_schema "$BATS_TEST_TMPDIR/plan.json"
    grep -q '"status": "infeasible"' "$BATS_TEST_TMPDIR/plan.json"
}

@test "schema, provenance and status come first" {
    run --separate-stderr "$MOSAIC" predict -f json "$PREDICT"
    [[ $(grep -oE '^  "[a-z_]+"' <<<"$output" | head -3 | tr -d ' "\n') == schemaprovenancestatus ]]
}

@test "--set is echoed in the result, in order" {
    run --separate-stderr "$MOSAIC" predict -f csv --set workload.imbalance=1.2 "$PREDICT"
    [[ $status -eq 0 ]]
    grep -qx 'provenance.overrides\[0\].key,workload.imbalance,' <<<"$output"
    grep -qx 'provenance.overrides\[0\].value,1.2,' <<<"$output"
}

@test "YAML and CSV hold the step time that JSON does" {
    step=$("$MOSAIC" predict -f csv "$PREDICT" | sed -n 's/^prediction.step_time_s,\(.*\),s$/\1/p')
    [[ -n $step ]]
    "$MOSAIC" predict -f yaml "$PREDICT" | grep -qx "  step_time_s: $step"
    exact=$("$MOSAIC" predict -f json "$PREDICT" | sed -n 's/^ *"step_time_s": \([^,]*\),$/\1/p' | head -1)
    # Shorter digits, same double.
    awk -v a="$step" -v b="$exact" 'BEGIN { exit !(a + 0 == b + 0) }'
}

@test "every row of a CSV has as many fields as its header" {
    "$MOSAIC" plan -f csv configs/p6-b200-4n-5d.yaml | sed 's/"[^"]*"/quoted/g' | awk -F, '
        NR == 1 { want = NF }
        NF != want { bad = 1 }
        END { exit bad || NR < 2 || want < 20 }'
}

@test "a table has no escape codes unless asked for, and is the same on a pipe and in a file" {
    "$MOSAIC" predict -o "$BATS_TEST_TMPDIR/a" "$PREDICT"
    "$MOSAIC" predict "$PREDICT" | cmp - "$BATS_TEST_TMPDIR/a"
    run ! grep -q $'\033' "$BATS_TEST_TMPDIR/a"
    "$MOSAIC" predict --color always "$PREDICT" | grep -q $'\033\[1m'
}

@test "a full disk is exit 4 in every format" {
    for format in table json csv yaml; do
        run bash -c "'$MOSAIC' count -f $format '$MODEL' >/dev/full"
        [[ $status -eq 4 && $output == *"No space left"* ]]
        run "$MOSAIC" count -f "$format" -o /dev/full "$MODEL"
        [[ $status -eq 4 && $output == *"No space left"* ]]
    done
}

@test "-o keeps what was there when the result fails, and leaves nothing beside it" {
    mkdir "$BATS_TEST_TMPDIR/d"
    echo before >"$BATS_TEST_TMPDIR/d/out"
    run "$MOSAIC" predict -o "$BATS_TEST_TMPDIR/d/out" nosuch.yaml
    [[ $status -eq 4 ]]
    [[ $(cat "$BATS_TEST_TMPDIR/d/out") == before ]]
    [[ $(ls "$BATS_TEST_TMPDIR/d") == out ]]
}

@test "-o writes through a link and keeps the file's mode" {
    echo before >"$BATS_TEST_TMPDIR/real"
    chmod 640 "$BATS_TEST_TMPDIR/real"
    ln -s real "$BATS_TEST_TMPDIR/link"
    "$MOSAIC" count -f json -o "$BATS_TEST_TMPDIR/link" "$MODEL"
    [[ -L $BATS_TEST_TMPDIR/link ]]
    [[ $(stat -c %a "$BATS_TEST_TMPDIR/real") == 640 ]]
    grep -q '"n_total"' "$BATS_TEST_TMPDIR/real"
}

@test "-o into a directory that is not there is exit 4" {
    run --separate-stderr "$MOSAIC" count -o /nonexistent/x "$MODEL"
    refused 4
}

@test "a closed pipe ends quietly" {
    run --separate-stderr bash -c "'$MOSAIC' plan -f json configs/p6-b200-4n-5d.yaml | head -c 1"
    [[ $output == "{" && -z $stderr ]]
}

@test "--verbose writes times to stderr only" {
    run --separate-stderr "$MOSAIC" count -v -f json "$MODEL"
    [[ $status -eq 0 && $stderr == *"took"*"ms"* && $stderr == *"peak memory"* ]]
    [[ $output == "$("$MOSAIC" count -f json "$MODEL")" ]]
}

@test "--progress always draws on stderr and never changes the result" {
    "$MOSAIC" plan -f json --progress always configs/p6-b200-4n-5d.yaml 2>/dev/null |
        cmp - <("$MOSAIC" plan -f json --progress never configs/p6-b200-4n-5d.yaml 2>/dev/null)
}

@test "SIGINT prints the best so far and exits 130" {
    # All axes free: minutes of work, so the signal comes in the middle of it.
    run --separate-stderr timeout --foreground -s INT --preserve-status -k 60 2 \
        "$MOSAIC" plan -f json --set 'search.layout={}' configs/p6-b200-32n-20d.yaml
    [[ $status -eq 130 ]]
    printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/plan.json"
    fits_schema "$BATS_TEST_TMPDIR/plan.json"
    grep -q '"status": "interrupted"' "$BATS_TEST_TMPDIR/plan.json"
}
