"""Element-wise functions and activations, from the handful of operations that the IR has.

Integers become float32. Narrow floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Self

from tiny_core import dtypes
from tiny_core.ir.ops import Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.elementwise import Elementwise, Operand

_LN2 = math.log(2)


class Maths(Elementwise):
    """Functions of one number."""

    __slots__ = ()

    # ---- powers and logarithms ----------------------------------------------------------------------------

    def exp(self) -> Self:
        """e to the power of x, as 2 to that of x / ln 2: the relative error grows to |x| times that of one
        rounding."""
        x, dtype = self._computed_in()
        return (x * (1 / _LN2)).exp2().cast(dtype)

    def exp2(self) -> Self:
        """2 to the power of x."""
        return self._unary(Ops.EXP2)

    def log(self) -> Self:
        """Natural logarithm: -inf at 0, NaN below."""
        x, dtype = self._computed_in()
        return (x.log2() * _LN2).cast(dtype)

    def log2(self) -> Self:
        """Logarithm to base 2: -inf at 0, NaN below."""
        return self._unary(Ops.LOG2)

    def log10(self) -> Self:
        """Logarithm to base 10: -inf at 0, NaN below."""
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
        """log(exp(self) + exp(other)), without overflow."""
        x, y = self._float_operand()._pair(other, False)
        m = x.maximum(y)
        m = m.isfinite().where(m, 0.0).cast(m.dtype)._detached()
        return ((x - m).exp() + (y - m).exp()).log() + m

    def _detached(self) -> Self:
        return self._from_node(g.detach(self.uop), self._cell.device)

    # ---- trigonometry -------------------------------------------------------------------------------------

    def sin(self) -> Self:
        """Sine of radians."""
        return self._unary(Ops.SIN)

    def cos(self) -> Self:
        """Cosine of radians, as the sine of x + π/2: the sum is rounded, an error of half an ulp of x."""
        x, dtype = self._computed_in()
        return (x + math.pi / 2).sin().cast(dtype)

    def tan(self) -> Self:
        """Tangent of radians, as sine by cosine."""
        x, dtype = self._computed_in()
        return (x.sin() / x.cos()).cast(dtype)

    def asin(self) -> Self:
        """Arcsine in radians; NaN beyond ±1."""
        x, dtype = self._computed_in()
        return (x / (1 - x * x).sqrt())._arctangent().cast(dtype)

    def acos(self) -> Self:
        """Arccosine in radians; NaN beyond ±1."""
        return (math.pi / 2 - self._computed_in()[0].asin()).cast(self._computed_in()[1])

    def atan(self) -> Self:
        """Arctangent in radians."""
        x, dtype = self._computed_in()
        return x._arctangent().cast(dtype)

    def _arctangent(self) -> Self:
        """Arctangent: halve the angle twice by atan x = 2 atan(x / (1 + sqrt(1 + x²))), then the power
        series."""
        # Beyond 1 by atan x = π/2 - atan(1/x), so that x² does not overflow. |y| <= tan(π/16) < 0.2 where
        # the series starts: 11 terms leave 0.2^23/23 < 1e-17.
        size = self.abs()
        large = size > 1
        y = large.where(size.reciprocal(), size)
        for _ in range(2):
            y = y / ((y * y + 1).sqrt() + 1)
        square = y * y
        series = square * 0
        for k in range(10, -1, -1):
            series = series * square + (-1) ** k / (2 * k + 1)
        angle = series * y * 4
        angle = large.where(math.pi / 2 - angle, angle)
        return (self < 0).where(-angle, angle)

    def sinh(self) -> Self:
        """(exp(x) - exp(-x)) / 2: near 0 the error is that of 1, not of x."""
        x, dtype = self._computed_in()
        return ((x.exp() - (-x).exp()) / 2).cast(dtype)

    def cosh(self) -> Self:
        """(exp(x) + exp(-x)) / 2."""
        x, dtype = self._computed_in()
        return ((x.exp() + (-x).exp()) / 2).cast(dtype)

    def tanh(self) -> Self:
        """Hyperbolic tangent, as 2 sigmoid(2x) - 1: near 0 the error is that of 1, not of x."""
        x, dtype = self._computed_in()
        return ((x * 2).sigmoid() * 2 - 1).cast(dtype)

    def asinh(self) -> Self:
        """Inverse of sinh: near 0 the error is that of 1, not of x."""
        x, dtype = self._computed_in()
        size = x.abs()
        value = (size + (size * size + 1).sqrt()).log()
        return (x < 0).where(-value, value).cast(dtype)

    def acosh(self) -> Self:
        """Inverse of cosh; NaN below 1."""
        x, dtype = self._computed_in()
        return (x + (x * x - 1).sqrt()).log().cast(dtype)

    def atanh(self) -> Self:
        """Inverse of tanh; NaN beyond ±1. Near 0 the error is that of 1, not of x."""
        x, dtype = self._computed_in()
        return (((1 + x) / (1 - x)).log() / 2).cast(dtype)

    def erf(self) -> Self:
        """Error function, to 1.5e-7 absolute in every dtype (Abramowitz and Stegun, 7.1.26)."""
        x, dtype = self._computed_in()
        size = x.abs()
        t = (1 + size * 0.3275911).reciprocal()
        series = t * 0
        for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
            series = (series + c) * t
        value = 1 - series * (-size * size).exp()
        return (x < 0).where(-value, value).cast(dtype)

    # ---- activations --------------------------------------------------------------------------------------

    def relu(self) -> Self:
        """max(0, x): NaN stays NaN; the gradient at 0 is 0.

        >>> Tensor([-1.0, 0.0, 2.0]).relu().tolist()
        [0.0, 0.0, 2.0]
        """
        return self.maximum(0)

    def relu6(self) -> Self:
        """min(max(0, x), 6)."""
        return self.relu().minimum(6)

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """x limited to [min_val, max_val]."""
        return self.clamp(min_val, max_val)

    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """x, or neg_slope * x below 0."""
        return (self < 0).where(self * neg_slope, self)

    def elu(self, alpha: float = 1.0) -> Self:
        """x, or alpha * (exp(x) - 1) below 0 (Clevert et al., 2016)."""
        x, dtype = self._computed_in()
        return (x > 0).where(x, (x.minimum(0).exp() - 1) * alpha).cast(dtype)

    def celu(self, alpha: float = 1.0) -> Self:
        """x, or alpha * (exp(x / alpha) - 1) below 0 (Barron, 2017)."""
        x, dtype = self._computed_in()
        return (x > 0).where(x, ((x.minimum(0) / alpha).exp() - 1) * alpha).cast(dtype)

    def selu(self, alpha: float = 1.67326, gamma: float = 1.0507) -> Self:
        """gamma * elu(x, alpha), with rounded constants (Klambauer et al., 2017)."""
        x, dtype = self._computed_in()
        return (x.elu(alpha) * gamma).cast(dtype)

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)), by whichever of its two forms does not overflow (nor does its gradient)."""
        x, dtype = self._computed_in()
        negative = x < 0
        e = negative.where(x, -x).exp()
        s = (e + 1).reciprocal()
        return negative.where(e * s, s).cast(dtype)

    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """alpha * x + beta, limited to [0, 1]."""
        x, dtype = self._computed_in()
        return (x * alpha + beta).maximum(0).minimum(1).cast(dtype)

    def hardswish(self) -> Self:
        """x * relu6(x + 3) / 6 (Howard et al., 2019)."""
        x, dtype = self._computed_in()
        return (x * (x + 3).relu6() * (1 / 6)).cast(dtype)

    def logsigmoid(self) -> Self:
        """log(sigmoid(x)), without overflow."""
        return -(-self).softplus()

    def silu(self) -> Self:
        """x * sigmoid(x); `swish` is the same."""
        x, dtype = self._computed_in()
        return (x * x.sigmoid()).cast(dtype)

    swish = silu

    def gelu(self, approximate: str = "tanh") -> Self:
        """x times the normal distribution's function, by its tanh form; approximate="none" uses erf."""
        x, dtype = self._computed_in()
        if approximate == "none":
            return (x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1)).cast(dtype)
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return (x * 0.5 * (inner.tanh() + 1)).cast(dtype)

    def quick_gelu(self) -> Self:
        """x * sigmoid(1.702 x)."""
        x, dtype = self._computed_in()
        return (x * (x * 1.702).sigmoid()).cast(dtype)

    def mish(self) -> Self:
        """x * tanh(softplus(x)) (Misra, 2019)."""
        x, dtype = self._computed_in()
        return (x * x.softplus().tanh()).cast(dtype)

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta x)) / beta, without overflow."""
        x, dtype = self._computed_in()
        scaled = x * beta
        size = (scaled < 0).where(scaled, -scaled)  # -|x|, with a slope at 0
        return (((scaled < 0).where(0.0, scaled) + (size.exp() + 1).log()) / beta).cast(dtype)

    def softsign(self) -> Self:
        """x / (|x| + 1)."""
        x, dtype = self._computed_in()
        return (x / (x.abs() + 1)).cast(dtype)
