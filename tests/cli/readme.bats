#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The sessions of README.md are what the program prints; a line `...` stands for lines left out.
# shellcheck disable=SC2154 # run sets them

load common

# shown N: the N-th console block of README.md, its command first, from 1; nothing beyond the last
shown() {
    awk -v wanted="$1" '/^```/ { if (on) exit; if (/^```console$/ && ++n == wanted) { on = 1; next } }
        on' README.md
}

# same EXPECTED PRINTED: the lines of the one in the other, in order, without a gap where no `...` is
same() {
    awk '
        # The line of the output, from `at`, where lines [from, to) of the block stand in a row.
        function found(from, to, at,    i) {
            for (; at + to - from <= printed + 1; at++) {
                for (i = from; i < to && want[i] == got[at + i - from]; i++) ;
                if (i == to) return at
            }
            return 0
        }
        NR == FNR { want[++lines] = $0; next }
        { got[++printed] = $0 }
        END {
            at = 1; gap = 0
            for (from = 1; from <= lines; from = to) {
                if (want[from] == "...") { gap = 1; to = from + 1; continue }
                for (to = from; to <= lines && want[to] != "..."; to++) ;
                next_at = found(from, to, at)
                if (!next_at || (!gap && next_at != at)) {
                    for (i = from; i < to; i++) print "not printed as a block: " want[i]
                    exit 1
                }
                at = next_at + to - from; gap = 0
            }
            if (!gap && at != printed + 1) { print "more is printed: " got[at]; exit 1 }
        }' "$1" "$2"
}

@test "each session of README.md is what its command prints" {
    local n=1 command
    while [[ -n $(shown "$n") ]]; do
        command=$(shown "$n" | head -n 1)
        [[ $command == '$ mosaic '* ]] || { echo "no command: $command" && return 1; }
        shown "$n" | tail -n +2 >"$BATS_TEST_TMPDIR/shown"
        # shellcheck disable=SC2086 # its words
        "$MOSAIC" ${command#'$ mosaic '} >"$BATS_TEST_TMPDIR/printed" 2>/dev/null
        same "$BATS_TEST_TMPDIR/shown" "$BATS_TEST_TMPDIR/printed" || { echo "of: $command" && return 1; }
        n=$((n + 1))
    done
    [[ $n -gt 3 ]]
}

@test "the cluster of README.md is the example to copy" {
    awk '/^```/ { on = /^```yaml$/ && !done; done = done || on; next } on' README.md >"$BATS_TEST_TMPDIR/cluster.yaml"
    grep -v '^#' configs/examples/cluster.yaml | diff - "$BATS_TEST_TMPDIR/cluster.yaml"
}
