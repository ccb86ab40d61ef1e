"""A tree of paths as one C kernel: a block for each place, and a driver that takes the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.expr import Expr, InternTable
from ..core.graph import Graph, canonical, rebuild
from ..core.paths import PathTree, Placement, Vertex
from ..lowering import lower
from .c_source import CSource, generate
from .render import render

UNKNOWN = 1000
"""Code of an outcome that has not been seen, plus the number of the place."""

OTHER_RESULT = 999
"""Code of a path whose results do not fit the outputs of the kernel."""


@dataclass
class _Block:
    """The operations of one place, as a kernel of their own."""

    vertex: Vertex
    code: CSource | None
    takes: list[Expr]
    gives: list[Expr]


@dataclass
class _Layout:
    """Where values that pass from block to block lie in the workspace."""

    start: int
    offsets: dict[int, int] = field(default_factory=dict)
    size: int = 0

    def place(self, node: Expr) -> None:
        if node.id not in self.offsets:
            self.offsets[node.id] = self.start + self.size
            self.size += -(-max(node.aval.size * node.dtype.itemsize, 1) // 64) * 64


def generate_tree(
    tree: PathTree, results: Sequence[Aval], hits: np.ndarray[Any, Any], symbol: str = "kernel"
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

    Returns
    -------
    CSource
        The kernel returns 0, or a positive code where the slow path has to answer.
    """
    tree = tree.mapped(canonical(tree.graph))
    blocks = _blocks(tree, results, symbol)
    scratch = max([b.code.workspace_bytes for b in blocks if b.code is not None], default=0)
    layout = _Layout(-(-scratch // 64) * 64)
    for block in blocks:
        for node in block.gives:
            layout.place(node)
    writer = _Driver(tree, blocks, layout, symbol, results, hits)
    return writer.run()


def _blocks(tree: PathTree, results: Sequence[Aval], symbol: str) -> list[_Block]:
    placement = Placement(tree)
    users: dict[int, set[int]] = {}
    for vertex in tree.vertices():
        for root in vertex.roots:
            users.setdefault(root.id, set()).add(vertex.number)
    for node in tree.graph.nodes:
        for a in node.args:
            users.setdefault(a.id, set()).add(placement.at[node.id])
    blocks = []
    for vertex in tree.vertices():
        if vertex.leaf is None and vertex.guard is None:
            continue
        own = {n.id for n in placement.nodes[vertex.number]}
        fits = vertex.leaf is None or _fits(vertex, results)
        gives = [
            n for n in placement.nodes[vertex.number]
            if n.op.kind != "leaf" and users.get(n.id, set()) - {vertex.number}
        ] if fits else []
        question = vertex.guard.expr if vertex.guard is not None else None
        if question is not None and question not in gives:  # noqa: SIM102 - two questions, one line each
            if question.id in own or question.op.kind == "leaf":
                gives.append(question)
        roots = [*gives, *(vertex.roots if vertex.leaf is not None and fits else ())]
        takes = _taken(roots, own)
        code = (
            generate(lower(canonical(_cut(tree, roots, takes))), f"{symbol}_{vertex.number}")
            if roots else None
        )
        blocks.append(_Block(vertex, code, takes, gives))
    return blocks


def _fits(vertex: Vertex, results: Sequence[Aval]) -> bool:
    assert vertex.leaf is not None
    outputs = vertex.leaf.outputs
    return len(outputs) == len(results) and all(
        o.shape == r.shape and o.dtype == r.dtype for o, r in zip(outputs, results, strict=True)
    )


def _taken(roots: Sequence[Expr], own: set[int]) -> list[Expr]:
    """What a block needs from blocks before it."""
    taken: dict[int, Expr] = {}
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.id in own:
            stack.extend(node.args)
        elif node.op.kind != "leaf":
            taken[node.id] = node
    return [taken[k] for k in sorted(taken)]


def _cut(tree: PathTree, roots: Sequence[Expr], takes: Sequence[Expr]) -> Graph:
    """The graph of one block: what comes from other blocks is an input."""
    table = InternTable()
    replace = {x.id: table.input(x.aval, x.table.labels.get(x.id, "")) for x in (*tree.inputs, *takes)}
    graph = Graph((*tree.inputs, *takes), roots, tree.name)
    made = rebuild(graph, replace=replace, table=table)
    return Graph([replace[x.id] for x in graph.inputs], made.outputs, tree.name)


class _Driver:
    def __init__(
        self, tree: PathTree, blocks: Sequence[_Block], layout: _Layout, symbol: str, results: Sequence[Aval],
        hits: np.ndarray[Any, Any],
    ) -> None:
        self.tree, self.layout, self.symbol = tree, layout, symbol
        self.blocks = {b.vertex.number: b for b in blocks}
        self.hidden: list[np.ndarray[Any, Any]] = [hits]
        self.lines: list[str] = []
        self.count = len(results)

    def run(self) -> CSource:
        self._place(self.tree.root, "    ")
        codes = [b.code for b in self.blocks.values() if b.code is not None]
        driver = render(
            "c_tree.c.j2", symbol=self.symbol, hidden=len(self.tree.inputs), paths=len(self.tree.leaves),
            lines=self.lines, blocks=[code.symbol for code in codes],
            workspace=self.layout.start + self.layout.size,
        )
        tier = "vector" if any(code.tier == "vector" for code in codes) else "scalar"
        libs = tuple(dict.fromkeys(flag for code in codes for flag in code.libs)) or ("-lm",)
        work = max([code.work for code in codes], default=0.0)
        return CSource(
            [*[unit for code in codes for unit in code.units], driver], tier, self.symbol, [], self.hidden,  # type: ignore[arg-type]
            self.layout.start + self.layout.size, work, libs,
        )

    # ---------------------------------------------------------------- one place

    def _place(self, vertex: Vertex, indent: str) -> None:
        while True:
            block = self.blocks.get(vertex.number)
            if block is None:
                self.lines.append(f"{indent}return {UNKNOWN + vertex.number};")
                return
            self._call(block, indent)
            if vertex.leaf is not None:
                self._finish(vertex, block, indent)
                return
            vertex = self._decide(vertex, indent)

    def _finish(self, vertex: Vertex, block: _Block, indent: str) -> None:
        assert vertex.leaf is not None
        if block.code is None and vertex.leaf.outputs:
            self.lines.append(f"{indent}return {OTHER_RESULT};")
            return
        self.lines.append(f"{indent}++hits[{vertex.leaf.index}];")
        self.lines.append(f"{indent}return 0;")

    def _decide(self, vertex: Vertex, indent: str) -> Vertex:
        guard = vertex.guard
        assert guard is not None
        integer = guard.expr.dtype.kind != "b"
        kind = "const int64_t" if integer else "const unsigned char"
        value = f"*({kind} *)(ws + {self.layout.offsets[guard.expr.id]})"
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

    def _call(self, block: _Block, indent: str) -> None:
        code = block.code
        if code is None:
            return
        where = self.layout.offsets
        sources = [f"in[{k}]" for k in range(len(self.tree.inputs))]
        sources += [f"ws + {where[x.id]}" for x in block.takes]
        sources += [f"in[{len(self.tree.inputs) + self._hidden(a)}]" for a in code.hidden]
        targets = [f"ws + {where[x.id]}" for x in block.gives]
        if block.vertex.leaf is not None:
            targets += [f"out[{k}]" for k in range(self.count)]
        self.lines.append(f"{indent}{{")
        self.lines.append(f"{indent}    const void *const from[] = {{{', '.join(sources) or '0'}}};")
        self.lines.append(f"{indent}    void *const to[] = {{{', '.join(targets) or '0'}}};")
        self.lines.append(f"{indent}    const int code = {code.symbol}(from, to, ws);")
        self.lines.append(f"{indent}    if (code)")
        self.lines.append(f"{indent}        return code;")
        self.lines.append(f"{indent}}}")

    def _hidden(self, array: np.ndarray[Any, Any]) -> int:
        for k, known in enumerate(self.hidden):
            if known is array:
                return k
        self.hidden.append(array)
        return len(self.hidden) - 1
