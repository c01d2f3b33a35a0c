#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Kernel tables: the shipped calibrations are what mosaic makes of them, from the table, from the
# recorded set by replay, from what a document keeps; what a sample moves; rows that cannot be right.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

DATA=calibration/data
RECORD=$DATA/kernels-b200.jsonl
GPUS=(h100 h200 b200 b300 gb200 gb300)

# import GPU [options]: of its table, the document into $BATS_TEST_TMPDIR/GPU-kernels.yaml
import() {
    "$MOSAIC" import kernels "$DATA/kernels-$1.csv" -o "$BATS_TEST_TMPDIR/$1-kernels.yaml" "${@:2}"
}

# replay JOURNAL FILE [probe options]: the document of a journal that is played
replay() {
    "$MOSAIC" calibrate --probe replay -f csv -o "$2" -- --journal "$1" "${@:3}" >/dev/null
}

# entries FILE: each with its value or samples, a line each
entries() {
    awk '/^  - (quantity|collective): / { name = $3 } /^    ranks: / { name = name " over " $2 }
        /^    (value|samples): / { print name "|" $0 }' "$1"
}

# moved FILE: entries in which it differs from the shipped document of B200, on one line
moved() {
    comm -3 <(entries "$DATA/b200-kernels.yaml" | sort) <(entries "$1" | sort) |
        sed 's/^\t//; s/|.*//' | sort -u | xargs
}

# scaled PATTERN FACTOR: the recorded set with the times of the one sample that matches scaled
scaled() {
    awk -v pattern="$1" -v factor="$2" '$0 ~ pattern && NR > 1 {
            count++
            if (match($0, /"median": [0-9.e-]+/)) {
                time = substr($0, RSTART + 10, RLENGTH - 10)
                gsub(time, sprintf("%.17g", time * factor))
            }
        }
        { print }
        END { exit count != 1 }' "$RECORD"
}

# table LINE...: kernels of a B200, a row each, under the columns of the tests; prints its path
HEADER=gpu,op,dtype,m_or_tokens,n_or_hidden,k_or_ffn,batch,seq,heads,kv_heads,head_dim,window,n_gpus_or_sms,bytes,latency_us,rate,rate_unit,includes
GEMM=B200,gemm,bfloat16,16384,8192,8192,,,,,,,,,1589.69,1383.3,TFLOP/s,
NARROW=B200,gemm,fp8,16384,8192,8192,,,,,,,,,800,2748.8,TFLOP/s
table() {
    printf '%s\n' "$HEADER" "$@" >"$BATS_TEST_TMPDIR/table.csv"
    echo "$BATS_TEST_TMPDIR/table.csv"
}

# flagged TEXT LINE: this row is left out, beside a good one, with this warning of line 3
flagged() {
    run --separate-stderr "$MOSAIC" import kernels "$(table "$GEMM" "$2")" -f json
    [[ $status -eq 0 && $output == *"table.csv:3: $1"* && $output == *'"total": 1'* ]] ||
        { echo "$2: $output$stderr" && return 1; }
}

# GOLDEN_UPDATE=1 (make golden-update) writes the documents and the record anew.
@test "each GPU-kernels.yaml is what import makes of its table, byte for byte" {
    for gpu in "${GPUS[@]}"; do
        import "$gpu" --strict --samples "$BATS_TEST_TMPDIR/$gpu.jsonl" >/dev/null
        if [[ ${GOLDEN_UPDATE:-0} != 0 ]]; then
            cp "$BATS_TEST_TMPDIR/$gpu-kernels.yaml" "$DATA/"
            [[ $gpu != b200 ]] || cp "$BATS_TEST_TMPDIR/$gpu.jsonl" "$RECORD"
        fi
        cmp "$BATS_TEST_TMPDIR/$gpu-kernels.yaml" "$DATA/$gpu-kernels.yaml"
    done
    cmp "$BATS_TEST_TMPDIR/b200.jsonl" "$RECORD"
}

