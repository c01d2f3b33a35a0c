#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck disable=SC1090,SC1091,SC2016
# `mosaic export`: launch arguments of results, by engine; what is refused, and how it is named.

load common

# made NAME [SETTING...]: the pinned example's prediction as $BATS_TEST_TMPDIR/NAME.json
made() {
    "$MOSAIC" predict "$PREDICT" --format json --output "$BATS_TEST_TMPDIR/$1.json" "${@:2}"
}

# exported NAME [OPTION...]
exported() {
    "$MOSAIC" export "$BATS_TEST_TMPDIR/$1.json" "${@:2}"
}

# not_exported NAME TEXT [OPTION...]: refused with this text
not_exported() {
    run --separate-stderr exported "$1" "${@:3}"
    refused 3
    [[ $stderr == *"$2"* ]] || { echo "$stderr" && return 1; }
}

# A dense model as engines before experts had them.
dense() {
    cat >"$BATS_TEST_TMPDIR/dense.yaml" <<'MODEL'
schema: mosaic-model/1
name: dense
layers: 32
first_dense: 32
hidden: 4096
attention: gqa
heads: 32
kv_heads: 32
head_dim: 128
v_head_dim: 128
ffn_matrices: 2
dense_ffn: 16384
experts: 0
granularity: 1
vocab: 50257
tied: true
MODEL
    made dense --set "model=$BATS_TEST_TMPDIR/dense.yaml" --set search.layout.ep=1 --set nodes=4 "$@"
}

@test "the plan of Table 4 as Megatron-LM takes it" {
    made plan
    exported plan >"$BATS_TEST_TMPDIR/args.sh"
    # the shell reads it as the engine is to see it
    source "$BATS_TEST_TMPDIR/args.sh"
    run printf '%s\n' "${MOSAIC_ARGS[@]}"
    diff - <(printf '%s\n' "$output" | paste -sd ' ' | sed 's/ --/\n--/g' | sed 's/^--train-iters .*/--train-iters N/') <<'ARGS'
--num-layers 48
--hidden-size 6144
--ffn-hidden-size 15360
--num-attention-heads 48
--kv-channels 128
--group-query-attention
--num-query-groups 8
--swiglu
--untie-embeddings-and-output-weights
--make-vocab-size-divisible-by 128
--max-position-embeddings 2048
--num-experts 96
--moe-ffn-hidden-size 3840
--moe-router-topk 2
--moe-shared-expert-intermediate-size 3840
--moe-layer-freq ([0]*1+[1]*47)
--moe-grouped-gemm
--moe-token-dispatcher-type alltoall
--tensor-model-parallel-size 1
--context-parallel-size 1
--pipeline-model-parallel-size 8
--expert-model-parallel-size 8
--expert-tensor-parallel-size 1
--micro-batch-size 4
--global-batch-size 1024
--seq-length 2048
--train-iters N
--optimizer adam
--use-distributed-optimizer
--overlap-grad-reduce
--overlap-param-gather
--bf16
--recompute-granularity full
--recompute-method uniform
--recompute-num-layers 1
ARGS
    # steps x tokens of a step are the plan's tokens, to the last step
    local tokens
    tokens=$(sed -nE 's/^  "tokens": ([0-9.e+]+),?$/\1/p' "$BATS_TEST_TMPDIR/plan.json")
    awk -v tokens="$tokens" -v steps="$(sed -nE 's/^ *--train-iters //p' "$BATS_TEST_TMPDIR/args.sh")" \
        'BEGIN { each = 1024 * 2048; exit !(steps * each >= tokens && (steps - 1) * each < tokens) }'
    grep -q '^# left to you: learning rate' "$BATS_TEST_TMPDIR/args.sh"
    grep -q '^# 256 processes: 32 nodes of 8 GPUs' "$BATS_TEST_TMPDIR/args.sh"
}

