"""Element types, their bit patterns, and the lattice by which two of them meet.

A `DType` is a singleton: compare with `is`. *Weak* types belong to untyped Python numbers; they give way to
any other type of their kind. `index` is the weak integer: unbounded, used for indices, shapes and masks as
well.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal

from tiny_core.errors import DTypeError

Kind = Literal["void", "bool", "int", "uint", "float", "weakint", "weakfloat"]
Number = bool | int | float


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type.

    Args:
        name: the name printed and parsed, e.g. `float32`.
        kind: what arithmetic it has.
        bits: width of an element; 0 for void, and for weak types, which are never stored.
        exponent: bits of the exponent field (floats).
        mantissa: bits of the stored mantissa field (floats).
        code: the `struct` format character, or "" where Python has none.
        variant: "ieee" has infinities; "fn" has none (finite, one NaN); "fnuz" has neither negative zero.
    """

    name: str
    kind: Kind
    bits: int
    exponent: int = 0
    mantissa: int = 0
    code: str = ""
    variant: Literal["ieee", "fn", "fnuz"] = "ieee"

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> str | tuple[object, ...]:
        return (parse, (self.name,))

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return (self.bits + 7) // 8

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "weakfloat")

    @property
    def is_int(self) -> bool:
        """True for signed, unsigned and weak integers; bool is not an integer."""
        return self.kind in ("int", "uint", "weakint")

    @property
    def is_unsigned(self) -> bool:
        return self.kind == "uint"

    @property
    def is_weak(self) -> bool:
        return self.kind in ("weakint", "weakfloat")

    @property
    def min(self) -> Number:
        """Least value: -inf for floats with infinities, a very small int for `index`."""
        match self.kind:
            case "bool" | "uint":
                return 0
            case "int":
                return -(1 << (self.bits - 1))
            case "weakint":
                return -(1 << 62)
            case _:
                return -math.inf if self.variant == "ieee" else -self.largest

    @property
    def max(self) -> Number:
        """Greatest value: inf for floats with infinities."""
        match self.kind:
            case "bool":
                return 1
            case "uint":
                return (1 << self.bits) - 1
            case "int":
                return (1 << (self.bits - 1)) - 1
            case "weakint":
                return 1 << 62
            case _:
                return math.inf if self.variant == "ieee" else self.largest

    @property
    def largest(self) -> float:
        """Greatest finite value of a float type."""
        bias = (1 << (self.exponent - 1)) - 1 if self.exponent else 1023
        if self.kind == "weakfloat":
            return 1.7976931348623157e308
        if self.variant == "ieee":
            return math.ldexp(2 - 2.0**-self.mantissa, bias)
        if self.variant == "fn":
            return math.ldexp(2 - 2.0 ** (1 - self.mantissa), bias + 1)
        return math.ldexp(2 - 2.0**-self.mantissa, bias)


void = DType("void", "void", 0)
bool_ = DType("bool", "bool", 8, code="?")
int8 = DType("int8", "int", 8, code="b")
uint8 = DType("uint8", "uint", 8, code="B")
int16 = DType("int16", "int", 16, code="h")
uint16 = DType("uint16", "uint", 16, code="H")
int32 = DType("int32", "int", 32, code="i")
uint32 = DType("uint32", "uint", 32, code="I")
int64 = DType("int64", "int", 64, code="q")
uint64 = DType("uint64", "uint", 64, code="Q")
float8_e4m3 = DType("float8_e4m3", "float", 8, 4, 3, variant="fn")
float8_e5m2 = DType("float8_e5m2", "float", 8, 5, 2)
float8_e4m3fnuz = DType("float8_e4m3fnuz", "float", 8, 4, 3, variant="fnuz")
float8_e5m2fnuz = DType("float8_e5m2fnuz", "float", 8, 5, 2, variant="fnuz")
float16 = DType("float16", "float", 16, 5, 10, "e")
bfloat16 = DType("bfloat16", "float", 16, 8, 7)
float32 = DType("float32", "float", 32, 8, 23, "f")
float64 = DType("float64", "float", 64, 11, 52, "d")
index = DType("index", "weakint", 0)
weakint = index
weakfloat = DType("weakfloat", "weakfloat", 0, 11, 52, "d")

