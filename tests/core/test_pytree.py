"""Nested containers: leaves, structure, names as they are written in Python."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any, NamedTuple

import pytest

from symgrad.core.pytree import flatten, leaf_names, map_leaves, unflatten


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = dataclasses.field(default="layer", init=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    inner: Any


Pair = namedtuple("Pair", "first second")

TREES: list[tuple[Any, list[Any], list[str]]] = [
    (1.0, [1.0], ["p"]),
    ((1, 2), [1, 2], ["p[0]", "p[1]"]),
    ([1, [2, (3,)]], [1, 2, 3], ["p[0]", "p[1][0]", "p[1][1][0]"]),
    ({"w": 1, "b": 2}, [2, 1], ["p['b']", "p['w']"]),
    ({"a": {"c": [1, 2]}}, [1, 2], ["p['a']['c'][0]", "p['a']['c'][1]"]),
    (Point(1, 2), [1, 2], ["p.x", "p.y"]),
    (Pair(1, [2]), [1, 2], ["p.first", "p.second[0]"]),
    (Layer(1, 2), [1, 2], ["p.weight", "p.bias"]),
    (Frozen({"k": 1}), [1], ["p.inner['k']"]),
    ([Layer(1, Point(2, 3)), None, ()], [1, 2, 3], ["p[0].weight", "p[0].bias.x", "p[0].bias.y"]),
    (None, [], []),
    ((), [], []),
    ({}, [], []),
]


@pytest.mark.parametrize(("tree", "leaves", "names"), TREES, ids=repr)
def test_leaves_and_their_names(tree: Any, leaves: list[Any], names: list[str]) -> None:
    found, structure = flatten(tree)
    assert found == leaves
    assert leaf_names(tree, "p") == names
    assert unflatten(structure, found) == tree
    assert type(unflatten(structure, found)) is type(tree)


def test_order_of_dictionaries_is_kept() -> None:
    tree = {"w": 1, "b": 2}
    leaves, structure = flatten(tree)
    assert list(unflatten(structure, leaves)) == ["w", "b"]
    ordered = OrderedDict([("z", 1), ("a", 2)])
    assert list(map_leaves(lambda v: v * 2, ordered).items()) == [("z", 2), ("a", 4)]


def test_structures_compare() -> None:
    assert flatten((1, [2]))[1] == flatten((3, [4]))[1]
    assert flatten((1, [2]))[1] != flatten((1, (2,)))[1]
    assert flatten(Layer(1, 2))[1] != flatten(Frozen(1))[1]


def test_mapping_keeps_the_structure() -> None:
    mapped = map_leaves(lambda v: v + 1, {"l": Layer(1, [2, 3]), "n": None})
    assert mapped == {"l": Layer(2, [3, 4]), "n": None}


def test_a_dataclass_type_is_a_leaf() -> None:
    assert flatten([Layer])[0] == [Layer]
