"""The NumPy backend: a graph as readable Python source, and the function it defines."""

from __future__ import annotations

import itertools
import keyword
import linecache
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.expr import CAPTURE, CONST, INPUT, Expr
from ..core.graph import Graph, label
from ..core.paths import Guard, Leaf, Outcome, PathTree, Placement, Vertex, single_path
from ..ops.arithmetic import negative
from ..ops.evaluate import NAMESPACE
from ..ops.shaping import reshape, take_slice
from .render import render

INLINE_WIDTH = 70
"""Expressions used once are written inside their user up to this length."""

BUFFER_BYTES = 1 << 16
"""Arrays of this size and more are computed into buffers that are no longer needed."""

_ATOM = 100
_CALLS = tuple(f"{module}." for module in NAMESPACE)
_counter = itertools.count(1)


@dataclass
class NumpyCode:
    """Generated source and what it needs.

    Attributes
    ----------
    name
        Name of the function.
    source
        Its text.
    constants
        Arrays it refers to by name.
    """

    name: str
    source: str
    constants: dict[str, Any]


def generate(program: Graph | PathTree) -> NumpyCode:
    """Write a graph, or a tree of paths, as NumPy source.

    The function takes the inputs, then the captured arrays. For a graph, or a tree without branches, it
    returns a tuple with one new array for each output; otherwise the number of the path and that tuple, or a
    negative number and an empty tuple where a decision has an outcome that is not known.
    """
    tree = program if isinstance(program, PathTree) else single_path(program)
    return _Writer(tree).run()


def load(code: NumpyCode) -> Callable[..., tuple[Any, ...]]:
    """Define the function; its source is known to tracebacks and debuggers while it lives."""
    filename = f"<symgrad numpy {code.name} {next(_counter)}>"
    namespace: dict[str, Any] = {**NAMESPACE, **code.constants}
    exec(compile(code.source, filename, "exec"), namespace)
    function: Callable[..., tuple[Any, ...]] = namespace[code.name]
    linecache.cache[filename] = (len(code.source), None, code.source.splitlines(True), filename)
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


def identifier(text: str) -> str:
    """A valid Python name close to ``text``."""
    name = re.sub(r"\W+", "_", text).strip("_") or "v"
    if name[0].isdigit() or keyword.iskeyword(name) or name in NAMESPACE:
        name = f"{name}_" if keyword.iskeyword(name) or name in NAMESPACE else f"v{name}"
    return name


