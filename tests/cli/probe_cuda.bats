#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The CUDA probe: when it is built and for what, its command line, what it says without a device; with
# one, that its kernels agree with the executors.

load common

unset FLAVOUR # of a sanitized run: the probe is of the release flavour

PROBE=$ROOT/build/mosaic-probe-cuda
probes=(strip copies pinned adamw grouped)

# Skips where the probe is not built.
needs_probe() {
    local reason
    [[ ${MOSAIC_FLAVOUR:-release} == release ]] || skip 'built in the release flavour alone'
    [[ " ${MAKE_OVERRIDES:-} " != *' CUDA=0 '* ]] || skip 'built with CUDA=0'
    reason=$(make -n CUDA=1 probe 2>&1 >/dev/null) || skip "${reason#*\*\*\* }"
    [[ -x $PROBE ]] || { echo "no $PROBE" && return 1; }
}

# A PATH whose nvcc knows these architectures and nothing else.
nvcc_of() {
    mkdir -p "$BATS_TEST_TMPDIR/cuda/bin"
    printf '#!/bin/sh\nprintf "%%s\\n" %s\n' "$*" >"$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    chmod +x "$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    PATH=$BATS_TEST_TMPDIR/cuda/bin:$PATH
}

@test "CUDA=0 runs no nvcc" {
    run make -n CUDA=0 -B probe
    [[ $status -eq 0 && $output != *nvcc* ]]
}

@test "a toolkit that is too old builds no probe, and fails CUDA=1 by name" {
    nvcc_of compute_70 compute_75
    run make -n probe
    [[ $status -eq 0 && $output != *calibration* ]]
    run make -n CUDA=1 probe
    [[ $status -eq 2 && $output == *"lacks sm_80"* ]]
}

@test "a toolkit without cuBLAS likewise" {
    [[ ! -e /usr/include/cublas_v2.h ]] || skip 'cuBLAS is in the system'
    nvcc_of compute_90
    run make -n probe
    [[ $status -eq 0 && $output != *calibration* ]]
    run make -n CUDA=1 probe
    [[ $status -eq 2 && $output == *"lacks cuBLAS"* ]]
}

@test "the architectures that nvcc knows of 80, 90 and 100 are asked for" {
    nvcc_of compute_75 compute_80 compute_86 compute_90 compute_100
    mkdir -p "$BATS_TEST_TMPDIR/cuda/include"
    touch "$BATS_TEST_TMPDIR/cuda/include/cublas_v2.h"
    run make -n -B V=1 CUDA=1 probe
    [[ $status -eq 0 && $output == *code=sm_80\ * && $output == *code=sm_90\ * ]]
    [[ $output == *code=sm_100\ * && $output == *code=compute_100\ * ]]
    [[ $output != *sm_75* && $output != *sm_86* ]]
    nvcc_of compute_90
    run make -n -B V=1 CUDA=1 probe
    [[ $status -eq 0 && $output == *code=sm_90\ * && $output != *sm_100* ]]
}

@test "a toolkit without NCCL builds a probe without collectives" {
    nvcc_of compute_90
    mkdir -p "$BATS_TEST_TMPDIR/cuda/include"
    touch "$BATS_TEST_TMPDIR/cuda/include/cublas_v2.h"
    [[ -e /usr/include/nccl.h ]] || {
        run make -n -B V=1 CUDA=1 probe
        [[ $status -eq 0 && $output != *nccl* && $output != *PROBE_NCCL* ]]
    }
    touch "$BATS_TEST_TMPDIR/cuda/include/nccl.h"
    run make -n -B V=1 CUDA=1 probe
    [[ $status -eq 0 && $output == *-DPROBE_NCCL* && $output == *-lnccl* ]]
}

@test "the probe holds code for the architectures, and none of GLPK and GSL" {
    needs_probe
    make -n -B V=1 CUDA=1 probe | grep -o 'code=sm_[0-9]*' | sort -u >"$BATS_TEST_TMPDIR/codes"
    [[ -s $BATS_TEST_TMPDIR/codes ]]
    while read -r code; do
        grep -aq "${code#code=}" "$PROBE"
    done <"$BATS_TEST_TMPDIR/codes"
    run ldd "$PROBE"
    [[ $output == *libcublas* && $output != *glpk* && $output != *gsl* ]]
}

