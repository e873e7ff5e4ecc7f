"""Element-wise functions, from the handful of operations that the IR has.

Integers become float32. Narrow floats are computed in float32 and rounded once.

Errors are in units in the last place (ulp: the distance of neighbouring results), for all arguments unless
said otherwise, and hold where a target has the functions of the IR within their stated errors
(`codegen/decompose`). An odd function keeps the sign of zero, and its slope there. Where a function is put
together of two forms, each is given an argument that it can take, so that the gradient of the one not
chosen is 0 and not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self, TypeVar

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir.ops import Ops
from tiny_core.tensor import approximations as a
from tiny_core.tensor import graph as g
from tiny_core.tensor.elementwise import Elementwise, Operand

_LN2 = math.log(2)
T = TypeVar("T", bound="Maths")


class Maths(Elementwise):
    """Functions of one number."""

    __slots__ = ()

    # ---- powers and logarithms ----------------------------------------------------------------------------

    def exp(self) -> Self:
        """e to the power of x, to 1.2 ulp."""
        x, dtype = self._computed_in()
        return x._scaled_exp(0).cast(dtype)

    def _scaled_exp(self, n: int) -> Self:
        """exp(x) * 2**n, which overflows only where that does."""
        # The product is not rounded: code generation knows exp by this spelling (codegen/decompose/idioms).
        power = self * (1 / _LN2)
        return (power + n if n else power).exp2()

    def expm1(self) -> Self:
        """exp(x) - 1, to 2.5 ulp, near 0 too.

        >>> Tensor([0.0, 1e-9]).expm1().tolist() == Tensor([0.0, 1e-9]).tolist()
        True
        """
        x, dtype = self._computed_in()
        small = (x > -0.35) & (x < 0.7)
        near, far = small.where(x, 0.0), small.where(1.0, x)
        series = near * (near * _polynomial(near, a.EXPM1_SINGLE, a.EXPM1_DOUBLE) + 1)
        return small.where(series, far.exp() - 1).cast(dtype)

    def exp2(self) -> Self:
        """2 to the power of x."""
        return self._unary(Ops.EXP2)

    def log(self) -> Self:
        """Natural logarithm, to 2.7 ulp: -inf at 0, NaN below."""
        x, dtype = self._computed_in()
        return (x.log2() * _LN2).cast(dtype)

    def log1p(self) -> Self:
        """log(1 + x), to 3 ulp, near 0 too: -inf at -1, NaN below.

        >>> Tensor([0.0, 1e-9]).log1p().tolist() == Tensor([0.0, 1e-9]).tolist()
        True
        """
        x, dtype = self._computed_in()
        return x._log1p().cast(dtype)

    def _log1p(self) -> Self:
        total = self + 1
        # what the sum lacks is added in the first order; it is no part of the slope, which is 1 / (1 + x)
        usual = (total > 0) & (total < math.inf)
        lacking = usual.where((self - (total - 1)) / usual.where(total, 1.0), 0.0)._detached()
        return total.eq(1).where(self, total.log() + lacking)

    def log2(self) -> Self:
        """Logarithm to base 2: -inf at 0, NaN below."""
        return self._unary(Ops.LOG2)

    def log10(self) -> Self:
        """Logarithm to base 10, to 2.7 ulp: -inf at 0, NaN below."""
        x, dtype = self._computed_in()
        return (x.log2() * math.log10(2)).cast(dtype)

    def sqrt(self) -> Self:
        """Square root: NaN below zero."""
        return self._unary(Ops.SQRT)

    def rsqrt(self) -> Self:
        """1 / sqrt(x): inf at 0, NaN below."""
        x, dtype = self._computed_in()
        return x.sqrt().reciprocal().cast(dtype)

    def reciprocal(self) -> Self:
        """1 / x: at 0, infinity of its sign."""
        return self._unary(Ops.RECIP)

    def square(self) -> Self:
        """x * x; integers stay integers, and wrap."""
        return self * self

    # ---- signs and classes --------------------------------------------------------------------------------

    def abs(self) -> Self:
        """|x|; integers stay integers, and the least one stays itself."""
        if self.dtype is dtypes.bool_ or self.dtype.is_unsigned:
            return self
        return self.maximum(self.neg())

    def sign(self) -> Self:
        """-1, 0 or 1; 0 for NaN."""
        if self.dtype is dtypes.bool_:
            return self
        one, zero = self._number(1), self._number(0)
        positive = g.alu(Ops.CMPLT, zero, self.uop)
        if self.dtype.is_unsigned:
            return self._from_node(g.where(positive, one, zero), self._cell.device)
        negative = g.where(g.alu(Ops.CMPLT, self.uop, zero), self._number(-1), zero)
        return self._from_node(g.where(positive, one, negative), self._cell.device)

    def copysign(self, other: Operand) -> Self:
        """The magnitude of this with the sign of `other`, that of -0.0 included."""
        size, sign = self._float_operand()._pair(other, False)
        negative = (sign < 0) | (sign.eq(0) & (sign.reciprocal() < 0))
        size = size.abs()
        return negative.where(-size, size)

    def isnan(self) -> Self:
        """Whether an element is NaN (bool)."""
        return self.ne(self)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Whether an element is an infinity, of either sign or of the ones asked for (bool)."""
        if not self.dtype.is_float:
            return self._from_node(g.const(False, dtypes.bool_, self.shape), self._cell.device)
        infinite = self.abs().eq(math.inf)
        if not detect_positive:
            infinite = infinite & (self < 0)
        return infinite if detect_negative else infinite & (self > 0)

    def isfinite(self) -> Self:
        """Whether an element is neither infinite nor NaN (bool)."""
        return (self.isinf() | self.isnan()).logical_not()

    def isclose(
        self, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """|self - other| <= atol + rtol * |other| for each element (bool); equal infinities are close."""
        x, y = self._float_operand()._pair(other, False)
        near = (x - y).abs() <= y.abs() * rtol + atol
        close = (x.isfinite() & y.isfinite() & near) | x.eq(y)
        return close | (x.isnan() & y.isnan()) if equal_nan else close

    def round(self) -> Self:
        """Round to the nearest integer, halves to even."""
        if not self.dtype.is_float:
            return self
        whole = self.trunc()
        rest = (self - whole).abs()  # exact
        odd = (whole * 0.5).trunc().ne(whole * 0.5)
        away = (rest > 0.5) | (rest.eq(0.5) & odd)
        return away.where(whole + (self < 0).where(-1.0, 1.0).cast(self.dtype), whole)

    def lerp(self, end: Operand, weight: Operand) -> Self:
        """self + (end - self) * weight."""
        return self + (self.sub(end, reverse=True)) * weight

    def logaddexp(self, other: Operand) -> Self:
        """log(exp(self) + exp(other)), without overflow, and to what the larger of the two has of digits."""
        x, y = self._float_operand()._pair(other, False)
        least = x.eq(y).where(0.0, x.minimum(y) - x.maximum(y))  # of equal infinities too
        return x.maximum(y) + least.exp()._log1p()

    def _detached(self) -> Self:
        return self._from_node(g.detach(self.uop), self._cell.device)

    def _size(self) -> Self:
        """|x| (of -0.0 itself), with the slope of x at 0."""
        return (self < 0).where(-self, self)

    # ---- trigonometry -------------------------------------------------------------------------------------

    def sin(self) -> Self:
        """Sine of radians, to 1.5 ulp."""
        return self._unary(Ops.SIN)

    def cos(self) -> Self:
        """Cosine of radians, to 1.5 ulp."""
        x, dtype = self._computed_in()
        # The sum is not rounded: code generation knows the cosine by it (codegen/decompose/idioms).
        return (x + math.pi / 2).sin().cast(dtype)

    def tan(self) -> Self:
        """Tangent of radians, as sine by cosine, to 4 ulp."""
        x, dtype = self._computed_in()
        return (x.sin() / x.cos()).cast(dtype)

    def asin(self) -> Self:
        """Arcsine in radians, to 6 ulp; NaN beyond ±1."""
        x, dtype = self._computed_in()
        return (x / ((1 - x) * (1 + x)).sqrt())._arctangent().cast(dtype)

    def acos(self) -> Self:
        """Arccosine in radians, to 6 ulp; NaN beyond ±1."""
        x, dtype = self._computed_in()
        return (((1 - x) / (1 + x)).sqrt()._arctangent() * 2).cast(dtype)

    def atan(self) -> Self:
        """Arctangent in radians, to 5 ulp."""
        x, dtype = self._computed_in()
        return x._arctangent().cast(dtype)

    def _arctangent(self) -> Self:
        """Arctangent: halve the angle twice by atan x = 2 atan(x / (1 + sqrt(1 + x²))), then the power
        series."""
        # Beyond 1 by atan x = π/2 - atan(1/x), so that x² does not overflow. |y| <= tan(π/16) < 0.2 where
        # the series starts: 11 terms leave 0.2^23/23 < 1e-17.
        size = self._size()
        large = size > 1
        y = large.where(large.where(size, 1.0).reciprocal(), size)
        for _ in range(2):
            y = y / ((y * y + 1).sqrt() + 1)
        terms = tuple((-1) ** k / (2 * k + 1) for k in range(11))
        angle = y * _polynomial(y * y, terms, terms) * 4
        angle = large.where(math.pi / 2 - angle, angle)
        return (self < 0).where(-angle, angle)

    # ---- hyperbolic functions -----------------------------------------------------------------------------

    def sinh(self) -> Self:
        """(exp(x) - exp(-x)) / 2, to 2.5 ulp, near 0 too."""
        x, dtype = self._computed_in()
        small = (x > -1) & (x < 1)
        near, far = small.where(x, 0.0), small.where(1.0, x)
        terms = tuple(1 / math.factorial(2 * k + 3) for k in range(8))
        square = near * near
        series = near + near * (square * _polynomial(square, terms[:4], terms))
        return small.where(series, far._scaled_exp(-1) - (-far)._scaled_exp(-1)).cast(dtype)

    def cosh(self) -> Self:
        """(exp(x) + exp(-x)) / 2, to 2 ulp."""
        x, dtype = self._computed_in()
        return (x._scaled_exp(-1) + (-x)._scaled_exp(-1)).cast(dtype)

    def tanh(self) -> Self:
        """Hyperbolic tangent, to 4 ulp, near 0 too."""
        x, dtype = self._computed_in()
        e = (x._size() * -2).expm1()
        value = -e / (e + 2)
        return (x < 0).where(-value, value).cast(dtype)

    def asinh(self) -> Self:
        """Inverse of sinh, to 5 ulp, near 0 too."""
        x, dtype = self._computed_in()
        size = x._size()
        large = size > _squares_alone(x.dtype)
        near, far = large.where(1.0, size), large.where(size, 1.0)
        # x + sqrt(x²+1) - 1 without the cancellation
        value = (near * (near / ((near * near + 1).sqrt() + 1) + 1))._log1p()
        value = large.where(far.log() + _LN2, value)
        return (x < 0).where(-value, value).cast(dtype)

    def acosh(self) -> Self:
        """Inverse of cosh, to 5 ulp, near 1 too; NaN below 1."""
        x, dtype = self._computed_in()
        large = x > _squares_alone(x.dtype)
        above, far = large.where(1.0, x - 1), large.where(x, 1.0)
        value = (above + (above * (above + 2)).sqrt())._log1p()
        return (x < 1).where(math.nan, large.where(far.log() + _LN2, value)).cast(dtype)

    def atanh(self) -> Self:
        """Inverse of tanh, to 5 ulp, near 0 too; NaN beyond ±1."""
        x, dtype = self._computed_in()
        size = x._size()
        value = (size * 2 / (1 - size))._log1p() / 2
        return (x < 0).where(-value, value).cast(dtype)

    # ---- the normal distribution --------------------------------------------------------------------------

    def erf(self) -> Self:
        """Error function, to 2 ulp, near 0 too.

        >>> round(Tensor([0.5]).erf().item(), 4)
        0.5205
        """
        x, dtype = self._computed_in()
        small = (x > -1) & (x < 1)
        near, far = small.where(x, 0.0), small.where(1.0, x)
        series = near + near * _polynomial(near * near, a.ERF_SINGLE, a.ERF_DOUBLE)
        value = 1 - far._size()._tail()
        return small.where(series, (far < 0).where(-value, value)).cast(dtype)

    def _erfc(self) -> Self:
        """1 - erf(x), to 6 ulp however small it is."""
        value = self._size()._tail()
        return (self < 0).where(2 - value, value)

    def _tail(self) -> Self:
        """1 - erf(x) for x >= 0."""
        x = self.minimum(30)  # where it is 0
        # exp(-x²), with what the square lacks (Dekker's product) added in the first order; no part of the
        # slope
        square = x * x
        shifted = x * (4097.0 if x.dtype is not dtypes.float64 else 134217729.0)
        high = shifted - (shifted - x)
        low = x - high
        lacking = (((high * high - square) + high * low * 2) + low * low)._detached()
        bell = (-square).exp()
        scale = _polynomial((x - 3.75) / (x + 3.75), a.ERFC_SINGLE, a.ERFC_DOUBLE)
        return (bell - bell * lacking) * (scale / (x * 2 + 1))


def _squares_alone(dtype: DType) -> float:
    """From where on x² + 1 and x² have roots that are equal, and logarithms of their sums with x."""
    return 2.0**28 if dtype is dtypes.float64 else 2.0**13


def _polynomial(x: T, single: Sequence[float], double: Sequence[float]) -> T:
    """The polynomial with the coefficients for the dtype of x, lowest power first, by Horner's rule."""
    terms = double if x.dtype is dtypes.float64 else single
    value = x * terms[-1] + terms[-2]
    for c in terms[-3::-1]:
        value = value * x + c
    return value
