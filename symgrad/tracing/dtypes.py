"""Dtypes as traced functions see them: their type is what stands for NumPy's number type."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .tables import NUMBER_TYPES


class SeenDtype:
    """Stands for a dtype; NumPy takes it as one."""

    __slots__ = ("dtype",)

    def __init__(self, real: np.dtype[Any]) -> None:
        self.dtype = real

    @property  # type: ignore[misc]  # read only, unlike that of object
    def __class__(self) -> Any:
        """That of the dtype, for ``isinstance``."""
        return type(self.dtype)

    @property
    def type(self) -> Any:
        """The type of its scalars, by the name that the traced function knows it by."""
        real = self.dtype.type
        return NUMBER_TYPES.get(real, real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dtype, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.dtype == real_dtype(other))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __lt__(self, other: Any) -> bool:
        return bool(self.dtype < real_dtype(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.dtype <= real_dtype(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.dtype > real_dtype(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.dtype >= real_dtype(other))

    def __repr__(self) -> str:
        return repr(self.dtype)

    def __str__(self) -> str:
        return str(self.dtype)

    def __reduce__(self) -> Any:
        return np.dtype, (self.dtype.str,)


@cache
def seen_dtype(real: np.dtype[Any]) -> Any:
    """What stands for a dtype; one object for each, so that they can be compared with ``is``."""
    return SeenDtype(real)


def real_dtype(value: Any) -> Any:
    """The dtype that a value stands for; the value itself if it stands for none."""
    return value.dtype if type(value) is SeenDtype else value
