"""Print what compiling and calling cost: ``python tests/benchmarks/scaling.py [--quick] [--only …]``.

Stages are given in processor time for each node, calls in nanoseconds; minima of several runs. Nothing is
asserted here: counts are, in ``test_counts.py``.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Measured functions are compiled afresh, so a folder of its own: cold means cold.
    os.environ["SYMGRAD_CACHE_DIR"] = _folder = tempfile.mkdtemp(prefix="symgrad-benchmark-")

import symgrad as sg
from symgrad.codegen.toolchain import find_toolchain
from tests.benchmarks import peers, programs
from tests.benchmarks.measure import Stages, stages, timed, traced, value_and_gradient

STAGES = ("trace", "simplify f", "vjp", "simplify", "canonical", "lower", "render C")
FRONT = ("trace", "simplify f", "vjp", "simplify")


def cpu() -> str:
    """The processor's own name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, numbers to the right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    print(f"\n{title}")
    for row in [head, ["-" * w for w in widths], *rows]:
        cells = [
            cell.ljust(w) if k == 0 else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells))


def machine() -> None:
    found = find_toolchain()
    rows = [
        ["processor", f"{cpu()}, {os.cpu_count()} cores"],
        ["system", platform.platform()],
        ["Python", f"{platform.python_implementation()} {platform.python_version()}"],
        ["NumPy", np.__version__],
        ["compiler", found.identity.splitlines()[0] if found else "none"],
    ]
    for name, value in rows:
        print(f"{name:10} {value}")


# ---------------------------------------------------------------- compiling


def best_stages(program: programs.Program, wrt: Sequence[int], repeats: int) -> Stages:
    """The fastest of several runs, stage by stage."""
    runs = [stages(program.function, program.args, wrt) for _ in range(repeats)]
    for name in runs[0].seconds:
        runs[0].seconds[name] = min(run.seconds[name] for run in runs)
    return runs[0]


def compiling(quick: bool, repeats: int) -> None:
    chain = programs.scalar_chain(10_000 if quick else 100_000)
    arrays = programs.array_program(1_000 if quick else 5_000)
    rows = []
    for name, program, wrt in (("scalar chain", chain, (0, 1)), ("array program", arrays, (0, 1, 2))):
        found = best_stages(program, wrt, repeats)
        front = sum(found.seconds[s] for s in FRONT) / found.pulled * 1e6
        counts = [str(n) for n in (found.traced, found.pulled, found.simplified)]
        rows.append([name, *counts, *[f"{found.microseconds(s):.1f}" for s in STAGES], f"{front:.1f}"])
    head = ["", "ops of f", "with gradient", "simplified", *STAGES, "to the gradient"]
    table("µs a node (processor time)", head, rows)


def sizes() -> None:
    rows = []
    for name, program in programs.FUNCTIONS.items():
        own = value_and_gradient(program.function, program.args, []).node_count
        both = value_and_gradient(program.function, program.args, programs.wrt(name)).node_count
        rows.append([name, str(own), str(both), f"{both / own:.2f}"])
    table("operations of a function, and of value and gradient", ["", "f", "f and gradient", "ratio"], rows)


def element_loops(quick: bool) -> None:
    rows = []
    for n in (100, 1000) if quick else (100, 1000, 10_000):
        for make in (programs.scalar_writes, programs.scalar_reads):
            program = make(n)
            seconds, graph = timed(lambda p=program: traced(p.function, p.args))
            all_seconds, both = timed(lambda p=program: value_and_gradient(p.function, p.args, [0]))
            cells = [
                f"{graph.node_count}",
                f"{seconds * 1e3:.1f}",
                f"{both.node_count}",
                f"{all_seconds * 1e3:.1f}",
            ]
            rows.append([f"{n} {program.function.__name__}", *cells])
    head = ["", "ops of f", "ms to trace", "ops with gradient", "ms with gradient"]
    table("elements one by one in a loop", head, rows)


# ---------------------------------------------------------------- calling


def nanoseconds(call: Callable[[], Any], repeats: int = 15) -> float:
    """Least time of a call, loops of about 5 ms."""
    count, seconds = 1, 0.0
    while seconds < 0.005:
        count *= 4
        seconds = _loop(call, count)
    return min(_loop(call, count) for _ in range(repeats)) / count * 1e9


