"""NumPy's names, for what NumPy's own protocols cannot intercept: creating arrays that hold traced values.

Everything else is NumPy's own: ``symgrad.numpy.sin is numpy.sin``. Use it as ``import symgrad.numpy as np``.

>>> import symgrad as sg, symgrad.numpy as np
>>> def rotated(angle):
...     matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
...     return np.sum(matrix @ np.array([1.0, 2.0]))
>>> sg.grad(rotated)(0.0)
-1.0
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from .creation import (
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    block,
    full,
    geomspace,
    linspace,
    logspace,
)

__all__ = [
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "block",
    "full",
    "geomspace",
    "linspace",
    "logspace",
]


def __getattr__(name: str) -> Any:
    return getattr(_np, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_np)})
