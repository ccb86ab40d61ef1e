"""Compiling graphs in tests, many of them at once, and comparing floats by their distance."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.codegen.c_source import CSource, generate
from symgrad.codegen.cache import get_or_build
from symgrad.core.aval import aval_of
from symgrad.core.expr import CAPTURE, CONST, INPUT, InternTable
from symgrad.core.graph import Graph, canonical
from symgrad.core.op import Op
from symgrad.lowering import lower
from symgrad.ops.evaluate import evaluate

STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror")
GUARD = 64


class Kernel:
    """A compiled graph. Memory behind each output and the workspace is checked after each run."""

    def __init__(self, graph: Graph, symbol: str = "kernel", flags: Sequence[str] = STRICT) -> None:
        self.graph = canonical(graph)
        self.program = lower(self.graph)
        self.source: CSource = generate(self.program, symbol)
        path = get_or_build(self.source.units, self.source.tier, flags, libs=self.source.libs)
        self.library = ctypes.CDLL(str(path))
        self.function = self.library[symbol]
        size = self.library[f"{symbol}_workspace"]
        size.restype = ctypes.c_size_t
        sizes = self.source.sizes
        self.workspace_bytes: int = size(None if sizes is None else ctypes.c_void_p(sizes.ctypes.data))
        assert self.workspace_bytes == self.source.workspace_bytes

    def run(self, *args: Any) -> tuple[int, list[np.ndarray[Any, Any]]]:
        """Return the kernel's code and its outputs."""
        held = [np.require(a, x.dtype, ["C", "A"]) for a, x in zip(args, self.graph.inputs, strict=True)]
        assert [a.shape for a in held] == [x.shape for x in self.graph.inputs]
        held += self.source.hidden
        outputs = [_guarded(x.aval.size * x.dtype.itemsize) for x in self.graph.outputs]
        workspace = _guarded(self.workspace_bytes)
        code = self.function(_pointers(held), _pointers(outputs), ctypes.c_void_p(workspace.ctypes.data))
        for block in (*outputs, workspace):
            assert (block[-GUARD:] == 0xA5).all(), "the kernel wrote past the end"
        results = [
            b[:-GUARD].view(x.dtype).reshape(x.shape)
            for b, x in zip(outputs, self.graph.outputs, strict=True)
        ]
        return code, results

    def __call__(self, *args: Any) -> list[np.ndarray[Any, Any]]:
        code, results = self.run(*args)
        assert code == 0
        return results


def _guarded(nbytes: int) -> np.ndarray[Any, Any]:
    room = np.full(nbytes + 2 * GUARD, 0xA5, np.uint8)
    start = -room.ctypes.data % GUARD
    return room[start : start + nbytes + GUARD]


def _pointers(arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])


def reference(graph: Graph, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The outputs as NumPy computes them, node by node."""
    values: dict[int, Any] = {
        x.id: np.asarray(a, x.dtype)[()] for x, a in zip(graph.inputs, args, strict=True)
    }
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node.op is INPUT:
                continue
            if node.op is CONST:
                values[node.id] = node.value[()] if node.value is not None else None
            elif node.op is CAPTURE:
                values[node.id] = node.params[0][1].array
            else:
                avals = [a.aval for a in node.args]
                made = evaluate(node.op, [values[a.id] for a in node.args], avals, dict(node.params))
                values[node.id] = np.asarray(made, node.dtype)[()]
    return [np.asarray(values[out.id], out.dtype) for out in graph.outputs]


def ulps(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How many floats lie between; NaN equals NaN, the sign of zero counts as 2**62."""
    kind: Any = {8: np.int64, 4: np.int32}[a.dtype.itemsize]
    smallest = np.iinfo(kind).min
    x, y = (np.ascontiguousarray(v).view(kind).astype(object) for v in (a, b))
    x, y = (np.where(v < 0, int(smallest) - v, v) for v in (x, y))
    distance = np.abs(x - y)
    distance = np.where((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)), 2**62, distance)
    both = np.isnan(a) & np.isnan(b)
    return np.where(both, 0, np.where(np.isnan(a) | np.isnan(b), 2**63, distance)).astype(float)


class Batch:
    """Many small graphs as one kernel: compiling is what takes time."""

    def __init__(self) -> None:
        self.table = InternTable()
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.args: list[Any] = []
        self.names: list[str] = []
        self.flags = STRICT

    def add(self, name: str, op: Op, args: Sequence[Any], params: dict[str, Any]) -> None:
        """One op on inputs of its own."""
        inputs = [self.table.input(aval_of(np.asarray(a))) for a in args]
        self.inputs += inputs
        self.args += [np.asarray(a) for a in args]
        self.outputs.append(self.table.make(op, inputs, params))
        self.names.append(name)

    def args_of(self, name: str) -> list[np.ndarray[Any, Any]]:
        """The arguments of one of them."""
        ids = [x.id for x in self.inputs]
        return [self.args[ids.index(a.id)] for a in self.outputs[self.names.index(name)].args]

    def kernel(self) -> Kernel:
        """Compile."""
        return Kernel(Graph(self.inputs, self.outputs, "batch"), flags=self.flags)

    def pairs(self) -> list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Name, result of C and result of NumPy for each."""
        kernel = self.kernel()
        results = kernel(*self.args)
        expected = reference(Graph(self.inputs, self.outputs), self.args)
        return list(zip(self.names, results, expected, strict=True))
