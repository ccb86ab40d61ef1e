"""Graphs: expressions with their inputs and outputs, as every transform takes and gives them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .aval import Aval
from .expr import CAPTURE, CONST, INPUT, Expr, InternTable, Params, reachable
from .lazy import lazy_import
from .op import Op, lookup
from .origin import Origin

hashlib: Any = lazy_import("hashlib")

#: Dimensions up to this are told apart where code is put into order.
SMALL: Final = 64


class Graph:
    """A function as data: outputs over inputs.

    Attributes
    ----------
    inputs
        Argument nodes, in order. An input that no output depends on is still listed.
    outputs
        Result nodes, in order.
    name
        Name of the traced function.
    """

    __slots__ = ("_nodes", "inputs", "name", "outputs")

    def __init__(self, inputs: Sequence[Expr], outputs: Sequence[Expr], name: str = "f") -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.name = name
        self._nodes: list[Expr] | None = None

    @property
    def nodes(self) -> list[Expr]:
        """All nodes that the outputs depend on, operands before their users."""
        if self._nodes is None:
            self._nodes = reachable(self.outputs)
        return self._nodes

    @property
    def node_count(self) -> int:
        """Number of operations: nodes that are neither inputs nor constants."""
        return sum(1 for node in self.nodes if node.op.kind != "leaf")

    @property
    def captures(self) -> list[Expr]:
        """Captured arrays, in order of first appearance."""
        return [node for node in self.nodes if node.op is CAPTURE]

    @property
    def table(self) -> InternTable:
        """The intern table of the nodes."""
        return (self.outputs or self.inputs)[0].table

    def __repr__(self) -> str:
        ends = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<Graph {self.name}: {ends}, {self.node_count} ops>"

    def __str__(self) -> str:
        return format_graph(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.name, _flat(self))


def label(node: Expr) -> str:
    """The name the user knows a node by, or empty."""
    return node.table.labels.get(node.id, "")


def format_graph(graph: Graph) -> str:
    """One line a node: name, type, operation, and the user's line."""
    names: dict[int, str] = {}
    taken: set[str] = set()

    def name_of(node: Expr, fallback: str) -> str:
        wanted = label(node) or fallback
        unique, k = wanted, 1
        while unique in taken:
            k += 1
            unique = f"{wanted}_{k}"
        taken.add(unique)
        names[node.id] = unique
        return unique

    head = ", ".join(f"{name_of(n, f'x{k}')}: {n.aval}" for k, n in enumerate(graph.inputs))
    lines = [f"{graph.name}({head})"]
    rows: list[tuple[str, str]] = []
    shown = ""
    for node in graph.nodes:
        if node.op is INPUT and node.id in names:
            continue
        if node.op is CONST:
            names[node.id] = repr(node.params[0][1])
            continue
        left = f"{name_of(node, f't{len(rows) + 1}')}: {node.aval}"
        where = node.origin.short if node.origin else ""
        # The text of a line stands at the first of the operations in a row that come from it.
        source = f"{where}  {_shortened(node.origin.text)}".rstrip() if node.origin else ""
        rows.append((f"  {left} = {_call(node, names)}", where if where == shown else source))
        shown = where
    width = min(max((len(text) for text, _ in rows), default=0), 100)
    lines += [f"{text:<{width}}  # {where}" if where else text for text, where in rows]
    lines.append(f"  return {', '.join(names[out.id] for out in graph.outputs)}")
    return "\n".join(lines)


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _call(node: Expr, names: dict[int, str]) -> str:
    if node.op is CAPTURE:
        return "captured array"
    inside = [names[a.id] for a in node.args]
    inside += [f"{k}={v!r}" for k, v in node.params]
    return f"{node.op.name}({', '.join(inside)})"


