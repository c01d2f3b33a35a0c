#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Hugging Face configurations where a model document is due.  What they count is in
# tests/unit/test_hf_config.c; here the commands, and files that are wrong.
load common

# value KEY ARGUMENT...: of `mosaic count` as CSV
value() {
    "$MOSAIC" count "${@:2}" --format csv 2>/dev/null | awk -F, -v key="$1" '$1 == key { print $2 }'
}
# near A B RELATIVE
near() {
    awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && d <= r * b) }' ||
        { echo "$1 is not near $2" && return 1; }
}

@test "counts of public models" {
    near "$(value n_total tests/hf/mixtral-8x7b.json)" 46.70e9 0.001
    near "$(value n_active tests/hf/mixtral-8x7b.json)" 12.88e9 0.001
    near "$(value n_total tests/hf/deepseek-v3.json)" 671.03e9 0.001
    near "$(value n_active tests/hf/deepseek-v3.json)" 37.55e9 0.001
    near "$(value n_total tests/hf/qwen3-30b-a3b.json)" 30.53e9 0.001
    near "$(value n_active tests/hf/qwen3-30b-a3b.json)" 3.353e9 0.001
}

@test "FLOPs a token carry their convention" {
    near "$(value flops_per_token.full tests/hf/qwen3-30b-a3b.json -s 8192)" 37.58e9 0.001
    near "$(value flops_per_token.causal tests/hf/qwen3-30b-a3b.json -s 8192)" 27.91e9 0.001
}

@test "the result is JSON of its schema, from standard input too" {
    "$MOSAIC" count tests/hf/kimi-k2.json --format json >"$BATS_TEST_TMPDIR/a.json"
    fits_schema "$BATS_TEST_TMPDIR/a.json"
    "$MOSAIC" count - --format json <tests/hf/kimi-k2.json >"$BATS_TEST_TMPDIR/b.json"
    cmp <(grep n_ "$BATS_TEST_TMPDIR/a.json") <(grep n_ "$BATS_TEST_TMPDIR/b.json")
}

@test "lint lists what is derived" {
    run --separate-stderr "$MOSAIC" lint --format csv tests/hf/gpt-oss-20b.json
    [ "$status" -eq 0 ]
    [[ $output == *"window_layers,12,derived"* ]]
    [[ $output == *"head_dim,64,given"* ]]
}

@test "a missing head width is derived with a warning" {
    sed '/head_dim/d' tests/hf/qwen3-30b-a3b.json >"$BATS_TEST_TMPDIR/c.json"
    run --separate-stderr "$MOSAIC" count "$BATS_TEST_TMPDIR/c.json" --format json
    [ "$status" -eq 0 ]
    [[ $stderr == *"c.json:1:1: warning: 'head_dim' is left out"* ]]
    [[ $output == *"'head_dim' is left out"* ]]
    near "$(value n_total "$BATS_TEST_TMPDIR/c.json")" 30.079e9 0.0001
}

@test "unknown structure is refused by name, and approx goes without it" {
    run --separate-stderr "$MOSAIC" count tests/hf/qwen3-next-80b-a3b.json
    refused 3
    [[ $stderr == *"json:14:3: error: 'model_type' qwen3_next"* ]]
    [[ $stderr == *"linear attention"*"--set approx=true"* ]]
    run --separate-stderr "$MOSAIC" count tests/hf/qwen3-next-80b-a3b.json --set approx=true --format json
    [ "$status" -eq 0 ]
    [[ $stderr == *"warning: approximate: 'full_attention_interval'"* ]]
    [[ $output == *"approximate: 'full_attention_interval'"* ]]
    printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/d.json"
    fits_schema "$BATS_TEST_TMPDIR/d.json"
}

# plan MODEL: a plan for it, every axis pinned
plan() {
    cat >"$BATS_TEST_TMPDIR/plan.yaml" <<EOF
schema: mosaic-plan/1
cluster: $ROOT/configs/clusters/p6-b200.yaml
nodes: 8
budget: {days: 10}
workload: {sequence: 4096, global_batch: 1024}
model: $ROOT/tests/hf/$1.json
search:
  layout: {tp: [1], cp: [1], pp: [4], vpp: [1], ep: [8], etp: [1], micro_batch: [1], recompute: [full]}
EOF
}

@test "a plan takes a configuration as its model" {
    plan qwen3-30b-a3b
    run --separate-stderr "$MOSAIC" predict "$BATS_TEST_TMPDIR/plan.yaml" --format json
    [ "$status" -eq 0 ] || { echo "$stderr" && false; }
    [[ $output == *'"experts": 128'* ]]
    plan qwen3-next-80b-a3b
    run --separate-stderr "$MOSAIC" predict "$BATS_TEST_TMPDIR/plan.yaml"
    refused 3
    [[ $stderr == *"--set model.approx=true"* ]]
    run --separate-stderr "$MOSAIC" predict "$BATS_TEST_TMPDIR/plan.yaml" --set model.approx=true --format json
    [ "$status" -le 1 ]
    [[ $output == *"approximate: 'full_attention_interval'"* ]]
}

# ---- files that are wrong -----------------------------------------------------------------------

