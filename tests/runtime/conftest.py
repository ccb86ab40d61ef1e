"""The call path in both forms, compiled and in Python; the tests must not be able to tell them apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from symgrad.codegen.cache import get_or_build
from symgrad.runtime import dispatch_python, native
from symgrad.runtime.native import load_kernel
from tests.runtime.kernels import KERNELS, Make, Slow


@pytest.fixture(scope="session")
def library() -> Path:
    """The shared object with all kernels of the tests."""
    return get_or_build(KERNELS)


@pytest.fixture(params=["native", "python"])
def module(request: pytest.FixtureRequest) -> Any:
    """A module with the classes Dispatcher and CallFront."""
    if request.param == "python":
        return dispatch_python
    found = native.native_module()
    assert found is not None
    return found


@pytest.fixture
def make(module: Any, library: Path) -> Make:
    """Make a dispatcher for one of the kernels."""

    def build(
        symbol: str, inputs: Any, outputs: Any, structure: Any = "single", slow: Any = None, **options: Any
    ) -> Any:
        kernel = load_kernel(library, symbol)
        hidden = tuple(options.pop("hidden", ()))
        return module.Dispatcher(
            kernel.address, kernel.workspace_bytes, tuple(inputs), hidden, tuple(outputs), structure,
            Slow() if slow is None else slow, keepalive=kernel.keepalive, **options,
        )  # fmt: skip

    return build
