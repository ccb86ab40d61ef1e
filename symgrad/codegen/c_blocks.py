"""A tree of paths divided into blocks: straight pieces that become one C function each."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..core.aval import Aval
from ..core.expr import INPUT, Expr, InternTable
from ..core.graph import Graph, copy_node, label
from ..core.paths import Leaf, PathTree, Placement, Vertex
from ..lowering.memory import aligned
from ..ops.indexing import gather, scatter_add
from ..ops.shaping import concatenate, put_slice

CHEAP: Final = 400
"""Elements that may be computed in vain when an early decision of a block turns out otherwise."""

_COPYING: Final = (gather, scatter_add, put_slice, concatenate)


@dataclass(eq=False)
class Block:
    """Consecutive decisions with one known outcome each, or a leaf.

    Attributes
    ----------
    number
        Of the first place; different for each block.
    inputs
        Positions of the arguments it reads.
    outside
        These arguments, and then ``takes``.
    takes
        Values computed by blocks before it.
    inside
        What it computes from them.
    gives
        Values that the driver or later blocks need.
    leaf
        The path that ends here.
    """

    number: int
    places: list[Vertex]
    leaf: Leaf | None
    inputs: list[int] = field(default_factory=list)
    outside: list[Expr] = field(default_factory=list)
    inside: list[Expr] = field(default_factory=list)
    gives: list[Expr] = field(default_factory=list)

    @property
    def takes(self) -> list[Expr]:
        return self.outside[len(self.inputs) :]

    @property
    def roots(self) -> list[Expr]:
        """What it gives, then the outputs of the leaf."""
        return [*self.gives, *(self.leaf.outputs if self.leaf is not None else ())]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Blocks of trees over one table that have the same key compute the same."""
        return tuple([x.id for x in self.outside]), tuple([x.id for x in self.roots])

    def graph(self, name: str) -> Graph:
        """What is computed: ``roots`` over ``outside``, in a table of its own."""
        table = InternTable()
        heads = [table.input(x.aval, label(x)) for x in self.outside]
        made = {x.id: head for x, head in zip(self.outside, heads, strict=True)}
        for node in sorted(self.inside, key=_by_id):
            made[node.id] = copy_node(node, made, table)
        return Graph(heads, [made[r.id] for r in self.roots], name)


