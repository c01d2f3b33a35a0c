#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The host probe: its command line, the protocol, what it refuses, groups of processes.

# shellcheck disable=SC2016 # the inner shell expands
load common

build=build
[[ ${MOSAIC_FLAVOUR:-release} == release ]] || build=build/$MOSAIC_FLAVOUR
PROBE=$ROOT/$build/mosaic-probe-host
PRODUCT='"quantity": "gemm", "dtype": "fp32", "pass": "forward", "m": 40, "n": 24, "k": 56'

# serve REQUESTS [OPTION...]: the answers, a line each, without the first line
serve() {
    local requests=$1
    shift
    run --separate-stderr bash -c 'printf "%s\n" "$1" | "${@:2}" | tail -n +2' sh "$requests" \
        "$PROBE" serve "$@"
    # shellcheck disable=SC2154 # run sets it
    [[ $status -eq 0 && -z $stderr ]]
}

# says LINE TEXT: a line of the answers holds the text
says() {
    [[ ${lines[$1]} == *"$2"* ]] || { echo "'${lines[$1]}' lacks '$2'" && return 1; }
}

@test "--help, --list and --version" {
    run --separate-stderr "$PROBE" --help
    [[ $status -eq 0 && -z $stderr && ${lines[0]} == "Usage: mosaic-probe-host serve "* ]]
    [[ $(awk 'length > 100' <<<"$output" | wc -l) -eq 0 ]]
    sed -nE 's/^  --([a-z]+) .*/\1/p' <<<"$output" | sort >"$BATS_TEST_TMPDIR/help"
    sed -nE 's/^\.It Fl -([a-z]+).*/\1/p' man/mosaic-probe-host.1 | sort >"$BATS_TEST_TMPDIR/page"
    diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
    run --separate-stderr "$PROBE" --list
    [[ $status -eq 0 && -z $stderr && $output == *"moe_layer: "* && $output == *"parameters"* ]]
    run --separate-stderr "$PROBE" --version
    [[ $output == "mosaic-probe-host $(sed -n 's/^VERSION := //p' Makefile)" ]]
    run bash -c '"$1" --help >/dev/full' sh "$PROBE"
    [[ $status -eq 4 && $output == *'cannot write'* ]]
    run bash -c '"$1" serve </dev/null >/dev/full' sh "$PROBE"
    [[ $status -eq 4 && $output == *'cannot write'* ]]
}

@test "usage errors: status 2, nothing on stdout" {
    while IFS='|' read -r arguments message; do
        # shellcheck disable=SC2086 # the arguments are words
        run --separate-stderr "$PROBE" $arguments
        refused 2 || { echo "for '$arguments'" && false; }
        [[ $stderr == *"$message"* ]] || { echo "'$stderr' lacks '$message'" && false; }
        [[ $stderr == *"--help'" ]]
    done <<'LIST'
|needs serve, cluster or --check
--nope|unknown option '--nope'
measure|unexpected argument 'measure'
serve gemm|unexpected argument 'gemm'
serve --thread 2|unknown option '--thread'; did you mean '--threads'?
serve --threads|--threads needs a value
serve --threads 0|--threads takes a whole number
serve --threads 1.5|--threads takes a whole number
serve --threads 257|--threads takes a whole number
serve --threads=|--threads takes a whole number
serve --limit 0|--limit takes seconds from 0.01 to 60, not '0'
serve --limit x|not 'x'
serve --wait 1e9|--wait takes seconds
serve --kernels mkl|--kernels takes blas, own or executor, not 'mkl'
serve --fault gem|--fault takes a quantity of --list, not 'gem'
LIST
    if (($(nproc --all) < 256)); then
        run --separate-stderr "$PROBE" serve --threads 256
        refused 2
        [[ $stderr == *"the machine has"* ]]
    fi
}

@test "it links none of GLPK and GSL" {
    run ldd "$PROBE"
    [[ $output == *libjansson* && $output != *glpk* && $output != *libgsl* ]]
}

