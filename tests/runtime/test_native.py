"""Loading kernels, and building the compiled call path or doing without it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from symgrad.codegen import cache_folder
from symgrad.codegen.cache import get_or_build
from symgrad.errors import CompilerError, CompilerWarning
from symgrad.runtime import dispatch_python, native
from symgrad.runtime.native import LoadedKernel, load_kernel
from tests.runtime.kernels import PYFLOAT, TEN, TEN_OUT, Slow

pytestmark = pytest.mark.c_backend


def test_a_loaded_kernel_knows_its_workspace(library: Path) -> None:
    kernel = load_kernel(library, "large_workspace")
    assert isinstance(kernel, LoadedKernel)
    assert kernel.workspace_bytes == 800000
    assert kernel.address != 0


def test_loading_what_is_not_there(library: Path, tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="cannot load the kernel absent"):
        load_kernel(library, "absent")
    with pytest.raises(CompilerError, match="cannot load the kernel f"):
        load_kernel(tmp_path / "absent.so", "f")
    (tmp_path / "garbage.so").write_bytes(b"garbage")
    with pytest.raises(CompilerError, match="cannot load the kernel f"):
        load_kernel(tmp_path / "garbage.so", "f")


def test_make_dispatcher(library: Path) -> None:
    kernel = load_kernel(library, "squares")
    outputs = [PYFLOAT, TEN_OUT]
    call = native.make_dispatcher(kernel, [TEN], outputs, "tuple", Slow(), name="squares")
    assert call(np.ones(10))[0] == 10.0
    assert repr(call) == "<Dispatcher squares>"
    assert type(call).__module__ == "symgrad.runtime._dispatch"


# ---- without the compiled call path -----------------------------------------------------------------------


@pytest.fixture
def unbuilt() -> Iterator[None]:
    cache_folder.reset()
    native.reset()
    yield
    cache_folder.reset()
    native.reset()


@pytest.mark.usefixtures("unbuilt")
def test_without_a_compiler_python_takes_over_after_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMGRAD_CC", "/nowhere/cc")
    with pytest.warns(CompilerWarning, match="names no program") as caught:
        assert native.dispatcher_type() is dispatch_python.Dispatcher
    assert len(caught) == 1
    assert native.call_front_type() is dispatch_python.CallFront


@pytest.mark.usefixtures("unbuilt")
def test_without_python_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = {**sysconfig.get_paths(), "include": str(tmp_path)}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)
    with pytest.warns(CompilerWarning, match=r"C headers are missing.*python3-dev"):
        assert native.native_module() is None


@pytest.mark.usefixtures("unbuilt")
def test_a_python_without_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    original = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or original(name))
    with pytest.warns(CompilerWarning, match="relies on the GIL"):
        assert native.native_module() is None


@pytest.mark.usefixtures("unbuilt")
def test_another_implementation_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "why_not_native", lambda: "it needs CPython, not pypy")
    with pytest.warns(CompilerWarning, match="needs CPython"):
        assert native.native_module() is None


@pytest.mark.subprocess
def test_the_call_path_is_built_once_for_all_processes() -> None:
    assert native.native_module() is not None
    code = (
        "from symgrad.codegen.cache import default_cache; from symgrad.runtime import native;"
        "assert native.native_module() is not None; s = default_cache().stats(); print(s.hits, s.builds)"
    )
    line = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout.split() == ["1", "0"]


def test_the_c_source_is_free_of_warnings(tmp_path: Path) -> None:
    folder = Path(native.__file__).parent
    source = "".join((folder / name).read_text() for name in native._SOURCES)
    # Headers of Python and NumPy are not ours to judge; casts of methods are how CPython's tables are filled.
    flags = native._extension_flags()
    includes = [flag.replace("-I", "-isystem", 1) for flag in flags if flag.startswith("-I")]
    allowed = ["-Wno-missing-field-initializers", "-Wno-cast-function-type"]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", *allowed, *includes]
    get_or_build(source, "portable", strict, native._extension_libs())
