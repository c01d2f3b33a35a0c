#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# mosaic import: shapes of one run, definitions, what is refused and what is doubted, documents that
# plans read.  Numbers in brackets are cases of published reports.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

IN=tests/import
P6=configs/clusters/p6-b200.yaml

# import KIND FILE... [options]: as JSON into out.json, the document into out.yaml
import() {
    "$MOSAIC" import "$@" -f json -o "$BATS_TEST_TMPDIR/out.yaml" >"$BATS_TEST_TMPDIR/out.json" ||
        return
    fits_schema "$BATS_TEST_TMPDIR/out.json"
}

# nccl PROGRAM NODES GPUS BUS_GB/S [LATENCY_US]: the text of a run
nccl() {
    awk -v program="$1" -v nodes="$2" -v gpus="$3" -v bus="$4" -v latency="${5:-40}" 'BEGIN {
        n = nodes * gpus
        factor = program ~ /sendrecv/ ? 1 : (program ~ /all_reduce/ ? 2 : 1) * (n - 1) / n
        print "# Collective test starting: " program
        print "# nThread 1 nGpus 1 minBytes 65536 maxBytes 1073741824"
        print "# Using devices"
        for (r = 0; r < n; r++)
            printf "#  Rank %2d Group  0 Pid %6d on node-%d device %d [0x0%d] NVIDIA B200\n", r, 99 + r,
                r / gpus, r % gpus, r % gpus
        print "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        for (s = 65536; s <= 1073741824; s *= 4) {
            t = sprintf("%.2f", latency + s * factor / bus / 1e3)
            printf "%d %d float sum -1 %s %.2f %.2f 0\n", s, s / 4, t, s / t / 1e3, s / t / 1e3 * factor
        }
    }'
}

# Samples of the last document's entries.
points() {
    grep -h 'samples: ' "$BATS_TEST_TMPDIR/out.yaml"
}

said() {
    grep -q -- "$1" "$BATS_TEST_TMPDIR/out.json" || { cat "$BATS_TEST_TMPDIR/out.json" && return 1; }
}

@test "old text, new text, CSV, JSON and fragments of one run give one curve [U56]" {
    local file want=
    for file in "$IN"/all_reduce*; do
        import nccl-tests "$file" --cluster "$P6"
        [[ -n $(points) ]]
        [[ -z $want || $(points) == "$want" ]] || { echo "$file: $(points)" && return 1; }
        want=$(points)
    done
    said '"all_reduce over 24 ranks: size is the whole buffer on one rank, bus bandwidth is 1.917 x'
    grep -q 'ranks_per_domain: 8' "$BATS_TEST_TMPDIR/out.yaml"
}

@test "a plan reads the document" {
    import nccl-tests "$IN/all_reduce.csv" --cluster "$P6"
    "$MOSAIC" lint "$BATS_TEST_TMPDIR/out.yaml"
    "$MOSAIC" predict "$PREDICT" --set calibration="$BATS_TEST_TMPDIR/out.yaml" >/dev/null
}

@test "a wrong count leaves the row out, loudly; N/A does not [U56]" {
    awk '$1 == 1048576 { $9 = 17 } { print }' "$IN/all_reduce-new.txt" >"$BATS_TEST_TMPDIR/wrong.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/wrong.txt" --cluster "$P6"
    said 'wrong.txt:[0-9]*: 17 elements of 1048576 bytes came out wrong: the row is left out'
    said '"refused": 1'
    [[ $(points) != *'[1 MiB,'* && $(points) == *'[4 MiB,'* ]]
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/wrong.txt" --cluster "$P6" --strict
    refused 3
    [[ $stderr == *'came out wrong'* && $stderr == *'without --strict'* ]]
}

@test "ranks listed twice are two jobs [U54]" {
    { sed -n '1,/node-a device  7/p' "$IN/all_reduce-old.txt"
        sed -n '/nThread/,/node-a device  7/p' "$IN/all_reduce-old.txt"
        sed -n '/out-of-place/,$p' "$IN/all_reduce-old.txt"; } >"$BATS_TEST_TMPDIR/two.txt"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/two.txt" --cluster "$P6"
    refused 3
    [[ $stderr == *'found 2 groups of 8 ranks, not one of 16'* && $stderr == *'MPI=1'* ]]
}

@test "a node with 7 of 8 ranks is named [U58]" {
    grep -v 'Rank 23 ' "$IN/all_reduce-new.txt" >"$BATS_TEST_TMPDIR/seven.txt"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/seven.txt" --cluster "$P6"
    refused 3
    [[ $stderr == *'node-a has 8 ranks, node-c has 7'* ]]
}

