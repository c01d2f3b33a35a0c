#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Calibrations that are derived from kernel tables are what their script makes of the extracts.

load common

@test "derive.awk writes each GPU-kernels.yaml from its extract, byte for byte" {
    for gpu in 'H100 SXM' H200 B200 B300 GB200 GB300; do
        name=$(tr '[:upper:]' '[:lower:]' <<<"${gpu% SXM}")
        awk -v document=1 -v device="$gpu" -f calibration/derive.awk "calibration/data/kernels-$name.csv" |
            cmp - "calibration/data/$name-kernels.yaml"
    done
}

@test "derive.awk gives the samples of p6-b200-published.yaml" {
    run awk -f calibration/derive.awk calibration/data/kernels-b200.csv
    [[ $status -eq 0 && $output == *gemm.bf16.share* && $output == *samples* ]]
    left=$(grep -v '^#' <<<"$output" | grep -vxFf calibration/data/p6-b200-published.yaml || true)
    [[ -z $left ]] || { echo "$left" && false; }
}

@test "an extract holds what is used and no more" {
    for file in calibration/data/kernels-*.csv; do
        gpu=$(sed -n '2s/,.*//p' "$file")
        awk -v extract=1 -v device="$gpu" -f calibration/derive.awk "$file" | cmp - "$file"
        [[ $(wc -c <"$file") -lt 40000 ]]
    done
}

@test "an unknown GPU is refused" {
    run awk -v device=H900 -f calibration/derive.awk calibration/data/kernels-h100.csv
    [[ $status -eq 1 && $output == *"no peaks of 'H900'"* ]]
}

@test "the peaks of derive.awk are those of the cluster documents" {
    for gpu in h100 h200 b200 b300 gb200 gb300; do
        for precision in bf16 fp8 nvfp4; do
            peak=$("$MOSAIC" lint -f csv "configs/clusters/$gpu-ib.yaml" |
                awk -F, -v key="device.peak.$precision" '$1 == key && $2 != "" { print $2 * ($2 ~ / P/ ? 1000 : 1) }')
            share=$(awk -v key="quantity: gemm.$precision.share" 'index($0, key) { on = 1 }
                on && match($0, /dense peak [0-9]+/) { print substr($0, RSTART + 11, RLENGTH - 11); exit }' \
                "calibration/data/$gpu-kernels.yaml")
            [[ "$share" == "$peak" ]] || { echo "$gpu $precision: $share, not $peak" && false; }
        done
    done
}

@test "kernel calibrations pass lint without a word and are taken by a plan" {
    for file in calibration/data/*-kernels.yaml; do
        run --separate-stderr "$MOSAIC" lint "$file"
        [[ $status -eq 0 && -z $stderr ]] || { echo "$file: $stderr" && false; }
    done
    run --separate-stderr "$MOSAIC" predict -f json "$PREDICT" --set calibration=calibration/data/b200-kernels.yaml
    [[ $status -eq 0 && $output == *'"exact"'* ]]
}
