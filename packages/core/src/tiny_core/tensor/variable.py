"""Variables: integers known at launch."""

from __future__ import annotations

from tiny_core.errors import ShapeError
from tiny_core.ir.uop import UOp


def Variable(name: str, lo: int, hi: int) -> UOp:  # noqa: N802 - the field's name for it
    """An integer between lo and hi, both included, as a node of kernels. Shapes of tensors are plain ints.

    Raises:
        ShapeError: lo exceeds hi.
    """
    if lo > hi:
        raise ShapeError(f"variable {name} from {lo} to {hi}", "the lower bound comes first")
    return UOp.variable(name, lo, hi)
