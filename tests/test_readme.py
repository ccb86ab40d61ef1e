"""README.md does what it shows: its Python runs and prints what is printed there."""

from __future__ import annotations

import doctest
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[int, str]]:
    """Line numbers and contents of the fenced blocks of one language."""
    found = [m for m in BLOCK.finditer(TEXT) if m[2] == language]
    return [(TEXT.count("\n", 0, m.start()) + 1, textwrap.dedent(m[3])) for m in found]


def test_python_blocks_print_what_they_show() -> None:
    sessions = blocks("python")
    assert len(sessions) >= 5
    namespace: dict[str, object] = {}
    report: list[str] = []
    for line, session in sessions:
        assert session.startswith(">>> "), f"README.md:{line}: a block that shows no session is not executed"
        test = doctest.DocTestParser().get_doctest(session, namespace, f"README.md:{line}", "README.md", line)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=report.append, clear_globs=False)
        namespace = test.globs
    assert not report, "".join(report)


def test_two_commands_set_everything_up() -> None:
    commands = [text for _, text in blocks("sh")]
    assert len(commands) == 2
    job, tests = commands
    assert job.count("\n") == tests.count("\n") == 1
    assert "examples/01_nist_fit.py" in job
    assert tests.rstrip().endswith("-m pytest -q")


def test_links_lead_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in target]
    assert targets
    assert not [target for target in targets if not (ROOT / target.partition("#")[0]).exists()]
