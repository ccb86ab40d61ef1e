"""Use an installed wheel as a stranger would: both backends, generated source, no checkout in sight."""

import sys
import warnings
from pathlib import Path

import numpy as np

import symgrad as sg
from symgrad.core.resources import template_dir


def loss(w, features, targets):
    """Mean squared error behind a saturating unit."""
    return np.mean((np.tanh(features @ w) - targets) ** 2)


def main() -> int:
    """Compare a gradient with the one worked by hand."""
    installed = Path(sg.__file__).resolve().parent
    assert installed.is_relative_to(Path(sys.prefix).resolve()), f"{installed} is not the installed wheel"
    assert template_dir().is_relative_to(installed), template_dir()

    rng = np.random.default_rng(3)
    w, features, targets = rng.normal(size=4), rng.normal(size=(20, 4)), rng.normal(size=20)
    unit = np.tanh(features @ w)
    expected = features.T @ (2 / 20 * (unit - targets) * (1 - unit**2))
    for backend in ("numpy", "c"):
        gradient = sg.compile(sg.grad(loss), backend=backend)
        with warnings.catch_warnings():
            # Without a compiler NumPy answers, and says so.
            warnings.simplefilter("ignore", sg.errors.CompilerWarning)
            found = gradient(w, features, targets)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        assert gradient.source(backend)
        print(f"wheel: gradient is right on the {backend} backend")
    return 0


if __name__ == "__main__":
    sys.exit(main())
