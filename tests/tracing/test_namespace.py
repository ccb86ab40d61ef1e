"""The names that a traced function sees: however a function, a module or an object is reached, it is traced."""

from __future__ import annotations

import importlib
import math
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.named_functions import (
    BARE,
    FUNCTIONS,
    LAYER,
    POINTS,
    A,
    Frozen,
    K,
    Layer,
    Model,
    Pair,
    V,
    slope,
)  # fmt: skip

BACKENDS = ["numpy", pytest.param("c", marks=pytest.mark.c_backend)]


# ---------------------------------------------------------------- other modules


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0].endswith("_of_mine")]:
        del sys.modules[name]


def test_helpers_in_other_modules(modules: Path) -> None:
    (modules / "constants_of_mine.py").write_text(
        "import numpy as np\nSCALE = 3.0\nTABLE = np.array([1.0, 2.0, 3.0])\n"
    )
    (modules / "helpers_of_mine.py").write_text(
        "from numpy import zeros\nfrom constants_of_mine import TABLE\nimport constants_of_mine as c\n"
        "def weighted(x):\n    b = zeros(3)\n    b[:] = x * TABLE\n    return b.sum() * c.SCALE\n"
    )
    (modules / "main_of_mine.py").write_text(
        "import helpers_of_mine\nfrom helpers_of_mine import weighted\nimport constants_of_mine\n"
        "def f(x):\n    import constants_of_mine as again\n"
        "    return weighted(x) + helpers_of_mine.weighted(x) + again.SCALE * x[0]\n"
    )
    main = importlib.import_module("main_of_mine")
    constants = importlib.import_module("constants_of_mine")
    gradient = sg.grad(main.f)
    np.testing.assert_allclose(gradient(V), [2 * 3.0 + 3.0, 2 * 6.0, 2 * 9.0])
    constants.SCALE = 1.0
    np.testing.assert_allclose(gradient(V), [3.0, 4.0, 6.0])
    constants.TABLE[0] = 5.0
    np.testing.assert_allclose(gradient(V), [11.0, 4.0, 6.0])


def test_names_from_a_star_import(modules: Path) -> None:
    (modules / "starred_of_mine.py").write_text(
        "from numpy import *\nfrom math import *\n"
        "def f(x):\n    b = zeros(3)\n    b[1:] = x[:2] ** 2\n    return dot(b, x) + sqrt(x[0]) + linalg.norm(x)\n"
    )
    x = np.array([4.0, 2.0, 4.0])
    f = importlib.import_module("starred_of_mine").f
    assert sg.compile(f)(x) == f(x) == 16.0 * 2.0 + 4.0 * 4.0 + 2.0 + 6.0
    np.testing.assert_allclose(sg.grad(f)(x), np.array([16.25, 32.0, 4.0]) + x / 6.0)


def test_packages_and_relative_imports(modules: Path) -> None:
    package = modules / "package_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(
        "import numpy as np\ndef g(x):\n    b = np.zeros(2)\n    b[0] = x[0]\n    return b.sum()\n"
    )
    (package / "outer.py").write_text(
        "def f(x):\n    from .inner import g\n    from . import inner\n    return g(x) * inner.g(x)\n"
    )
    f = importlib.import_module("package_of_mine.outer").f
    np.testing.assert_allclose(sg.grad(f)(V), [2 * V[0], 0.0, 0.0])


def test_code_executed_from_text() -> None:
    names: dict[str, Any] = {"np": np}
    exec("W = np.array([1.0, 2.0, 3.0])\ndef f(x):\n    b = np.zeros(3)\n    b[:] = W * x\n    return b.sum()", names)
    gradient = sg.grad(names["f"])
    np.testing.assert_allclose(gradient(V), [1.0, 2.0, 3.0])
    names["W"] = np.ones(3)
    np.testing.assert_allclose(gradient(V), [1.0, 1.0, 1.0])


# ---------------------------------------------------------------- nothing is patched


