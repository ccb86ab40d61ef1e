"""The way from a graph to a program."""

from __future__ import annotations

from ..core.graph import SMALL, Graph
from .demand import Demand
from .memory import plan
from .packing import pack
from .prepare import prepared
from .program import Buffer, Program, Scope, Work
from .recomputing import recomputes
from .scalarise import scalarised
from .schedule import Schedule
from .sharing import share, shrink
from .structure import Structure, op_cost
from .tree import build_tree

#: Constant arrays up to this many elements are written into the source; larger ones are handed to the kernel.
TABLE_SIZE = 64


def lower(graph: Graph) -> Program:
    """Turn a graph into loops, calls and memory.

    Parameters
    ----------
    graph
        What to compute. For output that does not depend on how it came about, give it in canonical form.

    Returns
    -------
    Program
        Independent of the language it will be written in.

    Raises
    ------
    UnsupportedOperationError
        For float16, which only the NumPy backend computes.

    Examples
    --------
    >>> from symgrad.core.aval import Aval
    >>> from symgrad.core.expr import InternTable
    >>> from symgrad.core.graph import Graph
    >>> from symgrad.ops.reduction import sum_
    >>> x = InternTable().input(Aval((1000,), "float64"), "x")
    >>> program = lower(Graph([x], [sum_(x * x, axis=(0,)), x * 2.0]))
    >>> len(program.nests), program.workspace_bytes
    (1, 0)
    """
    graph = prepared(scalarised(graph) or graph)
    facts = Structure(graph)
    demand = Demand(facts, Schedule(facts))
    again = recomputes(demand.values)
    root = build_tree(demand)
    used = sorted(demand.buffers.values(), key=lambda b: facts.at[b.node.id])
    used += pack(root, used)
    shrink(root, used)
    share(root, [b for b in used if b.kind in ("workspace", "output")], lambda b: facts.at[b.node.id])
    constants = [b for b in used if b.kind == "constant"]
    tables = [b for b in constants if _is_table(b)]
    handed = [b for b in constants if not _is_table(b)]
    for k, buffer in enumerate(handed):
        buffer.position = len(graph.inputs) + len(demand.captures) + k
    for k, buffer in enumerate(demand.captures):
        buffer.position = len(graph.inputs) + k
    workspace = [b for b in used if b.kind == "workspace"]
    program = Program(
        graph.name, demand.inputs, demand.captures, handed, tables, demand.outputs, root, workspace,
        plan([b for b in workspace if b.host is None]),
    )  # fmt: skip
    program.work = estimate(program)
    program.recomputes = again
    return program


def _is_table(buffer: Buffer) -> bool:
    """Whether a constant is written into the source: small, and no positions that would be others in longer arrays."""
    array = buffer.array
    assert array is not None
    return array.size <= TABLE_SIZE and (array.dtype.kind not in "iu" or bool((abs(array) <= SMALL).all()))


def estimate(program: Program) -> Work:
    """What a run costs."""
    work = Work(bytes=sum(b.nbytes for b in _outside(program)))
    pending: list[tuple[Scope, int]] = [(program.root, 1)]
    while pending:
        scope, times = pending.pop()
        for value in scope.values:
            if value.kind == "apply":
                work.flops += times * op_cost(value.node.op)
            elif value.kind in ("fold", "gather"):
                work.flops += times * len(value.args)
        for effect in scope.effects:
            if effect.buffer.kind == "workspace":
                work.bytes += times * effect.buffer.dtype.itemsize
        for loop in scope.loops:
            work.flops += times * loop.extent * len(loop.reductions)
            pending.append((loop.scope, times * loop.extent))
    for call in program.root.calls:
        # All routines known do a number of operations like that of a matrix product.
        sides = [a.shape[-2:] for a in call.node.args]
        inner = max([side[-1] for side in sides if side], default=1)
        work.flops += 2 * inner * max([call.node.aval.size, *[a.aval.size for a in call.node.args]])
    return work


def _outside(program: Program) -> list[Buffer]:
    return [*program.inputs, *program.captures, *program.constants, *program.outputs]
