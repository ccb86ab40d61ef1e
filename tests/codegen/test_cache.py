"""The cache on disk: exact counts, races, damage, and folders that must not be trusted."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from symgrad.codegen import cache as cache_module
from symgrad.codegen import cache_folder, toolchain
from symgrad.codegen.cache import CacheStats, KernelCache
from symgrad.errors import CompilerError, CompilerWarning

pytestmark = pytest.mark.c_backend

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    cache_folder.reset()
    toolchain.reset()
    yield
    cache_folder.reset()
    toolchain.reset()


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "cache")


def answer(path: Path) -> int:
    result: int = ctypes.CDLL(str(path)).answer()
    return result


def _variant(number: int) -> str:
    return f"int answer(void) {{ return {number}; }}\n"


def test_hits_misses_and_builds_are_counted(cache: KernelCache) -> None:
    assert cache.stats() == CacheStats(0, 0, 0, 0, 0)
    first = cache.get_or_build(SOURCE)
    assert answer(first) == 42
    assert cache.stats() == CacheStats(hits=0, misses=1, builds=1)
    assert cache.get_or_build(SOURCE) == first
    assert cache.stats() == CacheStats(hits=1, misses=1, builds=1)
    assert cache.lookup(cache.key(SOURCE)) == first
    assert cache.stats() == CacheStats(hits=2, misses=1, builds=1)
    assert cache.lookup(cache.key(_variant(7))) is None
    assert cache.stats() == CacheStats(hits=2, misses=1, builds=1)
    # Another object, as in another process, finds the entry on disk.
    other = KernelCache(cache.root)
    assert other.get_or_build(SOURCE) == first
    assert other.stats() == CacheStats(hits=1)


def test_a_failed_build_is_a_miss_without_a_build_and_is_tried_again(cache: KernelCache) -> None:
    for misses in (1, 2):
        with pytest.raises(CompilerError):
            cache.get_or_build("int answer(void) { return")
        assert cache.stats() == CacheStats(misses=misses)
    assert cache.size() == 0


def test_the_key_covers_all_that_decides_about_the_code(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [
        cache.key(SOURCE),
        cache.key(SOURCE + " "),
        cache.key([SOURCE, ""]),
        cache.key(SOURCE, "vector"),
        cache.key(SOURCE, "scalar", ["-DX"]),
        cache.key(SOURCE, "scalar", ["-D", "X"]),
        cache.key(SOURCE, "scalar", [], []),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 64 for key in keys)
    assert cache.key([SOURCE]) == cache.key(SOURCE)
    monkeypatch.setattr(cache_module, "cpu_identity", lambda: "another CPU")
    assert cache.key(SOURCE) != keys[0]
    monkeypatch.setattr(cache_module, "FORMAT_VERSION", -1)
    assert cache.key(SOURCE, "portable") not in keys


def test_portable_code_is_for_any_cpu(cache: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.key(SOURCE, "portable")
    monkeypatch.setattr(cache_module, "cpu_identity", lambda: "another CPU")
    assert cache.key(SOURCE, "portable") == before


def test_what_is_no_key_is_not_looked_up(cache: KernelCache) -> None:
    path = cache.get_or_build(SOURCE)
    assert cache.lookup(path.stem) == path
    for bad in ("", path.stem[:-1], f"../{path.parent.name}/{path.stem}", path.stem.upper() + "x"):
        assert cache.lookup(bad) is None


def test_an_entry_has_source_and_record_and_is_private(cache: KernelCache) -> None:
    path = cache.get_or_build([SOURCE, "int other;\n"], "vector", ["-DX=1"])
    assert path.with_suffix(".c").read_text() == SOURCE + "\nint other;\n"
    record = json.loads(path.with_suffix(".json").read_text())
    assert record["tiers"] == ["vector"]
    assert [flags[-1] for flags in record["flags"]] == ["-DX=1"]
    assert record["format"] == cache_module.FORMAT_VERSION
    for folder in (cache.root, path.parent, path.parent.parent, cache.root / "tmp", cache.root / "locks"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list((cache.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("damage", ["tampered", "truncated", "emptied", "removed"])
def test_a_damaged_shared_object_is_built_again(cache: KernelCache, damage: str) -> None:
    path = cache.get_or_build(SOURCE)
    data = path.read_bytes()
    path.unlink()
    if damage == "tampered":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "emptied":
        path.touch()
    assert cache.lookup(cache.key(SOURCE)) is None
    assert cache.stats() == CacheStats(misses=1, builds=1, rejected=1)
    assert answer(cache.get_or_build(SOURCE)) == 42
    assert cache.stats() == CacheStats(misses=2, builds=2, rejected=1)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"sha256": 3}', '{"sha256": null}'])
def test_a_damaged_record_is_built_again(cache: KernelCache, text: str) -> None:
    path = cache.get_or_build(SOURCE)
    path.with_suffix(".json").write_text(text)
    assert answer(cache.get_or_build(SOURCE)) == 42
    assert cache.stats() == CacheStats(misses=2, builds=2, rejected=1)


def test_an_entry_others_may_write_to_is_not_loaded(cache: KernelCache) -> None:
    path = cache.get_or_build(SOURCE)
    path.chmod(0o666)
    assert cache.lookup(cache.key(SOURCE)) is None
    path = cache.get_or_build(SOURCE)
    path.with_suffix(".json").chmod(0o666)
    assert cache.lookup(cache.key(SOURCE)) is None
    assert cache.stats().rejected == 2


def test_an_entry_that_is_a_link_is_not_loaded(cache: KernelCache, tmp_path: Path) -> None:
    path = cache.get_or_build(SOURCE)
    (tmp_path / "elsewhere.so").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.so")
    assert cache.lookup(cache.key(SOURCE)) is None


def test_clear_and_size(cache: KernelCache) -> None:
    for number in range(3):
        cache.get_or_build(_variant(number))
    files = [file for file in cache.root.glob("entries/*/*") if file.is_file()]
    assert len(files) == 9
    assert cache.size() == sum(file.stat().st_size for file in files)
    assert cache.clear() == 3
    assert cache.size() == 0
    assert cache.clear() == 0
    assert answer(cache.get_or_build(_variant(1))) == 1


def test_loaded_code_survives_clear(cache: KernelCache) -> None:
    library = ctypes.CDLL(str(cache.get_or_build(SOURCE)))
    cache.clear()
    assert library.answer() == 42


def test_entries_unused_for_longest_are_evicted(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "cache")
    paths = [cache.get_or_build(_variant(number)) for number in range(4)]
    hour_ago = time.time() - 3600
    for age, number in enumerate((2, 0, 3, 1)):  # 2 is the oldest
        os.utime(paths[number].with_suffix(".json"), (hour_ago + age, hour_ago + age))
    one = cache.size() // 4
    assert cache.evict(int(2.5 * one)) == 2
    assert [path.exists() for path in paths] == [False, True, False, True]
    assert cache.stats().evicted == 2


def test_what_was_just_used_is_not_evicted(cache: KernelCache) -> None:
    path = cache.get_or_build(SOURCE)
    os.utime(path.with_suffix(".json"), (1.0, 1.0))
    cache.get_or_build(SOURCE)
    assert cache.evict(0) == 0
    os.utime(path.with_suffix(".json"), (1.0, 1.0))
    assert cache.evict(0) == 1


def test_building_keeps_the_cache_within_its_bound(tmp_path: Path) -> None:
    unbounded = KernelCache(tmp_path / "cache")
    path = unbounded.get_or_build(_variant(0))
    one = unbounded.size()
    os.utime(path.with_suffix(".json"), (1.0, 1.0))
    bounded = KernelCache(unbounded.root, max_bytes=int(1.5 * one))
    new = bounded.get_or_build(_variant(1))
    assert not path.exists()
    assert new.exists()
    assert bounded.stats() == CacheStats(misses=1, builds=1, evicted=1)


def test_what_killed_processes_left_is_removed_after_a_day(cache: KernelCache) -> None:
    path = cache.get_or_build(SOURCE)
    old, new = cache.root / "tmp" / "build-old", cache.root / "tmp" / "build-new"
    half = path.parent / ".new-half"
    for folder in (old, new):
        folder.mkdir()
        (folder / "unit0.c").write_text(SOURCE)
    half.write_text("")
    for left in (old, half):
        os.utime(left, (1.0, 1.0))
    cache.evict()
    assert [left.exists() for left in (old, half, new, path)] == [False, False, True, True]


def test_the_bound_is_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE_SIZE", "plenty")
    with pytest.raises(CompilerError, match="SYMGRAD_CACHE_SIZE='plenty'"):
        KernelCache(tmp_path)


RACE = """
import sys, time
from pathlib import Path
from symgrad.codegen.cache import KernelCache
cache = KernelCache(Path(sys.argv[1]))
Path(sys.argv[2]).touch()
while not Path(sys.argv[3]).exists():
    time.sleep(0.002)
