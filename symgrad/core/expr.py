"""Expressions: immutable, hash-consed nodes of a DAG of tensor operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .aval import Aval, aval_of, make_aval
from .op import Op, register
from .origin import Origin

Params = tuple[tuple[str, Any], ...]


class Value:
    """A constant as part of a node's identity: equal only when dtype, shape and every bit agree."""

    __slots__ = ("_key", "_number", "array")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        frozen = np.array(array, copy=True, order="C")
        frozen.flags.writeable = False
        self.array = frozen
        self._key = (frozen.dtype.str, frozen.shape, frozen.tobytes())
        self._number: Any = _UNKNOWN

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self._key == other._key

    def __repr__(self) -> str:
        if self.array.size <= 4:
            return repr(self.array.tolist())
        return f"array{list(self.array.shape)}"

    @property
    def key(self) -> tuple[str, tuple[int, ...], bytes]:
        """Dtype, shape and bytes."""
        return self._key

    @property
    def number(self) -> float | bool | None:
        """The Python number that all elements are bit for bit; None if they differ or there are none."""
        if self._number is _UNKNOWN:
            self._number = self._find_number()
        return self._number  # type: ignore[no-any-return]  # unknown until asked

    def _find_number(self) -> float | bool | None:
        size, item = self.array.size, self.array.dtype.itemsize
        data = self._key[2]
        if size == 0 or (size > 1 and data != data[:item] * size):
            return None
        first: float | bool = self.array.flat[0].item()
        return first


_UNKNOWN = object()


class Reference:
    """A captured array: a hidden input held by reference, identified by the object itself."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.array is other.array

    def __repr__(self) -> str:
        return f"captured{list(self.array.shape)}"


def _no_rule(*_: Any, **__: Any) -> Aval:
    raise TypeError("leaves are made by their intern table")


INPUT = register(Op("input", "leaf", "An argument of the graph.", _no_rule))
CONST = register(Op("const", "leaf", "A constant.", _no_rule))
CAPTURE = register(Op("capture", "leaf", "A captured array, read anew at every call.", _no_rule))

OPERATORS: dict[str, Callable[..., Expr]] = {}
"""Python's operators on expressions; filled by the operations that implement them."""


class Expr:
    """One node: an operation applied to nodes.

    Structurally equal nodes of one intern table are the same object, so equality is identity.

    Attributes
    ----------
    op
        The operation's record.
    args
        Operands.
    params
        Static parameters, sorted by name, hashable.
    aval
        Shape and dtype of the result.
    id
        Creation number within the table: operands always have smaller ones.
    table
        The intern table it belongs to.
    """

    __slots__ = ("__weakref__", "args", "aval", "id", "op", "params", "table")

    op: Op
    args: tuple[Expr, ...]
    params: Params
    aval: Aval
    id: int
    table: InternTable

    def __init__(
        self, op: Op, args: tuple[Expr, ...], params: Params, aval: Aval, id: int, table: InternTable
    ) -> None:
        self.op = op
        self.args = args
        self.params = params
        self.aval = aval
        self.id = id
        self.table = table

    # Identity equality and hash are inherited from object on purpose: a structural one would recurse.

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the value."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes of the value."""
        return len(self.aval.shape)

    @property
    def origin(self) -> Origin | None:
        """The user's line that made this node."""
        return self.table.origins.get(self.id)

    def param(self, name: str) -> Any:
        """One static parameter."""
        for key, value in self.params:
            if key == name:
                return value
        raise KeyError(name)

    @property
    def value(self) -> np.ndarray[Any, Any] | None:
        """The array of a constant, otherwise None."""
        return self.params[0][1].array if self.op is CONST else None

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.id} {self.aval}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("an expression cannot be pickled by itself; pickle its Graph")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value")

    def __add__(self, other: Any) -> Expr:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Any) -> Expr:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Any) -> Expr:
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Expr:
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: Any) -> Expr:
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Expr:
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Expr:
        return OPERATORS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return OPERATORS["divide"](other, self)

    def __pow__(self, other: Any) -> Expr:
        return OPERATORS["power"](self, other)

    def __rpow__(self, other: Any) -> Expr:
        return OPERATORS["power"](other, self)

    def __matmul__(self, other: Any) -> Expr:
        return OPERATORS["matmul"](self, other)

    def __neg__(self) -> Expr:
        return OPERATORS["negative"](self)

    def __lt__(self, other: Any) -> Expr:
        return OPERATORS["less"](self, other)

    def __le__(self, other: Any) -> Expr:
        return OPERATORS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Expr:
        return OPERATORS["greater"](self, other)

    def __ge__(self, other: Any) -> Expr:
        return OPERATORS["greater_equal"](self, other)

    def __and__(self, other: Any) -> Expr:
        return OPERATORS["logical_and"](self, other)

    def __or__(self, other: Any) -> Expr:
        return OPERATORS["logical_or"](self, other)

    def __invert__(self) -> Expr:
        return OPERATORS["logical_not"](self)