def rebuild(
    graph: Graph,
    make: Callable[[Expr, tuple[Expr, ...]], Expr] | None = None,
    replace: dict[int, Expr] | None = None,
    table: InternTable | None = None,
) -> Graph:
    """Copy a graph bottom-up.

    Parameters
    ----------
    graph
        What to copy.
    make
        ``make(old, new_args) -> new``; the default interns the same op on the new operands.
    replace
        Nodes that are taken for others, by id.
    table
        Where leaves are made anew; by default they stay in their table.
    """
    done: dict[int, Expr] = dict(replace or {})
    target = graph.table if table is None else table
    if table is not None:
        for node in graph.inputs:
            if node.id not in done:
                done[node.id] = table.input(node.aval, label(node))
    for node in graph.nodes:
        if node.id in done:
            continue
        done[node.id] = _copy(node, done, make, target)
    return Graph([done.get(i.id, i) for i in graph.inputs], [done[o.id] for o in graph.outputs], graph.name)


def rebuild_into(
    done: dict[int, Expr],
    roots: Sequence[Expr],
    make: Callable[[Expr, tuple[Expr, ...]], Expr],
    table: InternTable,
) -> list[Expr]:
    """Copy expressions bottom-up, remembering in ``done`` what was copied before."""
    for node in reachable(roots):
        if node.id not in done:
            done[node.id] = _copy(node, done, make, table)
    return [done[r.id] for r in roots]


def _copy(
    node: Expr,
    done: dict[int, Expr],
    make: Callable[[Expr, tuple[Expr, ...]], Expr] | None,
    table: InternTable,
) -> Expr:
    if node.op.kind == "leaf":
        return node if node.table is table else _copy_leaf(node, table)
    args = tuple([done[a.id] for a in node.args])
    # Nothing below changed and the node may stay as it is: the common case of a rewrite pass.
    if make is None and node.table is table and args == node.args:
        return node
    table.origin = node.table.origins.get(node.id)
    new = make(node, args) if make else table.remake(node.op, args, node.params)
    table.origin = None
    if new is not node:
        name = label(node)
        if name and new.id not in table.labels:
            table.labels[new.id] = name
    return new


def copy_node(node: Expr, done: dict[int, Expr], table: InternTable) -> Expr:
    """Intern a node in another table, on the copies of its operands in ``done``."""
    return _copy(node, done, None, table)


def _copy_leaf(node: Expr, table: InternTable) -> Expr:
    if node.op is CONST:
        return table.constant(node.params[0][1].array, node.dtype, node.aval.weak)
    if node.op is CAPTURE:
        new = table.capture(node.params[0][1].array)
    else:
        new = table.input(node.aval)
    if label(node):
        table.labels[new.id] = label(node)
    return new


def substitute(outputs: Sequence[Expr], replace: dict[int, Expr]) -> list[Expr]:
    """Put other nodes in the place of some and rebuild what depends on them."""
    return list(rebuild(Graph((), outputs), replace=replace).outputs) if outputs else []


def digests(graph: Graph) -> dict[int, bytes]:
    """A process-independent fingerprint of every node, by id.

    It depends on operations, parameters, types and the position of inputs and captures, never on creation
    history, and is the same for both orders of a commutative operation.
    """
    return _digests(graph, {c.id: k for k, c in enumerate(ranked_captures(graph))})


def ranked_captures(graph: Graph) -> list[Expr]:
    """Captured arrays in an order that does not depend on creation history.

    They have no position of their own: they are told apart by how they are used.
    """
    captures = graph.captures
    if len(captures) < 2:
        return captures
    anonymous = _digests(graph, {c.id: 0 for c in captures})
    uses = _contexts(graph, anonymous)
    return sorted(captures, key=lambda c: (anonymous[c.id], uses[c.id]))


def _contexts(graph: Graph, fingerprint: dict[int, bytes]) -> dict[int, bytes]:
    """A fingerprint of all ways from each node to the outputs."""
    entries: dict[int, list[bytes]] = {}
    for k, out in enumerate(graph.outputs):
        entries.setdefault(out.id, []).append(b"output %d" % k)
    found: dict[int, bytes] = {}
    for node in reversed(graph.nodes):
        above = b"".join(sorted(entries.pop(node.id)))
        found[node.id] = own = hashlib.blake2b(above, digest_size=16).digest()
        for k, a in enumerate(node.args):
            place = b"" if node.op.commutative else b"%d" % k
            entries.setdefault(a.id, []).append(own + fingerprint[node.id] + place)
    return found


