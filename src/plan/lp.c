// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * GLPK behind a trap: the error hook frees the thread's environment and jumps out, the terminal
 * hook collects the text.  Every GLPK call that can fail runs inside guarded(); nothing of ours is
 * allocated there, so a jump leaks nothing.
 */
#include "plan/lp.h"

#include <float.h>
#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TRAP_TEXT_MAX = 256, ITERATION_LIMIT = 1000000 };
static const double INTEGER_TOLERANCE = 1e-7;

struct lp {
    glp_prob *prob;
    unsigned long environment; /* which environment prob lives in */
    int rows, columns;
    double *row_lower, *row_upper, *column_lower, *column_upper, *cost;
    size_t *column_start;
    int *entry_row;
    double *entry_value;
    double *primal, *dual;
    double objective;
};

struct thread_state {
    jmp_buf trap;
    unsigned long environment; /* 0: none */
    int live;                  /* lps that were made in this environment */
    size_t used;
    char text[TRAP_TEXT_MAX];
};

static _Thread_local struct thread_state here;
static atomic_ulong last_environment;

static int collect(void *info, const char *text) {
    struct thread_state *state = info;
    for (; *text && state->used + 1 < sizeof state->text; text++)
        state->text[state->used++] = *text == '\n' ? ' ' : *text;
    state->text[state->used] = '\0';
    return 1;
}

static _Noreturn void spring(void *info) {
    struct thread_state *state = info;
    glp_free_env();
    state->environment = 0;
    state->live = 0;
    longjmp(state->trap, 1);
}

static bool guarded(struct lp *lp, void (*body)(struct lp *lp, void *argument), void *argument,
                    struct status_error *err) {
    here.used = 0;
    here.text[0] = '\0';
    if (setjmp(here.trap)) {
        (void)status_set(err, MOSAIC_NUMERIC, "linear solver: %s", here.text);
        return false;
    }
    body(lp, argument);
    return true;
}

static bool is_alive(const struct lp *lp, struct status_error *err) {
    if (lp->environment && lp->environment == here.environment)
        return true;
    (void)status_set(err, MOSAIC_INTERNAL,
                     "linear program used after an error or in another thread");
    return false;
}

static void create(struct lp *lp, void *argument) {
    (void)argument;
    lp->prob = glp_create_prob();
}

static void destroy(struct lp *lp, void *argument) {
    (void)argument;
    glp_delete_prob(lp->prob);
}

enum mosaic_status lp_new(struct lp **lp, struct status_error *err) {
    struct lp *made = calloc(1, sizeof *made);
    if (!made)
        return status_no_memory(err);
    if (!here.environment) {
        if (glp_init_env() > 1) {
            free(made);
            return status_set(err, MOSAIC_INTERNAL, "linear solver cannot start");
        }
        glp_term_hook(collect, &here);
        glp_error_hook(spring, &here);
        here.environment = atomic_fetch_add(&last_environment, 1) + 1;
    }
    if (!guarded(made, create, NULL, err)) {
        free(made);
        return MOSAIC_NUMERIC;
    }
    made->environment = here.environment;
    here.live++;
    *lp = made;
    return MOSAIC_OK;
}

static void free_arrays(struct lp *lp) {
    free(lp->row_lower);
    free(lp->row_upper);
    free(lp->column_lower);
    free(lp->column_upper);
    free(lp->cost);
    free(lp->column_start);
    free(lp->entry_row);
    free(lp->entry_value);
    free(lp->primal);
    free(lp->dual);
}

void lp_free(struct lp *lp) {
    if (!lp)
        return;
    if (lp->environment && lp->environment == here.environment &&
        guarded(lp, destroy, NULL, NULL) && --here.live == 0) {
        glp_error_hook(NULL, NULL);
        glp_term_hook(NULL, NULL);
        glp_free_env();
        here.environment = 0;
    }
    free_arrays(lp);
    free(lp);
}

static bool is_interval(double lower, double upper) {
    return lower <= upper && lower < HUGE_VAL && upper > -HUGE_VAL;
}

