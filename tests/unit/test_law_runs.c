// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From run tables to plans: a law fitted while a plan is loaded, its draws carried into the plan,
 * draws from a law document's covariance, and tables that hold no law.  Run from the root of the
 * tree.
 */
#include "test_doc.h"

#include "plan_run.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "plan/law_uncertainty.h"

#define SYNTHETIC "configs/p6-b200-32n-20d-fit.yaml"
#define CLARK "configs/clark-2022.yaml"

/* ---- through the public interface ---- */

static struct run plan(const char *path, unsigned long seed, int threads) {
    struct run r = {.session = mosaic_new()};
    assert_non_null(r.session);
    mosaic_set_seed(r.session, seed);
    assert_int_equal(mosaic_set_threads(r.session, threads), MOSAIC_OK);
    if (mosaic_load(r.session, path, &r.document) != MOSAIC_OK ||
        mosaic_plan(r.session, r.document, NULL, &r.result) != MOSAIC_OK)
        fail_msg("%s", mosaic_diagnostics(r.session));
    assert_string_equal(mosaic_result_string(r.result, "status"), "optimal");
    return r;
}

static void ordered(const struct run *r, const char *what) {
    double value[3];
    static const char *const ends[] = {"low", "middle", "high"};
    for (size_t i = 0; i < 3; ++i) {
        char path[96];
        (void)snprintf(path, sizeof path, "uncertainty.law.%s.%s", what, ends[i]);
        value[i] = number(r, path);
    }
    assert_true(value[0] <= value[1] && value[1] <= value[2] && value[0] > 0.0);
}

/* Shares fall, sum to at most 1, and the plan's own is where it says. */
static void winners_add_up(const struct run *r) {
    const size_t count = mosaic_result_length(r->result, "uncertainty.law.winners");
    double sum = 0.0, last = 1.0, of_plan = 0.0;
    assert_true(count >= 1 && count <= LAW_WINNERS);
    for (size_t i = 0; i < count; ++i) {
        char path[96];
        (void)snprintf(path, sizeof path, "uncertainty.law.winners[%zu].share", i);
        const double share = number(r, path);
        assert_true(share > 0.0 && share <= last);
        sum += share;
        last = share;
        (void)snprintf(path, sizeof path, "uncertainty.law.winners[%zu].loss_above_best", i);
        assert_true(number(r, path) >= 0.0);
        if (!(number(r, path) > 0.0))
            of_plan = share;
    }
    assert_true(sum <= 1.0 + 1e-12);
    if (number(r, "uncertainty.law.geometries") <= (double)LAW_WINNERS)
        assert_close(sum, 1.0, 1e-12);
    assert_close_abs(number(r, "uncertainty.law.share_of_plan"), of_plan, 1e-12);
}

/* The runs were made from the published law: what it would build lies within what the fit allows,
 * and the loss that it predicts there too. */
static void synthetic_fit_covers_the_true_law(void **state) {
    (void)state;
    struct run fitted = plan(SYNTHETIC, 1, 2), truth = plan("configs/p6-b200-32n-20d.yaml", 1, 2);
    const double sparsity = number(&truth, "best.geometry.sparsity");
    const double loss = number(&truth, "best.loss");
    assert_true(number(&fitted, "uncertainty.law.draws") >= 190.0);
    assert_true(number(&fitted, "uncertainty.law.sparsity.low") <= sparsity + 1e-9);
    assert_true(number(&fitted, "uncertainty.law.sparsity.high") >= sparsity - 1e-9);
    assert_true(number(&fitted, "uncertainty.law.loss.low") <= loss);
    assert_true(number(&fitted, "uncertainty.law.loss.high") >= loss);
    /* 0.0078 nats of noise 130 times beyond the largest run are not nothing. */
    assert_true(number(&fitted, "uncertainty.law.loss.high") -
                    number(&fitted, "uncertainty.law.loss.low") >
                0.01);
    ordered(&fitted, "sparsity");
    ordered(&fitted, "tokens");
    ordered(&fitted, "loss");
    winners_add_up(&fitted);
    const double regret = number(&fitted, "uncertainty.law.regret_nats");
    assert_true(regret >= 0.0 && regret < 1e-3);
    double unused;
    assert_int_not_equal(mosaic_result_number(truth.result, "uncertainty.law.draws", &unused),
                         MOSAIC_OK);
    end(&fitted);
    end(&truth);
}

