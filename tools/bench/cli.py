"""The command line: which benchmarks to run, where their JSON goes, and two closer looks.

python tools/bench NAME… [--json FILE] [--seed N]
python tools/bench --kernels            a table of the kernels of the conv-net step
python tools/bench --profile            which functions the compilation of that step spends its time in
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bench.contestants import THREADS, serve
from tools.bench.result import Json, Result

BENCHMARKS = {
    "import": "import_time",
    "first_kernel": "first_kernel",
    "compile_convnet": "compile_convnet",
    "matmul": "matmul",
    "convnet_step": "convnet_step",
    "elementwise": "elementwise",
    "replay": "replay",
}
"""Modules by name; each has `run(seed) -> Result`."""


BUSY = 0.5
"""Processes that run or wait from which on a machine is not quiet."""


def main(args: Sequence[str]) -> int:
    """Run the command line; returns 0, or 2 where it is not understood. A missed budget is a finding, not a
    failure."""
    if args[:1] == ["--contestant"]:
        serve(*args[1:4])
        return 0
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="of drawn shapes and data; default: a new one, printed"
    )
    parser.add_argument("--kernels", action="store_true", help="time every kernel of the conv-net step")
    parser.add_argument("--profile", action="store_true", help="profile the compilation of the conv-net step")
    asked = parser.parse_args(args)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if not (asked.names or asked.kernels or asked.profile):
        parser.error(f"name at least one of {', '.join(BENCHMARKS)}")
    if asked.kernels:
        from tools.bench.kernel_table import show

        print(show())
    if asked.profile:
        from tools.bench.compile_profile import show as show_profile

        print(show_profile())
    if asked.names:
        _run(asked.names, asked.json, asked.seed)
    return 0


def _run(names: Sequence[str], file: Path | None, seed: int | None) -> None:
    seed = int.from_bytes(os.urandom(2), "little") if seed is None else seed
    facts: dict[str, Json] = {
        "machine": machine(),
        "load": round(load(), 2),
        "threads": THREADS,
        "python": platform.python_version(),
        "seed": seed,
    }
    print(", ".join(f"{k} {v}" for k, v in facts.items()), flush=True)
    if load() > BUSY:
        print("the machine is busy: read ratios with care, and repeat on a quiet one", flush=True)
    results: list[Json] = []
    for name in dict.fromkeys(names):
        result: Result = importlib.import_module(f"tools.bench.{BENCHMARKS[name]}").run(seed)
        print(result.text(), flush=True)
        results.append(result.json())
        if file is not None:  # after each, so that an interrupted run keeps what it has
            file.write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")
    if file is None:
        print(json.dumps(results), file=sys.stdout)


def load() -> float:
    """Return how many processes were running or waiting over the last minute. On a busy machine absolute
    times are worth little, and peers whose threads spin at barriers lose more than ours."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def machine() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
