"""Single elements that are written and read outside of loops need no memory."""

from __future__ import annotations

from .demand import Demand
from .program import Effect, Reduction, Value


def forward_stores(demand: Demand) -> None:
    """Read an element from where it was computed, and forget memory that nobody reads then.

    Values and effects must be sorted by their position in the graph.
    """
    stored = _stored_elements(demand.effects)
    if not stored:
        return
    touched: set[int] = set()
    for value in demand.values:
        if value.kind == "load" and not value.chain and not value.index[1]:
            source = stored.get((id(value.buffer), value.index[0]))
            if source is not None:
                if value.buffer is not None and value.buffer.kind == "workspace":
                    touched.add(id(value.buffer))
                value.kind = "alias"
                value.args = [source]
                value.buffer = None
    if touched:
        _forget_unread(demand, touched)


def _stored_elements(effects: list[Effect]) -> dict[tuple[int, int], Value]:
    """Values written to single elements, by buffer and position, where nothing else writes to the buffer."""
    found: dict[tuple[int, int], Value] = {}
    mixed: set[int] = set()
    for effect in effects:
        key = (id(effect.buffer), effect.index[0])
        single = effect.kind == "store" and not effect.chain and key not in found
        if single and effect.value is not None:
            found[key] = effect.value
        else:
            mixed.add(id(effect.buffer))
    return {key: value for key, value in found.items() if key[0] not in mixed}


def _forget_unread(demand: Demand, candidates: set[int]) -> None:
    read = {id(value.buffer) for value in demand.values if value.buffer is not None}
    read.update(id(buffer) for call in demand.calls for buffer in call.operands)
    unread = candidates - read
    if not unread:
        return
    demand.effects = [effect for effect in demand.effects if id(effect.buffer) not in unread]
    demand.buffers = {k: b for k, b in demand.buffers.items() if id(b) not in unread}
    _drop_unused(demand)


def _drop_unused(demand: Demand) -> None:
    """Remove values that nothing uses any more."""
    wanted: set[int] = set()
    pending: list[Value] = []
    for effect in demand.effects:
        pending.extend(effect.args)
        if effect.value is not None:
            pending.append(effect.value)
    while pending:
        value = pending.pop()
        if id(value) not in wanted:
            wanted.add(id(value))
            pending.extend(value.args)
            if value.reduction is not None:
                pending.append(value.reduction.operand)
    demand.values = [value for value in demand.values if id(value) in wanted]
    demand.reductions = [r for r in demand.reductions if _wanted(r, wanted)]


def _wanted(reduction: Reduction, wanted: set[int]) -> bool:
    return id(reduction.target) in wanted


