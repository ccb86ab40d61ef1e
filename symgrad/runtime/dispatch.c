/* The call path: check the arguments, allocate the outputs, call the kernel, hand back the results.
 *
 * Dispatcher  one kernel for one signature; anything unexpected goes to a Python callable, the slow path.
 * CallFront   several dispatchers behind one callable object, the most recently used one first.
 *
 * A kernel is plain C, int kernel(const void *const *in, void *const *out, void *workspace); it answers 0, or a
 * positive code when a guard fails, in which case it has written nothing that is used.
 * dispatch_python.py says the same in Python, for systems where this file cannot be built.
 * dispatch_watch.c comes before in the same translation unit; dispatch_types.c goes on from here: construction,
 * the Python types, the module.
 */
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <alloca.h>
#include <stddef.h>
#include <stdint.h>

#define SMALL_WORKSPACE (16 * 1024)
#define SMALL_FRAME (8 * 1024)
#define CACHE_LINE 64
#define DEEPEST 64 /* nesting of arguments and results */
#define KEPT_WORKSPACES 8

typedef int (*kernel_fn)(const void *const *in, void *const *out, void *workspace);
typedef union { double d[2]; int64_t i; uint8_t b; char bytes[16]; } Value;

typedef enum { ARRAY, SCALAR, FLOAT, INT, BOOL, COMPLEX, STATIC, TUPLE, LIST, DICT } Kind;
static const char *const kind_names[] = {
    "array", "scalar", "float", "int", "bool", "complex", "static", "tuple", "list", "dict", NULL};
static const char *const output_names[] = {"array", "scalar", "pyfloat", "pyint", "pybool", "pycomplex", NULL};

/* One argument, one output, or one container; the items of a container follow it in the array of specs. */
typedef struct {
    Kind kind;
    int type_num, same_num; /* two dtype numbers may mean one type, as long and long long do */
    int nd;
    npy_intp *dims;
    PyArray_Descr *descr;
    PyObject *value; /* STATIC: what the argument must be; DICT: tuple of keys */
    Py_ssize_t items;
} Spec;

typedef struct {
    PyArrayObject *array;
    PyArray_Descr *descr;
    int nd;
    npy_intp *dims, *strides;
} Hidden;

typedef struct Workspace { struct Workspace *next; } Workspace;
typedef enum { SINGLE, FLAT, TEMPLATE, CALLABLE } Structure;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    kernel_fn kernel;
    size_t workspace_bytes;
    Spec *inputs, *outputs;
    Hidden *hidden;
    Watches watches;
    Py_ssize_t n_specs, n_args, n_leaves, n_hidden, n_outputs;
    Structure structure;
    PyObject *template, *slow, *keepalive, *name, *weakrefs;
    Workspace *free_list;
    int n_free, release_gil, hold_leaves, last_code;
    unsigned long long hits, misses;
} Dispatcher;

/* What one call needs; lives on the C stack, so that calls may nest and overlap. */
typedef struct {
    const void **in;
    void **out;
    PyObject **objects; /* one an output */
    Value *values, *results;
    PyObject **leaves;
    Py_ssize_t used;
} Frame;

typedef enum { DONE, NO_MATCH, GUARD_FAILED, FAILED } Outcome;

/* ---- arguments ---------------------------------------------------------------------------------------- */

static inline int array_fits(const Spec *spec, PyObject *object) {
    PyArrayObject *array = (PyArrayObject *)object;
    const int wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    if (!PyArray_CheckExact(object) || PyArray_NDIM(array) != spec->nd || (PyArray_FLAGS(array) & wanted) != wanted)
        return 0;
    PyArray_Descr *descr = PyArray_DESCR(array);
    if (descr != spec->descr &&
        ((descr->type_num != spec->type_num && descr->type_num != spec->same_num) || !PyArray_ISNBO(descr->byteorder)))
        return 0;
    const npy_intp *dims = PyArray_DIMS(array);
    for (int i = 0; i < spec->nd; i++)
        if (dims[i] != spec->dims[i]) return 0;
    return 1;
}

static int static_fits(const Spec *spec, PyObject *object) {
    if (object == spec->value) return 1;
    if (Py_TYPE(object) != Py_TYPE(spec->value)) return 0;
    if (!PyLong_CheckExact(object) && !PyUnicode_CheckExact(object)) return 0;
    return PyObject_RichCompareBool(object, spec->value, Py_EQ) == 1;
}

