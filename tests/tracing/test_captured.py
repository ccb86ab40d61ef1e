"""What a traced function captures is never stale: every change is seen, and nothing else traces again."""

from __future__ import annotations

import collections
import copy
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SideEffectWarning

BACKENDS = ["numpy", pytest.param("c", marks=pytest.mark.c_backend)]
X = np.array([0.5, 2.0, -1.0])
TABLE = np.array([1.0, 2.0, 3.0])
NUMBER = 2.0
OPTION = "sum"
LIST = [TABLE, 2.0, [3.0]]
DICT: dict[str, Any] = {"w": TABLE, "k": 2.0}


class Thing:
    """An object with an array and a number, and a class attribute."""

    factor = 3.0

    def __init__(self) -> None:
        self.w = np.array([1.0, 2.0, 3.0])
        self.k = 2.0

    def method(self, x: Any) -> Any:
        return np.sum(self.w * x) * self.k * self.factor


@pytest.fixture(params=BACKENDS)
def calls(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call a compiled function several times, compare with plain Python, and check how often it was traced."""

    def make(function: Callable[..., Any]) -> Callable[..., float]:
        compiled = sg.compile(function, backend=request.param)

        def check(traces: int, x: np.ndarray = X) -> float:
            for _ in range(4):  # the later ones are answered by the kernel itself
                np.testing.assert_allclose(compiled(x), function(x), rtol=1e-14)
            assert compiled.cache_info().traces == traces
            return float(function(x))

        return check

    return make


@pytest.fixture(autouse=True)
def restored() -> Any:
    names = dict(globals())
    yield
    globals().update({k: names[k] for k in ("TABLE", "NUMBER", "OPTION", "LIST", "DICT", "helper")})
    TABLE[:] = [1.0, 2.0, 3.0]
    LIST[:] = [TABLE, 2.0, [3.0]]
    DICT.clear()
    DICT.update(w=TABLE, k=2.0)


# ---------------------------------------------------------------- arrays


def test_arrays_changed_in_place_are_read_at_each_call(calls: Any) -> None:
    check = calls(lambda x: np.sum(TABLE * x) + TABLE @ x + TABLE[1])
    assert check(1) == 2 * (0.5 + 4.0 - 3.0) + 2.0
    TABLE[0] = 10.0
    assert check(1) == 2 * (5.0 + 4.0 - 3.0) + 2.0
    TABLE[:] = 0.0
    assert check(1) == 0.0


def test_arrays_of_another_layout(calls: Any) -> None:
    grid = np.arange(6.0).reshape(2, 3)
    views = [grid.T, grid[:, ::-1], np.asfortranarray(grid), grid.astype(">f8"), grid[::-1]]
    for view in views:
        check = calls(lambda x, v=view: np.sum(v) * x[0] + v[0, 1] * x[1])
        before = check(1)
        view[0, 1] += 10.0
        assert check(1) == before + 10.0 * 0.5 + 10.0 * 2.0
        view[0, 1] -= 10.0


def test_a_global_array_bound_to_another(calls: Any) -> None:
    global TABLE
    old = TABLE
    check = calls(lambda x: np.sum(TABLE * x))
    assert check(1) == 1.5
    TABLE = np.array([2.0, 2.0, 2.0])
    assert check(2) == 3.0
    TABLE[1] = 3.0
    assert check(2) == 5.0
    TABLE = np.ones((2, 3))
    assert check(3) == 3.0
    TABLE = old
    assert check(4) == 1.5


def test_an_array_in_a_closure(calls: Any) -> None:
    w = np.ones(3)

    def rebind(value: Any) -> None:
        nonlocal w
        w = value

    check = calls(lambda x: np.sum(w * x))
    assert check(1) == 1.5
    w[0] = 3.0
    assert check(1) == 2.5
    rebind(np.full(3, 2.0))
    assert check(2) == 3.0


def test_arrays_in_attributes_entries_and_items(calls: Any) -> None:
    thing = Thing()
    for function, bind, array in (
        (lambda x: np.sum(thing.w * x), lambda v: setattr(thing, "w", v), thing.w),
        (lambda x: np.sum(DICT["w"] * x), lambda v: DICT.__setitem__("w", v), TABLE),
        (lambda x: np.sum(LIST[0] * x), lambda v: LIST.__setitem__(0, v), TABLE),
    ):
        check = calls(function)
        assert check(1) == 1.5
        array[1] = 4.0
        assert check(1) == 5.5
        array[1] = 2.0
        bind(np.full(3, 4.0))
        assert check(2) == 6.0
        bind(array)


def test_an_array_that_changes_its_dtype_or_shape(calls: Any) -> None:
    global TABLE
    check = calls(lambda x: np.sum(TABLE * x))
    check(1)
    TABLE = np.array([1, 2, 3])
    assert check(2) == 1.5
    TABLE = np.array(2.0)
    assert check(3) == 3.0


# ---------------------------------------------------------------- numbers, texts, functions


@pytest.mark.parametrize("other", [3.0, 3, True, np.float32(3.0), -0.0, float("inf")], ids=repr)
def test_a_number_is_watched_with_its_type(calls: Any, other: Any) -> None:
    global NUMBER
    check = calls(lambda x: x[1] * NUMBER)
    assert check(1) == 4.0
    NUMBER = other
    assert check(2) == 2.0 * other
    NUMBER = 2.0
    assert check(3) == 4.0


def test_an_equal_number_is_no_change(calls: Any) -> None:
    global NUMBER
    check = calls(lambda x: x[1] * NUMBER)
    check(1)
    NUMBER = float("2.0")
    check(1)


def test_texts_and_nothing(calls: Any) -> None:
    global OPTION
    check = calls(lambda x: 0.0 * x[0] if OPTION is None else getattr(np, OPTION)(x))
    assert check(1) == 1.5
    OPTION = "max"
    assert check(2) == 2.0
    OPTION = str(np.array(["max"])[0])
    assert check(2) == 2.0
    OPTION = None  # type: ignore[assignment]
    assert check(3) == 0.0


def helper(x: Any) -> Any:
    return x * NUMBER


def test_helper_functions(calls: Any) -> None:
    global NUMBER, helper
    original = helper
    check = calls(lambda x: helper(x[1]))
    assert check(1) == 4.0
    NUMBER = 5.0
    assert check(2) == 10.0
    helper = lambda x: x * 7.0
    assert check(3) == 14.0
    helper = original
    assert check(4) == 10.0


def test_defaults_attributes_and_code_of_functions(calls: Any) -> None:
    def scaled(x: Any, k: float = 2.0) -> Any:
        return x * k * scaled.extra  # type: ignore[attr-defined]

    scaled.extra = 1.0  # type: ignore[attr-defined]
    check = calls(lambda x: scaled(x[1]))
    assert check(1) == 4.0
    scaled.extra = 3.0  # type: ignore[attr-defined]
    assert check(2) == 12.0
    scaled.__defaults__ = (4.0,)
    assert check(3) == 24.0
    scaled.__code__ = (lambda x, k: x + k).__code__.replace(co_freevars=scaled.__code__.co_freevars)
    assert check(4) == 6.0


def test_modules(calls: Any) -> None:
    module = types.ModuleType("settings_of_a_user")
    module.k = 2.0  # type: ignore[attr-defined]
    module.scaled = lambda x: x * 3.0  # type: ignore[attr-defined]
    check = calls(lambda x: module.scaled(x[1]) * module.k)
    assert check(1) == 12.0
    module.k = 4.0  # type: ignore[attr-defined]
    assert check(2) == 24.0
    module.scaled = lambda x: x  # type: ignore[attr-defined]
    assert check(3) == 8.0


# ---------------------------------------------------------------- objects


def test_attributes_of_objects_and_classes(calls: Any) -> None:
    class Special(Thing):
        def method(self, x: Any) -> Any:
            return super().method(x) + self.k

    thing = Special()
    check = calls(thing.method)
    assert check(1) == 1.5 * 2.0 * 3.0 + 2.0
    thing.k = 4.0
    assert check(2) == 1.5 * 4.0 * 3.0 + 4.0
    Special.factor = 1.0
    assert check(3) == 1.5 * 4.0 + 4.0
    thing.factor = 2.0  # hides that of the class
    assert check(4) == 1.5 * 8.0 + 4.0
    del thing.factor
    assert check(5) == 1.5 * 4.0 + 4.0
    thing.method = lambda x: x[0]  # type: ignore[method-assign]
    assert calls(lambda x: thing.method(x))(1) == 0.5


def test_a_method_of_the_class_is_replaced(calls: Any) -> None:
    class Special(Thing):
        pass

    thing = Special()
    check = calls(lambda x: thing.method(x))
    assert check(1) == 9.0
    Special.method = lambda self, x: self.k * x[0]  # type: ignore[method-assign]
    assert check(2) == 1.0


def test_slots_and_properties(calls: Any) -> None:
    class Slotted:
        __slots__ = ("k", "w")

        def __init__(self) -> None:
            self.k = 2.0
            self.w = np.ones(3)

        @property
        def total(self) -> Any:
            return np.sum(self.w) * self.k

    thing = Slotted()
    check = calls(lambda x: x[0] * thing.total)
    assert check(1) == 3.0
    thing.w[0] = 5.0
    assert check(1) == 7.0
    thing.k = 4.0
    assert check(2) == 14.0
    thing.w = np.zeros(3)
    assert check(3) == 0.0


def test_an_attribute_that_appears_and_goes(calls: Any) -> None:
    thing = Thing()
    check = calls(lambda x: x[0] * getattr(thing, "extra", 1.0))
    assert check(1) == 0.5
    thing.extra = 4.0  # type: ignore[attr-defined]
    assert check(2) == 2.0
    del thing.extra  # type: ignore[attr-defined]
    assert check(3) == 0.5


# ---------------------------------------------------------------- containers


def test_lists(calls: Any) -> None:
    check = calls(lambda x: x[0] * LIST[1] * LIST[2][0] * len(LIST))
    assert check(1) == 0.5 * 2.0 * 3.0 * 3
    LIST[1] = 4.0
    assert check(2) == 0.5 * 4.0 * 3.0 * 3
    LIST[2][0] = 5.0  # type: ignore[index]
    assert check(3) == 0.5 * 4.0 * 5.0 * 3
    LIST.append(0.0)
    assert check(4) == 0.5 * 4.0 * 5.0 * 4


def test_dicts(calls: Any) -> None:
    check = calls(lambda x: x[0] * DICT["k"] * DICT.get("more", 1.0) * len(DICT))
    assert check(1) == 0.5 * 2.0 * 2
    DICT["k"] = 4.0
    assert check(2) == 0.5 * 4.0 * 2
    DICT["more"] = 3.0
    assert check(3) == 0.5 * 4.0 * 3.0 * 3
    del DICT["more"]
    assert check(4) == 0.5 * 4.0 * 2


@pytest.mark.parametrize(
    ("container", "change"),
    [
        ({1.0, 2.0}, lambda c: c.add(7.0)),
        (collections.deque([1.0, 2.0]), lambda c: c.appendleft(7.0)),
        (collections.OrderedDict(a=1.0), lambda c: c.update(b=7.0)),
        (collections.Counter({1.0: 2}), lambda c: c.update([1.0, 7.0])),
        (collections.defaultdict(float, {1.0: 2.0}), lambda c: c[7.0]),
        (collections.UserList([1.0]), lambda c: c.append(7.0)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_containers_of_the_standard_library(calls: Any, container: Any, change: Any) -> None:
    container = copy.copy(container)
    check = calls(lambda x: x[0] * len(list(container)) + sum(len(str(v)) for v in container))
    before = check(1)
    change(container)
    assert check(2) > before


def test_a_container_is_bound_to_another(calls: Any) -> None:
    global LIST
    check = calls(lambda x: x[0] * LIST[1])
    assert check(1) == 1.0
    LIST = [TABLE, 8.0]
    assert check(2) == 4.0


# ---------------------------------------------------------------- names that come and go


def test_a_deleted_name(calls: Any) -> None:
    names = {"np": np, "K": 2.0}
    exec("def f(x): return x[0] * K", names)
    check = calls(names["f"])
    assert check(1) == 1.0
    del names["K"]
    with pytest.raises(NameError):
        check(1)
    names["K"] = 4.0
    assert check(3) == 2.0  # the failing call traced too


def test_a_name_that_hides_a_builtin(calls: Any) -> None:
    names: dict[str, Any] = {}
    exec("def f(x): return abs(x[2])", names)
    check = calls(names["f"])
    assert check(1) == 1.0
    names["abs"] = lambda v: v * 5.0
    assert check(2) == -5.0
    del names["abs"]
    assert check(3) == 1.0


def test_a_variable_that_is_not_assigned_yet(calls: Any) -> None:
    def make() -> Any:
        def f(x: Any) -> Any:
            return x[0] * later if x[0] > 0 else x[1]

        def assign(value: float) -> None:
            nonlocal later
            later = value

        if False:
            later = 0.0
        return f, assign

    f, assign = make()
    check = calls(f)
    assert check(1, -X) == -2.0
    assign(3.0)
    assert check(2, -X) == -2.0
    assert check(3, X) == 1.5


# ---------------------------------------------------------------- numbers that vary


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_number_that_varies_becomes_an_input(backend: Any) -> None:
    global NUMBER
    thing = Thing()

    def f(x: Any) -> Any:
        return np.sum(x**2) * NUMBER + thing.k * x[0] - DICT["k"]

    compiled, gradient = sg.compile(f, backend=backend), sg.grad(f)
    for k in range(30):
        NUMBER, thing.k, DICT["k"] = 0.5 * k, 1.0 + k, k
        np.testing.assert_allclose(compiled(X), 5.25 * 0.5 * k + (1.0 + k) * 0.5 - k, rtol=1e-14)
        with sg.config(backend=backend):
            np.testing.assert_allclose(gradient(X), X * k + [1.0 + k, 0.0, 0.0], rtol=1e-14)
    assert compiled.cache_info().traces == 3
    assert compiled.cache_info().kernels <= 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_decisions_on_a_number_that_varies_are_guards(backend: Any) -> None:
    global NUMBER
    compiled = sg.compile(lambda x: x[0] * NUMBER if NUMBER > 2.5 else x[1], backend=backend)
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 1.5, 3.5, 2.0, 7.0]
    for NUMBER in values:
        assert compiled(X) == (0.5 * NUMBER if NUMBER > 2.5 else 2.0)
    assert compiled.cache_info().traces == 4  # 0, 1, then 2 as an input, and the other side of the decision


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_varying_number_may_become_something_else(backend: Any) -> None:
    global NUMBER
    compiled = sg.compile(lambda x: np.sum(x * NUMBER), backend=backend)
    for NUMBER in (1.0, 2.0, 3.0, 4.0, 5, 6, 7, 8, np.array([1.0, 0.0, 0.0]), 2.0):
        np.testing.assert_allclose(compiled(X), np.sum(X * NUMBER), rtol=1e-14)


# ---------------------------------------------------------------- everywhere


def test_derivatives_see_changes_too() -> None:
    thing = Thing()
    first, value_too = sg.grad(thing.method), sg.value_and_grad(thing.method)
    functions = [first, sg.grad(lambda x: sg.grad(thing.method)(x) @ x), value_too]
    for k, w in ((2.0, 1.0), (5.0, 1.0), (5.0, 7.0)):
        thing.k = k
        thing.w[0] = w
        expected = thing.w * k * 3.0
        for _ in range(3):
            np.testing.assert_allclose(functions[0](X), expected, rtol=1e-14)
            np.testing.assert_allclose(functions[1](X), expected, rtol=1e-14)
            np.testing.assert_allclose(functions[2](X)[1], expected, rtol=1e-14)


def test_static_arguments_are_watched() -> None:
    thing = Thing()
    compiled = sg.compile(lambda x, t: t.method(x), static_argnums=1)
    for k in (2.0, 3.0):
        thing.k = k
        for _ in range(3):
            assert compiled(X, thing) == 1.5 * k * 3.0


def test_methods_of_dataclass_arguments_see_globals() -> None:
    global NUMBER
    thing = Thing()
    compiled = sg.compile(lambda t, x: helper(t["w"] @ x))
    for NUMBER in (2.0, 3.0):
        for _ in range(3):
            assert compiled({"w": thing.w}, X) == 1.5 * NUMBER


def test_another_thread_changes_what_is_captured() -> None:
    compiled = sg.compile(lambda x: x[0] * NUMBER + np.sum(TABLE))

    def change() -> None:
        global NUMBER
        NUMBER = 9.0
        TABLE[0] = 2.0

    assert [compiled(X) for _ in range(4)] == [7.0] * 4
    thread = threading.Thread(target=change)
    thread.start()
    thread.join()
    assert [compiled(X) for _ in range(4)] == [11.5] * 4


def test_traced_writes_to_captured_things_are_seen_by_the_next_call() -> None:
    log: list[float] = []
    memory = np.zeros(3)

    def f(x: Any) -> Any:
        memory[:] = memory + x
        log.append(float(x[0]))
        return np.sum(memory) * len(log)

    compiled = sg.compile(f, backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SideEffectWarning)
        assert [compiled(X) for _ in range(3)] == [1.5, 6.0, 13.5]
    assert log == [0.5, 0.5, 0.5]
    np.testing.assert_array_equal(memory, 3 * X)