path = cache.get_or_build("int answer(void) { return 42; }")
stats = cache.stats()
print(stats.hits, stats.misses, stats.builds, path)
"""


@pytest.mark.subprocess
def test_processes_that_race_build_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slow compiler makes sure that they meet.
    slow = tmp_path / "slowcc"
    command = toolchain.require_toolchain().command
    slow.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) sleep 1;; esac\nexec {" ".join(command)} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("SYMGRAD_CC", str(slow))
    go = tmp_path / "go"
    ready = [tmp_path / f"ready{i}" for i in range(3)]
    line = [sys.executable, "-W", "error", "-c", RACE, str(tmp_path / "cache")]
    running = [
        subprocess.Popen([*line, str(flag), str(go)], stdout=subprocess.PIPE, text=True) for flag in ready
    ]
    while not all(flag.exists() for flag in ready):
        assert all(child.poll() is None for child in running)
        time.sleep(0.005)
    go.touch()
    lines = [child.communicate(timeout=120)[0].split() for child in running]
    assert all(child.returncode == 0 for child in running)
    assert sorted(line[:3] for line in lines) == [["0", "1", "1"], ["1", "0", "0"], ["1", "0", "0"]]
    assert len({line[3] for line in lines}) == 1


def test_threads_that_race_build_once(cache: KernelCache) -> None:
    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(cache.get_or_build(SOURCE))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 6
    assert cache.stats() == CacheStats(hits=5, misses=1, builds=1)


@pytest.mark.subprocess
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_can_build_although_a_lock_was_held(tmp_path: Path) -> None:
    code = f"""
