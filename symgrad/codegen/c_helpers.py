"""The C functions that generated code may call: only those used are pasted into it."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from .render import render

_USED: Final = re.compile(r"\bsg_[a-z0-9_]+")
_DEFINED: Final = re.compile(
    r"^(?:SG_APART )?static (?:inline )?[^(]*?\b\*?(sg_[a-z0-9_]+)\(|^\} (sg_[a-z0-9_]+);", re.MULTILINE
)
_INTEGERS: Final = {
    "i64": ("int64_t", "uint64_t"), "i32": ("int32_t", "uint32_t"), "i16": ("int16_t", "uint32_t"),
    "i8": ("int8_t", "uint32_t"), "u64": ("uint64_t", "uint64_t"), "u32": ("uint32_t", "uint32_t"),
    "u16": ("uint16_t", "uint32_t"), "u8": ("uint8_t", "uint32_t"),
}  # fmt: skip
_REALS: Final = {"": "double", "f": "float"}


class _Helper(NamedTuple):
    order: int
    text: str
    uses: frozenset[str]


def helpers_for(texts: list[str]) -> str:
    """C source of the helper functions that the texts call, and of those that these call.

    Parameters
    ----------
    texts
        C source.

    Examples
    --------
    >>> helpers_for(["y = sin(x);"])
    ''
    >>> "sg_to_i64" in helpers_for(["n = sg_to_i64(x);"])
    True
    """
    wanted: set[str] = set()
    pending = {name for text in texts if "sg_" in text for name in _USED.findall(text)}
    while pending:
        name = pending.pop()
        found = _helper(name)
        if found is not None and name not in wanted:
            wanted.add(name)
            pending |= found.uses
    chosen = {helper.order: helper.text for name in wanted if (helper := _helper(name)) is not None}
    return "".join(chosen[order] + "\n" for order in sorted(chosen))


def _helper(name: str) -> _Helper | None:
    """The helper of that name, None for names that are none: those of the code itself."""
    number = re.search(r"_([iu](?:64|32|16|8))$", name)
    families = [("c_convert.h.j2", ""), ("c_lapack.h.j2", ""),
                *(("c_real.h.j2", f) for f in _REALS), *(("c_lines.h.j2", f) for f in _REALS),
                *(("c_matrix.h.j2", f) for f in _REALS)]  # fmt: skip
    if number is not None:
        families = [*families, ("c_integer.h.j2", number[1]), ("c_lines.h.j2", number[1])]
    for template, variant in families:
        found = _family(template, variant).get(name)
        if found is not None:
            return found
    return None


@cache
def _family(template: str, variant: str) -> dict[str, _Helper]:
    """All helpers of one template, filled for one type."""
    if variant in _REALS:
        text = render(
            template, T=_REALS[variant], U=_REALS[variant], f=variant, s=variant, signed=True, real=True
        )
    else:
        t, u = _INTEGERS[variant]
        text = render(template, T=t, U=u, f="", s=f"_{variant}", signed=variant[0] == "i", real=False)
    # Pieces are divided by blank lines; the number keeps the pieces of all families in one fixed order.
    base = 10_000 * sorted(_ORDER).index(template) + 1000 * [*_REALS, *_INTEGERS].index(variant)
    found = {}
    for k, piece in enumerate(text.strip().split("\n\n")):
        match = _DEFINED.search(piece)
        if match is not None:
            name = match[1] or match[2]
            found[name] = _Helper(base + k, piece + "\n", frozenset(_USED.findall(piece)) - {name})
    return found


_ORDER: Final = ("c_convert.h.j2", "c_integer.h.j2", "c_lapack.h.j2", "c_lines.h.j2", "c_matrix.h.j2", "c_real.h.j2")
