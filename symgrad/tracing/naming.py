"""Giving nodes the names of the user's variables, read from the assignments in the source."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from typing import NamedTuple

from ..core.expr import Expr
from ..core.graph import Graph


class Assignment(NamedTuple):
    """``name = …`` in a source file."""

    name: str
    lineno: int


@lru_cache(maxsize=256)
def assignments(filename: str, lines: int) -> dict[int, Assignment]:
    """Assignments to a single name in a file, by every line they cover."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return {}
    found: dict[int, Assignment] = {}
    for node in ast.walk(tree):
        name = _target(node)
        if name is not None:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):  # type: ignore[attr-defined]
                found[line] = Assignment(name, node.lineno)  # type: ignore[attr-defined]  # a statement
    return found


def _target(node: ast.AST) -> str | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id
    return None


def _assignment(node: Expr) -> tuple[str, Assignment] | None:
    origin = node.origin
    if origin is None or origin.derivative:
        return None
    lines = linecache.getlines(origin.filename)
    found = assignments(origin.filename, len(lines)).get(origin.lineno) if lines else None
    return (origin.filename, found) if found else None


def label_variables(graph: Graph) -> None:
    """Label the last node that each assignment of the user's source made."""
    labels = graph.table.labels
    pending: tuple[Expr, tuple[str, Assignment]] | None = None
    for node in graph.nodes:
        if node.op.kind == "leaf":
            continue
        statement = _assignment(node)
        if pending is not None and statement != pending[1]:
            labels.setdefault(pending[0].id, pending[1][1].name)
        pending = (node, statement) if statement is not None else None
    if pending is not None:
        labels.setdefault(pending[0].id, pending[1][1].name)
