"""Element-wise arithmetic, comparisons and choice: promotion, weak numbers, broadcasting, and the operators.

Python numbers are weak: they take the other operand's dtype, unless their kind is higher (an integer tensor
and a float give float32). Where a number is not a value of a narrow float dtype, the operation is done in
float32 and rounded once. Integer arithmetic wraps; division by zero gives 0 (and x for remainders).
"""

from __future__ import annotations

import math
from typing import Self

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import Handle, as_tensor, promote
from tiny_core.tensor.lines import show

Operand = Handle | Number
_MOST_EXPONENT = 1 << 16
"""Of powers by repeated multiplication."""
_FLOAT_ONLY = frozenset({Ops.DIV, Ops.POW})
_BITS = frozenset({Ops.AND, Ops.OR, Ops.XOR})
_SHIFTS = frozenset({Ops.SHL, Ops.SHR})
_INTEGER = frozenset({Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD})


def is_operand(x: object) -> bool:
    return isinstance(x, (Handle, bool, int, float)) or _is_scalar(x)


def _is_scalar(x: object) -> bool:
    """Whether `x` is a number of numpy's, which behaves as Python's."""
    return getattr(x, "shape", None) == () and hasattr(x, "item")


def number(what: str, x: object) -> Number:
    """Accept a number; raises DTypeError."""
    if isinstance(x, (bool, int, float)):
        return x
    value: object = x.item() if _is_scalar(x) else None  # type: ignore[attr-defined]  # `_is_scalar` looked
    if isinstance(value, (bool, int, float)):
        return value
    raise DTypeError(f"{what}: operand of type {type(x).__name__}", "use a Tensor or a number")


