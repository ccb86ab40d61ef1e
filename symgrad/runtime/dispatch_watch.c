/* Watches: what a kernel was made to rely on in captured Python objects, compared at every call.
 *
 * The first part of the translation unit that dispatch.c and dispatch_types.c continue; specs.py describes the
 * kinds, watch_python.py says the same in Python. Comparing calls no method written in Python, except that a
 * dict may ask its keys for __hash__ and __eq__.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define FARTHEST 1024 /* entries of a dict that are looked through for the place of a key */
#define NOWHERE PY_SSIZE_T_MAX

typedef enum { WATCH_ITEM, WATCH_CELL, WATCH_SEQUENCE, WATCH_MAPPING, WATCH_SLOT, WATCH_KINDS } WatchKind;
static const char *const watch_names[WATCH_KINDS] = {"Item", "Cell", "Sequence", "Mapping", "Slot"};
static const Py_ssize_t watch_sizes[WATCH_KINDS] = {3, 2, 2, 3, 3};
static PyObject *watch_types[WATCH_KINDS], *missing; /* of symgrad.runtime.specs */

typedef struct {
    WatchKind kind;
    PyObject *container;
    PyObject *key;      /* ITEM: the key; MAPPING: tuple of keys; SLOT: the descriptor */
    PyObject *expected; /* NULL if nothing may be there; SEQUENCE and MAPPING: tuple of values */
    Py_ssize_t place;   /* ITEM: where the dict had the key at construction */
} Watch;

typedef struct {
    Watch *all;
    Py_ssize_t n;
    int lost; /* cleared by the garbage collector: what was expected is not known any more */
} Watches;

/* ---- comparing ---------------------------------------------------------------------------------------- */

/* 1 if they are the same, 0 if not, -1 with an exception. Nothing here runs Python code, so that borrowed
 * references will do. PyObject_RichCompare would answer with an exception where the stack is almost full. */
static int same_value(PyObject *value, PyObject *expected) {
    if (value == expected) return 1;
    if (value == NULL || expected == NULL || Py_TYPE(value) != Py_TYPE(expected)) return 0;
    if (PyFloat_CheckExact(value)) {
        const double a = PyFloat_AS_DOUBLE(value), b = PyFloat_AS_DOUBLE(expected);
        return memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyComplex_CheckExact(value)) {
        const double a[2] = {PyComplex_RealAsDouble(value), PyComplex_ImagAsDouble(value)};
        const double b[2] = {PyComplex_RealAsDouble(expected), PyComplex_ImagAsDouble(expected)};
        return memcmp(a, b, sizeof a) == 0;
    }
    if (!PyLong_CheckExact(value) && !PyUnicode_CheckExact(value) && !PyBytes_CheckExact(value)) return 0;
    PyObject *answer = Py_TYPE(value)->tp_richcompare(value, expected, Py_EQ);
    if (answer == NULL) return -1;
    const int same = answer == Py_True;
    Py_DECREF(answer);
    return same;
}

/* Looking where the key is likely to be takes half the time of a lookup. PyDict_Next moves `place` on; it gives
 * an entry of the dict or nothing, whatever became of the dict since the place was known. */
static int item_same(PyObject *mapping, PyObject *key, PyObject *expected, Py_ssize_t *place) {
    PyObject *found, *value;
    if (PyDict_Next(mapping, place, &found, &value) && found == key) return same_value(value, expected);
    value = PyDict_GetItemWithError(mapping, key);
    if (value == NULL && PyErr_Occurred()) return -1;
    return same_value(value, expected);
}

static int sequence_same(PyObject *sequence, PyObject *items) {
    const int is_list = PyList_Check(sequence);
    const Py_ssize_t n = is_list ? PyList_GET_SIZE(sequence) : PyTuple_GET_SIZE(sequence);
    int same = n == PyTuple_GET_SIZE(items);
    for (Py_ssize_t i = 0; i < n && same == 1; i++) {
        PyObject *item = is_list ? PyList_GET_ITEM(sequence, i) : PyTuple_GET_ITEM(sequence, i);
        same = same_value(item, PyTuple_GET_ITEM(items, i));
    }
    return same;
}

