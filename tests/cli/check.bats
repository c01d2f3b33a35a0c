#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# `mosaic check`: predictions against a baseline.

load common

PLAN=configs/examples/predict-table4.yaml
OPEN=configs/p6-b200-4n-5d.yaml

# A copy of the plans and calibrations in the scratch directory, with a baseline of one plan.
tree() {
    MOSAIC=$(realpath "$MOSAIC")
    cp -r configs calibration "$BATS_TEST_TMPDIR/"
    cd "$BATS_TEST_TMPDIR" || return 1
    "$MOSAIC" check "$PLAN" --baseline b.json --update >/dev/null
}

# scale QUANTITY FACTOR FILE: the first value of a calibrated quantity
scale() {
    awk -v quantity="$1" -v factor="$2" '
        /quantity:/ { here = ($3 == quantity) }
        here && $1 == "value:" { print "    value: " $2 * factor; here = 0; next }
        { print }' "$3" >scaled && mv scaled "$3"
}

# verdict METRIC: of CSV on standard input
verdict() {
    awk -F, -v metric="$1" '$2 == metric { print $4 }'
}

# fails_at LINE:COLUMN TEXT: this baseline is bad input, at this place, with the way out
fails_at() {
    printf '%s' "$2" >bad.json
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline bad.json
    refused 3
    [[ $stderr == "bad.json:$1: error: "* && $stderr == *'--update writes one'* ]] ||
        { echo "$stderr" && return 1; }
}