static inline int scalar_fits(const Spec *spec, PyObject *object, Value *value) {
    if (Py_TYPE(object) != spec->descr->typeobj) return 0;
    if (spec->type_num == NPY_DOUBLE)
        value->d[0] = PyArrayScalar_VAL(object, Double);
    else
        PyArray_ScalarAsCtype(object, value);
    return 1;
}

static const Spec *match(const Spec *spec, PyObject *object, Frame *frame);

static const Spec *match_items(const Spec *spec, PyObject *object, Frame *frame) {
    const Py_ssize_t n = spec->items;
    const Spec *next = spec + 1;
    if (spec->kind == DICT) {
        if (!PyDict_CheckExact(object) || PyDict_GET_SIZE(object) != n) return NULL;
        for (Py_ssize_t i = 0; i < n && next != NULL; i++) {
            PyObject *item = PyDict_GetItemWithError(object, PyTuple_GET_ITEM(spec->value, i));
            next = item == NULL ? NULL : match(next, item, frame);
        }
        return next;
    }
    if (spec->kind == TUPLE ? !PyTuple_CheckExact(object) || PyTuple_GET_SIZE(object) != n
                            : !PyList_CheckExact(object) || PyList_GET_SIZE(object) != n)
        return NULL;
    for (Py_ssize_t i = 0; i < n && next != NULL; i++)
        next = match(next, spec->kind == TUPLE ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), frame);
    return next;
}

/* Check one argument and note where its data are; return the spec after it, or NULL if it does not fit. */
static const Spec *match(const Spec *spec, PyObject *object, Frame *frame) {
    Value *value = &frame->values[frame->used];
    const void *data = value;
    switch (spec->kind) {
    case ARRAY:
        if (!array_fits(spec, object)) return NULL;
        data = PyArray_DATA((PyArrayObject *)object);
        break;
    case SCALAR:
        if (!scalar_fits(spec, object, value)) return NULL;
        break;
    case FLOAT:
        if (!PyFloat_CheckExact(object)) return NULL;
        value->d[0] = PyFloat_AS_DOUBLE(object);
        break;
    case INT: {
        int overflow = 0;
        if (!PyLong_CheckExact(object)) return NULL;
        value->i = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (overflow) return NULL;
        break;
    }
    case BOOL:
        if (!PyBool_Check(object)) return NULL;
        value->b = object == Py_True;
        break;
    case COMPLEX:
        if (!PyComplex_CheckExact(object)) return NULL;
        value->d[0] = PyComplex_RealAsDouble(object);
        value->d[1] = PyComplex_ImagAsDouble(object);
        break;
    case STATIC:
        return static_fits(spec, object) ? spec + 1 : NULL;
    default:
        return match_items(spec, object, frame);
    }
    if (frame->leaves != NULL) frame->leaves[frame->used] = object;
    frame->in[frame->used++] = data;
    return spec + 1;
}

static int hidden_fit(const Dispatcher *self, const void **in) {
    for (Py_ssize_t i = 0; i < self->n_hidden; i++) {
        const Hidden *hidden = &self->hidden[i];
        PyArrayObject *array = hidden->array;
        const size_t bytes = (size_t)hidden->nd * sizeof(npy_intp);
        if (PyArray_DESCR(array) != hidden->descr || PyArray_NDIM(array) != hidden->nd ||
            !PyArray_CHKFLAGS(array, NPY_ARRAY_ALIGNED) || memcmp(PyArray_DIMS(array), hidden->dims, bytes) != 0 ||
            memcmp(PyArray_STRIDES(array), hidden->strides, bytes) != 0)
            return 0;
        in[i] = PyArray_DATA(array);
    }
    return 1;
}

/* ---- results ------------------------------------------------------------------------------------------ */

static PyObject *scalar_result(const Spec *spec, const Value *value) {
    switch (spec->kind) {
    case FLOAT: return PyFloat_FromDouble(value->d[0]);
    case INT: return PyLong_FromLongLong(value->i);
    case BOOL: return PyBool_FromLong(value->b);
    case COMPLEX: return PyComplex_FromDoubles(value->d[0], value->d[1]);
    default: break;
    }
    if (spec->type_num != NPY_DOUBLE) return PyArray_Scalar((void *)value, spec->descr, NULL);
    PyObject *result = PyArrayScalar_New(Double);
    if (result != NULL) PyArrayScalar_ASSIGN(result, Double, value->d[0]);
    return result;
}