static int bound_type(double lower, double upper) {
    if (isinf(lower))
        return isinf(upper) ? GLP_FR : GLP_UP;
    if (isinf(upper))
        return GLP_LO;
    return lower < upper ? GLP_DB : GLP_FX;
}

static enum mosaic_status check_model(const struct lp_model *model, struct status_error *err) {
    if (model->rows < 1 || model->columns < 1 ||
        model->column_start[model->columns] > (size_t)INT_MAX - 1)
        return status_set(err, MOSAIC_BAD_INPUT, "linear program: bad size");
    for (int i = 0; i < model->rows; i++)
        if (!is_interval(model->row_lower[i], model->row_upper[i]))
            return status_set(err, MOSAIC_BAD_INPUT, "linear program: row %d has bad bounds", i);
    for (int j = 0; j < model->columns; j++) {
        if (!is_interval(model->column_lower[j], model->column_upper[j]))
            return status_set(err, MOSAIC_BAD_INPUT, "linear program: column %d has bad bounds", j);
        if (!isfinite(model->cost[j]))
            return status_set(err, MOSAIC_BAD_INPUT, "linear program: cost %d is not finite", j);
        for (size_t k = model->column_start[j]; k < model->column_start[j + 1]; k++)
            if (!isfinite(model->entry_value[k]) || model->entry_row[k] < 0 ||
                model->entry_row[k] >= model->rows)
                return status_set(err, MOSAIC_BAD_INPUT, "linear program: bad entry in column %d",
                                  j);
    }
    return MOSAIC_OK;
}

static void *copy_of(const void *source, size_t count, size_t size) {
    void *made = malloc(count ? count * size : 1);
    if (made && count)
        memcpy(made, source, count * size);
    return made;
}

static bool copy_model(struct lp *lp, const struct lp_model *model) {
    const size_t rows = (size_t)model->rows, columns = (size_t)model->columns;
    const size_t entries = model->column_start[columns];
    lp->rows = model->rows;
    lp->columns = model->columns;
    lp->row_lower = copy_of(model->row_lower, rows, sizeof(double));
    lp->row_upper = copy_of(model->row_upper, rows, sizeof(double));
    lp->column_lower = copy_of(model->column_lower, columns, sizeof(double));
    lp->column_upper = copy_of(model->column_upper, columns, sizeof(double));
    lp->cost = copy_of(model->cost, columns, sizeof(double));
    lp->column_start = copy_of(model->column_start, columns + 1, sizeof(size_t));
    lp->entry_row = copy_of(model->entry_row, entries, sizeof(int));
    lp->entry_value = copy_of(model->entry_value, entries, sizeof(double));
    lp->primal = calloc(columns, sizeof(double));
    lp->dual = calloc(rows, sizeof(double));
    return lp->row_lower && lp->row_upper && lp->column_lower && lp->column_upper && lp->cost &&
           lp->column_start && lp->entry_row && lp->entry_value && lp->primal && lp->dual;
}

/* GLPK's arrays count from 1: the caller's copies carry a spare first element. */
struct fill {
    int *index;
    double *value;
};

static void fill_problem(struct lp *lp, void *argument) {
    const struct fill *fill = argument;
    glp_erase_prob(lp->prob);
    glp_set_obj_dir(lp->prob, GLP_MIN);
    glp_add_rows(lp->prob, lp->rows);
    glp_add_cols(lp->prob, lp->columns);
    for (int i = 0; i < lp->rows; i++)
        glp_set_row_bnds(lp->prob, i + 1, bound_type(lp->row_lower[i], lp->row_upper[i]),
                         lp->row_lower[i], lp->row_upper[i]);
    for (int j = 0; j < lp->columns; j++) {
        int count = 0;
        for (size_t k = lp->column_start[j]; k < lp->column_start[j + 1]; k++) {
            count++;
            fill->index[count] = lp->entry_row[k] + 1;
            fill->value[count] = lp->entry_value[k];
        }
        glp_set_mat_col(lp->prob, j + 1, count, fill->index, fill->value);
        glp_set_obj_coef(lp->prob, j + 1, lp->cost[j]);
        glp_set_col_kind(lp->prob, j + 1, GLP_IV);
        glp_set_col_bnds(lp->prob, j + 1, bound_type(lp->column_lower[j], lp->column_upper[j]),
                         lp->column_lower[j], lp->column_upper[j]);
    }
    glp_std_basis(lp->prob);
}