@test "an all-to-all is told apart from the link's speed [U43]" {
    nccl alltoall_perf 6 8 57 >"$BATS_TEST_TMPDIR/a2a.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/a2a.txt" --cluster "$P6"
    said 'all_to_all over 48 ranks, 8 in a domain: bus bandwidth 5[67][0-9.]* GB/s is 48[0-9.]* on each rank'
    grep -q 'collective: all_to_all' "$BATS_TEST_TMPDIR/out.yaml"
    nccl alltoall_perf 6 8 120 >"$BATS_TEST_TMPDIR/a2a.txt"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/a2a.txt" --cluster "$P6"
    refused 3
}

@test "bus bandwidth is of a rank, however many share a link [U44]" {
    nccl all_reduce_perf 4 8 3.92 >"$BATS_TEST_TMPDIR/shared.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/shared.txt" --cluster "$P6"
    [[ $(points) == *'[1 GiB, 3.9'* ]]
}

@test "reduction in the switch is no speed of the wire [U45]" {
    nccl all_reduce_perf 1 8 480 >"$BATS_TEST_TMPDIR/nvls.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/nvls.txt" --cluster configs/clusters/h100-ib.yaml
    said 'all_reduce over 8 ranks, 8 in a domain: bus bandwidth 47[0-9.]* GB/s is above the link.s 450'
    said 'holds for all-reduce alone'
    grep -q 'collective: all_reduce' "$BATS_TEST_TMPDIR/out.yaml"
}

@test "two nodes that beat their links are no measure of more [U46]" {
    nccl all_reduce_perf 2 8 460 >"$BATS_TEST_TMPDIR/tree.txt"
    nccl all_gather_perf 2 8 300 >"$BATS_TEST_TMPDIR/ring.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/tree.txt" "$BATS_TEST_TMPDIR/ring.txt" --cluster "$P6"
    said 'on 2 domains a tree sends less than the ring that more need; left out'
    run ! grep -q 'collective: all_reduce' "$BATS_TEST_TMPDIR/out.yaml"
    nccl all_reduce_perf 2 8 350 >"$BATS_TEST_TMPDIR/tree.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/tree.txt" --cluster "$P6"
    said 'this needs 3 or more measured, or a forced ring'
}

@test "several node counts are several curves [U47, U50]" {
    local nodes
    for nodes in 2 3 4 6; do
        nccl all_reduce_perf "$nodes" 8 $((400 / nodes)) >"$BATS_TEST_TMPDIR/$nodes.txt"
    done
    import nccl-tests "$BATS_TEST_TMPDIR"/[0-9].txt --cluster "$P6"
    [[ $(grep -c 'collective: all_reduce' "$BATS_TEST_TMPDIR/out.yaml") -eq 4 ]]
    [[ $(grep -c 'ranks: 48$' "$BATS_TEST_TMPDIR/out.yaml") -eq 1 ]]
}

@test "collectives of one cluster stay apart [U48, U51]" {
    nccl all_reduce_perf 2 8 220 >"$BATS_TEST_TMPDIR/a.txt"
    nccl all_gather_perf 2 8 101 >"$BATS_TEST_TMPDIR/b.txt"
    nccl alltoall_perf 2 8 25 >"$BATS_TEST_TMPDIR/c.txt"
    nccl sendrecv_perf 2 8 13.1 >"$BATS_TEST_TMPDIR/d.txt"
    import nccl-tests "$BATS_TEST_TMPDIR"/[a-d].txt --cluster "$P6"
    [[ $(points | wc -l) -eq 4 && $(points) == *'[1 GiB, 13.'* && $(points) == *'[1 GiB, 24.'* ]]
    grep -A2 'collective: point_to_point' "$BATS_TEST_TMPDIR/out.yaml" | grep -q 'ranks_per_domain: 1'
    said 'as fast as its slowest pair'
}

@test "RDMA figures count the own node [U49]" {
    import deepep "$IN/deepep-internode.txt" --cluster "$P6" --ranks 32
    grep -A1 'quantity: dispatch.inter_share' "$BATS_TEST_TMPDIR/out.yaml" | grep -q 'value: 0.72$'
    said '48 GB/s counts tokens for the own node; 36 crosses between 4 nodes'
    run --separate-stderr "$MOSAIC" import deepep "$IN/deepep-internode.txt" --cluster "$P6"
    refused 3
    [[ $stderr == *'over how many nodes'* && $stderr == *'--ranks'* ]]
}

