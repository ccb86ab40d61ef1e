"""Stand-ins for captured containers: copies that traced code reads and changes; changes reach the originals later."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .watches import Watched

Convert = Callable[[Any], Any]
_KINDS: tuple[type, ...] = (
    list, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict,
    collections.Counter,
)  # fmt: skip


def is_container(value: Any) -> bool:
    """True for an object of a container class of Python, not of a class derived from one."""
    return type(value) in _KINDS


class Copies:
    """The copies that were handed out in one trace."""

    def __init__(self, out: Convert, watch: Callable[[Watched], None], live: Mapping[Any, Any]) -> None:
        self._out = out
        self._watch = watch
        self._live = live
        self._handed: list[tuple[Any, Any, list[Any]]] = []

    def empty(self, value: Any) -> Any:
        """A copy of a container, still empty."""
        kind = type(value)
        if kind is collections.deque:
            return collections.deque(maxlen=value.maxlen)
        if kind is collections.defaultdict:
            return collections.defaultdict(self._out(value.default_factory))
        return kind()

    def fill(self, value: Any, made: Any) -> Any:
        """Fill a copy with what stands for the items; later changes to it are noticed."""
        if isinstance(value, dict):
            ordered = isinstance(value, collections.OrderedDict)
            if ordered:
                self._watch(Watched.members(value))
            enter: Any = collections.OrderedDict.__setitem__ if ordered else dict.__setitem__
            items = self._items(Watched.mapping(value))
            keys = collections.OrderedDict.__iter__(value) if ordered else dict.__iter__(value)
            for k, item in zip(list(keys), items, strict=True):
                enter(made, self._out(k), item)
        elif isinstance(value, list):
            list.extend(made, self._items(Watched.sequence(value)))
        else:
            self._watch(Watched.members(value))
            items = [self._out(v) for v in value]
            if isinstance(value, frozenset):
                return frozenset(items)
            made.extend(items) if isinstance(value, collections.deque) else made.update(items)
        self.note(value, made)
        return made

    def _items(self, watched: Watched) -> list[Any]:
        """What stands for the items of a list or dictionary; some may be numbers that are read at every call."""
        parts = watched.parts()
        if not any(p.place in self._live for p in parts):
            self._watch(watched)
            return [self._out(p.value) for p in parts]
        self._watch(Watched.members(watched.container) if watched.kind == "mapping" else _length(watched.container))
        for p in parts:
            if p.place not in self._live:
                self._watch(p)
        return [self._live[p.place] if p.place in self._live else self._out(p.value) for p in parts]

    def note(self, value: Any, made: Any) -> None:
        """Remember what a copy holds when it is handed out."""
        self._handed.append((value, made, _listed(made)))

    def changed(self) -> list[tuple[Any, Any, list[Any]]]:
        """Originals with copies that traced code has changed, and what those held before."""
        return [h for h in self._handed if _differs(h[1], h[2])]


def _length(items: Any) -> Watched:
    return Watched.answer("a list", _length_of(items), None, len(items))


def _length_of(items: Any) -> Callable[[Any], int]:
    return lambda _: len(items)


def restore(real: Any, made: Any, before: list[Any], plain: Convert) -> None:
    """Give an original what traced code put into its copy; what was not touched stays the same object."""
    if isinstance(real, np.ndarray):
        for index, v, old_item in zip(np.ndindex(made.shape), _listed(made), before, strict=True):
            if v is not old_item:
                real[index] = plain(v)
        return
    if isinstance(real, dict):
        old = dict(before)
        keys = dict(zip(old, list(dict.keys(real)), strict=False))
        for key in old:
            if key not in made:
                del real[keys[key]]
        for key in dict.keys(made):
            value = dict.__getitem__(made, key)
            if key not in old or value is not old[key]:
                real[keys.get(key, plain(key))] = plain(value)
        return
    originals = dict(zip(map(id, before), list(real), strict=False))
    now = [originals[id(v)] if id(v) in originals else plain(v) for v in made]
    if isinstance(real, list):
        real[:] = now
        return
    real.clear()
    real.extend(now) if isinstance(real, collections.deque) else real.update(now)


def _listed(made: Any) -> list[Any]:
    if isinstance(made, np.ndarray):
        return list(made.ravel())
    return list(dict.items(made)) if isinstance(made, dict) else list(made)


def _differs(made: Any, before: list[Any]) -> bool:
    if isinstance(made, np.ndarray):
        return any(a is not b for a, b in zip(made.ravel(), before, strict=True))
    if len(made) != len(before):
        return True
    if isinstance(made, dict):
        old = dict(before)
        return any(k not in old or v is not old[k] for k, v in dict.items(made))
    return any(a is not b for a, b in zip(made, before, strict=True))
