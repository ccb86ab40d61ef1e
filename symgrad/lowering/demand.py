"""From users to operands: which element of which node is needed in which loops, and what is stored."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..core.expr import CAPTURE, INPUT, Expr
from ..ops.shaping import broadcast_to, reshape, transpose
from . import affine
from .affine import ZERO, Map
from .identities import identity_of
from .kinds import (
    CALL,
    CONCAT,
    EMPTY,
    EW,
    EXPENSIVE,
    GATHER,
    LEAF,
    LITERAL,
    PAD,
    PUT,
    REDUCE,
    SCATTER,
    TABLE,
    VIEW,
)
from .program import Buffer, Call, Chain, Effect, Index, Reduction, Value
from .schedule import Schedule, Time, lifted
from .structure import Domain, Structure

Key = tuple[Chain, Map]

#: A value wanted in so many places is stored even if it is cheap.
CROWD: Final = 5


class Demand:
    """Everything the loop tree consists of, not yet put into scopes.

    Attributes
    ----------
    values, effects, reductions, calls
        In no particular order.
    buffers
        Memory of nodes, by position.
    """

    def __init__(self, facts: Structure, schedule: Schedule) -> None:
        self.facts = facts
        self.schedule = schedule
        n = len(facts.nodes)
        self.values: list[Value] = []
        self.effects: list[Effect] = []
        self.reductions: list[Reduction] = []
        self.calls: list[Call] = []
        self.buffers: dict[int, Buffer] = {}
        self._scalars: list[Value | None] = [None] * n
        self._wanted: list[dict[Key, Value] | None] = [None] * n
        self._keys: dict[Any, Key] = {}
        self.inputs = [Buffer("input", node, k) for k, node in enumerate(facts.graph.inputs)]
        self.outputs = [Buffer("output", node, k) for k, node in enumerate(facts.graph.outputs)]
        self._input_of = {b.node.id: b for b in self.inputs}
        self.captures = [Buffer("capture", node, k) for k, node in enumerate(facts.graph.captures)]
        self._input_of.update({b.node.id: b for b in self.captures})
        self._copies()
        arrays = set(facts.arrays)
        for k in range(n - 1, -1, -1):
            if k in arrays:
                self._supply(k)
            else:
                self._supply_operation(k)

    # -------------------------------------------------------------------------------- memory

    def buffer(self, k: int) -> Buffer:
        """The memory that holds a node."""
        found = self.buffers.get(k)
        if found is None:
            node = self.facts.nodes[k]
            if node.op is INPUT or node.op is CAPTURE:
                found = self._input_of[node.id]
            elif self.facts.kind[k] == TABLE:
                found = Buffer("constant", node)
                found.array = node.value
            else:
                found = Buffer("workspace", node)
            self.buffers[k] = found
        return found

    def _copies(self) -> None:
        """Give each output to its node; what is an input or is returned twice is copied."""
        facts, schedule = self.facts, self.schedule
        for out in self.outputs:
            k = facts.written_for(facts.at[out.node.id])
            if facts.kind[k] == EMPTY:
                continue
            if k not in self.buffers and facts.kind[k] not in (LEAF, TABLE):
                self.buffers[k] = out
            else:
                ready = schedule.complete[k]
                self._store_all(k, out, lifted((ready,), facts.depth[k]), facts.nodes[k].shape)

    # -------------------------------------------------------------------------------- requests

    def request(self, k: int, chain: Chain, where: Map) -> Value:
        """The value of node ``k`` at ``where``, in the loops of ``chain`` or as far outside as possible."""
        facts = self.facts
        while facts.kind[k] == VIEW and not (facts.forced[k] and facts.depth[k]):
            where = view_map(facts.nodes[k], where)
            (k,) = facts.args[k]
        if not facts.depth[k]:
            return self._scalar(k)
        chain = chain[: affine.depth_of(where)]
        wanted = self._wanted[k]
        if wanted is None:
            wanted = self._wanted[k] = {}
        value = wanted.get((chain, where))
        if value is None:
            value = wanted[chain, where] = Value(facts.nodes[k], chain, k)
            self.values.append(value)
        return value

    def _scalar(self, k: int) -> Value:
        value = self._scalars[k]
        if value is None:
            value = self._scalars[k] = Value(self.facts.nodes[k], (), k)
            self.values.append(value)
        return value

    # -------------------------------------------------------------------------------- supply

    def _supply(self, k: int) -> None:
        """Decide how a node is made, now that all its users have spoken."""
        facts = self.facts
        kind = facts.kind[k]
        if kind == EMPTY:
            return
        if not facts.depth[k]:
            self._supply_scalar(k, kind)
            return
        wanted = self._wanted[k] or {}
        if kind in (LEAF, TABLE):
            self._load(k, wanted)
        elif kind == CALL:
            self._load(k, wanted)
            self._call(k)
        elif kind in (CONCAT, SCATTER, PUT):
            self._load(k, wanted)
            self._assemble(k, kind)
        elif kind == REDUCE and self.schedule.looped[k] and not self.schedule.inline[k]:
            self._load(k, wanted)
            self._reduce_to_memory(k)
        elif facts.forced[k] or self._worth_storing(k, wanted):
            self._store_and_compute(k, wanted)
        else:
            self._compute(k, wanted)

    def _supply_operation(self, k: int) -> None:
        """An element-wise operation on scalars: most nodes of large graphs are, so this is short."""
        facts = self.facts
        value = self._scalars[k]
        if facts.forced[k]:
            value = self._scalar(k)
            self._effect("store", k, (), self.buffer(k), value=value)
        if value is None:
            return
        value.kind = "apply"
        kind, scalars, made = facts.kind, self._scalars, value.args
        for a in facts.args[k]:
            known = scalars[a]
            if known is None:
                known = self.request(a, (), ()) if kind[a] == VIEW else self._scalar(a)
            made.append(known)

    def _supply_scalar(self, k: int, kind: int) -> None:
        facts = self.facts
        value = self._scalars[k]
        if facts.forced[k] and kind not in (CALL, CONCAT, SCATTER, PUT, LEAF, TABLE):
            self._effect(
                "store", k, (), self.buffer(k), value=self.request(k, (), (ZERO,) * facts.nodes[k].ndim)
            )
            value = self._scalars[k]
        if kind in (CALL, CONCAT, SCATTER, PUT):
            if kind == CALL:
                self._call(k)
            else:
                self._assemble(k, kind)
        if value is None:
            return
        where: Map = (ZERO,) * facts.nodes[k].ndim
        if kind in (CALL, CONCAT, SCATTER, PUT, LEAF, TABLE):
            self._load(k, {((), where): value})
        elif kind == REDUCE and self.schedule.looped[k]:
            self._reduce(k, self._own_chain(facts.args[k][0]), where, value)
        else:
            self._compute(k, {((), where): value})

    def _load(self, k: int, wanted: dict[Key, Value]) -> None:
        if not wanted:
            return
        buffer = self.buffer(k)
        for (_, where), value in wanted.items():
            value.kind = "load"
            value.buffer = buffer
            value.index = affine.position(where, self.facts.nodes[k].shape)
            value.label = 0 if value.chain else self.schedule.complete[k]

    def _worth_storing(self, k: int, wanted: dict[Key, Value]) -> bool:
        facts = self.facts
        if len(wanted) < 2 or not facts.may_store(k) or facts.kind[k] == LITERAL:
            return False
        is_reduction = facts.kind[k] == REDUCE and self.schedule.inline[k]
        if not is_reduction and facts.cost[k] < EXPENSIVE and len(wanted) < CROWD:
            return False
        own = chain_at(self.schedule.time_written(k), self.facts.domain[k])
        return any([self._readable(k, own, key) for key in wanted if key[0]])

    def _store_and_compute(self, k: int, wanted: dict[Key, Value]) -> None:
        """Write a node to memory; users in later loops read it there, those in the same loop do not."""
        facts = self.facts
        buffer = self.buffer(k)
        was_forced = facts.forced[k]
        facts.forced[k] = False
        own = chain_at(self.schedule.time_written(k), self.facts.domain[k])
        inside: dict[Key, Value] = {}
        outside: dict[Key, Value] = {}
        for key, value in wanted.items():
            readable = self._readable(k, own, key) if key[0] else was_forced
            (outside if readable else inside)[key] = value
        self._wanted[k] = inside
        self._load(k, outside)
        self._store_all(k, buffer, self.schedule.time_written(k), facts.nodes[k].shape)
        facts.forced[k] = was_forced
        if facts.kind[k] != VIEW:
            self._compute(k, self._wanted[k] or {})
            return
        for (chain, where), value in inside.items():
            value.kind = "alias"
            value.args = [self.request(facts.args[k][0], chain, view_map(facts.nodes[k], where))]

    def _readable(self, k: int, own: Chain, key: Key) -> bool:
        """Whether the user runs after the loop that writes, or later in the same iteration of outer loops."""
        chain, where = key
        for level, (mine, theirs) in enumerate(zip(own, chain, strict=False)):
            if mine == theirs:
                continue
            if theirs[0] <= mine[0]:
                return False
            return level == 0 or self._same_elements(k, where, level)
        return False

    def _same_elements(self, k: int, where: Map, level: int) -> bool:
        if isinstance(where, affine.Flat):
            return False
        axes = self.facts.domain[k].axes
        return all(where[d] == (0, ((axis, 1),)) for d, axis in enumerate(axes) if 0 <= axis < level)

    # -------------------------------------------------------------------------------- computing

    def _compute(self, k: int, wanted: dict[Key, Value]) -> None:
        facts = self.facts
        kind, node = facts.kind[k], facts.nodes[k]
        for (chain, where), value in wanted.items():
            if kind == EW:
                value.kind = "apply"
                value.index = affine.position(where, node.shape)
                for a in facts.args[k]:
                    operand = facts.nodes[a]
                    at = (
                        where if operand.shape == node.shape
                        else affine.broadcast_map(where, operand.shape, node.shape)
                    )
                    value.args.append(self.request(a, chain, at))
            elif kind == LITERAL:
                value.kind = "literal"
            elif kind == GATHER:
                self._gather(k, chain, where, value)
            elif kind == PAD:
                self._padded(k, chain, where, value)
            elif kind == REDUCE and facts.kind[facts.args[k][0]] == EMPTY:
                value.kind = "literal"
            elif kind == REDUCE and self.schedule.looped[k]:
                operand_chain = self._own_chain(facts.args[k][0])
                depth = facts.depth[k]
                self._reduce(k, (*self._full_chain(k, chain, where), *operand_chain[depth:]), where, value)
            elif kind == REDUCE:
                self._fold(k, chain, where, value)
            else:
                raise AssertionError(f"{node!r} has no elements")

    def _full_chain(self, k: int, chain: Chain, where: Map) -> Chain:
        # Inline reductions are only ever wanted at their own loops, one variable an axis.
        assert len(chain) == self.facts.depth[k], where
        return chain

    def _padded(self, k: int, chain: Chain, where: Map, value: Value) -> None:
        """An element of an array in zeros: the loops were divided so that all are inside or all outside."""
        assert not isinstance(where, affine.Flat)
        node = self.facts.nodes[k]
        inner: list[Index] = []
        for index, start, n in zip(where, node.param("starts"), node.args[0].shape, strict=True):
            low, high = _range_of(index, chain)
            if high < start or low >= start + n:
                value.kind = "literal"
                return
            if low < start or high >= start + n:
                raise AssertionError(f"the loops of {node!r} are not divided at its borders")
            inner.append(affine.scaled(index, 1, -start) if n > 1 else ZERO)
        value.kind = "alias"
        value.args = [self.request(self.facts.args[k][0], chain, tuple(inner))]

    def _cells(self, k: int, chain: Chain) -> list[Chain]:
        """The loops of a node divided at the borders of the padded operands that they see."""
        facts = self.facts
        if not facts.pads[k]:
            return [chain]
        cuts = [{0, n} for _, (_, n) in chain]
        for p in facts.pads[k]:
            node = facts.nodes[p]
            for d, axis in enumerate(facts.domain[p].axes):
                if axis >= 0:
                    start = node.param("starts")[d]
                    cuts[axis] |= {start, start + node.args[0].shape[d]}
        ranges = [list(itertools.pairwise(sorted(c))) for c in cuts]
        labels = [label for label, _ in chain]
        return [tuple(zip(labels, cell, strict=True)) for cell in itertools.product(*ranges)]

    def _fold(self, k: int, chain: Chain, where: Map, value: Value) -> None:
        """A reduction over unrolled axes only."""
        value.kind = "fold"
        for at in self._operand_maps(k, where):
            value.args.append(self.request(self.facts.args[k][0], chain, at))

    def _reduce(self, k: int, chain: Chain, where: Map, target: Value) -> None:
        """A reduction over the innermost loops of ``chain``."""
        (a,) = self.facts.args[k]
        node = self.facts.nodes[k]
        parts = [self.request(a, chain, at) for at in self._operand_maps(k, where)]
        operand = parts[0]
        if len(parts) > 1:
            operand = Value(node, chain, k)
            operand.kind = "fold"
            operand.args = parts
            self.values.append(operand)
        target.kind = "reduced"
        target.reduction = Reduction(node.op, operand, target, chain)
        self.reductions.append(target.reduction)

    def _operand_maps(self, k: int, where: Map) -> list[Map]:
        """Where a reduction reads its operand: one map for each position on the unrolled axes."""
        assert not isinstance(where, affine.Flat)
        node = self.facts.nodes[k]
        axes = node.param("axis")
        shape = node.args[0].shape
        loops = self.facts.domain[self.facts.args[k][0]].axes
        kept = iter(where)
        choices: list[list[Index]] = []
        for d, n in enumerate(shape):
            if d not in axes:
                choices.append([next(kept)])
            elif loops[d] == -2:
                choices.append([(c, ()) for c in range(n)])
            else:
                choices.append([ZERO if loops[d] == -1 else (0, ((loops[d], 1),))])
        return [tuple(parts) for parts in itertools.product(*choices)]

    def _gather(self, k: int, chain: Chain, where: Map, value: Value) -> None:
        assert not isinstance(where, affine.Flat)
        facts = self.facts
        data, *indices = facts.args[k]
        value.kind = "gather"
        value.buffer = self.buffer(facts.stored_operand(data, False)[0])
        value.index, value.picks = self._picks(facts.nodes[k], facts.nodes[data].shape, indices, where)
        value.args = [
            self.request(a, chain, at) for a, at in zip(indices, self._index_maps(k, where), strict=True)
        ]
        if not value.chain and not chain:
            value.label = self.schedule.complete[data]

    def _index_maps(self, k: int, where: tuple[Index, ...]) -> list[Map]:
        """Where the index arrays of a gather or scatter are read."""
        facts = self.facts
        node = facts.nodes[k]
        shapes = [a.shape for a in node.args[1:]]
        first, wide = _index_axes(node)
        part = where[first : first + len(wide)]
        return [affine.broadcast_map(part, shape, wide) for shape in shapes]

    def _picks(
        self, node: Expr, shape: tuple[int, ...], indices: list[int], where: tuple[Index, ...]
    ) -> tuple[Index, tuple[tuple[int, int], ...]]:
        """The fixed part of the position in an indexed array, and stride and bound for each index."""
        axes = node.param("axes")
        steps = affine.strides(shape)
        first, wide = _index_axes(node)
        kept = iter((*where[:first], *where[first + len(wide) :]))
        fixed = [affine.scaled(next(kept), steps[d]) for d in range(len(shape)) if d not in axes]
        picks = []
        for axis, a in zip(axes, indices, strict=True):
            constant = self.facts.nodes[a].value
            # Positions known beforehand are checked here and not in the loop.
            safe = constant is not None and bool(np.all((constant >= 0) & (constant < shape[axis])))
            picks.append((steps[axis], 0 if safe else shape[axis]))
        return affine.total([ZERO, *fixed]), tuple(picks)

    # -------------------------------------------------------------------------------- writing

    def _own_chain(self, k: int) -> Chain:
        return chain_at(self.schedule.time[k], self.facts.domain[k])

    def _effect(
        self, kind: str, k: int, chain: Chain, buffer: Buffer, index: Index = ZERO, value: Value | None = None
    ) -> Effect:
        effect = Effect(kind, self.facts.nodes[k], chain, k, buffer)
        effect.index = index
        effect.value = value
        self.effects.append(effect)
        return effect

    def _store_all(
        self, k: int, buffer: Buffer, when: Time, shape: tuple[int, ...], starts: Any = None,
        steps: Any = None
    ) -> None:
        """Write all elements of a node into a buffer of ``shape``, at a slice of it if one is given."""
        facts = self.facts
        cells = self._cells(k, chain_at(when, facts.domain[k]))
        for where in identity_maps(facts.nodes[k].shape, facts.domain[k]):
            target = where if starts is None else affine.slice_map(where, starts, steps)
            for chain in cells:
                effect = self._effect("store", k, chain, buffer, affine.position(target, shape))
                effect.value = self.request(k, chain, where)
                if not chain:
                    effect.label = when[0]

    def _reduce_to_memory(self, k: int) -> None:
        facts = self.facts
        (a,) = facts.args[k]
        node, buffer = facts.nodes[k], self.buffer(k)
        chain = self._own_chain(a)
        looped = self.schedule.looped[k]
        # The innermost reduced loops sum into a variable, the others add that to memory.
        first = len(chain)
        while first - 1 in looped:
            first -= 1
        kind = "store" if self.schedule.is_trailing(k) else "accumulate"
        if kind == "accumulate":
            self._fill(k, buffer, chain[0][0] - 1, identity_of(node))
        for kept in self._kept_maps(k):
            index = affine.position(kept, node.shape)
            if first < len(chain):
                parts = [Value(node, chain[:first], k)]
                self.values.append(parts[0])
                self._reduce(k, chain, kept, parts[0])
            else:
                parts = [self.request(a, chain, at) for at in self._operand_maps(k, kept)]
            for part in parts:
                effect = self._effect(kind, k, chain[:first], buffer, index, part)
                effect.op = node.op

    def _kept_maps(self, k: int) -> list[Map]:
        """The result's positions in the loops of the operand, one map for each position on unrolled axes."""
        facts = self.facts
        operand = facts.nodes[k].args[0]
        axes = facts.nodes[k].param("axis")
        loops = facts.domain[facts.args[k][0]].axes
        choices: list[list[Index]] = []
        for d, n in enumerate(operand.shape):
            if d in axes:
                continue
            if loops[d] == -2:
                choices.append([(c, ()) for c in range(n)])
            else:
                choices.append([ZERO if loops[d] == -1 else (0, ((loops[d], 1),))])
        return [tuple(parts) for parts in itertools.product(*choices)]

    def _fill(self, k: int, buffer: Buffer, label: int, value: Any) -> None:
        effect = self._effect("fill", k, (), buffer)
        effect.fill = value
        effect.label = label

    def _assemble(self, k: int, kind: int) -> None:
        facts, schedule = self.facts, self.schedule
        node, buffer = facts.nodes[k], self.buffer(k)
        if kind == CONCAT:
            axis, start = node.param("axis"), 0
            for a in facts.args[k]:
                operand = facts.nodes[a]
                if facts.kind[a] != EMPTY:
                    starts = tuple(start if d == axis else 0 for d in range(node.ndim))
                    self._store_all(a, buffer, schedule.time[a], node.shape, starts, (1,) * node.ndim)
                start += operand.shape[axis]
            return
        source = facts.args[k][0]
        when = schedule.assembly_time(k)
        self._fill(k, buffer, when[0] - 1 if len(when) > 1 else when[0] - 2, 0)
        if facts.kind[source] == EMPTY:
            return
        if kind == PUT:
            self._store_all(source, buffer, when, node.shape, node.param("starts"), node.param("steps"))
        else:
            self._scatter(k, source, when)

    def _scatter(self, k: int, source: int, when: Time) -> None:
        facts = self.facts
        node = facts.nodes[k]
        chain = chain_at(when, facts.domain[source])
        indices = list(facts.args[k][1:])
        for where in identity_maps(facts.nodes[source].shape, facts.domain[source]):
            effect = self._effect("scatter", k, chain, self.buffer(k))
            effect.index, effect.picks = self._picks(node, node.shape, indices, where)
            effect.args = [
                self.request(a, chain, at) for a, at in zip(indices, self._index_maps(k, where), strict=True)
            ]
            effect.value = self.request(source, chain, where)
            if not chain:
                effect.label = when[0]

    def _call(self, k: int) -> None:
        facts = self.facts
        node = facts.nodes[k]
        call = Call(node, self.schedule.complete[k] - 1, k, self.buffer(k))
        for a in facts.args[k]:
            stored, transposed = facts.stored_operand(a, facts.may_transpose(k))
            call.operands.append(self.buffer(stored))
            call.transposed.append(transposed)
        self.calls.append(call)


