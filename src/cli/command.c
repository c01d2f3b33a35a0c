// SPDX-License-Identifier: GPL-3.0-or-later
/* The command and option tables, and help. */
#include "cli/command.h"

#include "base/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const char *const formats[] = {"table", "json", "csv", "yaml", NULL};
static const char *const launch_formats[] = {"text", "json", "shell", "toml", "yaml", NULL};
static const char *const whens[] = {"auto", "always", "never", NULL};
static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static const char *const quantisations[] = {"within", "apart", NULL};
static const char *const collectives[] = {"all_reduce", "all_gather",     "reduce_scatter",
                                          "all_to_all", "point_to_point", NULL};
static const char *const forms[] = {"mosaic",    "mosaic-no-g", "abnar", "chinchilla",
                                    "krajewski", "clark",       NULL};
static const char *const counts[] = {"all", "no_embedding", NULL};
static const char *const bootstraps[] = {"wild", "residual", "none", NULL};

enum { STARTS_MAX = 4096, DRAWS_MIN = 200, DRAWS_MAX = 100000 };
enum { THREADS_MAX = 256, SEQUENCE_MAX = 1 << 24 };
enum { ANCHORS_MAX = 16, WORST_MAX = 1000, ENTRY_MAX = 100000 };
enum { TOP_MAX = 100, FILES_MAX = 1024, TABLES_MAX = 65536, RANKS_MAX = 1 << 20 };

#define FLAG(id, name, letter, help)                                                               \
    { id, OPTION_FLAG, name, letter, NULL, NULL, 0, 0, NULL, help }
#define CHOICE(id, name, letter, argument, choices, initial, help)                                 \
    { id, OPTION_CHOICE, name, letter, argument, choices, 0, 0, initial, help }
#define NUMBER(id, name, letter, least, most, initial, help)                                       \
    { id, OPTION_NUMBER, name, letter, "N", NULL, least, most, initial, help }
#define WORD(id, kind, name, letter, argument, help)                                               \
    { id, kind, name, letter, argument, NULL, 0, 0, NULL, help }

static const char SET_HELP[] = "replace a key of the document, as budget.days=30; repeatable";
static const char OUTPUT_HELP[] = "write to FILE, all or nothing, not to standard output";

#define OPTION_HELP_ROW FLAG(OPTION_HELP, "help", 'h', "this text")
#define OPTION_FORMAT_ROW                                                                          \
    CHOICE(OPTION_FORMAT, "format", 'f', "FORMAT", formats, "table", "how to write the result")
#define OPTIONS_OF_RUN                                                                             \
    NUMBER(OPTION_THREADS, "threads", '\0', 0, THREADS_MAX, "0: all processors",                   \
           "worker threads; never changes a result"),                                              \
        NUMBER(OPTION_SEED, "seed", '\0', 0, LONG_MAX, "1", "seed of everything random"),          \
        CHOICE(OPTION_COLOR, "color", '\0', "WHEN", whens, "auto", "bold headings in a table"),    \
        CHOICE(OPTION_PROGRESS, "progress", '\0', "WHEN", whens, "auto",                           \
               "progress on standard error"),                                                      \
        FLAG(OPTION_VERBOSE, "verbose", 'v', "times and memory on standard error"),                \
        OPTION_HELP_ROW
#define OPTIONS_COMMON                                                                             \
    OPTION_FORMAT_ROW, WORD(OPTION_OUTPUT, OPTION_FILE, "output", 'o', "FILE", OUTPUT_HELP),       \
        WORD(OPTION_SET, OPTION_PAIR, "set", '\0', "KEY=VALUE", SET_HELP), OPTIONS_OF_RUN

