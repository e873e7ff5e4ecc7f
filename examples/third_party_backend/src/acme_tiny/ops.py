"""What the K1 has and the IR does not: an instruction that clamps at zero, and the rule that brings it in.

The IR's own ops are closed; a target's instruction is a TARGET node with a descriptor that the plugin owns.
Core checks such nodes by the descriptor, prints them by its name, and on the PYTHON device runs its `python`.
"""

from __future__ import annotations

import numpy as np

from tiny_core.api import DType, Ops, Rules, UOp, dtypes, payload, rewrite, rule, var

Typed = tuple[DType, tuple[int, ...]]


def _same(sources: tuple[Typed, ...]) -> Typed:
    """The result has the dtype and shape of the one source."""
    (source,) = sources
    return source


RELU = payload.TargetOp("acme.relu", _same, python=lambda x: np.where(x <= 0, np.float32(0), x))


def _relu(x: UOp) -> UOp | None:
    return UOp(Ops.TARGET, x.dtype, (x,), RELU) if x.dtype is dtypes.float32 else None


# max(x, 0.0) is what relu is: both give +0.0 for -0.0, and NaN for NaN.
RULES = Rules("acme", (rule(var("x").maximum(0.0), _relu),), domain="ieee")


def use_instructions(graph: UOp) -> UOp:
    """Bring in the K1's instructions; core calls this on each kernel before it puts the nodes in order."""
    return rewrite(graph, RULES)