ALL: tuple[DType, ...] = (
    void, bool_, int8, uint8, int16, uint16, int32, uint32, int64, uint64,
    float8_e4m3, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64,
    index, weakfloat,
)  # fmt: skip
_ALIASES = {
    "half": float16, "float": float32, "double": float64, "char": int8, "short": int16, "int": int32,
    "long": int64, "uchar": uint8, "ushort": uint16, "uint": uint32, "ulong": uint64, "weakint": index,
}  # fmt: skip
_BY_NAME = {dtype.name: dtype for dtype in ALL} | _ALIASES

fp8s = (float8_e4m3, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz)
narrow_floats = (*fp8s, float16, bfloat16)
ints = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
floats = (*narrow_floats, float32, float64)
storable: tuple[DType, ...] = (bool_, *ints, *floats)


def parse(name: str) -> DType:
    """Return the dtype called `name`; accepts the aliases half, float, double, char, short, int, long and u….

    Raises:
        DTypeError: there is no such dtype; the hint has the closest names.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    import difflib

    close = difflib.get_close_matches(name.lower(), _BY_NAME, n=3)
    known = ", ".join(dtype.name for dtype in storable)
    raise DTypeError(
        f"unknown dtype {name!r}", f"did you mean {', '.join(close)}?" if close else f"there are {known}"
    )


# The lattice: an edge leads to each type that can hold the lower one's values as the field understands it
# (JAX's type promotion lattice, with fp8 types meeting at float16 or bfloat16). `promote` is the least common
# upper bound.
_EDGES: dict[DType, tuple[DType, ...]] = {
    bool_: (index,),
    index: (int8, uint8),
    int8: (int16,), uint8: (int16, uint16), int16: (int32,), uint16: (int32, uint32),
    int32: (int64,), uint32: (int64, uint64), int64: (weakfloat,), uint64: (weakfloat,),
    weakfloat: (*fp8s,),
    float8_e4m3: (float16, bfloat16), float8_e5m2: (float16, bfloat16),
    float8_e4m3fnuz: (float16, bfloat16), float8_e5m2fnuz: (float16, bfloat16),
    float16: (float32,), bfloat16: (float32,), float32: (float64,), float64: (),
}  # fmt: skip


def _closure(dtype: DType) -> frozenset[DType]:
    seen = {dtype}
    for above in _EDGES[dtype]:
        seen |= _closure(above)
    return frozenset(seen)


_ABOVE = {dtype: _closure(dtype) for dtype in _EDGES}
_RANK = {dtype: len(_EDGES) - len(above) for dtype, above in _ABOVE.items()}


def promote(*types: DType) -> DType:
    """Return the least dtype that all of `types` promote to.

    >>> promote(uint8, int8), promote(index, float16), promote(int64, float32)
    (dtypes.int16, dtypes.float16, dtypes.float32)
    """
    common = frozenset.intersection(*(_ABOVE[t] for t in types))
    return min(common, key=_RANK.__getitem__)


def kind_of(value: Number) -> DType:
    """Return the weak (or bool) type of a Python number; raises DTypeError for anything else."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return index
    if isinstance(value, float):
        return weakfloat
    raise DTypeError(f"{value!r} of type {type(value).__name__} is not a number", "use a bool, int or float")


def round_float(value: float, dtype: DType) -> float:
    """Round `value` to the nearest value of a float `dtype`, ties to even; overflow to infinity, or NaN
    without one."""
    if dtype.bits in (0, 64) or math.isnan(value):
        return value
    if dtype.variant == "fnuz" and (value == 0 or math.isinf(value)):
        return 0.0 if value == 0 else math.nan
    if math.isinf(value):
        return value if dtype.variant == "ieee" else math.nan
    if value == 0:
        return value
    bias = (1 << (dtype.exponent - 1)) - (0 if dtype.variant == "fnuz" else 1)
    _, exp = math.frexp(value)  # |value| in [2^(exp-1), 2^exp)
    quantum = max(exp - 1, 1 - bias) - dtype.mantissa
    rounded = math.ldexp(round(math.ldexp(value, -quantum)), quantum)
    if abs(rounded) > dtype.largest:
        return math.copysign(math.inf, value) if dtype.variant == "ieee" else math.nan
    if rounded == 0:
        return 0.0 if dtype.variant == "fnuz" else math.copysign(0.0, value)
    return rounded