/* Real runs; the plan stays within the sizes and sparsities that they cover. */
static void clark_runs_plan(void **state) {
    (void)state;
    struct run r = plan(CLARK, 1, 2);
    assert_non_null(strstr(mosaic_result_string(r.result, "law.source"), "61 runs"));
    assert_true(number(&r, "best.geometry.sparsity") > 0.9);
    assert_true(number(&r, "best.loss") > 1.9 && number(&r, "best.loss") < 2.3);
    assert_true(number(&r, "uncertainty.law.loss.high") - number(&r, "uncertainty.law.loss.low") >
                1e-3);
    assert_true(number(&r, "most_model_flops.geometry.sparsity") < 1e-9); /* a dense model */
    winners_add_up(&r);
    end(&r);
}

static char *text_of(const char *path, unsigned long seed, int threads) {
    struct run r = plan(path, seed, threads);
    char *const text = mosaic_result_json(r.result);
    assert_non_null(text);
    end(&r);
    return text;
}

static void same_bytes_on_any_threads(void **state) {
    (void)state;
    static const char *const paths[] = {SYNTHETIC, CLARK};
    for (size_t i = 0; i < 2; ++i) {
        char *const one = text_of(paths[i], 1, 1), *const two = text_of(paths[i], 1, 2);
        assert_string_equal(one, two);
        free(two);
        free(one);
    }
}

static void seeds_draw_differently(void **state) {
    (void)state;
    struct run a = plan(CLARK, 1, 2), b = plan(CLARK, 7, 2);
    assert_close(number(&a, "best.loss"), number(&b, "best.loss"), 1e-9); /* the same minimum */
    assert_true(fabs(number(&a, "uncertainty.law.loss.low") -
                     number(&b, "uncertainty.law.loss.low")) > 1e-9);
    end(&a);
    end(&b);
}

/* ---- the draws by hand ---- */

/* Three laws over solved geometries: each winner, the shares and the regret counted again. */
static void three_draws_by_hand(void **state) {
    (void)state;
    struct document *const d = must_load("configs/p6-b200-4n-5d.yaml", NULL, 0);
    struct problem *const p = &d->problem;
    p->law_draws.items = calloc(3, sizeof *p->law_draws.items);
    p->law_draws.count = 3;
    static const double lambda[] = {0.05, 0.1249, 0.35}; /* sparsity is free, as is, or dear */
    for (size_t i = 0; i < 3; ++i) {
        p->law_draws.items[i] = p->law;
        p->law_draws.items[i].lambda = lambda[i];
    }
    static struct search_result r;
    struct status_error err;
    const struct search_options options = {.threads = 2, .open_all = true};
    assert_int_equal(search_run(p, &options, &r, &err), MOSAIC_OK);
    assert_int_equal(r.proof.ended[END_BY_BOUND], 0);
    struct law_uncertainty u;
    assert_int_equal(law_uncertainty_find(p, &r, &u, &err), MOSAIC_OK);
    double regret = 0.0, sparsity[3] = {0};
    size_t solved = 0, wins_of_plan = 0;
    for (size_t k = 0; k < 3; ++k) {
        const struct law law = p->law;
        double least = INFINITY, of_plan = 0.0;
        size_t best = 0;
        solved = 0;
        p->law = p->law_draws.items[k];
        for (size_t i = 0; i < p->geometries.count; ++i) {
            struct candidate c;
            const struct best_layout layout = {.found = true, .step_time_s = r.step_time_s[i]};
            if (!(r.step_time_s[i] > 0.0) || !candidate_fill(p, i, &layout, &c))
                continue;
            solved++;
            best = c.run.loss < least ? i : best;
            least = fmin(least, c.run.loss);
            of_plan = i == r.kept[0].index ? c.run.loss : of_plan;
        }
        p->law = law;
        regret += (of_plan - least) / 3.0;
        wins_of_plan += best == r.kept[0].index;
        struct param_counts n;
        count_params(&p->geometries.items[best], &n);
        sparsity[k] = n.sparsity;
    }
    assert_int_equal(solved, r.proof.ended[END_SOLVED]);
    assert_close(u.regret, regret, 1e-12);
    assert_close(u.share_of_plan, (double)wins_of_plan / 3.0, 1e-12);
    assert_true(sparsity[0] > sparsity[2]);
    assert_close(u.sparsity.middle, sparsity[1], 1e-12);
    assert_true(regret > 0.0 && u.geometries >= 2);
    search_result_free(&r);
    document_free(d);
}