@dataclass
class _Writer:
    tree: PathTree
    lines: list[str] = field(default_factory=list)
    texts: dict[int, tuple[str, int]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    indent: str = ""

    def run(self) -> NumpyCode:
        self.graph = graph = self.tree.graph
        name = self._unique(identifier(graph.name))
        self.nodes = [n for n in graph.nodes if n.op is not INPUT]
        parameters = [self._name(n, "x") for n in (*graph.inputs, *graph.captures)]
        self._count()
        self.placed = Placement(self.tree).nodes
        self._place(self.tree.root)
        paths = f", {len(self.tree.leaves)} paths" if self.tree.branches else ""
        source = render(
            "numpy_function.py.j2",
            title=f"{graph.name}: {graph.node_count} operations{paths}",
            name=name,
            parameters=", ".join(parameters),
            lines=self.lines,
        )
        return NumpyCode(name, source, self.constants)

    # ---------------------------------------------------------------- branches

    def _place(self, vertex: Vertex) -> None:
        """Write a place of the tree and all below it.

        The largest branch goes on at the same indentation, so that a long chain of decisions stays flat.
        """
        while True:
            for node in self.placed[vertex.number]:
                if node.op is CONST:
                    self._constant(node)
                elif node.op is not CAPTURE and node.op is not INPUT:
                    self._statement(node)
            if vertex.leaf is not None:
                self._line(f"return {self._returned(vertex.leaf)}")
                return
            if vertex.guard is None:
                self._line(f"return {-1 - vertex.number}, ()")
                return
            vertex = self._decide(vertex)

    def _decide(self, vertex: Vertex) -> Vertex:
        guard = vertex.guard
        assert guard is not None
        small = sorted(vertex.children.items(), key=lambda item: (item[1].size, item[0]))
        outcome, last = small.pop()
        comment = f"  # {guard.origin.short}" if guard.origin is not None else ""
        for other, child in small:
            self._line(f"if {self._condition(guard, other)}:{comment}")
            self._deeper(child)
        if len(vertex.children) < 2 or type(outcome) is int:
            # An outcome that has not been seen: the function is traced again.
            self._line(f"if not {self._condition(guard, outcome, tight=True)}:{comment}")
            self._line(f"    return {-1 - vertex.number}, ()")
        return last

    def _deeper(self, child: Vertex) -> None:
        outer, texts = self.indent, dict(self.texts)
        self.indent += "    "
        self._place(child)
        self.indent, self.texts = outer, texts

    def _condition(self, guard: Guard, outcome: Outcome, tight: bool = False) -> str:
        text, precedence = self.texts[guard.expr.id]
        if type(outcome) is not bool:
            text = f"{text if precedence > 30 else f'({text})'} == {outcome}"
            return f"({text})" if tight else text
        if outcome and not tight:
            return text
        bound = text if precedence == _ATOM else f"({text})"
        return bound if outcome else f"(not {bound})" if tight else f"not {bound}"

    def _line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    # ---------------------------------------------------------------- names

    def _unique(self, wanted: str) -> str:
        """The name wanted, with a number behind it if it is taken."""
        name = wanted
        while name in self.taken:
            self.numbers[wanted] = self.numbers.get(wanted, 1) + 1
            name = f"{wanted}_{self.numbers[wanted]}"
        self.taken.add(name)
        return name

    def _numbered(self, letter: str) -> str:
        """The next free name made of a letter and a number."""
        name = ""
        while not name or name in self.taken:
            self.numbers[letter + "#"] = self.numbers.get(letter + "#", 0) + 1
            name = f"{letter}{self.numbers[letter + '#']}"
        self.taken.add(name)
        return name

    def _name(self, node: Expr, fallback: str) -> str:
        own = label(node)
        name = self._unique(identifier(own)) if own else self._numbered(fallback)
        self.texts[node.id] = (name, _ATOM)
        return name

    # ------------------------------------------------------------- how often, and how long, values are needed

    def _count(self) -> None:
        self.uses: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for k, node in enumerate(self.nodes):
            for a in node.args:
                self.uses[a.id] = self.uses.get(a.id, 0) + 1
                self.last[a.id] = k
        for node in self.nodes:
            if self._is_element(node):
                self.uses[node.args[0].id] -= 1
        for vertex in self.tree.vertices():
            for out in vertex.roots:
                # Results are named; a guard may be written inside its `if`.
                self.uses[out.id] = self.uses.get(out.id, 0) + (2 if vertex.leaf is not None else 1)
                self.last[out.id] = len(self.nodes)
        self.position = {node.id: k for k, node in enumerate(self.nodes)}
        self.inside: dict[int, list[Expr]] = {}
        self.free: dict[tuple[Any, ...], list[str]] = {}
        self.owned: dict[int, str] = {}
        self.viewed: set[int] = set()
        for node in self.nodes:
            if _may_view(node):
                self.viewed.update(a.id for a in node.args)

    # ---------------------------------------------------------------- statements

    def _constant(self, node: Expr) -> None:
        value = node.value
        assert value is not None
        if value.ndim == 0 and (value.dtype.kind in "ib" or np.isfinite(value)):
            plain = value.item()
            negative = not isinstance(plain, bool) and (plain < 0 or str(plain).startswith("-"))
            text = repr(plain)
            self.texts[node.id] = (f"({text})" if negative else text, _ATOM)
            return
        name = self._numbered("k")
        self.constants[name] = value[()]
        self.texts[node.id] = (name, _ATOM)

    def _statement(self, node: Expr) -> None:
        if not self.uses.get(node.id, 0):
            return
        text, precedence = self._expression(node)
        if (
            self.uses.get(node.id, 0) == 1
            and not label(node)
            and len(text) <= INLINE_WIDTH
            and not self._large(node)
        ):
            self.texts[node.id] = (text, precedence)
            self._postpone(node)
            return
        buffer = self._buffer(node)
        if buffer is not None:
            call = node.op.source([self.texts[a.id][0] for a in node.args], [a.aval for a in node.args], {})
            text = f"{call[:-1]}, out={buffer})"
        name = self._name(node, "t")
        self._line(f"{name} = {text}{self._comment(node)}")
        self._release(node, name)

    def _comment(self, node: Expr) -> str:
        origin = node.origin
        return f"  # {origin.short}" if origin is not None and label(node) else ""

    def _expression(self, node: Expr) -> tuple[str, int]:
        op = node.op
        avals = [a.aval for a in node.args]
        if op.out and op.text and op.precedence < 90 and _has_operator(node):
            first = 0 if op.text.startswith("{0}") else 1  # 1/x has its operand on the right
            args = [self._operand(a, op.precedence, first + k) for k, a in enumerate(node.args)]
            return op.text.format(*args), op.precedence
        picked = self._element(node)
        if picked is not None:
            return picked, _ATOM
        args = self._typed(node, [self.texts[a.id][0] for a in node.args])
        params = dict(node.params)
        shape_of_source = op.source([f"a{k}" for k in range(len(args))], avals, params)
        if not shape_of_source.startswith(_CALLS):
            # An index or attribute is appended to an operand, which must bind tighter.
            args = [self._operand(a, _ATOM - 1, 0) for a in node.args]
        return op.source(args, avals, params), _ATOM

    @staticmethod
    def _is_element(node: Expr) -> bool:
        return not node.shape and node.op is reshape and node.args[0].op is take_slice

    def _element(self, node: Expr) -> str | None:
        """``x[0]`` where a slice of one element is reshaped to a scalar."""
        if not self._is_element(node):
            return None
        piece = node.args[0]
        position = ", ".join(map(str, piece.param("starts")))
        return f"{self._operand(piece.args[0], _ATOM - 1, 0)}[{position}]"

    @staticmethod
    def _typed(node: Expr, args: list[str]) -> list[str]:
        """Give literals their dtype where no other operand says it: Python numbers alone mean float64."""
        valued = [k for k, a in enumerate(node.args) if a.dtype == node.dtype]
        if not valued or any(node.args[k].op is not CONST for k in valued):
            return args
        if node.dtype in (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)):
            return args
        return [f"np.{_dtype_name(node)}({text})" if k in valued else text for k, text in enumerate(args)]

    def _operand(self, node: Expr, outer: int, place: int) -> str:
        text, precedence = self.texts[node.id]
        # Equal strength on the right, and anything inside a power, needs parentheses.
        tight = (
            precedence > outer
            or precedence == _ATOM
            or (precedence == outer and place == 0 and outer in (50, 60))
        )
        if outer == negative.precedence and precedence <= 60 and ("//" in text or "%" in text):
            # A sign binds tighter than a product, which does no harm; but // and % are not odd as products are.
            tight = False
        return text if tight else f"({text})"

    def _returned(self, leaf: Leaf) -> str:
        parts = []
        seen: set[int] = set()
        for out in leaf.outputs:
            text, _ = self.texts[out.id]
            if out.op.kind == "leaf" or _may_view(out) or out.id in seen:
                text = f"np.array({text}, dtype=np.{_dtype_name(out)})"
            seen.add(out.id)
            parts.append(text)
        results = f"({', '.join(parts)},)" if parts else "()"
        return f"{leaf.index}, {results}" if self.tree.branches else results

    # ---------------------------------------------------------------- buffers

    def _reads(self, node: Expr) -> list[Expr]:
        """What the text of a node names: its operands, and those of operands that are written inside it."""
        return [read for a in dict.fromkeys(node.args) for read in (a, *self.inside.get(a.id, ()))]

    def _postpone(self, node: Expr) -> None:
        """What is written inside its user is read no earlier than there."""
        reads = self.inside[node.id] = self._reads(node)
        for read in reads:
            self.last[read.id] = max(self.last[read.id], self.last[node.id])

    def _large(self, node: Expr) -> bool:
        return node.aval.size * node.dtype.itemsize >= BUFFER_BYTES

    def _buffer(self, node: Expr) -> str | None:
        """A dead array of the same type that the result may overwrite."""
        if not (self._large(node) and node.op.out) or self.tree.branches:
            return None
        now = self.position[node.id]
        for a in node.args:
            # An elementwise result may overwrite an operand that dies here.
            if (
                a.id in self.owned
                and self.last[a.id] == now
                and a.aval == node.aval
                and node.op.lowering == "elementwise"
            ):
                return self.owned.pop(a.id)
        spare = self.free.get((node.shape, node.dtype))
        return spare.pop() if spare else None

    def _release(self, node: Expr, name: str) -> None:
        now = self.position[node.id]
        for a in dict.fromkeys(self._reads(node)):
            if a.id in self.owned and self.last[a.id] == now:
                self.free.setdefault((a.shape, a.dtype), []).append(self.owned.pop(a.id))
        if (
            self._large(node)
            and not _may_view(node)
            and node.id not in self.viewed
            and self.last.get(node.id, now) < len(self.nodes)
        ):
            self.owned[node.id] = name


def _may_view(node: Expr) -> bool:
    """True where the NumPy call can return memory of its operand."""
    return node.op.lowering == "view"


def _has_operator(node: Expr) -> bool:
    """Python's operators mean the op for floats and bools; integers divide and negate differently."""
    kinds = {a.dtype.kind for a in node.args}
    if kinds != {"b"}:
        return kinds == {"f"}
    # A comparison of Python numbers is a Python bool, whose ~ is an integer.
    return node.dtype.kind == "b" and bool(node.shape or len(node.args) > 1)


def _dtype_name(node: Expr) -> str:
    return "bool_" if node.dtype.kind == "b" else node.dtype.name


def evaluate_graph(graph: Graph, values: Sequence[Any]) -> tuple[Any, ...]:
    """Run a graph once with NumPy: generate, load, call."""
    function = load(generate(graph))
    arrays = [node.params[0][1].array for node in graph.captures]
    with np.errstate(all="ignore"):
        return function(*values, *arrays)
