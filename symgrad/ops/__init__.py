"""The table of operations: one record each, one family a file."""

from . import (
    arithmetic,
    casting,
    comparison,
    contraction,
    control,
    indexing,
    linalg,
    masking,
    reduction,
    scipy_names,
    selection,
    shaping,
    special,
    transcendental,
)

__all__ = [
    "arithmetic",
    "casting",
    "comparison",
    "contraction",
    "control",
    "indexing",
    "linalg",
    "masking",
    "reduction",
    "scipy_names",
    "selection",
    "shaping",
    "special",
    "transcendental",
]