static PyObject *fill_template(PyObject *template, PyObject *const *objects) {
    if (PyLong_CheckExact(template)) return Py_NewRef(objects[PyLong_AsSsize_t(template)]);
    if (template == Py_None) return Py_NewRef(template);
    if (PyDict_CheckExact(template)) {
        PyObject *result = PyDict_New(), *key, *part;
        Py_ssize_t position = 0;
        while (result != NULL && PyDict_Next(template, &position, &key, &part)) {
            PyObject *filled = fill_template(part, objects);
            if (filled == NULL || PyDict_SetItem(result, key, filled) < 0) Py_CLEAR(result);
            Py_XDECREF(filled);
        }
        return result;
    }
    const int is_tuple = PyTuple_CheckExact(template);
    const Py_ssize_t n = is_tuple ? PyTuple_GET_SIZE(template) : PyList_GET_SIZE(template);
    PyObject *result = is_tuple ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; i < n && result != NULL; i++) {
        PyObject *part = is_tuple ? PyTuple_GET_ITEM(template, i) : PyList_GET_ITEM(template, i);
        PyObject *filled = fill_template(part, objects);
        if (filled == NULL)
            Py_CLEAR(result);
        else if (is_tuple)
            PyTuple_SET_ITEM(result, i, filled);
        else
            PyList_SET_ITEM(result, i, filled);
    }
    return result;
}

static PyObject *flat_tuple(PyObject *const *objects, Py_ssize_t n) {
    PyObject *result = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n && result != NULL; i++) PyTuple_SET_ITEM(result, i, Py_NewRef(objects[i]));
    return result;
}

static PyObject *build_result(Dispatcher *self, PyObject *const *objects) {
    switch (self->structure) {
    case SINGLE: return Py_NewRef(objects[0]);
    case FLAT: return flat_tuple(objects, self->n_outputs);
    case TEMPLATE: return fill_template(self->template, objects);
    default: break;
    }
    PyObject *flat = PyList_New(self->n_outputs), *result = NULL;
    if (flat != NULL) {
        for (Py_ssize_t i = 0; i < self->n_outputs; i++) PyList_SET_ITEM(flat, i, Py_NewRef(objects[i]));
        result = PyObject_CallOneArg(self->template, flat);
        Py_DECREF(flat);
    }
    return result;
}

/* ---- the kernel --------------------------------------------------------------------------------------- */

