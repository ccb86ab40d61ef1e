"""What the functions of escapes.py capture, and the longer ones among them."""

from __future__ import annotations

import array
import bisect
import collections
import contextlib
import contextvars
import copy
import dataclasses
import functools
import heapq
import importlib
import io
import itertools
import logging
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats

A = np.array([1.0, 3.0, -2.0])
MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [3.0, 0.0, 1.0]])
SCALE = 2.0
FACTORS = [1.0, 2.0]
SETTINGS = {"power": 2}
MEMBERS = {1.0, 2.0}
QUEUE = collections.deque([1.0, 2.0])
NAMES = types.SimpleNamespace(w=2.0)
POINT = np.array(4.0)
OBJECTS = np.array([1.0, None], dtype=object)
BUFFER = array.array("d", [1.0, 2.0])
CONTEXT = contextvars.ContextVar("CONTEXT", default=2.0)
GENERATOR = np.random.default_rng(0)
STREAM = io.StringIO("1\n2\n3\n")
ITERATOR = itertools.count(1.0)
KEPT: list[Any] = []
LOG: dict[str, Any] = {}
TARGET = np.zeros(3)
COUNT = 0
STORED: Any = None
LOGGER = logging.getLogger("symgrad.tests")
MODULE = types.ModuleType("a_module_of_the_user")
MODULE.factor = 2.0  # type: ignore[attr-defined]
sys.modules[MODULE.__name__] = MODULE


class Layer:
    """An object with an array, a number and a method; its class has attributes too."""

    bias = 1.0
    calls = 0

    def __init__(self, w: Any) -> None:
        self.w = w
        self.offset = 0.5
        self.history: list[Any] = []

    def __call__(self, x: Any) -> Any:
        made = np.zeros(3)
        for i in range(3):
            made[i] = self.w[i] * x[i] + self.offset
        return np.sum(made) * self.scaled

    @property
    def scaled(self) -> Any:
        return self.bias * SCALE


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: Any) -> None:
        self.w = w


@dataclasses.dataclass
class Model:
    w: Any
    b: float = 1.0

    def loss(self, x: Any) -> Any:
        made = np.empty(3)
        made[:] = self.w * x
        return np.sum(made) + self.b * SCALE


class Registry(type):
    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*args)


class Registered(metaclass=Registry):
    def __init__(self, v: Any) -> None:
        self.v = v


LAYER = Layer(A)
SLOTTED = Slotted(2.0)
MODEL = Model(A)


def helper(x: Any) -> Any:
    return x * SCALE


helper.factor = 2.0  # type: ignore[attr-defined]


@functools.lru_cache
def remembered(v: Any) -> Any:
    return v * 3.0


@functools.singledispatch
def dispatched(x: Any) -> Any:
    return x * 0.0


@dispatched.register
def _(x: np.ndarray) -> Any:
    return np.sum(x * x)


# ================================================================ longer functions


def matching(x: Any) -> Any:
    match x.shape:
        case (3,):
            return x[0] * x[1]
    return x[2]


def matching_values(x: Any) -> Any:
    match x[0]:
        case 0.5:
            return x[1]
        case float():
            return x[1] * 2.0
    return x[1] * 3.0


def copying(x: Any) -> Any:
    y, z = copy.copy(x), copy.deepcopy([x, x[0]])
    y[0] = 5.0
    return np.sum(y * x) + z[0][1] * z[1]


def keeping_inside(x: Any) -> Any:
    box = types.SimpleNamespace(v=x[0])
    kept = [x[1], {"k": x[2]}]

    def inner() -> Any:
        return box.v * kept[0] * kept[1]["k"]

    return inner()


def catching(x: Any) -> Any:
    try:
        raise ValueError(x[0])
    except ValueError as error:
        return error.args[0] * 2.0


def local_class(x: Any) -> Any:
    class Local(Layer):
        bias = SCALE

        def __init__(self, v: Any) -> None:
            super().__init__(np.array([v, v, v]))

    return Local(x[0])(x)


