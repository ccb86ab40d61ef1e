"""Graphs as pictures: DOT text for Graphviz, and SVG that needs no other program."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..core.expr import CAPTURE, CONST, INPUT, Expr
from ..core.graph import Graph, label
from .numerals import number_text

PITCH_X, PITCH_Y, HEIGHT, MARGIN, CHARACTER = 24, 62, 34, 12, 7
SWEEPS = 4
"""Times that the rows are ordered by their neighbours to reduce crossings."""

_FILLS = {"input": "#d8e8fa", "leaf": "#eeeeee", "op": "#ffffff", "output": "#dcf3dc"}


def caption(node: Expr) -> str:
    """What stands in the box of a node: its operation, or the name or value of a leaf."""
    if node.op is INPUT:
        return label(node) or "input"
    if node.op is CAPTURE:
        return label(node) or "array"
    if node.op is CONST:
        value = node.value
        assert value is not None
        return number_text(value[()]) if value.ndim == 0 else "array"
    params = ", ".join(f"{k}={v}" for k, v in node.params)
    text = f"{node.op.name}({params})" if params else node.op.name
    return f"{label(node)} = {text}" if label(node) else text


def to_dot(graph: Graph) -> str:
    """Graphviz DOT text of a graph.

    Parameters
    ----------
    graph
        What to draw.

    Returns
    -------
    str
        A ``digraph`` with one box a node: operation, type, and the user's line as tooltip.

    Examples
    --------
    >>> from symgrad.core.aval import FLOAT64, make_aval
    >>> from symgrad.core.expr import InternTable
    >>> x = InternTable().input(make_aval((3,), FLOAT64), "x")
    >>> print(to_dot(Graph([x], [-x], "f")))
    digraph "f" {
      node [shape=box, style="rounded,filled", fontname="sans-serif", fillcolor="#ffffff"];
      n0 [label="x\\nf64[3]", fillcolor="#d8e8fa"];
      n1 [label="negative\\nf64[3]", fillcolor="#dcf3dc"];
      n0 -> n1;
    }
    """
    nodes = _all_nodes(graph)
    numbers = {node.id: k for k, node in enumerate(nodes)}
    outputs = {out.id for out in graph.outputs}
    style = f'shape=box, style="rounded,filled", fontname="sans-serif", fillcolor="{_FILLS["op"]}"'
    lines = [f"digraph {_quoted(graph.name)} {{", f"  node [{style}];"]
    for k, node in enumerate(nodes):
        kind = _kind(node, outputs)
        text = f"label={_quoted(caption(node))[:-1]}\\n{node.aval}\""
        fill = f', fillcolor="{_FILLS[kind]}"' if kind != "op" else ""
        where = f", tooltip={_quoted(str(node.origin))}" if node.origin else ""
        lines.append(f"  n{k} [{text}{fill}{where}];")
    lines += [f"  n{numbers[a.id]} -> n{numbers[node.id]};" for node in nodes for a in node.args]
    return "\n".join([*lines, "}"])


def _all_nodes(graph: Graph) -> list[Expr]:
    listed = {node.id for node in graph.nodes}
    return [*[i for i in graph.inputs if i.id not in listed], *graph.nodes]


def _kind(node: Expr, outputs: set[int]) -> str:
    if node.id in outputs:
        return "output"
    return "input" if node.op is INPUT else "leaf" if node.op.kind == "leaf" else "op"


def _quoted(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside}"'


def to_svg(graph: Graph) -> str:
    """SVG picture of a graph: data flow downwards, one row for each depth.

    Parameters
    ----------
    graph
        What to draw.

    Returns
    -------
    str
        An ``<svg>`` element. Boxes carry the user's line as tooltip.

    Examples
    --------
    >>> from symgrad.core.aval import FLOAT64, make_aval
    >>> from symgrad.core.expr import InternTable
    >>> x = InternTable().input(make_aval((3,), FLOAT64), "x")
    >>> to_svg(Graph([x], [-x], "f")).count("<rect")
    2
    """
    nodes = _all_nodes(graph)
    rows = _ordered(_layers(nodes), nodes)
    widths = {n.id: CHARACTER * max(len(caption(n)), len(str(n.aval))) + 2 * MARGIN for n in nodes}
    totals = [sum(widths[n.id] + PITCH_X for n in row) - PITCH_X for row in rows]
    full = max(totals, default=0) + 2 * MARGIN
    corners: dict[int, tuple[float, float]] = {}
    for depth, (row, total) in enumerate(zip(rows, totals, strict=True)):
        x = (full - total) / 2
        for node in row:
            corners[node.id] = (x, MARGIN + depth * PITCH_Y)
            x += widths[node.id] + PITCH_X
    height = 2 * MARGIN + len(rows) * PITCH_Y - (PITCH_Y - HEIGHT)
    outputs = {out.id for out in graph.outputs}
    size = f'width="{full}" height="{height}" viewBox="0 0 {full} {height}"'
    font = 'font-family="sans-serif" font-size="12" text-anchor="middle"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>']
    for node in nodes:
        for a in node.args:
            (x1, y1), (x2, y2) = corners[a.id], corners[node.id]
            start, end = x1 + widths[a.id] / 2, x2 + widths[node.id] / 2
            ends = f'x1="{start:.1f}" y1="{y1 + HEIGHT:.1f}" x2="{end:.1f}" y2="{y2:.1f}"'
            parts.append(f'<line {ends} stroke="#888"/>')
    parts += [_box(node, corners[node.id], widths[node.id], _FILLS[_kind(node, outputs)]) for node in nodes]
    return "\n".join([*parts, "</svg>"])


def _box(node: Expr, corner: tuple[float, float], width: float, fill: str) -> str:
    x, y = corner
    middle = x + width / 2
    title = f"<title>{escape(str(node.origin))}</title>" if node.origin else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width}" height="{HEIGHT}" rx="6"'
    small = 'fill="#666" font-size="10"'
    return (
        f'<g>{title}<rect {place} fill="{fill}" stroke="#555"/>'
        f'<text x="{middle:.1f}" y="{y + 14:.1f}">{escape(caption(node))}</text>'
        f'<text x="{middle:.1f}" y="{y + 28:.1f}" {small}>{escape(str(node.aval))}</text></g>'
    )


def _layers(nodes: Sequence[Expr]) -> list[list[Expr]]:
    depth: dict[int, int] = {}
    for node in nodes:
        depth[node.id] = 1 + max((depth[a.id] for a in node.args), default=-1)
    first_use: dict[int, int] = {}
    for node in nodes:
        for a in node.args:
            first_use[a.id] = min(first_use.get(a.id, depth[node.id]), depth[node.id])
    rows: list[list[Expr]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for node in nodes:
        # Constants and captured arrays stand just above the operation that needs them.
        late = node.op in (CONST, CAPTURE)
        rows[first_use.get(node.id, 1) - 1 if late else depth[node.id]].append(node)
    return rows


def _ordered(rows: list[list[Expr]], nodes: Sequence[Expr]) -> list[list[Expr]]:
    """Order each row by the mean position of its neighbours above, then below, a few times."""
    above = {n.id: [a.id for a in n.args] for n in nodes}
    below: dict[int, list[int]] = {n.id: [] for n in nodes}
    for node in nodes:
        for a in node.args:
            below[a.id].append(node.id)
    place = {n.id: k / max(len(row), 1) for row in rows for k, n in enumerate(row)}
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            means = {n.id: _mean([place[i] for i in neighbours[n.id]], place[n.id]) for n in row}
            row.sort(key=lambda n, means=means: means[n.id])  # type: ignore[misc]  # inferred without the default
            place.update({n.id: k / len(row) for k, n in enumerate(row)})
    return rows


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
