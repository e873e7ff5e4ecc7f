"""compile_convnet: how long the conv-net's training step takes to become programs, for NULL:LLVM:x86_64, in
one process.

From calling the step (forward, backward, update: graph, schedule, code generation) to everything being
submitted to a device that runs nothing. Text is that without the time in the compiler's calls, which turn
text into objects and have a line of their own; a warm persistent cache leaves graph, schedule and reading the
cache. Each round is a fresh process.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from tools.bench.contestants import Contestant, Params, Setup, Work
from tools.bench.convnet import BATCH, our_step
from tools.bench.result import Budget, Json, Line, Result

if TYPE_CHECKING:
    from tiny_core.render.renderer import Compiler

ROUNDS: Final = 3
TARGET: Final = "NULL:LLVM:x86_64"


def run(seed: int) -> Result:
    """Measure; seconds."""
    text, objects, warm = [], [], []
    cold_notes: dict[str, Json] = {}
    warm_notes: dict[str, Json] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            cold = _fresh(folder, seed)
            again = _fresh(folder, seed)
        seconds, inside = cold["seconds"], cold["object_seconds"]
        assert (
            isinstance(seconds, float) and isinstance(inside, float) and isinstance(again["seconds"], float)
        )
        text.append(seconds - inside)
        objects.append(inside)
        warm.append(again["seconds"])
        cold_notes = {key: cold[key] for key in ("kernels", "compiled", "cpu_seconds", "object_cpu_seconds")}
        warm_notes = {"cpu_seconds": again["cpu_seconds"]}
        assert again["compiled"] == 0, f"{again['compiled']} kernels were not in the cache"
    return Result(
        "compile_convnet",
        [
            Line("to text", "s", text, budget=Budget(8, 2), details=cold_notes),
            Line("object emission", "s", objects),
            Line("warm persistent cache", "s", warm, budget=Budget(None, 0.3), details=warm_notes),
        ],
    )


def _fresh(folder: str, seed: int) -> dict[str, Json]:
    """Return what a process of its own saw, with its kernels cached in `folder`."""
    with Contestant("compile_convnet", "once", {"seed": seed}, _environment(folder)) as once:
        return once.notes


def _environment(folder: str) -> dict[str, str]:
    return {"DEV": TARGET, "TINY_WORKERS": "0", "TINY_CACHE_DIR": folder}


@final
class _Timed:
    """Sits between the default device's renderer and its compiler, and adds up the seconds of the compiler's
    calls."""

    def __init__(self) -> None:
        from tiny_core import Device

        self.seconds, self.cpu_seconds, self.calls = 0.0, 0.0, 0
        renderer = Device[Device.DEFAULT].renderer
        self._make = renderer.compiler
        renderer.compiler = self._compiler  # type: ignore[method-assign]  # of this one renderer, to time it

    def _compiler(self) -> Compiler:
        with self._timing():
            compiler = self._make()
        inner = compiler.compile

        def compile(source: str, name: str) -> bytes:
            self.calls += 1
            with self._timing():
                return inner(source, name)

        compiler.compile = compile  # type: ignore[method-assign]  # of this one compiler
        return compiler

    @contextmanager
    def _timing(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - wall
        self.cpu_seconds += time.process_time() - cpu


def _once(params: Params) -> Work:
    from tiny_core import GlobalCounters

    seed = params["seed"]
    assert isinstance(seed, int)
    step, x, y = our_step(BATCH, seed)
    compiler = _Timed()
    GlobalCounters.reset()
    start, cpu = time.perf_counter(), time.process_time()
    step(x, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    notes: dict[str, Json] = {
        "seconds": seconds,
        "object_seconds": compiler.seconds,
        "compiled": compiler.calls,
        "cpu_seconds": round(cpu - compiler.cpu_seconds, 3),
        "object_cpu_seconds": round(compiler.cpu_seconds, 3),
        "kernels": GlobalCounters.kernel_count,
    }
    return Work(lambda: seconds, notes)


CONTESTANTS: Final[dict[str, Setup]] = {"once": _once}
