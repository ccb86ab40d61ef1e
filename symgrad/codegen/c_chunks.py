"""The outermost statements, divided into functions that compile in linear time.

Compilers take more than linear time for a function. A program that is long is cut into functions of some
hundred statements; a value that a later one needs goes through a slot in the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

from ..lowering.memory import aligned
from ..lowering.program import Buffer, Call, Effect, Loop, Program, Scope, Value
from ..ops.c_types import c_type
from . import c_text
from .c_library import Library
from .c_loops import loop_lines, reductions_in
from .c_nests import Nest, Nests, Outside, nest
from .c_pieces import Runs, SharedPiece, regular_runs, slot
from .c_repeats import LEAST_TIMES, find_pieces
from .c_sizes import Sizes
from .c_values import Context, applied, effect_statements, statements

#: A program up to this many statements is one function.
WHOLE: Final = 600
#: Statements a function.
CHUNK: Final = 400
#: Statements a translation unit.
UNIT: Final = 4_000

Item = Value | Effect | Loop | Call
_ARGUMENTS: Final = "(const void *const *in, void *const *out, void *workspace)"
_INDENT: Final = "    "


class _Chunk:
    """Consecutive items that become one function."""

    def __init__(self, key: Hashable = None, period: int = 1) -> None:
        self.items: list[Item] = []
        self.weight = 0
        self.imports: dict[int, Value] = {}
        self.exports: dict[int, Value] = {}
        #: Chunks with equal keys other than None are one function.
        self.key = key
        #: Such a chunk does the same again after so many items.
        self.period = period


class Chunks:
    """The functions of a program.

    Attributes
    ----------
    units
        For each translation unit its functions.
    prototypes
        Of all functions but the kernel.
    kernel
        The kernel itself.
    workspace_bytes
        What program, slots and calls need together.
    loops
        All outermost loops.
    scalar_statements
        Statements outside of loops.
    """

    def __init__(
        self, program: Program, symbol: str, names: c_text.Names, library: Library, sizes: Sizes
    ) -> None:
        self.program = program
        self.symbol = symbol
        self.names = names
        self.sizes = sizes
        self.library = library
        self.loops: list[Loop] = []
        self.scalar_statements = 0
        self.prototypes: list[str] = []
        self._slots: dict[int, str] = {}
        self._slot_bytes = 0
        self._slot_offset = program.workspace_bytes
        chunks = self._divide()
        self.shared: dict[Hashable, SharedPiece] = {}
        if len(chunks) > 1:
            self._connect(chunks)
            library.scratch_offset = self._slot_offset + aligned(self._slot_bytes)
        self._known_lines: dict[Any, str] = {}
        self.nests = Nests(symbol)
        bodies = [self._body(chunk) for chunk in chunks]
        self.nests.settle()
        self.workspace_bytes = library.scratch_offset + aligned(library.scratch)
        self.units, self.kernel = self._functions(chunks, bodies)

    # -------------------------------------------------------------------------------- dividing

    def _divide(self) -> list[_Chunk]:
        items: list[tuple[Item, int]] = []
        for group in self.program.root.in_order():
            for item in group:
                if type(item) is Value:
                    if item.kind not in ("literal", "reduced"):
                        items.append((item, 1))
                elif type(item) is Loop:
                    self.loops.append(item)
                    items.append((item, _weight(item.scope)))
                else:
                    items.append((item, 1))
        self.scalar_statements = len(items) - len(self.loops)
        if sum([weight for _, weight in items]) <= WHOLE:
            return _cut(items, WHOLE) or [_Chunk()]
        return self._divide_long(items)

    def _divide_long(self, items: list[tuple[Item, int]]) -> list[_Chunk]:
        """Repeated pieces as they are, what lies between in chunks of limited length."""
        items = _reads_first(items)
        chunks: list[_Chunk] = []
        done = 0
        keys: set[Hashable] = set()
        for piece in find_pieces([item for item, _ in items]):
            chunks += _cut(items[done : piece.start], CHUNK)
            chunk = _Chunk(piece.key, piece.period)
            chunk.items = [item for item, _ in items[piece.start : piece.stop]]
            chunk.weight = piece.stop - piece.start
            chunks.append(chunk)
            if piece.key in keys:
                self.scalar_statements -= chunk.weight
            keys.add(piece.key)
            done = piece.stop
        return chunks + _cut(items[done:], CHUNK)

    def _connect(self, chunks: list[_Chunk]) -> None:
        """Give a slot to each value that is used in a function after the one that computes it."""
        home: dict[int, _Chunk] = {}
        last_use: dict[int, int] = {}
        for number, chunk in enumerate(chunks):
            for item in chunk.items:
                if type(item) is Value:
                    home[id(item)] = chunk
                    used = item.args
                else:
                    used = _uses(item)
                    if isinstance(item, Loop):
                        home.update((id(r.target), chunk) for r in reductions_in(item) if r.first == 0)
                for value in used:
                    if value.chain or value.kind == "literal":
                        continue
                    key = id(value)
                    source = home[key]
                    if source is not chunk:
                        chunk.imports[key] = value
                        source.exports[key] = value
                        last_use[key] = number
        if any([chunk.key is not None for chunk in chunks]):
            self._place_all(chunks)
        else:
            self._place_slots(chunks, last_use)

    def _place_all(self, chunks: list[_Chunk]) -> None:
        """A slot for each value: those of a piece side by side, so that one pointer leads to them."""
        groups: dict[Hashable, list[_Chunk]] = {}
        for chunk in chunks:
            if chunk.key is not None:
                groups.setdefault(chunk.key, []).append(chunk)
        for group in groups.values():
            # If one round passes a value on, all do: then slots of the same value lie at a fixed distance.
            period = group[0].period
            kept = {k % period for c in group for k, item in enumerate(c.items) if id(item) in c.exports}
            exported = [k for k in range(len(group[0].items)) if k % period in kept]
            for chunk in group:
                values = [chunk.items[k] for k in exported]
                chunk.exports = {id(v): v for v in values}  # type: ignore[misc]  # a piece holds values only
        numbers: dict[int, int] = {}
        for chunk in chunks:
            for key, value in chunk.exports.items():
                numbers[key] = len(numbers)
                self._slots[key] = slot("s", numbers[key], value.dtype)
        self._slot_bytes = 8 * len(numbers)
        for name, group in groups.items():
            imports = [[numbers[k] for k in c.imports] for c in group]
            exports = [numbers[next(iter(c.exports))] if c.exports else 0 for c in group]
            for first, stop in regular_runs(imports):
                shared = None
                if stop - first >= LEAST_TIMES or (first, stop) == (0, len(group)):
                    shared = SharedPiece.of(
                        f"{self.symbol}_piece{len(self.shared) + 1}", imports[first:stop], exports[first:stop]
                    )
                run_key = (name, first) if shared is not None else None
                for chunk in group[first:stop]:
                    chunk.key = run_key
                if shared is not None:
                    self.shared[run_key] = shared

    def _place_slots(self, chunks: list[_Chunk], last_use: dict[int, int]) -> None:
        free: list[int] = []
        expiring: dict[int, list[int]] = {}
        count = 0
        for number, chunk in enumerate(chunks):
            for key, value in chunk.exports.items():
                if free:
                    number = free.pop()
                else:
                    number = count
                    count += 1
                self._slots[key] = slot("s", number, value.dtype)
                expiring.setdefault(last_use[key], []).append(number)
            # A slot is used again after the last function that reads it.
            free.extend(reversed(expiring.pop(number, [])))
        self._slot_bytes = 8 * count

    # -------------------------------------------------------------------------------- writing

    def _body(self, chunk: _Chunk) -> list[str]:
        shared = self.shared.get(chunk.key) if chunk.key is not None else None
        if shared is not None:
            if not shared.body:
                shared.body = self._piece_body(chunk, shared)
            return []
        context = Context(self.names, self.sizes)
        lines = [self._import(value, self._slots[key]) for key, value in chunk.imports.items()]
        lines += self._statements(chunk, context)
        return self._framed(lines, context, chunk)

    def _piece_body(self, chunk: _Chunk, shared: SharedPiece) -> list[str]:
        """The body of the function that all chunks with this key are."""
        own = dict(self._slots)
        for value, (group, offset) in zip(chunk.imports.values(), shared.places, strict=True):
            own[id(value)] = slot(f"g{group}", offset, value.dtype, "const ")
        for k, value in enumerate(chunk.exports.values()):
            own[id(value)] = slot("e", k, value.dtype)
        everywhere, self._slots = self._slots, own
        try:
            context = Context(self.names, self.sizes)
            lines = [self._import(value, own[key]) for key, value in chunk.imports.items()]
            lines += self._statements(chunk, context)
        finally:
            self._slots = everywhere
        shared.may_fail = "fail" in context.uses
        head = self.library.sizes_read(context) if context.sized else []
        return [*head, *lines]

    def _import(self, value: Value, source: str) -> str:
        if not value.name:  # of a piece that another one was written for
            value.name = self.names.numbered()
        return f"const {c_type(value.dtype)} {value.name} = {self._cast(value)}{source};"

    def _statements(self, chunk: _Chunk, context: Context) -> list[str]:
        lines: list[str] = []
        said = None
        exports = chunk.exports
        for item in chunk.items:
            if isinstance(item, Loop):
                lines += self._nest(item, context, chunk)
                said = None
            elif isinstance(item, Call):
                lines += self._call(item, context)
                said = None
            else:
                node = item.node
                origin = node.table.origins.get(node.id)
                if origin is not None and origin != said:
                    lines.append(f"/* {c_text.where_from(node, self._known_lines)} */")
                    said = origin
                if type(item) is Effect:
                    lines += effect_statements(item, context)
                    continue
                assert isinstance(item, Value)
                if item.kind == "apply":
                    lines.append(applied(item, context))
                else:
                    lines += statements(item, context)
                if exports and id(item) in exports:
                    lines.append(self._export(item))
        return lines

    def _cast(self, value: Value) -> str:
        kind = c_type(value.dtype)
        return "" if kind in ("double", "int64_t") else f"({kind})"

    def _export(self, value: Value) -> str:
        return f"{self._slots[id(value)]} = {'(int64_t)' if value.dtype.kind == 'u' else ''}{value.name};"

    def _framed(self, lines: list[str], context: Context, chunk: _Chunk) -> list[str]:
        """Pointers before, unused arguments, and the code returned."""
        head = []
        uses = context.uses
        slotted = bool(chunk.imports or chunk.exports)
        if slotted or "workspace" in uses:
            head.append("char *const ws = workspace;")
        if slotted:
            head.append(f"double *const s = (double *)(ws + {context.size(self._slot_offset, 'at', 'slots')});")
        head += _pointers(context, "const")
        if context.sized:
            # Pointers into the workspace need sizes too, so sizes come first.
            head[:0] = self.library.sizes_read(context)
        head += [f"(void){name};" for name in ("in", "out", "workspace") if name not in uses]
        if "fail" not in uses:
            return [*head, *lines, "return 0;"]
        return [*head, "int sg_fail = 0;", *lines, "return sg_fail;"]

    def _nest(self, loop: Loop, outer: Context, chunk: _Chunk) -> list[str]:
        context = outer.inside()
        inside = loop_lines(loop, context, _INDENT, 0)
        results = [r.target for r in reductions_in(loop) if r.first == 0]
        block = ["{", *[f"{_INDENT}/* {text} */" for text in self._origins(loop)]]
        block += [_INDENT + text for text in _pointers(context, "restrict")]
        block += [*inside, "}"]
        mark = self.nests.add(nest(
            block, [line[len(_INDENT) :] for line in inside], self._outside(loop, context, inside),
            {b.name for b in context.used.values() if not _has_pointer(b)}, _weight(loop.scope),
        ))  # fmt: skip
        declared = [f"{c_type(v.dtype)} {v.name};" for v in results]
        return [*declared, mark, *[self._export(v) for v in results if id(v) in chunk.exports]]

    def _outside(self, loop: Loop, context: Context, inside: list[str]) -> dict[str, Outside]:
        """What a nest takes from around it, by name."""
        found: dict[str, Outside] = {}
        for buffer in context.used.values():
            if _has_pointer(buffer):
                kind = f"{_constant(buffer)}{c_text.storage_type(buffer.dtype)} *restrict "
                found[buffer.name] = Outside(kind, c_text.pointer(buffer, context.offset))
        for value in _uses(loop):
            if not value.chain and value.kind != "literal":
                found[value.name] = Outside(f"const {c_type(value.dtype)} ", value.name)
        for reduction in reductions_in(loop):
            if reduction.first == 0:
                name = reduction.target.name
                found[name] = Outside(f"{c_type(reduction.target.dtype)} *restrict ", f"&{name}", True)
        words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(inside)))
        for name in context.sized:
            if name in words:
                kind = "const double " if self.sizes.declaration(name).startswith("const double") else "const long "
                found[name] = Outside(kind, name)
        return found

    def _origins(self, loop: Loop) -> list[str]:
        """The user's lines that a loop computes, at most some of them."""
        found: dict[str, None] = {}
        pending = [loop]
        while pending:
            inner = pending.pop()
            nodes = [v.node for v in inner.scope.values if v.kind in ("apply", "gather")]
            nodes += [e.node for e in inner.scope.effects] + [r.target.node for r in inner.reductions]
            for node in nodes:
                text = c_text.where_from(node, self._known_lines)
                if text:
                    found[text] = None
            pending.extend(inner.scope.loops)
        texts = list(found)
        return texts if len(texts) <= 6 else [*texts[:6], f"and {len(texts) - 6} more lines"]

    def _call(self, call: Call, outer: Context) -> list[str]:
        context = outer.inside()
        inside = self.library.lines(call, context)
        where = c_text.where_from(call.node, self._known_lines)
        return [
            "{", *([f"{_INDENT}/* {where} */"] if where else []),
            *[_INDENT + text for text in _pointers(context, "const")],
            *[_INDENT + text for text in inside], "}",
        ]  # fmt: skip

    def _functions(self, chunks: list[_Chunk], bodies: list[list[str]]) -> tuple[list[list[str]], str]:
        if len(chunks) == 1:
            body, called, _ = self.nests.expanded(bodies[0])
            written_nests: dict[Hashable, str] = {}
            functions = self._nest_functions(called, written_nests, "__attribute__((noinline)) static ")
            return [functions], _function(f"int {self.symbol}{_ARGUMENTS}", body)
        written = [c for c in chunks if c.key is None] + list({c.key: c for c in chunks if c.key is not None}.values())
        several = sum([chunk.weight for chunk in written]) > UNIT
        hidden = ', visibility("hidden")' if several else ""
        attribute = f"__attribute__((noinline{hidden}))"
        units: list[list[str]] = [[]]
        weight = 0
        calls: list[str] = []
        runs = Runs(self.shared)
        done: set[Hashable] = set()
        nests: dict[Hashable, str] = {}
        for number, (chunk, body) in enumerate(zip(chunks, bodies, strict=True)):
            if chunk.key is None:
                name = f"{self.symbol}_part{number + 1}"
                head = f"int {name}{_ARGUMENTS}"
                calls += runs.flushed()
                calls.append(f"if (code == 0) code = {name}(in, out, workspace);")
            else:
                runs.add(chunk.key)
                if chunk.key in done:
                    continue
                done.add(chunk.key)
                head, body = self.shared[chunk.key].head, self.shared[chunk.key].whole_body
            body, called, saved = self.nests.expanded(body)
            self.prototypes.append(f"{attribute} {head}")
            own = chunk.weight - saved
            if several and units[-1] and weight + own > UNIT:
                units.append([])
                weight = 0
            units[-1] += self._nest_functions(called, nests, "" if several else f"{attribute} static ", attribute)
            units[-1].append(_function(head if several else f"{attribute} static {head}", body))
            weight += own
        calls += runs.flushed()
        body = [*self._slots_head(), "int code = 0;", *calls, "return code;"]
        return units, _function(f"int {self.symbol}{_ARGUMENTS}", body)

    def _nest_functions(
        self, called: list[Nest], known: dict[Hashable, str], prefix: str, attribute: str = ""
    ) -> list[str]:
        """The functions of nests that were not written yet; they are declared everywhere."""
        functions = []
        for found in called:
            if found.key in known:
                continue
            head = known[found.key] = self.nests.head(found)
            if attribute:
                self.prototypes.append(f"{attribute} {head}")
            functions.append(_function(prefix + head, found.body))
        return functions

    def _slots_head(self) -> list[str]:
        """What the kernel needs to hand slots to pieces."""
        if not self.shared:
            return []
        context = Context(self.names, self.sizes)
        offset = context.size(self._slot_offset, "at", "slots")
        head = self.library.sizes_read(context) if context.sized else []
        return [*head, f"double *const s = (double *)((char *)workspace + {offset});"]


