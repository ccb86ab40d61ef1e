/* Continues dispatch.c: how dispatchers are made, and the Python types. */

/* ---- construction ------------------------------------------------------------------------------------- */

static int kind_of(PyObject *name, const char *const *names) {
    if (PyUnicode_Check(name))
        for (int i = 0; names[i] != NULL; i++)
            if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return i;
    PyErr_Format(PyExc_ValueError, "unknown kind %R", name);
    return -1;
}

static npy_intp *copy_sizes(const npy_intp *sizes, int n) {
    npy_intp *copy = PyMem_Malloc((size_t)(n + 1) * sizeof(npy_intp));
    if (copy == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (n > 0) memcpy(copy, sizes, (size_t)n * sizeof(npy_intp));
    return copy;
}

static int same_type(int type_num) {
    if (sizeof(long) == sizeof(long long)) switch (type_num) {
        case NPY_LONG: return NPY_LONGLONG;
        case NPY_LONGLONG: return NPY_LONG;
        case NPY_ULONG: return NPY_ULONGLONG;
        case NPY_ULONGLONG: return NPY_ULONG;
        default: break;
        }
    return type_num;
}

/* Read the dtype and shape of a spec. */
static int read_type(Spec *spec, PyObject *dtype, PyObject *shape) {
    PyArray_Dims dims = {NULL, 0};
    if (!PyArray_DescrConverter(dtype, &spec->descr)) return -1;
    spec->type_num = spec->descr->type_num;
    spec->same_num = same_type(spec->type_num);
    if (!(PyTypeNum_ISNUMBER(spec->type_num) || PyTypeNum_ISBOOL(spec->type_num) || spec->type_num == NPY_HALF) ||
        !PyArray_ISNBO(spec->descr->byteorder) || spec->type_num == NPY_CLONGDOUBLE) {
        PyErr_Format(PyExc_TypeError, "kernels take no arrays of dtype %R", spec->descr);
        return -1;
    }
    if (!PyArray_IntpConverter(shape, &dims)) return -1;
    spec->nd = dims.len;
    spec->dims = copy_sizes(dims.ptr, dims.len);
    PyDimMem_FREE(dims.ptr);
    return spec->dims == NULL ? -1 : 0;
}

static Py_ssize_t count_specs(PyObject *specs, int depth) {
    if (depth > DEEPEST || !PyTuple_Check(specs)) {
        PyErr_SetString(PyExc_TypeError, depth > DEEPEST ? "arguments are nested too deeply" : "specs must be a tuple");
        return -1;
    }
    Py_ssize_t total = PyTuple_GET_SIZE(specs);
    for (Py_ssize_t i = 0, n = total; i < n; i++) {
        PyObject *spec = PyTuple_GET_ITEM(specs, i);
        if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 5) {
            PyErr_SetString(PyExc_TypeError, "a spec is a tuple (kind, dtype, shape, value, items)");
            return -1;
        }
        const Py_ssize_t inner = count_specs(PyTuple_GET_ITEM(spec, 4), depth + 1);
        if (inner < 0) return -1;
        total += inner;
    }
    return total;
}

static int read_dict_keys(Spec *spec) {
    if (!PyTuple_CheckExact(spec->value) || PyTuple_GET_SIZE(spec->value) != spec->items) {
        PyErr_SetString(PyExc_TypeError, "a dict spec needs a tuple with one key an item");
        return -1;
    }
    for (Py_ssize_t i = 0; i < spec->items; i++) {
        PyObject *key = PyTuple_GET_ITEM(spec->value, i);
        if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key)) continue;
        PyErr_SetString(PyExc_TypeError, "keys of a dict spec are strings or integers");
        return -1;
    }
    return 0;
}

/* Write the specs and, behind each, those of its items; return the place after the last, or NULL. */
static Spec *read_inputs(Dispatcher *self, Spec *spec, PyObject *specs) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(specs) && spec != NULL; i++) {
        PyObject *source = PyTuple_GET_ITEM(specs, i), *items = PyTuple_GET_ITEM(source, 4);
        const int kind = kind_of(PyTuple_GET_ITEM(source, 0), kind_names);
        if (kind < 0) return NULL;
        spec->kind = (Kind)kind;
        spec->items = PyTuple_GET_SIZE(items);
        spec->value = Py_NewRef(PyTuple_GET_ITEM(source, 3));
        if (kind <= SCALAR && read_type(spec, PyTuple_GET_ITEM(source, 1), PyTuple_GET_ITEM(source, 2)) < 0)
            return NULL;
        if (kind == DICT && read_dict_keys(spec) < 0) return NULL;
        if (kind < TUPLE && spec->items != 0) {
            PyErr_SetString(PyExc_TypeError, "only tuple, list and dict specs have items");
            return NULL;
        }
        self->n_leaves += kind < STATIC;
        self->hold_leaves |= kind >= TUPLE;
        spec = read_inputs(self, spec + 1, items);
    }
    return spec;
}

