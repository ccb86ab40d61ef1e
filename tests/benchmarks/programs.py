"""Programs whose cost is measured: plain NumPy functions, with arguments for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Function = Callable[..., Any]


class Program(NamedTuple):
    """A scalar function of its first argument (and of more), and where it is run."""

    function: Function
    args: tuple[Any, ...]


# ---------------------------------------------------------------- large graphs


def scalar_chain(ops: int) -> Program:
    """An unrolled loop of scalar operations, five a step, each depending on the one before."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(ops // 5):
            x = np.sin(x) * 1.5 + y
            y = y * 0.5 + x
        return x + y

    return Program(chain, (np.float64(0.3), np.float64(0.7)))


def array_program(ops: int) -> Program:
    """An unrolled loop of fifteen operations of all kinds a step: products, reductions, masks, slices."""

    def mixed(h: Any, w: Any, b: Any) -> Any:
        total = 0.0
        for k in range(ops // 15):
            h = np.tanh(w @ h + b)
            s = np.sum(h * h) + 1.0 + k
            h = np.where(h > 0.1, h / s, np.exp(h)) - np.mean(h)
            h = np.concatenate([h[1:], h[:1]])
            total = total + s
        return total + np.sum(h)

    rng = np.random.default_rng(0)
    return Program(mixed, (rng.normal(size=8), rng.normal(size=(8, 8)) / 4, rng.normal(size=8)))


def scalar_writes(n: int) -> Program:
    """An array filled element by element in a loop."""

    def writes(x: Any) -> Any:
        b = np.zeros_like(x)
        for i in range(n):
            b[i] = x[i] ** 2
        return np.sum(b * x)

    return Program(writes, (np.linspace(0.0, 1.0, n),))


def scalar_reads(n: int) -> Program:
    """An array read element by element in a loop."""

    def reads(x: Any) -> Any:
        s = 0.0
        for i in range(n):
            s = s + np.sin(x[i])
        return s

    return Program(reads, (np.linspace(0.0, 1.0, n),))


# ---------------------------------------------------------------- functions people write


def rosenbrock(x: Any) -> Any:
    """The banana function."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic_regression(w: Any, x: Any, y: Any) -> Any:
    """Penalised log-likelihood of labels ±1."""
    return np.mean(np.log1p(np.exp(-y * (x @ w)))) + 0.01 * np.sum(w**2)


def network(w1: Any, w2: Any, w3: Any, x: Any, y: Any) -> Any:
    """Squared error of two hidden layers."""
    hidden = np.tanh(np.tanh(x @ w1) @ w2)
    return np.mean((hidden @ w3 - y) ** 2)


def cross_entropy(z: Any, labels: Any) -> Any:
    """Cross entropy of scores, row by row."""
    shifted = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(
        np.sum(labels * (shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))), axis=1)
    )


def mixture(mu: Any, sigma: Any, x: Any) -> Any:
    """Log-likelihood of a mixture of normal distributions."""
    t = (x[:, None] - mu) / sigma
    return np.sum(np.log(np.sum(np.exp(-0.5 * t**2) / sigma, axis=1)))


def nbody_energy(position: Any, mass: Any) -> Any:
    """Potential energy of masses with softened gravity."""
    apart = position[:, None, :] - position[None, :, :]
    distance = np.sqrt(np.sum(apart**2, axis=-1) + 1e-3)
    return -0.5 * np.sum(mass[:, None] * mass[None, :] / distance)


def pendulum(angle: Any, speed: Any) -> Any:
    """Energy after a hundred steps of the symplectic Euler method."""
    for _ in range(100):
        speed = speed - 0.05 * np.sin(angle)
        angle = angle + 0.05 * speed
    return 0.5 * speed**2 - np.cos(angle)


def horner(x: Any) -> Any:
    """A polynomial of degree fifty."""
    total = 0.0
    for k in range(50):
        total = total * x + 1.0 / (k + 1)
    return total


def gaussian_process(scale: Any, x: Any, y: Any) -> Any:
    """Log marginal likelihood with a squared exponential kernel."""
    k = np.exp(-0.5 * ((x[:, None] - x[None, :]) / scale) ** 2) + 0.1 * np.eye(len(x))
    return -0.5 * y @ np.linalg.solve(k, y) - 0.5 * np.linalg.slogdet(k)[1]


def _functions() -> dict[str, Program]:
    rng = np.random.default_rng(1)
    n, m = rng.normal, np.abs
    return {
        "rosenbrock": Program(rosenbrock, (n(size=10),)),
        "logistic regression": Program(
            logistic_regression, (n(size=4), n(size=(20, 4)), np.sign(n(size=20)))
        ),
        "network": Program(network, (n(size=(4, 8)), n(size=(8, 8)), n(size=8), n(size=(20, 4)), n(size=20))),
        "cross entropy": Program(cross_entropy, (n(size=(20, 5)), np.eye(5)[rng.integers(0, 5, 20)])),
        "mixture": Program(mixture, (n(size=3), m(n(size=3)) + 0.5, n(size=50))),
        "n-body energy": Program(nbody_energy, (n(size=(10, 3)), m(n(size=10)))),
        "pendulum": Program(pendulum, (np.float64(0.5), np.float64(0.1))),
        "horner": Program(horner, (np.float64(0.5),)),
        "gaussian process": Program(gaussian_process, (np.float64(1.0), np.linspace(0, 3, 8), n(size=8))),
    }


FUNCTIONS: dict[str, Program] = _functions()
"""Programs by name; all their floating-point arguments are differentiated, except those of `HELD`."""

HELD: dict[str, int] = {
    "logistic regression": 2, "network": 2, "cross entropy": 1, "mixture": 1, "n-body energy": 1,
    "gaussian process": 2,
}  # fmt: skip
"""How many of the last arguments are data, and held constant."""


def wrt(name: str) -> list[int]:
    """Which arguments of a program are differentiated."""
    return list(range(len(FUNCTIONS[name].args) - HELD.get(name, 0)))


# ---------------------------------------------------------------- calls


def ten_ops(number: float) -> Function:
    """A fresh function of ten operations."""
    return lambda x: np.sum(np.sin(x) * np.exp(-x * x) + number * x / (1.0 + np.cos(x) ** 2))


def doubled(y: Any) -> Any:
    """Doubling until the norm exceeds a bound: the number of rounds depends on the data."""
    while np.linalg.norm(y) < 1000:
        y = y * 2
    return np.sum(y)


ROUNDS = (5, 0, 11, 3, 8, 1, 10, 6, 2, 9, 4, 7)
"""How many rounds of :func:`doubled` its inputs take."""


def doubled_inputs() -> list[np.ndarray[Any, Any]]:
    """Inputs that take 0 to 11 rounds of :func:`doubled`, one each."""
    direction = np.linspace(1.0, 2.0, 10)
    direction /= np.linalg.norm(direction)
    return [direction * 1500.0 / 2.0**rounds for rounds in ROUNDS]
