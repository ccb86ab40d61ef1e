"""Watches behind a front, in threads, and as garbage; and what makes no watch."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import types
import weakref
from collections import ChainMap
from pathlib import Path
from typing import Any

import pytest

from symgrad.runtime.native import load_kernel, make_dispatcher
from symgrad.runtime.specs import MISSING, Cell, Item, Mapping, Sequence, Slot
from tests.runtime.kernels import FLOAT, PYFLOAT, Make, Slow

pytestmark = pytest.mark.c_backend


class Slotted:
    __slots__ = ("w",)
    w: Any


SLOT: Any = Slotted.__dict__["w"]

# ---- fronts -----------------------------------------------------------------------------------------------


def test_a_front_tries_the_next_entry_where_a_watch_fails(make: Make, module: Any) -> None:
    state = {"mode": "a"}
    front = module.CallFront(Slow())
    entries = {m: make("guarded", [FLOAT], [PYFLOAT], watches=[Item(state, "mode", m)]) for m in "abc"}
    for entry in entries.values():
        front.install(entry)
    for mode in "abca":
        state["mode"] = mode
        assert front(1.5) == 3.0
        assert front.entries[0] is entries[mode]
    assert [entries[mode].hits for mode in "abc"] == [2, 1, 1]
    assert front.misses == 0
    state["mode"] = "d"
    order = front.entries
    assert front(1.5) is front.slow
    assert front.entries == order
    assert front.slow.calls == [((1.5,), {})]
    assert front.misses == 1
    assert [entry.misses for entry in entries.values()] == [0, 0, 0]
    state["mode"] = "b"
    assert front(-1.0) is entries["b"].slow  # the guard of the kernel
    assert front.misses == 2


def test_the_slow_path_may_install_an_entry_with_new_watches(make: Make, module: Any) -> None:
    state = {"scale": 1.0}

    def slow(x: float) -> Any:
        watch = Item(state, "scale", state["scale"])
        front.install(make("guarded", [FLOAT], [PYFLOAT], watches=[watch], slow=slow))
        return "slow"

    front = module.CallFront(slow)
    answers = []
    for scale in (1.0, 1.0, 2.0, 2.0, 1.0, float("1")):
        state["scale"] = scale
        answers.append(front(1.5))
    assert answers == ["slow", 3.0, "slow", 3.0, 3.0, 3.0]
    assert len(front.entries) == 2


def test_watches_of_make_dispatcher(library: Path) -> None:
    state = {"k": 1}
    kernel = load_kernel(library, "guarded")
    call = make_dispatcher(kernel, [FLOAT], [PYFLOAT], "single", Slow(), watches=[Item(state, "k", 1)])
    assert call(1.5) == 3.0
    state["k"] = 2
    assert call(1.5) is call.slow


# ---- threads ----------------------------------------------------------------------------------------------


def test_containers_may_change_in_other_threads(make: Make) -> None:
    items: list[Any] = [0.0] * 20
    box: dict[Any, Any] = {str(i): 0.0 for i in range(20)}
    obj, cell = Slotted(), types.CellType(0.0)
    obj.w = 0.0
    watches = [
        Sequence(items, tuple(items)), Mapping(box, tuple(box), tuple(box.values())), Item(box, "3", 0.0),
        Slot(obj, SLOT, 0.0), Cell(cell, 0.0),
    ]  # fmt: skip
    call = make("guarded", [FLOAT], [PYFLOAT], watches=watches)
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            del items[number % 20 :]
            box.pop(str(number % 20), None)
            items.append(number)
            box[number % 7] = number
            obj.w = cell.cell_contents = float(number)
            items[:] = [0.0] * 20
            box.clear()
            box.update({str(i): 0.0 for i in range(20)})
            obj.w = cell.cell_contents = 0.0

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(3000):
            assert call(1.5) in (3.0, call.slow)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert call.hits + call.misses == 3000
    assert call(1.5) == 3.0


# ---- garbage ----------------------------------------------------------------------------------------------


class Node:
    """Something that can be in a cycle and be seen to die."""

    call: Any


@pytest.mark.parametrize("kind", ["item", "key", "expected", "cell", "sequence", "tuple", "mapping", "slot"])
def test_cycles_through_watches_are_collected(make: Make, kind: str) -> None:
    node, obj = Node(), Slotted()
    obj.w = node
    watches: dict[str, Any] = {
        "item": Item({"node": node}, "x", MISSING),
        "key": Item({node: 1}, node, 1),
        "expected": Item({}, "x", node),
        "cell": Cell(types.CellType(node), node),
        "sequence": Sequence([node], (node,)),
        "tuple": Sequence((node,), (node,)),
        "mapping": Mapping({1: node}, (1,), (node,)),
        "slot": Slot(obj, SLOT, node),
    }
    node.call = make("guarded", [FLOAT], [PYFLOAT], watches=[watches.pop(kind)], slow=lambda x: None)
    references = weakref.ref(node), weakref.ref(node.call)
    watches.clear()
    del node, obj
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_what_is_watched_stays_alive_with_the_dispatcher(make: Make) -> None:
    node = Node()
    node.call = 2.0
    watches = [Item(vars(node), "call", 2.0), Sequence([node], (node,))]
    call = make("guarded", [FLOAT], [PYFLOAT], watches=watches)
    reference = weakref.ref(node)
    del node, watches
    gc.collect()
    assert call(1.5) == 3.0
    assert reference() is not None
    del call
    gc.collect()
    assert reference() is None


def test_a_finaliser_may_still_call(make: Make) -> None:
    # Finalisers are called while all is still in place.
    answers: list[Any] = []

    class Finalised:
        call: Any

        def __del__(self) -> None:
            answers.append(self.call(1.5))

    node = Finalised()
    watch = Item({"k": node}, "k", node)
    node.call = make("guarded", [FLOAT], [PYFLOAT], watches=[watch], slow=lambda x: None)
    del node, watch
    gc.collect()
    assert answers == [3.0]


def test_watches_do_not_leak(library: Path, module: Any) -> None:
    kernel = load_kernel(library, "guarded")  # once, because ctypes keeps something of each
    node, obj, key = Node(), Slotted(), "some key"
    obj.w = node
    cell, items, box = types.CellType(node), [node, 2.5], {key: node}
    slow_result = object()
    watches = (
        Item(box, key, node), Item(box, "absent", MISSING), Cell(cell, node), Sequence(items, (node, 2.5)),
        Mapping(box, (key,), (node,)), Slot(obj, SLOT, node), Item(vars(Node), "absent", MISSING),
    )  # fmt: skip

    def slow(x: float) -> Any:
        return slow_result

    def made(*watches: Any) -> Any:
        options = {"watches": watches, "keepalive": kernel.keepalive}
        return module.Dispatcher(kernel.address, 0, (FLOAT,), (), (PYFLOAT,), "single", slow, **options)

    def build() -> Any:
        with pytest.raises(TypeError, match="a watch is"):
            made(*watches, key)
        with pytest.raises(TypeError, match="a Cell watch"):
            made(*watches, Cell(node, node))  # type: ignore[arg-type]
        return made(*watches)

    def use(call: Any) -> None:
        call(1.5)
        items.append(1.0)
        call(1.5)
        items.pop()
        del obj.w
        call(1.5)
        obj.w = node

    watched = [node, obj, key, cell, items, box, slow_result, watches, *watches, Slotted, SLOT, Node, MISSING]
    call = build()
    tracemalloc.start()
    try:
        for _ in range(20):
            build()
            use(call)
        gc.collect()
        counts = [sys.getrefcount(thing) for thing in watched]
        before = len(tracemalloc.take_snapshot().traces)
        for _ in range(200):
            build()
            use(call)
        gc.collect()
        after = len(tracemalloc.take_snapshot().traces)
    finally:
        tracemalloc.stop()
    assert (call.hits, call.misses) == (220, 440)
    assert [sys.getrefcount(thing) for thing in watched] == counts
    assert after - before < 100  # 200 lost objects would be more


# ---- construction -----------------------------------------------------------------------------------------


class Elsewhere:
    __slots__ = ("w",)


@pytest.mark.parametrize(
    ("watch", "error", "message"),
    [
        ("k", TypeError, "a watch is an Item, Cell, Sequence, Mapping or Slot, not 'k'"),
        (({}, "k", 1), TypeError, "a watch is"),
        (Item([1], 0, 1), TypeError, "an Item watch needs a dict"),  # type: ignore[arg-type]
        (Item(None, 0, 1), TypeError, "an Item watch needs a dict"),  # type: ignore[arg-type]
        (Item({}, [], 1), TypeError, "unhashable"),
        (Cell({}, 1), TypeError, "a Cell watch needs a closure cell"),  # type: ignore[arg-type]
        (Sequence({1}, (1,)), TypeError, "a Sequence watch needs a list or tuple"),  # type: ignore[arg-type]
        (Sequence([1], [1]), TypeError, "and a tuple of items"),  # type: ignore[arg-type]
        (Mapping([], (), ()), TypeError, "a Mapping watch needs a dict"),  # type: ignore[arg-type]
        (Mapping({}, [], ()), TypeError, "two tuples"),  # type: ignore[arg-type]
        (Mapping({}, (1,), ()), TypeError, "of the same length"),
        (Mapping({}, (1, 2, 1.0), (1, 2, 3)), ValueError, "distinct keys"),
        (Mapping({}, ([],), (1,)), TypeError, "unhashable"),
        (Slot(Slotted(), "w", 1), TypeError, "a member or getset descriptor"),  # type: ignore[arg-type]
        (Slot(Slotted(), property(), 1), TypeError, "a member or getset"),  # type: ignore[arg-type]
        (Slot(Elsewhere(), SLOT, 1), TypeError, "belongs to another type"),
    ],
)
def test_watches_that_make_no_sense(make: Make, watch: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make("nothing", [], [], "tuple", watches=[Item({"k": 1}, "k", 1), watch])


@pytest.mark.parametrize("watches", [5, None, Item({"k": 1}, "k", 1)])
def test_watches_are_a_sequence(make: Make, watches: Any) -> None:
    with pytest.raises(TypeError):
        make("nothing", [], [], "tuple", watches=watches)


def test_a_proxy_of_no_dict_is_no_container(make: Make) -> None:
    proxy = types.MappingProxyType(ChainMap({"k": 1}))
    with pytest.raises(TypeError, match="an Item watch needs a dict"):
        make("nothing", [], [], "tuple", watches=[Item(proxy, "k", 1)])
