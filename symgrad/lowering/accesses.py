"""Who reads and writes which memory, and inside which loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .program import Buffer, Effect, Loop, Scope, Value


@dataclass(eq=False)
class Access:
    """One load or store in the loop tree.

    Attributes
    ----------
    item
        The value or effect.
    loops
        The loops around it, from the outermost.
    """

    item: Value | Effect
    loops: tuple[Loop, ...]

    @property
    def writes(self) -> bool:
        """Whether it changes the memory."""
        return isinstance(self.item, Effect)

    @property
    def when(self) -> tuple[int, ...]:
        """Labels of the loops around it: accesses in one iteration happen in this order."""
        return tuple([loop.label for loop in self.loops])


@dataclass(eq=False)
class Uses:
    """All that happens to one buffer.

    Attributes
    ----------
    plain
        Loads and stores of single elements.
    whole
        True where something else uses it: a call, a fill, a gather or scatter.
    calls
        Labels of the calls among these.
    """

    plain: list[Access] = field(default_factory=list)
    whole: bool = False
    calls: set[int] = field(default_factory=set)


def collect(root: Scope) -> Callable[[Buffer], Uses]:
    """Walk the loop tree once; the answer tells the uses of a buffer."""
    found: dict[int, Uses] = {}

    def of(buffer: Buffer) -> Uses:
        uses = found.get(id(buffer))
        if uses is None:
            uses = found[id(buffer)] = Uses()
        return uses

    pending: list[tuple[Scope, tuple[Loop, ...]]] = [(root, ())]
    while pending:
        scope, loops = pending.pop()
        for value in scope.values:
            if value.buffer is not None:
                uses = of(value.buffer)
                uses.plain.append(Access(value, loops))
                uses.whole |= value.kind != "load"
        for effect in scope.effects:
            uses = of(effect.buffer)
            uses.plain.append(Access(effect, loops))
            uses.whole |= effect.kind != "store"
            if effect.source is not None:
                of(effect.source).whole = True
        for call in scope.calls:
            for buffer in (*call.operands, call.out):
                uses = of(buffer)
                uses.whole = True
                uses.calls.add(call.label)
        pending.extend((loop.scope, (*loops, loop)) for loop in scope.loops)
    return of
