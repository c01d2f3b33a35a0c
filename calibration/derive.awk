# SPDX-License-Identifier: GPL-3.0-or-later
# Derives calibrations from a kernel table (CSV with a header; columns are found by name).
#   awk -f derive.awk TABLE.csv             the measured samples of calibration/data/p6-b200-published.yaml,
#                                           each printed line stands in the document as it is
#   awk -v document=1 -f derive.awk TABLE   the whole of calibration/data/GPU-kernels.yaml
#   awk -v extract=1 -f derive.awk TABLE    the table's rows that are used, with the header
# `-v device=NAME` picks the GPU, as the table spells it; B200 unless said otherwise.
# bus bandwidth = factor * bytes / latency; factor 2 (n-1)/n for all-reduce, (n-1)/n otherwise, bytes
# = whole buffer on one rank.  A larger message must not take less time: latencies of one collective
# are first made non-decreasing by pooling adjacent violators (noise of some us below 1 MiB).
# Rows of 8- and 4-bit GEMMs contain the quantisation of the input, which the model counts as a pass
# of its own: QUANTISE_BYTES per element at a share of the HBM bandwidth are taken out first.

BEGIN {
    FS = ","
    OFMT = CONVFMT = "%.17g"
    if (device == "")
        device = "B200"
    # Dense peaks in TFLOP/s, HBM in TB/s, as in configs/clusters; the share of HBM that streaming
    # kernels reach by the own analysis of public tables: 0.75 on Hopper, 0.58 on Blackwell.
    describe("H100 SXM", 989, 1979, 0, 3.35, 0.75)
    describe("H200", 989, 1979, 0, 4.8, 0.75)
    describe("B200", 2250, 4500, 9000, 8, 0.58)
    describe("B300", 2250, 4500, 13500, 8, 0.58)
    describe("GB200", 2500, 5000, 10000, 8, 0.58)
    describe("GB300", 2500, 5000, 15000, 8, 0.58)
    if (!((device, "bf16") in peak)) {
        print "derive.awk: no peaks of '" device "'" >"/dev/stderr"
        failed = 1
        exit 1
    }
    GEMM_ROWS = 16384
    GEMM_MIN_SIDE = 2048
    QUANTISE_BYTES = 4
    HEADS = 64
    KV_HEADS = 8
    HEAD_DIM = 128
    split("bfloat16 fp8 nvfp4", dtypes, " ")
    split("bf16 fp8 nvfp4", precisions, " ")
    for (i in dtypes)
        precision_of[dtypes[i]] = precisions[i]
    split("nccl_all_reduce nccl_all_gather nccl_reduce_scatter nccl_alltoall", ops, " ")
    split("all_reduce all_gather reduce_scatter all_to_all", names, " ")
    split("2 4 8", ranks, " ")
    for (i in ops)
        known_op[ops[i]] = 1
}

function describe(name, bf16, fp8, nvfp4, hbm, share) {
    peak[name, "bf16"] = bf16
    peak[name, "fp8"] = fp8
    peak[name, "nvfp4"] = nvfp4
    hbm_tb_per_s[name] = hbm
    hbm_share[name] = share
}

{ sub(/\r$/, "") } # tables come with either end of line

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

# Counts the row to a kind, whose source it names.
function keep_row(kind) {
    source[kind] = field("source")
    sub(/^aic:/, "", source[kind])
    if (extract)
        print
}

field("gpu") != device { next }

field("op") == "gemm" && (field("dtype") in precision_of) && field("kernel") == "torch_flow" &&
field("m_or_tokens") == GEMM_ROWS && field("n_or_hidden") >= GEMM_MIN_SIDE &&
field("k_or_ffn") >= GEMM_MIN_SIDE && (peak[device, precision_of[field("dtype")]] > 0) {
    precision = precision_of[field("dtype")]
    i = ++gemms[precision]
    gemm[precision, i] = field("rate") + 0
    flop = 2 * field("m_or_tokens") * field("n_or_hidden") * field("k_or_ffn")
    pass_us = QUANTISE_BYTES * field("m_or_tokens") * field("k_or_ffn") / \
              (hbm_share[device] * hbm_tb_per_s[device] * 1e6)
    bare[precision, i] = flop / (field("latency_us") - pass_us) / 1e6
    keep_row("gemm")
}

field("op") == "attention_fwd_causal" && field("dtype") == "bfloat16" &&
field("heads") == HEADS && field("kv_heads") == KV_HEADS && field("head_dim") == HEAD_DIM &&
field("window") == "" {
    s = field("seq") + 0
    if (!(s in attention_count))
        sequences[++sequence_count] = s
    attention[s, ++attention_count[s]] = field("rate") + 0
    keep_row("attention")
}

