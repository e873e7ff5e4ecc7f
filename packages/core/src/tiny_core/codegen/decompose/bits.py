"""What the decompositions build with: constants over lanes, selects, and the layout of float formats.

The functions only spell expressions; whether a target has the ops in them is for `legalize.py` to see, which
takes every result apart again until nothing undeclared is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
SIGNED = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of float32 or float64.

    Args:
        dtype: the float type.
        uint: the unsigned integer of its width, and
        sint: the signed one.
    """

    dtype: DType
    uint: DType
    sint: DType

    @property
    def mantissa(self) -> int:
        """Bits of the mantissa field."""
        return self.dtype.mantissa

    @property
    def bias(self) -> int:
        """What the exponent field adds to the exponent."""
        return (1 << (self.dtype.exponent - 1)) - 1

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.dtype.bits - 1)

    @property
    def infinity(self) -> int:
        """Bits of infinity; greater magnitudes are NaNs."""
        return ((1 << self.dtype.exponent) - 1) << self.mantissa

    def bits(self, value: float) -> int:
        """Bits of `value`."""
        return dtypes.to_bits(value, self.dtype)


SINGLE = Format(dtypes.float32, dtypes.uint32, dtypes.int32)
DOUBLE = Format(dtypes.float64, dtypes.uint64, dtypes.int64)
FORMATS = {dtypes.float32: SINGLE, dtypes.float64: DOUBLE}


def lanes(node: UOp) -> int:
    """Lanes of a value; 0 for a scalar."""
    return node.shape[0] if node.shape else 0


def like(node: UOp, value: Number, dtype: DType | None = None) -> UOp:
    """A constant over the lanes of `node`, of its dtype unless another is given."""
    return UOp.const(value, dtype or node.dtype, lanes(node))


def select(condition: UOp, x: UOp | Number, y: UOp | Number, dtype: DType | None = None) -> UOp:
    """WHERE of which both x and y may be numbers (then of `dtype`)."""
    if not isinstance(x, UOp) and not isinstance(y, UOp):
        x = like(condition, x, dtype)
    return condition.where(x, y)


def horner(coefficients: tuple[float, ...], x: UOp) -> UOp:
    """The polynomial with these coefficients, lowest power first, by Horner's rule."""
    value = x * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        value = value * x + c
    return value


def constant(node: UOp) -> Number | None:
    """The number in all lanes of a CONST, or None."""
    if node.op is Ops.STACK and node.src.count(node.src[0]) == len(node.src):
        node = node.src[0]
    return node.value if node.op is Ops.CONST else None


def invert(condition: UOp) -> UOp:
    """NOT of a bool."""
    return condition.alu(Ops.NOT)


def is_nan(x: UOp) -> UOp:
    """Where a float is NaN."""
    return x.ne(x)