enum mosaic_status lp_load(struct lp *lp, const struct lp_model *model, struct status_error *err) {
    if (!is_alive(lp, err))
        return MOSAIC_INTERNAL;
    TRY(check_model(model, err));
    free_arrays(lp);
    const struct lp emptied = {.prob = lp->prob, .environment = lp->environment};
    *lp = emptied;
    size_t longest = 0;
    for (int j = 0; j < model->columns; j++) {
        const size_t length = model->column_start[j + 1] - model->column_start[j];
        longest = length > longest ? length : longest;
    }
    struct fill fill = {.index = malloc((longest + 1) * sizeof(int)),
                        .value = malloc((longest + 1) * sizeof(double))};
    enum mosaic_status status = MOSAIC_OK;
    if (!copy_model(lp, model) || !fill.index || !fill.value) {
        lp->rows = lp->columns = 0;
        status = status_no_memory(err);
    } else if (!guarded(lp, fill_problem, &fill, err)) {
        status = MOSAIC_NUMERIC;
    }
    free(fill.index);
    free(fill.value);
    return status;
}

struct change {
    int at;
    double lower, upper; /* a cost travels in lower */
};

static void change_column(struct lp *lp, void *argument) {
    const struct change *change = argument;
    glp_set_col_bnds(lp->prob, change->at + 1, bound_type(change->lower, change->upper),
                     change->lower, change->upper);
}

static void change_row(struct lp *lp, void *argument) {
    const struct change *change = argument;
    glp_set_row_bnds(lp->prob, change->at + 1, bound_type(change->lower, change->upper),
                     change->lower, change->upper);
}

static void change_cost(struct lp *lp, void *argument) {
    const struct change *change = argument;
    glp_set_obj_coef(lp->prob, change->at + 1, change->lower);
}

enum mosaic_status lp_set_column_bounds(struct lp *lp, int column, double lower, double upper,
                                        struct status_error *err) {
    if (!is_alive(lp, err))
        return MOSAIC_INTERNAL;
    if (column < 0 || column >= lp->columns || !is_interval(lower, upper))
        return status_set(err, MOSAIC_BAD_INPUT, "linear program: column %d: bad bounds", column);
    struct change change = {column, lower, upper};
    if (!guarded(lp, change_column, &change, err))
        return MOSAIC_NUMERIC;
    lp->column_lower[column] = lower;
    lp->column_upper[column] = upper;
    return MOSAIC_OK;
}

enum mosaic_status lp_set_row_bounds(struct lp *lp, int row, double lower, double upper,
                                     struct status_error *err) {
    if (!is_alive(lp, err))
        return MOSAIC_INTERNAL;
    if (row < 0 || row >= lp->rows || !is_interval(lower, upper))
        return status_set(err, MOSAIC_BAD_INPUT, "linear program: row %d: bad bounds", row);
    struct change change = {row, lower, upper};
    if (!guarded(lp, change_row, &change, err))
        return MOSAIC_NUMERIC;
    lp->row_lower[row] = lower;
    lp->row_upper[row] = upper;
    return MOSAIC_OK;
}

enum mosaic_status lp_set_cost(struct lp *lp, int column, double cost, struct status_error *err) {
    if (!is_alive(lp, err))
        return MOSAIC_INTERNAL;
    if (column < 0 || column >= lp->columns || !isfinite(cost))
        return status_set(err, MOSAIC_BAD_INPUT, "linear program: column %d: bad cost", column);
    struct change change = {column, cost, cost};
    if (!guarded(lp, change_cost, &change, err))
        return MOSAIC_NUMERIC;
    lp->cost[column] = cost;
    return MOSAIC_OK;
}