@test "replay of the recorded B200 set gives the shipped document byte for byte, of others too" {
    replay "$RECORD" "$BATS_TEST_TMPDIR/b200-kernels.yaml"
    cmp "$BATS_TEST_TMPDIR/b200-kernels.yaml" "$DATA/b200-kernels.yaml"
    for gpu in "${GPUS[@]}"; do
        import "$gpu" --samples "$BATS_TEST_TMPDIR/$gpu.jsonl" >/dev/null
        rm "$BATS_TEST_TMPDIR/$gpu-kernels.yaml"
        replay "$BATS_TEST_TMPDIR/$gpu.jsonl" "$BATS_TEST_TMPDIR/$gpu-kernels.yaml"
        cmp "$BATS_TEST_TMPDIR/$gpu-kernels.yaml" "$DATA/$gpu-kernels.yaml"
    done
}

@test "a journal of the replay, the record and the document's own measurements give the same again" {
    cd "$BATS_TEST_TMPDIR"
    mkdir -p a b
    "$MOSAIC" calibrate --probe replay --samples j -o a/b200-kernels.yaml -- --journal "$ROOT/$RECORD" >/dev/null
    replay j b/b200-kernels.yaml
    cmp a/b200-kernels.yaml b/b200-kernels.yaml
    for file in "$ROOT/$RECORD" "$ROOT/$DATA/b200-kernels.yaml" j; do
        "$MOSAIC" import samples "$file" -o b200-kernels.yaml --samples again.jsonl >/dev/null
        cmp b200-kernels.yaml "$ROOT/$DATA/b200-kernels.yaml"
        cmp again.jsonl "$ROOT/$RECORD"
    done
}

@test "a sample scaled by 1.1 moves exactly the curve it feeds" {
    local cases=(
        'bf16.*16384, "n": 8192, "k": 4096,|gemm.bf16.share'
        'fp8.*16384, "n": 8192, "k": 4096,|gemm.fp8.share'
        'nvfp4.*16384, "n": 8192, "k": 4096,|gemm.nvfp4.share'
        '"batch": 1, "sequence": 4096,|attention.bf16.forward attention.half_sequence attention.share'
        'all_gather", "ranks": 8, .*"bytes": 536870912,|all_gather over 8'
        'all_reduce", "ranks": 2, .*"bytes": 1024,|all_reduce over 2')
    for case in "${cases[@]}"; do
        scaled "${case%%|*}" 1.1 >"$BATS_TEST_TMPDIR/j"
        replay "$BATS_TEST_TMPDIR/j" "$BATS_TEST_TMPDIR/b200-kernels.yaml"
        [[ $(moved "$BATS_TEST_TMPDIR/b200-kernels.yaml") == "${case#*|}" ]] ||
            { echo "$case: $(moved "$BATS_TEST_TMPDIR/b200-kernels.yaml")" && return 1; }
    done
}

@test "a quantity that the probe scales moves its entries alone, by as much" {
    replay "$RECORD" "$BATS_TEST_TMPDIR/a.yaml" --scale attention=1.1
    [[ $(moved "$BATS_TEST_TMPDIR/a.yaml") == 'attention.bf16.forward attention.share' ]] # times alike: the half sequence stands
    replay "$RECORD" "$BATS_TEST_TMPDIR/c.yaml" --scale collective=1.1
    [[ $(moved "$BATS_TEST_TMPDIR/c.yaml" | grep -o " over " | wc -l) -eq 12 ]]
    [[ $(moved "$BATS_TEST_TMPDIR/c.yaml") != *[.]* ]]
    replay "$RECORD" "$BATS_TEST_TMPDIR/g.yaml" --scale gemm=1.1
    [[ $(moved "$BATS_TEST_TMPDIR/g.yaml") == 'gemm.bf16.share gemm.fp8.share gemm.nvfp4.share' ]]
    "$MOSAIC" calibrate --compare "$DATA/b200-kernels.yaml" "$BATS_TEST_TMPDIR/c.yaml" -f csv 2>/dev/null |
        sed '1d; s/^"\([^"]*\), \([^"]*\)"/\1 \2/' |
        awk -F, '/ over / { if ($6 * 1.1 + 0.1 > 1e-4 || $6 * 1.1 + 0.1 < -1e-4) exit 1 }'
}