static const struct option_spec common_options[] = {OPTIONS_COMMON};
static const struct option_spec fit_options[] = {
    WORD(OPTION_STEPS, OPTION_FILE, "steps", '\0', "ROWS.csv",
         "fit step constants to measured steps instead of a law to runs"),
    WORD(OPTION_MODELS, OPTION_FILE, "models", '\0', "MODELS.csv",
         "of --steps: table of the models; the one named like ROWS.csv by default"),
    WORD(OPTION_CALIBRATION, OPTION_FILE, "calibration", '\0', "FILE",
         "of --steps: what holds where nothing is fitted (generic)"),
    CHOICE(OPTION_FORM, "form", '\0', "FORM", forms, NULL, "law (mosaic)"),
    WORD(OPTION_LOSS, OPTION_TEXT, "loss", '\0', "LOSS",
         "least-squares (default), least-squares-raw, huber:DELTA or lad"),
    CHOICE(OPTION_PARAMETERS, "count", '\0', "COUNT", counts, NULL, "what N counts"),
    WORD(OPTION_FIX, OPTION_PAIR, "fix", '\0', "NAME=VALUE",
         "hold a coefficient at a value; repeatable"),
    WORD(OPTION_FILTER, OPTION_PAIR, "filter", '\0', "COLUMN=VALUE",
         "take only rows whose cell holds VALUE, or one of A|B; repeatable"),
    NUMBER(OPTION_STARTS, "starts", '\0', 1, STARTS_MAX, "32", "starting points"),
    CHOICE(OPTION_BOOTSTRAP, "bootstrap", '\0', "KIND", bootstraps, "wild",
           "refits that intervals come from"),
    NUMBER(OPTION_DRAWS, "draws", '\0', DRAWS_MIN, DRAWS_MAX, "200", "bootstrap refits"),
    WORD(OPTION_AT, OPTION_TEXT, "at", '\0', "FLOPS[,G]",
         "also the compute-optimal model for these model FLOPs"),
    FLAG(OPTION_COMPARE_FORMS, "compare-forms", '\0',
         "fit every form, judged by AIC and by held-out runs"),
    FLAG(OPTION_NO_CROSS_VALIDATION, "no-cross-validation", '\0', "hold no runs out"),
    WORD(OPTION_LAW, OPTION_FILE, "output", 'o', "PATH",
         "write the law to file PATH, step constants into directory PATH"),
    WORD(OPTION_PLOT, OPTION_FILE, "plot", '\0', "DIR",
         "draw the fit as SVG files in DIR; needs gnuplot"),
    OPTION_FORMAT_ROW,
    OPTIONS_OF_RUN,
};
static const struct option_spec count_options[] = {
    NUMBER(OPTION_SEQUENCE, "sequence", 's', 1, SEQUENCE_MAX, "the document's own",
           "tokens a sequence, for the attention core"),
    OPTIONS_COMMON,
};
static const struct option_spec layout_options[] = {
    WORD(OPTION_MODEL, OPTION_FILE, "model", 'm', "FILE",
         "the model, in place of what PLAN says: mosaic-model/1 or a config.json"),
    NUMBER(OPTION_TOP, "top", 'n', 1, TOP_MAX, "10", "layouts to list, best first"),
    OPTIONS_COMMON,
};
static const struct option_spec explain_options[] = {
    WORD(OPTION_LAYOUT, OPTION_TEXT, "layout", 'l', "AXES",
         "the layout, as tp=8,pp=4,ep=8; axes left out are the plan's"),
    WORD(OPTION_MODEL, OPTION_FILE, "model", 'm', "FILE",
         "the model, in place of what PLAN says: mosaic-model/1 or a config.json"),
    OPTIONS_COMMON,
};
static const struct option_spec plan_options[] = {
    WORD(OPTION_CERTIFICATE, OPTION_FILE, "certificate", '\0', "FILE",
         "write what proves each geometry's place, for a check of its own"),
    FLAG(OPTION_SENSITIVITY, "sensitivity", '\0',
         "also slopes and flip points of the cluster's figures, prices of pins"),
    WORD(OPTION_MEASURED, OPTION_FILE, "measured", '\0', "STEPS.csv",
         "steps measured on the shortlist, taken into the model"),
    WORD(OPTION_TIME_LIMIT, OPTION_TEXT, "time-limit", '\0', "TIME",
         "end the search after, as '60 s', with the best so far and its gap"),
    NUMBER(OPTION_GEOMETRY_LIMIT, "geometry-limit", '\0', 1, LONG_MAX, "none",
           "open no more geometries than these"),
    OPTIONS_COMMON,
};
static const struct option_spec sweep_options[] = {
    WORD(OPTION_VARY, OPTION_PAIR, "vary", '\0', "KEY=VALUE,...",
         "values of a key, or LOW..HIGH*FACTOR, LOW..HIGH+STEP; repeatable"),
    WORD(OPTION_RESUME, OPTION_FILE, "resume", '\0', "FILE.csv",
         "skip the points whose rows are there"),
    WORD(OPTION_SHARD, OPTION_TEXT, "shard", '\0', "I/N",
         "only every N-th point, from the I-th on"),
    FLAG(OPTION_MERGE, "merge", '\0', "join the tables of shards"),
    OPTIONS_COMMON,
};
static const struct option_spec lint_options[] = {
    FLAG(OPTION_SHOW_DEFAULTS, "show-defaults", '\0',
         "list every value with its origin: given, override, default and so on"),
    OPTIONS_COMMON,
};
static const struct option_spec validate_options[] = {
    WORD(OPTION_MODELS, OPTION_FILE, "models", '\0', "MODELS.csv",
         "table of the models; by default the one beside ROWS.csv"),
    WORD(OPTION_CALIBRATION, OPTION_FILE, "calibration", '\0', "FILE",
         "in place of every cluster's own calibration; generic: data sheets alone"),
    NUMBER(OPTION_ANCHOR, "anchor", '\0', 0, ANCHORS_MAX, "0",
           "measured layouts of each job that scale its others"),
    WORD(OPTION_GROUP_BY, OPTION_TEXT, "group-by", '\0', "NAMES",
         "groupings to report, as slice,gpu; none; all of them by default"),
    NUMBER(OPTION_WORST, "worst", '\0', 0, WORST_MAX, "10", "rows to list, worst first"),
    OPTION_FORMAT_ROW,
    WORD(OPTION_OUTPUT, OPTION_FILE, "output", 'o', "FILE", OUTPUT_HELP),
    OPTIONS_OF_RUN,
};
static const struct option_spec check_options[] = {
    WORD(OPTION_BASELINE, OPTION_FILE, "baseline", 'b', "FILE",
         "what each FILE was predicted to be: a mosaic.baseline/1 document"),
    FLAG(OPTION_UPDATE, "update", '\0', "write the baseline anew, all or nothing; exit 0"),
    WORD(OPTION_TOLERANCE, OPTION_PAIR, "tolerance", '\0', "KEY=VALUE",
         "of a metric or all, as mfu='1 %' or loss='0.001 nat'; repeatable (0.1 %)"),
    WORD(OPTION_JUNIT, OPTION_FILE, "junit", '\0', "FILE",
         "write JUnit XML too: a suite a file, a case a metric"),
    FLAG(OPTION_ANNOTATIONS, "annotations", '\0',
         "GitHub annotations of what changed on standard error"),
    OPTIONS_COMMON,
};
static const struct option_spec import_options[] = {
    WORD(OPTION_CLUSTER, OPTION_FILE, "cluster", '\0', "FILE",
         "the machine, whose data sheet and links the figures are held to"),
    WORD(OPTION_DEVICE, OPTION_TEXT, "device", '\0', "NAME",
         "the GPU, where there is no cluster document"),
    WORD(OPTION_OVER, OPTION_TEXT, "over", '\0', "CALIBRATION",
         "what the document is laid over (generic)"),
    CHOICE(OPTION_COLLECTIVE, "collective", '\0', "KIND", collectives, NULL, "of FILE"),
    NUMBER(OPTION_RANKS, "ranks", '\0', 2, RANKS_MAX, NULL,
           "ranks of a file that does not list them; otherwise it must agree"),
    NUMBER(OPTION_RANKS_PER_NODE, "ranks-per-node", '\0', 1, RANKS_MAX, NULL,
           "the same of each node"),
    WORD(OPTION_SOFTWARE, OPTION_TEXT, "software", '\0', "TEXT",
         "versions measured, as written into the document"),
    WORD(OPTION_LICENCE, OPTION_TEXT, "licence", '\0', "TEXT",
         "licence of the measurements (measured by the user)"),
    CHOICE(OPTION_QUANTISATION, "quantisation", '\0', "WHERE", quantisations, NULL,
           "of kernels: within the times of 8- and 4-bit GEMMs, or apart"),
    WORD(OPTION_SAMPLES, OPTION_FILE, "samples", '\0', "FILE",
         "of kernels: write them as a journal, which the probe replay plays"),
    FLAG(OPTION_STRICT, "strict", '\0', "a warning is an error"),
    WORD(OPTION_LAW, OPTION_FILE, "output", 'o', "FILE",
         "write the calibration document to FILE, all or nothing"),
    OPTION_FORMAT_ROW,
    WORD(OPTION_SET, OPTION_PAIR, "set", '\0', "KEY=VALUE", SET_HELP),
    OPTIONS_OF_RUN,
};
static const struct option_spec calibrate_options[] = {
    WORD(OPTION_PROBE, OPTION_TEXT, "probe", 'p', "NAME",
         "the probe: cuda, host, replay, or the path of an executable"),
    WORD(OPTION_CLUSTER, OPTION_FILE, "cluster", '\0', "FILE",
         "the machine's data sheet and size: a mosaic-cluster/1 document"),
    FLAG(OPTION_QUICK, "quick", '\0', "the backbone alone, within a minute"),
    FLAG(OPTION_FULL, "full", '\0', "every shape, within an hour; else five minutes"),
    WORD(OPTION_SAMPLES, OPTION_FILE, "samples", '\0', "FILE",
         "journal of what was measured; the next start goes on from it"),
    FLAG(OPTION_RESTART, "restart", '\0', "begin the journal anew"),
    WORD(OPTION_TIMEOUT, OPTION_TEXT, "timeout", '\0', "TIME",
         "how long one measurement, or a rank, may be silent (60 s)"),
    WORD(OPTION_TIME_BUDGET, OPTION_TEXT, "budget", '\0', "TIME",
         "begin nothing that would end later, in place of the level's"),
    FLAG(OPTION_COMPARE, "compare", '\0',
         "what changed between the calibrations OLD and NEW; exit 7 on drift"),
    WORD(OPTION_TOLERANCE, OPTION_PAIR, "tolerance", '\0', "KEY=SHARE",
         "of --compare: of an entry or all, as all='5 %'; repeatable (5 %)"),
    WORD(OPTION_LAW, OPTION_FILE, "output", 'o', "FILE",
         "write the calibration to FILE, all or nothing"),
    WORD(OPTION_SET, OPTION_PAIR, "set", '\0', "KEY=VALUE",
         "replace a key of the cluster document; repeatable"),
    OPTION_FORMAT_ROW,
    OPTIONS_OF_RUN,
};
static const struct option_spec export_options[] = {
    WORD(OPTION_TO, OPTION_TEXT, "to", 't', "ENGINE",
         "NAME-VERSION of the library, NAME for its newest, or a file; else the plan's"),
    NUMBER(OPTION_ENTRY, "entry", 'n', 1, ENTRY_MAX, "1", "rank of the layout, 1 the best"),
    CHOICE(OPTION_FORMAT, "format", 'f', "FORMAT", launch_formats, "text",
           "text: as the engine takes it; else one of its ways, or the whole result"),
    WORD(OPTION_OUTPUT, OPTION_FILE, "output", 'o', "FILE", OUTPUT_HELP),
    NUMBER(OPTION_THREADS, "threads", '\0', 0, THREADS_MAX, "0: all processors",
           "worker threads; never changes a result"),
    FLAG(OPTION_VERBOSE, "verbose", 'v', "times and memory on standard error"),
    OPTION_HELP_ROW,
};
static const struct option_spec help_options[] = {OPTION_HELP_ROW};