static int read_outputs(Dispatcher *self, PyObject *specs) {
    for (Py_ssize_t i = 0; i < self->n_outputs; i++) {
        PyObject *source = PyTuple_GET_ITEM(specs, i);
        if (!PyTuple_Check(source) || PyTuple_GET_SIZE(source) != 3) {
            PyErr_SetString(PyExc_TypeError, "an output spec is a tuple (kind, dtype, shape)");
            return -1;
        }
        const int kind = kind_of(PyTuple_GET_ITEM(source, 0), output_names);
        if (kind < 0) return -1;
        self->outputs[i].kind = (Kind)kind;
        if (kind <= SCALAR &&
            read_type(&self->outputs[i], PyTuple_GET_ITEM(source, 1), PyTuple_GET_ITEM(source, 2)) < 0)
            return -1;
    }
    return 0;
}

static int read_hidden(Dispatcher *self, PyObject *arrays) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arrays); i++) {
        Hidden *hidden = &self->hidden[i];
        PyArrayObject *array = (PyArrayObject *)PyTuple_GET_ITEM(arrays, i);
        if (!PyArray_Check(array)) {
            PyErr_SetString(PyExc_TypeError, "hidden inputs are arrays");
            return -1;
        }
        self->n_hidden = i + 1;
        hidden->array = (PyArrayObject *)Py_NewRef((PyObject *)array);
        hidden->descr = (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(array));
        hidden->nd = PyArray_NDIM(array);
        hidden->dims = copy_sizes(PyArray_DIMS(array), hidden->nd);
        hidden->strides = copy_sizes(PyArray_STRIDES(array), hidden->nd);
        if (hidden->dims == NULL || hidden->strides == NULL) return -1;
    }
    return 0;
}

static int check_template(const Dispatcher *self, PyObject *template, int depth) {
    if (depth > DEEPEST) {
        PyErr_SetString(PyExc_TypeError, "results are nested too deeply");
        return -1;
    }
    if (template == Py_None) return 0;
    if (PyLong_CheckExact(template)) {
        const Py_ssize_t index = PyLong_AsSsize_t(template);
        if (index == -1 && PyErr_Occurred()) return -1;
        if (index >= 0 && index < self->n_outputs) return 0;
        PyErr_Format(PyExc_ValueError, "there is no output %zd", index);
        return -1;
    }
    if (PyDict_CheckExact(template)) {
        PyObject *key, *part;
        Py_ssize_t position = 0;
        while (PyDict_Next(template, &position, &key, &part))
            if (check_template(self, part, depth + 1) < 0) return -1;
        return 0;
    }
    if (!PyTuple_CheckExact(template) && !PyList_CheckExact(template)) {
        PyErr_Format(PyExc_TypeError, "a structure holds output numbers, tuple, list, dict and None, not %R", template);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(template); i++)
        if (check_template(self, PySequence_Fast_GET_ITEM(template, i), depth + 1) < 0) return -1;
    return 0;
}

static int read_structure(Dispatcher *self, PyObject *structure) {
    self->template = Py_NewRef(structure);
    if (PyUnicode_Check(structure)) {
        const int single = PyUnicode_CompareWithASCIIString(structure, "single") == 0;
        if (!single && PyUnicode_CompareWithASCIIString(structure, "tuple") != 0)
            PyErr_Format(PyExc_ValueError, "unknown structure %R", structure);
        else if (single && self->n_outputs != 1)
            PyErr_SetString(PyExc_ValueError, "structure 'single' needs exactly one output");
        self->structure = single ? SINGLE : FLAT;
        return PyErr_Occurred() ? -1 : 0;
    }
    if (PyCallable_Check(structure)) {
        self->structure = CALLABLE;
        return 0;
    }
    self->structure = TEMPLATE;
    return check_template(self, structure, 0);
}

