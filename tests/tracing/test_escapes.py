"""Every way in which a value could leave or enter a trace unseen; one row of docs/escapes.md for each."""

from __future__ import annotations

import ctypes
import inspect
import io
import json
import logging
import pathlib
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing import captured_world
from tests.tracing import escapes as world
from tests.tracing.escapes import KEPT, LAYER, LOG, LOGGER, POINTS, ROWS, TARGET, Layer, remembered

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "escapes.md"


def named(*kinds: str) -> list[str]:
    return [name for name, entered in ROWS.items() if entered.kind in kinds]


def lines_of(function: Callable[..., Any]) -> set[int]:
    """The numbers of the lines of a function, and of the functions that it calls in this file."""
    found: set[int] = set()
    for name in (None, *function.__code__.co_names):
        code = function.__code__ if name is None else getattr(vars(world).get(name), "__code__", None)
        if code is not None:
            found |= {n for _, _, n in code.co_lines() if n}
            found |= {n for c in code.co_consts if inspect.iscode(c) for _, _, n in c.co_lines() if n}
    return found


def gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient on the NumPy backend: C is compared with it elsewhere."""
    made = sg.grad(function)

    def call(x: Any) -> Any:
        with sg.config(backend="numpy"):
            return made(x)

    return call


def slope(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """Central differences of a function of three numbers."""
    h = 1e-6
    return np.array([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(3)])


@pytest.fixture(autouse=True)
def plain_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts with the captured things as they were."""
    TARGET[:] = 0.0
    KEPT.clear()
    LOG.clear()
    remembered.cache_clear()
    monkeypatch.setattr(captured_world, "TARGET", TARGET)
    monkeypatch.setattr(sys, "stdin", io.StringIO("answer\n" * 9))
    LOGGER.setLevel(logging.ERROR)


def test_the_page_has_one_row_for_each_case() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert [c[0].strip("`") for c in cells] == list(ROWS)
    assert {c[0].strip("`"): c[1] for c in cells} == {name: entered.kind for name, entered in ROWS.items()}
    assert all(len(c) == 3 and c[2] for c in cells)
    assert len(ROWS) >= 100


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.c_backend)])
@pytest.mark.parametrize("name", named("exact", "guarded", "live"))
def test_values_are_those_of_plain_python(name: str, backend: Any) -> None:
    kind, function, expected = ROWS[name]
    compiled = sg.compile(function, backend=backend)
    points = POINTS * 2
    for x in points:
        with np.errstate(all="ignore"):
            wanted = function(x.copy())
        np.testing.assert_allclose(compiled(x.copy()), wanted, rtol=1e-13, atol=1e-15)
    assert compiled.cache_info().traces == (expected if kind == "guarded" else 1)


@pytest.mark.parametrize("name", named("exact", "guarded", "live"))
def test_gradients_are_those_of_differences(name: str) -> None:
    _, function, _ = ROWS[name]
    gradient = gradient_of(function)
    for x in POINTS:
        np.testing.assert_allclose(gradient(x.copy()), slope(function, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.c_backend)])
@pytest.mark.parametrize("name", named("live"))
def test_what_is_captured_is_never_stale(name: str, backend: Any) -> None:
    _, function, changes = ROWS[name]
    compiled = sg.compile(function, backend=backend)
    x = POINTS[0]

    def agrees() -> float:
        for _ in range(3):
            np.testing.assert_allclose(compiled(x.copy()), function(x.copy()), rtol=1e-13)
        return float(function(x.copy()))

    before = agrees()
    for change, undo in changes:
        change()
        try:
            assert agrees() != before
        finally:
            undo()
        assert agrees() == before


def test_the_environment_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = sg.compile(ROWS["os.environ"].function)
    assert compiled(POINTS[0]) == 1.0
    monkeypatch.setenv("SYMGRAD_TEST", "3")
    assert compiled(POINTS[0]) == 1.5
    monkeypatch.delenv("SYMGRAD_TEST")
    assert compiled(POINTS[0]) == 1.0


