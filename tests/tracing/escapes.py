"""Functions through which a value could leave or enter a trace: one for each row of docs/escapes.md."""

from __future__ import annotations

import collections
import dataclasses
import datetime  # noqa: ICN001 - the module's own name is what is tested
import decimal
import fractions
import functools
import inspect
import itertools
import math
import operator
import os
import pathlib
import pickle
import pprint
import random
import secrets
import statistics
import struct
import sys
import time
import types
import uuid
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats

import symgrad as sg
from tests.tracing.captured_world import (
    BUFFER,
    CONTEXT,
    FACTORS,
    GENERATOR,
    ITERATOR,
    KEPT,
    LAYER,
    LOG,
    LOGGER,
    MATRIX,
    MEMBERS,
    MODEL,
    MODULE,
    NAMES,
    OBJECTS,
    POINT,
    QUEUE,
    SCALE,
    SETTINGS,
    SLOTTED,
    STREAM,
    TARGET,
    A,
    Layer,
    Model,
    Registered,
    adding,
    asserting,
    assigning,
    awaiting,
    buffers,
    bump,
    called_back,
    catching,
    copying,
    counting,
    dispatched,
    evaluating,
    filling,
    helper,
    importing,
    keeping_inside,
    local_class,
    matching,
    matching_values,
    percent,
    power,
    remembered,
    sorting,
    states,
    storing,
    swallowing,
    threading_away,
    trying,
    walking,
    writing,
    writing_foreign,
)

POINTS = [np.array([0.5, 2.0, -1.5]), np.array([1.25, -0.25, 3.0]), np.array([2.5, 0.75, 1.0])]
KINDS = ("exact", "guarded", "live", "warned", "refused")


class Row(NamedTuple):
    """A construct: its kind, a function of an array of three numbers, and what is expected of it."""

    kind: str
    function: Callable[..., Any]
    expected: Any


ROWS: dict[str, Row] = {}


def row(name: str, kind: str, function: Callable[..., Any], expected: Any = None) -> None:
    """Enter a construct.

    ``expected`` is the number of traces for a guarded one, the changes for a live one (pairs of doing and
    undoing), words of the warning, or class and words of the error.
    """
    assert name not in ROWS
    assert kind in KINDS
    ROWS[name] = Row(kind, function, expected)


def put(name: str, value: Any) -> Callable[[], None]:
    return lambda: globals().__setitem__(name, value)


def entry(container: Any, key: Any, value: Any) -> Callable[[], None]:
    return lambda: container.__setitem__(key, value)


