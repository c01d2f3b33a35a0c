#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# `mosaic calibrate`: probes that are well and ill, journals, replay, many ranks, drift.

load common

setup() {
    MOSAIC=$(realpath "${MOSAIC:-$ROOT/build/mosaic}")
    cd "$BATS_TEST_TMPDIR" || return 1
    unset NO_COLOR "${!SLURM@}" "${!OMPI@}" "${!PMI@}" "${!MOSAIC_@}" RANK WORLD_SIZE
    toy_probe >toy
    chmod +x toy
}

# A probe that answers at once: times follow from the sizes, as on a device of even speed.
toy_probe() {
    cat <<'END'
#!/usr/bin/env bash
[[ $1 == serve ]] || exit 2
cat <<'HELLO'
{"protocol":"mosaic-probe/1","probe":"toy","version":"1","device":{"name":"NVIDIA B200","count":1,"memory_bytes":190000000000},"software":{"toy":"3"},"quantities":["gemm","attention","stream","collective"]}
HELLO
number() { [[ $line =~ \"$1\":\ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}"; }
while read -r line; do
    [[ -z ${TOY_DIES_AT:-} || $((++asked)) -lt $TOY_DIES_AT ]] || kill -9 $PPID
    case $line in
    *'"group": "new"'*) echo "{\"id\": $(number id), \"group\": \"ab12\"}"; continue ;;
    *'"group": "join"'*) echo "{\"id\": $(number id), \"joined\": true}"; continue ;;
    *'"gemm"'*'"nvfp4"'*) echo "{\"id\": $(number id), \"refused\": \"unsupported\", \"text\": \"no such unit\"}"; continue ;;
    *'"gemm"'*) work=$(($(number m) * $(number n) * $(number k) / 500000)) ;;
    *'"attention"'*) work=$(($(number sequence) ** 2 * 16 * 128 / 500000)) ;;
    *) work=$(($(number bytes) / 6000)) ;;
    esac
    time=$((work + 400)) # nanoseconds
    line=${line/"\"rounds\": $(number rounds), "/}
    echo "${line%\}}, \"time_s\": {\"median\": ${time}e-9, \"least\": $((time - time / 50))e-9, \"most\": $((time + time / 50))e-9}, \"rounds\": 5, \"verified\": true}"
done
END
}

quick() {
    "$MOSAIC" calibrate --quick "$@"
}

# value ENTRY: of CSV on standard input
verdict() {
    awk -F, -v entry="$1" '$1 == entry { print $3 }'
}

# ill TEXT SCRIPT: this probe does not get past its hello
ill() {
    printf '#!/bin/sh\n%s\n' "$2" >ill
    chmod +x ill
    run --separate-stderr quick --probe ./ill --timeout 1
    refused 6
    [[ $stderr == *"$1"* ]] || { echo "$stderr" && return 1; }
}

@test "a probe's samples become a document, a result and a journal" {
    run --separate-stderr quick --probe ./toy --samples j -o made.yaml -f json
    [[ $status -eq 0 && -z $stderr ]] || { echo "$stderr" && return 1; }
    printf '%s\n' "$output" >r.json
    fits_schema "$PWD/r.json"
    [[ $output == *'"data_sheet": "'*b200* && $output == *'"text": "no such unit"'* ]]
    grep -q '^schema: mosaic-calibration/1$' made.yaml
    grep -q '^name: "made"$' made.yaml
    grep -q 'quantity: gemm.bf16.share' made.yaml
    grep -q 'software: "toy 3"' made.yaml
    run "$MOSAIC" lint made.yaml
    [[ $status -eq 0 ]]
    [[ $(head -n 1 j) == *mosaic-probe/1* && $(wc -l <j) -gt 40 ]]
    # The table says the same.
    run quick --probe ./toy --samples j
    [[ $output == *'NVIDIA B200 by probe toy 1, level quick: complete.'* ]]
    [[ $output == *' 0 measured now'* && $output == *'no such unit'* ]]
}

