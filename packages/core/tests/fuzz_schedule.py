"""Random tensor graphs, scheduled and run on real devices, against the numpy oracle.

`python -m packages.core.tests.fuzz_schedule --seconds 60 --seed 0 --devices CPU:LLVM,PYTHON` hunts; a failing
graph is minimised and printed as text. Values are small whole numbers, so that every order of additions gives
the same bits and any difference is a bug. Thresholds of the cost model are drawn too, so that small graphs
take all its paths.
"""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType

import numpy as np

from tiny_core.codegen import contraction, expand, grid_options, heuristic
from tiny_core.ir import payload as p
from tiny_core.ir import text
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.spec import check
from tiny_core.ir.uop import UOp, toposort
from tiny_core.schedule import fuse, group, limits, reductions
from tiny_core.tensor import graph as g

from .kernel_runs import run
from .oracle import evaluate_all
from .random_graphs import Case, Maker

THRESHOLDS: tuple[tuple[ModuleType, str, tuple[float, ...]], ...] = (
    (reductions, "ROW", (4, 64, 1 << 15)),
    (fuse, "NESTED", (1, 16, 1 << 12)),
    (fuse, "LAUNCH", (0.0, 200.0, 20000.0)),
    (group, "MAX_STORES", (2, 16)),
    (limits, "MOST_ARRAYS", (2, 24)),
    (limits, "MOST_DEEP", (4, 128)),
    (reductions, "FEW_OUTPUTS", (16, 64)),
    (reductions, "MANY_INPUTS", (64, 1 << 12, 1 << 18)),
    (reductions, "SMALL", (2, 32)),
    (reductions, "LARGE", (64, 1 << 20)),
    (reductions, "PART", (16, 256, 1 << 16)),
    (heuristic, "SERIAL", (1, 256, 1 << 14)),
    (heuristic, "COPIES", (1, 2, 4)),
    (contraction, "LEAST_REUSE", (2, 16)),
    (heuristic, "SHORT", (4, 128)),
    (expand, "CHAINS", (1, 8)),
    (expand, "LONG", (8, 512)),
    (grid_options, "SHORT", (4, 32)),
)  # fmt: skip


@contextmanager
def thresholds(values: dict[tuple[ModuleType, str], float]) -> Iterator[None]:
    """Set constants of modules for a block."""
    old = {key: getattr(*key) for key in values}
    try:
        for (module, name), value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in old.items():
            setattr(module, name, value)


def draw_thresholds(rng: random.Random) -> dict[tuple[ModuleType, str], float]:
    if rng.random() < 0.3:
        return {}
    return {(module, name): rng.choice(choices) for module, name, choices in THRESHOLDS}


# ---- checking
# --------------------------------------------------------------------------------------------------------


def problem(case: Case, dev: str) -> str:
    """Return what is wrong with the results of a case on a device; "" if nothing is."""
    nodes = toposort(case.roots)
    after = [n for n in nodes if n.op is Ops.AFTER]
    ended = {n.src[0] for n in after}
    latest = {n.base: n for n in after if n not in ended}
    want = evaluate_all([*case.roots, *latest.values()], case.data)
    try:
        have, memory, plan = run(dev, case.roots, case.data)
        for item in plan.items:
            if hasattr(item, "kernel"):
                check(item.kernel, "kernel")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        return f"{type(error).__name__}: {error} at " + " < ".join(
            f"{f.name}:{f.lineno}" for f in frames[::-1]
        )
    for k, (a, b) in enumerate(zip(have, want, strict=False)):
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return (
                f"root {k} of shape {b.shape} differs in {np.sum(a != b) if a.shape == b.shape else a.shape}"
            )
    for buffer, array in memory.items():
        final = want[len(case.roots) + list(latest).index(buffer)] if buffer in latest else case.data[buffer]
        if not np.array_equal(array, final):
            return f"storage %{buffer.payload(p.Storage).id} holds something else in {np.sum(array != final)}"
    return ""


def minimise(case: Case, fails: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    """Return a smaller case that fails too: fewer roots, nodes replaced by storage that holds their
    values."""
    stop = time.monotonic() + seconds

    def smaller(c: Case) -> Iterator[Case]:
        if len(c.roots) > 1:
            for k in range(len(c.roots)):
                yield Case([*c.roots[:k], *c.roots[k + 1 :]], c.data)
        nodes = [n for n in toposort(c.roots) if n.op not in (Ops.BUFFER, Ops.STORE, Ops.AFTER, Ops.CONST)]
        values = dict(zip(nodes, evaluate_all(nodes, c.data), strict=True))
        views = {s for n in toposort(c.roots) if n.op is Ops.STORE for s in n.src[0].toposort()}
        for n in reversed(nodes):
            if n in views or n in c.roots or (n.op in MOVEMENT and n.src[0].op in (Ops.BUFFER, Ops.CONST)):
                continue
            new = UOp.buffer(n.dtype, max(1, n.size), "CPU")
            roots = list(UOp.sink(*c.roots).substitute({n: g.reshape(new, n.shape)}).src) if n.size else []
            if roots:
                yield Case(roots, {**c.data, new: values[n].reshape(-1)})
        for n in nodes:
            for s in n.src:
                if s.shape == n.shape and s.dtype is n.dtype and n not in views:
                    yield Case(list(UOp.sink(*c.roots).substitute({n: s}).src), c.data)
        for k, r in enumerate(c.roots):
            for s in r.src:
                if s.op not in (Ops.BUFFER, Ops.CONST, Ops.STORE, Ops.AFTER) and r.op is not Ops.AFTER:
                    yield Case([*c.roots[:k], s, *c.roots[k + 1 :]], c.data)

    progress = True
    while progress and time.monotonic() < stop:
        progress = False
        for candidate in smaller(case):
            if time.monotonic() > stop:
                break
            try:
                failing = fails(candidate)
            except Exception:  # a candidate that is malformed
                continue
            if failing:
                case, progress = candidate, True
                break
    return case


def _fails_alike(dev: str, head: str, case: Case) -> bool:
    return problem(case, dev).startswith(head)


def make(seed: int) -> tuple[Case, dict[tuple[ModuleType, str], float]]:
    """Return the graph and the thresholds of a seed."""
    rng = random.Random(seed)
    values = draw_thresholds(rng)
    return Maker(rng).case(), values


def once(seed: int, devices: Sequence[str]) -> str:
    """Run one seed; return the minimised graph of a failure, or ""."""
    case, values = make(seed)
    with thresholds(values):
        for dev in devices:
            what = problem(case, dev)
            if not what:
                continue
            head = what.split(" at ")[0].split(" of shape")[0][:24]
            small = minimise(case, partial(_fails_alike, dev, head))
            said = ", ".join(f"{m.__name__.split('.')[-1]}.{n}={v}" for (m, n), v in values.items())
            return (
                f"seed {seed} on {dev}: {what}\nthresholds {said}\nminimised ({problem(small, dev)}):\n"
                + text.format(UOp.sink(*small.roots))
            )
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", default="CPU:LLVM")
    parser.add_argument("--stop", type=int, default=5, help="failures after which to stop")
    args = parser.parse_args()
    stop, seed, failures = time.monotonic() + args.seconds, args.seed, 0
    while time.monotonic() < stop and failures < args.stop:
        found = once(seed, args.devices.split(","))
        if found:
            failures += 1
            print(found, end="\n\n", flush=True)
        seed += 1
    print(f"{seed - args.seed} graphs, {failures} failures", flush=True)


if __name__ == "__main__":
    main()