/* What open_all changes is the proof alone. */
static void opening_all_changes_no_plan(void **state) {
    (void)state;
    struct document *const d = must_load("configs/p6-b200-4n-5d.yaml", NULL, 0);
    static struct search_result some, all;
    struct status_error err;
    const struct search_options wide = {.threads = 2, .open_all = true}, narrow = {.threads = 2};
    assert_int_equal(search_run(&d->problem, &narrow, &some, &err), MOSAIC_OK);
    assert_int_equal(search_run(&d->problem, &wide, &all, &err), MOSAIC_OK);
    assert_null(some.step_time_s);
    assert_int_equal(some.tie_count, all.tie_count);
    for (size_t k = 0; k < SEARCH_TOP; ++k) {
        assert_int_equal(some.kept[k].index, all.kept[k].index);
        assert_close(some.kept[k].run.loss, all.kept[k].run.loss, 0.0);
        assert_close(all.step_time_s[all.kept[k].index], all.kept[k].step_time_s, 0.0);
    }
    for (int b = 0; b < some.bin_count; ++b)
        assert_close_abs(some.bins[b].loss_deliverable, all.bins[b].loss_deliverable, 0.0);
    search_result_free(&all);
    document_free(d);
}

/* ---- laws of documents ---- */

#define LAW_HEAD                                                                                   \
    "schema: mosaic-law/1\nname: l\nsource: s\n"                                                   \
    "coefficients: {a: 8.462, b: 88.32, c: 0.1828, j: 0.7123, e: 0.3129, alpha: 0.1048,\n"         \
    "  beta: 0.2070, lambda: 0.1249, delta: 0.5567, gamma: 0.1702, eta: 0.9513}\n"

/* The sample covariance of ln a and ln beta is the one given; others do not move. */
static void draws_have_their_covariance(void **state) {
    (void)state;
    struct document *const d = must_parse(
        LAW_HEAD "covariance: {of: ln, names: [a, beta], rows: [[4e-4, 3e-4], [3e-4, 9e-4]]}\n",
        NULL, 0);
    const struct law_draws *const draws = &d->problem.law_draws;
    assert_int_equal(draws->count, 200);
    double aa = 0.0, ab = 0.0, bb = 0.0;
    for (size_t i = 0; i < draws->count; ++i) {
        const double a = log(draws->items[i].a / d->problem.law.a);
        const double b = log(draws->items[i].beta / d->problem.law.beta);
        aa += a * a / 200.0;
        ab += a * b / 200.0;
        bb += b * b / 200.0;
        assert_close(draws->items[i].lambda, d->problem.law.lambda, 0.0);
    }
    /* Five standard errors of 200 draws. */
    assert_close(aa, 4e-4, 0.5);
    assert_close(bb, 9e-4, 0.5);
    assert_close_abs(ab, 3e-4, 2.4e-4);
    document_free(d);
}

/* ln c and ln e against each other, each by a factor of 20: a line along a curved ridge. */
static void a_covariance_too_wide_is_left_out(void **state) {
    (void)state;
    struct document *const d = must_parse(
        LAW_HEAD "count: no_embedding\n"
                 "covariance: {of: ln, names: [c, e], rows: [[9, -5.2575], [-5.2575, 3.0713]]}\n",
        NULL, 0);
    assert_int_equal(d->problem.law_draws.count, 0);
    assert_int_equal(said.warnings, 1);
    assert_non_null(strstr(said.items[0].message, "too wide"));
    document_free(d);
}

