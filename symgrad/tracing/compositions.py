"""NumPy functions that are short compositions of others: polynomials, differences, integrals, quantiles."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .creating import asarray
from .mathematics import is_traced
from .refusing import refuse
from .tables import IN_PLACE


def _polyval(p: Any, x: Any) -> Any:
    """``np.polyval``: Horner's rule, highest coefficient first."""
    at = asarray(x)
    value = np.zeros_like(at)
    for coefficient in asarray(p):
        value = value * at + coefficient
    return value


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """``np.trapezoid``: the integral by the trapezoidal rule."""
    values = np.moveaxis(asarray(y), axis, -1)
    width = dx
    if x is not None:
        places = asarray(x)
        width = np.diff(places) if places.ndim == 1 else np.moveaxis(np.diff(places, axis=axis), axis, -1)
    return np.sum(width * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """``np.ediff1d``: differences of neighbours, with what is to come before and after."""
    line = np.ravel(asarray(ary))
    parts = [None if to_begin is None else np.ravel(asarray(to_begin)), line[1:] - line[:-1],
             None if to_end is None else np.ravel(asarray(to_end))]  # fmt: skip
    return np.concatenate([part for part in parts if part is not None])


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """``np.gradient``: second-order differences inside, first- or second-order ones at the ends."""
    values = asarray(f)
    axes = tuple(range(values.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    if not varargs:
        spacing: list[Any] = [1.0] * len(axes)
    elif len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        spacing = [varargs[0]] * len(axes)
    elif len(varargs) == len(axes):
        spacing = list(varargs)
    else:
        raise TypeError("invalid number of arguments")
    made = [_slope(np.moveaxis(values, a, 0), h, edge_order) for a, h in zip(axes, spacing, strict=True)]
    made = [np.moveaxis(m, 0, a) for a, m in zip(axes, made, strict=True)]
    return made[0] if len(axes) == 1 else tuple(made)


def _slope(f: Any, spacing: Any, edge_order: int) -> Any:
    """Along the first axis; ``spacing`` is a distance, or the places along the axis."""
    n = f.shape[0]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    along = (-1,) + (1,) * (f.ndim - 1)
    steps = np.reshape(np.diff(asarray(spacing)), along) if np.ndim(spacing) else None
    if steps is None:
        inner = (f[2:] - f[:-2]) / (2.0 * spacing)
        h0 = h1 = g0 = g1 = spacing
    else:
        before, after = steps[:-1], steps[1:]
        inner = (
            -after / (before * (before + after)) * f[:-2] + (after - before) / (before * after) * f[1:-1]
            + before / (after * (before + after)) * f[2:]
        )
        h0, h1, g1, g0 = steps[:1], steps[1:2], steps[-2:-1], steps[-1:]
    if edge_order == 1:
        return np.concatenate([(f[1:2] - f[:1]) / h0, inner, (f[-1:] - f[-2:-1]) / g0])
    if steps is None:
        begin = -1.5 / h0 * f[:1] + 2.0 / h0 * f[1:2] + -0.5 / h0 * f[2:3]
        end = 0.5 / h0 * f[-3:-2] + -2.0 / h0 * f[-2:-1] + 1.5 / h0 * f[-1:]
        return np.concatenate([begin, inner, end])
    begin = (
        -(2.0 * h0 + h1) / (h0 * (h0 + h1)) * f[:1] + (h0 + h1) / (h0 * h1) * f[1:2]
        + -h0 / (h1 * (h0 + h1)) * f[2:3]
    )
    end = (
        g0 / (g1 * (g1 + g0)) * f[-3:-2] + -(g0 + g1) / (g1 * g0) * f[-2:-1]
        + (2.0 * g0 + g1) / (g0 * (g1 + g0)) * f[-1:]
    )
    return np.concatenate([begin, inner, end])


def _quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, **options: Any,
) -> Any:
    """``np.quantile`` by linear interpolation; a NaN makes the result NaN."""
    if out is not None or method != "linear" or any(v is not None for v in options.values()) or np.ndim(axis):
        refuse("np.quantile with these options cannot be traced", "Use method='linear' and one axis.")
    if is_traced(q):
        _refuse_traced(np.quantile.__name__)
    values = asarray(a)
    ndim = values.ndim
    line = np.sort(np.ravel(values) if axis is None else np.moveaxis(values, axis, -1), axis=-1)
    if line.dtype.kind != "f":
        line = line.astype(float)
    fractions = np.asarray(q, float)
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ValueError("Quantiles must be in the range [0, 1]")
    made = [_interpolated(line, float(fraction)) for fraction in fractions.ravel()]
    if keepdims:
        made = [m.reshape((1,) * ndim) if axis is None else np.expand_dims(m, axis) for m in made]
    return made[0] if fractions.ndim == 0 else np.reshape(np.stack(made), fractions.shape + np.shape(made[0]))


def _interpolated(line: Any, fraction: float) -> Any:
    last = line.shape[-1] - 1
    place = fraction * last
    low = min(int(place), last)
    weight = place - low
    below, above = line[..., low], line[..., min(low + 1, last)]
    step = above - below
    # NumPy goes from the nearer end, so that both ends are met exactly.
    value = above - step * (1.0 - weight) if weight >= 0.5 else below + step * weight
    worst = line[..., -1]
    return np.where(np.isnan(worst), worst, value)[()]


def _percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
    if is_traced(q):
        _refuse_traced(np.percentile.__name__)
    return _quantile(a, np.true_divide(q, 100.0), *args, **kwargs)


def _refuse_traced(name: str) -> NoReturn:
    refuse(f"np.{name} of a traced fraction cannot be traced", "Sort the array and interpolate with np.interp.")


def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """``np.vander``: powers of the elements as columns."""
    line = asarray(x)
    count = line.shape[0] if N is None else N
    powers = [np.ones_like(line)]
    for _ in range(count - 1):
        powers.append(powers[-1] * line)
    powers = powers[:count]
    return np.stack(powers if increasing else powers[::-1], axis=1)


def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, **options: Any,
) -> Any:
    """``np.cov`` without weights."""
    if fweights is not None or aweights is not None or any(v is not None for v in options.values()):
        refuse("np.cov with weights cannot be traced", "Subtract np.average(x, weights=w) and write the product.")
    rows = _rows(m, rowvar)
    if y is not None:
        rows = np.concatenate([rows, _rows(y, rowvar)])
    away = rows - np.mean(rows, axis=1, keepdims=True)
    count = rows.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    return np.squeeze((away @ away.T) * (1.0 / count))


def _rows(x: Any, rowvar: bool) -> Any:
    values = np.atleast_2d(asarray(x)).astype(float)  # NumPy computes in double precision
    return values if rowvar or np.shape(values)[0] == 1 else values.T


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, **options: Any) -> Any:
    """``np.corrcoef``: covariances over standard deviations, kept between -1 and 1."""
    if any(v is not None for v in options.values()):
        refuse("np.corrcoef with options cannot be traced", "Leave them out.")
    c = _cov(x, y, rowvar)
    if not np.ndim(c):
        return c / c
    spread = np.sqrt(np.diag(c))
    return np.clip(c / spread[:, None] / spread[None, :], -1, 1)


def _indices_from(plain: Any) -> Any:
    def call(arr: Any, k: int = 0) -> Any:
        rows, columns = arr.shape
        return plain(rows, k=k, m=columns)

    return call


IN_PLACE.update({
    np.polyval: _polyval, np.ediff1d: _ediff1d, np.gradient: _gradient, np.quantile: _quantile,
    np.percentile: _percentile, np.vander: _vander, np.cov: _cov, np.corrcoef: _corrcoef,
    np.tril_indices_from: _indices_from(np.tril_indices), np.triu_indices_from: _indices_from(np.triu_indices),
})  # fmt: skip
if hasattr(np, "trapezoid"):
    IN_PLACE[np.trapezoid] = _trapezoid
