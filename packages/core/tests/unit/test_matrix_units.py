"""Matrix units are tables: those of other makers than ours fit, and PYTHON runs them from the table alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tiny_core import dtypes
from tiny_core.devices.python.execute import execute
from tiny_core.errors import LaunchError, SpecError
from tiny_core.ir import text
from tiny_core.ir.matrix import Digit, MatrixUnit
from tiny_core.ir.ops import Ops
from tiny_core.ir.spec import check
from tiny_core.ir.uop import UOp

from .linear_kernels import Lines, item, signature

# PTX ISA 8.7, "Matrix Fragments for mma.m16n8k16 with floating point type": groups of four lanes have a row
MMA = MatrixUnit.parse(
    "mma_m16n8k16_f16 16x8x16 lanes=32 a=float16x8:k4@2.m8|k2.m2@8.k2@8 b=float16x4:k4@2.n8|k2.k2@8"
    " c=float32x4:n4@2.m8|n2.m2@8"
)
# Apple's simdgroup_matrix of 8 by 8: pairs of columns, lanes in quadrants
SIMDGROUP = MatrixUnit.parse(
    "simdgroup_8x8 8x8x8 lanes=32 a=float32x2:k2@2.m4.k2@4.m2@4|k2 b=float32x2:n2@2.k4.n2@4.k2@4|n2"
    " c=float32x2:n2@2.m4.n2@4.m2@4|n2"
)
# Intel's TDPBF16PS: a tile of 16 rows of 64 bytes is one item's fragment; B has pairs of k side by side
AMX = MatrixUnit.parse(
    "amx_tdpbf16ps 16x16x32 lanes=1 a=bfloat16x512:|k32.m16 b=bfloat16x512:|k2.n16.k16@2"
    " c=float32x256:|n16.m16 feature=amx-bf16 accumulators=8"
)
# a toy whose C has one value a lane
TOY = MatrixUnit.parse("toy 4x4x4 lanes=16 a=int8x1:m4.k4| b=int8x1:n4.k4| c=int32x1:n4.m4|")
UNITS = pytest.mark.parametrize("unit", [MMA, SIMDGROUP, AMX, TOY], ids=lambda u: u.name)
NUMPY: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16}


def run(unit: MatrixUnit, subgroups: int, block: int) -> tuple[list[npt.NDArray[Any]], npt.NDArray[Any]]:
    """Multiply small whole numbers by `subgroups` subgroups in a group of `block` items, whose fragments lie
    lane by lane in memory; return A, B and C of each, and D."""
    rng = np.random.default_rng(4)
    shapes = ((unit.m, unit.k), (unit.k, unit.n), (unit.m, unit.n))
    matrices, fragments = [], []
    for f, shape, axes in zip(unit.operands, shapes, ("mk", "kn", "mn"), strict=True):
        dtype = np.dtype(NUMPY.get(f.dtype.name, f.dtype.name))
        whole = rng.integers(-3, 4, (subgroups, *shape)).astype(dtype)
        part = np.zeros((subgroups, unit.lanes, f.count), dtype)
        for lane in range(unit.lanes):
            for e in range(f.count):
                at = f.place(lane, e)
                part[:, lane, e] = whole[:, at.get(axes[0], 0), at.get(axes[1], 0)]
        matrices.append(whole.astype(np.float64))
        fragments.append(part.reshape(-1))
    lines = Lines()
    me = lines.add(item(block))
    values = []
    for slot, f in enumerate(unit.operands):
        buffer = UOp.param(slot, f.dtype, len(fragments[slot]), align=64)
        values.append(lines.add(buffer.load(me * f.width, lanes=f.width if f.width > 1 else 0)))
    d = lines.add(UOp(Ops.MATRIX, unit.c.dtype, tuple(values), unit))
    lines.add(UOp.param(3, unit.c.dtype, len(fragments[2]), "w").store(me * unit.c.width, d))
    linear = lines.linear()
    check(linear, "linear")
    assert text.parse(text.format(linear)) is linear, "the text holds the whole table"
    out = np.zeros_like(fragments[2])
    execute(linear, signature(linear, block=(block, 1, 1)), [*fragments, out], grid=(1, 1, 1))
    result = np.zeros((subgroups, unit.m, unit.n))
    for lane in range(unit.lanes):
        for e in range(unit.c.count):
            at = unit.c.place(lane, e)
            result[:, at["m"], at["n"]] = out.reshape(subgroups, unit.lanes, -1)[:, lane, e]
    return matrices, result


@UNITS
def test_a_table_covers_its_matrices(unit: MatrixUnit) -> None:
    assert not list(unit.problems())
    assert MatrixUnit.parse(str(unit)) == unit


@UNITS
@pytest.mark.parametrize("subgroups", [1, 3])
def test_python_multiplies_by_the_table(unit: MatrixUnit, subgroups: int) -> None:
    (a, b, c), d = run(unit, subgroups, subgroups * unit.lanes)
    assert np.array_equal(d, a @ b + c)


def test_a_group_of_part_of_a_subgroup_is_an_error() -> None:
    with pytest.raises(LaunchError, match="32 lanes"):
        run(MMA, 1, 24)


def test_what_is_wrong_with_a_table_is_said() -> None:
    twice = replace(MMA, a=replace(MMA.a, elements=(Digit("k", 2), Digit("m", 2, 8), Digit("k", 2, 4))))
    assert any("A: the layout does not cover" in x for x in twice.problems())
    few = replace(MMA, b=replace(MMA.b, lanes=MMA.b.lanes[:1]))
    assert any("B: digits of the lane make 4, not 32" in x for x in few.problems())
    narrow = replace(MMA, c=replace(MMA.c, width=2))
    assert any("C: 4 elements in 2" in x for x in narrow.problems())
    odd = replace(MMA, c=replace(MMA.c, elements=(Digit("k", 4),)))
    assert any("C: moves along" in x for x in odd.problems())


def test_the_specification_of_the_op() -> None:
    a, b = UOp.const(1.0, dtypes.float16, 8), UOp.const(1.0, dtypes.float16, 4)
    c = UOp.const(0.0, dtypes.float32, 4)

    def listed(*src: UOp) -> UOp:
        lines = Lines()
        d = lines.add(UOp(Ops.MATRIX, dtypes.float32, src, MMA))
        lines.add(UOp.param(0, dtypes.float32, 4, "w").store(UOp.const(0, dtypes.int32), d))
        return lines.linear()

    check(listed(a, b, c), "linear")
    with pytest.raises(SpecError, match="takes float16 of shape"):
        check(listed(b, a, c), "linear")
    with pytest.raises(SpecError, match="a source for each"):
        check(listed(a, b, c, c), "linear")


@pytest.mark.parametrize("wrong", ["mma", "mma 16x8 lanes=32", "mma 1x1x1 lanes=1 a=f:|", ""])
def test_a_text_that_is_no_unit(wrong: str) -> None:
    with pytest.raises(SpecError):
        MatrixUnit.parse(wrong)