static int mapping_same(PyObject *mapping, PyObject *keys, PyObject *values) {
    const Py_ssize_t n = PyTuple_GET_SIZE(keys);
    int same = PyDict_GET_SIZE(mapping) == n;
    for (Py_ssize_t i = 0, place = 0; i < n && same == 1; i++)
        same = item_same(mapping, PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(values, i), &place);
    return same;
}

static int slot_same(PyObject *object, PyObject *descriptor, PyObject *expected) {
    /* Whoever assigns to __class__ may take the slot away. */
    if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return 0;
    PyObject *value = Py_TYPE(descriptor)->tp_descr_get(descriptor, object, (PyObject *)Py_TYPE(object));
    if (value == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        PyErr_Clear(); /* an empty slot says so in this way */
    }
    const int same = same_value(value, expected);
    Py_XDECREF(value);
    return same;
}

static int watch_same(const Watch *watch) {
    Py_ssize_t place = watch->place;
    switch (watch->kind) {
    case WATCH_ITEM: return item_same(watch->container, watch->key, watch->expected, &place);
    case WATCH_CELL: return same_value(PyCell_GET(watch->container), watch->expected);
    case WATCH_SEQUENCE: return sequence_same(watch->container, watch->expected);
    case WATCH_MAPPING: return mapping_same(watch->container, watch->key, watch->expected);
    default: return slot_same(watch->container, watch->key, watch->expected);
    }
}

/* 1 if all hold, 0 if one does not, -1 with the exception of a key's __hash__ or __eq__. */
static inline int watches_hold(const Watches *watches) {
    int same = !watches->lost;
    for (Py_ssize_t i = 0; i < watches->n && same == 1; i++) same = watch_same(&watches->all[i]);
    return same;
}

/* ---- construction ------------------------------------------------------------------------------------- */

static int find_watch_types(void) {
    PyObject *specs = PyImport_ImportModule("symgrad.runtime.specs");
    int failed = specs == NULL;
    for (int kind = 0; kind < WATCH_KINDS && !failed; kind++) {
        Py_XSETREF(watch_types[kind], PyObject_GetAttrString(specs, watch_names[kind]));
        failed = watch_types[kind] == NULL;
    }
    if (!failed) Py_XSETREF(missing, PyObject_GetAttrString(specs, "MISSING"));
    Py_XDECREF(specs);
    return failed || missing == NULL ? -1 : 0;
}

static int take_referent(PyObject *object, void *place) {
    *(PyObject **)place = object;
    return 0;
}

/* The dict behind vars(cls), which is its only referent; anything else as it is. */
static PyObject *behind_proxy(PyObject *mapping) {
    PyObject *found = mapping;
    if (Py_IS_TYPE(mapping, &PyDictProxy_Type)) PyDictProxy_Type.tp_traverse(mapping, take_referent, &found);
    return found;
}

/* Only for keys whose equality nobody can redefine, because there identity decides. */
static Py_ssize_t place_of(PyObject *mapping, PyObject *key) {
    PyObject *found, *value;
    Py_ssize_t place = 0, next = 0;
    if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return NOWHERE;
    for (int i = 0; i < FARTHEST && PyDict_Next(mapping, &next, &found, &value); i++) {
        if (found == key) return place;
        place = next;
    }
    return NOWHERE;
}

static int check_keys(PyObject *keys, PyObject *values) {
    if (!PyTuple_CheckExact(keys) || !PyTuple_CheckExact(values) ||
        PyTuple_GET_SIZE(keys) != PyTuple_GET_SIZE(values)) {
        PyErr_SetString(PyExc_TypeError, "a Mapping watch needs two tuples, keys and values, of the same length");
        return -1;
    }
    PyObject *distinct = PySet_New(keys);
    if (distinct == NULL) return -1;
    const int failed = PySet_GET_SIZE(distinct) != PyTuple_GET_SIZE(keys);
    if (failed) PyErr_SetString(PyExc_ValueError, "a Mapping watch needs distinct keys");
    Py_DECREF(distinct);
    return failed ? -1 : 0;
}

