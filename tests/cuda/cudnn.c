// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A libcudnn.so.9 for tests: the backend interface over graphs of tensors in this process's memory,
 * each operation in plain loops.  Descriptors are strict: an attribute must be one that the kind
 * has, of the right type, set before the descriptor is finalized, and none that it needs may lack;
 * a tensor within the graph is written before it is read.  FAKE_CUDNN makes it fail: no_handle,
 * no_engine, no_plan, no_execution, wrong (results), old (an 8.9).
 */
#include <cudnn.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES_MOST = 8, AXES = 4 };

struct attribute {
    int name, type;
    int64_t count;
    void *values;
};
struct descriptor {
    int kind, count;
    bool is_ready;
    struct attribute attributes[ATTRIBUTES_MOST];
    /* Of a tensor, while a graph runs. */
    float *values;
    void *memory;
    bool is_written;
};

/* What each kind may have and needs. */
struct rule {
    int kind, name, type;
    bool is_needed;
};
#define TENSOR(name, type)                                                                         \
    { CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_##name, type, true }
#define STEP(name, is_needed)                                                                      \
    {                                                                                              \
        CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_##name,       \
            CUDNN_TYPE_BACKEND_DESCRIPTOR, is_needed                                               \
    }
#define OPERATION(kind, name)                                                                      \
    {                                                                                              \
        CUDNN_BACKEND_OPERATION_##kind##_DESCRIPTOR, CUDNN_ATTR_OPERATION_##kind##_##name,         \
            CUDNN_TYPE_BACKEND_DESCRIPTOR, true                                                    \
    }
static const struct rule rules[] = {
    TENSOR(DATA_TYPE, CUDNN_TYPE_DATA_TYPE),
    TENSOR(DIMENSIONS, CUDNN_TYPE_INT64),
    TENSOR(STRIDES, CUDNN_TYPE_INT64),
    TENSOR(UNIQUE_ID, CUDNN_TYPE_INT64),
    TENSOR(BYTE_ALIGNMENT, CUDNN_TYPE_INT64),
    TENSOR(IS_VIRTUAL, CUDNN_TYPE_BOOLEAN),
    TENSOR(IS_BY_VALUE, CUDNN_TYPE_BOOLEAN),
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
     true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
     true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, false},
    STEP(PW_DESCRIPTOR, true),
    STEP(XDESC, true),
    STEP(BDESC, false),
    STEP(TDESC, false),
    STEP(YDESC, true),
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, true},
    OPERATION(MATMUL, ADESC),
    OPERATION(MATMUL, BDESC),
    OPERATION(MATMUL, CDESC),
    OPERATION(MATMUL, DESC),
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
     true},
    OPERATION(REDUCTION, XDESC),
    OPERATION(REDUCTION, YDESC),
    OPERATION(REDUCTION, DESC),
    OPERATION(RESHAPE, XDESC),
    OPERATION(RESHAPE, YDESC),
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, true},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
     true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
     true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
     true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
     true},
};
enum { RULES = sizeof rules / sizeof *rules, WORKSPACE_BYTES = 4096 };

static bool is_asked(const char *failure) {
    const char *const asked = getenv("FAKE_CUDNN");
    return asked && strcmp(asked, failure) == 0;
}

/* ---- the library ---- */

