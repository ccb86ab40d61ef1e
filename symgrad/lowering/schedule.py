"""When everything runs: which reductions live inside the loops of their users, and the order of loops.

Times are labels, see `program`: an int outside all loops, inside d loops a tuple of d odd labels of those
loops and an even one within the innermost.
"""

from __future__ import annotations

from functools import lru_cache

from .kinds import CALL, CONCAT, EMPTY, EW, GATHER, LEAF, LITERAL, PAD, PUT, REDUCE, SCATTER, TABLE, VIEW
from .structure import Structure

Time = tuple[int, ...]


class Schedule:
    """Times of all nodes.

    Attributes
    ----------
    time
        When a value is there for users whose loops are aligned with its own.
    complete
        When all of it is there for any user: a label outside all loops.
    inline
        Reductions that are computed inside the loops of their users.
    looped
        For a reduction the positions of the loops it reduces; empty where all its axes are unrolled.
    """

    def __init__(self, facts: Structure) -> None:
        self.facts = facts
        n = len(facts.nodes)
        self.time: list[Time] = [(0,)] * n
        self.complete = [0] * n
        self.written: dict[int, Time] = {}
        self.inline = [False] * n
        self.looped: list[tuple[int, ...]] = [()] * n
        self._unaligned = [False] * n
        self._deepest = [0] * n
        self._find_reduced_loops()
        self._look_back()
        self._choose_inline()
        self._set_times()

    # -------------------------------------------------------------------------------- reductions

    def _find_reduced_loops(self) -> None:
        facts = self.facts
        for k in facts.arrays:
            node = facts.nodes[k]
            if facts.kind[k] == REDUCE and facts.kind[facts.args[k][0]] != EMPTY:
                axes = facts.domain[facts.args[k][0]].axes
                self.looped[k] = tuple(axes[axis] for axis in node.param("axis") if axes[axis] >= 0)

    def is_trailing(self, k: int) -> bool:
        """Whether a reduction is over the innermost loops."""
        looped, depth = self.looped[k], self.facts.depth[self.facts.args[k][0]]
        return looped == tuple(range(depth - len(looped), depth))

    def _look_back(self) -> None:
        """From users to operands: who is wanted at positions other than those of its users' loops."""
        facts = self.facts
        unaligned, deepest, depth = self._unaligned, self._deepest, facts.depth
        for k in reversed(facts.arrays):
            args = facts.args[k]
            if not args or (not depth[k] and not any([depth[a] for a in args])):
                continue
            kind = facts.kind[k]
            stored = facts.forced[k]
            if kind == REDUCE:
                if not self.looped[k]:
                    elsewhere = facts.domain[k].path != facts.domain[args[0]].path
                    unaligned[args[0]] |= elsewhere or (unaligned[k] and not stored)
                deepest[args[0]] = max(deepest[args[0]], depth[args[0]], 0 if stored else deepest[k])
                continue
            for place, a in enumerate(args):
                if not depth[a]:
                    continue
                if kind in (CONCAT, CALL) or (kind == SCATTER and place == 0):
                    continue
                if kind in (PUT, PAD, SCATTER, GATHER) or not facts.together(a, k) or (
                    unaligned[k] and not stored
                ):
                    unaligned[a] = True
                else:
                    deepest[a] = max(deepest[a], depth[k], 0 if stored else deepest[k])

    def _choose_inline(self) -> None:
        """A reduction stays inside if users need it in deeper loops of the same nest, or if it is huge."""
        facts = self.facts
        for k in facts.arrays:
            if facts.kind[k] != REDUCE or not self.looped[k] or not facts.depth[k] or self._unaligned[k]:
                continue
            operand = facts.args[k][0]
            outer = facts.domain[operand].path[: facts.depth[k]]
            fits = self.is_trailing(k) and facts.domain[k].path == outer and _same_tail(facts, k, operand)
            deeper = self._deepest[k] > facts.depth[k]
            self.inline[k] = fits and (deeper or not facts.may_store(k))

    # -------------------------------------------------------------------------------- times

    def _set_times(self) -> None:
        facts = self.facts
        time, complete = self.time, self.complete
        arrays = set(facts.arrays)
        for k, args in enumerate(facts.args):
            if k not in arrays:
                latest = 0
                for a in args:
                    latest = max(latest, complete[a])
                if latest:
                    complete[k] = latest
                    time[k] = (latest,)
                continue
            kind = facts.kind[k]
            if kind in (LEAF, TABLE, LITERAL, EMPTY):
                time[k] = lifted((0,), facts.depth[k])
            elif kind in (EW, VIEW, PAD):
                self._place_elementwise(k)
            elif kind == GATHER:
                latest = max([complete[a] for a in args])
                self._place(k, lifted((latest,), facts.depth[k]), latest)
            elif kind == REDUCE:
                self._place_reduction(k)
            elif kind == CALL:
                label = max([complete[a] for a in args]) + 1
                complete[k] = label + 1
                time[k] = lifted((label + 1,), facts.depth[k])
            else:
                self._place_assembled(k)

    def _place(self, k: int, when: Time, ready: int) -> None:
        stored = self.facts.forced[k] and len(when) > 1
        self.complete[k] = when[0] + 1 if stored else max(ready, when[0] if len(when) == 1 else 0)
        self.time[k] = when
        if stored and self.facts.pads[k]:
            # The loops that write it are divided, those of its users are not: they come later and read it.
            self.written[k] = when
            self.time[k] = lifted((self.complete[k],), len(when) - 1)

    def time_written(self, k: int) -> Time:
        """When the loops run that write a node to memory."""
        return self.written.get(k, self.time[k])

    def _place_elementwise(self, k: int) -> None:
        facts = self.facts
        depth = facts.depth[k]
        when: Time = ()
        for a in facts.args[k]:
            lift = self._seen_from(a, k, depth)
            if lift != when:
                when = tuple([max(x, y) for x, y in zip(when, lift, strict=True)]) if when else lift
        when = when or lifted((0,), depth)
        if depth and when[0] < 2 * facts.batch[k] + 1:
            # Batches that do not need each other must not end up in one loop again.
            when = (2 * facts.batch[k] + 1, *when[1:])
        self._place(k, when, max([self.complete[a] for a in facts.args[k]], default=0))

    def _seen_from(self, a: int, user: int, depth: int) -> Time:
        """When ``a`` is there in the loops of its user."""
        facts = self.facts
        if facts.depth[a] and depth and facts.together(a, user):
            return lifted(self.time[a], depth)
        return lifted((self.complete[a],), depth)

    def _place_reduction(self, k: int) -> None:
        facts = self.facts
        operand = facts.args[k][0]
        when = self.time[operand]
        depth = facts.depth[k]
        if facts.kind[operand] == EMPTY:
            self.time[k] = lifted((0,), depth)
        elif not self.looped[k]:
            if facts.domain[k].path == facts.domain[operand].path:
                self._place(k, when, self.complete[operand])
            else:
                self._place(k, lifted((self.complete[operand],), depth), self.complete[operand])
        elif self.inline[k]:
            self.time[k] = (*when[:depth], when[depth] + 1)
            self.complete[k] = when[0] + 1
        else:
            self.complete[k] = when[0] + 1
            self.time[k] = lifted((when[0] + 1,), depth)

    def _place_assembled(self, k: int) -> None:
        """Arrays that are put together in memory: joined, scattered into, or written into zeros."""
        facts = self.facts
        kind, args = facts.kind[k], facts.args[k]
        latest = 0
        if kind == CONCAT:
            for a in args:
                latest = max(latest, self._stored_at(self.time[a]))
        else:
            when = self.assembly_time(k)
            latest = self._stored_at(when)
        self.complete[k] = latest
        self.time[k] = lifted((latest,), facts.depth[k])

    def assembly_time(self, k: int) -> Time:
        """When the loops run that write the elements of a scattered array or of an array in zeros."""
        facts = self.facts
        args = facts.args[k]
        source = args[0]
        when = self.time[source]
        if facts.kind[k] == SCATTER and len(args) > 1:
            latest = max([self.complete[a] for a in args[1:]])
            lift = lifted((latest,), len(when) - 1)
            when = tuple([max(x, y) for x, y in zip(when, lift, strict=True)])
        # The memory is cleared before: there must be an earlier label.
        return when if len(when) > 1 or when[0] > 0 else (2,)

    @staticmethod
    def _stored_at(when: Time) -> int:
        return when[0] + 1 if len(when) > 1 else when[0]


@lru_cache(maxsize=4096)
def lifted(when: Time, depth: int) -> Time:
    """A time inside the outermost loops, seen from deeper loops that start after it."""
    have = len(when) - 1
    if depth == have:
        return when
    if depth < have:
        raise AssertionError("a value cannot be seen from outside its loops")
    return (*when[:-1], when[-1] + 1, *(1,) * (depth - have - 1), 0)


def _same_tail(facts: Structure, k: int, operand: int) -> bool:
    """Whether the unrolled axes that a reduction keeps are unrolled in its result too."""
    axes = facts.nodes[k].param("axis")
    kept = [axis for n, axis in enumerate(facts.domain[operand].axes) if n not in axes]
    return kept == list(facts.domain[k].axes)