# What is said of each file of tests/hf/bad.
complaints() {
    cat <<'EOF'
bad-escape 3:32: error: not JSON: invalid escape
bool-for-number 3:17: error: 'vocab_size' must be a whole number, not true
comment 3:24: error: not JSON
cut error: not JSON: '}' expected near end of file
dense-layer-beyond 10:23: error: 'mlp_only_layers' names layer 48 of 48
dense-layers-no-list 10:22: error: 'mlp_only_layers' must be a list
doubled-key 3:31: error: not JSON: duplicate object key
empty 1:1: error: not JSON
experts-differ 4:24: error: 'num_experts_per_tok' and 'experts_per_token' differ
experts-in-llama 3:25: error: 'num_local_experts': experts
exponent 3:17: error: 'vocab_size' must be a whole number, not 1e5
fraction 3:17: error: 'vocab_size' must be a whole number
huge 3:17: error: 'vocab_size' must be 0 to 2147483647
kv-heads error: heads 32 is not a multiple of kv_heads 5
latent-in-llama 3:25: error: 'kv_lora_rank': latent attention
latent-width-missing error: missing key 'qk_nope_head_dim' of a model of type 'deepseek_v3'
layer-types-short 3:40: error: 'layer_types' must be a list of 32
layers-int-max 3:24: error: 'layers' must be 0 to 1024
list 1:1: error: a model's configuration is an object, not a list
list-for-number 3:17: error: 'vocab_size' must be a whole number, not a list
nan error: not JSON: invalid token near 'NaN'
negative 3:17: error: 'vocab_size' must be 0 to 2147483647, not -1
no-experts error: missing key 'num_local_experts' of a model of type 'mixtral'
not-utf8 1:34: error: byte 0xFF is not UTF-8
nothing 1:1: error: neither 'model_type' nor 'architectures'
nul-escape error: not JSON: NUL byte
null-for-number error: missing key 'vocab_size'
null-in-list 3:23: error: 'mlp_only_layers' must be a whole number, not null
number-for-bool 3:48: error: 'tie_word_embeddings' must be true or false, not 1
out-of-range 3:17: error: 'vocab' must be 0 to 16777216
overflow error: not JSON: real number overflow
scalar 1:1: error: a model's configuration is an object
single-quotes 3:3: error: not JSON
text-for-number 3:17: error: 'vocab_size' must be a whole number, not the text 128256
too-big-integer error: not JSON: too big integer
top-k error: top_k is 9; with 8 experts it must be 1 to 8
trailing-comma 4:1: error: not JSON
two 1:24: error: not JSON: end of file expected
type-number error: neither 'model_type' nor 'architectures'
window-missing 9:18: error: 'layer_types' names layers with a window, but 'sliding_window' is missing
zero-frequency error: 'moe_layer_freq' must be 1 or more
zero-layers error: layers is 0
EOF
}

@test "each bad file is refused at its place" {
    local name words
    while read -r name words; do
        run --separate-stderr timeout 5 "$MOSAIC" count "tests/hf/bad/$name.json"
        refused 3 || { echo "$name" && return 1; }
        [[ $stderr =~ bad/$name.json:[0-9]+:[0-9]+: && $stderr == *"$words"* ]] || { echo "$name: $stderr" && return 1; }
    done < <(complaints)
    cmp <(complaints | cut -d' ' -f1 | LC_ALL=C sort) <(cd tests/hf/bad && printf '%s\n' *.json | sed 's/\.json$//' | LC_ALL=C sort)
}

# long WORDS: refused within seconds (a minute with sanitizers), its output written to a file
long() {
    run --separate-stderr timeout 60 "$MOSAIC" count "$BATS_TEST_TMPDIR/long.json"
    refused 3
    [[ $stderr == *"$1"* ]] || { echo "$stderr" && return 1; }
}

@test "files too long or too deep" {
    local file=$BATS_TEST_TMPDIR/long.json
    { printf '{"x": "' && head -c 10000000 /dev/zero | tr '\0' a && printf '"}'; } >"$file"
    long "longer than 8 MiB"
    { printf '{"x": ' && head -c 100000 /dev/zero | tr '\0' '[' && head -c 100000 /dev/zero | tr '\0' ']' && printf '}'; } >"$file"
    long "maximum parsing depth"
    { printf '{"x": ' && head -c 70 /dev/zero | tr '\0' '[' && head -c 70 /dev/zero | tr '\0' ']' && printf '}'; } >"$file"
    long "nested deeper than 64 levels"
    { printf '{"model_type": "llama", "x": [0' && yes ,1 | head -n 1000000 | tr -d '\n' && printf ']}'; } >"$file"
    long "more than 200000 values"
    { sed '$d' tests/hf/llama-3-8b.json && seq -f ', "k%.0f": 1' 150000 | tr -d '\n' && printf '}'; } >"$file"
    long "'k1': a key that may change the shape"
}

@test "a width that no layer has is derived to be the law's alone, without a note" {
    run --separate-stderr "$MOSAIC" lint --show-defaults -f csv tests/hf/qwen3-30b-a3b.json
    [[ $status -eq 0 && $stderr != *unused* ]]
    [[ $output == *"dense_ffn,6144,derived,"*"sets the law's granularity only"* ]]
}

@test "MTP modules are counted apart, where there are any" {
    run "$MOSAIC" count -f csv configs/models/deepseek-v3.yaml
    [[ $output == *$'\nn_mtp,11'* ]]
    run "$MOSAIC" count configs/models/deepseek-v3.yaml
    [[ $output == *'MTP modules'*'trained and stored, not in the total'* ]]
    "$MOSAIC" count -f json configs/models/deepseek-v3.yaml >"$BATS_TEST_TMPDIR/mtp.json"
    fits_schema "$BATS_TEST_TMPDIR/mtp.json"
    run "$MOSAIC" count -f csv "$MODEL"
    [[ $output != *n_mtp* ]]
}
