# SPDX-License-Identifier: GPL-3.0-or-later
# Re-creates the measured samples of calibration/data/p6-b200-published.yaml from a kernel table (CSV
# with a header; columns are found by name).  Each printed line stands in the document as it is.
#   awk -f derive.awk TABLE.csv             the lines: GEMM share, attention curve, NCCL collectives
#   awk -v extract=1 -f derive.awk TABLE    the table's rows that are used, with the header
# bus bandwidth = factor * bytes / latency; factor 2 (n-1)/n for all-reduce, (n-1)/n otherwise, bytes
# = whole buffer on one rank.  A larger message must not take less time: latencies of one collective
# are first made non-decreasing by pooling adjacent violators (noise of some us below 1 MiB).

BEGIN {
    FS = ","
    OFMT = CONVFMT = "%.17g"
    DEVICE = "B200"
    PEAK_TFLOPS = 2250
    GEMM_ROWS = 16384
    GEMM_MIN_SIDE = 2048
    HEADS = 64
    KV_HEADS = 8
    HEAD_DIM = 128
    gemms = 0
    split("nccl_all_reduce nccl_all_gather nccl_reduce_scatter nccl_alltoall", ops, " ")
    split("all_reduce all_gather reduce_scatter all_to_all", names, " ")
    split("2 4 8", ranks, " ")
    for (i in ops)
        known_op[ops[i]] = 1
}

NR == 1 {
    for (i = 1; i <= NF; ++i)
        column[$i] = i
    if (extract)
        print
    next
}

function field(name) {
    return $(column[name])
}

function keep_row() {
    if (extract)
        print
}

field("gpu") != DEVICE { next }

field("op") == "gemm" && field("dtype") == "bfloat16" && field("kernel") == "torch_flow" &&
field("m_or_tokens") == GEMM_ROWS && field("n_or_hidden") >= GEMM_MIN_SIDE &&
field("k_or_ffn") >= GEMM_MIN_SIDE {
    gemm[++gemms] = field("rate") + 0
    keep_row()
}

field("op") == "attention_fwd_causal" && field("dtype") == "bfloat16" &&
field("heads") == HEADS && field("kv_heads") == KV_HEADS && field("head_dim") == HEAD_DIM &&
field("window") == "" {
    s = field("seq") + 0
    if (!(s in attention_count))
        sequences[++sequence_count] = s
    attention[s, ++attention_count[s]] = field("rate") + 0
    keep_row()
}

(field("op") in known_op) {
    key = field("op") SUBSEP (field("n_gpus_or_sms") + 0)
    size[key, ++sizes[key]] = field("bytes") + 0
    time_us[key, field("bytes") + 0] = field("latency_us") + 0
    keep_row()
}

# Insertion sort of list[prefix 1 .. prefix n]; keys are prefix SUBSEP index, or the index alone.
function at(prefix, i) {
    return prefix == "" ? i : prefix SUBSEP i
}
function sort_list(list, prefix, n,    i, j, value) {
    for (i = 2; i <= n; ++i) {
        value = list[at(prefix, i)]
        for (j = i - 1; j >= 1 && list[at(prefix, j)] > value; --j)
            list[at(prefix, j + 1)] = list[at(prefix, j)]
        list[at(prefix, j + 1)] = value
    }
}
function median(list, prefix, n) {
    sort_list(list, prefix, n)
    if (n % 2)
        return list[at(prefix, (n + 1) / 2)]
    return (list[at(prefix, n / 2)] + list[at(prefix, n / 2 + 1)]) / 2
}

function bytes_text(bytes) {
    if (bytes >= 1048576)
        return bytes / 1048576 " MiB"
    return bytes >= 1024 ? bytes / 1024 " KiB" : bytes " B"
}

# Pool adjacent violators: the non-decreasing sequence nearest to t[1 .. n] in least squares.
function pool(t, n,    i, j, k, blocks, mean, members) {
    blocks = 0
    for (i = 1; i <= n; ++i) {
        mean[++blocks] = t[i]
        members[blocks] = 1
        while (blocks > 1 && mean[blocks - 1] > mean[blocks]) {
            k = members[blocks - 1] + members[blocks]
            mean[blocks - 1] = (mean[blocks - 1] * members[blocks - 1] + \
                                mean[blocks] * members[blocks]) / k
            members[blocks - 1] = k
            --blocks
        }
    }
    i = 0
    for (j = 1; j <= blocks; ++j)
        for (k = 1; k <= members[j]; ++k)
            t[++i] = mean[j]
}

function print_collective(op, name, n,    key, i, factor, out, count, t) {
    key = op SUBSEP n
    count = sizes[key]
    if (!count)
        return
    sort_list(size, key, count)
    for (i = 1; i <= count; ++i)
        t[i] = time_us[key, size[key, i]]
    pool(t, count)
    factor = (n - 1) / n * (name == "all_reduce" ? 2 : 1)
    out = ""
    for (i = 1; i <= count; ++i)
        out = out (i > 1 ? ", " : "") "[" bytes_text(size[key, i]) ", " \
              sprintf("%.5g", factor * size[key, i] / t[i] / 1000) " GB/s]"
    print "# " name ", " n " ranks"
    print "    samples: [" out "]"
}

END {
    if (extract)
        exit
    if (gemms) {
        m = median(gemm, "", gemms)
        printf "# gemm.bf16.share: median of %d rows, %.1f TFLOP/s\n", gemms, m
        printf "  - quantity: gemm.bf16.share\n    value: %.4f\n", m / PEAK_TFLOPS
    }
    if (sequence_count) {
        sort_list(sequences, "", sequence_count)
        out = ""
        for (i = 1; i <= sequence_count; ++i) {
            s = sequences[i]
            out = out (i > 1 ? ", " : "") "[" s ", " \
                  sprintf("%.2f", median(attention, s, attention_count[s])) " TFLOP/s]"
        }
        print "# attention.bf16.forward"
        print "    samples: [" out "]"
    }
    for (i = 1; i <= 4; ++i)
        for (j = 1; j <= 3; ++j)
            print_collective(ops[i], names[i], ranks[j])
}
