#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# mosaic fit: results, refusals, the law it writes.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

NOISY=configs/runs/mosaic_synth_s0078.csv
NOISELESS=configs/runs/mosaic_synth_noiseless.csv
GADRE=configs/runs/gadre_c4val.csv
QUICK=(--bootstrap none --no-cross-validation)

# value FILE PATH: a number or text of a JSON result
value() {
    awk -F, -v key="$2" '$1 == key { print $2; found = 1 } END { exit !found }' "$1"
}

# table NAME LINE...: a run table of its own
table() {
    local file=$BATS_TEST_TMPDIR/$1.csv
    shift
    printf '%s\n' "$@" >"$file"
    echo "$file"
}

# near GOT WANT REL
near() {
    awk -v a="$1" -v b="$2" -v r="$3" \
        'BEGIN { d = a - b; if (d < 0) d = -d; w = b < 0 ? -b : b; exit !(d <= r * w) }' ||
        { echo "$1 is not $2" && return 1; }
}

@test "every kind of fit fits the schema" {
    head -4 "$NOISY" >"$BATS_TEST_TMPDIR/three.csv"
    "$MOSAIC" fit -f json "$NOISY" --at 3.3e21 --compare-forms >"$BATS_TEST_TMPDIR/full.json"
    "$MOSAIC" fit -f json "$GADRE" --form chinchilla --loss huber:1e-3 --bootstrap residual \
        >"$BATS_TEST_TMPDIR/huber.json"
    "$MOSAIC" fit -f json "$GADRE" --form chinchilla --filter 'source=trained rpj' \
        "${QUICK[@]}" >"$BATS_TEST_TMPDIR/filtered.json"
    run ! "$MOSAIC" fit -f json "$BATS_TEST_TMPDIR/three.csv" -o "$BATS_TEST_TMPDIR/none.yaml"
    "$MOSAIC" fit -f json "$BATS_TEST_TMPDIR/three.csv" >"$BATS_TEST_TMPDIR/three.json" || true
    fits_schema "$BATS_TEST_TMPDIR"/{full,huber,filtered,three}.json
}

@test "the noisy table's minimum" {
    "$MOSAIC" fit -f csv "$NOISY" "${QUICK[@]}" >"$BATS_TEST_TMPDIR/fit.csv"
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" ssr_log)" 0.0020882285 1e-6
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.beta.value)" .206595 1e-3
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.eta.value)" .710842 1e-3
    [[ $(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.beta.label) == identified ]]
    [[ $(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.c.label) == ridge ]]
}

@test "noiseless runs give their law back" {
    "$MOSAIC" fit -f csv "$NOISELESS" "${QUICK[@]}" >"$BATS_TEST_TMPDIR/fit.csv"
    while read -r name want; do
        near "$(value "$BATS_TEST_TMPDIR/fit.csv" "coefficients.$name.value")" "$want" 1e-6
    done <<<$'a 8.462\nb 88.32\nc .1828\nj .7123\ne .3129\nalpha .1048\nbeta .2070\nlambda .1249
delta .5567\ngamma .1702\neta .9513'
}

@test "the same bytes on one thread and on three, and again" {
    "$MOSAIC" fit -f json "$NOISY" --at 1e22 --threads 1 >"$BATS_TEST_TMPDIR/one"
    "$MOSAIC" fit -f json "$NOISY" --at 1e22 --threads 3 >"$BATS_TEST_TMPDIR/three"
    cmp "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/three"
}

@test "another seed draws other intervals around the same minimum" {
    for seed in 1 2; do
        "$MOSAIC" fit -f csv "$GADRE" --form chinchilla --filter 'source=trained c4_original' \
            --no-cross-validation --seed $seed >"$BATS_TEST_TMPDIR/$seed.csv"
    done
    near "$(value "$BATS_TEST_TMPDIR/1.csv" ssr_log)" \
        "$(value "$BATS_TEST_TMPDIR/2.csv" ssr_log)" 1e-9
    [[ $(value "$BATS_TEST_TMPDIR/1.csv" coefficients.alpha.interval.low) != \
        $(value "$BATS_TEST_TMPDIR/2.csv" coefficients.alpha.interval.low) ]]
}

