#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# `mosaic sweep`: the grid, its rows against plan and predict, what happens to bad points, and tables
# that are cut off, resumed, split and joined.

load common

PLAN=configs/p6-b200-4n-5d.yaml
# Few models and layouts: a point is a few milliseconds.
SMALL=(--set 'search.geometry.q=[4, 5]' --set 'search.geometry.experts=[16, 32]'
    --set 'search.geometry.top_k=[2]' --set 'search.geometry.granularity=[1]')
GRID=(--vary nodes=2..8*2 --vary "budget.days=5,10")

# swept OPTION...
swept() {
    "$MOSAIC" sweep "$PLAN" "${SMALL[@]}" "$@"
}

# column NAME: of CSV on standard input (whose quoted commas count as one field)
column() {
    sed -E ':a; s/("[^",]*),([^"]*")/\1;\2/; ta' | tr -d '"' |
        awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } { print $at[name] }'
}

# values NAME --vary...: the values of a key over the points, on one line
values() {
    swept --shard 1/1 -f csv "${@:2}" | column "$1" | tr '\n' ' '
}

@test "the last key is fastest, and each row is what plan says with those settings" {
    swept "${GRID[@]}" -f csv >"$BATS_TEST_TMPDIR/all"
    [[ $(column nodes <"$BATS_TEST_TMPDIR/all" | tr '\n' ' ') == '2 2 4 4 8 8 ' ]]
    [[ $(column budget.days <"$BATS_TEST_TMPDIR/all" | tr '\n' ' ') == '5 10 5 10 5 10 ' ]]
    [[ $(column point <"$BATS_TEST_TMPDIR/all" | tr '\n' ' ') == '1 2 3 4 5 6 ' ]]
    "$MOSAIC" plan "$PLAN" "${SMALL[@]}" --set nodes=4 --set budget.days=10 -f csv >"$BATS_TEST_TMPDIR/plan"
    while read -r ours theirs; do
        got=$(column "$ours" <"$BATS_TEST_TMPDIR/all" | sed -n 4p)
        [[ -n $got && $got == "$(column "$theirs" <"$BATS_TEST_TMPDIR/plan" | head -1)" ]] ||
            { echo "$ours: $got" && false; }
    done <<'LIST'
loss loss
tokens tokens
layers geometry.layers
experts geometry.experts
sparsity geometry.sparsity
n_active geometry.n_active
pp layout.pp
micro_batch layout.micro_batch
step_time_s prediction.step_time_s
mfu prediction.mfu
tokens_per_s_per_gpu prediction.tokens_per_s_per_gpu
memory_bytes prediction.memory.reserved_bytes
verdict prediction.memory.verdict
LIST
    [[ $(column status <"$BATS_TEST_TMPDIR/all" | sort -u) == optimal ]]
    [[ $(column gap_nats <"$BATS_TEST_TMPDIR/all" | sort -u) == 0.0 ]]
}

@test "ranges by factor and step, with a unit, and in lists" {
    [[ $(values nodes --vary nodes=1,2..9*2,3) == '1 2 4 8 3 ' ]]
    [[ $(values nodes --vary nodes=2..8+3) == '2 5 8 ' ]]
    [[ $(values budget.days --vary budget.days=0.5..0.8+0.1) == '0.5 0.6 0.7 0.8 ' ]]
    [[ $(values budget.days --vary budget.days=1e0..1e2*10) == '1 10 100 ' ]]
    for range in '100..400*2 Gb/s' '100..400 Gb/s*2' '100 Gb/s..400 Gb/s*2'; do
        [[ $(values 'cluster.tiers[1].bandwidth' --vary "cluster.tiers[1].bandwidth=$range") == \
            '100 Gb/s 200 Gb/s 400 Gb/s ' ]]
    done
}

