// SPDX-License-Identifier: GPL-3.0-or-later
/* Functions by name, descriptors, plans; see the header. */
#include "dnn.h"

#include "device.h"

#include <stdio.h>

#ifdef PROBE_CUDNN

#include <dlfcn.h>
#include <string.h>

struct library {
    bool is_tried;
    char why[PROBE_TEXT]; /* it cannot be used; "" when it can */
    size_t version;
    cudnnHandle_t handle; /* made when first needed */
    decltype(&cudnnGetVersion) get_version;
    decltype(&cudnnGetCudartVersion) get_cudart;
    decltype(&cudnnGetErrorString) error_text;
    decltype(&cudnnCreate) create;
    decltype(&cudnnSetStream) set_stream;
    decltype(&cudnnBackendCreateDescriptor) make;
    decltype(&cudnnBackendDestroyDescriptor) destroy;
    decltype(&cudnnBackendSetAttribute) set;
    decltype(&cudnnBackendGetAttribute) get;
    decltype(&cudnnBackendFinalize) finalize;
    decltype(&cudnnBackendExecute) execute;
};
static struct library dnn;

/* ---- the library ---- */

template <typename T> static bool find(void *library, const char *name, T *to) {
    *to = reinterpret_cast<T>(dlsym(library, name));
    if (!*to)
        (void)snprintf(dnn.why, sizeof dnn.why, "libcudnn.so.%d has no %s", CUDNN_MAJOR, name);
    return *to != NULL;
}

static bool find_all(void *library) {
    return find(library, "cudnnGetVersion", &dnn.get_version) &&
           find(library, "cudnnGetCudartVersion", &dnn.get_cudart) &&
           find(library, "cudnnGetErrorString", &dnn.error_text) &&
           find(library, "cudnnCreate", &dnn.create) &&
           find(library, "cudnnSetStream", &dnn.set_stream) &&
           find(library, "cudnnBackendCreateDescriptor", &dnn.make) &&
           find(library, "cudnnBackendDestroyDescriptor", &dnn.destroy) &&
           find(library, "cudnnBackendSetAttribute", &dnn.set) &&
           find(library, "cudnnBackendGetAttribute", &dnn.get) &&
           find(library, "cudnnBackendFinalize", &dnn.finalize) &&
           find(library, "cudnnBackendExecute", &dnn.execute);
}

/* Left open for the program's life.  Numbers of the interface hold within a major version. */
static void load(void) {
    char name[32];
    if (dnn.is_tried)
        return;
    dnn.is_tried = true;
    (void)snprintf(name, sizeof name, "libcudnn.so.%d", CUDNN_MAJOR);
    void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *const text = dlerror();
        (void)snprintf(dnn.why, sizeof dnn.why, "no %s: %s", name, text ? text : "not found");
        return;
    }
    if (!find_all(library))
        return;
    dnn.version = dnn.get_version();
    /* A library built for another major version would bring a runtime of its own. */
    if (dnn.get_cudart() / 1000 != CUDART_VERSION / 1000)
        (void)snprintf(dnn.why, sizeof dnn.why, "%s is of CUDA %zu, the probe of CUDA %d", name,
                       dnn.get_cudart() / 1000, CUDART_VERSION / 1000);
}

static bool is_usable(void) {
    load();
    return dnn.why[0] == '\0';
}

/* 8.9.7 is 8907, 9.19.0 is 91900. */
void dnn_version(char text[DNN_TEXT]) {
    text[0] = '\0';
    if (!is_usable())
        return;
    const size_t major = dnn.version >= 10000 ? 10000 : 1000;
    (void)snprintf(text, DNN_TEXT, "%zu.%zu.%zu", dnn.version / major, dnn.version % major / 100,
                   dnn.version % 100);
}

void dnn_give_up(const char *why) {
    (void)snprintf(dnn.why, sizeof dnn.why, "%s", why);
}

bool dnn_is_from(size_t version) {
    return is_usable() && dnn.version >= version;
}

