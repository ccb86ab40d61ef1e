"""The end of a trace: what traced code did to the world outside is performed with values, and warned about."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.origin import Origin
from ..errors import TraceError, with_location
from .array_likes import real_function
from .changes import line_of_change, line_of_store
from .classes import class_changes
from .containers import restore
from .dtypes import SeenDtype
from .instances import copy_of, is_proxy, slots_of, written
from .number_types import real_type
from .refusing import warn_at
from .spaces import Globals
from .tracer import Tracer
from .watches import MISSING

if TYPE_CHECKING:
    from .namespace import Space

_ONCE = "  That happens once for each trace, not at every call. Return the value instead."


def close(space: Space, name: str) -> None:
    """Perform, with values, what the function did to the world outside, and warn about it."""
    told: dict[str, Origin | None] = {}
    for what, origin in _changes(space):
        told.setdefault(what, origin)
    for what, origin in told.items():
        place = f"\n  at {origin}" if origin else ""
        warn_at(f"{name} changed {what} while it was traced{place}\n{_ONCE}", origin)


def _changes(space: Space) -> Iterator[tuple[str, Origin | None]]:
    codes = [real.__code__ for real, _, _ in space.functions.values()]
    yield from _globals(space, codes)
    for real, made, handed, key in list(space.cells.values()):
        value = _contents(made)
        if value is not handed and value is not MISSING:
            origin = line_of_store(codes, "variable", key)
            real.cell_contents = _kept(space, value, origin)
            yield f"the outer variable {key}", origin
    for real, made, before in space.containers.changed():
        key = space.called.get(id(real), "")
        origin = line_of_change(codes, key)
        restore(real, made, before, lambda v, o=origin: _kept(space, v, o))  # type: ignore[misc]
        yield f"a {type(real).__name__}{f' ({key})' if key else ''}", origin
    for instance, proxy in space.proxies:
        for key, value in list(written(proxy).items()):
            origin = line_of_store(codes, "attribute", key)
            object.__setattr__(instance, key, _kept(space, value, origin))
            yield f"attribute {key}", origin
    for instance, before_it in space.states:
        for key, value in list(vars(instance).items()):
            if value is not before_it.get(key, MISSING):
                origin = line_of_store(codes, "attribute", key)
                vars(instance)[key] = _kept(space, value, origin)
                yield f"attribute {key} of a {type(instance).__name__}", origin
    for cls in space.classes:
        for key, value in class_changes(cls).items():
            origin = line_of_store(codes, "attribute", key)
            setattr(real_type(cls), key, _kept(space, value, origin))
            yield f"attribute {key} of {cls.__name__}", origin
    for real, made, own in space.functions.values():
        for key, value in vars(made).items():
            if value is not own.get(key, MISSING):
                origin = line_of_store(codes, "attribute", key)
                setattr(real, key, _kept(space, value, origin))
                yield f"attribute {key} of {real.__name__}", origin


def _globals(space: Space, codes: list[types.CodeType]) -> Iterator[tuple[str, Origin | None]]:
    for names in space.modules.values():
        for key, value in names.stored().items():
            origin = line_of_store(codes, "global", key)
            names.real[key] = _kept(space, value, origin)
            yield f"global {key}", origin
        for key in names.deleted():
            names.real.pop(key, None)
            yield f"global {key}", line_of_store(codes, "global", key)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


# ------------------------------------------------------------------------------------------ plain values


def _kept(space: Space, value: Any, origin: Origin | None) -> Any:
    """A value that is kept outside."""
    try:
        return plain(space, value, True)
    except _Unkeepable as error:
        raise TraceError(
            with_location(
                f"{error} cannot be kept outside of the traced function",
                str(origin) if origin else "", "Return values, and make it from them outside.",
            )
        ) from None  # fmt: skip


class _Unkeepable(Exception):
    """Something that only works while the function is traced."""


def plain(space: Space, value: Any, strict: bool) -> Any:
    """A value without tracers and stand-ins.

    With ``strict``, what cannot be without them is refused; otherwise it stays as it is.
    """
    if isinstance(value, Tracer):
        return _number(space, value, strict)
    known = space.real.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    function = real_function(value)
    if function is not None:
        return function
    kind = type(value)
    if kind is SeenDtype:
        return value.dtype
    if kind in (list, tuple, set, frozenset):
        return kind([plain(space, v, strict) for v in value])
    if kind is dict:
        return {plain(space, k, strict): plain(space, v, strict) for k, v in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        made = np.empty(value.shape, object)
        for index in np.ndindex(value.shape):
            made[index] = plain(space, value[index], strict)
        return made
    if space.made.get(id(value)) is value and value is not None:
        _make_plain(space, value, strict)
        return value
    if strict and (_is_function(value) or isinstance(value, (types.GeneratorType, map, filter, zip))):
        raise _Unkeepable(f"a {kind.__name__} of traced code")
    return value


def _is_function(value: Any) -> bool:
    if isinstance(value, types.MethodType):
        return _is_function(value.__func__)
    return isinstance(value, types.FunctionType) and isinstance(value.__globals__, Globals)


def _number(space: Space, value: Tracer, strict: bool) -> Any:
    trace = space.trace
    if value._expr.table is not trace.table or (not strict and not trace.is_known(value.expr)):
        return value
    concrete = np.asarray(trace.concrete(value.expr), value.dtype)
    if value.expr.aval.weak:
        return concrete.item()
    return concrete.copy() if concrete.ndim else concrete[()]


def _make_plain(space: Space, instance: Any, strict: bool) -> None:
    """Replace the tracers in an object that was made while tracing."""
    if isinstance(instance, dict):
        for key in list(dict.keys(instance)):
            dict.__setitem__(instance, key, plain(space, dict.__getitem__(instance, key), strict))
    elif isinstance(instance, list):
        list.__setitem__(instance, slice(None), [plain(space, v, strict) for v in list.__iter__(instance)])
    for name in [*getattr(instance, "__dict__", {}), *[n for n, _ in slots_of(type(instance))]]:
        value = getattr(instance, name, MISSING)
        if value is not MISSING:
            new = plain(space, value, strict)
            if new is not value:
                object.__setattr__(instance, name, new)


# ------------------------------------------------------------------------------------------ results


def released(space: Space, result: Any) -> Any:
    """A result in which objects from outside are copies, which can hold traced values."""
    kind = type(result)
    if kind in (list, tuple):
        return kind([released(space, v) for v in result])
    if kind is dict:
        return {k: released(space, v) for k, v in result.items()}
    if is_proxy(result):
        return released(space, copy_of(result, lambda v: v))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            value = getattr(result, field.name, MISSING)
            new = released(space, value)
            if new is not value and type(value) not in (list, tuple, dict):
                object.__setattr__(result, field.name, new)
    return result
