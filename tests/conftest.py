"""What every test shares: a cache folder of its own, golden files, and knowing whether a compiler works."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

_OWN_CACHE = pytest.StashKey[str]()
HAS_COMPILER = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write golden files instead of comparing")


def compiler_works() -> bool:
    """Try the compiler that symgrad would take on a file of one line."""
    named = os.environ.get("SYMGRAD_CC") or os.environ.get("CC")
    command = next(filter(None, map(shutil.which, [named] if named else ["cc", "gcc", "clang"])), None)
    if command is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <math.h>\ndouble probe(double x) { return sin(x); }\n", encoding="ascii")
        line = [command, "-shared", "-fPIC", str(source), "-o", str(Path(folder, "probe.so")), "-lm"]
        return subprocess.run(line, capture_output=True, check=False).returncode == 0


def pytest_configure(config: pytest.Config) -> None:
    # The environment, not a fixture: symgrad may read it while test modules are collected, and subprocesses
    # inherit it. Workers of a parallel run share the folder of the process that started them.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.mkdtemp(prefix="symgrad-tests-")
        config.stash[_OWN_CACHE] = folder
        os.environ["SYMGRAD_CACHE_DIR"] = folder
    config.stash[HAS_COMPILER] = compiler_works()
    if not config.stash[HAS_COMPILER]:
        # Expected on such a machine; the tests of the warning itself catch it with pytest.warns.
        config.addinivalue_line("filterwarnings", "ignore::symgrad.errors.CompilerWarning")


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_OWN_CACHE, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.stash[HAS_COMPILER]:
        return
    for item in items:
        if item.get_closest_marker("c_backend") is not None:
            item.add_marker(pytest.mark.skip(reason="no working C compiler on this machine"))


@pytest.fixture
def has_compiler(pytestconfig: pytest.Config) -> bool:
    """Whether a C compiler works here."""
    return pytestconfig.stash[HAS_COMPILER]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with ``goldens/<name>`` beside the test file, or write it there with ``--update``."""
    folder = request.path.parent / "goldens"

    def compare(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"no golden file {path}; write it with: pytest --update {request.path}"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; if so intended: pytest --update"

    return compare