class Elementwise(Handle):
    """Arithmetic on elements."""

    __slots__ = ()

    # ---- the one way in -----------------------------------------------------------------------------------

    def _binary(self, name: str, op: Ops, other: Operand, reverse: bool = False) -> Self:
        """`self op other` (or the other way round), broadcast and promoted."""
        if not isinstance(other, Handle):
            return self._with_number(name, op, other, reverse)
        dtype = _check(name, op, promote(self.dtype, other.dtype))
        shape = self._broadcast(name, other)
        x = g.expand(g.cast(self.uop, dtype), shape)
        y = g.expand(g.cast(other.uop, dtype), shape)
        return self._result(name, g.alu(op, *((y, x) if reverse else (x, y))), other)

    def _with_number(self, name: str, op: Ops, value: Number, reverse: bool) -> Self:
        value = number(name, value)
        dtype = _check(name, op, promote(self.dtype, dtypes.kind_of(value)))
        compute = dtype
        if dtype in dtypes.narrow_floats and not _is_value(value, dtype):
            compute = dtypes.float32
        elif op in COMPARE and dtype.is_int and not _is_value(value, dtype):
            # beyond all values of the dtype, so each comparison is decided
            holds = op is Ops.CMPNE or (op is not Ops.CMPEQ and (value > dtype.max) is not reverse)
            return self._from_node(g.const(holds, dtypes.bool_, self.shape), self._cell.device)
        x = g.cast(self.uop, compute)
        y = g.const(value, compute, x.shape)
        node = g.alu(op, *((y, x) if reverse else (x, y)))
        return self._from_node(node if op in COMPARE else g.cast(node, dtype), self._cell.device)

    def _unary(self, op: Ops) -> Self:
        """A float op; integers become float32."""
        x = self.uop if self.dtype.is_float else g.cast(self.uop, dtypes.float32)
        return self._from_node(g.alu(op, x), self._cell.device)

    def _broadcast(self, name: str, *others: Handle) -> tuple[int, ...]:
        first = self.uop.shape
        if all(o.uop.shape == first for o in others):
            return first
        try:
            return g.broadcast_shape(name, first, *(o.uop.shape for o in others))
        except ShapeError as error:
            made = ", ".join(show(t._line) for t in (self, *others))
            raise ShapeError(error.message, f"{error.hint}; operands were made at {made}") from None

    # ---- arithmetic ---------------------------------------------------------------------------------------

    def add(self, other: Operand, reverse: bool = False) -> Self:
        """self + other, broadcast as in numpy, in the dtype that both promote to. Integers wrap; bools are
        or-ed.

        Args:
            other: a tensor, or a number, which takes this tensor's dtype unless its kind is higher.
            reverse: swap the two.

        Raises:
            ShapeError: shapes do not broadcast.
            DTypeError: `other` is neither tensor nor number.
            DeviceError: the tensors are on different devices.

        >>> (Tensor([[1], [2]]) + Tensor([10, 20])).tolist()
        [[11, 21], [12, 22]]
        >>> (Tensor([1, 2]) + 0.5).tolist()
        [1.5, 2.5]
        """
        return self._binary("add", Ops.ADD, other, reverse)

    def sub(self, other: Operand, reverse: bool = False) -> Self:
        """self - other; integers wrap. Arguments and errors as `add`.

        Raises:
            DTypeError: both are bools.
        """
        return self._binary("sub", Ops.SUB, other, reverse)

    def mul(self, other: Operand, reverse: bool = False) -> Self:
        """self * other; integers wrap, bools are and-ed. Arguments and errors as `add`."""
        return self._binary("mul", Ops.MUL, other, reverse)

    def div(self, other: Operand, reverse: bool = False, rounding_mode: str | None = None) -> Self:
        """self / other: integers give float32, unless `rounding_mode` is "trunc" or "floor": then the
        quotient is rounded toward zero or down, and integers stay integers (x divided by 0 is 0). `//` is
        "floor".

        Raises:
            DTypeError: there is no such rounding mode; others as `add`.

        >>> (Tensor([7, -7]) / 2).tolist(), (Tensor([7, -7]) // 2).tolist()
        ([3.5, -3.5], [3, -4])
        >>> Tensor([7, -7]).div(2, rounding_mode="trunc").tolist()
        [3, -3]
        """
        if rounding_mode not in (None, "trunc", "floor"):
            raise DTypeError(f"div: rounding_mode {rounding_mode!r}", "use None, 'trunc' or 'floor'")
        if rounding_mode is not None and self._meet(other).is_int:
            op = Ops.IDIV if rounding_mode == "trunc" else Ops.FLOORDIV
            return self._binary("div", op, other, reverse)
        quotient = self._float_operand()._binary("div", Ops.DIV, other, reverse)
        if rounding_mode is None:
            return quotient
        return quotient.trunc() if rounding_mode == "trunc" else quotient.floor()

    def mod(self, other: Operand, reverse: bool = False) -> Self:
        """Remainder with the sign of the divisor, as Python's `%`. x mod 0 is x for integers, NaN for floats.

        >>> (Tensor([7, -7]) % 3).tolist()
        [1, 2]
        """
        if self._meet(other).is_int:
            return self._binary("mod", Ops.FLOORMOD, other, reverse)
        return self._remainder(other, reverse, "floor")

    def fmod(self, other: Operand, reverse: bool = False) -> Self:
        """Remainder with the sign of the dividend, as C's `fmod`. x mod 0 is x for integers, NaN for floats.

        >>> Tensor([7, -7]).fmod(3).tolist()
        [1, -1]
        """
        if self._meet(other).is_int:
            return self._binary("fmod", Ops.IMOD, other, reverse)
        return self._remainder(other, reverse, "trunc")

    def _remainder(self, other: Operand, reverse: bool, rounding_mode: str) -> Self:
        """x - round(x / y) · y of floats; narrow ones in float32, as a rounded quotient would be another."""
        a, b = self._pair(other, reverse)
        (x, dtype), (y, _) = a._computed_in(), b._computed_in()
        return x.sub(x.div(y, rounding_mode=rounding_mode).mul(y)).cast(dtype)

    def pow(self, other: Operand, reverse: bool = False) -> Self:
        """self ** other. An integer tensor to a non-negative Python integer stays integer (and wraps); with a
        float on either side the result is a float.

        Raises:
            DTypeError: an integer tensor to the power of an integer tensor, or of a negative integer.

        >>> (Tensor([2, 3]) ** 2).tolist(), (Tensor([4.0]) ** 0.5).tolist()
        ([4, 9], [2.0])
        """
        if not isinstance(other, Handle):
            other = number("pow", other)
        if not isinstance(other, Handle) and not reverse and abs(other) <= _MOST_EXPONENT:
            if (
                float(other).is_integer()
                and 1 <= other <= 16
                and (self.dtype.is_float or not isinstance(other, float))
            ):
                return self._power(int(other))
            if other == 0.5 and self.dtype.is_float:
                return self._unary(Ops.SQRT)
            if other == -1 and self.dtype.is_float:
                return self._unary(Ops.RECIP)
            if not self.dtype.is_float and isinstance(other, int) and other >= 0:
                return self._power(other)
        if not self._meet(other).is_float:
            raise DTypeError(
                f"pow of {self.dtype.name} by {_kind(other)}",
                "integers take a non-negative Python integer as exponent; cast one of them to a float",
            )
        return self._float_operand()._binary("pow", Ops.POW, other, reverse)

    def _power(self, n: int) -> Self:
        """x**n by repeated squaring."""
        if n == 0:
            return self._from_node(self._number(1), self._cell.device)
        square, result = self, None
        while n:
            if n & 1:
                result = square if result is None else result.mul(square)
            n >>= 1
            if n:
                square = square.mul(square)
        assert result is not None
        return result

    def _meet(self, other: Operand) -> DType:
        """The dtype that this tensor and another operand promote to."""
        return promote(self.dtype, _dtype_of(other))

    def _float_operand(self) -> Self:
        return self if self.dtype.is_float else self.cast(dtypes.float32)

    def _pair(self, other: Operand, reverse: bool) -> tuple[Self, Self]:
        """This tensor and the other operand as tensors of a common float dtype, in order."""
        mine = self.cast(self._meet(other))
        if isinstance(other, Handle):
            its = self._from_node(g.cast(other.uop, mine.dtype), other._cell.device)
        else:
            its = self._from_node(mine._number(number("operand", other)), self._cell.device)
        return (its, mine) if reverse else (mine, its)

    def neg(self) -> Self:
        """-x; wraps for integers, and is `logical_not` for bool."""
        op = Ops.NOT if self.dtype is dtypes.bool_ else Ops.NEG
        return self._from_node(g.alu(op, self.uop), self._cell.device)

    def maximum(self, other: Operand) -> Self:
        """The greater of two; NaN if either is."""
        return self._binary("maximum", Ops.MAX, other)

    def minimum(self, other: Operand) -> Self:
        """The lesser of two; NaN if either is."""
        return self._binary("minimum", Ops.MIN, other)

    def floor(self) -> Self:
        """Round down; integers stay as they are."""
        return self._rounded(-1)

    def ceil(self) -> Self:
        """Round up; integers stay as they are."""
        return self._rounded(1)

    def _rounded(self, toward: int) -> Self:
        if not self.dtype.is_float:
            return self
        t = self.trunc()
        beyond = self._binary("floor", Ops.CMPLT if toward < 0 else Ops.CMPLE, t)
        if toward < 0:
            return beyond.where(t.sub(1), t)
        return beyond.where(t, t.add(1))

    def trunc(self) -> Self:
        """Round toward zero; integers stay as they are."""
        return self if not self.dtype.is_float else self._unary(Ops.TRUNC)

    # ---- bits ---------------------------------------------------------------------------------------------

    def bitwise_and(self, other: Operand, reverse: bool = False) -> Self:
        """self & other, bit by bit; raises DTypeError for floats."""
        return self._binary("bitwise_and", Ops.AND, other, reverse)

    def bitwise_or(self, other: Operand, reverse: bool = False) -> Self:
        """self | other, bit by bit; raises DTypeError for floats."""
        return self._binary("bitwise_or", Ops.OR, other, reverse)

    def bitwise_xor(self, other: Operand, reverse: bool = False) -> Self:
        """self ^ other, bit by bit; raises DTypeError for floats."""
        return self._binary("bitwise_xor", Ops.XOR, other, reverse)

    def bitwise_not(self) -> Self:
        """~self, bit by bit (for bools, the opposite); raises DTypeError for floats."""
        if self.dtype.is_float:
            raise DTypeError(f"bitwise_not of {self.dtype.name}", "it takes integers and bools")
        return self._from_node(g.alu(Ops.NOT, self.uop), self._cell.device)

    def lshift(self, other: Operand, reverse: bool = False) -> Self:
        """self << other; by the width or more gives 0. Raises DTypeError for floats and bools."""
        return self._binary("lshift", Ops.SHL, other, reverse)

    def rshift(self, other: Operand, reverse: bool = False) -> Self:
        """self >> other, arithmetic for signed integers; by the width or more gives 0 (or the sign). Raises
        DTypeError for floats and bools.
        """
        return self._binary("rshift", Ops.SHR, other, reverse)

    # ---- comparison and choice ----------------------------------------------------------------------------

    def eq(self, other: Operand) -> Self:
        """Whether elements are equal (bool); `==` is the same. NaN equals nothing."""
        return self._binary("eq", Ops.CMPEQ, other)

    def ne(self, other: Operand) -> Self:
        """Whether elements differ (bool); `!=` is the same. NaN differs from everything."""
        return self._binary("ne", Ops.CMPNE, other)

    def logical_not(self) -> Self:
        """Whether an element is 0 (bool)."""
        x = g.alu(Ops.NOT, self.uop) if self.dtype is dtypes.bool_ else g.scalar_op(Ops.CMPEQ, self.uop, 0)
        return self._from_node(x, self._cell.device)

    def where(self, x: Operand, y: Operand) -> Self:
        """x where this holds (is not 0), else y; all three broadcast, and x and y promote.

        Raises:
            ShapeError: shapes do not broadcast.

        >>> (Tensor([1, -2]) > 0).where(1.0, 0.0).tolist()
        [1.0, 0.0]
        """
        dtype = promote(_dtype_of(x), _dtype_of(y))
        tensors = [t for t in (x, y) if isinstance(t, Handle)]
        shape = self._broadcast("where", *tensors)
        condition = self.uop if self.dtype is dtypes.bool_ else g.scalar_op(Ops.CMPNE, self.uop, 0)
        sides = [
            g.expand(g.cast(t.uop, dtype), shape)
            if isinstance(t, Handle)
            else g.const(number("where", t), dtype, shape)
            for t in (x, y)
        ]
        return self._result("where", g.where(g.expand(condition, shape), *sides), *tensors)

    def masked_fill(self, mask: Handle, value: Operand) -> Self:
        """`value` where the mask holds, else this; they broadcast and promote.

        >>> Tensor([1.0, 2.0]).masked_fill(Tensor([True, False]), 9).tolist()
        [9.0, 2.0]
        """
        as_tensor("masked_fill", mask)
        return self._from_node(mask.uop, mask._cell.device).where(value, self)

    def clamp(self, min_: Operand | None = None, max_: Operand | None = None) -> Self:
        """Limit to [min_, max_]; NaN stays NaN, and at a limit the gradient passes. `clip` is the same.

        Args:
            min_: a number or tensor; None for no lower limit.
            max_: and for no upper one.

        Raises:
            DTypeError: neither limit is given.

        >>> Tensor([-1.0, 0.5, 2.0]).clamp(0, 1).tolist()
        [0.0, 0.5, 1.0]
        """
        if min_ is None and max_ is None:
            raise DTypeError("clamp without limits", "give min_ or max_")
        x = self
        if min_ is not None:
            x = x._binary("clamp", Ops.CMPLT, min_).where(min_, x)
        if max_ is not None:
            x = x._binary("clamp", Ops.CMPLT, max_, reverse=True).where(max_, x)
        return x

    clip = clamp

    # ---- operators ----------------------------------------------------------------------------------------

    def __neg__(self) -> Self:
        return self.neg()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __add__(self, other: Operand) -> Self:
        return self.add(other) if is_operand(other) else NotImplemented

    def __sub__(self, other: Operand) -> Self:
        return self.sub(other) if is_operand(other) else NotImplemented

    def __mul__(self, other: Operand) -> Self:
        return self.mul(other) if is_operand(other) else NotImplemented

    def __truediv__(self, other: Operand) -> Self:
        return self.div(other) if is_operand(other) else NotImplemented

    def __floordiv__(self, other: Operand) -> Self:
        return self.div(other, rounding_mode="floor") if is_operand(other) else NotImplemented

    def __mod__(self, other: Operand) -> Self:
        return self.mod(other) if is_operand(other) else NotImplemented

    def __pow__(self, other: Operand) -> Self:
        return self.pow(other) if is_operand(other) else NotImplemented

    def __and__(self, other: Operand) -> Self:
        return self.bitwise_and(other) if is_operand(other) else NotImplemented

    def __or__(self, other: Operand) -> Self:
        return self.bitwise_or(other) if is_operand(other) else NotImplemented

    def __xor__(self, other: Operand) -> Self:
        return self.bitwise_xor(other) if is_operand(other) else NotImplemented

    def __lshift__(self, other: Operand) -> Self:
        return self.lshift(other) if is_operand(other) else NotImplemented

    def __rshift__(self, other: Operand) -> Self:
        return self.rshift(other) if is_operand(other) else NotImplemented

    def __radd__(self, other: Operand) -> Self:
        return self.add(other, True) if is_operand(other) else NotImplemented

    def __rsub__(self, other: Operand) -> Self:
        return self.sub(other, True) if is_operand(other) else NotImplemented

    def __rmul__(self, other: Operand) -> Self:
        return self.mul(other, True) if is_operand(other) else NotImplemented

    def __rtruediv__(self, other: Operand) -> Self:
        return self.div(other, True) if is_operand(other) else NotImplemented

    def __rfloordiv__(self, other: Operand) -> Self:
        return self.div(other, True, rounding_mode="floor") if is_operand(other) else NotImplemented

    def __rmod__(self, other: Operand) -> Self:
        return self.mod(other, True) if is_operand(other) else NotImplemented

    def __rpow__(self, other: Operand) -> Self:
        return self.pow(other, True) if is_operand(other) else NotImplemented

    def __rand__(self, other: Operand) -> Self:
        return self.bitwise_and(other, True) if is_operand(other) else NotImplemented

    def __ror__(self, other: Operand) -> Self:
        return self.bitwise_or(other, True) if is_operand(other) else NotImplemented

    def __rxor__(self, other: Operand) -> Self:
        return self.bitwise_xor(other, True) if is_operand(other) else NotImplemented

    def __rlshift__(self, other: Operand) -> Self:
        return self.lshift(other, True) if is_operand(other) else NotImplemented

    def __rrshift__(self, other: Operand) -> Self:
        return self.rshift(other, True) if is_operand(other) else NotImplemented

    def __lt__(self, other: Operand) -> Self:
        return self._binary("<", Ops.CMPLT, other) if is_operand(other) else NotImplemented

    def __le__(self, other: Operand) -> Self:
        return self._binary("<=", Ops.CMPLE, other) if is_operand(other) else NotImplemented

    def __gt__(self, other: Operand) -> Self:
        return self._binary(">", Ops.CMPLT, other, True) if is_operand(other) else NotImplemented

    def __ge__(self, other: Operand) -> Self:
        return self._binary(">=", Ops.CMPLE, other, True) if is_operand(other) else NotImplemented

    def __eq__(self, other: Operand) -> Self:  # type: ignore[override]  # element-wise, as arrays have it
        return self.eq(other) if is_operand(other) else NotImplemented

    def __ne__(self, other: Operand) -> Self:  # type: ignore[override]
        return self.ne(other) if is_operand(other) else NotImplemented

    __hash__ = Handle.__hash__


