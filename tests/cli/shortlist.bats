#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The decision under the step model's error: the shortlist, the table to fill in and what it brings back.
# shellcheck disable=SC2154 # run sets stderr

load common

PLAN=configs/p6-b200-4n-5d.yaml

plan() { "$MOSAIC" plan --format json "$PLAN" "$@"; }
# value KEY FILE: the first number or text of that name
value() { sed -nE "s/^ *\"$1\": \"?([^,\"]*)\"?,?$/\1/p" "$2" | head -1; }
# part KEY FILE: one key of the result
part() { sed -n "/^  \"$1\": [{[]/,/^  []}]/p" "$2"; }
# template FILE: the table to fill in
template() { sed -nE 's/^  "shortlist_template": "(.*)",?$/\1/p' "$1" | sed 's/\\n/\n/g' | sed '/^$/d'; }
# predicted FILE: the predicted step of each layout of the shortlist
predicted() { part shortlist "$1" | sed -nE 's/^ *"step_time_s": ([^,]*),?$/\1/p'; }
# measured FACTOR...: the table with each prediction times a factor
measured() {
    template "$BATS_FILE_TMPDIR/plan" | head -1
    paste -d ' ' <(template "$BATS_FILE_TMPDIR/plan" | sed 1d) <(predicted "$BATS_FILE_TMPDIR/plan") \
        <(printf '%s\n' "$@") | awk 'NF > 2 { row = $1; for (i = 2; i < NF - 1; i++) row = row " " $i
            printf "%s%.17g\n", row, $(NF - 1) * $NF }'
}

setup_file() {
    cd "$ROOT" || return 1
    plan >"$BATS_FILE_TMPDIR/plan"
}

@test "the decision and its shortlist: shares that sum to 1, regret that falls" {
    json=$BATS_FILE_TMPDIR/plan
    fits_schema "$json"
    [[ $(value draws "$json") == 4096 ]]
    part decision "$json" | awk -F'[:,]' '/"share"/ { sum += $2 } END { exit !(sum > 0.5 && sum <= 1 + 1e-9) }'
    part decision "$json" | sed -n '/"winners"/,$p' | grep -m1 '"plan"' | grep -q true
    part shortlist "$json" | awk -F'[:,]' -v last="$(value regret_nats "$json")" '
        /"regret_after_nats"/ { if (!($2 < last)) exit 1; last = $2; n++ } END { exit !(n >= 3 && n <= 5) }'
    [[ $(template "$json" | head -1) == id,step_time_s ]]
    [[ $(template "$json" | sed 1d | cut -d, -f1) == "$(part shortlist "$json" | sed -nE 's/^ *"id": "(.*)",?$/\1/p')" ]]
}

@test "the table says how sure the plan is, and what to fill in" {
    run --separate-stderr "$MOSAIC" plan "$PLAN"
    text=$(tr -s '\n ' ' ' <<<"$output")
    [[ $status -eq 0 && $text == *"Under the step model's own error the plan is the best of "* ]]
    [[ $text == *"Short runs of the "*" layouts below would leave "* ]]
    [[ $output == *"Short runs that would settle it"* && $output == *"decides between the plan's "* ]]
    while read -r line; do
        [[ $output == *"    $line"* ]]
    done < <(template "$BATS_FILE_TMPDIR/plan")
}

@test "seed and threads: the one decides, the other does not" {
    for threads in 1 2; do
        plan --threads "$threads" --seed 7 >"$BATS_TEST_TMPDIR/$threads"
    done
    cmp "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
    run ! cmp -s <(part decision "$BATS_TEST_TMPDIR/1") <(part decision "$BATS_FILE_TMPDIR/plan")
}

@test "as predicted: the plan stays, its regret falls" {
    json=$BATS_TEST_TMPDIR/plan
    measured 1 1 1 1 1 >"$BATS_TEST_TMPDIR/steps.csv"
    plan --measured "$BATS_TEST_TMPDIR/steps.csv" >"$json"
    fits_schema "$json"
    [[ $(value changes_plan "$json") == false ]]
    part measured "$json" | awk -F'[:,]' '/"regret_nats"/ { r[++n] = $2 } /"ratio"/ { if ($2 < 0.999999 || $2 > 1.000001) exit 1 }
        END { exit !(n == 2 && r[2] < r[1]) }'
    [[ $(value loss <(part best "$json")) == "$(value loss <(part best "$BATS_FILE_TMPDIR/plan"))" ]]
}