@test "a doubled and an unfinished row are left out by name, and change nothing" {
    local base=$BATS_TEST_TMPDIR/base.csv more=$BATS_TEST_TMPDIR/more.csv
    awk -F, 'NR == 1 { print "name,n_total,n_active,tokens,loss,status" }
             /trained c4_original/ { print $1 "," $2 "," $3 "," $4 "," $9 ",done" }' "$GADRE" >"$base"
    { cat "$base"; sed -n 2p "$base"; echo 'late,1e9,1e9,2e10,9,running'; } >"$more"
    "$MOSAIC" fit -f csv "$base" --form chinchilla "${QUICK[@]}" >"$BATS_TEST_TMPDIR/a"
    "$MOSAIC" fit -f csv "$more" --form chinchilla "${QUICK[@]}" >"$BATS_TEST_TMPDIR/b"
    near "$(value "$BATS_TEST_TMPDIR/a" coefficients.E.value)" \
        "$(value "$BATS_TEST_TMPDIR/b" coefficients.E.value)" 1e-9
    [[ $(value "$BATS_TEST_TMPDIR/b" rows.total) -eq $(($(value "$BATS_TEST_TMPDIR/a" rows.total) + 2)) ]]
    grep -qx 'excluded\[1\].name,late,' "$BATS_TEST_TMPDIR/b"
    grep -qE '^excluded\[0\].reason,.*(duplicate|copy|copies|earlier)' "$BATS_TEST_TMPDIR/b"
}

@test "--fix holds a coefficient" {
    "$MOSAIC" fit -f csv "$NOISY" --fix e=0.3 "${QUICK[@]}" >"$BATS_TEST_TMPDIR/fit.csv"
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.e.value)" 0.3 1e-12
    [[ $(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.e.label) == fixed ]]
    run ! grep -q '^coefficients.e.se' "$BATS_TEST_TMPDIR/fit.csv"
}

@test "dense runs have a dense optimum" {
    "$MOSAIC" fit -f csv "$GADRE" --form chinchilla --filter 'source=trained c4_original' \
        --at 1e21 --no-cross-validation >"$BATS_TEST_TMPDIR/fit.csv"
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" optimum.bounded.sparsity)" 0 1
    run ! grep -q '^optimum.free' "$BATS_TEST_TMPDIR/fit.csv"
    # 6 N D = C
    awk -F, '{ v[$1] = $2 }
        END { c = 6 * v["optimum.bounded.n_active"] * v["optimum.bounded.tokens"]
              exit !(c > .999e21 && c < 1.001e21) }' "$BATS_TEST_TMPDIR/fit.csv"
}

@test "three runs: undetermined, exit 5, no number that looks good" {
    head -4 "$NOISY" >"$BATS_TEST_TMPDIR/three.csv"
    run --separate-stderr "$MOSAIC" fit -f json "$BATS_TEST_TMPDIR/three.csv"
    [[ $status -eq 5 ]]
    grep -q '"status": "undetermined"' <<<"$output"
    run ! grep -qE '"(r2|rms_log|ssr_log|objective|coefficients|residuals)"' <<<"$output"
    grep -q '3 different runs for the 11 coefficients' <<<"$stderr"
}

@test "as many runs as coefficients: undetermined, no quality" {
    head -12 "$NOISY" >"$BATS_TEST_TMPDIR/eleven.csv"
    run --separate-stderr "$MOSAIC" fit -f json "$BATS_TEST_TMPDIR/eleven.csv"
    [[ $status -eq 5 ]]
    run ! grep -qE '"(r2|rms_log|ssr_log|objective|residuals|bootstrap)"' <<<"$output"
    run ! grep -qE '"label": "(identified|weak|ridge)"' <<<"$output"
}

@test "bad tables are refused at their row" {
    run --separate-stderr "$MOSAIC" fit --form chinchilla \
        "$(table zero n_total,tokens,loss 1e8,1e9,3 2e8,1e9,0)"
    refused 3
    [[ $stderr == *"row 2: loss is 0"* ]]
    run --separate-stderr "$MOSAIC" fit --form chinchilla "$(table column n_total,tokens 1e8,1e9)"
    refused 3
    [[ $stderr == *"no column 'loss'"* ]]
    run --separate-stderr "$MOSAIC" fit --form chinchilla \
        "$(table huge n_total,tokens,loss 1e308,1e9,3 2e8,1e9,2)"
    refused 3
    [[ $stderr == *"row 1: n_total is 1e+308"* ]]
    run --separate-stderr "$MOSAIC" fit "$BATS_TEST_TMPDIR/none.csv"
    refused 4
}

@test "SIGINT ends the refits at once: the fit is printed, exit 130" {
    # Minutes of refits, so the signal comes in the middle of them.
    # In the foreground, or timeout signals twice: a second SIGINT kills.
    run --separate-stderr timeout --foreground -s INT --preserve-status -k 60 2 \
        "$MOSAIC" fit -f json "$NOISY" --draws 100000 --no-cross-validation
    [[ $status -eq 130 ]]
    printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/fit.json"
    fits_schema "$BATS_TEST_TMPDIR/fit.json"
    grep -q '"status": "interrupted"' "$BATS_TEST_TMPDIR/fit.json"
    grep -q '"coefficients"' "$BATS_TEST_TMPDIR/fit.json"
    run ! grep -q '"bootstrap"' "$BATS_TEST_TMPDIR/fit.json"
}