@test "commas inside brackets, braces and quotes part nothing; files are values too" {
    swept --vary 'search.layout.ep=[1], [1, 2]' --vary 'law={published: mosaic-2608.10605}' \
        -f json >"$BATS_TEST_TMPDIR/list.json"
    fits_schema "$BATS_TEST_TMPDIR/list.json"
    grep -q '"points": 2' "$BATS_TEST_TMPDIR/list.json"
    grep -qF '"[1, 2]"' "$BATS_TEST_TMPDIR/list.json"
    run -0 --separate-stderr "$MOSAIC" sweep "$PLAN" -f csv \
        --vary model=configs/models/mosaic-table4.yaml,configs/models/mixtral-8x7b.yaml --set nodes=32 --set budget.days=20
    [[ $(column layers <<<"$output" | tr '\n' ' ') == '48 32 ' ]]
    [[ $(column inputs <<<"$output" | sort -u | wc -l) -eq 2 ]]
}

@test "a pinned point is predicted, one that does not fit is infeasible with its memory" {
    run -0 --separate-stderr "$MOSAIC" sweep "$PREDICT" -f csv --vary workload.global_batch=512,1024 \
        --vary search.layout.recompute=none,full
    [[ $(column status <<<"$output" | sort -u) == predicted ]]
    [[ $(column step_time_s <<<"$output" | tail -1) == $("$MOSAIC" predict "$PREDICT" -f csv \
        --set search.layout.recompute=full | awk -F, '$1 == "prediction.step_time_s" { print $2 }') ]]
    run -1 --separate-stderr "$MOSAIC" sweep "$PREDICT" -f csv --vary search.layout.pp=1
    [[ $(column status <<<"$output") == infeasible && $(column verdict <<<"$output") == no ]]
    [[ $(column memory_bytes <<<"$output") -gt 180000000000 ]]
    run -1 --separate-stderr "$MOSAIC" sweep configs/examples/impossible.yaml --vary nodes=1,2 -f json
    echo "$output" >"$BATS_TEST_TMPDIR/none.json"
    fits_schema "$BATS_TEST_TMPDIR/none.json"
    grep -q '"status": "infeasible"' "$BATS_TEST_TMPDIR/none.json"
    grep -q '"message": "device memory' "$BATS_TEST_TMPDIR/none.json"
}

@test "a bad point is a row with its error; if all are bad the first says why, exit 3" {
    swept --vary nodes=0,4,x -f csv >"$BATS_TEST_TMPDIR/some"
    [[ $(column status <"$BATS_TEST_TMPDIR/some" | tr '\n' ' ') == 'error optimal error ' ]]
    grep -q "^1,3,0,error,\"\\?--set nodes=0: error: 'nodes' must be 1 to" "$BATS_TEST_TMPDIR/some"
    swept --vary nodes=0,4,x -f json >"$BATS_TEST_TMPDIR/some.json"
    fits_schema "$BATS_TEST_TMPDIR/some.json"
    run --separate-stderr swept --vary nodez=4,8 -f csv -o "$BATS_TEST_TMPDIR/none"
    refused 3
    [[ $stderr == *"--set nodez=4: error: unknown key 'nodez'; did you mean 'nodes'?"* ]]
    [[ ! -e $BATS_TEST_TMPDIR/none ]]
    run --separate-stderr "$MOSAIC" sweep nothing.yaml --vary nodes=4
    refused 4
}

