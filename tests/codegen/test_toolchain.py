"""The compiler: how it is found, which flags it gets, and every way it can fail."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symgrad.codegen import process, shared_object, toolchain
from symgrad.codegen.process import Job, run_jobs, run_one
from symgrad.codegen.toolchain import Toolchain, compile_shared, find_toolchain
from symgrad.errors import CompilerError

needs_compiler = pytest.mark.c_backend

Script = Callable[[str], Path]


@pytest.fixture(autouse=True)
def fresh_search(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("SYMGRAD_CC", "CC", "SYMGRAD_CFLAGS", "SYMGRAD_CC_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    toolchain.reset()
    yield
    toolchain.reset()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Make an executable shell script."""

    def make(body: str, name: str = "fakecc") -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return make


@needs_compiler
def test_a_system_compiler_is_found_and_described() -> None:
    found = find_toolchain()
    assert found is not None
    assert found.kind in ("gcc", "clang", "other")
    assert os.access(found.path, os.X_OK)
    assert not Path(found.path).is_symlink()
    assert found.path in found.identity
    assert found.version in found.identity
    assert find_toolchain() is found


def test_symgrad_cc_comes_before_cc_and_is_split_like_a_shell(
    monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    mine = script('echo "clang version 99.0"', "my cc")
    other = script('echo "other 1.0"', "other")
    monkeypatch.setenv("CC", str(other))
    monkeypatch.setenv("SYMGRAD_CC", f"'{mine}' -m64 --sysroot=/x")
    found = find_toolchain()
    assert found is not None
    assert found.command == (str(mine), "-m64", "--sysroot=/x")
    assert found.kind == "clang"
    assert found.version == "clang version 99.0"
    assert "-m64" in found.identity


def test_cc_is_used_without_symgrad_cc(monkeypatch: pytest.MonkeyPatch, script: Script) -> None:
    monkeypatch.setenv("CC", str(script('echo "strange compiler 7"')))
    found = find_toolchain()
    assert found is not None
    assert (found.kind, found.version) == ("other", "strange compiler 7")


@needs_compiler
def test_a_cc_that_does_not_exist_is_only_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert find_toolchain() is not None


@pytest.mark.parametrize("value", ["/nowhere/cc", "'unbalanced", "none"])
def test_a_symgrad_cc_that_does_not_exist_is_final(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SYMGRAD_CC", value)
    assert find_toolchain() is None
    with pytest.raises(CompilerError, match="SYMGRAD_CC="):
        toolchain.require_toolchain()


def test_no_compiler_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_toolchain() is None
    with pytest.raises(CompilerError, match=r"none of CC, cc, gcc, clang(.|\n)*Install a C compiler"):
        compile_shared("int a;", tmp_path / "a.so")


def test_the_search_notices_that_the_program_was_replaced(
    monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    path = script('echo "version one"')
    monkeypatch.setenv("SYMGRAD_CC", str(path))
    first = find_toolchain()
    path.write_text('#!/bin/sh\necho "version two, longer"\n')
    second = find_toolchain()
    assert first is not None
    assert second is not None
    assert (first.version, second.version) == ("version one", "version two, longer")


def test_a_compiler_without_version_is_identified_by_its_file(
    monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    monkeypatch.setenv("SYMGRAD_CC", str(script("exit 1")))
    found = find_toolchain()
    assert found is not None
    assert found.kind == "other"
    assert found.version.startswith("unversioned ")


def test_gcc_is_known_by_its_copyright(monkeypatch: pytest.MonkeyPatch, script: Script) -> None:
    text = "cc (Distribution 1) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc."
    body = f'if [ "$1" = -dumpmachine ]; then echo some-triple; else echo "{text}"; fi'
    monkeypatch.setenv("SYMGRAD_CC", str(script(body)))
    found = find_toolchain()
    assert found is not None
    assert (found.kind, found.version, found.target) == ("gcc", "cc (Distribution 1) 12.2.0", "some-triple")


@needs_compiler
def test_flags_of_the_tiers() -> None:
    found = find_toolchain()
    assert found is not None
    levels = {"vector": "-O3", "scalar": "-O1", "huge": "-O0", "portable": "-O2"}
    for tier, level in levels.items():
        flags = found.flags(tier)  # type: ignore[arg-type]
        assert level in flags
        assert "-std=c99" in flags
        assert "-fPIC" in flags
        assert not any("fast" in flag for flag in flags)
    assert "-march=native" not in found.flags("portable")
    wide = "-mprefer-vector-width=512"
    assert (wide in found.flags("vector")) <= ("avx512f" in toolchain.cpu_features())
    assert wide not in found.flags("scalar")


@needs_compiler
def test_own_flags_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-DFIRST '-DSECOND=a b'")
    found = find_toolchain()
    assert found is not None
    assert found.flags("scalar")[-2:] == ("-DFIRST", "-DSECOND=a b")


@needs_compiler
def test_flags_the_compiler_rejects_are_left_out_and_the_answer_is_remembered(
    monkeypatch: pytest.MonkeyPatch, script: Script, tmp_path: Path
) -> None:
    real = shutil.which("cc")
    log = tmp_path / "log"
    body = (
        f'echo "$*" >> {log}\n'
        'case "$*" in *-fopenmp-simd*) echo "unknown option" >&2; exit 1;; esac\n'
        f'exec {real} "$@"'
    )
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SYMGRAD_CC", str(script(body)))
    found = find_toolchain()
    assert found is not None
    assert "-fopenmp-simd" not in found.flags("vector")
    assert "-fno-math-errno" in found.flags("vector")
    probes = log.read_text().count(" -c ")
    assert probes > 1
    toolchain.reset()
    again = find_toolchain()
    assert again is not None
    assert again.flags("vector") == found.flags("vector")
    assert log.read_text().count(" -c ") == probes


def test_a_compiler_that_compiles_nothing_is_reported_with_its_words(
    monkeypatch: pytest.MonkeyPatch, script: Script, tmp_path: Path
) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SYMGRAD_CC", str(script('echo "licence expired" >&2; exit 3')))
    with pytest.raises(CompilerError) as caught:
        compile_shared("int a;", tmp_path / "a.so")
    message = str(caught.value)
    assert "ended with code 3" in message
    assert "licence expired" in message
    assert "fakecc" in message
    assert "SYMGRAD_CC" in message
    assert not (tmp_path / "a.so").exists()


@needs_compiler
def test_one_unit_is_compiled_and_linked_with_libm(tmp_path: Path) -> None:
    compile_shared("#include <math.h>\ndouble f(double x) { return erf(x); }", tmp_path / "f.so", "vector")
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    library.f.restype, library.f.argtypes = ctypes.c_double, [ctypes.c_double]
    # erf(0.5), Abramowitz and Stegun, table 7.1
    assert library.f(0.5) == pytest.approx(0.5204998778, abs=1e-10)
    assert [path.name for path in tmp_path.iterdir()] == ["f.so"]
    assert stat.S_IMODE((tmp_path / "f.so").stat().st_mode) == 0o700


@needs_compiler
def test_several_units_are_linked_together(tmp_path: Path) -> None:
    units = [f"int part{i}(void) {{ return {i}; }}" for i in range(5)]
    calls = " + ".join(f"part{i}()" for i in range(5))
    prototypes = " ".join(f"int part{i}(void);" for i in range(5))
    compile_shared([*units, f"{prototypes} int total(void) {{ return {calls}; }}"], tmp_path / "t.so")
    assert ctypes.CDLL(str(tmp_path / "t.so")).total() == 10


@needs_compiler
def test_one_bad_unit_of_several_fails_the_whole(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match=r"unit1\.c"):
        compile_shared(["int a;", "int b = ;", "int c;"], tmp_path / "t.so")
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_extra_flags_reach_the_compiler(tmp_path: Path) -> None:
    compile_shared("int f(void) { return ANSWER; }", tmp_path / "f.so", extra_flags=["-DANSWER=42"])
    assert ctypes.CDLL(str(tmp_path / "f.so")).f() == 42


@needs_compiler
def test_an_error_in_the_source_shows_the_compilers_message(tmp_path: Path) -> None:
    with pytest.raises(CompilerError) as caught:
        compile_shared("int f(void) { return undeclared_name; }", tmp_path / "f.so")
    assert "undeclared_name" in str(caught.value)
    assert "command:" in str(caught.value)


@needs_compiler
def test_long_messages_are_trimmed(tmp_path: Path) -> None:
    source = "\n".join(f"int f{i}(void) {{ return undeclared{i}; }}" for i in range(400))
    with pytest.raises(CompilerError, match="more characters") as caught:
        compile_shared(source, tmp_path / "f.so")
    assert "undeclared0" in str(caught.value)
    assert len(str(caught.value)) < 8000


@needs_compiler
def test_an_undefined_symbol_is_noticed_before_the_file_is_used(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="no_such_function_anywhere"):
        compile_shared(
            "int no_such_function_anywhere(void); int f(void) { return no_such_function_anywhere(); }",
            tmp_path / "f.so",
        )
    assert not (tmp_path / "f.so").exists()


@needs_compiler
@pytest.mark.subprocess
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_no_flag_makes_subnormal_numbers_vanish_in_the_whole_process(tmp_path: Path, flag: str) -> None:
    compile_shared("double f(double x) { return x; }", tmp_path / "f.so", extra_flags=[flag])
    code = f"import ctypes; ctypes.CDLL({str(tmp_path / 'f.so')!r}); x = 1e-310; print(x * 0.5 == 5e-311)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@needs_compiler
def test_no_units_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="no source"):
        compile_shared([], tmp_path / "f.so")


def _fake(path: Path) -> Toolchain:
    # The probe of flags is answered in advance: these tests are about what happens afterwards.
    fake = Toolchain((str(path),), str(path), "other", f"fake {path}", "machine")
    toolchain._accepted[fake.identity, toolchain.cpu_identity()] = frozenset()
    return fake


@needs_compiler
def test_flags_with_an_open_quote_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-DNAME='open")
    with pytest.raises(CompilerError, match=r"SYMGRAD_CFLAGS=.* cannot be divided into flags"):
        compile_shared("int a;", tmp_path / "a.so")


def test_a_compiler_that_hangs_is_asked_once(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    path = script(f"echo x >> {asked}; exec sleep 100")
    fake = Toolchain((str(path),), str(path), "other", f"fake {path}", "machine")
    monkeypatch.setattr(toolchain, "_PROBE_TIMEOUT", 0.5)
    for _ in range(3):
        with pytest.raises(CompilerError, match=r"empty function: it did not end within 0\.5 s"):
            compile_shared("int a;", tmp_path / "a.so", toolchain=fake)
    assert asked.read_text() == "x\n"


def test_control_characters_of_a_compiler_are_not_printed(script: Script, tmp_path: Path) -> None:
    fake = _fake(script("printf 'bad \\033[31mred\\a\\n'; exit 1"))
    with pytest.raises(CompilerError) as caught:
        compile_shared("int a;", tmp_path / "a.so", toolchain=fake)
    assert "bad  [31mred" in str(caught.value)
    assert all(c.isprintable() or c == "\n" for c in str(caught.value))


def test_success_without_output(script: Script, tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="there is no output file"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=_fake(script("exit 0")))


def test_garbage_as_output(script: Script, tmp_path: Path) -> None:
    fake = _fake(script("echo garbage > out.so"))
    with pytest.raises(CompilerError, match="no shared object"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=fake)
    assert not (tmp_path / "a.so").exists()


@needs_compiler
def test_a_truncated_output(script: Script, tmp_path: Path) -> None:
    good = tmp_path / "good.so"
    compile_shared("int a = 3;", good)
    fake = _fake(script(f"head -c 5000 {good} > out.so"))
    with pytest.raises(CompilerError, match="truncated"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=fake)
    for length in (4, 10, 63, 64, 200, 1000):
        (tmp_path / "part.so").write_bytes(good.read_bytes()[:length])
        assert shared_object.why_not_loadable(tmp_path / "part.so") is not None
    assert shared_object.why_not_loadable(good) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_hanging_compiler_is_ended_together_with_its_children(script: Script, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    fake = _fake(script(f"sleep 600 & echo $! > {pids}\necho $$ >> {pids}\nwait"))
    with pytest.raises(CompilerError, match=r"did not end within 0\.5 s"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=fake, timeout=0.5)
    for pid in pids.read_text().split():
        for _ in range(200):
            if not _runs(int(pid)):
                break
            time.sleep(0.01)
        assert not _runs(int(pid))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_limit_can_be_set_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, script: Script, tmp_path: Path
) -> None:
    monkeypatch.setenv("SYMGRAD_CC_TIMEOUT", "0.3")
    with pytest.raises(CompilerError, match=r"did not end within 0\.3 s"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=_fake(script("sleep 600")))
    monkeypatch.setenv("SYMGRAD_CC_TIMEOUT", "soon")
    with pytest.raises(CompilerError, match="SYMGRAD_CC_TIMEOUT='soon'"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=_fake(script("sleep 600", "again")))


def test_a_compiler_that_dies_of_a_signal(script: Script, tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="killed by SIGSEGV"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=_fake(script("kill -SEGV $$")))


def test_a_full_disk_is_told_from_other_failures(script: Script, tmp_path: Path) -> None:
    fake = _fake(script('echo "as: out.o: No space left on device" >&2; exit 1'))
    with pytest.raises(process.NoRoomError, match="No space left"):
        compile_shared("int a;", tmp_path / "a.so", toolchain=fake)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    outcome = run_one(Job((str(tmp_path / "absent"),), tmp_path), timeout=1.0)
    assert outcome.code is None
    assert "could not be started" in outcome.trouble
    assert "could not be started (No such file or directory)" in str(outcome.error("it failed", "advice"))


def test_output_larger_than_a_pipe_does_not_block(tmp_path: Path) -> None:
    outcome = run_one(Job(("head", "-c", "1000000", "/dev/zero"), tmp_path), timeout=60.0)
    assert outcome.code == 0


def test_no_more_processes_at_a_time_than_processors(
    monkeypatch: pytest.MonkeyPatch, script: Script, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "processors", lambda: 2)
    counting = script(
        'mkdir running.$$; ls -d running.* | wc -l >> counts; sleep 0.05; rmdir running.$$', "counting"
    )
    run_jobs([Job((str(counting),), tmp_path)] * 6, 60.0, "")
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 6
    assert max(counts) <= 2


def test_the_other_processes_are_ended_when_one_fails(
    monkeypatch: pytest.MonkeyPatch, script: Script, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "processors", lambda: 2)
    failing, hanging = script("exit 1", "failing"), script("sleep 600", "hanging")
    begin = time.monotonic()
    with pytest.raises(CompilerError, match="ended with code 1"):
        run_jobs([Job((str(failing),), tmp_path), Job((str(hanging),), tmp_path)], 500.0, "")
    assert time.monotonic() - begin < 300  # it did not wait for the hanging one


def test_cpu_identity_names_machine_and_features() -> None:
    words = toolchain.cpu_identity().split()
    assert words[0] == os.uname().machine
    assert toolchain.cpu_features() <= set(words)