@test "the first line tells device, software and quantities" {
    run --separate-stderr bash -c '"$1" serve </dev/null' sh "$PROBE"
    [[ $status -eq 0 && ${#lines[@]} -eq 2 && ${#lines[0]} -lt 65536 ]]
    says 0 '"protocol":"mosaic-probe/1","probe":"host"'
    says 0 '"peak_flop_per_s":{"fp32":'
    says 0 '"kernels":"'
    for name in $("$PROBE" --list | sed -nE 's/^([a-z_]+): .*/\1/p' | grep -vx moe_layer); do
        says 0 "\"$name\""
    done
    [[ ${lines[1]} == '{"bye":true,"answered":0}' ]]
    # A layer is of the executors' loops: offered where products are as well.
    [[ ${lines[0]} != *'"moe_layer"'* ]]
    run --separate-stderr bash -c '"$1" serve --kernels executor </dev/null' sh "$PROBE"
    says 0 '"moe_layer"'
}

@test "a job of each kind is measured and verified, whoever multiplies" {
    for options in '--kernels own' '--kernels executor' "--kernels own --threads $(nproc)"; do
        # shellcheck disable=SC2086 # the options are words
        run --separate-stderr "$PROBE" --check $options
        [[ $status -eq 0 && -z $stderr ]] || { echo "$options: $output" && false; }
        # The rest needs two devices, or is not for the executors' loops.
        [[ $(grep -c '"verified": true' <<<"$output") -ge 26 ]]
        [[ $(grep '"refused": ' <<<"$output" | grep -vc '"refused": "unsupported"') -eq 0 ]]
    done
}

@test "OpenBLAS is told and measured where it was built in" {
    "$PROBE" serve --kernels blas </dev/null >"$BATS_TEST_TMPDIR/hello" ||
        skip 'built without OpenBLAS'
    grep -q '"OpenBLAS":"OpenBLAS ' "$BATS_TEST_TMPDIR/hello"
    serve "{\"id\": 5, $PRODUCT}" --kernels blas
    says 0 '"how":"OpenBLAS sgemm"'
    says 0 '"verified":true'
    run --separate-stderr "$PROBE" --check --kernels blas
    [[ $status -eq 0 ]]
}

@test "an answer has the request's keys, its times in order, and as many rounds at most" {
    serve "{\"id\": 41, \"rounds\": 5, $PRODUCT}" --kernels own
    [[ ${#lines[@]} -eq 2 ]]
    says 0 '{"id":41,"quantity":"gemm","dtype":"fp32","pass":"forward","m":40,"n":24,"k":56,'
    says 0 '"rounds":5,"verified":true'
    tr ',{}' '\n' <<<"${lines[0]}" | awk -F: '
        { t[$1] = $2 }
        END { exit !(0 < t["\"least\""] && t["\"least\""] <= t["\"median\""] &&
                     t["\"median\""] <= t["\"most\""]) }'
    [[ ${lines[1]} == '{"bye":true,"answered":1}' ]]
}

@test "refusals: what the host has not, what is too large or long, what is malformed" {
    serve "$(cat <<'LIST'
{"id": 1, "quantity": "gemm", "dtype": "bf16", "pass": "forward", "m": 8, "n": 8, "k": 8}
{"id": 2, "quantity": "gemm", "dtype": "fp32", "pass": "forward", "m": 1073741824, "n": 1073741824, "k": 8}
{"id": 3, "quantity": "gemm", "dtype": "fp32", "pass": "forward", "m": 2048, "n": 2048, "k": 2048}
{"id": 4, "quantity": "launch", "graph": 1, "kernels": 4}
{"id": 5, "quantity": "gemmm"}
{"id": 6, "quantity": "gemm", "dtype": "fp32", "pass": "forward", "m": 8, "n": 8}
{"id": 7, "rounds": 0, "quantity": "launch", "graph": 0, "kernels": 4}
{"quantity": "launch", "graph": 0, "kernels": 4}
not JSON
[1]
{"id": 8, "group": "leave"}
{"id": 9, "quantity": "collective", "kind": "all_gather", "ranks": 64, "ranks_per_domain": 64, "bytes": 256}
{"id": 10, "quantity": "elementwise", "op": "quantise", "pass": "forward", "rows": 4, "width": 4}
{"id": 11, "quantity": "adamw", "parameters": 1125899906842624, "buckets": 1}
{"id": 12, "quantity": "stream", "op": "triad", "bytes": 13}
LIST
)" --kernels own --limit 0.05
    says 0 '{"id":1,"refused":"unsupported","text":"the host computes in fp32"}'
    says 1 '{"id":2,"refused":"memory"'
    says 2 '{"id":3,"refused":"unsupported","text":"one run would take about'
    says 3 '"refused":"unsupported"'
    says 4 "\"failed\",\"text\":\"unknown quantity 'gemmm'; did you mean 'gemm'?\""
    says 5 "\"failed\",\"text\":\"gemm: a sample needs 'k'\""
    says 6 "'rounds' is a whole number"
    says 7 "{\"id\":0,\"refused\":\"failed\",\"text\":\"a request is an object with 'id'"
    says 8 '"refused":"failed"'
    says 9 '"refused":"failed"'
    says 10 "'group' is new, or join"
    says 11 '"refused":"unsupported"'
    says 12 '"refused":"unsupported"'
    says 13 '"refused":"'
    says 14 '"refused":"unsupported"'
    [[ ${lines[15]} == '{"bye":true,"answered":15}' ]]
}

@test "a line of more than 64 KiB is refused and the next one answered" {
    serve "$(head -c 70000 /dev/zero | tr '\0' x; echo; echo "{\"id\": 3, $PRODUCT}")" --kernels own
    says 0 '"a line has 64 KiB at most"'
    says 1 '{"id":3,"quantity":"gemm"'
}

@test "a wrong result is refused, whatever the quantity" {
    while read -r request; do
        name=$(sed -E 's/.*"quantity": "([a-z_]+)".*/\1/' <<<"$request")
        serve "{\"id\": 1, ${request#\{}" --kernels own --fault "$name"
        [[ ${lines[0]} == '{"id":1,"refused":"failed","text":"the result is wrong"}' ]] ||
            { echo "$name: ${lines[0]}" && false; }
    done < <("$PROBE" --check --kernels own |
        sed -nE 's/, "time_s".*/}/p' | grep -vE '"(launch|host_copy)"')
    run --separate-stderr "$PROBE" --check --kernels own --fault gemm
    [[ $status -eq 5 && $stderr == *'a result is wrong'* ]]
}

@test "a job keeps to its limit" {
    started=$(date +%s%N)
    serve '{"id": 1, "rounds": 1000, "quantity": "stream", "op": "copy", "bytes": 16777216}' \
        --limit 0.1
    says 0 '"verified":true'
    (($(date +%s%N) - started < 20000000000))
    [[ $(sed -E 's/.*"rounds":([0-9]+).*/\1/' <<<"${lines[0]}") -lt 1000 ]]
}

# join RANK RANKS ID: the requests of one rank
join() {
    printf '{"id": 1, "group": "join", "group_id": "%s", "rank": %d, "ranks": %d, "ranks_per_domain": 2}\n' \
        "$3" "$1" "$2"
    for kind in all_reduce all_gather reduce_scatter all_to_all point_to_point; do
        printf '{"id": 2, "rounds": 3, "quantity": "collective", "kind": "%s", "ranks": %d, "ranks_per_domain": 2, "bytes": 48000}\n' \
            $kind "$2"
    done
}

new_group() {
    echo '{"id": 1, "group": "new"}' | "$PROBE" serve | sed -nE 's/.*"group":"([0-9a-f]{32})".*/\1/p'
}

@test "four processes: every collective at every rank, and no shared memory left" {
    id=$(new_group)
    [[ ${#id} -eq 32 ]]
    for rank in 0 1 2 3; do
        join $rank 4 "$id" | "$PROBE" serve --wait 60 >"$BATS_TEST_TMPDIR/$rank" &
    done
    wait
    for rank in 0 1 2 3; do
        [[ $(grep -c '"verified":true' "$BATS_TEST_TMPDIR/$rank") -eq 5 ]] ||
            { cat "$BATS_TEST_TMPDIR/$rank" && false; }
    done
    [[ -z $(compgen -G "/dev/shm/mosaic-$id*") ]]
}

@test "a rank that never comes costs the time-out, and so does one that goes" {
    id=$(new_group)
    run --separate-stderr bash -c '"$1" serve --wait 0.3' sh "$PROBE" < <(join 0 2 "$id")
    [[ $status -eq 0 ]]
    says 1 '"text":"not all of the 2 ranks came within 0.3 s"'
    [[ -z $(compgen -G "/dev/shm/mosaic-$id*") ]]
    id=$(new_group)
    join 1 2 "$id" | head -n 2 | "$PROBE" serve --wait 30 >"$BATS_TEST_TMPDIR/short" &
    run --separate-stderr bash -c '"$1" serve --wait 2' sh "$PROBE" < <(join 0 2 "$id")
    wait
    says 1 '"joined":true'
    says 2 '"verified":true'
    says 3 '"refused":"failed"'
    grep -q '"verified":true' "$BATS_TEST_TMPDIR/short"
}

@test "an id that is none, and a place outside, are refused" {
    serve "$(cat <<'LIST'
{"id": 1, "group": "join", "group_id": "../x", "rank": 0, "ranks": 1, "ranks_per_domain": 1}
{"id": 2, "group": "join", "group_id": "00112233445566778899aabbccddeeff", "rank": 2, "ranks": 2, "ranks_per_domain": 1}
{"id": 3, "group": "join", "rank": 0, "ranks": 1, "ranks_per_domain": 1}
LIST
)"
    says 0 'a group id has 32 hexadecimal digits'
    says 1 'no such place: rank 2 of 2'
    says 2 'or join with group_id'
}

@test "cluster: a document that mosaic takes" {
    "$PROBE" cluster >"$BATS_TEST_TMPDIR/host.yaml"
    run "$MOSAIC" lint "$BATS_TEST_TMPDIR/host.yaml"
    [[ $status -eq 0 ]] || { echo "$output" && false; }
}

@test "without OpenBLAS the program is built with its own loops" {
    [[ ${MOSAIC_FLAVOUR:-release} == release ]] || skip 'a matter of the Makefile'
    run make -n -B OPENBLAS=0 host-probe
    [[ $status -eq 0 && $output == *calibration/host/gemm.c* && $output != *openblas* ]]
}
