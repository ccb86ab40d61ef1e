"""The known paths of a function through its branches: a tree of guards with results at its leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .expr import Expr
from .graph import Graph
from .origin import Origin

Outcome = bool | int


class Guard(NamedTuple):
    """A decision that Python took while the function was traced.

    Attributes
    ----------
    expr
        A rank-0 bool or int64 expression over the inputs.
    outcome
        What it was.
    origin
        The user's line that asked.
    """

    expr: Expr
    outcome: Outcome
    origin: Origin | None


@dataclass(eq=False)
class Leaf:
    """The end of a path.

    Attributes
    ----------
    index
        Number of the path, in the order of discovery.
    guards
        The decisions on the way, in order.
    outputs
        Results; after those that are returned come the new contents of arguments that were written to.
    structure
        How the returned ones are nested.
    writes
        For each further output, which input (or captured array) it is written back to.
    hits
        How often the path was taken.
    """

    index: int
    guards: tuple[Guard, ...]
    outputs: tuple[Expr, ...]
    structure: Any
    writes: tuple[Any, ...] = ()
    hits: int = 0


@dataclass(eq=False)
class Vertex:
    """A place in the tree: undecided, a guard with the outcomes seen so far, or a leaf.

    Attributes
    ----------
    number
        Different for each place of a tree.
    guard, children
        The decision taken here, and where its outcomes lead.
    leaf
        The path that ends here.
    size
        Number of paths through here.
    """

    number: int
    guard: Guard | None = None
    children: dict[Outcome, Vertex] = field(default_factory=dict)
    leaf: Leaf | None = None
    size: int = 0

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The expressions that are needed here."""
        if self.leaf is not None:
            return self.leaf.outputs
        return (self.guard.expr,) if self.guard is not None else ()


class PathTree:
    """All known paths of a function for one structure and types of its arguments.

    Attributes
    ----------
    inputs
        Argument nodes.
    leaves
        The paths, in the order of discovery.
    """

    def __init__(self, inputs: Sequence[Expr], name: str) -> None:
        self.inputs = tuple(inputs)
        self.name = name
        self.root = Vertex(0)
        self.leaves: list[Leaf] = []
        self._count = 1

    def add(self, leaf: Leaf) -> Leaf | None:
        """Enter a path, or find it; None if the function asked other questions after the same answers."""
        vertex = self.root
        way = [vertex]
        for guard in leaf.guards:
            if vertex.leaf is not None or (vertex.guard is not None and vertex.guard.expr is not guard.expr):
                return None
            if vertex.guard is None:
                vertex.guard = guard
            child = vertex.children.get(guard.outcome)
            if child is None:
                child = vertex.children[guard.outcome] = Vertex(self._count)
                self._count += 1
            vertex = child
            way.append(vertex)
        if vertex.guard is not None:
            return None
        if vertex.leaf is not None:
            return vertex.leaf
        vertex.leaf = leaf
        self.leaves.append(leaf)
        for passed in way:
            passed.size += 1
        return leaf

    def vertices(self) -> Iterator[Vertex]:
        """All places, parents before children, in a fixed order."""
        stack = [self.root]
        while stack:
            vertex = stack.pop()
            yield vertex
            stack.extend(vertex.children[k] for k in sorted(vertex.children, reverse=True))

    @property
    def graph(self) -> Graph:
        """Everything in the tree as one graph: the roots of all places in order."""
        return Graph(self.inputs, [e for v in self.vertices() for e in v.roots], self.name)

    @property
    def branches(self) -> bool:
        """True where a decision depends on the data."""
        return self.root.guard is not None

    def mapped(self, graph: Graph) -> PathTree:
        """The same tree over the expressions of a graph that was made from :attr:`graph`."""
        return self._copied(graph.inputs, iter(graph.outputs))

    def snapshot(self) -> PathTree:
        """The tree as it is now; paths added later are not in it."""
        return self._copied(self.inputs, iter([e for v in self.vertices() for e in v.roots]))

    def _copied(self, inputs: Sequence[Expr], roots: Iterator[Expr]) -> PathTree:
        made = PathTree(inputs, self.name)
        made._count = self._count
        copies: dict[int, Vertex] = {}
        order = list(self.vertices())
        for v in order:
            copy = copies[v.number] = Vertex(v.number, size=v.size)
            if v.leaf is not None:
                outputs = tuple([next(roots) for _ in v.leaf.outputs])
                copy.leaf = Leaf(v.leaf.index, v.leaf.guards, outputs, v.leaf.structure, v.leaf.writes)
            elif v.guard is not None:
                copy.guard = v.guard._replace(expr=next(roots))
        for v in order:
            copies[v.number].children = {k: copies[c.number] for k, c in v.children.items()}
        made.root = copies[self.root.number]
        made.leaves = [copies[v.number].leaf for v in order if v.leaf is not None]  # type: ignore[misc]  # as v
        made.leaves.sort(key=lambda leaf: leaf.index)
        return made


class Placement:
    """Where in a tree each operation is computed: at the last place that all its uses lie below.

    Attributes
    ----------
    at
        Number of the place, by node id.
    nodes
        The operations computed at each place, operands first, by the number of the place.
    """

    def __init__(self, tree: PathTree) -> None:
        self._parent: dict[int, int] = {}
        self._order: dict[int, int] = {}
        self._end: dict[int, int] = {}
        self.at: dict[int, int] = {}
        places = list(tree.vertices())
        for k, vertex in enumerate(places):
            self._order[vertex.number] = k
            for child in vertex.children.values():
                self._parent[child.number] = vertex.number
        for vertex in reversed(places):
            ends = [self._end[child.number] for child in vertex.children.values()]
            self._end[vertex.number] = max([self._order[vertex.number], *ends])
        for vertex in places:
            for root in vertex.roots:
                self._need(root, vertex.number)
        self.nodes: dict[int, list[Expr]] = {v.number: [] for v in places}
        order = tree.graph.nodes
        for node in reversed(order):
            for a in node.args:
                self._need(a, self.at[node.id])
        for node in order:
            self.nodes[self.at[node.id]].append(node)

    def _need(self, node: Expr, place: int) -> None:
        known = self.at.get(node.id)
        if known is None:
            self.at[node.id] = place
            return
        # Places are numbered depth first, so what lies below one is an interval. A node only ever moves up.
        wanted = self._order[place]
        while not self._order[known] <= wanted <= self._end[known]:
            known = self._parent[known]
        self.at[node.id] = known


def single_path(graph: Graph, structure: Any = None) -> PathTree:
    """A graph as a tree without branches."""
    tree = PathTree(graph.inputs, graph.name)
    tree.add(Leaf(0, (), graph.outputs, structure))
    return tree