/* Draws that a document gives are taken as they are, and before its covariance. */
static void draws_are_taken_as_they_are(void **state) {
    (void)state;
    struct document *const d =
        must_parse(LAW_HEAD "covariance: {of: ln, names: [a], rows: [[1e-4]]}\n"
                            "draws: {names: [a, lambda], rows: [[8, -0.1], [9, 0.2]]}\n",
                   NULL, 0);
    const struct law_draws *const draws = &d->problem.law_draws;
    assert_int_equal(draws->count, 2);
    assert_close(draws->items[0].a, 8.0, 0.0);
    assert_close(draws->items[0].lambda, -0.1, 0.0);
    assert_close(draws->items[1].lambda, 0.2, 0.0);
    assert_close(draws->items[1].beta, d->problem.law.beta, 0.0);
    document_free(d);
}

/* What mosaic_fit writes, a plan reads: the same law, the same draws, the same plan. */
static void a_saved_law_plans_alike(void **state) {
    (void)state;
    static const char *const settings[] = {"count=no_embedding", NULL};
    char path[] = "/tmp/test_law_runs_XXXXXX";
    struct mosaic *const session = mosaic_new();
    struct mosaic_result *fit = NULL;
    assert_non_null(session);
    if (mosaic_fit(session, "configs/runs/mosaic_synth_s0078.csv", settings, &fit) != MOSAIC_OK)
        fail_msg("%s", mosaic_diagnostics(session));
    const char *const law = mosaic_result_string(fit, "document");
    assert_non_null(law);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, law, strlen(law)), (ssize_t)strlen(law));
    assert_int_equal(close(file), 0);
    const struct document_override set = {"law", path};
    struct document *const saved = must_load("configs/p6-b200-32n-20d.yaml", &set, 1);
    struct document *const fitted = must_load(SYNTHETIC, NULL, 0);
    assert_int_equal(unlink(path), 0);
    const struct problem *const p = &saved->problem, *const q = &fitted->problem;
    assert_int_equal(p->law_draws.count, q->law_draws.count);
    const struct law_point at = {3e11, 1e12, 0.95, 4.0};
    assert_close(law_loss(&p->law, &at), law_loss(&q->law, &at), 1e-14);
    for (size_t i = 0; i < p->law_draws.count; ++i)
        assert_close(law_loss(&p->law_draws.items[i], &at), law_loss(&q->law_draws.items[i], &at),
                     1e-14);
    document_free(fitted);
    document_free(saved);
    mosaic_result_free(fit);
    mosaic_free(session);
}

struct bad_law {
    const char *text; /* after LAW_HEAD */
    const char *message;
};
static const struct bad_law bad_laws[] = {
    {"covariance: {of: ln, names: [a, z], rows: [[1, 0], [0, 1]]}\n", "no coefficient 'z'"},
    {"covariance: {of: ln, names: [a, a], rows: [[1, 0], [0, 1]]}\n", "named twice"},
    {"covariance: {of: ln, names: [a, b], rows: [[1, 0]]}\n", "a row for each"},
    {"covariance: {of: ln, names: [a, b], rows: [[1, 0], [0]]}\n", "list of 2 numbers"},
    {"covariance: {of: ln, names: [a, b], rows: [[1, 0.5], [0.4, 1]]}\n", "not symmetric"},
    {"covariance: {of: ln, names: [a, b], rows: [[1, 2], [2, 1]]}\n", "eigenvalue"},
    {"covariance: {of: ln, names: [a, b], rows: [[1, x], [0, 1]]}\n", "'x'"},
    {"covariance: {of: ln, names: [a], rows: [[\"1\"]]}\n", "no number"},
    {"draws: {names: [a, z], rows: [[1, 2]]}\n", "no coefficient 'z'"},
    {"draws: {names: [a], rows: []}\n", "list of draws"},
    {"draws: {names: [a, b], rows: [[8, 88], [8]]}\n", "row 2"},
    {"draws: {names: [beta], rows: [[0.2], [-0.2]]}\n", "does not fall with tokens"},
    {"covariance: {of: log10, names: [a], rows: [[1]]}\n", "covariance.of"},
    {"form: mosaic-no-g\n", "no coefficient 'eta'"},
    {"form: chinchilla\n", "a coefficient of the chinchilla form"},
    {"form: clark\n", "the clark form cannot plan"},
    {"runs: x.csv\n", "runs"},
};