#define OPTIONS(table) table, COUNT_OF(table)

const struct command commands[] = {
    {"plan",
     "find the model, token count and layout of least loss for a cluster",
     "Takes the scaling law, predicts what each candidate of the declared space would run at on\n"
     "this cluster, and reports the plan of least predicted loss, with its proof and what comes\n"
     "next.  FILE is a plan, or a cluster with a budget.  Exit 1 means that no plan fits; the\n"
     "result says why.",
     OPTIONS(plan_options),
     {"FILE", 1, 1, true, NULL},
     cmd_plan},
    {"fit",
     "fit a scaling law to a table of training runs, or step constants to measured steps",
     "RUNS.csv has a row a run and a header: tokens, loss, n_total or n_active, and more where "
     "the\n"
     "form asks for it.  Reports the best of many starts, how far each coefficient is determined,\n"
     "how the law predicts runs it has not seen, and intervals from refits.  Exit 5 means that "
     "the\n"
     "runs determine no such law; the result says why.\n\n"
     "With --steps, which takes no RUNS.csv, the constants of the step model are estimated from\n"
     "measured training steps, and how well they predict layouts and models left out.",
     OPTIONS(fit_options),
     {"RUNS.csv", 0, 1, true, NULL},
     cmd_fit},
    {"predict",
     "step time, MFU and memory of one model in one layout",
     "Evaluates exactly the geometry and layout that FILE pins, with no search: time by term,\n"
     "MFU under each convention, memory by stage and item.",
     OPTIONS(common_options),
     {"FILE", 1, 1, true, NULL},
     cmd_predict},
    {"layout",
     "the best layouts of one given model",
     "Tries every layout that PLAN declares and its engine can launch, and lists the fastest that\n"
     "fit, each with what it loses against the first.  When none fits it names the one that comes\n"
     "closest and what would do.  PLAN is a plan, or a cluster with a budget; without --model it\n"
     "has to name one model.",
     OPTIONS(layout_options),
     {"PLAN", 1, 1, true, NULL},
     cmd_layout},
    {"explain",
     "why a layout is illegal, does not fit, or loses",
     "Names every rule that the layout of --layout breaks with its arithmetic, or the bytes that\n"
     "it lacks, or the terms by which its step is longer than that of PLAN's best layout, and the\n"
     "nearest changes that would help, each evaluated.  PLAN is a plan, or a cluster with a\n"
     "budget.",
     OPTIONS(explain_options),
     {"PLAN", 1, 1, true, NULL},
     cmd_explain},
    {"schedules",
     "the live sets that memory schedules bound, before and after, and when they run",
     "Of the one model and layout that PLAN pins: the four live sets of the fullest stage without\n"
     "and with each memory schedule of its execution, what each costs, the memory of every phase\n"
     "of a step, and timelines of a layer, the head and the optimizer.",
     OPTIONS(common_options),
     {"PLAN", 1, 1, true, NULL},
     cmd_schedules},
    {"count",
     "parameters and FLOPs a token of a model under every convention",
     "FILE is a model, or a plan that pins one.",
     OPTIONS(count_options),
     {"FILE", 1, 1, true, NULL},
     cmd_count},
    {"compare",
     "two predictions term by term, and their losses at equal compute",
     "A and B are files that predict takes.  Losses are compared at equal model FLOPs and at\n"
     "equal peak-equivalent compute, where the one that runs better gets more tokens.",
     OPTIONS(common_options),
     {"A B", 2, 2, true, NULL},
     cmd_compare},
    {"sweep",
     "plans over a grid of settings",
     "Plans FILE at each point of the product of all --vary, the last key fastest; a FILE that\n"
     "pins a model and a layout is predicted.  A point that is bad input is a row with its error.\n"
     "With --format csv --output FILE rows are written as they are done, for --resume.  --merge\n"
     "takes tables instead.  Exit 1 means that no point has a plan.",
     OPTIONS(sweep_options),
     {"FILE", 1, TABLES_MAX, true, NULL},
     cmd_sweep},
    {"validate",
     "predictions against measured training steps",
     "ROWS.csv has a row a measured step, MODELS.csv a row a model.  Reports error, order and\n"
     "interval coverage by distinct layout, by group, beside what data sheets alone give, and the\n"
     "worst rows with reasons.  A row that cannot be read without guessing is excluded by name.",
     OPTIONS(validate_options),
     {"ROWS.csv", 1, 1, true, NULL},
     cmd_validate},
    {"check",
     "predictions against a baseline, for continuous integration",
     "Predicts each FILE that pins a model and a layout, plans any other, and compares MFU, step\n"
     "time, memory, tokens a second, tokens and loss with the baseline.  Exit 7 means that one is\n"
     "worse by more than its tolerance, or that a plan is no longer feasible; the report names "
     "the\n"
     "terms and inputs that changed.  A missing or foreign baseline is exit 3.",
     OPTIONS(check_options),
     {"FILE...", 1, FILES_MAX, true, NULL},
     cmd_check},
    {"calibrate",
     "measure this machine with a probe, into a calibration; compare two of them",
     "Starts mosaic-probe-NAME and times what the step model needs, most useful first; fits it "
     "and\n"
     "writes a mosaic-calibration/1 document with --output.  What follows -- goes to the probe.\n"
     "Under srun, mpirun or torchrun, with a process a GPU, all of them measure together.  Exit 6\n"
     "means that the probe, or a rank, failed; what was measured before is kept in the journal.\n\n"
     "With --compare, nothing is measured: what differs between OLD and NEW beyond noise.",
     OPTIONS(calibrate_options),
     {"[OLD NEW | -- PROBE-OPTION...]", 0, FILES_MAX, true, NULL},
     cmd_calibrate},
    {"import",
     "turn measurements of other tools into a calibration",
     "KIND says what the files are: nccl-tests, nvbandwidth, deepep (output of these tools in any\n"
     "of its shapes), kernels (a CSV of timed kernels), steps (one of measured training steps) or\n"
     "samples (the journal of a probe, or a calibration that keeps its measurements).  Reports\n"
     "what the figures were taken to mean, what was fitted to them and what is doubted; --output\n"
     "makes the document.",
     OPTIONS(import_options),
     {"KIND FILE...", 2, FILES_MAX, true, NULL},
     cmd_import},
    {"export",
     "launch arguments of a planned layout, under an engine's rules",
     "PLAN.json is a result of plan, layout, predict or explain as JSON; the files that it was "
     "made\n"
     "of are read again, and must not have changed.  Writes what the engine takes: words for the\n"
     "shell, a TOML or a YAML file, with what is left to say as comments.  A layout that breaks "
     "the\n"
     "engine's rules, or has what it cannot be told, is refused by name: exit 3.",
     OPTIONS(export_options),
     {"PLAN.json", 1, 1, true, NULL},
     cmd_export},
    {"lint",
     "check a document; show its defaults and derived values",
     "Reads FILE as the other commands would and reports what it finds.",
     OPTIONS(lint_options),
     {"FILE", 1, 1, true, NULL},
     cmd_lint},
    {"completion",
     "print a completion script for a shell",
     "For bash: source <(mosaic completion bash).  For zsh and fish, save it where they look\n"
     "for completions.",
     OPTIONS(help_options),
     {"SHELL", 1, 1, false, shells},
     cmd_completion},
    {"help",
     "explain a command",
     "Without COMMAND, lists the commands.",
     OPTIONS(help_options),
     {"[COMMAND]", 0, 1, false, NULL},
     cmd_help},
};
const size_t command_count = COUNT_OF(commands);