def _digests(graph: Graph, captures: dict[int, int], sizes: bool = True) -> dict[int, bytes]:
    """Fingerprints; without ``sizes`` they are those that arrays of other large sizes have too."""
    found: dict[int, bytes] = {}
    positions = {node.id: k for k, node in enumerate(graph.inputs)}
    for node in graph.nodes:
        head = [node.op.name, str(node.aval) if sizes else _without_sizes(str(node.aval))]
        if node.op is INPUT:
            head.append(f"input {positions.get(node.id, -1)}")
        elif node.op is CAPTURE:
            head.append(f"capture {captures[node.id]}")
        elif node.op is CONST:
            held = node.params[0][1]
            if sizes or _is_simple(held.array):
                head.append(f"{held.key[0]}{held.key[1]}{held.key[2].hex()}")
        elif node.params:
            head.append(repr(node.params) if sizes else _without_sizes(repr(node.params)))
        parts = [found[a.id] for a in node.args]
        if node.op.commutative:
            parts.sort()
        found[node.id] = hashlib.blake2b("|".join(head).encode() + b"".join(parts), digest_size=16).digest()
    return found


def _order(graph: Graph) -> dict[int, bytes]:
    """What the operands of commutative operations are sorted by: by sizes of arrays only as a last resort.

    Generated code then looks the same for arrays of other sizes.
    """
    fine = digests(graph)
    if not any([n > SMALL for node in (*graph.inputs, *graph.captures, *graph.outputs) for n in node.shape]):
        return fine
    coarse = _digests(graph, {c.id: 0 for c in graph.captures}, sizes=False)
    return {k: coarse[k] + own for k, own in fine.items()}


_NUMBER = re.compile(r"(?<![A-Za-z])\d+")


def _without_sizes(text: str) -> str:
    return _NUMBER.sub(lambda found: found[0] if int(found[0]) <= SMALL else "n", text)


def _is_simple(value: np.ndarray[Any, Any]) -> bool:
    """Whether a constant is a small number, not one made of the size of an array."""
    if value.size != 1 or value.dtype.kind not in "if":
        return bool(value.dtype.kind == "b")
    number = float(value.reshape(-1)[0])
    return bool(abs(number) <= SMALL and (64 * number).is_integer())


def canonical(graph: Graph) -> Graph:
    """The same graph in a fresh table, in an order that does not depend on how it came about.

    Nodes are numbered depth first from the outputs; operands of commutative operations are sorted by digest.
    """
    fingerprint = _order(graph)
    table = InternTable()
    done: dict[int, Expr] = {n.id: table.input(n.aval, label(n)) for n in graph.inputs}
    stack: list[Expr] = list(reversed(graph.outputs))
    while stack:
        node = stack[-1]
        if node.id in done:
            stack.pop()
            continue
        args = _canonical_args(node, fingerprint)
        waiting = [a for a in args if a.id not in done]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        stack.pop()
        done[node.id] = _place(node, args, done, table)
    return Graph([done[i.id] for i in graph.inputs], [done[o.id] for o in graph.outputs], graph.name)


def in_creation_order(graph: Graph) -> Graph:
    """The same graph in a fresh table, in the order in which its nodes were made.

    What a loop of the user's made then repeats itself regularly, and so does what differentiating made of it.
    """
    table = InternTable()
    done: dict[int, Expr] = {n.id: table.input(n.aval, label(n)) for n in graph.inputs}
    for node in sorted(graph.nodes, key=lambda n: n.id):
        if node.id not in done:
            done[node.id] = _place(node, node.args, done, table)
    return Graph([done[i.id] for i in graph.inputs], [done[o.id] for o in graph.outputs], graph.name)


def _canonical_args(node: Expr, fingerprint: dict[int, bytes]) -> tuple[Expr, ...]:
    if node.op.commutative and fingerprint[node.args[0].id] > fingerprint[node.args[1].id]:
        return (node.args[1], node.args[0])
    return node.args


def _place(node: Expr, args: tuple[Expr, ...], done: dict[int, Expr], table: InternTable) -> Expr:
    if node.op.kind == "leaf":
        new = _copy_leaf(node, table)
    else:
        new = table.remake(node.op, tuple([done[a.id] for a in args]), node.params)
    if node.origin is not None:
        table.origins[new.id] = node.origin
    if label(node):
        table.labels.setdefault(new.id, label(node))
    return new