void dnn_require(size_t version) {
    char text[DNN_TEXT];
    if (!is_usable())
        probe_refuse(REFUSED_UNSUPPORTED, "%s", dnn.why);
    dnn_version(text);
    if (!dnn_is_from(version))
        probe_refuse(REFUSED_UNSUPPORTED, "cuDNN %s is older than %zu.%zu", text, version / 10000,
                     version % 10000 / 100);
}

[[noreturn]] static void fail(const char *what, cudnnStatus_t status) {
    probe_refuse(status == CUDNN_STATUS_ALLOC_FAILED ? REFUSED_MEMORY : REFUSED_FAILED,
                 "cuDNN, %s: %s", what, dnn.error_text(status));
}

static void check(const char *what, cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS)
        fail(what, status);
}

/* Kernels are loaded lazily, and the first handle takes some hundred megabytes. */
static cudnnHandle_t handle_of(const struct probe *p) {
    if (!dnn.handle)
        check("a handle", dnn.create(&dnn.handle));
    check("the stream", dnn.set_stream(dnn.handle, p->stream));
    return dnn.handle;
}

/* ---- descriptors ---- */

typedef cudnnBackendDescriptor_t descriptor;

static descriptor make(struct dnn_graph *g, cudnnBackendDescriptorType_t type) {
    descriptor made = NULL;
    if (g->count == DNN_DESCRIPTORS)
        probe_refuse(REFUSED_FAILED, "cuDNN, more than %d descriptors", (int)DNN_DESCRIPTORS);
    check("a descriptor", dnn.make(type, &made));
    g->all[g->count++] = made;
    return made;
}

struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
};

static void set(descriptor to, const struct attribute *attributes, int count) {
    for (int i = 0; i < count; ++i) {
        const struct attribute *const a = &attributes[i];
        const cudnnStatus_t status = dnn.set(to, a->name, a->type, a->count, a->values);
        if (status != CUDNN_STATUS_SUCCESS)
            probe_refuse(REFUSED_FAILED, "cuDNN, attribute %d: %s", (int)a->name,
                         dnn.error_text(status));
    }
}

template <int COUNT> static void set_all(descriptor to, const struct attribute (&a)[COUNT]) {
    set(to, a, COUNT);
}

static void set_tensor(descriptor to, cudnnBackendAttributeName_t name,
                       const struct dnn_tensor *tensor) {
    const struct attribute one[] = {{name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor->descriptor}};
    set_all(to, one);
}

static descriptor finalized(descriptor made, const char *what) {
    check(what, dnn.finalize(made));
    return made;
}

static void keep_operation(struct dnn_graph *g, descriptor made, const char *what) {
    if (g->operation_count == DNN_OPERATIONS)
        probe_refuse(REFUSED_FAILED, "cuDNN, more than %d operations", (int)DNN_OPERATIONS);
    g->operations[g->operation_count++] = finalized(made, what);
}

struct dnn_tensor dnn_tensor_of(struct dnn_graph *g, const struct dnn_shape *shape,
                                cudnnDataType_t type, enum dnn_place place, void *at) {
    const int64_t id = ++g->last_id, alignment = place == DNN_VALUE ? 4 : 16;
    const bool is_within = place == DNN_WITHIN, is_value = place == DNN_VALUE;
    const descriptor made = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const struct attribute all[] = {
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DNN_AXES, shape->sizes},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DNN_AXES, shape->strides},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_within},
        {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value},
    };
    set_all(made, all);
    if (!is_within) {
        if (g->bound == DNN_BOUND)
            probe_refuse(REFUSED_FAILED, "cuDNN, more than %d blocks", (int)DNN_BOUND);
        g->ids[g->bound] = id;
        g->at[g->bound++] = at;
    }
    return {finalized(made, "a tensor"), *shape};
}

void dnn_pointwise(struct dnn_graph *g, const struct dnn_step *s) {
    const descriptor how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const struct attribute of_how[] = {
        {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &s->mode},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &s->compute},
        {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &s->axis},
    };
    set(how, of_how, s->mode == CUDNN_POINTWISE_GEN_INDEX ? 3 : 2);
    const descriptor ready = finalized(how, "a pointwise step");
    const descriptor made = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    const struct attribute of_made[] = {
        {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ready}};
    set_all(made, of_made);
    set_tensor(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, s->x);
    if (s->b)
        set_tensor(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, s->b);
    if (s->t)
        set_tensor(made, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, s->t);
    set_tensor(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, s->y);
    keep_operation(g, made, "a pointwise operation");
}