static inline void *aligned(void *memory) {
    return (void *)(((uintptr_t)memory + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
}

/* Large workspaces: taken and given back while the GIL is held, so that no two calls share one. */
static Workspace *take_workspace(Dispatcher *self) {
    Workspace *workspace = self->free_list;
    if (workspace != NULL) {
        self->free_list = workspace->next;
        self->n_free--;
        return workspace;
    }
    workspace = PyMem_RawMalloc(sizeof(Workspace) + CACHE_LINE + self->workspace_bytes);
    if (workspace == NULL) PyErr_NoMemory();
    return workspace;
}

static void give_workspace(Dispatcher *self, Workspace *workspace) {
    if (self->n_free >= KEPT_WORKSPACES) {
        PyMem_RawFree(workspace);
        return;
    }
    workspace->next = self->free_list;
    self->free_list = workspace;
    self->n_free++;
}

static int run_kernel(Dispatcher *self, Frame *frame, void *workspace) {
    int code;
    if (!self->release_gil) return self->kernel(frame->in, frame->out, workspace);
    /* Another thread may drop the last reference to an array that only a container holds. */
    const Py_ssize_t held = frame->leaves != NULL ? self->n_leaves : 0;
    for (Py_ssize_t i = 0; i < held; i++) Py_INCREF(frame->leaves[i]);
    Py_BEGIN_ALLOW_THREADS
    code = self->kernel(frame->in, frame->out, workspace);
    Py_END_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < held; i++) Py_DECREF(frame->leaves[i]);
    return code;
}

#if defined(__GNUC__)
__attribute__((noinline))
#endif
static int run_on_stack(Dispatcher *self, Frame *frame) {
    char memory[SMALL_WORKSPACE + CACHE_LINE];
    return run_kernel(self, frame, aligned(memory));
}

/* Return the kernel's code, or -1 with an exception set. */
static int run(Dispatcher *self, Frame *frame) {
    if (self->workspace_bytes == 0) return run_kernel(self, frame, NULL);
    if (self->workspace_bytes <= SMALL_WORKSPACE) return run_on_stack(self, frame);
    Workspace *workspace = take_workspace(self);
    if (workspace == NULL) return -1;
    const int code = run_kernel(self, frame, aligned(workspace + 1));
    give_workspace(self, workspace);
    return code;
}

static Outcome call_in_frame(Dispatcher *self, PyObject *const *args, Frame *frame, PyObject **result) {
    const Spec *spec = self->inputs;
    for (Py_ssize_t i = 0; i < self->n_args; i++) {
        spec = match(spec, args[i], frame);
        if (spec == NULL) return PyErr_Occurred() ? FAILED : NO_MATCH;
    }
    if (!hidden_fit(self, frame->in + self->n_leaves)) return NO_MATCH;
    Py_ssize_t made = 0;
    Outcome outcome = FAILED;
    for (Py_ssize_t i = 0; i < self->n_outputs; i++) {
        Spec *output = &self->outputs[i];
        frame->objects[i] = NULL;
        made = i + 1;
        if (output->kind == ARRAY) {
            frame->objects[i] = PyArray_SimpleNew(output->nd, output->dims, output->type_num);
            if (frame->objects[i] == NULL) goto end;
            frame->out[i] = PyArray_DATA((PyArrayObject *)frame->objects[i]);
        } else {
            frame->out[i] = &frame->results[i];
        }
    }
    const int code = run(self, frame);
    if (code != 0) {
        if (PyErr_Occurred()) goto end;
        self->last_code = code;
        outcome = GUARD_FAILED;
        goto end;
    }
    for (Py_ssize_t i = 0; i < self->n_outputs; i++) {
        if (frame->objects[i] != NULL) continue;
        frame->objects[i] = scalar_result(&self->outputs[i], &frame->results[i]);
        if (frame->objects[i] == NULL) goto end;
    }
    self->hits++;
    *result = build_result(self, frame->objects);
    outcome = *result == NULL ? FAILED : DONE;
end:
    for (Py_ssize_t i = 0; i < made; i++) Py_XDECREF(frame->objects[i]);
    return outcome;
}

static Outcome try_call(Dispatcher *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                        PyObject **result) {
    if (nargs != self->n_args || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0)) return NO_MATCH;
    const int hold = watches_hold(&self->watches);
    if (hold != 1) return hold == 0 ? NO_MATCH : FAILED;
    const size_t pointers = (size_t)(2 * self->n_leaves + self->n_hidden + 2 * self->n_outputs);
    /* A leaf more than there are, because match() looks at the next free value before it knows the kind. */
    const size_t values = (size_t)(self->n_leaves + 1 + self->n_outputs);
    const size_t bytes = values * sizeof(Value) + pointers * sizeof(void *);
    char *memory = bytes <= SMALL_FRAME ? alloca(bytes) : PyMem_RawMalloc(bytes);
    if (memory == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    Frame frame;
    frame.values = (Value *)memory;
    frame.results = frame.values + self->n_leaves + 1;
    frame.in = (const void **)(frame.results + self->n_outputs);
    frame.out = (void **)(frame.in + self->n_leaves + self->n_hidden);
    frame.objects = (PyObject **)(frame.out + self->n_outputs);
    frame.leaves = self->hold_leaves ? frame.objects + self->n_outputs : NULL;
    frame.used = 0;
    const Outcome outcome = call_in_frame(self, args, &frame, result);
    if (bytes > SMALL_FRAME) PyMem_RawFree(memory);
    return outcome;
}

static PyObject *slow_call(PyObject *slow, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (slow == NULL) {
        PyErr_SetString(PyExc_TypeError, "this object was never initialised");
        return NULL;
    }
    /* The caller's spare slot before the arguments is not passed on: slow may be a bound method and use it. */
    return PyObject_Vectorcall(slow, args, PyVectorcall_NARGS(nargsf), kwnames);
}

static PyObject *dispatcher_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Dispatcher *self = (Dispatcher *)callable;
    PyObject *result = NULL;
    const Outcome outcome = try_call(self, args, PyVectorcall_NARGS(nargsf), kwnames, &result);
    if (outcome == DONE || outcome == FAILED) return result;
    self->misses++;
    return slow_call(self->slow, args, nargsf, kwnames);
}