def _loop(call: Callable[[], Any], count: int) -> float:
    rounds = range(count)
    start = time.perf_counter()
    for _ in rounds:
        call()
    return time.perf_counter() - start


def calls() -> None:
    x = np.linspace(0.1, 1.0, 10)
    rows = []
    for backend in ("numpy", "c"):
        with sg.config(backend=backend):
            first = []
            for k in range(3):
                # A constant of its own: the compiled kernel of another round must not be found in the cache.
                f = sg.value_and_grad(lambda x, k=k: programs.rosenbrock(x) + 0.5 * k)
                start = time.perf_counter()
                f(x)
                first.append(time.perf_counter() - start)
            each = nanoseconds(lambda f=f: f(x))
        rows.append([backend, f"{first[0] * 1e3:.1f}", f"{min(first[1:]) * 1e3:.1f}", f"{each:.0f}"])
    head = ["", "ms, first call in the process", "ms, first call of a function", "ns a call"]
    table("value and gradient of a Rosenbrock function of 10 doubles", head, rows)


def one_shot() -> None:
    x = np.linspace(0.1, 1.0, 10)
    times = []
    for k in range(30):
        f = programs.ten_ops(1.0 + k)
        start = time.perf_counter()
        sg.grad(f)(x)
        times.append(time.perf_counter() - start)
    rows = [
        [
            "gradient of a fresh function of ten operations",
            f"{min(times) * 1e3:.2f}",
            f"{np.median(times) * 1e3:.2f}",
        ]
    ]
    table("ms, function made, differentiated and called once", ["", "least", "median"], rows)


def peer_times(inputs: list[Any]) -> Iterator[tuple[str, list[float]]]:
    """What other tools take for `programs.doubled`."""
    expected = [float(programs.doubled(y)) for y in inputs]
    for peer in peers.doubling():
        name, call, prepare = peer
        peers.check(peer, inputs, expected)
        given = [prepare(y) for y in inputs]

        def varying(call: Any = call, given: Any = given) -> None:
            for y in given:
                call(y)

        longest = given[2]
        yield name, [nanoseconds(varying) / len(given), nanoseconds(lambda c=call, y=longest: c(y))]


def branches() -> None:
    rows = []
    inputs = programs.doubled_inputs()
    for backend in ("numpy", "c"):
        with sg.config(backend=backend):
            f = sg.value_and_grad(programs.doubled)
            for y in inputs:
                f(y)
            before = f.cache_info()

            def varying(f: Any = f) -> None:
                for y in inputs:
                    f(y)

            longest = inputs[2]
            cells = [nanoseconds(varying) / len(inputs), nanoseconds(lambda f=f, longest=longest: f(longest))]
            traces = f.cache_info().traces - before.traces
        rows.append([backend, *[f"{c:.0f}" for c in cells], str(before.traces), str(traces)])
    plain = [nanoseconds(lambda: [programs.doubled(y) for y in inputs]) / len(inputs)]
    plain.append(nanoseconds(lambda: programs.doubled(inputs[2])))
    rows.append(["plain NumPy, value only", *[f"{c:.0f}" for c in plain], "", ""])
    rows.extend([name, *[f"{c:.0f}" for c in times], "", ""] for name, times in peer_times(inputs))
    head = ["", "varying paths", "longest path", "traces before", "traces while timed"]
    table(
        "ns a call: value and gradient through `while norm(y) < 1000`, 10 doubles, 0 to 11 rounds", head, rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller graphs, one repeat")
    parts: dict[str, Callable[[], None]] = {
        "calls": calls,
        "one_shot": one_shot,
        "branches": branches,
        "sizes": sizes,
        "element_loops": lambda: element_loops(asked.quick),
        "compiling": lambda: compiling(asked.quick, 1 if asked.quick else 3),
    }
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="some of the tables")
    asked = parser.parse_args()
    machine()
    for name in asked.only:
        parts[name]()


if __name__ == "__main__":
    import shutil

    try:
        main()
    finally:
        shutil.rmtree(_folder, ignore_errors=True)
