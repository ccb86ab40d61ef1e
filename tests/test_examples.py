"""Every example runs as a script and prints what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DATA_SETS = {"Misra1a": 2, "Chwirut2": 3, "Eckerle4": 3, "Thurber": 7, "Rat43": 4}


def run(name: str, *arguments: str) -> str:
    """Output of one example, run from another folder as a user would; it must exit with status 0."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def number_after(label: str, text: str) -> float:
    found = re.search(re.escape(label) + r"\s*(-?[\d.]+(?:e[-+]?\d+)?)", text)
    assert found, f"{label!r} is not in the output"
    return float(found[1])


def test_every_example_is_tested() -> None:
    tested = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


@pytest.fixture(scope="module")
def nist() -> str:
    return run("01_nist_fit.py")


@pytest.mark.parametrize("name", DATA_SETS)
def test_nist_fits_reach_the_certified_parameters(nist: str, name: str) -> None:
    section = nist.split(f"\n== {name}:")[1].split("\n==", maxsplit=1)[0]
    rows = re.findall(r"^    b\d+ +(\S+) +(\S+) +(\S+) +(\S+)$", section, re.MULTILINE)
    assert len(rows) == 2 * DATA_SETS[name]  # two starts
    _, found, certified, _ = np.array(rows, dtype=float).T
    assert np.all(np.abs(found - certified) <= 1e-6 * np.abs(certified))
    # The certified column is the file's own, wherever the program took it from.
    text = (EXAMPLES / "data" / f"{name}.dat").read_text(encoding="ascii")
    in_file = {float(value) for value in re.findall(r"\d\.\d{10}E[+-]\d\d", text)}
    assert set(certified) <= in_file


@pytest.mark.parametrize("name", DATA_SETS)
def test_nist_output_shows_formulas_and_check(nist: str, name: str) -> None:
    section = nist.split(f"\n== {name}:")[1].split("\n==", maxsplit=1)[0]
    for number in range(1, DATA_SETS[name] + 1):
        assert f"its derivative with respect to b{number}\n" in section
    assert "compared with finite differences" in section


def test_nist_output_shows_the_source(nist: str) -> None:
    assert "generated C for value and gradient" in nist
    whole = run("01_nist_fit.py", "Misra1a", "--source")
    assert "for (" in whole
    assert "exp(" in whole
    assert "all of it" not in whole


def test_nist_rejects_an_unknown_data_set() -> None:
    with pytest.raises(AssertionError, match="no data set is called Misra9z"):
        run("01_nist_fit.py", "Misra9z")


def test_scalar_derivatives() -> None:
    output = run("02_scalar_derivatives.py")
    t = 1.2
    first = np.exp(-t / 2) * (3 * np.cos(3 * t) - np.sin(3 * t) / 2)
    second = -first - 37 / 4 * np.exp(-t / 2) * np.sin(3 * t)
    assert number_after("first derivative", output) == pytest.approx(first, rel=1e-13)
    assert number_after("second", output) == pytest.approx(second, rel=1e-13)
    assert "exp" in output
    assert "cos" in output


def test_logistic_regression() -> None:
    output = run("03_logistic_regression.py")
    losses = [float(value) for value in re.findall(r"loss (\d\.\d+)", output)]
    assert losses[0] == pytest.approx(np.log(2), abs=1e-12)
    assert losses == sorted(losses, reverse=True)
    sizes = [float(value) for value in re.findall(r"gradient (\S+)$", output, re.MULTILINE)]
    assert sizes[-1] < 1e-8
    assert number_after("sum of probabilities", output) == pytest.approx(
        number_after("ones among the labels", output), abs=1e-5
    )
