"""Several dispatchers behind one callable object."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from symgrad.runtime import native
from tests.runtime.kernels import FLOAT, PYFLOAT, TEN, TEN_OUT, Make, Slow

pytestmark = pytest.mark.c_backend


def test_a_front_tries_its_entries_most_recent_first(make: Make, module: Any) -> None:
    slow = Slow()
    front = module.CallFront(slow)
    assert front(1.0) is slow
    number = make("guarded", [FLOAT], [PYFLOAT])
    vector = make("squares", [TEN], [PYFLOAT, TEN_OUT], "tuple")
    front.install(number)
    front.install(vector)
    assert front.entries == (vector, number)
    assert front(1.5) == 3.0
    assert front.entries == (number, vector)
    assert front(np.ones(10))[0] == 10.0
    assert front.entries == (vector, number)
    assert front("text", k=1) is slow
    assert slow.calls == [((1.0,), {}), (("text",), {"k": 1})]
    assert front(-1.0) is number.slow
    assert (number.hits, number.misses, number.last_code) == (1, 1, 7)
    assert (vector.hits, vector.misses) == (1, 0)
    assert front.misses == 3


def test_entries_can_be_taken_out(make: Make, module: Any) -> None:
    front = module.CallFront(Slow())
    first, second = (make("guarded", [FLOAT], [PYFLOAT]) for _ in range(2))
    front.install(first)
    front.install(second)
    front.remove(first)
    assert front.entries == (second,)
    with pytest.raises(ValueError, match="not installed"):
        front.remove(first)
    front.clear()
    assert front.entries == ()
    assert front(1.0) is front.slow
    with pytest.raises(TypeError, match="only a Dispatcher"):
        front.install(print)


def test_the_slow_path_of_a_front_may_install(make: Make, module: Any) -> None:
    def slow(*args: Any) -> Any:
        front.clear()
        front.install(make("guarded", [FLOAT], [PYFLOAT], slow=slow))
        return front(abs(*args))

    front = module.CallFront(slow)
    assert front(2.0) == 4.0
    assert front(-3.0) == 6.0
    assert front.misses == 2
    front.slow = max
    assert front.slow is max
    assert front(2, 5) == 5
    with pytest.raises(TypeError, match="callable"):
        front.slow = 3


def test_a_subclass_in_python(make: Make, module: Any) -> None:
    class Compiled(module.CallFront):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            super().__init__(self.fallback)
            self.function = function
            self.__name__ = function.__name__

        def fallback(self, *args: Any, **kwargs: Any) -> Any:
            return "slow", self.function(*args, **kwargs)

    def double(x: float) -> float:
        return 2 * x

    compiled = Compiled(double)
    assert compiled(4.0) == ("slow", 8.0)
    compiled.install(make("guarded", [FLOAT], [PYFLOAT]))
    assert compiled(4.0) == 8.0
    assert compiled(x=4.0) == ("slow", 8.0)
    assert compiled.__name__ == "double"
    reference = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert reference() is None


def test_the_compiled_front_keeps_its_fast_call_in_subclasses() -> None:
    have_vectorcall = 1 << 11  # Py_TPFLAGS_HAVE_VECTORCALL
    front = native.call_front_type()
    derived = type("Derived", (front,), {})
    assert derived.__flags__ & have_vectorcall
    slower = type("Slower", (front,), {"__call__": lambda self, *args: ("own", args)})
    assert slower(max)(1) == ("own", (1,))


def test_a_front_in_a_class_body_binds_like_a_function(make: Make, module: Any) -> None:
    front = module.CallFront(lambda *args: args)

    class Owner:
        method = front

    owner = Owner()
    assert owner.method(1) == (owner, 1)
    assert Owner.method is front
    assert Owner.method(1) == (1,)


def test_a_front_that_was_never_initialised(module: Any) -> None:
    front = module.CallFront.__new__(module.CallFront)
    with pytest.raises((TypeError, AttributeError)):
        front(1)


def test_fronts_do_not_leak(make: Make, module: Any) -> None:
    slow, entry, x = Slow(), make("guarded", [FLOAT], [PYFLOAT], slow=lambda *args: None), 2.5

    def use() -> None:
        front = module.CallFront(lambda *args: None)
        front.install(entry)
        front.install(entry)
        front.remove(entry)
        front(x)
        front(-x)
        front("text")

    use()
    gc.collect()
    counts = [sys.getrefcount(thing) for thing in (slow, entry, x)]
    for _ in range(200):
        use()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in (slow, entry, x)] == counts
