"""Activations, from the functions of `maths.py`, whose conventions hold here too."""

from __future__ import annotations

import math
from typing import Self

from tiny_core.errors import DTypeError
from tiny_core.tensor.maths import Maths


class Activations(Maths):
    """What stands between the layers of a network."""

    __slots__ = ()

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
        """x, or alpha * (exp(x) - 1) below 0 (Clevert et al., 2016), to 3 ulp."""
        x, dtype = self._computed_in()
        return (x > 0).where(x, (x > 0).where(0.0, x).expm1() * alpha).cast(dtype)

    def celu(self, alpha: float = 1.0) -> Self:
        """x, or alpha * (exp(x / alpha) - 1) below 0 (Barron, 2017)."""
        x, dtype = self._computed_in()
        return (x > 0).where(x, ((x > 0).where(0.0, x) / alpha).expm1() * alpha).cast(dtype)

    def selu(self, alpha: float = 1.67326, gamma: float = 1.0507) -> Self:
        """gamma * elu(x, alpha), with rounded constants (Klambauer et al., 2017)."""
        x, dtype = self._computed_in()
        return (x.elu(alpha) * gamma).cast(dtype)

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)), to 3 ulp, by whichever of its two forms does not overflow (nor does its
        gradient)."""
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
        """log(sigmoid(x)), without overflow, and as small as it is for large x."""
        return -(-self).softplus()

    def silu(self) -> Self:
        """x * sigmoid(x); `swish` is the same."""
        x, dtype = self._computed_in()
        return (x * x.sigmoid()).cast(dtype)

    swish = silu

    def gelu(self, approximate: str = "tanh") -> Self:
        """x times the normal distribution's function (Hendrycks and Gimpel, 2016).

        Args:
            approximate: "tanh" for x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), which is computed as x times a
                sigmoid, so that its negative side keeps its digits (to 6 + 2x² ulp down to -6, 130 ulp beyond
                it); "none" for the function itself, to 6 + x² ulp.

        Raises:
            DTypeError: it is neither.

        >>> round(Tensor([1.0]).gelu("none").item(), 4)
        0.8413
        """
        if approximate not in ("tanh", "none"):
            raise DTypeError(f"gelu: approximate={approximate!r}", "use 'tanh' or 'none'")
        x, dtype = self._computed_in()
        if approximate == "none":
            return (x * 0.5 * (x * -math.sqrt(0.5))._erfc()).cast(dtype)
        y = x.clamp(-30, 30)  # beyond, the sigmoid is 0 or 1; x³ would overflow
        inner = (y + y * y * y * 0.044715) * (2 * math.sqrt(2 / math.pi))
        return (x * inner.sigmoid()).cast(dtype)

    def quick_gelu(self) -> Self:
        """x * sigmoid(1.702 x)."""
        x, dtype = self._computed_in()
        return (x * (x * 1.702).sigmoid()).cast(dtype)

    def mish(self) -> Self:
        """x * tanh(log(1 + exp(x))) (Misra, 2019), to 6 ulp."""
        x, dtype = self._computed_in()
        # tanh(log(1 + e)) = ((1+e)² - 1) / ((1+e)² + 1), for large x with numerator and denominator times
        # exp(-2x)
        negative = x < 0
        e = negative.where(x, -x).exp()
        above = negative.where(e * (e + 2), e * 2 + 1)
        below = above + negative.where(2.0, e * e * 2).cast(x.dtype)
        return (x * (above / below)).cast(dtype)

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta x)) / beta, to 4 ulp (for beta 1), without overflow, and as small as it is for
        negative x."""
        x, dtype = self._computed_in()
        scaled = x * beta
        size = (scaled < 0).where(scaled, -scaled)  # -|x|, with a slope at 0
        return (((scaled < 0).where(0.0, scaled) + size.exp()._log1p()) / beta).cast(dtype)

    def softsign(self) -> Self:
        """x / (|x| + 1)."""
        x, dtype = self._computed_in()
        return (x / (x.abs() + 1)).cast(dtype)
