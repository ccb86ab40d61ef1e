"""NumPy functions that are compositions of others: NumPy's values, and slopes beside central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS

X = np.array([0.3, 1.2, -0.7, 2.2, 0.9, 1.7])
PLACES = np.array([0.0, 0.5, 1.5, 1.75, 3.0, 4.0])

PROGRAMS: dict[str, Any] = {
    "polyval": lambda x: np.polyval(x[:4], x[4:]),
    "polyval at a number": lambda x: np.polyval([1.0, x[0], 2.0], 1.3),
    "polyval with fixed coefficients": lambda x: np.polyval([1, 2, 3], x),
    "trapezoid": lambda x: np.trapezoid(x) + np.trapezoid(x, dx=x[0]),
    "trapezoid over places": lambda x: np.trapezoid(x**2, np.cumsum(x**2)),
    "trapezoid along an axis": lambda x: np.trapezoid(x.reshape(2, 3), axis=0),
    "trapezoid over places along an axis": lambda x: np.trapezoid(x.reshape(3, 2), [0.0, 1.0, 3.0], axis=0),
    "ediff1d": lambda x: np.ediff1d(x.reshape(2, 3)),
    "ediff1d with ends": lambda x: np.ediff1d(x, to_end=[1.0, 2.0], to_begin=x[0]),
    "gradient": np.gradient,
    "gradient with a distance": lambda x: np.gradient(x, 0.25, edge_order=2),
    "gradient over places": lambda x: np.gradient(x**3, PLACES),
    "gradient over places to second order": lambda x: np.gradient(x, PLACES, edge_order=2),
    "gradient over traced places": lambda x: np.gradient(np.sin(x), np.cumsum(x**2)),
    "gradient of a matrix": lambda x: np.gradient(x.reshape(3, 2), 0.5, 2.0),
    "gradient along an axis": lambda x: np.gradient(np.outer(x, x), PLACES, axis=1),
    "gradient along two axes": lambda x: np.gradient(np.outer(x, x), axis=(1, 0)),
    "quantile": lambda x: np.quantile(x, 0.3),
    "quantiles": lambda x: np.quantile(x, [[0.0, 0.25], [0.9, 1.0]]),
    "quantiles along an axis": lambda x: np.quantile(np.outer(x, [1.0, -2.0, 3.0]), [0.1, 0.6], axis=0),
    "quantile that keeps axes": lambda x: np.quantile(x.reshape(2, 3), 0.4, axis=1, keepdims=True),
    "percentile": lambda x: np.percentile(x, 30) + np.percentile(x, [10, 70])[1],
    "vander": lambda x: np.vander(x),
    "vander of some powers": lambda x: np.vander(x, 3, increasing=True),
    "cov": lambda x: np.cov(x.reshape(2, 3)),
    "cov of two": lambda x: np.cov(x[:3], x[3:], ddof=0),
    "cov of one": lambda x: np.cov(x),
    "cov of columns": lambda x: np.cov(x.reshape(3, 2), rowvar=False, bias=True),
    "corrcoef": lambda x: np.corrcoef(np.outer([1.0, 2.0, -1.0], x) + np.arange(6.0) ** 2 * [[1], [0], [2]]),
    "corrcoef of two": lambda x: np.corrcoef(x[:3], x[3:]),
    "tril_indices_from": lambda x: x.reshape(2, 3)[np.tril_indices_from(x.reshape(2, 3))],
    "triu_indices_from": lambda x: x.reshape(2, 3)[np.triu_indices_from(x.reshape(2, 3), 1)],
}
if not hasattr(np, "trapezoid"):
    PROGRAMS = {name: f for name, f in PROGRAMS.items() if "trapezoid" not in name}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS])
def test_values(name: str, backend: str) -> None:
    _agrees(PROGRAMS[name], X, backend)
    _agrees(PROGRAMS[name], X[::-1] * 0.9, backend)


def _agrees(f: Any, x: Any, backend: str = "numpy") -> None:
    made, wanted = sg.compile(f, backend=backend)(x), f(x)
    assert type(made) is type(wanted) or np.shape(wanted) == ()
    for part, other in zip(*[v if isinstance(v, tuple) else (v,) for v in (made, wanted)], strict=True):
        assert (np.shape(part), part.dtype) == (np.shape(other), other.dtype)
        # Sums may be rounded in another order.
        accuracy = 20 * np.finfo(other.dtype).eps if other.dtype.kind == "f" else 0
        np.testing.assert_allclose(part, other, rtol=accuracy, atol=accuracy)


@pytest.mark.parametrize("name", [*PROGRAMS])
def test_slopes(name: str) -> None:
    def total(x: Any) -> Any:
        made = PROGRAMS[name](x)
        parts = made if isinstance(made, (tuple, list)) else [made]
        return sum(np.sum(np.sin(part) * 1.5) for part in parts)

    sg.check_grads(total, (X,), order=1)


def test_quantiles_of_nan_and_infinity() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        x = np.array([1.0, bad, 3.0])
        for q in (0.0, 0.5, 1.0):
            with np.errstate(invalid="ignore"):
                wanted = np.quantile(x, q)
            np.testing.assert_equal(sg.compile(lambda x, q=q: np.quantile(x, q))(x), wanted)


def test_integers_and_single_precision() -> None:
    for x in (np.arange(6), X.astype(np.float32)):
        for name in ("polyval with fixed coefficients", "ediff1d", "gradient", "quantile", "cov"):
            _agrees(PROGRAMS[name], x)


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: np.gradient(x[:1]), ValueError, "too small"),
        (lambda x: np.gradient(x, 1.0, 2.0), TypeError, "invalid number of arguments"),
        (lambda x: np.quantile(x, 1.5), ValueError, "range"),
        (lambda x: np.quantile(x, x[0]), sg.TraceError, "traced fraction"),
        (lambda x: np.quantile(x, 0.5, method="nearest"), sg.TraceError, "options"),
        (lambda x: np.cov(x, aweights=np.ones(6)), sg.TraceError, "weights"),
    ],
)
def test_what_is_refused(f: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        sg.compile(f)(X)
