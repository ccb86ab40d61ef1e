"""Modules that are loaded when first used, so that importing symgrad loads little more than NumPy."""

from __future__ import annotations

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
    """Stands for a module and imports it at the first attribute access."""

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        # Copying the names makes every later access an ordinary module attribute look-up.
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


def lazy_import(name: str) -> Any:
    """Return a stand-in for the module ``name``.

    Parameters
    ----------
    name
        Absolute dotted name of the module.

    Examples
    --------
    >>> fractions = lazy_import("fractions")
    >>> fractions.Fraction(1, 2) + 1
    Fraction(3, 2)
    """
    return LazyModule(name)
