#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Tables of measured steps that are wrong, absurd or huge, and jobs that are odd but legal.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

MODELS=calibration/data/step-models.csv
HEAD='id,model,gpu,n_gpus,fabric,precision,seq_len,mbs,gbs,tp,pp,vpp,cp,ep,shard,recompute,optimizer,dispatcher,overlap,cuda_graph,routing,software,step_time_s,tokens_s_gpu'
ROW='a,Qwen3-30B-A3B,H100,16,ib,BF16,4096,1,512,1,1,1,1,8,zero1,none,adamw,deepep,none,none,forced,26.02.01,20.5,'

# The table of one row in which a cell (named) is something else.
row_with() {
    printf '%s\n%s\n' "$HEAD" "$ROW" | awk -F, -v OFS=, -v name="$1" -v value="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; print; next }
        { $at = value; print }' >"$BATS_TEST_TMPDIR/rows.csv"
}

validate() {
    run --separate-stderr timeout "${2:-10}" "$MOSAIC" validate -f json "$BATS_TEST_TMPDIR/rows.csv" \
        --models "${1:-$MODELS}"
}

# refused_at LINE WORDS: exit 3, nothing on stdout, the place and the words on stderr.
refused_at() {
    refused 3 || return 1
    [[ $stderr =~ \.csv:$1:[0-9]+:\ error:\  && $stderr == *"$2"* ]] || { echo "$stderr" && return 1; }
}

@test "the row itself is scored" {
    row_with id a
    validate
    [[ $status -eq 0 && $output == *'"rows": 1,'* ]]
}

@test "a number that is none is refused at its cell" {
    local column value words
    while read -r column value words; do
        row_with "$column" "$value"
        validate
        refused_at 2 "$words" || { echo "$column $value" && return 1; }
    done <<'LIST'
n_gpus 0 n_gpus is 0; it must be above 0
n_gpus -8 n_gpus is -8
n_gpus 1e9 n_gpus is 1e+09
n_gpus 8.5 not a whole number
gbs 0 gbs is 0
mbs 1e308 mbs is 1e+308
seq_len 4k '4k'
vpp 1000000000 vpp is 1e+09
pp 0x4 '0x4'
cp nan 'nan' is not a finite number
step_time_s 0 step_time_s is 0
step_time_s -1 step_time_s is -1
step_time_s 1e300 step_time_s is 1e+300
step_time_s inf 'inf' is not a finite number
step_time_s 1e400 too large
LIST
}

@test "a layout that no machine runs leaves its row out, by name" {
    local column value words
    while read -r column value words; do
        row_with "$column" "$value"
        validate
        [[ $status -eq 3 && $output == *"\"reason\": \""*"$words"* ]] ||
            { echo "$column $value: $output" && return 1; }
    done <<'LIST'
tp 3 TP 3 x CP 1 x PP 1 = 3 does not divide 16 GPUs
cp 5 CP 5 x PP 1 = 5 does not divide 16 GPUs
pp 1048576 does not divide 16 GPUs
ep 7 EP 7 does not divide 128 experts
vpp 1024 PP 1 x VPP 1024 = 1024 chunks
mbs 1024 does not divide the global batch 512
gbs 500 does not divide the global batch 500
seq_len 16777216 is above 1; likely causes
precision NVFP4 no dense peak for nvfp4
n_gpus 12 is no multiple of 8 per node
model Qwen3-30B-A3C is it 'Qwen3-30B-A3B'
step_time_s 1e-300 is above 1; likely causes
shard zero4 shard 'zero4' is an unknown word
overlap ép_1f1b_overlap has the unknown word 'ép_1f1b_overlap'
LIST
}

@test "a step of tokens per second that lasts for ever is refused" {
    row_with step_time_s ''
    sed -i '2s/$/1e-9/' "$BATS_TEST_TMPDIR/rows.csv"
    validate
    refused_at 2 "tokens_s_gpu is 1e-09: a step of"
}