@test "another than predicted: the space is searched anew with the models anchored" {
    json=$BATS_TEST_TMPDIR/plan
    measured 1.3 1.3 0.8 1.3 1.3 >"$BATS_TEST_TMPDIR/steps.csv"
    plan --measured "$BATS_TEST_TMPDIR/steps.csv" >"$json"
    fits_schema "$json"
    [[ $(value changes_plan "$json") == true ]]
    grep -q '"anchored"' "$json"
    run --separate-stderr "$MOSAIC" plan "$PLAN" --measured "$BATS_TEST_TMPDIR/steps.csv"
    [[ $status -eq 0 && $output == *"What the measured steps change"* && $output == *"before "*"now "* ]]
    [[ $(tr -s '\n ' ' ' <<<"$output") == *"the plan changes; before it was"* ]]
    # The next list takes the rows of this one along.
    { cat "$BATS_TEST_TMPDIR/steps.csv" && template "$json" | sed 1d; } >"$BATS_TEST_TMPDIR/more.csv"
    plan --measured "$BATS_TEST_TMPDIR/more.csv" >"$json.more"
    diff <(part best "$json") <(part best "$json.more")
    [[ $(value empty "$json.more") -ge 3 ]]
}

@test "several rows of an id, further columns, blank lines and comments" {
    measured 1.1 1 1 1 1 >"$BATS_TEST_TMPDIR/steps.csv"
    json=$BATS_TEST_TMPDIR/plan
    { echo '# run of Monday' && awk -F, -v OFS=, 'NR == 1 { print "note", $0 } NR > 1 { print "a", $0; print "b", $0; print "" }' \
        "$BATS_TEST_TMPDIR/steps.csv"; } >"$BATS_TEST_TMPDIR/wide.csv"
    plan --measured "$BATS_TEST_TMPDIR/wide.csv" >"$json"
    fits_schema "$json"
    [[ $(value steps <(part measured "$json")) == 2 ]]
    plan --measured "$BATS_TEST_TMPDIR/steps.csv" >"$json.once"
    diff <(part best "$json") <(part best "$json.once")
}

# bad TABLE PATTERN: refused with this said, at a line
bad() {
    printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/bad.csv"
    run --separate-stderr "$MOSAIC" plan "$PLAN" --measured "$BATS_TEST_TMPDIR/bad.csv"
    refused 3
    [[ $(tr -s '\n' ' ' <<<"$stderr") == *$2* ]] || { echo "not '$2' but: $stderr" && false; }
}

@test "a table that matches nothing, has no unit, or nothing in it" {
    id=$(template "$BATS_FILE_TMPDIR/plan" | sed -n 2p | cut -d, -f1)
    step=$(predicted "$BATS_FILE_TMPDIR/plan" | head -1)
    head=id,step_time_s
    bad "$head
L1-d1-E1-K1-G1-000000 pp=1 micro_batch=1,2.0" "bad.csv:2:1: error: row 1: no model of the plan is"
    bad "$head
${id/-E/-F},$step" "did you mean"
    bad "$head
$id micro_batch=2,$step" "is given twice"
    bad "$head
${id%% *} pp=7 ep=8 micro_batch=4 recompute=full,$step" "row 1: "
    bad "$head
${id%% *} ep=1024 micro_batch=4 recompute=full,$step" "row 1: "
    bad "$head
${id%% *} blocks=4,$step" "row 1: "
    bad "$head
$id,fast" "step_time_s"
    bad "$head
$id,2.5 s" "step_time_s"
    bad "$head
$id,-1" "must be above 0"
    bad "$head
$id,1e300" "must be above 0"
    bad "$head
$id,$(awk -v s="$step" 'BEGIN { print 1000 * s }')" "beyond 3 either way"
    bad "$head
$id,$(awk -v s="$step" 'BEGIN { print s / 1000 }')" "above 1"
    bad "id,step_time_ms
$id,2000" "step_time_s"
    bad "$head" "no row has a measured step"
    bad "$head
$id," "no row has a measured step"
    bad "" "error:"
    run --separate-stderr "$MOSAIC" plan "$PLAN" --measured "$BATS_TEST_TMPDIR/none.csv"
    refused 4
    run --separate-stderr "$MOSAIC" plan "$PLAN" --measured ''
    refused 2
}