def test_nothing_global_changes() -> None:
    watched = {
        **{f"np.{n}": getattr(np, n) for n in ("sin", "zeros", "array", "asarray", "float64", "random", "vectorize")},
        **{f"math.{n}": getattr(math, n) for n in ("sin", "sqrt")},
        "float": float, "isinstance": isinstance, "type": type, "Layer.total": Layer.total, "V": V,
    }  # fmt: skip
    seen: list[Any] = []
    tracing, looked = threading.Event(), threading.Event()

    def look() -> None:
        tracing.wait(60)
        seen.extend([np.sin, np.zeros, math.sin, float, Layer.__dict__["total"], V])
        looked.set()

    def f(x: Any) -> Any:
        tracing.set()
        looked.wait(60)
        return LAYER(x) + math.sin(x[0]) + np.zeros(3)[0]

    inner = dict(vars(Layer))
    thread = threading.Thread(target=look)
    thread.start()
    sg.grad(f)(V)
    thread.join()
    assert seen[:4] == [np.sin, np.zeros, math.sin, float]
    assert type(seen[5]) is np.ndarray
    assert dict(vars(Layer)) == inner
    now = {"float": float, "isinstance": isinstance, "type": type, "Layer.total": Layer.total, "V": V}
    for name, value in watched.items():
        owner, _, attribute = name.partition(".")
        current = getattr({"np": np, "math": math}[owner], attribute) if owner in ("np", "math") else now[name]
        assert current is value, name
    assert Layer(V).w is V
    assert type(LAYER) is Layer


def test_two_threads_trace_at_once() -> None:
    barrier = threading.Barrier(2, timeout=60)
    results: dict[int, Any] = {}

    def meet() -> None:
        barrier.wait()

    def work(k: int) -> None:
        local = Layer(np.full(3, float(k)))

        def f(x: Any) -> Any:
            meet()  # both are in the middle of their traces
            b = np.zeros(3)
            b[0] = x[0] * k
            meet()
            made = Layer(x)
            return np.sum(b) + np.sum(local.w * x) + np.sum(made.w) * K

        with sg.config(backend="numpy"):
            results[k] = sg.grad(f)(V)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(results[1], [4.0, 3.0, 3.0])
    np.testing.assert_allclose(results[5], [12.0, 7.0, 7.0])


def test_results_are_objects_of_their_own_classes() -> None:
    made = sg.compile(lambda x: (Model(x), Pair(x[0], x), {"f": Frozen(x * 2.0)}, BARE))(V)
    assert [type(v) for v in made] == [Model, Pair, dict, Model]
    assert type(made[2]["f"]) is Frozen
    assert made[0].loss(V) == Model(V).loss(V)
    np.testing.assert_array_equal(made[2]["f"].w, 2 * V)


def test_gradients_with_respect_to_models() -> None:
    def loss(model: Model, x: Any) -> Any:
        return model.loss(x) + Frozen(model.w).value(x)

    gradient = sg.grad(loss)(Model(V, 0.25), POINTS[0])
    assert type(gradient) is Model
    inner = V * POINTS[0] + 0.25
    np.testing.assert_allclose(gradient.w, 2 * inner * POINTS[0] + POINTS[0])
    np.testing.assert_allclose(gradient.b, 2 * np.sum(inner))


def test_derivatives_inside_traced_functions() -> None:
    def energy(x: Any) -> Any:
        b = np.zeros(3)
        b[:] = A @ x
        return np.sum(b**2) * LAYER.count

    outer = sg.grad(lambda x: np.sum(sg.grad(energy)(x) ** 2))
    hessian = 2 * LAYER.count * A.T @ A
    np.testing.assert_allclose(outer(V), 2 * hessian.T @ hessian @ V, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_python(name: str, backend: Any) -> None:
    function = FUNCTIONS[name]
    compiled, gradient = sg.compile(function, backend=backend), sg.grad(function)
    for x in [*POINTS, *POINTS]:
        np.testing.assert_allclose(compiled(x.copy()), function(x.copy()), rtol=1e-13)
        with sg.config(backend=backend):
            np.testing.assert_allclose(gradient(x.copy()), slope(function, x), rtol=1e-6, atol=1e-6)
