"""Executable specifications of the stages: a graph meets its stage's rules, or SpecError names the node and
the rule.

In: the root of a graph, and the stage it claims to be at; for some stages also what the target can do. Out:
nothing. Guaranteed: what passes has the ops, sources, payloads, dtypes and shapes that
`docs/decisions/0001-contracts.md` promises to the next stage; a linear list is in an order that can be run.

Rules of an op that hold at every stage are in `spec_common`; those of a stage in its own table:
`spec_tensor`, `spec_kernel` (up to expansion), `spec_loops` (up to linearization), `spec_linear`.
`TINY_SPEC` says when they are applied: 1 at the borders of stages, 2 after every pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.spec_common import Given, Limits, Spec, fail, foreign
from tiny_core.ir.spec_kernel import KERNEL, NORMAL, PARALLEL, PIECES, SEPARATE, STAGED
from tiny_core.ir.spec_linear import LINEAR
from tiny_core.ir.spec_loops import COMMITTED, DECOMPOSED, LOOPS, ORDERED
from tiny_core.ir.spec_tensor import TENSOR
from tiny_core.ir.uop import UOp, toposort

Stage = Literal[
    "tensor", "kernel", "normal", "pieces", "separate", "staged", "parallel", "loops", "ordered", "committed",
    "decomposed", "linear",
]  # fmt: skip
"""In the order in which a computation goes through them."""

SPECS: dict[Stage, Spec] = {
    "tensor": TENSOR, "kernel": KERNEL, "normal": NORMAL, "pieces": PIECES, "separate": SEPARATE,
    "staged": STAGED, "parallel": PARALLEL, "loops": LOOPS, "ordered": ORDERED, "committed": COMMITTED,
    "decomposed": DECOMPOSED, "linear": LINEAR,
}  # fmt: skip


def check(
    node: UOp,
    stage: Stage,
    limits: Limits | None = None,
    owners: Iterable[str] | None = None,
    *,
    after: str = "",
    order: Collection[str] | None = None,
) -> None:
    """Check a graph against the specification of a stage.

    Args:
        node: its root: any node (tensor), a LINEAR (linear), a SINK (all other stages).
        stage: which specification.
        limits: the target's capabilities; None checks what holds for every target.
        owners: plugins whose TARGET ops may occur; None for any.
        after: the pass that has made the graph, for the message.
        order: names of the axes that may occur (from `pieces` to `parallel`); None for any.

    Raises:
        SpecError: a rule is broken; names the pass, the node in text form, and the rule.
    """
    spec = SPECS[stage]
    if node.op is not spec.root and spec.root is not None:
        fail(stage, node, f"the root is a {spec.root.name}", after)
    if stage != "tensor" and not isinstance(node.arg, p.KernelInfo | None):
        fail(stage, node, "the payload of a kernel is a KernelInfo", after)
    if stage == "linear":
        nodes = list(node.src)
    else:
        nodes = toposort((node,), _enter) if stage == "tensor" else toposort((node,))
    wrong = spec.wrong(nodes, Given(limits, None if order is None else frozenset(order)))
    if wrong is None and owners is not None:
        wrong = foreign(nodes, owners)
    if wrong is not None:
        fail(stage, *wrong, after)


def _enter(n: UOp) -> bool:
    # the body of a CALL is a kernel, which its own check looks at
    return n.op is not Ops.CALL
