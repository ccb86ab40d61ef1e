"""Small pieces of C text: names, literals, positions, comments."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ..core.expr import Expr
from ..core.graph import label
from ..lowering.program import Buffer, Index
from ..ops.c_types import c_type

#: Loop variables by depth.
LOOP_NAMES: Final = ("i", "j", "k", "l", "p", "q")
RESERVED: Final = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union unsigned
    void volatile while bool true false in out ws in_ s x_ main INFINITY NAN NULL errno signbit isnan
    isinf isfinite sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 expm1 log
    log2 log10 log1p pow sqrt cbrt hypot erf erfc tgamma lgamma ceil floor trunc rint round fmod
    remainder fabs fmax fmin copysign nan logb ldexp frexp modf scalbn ilogb fdim fma nextafter
    nexttoward nearbyint lrint lround llrint llround remquo j0 j1 jn y0 y1 yn gamma drem significand
    memset memcpy memmove size_t""".split()  # noqa: SIM905 - a list of quoted words reads worse
)


def loop_name(depth: int) -> str:
    """The variable of the loop at a depth, from 0."""
    return LOOP_NAMES[depth] if depth < len(LOOP_NAMES) else f"i{depth}"


class Names:
    """Identifiers that are valid in C and unique."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *LOOP_NAMES}
        self._counts: dict[str, int] = {}
        self._number = 0

    def fresh(self, wanted: str) -> str:
        """A new identifier like ``wanted``."""
        base = valid(wanted)
        if base not in self._taken and not self._was_numbered(base):
            self._taken.add(base)
            return base
        count = self._counts.get(base, 1)
        while True:
            count += 1
            name = f"{base}_{count}"
            if name not in self._taken:
                break
        self._counts[base] = count
        self._taken.add(name)
        return name

    def _was_numbered(self, name: str) -> bool:
        """Whether it is one of t1, t2, … given out so far: those are not kept one by one."""
        return name[0] == "t" and name[1:].isdecimal() and int(name[1:]) <= self._number

    def numbered(self) -> str:
        """The next of t1, t2, …"""
        self._number += 1
        while f"t{self._number}" in self._taken:
            self._number += 1
        return f"t{self._number}"

    def of(self, node: Expr) -> str:
        """A name for a value of a node: the user's if there is one."""
        known = node.table.labels.get(node.id)
        if known:
            return self.fresh(known)
        self._number += 1
        name = f"t{self._number}"
        return name if name not in self._taken else self.numbered()


def valid(name: str) -> str:
    """The nearest identifier of C."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name.replace(".", "_")).strip("_")
    if not text or text[0].isdigit():
        text = f"v{text}"
    return f"{text}_" if text in RESERVED or text.startswith("sg_") else text


def storage_type(dtype: np.dtype[Any]) -> str:
    """C type of an element in memory."""
    return "unsigned char" if dtype.kind == "b" else c_type(dtype)


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """A constant of C that is one operand: negative ones are in parentheses."""
    if dtype.kind == "f":
        number = float(value)
        if math.isnan(number):
            return "((float)NAN)" if dtype.itemsize == 4 else "NAN"
        if math.isinf(number):
            text = "INFINITY" if dtype.itemsize == 4 else "(double)INFINITY"
            return f"(-{text})" if number < 0 else f"({text})"
        text = str(np.float32(value)) + "f" if dtype.itemsize == 4 else repr(number)
        if dtype.itemsize == 4 and not any(c in text for c in ".e"):
            text = text[:-1] + ".0f"
        return f"({text})" if text[0] == "-" else text
    number = int(value)
    if dtype.kind == "b":
        return "1" if number else "0"
    if dtype == np.uint64:
        return f"UINT64_C({number})" if number >= 1 << 31 else f"{number}"
    if -(1 << 31) < number < 1 << 31:
        return f"({number})" if number < 0 else f"{number}"
    if number == -(1 << 63):
        return "INT64_MIN"
    return f"(-INT64_C({-number}))" if number < 0 else f"INT64_C({number})"


def position(index: Index, size: Callable[[int], str] = str) -> str:
    """Source of a position; ``size`` gives the source of strides and of offsets from them."""
    offset, terms = index
    text = ""
    for axis, factor in terms:
        name = loop_name(axis)
        term = name if abs(factor) == 1 else f"{size(abs(factor))} * {name}"
        if not text:
            text = term if factor > 0 else f"-{term}"
        else:
            text += f" + {term}" if factor > 0 else f" - {term}"
    if not text:
        return str(offset)
    if offset:
        text += f" + {size(offset)}" if offset > 0 else f" - {size(-offset)}"
    return text


def pointer(buffer: Buffer, offset: Callable[[Buffer], str]) -> str:
    """Source of the address of a buffer; ``offset`` gives the source of where it is in the workspace."""
    kind = storage_type(buffer.dtype)
    if buffer.kind == "output":
        return f"out[{buffer.position}]"
    if buffer.kind == "workspace":
        return f"({kind} *)(ws + {offset(buffer)})" if buffer.offset else f"({kind} *)ws"
    return f"in[{buffer.position}]"


def where_from(node: Expr, known: dict[Any, str]) -> str:
    """File and line of the user's source that made a node, and its text; empty if that is not known."""
    origin = node.table.origins.get(node.id)
    if origin is None:
        return ""
    key = (origin.filename, origin.lineno)
    text = known.get(key)
    if text is None:
        line = linecache.getline(origin.filename, origin.lineno).strip()
        text = known[key] = comment_text(f"{origin.short}: {line}" if line else origin.short)
    return text


def comment_text(text: str) -> str:
    """Text that can stand in a comment of strict C."""
    text = text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 100 else text[:97] + "..."


def buffer_label(buffer: Buffer, number: int) -> str:
    """What a buffer is called: the user's name, or its role and number."""
    known = label(buffer.node)
    if buffer.kind == "output":
        return f"out_{known}" if known else f"out{number}"
    kinds = {"input": "x", "capture": "captured", "constant": "table", "workspace": "w"}
    return known or kinds[buffer.kind] + str(number)
