"""Workspaces, threads, garbage, and what a dispatcher refuses to be made of."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from symgrad.runtime.specs import InputSpec, OutputSpec
from tests.runtime.kernels import FLOAT, FOUR_OUT, PYFLOAT, TEN, Make, Slow

pytestmark = pytest.mark.c_backend


# ---- workspaces and threads -------------------------------------------------------------------------------


@pytest.mark.parametrize("release_gil", [False, True])
@pytest.mark.parametrize(("symbol", "last"), [("small_workspace", 2047), ("large_workspace", 99999)])
def test_workspaces_are_large_enough(make: Make, symbol: str, last: int, release_gil: bool) -> None:
    call = make(symbol, [FLOAT], [PYFLOAT], release_gil=release_gil)
    for x in (0.0, 1.0, 2.0):
        assert call(x) == x + last


def test_without_workspace_the_kernel_gets_null(make: Make) -> None:
    assert make("no_workspace", [], [PYFLOAT])() == 1.0


@pytest.mark.parametrize(("symbol", "last"), [("small_workspace", 2047), ("large_workspace", 99999)])
def test_threads_do_not_share_workspaces(make: Make, symbol: str, last: int) -> None:
    # A kernel whose workspace another call writes to answers 98.
    call = make(symbol, [FLOAT], [PYFLOAT], release_gil=True)
    results: list[Any] = []

    def work(start: int) -> None:
        results.extend(call(float(start + i)) - last - start - i for i in range(10))

    threads = [threading.Thread(target=work, args=(1000 * t,)) for t in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.0] * 60
    assert (call.hits, call.misses) == (60, 0)


def test_a_container_may_change_while_the_kernel_runs(make: Make) -> None:
    spec = InputSpec("list", items=(InputSpec("float"),))
    call = make("large_workspace", [spec], [PYFLOAT], release_gil=True)
    argument = [0.0]
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            argument[0] = float(number)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(20):
            assert call(argument) >= 99999.0
    finally:
        stop.set()
        thread.join()


# ---- life and death ---------------------------------------------------------------------------------------


def test_weak_references(make: Make) -> None:
    call = make("guarded", [FLOAT], [PYFLOAT])
    reference = weakref.ref(call)
    assert reference() is call
    del call
    gc.collect()
    assert reference() is None


def test_cycles_through_the_slow_path_are_collected(make: Make) -> None:
    class Owner:
        def __init__(self) -> None:
            self.call = make("guarded", [FLOAT], [PYFLOAT], slow=self.slow)

        def slow(self, *args: Any) -> Any:
            return args

    owner = Owner()
    references = weakref.ref(owner), weakref.ref(owner.call)
    del owner
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_nothing_leaks_in_calls_of_any_kind(make: Make) -> None:
    structure = (0, ({"a": 1}, [1, None]))
    outputs = [OutputSpec("scalar", "f8"), OutputSpec("array", "f8", (10,))]
    slow_result = object()
    call = make("squares", [TEN], outputs, structure, slow=lambda *args, **kwargs: slow_result)
    unflatten = make("squares", [TEN], outputs, list)
    guarded = make("guarded", [FLOAT], [PYFLOAT], slow=lambda x: slow_result)
    large = make("large_workspace", [InputSpec("list", items=(FLOAT,))], [PYFLOAT], release_gil=True)
    hidden = np.ones(4)
    four = InputSpec("array", "f8", (4,))
    with_hidden = make("add_hidden", [four], [FOUR_OUT], slow=lambda *args: None, hidden=[hidden])
    x, y, number, items, key = np.ones(10), np.ones(4), 1.5, [2.5], {"k": 1}

    def everything() -> None:
        call(x)
        call(y)
        call(x, x)
        call(x, k=number)
        unflatten(x)
        guarded(number)
        guarded(-number)
        guarded(items)
        large(items)
        with_hidden(y)
        with_hidden(x)

    watched = [x, y, number, items, items[0], key, slow_result, hidden, call, np.dtype("f8"), structure]
    tracemalloc.start()
    try:
        for _ in range(100):  # whatever is kept on purpose is kept from now on
            everything()
        gc.collect()
        counts = [sys.getrefcount(thing) for thing in watched]
        before = len(tracemalloc.take_snapshot().traces)
        for _ in range(1000):
            everything()
        gc.collect()
        after = len(tracemalloc.take_snapshot().traces)
    finally:
        tracemalloc.stop()
    assert [sys.getrefcount(thing) for thing in watched] == counts
    # Blocks are counted, not bytes: the interpreter's own tables may grow meanwhile.
    assert after - before < 500


def test_nothing_leaks_in_construction(make: Make) -> None:
    hidden, slow, value = np.ones(4), Slow(), object()
    inputs = (
        InputSpec("array", "f8", (4,)),
        InputSpec("static", value=value),
        InputSpec("dict", value=("a",), items=(FLOAT,)),
    )
    outputs = (OutputSpec("array", "f8", (4,)),)

    def build() -> None:
        make("add_hidden", inputs, outputs, (0, [0]), slow=slow, hidden=[hidden])
        with pytest.raises(ValueError, match="no output 5"):
            make("add_hidden", inputs, outputs, (0, 5), slow=slow, hidden=[hidden])

    for _ in range(10):
        build()
    gc.collect()
    watched = [hidden, slow, value, inputs, outputs, np.dtype("f8")]
    counts = [sys.getrefcount(thing) for thing in watched]
    for _ in range(100):
        build()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in watched] == counts


# ---- construction -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "structure", "error", "message"),
    [
        ([InputSpec("vector")], [], "tuple", ValueError, "unknown kind 'vector'"),  # type: ignore[arg-type]
        ([], [OutputSpec("list")], "tuple", ValueError, "unknown kind 'list'"),  # type: ignore[arg-type]
        ([InputSpec("array", object, (3,))], [], "tuple", TypeError, "no arrays of dtype"),
        ([InputSpec("array", ">f8", (3,))], [], "tuple", TypeError, "no arrays of dtype"),
        ([InputSpec("array", "U3", (3,))], [], "tuple", TypeError, "no arrays of dtype"),
        ([InputSpec("array", "M8[s]", (3,))], [], "tuple", TypeError, "no arrays of dtype"),
        ([], [OutputSpec("scalar", "S1")], "tuple", TypeError, "no arrays of dtype"),
        ([FLOAT._replace(items=(FLOAT,))], [], "tuple", TypeError, "only tuple, list and dict"),
        ([InputSpec("dict", value=("a",))], [], "tuple", TypeError, "one key an item"),
        ([InputSpec("dict", value=((),), items=(FLOAT,))], [], "tuple", TypeError, "strings or integers"),
        ([], [PYFLOAT], "pair", ValueError, "unknown structure 'pair'"),
        ([], [PYFLOAT] * 2, "single", ValueError, "exactly one output"),
        ([], [PYFLOAT], (0, 1), ValueError, "there is no output 1"),
        ([], [PYFLOAT], (-1,), ValueError, "there is no output -1"),
        ([], [PYFLOAT], (True,), TypeError, "a structure holds"),
        ([], [PYFLOAT], {"a": {1.5}}, TypeError, "a structure holds"),
    ],
)
def test_specs_that_make_no_sense(
    make: Make, inputs: Any, outputs: Any, structure: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make("nothing", inputs, outputs, structure)


def test_nesting_without_end_is_refused(make: Make) -> None:
    spec, structure = FLOAT, 0
    for _ in range(100):
        spec, structure = InputSpec("list", items=(spec,)), [structure]  # type: ignore[assignment]
    with pytest.raises(TypeError, match="nested too deeply"):
        make("nothing", [spec], [])
    with pytest.raises(TypeError, match="nested too deeply"):
        make("nothing", [], [PYFLOAT], structure)


def test_other_arguments_that_make_no_sense(module: Any) -> None:
    for kernel, workspace, slow in [(0, 0, Slow()), (16, -1, Slow()), (16, 0, None)]:
        with pytest.raises(ValueError, match="a dispatcher needs"):
            module.Dispatcher(kernel, workspace, (), (), (), "tuple", slow)
    with pytest.raises(TypeError, match="hidden inputs are arrays"):
        module.Dispatcher(16, 0, (), ([1.0],), (), "tuple", Slow())