def _dtype_of(x: Operand) -> DType:
    return x.dtype if isinstance(x, Handle) else dtypes.kind_of(number("operand", x))


def _kind(x: Operand) -> str:
    return x.dtype.name if isinstance(x, Handle) else repr(x)


def _is_value(value: Number, dtype: DType) -> bool:
    """Whether a number is a value of `dtype`, so that nothing is lost by making it one."""
    there = dtypes.convert(value, dtype)
    return there == value or (isinstance(value, float) and math.isnan(value) and math.isnan(there))


def _check(name: str, op: Ops, dtype: DType) -> DType:
    """Return the dtype in which `op` is computed; raises DTypeError where it has no meaning."""
    if op in _BITS and dtype.is_float:
        raise DTypeError(f"{name} of {dtype.name}", "it takes integers and bools; cast first")
    if op in _SHIFTS and not dtype.is_int:
        raise DTypeError(f"{name} of {dtype.name}", "it takes integers; cast first")
    if op is Ops.SUB and dtype is dtypes.bool_:
        raise DTypeError("sub of bool", "use ^ or logical_not, or cast to an integer")
    if op in _INTEGER and dtype is dtypes.bool_:
        return dtypes.int32
    return dtypes.float32 if op in _FLOAT_ONLY and not dtype.is_float else dtype