@test "threads change no byte, the seed and --set change the inputs" {
    swept "${GRID[@]}" -f json --threads 1 >"$BATS_TEST_TMPDIR/one.json"
    swept "${GRID[@]}" -f json --threads 4 | cmp - "$BATS_TEST_TMPDIR/one.json"
    swept "${GRID[@]}" -f json --progress always 2>/dev/null | cmp - "$BATS_TEST_TMPDIR/one.json"
    fits_schema "$BATS_TEST_TMPDIR/one.json"
    one=$(swept --vary nodes=4 -f csv | column inputs)
    [[ ${#one} -eq 64 && $one == "$(swept --vary nodes=2 -f csv | column inputs)" ]]
    [[ $one != "$(swept --vary nodes=4 -f csv --seed 2 | column inputs)" ]]
    [[ $one != "$(swept --vary nodes=4 -f csv --set budget.days=6 | column inputs)" ]]
}

@test "a table cut off anywhere is resumed to the same bytes" {
    swept "${GRID[@]}" -f csv -o "$BATS_TEST_TMPDIR/all"
    swept "${GRID[@]}" -f csv | cmp - "$BATS_TEST_TMPDIR/all"
    size=$(wc -c <"$BATS_TEST_TMPDIR/all")
    for cut in 0 100 600 1100 $((size - 1)) "$size"; do
        head -c "$cut" "$BATS_TEST_TMPDIR/all" >"$BATS_TEST_TMPDIR/cut"
        swept "${GRID[@]}" -f csv --resume "$BATS_TEST_TMPDIR/cut" -o "$BATS_TEST_TMPDIR/cut"
        cmp "$BATS_TEST_TMPDIR/cut" "$BATS_TEST_TMPDIR/all"
    done
    # A row in the middle is missing; another format; no table at all.
    sed 4d "$BATS_TEST_TMPDIR/all" >"$BATS_TEST_TMPDIR/hole"
    swept "${GRID[@]}" -f json --resume "$BATS_TEST_TMPDIR/hole" >"$BATS_TEST_TMPDIR/resumed.json"
    swept "${GRID[@]}" -f json | cmp - "$BATS_TEST_TMPDIR/resumed.json"
    run -0 --separate-stderr swept --vary nodes=4 -f csv --resume "$BATS_TEST_TMPDIR/new"
    [[ $stderr == *"new is not there yet"* ]]
}

@test "rows that are there are not computed again, those in error are" {
    swept "${GRID[@]}" -f csv >"$BATS_TEST_TMPDIR/all"
    sed '3s/optimal/predicted/' "$BATS_TEST_TMPDIR/all" >"$BATS_TEST_TMPDIR/marked"
    swept "${GRID[@]}" -f csv --resume "$BATS_TEST_TMPDIR/marked" | cmp - "$BATS_TEST_TMPDIR/marked"
    sed '3s/optimal/error/' "$BATS_TEST_TMPDIR/all" >"$BATS_TEST_TMPDIR/marked"
    swept "${GRID[@]}" -f csv --resume "$BATS_TEST_TMPDIR/marked" | cmp - "$BATS_TEST_TMPDIR/all"
    # The grid may grow and shrink.
    run -0 --separate-stderr swept --vary nodes=1,4,8 --vary budget.days=10 -f csv \
        --resume "$BATS_TEST_TMPDIR/all"
    [[ $stderr == *"4 rows of "*" are of other points and left out"* ]]
    [[ $(column loss <<<"$output" | sed -n 3p) == "$(column loss <"$BATS_TEST_TMPDIR/all" | sed -n 6p)" ]]
    [[ $(column point <<<"$output" | tr '\n' ' ') == '1 2 3 ' ]]
}

@test "a table of other keys, inputs or no sweep is not resumed: exit 3, untouched" {
    swept "${GRID[@]}" -f csv -o "$BATS_TEST_TMPDIR/all"
    cp "$BATS_TEST_TMPDIR/all" "$BATS_TEST_TMPDIR/copy"
    again=(-f csv --resume "$BATS_TEST_TMPDIR/all" -o "$BATS_TEST_TMPDIR/all")
    run --separate-stderr swept --vary budget.days=5 --vary nodes=2 "${again[@]}"
    refused 3
    [[ $stderr == *"varies 'nodes' where --vary has 'budget.days'"* ]]
    run --separate-stderr swept --vary nodes=2 "${again[@]}"
    refused 3
    [[ $stderr == *"varies 2 keys, --vary 1"* ]]
    run --separate-stderr swept "${GRID[@]}" "${again[@]}" --set budget.goodput=0.9
    refused 3
    [[ $stderr == *"row of point 1 are not those of now"* ]]
    cmp "$BATS_TEST_TMPDIR/all" "$BATS_TEST_TMPDIR/copy"
    sed '3s/^2,6,/2,six,/' "$BATS_TEST_TMPDIR/copy" >"$BATS_TEST_TMPDIR/spoiled"
    for table in configs/examples/steps.csv "$PLAN" "$BATS_TEST_TMPDIR/spoiled"; do
        run --separate-stderr swept "${GRID[@]}" --resume "$table"
        refused 3
    done
    [[ $stderr == *"line 3: 'six' cannot be the row's points"* ]]
}

@test "a file that changed behind a row is noticed" {
    sed "s|: clusters/|: $ROOT/configs/clusters/|; s|: ../calibration/|: $ROOT/calibration/|" "$PLAN" \
        >"$BATS_TEST_TMPDIR/plan.yaml"
    plan=("$MOSAIC" sweep "$BATS_TEST_TMPDIR/plan.yaml" "${SMALL[@]}" --vary "nodes=2,4" -f csv)
    "${plan[@]}" -o "$BATS_TEST_TMPDIR/all"
    "${plan[@]}" --resume "$BATS_TEST_TMPDIR/all" >/dev/null
    echo '# another' >>"$BATS_TEST_TMPDIR/plan.yaml"
    run --separate-stderr "${plan[@]}" --resume "$BATS_TEST_TMPDIR/all"
    refused 3
}

@test "shards are every N-th point, and merge gives the whole; what is missing is said" {
    swept "${GRID[@]}" -f csv >"$BATS_TEST_TMPDIR/all"
    for i in 1 2 3 4; do
        swept "${GRID[@]}" -f csv --shard $i/4 -o "$BATS_TEST_TMPDIR/part-$i"
    done
    [[ $(column point <"$BATS_TEST_TMPDIR/part-2" | tr '\n' ' ') == '2 6 ' ]]
    "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR"/part-{3,1,4,2} -f csv | cmp - "$BATS_TEST_TMPDIR/all"
    "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR"/part-* "$BATS_TEST_TMPDIR/all" -f json \
        >"$BATS_TEST_TMPDIR/whole.json"
    swept "${GRID[@]}" -f json | sed '/"provenance"/,/^  }/d' |
        cmp - <(sed '/"provenance"/,/^  }/d' "$BATS_TEST_TMPDIR/whole.json")
    run -3 --separate-stderr "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR"/part-{4,1} -f json
    [[ $stderr == *'3 points are missing: 2 3 6'* ]]
    echo "$output" >"$BATS_TEST_TMPDIR/half.json"
    grep -q '"status": "incomplete"' "$BATS_TEST_TMPDIR/half.json"
    swept "${GRID[@]}" -f json --shard 2/4 >"$BATS_TEST_TMPDIR/shard.json"
    fits_schema "$BATS_TEST_TMPDIR"/{whole,half,shard}.json
    # The rest of a merge is computed by --resume.
    "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR"/part-{4,1} -f csv >"$BATS_TEST_TMPDIR/half" || true
    swept "${GRID[@]}" -f csv --resume "$BATS_TEST_TMPDIR/half" | cmp - "$BATS_TEST_TMPDIR/all"
}

@test "tables of different sweeps, or that disagree, do not join: exit 3" {
    swept "${GRID[@]}" -f csv --shard 1/2 >"$BATS_TEST_TMPDIR/part"
    swept --vary nodes=2,4 -f csv >"$BATS_TEST_TMPDIR/keys"
    swept --vary nodes=2,4 --vary budget.days=5,10 -f csv >"$BATS_TEST_TMPDIR/points"
    sed '2s/optimal/predicted/' "$BATS_TEST_TMPDIR/part" >"$BATS_TEST_TMPDIR/figures"
    head -1 "$BATS_TEST_TMPDIR/part" >"$BATS_TEST_TMPDIR/empty"
    for other in keys points figures; do
        run --separate-stderr "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR/part" "$BATS_TEST_TMPDIR/$other"
        refused 3
    done
    run --separate-stderr "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR/empty"
    refused 3
    [[ $stderr == *'hold no row'* ]]
    run --separate-stderr "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR/nothing"
    refused 4
}

@test "SIGINT ends with the rows done, exit 130; SIGKILL leaves them in the file" {
    # The first point is a few milliseconds, the second minutes.
    slow=("$MOSAIC" sweep configs/p6-b200-32n-20d.yaml --vary
        'search.layout={pp: [16], ep: [8], micro_batch: [4], recompute: [none]},{}')
    run --separate-stderr timeout --foreground -s INT --preserve-status -k 60 4 "${slow[@]}" -f json
    [[ $status -eq 130 ]]
    echo "$output" >"$BATS_TEST_TMPDIR/rows.json"
    fits_schema "$BATS_TEST_TMPDIR/rows.json"
    grep -q '"status": "interrupted"' "$BATS_TEST_TMPDIR/rows.json"
    grep -q '"point": 1' "$BATS_TEST_TMPDIR/rows.json"
    run timeout --foreground -s KILL 4 "${slow[@]}" -f csv -o "$BATS_TEST_TMPDIR/rows"
    [[ $(column point <"$BATS_TEST_TMPDIR/rows") == 1 ]]
}

@test "the table: keys and main figures in 100 columns, each reason once" {
    run -0 --separate-stderr swept --vary nodes=2,0,4 --vary budget.days=5,10
    [[ $(awk 'length > 100' <<<"$output" | wc -l) -eq 0 ]]
    [[ $output == *'nodes (3) x budget.days (2): 6 points; 4 with a plan, 0 infeasible, 2 with an error.'* ]]
    [[ $output == *'nodes  days  model'*'tokens'*'loss'*'MFU'*'step'*'layout'* ]]
    [[ $output == *"3, 4. --set nodes=0: error: 'nodes' must be 1 to"* ]]
    [[ $(grep -c 'must be 1 to' <<<"$output") -eq 1 ]]
}

@test "the job array script is a script, and its parts join" {
    bash -n configs/examples/sweep.sbatch
    sed -E 's/=4\.\.256\*2/=2,4/; s/=5\.\.60\+5/=5/; s/=1024,2048,4096/=1024/; s/^parts=16/parts=2/' \
        configs/examples/sweep.sbatch >"$BATS_TEST_TMPDIR/job"
    sed "s|: clusters/|: $ROOT/configs/clusters/|; s|: ../calibration/|: $ROOT/calibration/|" "$PLAN" \
        >"$BATS_TEST_TMPDIR/plan.yaml"
    mkdir "$BATS_TEST_TMPDIR/bin"
    ln -s "$(realpath "$MOSAIC")" "$BATS_TEST_TMPDIR/bin/mosaic"
    cd "$BATS_TEST_TMPDIR"
    for i in 1 2; do
        PATH=$BATS_TEST_TMPDIR/bin:$PATH SLURM_ARRAY_TASK_ID=$i bash job 2>/dev/null
    done
    bin/mosaic sweep --merge parts/*.csv -f csv -o sweep.csv
    [[ $(wc -l <sweep.csv) -eq 3 ]]
}

@test "a shard without points is empty, one of bad points says so and is kept" {
    swept --vary nodes=2,4 --shard 3/5 -f json >"$BATS_TEST_TMPDIR/empty.json"
    swept --vary nodes=2,4 --shard 3/5 -f csv >"$BATS_TEST_TMPDIR/empty"
    swept --vary nodes=2,4 -f csv | tee "$BATS_TEST_TMPDIR/all" >"$BATS_TEST_TMPDIR/copy"
    "$MOSAIC" sweep --merge "$BATS_TEST_TMPDIR"/{empty,all} -f csv | cmp - "$BATS_TEST_TMPDIR/copy"
    run -3 --separate-stderr swept --vary nodes=0,4 --shard 1/2 -f json
    echo "$output" >"$BATS_TEST_TMPDIR/bad.json"
    grep -q '"status": "error"' "$BATS_TEST_TMPDIR/bad.json"
    fits_schema "$BATS_TEST_TMPDIR"/{empty,bad}.json
}
