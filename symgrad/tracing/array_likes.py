"""NumPy's functions as traced functions see them: lists and tuples that hold traced values are arrays, too.

NumPy asks only the arguments themselves what a call becomes, not the elements of a list. Here the list is looked
into; everything else goes to NumPy's function as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .creating import array
from .tables import IN_PLACE
from .tracer import Tracer

_SEQUENCES = (list, tuple)
_SHAPE_AT = {np.broadcast_to: 1, np.reshape: 1}
"""Where functions that look at the memory of their arguments take a shape."""


def tracer_within(value: Any) -> Tracer | None:
    """A traced value in nested lists and tuples; None for everything else."""
    if isinstance(value, _SEQUENCES):
        for v in value:
            # A tracer says that it is an array, never that it is a list.
            found = v if isinstance(v, Tracer) else tracer_within(v)
            if found is not None:
                return found
    return None


def _joined(value: Any) -> Any:
    return value if tracer_within(value) is None else array(value)


class NumpyFunction:
    """Stands for a function of NumPy."""

    __slots__ = ("real",)

    def __init__(self, real: Any) -> None:
        self.real = real

    @property  # type: ignore[misc]  # read only, unlike that of object
    def __class__(self) -> Any:
        """That of the function, for ``isinstance``."""
        return type(self.real)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, _SEQUENCES):
                found = tracer_within(value)
                if found is not None:
                    return self._recorded(found, args, kwargs)
        return self.real(*args, **kwargs)

    def _recorded(self, found: Tracer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.real in IN_PLACE:
            # These ask their arguments for shapes and memory; the others join lists as they record.
            shape_at = _SHAPE_AT.get(self.real)
            args = tuple([a if k == shape_at else _joined(a) for k, a in enumerate(args)])
        return found.__array_function__(self.real, (), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        return self if instance is None else self.real.__get__(instance, cls)

    def __eq__(self, other: object) -> bool:
        return self.real is (other.real if isinstance(other, NumpyFunction | NumpyUfunc) else other)

    def __hash__(self) -> int:
        return hash(self.real)

    def __repr__(self) -> str:
        return repr(self.real)


class NumpyUfunc:
    """Stands for a ufunc of NumPy or SciPy."""

    __slots__ = ("real",)
    __eq__ = NumpyFunction.__eq__
    __hash__ = NumpyFunction.__hash__
    __repr__ = NumpyFunction.__repr__

    def __init__(self, real: np.ufunc) -> None:
        self.real = real

    @property  # type: ignore[misc]  # read only, unlike that of object
    def __class__(self) -> Any:
        """That of the ufunc, for ``isinstance``."""
        return np.ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in args:
            if isinstance(value, _SEQUENCES):
                return self.real(*map(_joined, args), **kwargs)
        return self.real(*args, **kwargs)

    def outer(self, *args: Any, **kwargs: Any) -> Any:
        """``ufunc.outer``."""
        return self.real.outer(*map(_joined, args), **kwargs)

    def reduce(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        """``ufunc.reduce``."""
        return self.real.reduce(_joined(array), *args, **kwargs)

    def accumulate(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        """``ufunc.accumulate``."""
        return self.real.accumulate(_joined(array), *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


_DISPATCHED = type(np.sum)
_made: dict[Any, Any] = {}


def function_stand_in(value: Any) -> Any:
    """What stands for a function of NumPy that takes arrays, or a ufunc; None for everything else."""
    kind: Callable[[Any], Any]
    if type(value) is np.ufunc:
        kind = NumpyUfunc
    elif type(value) is _DISPATCHED:
        kind = NumpyFunction
    else:
        return None
    known = _made.get(value)
    if known is None:
        # NumPy's own live for ever; those that the user makes do not.
        known = kind(value)
        if type(value) is _DISPATCHED or getattr(np, value.__name__, None) is value:
            _made[value] = known
    return known


def real_function(value: Any) -> Any:
    """The function that a value stands for; None if it is no such function."""
    return value.real if type(value) in (NumpyFunction, NumpyUfunc) else None