@pytest.mark.parametrize("name", named("warned"))
def test_warned_about_at_its_line(name: str) -> None:
    _, function, text = ROWS[name]
    compiled = sg.compile(function, backend="numpy")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = compiled(POINTS[0])
        compiled(POINTS[1])
    told = [w for w in caught if issubclass(w.category, sg.SideEffectWarning) and text in str(w.message)]
    assert told, [str(w.message) for w in caught]
    lines = lines_of(function) | (lines_of(captured_world.make_bump) if name == "nonlocal" else set())
    for w in told:
        assert w.filename in (world.__file__, captured_world.__file__)
        assert w.lineno in lines
        assert f".py:{w.lineno}" in str(w.message)
    assert value == POINTS[0][1]


@pytest.mark.parametrize("name", named("refused"))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_refused_with_line_and_fix(name: str) -> None:
    _, function, (error, text) = ROWS[name]
    compiled = sg.compile(function, backend="numpy")
    with pytest.raises(error, match=re.escape(text)) as caught:
        compiled(POINTS[0])
    assert isinstance(caught.value, sg.SymgradError)
    shown = re.search(r"\n  at .*(?:escapes|captured_world)\.py:(\d+) in ", str(caught.value))
    assert shown is not None
    assert int(shown[1]) in lines_of(function)
    assert str(caught.value).count("\n  ") >= 2, "what to write instead is missing"


def test_json_is_refused_too() -> None:
    with pytest.raises(TypeError):
        sg.compile(lambda x: x[0] * len(json.dumps(x[0])))(POINTS[0])


# ---------------------------------------------------------------- what is left outside


def test_what_is_kept_outside_are_plain_values() -> None:
    def f(x: Any) -> Any:
        world.STORED = [x, {"k": x[0]}]
        KEPT.append(float(np.sum(x)))
        KEPT.append(Layer(x[1]))
        LAYER.last = x[2]  # type: ignore[attr-defined]
        return x[1]

    with pytest.warns(sg.SideEffectWarning):
        gradient_of(f)(POINTS[0])
    np.testing.assert_array_equal(world.STORED[0], POINTS[0])
    assert type(world.STORED[0]) is np.ndarray
    assert world.STORED[1] == {"k": 0.5}
    assert KEPT[0] == 1.0
    assert type(KEPT[0]) is float
    assert type(KEPT[1]) is Layer
    assert KEPT[1].w == 2.0
    assert type(KEPT[1].w) is np.float64
    assert LAYER.last == -1.5  # type: ignore[attr-defined]
    del LAYER.last  # type: ignore[attr-defined]


def test_an_exception_carries_plain_values_and_texts_with_digits() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0.0:
            raise ValueError(f"bad value {x[0]:.2f}", x[1])
        return x[0]

    compiled = sg.compile(f, backend="numpy")
    for x in POINTS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match=f"bad value {x[0]:.2f}") as error:
                compiled(x)
        assert error.value.args[1] == x[1]
        assert type(error.value.args[1]) is np.float64
    assert compiled(-POINTS[0]) == -0.5


def test_a_list_that_grows_gets_an_entry_at_each_call() -> None:
    gradient = gradient_of(lambda x: (KEPT.append(float(np.sum(x))), np.sum(x**2))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.SideEffectWarning)
        for x in POINTS:
            np.testing.assert_array_equal(gradient(x), 2 * x)
    assert KEPT == [1.0, 4.0, 4.25]
    assert {type(v) for v in KEPT} == {float}


def test_a_traced_value_that_got_out_names_the_mistake() -> None:
    leaked: list[Any] = []

    class Sink:
        """Cannot be seen through: a class whose objects take values by their own rule."""

        def __init_subclass__(cls) -> None:
            raise TypeError("no subclasses")

    box = ctypes.py_object()  # holds a value without anybody seeing it

    def f(x: Any) -> Any:
        box.value = x[0]
        return x[1]

    sg.compile(f, backend="numpy")(POINTS[0])
    leaked.append(box.value)
    for use in (float, bool, lambda v: v * 2, np.asarray):
        with pytest.raises(sg.TraceError, match="after its trace was over"):
            use(leaked[0])
