"""Simplification: the rules that are always on, run to a fixpoint; dead code goes by not being reachable."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.expr import Expr
from ..core.graph import Graph
from .rewrite import Rewriter
from .rules import DEFAULT_RULES


def simplify(graph: Graph, rewriter: Rewriter | None = None) -> Graph:
    """Rewrite a graph with all exact and masked rules until none applies.

    Parameters
    ----------
    graph
        What to simplify.
    rewriter
        Carries other rules, and counts hits.

    Returns
    -------
    Graph
        The same function, bit for bit except for the exact zeros of derivative rules.
    """
    return (rewriter or Rewriter(DEFAULT_RULES)).run(graph)


def simplify_outputs(outputs: Sequence[Expr]) -> list[Expr]:
    """Simplify expressions of one table."""
    return list(simplify(Graph((), outputs)).outputs) if outputs else []
