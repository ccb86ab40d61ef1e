"""Large trees: old code is used again, and is made beside the calls."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import c_growing, process, toolchain
from symgrad.errors import CompilerError
from symgrad.runtime import background, kernels

pytestmark = pytest.mark.c_backend


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LARGE", 0)
    monkeypatch.setattr(c_growing, "WASTE", 100.0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Closed at first; while it is closed no code is made in the background."""
    opened = threading.Event()
    submit = background.submit

    def behind(job: Callable[[], Any]) -> Any:
        return submit(lambda: (opened.wait(60), job())[1])

    monkeypatch.setattr(background, "submit", behind)
    yield opened
    opened.set()


FRESH = float(np.random.default_rng().random())  # so that nothing of it is on disk


def fresh(x: Any) -> Any:
    return steps(x) * FRESH


def steps(x: Any) -> Any:
    y = x
    while np.sum(y * y) < 1000.0:
        y = np.sin(y) + y * 2.0 if y[0] > 3.0 else y * 2.0
    return np.sum(y[1:] * y[:-1])


def _starts() -> list[np.ndarray[Any, Any]]:
    return [np.array([5.1, 3.0, 1.0]) * 0.61**k for k in range(8)]


#: Two of the starts take the same path.
PATHS = 7


def _agrees(compiled: Any, x: np.ndarray[Any, Any], f: Callable[[Any], Any] = steps) -> None:
    value, slope = compiled(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    shift = 1e-6 * np.array([0.3, -0.5, 0.8])
    np.testing.assert_allclose(slope @ shift, (f(x + shift) - f(x - shift)) / 2, rtol=1e-6, atol=1e-12)


@pytest.mark.usefixtures("everything_is_large")
def test_a_new_path_adds_code_and_leaves_the_old_as_it_is() -> None:
    compiled = sg.compile(sg.value_and_grad(steps), backend="c")
    for x in _starts()[:2]:  # nothing remains of the code of the first path alone
        compiled(x)
    before: list[str] = []
    kept = 0
    for x in _starts() * 2:
        _agrees(compiled, x)
        (entry,) = compiled._entries.values()
        units = entry.c_code().units[:-1]  # without the driver
        assert units[: len(before)] == before
        kept += len(before)
        before = units
        objects = entry.c_code().objects
        assert objects is not None
        # Nothing is kept of the code that decided before.
        assert sorted(text for _, text in objects) == sorted(entry.c_code().units)
    assert kept > 0
    assert len(compiled.paths()) == PATHS


@pytest.mark.usefixtures("everything_is_large")
def test_code_out_of_use_is_dropped_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_growing, "WASTE", 0.0)
    compiled = sg.compile(sg.value_and_grad(steps), backend="c")
    for x in _starts():
        _agrees(compiled, x)
    (entry,) = compiled._entries.values()
    source = entry.c_code()
    functions = re.findall(r"int (kernel_\d+)\(const void \*const \*in.*\{$", source.text, re.MULTILINE)
    assert all(f"= {name}(from, to, ws);" in source.units[-1] for name in functions)


@pytest.mark.usefixtures("everything_is_large")
def test_units_compiled_before_are_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_units: list[str] = []
    run = process.run_jobs

    def counted(jobs: Any, *rest: Any) -> None:
        compiled_units.extend((job.folder / job.command[job.command.index("-c") + 1]).read_text() for job in jobs
                              if "-c" in job.command)
        run(jobs, *rest)

    monkeypatch.setattr(toolchain.process, "run_jobs", counted)
    compiled = sg.compile(lambda x: fresh(x) + 1.0, backend="c")
    for x in _starts():
        assert compiled(x) == pytest.approx(fresh(x) + 1.0, rel=1e-14)
    assert len(set(compiled_units)) == len(compiled_units)
    (entry,) = compiled._entries.values()
    assert set(entry.c_code().units) <= set(compiled_units)


@pytest.mark.usefixtures("everything_is_large")
def test_calls_go_on_while_code_is_made(gate: threading.Event) -> None:
    compiled = sg.value_and_grad(fresh)
    for _ in range(3):
        for x in _starts():
            _agrees(compiled, x, fresh)
    (entry,) = compiled._entries.values()
    assert entry.kernels.built is None
    assert compiled.cache_info().traces == PATHS
    gate.set()
    compiled.warmup(_starts()[0])
    assert entry.kernels.built is not None
    calls = compiled.cache_info().calls
    for x in _starts():
        _agrees(compiled, x, fresh)
    assert compiled.cache_info().calls == calls, "all were answered by the kernel"
    assert sum(row.hits for row in compiled.paths()) == 4 * len(_starts())


@pytest.mark.usefixtures("everything_is_large")
def test_code_for_forgotten_paths_is_thrown_away(gate: threading.Event) -> None:
    state = {"factor": np.arange(1.0, 4.0)}

    def f(x: Any) -> Any:
        return np.sum(x * state["factor"]) if x[0] > 0 else np.sum(x)

    compiled = sg.compile(f)
    x = np.array([1.0, 2.0, 3.0])
    for _ in range(3):
        assert compiled(x) == 14.0
    state["factor"] = np.arange(1.0, 4.0).astype(np.float32) * 2  # another type: everything is traced again
    assert compiled(x) == 28.0
    gate.set()
    compiled.warmup(x)
    for _ in range(3):
        assert compiled(x) == 28.0
        assert compiled(-x) == -6.0


@pytest.mark.usefixtures("everything_is_large")
def test_a_failing_compiler_is_told_about_by_the_next_call(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise CompilerError("no way")

    monkeypatch.setattr("symgrad.codegen.cache.KernelCache.get_or_build", broken)
    monkeypatch.setattr("symgrad.codegen.cache_folder._warned", set())
    compiled = sg.value_and_grad(lambda x: fresh(x) + 2.0)
    x = _starts()[2]
    for _ in range(2):
        _agrees(compiled, x, lambda x: fresh(x) + 2.0)
    gate.set()
    (entry,) = compiled._entries.values()
    making = entry.kernels._making
    assert making is not None
    making[0].exception(60)
    with pytest.warns(sg.CompilerWarning, match="no way"):
        _agrees(compiled, x, lambda x: fresh(x) + 2.0)
    _agrees(compiled, x, lambda x: fresh(x) + 2.0)


@pytest.mark.parametrize(("policy", "kernel"), [("sync", True), ("background", False), ("never", False)])
def test_who_waits(policy: str, kernel: bool, gate: threading.Event) -> None:
    factor = float(np.random.default_rng().random())
    with sg.config(compile=policy):
        f = sg.compile(lambda x: np.sum(np.sin(x) * factor))
        x = np.arange(5.0)
        for _ in range(3):
            assert f(x) == pytest.approx(np.sum(np.sin(x) * factor), rel=1e-14)
        assert (f.cache_info().kernels == 1) == kernel
    gate.set()


def test_code_made_earlier_is_used_without_a_compiler() -> None:
    def f(x: Any) -> Any:
        return np.sum(x**2 * 1.25)

    x = np.arange(3.0)
    sg.compile(f, backend="c")(x)
    with sg.config(compile="never"):
        again = sg.compile(f)
        assert [again(x), again(x), again.cache_info().kernels] == [6.25, 6.25, 1]


def test_no_such_policy() -> None:
    with pytest.raises(ValueError, match="sync, background, never, not 'later'"), sg.config(compile="later"):
        pass
