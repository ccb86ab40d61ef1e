"""Pytrees: nested tuples, lists, dicts, namedtuples and dataclasses of arrays, by way of optree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from .lazy import lazy_import

optree: Any = lazy_import("optree")

NAMESPACE = "symgrad"

_registered: set[type] = set()


def _register_dataclass(cls: type) -> None:
    """Let optree look into instances of a dataclass, field by field."""
    if cls in _registered:
        return
    names = tuple(f.name for f in dataclasses.fields(cls) if f.init)

    def flatten(instance: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(instance, n) for n in names), None, names

    def unflatten(_: None, children: Sequence[Any]) -> Any:
        return cls(**dict(zip(names, children, strict=True)))

    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)
    _registered.add(cls)


_bare: set[type] = set()


def register_bare(cls: type) -> None:
    """Let instances of a class be nodes without leaves, part of the structure like None."""
    _bare.add(cls)


def _register_bare(cls: type) -> None:
    if cls not in _registered:
        optree.register_pytree_node(cls, lambda x: ((), x, ()), lambda x, _: x, namespace=NAMESPACE)
        _registered.add(cls)


def _is_leaf(value: Any) -> bool:
    """Never a leaf; used to meet every node before optree does, so that dataclasses can be registered."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        _register_dataclass(type(value))
    elif type(value) in _bare:
        _register_bare(type(value))
    return False


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves of a tree and its structure.

    None is a node without leaves. Dictionaries are traversed in sorted key order and come back in the order
    of their keys as given.
    """
    leaves, structure = optree.tree_flatten(tree, is_leaf=_is_leaf, namespace=NAMESPACE)
    return leaves, structure


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """Put leaves back into a structure."""
    return optree.tree_unflatten(structure, leaves)


def map_leaves(function: Callable[..., Any], tree: Any) -> Any:
    """Apply a function to every leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [function(leaf) for leaf in leaves])


def leaf_names(tree: Any, root: str) -> list[str]:
    """How each leaf would be written in Python, starting from the name of the whole: ``params['w'][0]``."""
    accessors = optree.tree_accessors(tree, is_leaf=_is_leaf, namespace=NAMESPACE)
    return [accessor.codify(root) for accessor in accessors]
