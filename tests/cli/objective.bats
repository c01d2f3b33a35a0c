#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# What a plan may be best at, the number of nodes as an axis, Pareto sets, limits, and spaces that hold
# nothing, one point, or contradict themselves.

load common

PLAN=configs/p6-b200-4n-5d.yaml

plan() { "$MOSAIC" plan --format json "$PLAN" "$@"; }
# value KEY FILE: the first number of that name
value() { sed -nE "s/^ *\"$1\": \"?([^,\"]*)\"?,?$/\1/p" "$2" | head -1; }
# of_best KEY FILE: the same, of the best plan
of_best() { sed -n '/^  "best": {/,/^  }/p' "$2" | sed -nE "s/^    \"$1\": \"?([^,\"]*)\"?,?$/\1/p"; }

@test "the least time to a loss: days, GPU-hours and USD, no differences in nats" {
    json=$BATS_TEST_TMPDIR/plan
    plan --set 'budget={target_loss: 1.65}' --set cluster.price='4 USD/h' >"$json"
    fits_schema "$json"
    [[ $(value objective "$json") == time && $(of_best loss "$json") == 1.65* ]]
    awk -v days="$(of_best days "$json")" -v hours="$(of_best gpu_hours "$json")" \
        -v usd="$(of_best cost_usd "$json")" 'BEGIN {
            exit !(days > 1 && hours / (days * 24 * 32) - 1 < 1e-9 && usd / (4 * hours) - 1 < 1e-9) }'
    [[ $(value gap_days "$json") == 0.0 && -z $(value gap_nats "$json") ]]
    [[ -n $(value days_low "$json") && -z $(value loss_low "$json") ]]
    grep -q '"days_deliverable"' "$json"
    run --separate-stderr "$MOSAIC" plan "$PLAN" --set 'budget={target_loss: 1.65}'
    [[ $status -eq 0 && $output == *"It takes "*" days: "*" GPU-hours."* ]]
    [[ $output == *"Days to the target by sparsity"* && $output == *"+days"* ]]
    [[ $output != *"nats worse"* && $output != *"+nats"* ]]
}

@test "the least cost is in USD, in GPU-hours where no price is stated" {
    json=$BATS_TEST_TMPDIR/plan
    plan --set 'budget={target_loss: 1.65}' --set objective=cost >"$json"
    fits_schema "$json"
    [[ $(value gap_gpu_hours "$json") == 0.0 ]]
    plan --set 'budget={target_loss: 1.65}' --set objective=cost --set cluster.price='4 USD/h' >"$json"
    fits_schema "$json"
    [[ $(value gap_usd "$json") == 0.0 ]]
    grep -q '"cost_usd_low"' "$json"
}

@test "most tokens: an order by tokens, and no word of nats" {
    run --separate-stderr "$MOSAIC" plan "$PLAN" --set objective=tokens
    [[ $status -eq 0 && $output == *"-tokens"* && $output == *"Tokens by sparsity"* ]]
    [[ $output != *"nats worse"* ]]
}

@test "a loss out of reach: exit 1, the loss and the days that are in reach" {
    json=$BATS_TEST_TMPDIR/plan
    plan --set 'budget={target_loss: 1.55, days: 5}' >"$json" && false
    fits_schema "$json"
    [[ $(value limit "$json") == target_loss ]]
    awk -v least="$(value least_loss "$json")" -v days="$(value days_needed "$json")" \
        'BEGIN { exit !(least > 1.55 && days > 5) }'
    # No more than the tokens that may be had: a minute buys none of them.
    plan --set 'budget={target_loss: 1.6, duration: 1 min}' >"$json" && false
    fits_schema "$json"
    [[ -z $(value least_loss "$json") ]]
    grep -q 'buys no model of the space the tokens' "$json"
}

@test "a target below the least tokens per parameter is trained on, which is said" {
    run --separate-stderr "$MOSAIC" plan "$PLAN" --set 'budget={target_loss: 2.2}'
    [[ $status -eq 0 && $(tr -s '\n ' ' ' <<<"$output") == *"the target is reached below the declared least"* ]]
}