struct call {
    double cutoff;
    int node_limit;
    int code, status;
    bool is_cut, is_limited;
};

static void run_simplex(struct lp *lp, void *argument) {
    struct call *call = argument;
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.meth = GLP_DUALP;
    parameters.it_lim = ITERATION_LIMIT;
    if (call->cutoff < DBL_MAX)
        parameters.obj_ul = call->cutoff;
    call->code = glp_simplex(lp->prob, &parameters);
    if (call->code == GLP_EBADB || call->code == GLP_ESING || call->code == GLP_ECOND ||
        call->code == GLP_EFAIL) { /* a spoilt basis: once more from a fresh one */
        glp_std_basis(lp->prob);
        parameters.meth = GLP_PRIMAL;
        call->code = glp_simplex(lp->prob, &parameters);
    }
    call->status = glp_get_status(lp->prob);
    for (int j = 0; j < lp->columns; j++)
        lp->primal[j] = glp_get_col_prim(lp->prob, j + 1);
    for (int i = 0; i < lp->rows; i++)
        lp->dual[i] = glp_get_row_dual(lp->prob, i + 1);
    lp->objective = glp_get_obj_val(lp->prob);
}

static enum lp_outcome failed(struct status_error *err, const char *what, int code) {
    (void)status_set(err, MOSAIC_NUMERIC, "linear solver: %s (code %d)", what, code);
    return LP_FAILURE;
}

static bool is_ready(const struct lp *lp, double cutoff, struct status_error *err) {
    if (!is_alive(lp, err))
        return false;
    if (lp->columns > 0 && !isnan(cutoff))
        return true;
    (void)status_set(err, MOSAIC_BAD_INPUT, "linear program: %s",
                     lp->columns > 0 ? "cut-off is not a number" : "nothing loaded");
    return false;
}

enum lp_outcome lp_solve(struct lp *lp, double cutoff, struct status_error *err) {
    if (!is_ready(lp, cutoff, err))
        return LP_FAILURE;
    struct call call = {.cutoff = cutoff};
    if (!guarded(lp, run_simplex, &call, err))
        return LP_FAILURE;
    if (call.code == GLP_EOBJUL)
        return LP_CUTOFF;
    if (call.code == GLP_EITLIM || call.code == GLP_ETMLIM)
        return LP_LIMIT;
    if (call.code != 0)
        return failed(err, "simplex failed", call.code);
    if (call.status == GLP_NOFEAS)
        return LP_INFEASIBLE;
    if (call.status != GLP_OPT)
        return failed(err, "no optimum", call.status);
    if (!isfinite(lp->objective))
        return failed(err, "objective is not finite", call.status);
    return lp->objective < cutoff ? LP_OPTIMAL : LP_CUTOFF;
}

/* GLPK has neither a cut-off nor a node limit for trees; a time limit would not be repeatable. */
static void watch_tree(glp_tree *tree, void *info) {
    struct call *call = info;
    if (glp_ios_reason(tree) != GLP_ISELECT)
        return;
    int nodes = 0;
    glp_ios_tree_size(tree, NULL, NULL, &nodes);
    const int best = glp_ios_best_node(tree);
    call->is_cut = best != 0 && glp_ios_node_bound(tree, best) >= call->cutoff;
    call->is_limited = !call->is_cut && nodes > call->node_limit;
    if (call->is_cut || call->is_limited)
        glp_ios_terminate(tree);
}

static void run_tree(struct lp *lp, void *argument) {
    struct call *call = argument;
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.tol_int = INTEGER_TOLERANCE;
    parameters.cb_func = watch_tree;
    parameters.cb_info = call;
    call->code = glp_intopt(lp->prob, &parameters);
    call->status = glp_mip_status(lp->prob);
    if (call->status == GLP_OPT || call->status == GLP_FEAS) {
        for (int j = 0; j < lp->columns; j++)
            lp->primal[j] = glp_mip_col_val(lp->prob, j + 1);
        lp->objective = glp_mip_obj_val(lp->prob);
    }
}