@test "the next start goes on, after half a line too; another probe's journal is refused" {
    quick --probe ./toy --samples j -o whole.yaml >/dev/null
    cp j all
    head -n 20 all | head -c -15 >j
    run --separate-stderr quick --probe ./toy --samples j -o whole2.yaml -f json
    [[ $status -eq 0 && $output == *'"resumed": 18'* && $output == *'was cut off'* ]]
    [[ $(sort j) == "$(sort all)" ]]
    cmp <(sed 1,4d whole.yaml) <(sed 1,4d whole2.yaml)
    sed -i 's/"toy":"3"/"toy":"4"/' toy
    run --separate-stderr quick --probe ./toy --samples j
    refused 3
    [[ $stderr == *"version of toy is '4', not '3'"* && $stderr == *--restart* ]]
    quick --probe ./toy --samples j --restart >/dev/null
    [[ $(head -n 1 j) == *'"4"'* && $(wc -l <j) -eq $(wc -l <all) ]]
}

@test "replay gives the document byte for byte; a scaled quantity moves its entries alone" {
    quick --probe ./toy --samples j -o a.yaml >/dev/null
    mkdir again
    quick --probe replay -o again/a.yaml -- --journal j >/dev/null
    cmp a.yaml again/a.yaml
    quick --probe replay -o slower.yaml -- --journal j --scale attention=1.1 >/dev/null
    run --separate-stderr "$MOSAIC" calibrate --compare a.yaml again/a.yaml --tolerance 'all=0 %'
    [[ $status -eq 0 ]] || { echo "$stderr" && return 1; }
    run --separate-stderr "$MOSAIC" calibrate --compare a.yaml slower.yaml -f csv
    [[ $status -eq 7 && $stderr == *' entries drifted'* ]]
    [[ $(verdict attention.bf16.forward <<<"$output") == changed ]]
    [[ $(awk -F, '$3 == "changed" && $1 !~ /^attention/' <<<"$output") == '' ]]
    run "$MOSAIC" calibrate --compare a.yaml slower.yaml --tolerance 'all=15 %'
    [[ $status -eq 0 ]]
    run "$MOSAIC" calibrate --compare a.yaml slower.yaml --tolerance attention.bf16.forward=0.2 \
        --tolerance attention.share=0.2 --tolerance attention.half_sequence=0.9
    [[ $status -eq 0 ]] || { echo "$output" && return 1; }
    "$MOSAIC" calibrate --compare a.yaml slower.yaml -f json >d.json 2>/dev/null || true
    fits_schema "$PWD/d.json"
    # Other machines are not compared; what is no calibration neither.
    sed 's/^device: .*/device: "H100"/' slower.yaml >other.yaml
    run --separate-stderr "$MOSAIC" calibrate --compare a.yaml other.yaml
    refused 3
    [[ $stderr == *"is of the device 'B200', other.yaml of 'H100'"* ]]
    run --separate-stderr "$MOSAIC" calibrate --compare a.yaml "$ROOT/$PREDICT"
    refused 3
}

@test "an entry that is gone is drift, a new one is not" {
    quick --probe ./toy -o a.yaml >/dev/null
    awk '/^  - quantity: hbm.share/ { skip = 1; next } /^  - / || /^[a-z#]/ { skip = 0 } !skip' \
        a.yaml >less.yaml
    run --separate-stderr "$MOSAIC" calibrate --compare a.yaml less.yaml -f csv
    [[ $status -eq 7 && $(verdict hbm.share <<<"$output") == missing ]]
    run --separate-stderr "$MOSAIC" calibrate --compare less.yaml a.yaml -f csv
    [[ $status -eq 0 && $(verdict hbm.share <<<"$output") == new ]]
}

@test "a probe that is missing, foreign or ill is exit 6 with its reason" {
    run --separate-stderr quick --probe nobody
    refused 6
    [[ $stderr == *"no probe 'nobody'"* && $stderr == *replay* ]]
    run --separate-stderr quick --probe ./nowhere
    refused 6
    echo text >plain
    run --separate-stderr quick --probe ./plain
    refused 6
    [[ $stderr == *'cannot be executed'* ]]
    ill "speaks 'mosaic-probe/9'" 'echo "{\"protocol\":\"mosaic-probe/9\"}"'
    ill 'was silent for 1 s before its hello' 'sleep 60'
    ill 'no driver here' 'echo no driver here >&2; exit 6'
    ill 'signal 11' 'kill -SEGV $$'
    ill 'is no object of JSON' 'echo rubbish; sleep 9'
}