@test "unchanged inputs pass at 0.1 %, and at no tolerance at all" {
    tree
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline b.json
    [[ $status -eq 0 && -z $stderr ]]
    [[ $output == *'0 regressions, 0 better'* && $output == *'0.1 %'* ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline b.json --tolerance 'all=0 %'
    [[ $status -eq 0 && $output != *REGRESSION* ]]
    [[ $("$MOSAIC" check "$PLAN" -b b.json -f csv | verdict loss) == same ]]
}

@test "a calibration that slows GEMMs by 3 % fails with 7 and names the term and the file" {
    tree
    scale gemm.bf16.share 0.97 calibration/data/p6-b200-published.yaml
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline b.json
    [[ $status -eq 7 && $stderr == *'4 regressions in 1 of 1 file'* ]]
    for text in 'step_time_s ' REGRESSION ' GEMMs ' 'calibration/data/p6-b200-published.yaml: changed'; do
        [[ $output == *"$text"* ]] || { echo "no '$text'" && return 1; }
    done
    "$MOSAIC" check "$PLAN" -b b.json -f json >regressed.json 2>/dev/null || true
    grep -q '"status": "regression"' regressed.json
    grep -q '"key": "gemm_s"' regressed.json
    fits_schema "$PWD/regressed.json" "$PWD/b.json"
    "$MOSAIC" check "$PLAN" -b b.json -f csv >rows 2>/dev/null || true
    for metric in mfu step_time_s tokens_per_s_per_gpu tokens; do
        [[ $(verdict "$metric" <rows) == regression ]]
    done
    [[ $(verdict reserved_bytes <rows) == same && $(verdict loss <rows) == same ]]
}

@test "a regression is let through by its own tolerance, not by another's" {
    tree
    slow=(--set calibration.gemm.bf16.share=0.666)
    run "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" --tolerance 'all=2 %'
    [[ $status -eq 0 ]]
    run "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" --tolerance 'mfu=2 %'
    [[ $status -eq 7 && $output == *calibration.gemm.bf16.share* ]]
    run "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" --tolerance 'all=2 %' --tolerance 'loss=0.0001 nat'
    [[ $status -eq 7 && $output == *'0.0001 nat'* && $output == *'loss term: data'* ]]
    run "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" --tolerance 'all=2 %' --tolerance 'step_time_s=10 ms'
    [[ $status -eq 7 && $output == *'step_time_s'*REGRESSION* ]]
    run "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" --tolerance 'all=2 %' --tolerance 'reserved_bytes=1 GiB'
    [[ $status -eq 0 ]]
}

@test "what is better is reported and is no failure" {
    tree
    scale gemm.sustained 1.1 calibration/data/p6-b200-published.yaml
    run --separate-stderr "$MOSAIC" check "$PLAN" -b b.json --annotations
    [[ $status -eq 0 && $output == *' better'* && $output != *REGRESSION* ]]
    [[ $stderr == *'::notice file='* && $stderr != *'::error'* ]]
}

@test "a missing baseline is an error, and --update writes one" {
    tree
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline none.json
    refused 3
    [[ $stderr == 'none.json: error: '*'--update writes one'* ]]
    run --separate-stderr "$MOSAIC" check "$PLAN"
    refused 2
    "$MOSAIC" check "$PLAN" --baseline none.json --update >/dev/null
    "$MOSAIC" check "$PLAN" --baseline none.json >/dev/null
}

@test "a foreign baseline is an error: another file set, schema or version" {
    tree
    run --separate-stderr "$MOSAIC" check "$PLAN" configs/examples/table5-id1.yaml --baseline b.json
    refused 3
    [[ $stderr == b.json:1:1:*table5-id1.yaml*'not in the baseline'*--update* ]]
    fails_at 1:12 '{"schema": "mosaic.plan/1"}'
    fails_at 1:12 '{"schema": "mosaic.baseline/2", "version": "9", "files": []}'
    fails_at 1:1 '{"version": "0.1.0"}'
    # Nor is it written over.
    cp "$PLAN" mine.json
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline mine.json --update
    refused 3
    cmp mine.json "$PLAN"
}

@test "a broken baseline is an error with its place" {
    tree
    head='{"schema": "mosaic.baseline/1", "version": "1", "files": ['
    fails_at 1:1 ''
    fails_at 1:1 '[]'
    fails_at 1:58 "$head]}"
    fails_at 1:59 "$head"$'\n'
    fails_at 2:1 "$head"$'\n{"file": "a", "sha256": "x", "status": "ok"}]}'
    fails_at 2:66 "$head"$'\n{"file": "a", "sha256": "x", "status": "ok", "metrics": {"mfuu": 1}}]}'
    sed 's/"mfu": [0-9.]*,/"mfu": "0.1",/' b.json >text.json
    fails_at 12:16 "$(cat text.json)"
    sed 's/"mfu": [0-9.]*,/"mfu": 0,/' b.json >zero.json
    fails_at 12:16 "$(cat zero.json)"
    sed '/"mfu": /d' b.json >less.json
    run --separate-stderr "$MOSAIC" check "$PLAN" --baseline less.json
    refused 3
    [[ $stderr == *"lacks the metric 'mfu'"* ]]
    fails_at 3:1 "$head"$'\n{"file": "a", "sha256": "x", "status": "infeasible"},\n{"file": "a", "sha256": "x", "status": "infeasible"}]}'
}

@test "--update is byte for byte the same, in any order, and leaves no temporary file" {
    tree
    "$MOSAIC" check "$PLAN" --baseline again.json --update --threads 2 >/dev/null
    cmp b.json again.json
    "$MOSAIC" check "$PLAN" --baseline b.json --update | grep -q 'now holds'
    cmp b.json again.json
    "$MOSAIC" check "$OPEN" "$PLAN" -b one.json --update --threads 1 >/dev/null
    "$MOSAIC" check "$PLAN" "$OPEN" -b two.json --update --threads 2 >/dev/null
    cmp one.json two.json
    fits_schema "$PWD/one.json"
    [[ $(find . -maxdepth 1 -name '*.json.*' | wc -l) -eq 0 ]]
}

@test "--update shows what changed and takes it" {
    tree
    slow=(--set calibration.gemm.bf16.share=0.666)
    run --separate-stderr "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" --update -f json
    [[ $status -eq 0 && -z $stderr && $output == *'"status": "updated"'* ]]
    [[ $output == *'"verdict": "regression"'* ]]
    "$MOSAIC" check "$PLAN" -b b.json "${slow[@]}" >/dev/null
    run "$MOSAIC" check "$PLAN" -b b.json -f json
    [[ $output == *'"change": "removed"'* ]]
}

@test "a plan that no longer fits is a regression, pinned or not; one that fits again is better" {
    tree
    "$MOSAIC" check "$PLAN" "$OPEN" -b two.json --update >/dev/null
    small=(--set 'cluster.device.memory=1 GB')
    run --separate-stderr "$MOSAIC" check "$PLAN" "$OPEN" -b two.json "${small[@]}" -f csv
    [[ $status -eq 7 && $(verdict feasible <<<"$output") == $'regression\nregression' ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" -b two.json "${small[@]}"
    [[ $status -eq 7 && $output == *'no feasible plan now'* && $output == *'memory: capacity'* ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" "$OPEN" -b two.json "${small[@]}" --update
    [[ $status -eq 0 && $stderr == *'warning: '*'no feasible plan'* ]]
    fits_schema "$PWD/two.json"
    "$MOSAIC" check "$PLAN" "$OPEN" -b two.json "${small[@]}" >/dev/null
    run --separate-stderr "$MOSAIC" check "$PLAN" "$OPEN" -b two.json -f csv
    [[ $status -eq 0 && $(verdict feasible <<<"$output") == $'better\nbetter' ]]
}

@test "several files: each has its rows; what is in the baseline only is a warning" {
    tree
    "$MOSAIC" check "$PLAN" "$OPEN" -b two.json --update >/dev/null
    run --separate-stderr "$MOSAIC" check "$PLAN" "$OPEN" -b two.json
    [[ $status -eq 0 && $output == *'12 metrics of 2 files'* ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" -b two.json
    [[ $status -eq 0 && $output == *"$OPEN stands in the baseline and is not checked"* ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" "$PLAN" -b two.json
    refused 2
    run --separate-stderr "$MOSAIC" check "$PLAN" none.yaml -b two.json --update
    [[ $status -ne 0 && -z $output && $(grep -c '"file"' two.json) -eq 2 ]]
}

@test "another model or layout of a planned file is said" {
    tree
    "$MOSAIC" check "$OPEN" -b open.json --update >/dev/null
    run --separate-stderr "$MOSAIC" check "$OPEN" -b open.json --set 'cluster.device.memory=60 GB'
    [[ $status -eq 7 && $output == *'The model is '*', it was '* ]]
}

@test "where a plan chooses its nodes, its choice is checked and compared; predict asks for one number" {
    tree
    small=(--set 'search.geometry.q=[4]' --set 'search.geometry.experts=[16]' --set 'search.geometry.top_k=[2]'
        --set 'search.geometry.granularity=[1]')
    for nodes in '[2, 4, 8]' '[8]'; do
        "$MOSAIC" check "$OPEN" -b "nodes-${#nodes}.json" --update "${small[@]}" --set "search.nodes=$nodes" >/dev/null
    done
    "$MOSAIC" plan "$OPEN" "${small[@]}" --set nodes=8 -f json >plan.json
    loss=$(sed -n 's/^ *"loss": \([0-9.]*\).*/\1/p' plan.json | head -n 1)
    [[ -n $loss ]]
    for file in nodes-*.json; do
        grep -q "\"loss\": $loss" "$file"
    done
    run "$MOSAIC" compare "$OPEN" "$OPEN" "${small[@]}" --set 'search.nodes=[2, 8]' -f json
    [[ $status -eq 0 && $output == *"\"loss\": $loss"* ]]
    run --separate-stderr "$MOSAIC" predict "$PLAN" --set 'search.nodes=[16, 32]'
    refused 3
    [[ $stderr == *'not pinned: nodes (2 values)'* ]]
    run "$MOSAIC" predict "$PLAN" --set 'search.nodes=[16]'
    [[ $status -eq 0 && $output == *'On 16 nodes'* ]]
}

@test "with a target loss days, GPU-hours and cost are compared, and tokens are not" {
    tree
    target=(--set "budget={target_loss: 1.45, days: 60}" --set objective=cost)
    "$MOSAIC" check "$PLAN" "$OPEN" -b target.json "${target[@]}" --set cluster.price="4 USD/h" --update >/dev/null
    fits_schema "$PWD/target.json"
    [[ $(grep -c "\"cost_usd\"" target.json) -eq 2 && $(grep -c "\"tokens\"" target.json) -eq 0 ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" "$OPEN" -b target.json "${target[@]}" --set cluster.price="4 USD/h" -f json
    [[ $status -eq 0 && $output == *"\"same\": 16"* ]]
    # Dearer GPUs cost more of the same hours.
    run --separate-stderr "$MOSAIC" check "$PLAN" -b target.json "${target[@]}" --set cluster.price="5 USD/h" -f csv
    [[ $status -eq 7 && $(verdict cost_usd <<<"$output") == regression && $(verdict gpu_hours <<<"$output") == same ]]
    # Slower steps take longer, and the tolerance of each is its own.
    slow=("${target[@]}" --set cluster.price="4 USD/h" --set calibration.gemm.bf16.share=0.666 --tolerance "all=5 %")
    run --separate-stderr "$MOSAIC" check "$PLAN" -b target.json "${slow[@]}"
    [[ $status -eq 0 ]]
    run --separate-stderr "$MOSAIC" check "$PLAN" -b target.json "${slow[@]}" --tolerance "days=1 h" -f json
    [[ $status -eq 7 && $output == *"\"regressions\": 1"* && $output == *"\"basis\": \"absolute\""* ]]
    fits_schema <(echo "$output") || { echo "$output" >out.json; fits_schema "$PWD/out.json"; }
    # Without a price there is no cost; tokens of a baseline from before are not asked for.
    "$MOSAIC" check "$PLAN" -b target.json "${target[@]}" --update >/dev/null
    [[ $(grep -c cost_usd target.json) -eq 0 ]]
    sed "s/\"loss\": /\"tokens\": 1, &/" target.json >before.json
    run "$MOSAIC" check "$PLAN" -b before.json "${target[@]}"
    [[ $status -eq 0 ]]
}

@test "JUnit: well-formed, a suite a file, a case a metric, a failure a regression" {
    tree
    cp "$PLAN" 'configs/examples/a&b <"c">.yaml'
    "$MOSAIC" check "$PLAN" 'configs/examples/a&b <"c">.yaml' -b two.json --update >/dev/null
    run "$MOSAIC" check "$PLAN" 'configs/examples/a&b <"c">.yaml' -b two.json --junit junit.xml \
        --set calibration.gemm.bf16.share=0.666
    [[ $status -eq 7 ]]
    [[ $(grep -c '<testsuite ' junit.xml) -eq 2 && $(grep -c '</testsuite>' junit.xml) -eq 2 ]]
    [[ $(grep -c '<testcase ' junit.xml) -eq 12 && $(grep -c '<failure ' junit.xml) -eq 8 ]]
    grep -q '<testsuites name="mosaic check" tests="12" failures="8">' junit.xml
    grep -q 'name="configs/examples/a&amp;b &lt;&quot;c&quot;&gt;.yaml"' junit.xml
    grep -q 'gemm_s +' junit.xml
    ! command -v xmllint >/dev/null || xmllint --noout junit.xml
    run "$MOSAIC" check "$PLAN" -b b.json --junit missing/junit.xml
    [[ $status -eq 4 ]]
}

@test "annotations: an error a regression, escaped, on standard error alone" {
    tree
    cp "$PLAN" 'configs/examples/50%,a:b.yaml'
    "$MOSAIC" check 'configs/examples/50%,a:b.yaml' -b b.json --update >/dev/null
    run --separate-stderr "$MOSAIC" check 'configs/examples/50%,a:b.yaml' -b b.json --annotations \
        --set calibration.gemm.bf16.share=0.666
    [[ $status -eq 7 && $output != *::error* ]]
    [[ $(grep -c '^::error file=configs/examples/50%25%2Ca%3Ab.yaml,title=' <<<"$stderr") -eq 4 ]]
    [[ $stderr == *'mfu is worse::'*' %25 -> '*'gemm_s +'* ]]
}

@test "tolerances that cannot be meant are refused" {
    tree
    for bad in mfu=1 'mfu=100 %' mfu=-0.1 'mfu=0.01 nat' 'loss=1 s' 'loss=x nat' 'step_time_s=1 GiB' speed=0.1 mfu=; do
        run --separate-stderr "$MOSAIC" check "$PLAN" -b b.json --tolerance "$bad"
        refused 2
    done
    run --separate-stderr "$MOSAIC" check "$PLAN" -b b.json --tolerance 'lossy=1 %'
    [[ $stderr == *"did you mean 'loss'?"* ]]
}

@test "results are the same bytes on any number of threads, in every format" {
    tree
    for format in table json csv yaml; do
        "$MOSAIC" check "$PLAN" "$PLAN.x" -b b.json -f "$format" >/dev/null 2>&1 && return 1
        cmp <("$MOSAIC" check "$PLAN" -b b.json -f "$format" --threads 1) \
            <("$MOSAIC" check "$PLAN" -b b.json -f "$format" --threads 2)
    done
    "$MOSAIC" check "$PLAN" -b b.json -f json >ok.json
    fits_schema "$PWD/ok.json"
}

@test "the example of the manual passes" {
    "$MOSAIC" check "$PLAN" --baseline configs/examples/baseline.json
}

@test "U91: pass, regression, bad input and infeasible differ in status" {
    tree
    run "$MOSAIC" check "$PLAN" -b b.json
    [[ $status -eq 0 ]]
    run "$MOSAIC" check "$PLAN" -b b.json --set calibration.gemm.bf16.share=0.666
    [[ $status -eq 7 ]]
    run "$MOSAIC" check "$PLAN" -b b.json --set calibration.gemm.bf16.share=half
    [[ $status -eq 3 ]]
    run "$MOSAIC" check "$PLAN" -b b.json --set search.layout.ep=7
    [[ $status -eq 3 ]]
    run "$MOSAIC" predict "$PLAN" --set 'cluster.device.memory=1 GB'
    [[ $status -eq 1 ]]
}
