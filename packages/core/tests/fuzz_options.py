"""Random options of a handful of kernels: each tuple gives the same numbers, or raises OptionError.

`python -m packages.core.tests.fuzz_options --seconds 60 --seed 0 --devices PYTHON,CPU:LLVM` hunts and prints
the kernels and options that do not.
"""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tiny_core import dtypes
from tiny_core.codegen import axes
from tiny_core.codegen.normalize import normalize
from tiny_core.engine import realize
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir import text
from tiny_core.ir.ops import Ops
from tiny_core.ir.payload import Option
from tiny_core.ir.uop import UOp
from tiny_core.schedule.item import KernelItem
from tiny_core.schedule.scheduler import schedule
from tiny_core.settings import Context
from tiny_core.tensor import graph as g

from .kernel_runs import on, read
from .oracle import Array, evaluate_all, numpy_dtype

KINDS: tuple[p.AxisKind, ...] = ("loop", "reduce", "vector", "unroll", "thread", "group", "item")
WIDTHS = (1, 2, 3, 4, 5, 8, 16)


def storage(*shape: int, dtype: dtypes.DType = dtypes.float32) -> UOp:
    return g.reshape(UOp.buffer(dtype, int(np.prod(shape, dtype=int)), "CPU"), shape)


def matmul(i: int, j: int, k: int, turned: bool = False) -> UOp:
    a, b = storage(i, k), g.permute(storage(j, k), (1, 0)) if turned else storage(k, j)
    wide = g.expand(g.reshape(a, (i, 1, k)), (i, j, k))
    tall = g.expand(g.reshape(g.permute(b, (1, 0)), (1, j, k)), (i, j, k))
    return g.reduce(Ops.ADD, g.alu(Ops.MUL, wide, tall), [2])


def square(n: int) -> UOp:
    """A product of an array with itself: one operand, loaded twice."""
    x = storage(n, n)
    wide = g.expand(g.reshape(x, (n, 1, n)), (n, n, n))
    return g.reduce(Ops.ADD, g.alu(Ops.MUL, wide, g.expand(g.reshape(x, (1, n, n)), (n, n, n))), [2])


def rows() -> UOp:
    x = storage(6, 10)
    low = g.alu(Ops.SUB, x, g.expand(g.reduce_keep(Ops.MAX, x, [1]), x.shape))
    return g.alu(Ops.ADD, low, g.expand(g.reduce_keep(Ops.ADD, low, [1]), x.shape))


