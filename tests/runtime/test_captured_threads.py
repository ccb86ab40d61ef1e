"""Captured values that change while other threads call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import symgrad as sg


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.c_backend)])
def test_each_answer_belongs_to_one_value(backend: Any) -> None:
    state: dict[str, Any] = {"kind": "sine"}
    shapes = {"sine": np.sin, "cosine": np.cos}

    def f(x: Any, k: Any) -> Any:
        y = shapes[state["kind"]](x)
        return np.sum(y * x[0]) if k > 2 else np.sum(y) * k

    compiled = sg.compile(f, backend=backend)
    wrong: list[Any] = []

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            x, k = rng.random(5), int(rng.integers(1, 6))
            if rng.random() < 0.2:
                state["kind"] = "cosine" if rng.random() < 0.5 else "sine"
            try:
                answer = compiled(x, k)
            except Exception as error:
                wrong.append(error)
                raise
            known = [np.sum(g(x) * x[0]) if k > 2 else np.sum(g(x)) * k for g in shapes.values()]
            if not any(np.isclose(answer, value, rtol=1e-12, atol=0.0) for value in known):
                wrong.append((answer, known))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