@test "uneven stages become a layout string that reads back as the same stages (U38)" {
    made even
    [[ $(exported even) != *pipeline-model-parallel-layout* ]]
    made first --set 'search.layout.stages=[5, 7, 6, 6, 6, 6, 6, 6]'
    source <(exported first)
    local text
    text=$(printf '%s\n' "${MOSAIC_ARGS[@]}" | sed -n '/--pipeline-model-parallel-layout/{n;p;}')
    [[ $text == 'Et*5|t*7(|t*6)*6L' ]]
    made again --set "search.layout.stages=\"$text\""
    for name in first again; do
        sed -n '/"stages": \[/,/^    \]/p' "$BATS_TEST_TMPDIR/$name.json" >"$BATS_TEST_TMPDIR/$name.stages"
    done
    [[ -s $BATS_TEST_TMPDIR/first.stages ]]
    cmp "$BATS_TEST_TMPDIR/first.stages" "$BATS_TEST_TMPDIR/again.stages"
    # and the second is exported as the first was
    diff <(exported first | grep -v '^#') <(exported again | grep -v '^#')
    # chunks of equal length need none
    made vpp --set search.layout.vpp=2 --set search.layout.recompute=full
    [[ $(exported vpp) == *'--num-virtual-stages-per-pipeline-rank 2'* ]]
    [[ $(exported vpp --to megatron-2025.12) == *'--num-layers-per-virtual-pipeline-stage 3'* ]]
}

@test "DeepSeek-V3 on 1,024 GPUs (U38)" {
    cat >"$BATS_TEST_TMPDIR/deepseek.yaml" <<PLAN
schema: mosaic-plan/1
cluster: $ROOT/configs/clusters/h200-ib.yaml
nodes: 128
budget: {days: 20}
workload: {sequence: 4096, global_batch: 8192}
execution: {dispatcher: deepep}
model: $ROOT/configs/models/deepseek-v3.yaml
search:
  layout: {tp: 2, cp: 1, ep: 64, etp: 1, pp: 16, micro_batch: 1, recompute: selective, stages: "Et*3|(tt|)*29m|L"}
PLAN
    "$MOSAIC" predict "$BATS_TEST_TMPDIR/deepseek.yaml" -f json -o "$BATS_TEST_TMPDIR/deepseek.json" || true
    source <(exported deepseek)
    local all=" ${MOSAIC_ARGS[*]} "
    for text in '--pipeline-model-parallel-layout Et(tt|)*30m|L' '--multi-latent-attention' \
        '--q-lora-rank 1536' '--kv-lora-rank 512' '--qk-head-dim 128' '--qk-pos-emb-head-dim 64' \
        '--mtp-num-layers 1' '--moe-layer-freq ([0]*3+[1]*58)' '--moe-router-group-topk 4' \
        '--moe-token-dispatcher-type flex' '--moe-flex-dispatcher-backend deepep' \
        '--recompute-modules layernorm moe_act' '--sequence-parallel' '--expert-tensor-parallel-size 1'; do
        [[ $all == *" $text "* ]] || { echo "no $text" && return 1; }
    done
    [[ $all != *--num-virtual-stages* && $all != *--num-query-groups* ]]
    [[ $(exported deepseek) == *'left to you: '*'--moe-router-num-groups'* ]]
    # Hydra needs quotes of its own
    source <(exported deepseek --to megatron-bridge)
    printf '%s\n' "${MOSAIC_ARGS[@]}" | grep -Fqx 'model.pipeline_model_parallel_layout="Et(tt|)*30m|L"'
    not_exported deepseek 'no argument for mtp' --to torchtitan-2026.08
}

