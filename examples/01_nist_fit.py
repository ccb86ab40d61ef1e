"""Fit five NIST reference data sets with exact, compiled gradients.

Run it with ``python examples/01_nist_fit.py``; name data sets to fit only those, and add ``--source`` to
see all of the generated C. The exit status is 1 if any fit agrees with NIST to fewer than six digits.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import minimize, root

import symgrad as sg

DATA = Path(__file__).parent / "data"
REQUIRED_DIGITS = 6.0
CERTIFIED_DIGITS = 11.0  # NIST prints no more
EXCERPT_LINES = 60


# ---- the losses: plain NumPy, the residual sums of squares of the models that the .dat files state ----


def misra1a(b1, b2, x, y):
    """Monomolecular adsorption."""
    return np.sum((y - b1 * (1 - np.exp(-b2 * x))) ** 2)


def chwirut2(b1, b2, b3, x, y):
    """Ultrasonic calibration."""
    return np.sum((y - np.exp(-b1 * x) / (b2 + b3 * x)) ** 2)


def eckerle4(b1, b2, b3, x, y):
    """Circular interference transmittance."""
    return np.sum((y - b1 / b2 * np.exp(-0.5 * ((x - b3) / b2) ** 2)) ** 2)


def thurber(b1, b2, b3, b4, b5, b6, b7, x, y):
    """Electron mobility in a semiconductor."""
    upper = b1 + b2 * x + b3 * x**2 + b4 * x**3
    lower = 1 + b5 * x + b6 * x**2 + b7 * x**3
    return np.sum((y - upper / lower) ** 2)


def rat43(b1, b2, b3, b4, x, y):
    """Growth of onion bulbs."""
    return np.sum((y - b1 / (1 + np.exp(b2 - b3 * x)) ** (1 / b4)) ** 2)


PROBLEMS: dict[str, Callable[..., float]] = {
    "Misra1a": misra1a,
    "Chwirut2": chwirut2,
    "Eckerle4": eckerle4,
    "Thurber": thurber,
    "Rat43": rat43,
}


# ---- reading a .dat file ----


@dataclass(frozen=True)
class Reference:
    """What one NIST file holds."""

    names: list[str]
    starts: dict[int, np.ndarray]
    certified: np.ndarray
    certified_rss: float
    x: np.ndarray
    y: np.ndarray


def read_reference(path: Path) -> Reference:
    """Take the starts, the certified values and the data out of a NIST StRD file."""
    text = path.read_text(encoding="ascii")
    rows = re.findall(r"^\s*(b\d+)\s*=\s*(\S+)\s+(\S+)\s+(\S+)\s+\S+\s*$", text, re.MULTILINE)
    columns = np.array([[float(number) for number in row[1:]] for row in rows]).T
    rss = re.search(r"^Residual Sum of Squares:\s*(\S+)", text, re.MULTILINE)
    span = re.search(r"^\s*Data\s+\(lines\s+(\d+)\s+to\s+(\d+)\)", text, re.MULTILINE)
    if not rows or rss is None or span is None:
        raise ValueError(f"{path} is no NIST StRD nonlinear-regression file")
    first, last = int(span[1]), int(span[2])
    data = np.array([line.split() for line in text.splitlines()[first - 1 : last]], dtype=float)
    return Reference(
        names=[row[0] for row in rows],
        starts={1: columns[0], 2: columns[1]},
        certified=columns[2],
        certified_rss=float(rss[1]),
        x=data[:, 1],
        y=data[:, 0],
    )


# ---- fitting ----


def fit(value_and_grad: Callable[..., tuple], ref: Reference, start: np.ndarray) -> tuple[np.ndarray, int]:
    """Minimise the loss from ``start``; return the parameters and the number of evaluations.

    The parameters differ by up to six orders of magnitude, so L-BFGS-B works on parameters divided by a tenth
    of their starting values: its first step then changes none by more than a tenth. Comparing values of
    a loss settles about half of the digits of a double; the rest come from solving "gradient = 0".
    """
    scale = np.abs(start) / 10
    unit = value_and_grad(*start, ref.x, ref.y)[0]

    def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_grad(*(u * scale), ref.x, ref.y)
        return value / unit, np.array(gradient) * scale / unit

    options = {"maxcor": 50, "ftol": 0.0, "gtol": 1e-12, "maxiter": 2000}
    lowest = minimize(scaled, start / scale, jac=True, method="L-BFGS-B", options=options)
    stationary = root(lambda u: scaled(u)[1], lowest.x, options={"xtol": 1e-14})
    return stationary.x * scale, lowest.nfev + stationary.nfev


def digits_agreed(found: np.ndarray, certified: np.ndarray) -> np.ndarray:
    """Count the significant decimal digits to which two arrays agree."""
    error = np.abs(found - certified) / np.abs(certified)
    return np.minimum(CERTIFIED_DIGITS, -np.log10(np.maximum(error, 10.0**-CERTIFIED_DIGITS)))


# ---- showing ----


def show_formulas(loss: Callable[..., float], ref: Reference) -> None:
    """Print the loss and its derivative with respect to each parameter."""
    arguments = [*ref.starts[2], ref.x, ref.y]
    print("\n  the loss")
    print_indented(str(sg.formula(loss, *arguments)))
    for name in ref.names:
        print(f"\n  its derivative with respect to {name}")
        print_indented(str(sg.formula(loss, *arguments, wrt=name)))


def show_check(loss: Callable[..., float], ref: Reference) -> None:
    """Print how the exact derivatives compare with finite differences at start 2."""
    of_parameters = partial(loss, x=ref.x, y=ref.y)
    print("\n  compared with finite differences, at start 2")
    print_indented(str(sg.check_grads(of_parameters, tuple(ref.starts[2]), order=1)))


def show_source(source: str, everything: bool, name: str) -> None:
    """Print the generated C, or the beginning of its kernel."""
    lines = source.splitlines()
    kernel = next(number for number, line in enumerate(lines) if line.startswith("int "))
    shown = lines if everything else lines[kernel : kernel + EXCERPT_LINES]
    print(f"\n  generated C for value and gradient ({len(lines)} lines)")
    print_indented("\n".join(shown))
    if len(shown) < len(lines):
        print(f"    … all of it: python examples/01_nist_fit.py {name} --source")


def print_indented(text: str) -> None:
    """Print a block of text four columns in."""
    print("\n".join(f"    {line}".rstrip() for line in text.splitlines()))


def solve(name: str, with_source: bool, all_source: bool) -> float:
    """Fit one data set from its starts, print everything about it and return the fewest digits agreed."""
    loss = PROBLEMS[name]
    ref = read_reference(DATA / f"{name}.dat")
    value_and_grad = sg.value_and_grad(loss, argnums=tuple(range(len(ref.names))))

    print(f"\n== {name}: {loss.__doc__} {ref.y.size} observations, {len(ref.names)} parameters")
    worst = CERTIFIED_DIGITS
    for number, start in ref.starts.items():
        found, evaluations = fit(value_and_grad, ref, start)
        rss = value_and_grad(*found, ref.x, ref.y)[0]
        digits = digits_agreed(found, ref.certified)
        worst = min(worst, digits.min())
        print(f"\n  from start {number}: {evaluations} evaluations of value and gradient")
        print(f"    {'parameter':<10}{'start':>10}{'found':>20}{'certified':>20}{'digits':>8}")
        for row in zip(ref.names, start, found, ref.certified, digits, strict=True):
            print("    {:<10}{:>10g}{:>20.10e}{:>20.10e}{:>8.1f}".format(*row))
        print(f"    {'sum of squares':<20}{rss:>20.10e}{ref.certified_rss:>20.10e}")

    show_formulas(loss, ref)
    show_check(loss, ref)
    if with_source:
        show_source(value_and_grad.source("c"), all_source, name)
    return float(worst)


def main(arguments: list[str]) -> int:
    """Fit the data sets asked for."""
    parser = argparse.ArgumentParser(description="Fit NIST reference data with exact, compiled gradients.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROBLEMS)} (default: all)")
    parser.add_argument("--source", action="store_true", help="print all of the generated C")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PROBLEMS)
    if unknown:
        parser.error(f"no data set is called {', '.join(sorted(unknown))}")

    names = options.names or list(PROBLEMS)
    digits = {}
    for name in names:
        with_source = options.source or name == names[0]
        digits[name] = solve(name, with_source=with_source, all_source=options.source)
    print("\n== fewest digits that agree with NIST's certified parameters")
    for name, count in digits.items():
        print(f"  {name:<10}{count:>5.1f}")
    reached = min(digits.values()) >= REQUIRED_DIGITS
    print(f"{'every' if reached else 'FAILED: not every'} fit agrees to six digits or more")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
