"""What is known of the paths of a compiled function, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.expr import reachable
from ..core.paths import Leaf, PathTree, Vertex
from ..tracing.state import Trace


@dataclass(frozen=True)
class PathRow:
    """One path through the branches of a function.

    Attributes
    ----------
    number
        In the order of discovery.
    decisions
        For each decision on the way its source line and outcome.
    hits
        How often the path was taken.
    operations
        How many operations it computes, decisions included.
    """

    number: int
    decisions: tuple[tuple[str, bool | int], ...]
    hits: int
    operations: int


@dataclass(frozen=True)
class PathTable:
    """The known paths of a function; ``len()`` is their number, printing gives a table.

    Attributes
    ----------
    rows
        One for each path.
    """

    rows: tuple[PathRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PathRow]:
        return iter(self.rows)

    def __getitem__(self, number: int) -> PathRow:
        return self.rows[number]

    def __str__(self) -> str:
        lines = ["path   hits   ops  decisions"]
        for row in self.rows:
            first, *rest = _shortened(_decided(row)) or ["none"]
            lines.append(f"{row.number:4}  {row.hits:5}  {row.operations:4}  {first}")
            lines.extend(f"{'':19}{text}" for text in rest)
        return "\n".join(lines)

    __repr__ = __str__


PRINTED = 12
"""Decisions of a path that are printed."""


def _shortened(decisions: list[str]) -> list[str]:
    left_out = len(decisions) - PRINTED
    if left_out < 2:
        return decisions
    half = PRINTED // 2
    return [*decisions[:half], f"… {left_out} more, see .decisions of the row", *decisions[-half:]]


def _decided(row: PathRow) -> list[str]:
    """Decisions as text; the same line with the same outcome several times in a row is counted."""
    texts: list[str] = []
    k = 0
    while k < len(row.decisions):
        line, outcome = row.decisions[k]
        n = 1
        while k + n < len(row.decisions) and row.decisions[k + n] == (line, outcome):
            n += 1
        texts.append(f"{line} → {outcome}{f' ({n} times)' if n > 1 else ''}")
        k += n
    return texts


def path_table(leaves: Sequence[Leaf], hits: Sequence[int]) -> PathTable:
    """The table of some paths and how often each was taken."""
    rows = []
    for leaf, count in zip(leaves, hits, strict=True):
        nodes = reachable([*[g.expr for g in leaf.guards], *leaf.outputs])
        decisions = tuple([(_line(g.origin), g.outcome) for g in leaf.guards])
        rows.append(PathRow(leaf.index, decisions, count, sum(1 for n in nodes if n.op.kind != "leaf")))
    return PathTable(tuple(rows))


def taken(tree: PathTree, values: Sequence[Any]) -> tuple[Leaf, Trace] | None:
    """The path that the values of the inputs take, and what was evaluated to find it; None if it is not known."""
    table = tree.inputs[0].table
    state = Trace(table, {x.id: v for x, v in zip(tree.inputs, values, strict=True)})
    vertex: Vertex | None = tree.root
    while vertex is not None and vertex.guard is not None:
        vertex = vertex.children.get(state.concrete(vertex.guard.expr).item())
    return (vertex.leaf, state) if vertex is not None and vertex.leaf is not None else None


def _line(origin: object) -> str:
    text = getattr(origin, "text", "")
    short = getattr(origin, "short", "")
    return f"{short}: {text}" if text else str(short)
