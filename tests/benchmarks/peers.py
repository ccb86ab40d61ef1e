"""The branching benchmark in other tools, those that are installed (the extra ``bench`` lists them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

#: Name, and what computes from one input.
Peer = tuple[str, Callable[[Any], Any], Callable[[np.ndarray[Any, Any]], Any]]


def doubling() -> Iterator[Peer]:
    """``while norm(y) < 1000: y = 2 y; return sum(y)``: how each is called, and what makes its input."""
    for package, make in (("torch", _torch), ("autograd", _autograd), ("jax", _jax)):
        if find_spec(package) is not None:
            yield make()


def _torch() -> Peer:
    import torch

    torch.set_num_threads(1)

    def value_and_gradient(array: np.ndarray[Any, Any]) -> Any:
        x = torch.from_numpy(array).requires_grad_()
        y = x
        while y.norm() < 1000:
            y = y * 2
        total = y.sum()
        total.backward()
        return total.item(), x.grad.numpy()

    return f"PyTorch {torch.__version__} eager", value_and_gradient, np.copy


def _autograd() -> Peer:
    import autograd
    import autograd.numpy as anp

    def doubled(y: Any) -> Any:
        while anp.linalg.norm(y) < 1000:
            y = y * 2
        return anp.sum(y)

    return "HIPS autograd", autograd.value_and_grad(doubled), np.copy


def _jax() -> Peer:
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    @jax.jit
    def doubled(y: Any) -> Any:
        return jnp.sum(jax.lax.while_loop(lambda y: jnp.linalg.norm(y) < 1000, lambda y: y * 2, y))

    # lax.while_loop has no reverse mode: JAX computes the value only.
    return f"JAX {jax.__version__} lax.while_loop, value only", lambda y: doubled(y).block_until_ready(), jnp.asarray


def check(peer: Peer, inputs: Sequence[np.ndarray[Any, Any]], expected: Sequence[float]) -> None:
    """Compare the values with what NumPy computes.

    Raises
    ------
    AssertionError
        If one is wrong.
    """
    _, call, prepare = peer
    for array, wanted in zip(inputs, expected, strict=True):
        answer = call(prepare(array))
        value = answer[0] if isinstance(answer, tuple) else answer
        np.testing.assert_allclose(float(value), wanted, rtol=1e-12)