static int check_slot(PyObject *object, PyObject *descriptor) {
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type) && !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type))
        PyErr_SetString(PyExc_TypeError, "a Slot watch needs a member or getset descriptor");
    else if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor)))
        PyErr_SetString(PyExc_TypeError, "the descriptor of a Slot watch belongs to another type");
    return PyErr_Occurred() ? -1 : 0;
}

static int check_watch(Watch *watch) {
    PyObject *container = watch->container;
    switch (watch->kind) {
    case WATCH_ITEM:
        if (PyDict_Check(container)) {
            watch->place = place_of(container, watch->key);
            return PyObject_Hash(watch->key) == -1 ? -1 : 0;
        }
        PyErr_SetString(PyExc_TypeError, "an Item watch needs a dict");
        return -1;
    case WATCH_CELL:
        if (PyCell_Check(container)) return 0;
        PyErr_SetString(PyExc_TypeError, "a Cell watch needs a closure cell");
        return -1;
    case WATCH_SEQUENCE:
        if ((PyList_Check(container) || PyTuple_Check(container)) && PyTuple_CheckExact(watch->expected)) return 0;
        PyErr_SetString(PyExc_TypeError, "a Sequence watch needs a list or tuple, and a tuple of items");
        return -1;
    case WATCH_MAPPING:
        if (PyDict_Check(container)) return check_keys(watch->key, watch->expected);
        PyErr_SetString(PyExc_TypeError, "a Mapping watch needs a dict");
        return -1;
    default: return check_slot(container, watch->key);
    }
}

static int read_watch(Watch *watch, PyObject *source) {
    int kind = 0;
    while (kind < WATCH_KINDS && (PyObject *)Py_TYPE(source) != watch_types[kind]) kind++;
    if (kind == WATCH_KINDS || PyTuple_GET_SIZE(source) != watch_sizes[kind]) {
        PyErr_Format(PyExc_TypeError, "a watch is an Item, Cell, Sequence, Mapping or Slot, not %R", source);
        return -1;
    }
    PyObject *container = PyTuple_GET_ITEM(source, 0), *expected = PyTuple_GET_ITEM(source, watch_sizes[kind] - 1);
    const int in_dict = kind == WATCH_ITEM || kind == WATCH_MAPPING;
    const int lists_values = kind == WATCH_SEQUENCE || kind == WATCH_MAPPING;
    watch->kind = (WatchKind)kind;
    watch->container = Py_NewRef(in_dict ? behind_proxy(container) : container);
    watch->key = watch_sizes[kind] == 3 ? Py_NewRef(PyTuple_GET_ITEM(source, 1)) : NULL;
    watch->expected = expected == missing && !lists_values ? NULL : Py_NewRef(expected);
    return check_watch(watch);
}

static int read_watches(Watches *watches, PyObject *sources) {
    PyObject *tuple = PySequence_Tuple(sources);
    if (tuple == NULL) return -1;
    const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    int failed = 0;
    watches->all = PyMem_Calloc((size_t)n + 1, sizeof(Watch));
    if (watches->all == NULL) {
        PyErr_NoMemory();
        failed = 1;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        watches->n = i + 1;
        failed = read_watch(&watches->all[i], PyTuple_GET_ITEM(tuple, i)) < 0;
    }
    Py_DECREF(tuple);
    return failed ? -1 : 0;
}

static int visit_watches(const Watches *watches, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < watches->n; i++) {
        Py_VISIT(watches->all[i].container);
        Py_VISIT(watches->all[i].key);
        Py_VISIT(watches->all[i].expected);
    }
    return 0;
}

/* From now on nothing matches: without its watches a kernel must not answer. */
static void drop_watches(Watches *watches) {
    Watch *all = watches->all;
    const Py_ssize_t n = watches->n;
    watches->lost |= n > 0;
    watches->all = NULL;
    watches->n = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_XDECREF(all[i].container);
        Py_XDECREF(all[i].key);
        Py_XDECREF(all[i].expected);
    }
    PyMem_Free(all);
}