@test "a table holds what is used and no more, and says what its times hold" {
    for gpu in "${GPUS[@]}"; do
        import "$gpu" -f json >"$BATS_TEST_TMPDIR/out.json"
        fits_schema "$BATS_TEST_TMPDIR/out.json"
        rows=$(($(wc -l <"$DATA/kernels-$gpu.csv") - 1))
        grep -q "\"read\": $rows,\$" "$BATS_TEST_TMPDIR/out.json"
        grep -q '"refused": 0$' "$BATS_TEST_TMPDIR/out.json"
        grep -q "\"total\": $rows,\$" "$BATS_TEST_TMPDIR/out.json"
        grep -q "\"used\": $rows\$" "$BATS_TEST_TMPDIR/out.json"
        grep -q '"warnings": \[\]' "$BATS_TEST_TMPDIR/out.json"
        grep -q 'GEMMs: the time holds the quantisation of the input' "$BATS_TEST_TMPDIR/out.json"
    done
}

@test "the curves of p6-b200-published.yaml are those of the table" {
    "$MOSAIC" calibrate --compare "$DATA/p6-b200-published.yaml" "$DATA/b200-kernels.yaml" -f csv \
        >"$BATS_TEST_TMPDIR/compare" 2>/dev/null || true
    sed 's/^"\([^"]*\), \([^"]*\)"/\1 \2/' "$BATS_TEST_TMPDIR/compare" |
        awk -F, '/^attention.bf16.forward|over ([248]) ranks \1?/ && $3 == "same" {
                count++
                if ($6 > 0.015 || $6 < -0.015) exit 1
            }
            END { exit count != 13 }'
    # Its share is the median rate of the bf16 GEMMs.
    median=$(awk -F, '$2 == "gemm" && $3 == "bfloat16" { print $20 / 2250 }' "$DATA/kernels-b200.csv" |
        sort -g | sed -n 13p)
    share=$(awk '/quantity: gemm.bf16.share/ { getline; print $2 }' "$DATA/p6-b200-published.yaml")
    awk -v a="$median" -v b="$share" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }'
}

@test "a row that cannot be right is left out, with its line and column" {
    flagged "column latency_us: 'fast' is no time above 0" 'B200,gemm,bfloat16,16384,8192,8192,,,,,,,,,fast,,,'
    flagged 'column latency_us: empty' 'B200,gemm,bfloat16,16384,8192,8192,,,,,,,,,,,,'
    flagged "column latency_us: '-3' is no time above 0" 'B200,gemm,bfloat16,16384,8192,8192,,,,,,,,,-3,,,'
    flagged "column latency_us: 'nan' is no time" 'B200,gemm,bfloat16,16384,8192,8192,,,,,,,,,nan,,,'
    flagged "column m_or_tokens: '' is no whole number above 0" 'B200,gemm,bfloat16,,8192,8192,,,,,,,,,9,,,'
    flagged "column m_or_tokens: '0' is no whole number" 'B200,gemm,bfloat16,0,8192,8192,,,,,,,,,9,,,'
    flagged "column op: 'm' is 9000000000, not within" 'B200,gemm,bfloat16,9000000000,8192,8192,,,,,,,,,9,,,'
    flagged "column dtype: unknown dtype 'int7'" 'B200,gemm,int7,16384,8192,8192,,,,,,,,,9,,,'
    flagged "column op: unknown op 'gem'" 'B200,gem,bfloat16,16384,8192,8192,,,,,,,,,9,,,'
    flagged "column rate_unit: 'GFLOP/s' where TFLOP/s is due" 'B200,gemm,bfloat16,16384,8192,4096,,,,,,,,,664.37,1654970,GFLOP/s,'
    flagged "column rate: 1654.9 TFLOP/s, but FLOPs over the latency is" 'B200,gemm,bfloat16,16384,8192,4096,,,,,,,,,0.66437,1654.9,TFLOP/s,'
    flagged "column rate: 57.6 GB/s, but bytes by the bus factor over the latency is" 'B200,nccl_all_reduce,half,,,,,,,,,,8,1048576,18.2,57.6,GB/s busbw,'
    flagged "column includes: 'kv_cache'" 'B200,gemm,bfloat16,16384,8192,4096,,,,,,,,,664.37,,,kv_cache'
    flagged "column op: 'kv_heads' is 16, more than 'heads', 8" 'B200,attention_fwd_causal,bfloat16,,,,1,4096,8,16,128,,,,333.65,,,'
}

