#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The CUDA probe's own code on the processor (tests/cuda): kernels against the host, requests over
# two ranks, attention through a cuDNN that works or fails in every way.

load common

unset FLAVOUR # of a sanitized run: the probe is of the release flavour

PROBE=$ROOT/build/emulated-probe

setup_file() {
    load common
    [[ ${MOSAIC_FLAVOUR:-release} == release && " ${MAKE_OVERRIDES:-} " != *' CUDA=0 '* ]] || return 0
    make -n CUDA=1 probe >/dev/null 2>&1 || return 0
    make -s CUDA=1 emulated-probe >&2
}

setup() {
    [[ ${MOSAIC_FLAVOUR:-release} == release ]] || skip 'built in the release flavour alone'
    [[ -x $PROBE ]] || skip 'no CUDA toolkit'
    export TMPDIR=$BATS_TEST_TMPDIR
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR # no cuDNN but the one that a test puts there
}

# Answers of one rank to the lines of standard input, without the first and the last.
answers() {
    "$PROBE" serve | sed '1d;$d'
}

# Every line says that the data was verified.
verified() {
    [[ $status -eq 0 && ${#lines[@]} -eq $1 && $output != *refused* ]] || { echo "$output" && false; }
    [[ $(grep -c '"verified": true' <<<"$output") -eq $1 ]] || { echo "$output" && false; }
}

needs_cudnn() {
    [[ -e $ROOT/build/fake-cudnn/libcudnn.so.9 ]] || skip 'no headers of cuDNN'
    cp "$ROOT/build/fake-cudnn/libcudnn.so.9" "$LD_LIBRARY_PATH/"
}

attention='{"id":1,"rounds":1,"quantity":"attention","dtype":"bf16","pass":"backward","batch":1,"sequence":40,"heads":4,"kv_heads":2,"head_dim":64,"causal":1}'

@test "the first line: device, versions, whose attention, every quantity" {
    run bash -c '"$1" serve </dev/null' sh "$PROBE"
    [[ $status -eq 0 && ${lines[0]} == *'"name":"NVIDIA H200","architecture":"sm_90"'* ]]
    for quantity in gemm grouped_gemm attention elementwise stream sustained launch host_copy adamw \
        ring_strip moe_layer; do
        [[ ${lines[0]} == *"\"$quantity\""* ]]
    done
    [[ ${lines[1]} == '{"bye":true,"answered":0}' ]]
}

@test "schedules' kernels agree with the executors" {
    for name in strip adamw grouped copies; do
        run --separate-stderr "$PROBE" schedule "$name" --check
        [[ $status -eq 0 && -n $output && $output != *'"agrees":false'* ]] ||
            { echo "$name: $output $stderr" && false; }
    done
}

@test "operators bound by memory, launches and copies are verified" {
    run answers <<'LIST'
{"id":1,"rounds":1,"quantity":"elementwise","op":"norm","pass":"forward","rows":8,"width":64}
{"id":2,"rounds":1,"quantity":"elementwise","op":"norm","pass":"backward","rows":8,"width":64}
{"id":3,"rounds":1,"quantity":"elementwise","op":"rope","pass":"backward","rows":8,"width":64}
{"id":4,"rounds":1,"quantity":"elementwise","op":"swiglu","pass":"backward","rows":8,"width":64}
{"id":5,"rounds":1,"quantity":"elementwise","op":"router_top_k","pass":"forward","rows":8,"width":64}
{"id":6,"rounds":1,"quantity":"elementwise","op":"cross_entropy","pass":"forward","rows":8,"width":64}
{"id":7,"rounds":1,"quantity":"elementwise","op":"quantise","pass":"forward","rows":8,"width":64}
{"id":8,"rounds":1,"quantity":"stream","op":"triad","bytes":4800}
{"id":9,"rounds":1,"quantity":"launch","graph":1,"kernels":3}
{"id":10,"rounds":1,"quantity":"adamw","parameters":1000,"buckets":3}
LIST
    verified 10
}

@test "the expert layer, alone: both passes agree with the host, padded experts among them" {
    run answers <<'LIST'
{"id":1,"rounds":1,"quantity":"moe_layer","tokens":9,"hidden":16,"ffn":8,"experts":4,"top_k":2,"ranks":1,"pass":"forward"}
{"id":2,"rounds":1,"quantity":"moe_layer","tokens":9,"hidden":17,"ffn":8,"experts":4,"top_k":2,"ranks":1,"pass":"backward"}
LIST
    verified 2
    [[ ${lines[0]} == *'"rows_of_expert":5'* ]]
}

@test "the expert layer over two ranks: rows go and come back through NCCL" {
    nm "$PROBE" | grep -q ncclSend || skip 'no NCCL'
    id=$("$PROBE" serve <<<'{"id":1,"group":"new"}' | sed -n 's/.*"group":"\([0-9a-f]*\)".*/\1/p')
    [[ ${#id} -eq 256 ]]
    ranks=()
    for rank in 0 1; do
        answers >"$BATS_TEST_TMPDIR/of_$rank" <<LIST &
{"id":1,"group":"join","group_id":"$id","rank":$rank,"ranks":2,"ranks_per_domain":2}
{"id":2,"rounds":1,"quantity":"moe_layer","tokens":9,"hidden":16,"ffn":8,"experts":6,"top_k":2,"ranks":2,"pass":"forward"}
{"id":3,"rounds":1,"quantity":"moe_layer","tokens":9,"hidden":16,"ffn":8,"experts":6,"top_k":2,"ranks":2,"pass":"backward"}
{"id":4,"rounds":1,"quantity":"collective","kind":"all_to_all","ranks":2,"ranks_per_domain":2,"bytes":64}
{"id":5,"rounds":1,"quantity":"moe_layer","tokens":9,"hidden":16,"ffn":8,"experts":5,"top_k":2,"ranks":2,"pass":"forward"}
{"id":6,"rounds":1,"quantity":"moe_layer","tokens":9,"hidden":16,"ffn":8,"experts":8,"top_k":2,"ranks":4,"pass":"forward"}
LIST
        ranks+=($!)
    done
    wait "${ranks[@]}"
    for rank in 0 1; do
        run cat "$BATS_TEST_TMPDIR/of_$rank"
        [[ ${lines[0]} == '{"id":1,"joined":true}' ]] || { echo "$output" && false; }
        [[ $(grep -c '"verified": true' <<<"$output") -eq 3 ]] || { echo "$output" && false; }
        [[ ${lines[4]} == *'5 experts do not divide among 2 ranks'* ]]
        [[ ${lines[5]} == *'4 ranks asked, the group has 2'* ]]
    done
    run answers <<<'{"id":1,"quantity":"moe_layer","tokens":9,"hidden":16,"ffn":8,"experts":6,"top_k":2,"ranks":2,"pass":"forward"}'
    [[ $output == *'no group has been joined'* ]]
}

@test "attention by the probe's own kernel where there is no cuDNN, and why" {
    printf 'no library' >"$LD_LIBRARY_PATH/libcudnn.so.9"
    run answers <<<"$attention"
    verified 1
    [[ $output == *'"kernel":"own","reason":"'* ]]
}

@test "a real cuDNN without a device is passed over" {
    [[ ! -e /dev/nvidia0 ]] || skip 'there is a device'
    unset LD_LIBRARY_PATH
    run answers <<<"${attention/backward/forward}"
    verified 1
    [[ $output == *'"kernel":"own","reason":"'* ]]
}

@test "attention through cuDNN, verified as the own kernel is" {
    needs_cudnn
    run bash -c '"$1" serve <<<"$2"' sh "$PROBE" "$attention"
    [[ ${lines[0]} == *'"cudnn":"9.'*'"attention":"cudnn"'* ]]
    [[ ${lines[1]} == *'"verified": true'*'"kernel":"cudnn 9.'* && $output != *'"reason"'* ]] ||
        { echo "$output" && false; }
    FAKE_CUDNN=wrong run answers <<<"$attention"
    [[ $output == *"\"refused\":\"failed\",\"text\":\"cuDNN's output differs"* ]] ||
        { echo "$output" && false; }
}

@test "a cuDNN that is old or fails is passed over, and why" {
    needs_cudnn
    short=${attention/backward/forward}
    while IFS='|' read -r failure reason; do
        FAKE_CUDNN=$failure run answers <<<"$short"
        verified 1
        [[ $output == *"\"kernel\":\"own\",\"reason\":\"$reason"* ]] ||
            { echo "$failure: $output" && false; }
    done <<'LIST'
old|cuDNN 8.9.7 is older than 9.0
no_handle|cuDNN, a handle: CUDNN_STATUS_NOT_INITIALIZED
no_engine|cuDNN has no engine for this graph here
no_plan|cuDNN, the plan: CUDNN_STATUS_NOT_SUPPORTED
no_execution|cuDNN, execution: CUDNN_STATUS_EXECUTION_FAILED
LIST
}