def _cut(items: list[tuple[Item, int]], limit: int) -> list[_Chunk]:
    """Items in chunks of limited length."""
    chunks: list[_Chunk] = []
    for item, weight in items:
        if not chunks or (chunks[-1].weight + weight > limit and chunks[-1].weight):
            chunks.append(_Chunk())
        chunk = chunks[-1]
        chunk.items.append(item)
        chunk.weight += weight
    return chunks


def _reads_first(items: list[tuple[Item, int]]) -> list[tuple[Item, int]]:
    """Reading of arguments before all else: then data that a loop reads do not tell its rounds apart."""
    first: list[tuple[Item, int]] = []
    rest: list[tuple[Item, int]] = []
    for pair in items:
        (first if _reads_argument(pair[0]) else rest).append(pair)
    return first + rest


def _reads_argument(item: Item) -> bool:
    if not isinstance(item, Value) or item.kind != "load" or item.buffer is None:
        return False
    return item.buffer.storage.kind not in ("output", "workspace")


def _function(head: str, body: list[str]) -> str:
    return head + " {\n" + "".join([f"{_INDENT}{line}\n" for line in body]) + "}\n"


def _pointers(context: Context, qualifier: str) -> list[str]:
    """Declarations of pointers to all memory used; tables in the source need none."""
    return [
        f"{_constant(b)}{c_text.storage_type(b.dtype)} *{qualifier} {b.name} = {c_text.pointer(b, context.offset)};"
        for b in context.used.values() if _has_pointer(b)
    ]


def _has_pointer(buffer: Buffer) -> bool:
    return buffer.position >= 0 or buffer.kind == "workspace"


def _constant(buffer: Buffer) -> str:
    return "" if buffer.kind in ("output", "workspace") else "const "


def _weight(scope: Scope) -> int:
    total = 0
    pending = [scope]
    while pending:
        inside = pending.pop()
        total += len(inside.values) + len(inside.effects) + 2
        pending.extend(loop.scope for loop in inside.loops)
    return total


def _uses(item: Item) -> list[Value]:
    """The values that an item needs, of whatever scope."""
    if isinstance(item, Value):
        return item.args
    if isinstance(item, Effect):
        return [*item.args, *([item.value] if item.value is not None else [])]
    if isinstance(item, Call):
        return []
    found: list[Value] = []
    pending = [item]
    while pending:
        loop = pending.pop()
        for value in loop.scope.values:
            found.extend(value.args)
        for effect in loop.scope.effects:
            found.extend(_uses(effect))
        found.extend(r.operand for r in loop.reductions)
        pending.extend(loop.scope.loops)
    return found