@test "every engine that is told anything exports an example of its own" {
    local file name version list='' settings
    for file in configs/engines/*.yaml; do
        name=$(sed -n 's/^name: //p' "$file")
        version=$(sed -nE 's/^version: "?([^"]*)"?$/\1/p' "$file")
        if ! grep -q '^launch:' "$file"; then
            list+=" $name"
            continue
        fi
        settings=(--set "engine={name: $name, version: \"$version\"}")
        case $name-$version in
        megatron-2022 | megatron-deepspeed-* | torchtitan-2024.12) dense "${settings[@]}" \
            --set "execution.sharding=$([[ $name == torchtitan ]] && echo fsdp || echo zero1)" ;;
        llm-foundry-*) dense "${settings[@]}" --set execution.sharding=fsdp --set search.layout.pp=1 ;;
        megatron-2024.07) made dense "${settings[@]}" --set 'model={layers: 48, first_dense: 0, hidden: 6144, attention: gqa, heads: 48, kv_heads: 8, head_dim: 128, v_head_dim: 128, ffn_matrices: 3, dense_ffn: 0, expert_ffn: 3840, experts: 96, top_k: 2, shared_experts: 0, granularity: 4, vocab: 50257, tied: false}' ;;
        torchtitan-* | automodel-*) made dense "${settings[@]}" --set execution.sharding=fsdp ;;
        *) made dense "${settings[@]}" ;;
        esac
        # its own engine, unasked, and the same by its name
        exported dense >"$BATS_TEST_TMPDIR/own"
        [[ $(head -n 1 "$BATS_TEST_TMPDIR/own") == "# $name $version, for entry 1 of "* ]]
        exported dense --to "$name-$version" | cmp - "$BATS_TEST_TMPDIR/own"
        exported dense -f json >"$BATS_TEST_TMPDIR/launch.json"
        fits_schema "$BATS_TEST_TMPDIR/launch.json"
    done
    [[ $list == ' mop' ]]
}

@test "torchtitan takes a TOML file, Megatron-Bridge and LLM Foundry YAML" {
    made titan --set 'engine={name: torchtitan, version: "2025.12"}' --set execution.sharding=fsdp
    diff - <(exported titan | grep -v '^#\|^steps') <<'TOML'

[training]
local_batch_size = 32
global_batch_size = 1024
seq_len = 2048

[parallelism]
data_parallel_shard_degree = 32
data_parallel_replicate_degree = 1
tensor_parallel_degree = 1
context_parallel_degree = 1
pipeline_parallel_degree = 8
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatch_size = 4
pipeline_parallel_layers_per_stage = 6
pipeline_parallel_first_stage_less_layers = 0
pipeline_parallel_last_stage_less_layers = 0
expert_parallel_degree = 8
expert_tensor_parallel_degree = 1

[activation_checkpoint]
mode = "full"
TOML
    [[ $(exported titan -f shell) == *'--training.seq_len 2048'* ]]
    made plan
    exported plan --to megatron-bridge -f yaml >"$BATS_TEST_TMPDIR/bridge.yaml"
    grep -qx '  tensor_model_parallel_size: 1' "$BATS_TEST_TMPDIR/bridge.yaml"
    grep -qx 'mixed_precision: bf16_mixed' "$BATS_TEST_TMPDIR/bridge.yaml"
    not_exported plan 'megatron 2026.08 takes flags, not toml' -f toml
    dense --set 'engine={name: llm-foundry, version: "2023"}' --set execution.sharding=fsdp \
        --set search.layout.pp=1
    exported dense >"$BATS_TEST_TMPDIR/foundry.yaml"
    grep -qE '^max_duration: .*[0-9]+ba' "$BATS_TEST_TMPDIR/foundry.yaml"
    grep -qx '  expansion_ratio: 4.0' "$BATS_TEST_TMPDIR/foundry.yaml"
    grep -qx '  sharding_strategy: .*FULL_SHARD.*' "$BATS_TEST_TMPDIR/foundry.yaml"
}

@test "a pair that does not run together is refused by name (U39)" {
    # the older rules let it pass, the newer ones do not
    made pair --set 'engine={name: torchtitan, version: "2025.12"}' --set execution.cuda_graphs=module \
        --set search.layout.recompute=selective --set 'execution.selective=[experts]'
    not_exported pair 'not launchable on megatron 2026.08: recompute_experts + cuda_graphs_router' --to megatron-2026.08
    [[ $stderr == *'NVIDIA/Megatron-LM#3000'* ]]
    made graphs --set execution.cuda_graphs=full --set execution.dispatcher=hybridep
    [[ $(exported graphs) == *'--cuda-graph-impl full_iteration'* ]]
    not_exported graphs 'megatron 2026.01: cuda_graphs_full + moe' --to megatron-2026.01
}

@test "what an engine cannot be told is refused by name, with what it takes" {
    made plan
    not_exported plan 'not launchable on torchtitan 2026.08: it has no argument for zero1' --to torchtitan
    [[ $stderr == *'it takes ddp, fsdp, hybrid'* ]]
    not_exported plan 'megatron 2024.07: it has no argument for shared_experts' --to megatron-2024.07
    not_exported plan 'does not say how it is told' --to mop-2026.09
    not_exported plan "no engine 'megatorn-2026.08'" --to megatorn-2026.08
    [[ $stderr == *"did you mean 'megatron-2026.08'?"* ]]
    made schedule --set search.layout.schedule=zero_bubble --set search.layout.vpp=1 \
        --set 'engine={name: torchtitan, version: "2025.12"}' --set execution.sharding=fsdp
    not_exported schedule "no word for schedule 'zero_bubble'"
}

@test "entries of plans and layout lists, by rank" {
    "$MOSAIC" plan configs/p6-b200-4n-5d.yaml -f json -o "$BATS_TEST_TMPDIR/plan.json"
    exported plan >"$BATS_TEST_TMPDIR/best"
    exported plan --entry 1 | cmp - "$BATS_TEST_TMPDIR/best"
    exported plan --entry 4 >"$BATS_TEST_TMPDIR/fourth"
    run ! cmp -s "$BATS_TEST_TMPDIR/best" "$BATS_TEST_TMPDIR/fourth"
    grep -q '^# megatron 2026.08, for entry 4 of' "$BATS_TEST_TMPDIR/fourth"
    not_exported plan 'there is no entry 11: it lists 10' --entry 11
    "$MOSAIC" layout configs/p6-b200-8n-10d.yaml --model configs/models/mosaic-table5-id1.yaml --top 3 \
        -f json -o "$BATS_TEST_TMPDIR/list.json"
    [[ $(exported list --entry 3) == *'# warning: '*'no token count'* ]]
    [[ $(exported list --entry 3) != *--train-iters* ]]
    "$MOSAIC" explain "$PREDICT" --layout pp=4 -f json -o "$BATS_TEST_TMPDIR/why.json"
    [[ $(exported why) == *'--pipeline-model-parallel-size 4'* ]]
    "$MOSAIC" explain "$PREDICT" --layout pp=7 -f json -o "$BATS_TEST_TMPDIR/why.json"
    not_exported why "no layout in it: its verdict is 'illegal'"
}

@test "results that cannot be launched say why" {
    run -1 --separate-stderr "$MOSAIC" plan configs/examples/impossible.yaml -f json -o "$BATS_TEST_TMPDIR/none.json"
    not_exported none "no layout in it: its status is 'infeasible'"
    made plan
    head -c 3000 "$BATS_TEST_TMPDIR/plan.json" >"$BATS_TEST_TMPDIR/cut.json"
    not_exported cut 'the file was cut'
    printf 'schema: mosaic-plan/1\n' >"$BATS_TEST_TMPDIR/yaml.json"
    not_exported yaml 'not JSON'
    printf '{}' >"$BATS_TEST_TMPDIR/empty.json"
    not_exported empty "it has no 'schema'"
    "$MOSAIC" count "$MODEL" -f json -o "$BATS_TEST_TMPDIR/count.json"
    not_exported count 'a mosaic.count/1 holds no layout to launch'
    run --separate-stderr "$MOSAIC" export "$BATS_TEST_TMPDIR/missing.json"
    refused 4
    run --separate-stderr "$MOSAIC" export "$BATS_TEST_TMPDIR/plan.json" --entry 0
    refused 2
    # numbers that were changed by hand
    sed 's/"dp": 32/"dp": 31/' "$BATS_TEST_TMPDIR/plan.json" >"$BATS_TEST_TMPDIR/hand.json"
    not_exported hand 'TP 1 x CP 1 x PP 8 x DP 31 are not its 256 GPUs'
    sed 's/"hidden": 6144/"hidden": 6145/' "$BATS_TEST_TMPDIR/plan.json" >"$BATS_TEST_TMPDIR/hand.json"
    not_exported hand 'geometry is none of the 1 of'
    sed 's/"tp": 1,/"tp": "1",/' "$BATS_TEST_TMPDIR/plan.json" >"$BATS_TEST_TMPDIR/hand.json"
    not_exported hand 'layout.tp is missing, or no whole number'
}

@test "numbers of a result are checked as if a person had written them" {
    made plan
    while IFS='|' read -r edit text; do
        sed "$edit" "$BATS_TEST_TMPDIR/plan.json" >"$BATS_TEST_TMPDIR/bad.json"
        cmp -s "$BATS_TEST_TMPDIR/bad.json" "$BATS_TEST_TMPDIR/plan.json" && return 1
        not_exported bad "$text"
    done <<'EDITS'
s/"dispatcher": "nccl"/"dispatcher": 1000/|layout.dispatcher is out of range
s/"sharding": "zero1"/"sharding": 200/|layout.sharding is out of range
s/"sharding": "zero1"/"sharding": null/|layout.sharding is out of range
s/"sharding": "zero1"/"sharding": "zero1", "dispatch_chunk": 1e300/|layout.dispatch_chunk is out of range
s/"sharding": "zero1"/"sharding": "zero1", "offload_activations": -1/|layout.offload_activations is out of range
s/^  "tokens": [0-9.e+]*/  "tokens": 1e300/|tokens are out of range
s/"n_total": 327837167616/"n_total": 327837167617000/|geometry is none of the 1 of
EDITS
}

