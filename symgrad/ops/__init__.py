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
    "selection",
    "shaping",
    "special",
    "transcendental",
]