(field("op") in known_op) {
    key = field("op") SUBSEP (field("n_gpus_or_sms") + 0)
    size[key, ++sizes[key]] = field("bytes") + 0
    time_us[key, field("bytes") + 0] = field("latency_us") + 0
    keep_row("collective")
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

function collective_samples(key, name, n,    i, factor, out, count, t) {
    count = sizes[key]
    sort_list(size, key, count)
    for (i = 1; i <= count; ++i)
        t[i] = time_us[key, size[key, i]]
    pool(t, count)
    factor = (n - 1) / n * (name == "all_reduce" ? 2 : 1)
    out = ""
    for (i = 1; i <= count; ++i)
        out = out (i > 1 ? ", " : "") "[" bytes_text(size[key, i]) ", " \
              sprintf("%.5g", factor * size[key, i] / t[i] / 1000) " GB/s]"
    return "    samples: [" out "]"
}

function attention_samples(    i, s, out) {
    sort_list(sequences, "", sequence_count)
    out = ""
    for (i = 1; i <= sequence_count; ++i) {
        s = sequences[i]
        out = out (i > 1 ? ", " : "") "[" s ", " \
              sprintf("%.2f", median(attention, s, attention_count[s])) " TFLOP/s]"
    }
    return "    samples: [" out "]"
}

# ---- the samples of p6-b200-published.yaml ----------------------------------------------------------

function print_samples(    i, j, m) {
    if (gemms["bf16"]) {
        m = median(gemm, "bf16", gemms["bf16"])
        printf "# gemm.bf16.share: median of %d rows, %.1f TFLOP/s\n", gemms["bf16"], m
        printf "  - quantity: gemm.bf16.share\n    value: %.4f\n", m / peak[device, "bf16"]
    }
    if (sequence_count) {
        print "# attention.bf16.forward"
        print attention_samples()
    }
    for (i = 1; i <= 4; ++i)
        for (j = 1; j <= 3; ++j)
            if (sizes[ops[i], ranks[j]]) {
                print "# " names[i] ", " ranks[j] " ranks"
                print collective_samples(ops[i] SUBSEP ranks[j], names[i], ranks[j])
            }
}

# ---- a whole document -------------------------------------------------------------------------------

# "trtllm/1.3.0rc20" ends the path of a source.
function software(kind,    part, n) {
    n = split(source[kind], part, "/")
    return (part[n - 1] == "trtllm" ? "TensorRT-LLM" : "NCCL") " " part[n]
}
function print_origin(kind, method) {
    print "    source: \"ai-dynamo/aiconfigurator, systems data " source[kind] \
          "; extract in kernels-" slug ".csv\""
    print "    licence: \"Apache-2.0\""
    print "    software: \"" software(kind) "\""
    print "    method: \"" method "\""
}

function print_gemm(precision,    n, m, method) {
    n = gemms[precision]
    m = precision == "bf16" ? median(gemm, precision, n) : median(bare, precision, n)
    method = sprintf("median of the %d rows with M = %d and N, K >= %d, %.1f TFLOP/s, over the dense " \
        "peak %d TFLOP/s; burst rate of a forward kernel (derive.awk)", n, GEMM_ROWS, GEMM_MIN_SIDE, m,
        peak[device, precision])
    if (precision != "bf16")
        method = method sprintf("; the quantisation of the input, a pass of its own in the model, is " \
            "taken out as %d B per element at %g of %g TB/s; with it %.1f TFLOP/s", QUANTISE_BYTES,
            hbm_share[device], hbm_tb_per_s[device], median(gemm, precision, n))
    printf "  - quantity: gemm.%s.share\n    value: %.4f\n", precision, m / peak[device, precision]
    print_origin("gemm", method)
}

function print_document(    name, i, j) {
    name = device
    sub(/ SXM$/, "", name)
    slug = tolower(name)
    print "# SPDX-License-Identifier: GPL-3.0-or-later"
    print "# GEMM, attention and NCCL on " name " as public tables have them: serving kernels, each run"
    print "# alone, clocks at their burst.  Written by derive.awk from kernels-" slug ".csv; see README.md."
    print "schema: mosaic-calibration/1"
    print "name: " slug "-kernels"
    print "device: " name
    print "entries:"
    for (i = 1; i <= 3; ++i)
        if (gemms[precisions[i]])
            print_gemm(precisions[i])
    if (sequence_count) {
        print "  - quantity: attention.bf16.forward\n    against: sequence\n    interpolate: steffen"
        print attention_samples()
        print_origin("attention", sprintf("causal prefill, %d query and %d key-value heads of %d, bf16, " \
            "no window; per sequence the median over batches; causal (halved) FLOPs; the kernel also " \
            "writes the KV cache (derive.awk)", HEADS, KV_HEADS, HEAD_DIM))
    }
    for (i = 1; i <= 4; ++i)
        for (j = 1; j <= 3; ++j)
            if (sizes[ops[i], ranks[j]]) {
                print "  - collective: " names[i] "\n    ranks: " ranks[j]
                print "    ranks_per_domain: " ranks[j] "\n    interpolate: steffen"
                print collective_samples(ops[i] SUBSEP ranks[j], names[i], ranks[j])
                print_origin("collective", "bus bandwidth from the latency of each row; latencies made " \
                    "non-decreasing in size (derive.awk); one NVLink domain")
            }
}

END {
    if (failed)
        exit 1
    if (extract)
        exit
    if (document)
        print_document()
    else
        print_samples()
}
