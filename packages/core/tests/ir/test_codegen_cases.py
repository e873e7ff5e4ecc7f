"""Passes of scheduling and code generation as text: `cases_codegen/*.txt` has graphs before and after.

The name of a file says which pass its cases run. Options of a kernel stand in its SINK.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core import dtypes
from tiny_core.codegen import axes, barriers, fragments, grid, loops, normalize, stage
from tiny_core.codegen.commit import commit
from tiny_core.codegen.expand import expand
from tiny_core.codegen.linearize import linearize
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import Ops
from tiny_core.ir.text import format, parse
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import GLOBAL, REGISTER, AddressSpace, Capabilities
from tiny_core.schedule import fuse, movement
from tiny_core.schedule.collapse import collapse

_CASES = Path(__file__).parent / "cases_codegen"
_LANES = tuple((d, (2, 4, 8)) for d in (dtypes.float32, dtypes.int32, dtypes.bool_))
_SPACES = (GLOBAL, REGISTER, AddressSpace("local", "group", 1 << 12))
HOST = Capabilities("threads", frozenset(), frozenset(), _LANES, _SPACES, fma=frozenset({dtypes.float32}))
TOY = MatrixUnit.parse("toy 4x4x2 lanes=4 a=float32x2:m4|k2 b=float32x2:n4|k2 c=float32x4:n4|m4")
GRID = Capabilities(
    "grid", frozenset(), frozenset(), _LANES, _SPACES,
    max_items=64, max_block=(64, 64, 64), max_grid=(1024, 1024, 1024), matrices=(TOY,),
)  # fmt: skip


def plan(kernel: UOp) -> axes.Plan:
    options = kernel.payload(p.KernelInfo).options if kernel.arg is not None else ()
    return axes.plan(kernel, options or (), (TOY,))


def source_index(node: UOp) -> UOp:
    """The index into a movement's source, an index per axis, then the condition if there is one."""
    index, gate = movement.source_index(node, fuse.axes(node.shape))
    return UOp.sink(*index) if gate is None else UOp.sink(*index, gate)


def apply(kernel: UOp) -> UOp:
    return axes.apply(kernel, plan(kernel))


def staged(kernel: UOp, target: Capabilities) -> UOp:
    made = plan(kernel)
    return stage.stage(loops.separate(axes.apply(kernel, made)), made, target)


def lowered(kernel: UOp) -> UOp:
    made = plan(kernel)
    graph = stage.stage(loops.separate(axes.apply(kernel, made)), made, GRID)
    return fragments.lower(graph, made)


def expanded_grid(kernel: UOp) -> UOp:
    """All passes up to expansion."""
    made = plan(kernel)
    graph = fragments.lower(stage.stage(loops.separate(axes.apply(kernel, made)), made, GRID), made)
    return expand(grid.parallelize(graph, made, GRID)[0], made, GRID)


def parallelized(kernel: UOp, target: Capabilities) -> UOp:
    made = plan(kernel)
    graph = stage.stage(loops.separate(axes.apply(kernel, made)), made, target)
    return grid.parallelize(graph, made, target)[0]


def expanded(kernel: UOp) -> UOp:
    made = plan(kernel)
    return expand(loops.separate(axes.apply(kernel, made)), made, HOST)


PASSES: dict[str, Callable[[UOp], UOp]] = {
    "source_index": source_index,
    "collapse": collapse,
    "unmask": normalize.unmask,
    "split": normalize.split,
    "merge": normalize.merge,
    "apply": apply,
    "separate": loops.separate,
    "fragments": lowered,
    "stage_host": lambda k: staged(k, HOST),
    "stage_grid": lambda k: staged(k, GRID),
    "parallelize_host": lambda k: parallelized(k, HOST),
    "parallelize_grid": lambda k: parallelized(k, GRID),
    "expand": expanded,
    "expand_grid": expanded_grid,
    "barriers": barriers.insert,
    "commit_host": lambda g: commit(g, host=True),
    "commit_grid": lambda g: commit(g, host=False),
    "linearize": lambda g: linearize(g, p.KernelInfo("case")),
}


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(_CASES.glob("*.txt")):
        for block in path.read_text().split("\n== ")[1:]:
            title, _, body = block.partition("\n")
            before, _, after = body.partition("=>\n")
            found.append(pytest.param(path.stem, before, after, id=f"{path.stem}: {title}"))
    return found


@pytest.mark.parametrize(("name", "before", "after"), cases())
def test_case(name: str, before: str, after: str) -> None:
    result, wanted = PASSES[name](parse(before)), parse(after)
    if result.op is Ops.SINK:
        result = UOp.sink(*result.src)  # options are said once, before
    assert format(result) == format(wanted)


def test_every_pass_has_cases() -> None:
    assert {path.stem for path in _CASES.glob("*.txt")} == set(PASSES)