const struct command *command_find(const char *name) {
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

void command_print_help(const struct command *command, FILE *stream) {
    (void)fprintf(stream, "Usage: mosaic %s [options]%s%s\n\n%c%s.\n%s\n\n", command->name,
                  *command->operands.usage ? " " : "", command->operands.usage,
                  toupper((unsigned char)command->summary[0]), command->summary + 1,
                  command->detail);
    for (size_t i = 0; command->operands.choices && command->operands.choices[i]; i++)
        (void)fprintf(stream, "%s%s%s", i ? ", " : command->operands.usage, i ? "" : ": ",
                      command->operands.choices[i]);
    if (command->operands.choices)
        (void)fputs("\n\n", stream);
    if (command->operands.is_file)
        (void)fputs("A file named - is standard input.\n\n", stream);
    option_print(command->options, command->option_count, stream);
}

static const struct {
    int code;
    const char *text;
} exits[] = {
#define STATUS_ROW(name, code, text) {code, text},
    MOSAIC_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

void program_print_help(FILE *stream) {
    (void)fputs("Usage: mosaic COMMAND [options] FILE...\n\n"
                "Plan a Mixture-of-Experts pre-training run for one cluster.\n\nCommands:\n",
                stream);
    for (size_t i = 0; i < command_count; i++)
        (void)fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].summary);
    (void)fputs("\n  --version    version; with --verbose, the build and its libraries\n"
                "  --help       this text; after a command, that command's\n\nExit status:\n",
                stream);
    for (size_t i = 0; i < COUNT_OF(exits); i++)
        (void)fprintf(stream, "  %-12d %s\n", exits[i].code, exits[i].text);
}

enum mosaic_status command_refuse(const struct command *command, const char *message) {
    (void)fprintf(stderr, "mosaic%s%s: %s\ntry 'mosaic%s%s --help'\n", command ? " " : "",
                  command ? command->name : "", message, command ? " " : "",
                  command ? command->name : "");
    return MOSAIC_USAGE;
}

static const char *name_at(const void *context, size_t index) {
    const struct command *const list = context;
    return list[index].name;
}

enum mosaic_status command_refuse_name(const char *name) {
    char message[OPTION_MESSAGE_MAX];
    const bool is_option = name[0] == '-';
    const char *const near =
        is_option ? NULL : suggest_from(name, name_at, commands, command_count);
    (void)snprintf(message, sizeof message, "unknown %s '%.60s'%s%s%s",
                   is_option ? "option" : "command", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
    return command_refuse(NULL, message);
}
