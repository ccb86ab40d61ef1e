"""Captured numbers that vary: read at every call instead of being constants of the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tracing.watches import Watched

PATIENCE = 2
"""From this change on a number is read at every call."""

_DTYPES: dict[type, Any] = {float: np.float64, int: np.int64}


class LiveNumbers:
    """The captured numbers of one function that have changed more than once.

    Each is kept in an array without axes, which generated code reads like any captured array.
    """

    def __init__(self) -> None:
        self._changes: dict[Any, int] = {}
        self._places: dict[Any, tuple[Watched, np.ndarray[Any, Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def arrays(self) -> Mapping[Any, np.ndarray[Any, Any]]:
        """Where the numbers are, by the place they are read from."""
        return {place: array for place, (_, array) in self._places.items()}

    def changed(self, watched: Watched) -> None:
        """Count a change of something that was watched."""
        for part in watched.parts():
            if not part.holds():
                self.changed(part)
        dtype = _DTYPES.get(type(watched.value))
        if dtype is None or watched.kind not in ("item", "cell", "slot", "entry"):
            return
        place = watched.place
        count = self._changes[place] = self._changes.get(place, 0) + 1
        if count >= PATIENCE and _fits(watched.now(), dtype):
            self._places[place] = (watched, np.array(watched.now(), dtype))

    def refresh(self) -> Watched | None:
        """Read all numbers again; the one that is no longer a number of its type, which is forgotten."""
        for place, (watched, array) in self._places.items():
            now = watched.now()
            if not _fits(now, array.dtype):
                del self._places[place], self._changes[place]
                return watched
            array[...] = now
        return None


def _fits(value: Any, dtype: Any) -> bool:
    if type(value) is int:
        return np.dtype(dtype) == np.int64 and -(2**63) <= value < 2**63
    return type(value) is float and np.dtype(dtype) == np.float64