static bool has_said(const char *text) {
    for (size_t i = 0; i < said.count; ++i)
        if (strstr(said.items[i].message, text) || strstr(said.items[i].hint, text))
            return true;
    return false;
}

static void bad_law_documents(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_laws / sizeof bad_laws[0]; ++i) {
        char text[2048];
        struct document *d = NULL;
        (void)snprintf(text, sizeof text, "%s%s", LAW_HEAD, bad_laws[i].text);
        if (parse(text, NULL, 0, &d) == MOSAIC_OK)
            fail_msg("accepted: %s", bad_laws[i].text);
        if (!has_said(bad_laws[i].message))
            fail_msg("%s: %s (%s), want '%s'", bad_laws[i].text, said.items[0].message,
                     said.items[0].hint, bad_laws[i].message);
    }
}

static void other_forms_load(void **state) {
    (void)state;
    struct document *d = must_parse("schema: mosaic-law/1\nname: l\nsource: s\nform: chinchilla\n"
                                    "count: all\ncoefficients: {A: 482.01, B: 2085.43, E: 1.8172, "
                                    "alpha: 0.3478, beta: 0.3658}\n",
                                    NULL, 0);
    const struct law_point p = {1e9, 2e10, 0.5, 4.0};
    assert_close(law_loss(&d->problem.law, &p),
                 1.8172 + 482.01 / pow(1e9, 0.3478) + 2085.43 / pow(2e10, 0.3658), 1e-12);
    assert_true(d->problem.law_counts_all);
    assert_false(d->problem.law_counts_experts);
    document_free(d);
    d = must_parse(
        "schema: mosaic-law/1\nname: l\nsource: s\nform: abnar\n"
        "coefficients: {a: 16612, b: 5455, c: 0.4598, j: 17.26, e: 0.94, alpha: 0.5962,\n"
        "  beta: 0.3954, lambda: -0.1666, delta: 0.1603, gamma: 0.1595}\n"
        "covariance: {of: ln, names: [lambda, a], rows: [[0.01, 0], [0, 0.01]]}\n",
        NULL, 0);
    assert_true(d->problem.law_counts_experts);
    assert_int_equal(d->problem.law_draws.count, 200);
    document_free(d);
}

/* ---- tables ---- */

/* A plan whose runs are this text; returns what loading it ended with. */
static enum mosaic_status plan_of_table(const char *csv, const char *law) {
    char path[] = "/tmp/test_law_runs_XXXXXX", text[1024];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, csv, strlen(csv)), (ssize_t)strlen(csv));
    assert_int_equal(close(file), 0);
    (void)snprintf(text, sizeof text, HEAD "law: {runs: %s, count: no_embedding%s}\n", path, law);
    struct document *d = NULL;
    const enum mosaic_status status = parse(text, NULL, 0, &d);
    document_free(status == MOSAIC_OK ? d : NULL);
    assert_int_equal(unlink(path), 0);
    return status;
}

static void assert_said(const char *text, long line) {
    for (size_t i = 0; i < said.count; ++i)
        if (said.items[i].level == DIAG_ERROR &&
            (strstr(said.items[i].message, text) || strstr(said.items[i].hint, text))) {
            assert_int_equal(said.items[i].line, line);
            return;
        }
    fail_msg("'%s' was not said but '%s' (%s)", text, said.items[0].message, said.items[0].hint);
}

#define TABLE "n_total,n_active,tokens,loss\n"