void dnn_multiply(struct dnn_graph *g, const struct dnn_tensor *a, const struct dnn_tensor *b,
                  const struct dnn_tensor *c) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const descriptor how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const struct attribute of_how[] = {
        {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute}};
    set_all(how, of_how);
    const descriptor ready = finalized(how, "a product");
    const descriptor made = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_tensor(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_tensor(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_tensor(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    const struct attribute of_made[] = {
        {CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ready}};
    set_all(made, of_made);
    keep_operation(g, made, "a product of matrices");
}

void dnn_reduce(struct dnn_graph *g, cudnnReduceTensorOp_t mode, const struct dnn_tensor *x,
                const struct dnn_tensor *y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const descriptor how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    const struct attribute of_how[] = {
        {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode},
        {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute},
    };
    set_all(how, of_how);
    const descriptor ready = finalized(how, "a reduction");
    const descriptor made = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_tensor(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_tensor(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    const struct attribute of_made[] = {
        {CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ready}};
    set_all(made, of_made);
    keep_operation(g, made, "a reduction of a tensor");
}

void dnn_reshape(struct dnn_graph *g, const struct dnn_tensor *x, const struct dnn_tensor *y) {
    const descriptor made = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_tensor(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_tensor(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    keep_operation(g, made, "a reshape");
}

/* ---- plans ---- */

static descriptor graph_of(struct dnn_graph *g, cudnnHandle_t handle) {
    const descriptor made = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const struct attribute all[] = {
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operation_count,
         g->operations},
        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle},
    };
    set_all(made, all);
    return finalized(made, "the graph");
}

static descriptor heuristic_of(struct dnn_graph *g, descriptor whole) {
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const descriptor made = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const struct attribute all[] = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode},
    };
    set_all(made, all);
    return finalized(made, "its heuristic");
}

static descriptor plan_of(struct dnn_graph *g, cudnnHandle_t handle, descriptor choice,
                          cudnnStatus_t *status) {
    const descriptor made = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const struct attribute all[] = {
        {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle},
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &choice},
    };
    set_all(made, all);
    *status = dnn.finalize(made);
    return *status == CUDNN_STATUS_SUCCESS ? made : NULL;
}

static descriptor choose(struct dnn_graph *g, cudnnHandle_t handle) {
    enum { CHOICES = 8 };
    descriptor choices[CHOICES];
    int64_t found = 0;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    const descriptor heuristic = heuristic_of(g, graph_of(g, handle));
    for (descriptor &choice : choices)
        choice = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    check("its choices", dnn.get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, CHOICES, &found, choices));
    for (int64_t i = 0; i < found && i < CHOICES; ++i) {
        const descriptor plan = plan_of(g, handle, choices[i], &status);
        if (plan)
            return plan;
    }
    if (status != CUDNN_STATUS_SUCCESS)
        fail("the plan", status);
    probe_refuse(REFUSED_UNSUPPORTED, "cuDNN has no engine for this graph here");
}

static void make_pack(struct dnn_graph *g, void *workspace) {
    const descriptor made = make(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const struct attribute all[] = {
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->bound, g->ids},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->bound, g->at},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace},
    };
    set_all(made, all);
    g->pack = finalized(made, "the operands");
}

void dnn_plan(struct probe *p, struct dnn_graph *g) {
    int64_t bytes = 0, count = 0;
    g->plan = choose(g, handle_of(p));
    check("the workspace's size", dnn.get(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &count, &bytes));
    make_pack(g, bytes > 0 ? device_take((size_t)bytes) : NULL);
}

void dnn_run(struct probe *p, const struct dnn_graph *g) {
    check("execution", dnn.execute(handle_of(p), g->plan, g->pack));
}

void dnn_free(struct dnn_graph *g) {
    while (g->count > 0)
        (void)dnn.destroy(g->all[--g->count]);
    *g = {};
}

#else

void dnn_version(char text[DNN_TEXT]) {
    text[0] = '\0';
}

#endif
