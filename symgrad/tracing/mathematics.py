"""symgrad's namesakes of the functions in Python's math and statistics modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.lazy import lazy_import
from ..core.pytree import flatten
from ..errors import UnsupportedOperationError
from ..ops.define import UFUNCS
from ..ops.transcendental import erf, erfc
from .number_types import as_float
from .refusing import refuse
from .tracer import Tracer, record

# It loads modules for fractions and decimal numbers.
statistics: Any = lazy_import("statistics")


def is_traced(*values: Any) -> bool:
    """True where a traced value is among the values, also in nested containers."""
    return any(isinstance(leaf, Tracer) for leaf in flatten(values)[0])


def _floats(values: Any) -> list[Any]:
    """These functions compute with Python floats, whatever they are given."""
    return [as_float(v) if isinstance(v, Tracer) else float(v) for v in values]


# ------------------------------------------------------------------------------------------ math


def _math(plain: Callable[..., Any], namesake: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the math module that hands traced values to NumPy's function of that meaning."""

    def call(*args: Any) -> Any:
        return record(namesake, _floats(args)) if is_traced(*args) else plain(*args)

    call.__name__ = plain.__name__
    return call


def _unknown(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the math module that has no counterpart yet."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            refuse(
                f"math.{plain.__name__} cannot be traced: symgrad has no rule for it",
                "Write it with NumPy functions that are known.",
                UnsupportedOperationError,
            )
        return plain(*args, **kwargs)

    call.__name__ = plain.__name__
    return call


def _log(x: Any, base: Any = None) -> Any:
    if not is_traced(x, base):
        return math.log(x) if base is None else math.log(x, base)
    (x,) = _floats([x])
    return _plain_log(x) if base is None else _plain_log(x) / _plain_log(*_floats([base]))


def _plain_log(x: Any) -> Any:
    return record(UFUNCS[np.log.__name__], (x,)) if isinstance(x, Tracer) else math.log(x)


