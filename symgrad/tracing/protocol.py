"""From NumPy's dispatch protocols to functions of expressions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.lazy import lazy_import
from ..errors import TraceError, UnsupportedOperationError
from ..ops.define import ACCUMULATIONS, FUNCTIONS, REDUCTIONS, UFUNCS, as_exprs, cast, strengthen
from ..ops.shaping import reshape
from .dtypes import real_dtype, seen_dtype
from .folding import on_constants

difflib: Any = lazy_import("difflib")

def ufunc_method(ufunc: np.ufunc, method: str, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """What a ufunc, or one of its methods, becomes; without a rule a ufunc takes only what is known.

    Raises
    ------
    UnsupportedOperationError
        If the method is not known.
    """
    name = ufunc.__name__
    if method == "__call__":
        if name not in UFUNCS:
            return on_constants(ufunc, partial(unknown, f"np.{name}" if hasattr(np, name) else name, UFUNCS))
        return _plain(UFUNCS[name], kwargs)
    if method == "outer" and name in UFUNCS:
        return _outer(UFUNCS[name])
    table = {"reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}.get(method, {})
    if name not in table:
        raise UnsupportedOperationError(f"np.{name}.{method} cannot be traced")
    function = table[name]
    return _first_axis(function) if method == "reduce" else function


def _plain(function: Callable[..., Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A ufunc call with NumPy's keyword arguments."""
    dtype = kwargs.pop("dtype", None)
    mask = kwargs.pop("where", True)
    for ignored in ("casting", "order", "subok"):
        kwargs.pop(ignored, None)
    if mask is not True:
        raise TraceError(
            "where= leaves the other elements undefined.\n  Use np.where(mask, f(x), other) instead."
        )
    if dtype is None:
        return _strong(function)

    def converted(*operands: Any) -> Any:
        return function(*[cast(x, dtype) for x in as_exprs(*operands)])

    return converted


def _strong(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's functions turn Python numbers into NumPy's, unlike Python's operators."""

    def call(*operands: Any) -> Any:
        made = function(*operands)
        return strengthen(made) if isinstance(made, Expr) and made.aval.weak else made

    return call


def _outer(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        x, y = as_exprs(a, b)
        return function(reshape(x, shape=x.shape + (1,) * y.ndim), y)

    return call


def _first_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """``ufunc.reduce`` reduces the first axis unless told otherwise."""

    def call(x: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
        if dtype is not None:
            x = cast(as_exprs(x)[0], dtype)
        return function(x, axis=axis, keepdims=keepdims, **kwargs)

    return call


def in_order(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments by position where ours have other names; what is taken from ``kwargs`` leaves it."""
    ours, names = _parameters(func)
    for name in names[len(args) :]:
        if name not in kwargs or name in ours:
            break
        args = (*args, kwargs.pop(name))
    return args


@lru_cache(maxsize=1024)
def _parameters(func: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """What we call the parameters of a NumPy function, and what NumPy calls those that have a position."""
    try:
        theirs = inspect.signature(func).parameters.values()
        ours = inspect.signature(FUNCTIONS[func]).parameters.values()
    except (KeyError, ValueError):
        return frozenset(), ()
    named = frozenset([p.name for p in ours if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)])
    return named, tuple([p.name for p in theirs if p.kind is p.POSITIONAL_OR_KEYWORD])


def function_for(func: Any) -> Callable[..., Any]:
    """What a NumPy function becomes; without a rule it takes only what is known while tracing."""
    function = FUNCTIONS.get(func)
    if function is None:
        module = getattr(func, "__module__", "numpy").replace("numpy", "np")
        names = [f.__name__ for f in FUNCTIONS if hasattr(f, "__name__")]
        return on_constants(func, partial(unknown, f"{module}.{func.__name__}", names))
    return function


def unknown(name: str, known: Iterable[str]) -> UnsupportedOperationError:
    """The error for a function that symgrad does not know, with names that may be the same one misspelt."""
    near = difflib.get_close_matches(name.rpartition(".")[2], list(known), n=3, cutoff=0.8)
    hint = f"Known names that are close: {', '.join(near)}. " if near else ""
    return UnsupportedOperationError(
        f"{name} cannot be traced: symgrad has no rule for it.\n"
        f"  {hint}Write it with NumPy functions that are known; on constants any function may be called."
    )


def shape_query(name: str) -> Callable[..., Any]:
    """``np.shape``, ``np.ndim`` and ``np.size``: known while tracing."""

    def call(x: Any, axis: Any = None) -> Any:
        value = as_exprs(x)[0]
        if name == "shape":
            return value.shape
        if name == "ndim":
            return value.ndim
        return value.aval.size if axis is None else value.shape[axis]

    return call


for _function in (np.shape, np.ndim, np.size):
    FUNCTIONS[_function] = shape_query(_function.__name__)


def _like(fill: float | None) -> Callable[..., Any]:
    """``np.zeros_like`` and relatives: constants of the shape and dtype of a traced array."""

    def call(x: Any, *args: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Any:
        value = strengthen(as_exprs(x)[0])
        if fill is None:
            filling, args = as_exprs(args[0], value)[0], args[1:]
        else:
            filling = value.table.constant(fill)
        wanted = dtype if dtype is not None else args[0] if args and args[0] is not None else value.dtype
        return FUNCTIONS[np.broadcast_to](cast(filling, wanted), value.shape if shape is None else shape)

    return call


FUNCTIONS[np.zeros_like] = FUNCTIONS[np.empty_like] = _like(0)
FUNCTIONS[np.ones_like] = _like(1)
FUNCTIONS[np.full_like] = _like(None)
FUNCTIONS[np.result_type] = lambda *xs: seen_dtype(
    np.result_type(*[x.dtype if isinstance(x, Expr) else real_dtype(x) for x in xs])
)
FUNCTIONS[np.iscomplexobj] = lambda x: False
FUNCTIONS[np.isrealobj] = lambda x: True