@test "of models that look alike the right one is told, or none" {
    local dir=$BATS_TEST_TMPDIR qwen=configs/models/qwen3-30b-a3b.yaml
    sed 's/^tied: .*/tied: true/' "$qwen" >"$dir/tied.yaml"
    sed 's/^name: .*/name: other/' "$dir/tied.yaml" >"$dir/mtp.yaml"
    echo 'mtp_layers: 1' >>"$dir/mtp.yaml"
    for other in "$PWD/$qwen" "$dir/mtp.yaml"; do
        "$MOSAIC" plan configs/p6-b200-4n-5d.yaml --set "search.geometry={list: [{model: $dir/tied.yaml}, {model: $other}]}" \
            --set 'search.tokens.per_active_parameter=[1, 1000]' -f json -o "$dir/$(basename "$other").json"
    done
    exported qwen3-30b-a3b.yaml --entry 1 >"$dir/1" && exported qwen3-30b-a3b.yaml --entry 2 >"$dir/2"
    [[ $(cat "$dir/1" "$dir/2" | grep -c -- --untie-embeddings-and-output-weights) -eq 1 ]]
    not_exported mtp.yaml 'geometry is that of several models of'
}

@test "documents that have changed since are refused" {
    sed "s|\.\./|$ROOT/configs/|; s|\.\./\.\./|$ROOT/|; s|: $ROOT/configs/\.\./|: $ROOT/|" "$PREDICT" \
        >"$BATS_TEST_TMPDIR/mine.yaml"
    "$MOSAIC" predict "$BATS_TEST_TMPDIR/mine.yaml" -f json -o "$BATS_TEST_TMPDIR/mine.json" --set workload.global_batch=2048
    exported mine >"$BATS_TEST_TMPDIR/before"
    grep -qx "    --global-batch-size 2048" "$BATS_TEST_TMPDIR/before" # with what --set changed
    printf '# a word more\n' >>"$BATS_TEST_TMPDIR/mine.yaml"
    not_exported mine 'mine.yaml is not the file that it was made of: its SHA-256 differs'
    rm "$BATS_TEST_TMPDIR/mine.yaml"
    run --separate-stderr exported mine
    refused 4
    [[ $stderr == *mine.yaml*'paths are seen from where that was'* ]]
}

