"""Matrix units: D = A·B + C over the lanes of each subgroup, from nothing but the unit's table.

In: a MATRIX node. Out: its step. Fragments are scattered into whole matrices by the table's layouts,
    multiplied
in double precision, rounded once (integers wrap), and gathered again. Lanes are items in the order of their
numbers within a group, as hardware has it. Where a layout has copies, they must agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiny_core.api import DType, Fragment, LaunchError, MatrixUnit, UOp, dtypes
from tiny_core.devices.python.rounding import Array, narrow
from tiny_core.devices.python.steps import Run, Step, require_uniform

Ints = NDArray[np.int64]
_BIAS = 127  # of the exponents that are factors (OCP MX specification 1.0, E8M0)


def positions(fragment: Fragment, lanes: int, axis: str) -> Ints:
    """Return where along an axis each element of each lane is, as an array of lanes by elements."""
    total = np.zeros((lanes, fragment.count), np.int64)
    for digits, number in (
        (fragment.lanes, np.arange(lanes)[:, None]),
        (fragment.elements, np.arange(fragment.count)[None, :]),
    ):
        for d in digits:
            if d.axis == axis:
                total = total + number % d.size * d.stride
            number = number // d.size
    return total


@dataclass(frozen=True, slots=True)
class _Part:
    """Where an operand's elements are: the matrix's shape, and the flat place in it of each lane's
    elements."""

    fragment: Fragment
    shape: tuple[int, int]
    places: Ints
    copies: bool

    @staticmethod
    def of(unit: MatrixUnit, fragment: Fragment, axes: str) -> _Part:
        size = {"m": unit.m, "n": unit.n, "k": unit.k, "s": unit.k // (unit.scale or 1)}
        rows, columns = (positions(fragment, unit.lanes, x) for x in axes)
        shape = size[axes[0]], size[axes[1]]
        places = rows * shape[1] + columns
        return _Part(fragment, shape, places, places.size > shape[0] * shape[1])

    def whole(self, value: Array, lanes: int, name: str) -> Array:
        """Return the matrices of all subgroups, as doubles, from fragments of (…, items, elements)."""
        elements = _elements(value, self.fragment)
        elements = elements.reshape(
            *elements.shape[:-2], -1, self.places.size
        )  # (…, subgroups, lane·element)
        flat = self.places.reshape(-1)
        out = np.empty((*elements.shape[:-1], self.shape[0] * self.shape[1]), np.float64)
        out[..., flat] = elements
        if self.copies:
            again = out[..., flat]
            if not np.array_equal(again, elements, equal_nan=True):
                raise LaunchError(
                    f"lanes that hold copies of an operand of {name} differ",
                    "its layout has digits of the lane that move along no axis",
                )
        return out.reshape(*out.shape[:-1], *self.shape)


def _elements(value: Array, fragment: Fragment) -> NDArray[np.float64]:
    """Return the elements of fragments as doubles, unpacked where they are packed."""
    encoding = fragment.encoding
    if encoding is None:
        plain: NDArray[np.float64] = value[..., : fragment.count].astype(np.float64)
        return plain
    raw = np.ascontiguousarray(value).view(np.uint8)
    if encoding.bits == 32:  # float32 of shorter mantissa
        lost = 23 - encoding.mantissa
        words = raw.view(np.uint32) >> lost << lost
        short: NDArray[np.float64] = words.view(np.float32).astype(np.float64)
        return short
    bits = np.unpackbits(raw, axis=-1, bitorder="little")[..., : fragment.count * encoding.bits]
    bits = bits.reshape(*bits.shape[:-1], fragment.count, encoding.bits)
    codes: Ints = (bits.astype(np.int64) << np.arange(encoding.bits)).sum(axis=-1)
    top = 1 << (encoding.bits - 1)
    if encoding.kind != "float":
        whole = codes if encoding.kind == "uint" else (codes ^ top) - top
        return np.asarray(whole, np.float64)
    bias, mantissa = (1 << (encoding.exponent - 1)) - 1, encoding.mantissa
    size = codes & (top - 1)
    exponent, fraction = size >> mantissa, size & ((1 << mantissa) - 1)
    normal = np.ldexp(1 + fraction / (1 << mantissa), exponent - bias)
    small = np.ldexp(fraction / (1 << mantissa), 1 - bias)
    value = np.where(exponent > 0, normal, small)
    return np.where(codes & top, -value, value)


def _rounded(x: NDArray[np.float64], dtype: DType) -> Array:
    if dtype.is_float:
        return narrow(x, dtype)
    # products of narrow integers and their sums are whole numbers below 2**53
    return x.astype(np.int64).astype(np.dtype(dtype.name))


def step(to: int, node: UOp, slots: tuple[int, ...], number: int) -> Step:
    """Return the step of a MATRIX node."""
    unit = node.payload(MatrixUnit)
    name, lanes, c = unit.name, unit.lanes, unit.c
    axes = ("mk", "kn", "mn", "ms", "ns")
    parts = [_Part.of(unit, f, x) for f, x in zip(unit.operands, axes, strict=False)]
    assert c.encoding is None and (c.dtype.is_float or c.dtype in (dtypes.int32, dtypes.uint32))
    gather, scalar = parts[2].places, c.width == 1

    def matrix(v: list[Array], run: Run) -> None:
        if run.block % lanes:
            raise LaunchError(
                f"a group of {run.block} items for {name}, which {lanes} lanes issue together",
                f"make groups of a multiple of {lanes} items",
            )
        require_uniform(run, number)
        wholes = []
        for slot, part in zip(slots, parts, strict=True):
            value = v[slot] if part.fragment.width > 1 else v[slot][..., None]
            full = (*value.shape[:-2], run.items, part.fragment.width)
            wholes.append(part.whole(np.broadcast_to(value, full), lanes, name))
        left, right, total, *factors = wholes
        if factors:
            left = left * np.repeat(np.ldexp(1.0, factors[0].astype(np.int64) - _BIAS), unit.scale, -1)
            over_k = np.repeat(np.ldexp(1.0, factors[1].astype(np.int64) - _BIAS), unit.scale, -1)
            right = right * np.swapaxes(over_k, -1, -2)
        result = _rounded(np.matmul(left, right) + total, c.dtype)
        flat = result.reshape(*result.shape[:-2], -1)[..., gather]  # (…, subgroups, lanes, elements)
        flat = flat.reshape(*flat.shape[:-3], run.items, c.count)
        v[to] = flat[..., 0] if scalar else flat

    return matrix
