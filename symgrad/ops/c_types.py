"""C types of dtypes, and C source of integer arithmetic that wraps as NumPy's does.

Signed overflow is undefined in C, so signed integers are computed in unsigned types and converted back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..core.aval import Aval

C_TYPES: Final[dict[str, str]] = {
    "float64": "double", "float32": "float", "bool": "bool", "int64": "int64_t", "int32": "int32_t",
    "int16": "int16_t", "int8": "int8_t", "uint64": "uint64_t", "uint32": "uint32_t", "uint16": "uint16_t",
    "uint8": "uint8_t",
}  # fmt: skip

_BY_DTYPE: Final[dict[np.dtype[Any], str]] = {np.dtype(name): text for name, text in C_TYPES.items()}

Source = Callable[[Sequence[str], Sequence[Aval], dict[str, Any], Aval], str]


def c_type(dtype: np.dtype[Any]) -> str:
    """C type of one value; a bool in memory is an ``unsigned char``."""
    return _BY_DTYPE[dtype]


def modular(dtype: np.dtype[Any]) -> str:
    """The unsigned type in which integers of a dtype are computed; narrow ones must not become ``int``."""
    return "uint64_t" if dtype.itemsize == 8 else "uint32_t"


def short(dtype: np.dtype[Any]) -> str:
    """Suffix of helper functions for integers: ``i64``, ``u8``."""
    return f"{dtype.kind}{8 * dtype.itemsize}"


def wrapping(symbol: str, on_bools: str = "") -> Source:
    """Source of an infix operation on any dtype; ``on_bools`` is its operator for bools."""

    def source(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any], out: Aval) -> str:
        a, b = args[0], args[-1]
        if out.dtype.kind == "f":
            return f"{a} {symbol} {b}"
        if out.dtype.kind == "b":
            return f"{a} {on_bools} {b}"
        wide = modular(out.dtype)
        return f"({c_type(out.dtype)})(({wide}){a} {symbol} ({wide}){b})"

    return sketched(source, symbol)


def sketched(source: Source, text: str) -> Source:
    """Note what the source looks like for floats: costs are judged by it."""
    source.sketch = text  # type: ignore[attr-defined]  # functions take attributes
    return source


def by_kind(real: str, integer: str, unsigned: str | None = None, boolean: str | None = None) -> Source:
    """Source that depends on the kind of dtype of the first operand.

    The texts are format strings over ``{0}``, ``{1}``, …, ``{f}`` as elsewhere, ``{T}`` for the C type of the
    result, ``{U}`` for the unsigned type to compute in and ``{s}`` for the suffix of integer helpers.
    """
    texts = {"f": real, "i": integer, "u": integer if unsigned is None else unsigned}
    texts["b"] = texts["u"] if boolean is None else boolean

    def source(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any], out: Aval) -> str:
        dtype = avals[0].dtype
        wide = modular(out.dtype) if out.dtype.kind in "iu" else ""
        return texts[dtype.kind].format(
            *args, f="{f}", T=c_type(out.dtype), U=wide, s=short(dtype) if dtype.kind in "iu" else ""
        )

    return sketched(source, real)


def comparison(symbol: str) -> Source:
    """Source of a comparison; C would convert a negative number that meets an unsigned one."""

    def source(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any], out: Aval) -> str:
        a, b = args
        kinds = avals[0].dtype.kind + avals[1].dtype.kind
        if kinds == "iu":
            return f"({a} < 0 ? (-1 {symbol} 0) : ((uint64_t){a} {symbol} (uint64_t){b}))"
        if kinds == "ui":
            return f"({b} < 0 ? (0 {symbol} -1) : ((uint64_t){a} {symbol} (uint64_t){b}))"
        return f"({a} {symbol} {b})"

    return sketched(source, symbol)


def conversion(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any], out: Aval) -> str:
    """Source of a change of dtype."""
    source, target = avals[0].dtype, out.dtype
    if source == target:
        return args[0]
    if target.kind == "b":
        return f"({args[0]} != 0)"
    if source.kind == "f" and target.kind in "iu":
        # Out of range, C leaves the result undefined; narrow types go through the wider one as in NumPy.
        return f"({c_type(target)})sg_to_{'u64' if short(target) == 'u64' else _through(target)}({args[0]})"
    return f"({c_type(target)}){args[0]}"


def _through(target: np.dtype[Any]) -> str:
    return "i64" if target.itemsize == 8 or short(target) == "u32" else "i32"


sketched(conversion, "=")


_ROOTS: Final = {0.5: "sqrt{{f}}({q})", -0.5: "1 / sqrt{{f}}({q})", 1.5: "{q} * sqrt{{f}}({q})",
                 -1.5: "(1 / {q}) * sqrt{{f}}(1 / {q})"}  # fmt: skip


def power_source(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any], out: Aval) -> str:
    """Source of a power; small constant exponents become products and square roots."""
    x, y = args
    if out.dtype.kind != "f":
        return f"sg_ipow_{short(out.dtype)}({x}, {y}, &sg_fail)"
    exponent = _number(y)
    if exponent in _ROOTS:
        return _ROOTS[exponent].format(q=f"sg_root_base{{f}}({x})")
    if exponent is not None and exponent == int(exponent) and 1 <= abs(exponent) <= 4:
        base = x if exponent > 0 else f"(1 / {x})"
        n = int(abs(exponent))
        return f"({base} * {base}) * ({base} * {base})" if n == 4 else " * ".join([base] * n)
    return f"pow{{f}}({x}, {y})"


def _number(text: str) -> float | None:
    """The value of a literal, None for any other operand."""
    try:
        value = float(text.strip("()").rstrip("f"))
    except ValueError:
        return None
    return value if abs(value) < 1e6 else None


sketched(power_source, "pow{f}(")
