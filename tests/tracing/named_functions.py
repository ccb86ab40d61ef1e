"""Functions, objects and modules that are reached by all kinds of names, for test_namespace.py."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as aliased  # noqa: ICN001 - that is what is tested
import numpy as np
import pytest
from numpy import array as make_array
from numpy import linalg as la
from numpy import sin as sine

BACKENDS = ["numpy", pytest.param("c", marks=pytest.mark.c_backend)]
POINTS = [np.array([0.5, 2.0, -1.5]), np.array([1.25, -0.25, 3.0])]
A = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [3.0, 0.0, 1.0]])
V = np.array([1.0, -2.0, 0.5])
K = 2.0


def slope(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    h = 1e-6
    return np.array([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(3)])


FUNCTIONS: dict[str, Callable[..., Any]] = {}


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a function of three numbers that must give on both backends what it gives in Python."""
    assert function.__name__ not in FUNCTIONS
    FUNCTIONS[function.__name__] = function
    return function


# ---------------------------------------------------------------- NumPy by any name


@traced
def names_bound_to_functions(x: Any) -> Any:
    return np.sum(make_array([sine(x[0]), x[1]])) + la.norm(x)


@traced
def an_aliased_module(x: Any) -> Any:
    b = aliased.full((2, 3), 1.0)
    b[0] = x
    return aliased.sum(b * b)


@traced
def imports_inside(x: Any) -> Any:
    import math as m

    import numpy as inner  # noqa: ICN001 - that is what is tested
    import numpy.linalg as inner_la
    from numpy import empty

    b = empty(2)
    b[0], b[1] = m.sin(x[0]), inner_la.norm(x)
    return inner.prod(b)


@traced
def a_module_in_a_variable(x: Any) -> Any:
    xp = np
    modules = {"m": math, "n": [np]}
    return xp.sum(xp.array([modules["m"].exp(x[0]), modules["n"][0].tanh(x[1])]))  # type: ignore[attr-defined, index]


@traced
def functions_in_containers(x: Any) -> Any:
    table = {"sin": np.sin, "sqrt": math.sqrt}
    return table["sin"](x[0]) * sum(f(x[1] ** 2) for f in (table["sqrt"], np.exp, operator.neg))


@traced
def names_by_text(x: Any) -> Any:
    return getattr(np, "s" + "in")(x[0]) + getattr(math, "cosh")(x[1])  # noqa: B009


@traced
def creation_functions(x: Any) -> Any:
    total = 0.0
    for b in (
        np.zeros(3), np.ones(3), np.full(3, 2.0), np.arange(3.0), np.linspace(0.0, 1.0, 3), np.eye(3)[0],
        np.array([1.0, 2.0, 3.0]), np.zeros_like(V), np.identity(3)[1], np.repeat(1.0, 3), np.diag(A),
    ):  # fmt: skip
        b = np.array(b)
        b[:2] = x[1:]
        b[2] += x[0]
        total = total + np.sum(b**2)
    c = np.empty((2, 3))
    c[:] = x
    return total + np.sum(c)


@traced
def creation_functions_of_traced_values(x: Any) -> Any:
    rotation = np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]])
    rotation[0, 1] *= x[2]
    line = np.linspace(x[0], x[1], 5)
    line[2] = 0.0
    return np.sum(rotation @ np.array([1.0, x[1]])) + np.sum(np.full((2,), x[2]) ** 2) + line @ line


@traced
def integer_arrays_keep_their_dtype(x: Any) -> Any:
    b = np.zeros(3, dtype=int)
    b[0] = 3.7
    return b[0] * x[0] + np.arange(3)[2] * x[1] + float(np.array([1, 2]).dtype == np.int64) * x[2]


@traced
def object_arrays(x: Any) -> Any:
    b = np.empty(2, dtype=object)
    b[0], b[1] = x[0], x[1] * 2.0
    return np.sum(b * b) + np.dot(np.array([x[0], 1.0], dtype=object), [1.0, 2.0])


@traced
def the_math_module(x: Any) -> Any:
    y = abs(x[0]) + 0.25
    total = math.sqrt(y) + math.log(y) + math.log(y, 3) + math.log1p(y) + math.atan2(x[1], y) + math.pow(y, x[1])
    total += math.expm1(x[1]) + math.erf(x[0]) + math.degrees(x[2]) + math.copysign(y, x[1]) + math.fabs(x[2])
    return total + math.hypot(*x) + math.prod(x) + math.dist(x, V) + math.fsum(x) + math.floor(y) + math.comb(5, 2)