static void bad_tables_are_named(void **state) {
    (void)state;
    static const struct {
        const char *csv, *message;
        long line;
    } tables[] = {
        {TABLE "1e9,1e9,2e10,3.1\n1e9,1e9,4e10,0\n", "row 2", 3},
        {TABLE "1e9,1e9,2e10,3.1\n2e9,3e9,4e10,2.9\n", "row 2", 3},
        {TABLE "1e9,1e9,2e10,three\n", "row 1", 2},
        {TABLE "1e9,1e9,1e308,2.5\n", "row 1", 2},
        {"n_total,n_active,loss\n1e9,1e9,3.1\n", "tokens", 1},
        /* Three runs for eleven coefficients: where the plan names them. */
        {TABLE "1e9,1e9,2e10,3.1\n2e9,1e9,4e10,2.9\n4e9,1e9,6e10,2.7\n", "undetermined", 5},
        {TABLE "1e9,1e9,2e10,3.1\n1e9,1e9,2e10,3.0\n", "", 0},
    };
    for (size_t i = 0; i + 1 < sizeof tables / sizeof tables[0]; ++i) {
        assert_int_equal(plan_of_table(tables[i].csv, ""), MOSAIC_BAD_INPUT);
        assert_said(tables[i].message, tables[i].line);
    }
    assert_int_not_equal(plan_of_table(tables[6].csv, ""), MOSAIC_OK);
}

/* Which N is meant is asked, never guessed. */
static void an_unstated_count_is_refused(void **state) {
    (void)state;
    struct document *d = NULL;
    assert_int_equal(
        parse(HEAD "law: {runs: runs/mosaic_synth_s0078.csv, bootstrap: none}\n", NULL, 0, &d),
        MOSAIC_BAD_INPUT);
    assert_said("does not say what its N counts", 5);
}

static void options_reach_the_fit(void **state) {
    (void)state;
    struct document *const d = must_parse(
        HEAD "law: {runs: runs/mosaic_synth_s0078.csv, count: no_embedding, bootstrap: none, "
             "fix: {e: 0.3129}}\n",
        NULL, 0);
    assert_close(d->problem.law.e, 0.3129, 1e-12);
    assert_int_equal(d->problem.law_draws.count, 0);
    assert_string_equal(document_value(d, "law.runs")->text, "runs/mosaic_synth_s0078.csv");
    bool is_input = false;
    for (size_t i = 0; i < d->input_count; ++i)
        is_input = is_input || (strstr(d->inputs[i].path, "configs/runs/mosaic_synth_s0078.csv") &&
                                strlen(d->inputs[i].sha256) == 64);
    assert_true(is_input);
    document_free(d);
}

/* The scatter of the runs comes back as the scatter of the law at its middle. */
static void residual_draws_agree_with_wild_ones(void **state) {
    (void)state;
    static const char *const kinds[] = {"wild", "residual"};
    static const struct law_point at = {5e9, 2e10, 0.9, 4.0};
    double spread[2] = {0};
    for (size_t k = 0; k < 2; ++k) {
        const struct document_override set = {"law.bootstrap", kinds[k]};
        struct document *const d = must_load(SYNTHETIC, &set, 1);
        const struct law_draws *const draws = &d->problem.law_draws;
        for (size_t i = 0; i < draws->count; ++i) {
            const double off = law_loss(&draws->items[i], &at) - law_loss(&d->problem.law, &at);
            spread[k] += off * off / (double)draws->count;
        }
        document_free(d);
    }
    assert_true(spread[0] > 0.0);
    assert_close(sqrt(spread[1]), sqrt(spread[0]), 0.3);
}

static int quiet_gsl(void **state) {
    (void)state;
    (void)gsl_set_error_handler_off();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_fit_covers_the_true_law),
        cmocka_unit_test(clark_runs_plan),
        cmocka_unit_test(same_bytes_on_any_threads),
        cmocka_unit_test(seeds_draw_differently),
        cmocka_unit_test(three_draws_by_hand),
        cmocka_unit_test(opening_all_changes_no_plan),
        cmocka_unit_test(draws_have_their_covariance),
        cmocka_unit_test(a_covariance_too_wide_is_left_out),
        cmocka_unit_test(draws_are_taken_as_they_are),
        cmocka_unit_test(a_saved_law_plans_alike),
        cmocka_unit_test(bad_law_documents),
        cmocka_unit_test(other_forms_load),
        cmocka_unit_test(bad_tables_are_named),
        cmocka_unit_test(an_unstated_count_is_refused),
        cmocka_unit_test(options_reach_the_fit),
        cmocka_unit_test(residual_draws_agree_with_wild_ones),
    };
    return cmocka_run_group_tests(tests, quiet_gsl, NULL);
}