@test "words of any length and alphabet are cut between characters" {
    local long
    long=$(printf 'é%.0s' {1..400})
    for column in model gpu overlap dispatcher recompute software routing; do
        row_with "$column" "x$long"
        validate
        [[ $status -eq 3 && $output == *'"status": "error"'* && $output == *'éé...'* ]] ||
            { echo "$column: $output" && return 1; }
        printf '%s' "$output" | iconv -f UTF-8 -t UTF-8 >/dev/null || { echo "$column" && return 1; }
    done
}

@test "quotes, CRLF, CR, a byte-order mark, blank and comment lines read alike" {
    row_with id a
    local file=$BATS_TEST_TMPDIR/rows.csv want
    cp "$file" "$BATS_TEST_TMPDIR/plain.csv"
    validate
    want=$(grep -v sha256 <<<"$output")
    for edit in 's/$/\r/' '1s/^/\xef\xbb\xbf/' '1s/^/# a comment\n\n/' 's/H100/"H100"/' '2s/$/\n\n/'; do
        sed "$edit" "$BATS_TEST_TMPDIR/plain.csv" >"$file"
        validate
        [[ $status -eq 0 && $(grep -v sha256 <<<"$output") == "$want" ]] || { echo "$edit" && return 1; }
    done
}

@test "tables that are none" {
    local file=$BATS_TEST_TMPDIR/rows.csv
    : >"$file"
    validate
    refused_at 1 "the file is empty"
    echo "$HEAD" >"$file"
    validate
    refused_at 1 "a header without rows"
    row_with id a
    sed -i 's/\r*$/,7/; 1s/,7$/,gbs/' "$file"
    validate
    refused_at 1 "column 'gbs' is named twice"
    row_with id a
    sed -i '1s/gbs/gsb/' "$file"
    validate
    refused_at 1 "no column 'gbs'"
    row_with id a
    sed -i '2p' "$file"
    validate
    refused_at 3 "id 'a' is that of row 1"
    row_with id ''
    validate
    refused_at 2 "the id is empty"
    row_with id a
    printf 'b\0' >>"$file"
    validate
    refused_at 3 "NUL byte"
    head -c 100000 "$MOSAIC" >"$file"
    validate
    refused_at 1 ""
    row_with software '"26.02.01'
    validate
    refused_at 2 "the quote is never closed"
    for byte in a ',' '"' '\n'; do
        head -c 10000000 /dev/zero | tr '\0' "$byte" >"$file"
        validate
        refused_at 1 "" || { echo "$byte" && return 1; }
    done
    head -c 20000000 /dev/zero | tr '\0' a >"$file"
    validate
    refused 3
    [[ $stderr == *"longer than 16 MiB"* ]]
}

@test "tables of models that are none" {
    local models=$BATS_TEST_TMPDIR/models.csv
    row_with id a
    head -1 <(grep -v '^#' "$MODELS") >"$models"
    validate "$models"
    [[ $status -eq 3 && $output == *'is not in the table of models"'* ]]
    { cat "$MODELS" && grep '^Qwen3-30B' "$MODELS"; } >"$models"
    validate "$models"
    refused_at "$(wc -l <"$models")" "model 'Qwen3-30B-A3B' is given twice"
    sed 's/^\(Qwen3-30B-A3B\),[0-9]*,/\1,1000000000,/' "$MODELS" >"$models"
    validate "$models"
    refused_at "$(grep -n '^Qwen3-30B-A3B' "$MODELS" | cut -d: -f1)" "layers is 1e+09"
    sed 's/^\(Qwen3-30B-A3B\),[0-9]*,/\1,0,/' "$MODELS" >"$models"
    validate "$models"
    refused_at "$(grep -n '^Qwen3-30B-A3B' "$MODELS" | cut -d: -f1)" "layers"
}

