"""What NumPy's functions do besides computing: which give views, which write, and what to use instead of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

VIEWS: set[Any] = set()
"""NumPy functions whose results share memory with their argument where that is possible."""

GIVES_ARRAYS: set[Any] = {
    np.where, np.copy, np.broadcast_to, np.select, np.piecewise, np.tensordot, np.zeros_like, np.ones_like,
    np.empty_like, np.full_like,
}  # fmt: skip
"""NumPy functions whose results are arrays where others' are scalars; nobody else holds them."""

VIEW_METHODS: set[str] = set()
"""Methods of that kind."""

IN_PLACE: dict[Any, Callable[..., Any]] = {}
"""NumPy functions that write to their argument."""

IN_PLACE_METHODS: dict[str, Callable[..., Any]] = {}
"""Methods that write to their array."""

IN_PLACE_UFUNC: dict[str, Callable[..., Any]] = {}
"""Methods of ufuncs that write to their argument."""

METHOD_ADVICE: dict[str, str] = {
    "view": "Use astype to change the dtype.",
    "tofile": "Save the array outside of the traced function.",
    "tobytes": "Save the array outside of the traced function.",
}
"""What to write instead of a method that cannot be traced."""

NUMBER_TYPES: dict[Any, Any] = {}
"""What stands for a number type such as float while a function is traced."""