@test "shapes are counted, by the count that is stated" {
    local header=layers,hidden,heads,kv_heads,head_dim,dense_ffn,vocab,tokens,loss
    local file=$BATS_TEST_TMPDIR/shapes.csv
    awk -v header=$header 'BEGIN { print header
        for (q = 1; q <= 4; q++) for (t = 1; t <= 4; t++) {
            n = 4 * q * (4 * (512 * q) ^ 2 + 3 * 512 * q * 1280 * q)
            d = 1e9 * 3 ^ t
            printf "%d,%d,%d,%d,128,%d,1000,%g,%.17g\n", 4 * q, 512 * q, 4 * q, 4 * q, 1280 * q,
                d, 1.7 + 400 / n ^ .34 + 500 / d ^ .3 } }' >"$file"
    "$MOSAIC" fit -f csv "$file" --form chinchilla --count no_embedding "${QUICK[@]}" \
        >"$BATS_TEST_TMPDIR/fit.csv"
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.alpha.value)" .34 1e-6
    near "$(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.A.value)" 400 1e-6
    run --separate-stderr "$MOSAIC" fit "$file" --form chinchilla
    refused 3
    [[ $stderr == *"row 1: which parameters of its shape to count is not stated"* ]]
    run --separate-stderr "$MOSAIC" fit --form chinchilla --count all \
        "$(table heads $header 4,512,6,4,128,1280,1000,1e9,3)"
    refused 3
    [[ $stderr == *"row 1, column 'heads': impossible shape"* ]]
}

@test "usage errors" {
    run --separate-stderr "$MOSAIC" fit --form moasic "$NOISY"
    refused 2
    [[ $stderr == *"did you mean 'mosaic'"* ]]
    for bad in --fix=zeta=1 --fix=e=x --loss=huber:0 --loss=l2 --at=-1 --at=1e21,0 --set=a=1 \
        --filter=x --draws=100 --output=-; do
        run --separate-stderr "$MOSAIC" fit "$bad" "$NOISY"
        refused 2
    done
    run --separate-stderr "$MOSAIC" fit --form clark --at 1e21 "$NOISY"
    refused 2
}

@test "a column that the filter names must be there" {
    run --separate-stderr "$MOSAIC" fit --filter 'sorce=x' "$NOISY"
    refused 3
    [[ $stderr == *"did you mean 'source'"* || $stderr == *"is it 'source'"* ]]
}

@test "the file's hash is in the result, also from standard input" {
    want=$(sha256sum "$NOISY" | cut -d' ' -f1)
    "$MOSAIC" fit -f csv "${QUICK[@]}" "$NOISY" | grep -qx "provenance.inputs\[0\].sha256,$want,"
    "$MOSAIC" fit -f csv "${QUICK[@]}" - <"$NOISY" | grep -qx "provenance.inputs\[0\].sha256,$want,"
}

@test "-o writes the law and leaves the report on standard output" {
    local law=$BATS_TEST_TMPDIR/law.yaml
    "$MOSAIC" fit -f csv "$NOISY" --count no_embedding --no-cross-validation -o "$law" \
        >"$BATS_TEST_TMPDIR/fit.csv"
    grep -qx 'schema: mosaic-law/1' "$law"
    "$MOSAIC" lint "$law" >"$BATS_TEST_TMPDIR/lint" 2>&1
    grep -qE 'mosaic-law/1: valid$' "$BATS_TEST_TMPDIR/lint"
    grep -q "^# $(sha256sum "$NOISY" | cut -d' ' -f1)" "$law"
    near "$(sed -n 's/^  beta: \([0-9.]*\)$/\1/p' "$law")" \
        "$(value "$BATS_TEST_TMPDIR/fit.csv" coefficients.beta.value)" 1e-14
    grep -qx '  of: ln' "$law"
    [[ $(sed -n '/^covariance:/,/^$/p' "$law" | grep -c '^    - \[') -eq 11 ]]
    # The diagonal is the squared relative error of the report.
    awk -F, '{ v[$1] = $2 } END { s = v["coefficients.a.se"] / v["coefficients.a.value"]
                                  printf "%.12g\n", s * s }' "$BATS_TEST_TMPDIR/fit.csv" \
        >"$BATS_TEST_TMPDIR/square"
    near "$(sed -n '/^covariance:/,/^$/p' "$law" | grep -m1 '^    - \[' | tr -d ' [-' | cut -d, -f1)" \
        "$(cat "$BATS_TEST_TMPDIR/square")" 1e-9
}