def conv(pad: int, stride: int) -> UOp:
    x = g.pad(storage(2, 3, 7, 7), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    h = x.shape[-1]
    out = (h - 3) // stride + 1
    wide = g.expand(g.reshape(x, (2, 1, 3, h, 1, h, 1)), (2, 4, 3, h, 3, h, 3))
    wide = g.shear(g.shear(wide, 3, 4, stride, 1, out), 5, 6, stride, 1, out)
    w = g.expand(g.reshape(storage(4, 3, 3, 3), (1, 4, 3, 1, 3, 1, 3)), wide.shape)
    return g.reduce(Ops.ADD, g.alu(Ops.MUL, wide, w), [2, 4, 6])


def in_place() -> UOp:
    x = UOp.buffer(dtypes.float32, 60, "CPU")
    view = g.flip(g.reshape(x, (6, 10)), (1,))
    return x.after(UOp(Ops.STORE, dtypes.void, (view, g.alu(Ops.ADD, view, storage(6, 10)))))


def picked() -> UOp:
    index = g.alu(Ops.ADD, storage(5, dtype=dtypes.int32), storage(5, dtype=dtypes.int32))
    return g.reduce(Ops.ADD, g.gather(storage(4, 6), [index]), [1])


def both() -> UOp:
    """Two results of one kernel, one of them a row reduction."""
    x = storage(16, 12)
    return UOp.sink(g.scalar_op(Ops.ADD, x, 1), g.reduce(Ops.ADD, x, [1]))


GRAPHS: dict[str, Callable[[], UOp]] = {
    "element-wise": lambda: g.alu(Ops.ADD, g.permute(storage(8, 12), (1, 0)), storage(12, 8)),
    "sum": lambda: g.reduce(Ops.ADD, storage(6, 24), [1]),
    "column maximum": lambda: g.reduce(Ops.MAX, storage(12, 10), [0]),
    "whole sum": lambda: g.reduce(Ops.ADD, storage(5, 16), [0, 1]),
    "matmul": lambda: matmul(8, 12, 10),
    "turned matmul": lambda: matmul(7, 8, 16, turned=True),
    "square": lambda: square(8),
    "rows": rows,
    "conv": lambda: conv(0, 1),
    "padded conv": lambda: conv(1, 1),
    "strided conv": lambda: conv(1, 2),
    "in place": in_place,
    "gather": picked,
    "two results": both,
}


def make(name: str) -> tuple[list[UOp], dict[UOp, Array]]:
    """Return the roots of a graph, and numbers for its storage."""
    made = GRAPHS[name]()
    roots = list(made.src) if made.op is Ops.SINK else [made]
    numpy = np.random.default_rng(5)
    data = {
        n: numpy.integers(-2, 3, n.size).astype(numpy_dtype(n.dtype))
        for n in made.toposort()
        if n.op is Ops.BUFFER
    }
    return roots, data


def draw(kernel: UOp, rng: random.Random) -> tuple[Option, ...]:
    """Draw options that the plan of a kernel accepts (what follows may still refuse them)."""
    normal = normalize(kernel)
    params = [n.payload(p.Param).slot for n in normal.toposort() if n.op is Ops.PARAM]
    options: tuple[Option, ...] = ()
    for _ in range(rng.randint(1, 8)):
        pieces = axes.plan(normal, options).order
        if not pieces:
            break
        axis = rng.choice(pieces)
        match rng.choice(("tile", "tile", "map", "map", "map", "map", "order", "pad", "group", "stage")):
            case "tile":
                more = Option("tile", axis, n=rng.choice(WIDTHS))
            case "map":
                more = Option("map", axis, how=rng.choice(KINDS))
            case "order":
                some = rng.sample(pieces, rng.randint(1, len(pieces)))
                more = Option("order", axes=tuple(some))
            case "pad":
                more = Option("pad", axis, n=rng.choice(WIDTHS))
            case "group":
                more = Option("group", axis, n=rng.choice(WIDTHS))
            case _:
                at = rng.choice(("", axis))
                laid = tuple(rng.sample(pieces, rng.randint(0, 1)))
                more = Option("stage", at, slot=rng.choice(params), access=rng.choice((0, 0, 1)), axes=laid)
        try:
            axes.plan(normal, (*options, more))
        except OptionError:
            continue
        options = (*options, more)
    return options


def problem(name: str, options: tuple[Option, ...], dev: str) -> str:
    """Return what is wrong with a kernel under options; "" if nothing is, "refused: …" if they do not
    apply."""
    roots, data = make(name)
    want = evaluate_all(roots, data)
    device = dev.partition(":")[0]
    with Context(DEV=dev, WORKERS=0, CACHE=0):
        moved, _ = on(device, roots, data)
        plan = schedule(moved, device)
        items = []
        for item in plan.items:
            assert isinstance(item, KernelItem)
            info = item.kernel.arg if isinstance(item.kernel.arg, p.KernelInfo) else p.KernelInfo()
            items.append(replace(item, kernel=item.kernel.replace(arg=replace(info, options=options))))
        try:
            realize.run_schedule(replace(plan, items=tuple(items)))
        except OptionError as error:
            return f"refused: {error}"
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            return f"{type(error).__name__}: {error} at " + " < ".join(
                f"{f.name}:{f.lineno}" for f in frames[::-1]
            )
        have = [read(r) for r in plan.results]
    return next(
        (f"differs in {np.sum(a != b)}" for a, b in zip(have, want, strict=True) if np.any(a != b)), ""
    )


def minimise(name: str, options: tuple[Option, ...], dev: str) -> tuple[Option, ...]:
    """Leave out options as long as the rest is wrong too."""
    k = 0
    while k < len(options):
        fewer = (*options[:k], *options[k + 1 :])
        found = problem(name, fewer, dev)
        if found and not found.startswith("refused"):
            options, k = fewer, 0
        else:
            k += 1
    return options


def once(seed: int, dev: str) -> tuple[str, str]:
    """Run one seed; return the name of its graph, and what is wrong."""
    rng = random.Random(seed)
    name = rng.choice(list(GRAPHS))
    roots, _ = make(name)
    (item,) = schedule(roots).items
    assert isinstance(item, KernelItem)
    options = draw(item.kernel, rng)
    found = problem(name, options, dev)
    if not found or found.startswith("refused"):
        return name, found
    small = minimise(name, options, dev)
    said = "\n".join(map(str, small))
    kernel = text.format(normalize(item.kernel))
    return name, f"seed {seed}, {name} on {dev}: {problem(name, small, dev)}\n{said}\n{kernel}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", default="PYTHON")
    parser.add_argument("--stop", type=int, default=5, help="failures after which to stop")
    args = parser.parse_args(arguments)
    stop, seed, failures, refused = time.monotonic() + args.seconds, args.seed, 0, 0
    while time.monotonic() < stop and failures < args.stop:
        for dev in args.devices.split(","):
            _, found = once(seed, dev)
            refused += found.startswith("refused")
            if found and not found.startswith("refused"):
                failures += 1
                print(found, end="\n\n", flush=True)
        seed += 1
    print(f"{seed - args.seed} tuples, {refused} refused, {failures} failures", flush=True)


if __name__ == "__main__":
    main()