@test "a probe that fails midway costs its measurement; what was measured is kept" {
    quick --probe ./toy --samples j -o good.yaml >/dev/null
    for how in crash exit hang rubbish long wrong-id wrong-keys close; do
        rm -f k
        # Lost every time after 12 lines, so that a few are lost of some forty.
        run --separate-stderr quick --probe replay --samples k --timeout 0.5 -f json \
            -- --journal j "--$how-after" 12
        [[ $status -eq 6 && $stderr == *'were lost'* && $stderr == *'goes on from there'* ]] ||
            { echo "$how: $status $stderr" && return 1; }
        [[ $output == *'"status": "partial"'* ]]
        printf '%s\n' "$output" >r.json
        fits_schema "$PWD/r.json"
        [[ $(grep -c '"lost"' k) -ge 2 && $(wc -l <k) -eq $(wc -l <j) ]]
        # The next start asks for these alone.
        quick --probe replay --samples k -o k.yaml -- --journal j >/dev/null
        cmp <(sed 1,4d good.yaml) <(sed 1,4d k.yaml)
    done
    run --separate-stderr quick --probe replay -- --journal j --exit-after 12
    [[ $stderr == *'fell off the bus'* && $stderr == *'--samples FILE'* ]]
}

@test "two losses in a row end it, with what there was; no file is written" {
    printf 'old\n' >c.yaml
    quick --probe ./toy --samples j >/dev/null
    run --separate-stderr quick --probe replay --samples k -o c.yaml -f json \
        -- --journal j --crash-after 1
    [[ $status -eq 6 && $output == *'"status": "failed"'* && $stderr == *'signal 11'* ]]
    [[ $(cat c.yaml) == old && $(wc -l <k) -eq 3 ]]
}

@test "SIGINT ends the probe, keeps the journal, exit 130" {
    quick --probe ./toy --samples j >/dev/null
    run --separate-stderr timeout --foreground -s INT --preserve-status -k 60 2 \
        "$MOSAIC" calibrate --quick --probe replay --samples k -o c.yaml -f json \
        -- --journal j --delay 0.2
    [[ $status -eq 130 && $output == *'"status": "interrupted"'* ]]
    [[ ! -e c.yaml && $(wc -l <k) -gt 2 && $(wc -l <k) -lt 20 ]]
    quick --probe replay --samples k -o c.yaml -- --journal j >/dev/null
    [[ -s c.yaml ]]
}

