"""How a test looks at a result: by the dtype, the shape, and the values within a tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiny_conformance.compare import EXACT, Array, Tolerance, differences, numpy_dtype
from tiny_conformance.target import Target

if TYPE_CHECKING:
    from tiny_core import Tensor


class WrongResult(AssertionError):
    """A result differs from the reference."""


class Check:
    """Compares results; raises WrongResult with the places where they differ."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def reads(self) -> bool:
        """Whether results can be looked at."""
        return self._target.stores

    def __call__(
        self,
        got: Tensor,
        want: Array,
        tolerance: Tolerance | None = None,
        scale: Array | float = 1.0,
        dtype: str = "",
    ) -> None:
        """Compute a tensor and compare it.

        Args:
            got: the result.
            want: of numpy; of the result's dtype, or a wider one.
            tolerance: None for equal bits.
            scale: what the tolerance's epsilons are relative to.
            dtype: the dtype it must have; "" for that of `want`.
        """
        name = dtype or want.dtype.name
        if numpy_dtype(got.dtype.name) != numpy_dtype(name):
            raise WrongResult(f"result is {got.dtype.name}, not {name}")
        if got.shape != want.shape:
            raise WrongResult(f"result has shape {got.shape}, not {want.shape}")
        if not self._target.stores:
            got.realize()
            return
        self.arrays(got.numpy(), want, tolerance, scale)

    def arrays(
        self, got: Array, want: Array, tolerance: Tolerance | None = None, scale: Array | float = 1.0
    ) -> None:
        """Compare what was read with what it must be; as `__call__`."""
        text = differences(got, want, tolerance or EXACT, scale)
        if text:
            raise WrongResult(text)
