#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Steps that somebody measured: what they change in predict, compare and plan, and what they do not.
# shellcheck disable=SC2154 # run sets stderr

load common

ANCHORED=configs/examples/anchored.yaml
# A step of Table 4's plan; its model is in no small space.
STEP='{model: {ladder: {q: 12, experts: 96, top_k: 2, granularity: 4}}, nodes: 32, sequence: 2048,
    global_batch: 1024, precision: bf16, layout: {pp: 8, ep: 8, micro_batch: 4, recompute: full},
    step_time: 2.55 s, source: "arXiv 2608.10605, Table 4"}'

# one KEY FILE: the number of a result in CSV
one() {
    awk -F, -v key="$1" '$1 == key { print $2 }' "$2"
}

@test "an anchored prediction says what the step changed" {
    "$MOSAIC" predict -f json "$ANCHORED" >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    "$MOSAIC" predict -f csv "$ANCHORED" >"$BATS_TEST_TMPDIR/out.csv"
    "$MOSAIC" predict -f csv "$ANCHORED" --set 'calibration.measured_steps=[]' >"$BATS_TEST_TMPDIR/plain.csv"
    [[ $(one prediction.anchored.steps "$BATS_TEST_TMPDIR/out.csv") == 1 ]]
    [[ -z $(one prediction.anchored.steps "$BATS_TEST_TMPDIR/plain.csv") ]]
    awk -v step="$(one prediction.step_time_s "$BATS_TEST_TMPDIR/out.csv")" \
        -v before="$(one prediction.anchored.step_time_before_s "$BATS_TEST_TMPDIR/out.csv")" \
        -v factor="$(one prediction.anchored.factor "$BATS_TEST_TMPDIR/out.csv")" \
        -v correction="$(one prediction.time_split.correction_s "$BATS_TEST_TMPDIR/out.csv")" \
        -v plain="$(one prediction.step_time_s "$BATS_TEST_TMPDIR/plain.csv")" 'BEGIN {
            near = 1e-12 * step
            exit !(factor != 1 && (step - factor * before) ^ 2 < near ^ 2 &&
                (before + correction - step) ^ 2 < near ^ 2 && (before - plain) ^ 2 < near ^ 2)
        }'
}

@test "the table has the factor and the correction" {
    run "$MOSAIC" predict "$ANCHORED"
    [[ $status -eq 0 && $output == *'anchored: 1 measured step of this model multiplies '* ]]
    [[ $output == *'anchoring correction'* ]]
    run "$MOSAIC" predict "$ANCHORED" --set 'calibration.measured_steps=[]'
    [[ $status -eq 0 && $output != *anchored:* && $output != *anchoring* ]]
}

@test "the basis of the interval names its situation and its sigma" {
    basis() {
        "$MOSAIC" predict -f csv "$@" | grep '^prediction.interval.basis'
    }
    [[ $(basis "$ANCHORED") == *'sigma 0.137: anchored by 1 measured step of the model'* ]]
    [[ $(basis "$ANCHORED" --set 'calibration.measured_steps=[]') == \
        *'sigma 0.25: uncalibrated, the generic interval.sigma_moe'* ]]
    [[ $(basis "$ANCHORED" --set 'calibration.measured_steps=[]' --set calibration.interval.sigma_moe=0.11) == \
        *'sigma 0.11: calibrated, interval.sigma_moe of calibration qwen3-30b-a3b-on-gb300'* ]]
}

@test "the interval narrows and follows the anchor's spreads" {
    "$MOSAIC" predict -f csv "$ANCHORED" --set calibration.anchor.between_models=0.3 \
        --set calibration.anchor.within_model=0.03 >"$BATS_TEST_TMPDIR/out.csv"
    awk -v sigma="$(one prediction.anchored.sigma "$BATS_TEST_TMPDIR/out.csv")" \
        -v step="$(one prediction.step_time_s "$BATS_TEST_TMPDIR/out.csv")" \
        -v high="$(one prediction.interval.high "$BATS_TEST_TMPDIR/out.csv")" 'BEGIN {
            want = sqrt(0.0009 + 0.09 * 0.0009 / 0.0909)
            exit !((sigma / want - 1) ^ 2 < 1e-20 && (log(high / step) / (1.6448536269514722 * want) - 1) ^ 2 < 1e-18)
        }'
}

