#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Rules of target engines: what shipped documents refuse, with the features named.

load common

# predict of the pinned example on an engine
predicted() {
    "$MOSAIC" predict "$PREDICT" --set "engine={name: $1, version: \"$2\"}" "${@:3}"
}

# The job is refused on megatron 2026.08 with this text; further arguments are settings
not_on_megatron() {
    local text=$1
    shift
    run --separate-stderr predicted megatron 2026.08 "$@"
    [[ $status -ne 0 && $stderr == *"not launchable on megatron 2026.08: $text"* ]] ||
        { echo "$status: $stderr" && return 1; }
}

@test "every engine document is valid and says where each of its rules comes from" {
    local file
    for file in configs/engines/*.yaml; do
        "$MOSAIC" lint "$file"
        awk '/^  - features:/ { rules++ } /^    text:/ { texts++ } /^    source:/ { sources++ }
            END { exit !(rules + 0 == texts + 0 && rules + 0 == sources + 0) }' "$file" ||
            { echo "$file" && return 1; }
        grep -q '^source: ' "$file"
    done
}

@test "a captured router and recomputed experts are refused as a pair (U39)" {
    set -- --set execution.cuda_graphs=module --set search.layout.recompute=selective
    not_on_megatron 'recompute_experts + cuda_graphs_router' "$@" --set 'execution.selective=[experts]'
    [[ $stderr == *'NVIDIA/Megatron-LM#3000'* ]]
    predicted megatron 2026.08 "$@" --set 'execution.selective=[norm]'
    # no rule of that engine
    predicted torchtitan 2025.12 "$@" --set 'execution.selective=[experts]'
}

@test "hiding the all-to-all on several stages needs chunks" {
    set -- --set execution.overlap=ep --set search.layout.pp=2 --set search.layout.recompute=none
    not_on_megatron 'pp 2 + overlap_ep without vpp' "$@"
    [[ $stderr == *'add vpp, or leave one of them out'* ]]
    run --separate-stderr predicted megatron 2026.08 "$@" --set search.layout.vpp=2
    [[ $output == *VPP2* && $stderr != *launchable* ]] # it may not fit
    not_on_megatron 'recompute_full + overlap_ep' --set execution.overlap=ep \
        --set search.layout.pp=1 --set search.layout.recompute=full
}

@test "schedules and cuts of the context that Megatron does not run" {
    not_on_megatron 'zero_bubble' --set search.layout.schedule=zero_bubble --set search.layout.vpp=1
    [[ $stderr == *'1F1B or interleaved 1F1B'*'leave it out'* ]]
    not_on_megatron 'dualpipe' --set search.layout.schedule=dualpipe --set search.layout.vpp=1 \
        --set search.layout.micro_batch=1
    not_on_megatron 'contiguous_context' --set execution.context_shards=contiguous \
        --set search.layout.cp=2 --set search.layout.ep=1
    predicted megatron 2026.08 --set execution.context_shards=contiguous # CP 1: nothing to cut
    run --separate-stderr predicted torchtitan 2026.08 --set execution.context_shards=contiguous \
        --set search.layout.cp=2 --set search.layout.ep=1
    [[ $stderr != *launchable* ]] # it may not fit
}

@test "one engine, two versions, two answers" {
    set -- --set execution.cuda_graphs=full --set execution.dispatcher=hybridep
    predicted megatron 2026.08 "$@"
    run --separate-stderr predicted megatron 2026.01 "$@"
    [[ $status -ne 0 && $stderr == *'megatron 2026.01: cuda_graphs_full + moe'* ]]
    not_on_megatron 'cuda_graphs_full + moe without hybridep' --set execution.cuda_graphs=full
}

@test "a search leaves out what the engine refuses" {
    set -- --set execution.overlap=ep --set 'search.layout.recompute=[selective, full]' \
        --set 'search.layout.vpp=[1, 2]' --set search.layout.micro_batch=2
    run --separate-stderr "$MOSAIC" plan "$PREDICT" "$@"
    [[ $status -eq 0 && $output == *'PP8 VPP2'*'selective recompute'* ]]
    # neither one chunk a stage nor whole layers: one of four is left
    [[ $output =~ 'points excluded engine rules'\ +3 ]]
}

@test "words that are no features are named with the nearest one" {
    run --separate-stderr "$MOSAIC" lint configs/engines/megatron-2026.08.yaml \
        --set 'conflicts=[{features: [overlap_epp], text: a, source: b}]'
    refused 3
    [[ $stderr == *overlap_epp* && $stderr == *overlap_ep* ]]
    run --separate-stderr "$MOSAIC" lint configs/engines/megatron-2026.08.yaml \
        --set 'conflicts=[{features: [ep], unless: [ep], text: a, source: b}]'
    refused 3
    [[ $stderr == *"'ep' is in 'features' too"* ]]
}