size_t cudnnGetVersion(void) {
    return is_asked("old") ? 8907 : CUDNN_VERSION;
}
size_t cudnnGetCudartVersion(void) {
    return CUDART_VERSION;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_NOT_SUPPORTED     ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == CUDNN_STATUS_NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED"
           : status == CUDNN_STATUS_BAD_PARAM       ? "CUDNN_STATUS_BAD_PARAM"
                                                    : "CUDNN_STATUS_EXECUTION_FAILED";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    static char made;
    if (is_asked("no_handle"))
        return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = (cudnnHandle_t)(void *)&made;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    (void)stream;
    return handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* ---- descriptors ---- */

static size_t bytes_of(int type) {
    return type == CUDNN_TYPE_BOOLEAN ? sizeof(bool)
           : type == CUDNN_TYPE_INT64 ? sizeof(int64_t)
           : type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_HANDLE ||
                   type == CUDNN_TYPE_VOID_PTR
               ? sizeof(void *)
               : sizeof(int);
}

static const struct attribute *find(const struct descriptor *d, int name) {
    for (int i = 0; i < d->count; ++i)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t *to) {
    struct descriptor *const d = calloc(1, sizeof *d);
    if (!d)
        return CUDNN_STATUS_ALLOC_FAILED;
    d->kind = (int)kind;
    *to = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t at) {
    struct descriptor *const d = at;
    for (int i = 0; i < d->count; ++i)
        free(d->attributes[i].values);
    free(d->values);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

/* Descriptors that others are made of are finalized before. */
static bool are_ready(const struct attribute *a) {
    for (int64_t i = 0; a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < a->count; ++i)
        if (!((struct descriptor **)a->values)[i]->is_ready)
            return false;
    return true;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
    struct descriptor *const d = to;
    const size_t bytes = (size_t)count * bytes_of((int)type);
    bool is_known = false;
    for (int i = 0; i < RULES; ++i)
        is_known = is_known || (rules[i].kind == d->kind && rules[i].name == (int)name &&
                                rules[i].type == (int)type);
    if (!is_known || d->is_ready || d->count == ATTRIBUTES_MOST || count < 1 || find(d, (int)name))
        return CUDNN_STATUS_BAD_PARAM;
    struct attribute *const a = &d->attributes[d->count];
    *a = (struct attribute){(int)name, (int)type, count, malloc(bytes)};
    if (!a->values)
        return CUDNN_STATUS_ALLOC_FAILED;
    memcpy(a->values, values, bytes);
    if (!are_ready(a)) {
        free(a->values);
        return CUDNN_STATUS_BAD_PARAM;
    }
    ++d->count;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t at) {
    struct descriptor *const d = at;
    for (int i = 0; i < RULES; ++i)
        if (rules[i].kind == d->kind && rules[i].is_needed && !find(d, rules[i].name))
            return CUDNN_STATUS_BAD_PARAM;
    if (d->is_ready)
        return CUDNN_STATUS_BAD_PARAM;
    if (d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && is_asked("no_plan"))
        return CUDNN_STATUS_NOT_SUPPORTED;
    d->is_ready = true;
    return CUDNN_STATUS_SUCCESS;
}

static struct descriptor *part(const struct descriptor *d, int name) {
    const struct attribute *const a = find(d, name);
    return a ? *(struct descriptor **)a->values : NULL;
}

/* An engine's configuration keeps its graph as if it were set. */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const from,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *values) {
    struct descriptor *const d = from;
    (void)type;
    if (!d->is_ready || wanted < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *count = 1;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)values = WORKSPACE_BYTES;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return CUDNN_STATUS_BAD_PARAM;
    if (is_asked("no_engine")) {
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    }
    struct descriptor *const config = *(struct descriptor **)values;
    struct descriptor **const graph = malloc(sizeof *graph);
    *graph = part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config->attributes[config->count++] =
        (struct attribute){CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, graph};
    config->is_ready = true;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- tensors: values lie by the strides ---- */

static const int64_t *longs(const struct descriptor *d, int name) {
    return find(d, name)->values;
}
static const int64_t *sizes(const struct descriptor *t) {
    return longs(t, CUDNN_ATTR_TENSOR_DIMENSIONS);
}
static int data_type(const struct descriptor *t) {
    return *(int *)find(t, CUDNN_ATTR_TENSOR_DATA_TYPE)->values;
}
static bool is_within(const struct descriptor *t) {
    return *(bool *)find(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)->values;
}

struct index {
    int64_t at[AXES];
};
static size_t count_of(const struct descriptor *t) {
    size_t count = 1;
    for (int i = 0; i < AXES; ++i)
        count *= (size_t)sizes(t)[i];
    return count;
}
static struct index index_of(const struct descriptor *t, size_t i) {
    struct index x;
    for (int axis = AXES; axis-- > 0;) {
        x.at[axis] = (int64_t)(i % (size_t)sizes(t)[axis]);
        i /= (size_t)sizes(t)[axis];
    }
    return x;
}
/* Where an index of another tensor is; sizes of fewer serve several each. */
static size_t place_of(const struct descriptor *t, const struct descriptor *of, struct index x) {
    const int64_t *const strides = longs(t, CUDNN_ATTR_TENSOR_STRIDES);
    size_t place = 0;
    for (int axis = 0; axis < AXES; ++axis)
        place += (size_t)(x.at[axis] * sizes(t)[axis] / sizes(of)[axis] * strides[axis]);
    return place;
}

static float rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool open_tensor(struct descriptor *t) {
    size_t room = 0;
    if (t->values)
        return true;
    for (size_t i = 0; i < count_of(t); ++i) {
        const size_t place = place_of(t, t, index_of(t, i));
        room = place > room ? place : room;
    }
    t->values = calloc(room + 1, sizeof *t->values);
    return t->values != NULL;
}

/* The memory that the caller gave; rows follow each other as the strides say. */
static bool load(struct descriptor *t) {
    const bool is_bf16 = data_type(t) == CUDNN_DATA_BFLOAT16;
    if (!open_tensor(t))
        return false;
    if (is_within(t) || t->is_written)
        return t->is_written;
    if (!t->memory || (!is_bf16 && data_type(t) != CUDNN_DATA_FLOAT))
        return false;
    for (size_t i = 0; i < count_of(t); ++i) {
        const size_t place = place_of(t, t, index_of(t, i));
        uint32_t bits = 0;
        if (is_bf16)
            bits = (uint32_t)((const uint16_t *)t->memory)[place] << 16;
        else
            memcpy(&bits, (const float *)t->memory + place, sizeof bits);
        memcpy(&t->values[place], &bits, sizeof bits);
    }
    return true;
}

static bool store(struct descriptor *t) {
    const bool is_bf16 = data_type(t) == CUDNN_DATA_BFLOAT16;
    t->is_written = true;
    if (!is_within(t) && !t->memory)
        return false;
    for (size_t i = 0; i < count_of(t); ++i) {
        const size_t place = place_of(t, t, index_of(t, i));
        float *const value = &t->values[place];
        uint32_t bits;
        *value = is_bf16 ? rounded(*value) : *value;
        if (!is_within(t) && is_asked("wrong"))
            *value += 1.0F;
        memcpy(&bits, value, sizeof bits);
        if (!is_within(t) && is_bf16)
            ((uint16_t *)t->memory)[place] = (uint16_t)(bits >> 16);
        else if (!is_within(t))
            ((float *)t->memory)[place] = *value;
    }
    return true;
}

/* ---- operations ---- */

static bool multiply(const struct descriptor *o) {
    struct descriptor *const a = part(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    struct descriptor *const b = part(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    struct descriptor *const c = part(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const int64_t depth = sizes(a)[3];
    if (!load(a) || !load(b) || !open_tensor(c) || sizes(b)[2] != depth ||
        sizes(a)[2] != sizes(c)[2] || sizes(b)[3] != sizes(c)[3])
        return false;
    const int64_t a_step = longs(a, CUDNN_ATTR_TENSOR_STRIDES)[3];
    const int64_t b_step = longs(b, CUDNN_ATTR_TENSOR_STRIDES)[2];
    for (size_t i = 0; i < count_of(c); ++i) {
        const struct index x = index_of(c, i);
        struct index of_a = x, of_b = x;
        of_a.at[3] = of_b.at[2] = 0;
        const float *const row = a->values + place_of(a, c, of_a);
        const float *const column = b->values + place_of(b, c, of_b);
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
            sum += (double)row[k * a_step] * (double)column[k * b_step];
        c->values[place_of(c, c, x)] = (float)sum;
    }
    return store(c);
}

static float step_of(int mode, float x, float b, bool is_seen, bool *is_known) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return expf(x);
    case CUDNN_POINTWISE_LOG:
        return logf(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b ? 1.0F : 0.0F;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return is_seen ? x : b;
    default:
        *is_known = false;
        return 0;
    }
}

static bool apply(const struct descriptor *o) {
    const struct descriptor *const how = part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    struct descriptor *const x = part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    struct descriptor *const b = part(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    struct descriptor *const t = part(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    struct descriptor *const y = part(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const int mode = *(int *)find(how, CUDNN_ATTR_POINTWISE_MODE)->values;
    bool is_known = load(x) && (!b || load(b)) && (!t || load(t)) && open_tensor(y);
    for (size_t i = 0; is_known && i < count_of(y); ++i) {
        const struct index at = index_of(y, i);
        float *const to = &y->values[place_of(y, y, at)];
        if (mode == CUDNN_POINTWISE_GEN_INDEX)
            *to = (float)at.at[longs(how, CUDNN_ATTR_POINTWISE_AXIS)[0]];
        else
            *to = step_of(mode, x->values[place_of(x, y, at)],
                          b ? b->values[place_of(b, y, at)] : 0.0F,
                          t && t->values[place_of(t, y, at)] != 0.0F, &is_known);
    }
    return is_known && store(y);
}

static bool reduce(const struct descriptor *o) {
    const struct descriptor *const how = part(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    struct descriptor *const x = part(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    struct descriptor *const y = part(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const bool is_max =
        *(int *)find(how, CUDNN_ATTR_REDUCTION_OPERATOR)->values == (int)CUDNN_REDUCE_TENSOR_MAX;
    if (!load(x) || !open_tensor(y))
        return false;
    for (size_t i = 0; i < count_of(y); ++i)
        y->values[place_of(y, y, index_of(y, i))] = is_max ? -INFINITY : 0.0F;
    for (size_t i = 0; i < count_of(x); ++i) {
        const struct index at = index_of(x, i);
        const float value = x->values[place_of(x, x, at)];
        float *const to = &y->values[place_of(y, x, at)];
        *to = is_max ? fmaxf(*to, value) : *to + value;
    }
    return store(y);
}

/* The same values in memory. */
static bool reshape(const struct descriptor *o) {
    struct descriptor *const x = part(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    struct descriptor *const y = part(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    if (!load(x) || !open_tensor(y) || count_of(x) != count_of(y))
        return false;
    memcpy(y->values, x->values, count_of(x) * sizeof *x->values);
    return store(y);
}

static bool run(const struct descriptor *operation) {
    return operation->kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR      ? multiply(operation)
           : operation->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ? apply(operation)
           : operation->kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ? reduce(operation)
                                                                             : reshape(operation);
}

/* ---- execution ---- */

static void *memory_of(const struct descriptor *pack, int64_t id) {
    const struct attribute *const ids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *const at = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int64_t i = 0; i < ids->count && i < at->count; ++i)
        if (((const int64_t *)ids->values)[i] == id)
            return ((void **)at->values)[i];
    return NULL;
}

/* Every tensor of an operation as it was before the run. */
static void prepare(const struct descriptor *operation, const struct descriptor *pack) {
    for (int i = 0; i < operation->count; ++i) {
        struct descriptor *const t = *(struct descriptor **)operation->attributes[i].values;
        if (t->kind != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            continue;
        t->is_written = false;
        t->memory = memory_of(pack, longs(t, CUDNN_ATTR_TENSOR_UNIQUE_ID)[0]);
    }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
    const struct descriptor *const config = part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct attribute *const all =
        find(part(config, CUDNN_ATTR_OPERATIONGRAPH_OPS), CUDNN_ATTR_OPERATIONGRAPH_OPS);
    struct descriptor **const operations = all->values;
    const struct descriptor *const operands = pack;
    const struct attribute *const workspace = find(operands, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!handle || !operands->is_ready || !*(void **)workspace->values || is_asked("no_execution"))
        return CUDNN_STATUS_EXECUTION_FAILED;
    memset(*(void **)workspace->values, 0xFF, WORKSPACE_BYTES);
    for (int64_t i = 0; i < all->count; ++i)
        prepare(operations[i], operands);
    for (int64_t i = 0; i < all->count; ++i)
        if (!run(operations[i]))
            return CUDNN_STATUS_EXECUTION_FAILED;
    return CUDNN_STATUS_SUCCESS;
}