@test "compare shows the correction beside the other terms" {
    sed 's/^calibration: .*/calibration: generic/; s|\.\./|configs/|' "$ANCHORED" >"$BATS_TEST_TMPDIR/plain.yaml"
    sed -i "s|configs/|$PWD/configs/|" "$BATS_TEST_TMPDIR/plain.yaml"
    "$MOSAIC" compare -f json "$BATS_TEST_TMPDIR/plain.yaml" "$ANCHORED" >"$BATS_TEST_TMPDIR/out.json"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    [[ $(grep -c '"step_time_before_s"' "$BATS_TEST_TMPDIR/out.json") -eq 1 ]]
    run "$MOSAIC" compare "$BATS_TEST_TMPDIR/plain.yaml" "$ANCHORED"
    [[ $status -eq 0 && $output == *'anchoring correction'* ]]
}

@test "a wrong step is refused at its place" {
    sed "s|\.\./models|$PWD/configs/models|" configs/examples/measured-steps.yaml >"$BATS_TEST_TMPDIR/steps.yaml"
    sed -i 's/^    step_time: .*/    step_time: 60 s/' "$BATS_TEST_TMPDIR/steps.yaml"
    run --separate-stderr "$MOSAIC" predict "$ANCHORED" --set "calibration=$BATS_TEST_TMPDIR/steps.yaml"
    refused 3
    [[ $stderr == *"steps.yaml:16:16: error: measured 60 s, predicted "*"beyond 3 either way"* ]]
    sed -i 's/ep: 8,/ep: 7,/' "$BATS_TEST_TMPDIR/steps.yaml"
    run --separate-stderr "$MOSAIC" predict "$ANCHORED" --set "calibration=$BATS_TEST_TMPDIR/steps.yaml"
    refused 3
    [[ $stderr == *'steps.yaml:14:18: error: EP 7 '* ]]
    sed -i 's/qwen3-30b-a3b.yaml/none.yaml/' "$BATS_TEST_TMPDIR/steps.yaml"
    run --separate-stderr "$MOSAIC" lint "$BATS_TEST_TMPDIR/steps.yaml"
    [[ $status -eq 4 && $stderr == *'steps.yaml:9:12: '*'none.yaml'* ]]
}

@test "a step far from its prediction is warned of" {
    run --separate-stderr "$MOSAIC" predict "$ANCHORED" --set 'calibration.measured_steps[0].step_time=11 s'
    [[ $status -eq 0 && $stderr == *'warning: measured 11 s, predicted '*' % apart'* ]]
    [[ $output == *'measured 11 s, predicted '* ]]
}

@test "a model that is not in the space changes no plan" {
    few=configs/p6-b200-4n-5d.yaml
    "$MOSAIC" plan -f json "$few" >"$BATS_TEST_TMPDIR/plain.json"
    "$MOSAIC" plan -f json "$few" --set "calibration.measured_steps=[$STEP]" >"$BATS_TEST_TMPDIR/out.json" \
        2>"$BATS_TEST_TMPDIR/err"
    fits_schema "$BATS_TEST_TMPDIR/out.json"
    grep -q 'no geometry of the plan equals it' "$BATS_TEST_TMPDIR/out.json"
    for file in plain out; do
        sed -e '/"provenance"/,/^  }/d' -e '/"warnings"/,/\]/d' "$BATS_TEST_TMPDIR/$file.json" >"$BATS_TEST_TMPDIR/$file"
    done
    cmp "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/out"
}

