"""Every row of the matrix-unit tables: PYTHON computes what numpy does, whole and in part, and LLVM makes the
row's instruction of it. `python test_matrix_rows.py` prints the table."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from llvm_kernels import Body, compiled, render, special
from matrix_kernels import CODES, case, kernel

from tiny_core.api import Arch, MatrixUnit, Ops, RenderError, SpecError, UOp, dtypes
from tiny_core.devices.python.execute import execute
from tiny_core.errors import LaunchError
from tiny_core.ir import text
from tiny_core.ir.spec import check
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.matrix import Instruction, instructions
from tiny_renderer_llvm.renderer import LLVMRenderer

ROWS = [pytest.param(arch, i, id=f"{arch}-{i.unit.name}") for arch in ARCHITECTURES
        for i in instructions(arch).values()]  # fmt: skip
_EPSILON = {
    dtypes.float16: 2.0**-10,
    dtypes.bfloat16: 2.0**-7,
    dtypes.float32: 2.0**-22,
    dtypes.float64: 2.0**-50,
}
LAYOUTS = Path(__file__).parent / "data" / "matrix_layouts.txt"


def sizes(unit: MatrixUnit) -> list[tuple[int, int, int]]:
    """Whole, and in part where operands can be masked."""
    whole = (unit.m, unit.n, unit.k)
    packed = unit.scale or unit.a.format in CODES or unit.b.format in CODES
    return [whole] if packed else [whole, (unit.m - 3, unit.n - 5, max(1, unit.k - 3)), (1, 2, 1)]


def compare(arch: str, unit: MatrixUnit, seed: int = 3) -> tuple[int, int]:
    """Run the row's cases on PYTHON; return how many there were, and how many failed."""
    rng = np.random.default_rng(seed)
    done = failed = 0
    for rows, columns, depth in sizes(unit):
        body = kernel(unit, rows, columns, depth)
        check(body.linear(), "linear", LLVMRenderer(Arch(arch)).capabilities)
        linear = text.parse(text.format(body.linear()))  # as the device gets it
        for whole in (True, False):
            if unit.c.dtype in dtypes.ints and not whole:
                continue
            made = case(unit, rng, rows, columns, depth, whole)
            execute(linear, body.signature((unit.lanes, 1, 1)), made.buffers, grid=(1, 1, 1))
            got = made.buffers[-1].astype(np.float64)
            # small whole numbers are not rounded at all; else the order of additions decides about a last bit
            exact = whole and not unit.scale
            error = np.abs(got - made.expected).max() / np.abs(made.expected).max()
            done, failed = done + 1, failed + bool(error > (0 if exact else _EPSILON[unit.c.dtype]))
    return done, failed


@cache
def assembly(arch: str, name: str) -> str:
    unit = instructions(arch)[name].unit
    body = kernel(unit, unit.m, unit.n, unit.k)
    source = render(body, Arch(arch), (unit.lanes, 1, 1))
    return LLVMRenderer(Arch(arch)).compiler().assembly(source)


@pytest.mark.parametrize("arch, row", ROWS)
def test_python_computes_what_numpy_does(arch: str, row: Instruction) -> None:
    done, failed = compare(arch, row.unit)
    assert done and not failed


@pytest.mark.parametrize("arch, row", ROWS)
def test_llvm_makes_the_instruction(arch: str, row: Instruction) -> None:
    made = assembly(arch, row.unit.name)
    assert f"{row.mnemonic} " in made
    compiled(kernel(row.unit, row.unit.m, row.unit.n, row.unit.k), Arch(arch), (row.unit.lanes, 1, 1))


@pytest.mark.parametrize("arch, row", ROWS)
def test_a_layout_covers_its_matrix(arch: str, row: Instruction) -> None:
    assert not list(row.unit.problems())
    assert MatrixUnit.parse(str(row.unit)) == row.unit


def test_layouts_are_those_that_amd_prints() -> None:
    by_mnemonic = {(a, i.mnemonic): i.unit for a in ARCHITECTURES for i in instructions(a).values()}
    seen = set()
    for line in LAYOUTS.read_text().splitlines():
        if line.startswith(";"):
            continue
        arch, mnemonic, what, lane, *places = line.split()
        unit = by_mnemonic[arch, mnemonic]
        fragment, axes = {"A": (unit.a, "mk"), "B": (unit.b, "kn"), "D": (unit.c, "mn")}[what]
        mine = [fragment.place(int(lane), e) for e in range(fragment.count)]
        assert [f"{p.get(axes[0], 0)},{p.get(axes[1], 0)}" for p in mine] == places, line
        seen.add((arch, mnemonic))
    assert seen == {key for key in by_mnemonic if key[0] != "gfx950"}, "the printed table has no gfx950"


