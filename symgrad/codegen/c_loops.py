"""C loops, and reductions in them that are vectorised and lose no accuracy.

The compiler may not reorder floating-point sums, so the order is written out: the innermost loop adds to
`LANES` partial sums by turns, these are added pairwise, and so are the sums of blocks and of outer
iterations.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ..core.op import Op
from ..lowering.identities import identity_of
from ..lowering.program import Effect, Loop, Reduction, Scope, Value
from ..ops.c_types import c_type
from ..ops.reduction import sum_
from . import c_text
from .c_values import Context, combine, effect_statements, operand, statements

LANES: Final = 64
#: Shorter loops add one after the other.
SHORT: Final = 8
#: Each lane adds up so many numbers before the lanes are combined.
BLOCK: Final = 32
#: Bodies up to this many lines are written twice, for full strips and for the rest.
REPEATED_BODY: Final = 60

Lines = list[str]
_STEP: Final = "    "


def scope_lines(scope: Scope, context: Context, indent: str) -> Lines:
    """Everything in a scope, in order."""
    lines: Lines = []
    for items in scope.in_order():
        for item in items:
            if isinstance(item, Value):
                lines += [indent + text for text in statements(item, context)]
            elif isinstance(item, Effect):
                lines += [indent + text for text in effect_statements(item, context)]
            elif isinstance(item, Loop):
                lines += loop_lines(item, context, indent, scope.depth)
            else:
                raise AssertionError(f"{item!r} cannot be inside a loop")
    return lines


def loop_lines(loop: Loop, context: Context, indent: str, depth: int) -> Lines:
    """One loop with all that is in it; the results of its reductions are defined behind it."""
    sums = [_Sum(r, loop, depth) for r in reductions_in(loop) if r.first <= depth]
    for s in sums:
        s.name_result(context)
    innermost = not loop.scope.loops
    laned = innermost and loop.extent > SHORT and any([s.is_float for s in sums])
    write = _laned if laned else _plain
    return write(loop, sums, context, indent, depth)


def _independent(loop: Loop, depth: int) -> str:
    """What tells the compiler that iterations do not meet in memory: it does not believe all pointers."""
    if loop.scope.loops or loop.extent < SHORT:
        return ""
    for effect in loop.scope.effects:
        if effect.kind == "scatter" or all([axis != depth for axis, _ in effect.index[1]]):
            return ""
    return "SG_INDEPENDENT "


def reductions_in(loop: Loop) -> list[Reduction]:
    """Reductions of a loop and of the loops inside."""
    found: list[Reduction] = []
    pending = [loop]
    while pending:
        inner = pending.pop()
        found.extend(inner.reductions)
        pending.extend(reversed(inner.scope.loops))
    return found


class _Sum:
    """One reduction at the level of one loop."""

    def __init__(self, reduction: Reduction, loop: Loop, depth: int) -> None:
        self.reduction = reduction
        self.op: Op = reduction.op
        self.dtype = reduction.target.dtype
        self.depth = depth
        self.is_float = self.dtype.kind == "f"
        self.kind = c_type(self.dtype)
        self.suffix = "f" if self.dtype == np.float32 else ""
        # Sums of inner sums are added pairwise too, unless they are few.
        self.pairwise = self.op is sum_ and self.is_float and loop.extent > SHORT

    def name_result(self, context: Context) -> None:
        """Choose the user's name for the final result."""
        target = self.reduction.target
        if not target.name:
            target.name = context.names.of(target.node)

    def name(self, depth: int) -> str:
        """The variable that holds the result over the loops from ``depth`` inwards."""
        base = self.reduction.target.name
        return base if depth == self.reduction.first else f"{base}_{c_text.loop_name(depth)}"

    @property
    def acc(self) -> str:
        """The accumulator at this level."""
        return f"{self.name(self.depth)}_acc"

    @property
    def added(self) -> str:
        """What an iteration adds; known only once the body was written."""
        r = self.reduction
        return operand(r.operand) if r.last == self.depth else self.name(self.depth + 1)

    @property
    def start(self) -> str:
        """What a reduction of nothing gives."""
        return c_text.literal(identity_of(self.reduction.target.node), self.dtype)

    def define(self, value: str) -> str:
        """Define the result; one that outer code needs was declared before."""
        name = self.name(self.depth)
        return f"{name} = {value};" if self.depth == 0 else f"const {self.kind} {name} = {value};"

    def combined(self, acc: str) -> str:
        """One step onto an accumulator."""
        if self.is_float and self.op is sum_:
            return f"{acc} += {self.added};"
        return f"{acc} = {combine(self.op, acc, self.added, self.dtype)};"


def _plain(loop: Loop, sums: list[_Sum], context: Context, indent: str, depth: int) -> Lines:
    """One iteration after the other."""
    i = c_text.loop_name(depth)
    inner = indent + _STEP
    innermost = not loop.scope.loops
    lines: Lines = []
    for s in sums:
        if s.pairwise and not innermost:
            lines.append(f"{indent}sg_pairs{s.suffix} {s.acc} = {{{{0}}, 0}};")
        else:
            lines.append(f"{indent}{s.kind} {s.acc} = {s.start};")
    head = f"for (long {i} = {context.size(loop.range[0])}; {i} < {context.size(loop.range[1])}; ++{i}) {{"
    lines.append(f"{indent}{_independent(loop, depth)}{head}")
    lines += scope_lines(loop.scope, context, inner)
    for s in sums:
        if s.pairwise and not innermost:
            lines.append(f"{inner}sg_push{s.suffix}(&{s.acc}, {s.added});")
        else:
            lines.append(inner + s.combined(s.acc))
    lines.append(indent + "}")
    for s in sums:
        total = f"sg_total{s.suffix}(&{s.acc})" if s.pairwise and not innermost else s.acc
        lines.append(indent + s.define(total))
    return lines


