"""Functions of blocks, distributed over translation units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .c_source import Written, unit_text
from .toolchain import Tier

#: Lines of all blocks together up to which the compiler may put them into the driver.
INLINED: Final = 600
#: Lines of a translation unit.
UNIT: Final = 4_000
#: Parameters of the function of a block.
ARGUMENTS: Final = "(const void *const *in, void *const *out, void *workspace)"
#: What is called from another translation unit.
HIDDEN: Final = '__attribute__((noinline, visibility("hidden"))) '

_TIERS: Final[tuple[Tier, ...]] = ("scalar", "vector", "huge")


def highest(tiers: Sequence[Tier]) -> Tier:
    """The flags that suit all: those with which compiling takes least."""
    return max(tiers, default=_TIERS[0], key=_TIERS.index)


def lines_of(written: Written) -> int:
    """Lines of a block, without the parts that are units of their own."""
    texts = [*(f for functions in written.chunks.units[-1:] for f in functions), written.chunks.kernel]
    return sum([text.count("\n") for text in texts])


def attribute_for(written: Sequence[Written]) -> str:
    """How the functions of all blocks are declared."""
    lines = sum(map(lines_of, written))
    if lines > UNIT or any([len(w.chunks.units) > 1 for w in written]):
        return HIDDEN
    return "static " if lines <= INLINED else "__attribute__((noinline)) static "


@dataclass
class Part:
    """What goes into one translation unit.

    Attributes
    ----------
    blocks
        Where the functions come from.
    functions, prototypes
        Their texts.
    """

    blocks: list[Written] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    prototypes: list[str] = field(default_factory=list)

    @property
    def tier(self) -> Tier:
        """Which compiler flags suit it."""
        return highest([w.tier for w in self.blocks])

    def text(self, title: str, tier: Tier) -> str:
        """The unit, without a driver."""
        return unit_text(self.blocks, self.functions, tier, title, prototypes=self.prototypes)


def divided(written: Sequence[Written], attribute: str) -> list[Part]:
    """Blocks as parts of limited length; there is at least one."""
    parts: list[Part] = []
    part, total = Part(), 0
    for w in written:
        lines = lines_of(w)
        *before, last = w.chunks.units
        parts += [Part([w], functions, w.chunks.prototypes) for functions in before]
        if part.blocks and total + lines > UNIT:
            parts.append(part)
            part, total = Part(), 0
        part.blocks.append(w)
        called = [f"{p};\n" for p in w.chunks.prototypes] if before else []
        part.functions += [*called, *last, attribute + w.chunks.kernel]
        total += lines
    return [*parts, part]