def filling(x: Any) -> Any:
    b = np.zeros(4)
    for i in range(3):
        b[i] = x[i] ** 2
    b[1:3] += x[:2]
    return np.sum(b * b)


def writing(x: Any) -> Any:
    TARGET[0] = x[0]
    TARGET[1:] = x[:2] * 2.0
    return np.sum(TARGET**2)


def adding(x: Any) -> Any:
    global TARGET
    TARGET[:] = 1.0
    TARGET *= x
    return np.sum(TARGET**2)


def buffers(x: Any) -> Any:
    b, c = np.frombuffer(bytes(24)).copy(), np.diag(np.ones(3))
    b[0], c[0, 1] = x[0], x[1]
    return np.sum(b * b) + np.sum(c * c)


def walking(x: Any) -> Any:
    total = 0.0
    for (i,), v in np.ndenumerate(x):
        total = total + i * v
    for v in np.nditer(x):
        total = total + v * v
    return total + sum(x[i] for i in np.ndindex(x.shape))


def percent(x: Any) -> Any:
    return x[1] * len("%.3f" % x[0])  # noqa: UP031 - that is what is tested


def power(x: Any, n: int) -> Any:
    return x if n == 1 else x * power(x, n - 1)


def called_back(function: Any, v: Any) -> Any:
    return function(v)


def importing(x: Any) -> Any:
    import math as m

    from numpy import sin, zeros

    other = importlib.import_module("numpy")
    b = zeros(2)
    b[0] = sin(x[0])
    return other.sum(b) * m.cos(x[1])


def evaluating(x: Any) -> Any:
    names = {"x": x, "np": np}
    exec("y = np.sum(np.array([x[0], x[1]]) ** 2)", names)
    return names["y"] + eval("np.sum(A * x) * SCALE")


def states(x: Any) -> Any:
    with np.errstate(all="ignore"), contextlib.suppress(KeyError):
        return x[0] * 2.0
    return x[1]


def awaiting(x: Any) -> Any:
    async def inner() -> Any:
        return x[0] * 2.0

    coroutine = inner()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def sorting(x: Any) -> Any:
    pairs = [(x[0], 1.0), (x[1], 2.0), (x[2], 3.0)]
    pairs.sort(key=lambda p: p[0])
    heap = list(x)
    heapq.heapify(heap)
    return pairs[0][0] * pairs[0][1] + bisect.bisect([0.0, 1.0], x[0]) * x[1] * 0.0 + heapq.heappop(heap)


def asserting(x: Any) -> Any:
    assert x[0] > -100.0, f"bad value {x[0]}"
    return x[0] * x[1]


def trying(x: Any) -> Any:
    try:
        if x[0] > 1:
            raise ArithmeticError
        return x[0]
    except ArithmeticError:
        return x[1] * 3.0


def storing(x: Any) -> Any:
    global STORED
    STORED = x[0] * 2.0
    return x[1]


def counting(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x[1]


def make_bump() -> Callable[[], None]:
    total = 0

    def inner() -> None:
        nonlocal total
        total += 1

    return inner


bump = make_bump()


def assigning(x: Any) -> Any:
    Layer.calls += 1
    helper.calls = 1  # type: ignore[attr-defined]
    return x[1]


def writing_foreign(x: Any) -> Any:
    b = scipy.linalg.toeplitz([1.0, 2.0])
    b[0, 0] = x[0]
    return np.sum(b)


def swallowing(x: Any) -> Any:
    try:
        return np.histogram(x)[0][0] * x[0]
    except Exception:  # noqa: BLE001 - that is what is tested
        return x[1]


def threading_away(x: Any) -> Any:
    out = [0.0]
    thread = threading.Thread(target=lambda: out.append(x[0] * 2.0))
    thread.start()
    thread.join()
    return out[-1]
