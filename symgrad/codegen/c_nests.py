"""Loop nests that are the same but for the memory they work on: each is one C function."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from .c_text import RESERVED

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?!\w)(\s*\()?|(?<![\w.])\d[\w.]*|/\*.*?\*/")
_MARK: Final = "\0"
_INDENT: Final = "    "


@dataclass(frozen=True)
class Nest:
    """A loop nest where it stands.

    Attributes
    ----------
    inline
        Its lines if it stays there.
    arguments
        What is passed to the function that is called instead.
    key
        Equal for nests that are the same function; None where there cannot be one.
    parameters, body
        Of that function, in the names of this nest.
    weight
        Its statements.
    """

    inline: list[str]
    arguments: str
    key: Hashable
    parameters: str
    body: list[str]
    weight: int


@dataclass(frozen=True)
class Outside:
    """A name that a nest takes from around it.

    Attributes
    ----------
    kind
        How it is declared as a parameter, without the name.
    argument
        What is passed for it.
    is_result
        Whether the nest defines it, through a pointer.
    """

    kind: str
    argument: str
    is_result: bool = False


def nest(inline: list[str], lines: list[str], outside: Mapping[str, Outside], tables: set[str], weight: int) -> Nest:
    """A nest of the given lines, which read and define names from outside and read static tables."""
    text = "\n".join(lines)
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        word = found[0]
        if word.startswith("/*"):
            return ""
        if found[1] is not None or not (word[0].isalpha() or word[0] == "_") or _is_fixed(word) or word in tables:
            return word
        return f"v{numbers.setdefault(word, len(numbers))}"

    normal = _IDENTIFIER.sub(renamed, text)
    names = [name for name in numbers if name in outside]
    missing = [name for name in outside if name not in numbers]
    key = None
    if not missing and "sg_fail" not in text:
        key = (normal, tuple([(numbers[n], outside[n].kind, outside[n].is_result) for n in names]))
    body = [f"{_plain(outside[n].kind)}{n};" for n in names if outside[n].is_result]
    body += lines
    body += [f"*{n}_result = {n};" for n in names if outside[n].is_result]
    parameters = [f"{outside[n].kind}{n}{'_result' if outside[n].is_result else ''}" for n in names]
    return Nest(
        inline, ", ".join([outside[n].argument for n in names]), key, ", ".join(parameters), body, weight
    )


def _plain(kind: str) -> str:
    """The type that a pointer to a result points to."""
    return kind.replace("*restrict ", "")


def _is_fixed(word: str) -> bool:
    return word in RESERVED or word.endswith("_t") or word.startswith(("sg_", "SG_"))


class Nests:
    """All nests of a kernel.

    Parameters
    ----------
    symbol
        Name of the kernel.
    """

    def __init__(self, symbol: str) -> None:
        self._symbol = symbol
        self._all: list[Nest] = []
        self._names: dict[Hashable, str] = {}

    def add(self, found: Nest) -> str:
        """Note a nest, and give the line that marks its place."""
        self._all.append(found)
        return f"{_MARK}{len(self._all) - 1}"

    def settle(self) -> None:
        """Decide which nests are functions: those that occur several times."""
        counts: dict[Hashable, int] = {}
        for found in self._all:
            if found.key is not None:
                counts[found.key] = counts.get(found.key, 0) + 1
        for key, count in counts.items():
            if count > 1:
                self._names[key] = f"{self._symbol}_nest{len(self._names) + 1}"

    def expanded(self, body: list[str]) -> tuple[list[str], list[Nest], int]:
        """A body with all marks replaced, the functions that it calls, and the statements that left it."""
        lines: list[str] = []
        called: list[Nest] = []
        saved = 0
        for line in body:
            if not line.startswith(_MARK):
                lines.append(line)
                continue
            found = self._all[int(line[1:])]
            name = self._names.get(found.key) if found.key is not None else None
            if name is None:
                lines += found.inline
                continue
            comments = [text.strip() for text in found.inline if text.lstrip().startswith("/*")]
            lines += [*comments, f"{name}({found.arguments});"]
            called.append(found)
            saved += found.weight
        return lines, called, saved

    def head(self, found: Nest) -> str:
        """The declaration of the function of a nest."""
        return f"void {self._names[found.key]}({found.parameters})"