@test "numbers of nodes: the best of the single plans, fewer of equal ones" {
    json=$BATS_TEST_TMPDIR/plan
    plan --set 'budget={gpu_hours: 3840}' --set search.nodes='{from: 2, to: 8, factor: 2}' >"$json"
    fits_schema "$json"
    [[ $(sed -n '/"by_nodes"/,/^  \]/p' "$json" | grep -c '"nodes"') -eq 3 ]]
    for nodes in 2 4 8; do
        plan --set 'budget={gpu_hours: 3840}' --set nodes=$nodes >"$json.$nodes"
        printf '%s %s\n' "$(of_best loss "$json.$nodes")" "$nodes"
    done | sort -g | head -1 >"$json.least"
    read -r loss nodes <"$json.least"
    [[ $(of_best loss "$json") == "$loss" ]]
    [[ $(sed -n '/^  "cluster"/,/^  }/p' "$json" | sed -nE 's/^ *"nodes": ([0-9]+).*/\1/p') == "$nodes" ]]
    # The plan itself is that of the number by itself.
    diff <(sed -n '/^  "best": {/,/^  }/p' "$json") <(sed -n '/^  "best": {/,/^  }/p' "$json.$nodes")
    diff <(sed -n '/^  "proof": {/,/^  }/p' "$json") <(sed -n '/^  "proof": {/,/^  }/p' "$json.$nodes")
}

@test "numbers of nodes: threads change nothing" {
    for threads in 1 2; do
        plan --set search.nodes='[2, 4]' --set 'search.pareto={days: [2, 5], memory: [70 %, 100 %]}' \
            --threads "$threads" >"$BATS_TEST_TMPDIR/$threads"
    done
    cmp "$BATS_TEST_TMPDIR/1" "$BATS_TEST_TMPDIR/2"
    fits_schema "$BATS_TEST_TMPDIR/1"
}

@test "a Pareto set: no row beats another, and the table has it" {
    json=$BATS_TEST_TMPDIR/plan
    set -- --set search.nodes='[2, 4]' --set 'search.pareto={days: [2, 5], memory: [50 %, 100 %]}' \
        --set cluster.price='4 USD/h'
    plan "$@" >"$json"
    fits_schema "$json"
    sed -n '/^  "pareto"/,/^  \]/p' "$json" | awk -F'[:,]' '
        /"gpus"/ { gpus = $2 } /"memory_share"/ && !/peak/ { share = $2 } /"loss"/ { loss = $2 }
        /"days"/ && !/budget/ { days = $2 } /"cost_usd"/ { usd = $2 }
        /^    }/ { print loss, days, gpus, share, usd }' >"$json.rows"
    [[ $(wc -l <"$json.rows") -ge 4 ]]
    awk '{ for (i = 1; i <= 5; i++) v[NR, i] = $i }
         END { for (a = 1; a <= NR; a++) for (b = 1; b <= NR; b++) { if (a == b) continue
             worse = 0; for (i = 1; i <= 5; i++) worse += v[a, i] > v[b, i]
             if (!worse) exit 1 } }' "$json.rows"
    run --separate-stderr "$MOSAIC" plan "$PLAN" "$@"
    [[ $output == *"What no other plan beats in loss, days, GPUs, memory and price"* ]]
    [[ $output == *"The best plan by number of nodes"* && $output == *"<- this plan"* ]]
}

@test "the best interval of checkpoints: taken, reported, missed" {
    json=$BATS_TEST_TMPDIR/plan
    figures='mtbf_per_node: 200 day, checkpoint_time: 2 min, restart_time: 10 min'
    plan --set "budget={days: 5, goodput: {checkpoint_interval: best, $figures}}" >"$json"
    fits_schema "$json"
    best=$(value interval_s "$json")
    [[ $best == "$(value best_interval_s "$json")" ]]
    [[ $(grep -c 'leaves a goodput' "$json") -eq 0 ]]
    plan --set "budget={days: 5, goodput: {checkpoint_interval: 20 min, $figures}}" >"$json"
    [[ $best == "$(value best_interval_s "$json")" ]]
    grep -q 'a checkpoint every 20 min leaves a goodput of .* (checkpoint_interval: best)' "$json"
}