def attribute(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


# ================================================================ exact

row("float(x)", "exact", lambda x: float(x[0]) ** 2 * x[1])
row("np.float64(x), np.float32(x)", "exact", lambda x: np.float64(x[0]) * x[1] + np.float64(np.float32(x[2])) * 0.0)
row("x.item()", "exact", lambda x: x[0].item() * x.item(1))
row("x.tolist()", "exact", lambda x: sum(v * v for v in x.tolist()))
row("x.flat", "exact", lambda x: sum(v * v for v in x.flat))
row("np.array(x), np.asarray(x)", "exact", lambda x: np.sum(np.array(x) * np.asarray(x)))
row("np.array([x[0], x[1]])", "exact", lambda x: np.sum(np.array([[x[0], 1.0], [x[1], x[2]]]) ** 2))
row("np.sum([x[0], x[1]])", "exact", lambda x: np.sum([x[0], x[1] ** 2]) + np.linalg.norm([x[1], x[2]]))
row("np.asarray(x, dtype=float)", "exact", lambda x: np.sum(np.asarray(x, dtype=float) ** 2))
row("np.fromiter", "exact", lambda x: np.sum(np.fromiter((v * v for v in x), dtype=float)))
row("isinstance(x, np.ndarray)", "exact", lambda x: np.sum(x**2) if isinstance(x, np.ndarray) else 0.0)
row(
    "type(x) is np.ndarray, x.__class__",
    "exact",
    lambda x: (
        x[0] ** 2 if type(x) is np.ndarray and type(x[0]) is np.float64 and x.__class__ is np.ndarray else 0.0
    ),
)
row(
    "np.isscalar(x), hasattr(x, …)",
    "exact",
    lambda x: x[0] ** 2 if np.isscalar(x[0]) and hasattr(x, "tolist") and not hasattr(x, "nothing") else 0.0,
)
row(
    "len(x), x.shape, x.dtype.kind",
    "exact",
    lambda x: np.sum(x) / len(x) if x.shape == (3,) and x.dtype.kind == "f" else 0,
)
row("functools.singledispatch", "exact", lambda x: dispatched(x))
row("match x.shape", "exact", lambda x: matching(x))
row("copy.copy, copy.deepcopy", "exact", lambda x: copying(x))
row("a tracer in a list, a dict, an object or a closure", "exact", lambda x: keeping_inside(x))
row("a tracer in an exception that is caught", "exact", lambda x: catching(x))
row("a tracer in a generator", "exact", lambda x: sum(v * k for k, v in enumerate(v * v for v in x)))
row("@functools.lru_cache of traced values", "exact", lambda x: remembered(x[0]) * x[1])
row("instantiation of a class", "exact", lambda x: Layer(x)(x))
row("a class defined in the function", "exact", lambda x: local_class(x))
row(
    "dataclass models, dataclasses.replace",
    "exact",
    lambda x: Model(x).loss(x) * dataclasses.replace(MODEL, b=x[0]).b,
)
row("collections.namedtuple", "exact", lambda x: collections.namedtuple("P", "a b")(x[0], x[1]).a * x[2])
row("np.zeros and then b[i] = x", "exact", lambda x: filling(x))
row("writing into a captured array", "exact", lambda x: writing(x))
row("in-place operators on captured arrays", "exact", lambda x: adding(x))
row("out= a captured array", "exact", lambda x: np.sum(np.multiply(x, x, out=TARGET)))
row("np.frombuffer, np.diag and then b[i] = x", "exact", lambda x: buffers(x))
row("np.vectorize", "exact", lambda x: np.sum(np.vectorize(lambda v: v * v)(x)))
row("np.frompyfunc", "exact", lambda x: np.sum(np.frompyfunc(lambda v: v * v, 1, 1)(x)))
row("np.apply_along_axis", "exact", lambda x: np.sum(np.apply_along_axis(lambda v: v * np.sum(v), 0, x)))
row("np.piecewise", "exact", lambda x: np.sum(np.piecewise(x, [x < 0, x > 0.9], [lambda v: -v, lambda v: v * v])))
row("np.fromfunction", "exact", lambda x: np.sum(np.fromfunction(lambda i: i * x[0], (3,))))
row("np.ndenumerate, np.nditer, np.ndindex", "exact", lambda x: walking(x))
row("np.interp", "exact", lambda x: np.interp(x[0], [0.0, 1.0, 3.0], [0.0, 1.0, 9.0]))
row("scipy.special ufuncs", "exact", lambda x: np.sum(scipy.special.erf(x) + scipy.special.expit(x)))
row("scipy functions that are known", "exact", lambda x: scipy.special.logsumexp(x))
row(
    "math.*",
    "exact",
    lambda x: math.sin(x[0]) * math.exp(x[1]) + math.hypot(x[0], x[1]) + math.fsum(x) + math.dist(x, A),
)
row(
    "math.modf, math.remainder, math.ldexp",
    "exact",
    lambda x: math.modf(x[0] * 1.1)[0] + math.remainder(x[1], 3.0) + math.ldexp(x[2], 2),
)
row(
    "statistics.*",
    "exact",
    lambda x: statistics.mean(x) * statistics.stdev(x) + statistics.fmean(x) * statistics.pvariance(x),
)
row("functools.reduce", "exact", lambda x: functools.reduce(operator.mul, x))
row("functools.partial", "exact", lambda x: functools.partial(lambda a, b: a * b, x[0])(x[1]))
row(
    "itertools, zip, map, enumerate",
    "exact",
    lambda x: (
        sum(map(math.sin, x)) + [*itertools.accumulate(x)][-1] + sum(a * b for a, b in zip(x, A, strict=True))
    ),
)
row("sum", "exact", lambda x: sum(x) * x[0])
row("recursion", "exact", lambda x: power(x[0], 3))
row("callbacks", "exact", lambda x: called_back(lambda v: np.sum(np.array([v, v * x[1]])), x[0]))
row("import inside the function", "exact", lambda x: importing(x))
row("eval, exec", "exact", lambda x: evaluating(x))
row("globals(), locals(), vars()", "exact", lambda x: globals()["A"][0] * locals()["x"][0] * vars(LAYER)["w"][1])
row("inspect", "exact", lambda x: x[0] * len(inspect.signature(helper).parameters))
row("object arrays", "exact", lambda x: np.dot(np.array([x[0], x[1]], dtype=object), np.array([1.0, 2.0])))
row("NumPy scalars, arrays without axes", "exact", lambda x: np.float32(3.0) * x[0] * POINT)
row("with np.errstate", "exact", lambda x: states(x))
row("async functions", "exact", lambda x: awaiting(x))

# ================================================================ guarded

row(
    "bool(x), if, while, and, or, not",
    "guarded",
    lambda x: x[0] * 3 if bool(x[0] > 1) and not x[1] > 0.5 else x[1],
    3,
)
row("int(x), round(x)", "guarded", lambda x: int(x[0]) * x[1] + round(x[0]) * 0, 3)
row("x as an index or a size", "guarded", lambda x: np.sum(x[: np.argmax(x)] * np.ones(int(np.argmax(x)))), 3)
row("hash(n), an integer as a key", "guarded", lambda x: {0: 1.0, 1: 2.0, 2: 3.0}[np.argmax(x)] * x[0], 3)
row(
    "x in a list or an array",
    "guarded",
    lambda x: np.sum(x) if x[0] in [0.5, 0.7] or 3.0 in x else np.sum(x) + 1,
    3,
)
row("sorted, min, max", "guarded", lambda x: sorted(x)[0] * 2 + min(x) * max(x), 3)
row("sort with a key, bisect, heapq", "guarded", lambda x: sorting(x), 3)
row("assert", "guarded", lambda x: asserting(x), 1)
row("try and except around traced values", "guarded", lambda x: trying(x), 2)
row("match x[0]", "guarded", lambda x: matching_values(x), 2)
row("x[mask] with a traced mask", "guarded", lambda x: np.sum(x[x > 0.6] ** 2), 3)
row(
    "np.nonzero, np.unique",
    "guarded",
    lambda x: np.sum(x[np.nonzero(x > 0.6)]) + np.unique(np.append(x, 0.5))[0],
    3,
)
row(
    "np.allclose, np.array_equal",
    "guarded",
    lambda x: x[0] if np.allclose(x, POINTS[0]) or np.array_equal(x, A) else x[1],
    2,
)
row(
    "math.floor, math.isnan, math.isclose",
    "guarded",
    lambda x: x[1] * math.floor(x[0]) if not math.isclose(x[0], 2.5) else x[2],
    3,
)
row("statistics.median", "guarded", lambda x: statistics.median(x), 3)
row("os.environ", "guarded", lambda x: float(os.environ.get("SYMGRAD_TEST", "2")) * x[0], 1)


# ================================================================ live

row(
    "a captured array",
    "live",
    lambda x: np.sum(A * x) + A.dot(x) + A @ x,
    [(entry(A, 0, 7.0), entry(A, 0, 1.0)), (put("A", A * 2), put("A", A))],
)
row("an array without axes", "live", lambda x: POINT * x[0], [(entry(POINT, (), 9.0), entry(POINT, (), 4.0))])
row(
    "for row in A, A[i]",
    "live",
    lambda x: sum(r @ x for r in MATRIX) + MATRIX[1] @ x,
    [(entry(MATRIX, (0, 0), 7.0), entry(MATRIX, (0, 0), 1.0))],
)
row("a captured number", "live", lambda x: x[0] * SCALE, [(put("SCALE", 3.0), put("SCALE", 2.0))])
row(
    "a captured list",
    "live",
    lambda x: x[0] * sum(FACTORS),
    [(entry(FACTORS, 0, 5.0), entry(FACTORS, 0, 1.0)), (lambda: FACTORS.append(1.0), lambda: FACTORS.pop())],
)
row(
    "a captured dict",
    "live",
    lambda x: x[0] ** SETTINGS["power"] * SETTINGS.get("more", 1.0),
    [
        (entry(SETTINGS, "power", 3), entry(SETTINGS, "power", 2)),
        (entry(SETTINGS, "more", 2.0), lambda: SETTINGS.pop("more")),
    ],
)
row(
    "a captured set or deque",
    "live",
    lambda x: x[0] * len(MEMBERS) * sum(QUEUE),
    [(lambda: MEMBERS.add(9.0), lambda: MEMBERS.discard(9.0)), (lambda: QUEUE.append(9.0), lambda: QUEUE.pop())],
)
row(
    "types.SimpleNamespace",
    "live",
    lambda x: x[0] * NAMES.w,
    [(attribute(NAMES, "w", 3.0), attribute(NAMES, "w", 2.0))],
)
row(
    "an attribute of an object",
    "live",
    lambda x: LAYER(x) * SLOTTED.w,
    [
        (attribute(LAYER, "offset", 3.0), attribute(LAYER, "offset", 0.5)),
        (attribute(SLOTTED, "w", 3.0), attribute(SLOTTED, "w", 2.0)),
        (attribute(LAYER, "w", A * 2), attribute(LAYER, "w", A)),
    ],
)
row(
    "an attribute of a class",
    "live",
    lambda x: LAYER(x),
    [(attribute(Layer, "bias", 3.0), attribute(Layer, "bias", 1.0))],
)
row(
    "an attribute that appears",
    "live",
    lambda x: x[0] * getattr(LAYER, "extra", 1.0),
    [(attribute(LAYER, "extra", 3.0), lambda: delattr(LAYER, "extra"))],
)
row(
    "a name of a module",
    "live",
    lambda x: x[0] * MODULE.factor,
    [(attribute(MODULE, "factor", 3.0), attribute(MODULE, "factor", 2.0))],
)
row(
    "a helper function, its attributes and its code",
    "live",
    lambda x: helper(x[0]) * helper.factor,
    [
        (put("helper", types.SimpleNamespace(factor=3.0).__class__), put("helper", helper)),
        (attribute(helper, "factor", 3.0), attribute(helper, "factor", 2.0)),
        (
            attribute(helper, "__code__", (lambda x: x * 9.0).__code__),
            attribute(helper, "__code__", helper.__code__),
        ),
    ][1:],
)
row(
    "a default argument",
    "live",
    lambda x, w=A, k=FACTORS: np.sum(x * w) * k[0],
    [(entry(A, 0, 7.0), entry(A, 0, 1.0)), (entry(FACTORS, 0, 5.0), entry(FACTORS, 0, 1.0))],
)
row(
    "an array of objects, a buffer",
    "live",
    lambda x: x[0] * OBJECTS[0] * BUFFER[1],
    [(entry(OBJECTS, 0, 5.0), entry(OBJECTS, 0, 1.0)), (entry(BUFFER, 1, 5.0), entry(BUFFER, 1, 2.0))],
)
row("contextvars", "live", lambda x: x[0] * CONTEXT.get(), [(lambda: CONTEXT.set(3.0), lambda: CONTEXT.set(2.0))])
row(
    "a name that hides a builtin",
    "live",
    lambda x: abs(x[0]),
    [(put("abs", lambda v: v * 7.0), lambda: globals().pop("abs"))],
)

# ================================================================ warned

row("print", "warned", lambda x: (print(x[0]), x[1])[1], "print was called")
row(
    "str, format, f-strings",
    "warned",
    lambda x: (f"{x[0]:.3f}", f"{x[0]:.2f}", str(x), x[1])[3],
    "was called on a traced value",
)
row("repr", "warned", lambda x: (repr(x[0]), x[1])[1], "repr was called on a traced value")
row(
    "logging",
    "warned",
    lambda x: (LOGGER.info("%.3f", x[0]), x[1])[1],
    "Logger.info was called",
)
row("warnings.warn", "warned", lambda x: (warnings.warn("look", stacklevel=1), x[1])[1], "warnings.warn was called")
row(
    "sys.stdout.write, pprint",
    "warned",
    lambda x: (sys.stdout.write("text"), pprint.pformat(1), x[1])[2],
    "sys.stdout.write was called",
)
row("np.random.*", "warned", lambda x: np.random.rand() * 0.0 + x[1], "np.random.rand was called")
row(
    "methods of a random generator",
    "warned",
    lambda x: GENERATOR.normal() * 0.0 + x[1],
    "Generator.normal was called",
)
row(
    "np.random.shuffle(x), permutation, choice",
    "warned",
    lambda x: (np.sum(np.random.permutation(x)) - np.sum(x)) * 0.0 + x[1],
    "np.random.permutation was called",
)
row(
    "random.*, secrets, uuid",
    "warned",
    lambda x: (random.random() + secrets.randbelow(2) + uuid.uuid4().int) * 0.0 + x[1],
    "random.random was called",
)
row("time.*", "warned", lambda x: time.time() * 0.0 + time.perf_counter() * 0.0 + x[1], "time.time was called")
row(
    "datetime.now, date.today",
    "warned",
    lambda x: datetime.datetime.now().year * 0.0 + x[1],  # noqa: DTZ005 - no zone is the point
    "datetime.now was called",
)
row(
    "open, pathlib, np.load",
    "warned",
    lambda x: (open(os.devnull).close(), pathlib.Path(os.devnull).exists(), x[1])[2],
    "a file was opened",
)
row(
    "a captured file or iterator",
    "warned",
    lambda x: (STREAM.readline(), next(ITERATOR), x[1])[2],
    "StringIO.readline was called",
)
row("os.getcwd and the like", "warned", lambda x: (os.getcwd(), x[1])[1], "os.getcwd was called")
row("input", "warned", lambda x: (input(), x[1])[1], "input was asked for")
row("a global statement", "warned", lambda x: storing(x), "changed global STORED")
row("a counter", "warned", lambda x: counting(x), "changed global COUNT")
row("nonlocal", "warned", lambda x: (bump(), x[1])[1], "changed the outer variable total")
row("list.append", "warned", lambda x: (KEPT.append(x[0]), x[1])[1], "changed a list (KEPT)")
row("dict assignment", "warned", lambda x: (LOG.__setitem__("last", x[0]), x[1])[1], "changed a dict (LOG)")
row("attribute assignment", "warned", lambda x: (setattr(LAYER, "last", x[0]), x[1])[1], "changed attribute last")
row("assignment to a class or a function", "warned", lambda x: assigning(x), "changed attribute calls of Layer")

# ================================================================ refused

row("complex(x)", "refused", lambda x: complex(x[0]).real, (sg.TraceError, "complex() of a traced value"))
row("% formatting", "refused", lambda x: percent(x), (sg.TraceError, "float() of a traced value"))
row("hash(x), x as a key, x in a set", "refused", lambda x: {x[0]: 1.0}[x[0]], (TypeError, "cannot be a key"))
row("pickle", "refused", lambda x: pickle.loads(pickle.dumps(x))[0], (sg.TraceError, "cannot be pickled"))
row(
    "json, struct, array.array",
    "refused",
    lambda x: len(struct.pack("d", x[0])) * x[1],
    (sg.TraceError, "float() of a traced value"),
)
row(
    "memoryview, x.tobytes(), x.view()",
    "refused",
    lambda x: memoryview(x)[0],
    (TypeError, "only a plain number or array"),
)
row("decimal, fractions", "refused", lambda x: decimal.Decimal(x[0]), (TypeError, "only a plain number or array"))
row(
    "fractions.Fraction(x)",
    "refused",
    lambda x: fractions.Fraction(x[0]),
    (sg.UnsupportedOperationError, "as_integer_ratio"),
)
row(
    "C functions that call float(), as in scipy.optimize",
    "refused",
    lambda x: scipy.optimize.brentq(lambda t: t - x[0], -9, 9),
    (sg.TraceError, "scipy.optimize.brentq cannot be traced"),
)
row(
    "scipy functions that are not known",
    "refused",
    lambda x: scipy.stats.norm.pdf(x[0]),
    (sg.TraceError, "scipy.stats.rv_continuous.pdf cannot be traced"),
)
row(
    "scipy ufuncs that are not known",
    "refused",
    lambda x: np.sum(scipy.special.hyp2f1(1.0, 2.0, 3.0, x)),
    (sg.UnsupportedOperationError, "hyp2f1 cannot be traced"),
)
row(
    "writing into an array that a library made",
    "refused",
    lambda x: writing_foreign(x),
    (sg.TraceError, "np.array(b)"),
)
row(
    "np.polyfit, np.histogram",
    "refused",
    lambda x: np.polyfit(A, x, 1)[0],
    (sg.UnsupportedOperationError, "np.polyfit cannot be traced"),
)
row(
    "an except that catches such an error",
    "refused",
    lambda x: swallowing(x),
    (sg.UnsupportedOperationError, "np.histogram cannot be traced"),
)
row("x on another thread", "refused", lambda x: threading_away(x), (sg.TraceError, "another thread"))
row(
    "a function or generator that is kept outside",
    "refused",
    lambda x: (KEPT.append(lambda: x[0]), x[1])[1],
    (sg.TraceError, "a function of traced code cannot be kept"),
)
row(
    "__getattribute__, deleting attributes",
    "refused",
    lambda x: (delattr(LAYER, "w"), x[1])[1],
    (sg.TraceError, "the attribute w of an object from outside is deleted"),
)
row(
    "a class with a metaclass that has methods",
    "refused",
    lambda x: Registered(x[0]).v,
    (sg.TraceError, "the class Registered has a metaclass with methods"),
)
