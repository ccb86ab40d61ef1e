"""C statements for single values and effects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import CONST
from ..core.op import Op
from ..errors import UnsupportedOperationError
from ..lowering.identities import identity_of
from ..lowering.program import Buffer, Effect, Index, Value
from ..ops.c_types import c_type, modular
from ..ops.reduction import prod, sum_
from . import c_text
from .c_sizes import Sizes

_ARGUMENT = {"output": "out", "workspace": "workspace"}


class Context:
    """What the statements of one C function share.

    Attributes
    ----------
    names
        Identifiers of the whole kernel.
    used
        Buffers whose pointers the statements need, by identity of the storage.
    uses
        Which of the kernel's arguments are needed (``"in"``, ``"out"``, ``"workspace"``), also by blocks
        inside; ``"fail"`` where a statement may set ``sg_fail``.
    sized
        Names of the sizes that the statements need, also by blocks inside.
    """

    def __init__(self, names: c_text.Names, sizes: Sizes, around: Context | None = None) -> None:
        self.names = names
        self.sizes = sizes
        self.used: dict[int, Buffer] = {}
        self.uses: set[str] = set() if around is None else around.uses
        self.sized: dict[str, None] = {} if around is None else around.sized

    def inside(self) -> Context:
        """What a block inside adds to."""
        return Context(self.names, self.sizes, self)

    def size(self, n: int, kind: str = "n", key: Any = None) -> str:
        """Source of a number that may follow from the size of an array."""
        text = self.sizes.integer(n, kind, key)
        if text[0].isalpha():
            self.sized[text] = None
        return text

    def offset(self, buffer: Buffer) -> str:
        """Source of where a buffer is in the workspace."""
        return self.size(buffer.offset, "at", buffer.name)

    def position(self, index: Index) -> str:
        """Source of a position."""
        if not index[1]:
            # Outside loops a position is where the user said, or the end of an array.
            return self.size(index[0]) if self.sizes.follows(index[0]) else str(index[0])
        return c_text.position(index, self.size)

    def literal(self, value: Value, like: np.dtype[Any] | None = None) -> str:
        """Source of a constant, which may be made of a size."""
        node = value.node
        if node.op is CONST and node.dtype.kind in "if" and self.sizes.known:
            array = node.value
            assert array is not None
            name, kind = self._number(array.reshape(-1)[0], node.dtype), c_type(_literal_dtype(value, like))
            if name is not None:
                self.sized[name] = None
                cast = "" if kind in ("double", "int64_t") else f"({kind})"
                negative = array.reshape(-1)[0] < 0
                return f"({cast}-{name})" if negative else f"{cast}{name}"
        return operand(value, like)

    def _number(self, value: Any, dtype: np.dtype[Any]) -> str | None:
        if dtype.kind == "f":
            return self.sizes.number(float(value))
        n = abs(int(value))
        text = self.sizes.integer(n) if self.sizes.follows(n) else ""
        return text if text[:1].isalpha() else None  # written out where it is short, or there is no room

    def memory(self, buffer: Buffer) -> str:
        """The name of a buffer's pointer."""
        storage = buffer.storage
        if id(storage) not in self.used:
            self.used[id(storage)] = storage
            self.uses.add(_ARGUMENT.get(storage.kind, "in" if storage.position >= 0 else "table"))
        return storage.name


def operand(value: Value, like: np.dtype[Any] | None = None) -> str:
    """Source of a value that was computed before: its name, or a constant."""
    if value.kind != "literal":
        return value.name
    node = value.node
    if node.op is not CONST:
        return c_text.literal(identity_of(node), node.dtype)
    array = node.value
    assert array is not None
    return c_text.literal(array.reshape(-1)[0], _literal_dtype(value, like))


def _literal_dtype(value: Value, like: np.dtype[Any] | None) -> np.dtype[Any]:
    """A Python number takes the precision of the floats beside it."""
    weak = like is not None and value.node.aval.weak and like.kind == "f"
    return like if weak and like is not None else value.node.dtype


def expression(value: Value, context: Context) -> str:
    """Source of an element-wise operation on its operands."""
    node = value.node
    op, aval, c = node.op, node.aval, node.op.c
    if not c:
        raise UnsupportedOperationError(f"{op.name} has no C source; the NumPy backend computes it")
    args = [arg.name if arg.kind != "literal" else context.literal(arg, _partner(value)) for arg in value.args]
    if isinstance(c, str):
        return c.format(*args, f=_math_suffix(value))
    text: str = c(args, [a.aval for a in node.args], node.params and dict(node.params), aval)
    return text.replace("{f}", _math_suffix(value)) if "{f}" in text else text


def _math_suffix(value: Value) -> str:
    """The ending of mathematical functions: they are named after the type of their arguments."""
    node = value.node
    dtype = node.args[0].dtype if node.dtype.kind == "b" else node.dtype
    return "f" if dtype.kind == "f" and dtype.itemsize == 4 else ""


def _partner(value: Value) -> np.dtype[Any] | None:
    """The dtype that a Python number takes beside the other operands."""
    node = value.node
    if node.dtype.kind == "f":
        return node.dtype
    return next((a.dtype for a in node.args if not a.aval.weak and a.dtype.kind == "f"), None)