@test "rows of a table of steps: the plan's own job, laid out in columns" {
    json=$BATS_TEST_TMPDIR/plan
    id=$(template "$BATS_FILE_TMPDIR/plan" | sed -n 2p | cut -d, -f1)
    axis() { sed -nE "s/.* $1=([^ ]*).*/\1/p" <<<"$id "; }
    step=$(predicted "$BATS_FILE_TMPDIR/plan" | head -1)
    head=id,model,n_gpus,seq_len,gbs,tp,pp,ep,mbs,recompute,step_time_s
    pp=$(axis pp)
    row="V1,${id%% *},32,,,1,${pp:-1},$(axis ep),$(axis micro_batch),$(axis recompute),$step"
    printf '%s\n%s\n' "$head" "$row" >"$BATS_TEST_TMPDIR/steps.csv"
    plan --measured "$BATS_TEST_TMPDIR/steps.csv" >"$json"
    fits_schema "$json"
    [[ $(value id <(part measured "$json")) == "$id" ]]
    bad "$head
${row/,32,/,64,}" "row 1: no model of the plan is 'V1'"
    bad "$head
${row/,${id%% *},/,Qwen3-30B-A3B,}" "row 1: no model of the plan is 'Qwen3-30B-A3B'"
}

@test "every bad row is shown" {
    id=$(template "$BATS_FILE_TMPDIR/plan" | sed -n 2p | cut -d, -f1)
    printf 'id,step_time_s\n%s,x\nL2 pp=1,3\n%s,0\n' "$id" "$id" >"$BATS_TEST_TMPDIR/bad.csv"
    run --separate-stderr "$MOSAIC" plan "$PLAN" --measured "$BATS_TEST_TMPDIR/bad.csv"
    refused 3
    [[ $(grep -c ': error:' <<<"$stderr") -eq 3 && $stderr == *:2:*:3:*:4:* ]]
}

@test "the time to a target: regret in days" {
    json=$BATS_TEST_TMPDIR/plan
    plan --set 'budget={target_loss: 1.65}' >"$json"
    fits_schema "$json"
    [[ -n $(value regret_days "$json") && -z $(value regret_nats "$json") ]]
    template "$json" >"$BATS_TEST_TMPDIR/empty.csv"
    paste -d '' "$BATS_TEST_TMPDIR/empty.csv" <(echo && predicted "$json") >"$BATS_TEST_TMPDIR/steps.csv"
    plan --set 'budget={target_loss: 1.65}' --measured "$BATS_TEST_TMPDIR/steps.csv" >"$json"
    fits_schema "$json"
}

@test "numbers of nodes and ways to run are part of an id" {
    json=$BATS_TEST_TMPDIR/plan
    set -- --set 'search.nodes=[2, 4]' --set 'search.execution={cuda_graphs: [none, router]}'
    plan "$@" >"$json"
    fits_schema "$json"
    template "$json" | sed 1d | grep -qE ' nodes=[24] .* cuda_graphs='
    paste -d '' <(template "$json") <(echo && predicted "$json") >"$BATS_TEST_TMPDIR/steps.csv"
    plan "$@" --measured "$BATS_TEST_TMPDIR/steps.csv" >"$json.then"
    fits_schema "$json.then"
    [[ $(value changes_plan "$json.then") == false ]]
}

@test "without a proof, or without a choice, there is no decision" {
    json=$BATS_TEST_TMPDIR/plan
    plan --geometry-limit 1 >"$json"
    fits_schema "$json"
    [[ -z $(part decision "$json") ]]
    "$MOSAIC" plan configs/examples/predict-table4.yaml --format json >"$json"
    fits_schema "$json"
    [[ -z $(part decision "$json") ]]
}