# ---------------------------------------------------------------- captured arrays


@traced
def methods_of_captured_arrays(x: Any) -> Any:
    return A.dot(x).sum() + (A @ x)[0] + (x @ A).max() + V.reshape(3, 1).T.dot(x)[0] + A.T[1] @ x + V.copy() @ x


@traced
def rows_of_captured_arrays(x: Any) -> Any:
    total = 0.0
    for i, row in enumerate(A):
        total = total + (row @ x) ** 2 * x[i]
    return total + sum(v * w for v, w in zip(V, x, strict=True)) + sum(A[i, 1] * x[i] for i in range(len(A)))


@traced
def numpy_functions_of_captured_arrays(x: Any) -> Any:
    b = np.vstack([A, x]) * 2.0
    c = A + np.outer(V, x)
    c[0] = 1.0
    return np.sum(b) + np.linalg.norm(c) + np.where(V > 0, V, x).sum()


@traced
def a_copy_of_a_captured_array(x: Any) -> Any:
    b = A.copy()
    b[0, 0] = x[0]
    c = np.array(A)
    c[:, 1] = x
    return np.sum(b * c)


# ---------------------------------------------------------------- functions


def helper(x: Any) -> Any:
    b = np.zeros(3)
    b[:] = x * K
    return b


@traced
def helpers(x: Any) -> Any:
    return np.sum(helper(helper(x)))


@traced
def nested_functions_and_shared_cells(x: Any) -> Any:
    total = np.zeros(1)
    count = 0

    def add(v: Any) -> None:
        nonlocal count
        count += 1
        total[0] += v * count

    def result() -> Any:
        return total[0] / count

    for v in x:
        add(v * v)
    return result()


def closed() -> Any:
    scale, table = 3.0, np.array([1.0, 2.0, 3.0])

    def inner(x: Any) -> Any:
        return outer_too(x) * scale

    def outer_too(x: Any) -> Any:
        b = np.zeros_like(table)
        b[0] = table @ x
        return np.sum(b)

    return inner


FUNCTIONS["a closure"] = closed()


def factorial(x: Any, n: int) -> Any:
    return x if n == 0 else np.array([x])[0] * factorial(x, n - 1) / n


@traced
def recursion(x: Any) -> Any:
    def local(n: int) -> Any:
        return np.sum(np.array([x[0], 1.0])) if n == 0 else local(n - 1) * x[1]

    return factorial(x[0], 4) + local(3)


@traced
def lambdas_and_comprehensions(x: Any) -> Any:
    square = lambda v: np.array([v * v])[0]
    table = {i: square(v) for i, v in enumerate(x)}
    return sum([table[i] for i in sorted(table)]) + sum(square(v) for v in x) + max(square(v) for v in x)


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return np.array([function(*args, **kwargs)])[0] * K

    return wrapper


@doubled
def decorated(x: Any, k: float = 1.0) -> Any:
    return np.sum(np.array([x[0], x[1]])) * k


@traced
def decorated_functions(x: Any) -> Any:
    return decorated(x) + decorated(x, k=3.0) + doubled(np.sum)(x)


@traced
def partial_functions(x: Any) -> Any:
    return functools.partial(decorated, k=4.0)(x) + functools.partial(helper, x)()[1]


FUNCTIONS["a partial function"] = functools.partial(lambda k, x: np.array([x[0]])[0] * k, V[0])


OPTIONS = {"k": 2.0, "a": V}


@traced
def default_arguments(x: Any, w: Any = V, options: Any = OPTIONS, *, more: Any = (V, [A])) -> Any:
    return np.sum(w * x) * options["k"] + options["a"].dot(x) + np.sum(more[1][0] @ x) + more[0][0]


def pairs(x: Any) -> Iterator[Any]:
    b = np.zeros(2)
    for i in range(2):
        b[i] = x[i]
        yield i, b[i] * V[i]


@traced
def generators(x: Any) -> Any:
    return sum(v * (i + 1) for i, v in pairs(x)) + sum(yielding(x))


def yielding(x: Any) -> Iterator[Any]:
    yield from (v * K for v in x)
    yield x[0]


@traced
def functions_given_to_functions(x: Any) -> Any:
    return sorted(map(helper_of_one, x), key=lambda v: -v)[0] + functools.reduce(operator.mul, x) + apply(helper, x)[0]


