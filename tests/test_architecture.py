"""The shape of the house: layers, no hidden imports, small files, one place for the names of operations."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import symgrad
import symgrad.ops  # fills the table of operations
from symgrad.core.op import OPS
from symgrad.core.resources import template_dir

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "symgrad"
MAX_LINES = 600

# Every room and its layer. A room is a subpackage of symgrad or a module directly in it; two rooms of one
# layer are siblings and do not import each other. errors lies below core, which raises them.
LAYERS: dict[str, float] = {
    "errors": -1,
    "core": 0,
    "ops": 1,
    "tracing": 2,
    "transforms": 2,
    "lowering": 3,
    "codegen": 4,
    "formula": 4,
    "runtime": 5,
    "checking": 5,
    "autograd": 5,
    "numpy": 6,
    "scipy": 6,
    "api": 7,
    "cli": 8,
    "__init__": 9,
    "__main__": 10,
}

# Third-party packages that symgrad can use but does not depend on: these may be imported inside a function.
OPTIONAL_PACKAGES = {"IPython", "matplotlib", "threadpoolctl"}

# The only places, besides ops/, where an operation is called by the string that is its name: the tables by
# which Python's operators and NumPy's functions become operations, and the rewrite rules with their parser.
NAMES_ALLOWED_IN = {
    "core/expr.py",
    "tracing/protocol.py",
    "tracing/tracer.py",
    "tracing/writing.py",
    "transforms/patterns.py",
    "transforms/rewrite.py",
    "transforms/rules.py",
}

# Strings that are the name of an operation by accident.
HOMONYMS = {
    "lowering": {"gather"},  # a kind of value in a Program
    "codegen": {"gather"},  # same
    "codegen/vector_math.py": {"sin", "cos"},  # functions of C
    "lowering/structure.py": {"floor", "ceil", "trunc", "rint", "copysign", "sqrt"},  # functions of C
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """The room of a dotted module name that starts with symgrad."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_package(name: str) -> bool:
    return (ROOT / Path(*name.split(".")) / "__init__.py").exists()


def imported_modules(path: Path, tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Absolute names of all modules that a file imports, however it does so, with the line."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            for alias in node.names:
                # `from ..core import expr` names a module, `from ..core.expr import Expr` does not.
                inner = f"{base}.{alias.name}"
                is_module = base.startswith("symgrad") and (
                    is_package(inner) or (ROOT / Path(*inner.split("."))).with_suffix(".py").exists()
                )
                yield (inner if is_module else base), node.lineno
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__", "lazy_import", "LazyModule"} and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value, node.lineno


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in modules()}


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(dotted(path)) for path in modules()}
    assert rooms <= set(LAYERS), f"give a layer to {sorted(rooms - set(LAYERS))}"


def test_imports_point_downwards(trees: dict[Path, ast.Module]) -> None:
    wrong = []
    for path, tree in trees.items():
        room = room_of(dotted(path))
        for name, line in imported_modules(path, tree):
            if name.split(".")[0] != "symgrad":
                continue
            target = room_of(name)
            if target != room and LAYERS[target] >= LAYERS[room]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_no_import_hides_in_a_function(trees: dict[Path, ast.Module]) -> None:
    hidden = []
    for path, tree in trees.items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = ["symgrad" if node.level else str(node.module)]
                else:
                    continue
                bad = [name for name in names if name.split(".")[0] not in OPTIONAL_PACKAGES]
                hidden += [f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in bad]
    assert not hidden, "\n".join(hidden)


def test_the_import_scanner_sees_every_form(tmp_path: Path) -> None:
    # Guards the two tests above: a scanner that sees nothing would let everything pass.
    source = (
        "import symgrad.api\n"
        "from . import graph\n"
        "from ..errors import ShapeError\n"
        "from .. import ops\n"
        "lazy_import('symgrad.codegen')\n"
    )
    found = {name for name, _ in imported_modules(PACKAGE / "core" / "aval.py", ast.parse(source))}
    assert found == {"symgrad.api", "symgrad.core.graph", "symgrad.errors", "symgrad.ops", "symgrad.codegen"}


def test_no_file_is_long() -> None:
    folders = [PACKAGE, ROOT / "tests", ROOT / "examples", ROOT / "codegen_templates", ROOT / ".ci"]
    kinds = {".py", ".c", ".h", ".j2", ".jinja", ".sh", ".toml", ".md"}
    sizes = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in kinds and "goldens" not in path.parts
    }
    assert len(sizes) > 20
    long = {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > MAX_LINES}
    assert not long, f"split these files: {long}"


def op_name_strings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """String constants that are the name of an operation, except in docstrings and ``__all__``."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            skipped.update(id(inner) for inner in ast.walk(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            op = OPS.get(node.value)
            if op is not None and op.kind != "leaf":
                yield node.value, node.lineno


def test_operations_are_named_in_one_place(trees: dict[Path, ast.Module]) -> None:
    named = []
    for path, tree in trees.items():
        place = path.relative_to(PACKAGE).as_posix()
        # symgrad.numpy and symgrad.scipy are lists of NumPy's and SciPy's names, which operations share.
        if place.split("/")[0] in {"ops", "numpy", "scipy"} or place in NAMES_ALLOWED_IN:
            continue
        meant_otherwise = HOMONYMS.get(place, set()) | HOMONYMS.get(place.split("/")[0], set())
        named += [
            f"symgrad/{place}:{line}: {name!r}"
            for name, line in op_name_strings(tree)
            if name not in meant_otherwise
        ]
    assert len(OPS) > 50
    assert not named, "\n".join(named)


@pytest.mark.parametrize("name", sorted(getattr(symgrad, "__all__", [])))
def test_public_names_are_documented(name: str) -> None:
    value = getattr(symgrad, name)
    if name == "__version__":
        return
    doc = inspect.getdoc(value)
    assert doc, f"symgrad.{name} has no docstring"
    if inspect.ismodule(value) or (isinstance(value, type) and issubclass(value, Exception)):
        return  # what raises an error is shown where it is raised
    assert ">>>" in doc, f"the docstring of symgrad.{name} shows no example"


def test_public_surface_is_declared() -> None:
    assert len(symgrad.__all__) == len(set(symgrad.__all__))
    assert {"grad", "value_and_grad", "vjp", "jvp", "compile", "trace", "formula", "check_grads"} <= set(
        symgrad.__all__
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_module_has_a_docstring(path: Path) -> None:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert doc, f"{path} does not say what it is for"


def test_importing_symgrad_loads_no_heavy_package() -> None:
    code = "import sys, symgrad; print(sorted({'scipy', 'sympy', 'jinja2', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_templates_are_found() -> None:
    assert template_dir().is_dir()
    assert list(template_dir().rglob("*.*"))


def test_the_wheel_carries_templates_and_native_source(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    folder = ROOT / "codegen_templates"
    templates = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert {f"symgrad/_templates/{name}" for name in templates} <= names
    kinds = {".py", ".c", ".h", ".typed"}
    sources = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*") if path.suffix in kinds}
    assert sources <= names
    assert "symgrad/py.typed" in names
    assert wheel.endswith("-py3-none-any.whl")


def test_project_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == symgrad.__version__
    assert project["requires-python"] == ">=3.11"