def combine(op: Op, acc: str, value: str, dtype: np.dtype[Any]) -> str:
    """Source of one step of a reduction; both operands are names."""
    if op in (sum_, prod):
        symbol = "+" if op is sum_ else "*"
        if dtype.kind == "f":
            return f"{acc} {symbol} {value}"
        if dtype.kind == "b":
            return f"({acc} {'||' if op is sum_ else '&&'} {value})"
        wide = modular(dtype)
        return f"({c_type(dtype)})(({wide}){acc} {symbol} ({wide}){value})"
    assert isinstance(op.c, str)
    text = op.c
    if dtype.kind != "f":
        # Only floats differ from themselves, and compilers warn where others are asked.
        text = text.replace(" || {acc} != {acc}", "")
    return f"({text.format(value, acc=acc)})"


def applied(value: Value, context: Context) -> str:
    """The C statement of an element-wise operation."""
    node = value.node
    value.name = name = context.names.of(node)
    text = expression(value, context)
    if "sg_fail" in text:
        context.uses.add("fail")
    return f"const {c_type(node.aval.dtype)} {name} = {text};"


def statements(value: Value, context: Context) -> list[str]:
    """The C statements that define a value."""
    kind = value.kind
    if kind == "apply":
        return [applied(value, context)]
    if kind in ("literal", "reduced"):
        return []
    if not value.name:
        value.name = context.names.of(value.node) if kind != "load" else context.names.numbered()
    name, dtype = value.name, value.dtype
    if kind == "load":
        assert value.buffer is not None
        element = f"{context.memory(value.buffer)}[{context.position(value.index)}]"
        return [f"const {c_type(dtype)} {name} = {element}{' != 0' if dtype.kind == 'b' else ''};"]
    if kind == "fold":
        return _fold(value, context)
    assert kind == "gather"
    assert value.buffer is not None
    lines, where = picked(value.index, value.picks, value.args, context)
    element = f"{context.memory(value.buffer)}[{where}]"
    return [*lines, f"const {c_type(dtype)} {name} = {element}{' != 0' if dtype.kind == 'b' else ''};"]


def _fold(value: Value, context: Context) -> list[str]:
    op, dtype = value.node.op, value.dtype
    kind = c_type(dtype)
    args = [operand(arg) for arg in value.args]
    if dtype.kind == "f" and op in (sum_, prod):
        return [f"const {kind} {value.name} = {(' + ' if op is sum_ else ' * ').join(args)};"]
    lines = []
    acc = args[0]
    for n, arg in enumerate(args[1:], 2):
        name = value.name if n == len(args) else context.names.fresh(f"{value.name}_{n}")
        lines.append(f"const {kind} {name} = {combine(op, acc, arg, dtype)};")
        acc = name
    return lines or [f"const {kind} {value.name} = {acc};"]


def picked(
    index: Any, picks: tuple[tuple[int, int], ...], args: list[Value], context: Context
) -> tuple[list[str], str]:
    """Statements that check computed positions, and the source of the position in memory."""
    lines = []
    parts = [context.position(index)] if index != (0, ()) else []
    for (step, bound), arg in zip(picks, args, strict=True):
        where = operand(arg)
        if bound:
            context.uses.add("fail")
            outside, inside = context.names.fresh("outside"), context.names.fresh("at")
            lines.append(f"const int {outside} = {where} < 0 || {where} >= {context.size(bound)};")
            lines.append(f"const int64_t {inside} = {outside} ? 0 : (int64_t){where};")
            lines.append(f"sg_fail |= {outside};")
            where = inside
        parts.append(where if step == 1 else f"{context.size(step)} * {where}")
    return lines, " + ".join(parts) or "0"


def effect_statements(effect: Effect, context: Context) -> list[str]:
    """The C statements that write to memory."""
    buffer = effect.buffer
    name = context.memory(buffer)
    if effect.kind == "fill":
        return _fill(effect, name, context)
    if effect.source is not None:
        return _copy(effect, name, context.memory(effect.source), context)
    assert effect.value is not None
    stored = effect.value
    value = context.literal(stored) if stored.kind == "literal" else operand(stored)
    lines: list[str] = []
    where = context.position(effect.index)
    if effect.kind == "store":
        return [f"{name}[{where}] = {value};"]
    if effect.kind == "scatter":
        lines, where = picked(effect.index, effect.picks, effect.args, context)
        op: Op = sum_
    else:
        assert effect.op is not None
        op = effect.op
    if buffer.dtype.kind == "f" and op is sum_:
        return [*lines, f"{name}[{where}] += {value};"]
    kind = c_type(buffer.dtype)
    old = context.names.fresh("old")
    step = combine(op, old, value, buffer.dtype)
    return [*lines, f"const {kind} {old} = {name}[{where}];", f"{name}[{where}] = {step};"]


def _fill(effect: Effect, name: str, context: Context) -> list[str]:
    buffer = effect.buffer
    if effect.fill == 0:
        return [f"memset({name}, 0, {context.size(buffer.nbytes, 'bytes')});"]
    value = c_text.literal(effect.fill, buffer.dtype)
    return [f"for (long i = 0; i < {context.size(buffer.size)}; ++i)", f"    {name}[i] = {value};"]


def _copy(effect: Effect, target: str, source: str, context: Context) -> list[str]:
    """Rows to columns, or back."""
    row, column = effect.row, effect.buffer.size // effect.row
    packed, plain = (target, source) if effect.kind == "pack" else (source, target)
    lines = [f"for (long i = 0; i < {context.size(column)}; ++i) {{"]
    for k in range(row):
        far = f"{packed}[i{f' + {context.size(k * column)}' if k else ''}]"
        near = f"{plain}[{row} * i{f' + {k}' if k else ''}]"
        lines.append(f"    {far} = {near};" if effect.kind == "pack" else f"    {near} = {far};")
    return [*lines, "}"]
