"""Code compiled before is loaded without writing its source, also in another process."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import c_source, c_tree
from symgrad.codegen.cache import default_cache
from symgrad.runtime import recall

pytestmark = pytest.mark.c_backend

RNG = np.random.default_rng(3)
SMALL, LARGE = RNG.normal(size=5), RNG.normal(size=300)
FIRST, SECOND = RNG.normal(size=(5, 5)), RNG.normal(size=(5, 5))
BIG_FIRST, BIG_SECOND = RNG.normal(size=(300, 300)), RNG.normal(size=(300, 300))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def two_captured(x):
    return np.sum((FIRST @ x) ** 2) - np.sum(SECOND @ x)


def two_captured_and_large(x):
    return np.sum((BIG_FIRST @ x) ** 2) - np.sum(np.sin(BIG_SECOND) @ x)


def branching(x):
    return np.sum(x * x) if np.sum(x) > 0 else np.sum(np.cos(x))


def a_large_table(x):
    return np.sum(x[:5] * np.linspace(0.0, 1.0, 5000).reshape(1000, 5)[::7].sum(axis=0))


def writes(x):
    x[0] = 2.0
    return np.sum(x**3)


PROGRAMS = [
    (rosenbrock, SMALL), (rosenbrock, LARGE), (two_captured, SMALL), (two_captured_and_large, LARGE),
    (branching, SMALL), (branching, LARGE), (a_large_table, SMALL), (writes, LARGE),
]  # fmt: skip


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("source was written")

    for module in (c_source, c_tree):
        for name in ("generate", "generate_tree", "write"):
            monkeypatch.setattr(module, name, fail, raising=False)
    monkeypatch.setattr("symgrad.runtime.kernels.Plan.code", fail)


def both_ways(f: Any, x: np.ndarray[Any, Any]) -> list[Any]:
    compiled = sg.compile(sg.value_and_grad(f), backend="c")
    made = [compiled(x.copy()), compiled(-x)]
    return [np.concatenate([np.ravel(part) for part in pair]) for pair in made]


@pytest.mark.parametrize(("f", "x"), PROGRAMS, ids=[f"{f.__name__}-{len(x)}" for f, x in PROGRAMS])
def test_the_same_again(f: Any, x: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = both_ways(f, x)
    builds = default_cache().stats().builds
    no_source(monkeypatch)
    np.testing.assert_array_equal(both_ways(f, x), wanted)
    assert default_cache().stats().builds == builds


def test_the_first_call_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for f in (rosenbrock, branching):
        both_ways(f, SMALL)
    no_source(monkeypatch)
    for f in (rosenbrock, branching):
        gradient = sg.value_and_grad(f)
        value = f(SMALL)
        assert gradient(SMALL)[0] == pytest.approx(value, rel=1e-14)
        assert gradient.cache_info().kernels == 1, "unlike a fresh function, which NumPy answers first"


def one_and_two(x, y):
    return x * y + 7.0 if x > 0 else (x * 2 + y, x * 3 - y)


def two_and_one(x, y):
    return (x * 3 - y, x * y + 7.0) if x > 0 else x * 2 + y


def writes_first_or_second(x, y):
    a, b, u, v = x.sum(), y.sum(), x * 2 + 1, y * 3 - 1
    if a > 0:
        x[:] = u
        return a
    y[:] = v
    return b


def writes_first_only(x, y):
    a, b, u, v = x.sum(), y.sum(), x * 2 + 1, y * 3 - 1
    if a > 0:
        x[:] = u
        return [a]
    x[:] = v
    return (b,)


def writes_second_or_first(x, y):
    a, b, u, v = x.sum(), y.sum(), x * 2 + 1, y * 3 - 1
    if a > 0:
        y[:] = u
        return a
    x[:] = v
    return b


@pytest.mark.parametrize("swapped", [False, True])
def test_paths_that_share_out_the_same_expressions_otherwise(swapped: bool) -> None:
    scalars = [(one_and_two, two_and_one)]
    arrays = [
        (writes_first_or_second, writes_first_only), (writes_first_or_second, writes_second_or_first),
        (writes_first_only, writes_second_or_first),
    ]  # fmt: skip
    for pairs, points in ((scalars, (2.0, -2.0)), (arrays, (np.array([1.0, 2.0]), np.array([-1.0, -3.0])))):
        for pair in pairs:
            for f in (pair[::-1] if swapped else pair) * 2:
                compiled = sg.compile(f, backend="c")
                for _ in range(3):
                    for point in points:
                        given = [copy.copy(point), copy.copy(point) * 3 + 1]
                        plain = copy.deepcopy(given)
                        np.testing.assert_equal(compiled(*given), f(*plain))
                        np.testing.assert_equal(given, plain)


def test_a_note_with_another_symbol_is_of_no_use(cache_of_its_own: Path) -> None:
    wanted = both_ways(rosenbrock, SMALL)
    for note in cache_of_its_own.glob("noted/*/*"):
        note.write_text(note.read_text().replace('"kernel"', '"kernelx"'))
    np.testing.assert_array_equal(both_ways(rosenbrock, SMALL), wanted)


def test_captured_arrays_are_not_confused() -> None:
    wanted = both_ways(two_captured, SMALL)

    def swapped(x: Any) -> Any:
        return np.sum((SECOND @ x) ** 2) - np.sum(FIRST @ x)

    assert not np.allclose(both_ways(swapped, SMALL), wanted)
    for values, f in ((wanted, two_captured), (both_ways(swapped, SMALL), swapped)):
        plain = [f(SMALL), f(-SMALL)]
        np.testing.assert_allclose([v[0] for v in values], plain, rtol=1e-12)


def test_another_compiler_or_other_flags_are_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    both_ways(rosenbrock, SMALL)
    builds = default_cache().stats().builds
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-DANOTHER=1")
    both_ways(rosenbrock, SMALL)
    assert default_cache().stats().builds == builds + 1


def test_another_symgrad_is_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    both_ways(rosenbrock, SMALL)
    monkeypatch.setattr(recall, "_stamp", lambda compiler: b"newer" + compiler)
    no_source(monkeypatch)
    with pytest.raises(AssertionError, match="source was written"):
        both_ways(rosenbrock, SMALL)


@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", '{"key": 5}', '{"key": "0123"}', "\0\1",
             '{"key": "' + 64 * "a" + '", "symbol": "f", "work": 1.0, "hidden": ["x"], "sizes": null}'],
)  # fmt: skip
def test_damaged_notes_are_written_again(damage: str, cache_of_its_own: Path) -> None:
    wanted = both_ways(rosenbrock, SMALL)
    notes = list(cache_of_its_own.glob("noted/*/*"))
    assert notes
    for note in notes:
        note.write_text(damage)
    np.testing.assert_array_equal(both_ways(rosenbrock, SMALL), wanted)
    assert any("symbol" in json.loads(note.read_text()) for note in notes if note.read_text() != damage)


def test_without_its_shared_object_a_note_is_worth_nothing(cache_of_its_own: Path) -> None:
    wanted = both_ways(rosenbrock, SMALL)
    for entry in cache_of_its_own.glob("entries/*/*.so"):
        entry.unlink()
    np.testing.assert_array_equal(both_ways(rosenbrock, SMALL), wanted)


def test_another_process_uses_it(cache_of_its_own: Path) -> None:
    script = (
        "import numpy as np, sys, symgrad as sg\n"
        "def f(x):\n    return np.sum(x**2) * 1.5 if x[0] > 0 else np.sum(x)\n"
        "g = sg.compile(sg.grad(f), backend='c')\n"
        "print(*g(np.array([1.0, 2.0])), *g(np.array([-1.0, 2.0])))\n"
        "print('symgrad.codegen.c_source' in sys.modules, 'jinja2' in sys.modules)\n"
    )
    outputs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs == ["3.0 6.0 1.0 1.0\nTrue True\n", "3.0 6.0 1.0 1.0\nFalse False\n"]