@test "this machine's processors are measured by the host probe" {
    [[ -x ${MOSAIC%/*}/mosaic-probe-host ]] || skip "not built"
    run --separate-stderr quick --probe host --budget '3 s' --samples j -o host.yaml -f json
    [[ $status -eq 0 ]] || { echo "$stderr" && return 1; }
    printf '%s\n' "$output" >r.json
    fits_schema "$PWD/r.json"
    [[ $output == *'"name": "host"'* && $(wc -l <j) -gt 3 ]]
    quick --probe replay --budget '3 s' -o again.yaml -- --journal j >/dev/null
}

@test "a budget bounds what is begun" {
    quick --probe ./toy --samples j >/dev/null
    run --separate-stderr quick --probe replay --budget '1.5 s' -f json -- --journal j --delay 0.1
    [[ $status -eq 0 && $output == *'"why": "budget"'* || $output == *'"left_out"'* ]]
    ((SECONDS < 20))
}

# rank R N [COMMAND...]: one of N processes on this machine
rank() {
    local r=$1 n=$2
    shift 2
    MOSAIC_RANK=$r MOSAIC_RANKS=$n MOSAIC_LOCAL_RANK=$r MOSAIC_ADDRESS=127.0.0.1 \
        MOSAIC_PORT=$port MOSAIC_SECRET=tell-nobody "$@" >"out.$r" 2>"err.$r"
}

# Ports of tests that run side by side differ.
choose_port() {
    port=$((20000 + (BASHPID + RANDOM) % 20000))
}

@test "four ranks on loopback measure together; rank 0 alone writes" {
    choose_port
    for r in 1 2 3; do rank $r 4 quick --probe ./toy & done
    rank 0 4 quick --probe ./toy --samples j -o team.yaml -f json
    wait
    fits_schema "$PWD/out.0"
    grep -q '"ranks": 4' out.0
    [[ ! -s out.1 && ! -s out.2 && ! -s out.3 && ! -s err.0 ]]
    grep -q 'collective: all_to_all' team.yaml
    grep -q '"point_to_point".*"links"' j
    # And resumes as one.
    choose_port
    for r in 1 2 3; do rank $r 4 quick --probe ./toy & done
    rank 0 4 quick --probe ./toy --samples j -f json
    wait
    grep -q '"measured": 0,' out.0
    # One process plays the record of four.
    mkdir again
    quick --probe replay -o again/team.yaml -- --journal j >/dev/null
    cmp team.yaml again/team.yaml
}

@test "a rank that never comes is named within the time-out, by all" {
    choose_port
    for r in 1 3; do
        { rank $r 4 quick --probe ./toy --timeout 2 || echo "status $?" >>"err.$r"; } &
    done
    run rank 0 4 quick --probe ./toy --timeout 2
    wait
    [[ $status -eq 6 ]]
    [[ $(cat err.0) == *'3 of 4 ranks came within 2 s; missing: 2'* ]] || { cat err.0 && return 1; }
    [[ $(cat err.1) == *'missing: 2'*'status 6' ]]
}

@test "a rank that is killed midway costs its part; the rest is written" {
    choose_port
    for r in 1 2; do rank $r 4 quick --probe ./toy & done
    (TOY_DIES_AT=9 rank 3 4 quick --probe ./toy || true) &
    run rank 0 4 quick --probe ./toy --samples j -o part.yaml --timeout 3 -f json
    wait
    [[ $status -eq 6 ]]
    grep -q '"status": "partial"' out.0
    grep -q '"rank": "rank 3 on ' out.0
    [[ $(cat err.0) == *'were lost'* ]]
    grep -q 'quantity: gemm.bf16.share' part.yaml
    fits_schema "$PWD/out.0"
}

# ---- what goes wrong around it -------------------------------------------------------------------

# ends_all SECONDS COMMAND...: in the background, as $job, and $reader ends with 0 once it and all
# that it started are gone, with 124 if that takes longer
ends_all() {
    local limit=$1
    shift
    rm -f hold && mkfifo hold
    timeout "$limit" cat hold >/dev/null &
    reader=$!
    "$@" 7>hold >out 2>err &
    job=$!
}

# whole FILE: lines of JSON, none cut off
whole() {
    [[ -s $1 && -z $(tail -c 1 "$1" | tr -d '\n') ]] && ! grep -qv '^{.*}$' "$1"
}

@test "a probe does not outlive a mosaic that is killed" {
    [[ $(uname) == Linux ]] || skip "of Linux"
    quick --probe ./toy --samples j >/dev/null
    ends_all 5 "$MOSAIC" calibrate --quick --probe replay --samples k -- --journal j --hang-after 5
    sleep 0.7
    began=$SECONDS
    kill -9 "$job"
    wait "$job" || true
    wait "$reader" || { echo "left alive" && return 1; }
    ((SECONDS - began <= 2))
    whole k
    [[ $(wc -l <k) -eq 5 ]]
}

@test "SIGTERM and SIGHUP, of schedulers and terminals, end it as SIGINT does" {
    quick --probe ./toy --samples j >/dev/null
    for signal in TERM HUP; do
        rm -f k
        ends_all 9 "$MOSAIC" calibrate --quick --probe replay --samples k -o c.yaml -f json \
            -- --journal j --delay 0.2
        sleep 0.7
        kill -s $signal "$job"
        status=0
        wait "$job" || status=$?
        [[ $status -eq 130 ]] || { echo "$signal: $status" && return 1; }
        wait "$reader"
        fits_schema "$PWD/out"
        grep -q '"status": "interrupted"' out
        [[ ! -e c.yaml && $(<err) == *'goes on from there'* ]]
        whole k
    done
}

@test "a disk that is full costs the line that did not fit, and is told" {
    quick --probe ./toy --samples j -o whole.yaml >/dev/null
    run bash -c 'trap "" XFSZ; ulimit -f 4; "$0" calibrate --quick --probe ./toy --samples k \
        -f csv 2>err' "$MOSAIC"
    [[ $status -eq 4 && $output == *gemm* ]]
    [[ $(<err) == *"cannot write to 'k': "* ]]
    whole k
    [[ $(wc -l <k) -gt 5 ]]
    quick --probe ./toy --samples k -o whole2.yaml >/dev/null
    cmp <(sed 1,4d whole.yaml) <(sed 1,4d whole2.yaml)
}

@test "files that cannot be a journal, or a document, are named before anything is measured" {
    mkfifo pipe
    printf 'a note' >note
    cp note note.was
    for bad in "4 nowhere/j" "4 $PWD" "3 /dev/full" "3 pipe" "3 note" "3 note --restart"; do
        # shellcheck disable=SC2086 # words
        set -- $bad
        run --separate-stderr quick --probe ./toy --samples "${@:2}"
        refused "$1"
        [[ $stderr == *"$2"* ]] || { echo "$bad: $stderr" && return 1; }
    done
    cmp note note.was
    run --separate-stderr quick --probe ./toy --samples j -o nowhere/c.yaml
    refused 4
    [[ $stderr == *"'nowhere/c.yaml'"* && ! -e j ]]
    run --separate-stderr quick --probe ./toy -o /dev/full
    [[ $status -eq 4 && $output == *'NVIDIA B200'* && $stderr == */dev/full* ]]
    # Two at once.
    quick --probe ./toy --samples j >/dev/null
    quick --probe replay --samples k -- --journal j --delay 0.2 >/dev/null &
    sleep 0.7
    run --separate-stderr quick --probe replay --samples k -- --journal j
    refused 4
    [[ $stderr == *k*'another process'* ]]
    kill "$!"
    wait "$!" || true
    whole k
}

# speaks ANSWER: a probe that answers its first request by this sed script of the toy's answer
speaks() {
    { sed -n '1,/^HELLO$/p' toy && cat && echo 'sleep 20'; } >ill
    chmod +x ill
}

@test "what a probe says that cannot be is exit 6, and says of what" {
    good='"time_s": {"median": 2e-6, "least": 1e-6, "most": 3e-6}, "rounds": 5, "verified": true'
    while IFS='|' read -r how says; do
        speaks <<<"read -r line; line=\${line/\\\"rounds\\\": +([0-9]), /}
            echo \"\${line%\\}}, \"'$good}' | sed '$how'"
        sed -i '1a shopt -s extglob' ill
        run --separate-stderr quick --probe ./ill --samples k --restart --timeout 1
        [[ $status -eq 6 && $stderr == *'measuring attention bf16 '*"$says"* ]] ||
            { echo "$how: $status $stderr" && return 1; }
        whole k
        [[ $(grep -c '"lost"' k) -eq 2 ]]
    done <<'END'
s/2e-6/NaN/|near 'NaN'
s/3e-6/1e999/|real number overflow
s/2e-6/-2e-6/|'time_s.median' is -2e-06, not above 0
s/1e-6/0/|'time_s.least' is 0, not above 0
s/1e-6/1e-300/|which nothing takes
s/3e-6/1e300/|which nothing takes
s/1e-6/9e-6/|out of order
s/"median"/"least"/|duplicate
s/"rounds": 5/"rounds": 99999999999999999999/|too big integer
s/"rounds": 5/"rounds": 0/|'rounds' is a whole number
s/, "verified": true//|needs 'verified'
s/"id": 1,/"id": 1, "id": 2,/|duplicate
s/"id": 1,/"id": 7,/|request 7, not to request 1
s/.*/[]/|is no object of JSON
END
}

@test "a probe that does not stop, does not end its line, or leaves a child behind" {
    speaks <<<'read -r line; head -c 1000000000 /dev/zero | tr "\0" x'
    run --separate-stderr quick --probe ./ill --timeout 5
    [[ $status -eq 6 && $stderr == *'a line of more than'* ]]
    speaks <<<'read -r line; while printf x; do sleep 0.1; done'
    run --separate-stderr quick --probe ./ill --timeout 0.5
    [[ $status -eq 6 && $stderr == *'did not end its line in'* ]]
    speaks <<<'read -r line; yes no device >&2'
    run --separate-stderr quick --probe ./ill --timeout 0.5
    [[ $status -eq 6 && $stderr == *'it said: no device'* ]]
    speaks <<<'read -r line; setsid sleep 3 & exit 9'
    SECONDS=0
    run --separate-stderr quick --probe ./ill --timeout 60
    [[ $status -eq 6 && $stderr == *'with status 9'* ]]
    ((SECONDS < 20))
}

@test "a probe, or a device, that has nothing to measure" {
    # shellcheck disable=SC2016 # of the probe's shell
    sed -i '1a [[ $1 == serve ]] || exit 2; cat hello; sleep 9; exit' toy
    grep protocol toy >hello.all
    while IFS='|' read -r how says; do
        sed "$how" hello.all >hello
        run --separate-stderr quick --probe ./toy --timeout 1
        refused 6
        [[ $stderr == *"$says"* ]] || { echo "$how: $stderr" && return 1; }
    done <<'END'
s/"quantities":.*/"quantities":[]}/|names nothing known
s/"quantities":.*/"quantities":["love"]}/|names nothing known
s/"quantities":.*/"quantities":["collective"]}/|nothing of what the probe can do
s/190000000000/1/|nothing of what the probe can do
s/"count":1/"count":0/|'device.count'
s/"name":"NVIDIA B200"/"name":""/|'device.name' is missing
s/.*/{}/|'protocol' is missing
s/NVIDIA/\xff/|unable to decode
END
}

