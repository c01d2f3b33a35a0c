// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/exec/expert_*.c: every schedule of a MoE layer against the undivided layer, for routers that
 * mean harm, ranks without tokens, and odd sizes; what its ledgers saw against the descriptor.
 */
#include "exec/expert_dispatch.h"

#include "llep_case.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8 };

/* Routers: at random; even; by profile 80/16; every route to one expert; each strided chunk of
 * `period` to one rank. */
enum router { ROUTER_RANDOM, ROUTER_EVEN, ROUTER_PROFILE, ROUTER_ONE_EXPERT, ROUTER_CHUNK_TO_RANK };

struct layer {
    int ranks;
    struct moe_shape shape;
    enum router router;
    long period;
    long tokens[MOST_RANKS];
};

/* A rank's inputs, and outputs of a run. */
struct part {
    struct moe_batch batch;
    float *x, *gates, *weights, *dy;
    int *experts;
    struct moe_result result;
    size_t values, routes, weight_count;
};

struct group {
    const struct layer *layer;
    const struct moe_rules *rules;
    struct part parts[MOST_RANKS];
    struct ledger devices[MOST_RANKS];
};

static float *floats(size_t count, unsigned long *random) {
    float *const values = calloc(count + 1, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; random && i < count; ++i)
        values[i] = (float)(llep_random(random, 2001) - 1000) / 1000.0F;
    return values;
}

static int route(const struct layer *l, int rank, long token, int slot, unsigned long *random) {
    const int experts = l->shape.experts, local = experts / l->ranks;
    const struct route_profile profile = {experts, l->shape.top_k, experts > 16 ? 16 : experts / 2,
                                          0.8};
    switch (l->router) {
    case ROUTER_EVEN:
        return (int)((token + slot) % experts);
    case ROUTER_PROFILE:
        return profile_expert(&profile, l->tokens[rank], token, slot);
    case ROUTER_ONE_EXPERT:
        return experts - 1;
    case ROUTER_CHUNK_TO_RANK:
        return (int)(token % l->period % l->ranks) * local + slot % local;
    case ROUTER_RANDOM:
        break;
    }
    return (int)llep_random(random, experts);
}

static void part_fill(struct part *p, const struct layer *l, int rank, unsigned long *random) {
    const size_t tokens = (size_t)l->tokens[rank];
    const size_t weights = (size_t)(l->shape.experts / l->ranks);
    p->values = tokens * (size_t)l->shape.expert.hidden;
    p->routes = tokens * (size_t)l->shape.top_k;
    p->weight_count = weights * expert_weight_count(&l->shape.expert);
    p->x = floats(p->values, random);
    p->dy = floats(p->values, random);
    p->gates = floats(p->routes, random);
    p->weights = floats(p->weight_count, random);
    p->experts = calloc(p->routes + 1, sizeof *p->experts);
    assert_non_null(p->experts);
    for (size_t i = 0; i < p->routes; ++i)
        p->experts[i] = route(l, rank, (long)i / l->shape.top_k, (int)i % l->shape.top_k, random);
    p->batch = (struct moe_batch){l->tokens[rank], p->x, p->experts, p->gates, p->weights, p->dy};
    p->result = (struct moe_result){.y = floats(p->values, NULL),
                                    .dx = floats(p->values, NULL),
                                    .gate_gradients = floats(p->routes, NULL),
                                    .expert_gradients = floats(p->weight_count, NULL)};
}

/* The same layer has the same inputs every time. */
static struct group *group_new(const struct layer *layer) {
    struct group *const g = calloc(1, sizeof *g);
    assert_non_null(g);
    unsigned long random = 5;
    g->layer = layer;
    for (int r = 0; r < layer->ranks; ++r)
        part_fill(&g->parts[r], layer, r, &random);
    return g;
}