@test "a hundred thousand models, none of them the row's" {
    row_with model m99999y
    grep -v '^#' "$MODELS" | awk -F, -v OFS=, 'NR == 1 { print; next }
        NR == 2 { for (k = 0; k < 100000; k++) { $1 = "m" k; print } }' >"$BATS_TEST_TMPDIR/models.csv"
    validate "$BATS_TEST_TMPDIR/models.csv" 60
    [[ $status -eq 3 && $output == *"is it 'm99999'"* ]]
}

@test "fit --steps says why no row is left" {
    row_with routing -1
    run --separate-stderr "$MOSAIC" fit --steps "$BATS_TEST_TMPDIR/rows.csv" --models "$MODELS"
    refused 3
    [[ $stderr == *"row 1 because routing '-1' is an unknown word"* ]]
    row_with id a
    run --separate-stderr timeout 20 "$MOSAIC" fit --steps "$BATS_TEST_TMPDIR/rows.csv" \
        --models "$MODELS" -f json
    [[ $status -eq 0 ]]
    echo "$output" >"$BATS_TEST_TMPDIR/one.json"
    sed '2p; 2s/^a/b/' "$BATS_TEST_TMPDIR/rows.csv" >"$BATS_TEST_TMPDIR/two.csv"
    timeout 20 "$MOSAIC" fit --steps "$BATS_TEST_TMPDIR/two.csv" --models "$MODELS" -f json \
        >"$BATS_TEST_TMPDIR/two.json"
    fits_schema "$BATS_TEST_TMPDIR"/{one,two}.json
}

# ---- odd but legal ------------------------------------------------------------------------------

# job NODES MODEL WORKLOAD EXECUTION LAYOUT [OPTION...]: its step time, under the schema.
job() {
    printf '%s\n' 'schema: mosaic-plan/1' "cluster: $ROOT/configs/clusters/h100-ib.yaml" \
        "nodes: $1" 'budget: {days: 1}' "workload: {sequence: 4096, $3}" "model: $ROOT/$2" \
        "execution: {$4}" "search: {layout: {cp: 1, vpp: 1, etp: 1, micro_batch: 1, recompute: full, $5}}" \
        >"$BATS_TEST_TMPDIR/job.yaml"
    "$MOSAIC" predict -f json "$BATS_TEST_TMPDIR/job.yaml" "${@:6}" \
        >"$BATS_TEST_TMPDIR/job.json" || [[ $? -eq 1 ]] || return 1
    fits_schema "$BATS_TEST_TMPDIR/job.json" || return 1
    awk '/"step_time_s":/ { sub(",", ""); print $2; exit }' "$BATS_TEST_TMPDIR/job.json"
}

# term NAME: of the last job
term() {
    awk -v name="\"$1\":" '$1 == name { sub(",", ""); print $2; exit }' "$BATS_TEST_TMPDIR/job.json"
}

# holds EXPRESSION: in awk, of finite numbers
holds() {
    if [[ $1 == *nan* || $1 == *inf* ]] || ! awk "BEGIN { exit !($1) }"; then
        echo "not $1"
        return 1
    fi
}

LLAMA=configs/models/llama3-8b.yaml
MIXTRAL=configs/models/mixtral-8x7b.yaml
DEEPSEEK=configs/models/deepseek-v3.yaml

@test "one GPU talks to nobody, under any sharding" {
    local one=(--set cluster.node.gpus=1 --set 'cluster.tiers[0].domain=1') plain other
    plain=$(job 1 "$LLAMA" 'global_batch: 8' '' 'tp: 1, pp: 1, ep: 1' "${one[@]}")
    holds "$plain > 0"
    for name in tp_exposed_s cp_exposed_s ep_exposed_s pp_exposed_s dp_exposed_s bubble_s; do
        holds "0 + 0$(term $name) == 0"
    done
    other=$(job 1 "$LLAMA" 'global_batch: 8' 'sharding: fsdp' 'tp: 1, pp: 1, ep: 1' "${one[@]}")
    holds "$other >= $plain && $other < 1.05 * $plain"
}