@test "rows of no use are counted and named; a table that cannot be right is refused" {
    run --separate-stderr "$MOSAIC" import kernels -f json "$(table "$GEMM" \
        B200,moe_mlp_fwd,fp8,16384,8192,8192,,,,,,,,,9,,, B200,moe_mlp_fwd,fp8,1,8192,8192,,,,,,,,,9,,, \
        B200,attention_fwd_causal,bfloat16,,,,1,4096,64,8,128,1024,,,333.65,,,)"
    [[ $status -eq 0 && $output == *'"refused": 0'* ]]
    [[ $output == *'table.csv:3: 2 rows left out, the first here: moe_mlp_fwd, which no entry is fitted to'* ]]
    [[ $output == *'table.csv:5: 1 row left out, the first here: attention_fwd_causal with a window'* ]]
    run --separate-stderr "$MOSAIC" import kernels --strict "$(table "$GEMM" B200,gem,,,,,,,,,,,,,9,,,)"
    refused 3
    run --separate-stderr "$MOSAIC" import kernels "$(table "$GEMM" "H100${GEMM#B200}")"
    refused 3
    [[ $stderr == *"its rows are of 'B200', of 'H100'"*--device* ]]
    run --separate-stderr "$MOSAIC" import kernels --device b200 -f json "$(table "$GEMM" "H100${GEMM#B200}")"
    [[ $status -eq 0 && $output == *'1 row is of other GPUs passed over'* ]]
    sed 's/latency_us/latency_ms/' "$(table "$GEMM")" >"$BATS_TEST_TMPDIR/ms.csv"
    run --separate-stderr "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/ms.csv"
    refused 3
    [[ $stderr == *"no column 'latency_us': times are in microseconds"* ]]
    sed 's/n_or_hidden/width/' "$(table "$GEMM")" >"$BATS_TEST_TMPDIR/width.csv"
    run --separate-stderr "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/width.csv"
    refused 3
    [[ $stderr == *"no column 'n_or_hidden', which gemm needs"* ]]
    run --separate-stderr "$MOSAIC" import kernels "$(table)"
    refused 3
    run --separate-stderr "$MOSAIC" import nccl-tests tests/import/all_reduce.csv --device B200 \
        --samples "$BATS_TEST_TMPDIR/none"
    refused 2
    [[ ! -e $BATS_TEST_TMPDIR/none ]]
}

@test "what 8- and 4-bit times hold has to be said; it moves their share" {
    share() { awk '/quantity: gemm.fp8.share/ { getline; print $2 }' "$BATS_TEST_TMPDIR/out.yaml"; }
    table "$GEMM" "$NARROW,quantise" >/dev/null
    "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/table.csv" -o "$BATS_TEST_TMPDIR/out.yaml" >/dev/null
    within=$(share)
    grep -q 'stands on hbm.share, gemm.half_size, quantise.bytes_per_element' "$BATS_TEST_TMPDIR/out.yaml"
    "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/table.csv" -o "$BATS_TEST_TMPDIR/out.yaml" \
        --quantisation apart >/dev/null
    awk -v within="$within" -v apart="$(share)" 'BEGIN { exit !(within > apart && apart > 0.5) }'
    cut -d, -f1-17 "$BATS_TEST_TMPDIR/table.csv" >"$BATS_TEST_TMPDIR/silent.csv"
    run --separate-stderr "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/silent.csv" -f json
    [[ $status -eq 0 && $output != *gemm.fp8.share* ]]
    [[ $output == *'silent.csv:3: 1 row left out'*'is not said (column includes, --quantisation)'* ]]
    "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/silent.csv" -o "$BATS_TEST_TMPDIR/out.yaml" \
        --quantisation within >/dev/null
    [[ $(share) == "$within" ]]
    run --separate-stderr "$MOSAIC" import kernels -f json \
        "$(table "$GEMM" "$NARROW,quantise" "${NARROW/fp8,16384,8192/nvfp4,16384,8192},")"
    [[ $output == *'without the quantisation of the input, unlike those before'* ]]
}

@test "of a GPU that the library does not know there are the curves, and no share" {
    sed 's/^B200/H900/' "$DATA/kernels-b200.csv" >"$BATS_TEST_TMPDIR/h900.csv"
    "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/h900.csv" -o "$BATS_TEST_TMPDIR/out.yaml" >/dev/null
    [[ $(grep -c 'collective: ' "$BATS_TEST_TMPDIR/out.yaml") -ge 12 ]]
    [[ $(grep -c 'quantity: gemm' "$BATS_TEST_TMPDIR/out.yaml") -eq 0 ]]
    "$MOSAIC" import kernels "$BATS_TEST_TMPDIR/h900.csv" --cluster configs/clusters/b200-ib.yaml -f json \
        -o "$BATS_TEST_TMPDIR/out.yaml" >"$BATS_TEST_TMPDIR/out.json"
    grep -q "the table is of 'H900', the cluster's device is 'B200'" "$BATS_TEST_TMPDIR/out.json"
    grep -q 'quantity: gemm.bf16.share' "$BATS_TEST_TMPDIR/out.yaml"
}

@test "a table of one GPU is not taken for another that --device names" {
    run --separate-stderr "$MOSAIC" import kernels tests/import/kernels.csv --device Nope
    refused 3
    [[ $stderr == *"its rows are of 'B200', none is of 'Nope'"* ]]
}

@test "a record that is damaged is refused, one beside other samples too" {
    sed '1s/"gemm_includes": "quantise"/"gemm_includes": "all"/' "$RECORD" >"$BATS_TEST_TMPDIR/j"
    run --separate-stderr "$MOSAIC" import samples "$BATS_TEST_TMPDIR/j"
    refused 3
    [[ $stderr == *"'gemm_includes' of a record"* ]]
    run --separate-stderr "$MOSAIC" calibrate --probe replay -o "$BATS_TEST_TMPDIR/out.yaml" -- \
        --journal "$BATS_TEST_TMPDIR/j"
    [[ $status -eq 3 && $stderr == *"'gemm_includes' of a record"* ]] # what was measured is still told
    [[ ! -e $BATS_TEST_TMPDIR/out.yaml ]]
    sed '1s/"origins": {/"origin": {/' "$RECORD" >"$BATS_TEST_TMPDIR/j"
    run --separate-stderr "$MOSAIC" import samples "$BATS_TEST_TMPDIR/j"
    refused 3
    run --separate-stderr "$MOSAIC" import samples "$RECORD" tests/import/samples.jsonl
    refused 3
    [[ $stderr == *'stands alone'* ]]
    run --separate-stderr "$MOSAIC" import samples tests/import/samples.jsonl "$RECORD"
    refused 3
    [[ $stderr == *'stands alone'* ]]
}

@test "kernel calibrations pass lint without a word and are taken by a plan" {
    for file in "$DATA"/*-kernels.yaml; do
        run --separate-stderr "$MOSAIC" lint "$file"
        [[ $status -eq 0 && -z $stderr ]] || { echo "$file: $stderr" && false; }
    done
    run --separate-stderr "$MOSAIC" predict -f json "$PREDICT" --set calibration=calibration/data/b200-kernels.yaml
    [[ $status -eq 0 && $output == *'"exact"'* ]]
}
