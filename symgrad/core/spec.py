"""Specs: shape and dtype in the place of an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .aval import Aval, make_aval


class Spec:
    """Stands for an argument where no data are at hand.

    Parameters
    ----------
    shape
        Sizes of the axes; ``()`` for a scalar.
    dtype
        NumPy dtype or its name.
    name
        How the argument is called in what is printed; by default the name of the parameter.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.trace(lambda x: np.sum(x), sg.Spec((3,))).node_count
    1
    """

    # No dataclass: those are looked into as containers of arrays.
    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self, shape: int | Sequence[int] = (), dtype: Any = "float64", name: str | None = None
    ) -> None:
        self.shape: tuple[int, ...] = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.name = name

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype.name!r}{f', {self.name!r}' if self.name else ''})"

    @property
    def aval(self) -> Aval:
        """Shape and dtype."""
        return make_aval(self.shape, self.dtype)
