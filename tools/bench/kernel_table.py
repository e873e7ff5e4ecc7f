"""A table of the kernels of the conv-net step on the CPU, the slowest first: time, share, rates, launch
count, options.

In: the lines that TINY_DEBUG=3 prints of a captured step, the median of several replays. The steps run in a
process of their own, whose standard error is read.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.bench.contestants import Params, Setup, Work, environment
from tools.bench.convnet import BATCH, our_step

REPLAYS: Final = 3
_UNITS: Final = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
_LINE: Final = re.compile(
    r"^\S+ +\d+  (?P<name>\S+) +(?P<time>[\d.e+-]+) (?P<unit>s|ms|µs|ns) +"
    r"(?P<gflops>[\d.]+) GFLOPS +(?P<gbs>[\d.]+) GB/s"
)
_OPTIONS: Final = re.compile(r"^(?P<name>[er]\w*): (?P<options>.*)$")
_MARK: Final = "replay"


@dataclass(slots=True)
class Kernel:
    """A launch of the step: its place, name, seconds and rates in each replay."""

    place: int
    name: str
    seconds: list[float] = field(default_factory=list)
    gflops: list[float] = field(default_factory=list)
    gbs: list[float] = field(default_factory=list)


def show() -> str:
    """Run the step and return the table."""
    command = [
        sys.executable,
        str(Path(__file__).parent),
        "--contestant",
        "kernel_table",
        "steps",
        json.dumps({}),
    ]
    env = environment(TINY_DEBUG="3", TINY_CACHE="0")
    done = subprocess.run(
        command, env=env, input="round\n" * REPLAYS, text=True, capture_output=True, check=False
    )
    if done.returncode:
        return done.stderr[-4000:]
    return table(done.stderr.splitlines())


def table(lines: Iterable[str]) -> str:
    """Return the table of the replays in debug output: what follows each line that says `replay`."""
    options: dict[str, str] = {}
    kernels: list[Kernel] = []
    replays, place = 0, 0
    for line in lines:
        if line == _MARK:
            replays, place = replays + 1, 0
        elif (found := _OPTIONS.match(line)) is not None:
            options[found["name"]] = found["options"]
        elif replays and (found := _LINE.match(line)) is not None:
            if place == len(kernels):
                kernels.append(Kernel(place + 1, found["name"]))
            kernel = kernels[place]
            kernel.seconds.append(float(found["time"]) * _UNITS[found["unit"]])
            kernel.gflops.append(float(found["gflops"]))
            kernel.gbs.append(float(found["gbs"]))
            place += 1
    whole = sum(statistics.median(k.seconds) for k in kernels)
    out = [f"{len(kernels)} kernels, {1e3 * whole:.1f} ms"]
    out.append(f"{'ms':>9} {'share':>6} {'GFLOPS':>8} {'GB/s':>7} {'at':>3}  name: options")
    for k in sorted(kernels, key=lambda k: -statistics.median(k.seconds)):
        ms = 1e3 * statistics.median(k.seconds)
        out.append(
            f"{ms:9.3f} {ms / whole / 1e3:6.1%} {statistics.median(k.gflops):8.2f} "
            f"{statistics.median(k.gbs):7.2f} {k.place:3}  {k.name}: {options.get(k.name, '')}"
        )
    return "\n".join(out)


def _steps(params: Params) -> Work:
    from tiny_core import jit

    step, x, y = our_step(BATCH, 0)
    captured = jit(step)
    for _ in range(4):
        captured(x, y).item()

    def replay() -> float:
        print(_MARK, file=sys.stderr, flush=True)
        return captured(x, y).item()

    return Work(replay)


CONTESTANTS: Final[dict[str, Setup]] = {"steps": _steps}