static void group_free(struct group *g) {
    for (int r = 0; r < g->layer->ranks; ++r) {
        struct part *const p = &g->parts[r];
        free(p->x);
        free(p->dy);
        free(p->gates);
        free(p->weights);
        free(p->experts);
        free(p->result.y);
        free(p->result.dx);
        free(p->result.gate_gradients);
        free(p->result.expert_gradients);
    }
    free(g);
}

static enum mosaic_status body(void *context, struct rank *rank, struct status_error *err) {
    struct group *const g = context;
    struct part *const p = &g->parts[rank->index];
    const struct moe_job job = {&g->layer->shape, g->rules, &p->batch};
    return expert_dispatch_run(&job, rank, &p->result, err);
}

static struct group *group_run(const struct layer *layer, const struct moe_rules *rules) {
    struct group *const g = group_new(layer);
    struct status_error err = {.status = MOSAIC_OK};
    g->rules = rules;
    if (ranks_run(layer->ranks, body, g, g->devices, NULL, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return g;
}

/* ---- the undivided layer ---- */

struct undivided {
    struct group *group;
    float *row, *interior;
};

static void undivided_route(const struct undivided *u, const struct part *p, size_t token,
                            size_t at) {
    const struct layer *const l = u->group->layer;
    const struct expert_shape *const shape = &l->shape.expert;
    const size_t hidden = (size_t)shape->hidden, local = (size_t)(l->shape.experts / l->ranks);
    const size_t expert = (size_t)p->experts[at], home = expert / local;
    const size_t offset = expert % local * expert_weight_count(shape);
    const float *const weights = u->group->parts[home].weights + offset;
    expert_interior(shape, weights, p->x + token * hidden, u->interior);
    expert_output(shape, weights, p->gates[at], u->interior, u->row);
    for (size_t h = 0; h < hidden; ++h)
        p->result.y[token * hidden + h] += u->row[h];
    memcpy(u->row, p->x + token * hidden, hidden * sizeof *u->row);
    const struct expert_row row = {p->gates[at], p->dy + token * hidden, u->row, u->interior};
    p->result.gate_gradients[at] = expert_backward(
        shape, weights, &row, u->group->parts[home].result.expert_gradients + offset);
    for (size_t h = 0; h < hidden; ++h)
        p->result.dx[token * hidden + h] += u->row[h];
}

/* Every token in turn, no ranks. */
static struct group *undivided_run(const struct layer *layer) {
    struct group *const g = group_new(layer);
    const struct undivided u = {g, floats((size_t)layer->shape.expert.hidden, NULL),
                                floats(2 * (size_t)layer->shape.expert.inner, NULL)};
    for (int r = 0; r < layer->ranks; ++r)
        for (size_t at = 0; at < g->parts[r].routes; ++at)
            undivided_route(&u, &g->parts[r], at / (size_t)layer->shape.top_k, at);
    free(u.row);
    free(u.interior);
    return g;
}

/* ---- comparison ---- */

static void same_bits(const float *got, const float *want, size_t count, const char *what) {
    for (size_t i = 0; i < count; ++i)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s[%zu]: %.9g is not %.9g", what, i, (double)got[i], (double)want[i]);
}

/* To the last places of the largest: cancellation leaves no more. */
static void close_sums(const float *got, const float *want, size_t count) {
    double most = 0.0;
    for (size_t i = 0; i < count; ++i)
        most = fmax(most, fabs((double)want[i]));
    for (size_t i = 0; i < count; ++i)
        assert_close_abs((double)got[i], (double)want[i], 1e-5 * most);
}

static void compare(const struct group *got, const struct group *want, bool is_same_order) {
    for (int r = 0; r < got->layer->ranks; ++r) {
        const struct part *const a = &got->parts[r], *const b = &want->parts[r];
        same_bits(a->result.y, b->result.y, a->values, "y");
        same_bits(a->result.dx, b->result.dx, a->values, "dx");
        same_bits(a->result.gate_gradients, b->result.gate_gradients, a->routes, "gate gradient");
        if (is_same_order)
            same_bits(a->result.expert_gradients, b->result.expert_gradients, a->weight_count,
                      "expert gradient");
        else
            close_sums(a->result.expert_gradients, b->result.expert_gradients, a->weight_count);
    }
}

static struct dispatch_shape priced(const struct layer *l) {
    return (struct dispatch_shape){l->ranks, l->shape.top_k, l->shape.expert.hidden,
                                   l->shape.expert.inner, sizeof(float)};
}

/* No rank held more than the descriptor of the fullest rank guarantees. */
static void check_bounds(const struct group *g) {
    const struct layer *const l = g->layer;
    const struct dispatch_shape shape = priced(l);
    long most = 0;
    for (int r = 0; r < l->ranks; ++r)
        most = l->tokens[r] > most ? l->tokens[r] : most;
    const struct token_chunks c = g->rules->budget > 0
                                      ? token_chunks_of(most, g->rules->budget, g->rules->most)
                                      : token_chunks_at(most, 1);
    for (int r = 0; r < l->ranks; ++r) {
        const struct dispatch_trace *const t = &g->parts[r].result.trace;
        assert_int_equal(t->chunks, c.count);
        assert_int_equal(t->chunk_tokens, c.tokens);
        assert_true(t->most_landed <= l->ranks * l->shape.top_k * c.tokens);
        assert_true((double)t->landed_bytes <= chunk_guarantee_bytes(&shape, &c));
        assert_true((double)t->staging_bytes <= chunk_staging_bytes(&shape, &c));
        /* Forward, the dispatch again, and back. */
        assert_int_equal(t->exchanges,
                         c.count * (2 * CHUNK_DISPATCHES + CHUNK_COMBINES + CHUNK_INVERSES));
        assert_int_equal(g->devices[r].live_bytes, 0);
        assert_true(g->devices[r].peak_bytes >= t->landed_bytes);
    }
}

/* ---- schedules ---- */

static const struct moe_rules standard = {.is_balanced = false};
static const struct moe_rules llep = {.is_balanced = true, .cap_factor = 1.0, .smallest = 4};

static struct moe_rules pipelined(long budget, long most) {
    struct moe_rules r = llep;
    r.budget = budget;
    r.most = most;
    return r;
}

/* All schedules of one layer. */
static void check_layer(const struct layer *l) {
    struct group *const want = undivided_run(l);
    struct group *const plain = group_run(l, &standard);
    compare(plain, want, true);
    check_bounds(plain);
    struct group *const balanced = group_run(l, &llep);
    compare(balanced, want, false);
    check_bounds(balanced);
    static const long budgets[] = {1, 3, 8, 1000};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; ++i) {
        struct moe_rules rules = pipelined(budgets[i], 7);
        for (int contiguous = 0; contiguous < 2; ++contiguous) {
            rules.is_contiguous = contiguous;
            struct group *const g = group_run(l, &rules);
            /* One chunk is LLEP to the bit. */
            compare(g, g->parts[0].result.trace.chunks == 1 ? balanced : want,
                    g->parts[0].result.trace.chunks == 1);
            check_bounds(g);
            group_free(g);
        }
    }
    group_free(balanced);
    group_free(plain);
    group_free(want);
}

static void test_group_sizes_and_routers(void **state) {
    (void)state;
    static const long tokens[MOST_RANKS] = {9, 0, 13, 1, 7, 0, 0, 20};
    for (int ranks = 1; ranks <= MOST_RANKS; ++ranks)
        for (enum router router = ROUTER_RANDOM; router <= ROUTER_CHUNK_TO_RANK; ++router) {
            struct layer l = {
                ranks, {ranks * (1 + ranks % 3), 1 + ranks % 4, {5, 3}}, router, 7, {0}};
            memcpy(l.tokens, tokens, sizeof tokens);
            check_layer(&l);
        }
}

static void test_no_tokens_at_all(void **state) {
    (void)state;
    check_layer(&(struct layer){4, {8, 2, {3, 2}}, ROUTER_RANDOM, 1, {0}});
}

static void test_widths_of_one(void **state) {
    (void)state;
    check_layer(&(struct layer){3, {3, 1, {1, 1}}, ROUTER_ONE_EXPERT, 1, {5, 5, 6}});
}

static void test_larger_layer(void **state) {
    (void)state;
    check_layer(
        &(struct layer){8, {32, 4, {16, 8}}, ROUTER_PROFILE, 7, {64, 64, 64, 64, 64, 64, 64, 64}});
}

/* lambda: a mild skew stays at home, as plain expert parallelism to the bit. */
static void test_threshold(void **state) {
    (void)state;
    const struct layer l = {4, {8, 2, {5, 3}}, ROUTER_RANDOM, 1, {30, 31, 29, 33}};
    struct moe_rules rules = llep;
    rules.smallest = 1;
    rules.threshold = 100.0;
    struct group *const home = group_run(&l, &rules), *const plain = group_run(&l, &standard);
    compare(home, plain, true);
    rules.threshold = 0.0;
    struct group *const moved = group_run(&l, &rules);
    int at_home = 0, away = 0;
    for (int r = 0; r < l.ranks; ++r) {
        at_home += home->parts[r].result.trace.foreign;
        away += moved->parts[r].result.trace.foreign;
    }
    assert_int_equal(at_home, 0);
    assert_true(away > 0);
    group_free(moved);
    group_free(plain);
    group_free(home);
}

static void test_forward_only(void **state) {
    (void)state;
    const struct layer l = {4, {8, 2, {5, 3}}, ROUTER_PROFILE, 1, {30, 0, 29, 33}};
    const struct moe_rules rules = pipelined(8, 10);
    struct group *const both = group_run(&l, &rules), *const g = group_new(&l);
    for (int r = 0; r < l.ranks; ++r)
        g->parts[r].batch.dy = NULL;
    g->rules = &rules;
    assert_int_equal(ranks_run(l.ranks, body, g, NULL, NULL, NULL), MOSAIC_OK);
    for (int r = 0; r < l.ranks; ++r) {
        same_bits(g->parts[r].result.y, both->parts[r].result.y, g->parts[r].values, "y");
        const struct dispatch_trace *const t = &g->parts[r].result.trace;
        assert_int_equal(t->exchanges, t->chunks * (CHUNK_DISPATCHES + CHUNK_COMBINES));
    }
    group_free(g);
    group_free(both);
}

/* ---- memory ---- */

static size_t most_landed_bytes(const struct group *g) {
    size_t most = 0;
    for (int r = 0; r < g->layer->ranks; ++r) {
        const size_t bytes = g->parts[r].result.trace.landed_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static const struct layer profile_layer = {
    8, {32, 4, {24, 8}}, ROUTER_PROFILE, 1, {64, 64, 64, 64, 64, 64, 64, 64}};

/* A router that sends each chunk to one rank fills the guarantee to the byte, though the plan of
 * the whole layer is even. */
static void test_the_guarantee_is_reached(void **state) {
    (void)state;
    const struct layer l = {4, {8, 2, {5, 3}}, ROUTER_CHUNK_TO_RANK, 4, {16, 16, 16, 16}};
    const struct moe_rules rules = pipelined(4, 10);
    const struct dispatch_shape shape = priced(&l);
    const struct token_chunks c = token_chunks_of(16, 4, 10);
    struct group *const g = group_run(&l, &rules);
    assert_close((double)most_landed_bytes(g), chunk_guarantee_bytes(&shape, &c), 0.0);
    group_free(g);
}

/* Where receives are even, the estimate is what is measured: 2 k c_eff H b landed, 3 with what is
 * packed, and two interiors of the expert's width (alpha_H 3, alpha_I 2 of this executor).  Halving
 * the budget halves all of it and the guarantee. */
static void test_half_the_budget(void **state) {
    (void)state;
    const struct layer l = {
        8, {32, 4, {24, 8}}, ROUTER_EVEN, 1, {192, 192, 192, 192, 192, 192, 192, 192}};
    const struct dispatch_shape shape = priced(&l);
    const struct route_scale scale = {3, 2};
    double guarantee = 0.0, landed = 0.0, peak[3];
    for (int i = 0; i < 3; ++i) {
        const long budget = 64 >> i;
        const struct moe_rules rules = pipelined(budget, 64);
        const struct token_chunks c = token_chunks_of(192, budget, 64);
        struct group *const g = group_run(&l, &rules);
        const struct dispatch_trace *const t = &g->parts[0].result.trace;
        assert_close((double)most_landed_bytes(g), chunk_even_bytes(&shape, &c), 0.0);
        assert_close((double)(t->landed_bytes + t->staging_bytes + t->interior_bytes),
                     route_interior_bytes(&shape, &scale, (double)c.tokens), 0.0);
        if (i > 0) {
            assert_close(chunk_guarantee_bytes(&shape, &c), guarantee / 2.0, 0.0);
            assert_close((double)t->landed_bytes, landed / 2.0, 0.0);
        }
        guarantee = chunk_guarantee_bytes(&shape, &c);
        landed = (double)t->landed_bytes;
        peak[i] = (double)g->devices[0].peak_bytes;
        group_free(g);
    }
    /* The device as a whole is A0 + B0 / K, through the first and the last of K = 3, 6, 12. */
    const double interior = (peak[0] - peak[2]) / (1.0 / 3.0 - 1.0 / 12.0);
    assert_close(chunked_peak_bytes(peak[0] - interior / 3.0, interior, 6), peak[1], 0.05);
}

/* Plain expert parallelism holds its load multiple, LLEP the mean, chunks a part of it. */
static void test_what_each_schedule_holds(void **state) {
    (void)state;
    const struct dispatch_shape shape = priced(&profile_layer);
    const struct route_profile p = {32, 4, 16, 0.8};
    const struct balance_rules rules = {32, 8, 1.0, 4};
    long tokens[32];
    profile_counts(&p, 64, tokens);
    const double mean = 64.0 * 4.0, busiest = mean * expert_load_multiple(&rules, tokens);
    const struct moe_rules chunked = pipelined(16, 10);
    struct group *const plain = group_run(&profile_layer, &standard),
                        *const balanced = group_run(&profile_layer, &llep),
                        *const cut = group_run(&profile_layer, &chunked);
    assert_close((double)most_landed_bytes(plain), whole_layer_bytes(&shape, busiest), 0.0);
    assert_close((double)most_landed_bytes(balanced), whole_layer_bytes(&shape, mean), 0.0);
    assert_true(most_landed_bytes(cut) * 3 < most_landed_bytes(balanced));
    group_free(cut);
    group_free(balanced);
    group_free(plain);
}

/* ---- the arithmetic itself ---- */

enum { HIDDEN = 4, INNER = 3, WEIGHTS = 3 * HIDDEN * INNER };

/* w dy . y, in double. */
static double loss(const double *weights, const double *x, double w, const float *dy) {
    double sum = 0.0;
    for (int i = 0; i < INNER; ++i) {
        double g = 0.0, u = 0.0;
        for (int h = 0; h < HIDDEN; ++h) {
            g += x[h] * weights[h * INNER + i];
            u += x[h] * weights[HIDDEN * INNER + h * INNER + i];
        }
        for (int h = 0; h < HIDDEN; ++h)
            sum += w * (double)dy[h] * g / (1.0 + exp(-g)) * u *
                   weights[2 * HIDDEN * INNER + i * HIDDEN + h];
    }
    return sum;
}

static double slope(double *at, const double *weights, const double *x, double w, const float *dy) {
    const double old = *at, step = 1e-5;
    *at = old + step;
    const double above = loss(weights, x, w, dy);
    *at = old - step;
    const double below = loss(weights, x, w, dy);
    *at = old;
    return (above - below) / (2.0 * step);
}

static void test_gradients_are_slopes(void **state) {
    (void)state;
    const struct expert_shape shape = {HIDDEN, INNER};
    unsigned long random = 23;
    for (int n = 0; n < 20; ++n) {
        float *const weights = floats(WEIGHTS, &random), *const x = floats(HIDDEN, &random),
                     *const dy = floats(HIDDEN, &random), *const sums = floats(WEIGHTS, NULL);
        double fine[WEIGHTS], fine_x[HIDDEN], dot = 0.0;
        float interior[2 * INNER], y[HIDDEN];
        for (int i = 0; i < WEIGHTS; ++i)
            fine[i] = (double)weights[i];
        for (int i = 0; i < HIDDEN; ++i)
            fine_x[i] = (double)x[i];
        const float w = 0.75F;
        expert_interior(&shape, weights, x, interior);
        expert_output(&shape, weights, w, interior, y);
        for (int i = 0; i < HIDDEN; ++i)
            dot += (double)(dy[i] * y[i]);
        assert_close_abs(dot, loss(fine, fine_x, 0.75, dy), 1e-5);
        const struct expert_row row = {w, dy, x, interior};
        const float dw = expert_backward(&shape, weights, &row, sums);
        assert_close_abs((double)dw, loss(fine, fine_x, 1.0, dy), 1e-5);
        for (int i = 0; i < WEIGHTS; ++i)
            assert_close_abs((double)sums[i], slope(&fine[i], fine, fine_x, 0.75, dy), 1e-5);
        for (int i = 0; i < HIDDEN; ++i)
            assert_close_abs((double)x[i], slope(&fine_x[i], fine, fine_x, 0.75, dy), 1e-5);
        free(weights);
        free(x);
        free(dy);
        free(sums);
    }
}

/* ---- bad input ---- */

static void refused(const struct layer *l, const struct moe_rules *rules, int broken_rank,
                    const char *word) {
    struct group *const g = group_new(l);
    struct status_error err = {.status = MOSAIC_OK};
    g->rules = rules;
    if (broken_rank >= 0)
        g->parts[broken_rank].experts[1] = l->shape.experts;
    assert_int_equal(ranks_run(l->ranks, body, g, g->devices, NULL, &err), MOSAIC_BAD_INPUT);
    if (!strstr(err.message, word))
        fail_msg("'%s' is not in: %s", word, err.message);
    for (int r = 0; r < l->ranks; ++r)
        assert_int_equal(g->devices[r].taken, 0);
    group_free(g);
}

static void test_bad_input(void **state) {
    (void)state;
    const struct layer l = {4, {8, 2, {5, 3}}, ROUTER_RANDOM, 1, {30, 0, 29, 33}};
    refused(&l, &llep, 2, "rank 2: token 0 goes to expert 8 of 8");
    const struct moe_rules low = {.is_balanced = true, .cap_factor = 0.5, .smallest = 1};
    refused(&l, &low, -1, "cap factor");
    const struct moe_rules none = pipelined(8, 0);
    refused(&l, &none, -1, "chunks");
    const struct layer odd = {4, {9, 2, {5, 3}}, ROUTER_ONE_EXPERT, 1, {1, 1, 1, 1}};
    refused(&odd, &standard, -1, "9 experts");
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_gradients_are_slopes),
        cmocka_unit_test(test_group_sizes_and_routers),
        cmocka_unit_test(test_no_tokens_at_all),
        cmocka_unit_test(test_widths_of_one),
        cmocka_unit_test(test_larger_layer),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_the_guarantee_is_reached),
        cmocka_unit_test(test_half_the_budget),
        cmocka_unit_test(test_what_each_schedule_holds),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