def test_signs_and_formats_reach_the_instruction() -> None:
    assert "neg_lo:[1,0,0]" in assembly("gfx1100", "wmma_i32_16x16x16_iu8.i8_u8")
    assert "neg_lo:[0,1,0]" in assembly("gfx1201", "wmma_i32_16x16x32_iu4.u4_i4")
    assert "cbsz:2 blgp:4" in assembly("gfx950", "mfma_scale_f32_16x16x128_f8f6f4.fp6_fp4")
    assert "mfma_scale" not in assembly("gfx950", "mfma_f32_16x16x128_f8f6f4.fp8_fp8")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_unit_of_another_architecture_is_refused(arch: str) -> None:
    for other in ARCHITECTURES:
        for row in instructions(other).values():
            mine = instructions(arch).get(row.unit.name)
            if mine is not None and mine.unit == row.unit:
                continue
            body = kernel(row.unit, row.unit.m, row.unit.n, row.unit.k)
            with pytest.raises(RenderError, match=r"no matrix unit|was not declared|widths"):
                render(body, Arch(arch), (row.unit.lanes, 1, 1))
            with pytest.raises(SpecError, match="matrix unit"):
                check(body.linear(), "linear", LLVMRenderer(Arch(arch)).capabilities)


def test_copies_that_differ_are_an_error() -> None:
    unit = instructions("gfx1100")["wmma_f32_16x16x16_f16"].unit
    made = case(unit, np.random.default_rng(1), 16, 16, 16, True)
    body = Body()
    lane = body(special("item", 0, 32))
    halves = [body(UOp.param(0, dtypes.float16, 256, align=32).load((lane & 7) * 16, lanes=16, align=32)),
              body(UOp.param(1, dtypes.float16, 256, align=32).load(lane * 4, lanes=16))]  # fmt: skip
    d = body(UOp(Ops.MATRIX, dtypes.float32, (*halves, UOp.const(0.0, dtypes.float32, 8)), unit))
    body(UOp.param(2, dtypes.float32, 256, "w").store(lane * 8, d))
    buffers = [made.buffers[0], made.buffers[1], made.buffers[3]]
    with pytest.raises(LaunchError, match="copies"):
        execute(body.linear(), body.signature((32, 1, 1)), buffers, grid=(1, 1, 1))


def test_a_group_holds_whole_subgroups() -> None:
    unit = instructions("gfx942")["mfma_f32_16x16x16_f16"].unit
    body = Body()
    lane = body(special("item", 0, 32))
    a = body(UOp.param(0, dtypes.float16, 4).load(0, lanes=4))
    c = body(UOp.const(0.0, dtypes.float32, 4))
    d = body(UOp(Ops.MATRIX, dtypes.float32, (a, a, c), unit))
    body(UOp.param(1, dtypes.float32, 32, "w").store(lane, body(d.lane(0))))
    buffers = [np.zeros(4, np.float16), np.zeros(32, np.float32)]
    with pytest.raises(LaunchError, match="64 lanes"):
        execute(body.linear(), body.signature((32, 1, 1)), buffers, grid=(1, 1, 1))


def table() -> str:
    """The rows, with how many cases each was compared on and how many of them failed."""
    lines = [f"{'arch':8} {'unit':44} {'shape':>10} {'A':16} {'B':16} {'C, D':9} cases failures"]
    total = bad = 0
    for arch in ARCHITECTURES:
        for i in instructions(arch).values():
            u = i.unit
            done, failed = compare(arch, u)
            failed += f"{i.mnemonic} " not in assembly(arch, u.name)
            total, bad = total + done + 1, bad + failed
            names = [f.format or f.dtype.name for f in (u.a, u.b, u.c)]
            lines.append(
                f"{arch:8} {u.name:44} {f'{u.m}x{u.n}x{u.k}':>10} {names[0]:16} {names[1]:16} {names[2]:9} "
                f"{done + 1:5} {failed:8}"
            )
    lines.append(
        f"{len(lines) - 1} rows, {total} cases (values on PYTHON, and one compilation each), {bad} failures"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