import os, threading, time
from pathlib import Path
from symgrad.codegen import cache_folder, toolchain
from symgrad.codegen.cache import KernelCache
cache = KernelCache(Path({str(tmp_path / "cache")!r}))
held = threading.Event()
def hold():
    with cache_folder._lock, toolchain._lock, cache._guard:
        held.set()
        time.sleep(3)
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    cache.get_or_build("int answer(void) {{ return 42; }}")
    os._exit(7 if cache.stats().builds == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    line = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    assert subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout == "7\n"


def _is_refused(folder: Path, reason: str) -> None:
    """It warns exactly once, works nevertheless, and leaves the folder alone."""
    cache = KernelCache(folder)
    with pytest.warns(CompilerWarning, match=reason) as caught:
        path = cache.get_or_build(SOURCE)
    assert len(caught) == 1
    assert "SYMGRAD_CACHE_DIR" in str(caught[0].message)
    assert answer(path) == 42
    assert folder.resolve() not in path.resolve().parents
    private = cache.root
    assert private == cache_folder.private_folder()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert cache.get_or_build(SOURCE) == path  # no second warning: warnings are errors here


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
def test_a_folder_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    _is_refused(folder, "others may write")
    assert list(folder.iterdir()) == []


def test_a_folder_others_may_only_read_is_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o755)
    assert KernelCache(folder).get_or_build(SOURCE).is_relative_to(folder)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 12345, -1)
    else:
        own = cache_folder._foreign
        inode = folder.stat().st_ino
        monkeypatch.setattr(cache_folder, "_foreign", lambda status: status.st_ino == inode or own(status))
    _is_refused(folder, "belongs to another user")


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    _is_refused(tmp_path / "cache", "symbolic link")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_below_one_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    _is_refused(tmp_path / "open" / "cache", "everybody may write to")
    (tmp_path / "open").chmod(0o1777)  # as /tmp
    cache_folder.reset()
    assert KernelCache(tmp_path / "open" / "cache").root == tmp_path / "open" / "cache"


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    _is_refused(tmp_path / "cache", "not a folder")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "cache")
    with pytest.warns(CompilerWarning, match="cannot be written"):
        assert answer(cache.get_or_build(SOURCE)) == 42


READ_ONLY = """
import os, sys, warnings
from pathlib import Path
from symgrad.codegen.cache import KernelCache
if os.geteuid() == 0:
    # The superuser may write everywhere; it becomes nobody, who may not be able to import anything more.
    KernelCache().get_or_build("int first(void) { return 1; }")
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
cache = KernelCache(Path(sys.argv[1]))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    path = cache.get_or_build("int answer(void) { return 42; }")
    cache.get_or_build("int answer(void) { return 43; }")
print(len(caught), caught[0].category.__name__, cache.stats().builds)
print(caught[0].message)
print(path)
"""


