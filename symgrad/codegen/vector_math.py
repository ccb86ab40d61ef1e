"""Mathematical functions that compute several elements at once, where the C library has them.

glibc's libmvec needs no other flags: a prototype that says that a function has vector forms is enough. Its
results are within 4 ulp, with the special values of the scalar functions.
"""

from __future__ import annotations

import ctypes
import platform
import re
from functools import cache
from typing import Final

from .toolchain import find_toolchain

_FUNCTIONS: Final = {
    name: arguments
    for arguments, names in (
        (1, "exp exp2 expm1 log log2 log10 log1p erf erfc cbrt"),
        (1, "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"),
        (2, "pow atan2 hypot"),
    )
    for name in names.split()
}  # fmt: skip
# Compilers join sin(x) and cos(x) into one scalar call, which ends vectorising, unless they do not know them.
_ALIASED: Final = """\
__attribute__((simd("notinbranch"), const)) {kind} sg_vector_{name}({kind}) __asm__("{name}");
#define {name}(x) sg_vector_{name}(x)
"""
_CALLED: Final = re.compile(r"\b(" + "|".join(_FUNCTIONS) + r")(f?)\(")


@cache
def _library() -> ctypes.CDLL | None:
    if platform.machine() != "x86_64":
        return None
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


@cache
def _has(function: str, suffix: str) -> bool:
    """Whether the library has the function for vectors of every width that the compiler may choose."""
    library = _library()
    if library is None:
        return False
    arguments = "v" * _FUNCTIONS[function]
    lanes = {"b": 4, "c": 8, "d": 8, "e": 16} if suffix else {"b": 2, "c": 4, "d": 4, "e": 8}
    return all(hasattr(library, f"_ZGV{isa}N{n}{arguments}_{function}{suffix}") for isa, n in lanes.items())


def vector_prototypes(texts: list[str]) -> str:
    """Prototypes that let the compiler vectorise the mathematical functions that the texts call.

    Parameters
    ----------
    texts
        C source.

    Returns
    -------
    str
        Empty where the compiler or the library is another one.
    """
    toolchain = find_toolchain()
    if toolchain is None or toolchain.kind != "gcc":
        return ""
    called = {match.groups() for text in texts for match in _CALLED.finditer(text)}
    lines = []
    for function, suffix in sorted(called):
        if _has(function, suffix):
            kind = "float" if suffix else "double"
            arguments = ", ".join([kind] * _FUNCTIONS[function])
            if function in ("sin", "cos"):
                lines.append(_ALIASED.format(kind=kind, name=function + suffix))
                continue
            lines.append(
                f'__attribute__((simd("notinbranch"), const)) {kind} {function}{suffix}({arguments});\n'
            )
    return "".join(lines) + "\n" if lines else ""
