"""Traces on several threads, and traces within traces, do not meet."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from symgrad.core.graph import Graph, digests, verify
from symgrad.errors import TraceError
from symgrad.tracing.state import active_table, active_trace
from tests.core.graphs import grad_graph, run, trace


def program(n: int) -> Any:
    def f(x: Any) -> Any:
        for k in range(n):
            x = np.sin(x) * (k + 1) + x
        return np.sum(x)

    return f


def fingerprint(graph: Graph) -> bytes:
    return digests(graph)[graph.outputs[0].id]


def test_threads_trace_at_once() -> None:
    x = np.linspace(0, 1, 4)
    alone = [fingerprint(grad_graph(trace(program(n), x))) for n in range(12)]
    start = threading.Barrier(4)

    def work(offset: int) -> list[bytes]:
        start.wait()
        found = []
        for n in range(12):
            graph = grad_graph(trace(program((n + offset) % 12), x))
            verify(graph)
            found.append(fingerprint(graph))
        return found

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for offset, found in enumerate(results):
        assert found == [alone[(n + offset) % 12] for n in range(12)]


def test_a_trace_is_active_on_its_own_thread_alone() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(active_trace()))
        thread.start()
        thread.join()
        assert active_table() is not None
        return x * 2

    trace(f, 1.0)
    assert seen == [None]
    assert active_trace() is None


def test_a_traced_value_does_not_cross_threads() -> None:
    caught: list[BaseException] = []

    def f(x: Any) -> Any:
        def other() -> None:
            try:
                np.sin(x)
            except TraceError as error:
                caught.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x

    # What the other thread does about the error is not seen here, so the trace ends with it too.
    with pytest.raises(TraceError, match="another thread"):
        trace(f, 1.0)
    assert len(caught) == 1


def test_a_trace_within_a_trace() -> None:
    inner: list[Graph] = []

    def f(x: Any) -> Any:
        inner.append(trace(lambda y: y * 3, 1.0))
        return x * 2

    outer = trace(f, 1.0)
    assert run(outer, 5.0) == 10
    assert run(inner[0], 5.0) == 15
    assert inner[0].table is not outer.table


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    states: list[bool] = []
    try:
        (gc.enable if enabled else gc.disable)()
        trace(lambda x: states.append(gc.isenabled()) or x, 1.0)
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError):
            trace(lambda x: 1 // 0, 1.0)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert states == [False]
