"""Putting values, effects and reductions into scopes, and joining loops that run over adjacent memory."""

from __future__ import annotations

from .demand import Demand
from .forwarding import forward_stores
from .program import Chain, Effect, Index, Loop, Scope, Value


def build_tree(demand: Demand) -> Scope:
    """The loop tree of everything that was demanded."""
    root = Scope(0)
    scopes: dict[Chain, Scope] = {(): root}
    loops: dict[Chain, Loop] = {}

    def scope_of(chain: Chain) -> Scope:
        """The scope inside the loops of a chain, made when first asked for."""
        found = scopes.get(chain)
        if found is None:
            outer = scope_of(chain[:-1])
            found = scopes[chain] = Scope(len(chain))
            loops[chain] = Loop(*chain[-1], found)
            outer.loops.append(loops[chain])
        return found

    demand.values.sort(key=_seq)
    demand.effects.sort(key=_seq)
    forward_stores(demand)
    _label_values(demand.values)
    for value in demand.values:
        if value.kind != "alias":
            (scope_of(value.chain) if value.chain else root).values.append(value)
    for effect in demand.effects:
        _label_effect(effect)
        scope_of(effect.chain).effects.append(effect)
    for reduction in demand.reductions:
        reduction.operand = _resolved(reduction.operand)
        scope_of(reduction.chain)
    for reduction in sorted(demand.reductions, key=lambda r: (r.target.seq, r.target.index)):
        loops[reduction.chain].reductions.append(reduction)
    root.calls.extend(sorted(demand.calls, key=lambda call: call.seq))
    _set_lifetimes(demand)
    _order_loops(scopes)
    for loop in root.loops:
        collapse(loop)
    return root


def _seq(item: Value | Effect) -> int:
    return item.seq


def _order_loops(scopes: dict[Chain, Scope]) -> None:
    for scope in scopes.values():
        if len(scope.loops) > 1:
            scope.loops.sort(key=lambda loop: (loop.label, loop.range))


def _resolved(value: Value) -> Value:
    while value.kind == "alias":
        (value,) = value.args
    return value


def _label_values(values: list[Value]) -> None:
    for value in values:
        args = value.args
        if value.kind == "reduced":
            assert value.reduction is not None
            value.label = value.reduction.chain[len(value.chain)][0] + 1
            continue
        label = value.label
        depth = len(value.chain)
        for n, arg in enumerate(args):
            if arg.kind == "alias":
                arg = args[n] = _resolved(arg)
            if arg.label > label and len(arg.chain) == depth:
                label = arg.label
        value.label = label


def _label_effect(effect: Effect) -> None:
    if effect.value is not None:
        effect.value = _resolved(effect.value)
    effect.args = [_resolved(arg) for arg in effect.args]
    for value in (*effect.args, *((effect.value,) if effect.value is not None else ())):
        if len(value.chain) == len(effect.chain):
            effect.label = max(effect.label, value.label)


def _set_lifetimes(demand: Demand) -> None:
    touched = [(e.buffer, e.chain[0][0] if e.chain else e.label) for e in demand.effects]
    touched.extend(
        (v.buffer, v.chain[0][0] if v.chain else v.label) for v in demand.values if v.buffer is not None
    )
    for call in demand.calls:
        touched.extend((b, call.label) for b in (call.out, *call.operands))
    seen: set[int] = set()
    for buffer, label in touched:
        if id(buffer) not in seen:
            seen.add(id(buffer))
            buffer.born = buffer.dies = label
        buffer.born = min(buffer.born, label)
        buffer.dies = max(buffer.dies, label)


# ------------------------------------------------------------------------------------------ joining loops


def collapse(loop: Loop) -> None:
    """Join a loop with the only loop inside it as long as both run through memory like one, at any depth."""
    pending = [loop]
    while pending:
        outer = pending.pop()
        while _joins(outer):
            _join(outer)
        pending.extend(outer.scope.loops)


def _joins(outer: Loop) -> bool:
    scope = outer.scope
    if len(scope.loops) != 1 or scope.values or scope.effects or outer.range[0] != 0 or outer.reductions:
        return False
    inner = scope.loops[0]
    if inner.range[0] != 0:
        return False
    axis, n = scope.depth - 1, inner.extent
    return all(_is_adjacent(item.index, axis, n) for item in _indexed(inner.scope))


def _is_adjacent(index: Index, axis: int, n: int) -> bool:
    terms = dict(index[1])
    return terms.get(axis, 0) == n * terms.get(axis + 1, 0)


def _indexed(scope: Scope) -> list[Value | Effect]:
    found: list[Value | Effect] = []
    pending = [scope]
    while pending:
        inside = pending.pop()
        found.extend(value for value in inside.values if value.buffer is not None)
        found.extend(inside.effects)
        pending.extend(loop.scope for loop in inside.loops)
    return found


def _join(outer: Loop) -> None:
    inner = outer.scope.loops[0]
    axis = outer.scope.depth - 1
    pending = [inner]
    while pending:
        loop = pending.pop()
        loop.scope.depth -= 1
        for reduction in loop.reductions:
            reduction.last -= 1
            reduction.first -= reduction.first > axis
        items: list[Value | Effect] = [*loop.scope.values, *loop.scope.effects]
        for item in items:
            offset, terms = item.index
            item.index = (offset, tuple([(a - (a > axis), c) for a, c in terms if a != axis]))
        pending.extend(loop.scope.loops)
    outer.range = (0, outer.extent * inner.extent)
    outer.reductions = inner.reductions
    outer.scope = inner.scope
