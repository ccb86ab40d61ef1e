"""A tree of paths as one C kernel: blocks of straight code, and a driver that takes the decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..core.aval import Aval
from ..core.graph import canonical
from ..core.paths import PathTree, Vertex
from ..lowering import lower
from ..lowering.memory import aligned
from .c_blocks import Block, Blocks
from .c_sizes import Sizes
from .c_source import CSource, Written, new_names, unit_text, write
from .c_units import ARGUMENTS, Part, attribute_for, divided, highest
from .render import render
from .toolchain import Objects, Tier

UNKNOWN: Final = 1000
"""Code of an outcome that has not been seen, plus the number of the place."""

OTHER_RESULT: Final = 999
"""Code of a path whose results do not fit the outputs of the kernel."""

def generate_tree(
    tree: PathTree, results: Sequence[Aval], hits: np.ndarray[Any, Any], numbered: bool = False,
    symbol: str = "kernel",
) -> CSource:
    """Write all known paths as one kernel.

    Parameters
    ----------
    tree
        The paths; their expressions need not be in canonical form.
    results
        Types of the outputs of the kernel. Paths with other results make it return a code.
    hits
        Counters, one for each path: a hidden input that the kernel adds to.
    numbered
        The number of the path taken is the first output, before the results.
    symbol
        Name of the C function.

    Returns
    -------
    CSource
        The kernel returns 0, or a positive code where the slow path has to answer.
    """
    tree = tree.mapped(canonical(tree.graph))
    blocks = Blocks(tree, results)
    names = new_names()
    sizes = Sizes(names)
    written = {
        block.number: write(lower(block.graph(tree.name)), f"{symbol}_{block.number}", names, sizes)
        for block in blocks.all if block.roots
    }
    codes = {number: BlockCode.of(w) for number, w in written.items()}
    tier = highest([code.tier for code in codes.values()])
    attribute = attribute_for(list(written.values()))
    *parts, last = divided(list(written.values()), attribute)
    driver = Driver(blocks, codes, symbol, hits, numbered, sizes, sizes.integer)
    return driver.source([*[part.text(tree.name, tier) for part in parts], driver.unit(last, tier, attribute)], [tier])


@dataclass(frozen=True)
class BlockCode:
    """What the driver must know of the function that was written for a block.

    Attributes
    ----------
    symbol
        Its name.
    hidden
        Arrays that it is given after its inputs.
    workspace_bytes
        How much scratch memory it needs.
    tier
        Which compiler flags suit it.
    work
        Estimated operations of a run.
    """

    symbol: str
    hidden: tuple[np.ndarray[Any, Any], ...]
    workspace_bytes: int
    tier: Tier
    work: float

    @classmethod
    def of(cls, written: Written) -> BlockCode:
        """What is known when it is written."""
        chunks = written.chunks
        return cls(
            chunks.symbol, (*written.captures, *written.constants), chunks.workspace_bytes, written.tier,
            written.work,
        )


class Driver:
    """The function that runs blocks and takes decisions.

    Parameters
    ----------
    blocks
        All blocks of the tree.
    codes
        The functions of those that compute anything, by number.
    symbol, hits, numbered
        As for :func:`generate_tree`.
    sizes
        What the functions are given.
    integer
        Source of an offset in the workspace: a literal or the name of a size.
    """

    def __init__(
        self, blocks: Blocks, codes: Mapping[int, BlockCode], symbol: str, hits: np.ndarray[Any, Any],
        numbered: bool, sizes: Sizes, integer: Callable[[int, str, Any], str],
    ) -> None:
        self.tree = blocks.tree
        self.blocks = blocks
        self.codes = codes
        self.symbol = symbol
        self.numbered = numbered
        self.sizes = sizes
        self._integer = integer
        self.hidden = [hits]
        self.lines: list[str] = []
        self._sized: dict[str, None] = {}
        scratch = max([code.workspace_bytes for code in codes.values()], default=0)
        self.start = aligned(scratch)
        self.offsets, size = blocks.layout()
        self.workspace_bytes = self.start + size
        self._place(self.tree.root, "    ")
        self._workspace = self._place_of("workspace", self.workspace_bytes)
        self._declared = [sizes.declaration(name) for name in sizes.order(self._sized)]
        if sizes.known:
            position = len(self.tree.inputs) + self._hidden(sizes.array)
            self._declared.insert(0, f"const int64_t *const sizes = in[{position}];")

    def unit(self, part: Part, tier: Tier, attribute: str) -> str:
        """The translation unit with the driver, and whatever else is in that part."""
        kernel = render(
            "c_tree.c.j2", symbol=self.symbol, hits=len(self.tree.inputs), paths=len(self.tree.leaves),
            declared=self._declared if self._sized else [], lines=self.lines,
        )
        prototypes = [f"{attribute}int {code.symbol}{ARGUMENTS}" for code in self.codes.values()]
        return unit_text(
            part.blocks, part.functions, tier, self.tree.name, prototypes=prototypes, kernel=kernel,
            symbol=self.symbol, workspace_bytes=self.sizes.stored(self._workspace),
        )

    def source(self, units: list[str], tiers: list[Tier], objects: Objects | None = None) -> CSource:
        """All of it; the driver is in the last unit."""
        return CSource(
            units, highest(tiers), self.symbol, [], self.hidden, self.workspace_bytes,
            max([code.work for code in self.codes.values()], default=0.0),
            self.sizes.array if self.sizes.known else None, tiers=tiers, objects=objects,
        )  # fmt: skip

    # ---------------------------------------------------------------- one place

    def _place(self, vertex: Vertex, indent: str) -> None:
        while True:
            if vertex.leaf is None and vertex.guard is None:
                self.lines.append(f"{indent}return {UNKNOWN + vertex.number};")
                return
            block = self.blocks.starting.get(vertex.number)
            if block is not None:
                self._call(block, indent)
            if vertex.leaf is not None:
                self._finish(vertex, indent)
                return
            vertex = self._decide(vertex, indent)

    def _finish(self, vertex: Vertex, indent: str) -> None:
        assert vertex.leaf is not None
        if not self.blocks.fits(vertex):
            self.lines.append(f"{indent}return {OTHER_RESULT};")
            return
        if self.numbered:
            self.lines.append(f"{indent}*(int64_t *)out[0] = {vertex.leaf.index};")
        self.lines.append(f"{indent}SG_COUNT(hits[{vertex.leaf.index}]);")
        self.lines.append(f"{indent}return 0;")

    def _decide(self, vertex: Vertex, indent: str) -> Vertex:
        guard = vertex.guard
        assert guard is not None
        integer = guard.expr.dtype.kind != "b"
        kind = "const int64_t" if integer else "const unsigned char"
        value = f"*({kind} *)({self._slot(guard.expr.id)})"
        small = sorted(vertex.children.items(), key=lambda item: (item[1].size, item[0]))
        outcome, last = small.pop()
        origin = f" /* {guard.origin.short} */".replace("∂", "d") if guard.origin is not None else ""
        for other, child in small:
            self.lines.append(f"{indent}if ({value} == {int(other)}) {{{origin}")
            self._place(child, indent + "    ")
            self.lines.append(f"{indent}}}")
        if len(vertex.children) < 2 or integer:
            self.lines.append(f"{indent}if ({value} != {int(outcome)}){origin}")
            self.lines.append(f"{indent}    return {UNKNOWN + vertex.number};")
        return last

    def _slot(self, node: int) -> str:
        return f"ws + {self._place_of(node, self.start + self.offsets[node])}"

    def _place_of(self, what: int | str, offset: int) -> str:
        text = self._integer(offset, "at", what)
        if text[0].isalpha():
            self._sized[text] = None
        return text

    def _call(self, block: Block, indent: str) -> None:
        code = self.codes.get(block.number)
        if code is None:
            return
        count = len(self.tree.inputs)
        sources = [f"in[{k}]" for k in block.inputs]
        sources += [self._slot(x.id) for x in block.takes]
        sources += [f"in[{count + self._hidden(a)}]" for a in code.hidden]
        targets = [self._slot(x.id) for x in block.gives]
        if block.leaf is not None:
            targets += [f"out[{k + self.numbered}]" for k in range(len(block.leaf.outputs))]
        self.lines += [
            f"{indent}{{",
            f"{indent}    const void *const from[] = {{{', '.join(sources) or '0'}}};",
            f"{indent}    void *const to[] = {{{', '.join(targets) or '0'}}};",
            f"{indent}    const int code = {code.symbol}(from, to, ws);",
            f"{indent}    if (code)",
            f"{indent}        return code;",
            f"{indent}}}",
        ]

    def _hidden(self, array: np.ndarray[Any, Any]) -> int:
        for k, known in enumerate(self.hidden):
            if known is array:
                return k
        self.hidden.append(array)
        return len(self.hidden) - 1
