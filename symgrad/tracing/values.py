"""Plain values that meet traced arrays: as NumPy takes them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .readable import Readable

_SEQUENCES = (list, tuple, range)


def tracer_free(value: Any) -> bool:
    """True for a Python value without traced values in it: NumPy itself can convert it."""
    if isinstance(value, (list, tuple)):
        return all(map(tracer_free, value))
    if type(value) is np.ndarray:
        return bool(value.dtype != object)
    return not isinstance(value, (Readable, np.ndarray))


def written_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """What is written to an array of a dtype: NumPy converts what is no number and no array."""
    if isinstance(value, (Readable, float, int, np.ndarray, np.generic)):
        return value
    return np.asarray(value, dtype) if tracer_free(value) else value


def check_depth(key: tuple[Any, ...], value: Any, given: int, wanted: int, is_element: bool) -> None:
    """Refuse sequences that are nested deeper than what they are written to, as NumPy does."""
    too_deep = given > wanted and isinstance(value, _SEQUENCES)
    if too_deep and any(isinstance(k, (list, np.ndarray)) for k in key):
        return
    if too_deep or (given and is_element and not _ELEMENTS_TAKE_ARRAYS):
        raise ValueError("setting an array element with a sequence.")


def _elements_take_arrays() -> bool:
    """Whether this NumPy writes arrays of one element to an element."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            np.zeros(1)[0] = np.ones(1)
        except ValueError:
            return False
    return True


_ELEMENTS_TAKE_ARRAYS = _elements_take_arrays()