@test "hybrid sharding whose group is all of DP is FSDP" {
    local hybrid fsdp
    fsdp=$(job 2 "$LLAMA" 'global_batch: 64' 'sharding: fsdp' 'tp: 1, pp: 1, ep: 1')
    hybrid=$(job 2 "$LLAMA" 'global_batch: 64' 'sharding: hybrid, shard_ranks: 16' 'tp: 1, pp: 1, ep: 1')
    holds "($hybrid - $fsdp) / $fsdp < 1e-9 && ($fsdp - $hybrid) / $fsdp < 1e-9"
}

@test "schedules with few micro-batches" {
    local flat zero dual few engine
    few='global_batch: 8'
    engine='engine={name: torchtitan, version: "2025.12"}' # Megatron runs 1F1B alone
    flat=$(job 2 "$LLAMA" "$few" '' 'tp: 1, pp: 2, ep: 1' --set "$engine")
    zero=$(job 2 "$LLAMA" "$few" '' 'tp: 1, pp: 2, ep: 1, schedule: zero_bubble' --set "$engine")
    holds "$flat > 0 && $zero > 0 && $zero <= 1.001 * $flat"
    dual=$(job 2 "$LLAMA" 'global_batch: 256' '' 'tp: 1, pp: 2, ep: 1, schedule: dualpipe' \
        --set "$engine")
    holds "$dual > 0"
}

@test "MTP modules on the last of several stages" {
    local none one
    none=$(job 128 "$DEEPSEEK" 'global_batch: 4096' '' 'tp: 1, pp: 16, ep: 32' --set model.mtp_layers=0)
    one=$(job 128 "$DEEPSEEK" 'global_batch: 4096' '' 'tp: 1, pp: 16, ep: 32' --set model.mtp_layers=1)
    holds "$one > $none && $one < 1.5 * $none"
}

@test "a window longer than the sequence changes nothing" {
    local plain long short
    plain=$(job 1 "$LLAMA" 'global_batch: 64' '' 'tp: 1, pp: 1, ep: 1')
    long=$(job 1 "$LLAMA" 'global_batch: 64' '' 'tp: 1, pp: 1, ep: 1' --set model.window=1048576 --set model.window_layers=32)
    short=$(job 1 "$LLAMA" 'global_batch: 64' '' 'tp: 1, pp: 1, ep: 1' --set model.window=128 --set model.window_layers=32)
    holds "$long == $plain && $short < $plain"
}

@test "a node limit above the nodes there are changes nothing" {
    local plain wide
    plain=$(job 2 "$MIXTRAL" 'global_batch: 64' 'dispatcher: deepep' 'tp: 1, pp: 1, ep: 8')
    wide=$(job 2 "$MIXTRAL" 'global_batch: 64' 'dispatcher: deepep' 'tp: 1, pp: 1, ep: 8' --set model.node_limit=64)
    holds "$wide == $plain"
}

@test "experts without a token, experts that all serve, tokens nearly all dropped" {
    local plain idle all none
    plain=$(job 2 "$MIXTRAL" 'global_batch: 64' '' 'tp: 1, pp: 1, ep: 8')
    idle=$(job 2 "$MIXTRAL" 'global_batch: 64, expert_tokens: [1, 0, 0, 0, 0, 0, 0, 0]' '' 'tp: 1, pp: 1, ep: 8')
    holds "$idle > 2 * $plain && $idle < 10 * $plain"
    all=$(job 2 "$MIXTRAL" 'global_batch: 64' '' 'tp: 1, pp: 1, ep: 8' --set model.top_k=8)
    holds "$all > $plain && $all < 5 * $plain"
    none=$(job 2 "$MIXTRAL" 'global_batch: 64' 'dropped: 0.99' 'tp: 1, pp: 1, ep: 8')
    holds "$none > 0.05 * $plain && $none < $plain"
}