@test "streams that are closed: nothing that is said there goes into the journal" {
    quick --probe ./toy --samples j --progress always 2>&- >/dev/null
    whole j
    # shellcheck disable=SC2016 # of the inner shell
    run -4 bash -c '"$0" calibrate --quick --probe ./toy --samples k <&- >&- 2>&-' "$MOSAIC"
    whole k
    cmp <(sort j) <(sort k)
    quick --probe ./toy --samples l | true
    whole l
}

# shellcheck disable=SC2030
@test "--compare: the same file has not changed; a tolerance that is misspelt is refused" {
    for file in "$ROOT"/calibration/data/{h200-kernels,p6-b200-published,generic}.yaml; do
        run --separate-stderr "$MOSAIC" calibrate --compare "$file" "$file" --tolerance 'all=0 %'
        [[ $status -eq 0 ]] || { echo "$file: $stderr" && return 1; }
    done
    run --separate-stderr "$MOSAIC" calibrate --compare "$file" "$file" --tolerance hbm.shar=0.1
    refused 2
    [[ $stderr == *"'hbm.shar'"* ]]
    run --separate-stderr "$MOSAIC" calibrate --compare "$file" /dev/null
    refused 3
    run --separate-stderr "$MOSAIC" calibrate --compare toy "$file"
    refused 3
}

