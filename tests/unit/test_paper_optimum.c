// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The optimum on paper: the shipped 4-node grid at 3.3e21 model FLOPs (DESIGN 9), a scan of one's
 * own, the limits on tokens, and spaces without an optimum.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "plan/paper_optimum.h"

#include <string.h>

enum { ROOM = 2048 };

static struct geometry items[ROOM];
static struct search_result search;

static void load(struct problem *p) {
    struct status_error err;
    const struct search_options options = {.threads = 2};
    case_load("configs/p6-b200-4n-5d.yaml", p, items, ROOM);
    if (search_run(p, &options, &search, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    search_result_free(&search); /* what it owns is not looked at */
}

static void find(const struct problem *p, double flops, struct paper_optimum *out) {
    struct status_error err;
    if (paper_optimum_find(p, flops, &search, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static void sparse_end_of_the_papers_grid(void **state) {
    (void)state;
    struct problem p;
    struct paper_optimum got;
    load(&p);
    assert_close(p.budget.model_flops, 3.3e21, 0.0);
    find(&p, 3.3e21, &got);
    assert_true(got.has_grid && got.has_continuous);
    assert_true(got.sparsity >= 0.975 && got.sparsity <= 0.986 + 1e-9);
    assert_close(got.sparsity_max, 0.986, 1e-12);
    assert_close_abs(got.bounded.point.sparsity, 0.986, 5e-4);
    /* DESIGN 9 gives .9942 at G = 4; finer experts than that, as the grid's optimum has, go
     * further. */
    assert_true(got.granularity > 4.0 && got.free.point.sparsity > 0.9942);
    assert_true(got.free.point.sparsity < 0.999);
    assert_true(got.bounded.at_bound && !got.free.at_bound);
    assert_true(got.free.loss <= got.bounded.loss);
    assert_true(got.bounded.loss <= got.loss); /* N, D continuous: no worse than the grid */
    /* What the cluster delivers is denser. */
    struct param_counts best;
    count_params(&items[search.kept[0].index], &best);
    assert_true(best.sparsity < got.sparsity - 0.005);
}

/* The curve of the ideal machine falls towards the sparse end; that of the cluster turns. */
static void both_curves(void **state) {
    (void)state;
    struct problem p;
    struct paper_optimum got;
    load(&p);
    find(&p, 3.3e21, &got);
    int known = 0;
    double first = 0.0, last = 0.0, before = INFINITY, rise = 0.0;
    double least = INFINITY, sparsest = 0.0;
    for (int b = 0; b < search.bin_count; ++b) {
        const struct sparsity_bin *const bin = &search.bins[b];
        assert_true(bin->low < bin->high);
        if (bin->has_deliverable) {
            assert_true(bin->deliverable_sparsity >= bin->low - 1e-9 &&
                        bin->deliverable_sparsity <= bin->high + 1e-9);
            least = fmin(least, bin->loss_deliverable);
            sparsest = bin->loss_deliverable;
        }
        if (!bin->has_model_flops)
            continue;
        assert_true(bin->model_flops_sparsity >= bin->low - 1e-9 &&
                    bin->model_flops_sparsity <= bin->high + 1e-9);
        first = known++ == 0 ? bin->loss_model_flops : first;
        rise = fmax(rise, bin->loss_model_flops - before);
        last = before = bin->loss_model_flops;
    }
    print_message("%d bins, loss %.4f at the dense end, %.4f at the sparse end, rise %.4f\n", known,
                  first, last, rise);
    assert_true(known >= 10);
    assert_true(last < first - 0.05);
    assert_true(rise < 0.01); /* bins hold different sizes: nearly monotone */
    assert_true(sparsest > least + 0.005);
}

/* Every geometry with its own counts and loss. */
static void grid_scanned_again(void **state) {
    (void)state;
    struct problem p;
    struct random r = {77};
    load(&p);
    for (int n = 0; n < 30; ++n) {
        const double flops = exp(random_between(&r, log(1e20), log(1e23)));
        struct paper_optimum got;
        size_t best = 0;
        double loss = INFINITY;
        if (n % 3 == 0)
            p.limits.unique_tokens = random_between(&r, 1e10, 5e11);
        find(&p, flops, &got);
        for (size_t i = 0; i < p.geometries.count; ++i) {
            struct oracle_counts c;
            oracle_count(&items[i], &c);
            const double tokens = flops / (6.0 * c.active);
            if (tokens / c.active < 40.0 || tokens / c.active > 150.0)
                continue;
            const double at = oracle_loss(&p.law, c.total, oracle_worth(&p, tokens), c.sparsity,
                                          items[i].granularity);
            best = at < loss ? i : best;
            loss = fmin(loss, at);
        }
        assert_int_equal(got.has_grid, isfinite(loss));
        if (!got.has_grid)
            continue;
        assert_close(got.loss, loss, 1e-12);
        assert_int_equal(got.index, best);
        struct oracle_counts c;
        oracle_count(&items[best], &c);
        assert_close(6.0 * c.active * got.tokens, flops, 1e-12);
        assert_close(got.model_flops, flops, 0.0);
    }
}

static void no_optimum(void **state) {
    (void)state;
    struct problem p;
    struct paper_optimum got;
    load(&p);
    find(&p, 1e10, &got); /* no geometry is that small */
    assert_false(got.has_grid || got.has_continuous);
    find(&p, 1e30, &got);
    assert_false(got.has_grid || got.has_continuous);
    /* Dense models only: a grid optimum, no sparsity to choose. */
    items[0].first_dense = items[0].layers;
    items[0].experts = items[0].top_k = items[0].shared_experts = 0;
    items[0].expert_ffn = items[0].shared_ffn = 0;
    items[0].granularity = 1.0;
    p.geometries.count = 1;
    p.limits.sparsity_max = 1.0;
    struct oracle_counts n;
    oracle_count(&items[0], &n);
    find(&p, 6.0 * n.active * 100.0 * n.active, &got);
    assert_true(got.has_grid && !got.has_continuous);
    assert_close(got.tokens, 100.0 * n.active, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_end_of_the_papers_grid),
        cmocka_unit_test(both_curves),
        cmocka_unit_test(grid_scanned_again),
        cmocka_unit_test(no_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
