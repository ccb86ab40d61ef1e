"""When code is made anew."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime import upkeep
from symgrad.runtime.upkeep import PROMPT, QUIET, Upkeep


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(upkeep, "time", made)
    return made


def _make(kept: Upkeep, clock: Clock, seconds: float) -> None:
    with kept.making():
        clock.now += seconds


def test_code_is_made_at_once_a_few_times(clock: Clock) -> None:
    kept = Upkeep()
    for _ in range(PROMPT):
        kept.outdate()
        assert kept.due
        _make(kept, clock, 10.0)
        assert not kept.due
    kept.outdate()
    assert not kept.due


def test_quick_code_is_always_made_at_once(clock: Clock) -> None:
    kept = Upkeep()
    for _ in range(100):
        kept.outdate()
        assert kept.due
        _make(kept, clock, 0.001)


def test_slow_code_is_made_when_the_calls_without_it_took_as_long(clock: Clock) -> None:
    kept = Upkeep()
    for _ in range(PROMPT):
        _make(kept, clock, 10.0)
    kept.outdate()
    kept.spent(9.0)
    assert not kept.due
    kept.spent(1.0)
    assert kept.due
    _make(kept, clock, 20.0)
    kept.spent(30.0)
    assert not kept.due, "nothing is missing"


def _steps(x: Any) -> Any:
    y = x
    while y < 1000.0:
        y = y * 2.0
    return y


def test_code_is_made_soon_when_no_new_paths_come(clock: Clock) -> None:
    kept = Upkeep()
    for _ in range(PROMPT):
        _make(kept, clock, 10.0)
    kept.outdate()
    for _ in range(QUIET):
        kept.spent(0.0125)
        assert not kept.due
    kept.outdate()
    for _ in range(QUIET):
        kept.spent(0.0)
        assert not kept.due
    kept.spent(0.0)
    assert kept.due


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.c_backend)])
def test_old_code_answers_for_its_paths_and_tracing_for_the_others(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "PROMPT", 2)
    monkeypatch.setattr(upkeep, "PROMPT_SECONDS", 0.0)
    monkeypatch.setattr(Upkeep, "spent", lambda *_: None)
    f = sg.compile(sg.value_and_grad(_steps), backend=backend)
    starts = [600.0, 300.0, 150.0, 70.0, 40.0]
    for _ in range(3):
        for x in starts:
            assert f(x) == (_steps(x), _steps(x) / x)
    (entry,) = f._entries.values()
    assert len(entry.tree.leaves) == len(starts)
    assert entry.kernels.upkeep.times == (2 if backend == "c" else 0)
    assert [row.hits for row in f.paths()] == [3] * len(starts)
    # Two paths are in the code; the other three are found without being traced again.
    assert f.cache_info().traces == len(starts)


def test_a_function_of_many_paths_settles() -> None:
    f = sg.compile(sg.value_and_grad(_steps))
    starts = 1000.0 / 2.0 ** np.arange(0.5, 30)
    for _ in range(2):
        for x in starts:
            assert f(float(x)) == (_steps(float(x)), _steps(float(x)) / float(x))
    assert f.cache_info().traces == len(starts)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_threads_of_its_parent() -> None:
    """The function may be traced or compiled by another thread while the process forks."""
    compiled = sg.compile(lambda x: x**2 + 1.0)
    compiled(3.0)
    (entry,) = compiled._entries.values()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with compiled._lock, entry._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        right = False
        try:
            right = compiled(np.float32(3.0)) == 10.0 and compiled(3.0) == 10.0
        finally:
            os._exit(not right)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