@test "a plan over anchored models has the factor, on any number of threads" {
    few=configs/p6-b200-4n-5d.yaml
    best=$("$MOSAIC" plan -f csv "$few" | head -2 | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR == 2 { printf "q: %d, experts: %d, top_k: %d, granularity: %d", $at["geometry.layers"] / 4,
            $at["geometry.experts"], $at["geometry.top_k"], $at["geometry.granularity"] }')
    step=${STEP/q: 12, experts: 96, top_k: 2, granularity: 4/$best}
    step=${step/nodes: 32/nodes: 4}
    step=${step/pp: 8, ep: 8/pp: 4, ep: 4}
    # Whatever the prediction is, one of these is within the factor of 3.
    for seconds in 2.5 5 10 20; do
        "$MOSAIC" plan -f json "$few" --threads 1 --set "calibration.measured_steps=[${step/2.55 s/$seconds s}]" \
            >"$BATS_TEST_TMPDIR/1.json" 2>/dev/null && break
    done
    fits_schema "$BATS_TEST_TMPDIR/1.json"
    grep -q '"step_time_before_s"' "$BATS_TEST_TMPDIR/1.json"
    "$MOSAIC" plan -f json "$few" --threads 2 --set "calibration.measured_steps=[${step/2.55 s/$seconds s}]" \
        >"$BATS_TEST_TMPDIR/2.json" 2>/dev/null
    cmp "$BATS_TEST_TMPDIR/1.json" "$BATS_TEST_TMPDIR/2.json"
}

@test "the calibration that a cluster names takes steps too" {
    sed "/^calibration:/d; s|\.\./|$PWD/configs/|" "$ANCHORED" >"$BATS_TEST_TMPDIR/plan.yaml"
    step='{model: configs/models/qwen3-30b-a3b.yaml, nodes: 2, sequence: 4096, global_batch: 512,
        precision: mxfp8, layout: {ep: 8, micro_batch: 8, recompute: none}, step_time: 5.9 s, source: own,
        execution: {dispatcher: hybridep, cuda_graphs: full, overlap: [tp, cp, ep, pp], gradients: bf16}}'
    "$MOSAIC" predict -f csv "$BATS_TEST_TMPDIR/plan.yaml" \
        --set "cluster.calibration.measured_steps=[$step, $step, $step]" >"$BATS_TEST_TMPDIR/out.csv"
    [[ $(one prediction.anchored.steps "$BATS_TEST_TMPDIR/out.csv") == 3 ]]
}

@test "a correction is named by its estimator, and ranks only when it is the largest part" {
    run "$MOSAIC" predict configs/examples/predict-table4-published.yaml
    [[ $output == *'published correction'* && $output != *'which no term'* ]]
    run "$MOSAIC" predict "$ANCHORED" --set 'calibration.measured_steps[0].step_time=16 s' \
        --set calibration.anchor.between_models=1
    tidy=$(tr -s ' \n' ' ' <<<"$output")
    [[ $tidy == *' % the correction by measured steps, which no term explains; the rest goes mostly to'* ]]
}

@test "a layout that does not fit says so, in MiB where GiB say nothing" {
    run --separate-stderr "$MOSAIC" predict "$PREDICT" --set 'cluster.device.memory=50 MB'
    [[ $status -eq 1 && $stderr == *'the layout does not fit in memory'* && $stderr != *'no feasible plan'* ]]
    [[ $output == *'THE LAYOUT DOES NOT FIT IN MEMORY'*'of 47.7 MiB usable'* ]]
}

@test "a prediction says where, with what batch and against which peak" {
    run "$MOSAIC" predict "$PREDICT"
    tidy=$(tr -s ' \n' ' ' <<<"$output")
    [[ $tidy == *'On 32 nodes of p6-b200 (256 GPUs, B200), 1024 sequences of 2048 tokens a step, in bf16 (dense bf16 peak, 2250 TFLOP/s)'* ]]
}