@test "--help, --list and --version" {
    needs_probe
    run --separate-stderr "$PROBE" --help
    [[ $status -eq 0 && -z $stderr && ${lines[0]} == "Usage: mosaic-probe-cuda GROUP NAME "* ]]
    [[ $(awk 'length > 100' <<<"$output" | wc -l) -eq 0 ]]
    run --separate-stderr "$PROBE" --list
    [[ $status -eq 0 && -z $stderr && ${#lines[@]} -eq ${#probes[@]} ]]
    for name in "${probes[@]}"; do
        grep -q "^schedule $name " <<<"$output"
    done
    run --separate-stderr "$PROBE" --version
    [[ $output == "mosaic-probe-cuda $(sed -n 's/^VERSION := //p' Makefile)" ]]
    run "$PROBE" --help
    [[ $status -eq 0 ]]
    run bash -c '"$1" --help >/dev/full' sh "$PROBE"
    [[ $status -eq 4 && $output == *'cannot write'* ]]
}

@test "the manual page has the options of every probe, and no others" {
    needs_probe
    for name in "${probes[@]}"; do
        run "$PROBE" schedule "$name" --help
        [[ $status -eq 0 && ${lines[0]} == "Usage: mosaic-probe-cuda schedule $name "* ]]
        sed -nE 's/^  --([a-z]+) .*/\1/p' <<<"$output"
        grep -q "^\.It Cm $name$" man/mosaic-probe-cuda.1
    done | sort -u >"$BATS_TEST_TMPDIR/help"
    sed -nE 's/^\.It Fl -([a-z]+).*/\1/p' man/mosaic-probe-cuda.1 |
        grep -vxE 'list|version' | sort -u >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
}

@test "usage errors: status 2, nothing on stdout, before any device is sought" {
    needs_probe
    while IFS='|' read -r arguments message; do
        # shellcheck disable=SC2086 # the arguments are words
        run --separate-stderr "$PROBE" $arguments
        refused 2 || { echo "for '$arguments'" && false; }
        [[ $stderr == *"$message"* ]] || { echo "'$stderr' lacks '$message'" && false; }
        [[ $stderr == *"--help'" ]]
    done <<'LIST'
|needs serve, selfcheck, or a GROUP and a NAME
--nope|unknown option '--nope'
schedule|needs the NAME of a probe of 'schedule'
gemm strip|unknown group 'gemm'
schedule strp|unknown probe 'schedule strp'; did you mean 'strip'?
schedule zzz|unknown probe 'schedule zzz'
schedule strip 7|unexpected argument '7'
schedule strip --tokens|--tokens needs a value
schedule strip --tokns 7|unknown option '--tokns'; did you mean '--tokens'?
schedule strip --slots 2|unknown option '--slots'
schedule strip --tokens 0|--tokens takes a whole number from 1 to 4194304, not '0'
schedule strip --tokens=4194305|--tokens takes a whole number
schedule strip --tokens -1|not '-1'
schedule strip --tokens +1|not '+1'
schedule strip --tokens 1e3|not '1e3'
schedule strip --tokens 99999999999999999999|not '99999999999999999999'
schedule strip --tokens=|not ''
schedule strip --precision fp8|--precision takes bf16 or fp32, not 'fp8'
schedule grouped --calls both|--calls takes batched or looped, not 'both'
schedule adamw --slots 17|--slots takes a whole number from 1 to 16, not '17'
schedule copies --repeats 0|--repeats takes a whole number from 1 to 10000
schedule copies --check --device x|--device takes a whole number
serve 7|unexpected argument '7'
serve --tokens 7|unknown option '--tokens' of serve
serve --devices 7|unknown option '--devices' of serve
serve --device|--device needs a value
selfcheck --check|unknown option '--check' of selfcheck
selfcheck --device=-1|--device takes a whole number from 0 to 1023, not '-1'
LIST
}

@test "without a device: status 6 and why, nothing on stdout" {
    needs_probe
    export CUDA_VISIBLE_DEVICES=-1
    for name in "${probes[@]}"; do
        for option in --check --repeats=1; do
            run --separate-stderr "$PROBE" schedule "$name" "$option"
            refused 6
            [[ $stderr == "mosaic-probe-cuda: no CUDA device: "* && ${#stderr_lines[@]} -eq 1 ]]
        done
    done
    for mode in serve selfcheck; do
        run --separate-stderr "$PROBE" $mode <<<'{"id":1,"quantity":"launch","graph":0,"kernels":1}'
        refused 6
        [[ $stderr == "mosaic-probe-cuda: no CUDA device: "* && ${#stderr_lines[@]} -eq 1 ]]
    done
}

# Skips where the probe finds no device.
needs_device() {
    needs_probe
    "$PROBE" schedule pinned --check >/dev/null 2>&1 || [[ $? -ne 6 ]] || skip 'no CUDA device'
}

@test "with a device: kernels agree with the executors" {
    needs_device
    for options in strip 'strip --precision bf16 --columns 2504' copies pinned adamw \
        'adamw --slots 1' grouped 'grouped --precision bf16 --calls looped' \
        'grouped --rows 5 --chunks 4'; do
        # shellcheck disable=SC2086 # the options are words
        run --separate-stderr "$PROBE" schedule $options --check
        [[ $status -eq 0 && -n $output && $output != *'"agrees":false'* ]] ||
            { echo "$options: $output $stderr" && false; }
    done
}

@test "with a device: the self-check finds no difference" {
    needs_device
    run --separate-stderr "$PROBE" selfcheck
    [[ $status -eq 0 && ${lines[-1]} == *' agree, 0 differ, 0 fail, '* ]] ||
        { echo "$output $stderr" && false; }
}

@test "with a device: requests are answered in order, refusals end nothing" {
    needs_device
    printf '%s\n' '{"id":1,"rounds":3,"quantity":"launch","graph":0,"kernels":100}' \
        '{"id":2,"quantity":"stream","op":"triad","bytes":48000000}' \
        '{"id":3,"quantity":"elementwise","op":"quantise","pass":"backward","rows":8,"width":64}' \
        '{"id":4,"quantity":"stream","op":"copy","bytes":1000000000000000}' \
        '{"id":5,"quantity":"launch","graph":0}' \
        'rubbish' \
        '{"id":7,"quantity":"gemm","dtype":"bf16","pass":"forward","m":512,"n":512,"k":512}' \
        '{"id":8,"quantity":"collective","kind":"all_reduce","ranks":2,"ranks_per_domain":2,"bytes":64}' \
        '{"id":9,"quantity":"attention","dtype":"bf16","pass":"backward","batch":1,"sequence":512,"heads":8,"kv_heads":2,"head_dim":128,"causal":1}' \
        '{"id":10,"quantity":"moe_layer","tokens":256,"hidden":512,"ffn":256,"experts":8,"top_k":2,"ranks":1,"pass":"backward"}' \
        >"$BATS_TEST_TMPDIR/requests"
    run --separate-stderr "$PROBE" serve <"$BATS_TEST_TMPDIR/requests"
    [[ $status -eq 0 && ${#lines[@]} -eq 12 ]] || { echo "$output $stderr" && false; }
    [[ ${lines[0]} == '{"protocol":"mosaic-probe/1","probe":"cuda",'* ]]
    for i in 1 2 7 9 10; do
        [[ ${lines[i]} == "{\"id\":$i,"* && ${lines[i]} == *'"verified":true'* ]] ||
            { echo "${lines[i]}" && false; }
    done
    [[ ${lines[3]} == '{"id":3,"refused":"unsupported",'* ]]
    [[ ${lines[4]} == '{"id":4,"refused":"memory",'* ]]
    [[ ${lines[5]} == '{"id":5,"refused":"failed",'*kernels* ]]
    [[ ${lines[6]} == '{"id":0,"refused":"failed",'* ]]
    [[ ${lines[8]} == '{"id":8,"refused":"unsupported",'* ]]
    [[ ${lines[9]} == *'"kernel":"'* ]]
    [[ ${lines[11]} == '{"bye":true,"answered":10}' ]]
}