class InternTable:
    """Makes expressions and guarantees that equal ones are the same object.

    One table serves one trace and everything derived from it; it is freed with the last of its expressions.
    """

    __slots__ = (
        "__weakref__",
        "_ids",
        "_memos",
        "_nodes",
        "_numbers",
        "_strong",
        "known",
        "labels",
        "ops",
        "origin",
        "origins",
        "patterns",
    )

    def __init__(self) -> None:
        self._nodes: dict[Any, Expr] = {}
        self._ids = itertools.count()
        self._numbers: dict[Any, Expr] = {}
        self._strong: dict[int, Expr] = {}
        self._memos: dict[Any, dict[int, Expr]] = {}
        self.ops: set[Op] = set()
        """Operations that were ever applied."""
        self.patterns: dict[int, list[np.ndarray[Any, Any]]] = {}
        """The values that masks have had in decisions, by node id."""
        self.known: set[int] = set()
        """Ids of nodes that depend on constants only."""
        self.origins: dict[int, Origin] = {}
        """User lines by node id; outside the identity of nodes."""
        self.labels: dict[int, str] = {}
        """Names of inputs and of the user's variables by node id."""
        self.origin: Origin | None = None
        """Given to every node made while it is set."""

    def __len__(self) -> int:
        return len(self._nodes)

    def memo(self, owner: Any) -> dict[int, Expr]:
        """What a transform remembers about nodes, by id; it lives as long as they do."""
        found = self._memos.get(owner)
        if found is None:
            found = self._memos[owner] = {}
        return found

    def mark(self) -> int:
        """A number between the ids of the nodes made so far and those still to come."""
        return next(self._ids)

    def make(self, op: Op, args: Sequence[Expr], params: dict[str, Any] | None = None) -> Expr:
        """Intern ``op(*args, **params)``; the op's type rule gives the aval."""
        return self.remake(op, tuple(args), tuple(sorted(params.items())) if params else ())

    def remake(self, op: Op, args: tuple[Expr, ...], params: Params) -> Expr:
        """Intern a node whose parameters are already in their stored form."""
        # Written out for one and two operands: this runs for every node that any transform makes.
        count = len(args)
        if count == 2:
            first, second = args[0].id, args[1].id
            if first > second and op.commutative:
                first, second = second, first
            key: Any = (op, first, second, params)
        elif count == 1:
            key = (op, args[0].id, params)
        else:
            key = (op, *[a.id for a in args], params)
        node = self._nodes.get(key)
        if node is not None:
            return node
        if op.uniform and (count == 1 or (count == 2 and args[0].aval is args[1].aval)):
            aval = args[0].aval
        else:
            avals = tuple([a.aval for a in args])
            aval = op.infer(avals, **dict(params)) if params else op.infer(avals)
        return self._enter(key, op, args, params, aval)

    def _enter(self, key: Any, op: Op, args: tuple[Expr, ...], params: Params, aval: Aval) -> Expr:
        node = Expr(op, args, params, aval, next(self._ids), self)
        self._nodes[key] = node
        self.ops.add(op)
        if op is CONST or (args and args[0].id in self.known and all([a.id in self.known for a in args])):
            self.known.add(node.id)
        if self.origin is not None:
            self.origins[node.id] = self.origin
        return node

    def input(self, aval: Aval, name: str = "") -> Expr:
        """A fresh argument, different from every other one."""
        number = next(self._ids)
        node = Expr(INPUT, (), (("number", number),), aval, number, self)
        self._nodes["input", number] = node
        if name:
            self.labels[number] = name
        return node

    def constant(self, value: Any, dtype: Any = None, weak: bool = False) -> Expr:
        """A constant; a Python number without ``dtype`` stays weak."""
        # Python numbers are most constants. Zero (two signs) and NaN (many payloads) take the careful way.
        kind = type(value)
        key: Any = None
        if (kind is float or kind is int) and (value < 0 or value > 0):
            key = (kind, value, dtype)
        if key is not None:
            node = self._numbers.get(key)
            if node is not None and (dtype is None or node.aval.weak == weak):
                return node
        node = self._constant(value, dtype, weak)
        if key is not None:
            self._numbers[key] = node
        return node

    def _constant(self, value: Any, dtype: Any, weak: bool) -> Expr:
        if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
            aval = aval_of(value)
            array = np.asarray(value, dtype=aval.dtype)
        else:
            array = np.asarray(value, dtype=dtype)
            aval = make_aval(array.shape, array.dtype, weak)
        held = Value(array)
        key = ("const", held, aval.weak)
        node = self._nodes.get(key)
        if node is None:
            node = self._enter(key, CONST, (), (("value", held),), aval)
        return node

    def strong(self, x: Expr) -> Expr:
        """A weak constant as a strong one."""
        node = self._strong.get(x.id)
        if node is None:
            node = self._strong[x.id] = self._constant(x.value, x.aval.dtype, False)
        return node

    def capture(self, array: np.ndarray[Any, Any]) -> Expr:
        """A hidden input that stands for this very array object."""
        reference = Reference(array)
        key = ("capture", reference)
        node = self._nodes.get(key)
        if node is None:
            node = self._enter(key, CAPTURE, (), (("ref", reference),), aval_of(array))
        return node


def reachable(outputs: Iterable[Expr]) -> list[Expr]:
    """All nodes the outputs depend on, operands first."""
    seen: set[int] = set()
    nodes: list[Expr] = []
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node.id not in seen:
            seen.add(node.id)
            nodes.append(node)
            stack.extend(node.args)
    nodes.sort(key=_by_id)
    return nodes


def _by_id(node: Expr) -> int:
    return node.id