# ---- real launchers ------------------------------------------------------------------------------

# launch COMMAND...: a good run by four ranks of a launcher, of which rank 0 alone writes; two at
# once; one that is killed; the next start goes on
# shellcheck disable=SC2031 # run sets them here
launch() {
    quick --probe ./toy --samples record >/dev/null
    play=("$MOSAIC" calibrate --quick --probe replay -f json)
    "$@" "${play[@]}" -o first.yaml -- --journal record >first &
    "$@" "${play[@]}" -o second.yaml -- --journal record >second
    wait "$!"
    fits_schema "$PWD/first" "$PWD/second"
    grep -q "\"launcher\": \"$launcher\"" first
    grep -q '"ranks": 4' second
    cmp <(sed 1,4d first.yaml) <(sed 1,4d second.yaml)
    # Rank 3 has the toy, which kills its parent.
    cat >one-dies <<'END'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}
[[ $rank != 3 ]] || TOY_DIES_AT=9 exec "$1" calibrate --quick --probe ./toy
exec "$@"
END
    chmod +x one-dies
    run --separate-stderr "$@" ./one-dies "${play[@]}" --samples j -- --journal record
    [[ $status -ne 0 ]]
    whole j
    kept=$(grep -c time_s j)
    ((kept > 3))
    run --separate-stderr "$@" "${play[@]}" --samples j -- --journal record
    [[ $status -eq 0 && $output =~ '"resumed": '([0-9]+) ]]
    ((BASH_REMATCH[1] >= kept - 1))
}

# mpirun_of WORD NAME...: the first of these commands whose version has the word
mpirun_of() {
    local word=$1 name
    shift
    for name; do
        if command -v "$name" >/dev/null && [[ $("$name" --version 2>&1) == *"$word"* ]]; then
            mpirun=$name
            return
        fi
    done
    skip "no mpirun of $word"
}

@test "mpirun of Open MPI" {
    mpirun_of 'Open MPI' mpirun.openmpi mpirun
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    launcher=mpirun
    launch timeout 60 "$mpirun" --oversubscribe -n 4
}

@test "mpirun of MPICH" {
    mpirun_of HYDRA mpirun.mpich mpiexec.hydra mpirun
    launcher=mpirun
    launch timeout 60 "$mpirun" -n 4
}