@test "no law is written of a fit that holds none" {
    head -4 "$NOISY" >"$BATS_TEST_TMPDIR/three.csv"
    run "$MOSAIC" fit "$BATS_TEST_TMPDIR/three.csv" -o "$BATS_TEST_TMPDIR/none.yaml"
    [[ $status -eq 5 ]]
    [[ ! -e $BATS_TEST_TMPDIR/none.yaml ]]
    run --separate-stderr "$MOSAIC" fit --form clark "$NOISY" -o "$BATS_TEST_TMPDIR/none.yaml"
    refused 2
    run "$MOSAIC" fit "${QUICK[@]}" "$NOISY" -o "$BATS_TEST_TMPDIR/no/such/law.yaml"
    [[ $status -eq 4 ]]
}

# drawn DIR NAME...: these files, each an SVG from its first to its last line, and nothing else
drawn() {
    local dir=$1
    shift
    [[ $(cd "$dir" && LC_ALL=C ls -A) == "$(printf '%s\n' "$@")" ]] || { ls -A "$dir" && return 1; }
    for name; do
        head -n 1 "$dir/$name" | grep -qE '^<(\?xml|svg)'
        [[ $(sed '/^$/d' "$dir/$name" | tail -n 1) == '</svg>' ]] || { echo "$name is cut" && return 1; }
    done
}

@test "--plot draws what the form has, the same bytes again" {
    command -v gnuplot >/dev/null || skip "no gnuplot (package gnuplot-nox)"
    local dir=$BATS_TEST_TMPDIR/plots
    "$MOSAIC" fit -f json "$NOISY" "${QUICK[@]}" --plot "$dir" >"$BATS_TEST_TMPDIR/plots.json"
    fits_schema "$BATS_TEST_TMPDIR/plots.json"
    drawn "$dir" loss-{granularity,n_total,sparsity,tokens}.svg profile.svg residuals.svg
    # A symbol for each run.
    [[ $(grep -c '<use ' "$dir/residuals.svg") -ge $(($(wc -l <"$NOISY") - 1)) ]]
    cp -r "$dir" "$dir.before"
    TZ=Asia/Tokyo "$MOSAIC" fit "$NOISY" "${QUICK[@]}" --threads 1 --plot "$dir" \
        >"$BATS_TEST_TMPDIR/out"
    diff -r "$dir.before" "$dir"
    "$MOSAIC" fit "$GADRE" --form chinchilla "${QUICK[@]}" --plot "$dir.two" \
        >"$BATS_TEST_TMPDIR/out"
    run ! ls "$dir.two"/loss-{sparsity,granularity}.svg
}

@test "--plot runs nothing that a table says" {
    command -v gnuplot >/dev/null || skip "no gnuplot (package gnuplot-nox)"
    local mark=$BATS_TEST_TMPDIR/mark file=$BATS_TEST_TMPDIR/odd.csv
    awk -v mark="$mark" 'NR == 1 { print $0 ",group" }
        NR > 1 { print $0 ",<&" NR % 2 "`touch " mark "`\047; system(\047touch " mark "\047)" }' \
        "$NOISY" >"$file"
    "$MOSAIC" fit "$file" "${QUICK[@]}" --plot "$BATS_TEST_TMPDIR/odd" >"$BATS_TEST_TMPDIR/out"
    [[ ! -e $mark ]]
    grep -q '&lt;&amp;0_touch' "$BATS_TEST_TMPDIR/odd/residuals.svg"
}

@test "--plot without gnuplot names the package, and with a failing one leaves no file" {
    local dir=$BATS_TEST_TMPDIR/plots bin=$BATS_TEST_TMPDIR/bin
    mkdir "$bin"
    run --separate-stderr env PATH="$bin" "$MOSAIC" fit "$NOISY" "${QUICK[@]}" --plot "$dir"
    refused 4
    [[ $stderr == *gnuplot-nox* && ! -e $dir ]]
    # It answers the first, empty script only.
    # shellcheck disable=SC2016 # expanded by it
    printf '#!/bin/sh\n[ -z "$(/bin/cat)" ] || { echo "line 1: no svg" >&2; exit 1; }\n' >"$bin/gnuplot"
    chmod +x "$bin/gnuplot"
    run --separate-stderr env PATH="$bin" "$MOSAIC" fit "$NOISY" "${QUICK[@]}" --plot "$dir"
    [[ $status -eq 4 && $stderr == *"gnuplot failed: line 1: no svg"* ]]
    [[ -z $(ls -A "$dir") ]]
}

@test "--plot draws nothing of an undetermined fit, and not into a file" {
    command -v gnuplot >/dev/null || skip "no gnuplot (package gnuplot-nox)"
    head -4 "$NOISY" >"$BATS_TEST_TMPDIR/three.csv"
    run "$MOSAIC" fit "$BATS_TEST_TMPDIR/three.csv" --plot "$BATS_TEST_TMPDIR/plots"
    [[ $status -eq 5 && -z $(ls -A "$BATS_TEST_TMPDIR/plots") ]]
    run --separate-stderr "$MOSAIC" fit "$NOISY" --plot "$BATS_TEST_TMPDIR/three.csv"
    refused 4
}