@test "a limit gives the best so far, its gap and status limit" {
    json=$BATS_TEST_TMPDIR/plan
    exact=$(plan | sed -n '/^  "best": {/,/^  }/p' | sed -nE 's/^    "loss": ([^,]*),?$/\1/p')
    plan --geometry-limit 1 >"$json"
    fits_schema "$json"
    [[ $(value status "$json") == limit ]]
    awk -v loss="$(of_best loss "$json")" -v gap="$(value gap_nats "$json")" -v exact="$exact" \
        'BEGIN { exit !(loss > exact && loss - gap <= exact) }'
    plan --geometry-limit 1 --set 'budget={target_loss: 1.65}' >"$json"
    fits_schema "$json"
    [[ $(value status "$json") == limit && -n $(value gap_days "$json") ]]
    run --separate-stderr "$MOSAIC" plan "$PLAN" --time-limit '1 ns' --format json
    echo "$output" >"$json"
    fits_schema "$json"
    [[ $(value status "$json") == limit ]]
}

@test "SIGINT in a Pareto set prints the plan and what there is of the set, exit 130" {
    json=$BATS_TEST_TMPDIR/plan
    days=$(seq -s, 1 20)
    run --separate-stderr timeout --foreground -s INT --preserve-status -k 60 2 \
        "$MOSAIC" plan configs/p6-b200-32n-20d.yaml --format json --set search.nodes='{from: 1, to: 32, step: 1}' \
        --set "search.pareto={days: [$days], memory: [50 %, 60 %, 70 %, 80 %, 90 %, 100 %]}" -o "$json"
    [[ $status -eq 130 ]]
    fits_schema "$json"
    grep -qE 'the Pareto set is of [0-9]+ of the 3840 points|numbers of nodes are not tried' "$json"
}

@test "the size of a space is said where somebody asks" {
    run --separate-stderr "$MOSAIC" plan "$PLAN" -v
    [[ $status -eq 0 && $stderr == *"the space holds 787 geometries, about "*" layouts; 1 search"* ]]
    run --separate-stderr "$MOSAIC" plan "$PLAN"
    [[ $status -eq 0 && -z $stderr ]]
}

@test "values that are never taken" {
    json=$BATS_TEST_TMPDIR/plan
    plan --set 'search.layout.ep={not: [8, 16, 32, 64, 128]}' --set 'search.layout.pp={not: [1]}' >"$json"
    fits_schema "$json"
    [[ $(value ep "$json") -lt 8 && $(value pp "$json") -gt 1 ]]
}

@test "contradictions are refused, exit 3, before anything is searched" {
    for set in 'search.nodes={from: 8, to: 2, step: 1}' 'search.nodes=[]' \
        'search.geometry.sparsity=[0.9, 0.7]' 'search.tokens.per_active_parameter=[150, 40]' \
        'search.layout.tp=[3]' 'search.layout.ep={from: 2, to: 8, factor: 2, not: [2, 4, 8]}' \
        'search.geometry.q=[]' 'budget.days=1e308' 'budget.days=nan' 'cluster.price=nan USD/h' \
        'limits.n_total=1'; do
        run --separate-stderr timeout 5 "$MOSAIC" plan --format json "$PLAN" --set "$set"
        refused 3 || { echo "for $set" && false; }
    done
}

@test "a space of one point is proved by itself" {
    json=$BATS_TEST_TMPDIR/plan
    "$MOSAIC" plan configs/examples/predict-table4.yaml --format json >"$json"
    fits_schema "$json"
    [[ $(value status "$json") == optimal && $(value gap_nats "$json") == 0.0 ]]
}

@test "results without a plan are JSON and nothing else" {
    for set in 'budget.days=0.0001' 'cluster.device.memory=1 GB' 'search.layout.pp=[32]' \
        'budget={target_loss: 0.5}' 'search.nodes=[1, 2]'; do
        json=$BATS_TEST_TMPDIR/plan
        run --separate-stderr timeout 20 "$MOSAIC" plan --format json "$PLAN" --set "$set" \
            --set 'limits.n_active=12 G'
        [[ $status -le 1 && ${output:0:1} == '{' ]] || { echo "for $set: $status" && false; }
        echo "$output" >"$json"
        fits_schema "$json"
    done
}