@test "ranks and nodes that a DeepEP run states need not be given, and may not be another's" {
    local said file=$BATS_TEST_TMPDIR/stated.txt
    for said in 'num_ranks=32' '[config] num_tokens=4096, num_nodes=4' \
        'Namespace(num_processes=8, num_ranks: 32)'; do
        { echo "$said" && cat "$IN/deepep-internode.txt"; } >"$file"
        import deepep "$file" --cluster "$P6"
        grep -A1 'quantity: dispatch.inter_share' "$BATS_TEST_TMPDIR/out.yaml" | grep -q 'value: 0.72$'
        import deepep "$file" --cluster "$P6" --ranks 32
    done
    run --separate-stderr "$MOSAIC" import deepep "$file" --cluster "$P6" --ranks 16
    refused 3
    [[ $stderr == *'the file states 32 ranks, --ranks 16'* ]]
    echo num_ranks=64 >>"$file"
    run --separate-stderr "$MOSAIC" import deepep "$file" --cluster "$P6"
    refused 3
    [[ $stderr == *'one run a file'* ]]
}

@test "sums of both directions are left out [U52]" {
    import nvbandwidth "$IN/nvbandwidth.txt" --cluster "$P6"
    said 'device_to_device_bidirectional_memcpy_read_ce: sums both directions; left out'
    said 'GB/s of one direction'
    nccl all_gather_perf 1 8 880 >"$BATS_TEST_TMPDIR/both.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/both.txt" --cluster configs/clusters/h100-ib.yaml
    said 'above the link.s 450 per direction: is it of both directions'
}

@test "what an all-to-all costs on 8 nodes is its own [U53]" {
    nccl alltoall_perf 1 8 400 >"$BATS_TEST_TMPDIR/one.txt"
    nccl alltoall_perf 8 8 40 >"$BATS_TEST_TMPDIR/eight.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/one.txt" "$BATS_TEST_TMPDIR/eight.txt" --cluster "$P6"
    [[ $(grep -c 'collective: all_to_all' "$BATS_TEST_TMPDIR/out.yaml") -eq 2 ]]
}

@test "a run that was cut is said to be [U55]" {
    head -c 1500 "$IN/all_reduce.json" >"$BATS_TEST_TMPDIR/cut.json"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/cut.json" --cluster "$P6"
    refused 3
    [[ $stderr == *'ends with the file: the run was cut'* ]]
    head -n -5 "$IN/all_reduce-old.txt" >"$BATS_TEST_TMPDIR/short.txt"
    echo '# Avg bus bandwidth    : 158.85 ' >>"$BATS_TEST_TMPDIR/short.txt"
    import nccl-tests "$BATS_TEST_TMPDIR/short.txt" --cluster "$P6"
    said 'the run says 158.[0-9]* GB/s on average, its rows come to'
}

@test "one GPU with a low link is named, the median taken [U57]" {
    local shape
    for shape in txt json; do
        import nvbandwidth "$IN/nvbandwidth.$shape" --cluster "$P6"
        said 'GPU 0 has 14.2 GB/s where the median is 56.96'
        grep -A1 'quantity: offload.link_share' "$BATS_TEST_TMPDIR/out.yaml" | grep -q 'value: 0.890'
        sed 's/nvbandwidth\.[a-z]*//' "$BATS_TEST_TMPDIR/out.yaml" >"$BATS_TEST_TMPDIR/$shape.yaml"
    done
    cmp "$BATS_TEST_TMPDIR/txt.yaml" "$BATS_TEST_TMPDIR/json.yaml"
    run --separate-stderr "$MOSAIC" import nvbandwidth "$IN/nvbandwidth.txt" --cluster "$P6" --strict
    refused 3
    sed 's/^SUM host_to_device_memcpy_ce .*/SUM host_to_device_memcpy_ce 370.00/' "$IN/nvbandwidth.txt" \
        >"$BATS_TEST_TMPDIR/sum.txt"
    import nvbandwidth "$BATS_TEST_TMPDIR/sum.txt" --cluster "$P6"
    said 'the values come to 185.2 GB/s, the tool says 370: devices are missing'
}

@test "figures of another definition are asked about" {
    sed 's/^\( *[0-9]* *[0-9]* *float *sum *-1 *[0-9.]* *[0-9.]* *\)[0-9.]*/\1 300.00/' \
        "$IN/all_reduce-new.txt" >"$BATS_TEST_TMPDIR/factor.txt"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/factor.txt" --cluster "$P6"
    refused 3
    [[ $stderr == *'busbw / algbw is '*' which all_reduce has over no number of ranks'* ]]
    sed 's/3,24,/2,16,/' "$IN/all_reduce.csv" >"$BATS_TEST_TMPDIR/ranks.csv"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/ranks.csv" --cluster "$P6"
    refused 3
    [[ $stderr == *'which all_reduce has over 24 ranks; over 16 it is 1.875'* ]]
    awk -F, -v OFS=, 'NR > 1 { $9 /= 10 } { print }' "$IN/all_reduce.csv" >"$BATS_TEST_TMPDIR/unit.csv"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/unit.csv" --cluster "$P6"
    refused 3
    [[ $stderr == *'but size over time is'* ]]
}

