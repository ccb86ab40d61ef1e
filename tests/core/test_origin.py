"""Every operation knows the line of the user's source that made it."""

from __future__ import annotations

import inspect
import threading
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.core.graph import Graph
from symgrad.core.origin import Origin, user_origin
from symgrad.transforms.simplify import simplify
from tests.core.graphs import grad_graph, trace


def lines_of(graph: Graph) -> dict[str, str]:
    """Source text by op name."""
    return {n.op.name: n.origin.text for n in graph.nodes if n.origin is not None and n.args}


def program(x: Any) -> Any:
    a = np.sin(x)
    b = helper(a)
    return b.sum() + b[0]


def helper(a: Any) -> Any:
    return a * (
        a + 1
    )


def test_lines_are_the_users() -> None:
    graph = trace(program, np.ones(3))
    found = lines_of(graph)
    assert found["sin"] == "a = np.sin(x)"
    assert found["multiply"] in ("return a * (", ")", "a + 1")
    assert found["sum"] == found["slice"] == "return b.sum() + b[0]"
    for node in graph.nodes:
        if node.args:
            assert node.origin is not None
            assert node.origin.filename == __file__


def test_functions_and_line_numbers() -> None:
    start = inspect.getsourcelines(program)[1]
    graph = trace(program, np.ones(3))
    by_name = {n.op.name: n.origin for n in graph.nodes if n.args}
    assert by_name["sin"] == Origin(__file__, start + 1, "program")
    multiply = by_name["multiply"]
    assert multiply is not None
    assert multiply.function == "helper"
    assert by_name["sin"].short == f"test_origin.py:{start + 1}"
    assert str(by_name["sin"]) == f"{__file__}:{start + 1} in program: a = np.sin(x)"


def test_derivatives_carry_the_line_they_come_from() -> None:
    found = grad_graph(trace(lambda x: np.sum(np.exp(x) * np.sin(x)), np.ones(3)))
    cosine = next(n for n in found.nodes if n.op.name == "cos")
    assert cosine.origin is not None
    assert cosine.origin.derivative
    assert "np.exp(x) * np.sin(x)" in cosine.origin.text
    assert cosine.origin.short.startswith("∂ test_origin.py:")


def test_simplifying_keeps_lines() -> None:
    graph = simplify(trace(program, np.ones(3)))
    assert lines_of(graph)["sin"] == "a = np.sin(x)"


def test_lines_are_no_part_of_the_identity() -> None:
    def f(x: Any) -> Any:
        first = np.sin(x)
        second = np.sin(x)
        return first + second

    graph = trace(f, 1.0)
    assert sum(n.op.name == "sin" for n in graph.nodes) == 1
    assert lines_of(graph)["sin"] == "first = np.sin(x)"


def test_source_that_is_not_available() -> None:
    space: dict[str, Any] = {"np": np}
    exec("def f(x):\n    return np.sin(x) * 2", space)
    graph = trace(space["f"], 1.0)
    origin = graph.outputs[0].origin
    assert origin is not None
    assert origin.text == ""
    assert str(origin) == "<string>:2 in f"


def test_outside_of_the_package() -> None:
    origin = user_origin()
    assert origin is not None
    assert origin.function == "test_outside_of_the_package"
    assert Path(origin.filename).name == "test_origin.py"


def test_lines_on_another_thread() -> None:
    graphs: list[Graph] = []
    thread = threading.Thread(target=lambda: graphs.append(trace(program, np.ones(2))))
    thread.start()
    thread.join()
    assert lines_of(graphs[0])["sin"] == "a = np.sin(x)"