@test "srun" {
    [[ $MOSAIC_FLAVOUR != tsan ]] || skip "slurmd starts programs with another memory layout"
    command -v srun >/dev/null || skip "no srun"
    timeout 2 sinfo -h >/dev/null 2>&1 || skip "no Slurm that answers"
    srun=(timeout 60 srun -Q --immediate=3 -t 1 -n 4)
    "${srun[@]}" true 2>/dev/null || skip "Slurm has no four tasks to give at once"
    launcher=srun
    launch "${srun[@]}"
    # A rank that never comes.
    # shellcheck disable=SC2016 # of the rank's shell
    run --separate-stderr "${srun[@]}" bash -c '[[ $SLURM_PROCID == 2 ]] || exec "$@"' - \
        "${play[@]}" --timeout 1 -- --journal record
    refused 6
    [[ $stderr == *'3 of 4 ranks came within 1 s; missing: 2'* ]]
    # It sets the variables of MPICH's mpirun too.
    if [[ $(srun --mpi=list 2>&1) == *pmi2* ]]; then
        "${srun[@]}" --mpi=pmi2 "${play[@]}" -- --journal record >third
        grep -q '"launcher": "srun"' third
    fi
}

# torchrun sets these for each of four processes here
torch() {
    local r=$1
    shift
    RANK=$r LOCAL_RANK=$r WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=no.such.host \
        MASTER_PORT=$port TORCHELASTIC_RUN_ID=none "$@" >"out.$r" 2>"err.$r"
}

@test "torchrun, as its variables are; a port that is taken; another version among them" {
    choose_port
    # A job of two ranks waits for its second one where this one would listen.
    MOSAIC_RANK=0 MOSAIC_RANKS=2 MOSAIC_PORT=$((port + 1)) "$MOSAIC" calibrate --quick \
        --probe ./toy --timeout 20 >/dev/null 2>&1 &
    other=$!
    sleep 0.5
    for r in 1 2 3; do torch $r quick --probe ./toy & done
    torch 0 quick --probe ./toy -f json
    kill "$other"
    wait
    fits_schema "$PWD/out.0"
    grep -q '"launcher": "torchrun"' out.0
    [[ -z $(cat out.1 out.2 out.3 err.0) ]]
    choose_port
    version=$("$MOSAIC" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
    sed "s/${version//./\\.}/9.9.9/g" "$MOSAIC" >older
    [[ ${#version} -eq 5 ]] || skip "only a version of five characters can be exchanged"
    chmod +x older
    for r in 1 2; do torch $r quick --probe ./toy & done
    torch 3 ./older calibrate --quick --probe ./toy &
    run torch 0 quick --probe ./toy
    wait
    [[ $status -eq 6 && $(<err.0) == *'runs mosaic 9.9.9, rank 0'* ]]
}

@test "a batch script within an allocation of many tasks measures alone, and is told so" {
    export SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_LOCALID=0
    run --separate-stderr quick --probe ./toy
    [[ $status -eq 0 && $stderr == *'the allocation has 8 tasks'*'srun'* ]]
}

@test "usage" {
    for bad in '' '--quick' '--probe ./toy --quick --full' '--probe ./toy --restart' \
        '--compare a' '--compare a b c' '--compare --probe ./toy a b' '--probe ./toy -o -' \
        '--probe ./toy --timeout soon' '--probe ./toy --budget 0' '--probe ./toy --samples -' \
        '--compare --tolerance x a b'; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr "$MOSAIC" calibrate $bad
        refused 2 || { echo "for '$bad'" && return 1; }
    done
    run --separate-stderr quick --probe ./toy --cluster nowhere.yaml
    refused 4
    run --separate-stderr "$MOSAIC" calibrate --compare nowhere.yaml toy
    refused 4
    run "$MOSAIC" calibrate --help
    [[ $status -eq 0 && $output == *'--samples FILE'* ]]
}

@test "the probe that replays has its own usage" {
    replay=${MOSAIC%/*}/mosaic-probe-replay
    run "$replay" --help
    [[ $status -eq 0 && $output == *--crash-after* ]]
    run "$replay" --version
    [[ $status -eq 0 ]]
    run -2 "$replay" serve
    run -2 "$replay" serve --journal j --scale love=2
    run -4 "$replay" serve --journal nowhere </dev/null
    echo rubbish >bad
    run -3 "$replay" serve --journal bad </dev/null
    run ldd "$replay"
    [[ $status -ne 0 || ($output != *glpk* && $output != *gsl*) ]]
}