static int read_all(Dispatcher *self, PyObject *inputs, PyObject *hidden, PyObject *outputs, PyObject *structure) {
    self->n_specs = count_specs(inputs, 0);
    if (self->n_specs < 0) {
        self->n_specs = 0;
        return -1;
    }
    self->n_args = PyTuple_GET_SIZE(inputs);
    self->n_outputs = PyTuple_GET_SIZE(outputs);
    self->inputs = PyMem_Calloc((size_t)self->n_specs + 1, sizeof(Spec));
    self->outputs = PyMem_Calloc((size_t)self->n_outputs + 1, sizeof(Spec));
    self->hidden = PyMem_Calloc((size_t)PyTuple_GET_SIZE(hidden) + 1, sizeof(Hidden));
    if (self->inputs == NULL || self->outputs == NULL || self->hidden == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (read_inputs(self, self->inputs, inputs) == NULL || read_outputs(self, outputs) < 0) return -1;
    return read_hidden(self, hidden) < 0 ? -1 : read_structure(self, structure);
}

static PyObject *dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"kernel", "workspace_bytes", "inputs", "hidden", "outputs", "structure", "slow",
                            "watches", "release_gil", "keepalive", "name", NULL};
    PyObject *address, *inputs, *hidden, *outputs, *structure, *slow, *watches = NULL, *keepalive = Py_None,
             *name = NULL;
    Py_ssize_t workspace_bytes;
    int release_gil = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO!O!O!OO|$OpOU:Dispatcher", names, &PyLong_Type, &address,
                                     &workspace_bytes, &PyTuple_Type, &inputs, &PyTuple_Type, &hidden, &PyTuple_Type,
                                     &outputs, &structure, &slow, &watches, &release_gil, &keepalive, &name))
        return NULL;
    kernel_fn kernel = (kernel_fn)(uintptr_t)PyLong_AsVoidPtr(address);
    if (kernel == NULL || workspace_bytes < 0 || !PyCallable_Check(slow)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a dispatcher needs a kernel, a workspace size >= 0 and a callable slow");
        return NULL;
    }
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->vectorcall = dispatcher_call;
    self->kernel = kernel;
    self->workspace_bytes = (size_t)workspace_bytes;
    self->release_gil = release_gil;
    self->slow = Py_NewRef(slow);
    self->keepalive = Py_NewRef(keepalive);
    self->name = name != NULL ? Py_NewRef(name) : PyUnicode_FromString("kernel");
    if (self->name == NULL || read_all(self, inputs, hidden, outputs, structure) < 0 ||
        (watches != NULL && read_watches(&self->watches, watches) < 0))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < self->n_hidden; i++) Py_VISIT(self->hidden[i].array);
    for (Py_ssize_t i = 0; self->inputs != NULL && i < self->n_specs; i++) Py_VISIT(self->inputs[i].value);
    Py_VISIT(self->template);
    Py_VISIT(self->slow);
    Py_VISIT(self->keepalive);
    return visit_watches(&self->watches, visit, arg);
}

/* Only what can close a cycle: an object being collected may still be called, by a finaliser. */
static int dispatcher_clear(Dispatcher *self) {
    drop_watches(&self->watches);
    Py_CLEAR(self->slow);
    return 0;
}

static void free_specs(Spec *specs, Py_ssize_t n) {
    for (Py_ssize_t i = 0; specs != NULL && i < n; i++) {
        Py_XDECREF(specs[i].descr);
        Py_XDECREF(specs[i].value);
        PyMem_Free(specs[i].dims);
    }
    PyMem_Free(specs);
}

static void dispatcher_dealloc(Dispatcher *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    dispatcher_clear(self);
    free_specs(self->inputs, self->n_specs);
    free_specs(self->outputs, self->n_outputs);
    for (Py_ssize_t i = 0; i < self->n_hidden; i++) {
        Py_XDECREF(self->hidden[i].array);
        Py_XDECREF(self->hidden[i].descr);
        PyMem_Free(self->hidden[i].dims);
        PyMem_Free(self->hidden[i].strides);
    }
    PyMem_Free(self->hidden);
    while (self->free_list != NULL) {
        Workspace *next = self->free_list->next;
        PyMem_RawFree(self->free_list);
        self->free_list = next;
    }
    Py_XDECREF(self->template);
    Py_XDECREF(self->keepalive);
    Py_XDECREF(self->name);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *dispatcher_repr(Dispatcher *self) { return PyUnicode_FromFormat("<Dispatcher %U>", self->name); }

#define COUNTER(type, field)                                                        \
    static PyObject *type##_##field(PyObject *self, void *unused) {                 \
        (void)unused;                                                               \
        return PyLong_FromUnsignedLongLong((unsigned long long)((type *)self)->field); \
    }
