"""Matrix units of AMD GPUs: which there are, by architecture, and how LLVM is asked for each.

`units(arch)` gives the tables that core and PYTHON work with; `render_matrix` writes a MATRIX node as a call
of
its intrinsic, with what the intrinsic wants of its operands: words instead of packed bytes, `i16` for
    bfloat16,
accumulators of 16 bits in the lower halves of registers, flags. LLVM ends the process where it cannot select
an instruction, so a unit that is not in the architecture's table is refused before LLVM sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from tiny_core.api import MatrixUnit, RenderError, UOp
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.types import value_type


@dataclass(frozen=True, slots=True)
class Instruction:
    """A matrix unit, and the intrinsic that is its instruction.

    Args:
        unit: its table.
        intrinsic: the intrinsic's name after `llvm.amdgcn.`, with its type suffixes.
        a, b, c: LLVM types of its operands.
        form: order of operands and flags: "wmma" (A, B, C), "half" (A, B, C, high halves), "int" (signed A,
            A, signed B, B, C, clamp), "mfma" (A, B, C, broadcasts and permutation), "scale" (A, B, C,
            formats, factors).
        flags: "int": whether A and B are signed; "scale": numbers of the formats of A and B.
        spread: whether the elements of C are the lower halves of registers.
    """

    unit: MatrixUnit
    intrinsic: str
    a: str
    b: str
    c: str
    form: Literal["wmma", "half", "int", "mfma", "scale"]
    flags: tuple[int, int] = (0, 0)
    spread: bool = False

    @property
    def mnemonic(self) -> str:
        """The instruction as assembly has it, operand types of integers aside."""
        return "v_" + self.unit.name.partition(".")[0]


@cache
def instructions(arch: str) -> dict[str, Instruction]:
    """Return the matrix instructions of an architecture by the names of their units; empty where it has
    none."""
    from tiny_renderer_llvm import matrix_mfma, matrix_wmma

    tables = {
        "gfx1100": matrix_wmma.rdna3, "gfx1201": matrix_wmma.rdna4,
        "gfx942": matrix_mfma.cdna3, "gfx950": matrix_mfma.cdna4,
    }  # fmt: skip
    return {i.unit.name: i for i in tables[arch]()} if arch in tables else {}


@cache
def units(arch: str) -> tuple[MatrixUnit, ...]:
    """Return the matrix units of an architecture, for `Capabilities.matrices`."""
    return tuple(i.unit for i in instructions(arch).values())


def render_matrix(f: Function, node: UOp, arch: str) -> str:
    """Write the MATRIX `node` and return D.

    Raises:
        RenderError: the architecture has no such unit.
    """
    unit = node.payload(MatrixUnit)
    found = instructions(arch).get(unit.name)
    if found is None or found.unit != unit:
        raise RenderError(f"LLVM:{arch}: there is no matrix unit {unit.name}", "see Capabilities.matrices")
    a, b, c, *factors = node.src
    left, right = _as(f, a, found.a), _as(f, b, found.b)
    total = _spread(f, c, found.c) if found.spread else _as(f, c, found.c)
    x, y, z = f"{found.a} {left}", f"{found.b} {right}", f"{found.c} {total}"
    one, two = found.flags
    match found.form:
        case "wmma":
            operands = [x, y, z]
        case "half":
            operands = [x, y, z, "i1 false"]
        case "int":
            # without clamp: sums wrap, as integers do
            operands = [f"i1 {_bool(one)}", x, f"i1 {_bool(two)}", y, z, "i1 false"]
        case "mfma":
            operands = [x, y, z, "i32 0", "i32 0", "i32 0"]
        case "scale":
            # byte 0 of the registers with the factors; two constants of 0 stand for no factors at all
            by = [f"i32 {f.emit(f'zext i8 {f.value(s)} to i32')}" for s in factors] or ["i32 0", "i32 0"]
            operands = [x, y, z, f"i32 {one}", f"i32 {two}", "i32 0", by[0], "i32 0", by[1]]
    result = f.emit(f"call {found.c} @llvm.amdgcn.{found.intrinsic}({', '.join(operands)})")
    t = value_type(node)
    if found.spread:
        count = unit.c.width
        picks = ", ".join(f"i32 {2 * k}" for k in range(count))
        return f.emit(f"shufflevector {found.c} {result}, {found.c} poison, <{count} x i32> <{picks}>")
    return result if t == found.c else f.emit(f"bitcast {found.c} {result} to {t}")


def _bool(flag: int) -> str:
    return "true" if flag else "false"


def _as(f: Function, node: UOp, want: str) -> str:
    """Return a fragment as a value of an LLVM type: the same bits, or, where it is shorter, the first of
    them."""
    have, value = value_type(node), f.value(node)
    if have == want:
        return value
    if have == "<8 x i32>" and want.endswith(" x i32>"):  # a packed fragment in more registers than it fills
        count = int(want[1:].partition(" ")[0])
        picks = ", ".join(f"i32 {k}" for k in range(count))
        return f.emit(f"shufflevector {have} {value}, {have} poison, <{count} x i32> <{picks}>")
    return f.emit(f"bitcast {have} {value} to {want}")


def _spread(f: Function, node: UOp, want: str) -> str:
    """Return an accumulator of n 16-bit elements as 2n, where every second one is 0."""
    have, count = value_type(node), node.shape[0]
    picks = ", ".join(f"i32 {k // 2 + (count if k % 2 else 0)}" for k in range(2 * count))
    return f.emit(
        f"shufflevector {have} {f.value(node)}, {have} zeroinitializer, <{2 * count} x i32> <{picks}>"
    )