@test "what a file does not say is asked for" {
    grep -v 'perf\|Rank' "$IN/all_reduce-old.txt" >"$BATS_TEST_TMPDIR/bare.txt"
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/bare.txt" --cluster "$P6"
    refused 3
    [[ $stderr == *'which collective'*'--collective'* ]]
    run --separate-stderr "$MOSAIC" import nccl-tests "$BATS_TEST_TMPDIR/bare.txt" --cluster "$P6" \
        --collective all_reduce
    refused 3
    [[ $stderr == *'how many ranks'*'--ranks'* ]]
    import nccl-tests "$BATS_TEST_TMPDIR/bare.txt" --cluster "$P6" --collective all_reduce --ranks 24
    run --separate-stderr "$MOSAIC" import nccl-tests "$IN/all_reduce-new.txt" --cluster "$P6" --ranks 16
    refused 3
    [[ $stderr == *'found 24 ranks, not the 16'* ]]
    run --separate-stderr "$MOSAIC" import nvbandwidth "$IN/nvbandwidth.json"
    refused 2
    [[ $stderr == *'--device NAME'* ]]
    run --separate-stderr "$MOSAIC" import mystery "$IN/nvbandwidth.json"
    refused 2
}

@test "a probe's journal and the document made of it give the same fit" {
    import samples "$IN/samples.jsonl" --cluster "$P6"
    cp "$BATS_TEST_TMPDIR/out.yaml" "$BATS_TEST_TMPDIR/first.yaml"
    said 'the probe refused (memory): adamw: 16 GB are needed'
    grep -q 'software: "cuda 12.9, driver 575.51"' "$BATS_TEST_TMPDIR/first.yaml"
    import samples "$BATS_TEST_TMPDIR/first.yaml" --cluster "$P6"
    diff <(grep -v 'source:\|^name:' "$BATS_TEST_TMPDIR/first.yaml") \
        <(grep -v 'source:\|^name:' "$BATS_TEST_TMPDIR/out.yaml")
    sed 's/"m": 512/"m": "512"/' "$IN/samples.jsonl" >"$BATS_TEST_TMPDIR/bad.jsonl"
    run --separate-stderr "$MOSAIC" import samples "$BATS_TEST_TMPDIR/bad.jsonl" --cluster "$P6"
    refused 3
    [[ $stderr == *"bad.jsonl:2:1: error: 'm' is a whole number"* ]]
}

@test "measured steps become a calibration that predictions follow" {
    cp "$IN"/steps.* "$BATS_TEST_TMPDIR"
    sed -i "s|\.\./\.\./|$PWD/|" "$BATS_TEST_TMPDIR/steps.csv"
    import steps "$BATS_TEST_TMPDIR/steps.csv" --cluster configs/clusters/gb300-ib.yaml --over gb300-steps
    said '"measured_steps": 2'
    grep -q 'step_time: 8.502 s' "$BATS_TEST_TMPDIR/out.yaml"
    sed "s|\.\./|$PWD/configs/|; s|measured-steps.yaml|$BATS_TEST_TMPDIR/out.yaml|" \
        configs/examples/anchored.yaml >"$BATS_TEST_TMPDIR/plan.yaml"
    run "$MOSAIC" predict "$BATS_TEST_TMPDIR/plan.yaml"
    [[ $status -eq 0 && $output == *'anchored: 2 measured steps of this model'* ]]
    sed 's/,7.4 s,/,7.4,/' "$BATS_TEST_TMPDIR/steps.csv" >"$BATS_TEST_TMPDIR/bare.csv"
    run --separate-stderr "$MOSAIC" import steps "$BATS_TEST_TMPDIR/bare.csv" --device GB300
    refused 3
}

@test "formats, and the same bytes each time" {
    local format
    for format in table csv yaml; do
        "$MOSAIC" import nccl-tests "$IN/all_reduce.csv" --cluster "$P6" -f "$format" \
            >"$BATS_TEST_TMPDIR/$format"
        [[ -s $BATS_TEST_TMPDIR/$format ]]
    done
    import nccl-tests "$IN/all_reduce.csv" --cluster "$P6"
    cp "$BATS_TEST_TMPDIR/out.yaml" "$BATS_TEST_TMPDIR/again.yaml"
    import nccl-tests "$IN/all_reduce.csv" --cluster "$P6"
    cmp "$BATS_TEST_TMPDIR/out.yaml" "$BATS_TEST_TMPDIR/again.yaml" 
}
