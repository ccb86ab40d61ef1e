"""NumPy's functions, methods and indexing as users write them: traced against NumPy itself, with derivatives.

Each line of ``numpy_calls.txt`` is an expression over the arrays of ``OPERANDS``. What it names is traced;
the result must have NumPy's dtype, shape and value, and forward and reverse derivatives must agree with
finite differences.
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from symgrad.ops.define import ACCUMULATIONS, FUNCTIONS, METHODS, REDUCTIONS, UFUNCS
from tests.core.graphs import central, jvp_graph, run, run_all, trace, vjp_graph

_rng = np.random.default_rng(7)


def _well(n: int) -> Any:
    return _rng.uniform(-1, 1, (n, n)) + 3 * np.eye(n)


_half = _rng.uniform(-1, 1, (3, 3))
OPERANDS: dict[str, Any] = {
    "s": 0.7,
    "q": np.float64(-1.3),
    "z": np.array(0.4),
    "v": np.array([0.3, -1.2, 2.5, 0.9]),
    "w": np.array([1.1, 0.4, -0.6]),
    "x": _rng.uniform(-2, 2, (3, 4)),
    "y": _rng.uniform(-2, 2, (3, 4)),
    "p": _rng.uniform(0.3, 0.9, (3, 4)),
    "t": _rng.uniform(-2, 2, (2, 3, 4)),
    "A": _well(3),
    "S": _half @ _half.T + 2 * np.eye(3),
    "B": np.stack([_well(3), _well(3)]),
    "r": np.array([[1.5], [-0.5], [2.0]]),
    "e": np.zeros((0, 3)),
    "one": np.array([0.8]),
    "f": _rng.uniform(0.5, 2, (2, 3)).astype(np.float32),
    "n": np.array([[0.5, np.nan, 2.0], [np.nan, 1.5, -0.3]]),
    "i": np.array([[3, -1, 4], [1, 5, -9]]),
    "k": np.array([2, 0, 1]),
    "u": np.array([200, 10, 7], np.uint8),
    "m": np.array([[True, False, True, True], [False, False, True, False], [True, True, True, False]]),
}

LINES = Path(__file__).with_name("numpy_calls.txt").read_text(encoding="utf-8").splitlines()
_BUILTINS = (divmod, max, sum, abs, len, round, slice, range, int, float, bool)
_SPACE: dict[str, Any] = {"np": np, "sc": sc, **{b.__name__: b for b in _BUILTINS}}


def _attributes(lines: list[str]) -> set[str]:
    parsed = [ast.parse(line, mode="eval") for line in lines]
    return {node.attr for tree in parsed for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


# An operation is added in one file: a ufunc that no line names is called on values in (0, 1).
for _name in sorted(set(UFUNCS) - _attributes(LINES)):
    _module = "np" if hasattr(np, _name) else "sc"
    LINES.append(f"{_module}.{_name}({', '.join('p' * getattr(_SPACE[_module], _name).nin)})")


def _operands(line: str) -> list[str]:
    used = {n.id for n in ast.walk(ast.parse(line, mode="eval")) if isinstance(n, ast.Name)}
    bound = {n.arg for n in ast.walk(ast.parse(line, mode="eval")) if isinstance(n, ast.arg)}
    return [name for name in OPERANDS if name in used - bound]


def _function(line: str, names: list[str]) -> Any:
    return eval(compile(f"lambda {', '.join(names)}: {line}", "<calls>", "eval"), dict(_SPACE))


@pytest.mark.parametrize("line", LINES)
def test_call(line: str) -> None:
    names = _operands(line)
    function = _function(line, names)
    args = [OPERANDS[name] for name in names]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = np.asarray(function(*args))
    graph = trace(function, *args)
    found = np.asarray(run(graph, *args))
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    exact = expected.dtype.kind != "f"
    bound = 0 if exact else 1e-13 if expected.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found, expected, rtol=bound, atol=0 if exact else bound * 4)
    wrt = [j for j, a in enumerate(args) if np.asarray(a).dtype == np.float64 and not np.isnan(a).any()]
    if not exact and wrt and np.isfinite(expected).all() and expected.dtype == np.float64:
        _check_derivatives(graph, args, wrt)


def _check_derivatives(graph: Any, args: list[Any], wrt: list[int]) -> None:
    rng = np.random.default_rng(3)
    tangents = [rng.uniform(-1, 1, np.shape(args[j])) for j in wrt]

    def moved(h: float) -> Any:
        shifted = list(args)
        for j, t in zip(wrt, tangents, strict=True):
            shifted[j] = args[j] + h * t
        return run(graph, *shifted)

    pushed = run(jvp_graph(graph, wrt), *args, *tangents)
    np.testing.assert_allclose(pushed, central(moved), rtol=1e-8, atol=1e-9)
    ct = rng.uniform(-1, 1, np.shape(pushed))
    pulled = run_all(vjp_graph(graph, wrt), *args, ct)
    for g, j in zip(pulled, wrt, strict=True):
        assert np.shape(g) == np.shape(args[j])
    left = float(np.sum(ct * pushed))
    products = [np.sum(g * t) for g, t in zip(pulled, tangents, strict=True)]
    sizes = [float(np.sum(np.abs(g * t))) for g, t in zip(pulled, tangents, strict=True)]
    scale = np.sum(np.abs(ct * pushed)) + sum(sizes)
    assert abs(left - sum(products)) <= 1e-12 * max(scale, 1e-30)


# ------------------------------------------------------------------------------------------ completeness


def test_every_known_name_is_called() -> None:
    called = _attributes(LINES)
    functions = {f.__name__ for f in FUNCTIONS if not isinstance(f, str)}
    missing = functions - called
    assert not missing, sorted(missing)
    assert not set(UFUNCS) - called, sorted(set(UFUNCS) - called)
    assert not {m for m in METHODS if not m.startswith("_")} - called
    assert not (set(REDUCTIONS) | set(ACCUMULATIONS)) - called
