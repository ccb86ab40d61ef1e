"""Numbers as a person would write them, exactly: 2 instead of 2.0, 1/3, π/2, √2."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

LONG = 14
"""Significant digits from which on a decimal number is looked up among the known constants."""


@dataclass(frozen=True)
class Closed:
    """A number as ``p·base/q`` or ``p/(q·base)``; evaluated like this it is the number, to the last bit."""

    p: int
    q: int
    base: str
    below: bool


BASES: dict[str, Callable[[], float]] = {
    "": lambda: 1.0,
    "pi": lambda: math.pi,
    "sqrt 2": lambda: math.sqrt(2.0),
    "sqrt 3": lambda: math.sqrt(3.0),
    "sqrt pi": lambda: math.sqrt(math.pi),
    "sqrt 2 pi": lambda: math.sqrt(2.0 * math.pi),
    "log 2": lambda: math.log(2.0),
    "log 10": lambda: math.log(10.0),
    "log 2 pi": lambda: math.log(2.0 * math.pi),
    "exp 1": lambda: math.exp(1.0),
}


@cache
def _table() -> dict[float, Closed]:
    found: dict[float, Closed] = {}
    factors = [*range(1, 13), 16, 24, 32, 64, 90, 180]
    for base, value in BASES.items():
        for q in factors:
            for p in factors:
                if math.gcd(p, q) == 1:
                    found.setdefault(p * value() / q, Closed(p, q, base, False))
                    found.setdefault(p / (q * value()), Closed(p, q, base, True))
    return found


def closed_form(value: float) -> Closed | None:
    """The closed form of a positive double that has one and is not short in decimal.

    Examples
    --------
    >>> closed_form(1 / 3)
    Closed(p=1, q=3, base='', below=False)
    >>> closed_form(0.25) is None
    True
    """
    digits = repr(value).partition("e")[0].replace(".", "").lstrip("0")
    return _table().get(value) if len(digits) >= LONG else None


def number_text(value: Any) -> str:
    """Shortest text that gives the number back: no ``.0`` on whole numbers.

    Examples
    --------
    >>> number_text(2.0), number_text(0.1), number_text(np.float32(0.1)), number_text(-0.0)
    ('2', '0.1', '0.1', '-0.0')
    """
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    plain = float(value)
    if not math.isfinite(plain):
        return "nan" if math.isnan(plain) else "inf" if plain > 0 else "-inf"
    if plain.is_integer() and abs(plain) < 1e15 and not (plain == 0 and math.copysign(1, plain) < 0):
        return str(int(plain))
    return str(value) if isinstance(value, np.floating) else repr(plain)


def exact_product(a: Any, b: Any) -> Any:
    """The product where no digit is lost, otherwise None; single precision stays single."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b if abs(a * b) < 2**53 else None
    x, y = float(a), float(b)
    product = x * y
    if not math.isfinite(product) or not product or Fraction(x) * Fraction(y) != Fraction(product):
        return None
    narrow = [type(v) for v in (a, b) if isinstance(v, np.floating) and not isinstance(v, np.float64)]
    kept = narrow[0](product) if narrow else product
    return kept if float(kept) == product else None