COUNTER(Dispatcher, hits)
COUNTER(Dispatcher, misses)
COUNTER(Dispatcher, last_code)

static PyObject *dispatcher_slow(PyObject *self, void *unused) {
    (void)unused;
    PyObject *slow = ((Dispatcher *)self)->slow;
    return Py_NewRef(slow != NULL ? slow : Py_None);
}

static PyGetSetDef dispatcher_getset[] = {
    {"hits", Dispatcher_hits, NULL, "Calls that the kernel answered.", NULL},
    {"misses", Dispatcher_misses, NULL, "Calls of this object that went to the slow path.", NULL},
    {"last_code", Dispatcher_last_code, NULL, "What the kernel answered when a guard last failed; 0 before.", NULL},
    {"slow", dispatcher_slow, NULL, "The slow path.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject Dispatcher_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "symgrad.runtime._dispatch.Dispatcher",
    .tp_doc = "One kernel, called after the arguments were checked; anything unexpected goes to the slow path.",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = dispatcher_new,
    .tp_dealloc = (destructor)dispatcher_dealloc,
    .tp_traverse = (traverseproc)dispatcher_traverse,
    .tp_clear = (inquiry)dispatcher_clear,
    .tp_repr = (reprfunc)dispatcher_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
    .tp_weaklistoffset = offsetof(Dispatcher, weakrefs),
    .tp_getset = dispatcher_getset,
};

/* ---- CallFront ---------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Dispatcher **entries; /* most recently used first */
    Py_ssize_t n_entries;
    PyObject *slow, *weakrefs;
    unsigned long long misses;
} CallFront;

static void move_to_front(CallFront *self, Dispatcher *entry, Py_ssize_t i) {
    /* The call may have changed the list. */
    if (i == 0 || i >= self->n_entries || self->entries[i] != entry) return;
    memmove(self->entries + 1, self->entries, (size_t)i * sizeof(*self->entries));
    self->entries[0] = entry;
}

static PyObject *front_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    CallFront *self = (CallFront *)callable;
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        PyObject *result = NULL;
        Dispatcher *entry = (Dispatcher *)Py_NewRef((PyObject *)self->entries[i]);
        const Outcome outcome = try_call(entry, args, PyVectorcall_NARGS(nargsf), kwnames, &result);
        if (outcome == NO_MATCH) {
            Py_DECREF(entry);
            continue;
        }
        move_to_front(self, entry, i);
        if (outcome == GUARD_FAILED) {
            entry->misses++;
            self->misses++;
            result = slow_call(entry->slow, args, nargsf, kwnames);
        }
        Py_DECREF(entry);
        return result;
    }
    self->misses++;
    return slow_call(self->slow, args, nargsf, kwnames);
}

static PyObject *front_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    CallFront *self = (CallFront *)type->tp_alloc(type, 0);
    if (self != NULL) self->vectorcall = front_call;
    return (PyObject *)self;
}

static int front_set_slow(PyObject *self, PyObject *slow, void *unused) {
    (void)unused;
    if (slow == NULL || !PyCallable_Check(slow)) {
        PyErr_SetString(PyExc_TypeError, "slow must be callable");
        return -1;
    }
    Py_XSETREF(((CallFront *)self)->slow, Py_NewRef(slow));
    return 0;
}

static int front_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slow", NULL};
    PyObject *slow;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:CallFront", names, &slow)) return -1;
    return front_set_slow(self, slow, NULL);
}

static PyObject *front_install(CallFront *self, PyObject *entry) {
    if (!PyObject_TypeCheck(entry, &Dispatcher_Type)) {
        PyErr_SetString(PyExc_TypeError, "only a Dispatcher can be installed");
        return NULL;
    }
    const size_t bytes = (size_t)(self->n_entries + 1) * sizeof(*self->entries);
    Dispatcher **entries = PyMem_Realloc(self->entries, bytes);
    if (entries == NULL) return PyErr_NoMemory();
    self->entries = entries;
    memmove(entries + 1, entries, (size_t)self->n_entries * sizeof(*entries));
    entries[0] = (Dispatcher *)Py_NewRef(entry);
    self->n_entries++;
    Py_RETURN_NONE;
}