class Blocks:
    """All blocks of a tree.

    Guards may be evaluated although an earlier one of the same block has failed: nothing that a kernel
    computes has side effects, and a failed guard sends the call elsewhere in any case.

    Attributes
    ----------
    all
        Parents before children.
    starting
        By the number of the place where they start.
    """

    def __init__(self, tree: PathTree, results: Sequence[Aval]) -> None:
        self.tree = tree
        self.results = results
        self.placement = Placement(tree)
        self._positions = {x.id: k for k, x in enumerate(tree.inputs)}
        groups = self._groups()
        self._block_of = {v.number: k for k, group in enumerate(groups) for v in group}
        self._find_users()
        self.all = [self._block(k, group) for k, group in enumerate(groups)]
        self.starting = {block.number: block for block in self.all}

    def fits(self, vertex: Vertex) -> bool:
        """Whether the results of a leaf fit the outputs of the kernel."""
        assert vertex.leaf is not None
        outputs = vertex.leaf.outputs
        return len(outputs) == len(self.results) and all(
            o.shape == r.shape and o.dtype == r.dtype for o, r in zip(outputs, self.results, strict=True)
        )

    # ---------------------------------------------------------------- dividing

    def _groups(self) -> list[list[Vertex]]:
        groups: list[list[Vertex]] = []
        open_group: list[Vertex] = []
        work = 0
        for vertex in self.tree.vertices():
            if vertex.guard is None and vertex.leaf is None:
                open_group = []
                continue
            own = self._work(vertex)
            if not open_group or vertex.leaf is not None or work + own > CHEAP:
                open_group, work = [], 0
                groups.append(open_group)
            open_group.append(vertex)
            work += own
            if len(vertex.children) != 1:
                open_group = []
        return groups

    def _work(self, vertex: Vertex) -> int:
        """Elements computed at a place; library routines are never computed in vain."""
        total = 0
        for node in self.placement.nodes[vertex.number]:
            if node.op.kind == "leaf" or node.op.lowering == "view":
                continue
            if node.op.lowering == "library" and node.op not in _COPYING:
                return CHEAP + 1
            total += max([node.aval.size, *[a.aval.size for a in node.args]])
        return total

    def _find_users(self) -> None:
        """For each value the blocks that need it, in order."""
        users: dict[int, set[int]] = {}
        for vertex in self.tree.vertices():
            for root in vertex.roots:
                if vertex.leaf is None or self.fits(vertex):
                    users.setdefault(root.id, set()).add(self._block_of[vertex.number])
        for node in self.tree.graph.nodes:
            home = self._block_of[self.placement.at[node.id]]
            for a in node.args:
                users.setdefault(a.id, set()).add(home)
        self._users = {k: sorted(found) for k, found in users.items()}

    def _block(self, k: int, places: list[Vertex]) -> Block:
        last = places[-1]
        nodes = [n for v in places for n in self.placement.nodes[v.number]]
        leaf = last.leaf if last.leaf is not None and self.fits(last) else None
        if last.leaf is not None and leaf is None:
            return Block(last.number, places, None)
        gives = [n for n in nodes if n.op.kind != "leaf" and self._users.get(n.id, [k]) != [k]]
        given = {n.id for n in gives}
        own = {n.id for n in nodes}
        for vertex in places:
            asked = vertex.guard.expr if vertex.guard is not None else None
            # A question computed by an earlier block is among what that one gives.
            if asked is None or asked.id in given:
                continue
            if asked.id in own or asked.op.kind == "leaf":
                gives.append(asked)
                given.add(asked.id)
        return self._cut(Block(places[0].number, places, leaf, gives=gives), own)

    def _cut(self, block: Block, own: set[int]) -> Block:
        """Find what a block computes, and what comes from outside."""
        takes: list[Expr] = []
        seen: set[int] = set()
        stack = list(block.roots)
        while stack:
            node = stack.pop()
            if node.id in seen:
                continue
            seen.add(node.id)
            if node.op is INPUT:
                block.inputs.append(self._positions[node.id])
            elif node.id in own or node.op.kind == "leaf":
                block.inside.append(node)
                stack.extend(node.args)
            else:
                takes.append(node)
        block.inputs.sort()
        takes.sort(key=_by_id)
        block.outside = [*[self.tree.inputs[k] for k in block.inputs], *takes]
        return block

    # ---------------------------------------------------------------- memory

    def layout(self) -> tuple[dict[int, int], int]:
        """Where in memory the values lie that pass from block to block, and how much they need.

        Only one path is taken: branches use the same memory, and so do values that are not needed any more.
        """
        ends = self._ends()
        offsets: dict[int, int] = {}
        total = 0
        alive: dict[int, list[tuple[int, int, int]]] = {}
        parents = self._parents()
        for k, block in enumerate(self.all):
            held = [
                row for row in (alive[parents[k]] if parents[k] >= 0 else [])
                if self._needed_below(row[2], k, ends[k])
            ]
            for node in block.gives:
                if node.id in offsets:
                    continue
                start, size = _gap(held, node)
                offsets[node.id] = start
                bisect.insort(held, (start, size, node.id))
                total = max(total, start + size)
            alive[k] = held
        return offsets, total

    def _needed_below(self, node: int, block: int, end: int) -> bool:
        users = self._users.get(node, [])
        at = bisect.bisect_left(users, block)
        return at < len(users) and users[at] <= end

    def _parents(self) -> list[int]:
        parents = [-1] * len(self.all)
        for k, block in enumerate(self.all):
            for child in block.places[-1].children.values():
                if child.number in self._block_of:
                    parents[self._block_of[child.number]] = k
        return parents

    def _ends(self) -> list[int]:
        """For each block the last one below it."""
        ends = list(range(len(self.all)))
        parents = self._parents()
        for k in range(len(self.all) - 1, 0, -1):
            if parents[k] >= 0:
                ends[parents[k]] = max(ends[parents[k]], ends[k])
        return ends


def _gap(held: list[tuple[int, int, int]], node: Expr) -> tuple[int, int]:
    """The lowest free memory that is wide enough, and how much of it is taken."""
    nbytes = max(node.aval.size * node.dtype.itemsize, 1)
    small = nbytes <= 8
    size = 8 if small else aligned(nbytes)
    start = 0
    for offset, taken, _ in held:
        if offset - start >= size:
            break
        start = max(start, offset + taken)
        start = start if small else aligned(start)
    return start, size


def _by_id(node: Expr) -> int:
    return node.id