def verify(graph: Graph) -> None:
    """Check what must always hold: types, acyclicity, interning, known inputs.

    Raises
    ------
    AssertionError
        Naming the node that breaks a rule.
    """
    inputs = {node.id for node in graph.inputs}
    seen: set[Any] = set()
    table = graph.table
    for node in graph.nodes:
        if node.table is not table:
            raise AssertionError(f"{node!r} belongs to another intern table")
        if node.op.kind == "leaf":
            if node.op is INPUT and node.id not in inputs:
                raise AssertionError(f"{node!r} is an input that the graph does not list")
            if (node.op, node.aval, node.params) in seen:
                raise AssertionError(f"{node!r} is a second copy of an interned leaf")
            seen.add((node.op, node.aval, node.params))
            continue
        if any(a.id >= node.id for a in node.args):
            raise AssertionError(f"{node!r} depends on a later node")
        expected = node.op.infer(tuple(a.aval for a in node.args), **dict(node.params))
        if expected != node.aval:
            raise AssertionError(f"{node!r} should have type {expected}")
        ids = [a.id for a in node.args]
        key = (node.op.name, tuple(sorted(ids) if node.op.commutative else ids), node.params)
        if key in seen:
            raise AssertionError(f"{node!r} is a second copy of an interned node")
        seen.add(key)


class _Flat(NamedTuple):
    """A graph as columns, one row a node, so that serialising a deep graph neither recurses nor takes long."""

    ops: list[str]
    codes: array[int]
    """Position in ``ops`` of each node's operation."""
    counts: array[int]
    """Number of operands of each node."""
    operands: array[int]
    """Rows of the operands, one node's after the other's."""
    leaves: dict[int, tuple[Any, Aval]]
    """Array, if it holds one, and type of each leaf."""
    params: dict[int, Params]
    origins: dict[int, Origin]
    labels: dict[int, str]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def _flat(graph: Graph) -> _Flat:
    nodes = sorted({n.id: n for n in (*graph.inputs, *graph.nodes)}.values(), key=lambda n: n.id)
    rows = {n.id: k for k, n in enumerate(nodes)}
    flat = _Flat(
        [], array("i"), array("i"), array("q"), {}, {}, {}, {},
        tuple([rows[i.id] for i in graph.inputs]), tuple([rows[o.id] for o in graph.outputs]),
    )  # fmt: skip
    codes: dict[str, int] = {}
    for row, node in enumerate(nodes):
        flat.codes.append(codes.setdefault(node.op.name, len(codes)))
        flat.counts.append(len(node.args))
        flat.operands.extend([rows[a.id] for a in node.args])
        if node.op.kind == "leaf":
            flat.leaves[row] = (None if node.op is INPUT else node.params[0][1].array, node.aval)
        elif node.params:
            flat.params[row] = node.params
        if node.origin is not None:
            flat.origins[row] = node.origin
        if label(node):
            flat.labels[row] = label(node)
    flat.ops.extend(codes)
    return flat


def _unpickle(name: str, flat: _Flat) -> Graph:
    table = InternTable()
    ops = [lookup(op) for op in flat.ops]
    made: list[Expr] = []
    end = 0
    for row, (code, count) in enumerate(zip(flat.codes, flat.counts, strict=True)):
        op, begin, end = ops[code], end, end + count
        if op.kind == "leaf":
            node = _revive(table, op, *flat.leaves[row])
        else:
            operands = tuple([made[k] for k in flat.operands[begin:end]])
            node = table.remake(op, operands, flat.params.get(row, ()))
        made.append(node)
    table.origins.update({made[row].id: origin for row, origin in flat.origins.items()})
    table.labels.update({made[row].id: text for row, text in flat.labels.items()})
    return Graph([made[k] for k in flat.inputs], [made[k] for k in flat.outputs], name)


def _revive(table: InternTable, op: Op, held: Any, aval: Aval) -> Expr:
    if op is INPUT:
        return table.input(aval)
    return table.constant(held, aval.dtype, aval.weak) if op is CONST else table.capture(held)
