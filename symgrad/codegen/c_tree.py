"""A tree of paths as one C kernel: blocks of straight code, and a driver that takes the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from .render import render
from .toolchain import Tier

UNKNOWN: Final = 1000
"""Code of an outcome that has not been seen, plus the number of the place."""

OTHER_RESULT: Final = 999
"""Code of a path whose results do not fit the outputs of the kernel."""

INLINED: Final = 600
"""Lines of all blocks together up to which the compiler may put them into the driver."""

UNIT: Final = 4_000
"""Lines of a translation unit."""

_ARGUMENTS: Final = "(const void *const *in, void *const *out, void *workspace)"
_TIERS: Final[tuple[Tier, ...]] = ("scalar", "vector", "huge")


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
        block.number: write(lower(block.graph), f"{symbol}_{block.number}", names, sizes)
        for block in blocks.all if block.graph is not None
    }
    return _Driver(tree, blocks, written, symbol, hits, numbered, sizes).run()


@dataclass
class _Driver:
    tree: PathTree
    blocks: Blocks
    written: dict[int, Written]
    symbol: str
    hits: np.ndarray[Any, Any]
    numbered: bool
    sizes: Sizes
    hidden: list[np.ndarray[Any, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    sized: dict[str, None] = field(default_factory=dict)

    def run(self) -> CSource:
        self.hidden.append(self.hits)
        scratch = max([w.chunks.workspace_bytes for w in self.written.values()], default=0)
        self.start = aligned(scratch)
        self.offsets, size = self.blocks.layout()
        self._place(self.tree.root, "    ")
        workspace = self._place_of("workspace", self.start + size)
        declared = [self.sizes.declaration(name) for name in self.sizes.order(self.sized)]
        if self.sizes.known:
            position = len(self.tree.inputs) + self._hidden(self.sizes.array)
            declared.insert(0, f"const int64_t *const sizes = in[{position}];")
        kernel = render(
            "c_tree.c.j2", symbol=self.symbol, hits=len(self.tree.inputs), paths=len(self.tree.leaves),
            declared=declared if self.sized else [], lines=self.lines,
        )
        tier = max([w.tier for w in self.written.values()], default=_TIERS[0], key=_TIERS.index)
        units = _Units(list(self.written.values()), tier, self.tree.name)
        return CSource(
            units.texts(kernel, self.symbol, self.sizes.stored(workspace)), tier, self.symbol, [], self.hidden,
            self.start + size, max([w.work for w in self.written.values()], default=0.0),
            self.sizes.array if self.sizes.known else None,
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
        text = self.sizes.integer(offset, "at", what)
        if text[0].isalpha():
            self.sized[text] = None
        return text

    def _call(self, block: Block, indent: str) -> None:
        written = self.written.get(block.number)
        if written is None:
            return
        count = len(self.tree.inputs)
        sources = [f"in[{k}]" for k in block.inputs]
        sources += [self._slot(x.id) for x in block.takes]
        sources += [f"in[{count + self._hidden(a)}]" for a in (*written.captures, *written.constants)]
        targets = [self._slot(x.id) for x in block.gives]
        if block.leaf is not None:
            targets += [f"out[{k + self.numbered}]" for k in range(len(block.leaf.outputs))]
        self.lines += [
            f"{indent}{{",
            f"{indent}    const void *const from[] = {{{', '.join(sources) or '0'}}};",
            f"{indent}    void *const to[] = {{{', '.join(targets) or '0'}}};",
            f"{indent}    const int code = {written.chunks.symbol}(from, to, ws);",
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


class _Units:
    """Blocks distributed over translation units."""

    def __init__(self, written: Sequence[Written], tier: Tier, name: str) -> None:
        self.written = written
        self.tier = tier
        self.name = name
        weights = [_lines(w) for w in written]
        alone = sum(weights) <= UNIT and all([len(w.chunks.units) == 1 for w in written])
        if alone:
            self.attribute = "static " if sum(weights) <= INLINED else "__attribute__((noinline)) static "
        else:
            self.attribute = '__attribute__((noinline, visibility("hidden"))) '
        self.weights = weights

    def texts(self, kernel: str, symbol: str, workspace_bytes: str) -> list[str]:
        """All units; the driver is in the last one."""
        prototypes = [f"{self.attribute}int {w.chunks.symbol}{_ARGUMENTS}" for w in self.written]
        units: list[str] = []
        group: list[Written] = []
        functions: list[str] = []
        total = 0
        for w, weight in zip(self.written, self.weights, strict=True):
            *before, last = w.chunks.units
            units += [self._unit([w], part, w.chunks.prototypes) for part in before]
            if group and total + weight > UNIT:
                units.append(self._unit(group, functions, prototypes))
                group, functions, total = [], [], 0
            group.append(w)
            parts = [f"{p};\n" for p in w.chunks.prototypes] if before else []
            functions += [*parts, *last, self.attribute + w.chunks.kernel]
            total += weight
        units.append(
            unit_text(
                group, functions, self.tier, self.name, prototypes=prototypes, kernel=kernel, symbol=symbol,
                workspace_bytes=workspace_bytes,
            )
        )
        return units

    def _unit(self, group: Sequence[Written], functions: Sequence[str], prototypes: Sequence[str]) -> str:
        return unit_text(group, functions, self.tier, self.name, prototypes=prototypes)


def _lines(written: Written) -> int:
    texts = [*(f for functions in written.chunks.units[-1:] for f in functions), written.chunks.kernel]
    return sum([text.count("\n") for text in texts])
