"""NumPy's names for code that is not run with stand-ins: arrays that hold traced values and can be written to.

Functions that symgrad traces see these without an import. In code that it cannot see into (C extensions that call
back, functions of other libraries) use ``import symgrad.numpy as np``: the creation functions are symgrad's,
everything else is NumPy's own, and outside of a trace the creation functions are NumPy's too.

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

from ..tracing.creating import CREATE as _CREATE

__all__ = sorted(name for name in _CREATE if hasattr(_np, name))  # noqa: PLE0605 - NumPy's names, as far as created


def __getattr__(name: str) -> Any:
    return _CREATE[name] if name in _CREATE and hasattr(_np, name) else getattr(_np, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_np)})
