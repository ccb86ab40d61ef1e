"""Keys of ``x[key]``: traced constants become integers, and what kind of key it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.expr import Expr
from .folding import folded


def static_key(key: Any, ask: Callable[[Expr], int], ask_mask: Callable[[Expr], Any] | None = None) -> Any:
    """A key with traced constants turned into integers; ends of slices, and masks, are asked for."""
    if isinstance(key, tuple):
        return tuple([static_key(k, ask, ask_mask) for k in key])
    if isinstance(key, Expr):
        key = folded(key)
    if ask_mask is not None and isinstance(key, Expr) and key.dtype.kind == "b" and key.shape:
        return ask_mask(key)
    if isinstance(key, Expr) and key.value is not None:
        return key.value.item() if key.value.ndim == 0 and key.dtype.kind in "iu" else key.value
    if isinstance(key, slice):
        return slice(_bound(key.start, ask), _bound(key.stop, ask), _bound(key.step, ask))
    return key


def _bound(value: Any, ask: Callable[[Expr], int]) -> Any:
    value = static_key(value, ask)
    return ask(value) if isinstance(value, Expr) else value


def as_parts(key: Any) -> tuple[Any, ...]:
    """A key as a tuple of what it says about each axis."""
    return key if isinstance(key, tuple) else (key,)


def has_expr(key: Any) -> bool:
    """True for a key that holds traced values."""
    return any(isinstance(p, Expr) for p in as_parts(key))


def has_ellipsis(key: Any) -> bool:
    """True for a key with which NumPy gives an array, even one without axes."""
    return any(p is Ellipsis for p in as_parts(key))