def _laned(loop: Loop, sums: list[_Sum], context: Context, indent: str, depth: int) -> Lines:
    """Strips of `LANES` iterations, each with its own accumulator, so that they run side by side."""
    first, last = [context.size(bound) for bound in loop.range]
    lanes = LANES
    while lanes >= 2 * loop.extent:
        lanes //= 2
    if lanes < loop.extent < LANES:
        lanes *= 2
    blocked = loop.extent > LANES * BLOCK
    i = c_text.loop_name(depth)
    inner = indent + _STEP if blocked else indent
    # The body's lines are written for the deepest place and shared by both copies.
    body = scope_lines(loop.scope, context, "")
    lines: Lines = []
    if blocked:
        lines += [f"{indent}sg_pairs{s.suffix} {s.acc}_blocks = {{{{0}}, 0}};" for s in sums if s.pairwise]
        lines += [f"{indent}{s.kind} {s.acc}_all = {s.start};" for s in sums if not s.pairwise]
        step = LANES * BLOCK
        lines.append(f"{indent}for (long {i}_block = {first}; {i}_block < {last}; {i}_block += {step}) {{")
        stop = f"({i}_block + {step} < {last} ? {i}_block + {step} : {last})"
        lines.append(f"{inner}const long {i}_end = {stop};")
    for s in sums:
        if s.start in ("0.0", "0.0f"):
            lines.append(f"{inner}{s.kind} {s.acc}[{lanes}] = {{0}};")
        else:
            lines.append(f"{inner}{s.kind} {s.acc}[{lanes}];")
            lines.append(f"{inner}for (int lane = 0; lane < {lanes}; ++lane) {s.acc}[lane] = {s.start};")
    origin, end = (f"{i}_block", f"{i}_end") if blocked else (first, last)
    strip = context.names.fresh(f"{i}_strip") if loop.extent > lanes else ""
    written = _Strips(sums, body, i, _independent(loop, depth), not context.sizes.known)
    lines += written.lines((origin, end), strip, lanes, loop.extent, inner)
    for s in sums:
        lines += _gathered(s, lanes, inner, blocked)
    return [*lines, *_blocks_closed(sums, indent)] if blocked else lines


class _Strips:
    """The loops over strips and lanes."""

    def __init__(
        self, sums: list[_Sum], body: Lines, variable: str, independent: str, exact: bool
    ) -> None:
        self.sums = sums
        self.body = body
        self.variable = variable
        self.independent = independent
        # Where the size may change nothing is made of its being a multiple of something.
        self.exact = exact

    def lines(self, bounds: tuple[str, str], strip: str, lanes: int, extent: int, indent: str) -> Lines:
        """All iterations between two bounds, which are sources."""
        origin, end = bounds
        inner = indent + _STEP
        if extent <= lanes:
            return self._lane_loop(origin, str(extent), indent)
        if len(self.body) > REPEATED_BODY:
            left = f"{end} - {strip}"
            return [
                f"{indent}for (long {strip} = {origin}; {strip} < {end}; {strip} += {lanes}) {{",
                f"{inner}const long lanes = {left} < {lanes} ? {left} : {lanes};",
                *self._lane_loop(strip, "lanes", inner), f"{indent}}}",
            ]  # fmt: skip
        full = [
            f"{indent}long {strip} = {origin};",
            f"{indent}for (; {strip} + {lanes} <= {end}; {strip} += {lanes}) {{",
            *self._lane_loop(strip, str(lanes), inner), f"{indent}}}",
        ]  # fmt: skip
        if self.exact and extent % lanes == 0:
            return full
        return [*full, *self._lane_loop(strip, f"{end} - {strip}", indent)]

    def _lane_loop(self, base: str, count: str, indent: str) -> Lines:
        i, inner = self.variable, indent + _STEP
        used = any(re.search(rf"\b{i}\b", text) for text in self.body)
        return [
            f"{indent}{self.independent}for (long lane = 0; lane < {count}; ++lane) {{",
            *([f"{inner}const long {i} = {'lane' if base == '0' else f'{base} + lane'};"] if used else []),
            *[inner + text for text in self.body],
            *[inner + s.combined(f"{s.acc}[lane]") for s in self.sums], f"{indent}}}",
        ]  # fmt: skip


def _gathered(s: _Sum, lanes: int, inner: str, blocked: bool) -> Lines:
    """Combine the lanes, and the blocks behind their loop."""
    if s.op is sum_ and s.is_float:
        total = f"sg_sum_lanes{s.suffix}({s.acc}, {lanes})"
        if not blocked:
            return [inner + s.define(total)]
        return [f"{inner}sg_push{s.suffix}(&{s.acc}_blocks, {total});"]
    whole = f"{s.acc}_all"
    step = combine(s.op, whole, f"{s.acc}[lane]", s.dtype)
    lines = [] if blocked else [f"{inner}{s.kind} {whole} = {s.start};"]
    lines.append(f"{inner}for (int lane = 0; lane < {lanes}; ++lane) {whole} = {step};")
    return lines if blocked else [*lines, inner + s.define(whole)]


def _blocks_closed(sums: list[_Sum], indent: str) -> Lines:
    """What follows the loop over blocks."""
    lines = [indent + "}"]
    for s in sums:
        total = f"sg_total{s.suffix}(&{s.acc}_blocks)" if s.pairwise else f"{s.acc}_all"
        lines.append(indent + s.define(total))
    return lines