@pytest.mark.subprocess
def test_a_read_only_folder() -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path lies where only its owner may look
        Path(name).chmod(0o711)
        folder = Path(name, "cache")
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, 65534, -1)
        folder.chmod(0o500)
        line = [sys.executable, "-c", READ_ONLY, str(folder)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        first, message, path = done.stdout.splitlines()
        assert list(folder.iterdir()) == []
    assert first == "1 CompilerWarning 2"
    assert "cannot be written (Permission denied)" in message
    assert not Path(path).is_relative_to(folder)


def test_a_disk_that_fills_up_while_building(cache: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.get_or_build(_variant(1))
    root = cache.root
    write = cache_folder.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.is_relative_to(root):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(cache_folder, "write_atomically", full)
    with pytest.warns(CompilerWarning, match=r"cannot be written \(No space left on device\)"):
        path = cache.get_or_build(_variant(77))
    assert answer(path) == 77
    assert not path.is_relative_to(root)
    assert cache.stats() == CacheStats(misses=2, builds=2)


def test_a_compiler_that_finds_the_disk_full(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = " ".join(toolchain.require_toolchain().command)
    picky = tmp_path / "pickycc"
    picky.write_text(
        f'#!/bin/sh\ncase "$PWD" in {cache.root}*) echo "out: No space left on device" >&2; exit 1;; esac\n'
        f'exec {command} "$@"\n'
    )
    picky.chmod(0o755)
    monkeypatch.setenv("SYMGRAD_CC", str(picky))
    with pytest.warns(CompilerWarning, match="no room"):
        path = cache.get_or_build(SOURCE)
    assert answer(path) == 42


def test_no_compiler(cache: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMGRAD_CC", "/nowhere/cc")
    with pytest.raises(CompilerError, match="SYMGRAD_CC='/nowhere/cc' names no program"):
        cache.get_or_build(SOURCE)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo broken >&2; exit 1", "broken"),
        ("sleep 600", r"did not end within 0\.5 s"),
        ("echo garbage > out.so; echo garbage > probe.o", "no shared object"),
        ("kill -ABRT $$", "SIGABRT"),
        ("exit 0", "there is no output file"),
    ],
)
def test_a_broken_compiler(
    cache: KernelCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, message: str
) -> None:
    broken = tmp_path / "brokencc"
    version = f'if [ "$1" = --version ]; then echo "broken {tmp_path}"; exit 0; fi'
    broken.write_text(f"#!/bin/sh\n{version}\n{body}\n")
    broken.chmod(0o755)
    monkeypatch.setenv("SYMGRAD_CC", str(broken))
    monkeypatch.setenv("SYMGRAD_CC_TIMEOUT", "0.5")
    with pytest.raises(CompilerError, match=message):
        cache.get_or_build(SOURCE)
    assert cache.stats().builds == 0
    assert cache.size() == 0
    # Nothing is remembered of the failure: a working compiler works at once.
    monkeypatch.delenv("SYMGRAD_CC")
    monkeypatch.delenv("SYMGRAD_CC_TIMEOUT")
    assert answer(cache.get_or_build(SOURCE)) == 42


def test_the_default_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "a"))
    first = cache_module.default_cache()
    assert first is cache_module.default_cache()
    assert cache_module.get_or_build(SOURCE).is_relative_to(tmp_path / "a")
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "b"))
    assert cache_module.default_cache() is not first
    assert cache_module.default_cache().root == tmp_path / "b"


def test_without_a_setting_the_users_cache_directory_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SYMGRAD_CACHE_DIR")
    folder = cache_folder.requested_folder()
    assert folder.name == "symgrad"
    assert folder.is_absolute()


@pytest.mark.subprocess
def test_the_private_folder_goes_away_with_its_process(tmp_path: Path) -> None:
    code = "from symgrad.codegen import cache_folder; print(cache_folder.private_folder())"
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "symgrad-" in done.stdout
    assert not Path(done.stdout.strip()).exists()


def test_nothing_is_warned_about_a_good_folder(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answer(KernelCache(tmp_path / "deep" / "cache").get_or_build(SOURCE)) == 42