@test "an engine of one's own needs a document, no code" {
    sed -e 's/^name: .*/name: house/' -e '/^conflicts:/,/^profile:\|^recipe:/{/^recipe:/!d}' \
        -e '/^launch:/,$d' configs/engines/megatron-2026.01.yaml >"$BATS_TEST_TMPDIR/house.yaml"
    cat >>"$BATS_TEST_TMPDIR/house.yaml" <<'LAUNCH'
launch:
  source: "our wiki"
  styles: [flags]
  arguments:
    - {name: --mesh, text: "{tp}x{pp}x{ep}"}
    - {name: "--say it", text: "don't; $(echo)", when: [moe]}
    - {name: --ckpt, value: recompute, words: {full: all, none: ""}}
  silent: [tp, pp, ep, nccl, zero1, bf16, shared_experts, grouped_queries, gated, untied, dense_first, dp_overlap]
LAUNCH
    "$MOSAIC" lint "$BATS_TEST_TMPDIR/house.yaml"
    made plan
    source <(exported plan --to "$BATS_TEST_TMPDIR/house.yaml")
    [[ ${#MOSAIC_ARGS[@]} -eq 6 ]]
    [[ ${MOSAIC_ARGS[1]} == 1x8x8 && ${MOSAIC_ARGS[2]} == '--say it' ]]
    [[ ${MOSAIC_ARGS[3]} == "don't; \$(echo)" && ${MOSAIC_ARGS[5]} == all ]]
    # as the plan's own engine too
    made own --set "engine=$BATS_TEST_TMPDIR/house.yaml"
    [[ $(exported own) == *'# house '*'--ckpt all'* ]]
    sed -i 's/{full: all/{ful: all/' "$BATS_TEST_TMPDIR/house.yaml"
    not_exported plan "unknown word 'ful'; did you mean 'full'?" --to "$BATS_TEST_TMPDIR/house.yaml"
    [[ $stderr == *house.yaml:*':'*' error: '* ]]
}