enum lp_outcome lp_solve_integer(struct lp *lp, double cutoff, int node_limit,
                                 struct status_error *err) {
    if (!is_ready(lp, cutoff, err))
        return LP_FAILURE;
    struct call call = {.cutoff = cutoff, .node_limit = node_limit};
    if (!guarded(lp, run_tree, &call, err))
        return LP_FAILURE;
    const bool has_point = call.status == GLP_OPT || call.status == GLP_FEAS;
    if (call.code == GLP_EITLIM || call.code == GLP_ETMLIM || call.is_limited)
        return LP_LIMIT;
    if (call.code != 0 && !call.is_cut)
        return failed(err, "branch and bound failed", call.code);
    if (has_point && !isfinite(lp->objective))
        return failed(err, "objective is not finite", call.status);
    if (has_point && lp->objective < cutoff)
        return LP_OPTIMAL; /* also when every open node is above the cut-off */
    if (has_point || call.is_cut)
        return LP_CUTOFF;
    return call.status == GLP_NOFEAS ? LP_INFEASIBLE
                                     : failed(err, "no integer optimum", call.status);
}

int lp_rows(const struct lp *lp) {
    return lp->rows;
}

const double *lp_primal(const struct lp *lp) {
    return lp->primal;
}

const double *lp_dual(const struct lp *lp) {
    return lp->dual;
}

double lp_objective(const struct lp *lp) {
    return lp->objective;
}

bool lp_is_integral(const struct lp *lp) {
    for (int j = 0; j < lp->columns; j++)
        if (fabs(lp->primal[j] - round(lp->primal[j])) > INTEGER_TOLERANCE)
            return false;
    return true;
}

/* A multiplier that pushes a bound which does not exist proves nothing: it counts as 0. */
static double usable_dual(const struct lp *lp, int row) {
    const double y = lp->dual[row];
    if (!isfinite(y) || (y > 0 && isinf(lp->row_lower[row])) ||
        (y < 0 && isinf(lp->row_upper[row])))
        return 0;
    return y;
}

double lp_bound(const struct lp *lp) {
    double bound = 0, magnitude = 0;
    size_t terms = 0;
    for (int i = 0; i < lp->rows; i++) {
        const double y = usable_dual(lp, i);
        const double side = y > 0 ? lp->row_lower[i] : lp->row_upper[i];
        const double term = isinf(side) ? 0 : y * side; /* y is 0 there */
        bound += term;
        magnitude += fabs(term);
        terms++;
    }
    for (int j = 0; j < lp->columns; j++) {
        double reduced = lp->cost[j], size = fabs(reduced);
        for (size_t k = lp->column_start[j]; k < lp->column_start[j + 1]; k++) {
            const double part = lp->entry_value[k] * usable_dual(lp, lp->entry_row[k]);
            reduced -= part;
            size += fabs(part);
        }
        const double lower = lp->column_lower[j], upper = lp->column_upper[j];
        const double reach = fmax(fabs(lower), fabs(upper));
        terms += lp->column_start[j + 1] - lp->column_start[j] + 1;
        if (isinf(reach)) { /* then the sign of d_j must be beyond its rounding */
            const double slip = DBL_EPSILON * size * (double)(terms + 1);
            if ((isinf(upper) && reduced <= slip) || (isinf(lower) && reduced >= -slip)) {
                if (size > 0)
                    return -HUGE_VAL;
                continue;
            }
        }
        const double at = reduced > 0 ? lower : upper;
        const double term = reduced * at;
        bound += term;
        magnitude +=
            isinf(reach) ? fabs(term) + size * fmin(fabs(lower), fabs(upper)) : size * reach;
    }
    return bound - magnitude * DBL_EPSILON * (double)(terms + 1);
}

const char *lp_library_version(void) {
    return glp_version();
}
