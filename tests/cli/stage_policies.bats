#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Stages that recompute differently: chosen, stated, shown, refused.

load common

engine='{schema: mosaic-engine/1, name: own, version: "1", uneven_stages: true,
  recompute_per_stage: true, interleaved_batches_divide: true, kv_replication: true,
  vocab_pad_unit: 128}'
stages='[{layers: 30, recompute: full}, {layers: 31, recompute: none}]'

# COMMAND [options]: DeepSeek-V3 on 1024 H100
deepseek() {
    "$MOSAIC" "$1" configs/examples/predict-table4.yaml --set nodes=128 \
        --set cluster=configs/clusters/p5-h100.yaml --set calibration=generic \
        --set workload.global_batch=4096 --set workload.sequence=4096 \
        --set model=configs/models/deepseek-v3.yaml --set "engine=$engine" \
        --set search.layout.tp=2 --set search.layout.ep=32 --set search.layout.micro_batch=1 \
        "${@:2}"
}

@test "each stage's recomputation is shown, and the layout's is the most of them" {
    run deepseek predict --set search.layout.pp=2 --set search.layout.recompute=full \
        --set "search.layout.stages=$stages"
    [[ $output == *'up to full recompute'* ]]
    [[ $output == *'recompute of each stage: full x 1, none x 1'* ]]
}

@test "a list of policies lets each stage have its own, and no layout is slower for it" {
    local alike mixed
    local axes=(--set search.layout.pp=16 --set 'search.layout.recompute=[none, selective, full]')
    mixed=$(deepseek layout "${axes[@]}" -f json | sed -n 's/.*"step_time_s": //p' | head -n 1)
    alike=$(engine=${engine/stage: true/stage: false} deepseek layout "${axes[@]}" -f json |
        sed -n 's/.*"step_time_s": //p' | head -n 1)
    awk -v a="${mixed%,}" -v b="${alike%,}" 'BEGIN { exit !(a > 0 && a < b) }'
    run deepseek layout "${axes[@]}"
    [[ $output == *'recompute of each stage: '*' x '*', '* ]]
}

@test "an engine with one policy for all refuses two, with its name" {
    run --separate-stderr deepseek predict --set search.layout.pp=2 \
        --set search.layout.recompute=full --set "search.layout.stages=$stages" \
        --set 'engine={name: megatron, version: "2026.08"}'
    [[ $status -eq 3 ]]
    [[ $stderr == *'not launchable on megatron 2026.08: all of its stages recompute alike'* ]]
}
