"""C code of a large tree that grows: a new path costs its own code, not that of all paths again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..core.aval import Aval
from ..core.collector import paused_collector
from ..core.graph import canonical, in_creation_order
from ..core.paths import PathTree
from ..lowering import lower
from .c_blocks import Block, Blocks
from .c_chunks import WHOLE
from .c_sizes import Sizes
from .c_source import CSource, Written, new_names, write
from .c_tree import BlockCode, Driver
from .c_units import HIDDEN, Part, divided
from .toolchain import Objects, Tier

#: Code that is not used any more may be so many times as long as that in use.
WASTE: Final = 1.0


class GrowingCode:
    """The code of one tree, generated again whenever it has grown.

    Blocks that stayed the same keep their text and stay in the translation units they were put into first;
    so these are not compiled again. A block that another path has divided leaves its old function behind.

    Parameters
    ----------
    symbol
        Name of the C function.
    """

    def __init__(self, symbol: str = "kernel") -> None:
        self.symbol = symbol
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        self._names = new_names()
        self._sizes = Sizes(self._names)
        self._known: dict[Any, BlockCode] = {}
        self._weights: dict[Any, int] = {}
        self._units: list[str] = []
        self._tiers: list[Tier] = []
        self._objects: Objects = {}
        self._count = 0

    def generate(
        self, tree: PathTree, results: Sequence[Aval], hits: np.ndarray[Any, Any], numbered: bool = False
    ) -> CSource:
        """Write all known paths as one kernel, see `symgrad.codegen.c_tree.generate_tree`.

        The tree must be over the same expressions as the one before, with further paths.
        """
        with self._lock:
            return self._generate(tree, results, hits, numbered)

    def _generate(
        self, tree: PathTree, results: Sequence[Aval], hits: np.ndarray[Any, Any], numbered: bool
    ) -> CSource:
        blocks = Blocks(tree, results)
        used = [block for block in blocks.all if block.roots]
        if self._wasted(used):
            self._begin()
        self._add([self._written(block, tree.name) for block in used if block.key not in self._known], tree.name)
        codes = {block.number: self._known[block.key] for block in used}
        driver = Driver(blocks, codes, self.symbol, hits, numbered, self._sizes, _literal)
        last = driver.unit(Part(), "scalar", HIDDEN)
        used_again = {*self._units, last}
        for key in [key for key in self._objects if key[1] not in used_again]:
            del self._objects[key]
        return driver.source([*self._units, last], [*self._tiers, "scalar"], self._objects)

    def _wasted(self, used: Sequence[Block]) -> bool:
        known = sum([self._weights.get(block.key, 0) for block in used])
        return sum(self._weights.values()) > known * (1 + WASTE)

    def _written(self, block: Block, name: str) -> Written:
        with paused_collector():
            self._count += 1
            graph = block.graph(name)
            ordered = in_creation_order(graph) if len(block.inside) > WHOLE else canonical(graph)
            made = write(lower(ordered), f"{self.symbol}_{self._count}", self._names, self._sizes)
        self._known[block.key] = BlockCode.of(made)
        self._weights[block.key] = len(block.inside)
        return made

    def _add(self, written: Sequence[Written], title: str) -> None:
        """Put new blocks into units of their own."""
        if not written:
            return
        for part in divided(written, HIDDEN):
            self._units.append(part.text(title, part.tier))
            self._tiers.append(part.tier)


def _literal(n: int, _kind: str, _key: Any) -> str:
    return str(n)