def helper_of_one(v: Any) -> Any:
    return np.array([v, v])[1]


def apply(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@functools.cache
def grid(n: int) -> Any:
    return np.arange(float(n))


@traced
def cached_functions(x: Any) -> Any:
    return grid(3).dot(x) + grid(3)[1] * x[0]


# ---------------------------------------------------------------- objects


class Layer:
    scale = np.array([1.0, 2.0, 3.0])
    count = 2

    def __init__(self, w: Any) -> None:
        self.w = w

    def __call__(self, x: Any) -> Any:
        b = np.zeros(3)
        b[:] = self.w * x
        return self.activated(np.sum(b * self.scale)) * self.total

    def __add__(self, other: Any) -> Layer:
        return type(self)(self.w + other.w)

    def __len__(self) -> int:
        return len(self.w)

    @staticmethod
    def activated(v: Any) -> Any:
        return np.array([v, np.tanh(v)])[1]

    @classmethod
    def make(cls, w: Any) -> Layer:
        return cls(np.array([w[0], w[1], w[2]]) * cls.count)

    @property
    def total(self) -> Any:
        return np.sum(self.w) * K

    @functools.cached_property
    def norm(self) -> Any:
        return np.sqrt(self.w @ self.w)


class Deep(Layer):
    def __init__(self, w: Any, depth: int) -> None:
        super().__init__(w)
        self.depth = depth

    def __call__(self, x: Any) -> Any:
        for _ in range(self.depth):
            x = super().__call__(x) * np.ones(3)
        return x[0]


LAYER, DEEP = Layer(V), Deep(V, 2)


@traced
def methods(x: Any) -> Any:
    return LAYER(x) + LAYER.activated(x[0]) + LAYER.total * x[0] + len(LAYER) * x[1] + LAYER.norm * x[2]


FUNCTIONS["an object"] = LAYER
FUNCTIONS["a method"] = LAYER.__call__


@traced
def inherited_methods(x: Any) -> Any:
    return DEEP(x) + Deep(x, 1)(V) + Layer.activated(x[1])


@traced
def classes_instantiated_inside(x: Any) -> Any:
    return Layer.make(x)(V) + (Layer(x) + LAYER)(x) + Layer(x).norm


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def value(self, x: Any) -> Any:
        return np.sum(np.array([self.a, self.b]) * x[:2])


SLOTTED = Slotted(2.0, 3.0)


@traced
def slots(x: Any) -> Any:
    return SLOTTED.value(x) + Slotted(x[0], 1.0).value(V)


@dataclasses.dataclass
class Model:
    w: Any
    b: Any = 0.5
    layers: list[Layer] = dataclasses.field(default_factory=list)

    def loss(self, x: Any) -> Any:
        b = np.empty(3)
        b[:] = self.w * x + self.b
        return np.sum(b**2) + sum(layer(x) for layer in self.layers)


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any

    def value(self, x: Any) -> Any:
        return np.sum(np.array(self.w) * x)


class Pair(typing.NamedTuple):
    a: Any
    b: Any

    def product(self) -> Any:
        return np.sum(np.array([self.a, self.b])) * self.a


BARE, MODEL, FROZEN, PAIR = Model(V), Model(V, layers=[LAYER]), Frozen(V), Pair(2.0, V)


@traced
def dataclasses_and_named_tuples(x: Any) -> Any:
    made = Model(x, x[0], [LAYER])
    changed = dataclasses.replace(FROZEN, w=x)
    return MODEL.loss(x) + made.loss(V) + FROZEN.value(x) + changed.value(x) + Pair(x[0], x[1]).product() + PAIR.b @ x


@traced
def types_are_what_they_seem(x: Any) -> Any:
    assert isinstance(LAYER, Layer)
    assert type(LAYER) is Layer
    assert isinstance(DEEP, Layer)
    assert issubclass(Deep, Layer)
    assert not isinstance(LAYER, Deep)
    assert LAYER.__class__ is Layer
    assert type(Layer(x)) is Layer
    assert float is float
    assert type(x) is np.ndarray
    assert isinstance(x[0], float)
    assert isinstance(x[0], np.float64 | int)
    assert isinstance(K, (int, float))
    assert LAYER is LAYER
    assert Model.__name__ == "Model"
    assert {Layer: 1.0}[type(LAYER)] == 1.0
    assert callable(helper)
    assert helper.__name__ == "helper"
    return x[0]