def _range_of(index: Index, chain: Chain) -> tuple[int, int]:
    """The least and the greatest value of an index in the loops of a chain."""
    low = high = index[0]
    for axis, c in index[1]:
        first, last = chain[axis][1][0] * c, (chain[axis][1][1] - 1) * c
        low, high = low + min(first, last), high + max(first, last)
    return low, high


def view_map(node: Expr, where: Map) -> Map:
    """The map of a view's operand, for the view wanted at ``where``."""
    shape = node.args[0].shape
    if node.op is reshape:
        return affine.reshape_map(where, shape, node.shape)
    if node.op is transpose:
        return affine.transpose_map(where, node.param("axes"))
    if node.op is broadcast_to:
        return affine.broadcast_map(where, shape, node.shape)
    return affine.slice_map(where, node.param("starts"), node.param("steps"))


def _index_axes(node: Expr) -> tuple[int, tuple[int, ...]]:
    """First axis and shape of the indexed part of a gather's result or a scatter's operand."""
    axes = node.param("axes")
    wide = np.broadcast_shapes(*[a.shape for a in node.args[1:]])
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    return (axes[0] if adjacent else 0), wide


def chain_at(when: Time, domain: Domain) -> Chain:
    """The loops of a domain at a time."""
    return tuple([(label, (0, n)) for label, n in zip(when, domain.path, strict=False)])


@lru_cache(maxsize=4096)
def identity_maps(shape: tuple[int, ...], domain: Domain) -> tuple[tuple[Index, ...], ...]:
    """Each element at its own place: one map for each position on the unrolled axes."""
    choices: list[list[Index]] = []
    for n, axis in zip(shape, domain.axes, strict=True):
        if axis == -2:
            choices.append([(c, ()) for c in range(n)])
        else:
            choices.append([ZERO if axis == -1 else (0, ((axis, 1),))])
    return tuple(itertools.product(*choices))
