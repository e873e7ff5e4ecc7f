"""Kernels of one matrix instruction, built by hand from its table, and what numpy makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llvm_kernels import Body, special

from tiny_core.api import DType, Fragment, MatrixUnit, Ops, UOp, dtypes

Array = npt.NDArray[Any]
I32 = dtypes.int32
AXES = ("mk", "kn", "mn", "ms", "ns")
# OCP MX specification 1.0, tables 3 to 5: the values of the codes without sign
_E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
_E2M3 = (*(i / 8 for i in range(8)), *(s * (1 + i / 8) for s in (1, 2, 4) for i in range(8)))
_E3M2 = (*(i / 16 for i in range(4)), *(2.0**e * (1 + i / 4) for e in range(-2, 5) for i in range(4)))
CODES: dict[str, tuple[int, Array]] = {
    "int4": (4, np.array([*range(8), *range(-8, 0)], np.float64)),
    "uint4": (4, np.arange(16.0)),
    "fp4e2m1": (4, np.array([*_E2M1, *(-x for x in _E2M1)])),
    "fp6e2m3": (6, np.array([*_E2M3, *(-x for x in _E2M3)])),
    "fp6e3m2": (6, np.array([*_E3M2, *(-x for x in _E3M2)])),
}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    import ml_dtypes

    known = {"float8_e4m3": "float8_e4m3fn"}.get(dtype.name, dtype.name)
    return np.dtype(getattr(ml_dtypes, known) if dtype in (*dtypes.fp8s, dtypes.bfloat16) else known)


def digits(fragment: Fragment, axis: str, lane: UOp, element: int) -> UOp:
    """The position along an axis of an element of the fragment that lane `lane` holds (sizes are powers of
    two)."""
    total = UOp.const(0, I32)
    below = 0
    for d in fragment.lanes:
        if d.axis == axis:
            total = total + ((lane >> below) & (d.size - 1)) * d.stride
        below += d.size.bit_length() - 1
    for d in fragment.elements:
        if d.axis == axis:
            total = total + element % d.size * d.stride
        element //= d.size
    return total


@dataclass(frozen=True)
class Case:
    """Buffers of a kernel, and the D that numpy expects."""

    buffers: list[Array]
    expected: Array


def kernel(unit: MatrixUnit, rows: int, columns: int, depth: int) -> Body:
    """D = A·B + C for `rows` by `columns` by `depth` of the unit's elements: the rest is masked. Matrices are
    row-major, in whole; packed operands come as fragments, lane by lane."""
    body = Body()
    lane = body(special("item", 0, unit.lanes))
    limit = {"m": rows, "n": columns, "k": depth, "s": depth}
    size = {"m": unit.m, "n": unit.n, "k": unit.k, "s": unit.k // (unit.scale or 1)}
    values = []
    for slot, (fragment, axes) in enumerate(zip(unit.operands, AXES, strict=False)):
        if fragment.format in CODES:
            words = UOp.param(slot, fragment.dtype, unit.lanes * fragment.width, align=64)
            align = 4 * (fragment.width & -fragment.width)
            wide = fragment.width if fragment.width > 1 else 0
            values.append(body(words.load(lane * fragment.width, lanes=wide, align=align)))
            continue
        buffer = UOp.param(slot, fragment.dtype, size[axes[0]] * size[axes[1]], align=64)
        parts = []
        for e in range(fragment.count):
            x, y = (digits(fragment, axis, lane, e) for axis in axes)
            gate = (x < limit[axes[0]]) & (y < limit[axes[1]])
            whole = all(limit[a] >= size[a] for a in axes)
            parts.append(body(buffer.load(x * size[axes[1]] + y, None if whole else gate)))
        values.append(body(UOp(Ops.STACK, fragment.dtype, tuple(parts))) if fragment.shape else parts[0])
    d = body(UOp(Ops.MATRIX, unit.c.dtype, tuple(values), unit))
    out = UOp.param(len(values), unit.c.dtype, unit.m * unit.n, "w")
    for e in range(unit.c.count):
        x, y = digits(unit.c, "m", lane, e), digits(unit.c, "n", lane, e)
        one = body(d.lane(e)) if unit.c.shape else d
        gate = None if rows == unit.m and columns == unit.n else (x < rows) & (y < columns)
        body(out.store(x * unit.n + y, one, gate))
    return body


def case(
    unit: MatrixUnit, rng: np.random.Generator, rows: int, columns: int, depth: int, whole: bool
) -> Case:
    """Random matrices.

    Args:
        whole: of small whole numbers, for which every order of rounding gives one result; else normal
            numbers.
    """
    buffers: list[Array] = []
    exact: list[Array] = []
    for fragment, shape in (
        (unit.a, (unit.m, unit.k)), (unit.b, (unit.k, unit.n)), (unit.c, (unit.m, unit.n))
    ):  # fmt: skip
        if fragment.format in CODES:
            bits, table = CODES[fragment.format]
            codes = rng.integers(0, 1 << bits, shape)
            exact.append(table[codes])
            axes = "mk" if fragment is unit.a else "kn"
            buffers.append(pack(fragment, axes, codes, bits, unit.lanes))
            continue
        numbers = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape) * 4
        if fragment.dtype.is_unsigned:
            numbers = np.abs(numbers)
        stored = numbers.astype(np.float64).astype(numpy_dtype(fragment.dtype))
        if fragment.format == "xf32":  # numbers that it holds
            stored = (stored.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        buffers.append(stored)
        exact.append(stored.astype(np.float64))
    a, b, c = exact
    factors = []
    if unit.scale:
        blocks = unit.k // unit.scale
        for n in (unit.m, unit.n):
            exponents = rng.integers(122, 133, (n, blocks)).astype(np.uint8)
            buffers.append(exponents)
            factors.append(np.repeat(2.0 ** (exponents.astype(np.float64) - 127), unit.scale, axis=1))
        a, b = a * factors[0], b * factors[1].T
    buffers.append(np.zeros((unit.m, unit.n), numpy_dtype(unit.c.dtype)))
    expected = np.zeros((unit.m, unit.n))
    expected[:rows, :columns] = a[:rows, :depth] @ b[:depth, :columns] + c[:rows, :columns]
    return Case(buffers, expected)


def pack(fragment: Fragment, axes: str, codes: Array, bits: int, lanes: int) -> Array:
    """Fragments of all lanes as 32-bit words, one lane's after the other's."""
    out = np.zeros((lanes, fragment.width), np.uint32)
    for lane in range(lanes):
        total = 0
        for e in range(fragment.count):
            at = fragment.place(lane, e)
            total |= int(codes[at[axes[0]], at[axes[1]]]) << (bits * e)
        for w in range(fragment.width):
            out[lane, w] = total >> (32 * w) & 0xFFFFFFFF
    return out
