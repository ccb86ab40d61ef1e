"""Watches of each kind: when they hold and when they send a call to the slow path."""

from __future__ import annotations

import math
import struct
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest

from symgrad.runtime.specs import MISSING, Cell, InputSpec, Item, Mapping, Sequence, Slot, Watch
from tests.runtime.kernels import FLOAT, FOUR_OUT, PYFLOAT, Make

pytestmark = pytest.mark.c_backend

Holds = Callable[..., bool]


@pytest.fixture
def watcher(make: Make) -> Callable[..., Holds]:
    """Make a function that tells whether a call with these watches is answered by the kernel."""

    def build(*watches: Watch) -> Holds:
        call = make("guarded", [FLOAT], [PYFLOAT], watches=watches)

        def holds() -> bool:
            before = call.hits, call.misses
            result = call(1.5)
            hit = bool(result == 3.0)
            assert hit or result is call.slow
            assert (call.hits, call.misses) == (before[0] + hit, before[1] + (not hit))
            return hit

        return holds

    return build


def other_nan() -> float:
    """A NaN with another bit pattern than math.nan."""
    nan: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    return nan


def fresh(text: str) -> str:
    """An equal string that is another object."""
    return text.encode().decode()


class Cunning:
    """Claims to equal everything."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("values are not asked whether they are equal")

    __hash__ = None  # type: ignore[assignment]


class Text(str):
    __slots__ = ()


CUNNING = Cunning()

SAME = [
    (CUNNING, CUNNING),
    (2.5, float("2.5")),
    (10**6, int("1000000")),
    (-(10**30), int("-1" + 30 * "0")),
    ("a name", fresh("a name")),
    ("größe – 名", fresh("größe – 名")),
    (b"bytes\0", bytes(bytearray(b"bytes\0"))),
    (1 + 2j, complex("1+2j")),
    (math.nan, float("nan")),
    (complex(-0.0, math.nan), complex(-0.0, float("nan"))),
    (True, True),
    (None, None),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (CUNNING, Cunning()),
    (CUNNING, 1.0),
    (1.0, CUNNING),
    (2.5, 2.0),
    (0.0, -0.0),
    (math.nan, other_nan()),
    (math.nan, 0.0),
    (0j, complex(0.0, -0.0)),
    (0j, complex(-0.0, 0.0)),
    (1 + 2j, 1 + 3j),
    (1, 1.0),
    (1, True),
    (False, 0),
    (None, False),
    (10**30, 10**30 + 1),
    ("name", "nam"),
    ("name", Text("name")),
    ("a", b"a"),
    (b"a", b"b"),
    (2.0, np.float64(2.0)),
    (np.float64(2.0), np.float64(2.0)),
    ((1, 2), (1, int("2"))),
    ([], []),
]


@pytest.mark.parametrize(("expected", "value"), SAME)
def test_the_same(watcher: Any, expected: Any, value: Any) -> None:
    box = {"k": value}
    assert watcher(Item(box, "k", expected))()
    assert watcher(Sequence([value], (expected,)))()
    assert watcher(Mapping(box, ("k",), (expected,)))()
    assert watcher(Cell(types.CellType(value), expected))()


@pytest.mark.parametrize(("expected", "value"), DIFFERENT)
def test_not_the_same(watcher: Any, expected: Any, value: Any) -> None:
    box = {"k": value}
    assert not watcher(Item(box, "k", expected))()
    assert not watcher(Sequence((value,), (expected,)))()
    assert not watcher(Mapping(box, ("k",), (expected,)))()
    assert not watcher(Cell(types.CellType(value), expected))()


# ---- Item -------------------------------------------------------------------------------------------------


def test_an_item_that_changes(watcher: Any) -> None:
    array = np.ones(3)
    box: dict[Any, Any] = {"other": 0, "k": 2.0, "array": array}
    number, identity = watcher(Item(box, "k", 2.0)), watcher(Item(box, "array", array))
    for _ in range(3):
        assert number()
    box["k"] = 3.0
    assert not number()
    box["k"] = float("2")
    assert number()
    del box["k"]
    assert not number()
    box["k"] = 2.0
    assert number()
    box["k"] = 2
    assert not number()
    array[:] = 5.0
    assert identity()
    box["array"] = array.copy()
    assert not identity()
    box.clear()
    assert not identity()


def test_an_item_moves_when_its_dict_is_rearranged(watcher: Any) -> None:
    box: dict[Any, Any] = {f"k{i}": float(i) for i in range(50)}
    holds = [watcher(Item(box, f"k{i}", float(i))) for i in (0, 7, 49)]
    for i in range(1, 40):
        if i != 7:
            del box[f"k{i}"]
        assert all(hold() for hold in holds)
    for i in range(1000):
        box[i] = None  # the dict is built anew several times
    assert all(hold() for hold in holds)
    last = box.pop("k49")
    assert [hold() for hold in holds] == [True, True, False]
    box["k0"], box["k49"] = box["k7"], last
    assert [hold() for hold in holds] == [False, True, True]


def test_items_with_keys_of_any_type(watcher: Any) -> None:
    keys = [0, 10**20, "name", "naME", 2.5, None, (1, ("a", 2)), b"k", Cunning, frozenset({1})]
    box: dict[Any, Any] = {key: float(i) for i, key in enumerate(keys)}
    holds = watcher(*[Item(box, key, float(i)) for i, key in enumerate(keys)])
    equal = watcher(Item(box, int("1" + 20 * "0"), 1.0), Item(box, fresh("name"), 2.0))
    assert holds()
    assert equal()
    box["name"] = -2.0
    assert not holds()
    assert not equal()


def test_an_item_of_a_dict_with_many_entries(watcher: Any) -> None:
    box: dict[Any, Any] = {i: float(i) for i in range(5000)}
    holds = watcher(Item(box, 4999, 4999.0), Item(box, 3, 3.0))
    assert holds()
    box[4999] = 0.0
    assert not holds()


def test_nothing_expected(watcher: Any) -> None:
    box: dict[Any, Any] = {"other": 0}
    holds = watcher(Item(box, "k", MISSING))
    assert holds()
    box["k"] = None
    assert not holds()
    box["k"] = MISSING
    assert not holds()
    del box["k"]
    assert holds()


def test_subclasses_of_dict_are_not_asked(watcher: Any) -> None:
    class Loud(dict[Any, Any]):
        def __getitem__(self, key: Any) -> NoReturn:
            raise AssertionError

        def __missing__(self, key: Any) -> NoReturn:
            raise AssertionError

        def __len__(self) -> NoReturn:
            raise AssertionError

        get = __contains__ = __getitem__  # type: ignore[assignment]

    box, default = Loud(a=1.0), defaultdict[str, float](float)
    ordered = OrderedDict(a=1.0, b=2.0)
    holds = watcher(
        Item(box, "a", 1.0), Item(box, "b", MISSING), Mapping(box, ("a",), (1.0,)),
        Item(default, "c", MISSING), Item(ordered, "b", 2.0), Mapping(ordered, ("a", "b"), (1.0, 2.0)),
    )  # fmt: skip
    assert holds()
    assert not default
    ordered.move_to_end("a")
    assert holds()
    assert default["c"] == 0.0
    assert not holds()


def test_attributes_of_modules_instances_and_classes(watcher: Any) -> None:
    class Base:
        rate = 0.5

    class Model(Base):
        pass

    model, module = Model(), types.ModuleType("captured")
    model.w = module.w = 2.0  # type: ignore[attr-defined]
    instance = watcher(Item(vars(model), "w", 2.0))
    inherited = watcher(
        Item(vars(model), "rate", MISSING), Item(vars(Model), "rate", MISSING), Item(vars(Base), "rate", 0.5)
    )
    of_module = watcher(Item(vars(module), "w", 2.0))
    holds = instance, inherited, of_module
    assert [hold() for hold in holds] == [True, True, True]
    model.w = 3.0  # type: ignore[attr-defined]
    assert [hold() for hold in holds] == [False, True, True]
    module.w = 3.0  # type: ignore[attr-defined]
    assert [hold() for hold in holds] == [False, True, False]
    Base.rate = 0.25
    assert not inherited()
    Base.rate = 0.5
    assert inherited()
    Model.rate = 0.5
    assert not inherited()
    del Model.rate
    assert inherited()
    model.rate = 0.5
    assert not inherited()


def test_exceptions_of_keys_reach_the_caller(make: Make, module: Any) -> None:
    class Key:
        broken = False

        def __hash__(self) -> int:
            if Key.broken:
                raise OSError("no hash")
            return 7

    key = Key()
    box = {key: 1.0}
    for watch in (Item(box, key, 1.0), Mapping({key: 1.0, 1: 2}, (1, key), (2, 1.0))):
        Key.broken = False
        call = make("guarded", [FLOAT], [PYFLOAT], watches=[watch])
        front = module.CallFront(call.slow)
        front.install(call)
        assert call(1.5) == front(1.5) == 3.0
        Key.broken = True
        for callable_ in (call, front):
            with pytest.raises(OSError, match="no hash"):
                callable_(1.5)
        assert call.misses == front.misses == 0


# ---- Cell -------------------------------------------------------------------------------------------------


def test_a_cell(watcher: Any) -> None:
    rate = 0.1

    def function() -> float:
        return rate

    cell = (function.__closure__ or ())[0]
    holds, empty = watcher(Cell(cell, 0.1)), watcher(Cell(cell, MISSING))
    assert holds()
    rate = 0.2
    assert not holds()
    rate = float("0.1")
    assert holds()
    assert not empty()
    del rate
    assert not holds()
    assert empty()
    rate = 0.1
    assert holds()


# ---- Sequence ---------------------------------------------------------------------------------------------


def test_a_list(watcher: Any) -> None:
    array = np.ones(2)
    layers: list[Any] = [1.0, array, "relu"]
    holds = watcher(Sequence(layers, (1.0, array, "relu")))
    assert holds()
    layers.append(None)
    assert not holds()
    layers.pop()
    assert holds()
    layers[2] = fresh("relu")
    assert holds()
    layers[0] = 1
    assert not holds()
    layers[0] = 1.0
    layers[1] = array.copy()
    assert not holds()
    layers[1] = array
    layers.reverse()
    assert not holds()
    layers.clear()
    assert not holds()
    layers[:] = [1.0, array, "relu"]
    assert holds()


def test_sequences_of_other_kinds(watcher: Any) -> None:
    class Loud(list[Any]):
        def __len__(self) -> NoReturn:
            raise AssertionError

        __getitem__ = __iter__ = __len__  # type: ignore[assignment]

    loud = Loud([1.0])
    assert watcher(Sequence((), ()), Sequence([], ()), Sequence((1.0, 2), (1.0, 2)), Sequence(loud, (1.0,)))()
    assert watcher(Sequence(Item({}, "k", 1.0), ({}, "k", 1.0)))() is False
    assert not watcher(Sequence((1.0,), (1.0, 2.0)))()
    assert not watcher(Sequence((1.0, 2.0), (1.0,)))()
    list.append(loud, 2.0)
    assert not watcher(Sequence(loud, (1.0,)))()


def test_nested_containers_take_a_watch_each(watcher: Any) -> None:
    inner: list[Any] = [1.0, 2.0]
    middle: dict[str, Any] = {"inner": inner}
    outer: list[Any] = [middle, 3.0]
    holds = watcher(
        Sequence(outer, (middle, 3.0)), Mapping(middle, ("inner",), (inner,)), Sequence(inner, (1.0, 2.0))
    )
    assert holds()
    inner[1] = 2.5
    assert not holds()
    inner[1] = 2.0
    middle["inner"] = [1.0, 2.0]
    assert not holds()
    middle["inner"] = inner
    assert holds()
    outer[0] = dict(middle)
    assert not holds()


# ---- Mapping ----------------------------------------------------------------------------------------------


def test_a_mapping(watcher: Any) -> None:
    parameters: dict[Any, Any] = {"w": 1.0, 2: "two", "b": -0.0}
    holds = watcher(Mapping(parameters, ("b", "w", 2), (-0.0, 1.0, "two")))
    assert holds()
    parameters["more"] = None
    assert not holds()
    del parameters["more"]
    assert holds()
    parameters["b"] = 0.0
    assert not holds()
    parameters["b"] = -0.0
    parameters["w"] = parameters.pop("w")  # now the last
    assert list(parameters) == [2, "b", "w"]
    assert holds()
    parameters["v"] = parameters.pop("w")
    assert not holds()
    parameters.clear()
    assert not holds()
    assert watcher(Mapping(parameters, (), ()))()


def test_a_mapping_of_a_class_and_keys_in_order(watcher: Any) -> None:
    class Options:
        rate = 0.5

    contents = dict(vars(Options))
    holds = watcher(Mapping(vars(Options), tuple(contents), tuple(contents.values())))
    assert holds()
    Options.rate = 0.25
    assert not holds()


def test_missing_means_nothing_in_a_list_of_values(watcher: Any) -> None:
    assert not watcher(Mapping({"a": 1.0}, ("b",), (MISSING,)))()
    assert watcher(Mapping({"b": MISSING}, ("b",), (MISSING,)))()
    assert watcher(Sequence([MISSING], (MISSING,)))()


# ---- Slot -------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("w",)
    w: Any


class Like:
    __slots__ = ("w",)
    w: Any


class Heir(Slotted):
    __slots__ = ()


def test_a_slot(watcher: Any) -> None:
    for obj in (Slotted(), Heir()):
        obj.w = 2.0
        descriptor: Any = Slotted.__dict__["w"]
        holds, empty = watcher(Slot(obj, descriptor, 2.0)), watcher(Slot(obj, descriptor, MISSING))
        assert holds()
        assert not empty()
        obj.w = float("2")
        assert holds()
        obj.w = 2
        assert not holds()
        del obj.w
        assert not holds()
        assert empty()
        obj.w = None
        assert not holds()
        assert not empty()


def test_a_slot_of_an_object_that_changes_its_class(watcher: Any) -> None:
    obj: Any = Slotted()
    obj.w = 2.0
    holds = watcher(Slot(obj, Slotted.__dict__["w"], 2.0))
    obj.__class__ = Like
    assert obj.w == 2.0
    assert not holds()
    obj.__class__ = Slotted
    assert holds()


def test_getset_descriptors(watcher: Any) -> None:
    class Model:
        pass

    def function(x: float = 1.0) -> float:
        return x

    def another(x: float = 1.0) -> float:
        return -x

    model: Any = Model()
    model.w = 1.0
    values = vars(model)
    holds = watcher(Slot(model, Model.__dict__["__dict__"], values), Item(values, "w", 1.0))
    code = watcher(Slot(function, types.FunctionType.__dict__["__code__"], function.__code__))
    kind = watcher(Slot(model, object.__dict__["__class__"], Model))
    assert holds()
    assert code()
    assert kind()
    model.__dict__ = {"w": 1.0}
    assert not holds()
    model.__dict__ = values
    assert holds()
    function.__code__ = another.__code__
    assert not code()
    model.__class__ = type("Other", (), {})
    assert not kind()


def test_a_property_written_in_c_may_make_new_objects(watcher: Any) -> None:
    z: Any = np.complex128(3 + 4j)
    real: Any = np.complexfloating.__dict__.get("real") or np.generic.__dict__["real"]
    assert not watcher(Slot(z, real, 3.0))()  # a new numpy.float64 each time
    start: Any = slice(2.0, None)
    assert watcher(Slot(start, slice.__dict__["start"], 2.0))()


# ---- together with the rest -------------------------------------------------------------------------------


def test_watches_come_before_the_arguments_and_beside_hidden_arrays(make: Make) -> None:
    hidden, state, four = np.ones(4), {"k": 1}, InputSpec("array", "f8", (4,))
    call = make("add_hidden", [four], [FOUR_OUT], hidden=[hidden], watches=[Item(state, "k", 1)])
    np.testing.assert_array_equal(call(np.arange(4.0)), [1, 2, 3, 4])
    hidden[:] = 2
    np.testing.assert_array_equal(call(np.arange(4.0)), [2, 3, 4, 5])
    state["k"] = 2
    assert call(np.arange(4.0)) is call.slow
    assert call("wrong") is call.slow
    assert call() is call.slow
    assert (call.hits, call.misses) == (2, 3)
    assert call.slow.calls[1] == (("wrong",), {})
    assert call.last_code == 0


def test_any_of_many_watches_may_fail(watcher: Any) -> None:
    states = [{"k": float(i)} for i in range(200)]
    holds = watcher(*[Item(state, "k", float(i)) for i, state in enumerate(states)])
    assert holds()
    for state in (states[0], states[57], states[-1]):
        value = state.pop("k")
        assert not holds()
        state["k"] = value
        assert holds()