def convert(value: Number, dtype: DType) -> Number:
    """Convert a Python number to a value of `dtype`: integers wrap, floats round once, float to integer
    saturates and sends NaN to 0 (every op of the IR is total)."""
    if dtype.kind == "bool":
        return bool(value)
    if dtype.is_float:
        if 0 < dtype.bits < 64 and isinstance(value, int):
            value = _exact_in_float64(value)
        try:
            return round_float(float(value), dtype)
        except OverflowError:
            return round_float(math.inf if value > 0 else -math.inf, dtype)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return int(dtype.max if value > 0 else dtype.min)
        value = int(value)
        return value if dtype.is_weak else int(min(max(value, dtype.min), dtype.max))
    return wrap(int(value), dtype)


def _exact_in_float64(value: int) -> int:
    """An integer of at most 53 significant bits that rounds to every narrower float as `value` does: what is
    cut off sets the last bit (rounding to odd), so that nothing is rounded twice."""
    size = abs(value)
    cut = size.bit_length() - 53
    if cut <= 0:
        return value
    kept = size >> cut
    kept = (kept | (kept << cut != size)) << cut
    return kept if value > 0 else -kept


def wrap(value: int, dtype: DType) -> int:
    """Reduce an integer to the range of an integer `dtype` in two's complement; `index` is unbounded."""
    if dtype.bits == 0:
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def to_bits(value: Number, dtype: DType) -> int:
    """Return the bit pattern of `value` (converted to `dtype` first); all NaNs give one pattern. An `index`
    is its own pattern, a `weakfloat` has that of a float64."""
    value = convert(value, dtype)
    if not dtype.is_float:
        return int(value) if dtype.is_weak else int(value) & ((1 << dtype.bits) - 1)
    value = float(value)
    if dtype.code:
        if math.isnan(value):
            value = math.nan
        return int.from_bytes(struct.pack("<" + dtype.code, value), "little")
    if math.isnan(value):
        return (
            0x80
            if dtype.variant == "fnuz"
            else (1 << (dtype.bits - 1)) - 1
            if dtype.variant == "fn"
            else (((1 << dtype.exponent) - 1) << dtype.mantissa) | (1 << (dtype.mantissa - 1))
        )
    sign = (1 if math.copysign(1.0, value) < 0 else 0) << (dtype.bits - 1)
    bias = (1 << (dtype.exponent - 1)) - (0 if dtype.variant == "fnuz" else 1)
    if value == 0:
        return sign
    if math.isinf(value):
        return sign | (((1 << dtype.exponent) - 1) << dtype.mantissa)
    fraction, exp = math.frexp(abs(value))
    field = exp - 1 + bias
    if field <= 0:
        return sign | round(math.ldexp(abs(value), bias - 1 + dtype.mantissa))
    return sign | (field << dtype.mantissa) + round(math.ldexp(fraction * 2 - 1, dtype.mantissa))


def from_bits(bits: int, dtype: DType) -> Number:
    """Return the Python value of a bit pattern; inverse of `to_bits`."""
    if dtype.kind == "bool":
        return bool(bits)
    if not dtype.is_float:
        return wrap(bits, dtype)
    if dtype.code:
        return float(struct.unpack("<" + dtype.code, bits.to_bytes(struct.calcsize(dtype.code), "little"))[0])
    sign = -1.0 if bits >> (dtype.bits - 1) else 1.0
    field = (bits >> dtype.mantissa) & ((1 << dtype.exponent) - 1)
    fraction = bits & ((1 << dtype.mantissa) - 1)
    if dtype.variant == "fnuz" and bits == 0x80:
        return math.nan
    top = (1 << dtype.exponent) - 1
    if dtype.variant == "ieee" and field == top:
        return math.nan if fraction else sign * math.inf
    if dtype.variant == "fn" and field == top and fraction == (1 << dtype.mantissa) - 1:
        return math.nan
    bias = (1 << (dtype.exponent - 1)) - (0 if dtype.variant == "fnuz" else 1)
    scale = 2.0**-dtype.mantissa
    if field == 0:
        return sign * math.ldexp(fraction * scale, 1 - bias)
    return sign * math.ldexp(1 + fraction * scale, field - bias)
