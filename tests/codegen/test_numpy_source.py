"""The NumPy backend: buffers that are no longer needed are overwritten, those still to be read are not."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.numpy_source import BUFFER_BYTES

LARGE = BUFFER_BYTES // 8


def energy(p):
    d = p[:, None, :] - p[None, :, :]
    return -0.5 * np.sum(1 / np.sqrt(np.sum(d * d, axis=-1) + 0.01))


def test_forces_between_many_bodies():
    p = np.random.default_rng(0).normal(size=(200, 3))
    d = p[:, None] - p[None]
    attraction = np.sum(d / (np.sum(d * d, -1) + 0.01)[..., None] ** 1.5, axis=1)
    with sg.config(backend="numpy"):
        np.testing.assert_allclose(sg.grad(energy)(p), attraction, rtol=1e-12, atol=1e-12)


def sum_behind_its_array(x):
    y = x * 3
    return np.exp(-y) * 2 + np.sum(y)  # the sum is written inside its only user, behind the last array that needs y


def sum_before(x):
    y = x * 3
    total = np.sum(y)
    return np.exp(-y) * 2 + total


def nested_sums_behind_their_array(x):
    y = x * 3
    shift = 1 / (1 + np.sum(y * y) + np.max(y))
    z = np.sin(y)
    return (z * z - z) * shift


def two_arrays_that_die_apart(x):
    y, z = x * 3, x - 1
    low = np.min(y)
    u = np.cos(y) * z
    high = np.max(z)
    return (u * 2 + u) / (high - low)


@pytest.mark.parametrize(
    "f", [sum_before, sum_behind_its_array, nested_sums_behind_their_array, two_arrays_that_die_apart],
    ids=lambda f: f.__name__,
)  # fmt: skip
@pytest.mark.parametrize("size", [8, LARGE, LARGE + 1])
def test_what_is_still_to_be_read_is_not_overwritten(f, size):
    x = np.linspace(-1.0, 1.5, size)
    kept = x.copy()
    np.testing.assert_allclose(sg.compile(f, backend="numpy")(x), f(x), rtol=1e-13)
    np.testing.assert_array_equal(x, kept)


def test_buffers_are_used_again():
    x = np.linspace(-1.0, 1.5, LARGE)
    # Negative, exponential, product and sum all go into y, unless y is read once more: then the first is new.
    for f, count in ((sum_before, 4), (sum_behind_its_array, 3)):
        compiled = sg.compile(f, backend="numpy")
        compiled(x)
        assert compiled.source("numpy").count("out=") == count
