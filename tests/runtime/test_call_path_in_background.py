"""The compiled call path is built beside the first kernel; calls go through the one in Python meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime import background, dispatch_python, native

pytestmark = pytest.mark.c_backend


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[threading.Event]:
    """An empty cache; while the gate is closed nothing is built in the background."""
    if native.why_not_native() is not None:
        pytest.skip("this Python cannot have the compiled call path")
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    opened = threading.Event()
    submit = background.submit

    def behind(job: Callable[[], Any]) -> Any:
        return submit(lambda: (opened.wait(60), job())[1])

    monkeypatch.setattr(background, "submit", behind)
    native.reset()
    yield opened
    opened.set()
    native.native_module()
    native.reset()


def _kinds(compiled: Any) -> set[type]:
    return {type(entry.front) for entry in compiled._entries.values()}


def test_calls_do_not_wait_for_it(gate: threading.Event) -> None:
    compiled = sg.compile(sg.value_and_grad(lambda x: np.sum(x**2)), backend="c")
    vectors = [np.arange(3.0), np.arange(4.0)]
    for _ in range(3):
        for x in vectors:
            value, slope = compiled(x)
            assert value == np.sum(x**2)
            np.testing.assert_array_equal(slope, 2 * x)
    assert native.pending()
    assert _kinds(compiled) == {dispatch_python.Dispatcher}
    assert compiled.cache_info() == (2, 2, 2)
    gate.set()
    module = native.native_module()
    assert module is not None
    for x in vectors * 2:
        np.testing.assert_array_equal(compiled(x)[1], 2 * x)
    assert _kinds(compiled) == {module.Dispatcher}
    assert compiled.__call__ is compiled._front
    assert [compiled.paths(x)[0].hits for x in vectors] == [5, 5]


def test_kernels_that_do_not_stand_alone_go_over_too(gate: threading.Event) -> None:
    def f(x: Any) -> Any:
        x += 1.0
        return np.sum(x)

    compiled = sg.compile(f, backend="c")
    x = np.zeros(3)
    assert [float(compiled(x)) for _ in range(3)] == [3.0, 6.0, 9.0]
    (entry,) = compiled._entries.values()
    assert isinstance(entry.kernel, dispatch_python.Dispatcher)
    gate.set()
    native.native_module()
    assert [float(compiled(x)) for _ in range(2)] == [12.0, 15.0]
    assert not isinstance(entry.kernel, dispatch_python.Dispatcher)
    assert compiled.paths()[0].hits == 5


def test_warmup_waits_for_it(gate: threading.Event) -> None:
    gate.set()
    compiled = sg.compile(lambda x: x * 2.0, backend="c")
    compiled.warmup(sg.Spec((2,)))
    assert not native.pending()
    assert compiled.__call__ is compiled._front
    np.testing.assert_array_equal(compiled(np.ones(2)), 2 * np.ones(2))
    assert compiled.cache_info().calls == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_builds_its_own(gate: threading.Event) -> None:
    compiled = sg.compile(lambda x: x * 2.0, backend="c")
    assert compiled(1.5) == 3.0
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = compiled(2.0) == 4.0 and not native.pending() and native.native_module() is not None
        finally:
            os._exit(not right)
    assert os.waitpid(child, 0)[1] == 0