static PyObject *front_remove(CallFront *self, PyObject *entry) {
    for (Py_ssize_t i = 0; i < self->n_entries; i++) {
        if ((PyObject *)self->entries[i] != entry) continue;
        self->n_entries--;
        memmove(self->entries + i, self->entries + i + 1, (size_t)(self->n_entries - i) * sizeof(*self->entries));
        Py_DECREF(entry);
        Py_RETURN_NONE;
    }
    PyErr_SetString(PyExc_ValueError, "this dispatcher is not installed");
    return NULL;
}

static PyObject *front_entries(PyObject *self, void *unused) {
    (void)unused;
    return flat_tuple((PyObject *const *)((CallFront *)self)->entries, ((CallFront *)self)->n_entries);
}

static PyObject *front_slow(PyObject *self, void *unused) {
    (void)unused;
    PyObject *slow = ((CallFront *)self)->slow;
    return Py_NewRef(slow != NULL ? slow : Py_None);
}

/* Before Python 3.12 subclasses written in Python lose the fast call, although they inherit what it needs. */
static PyObject *front_init_subclass(PyObject *cls, PyObject *unused) {
    (void)unused;
#if PY_VERSION_HEX < 0x030C0000
    PyTypeObject *type = (PyTypeObject *)cls;
    if (type->tp_call == PyVectorcall_Call && type->tp_vectorcall_offset == offsetof(CallFront, vectorcall))
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#else
    (void)cls;
#endif
    Py_RETURN_NONE;
}

static PyObject *front_get(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)owner;
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static int front_traverse(CallFront *self, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < self->n_entries; i++) Py_VISIT(self->entries[i]);
    Py_VISIT(self->slow);
    return 0;
}

static void drop_entries(CallFront *self) {
    while (self->n_entries > 0) {
        Dispatcher *last = self->entries[--self->n_entries];
        Py_DECREF(last);
    }
}

static int front_clear(CallFront *self) {
    drop_entries(self);
    Py_CLEAR(self->slow);
    return 0;
}

static PyObject *front_drop_all(CallFront *self, PyObject *unused) {
    (void)unused;
    drop_entries(self);
    Py_RETURN_NONE;
}

static void front_dealloc(CallFront *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    front_clear(self);
    PyMem_Free(self->entries);
    Py_TYPE(self)->tp_free(self);
}

COUNTER(CallFront, misses)

static PyMethodDef front_methods[] = {
    {"install", (PyCFunction)front_install, METH_O, "Put a dispatcher in front of the others."},
    {"remove", (PyCFunction)front_remove, METH_O, "Take a dispatcher out."},
    {"clear", (PyCFunction)front_drop_all, METH_NOARGS, "Take all dispatchers out."},
    {"__init_subclass__", front_init_subclass, METH_NOARGS | METH_CLASS, "Give a subclass the fast call."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef front_getset[] = {
    {"entries", front_entries, NULL, "The dispatchers, most recently used first.", NULL},
    {"slow", front_slow, front_set_slow, "What is called if no dispatcher takes the arguments.", NULL},
    {"misses", CallFront_misses, NULL, "Calls that went to a slow path.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject CallFront_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "symgrad.runtime._dispatch.CallFront",
    .tp_doc = "Several dispatchers behind one callable; if none takes the arguments, slow(*args, **kwargs) is called.",
    .tp_basicsize = sizeof(CallFront),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = front_new,
    .tp_init = front_init,
    .tp_dealloc = (destructor)front_dealloc,
    .tp_traverse = (traverseproc)front_traverse,
    .tp_clear = (inquiry)front_clear,
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = front_get,
    .tp_vectorcall_offset = offsetof(CallFront, vectorcall),
    .tp_weaklistoffset = offsetof(CallFront, weakrefs),
    .tp_methods = front_methods,
    .tp_getset = front_getset,
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_dispatch", "The compiled call path.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__dispatch(void) {
    import_array();
    if (find_watch_types() < 0) return NULL;
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL || PyModule_AddType(module, &Dispatcher_Type) < 0 ||
        PyModule_AddType(module, &CallFront_Type) < 0)
        Py_CLEAR(module);
    return module;
}