def _integer(plain: Callable[..., Any], namesake: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        return int(namesake(x)) if isinstance(x, Tracer) else plain(x)

    return call


def _truth(plain: Callable[..., Any], namesake: Callable[..., Any]) -> Callable[..., bool]:
    def call(x: Any) -> bool:
        return bool(namesake(x)) if isinstance(x, Tracer) else plain(x)

    return call


def _sum(values: Any) -> Any:
    listed = list(values)
    return sum(_floats(listed)) if is_traced(listed) else math.fsum(listed)


def _prod(values: Any, *, start: Any = 1) -> Any:
    listed = list(values)
    if not is_traced(listed, start):
        return math.prod(listed, start=start)
    for v in listed:
        start = start * v
    return start


def _sumprod(p: Any, q: Any) -> Any:
    return sum([a * b for a, b in zip(p, q, strict=True)])


def _distance(p: Any, q: Any) -> Any:
    if not is_traced(p, q):
        return math.dist(p, q)
    return _length(*[a - b for a, b in zip(_floats(p), _floats(q), strict=True)])


def _length(*coordinates: Any) -> Any:
    if not is_traced(*coordinates):
        return math.hypot(*coordinates)
    listed = _floats(coordinates)
    if len(listed) == 1:
        return abs(listed[0])
    total = listed[0]
    for c in listed[1:]:
        total = record(_hypot, (total, c))
    return total


def _close(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> bool:
    if not is_traced(a, b, rel_tol, abs_tol):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    a, b = _floats([a, b])
    if a == b:
        return True
    if _is_infinite(a) or _is_infinite(b):
        return False
    distance = abs(a - b)
    return bool(distance <= abs(rel_tol * b)) or bool(distance <= abs(rel_tol * a)) or bool(distance <= abs_tol)


def _is_infinite(x: Any) -> bool:
    return bool(abs(x) == math.inf)


def _remainder(x: Any, y: Any) -> Any:
    if not is_traced(x, y):
        return math.remainder(x, y)
    x, y = _floats([x, y])
    return x - y * record(_rint, (x / y,))


def _parts(x: Any) -> Any:
    if not is_traced(x):
        return math.modf(x)
    (x,) = _floats([x])
    whole = record(_trunc, (x,))
    return x - whole, whole


def _scaled(x: Any, i: Any) -> Any:
    return math.ldexp(x, i) if not is_traced(x) else _floats([x])[0] * 2.0 ** int(i)


_hypot, _rint, _trunc = [UFUNCS[f.__name__] for f in (np.hypot, np.rint, np.trunc)]
_UFUNCS_OF_MATH: dict[Any, np.ufunc] = {
    math.sin: np.sin, math.cos: np.cos, math.tan: np.tan, math.asin: np.arcsin, math.acos: np.arccos,
    math.atan: np.arctan, math.atan2: np.arctan2, math.sinh: np.sinh, math.cosh: np.cosh, math.tanh: np.tanh,
    math.asinh: np.arcsinh, math.acosh: np.arccosh, math.atanh: np.arctanh, math.exp: np.exp, math.exp2: np.exp2,
    math.expm1: np.expm1, math.log2: np.log2, math.log10: np.log10, math.log1p: np.log1p, math.sqrt: np.sqrt,
    math.pow: np.power, math.fabs: np.absolute, math.fmod: np.fmod, math.copysign: np.copysign,
    math.radians: np.radians, math.degrees: np.degrees, math.cbrt: np.cbrt,
}  # fmt: skip
_OF_SPECIAL = {math.gamma: "gamma", math.lgamma: "gammaln"}
_OF_INTEGERS = {math.comb, math.factorial, math.gcd, math.isqrt, math.lcm, math.perm}
_BY_FUNCTION: dict[Any, Callable[..., Any]] = {
    **{
        plain: _unknown(plain) for plain in vars(math).values()
        if callable(plain) and plain not in _OF_INTEGERS and getattr(plain, "__module__", "") == math.__name__
    },
    **{
        plain: _math(plain, UFUNCS[ufunc.__name__])
        for plain, ufunc in _UFUNCS_OF_MATH.items() if ufunc.__name__ in UFUNCS
    },
    **{plain: _math(plain, UFUNCS[name]) for plain, name in _OF_SPECIAL.items() if name in UFUNCS},
    math.erf: _math(math.erf, erf), math.erfc: _math(math.erfc, erfc),
    **{p: _integer(p, n) for p, n in ((math.floor, np.floor), (math.ceil, np.ceil), (math.trunc, np.trunc))},
    **{p: _truth(p, n) for p, n in ((math.isnan, np.isnan), (math.isinf, np.isinf), (math.isfinite, np.isfinite))},
    math.log: _log, math.fsum: _sum, math.prod: _prod, math.dist: _distance, math.hypot: _length,
    math.isclose: _close, math.remainder: _remainder, math.modf: _parts, math.ldexp: _scaled,
}  # fmt: skip
MATH: dict[str, Callable[..., Any]] = {plain.__name__: function for plain, function in _BY_FUNCTION.items()}
"""What the math module's functions become, by their names."""
if hasattr(math, "sumprod"):
    MATH["sumprod"] = _sumprod

# ------------------------------------------------------------------------------------------ statistics


def _statistic(name: str, namesake: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the statistics module; traced data are handed to a formula."""

    def call(data: Any, *args: Any, **kwargs: Any) -> Any:
        listed = list(data)
        if not is_traced(listed, args, kwargs):
            return getattr(statistics, name)(listed, *args, **kwargs)
        return namesake(listed, *args, **kwargs)

    call.__name__ = name
    return call


def _mean(data: list[Any]) -> Any:
    return sum(data) / len(data)


def _fmean(data: list[Any], weights: Any = None) -> Any:
    floats = _floats(data)
    if weights is None:
        return sum(floats) / len(floats)
    listed = list(weights)
    return sum([a * w for a, w in zip(floats, listed, strict=True)]) / sum(listed)


def _spread(data: list[Any], center: Any) -> Any:
    middle = _mean(data) if center is None else center
    return sum([(v - middle) ** 2 for v in data])


def _variance(data: list[Any], xbar: Any = None) -> Any:
    if len(data) < 2:
        raise statistics.StatisticsError("variance requires at least two data points")
    return _spread(data, xbar) / (len(data) - 1)


def _pvariance(data: list[Any], mu: Any = None) -> Any:
    return _spread(data, mu) / len(data)


def _harmonic(data: list[Any], weights: Any = None) -> Any:
    listed = [1] * len(data) if weights is None else list(weights)
    return sum(listed) / sum([w / v for v, w in zip(data, listed, strict=True)])


def _geometric(data: list[Any]) -> Any:
    return MATH[math.exp.__name__](_mean([MATH[math.log.__name__](v) for v in data]))


def _root(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: MATH[math.sqrt.__name__](function(*args, **kwargs))


STATISTICS: dict[str, Callable[..., Any]] = {
    "mean": _mean, "fmean": _fmean, "variance": _variance, "pvariance": _pvariance, "stdev": _root(_variance),
    "pstdev": _root(_pvariance), "harmonic_mean": _harmonic, "geometric_mean": _geometric,
}  # fmt: skip
"""What the statistics module's functions become, by their names."""
STATISTICS.update({name: _statistic(name, function) for name, function in STATISTICS.items()})
