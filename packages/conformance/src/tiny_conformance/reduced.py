"""A renderer that declares less than it can, so that core takes apart what it would have rendered."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tiny_core.api import Arch, Compiler, DType, Ops, Renderer, Signature, UOp

PRIMITIVE: Final = frozenset(
    ("add", "sub", "mul", "neg", "div", "sqrt", "trunc", "not", "and", "or", "xor", "shl", "shr", "idiv",
     "cmplt", "cmple", "cmpeq", "cmpne", "where")
)  # fmt: skip
"""Names of the ops that core has to have: all others it can take apart into these, and casts."""


class Reduced(Renderer):
    """Another renderer with fewer capabilities.

    Args:
        inner: what renders.
        ops: pairs that are declared; by default those of `inner` that are primitive, and conversions.
        has: dtypes that are declared; by default those of `inner`.
    """

    def __init__(
        self,
        inner: Renderer | Arch,
        ops: frozenset[tuple[Ops, DType]] | None = None,
        has: frozenset[DType] | None = None,
    ) -> None:
        assert isinstance(inner, Renderer), "made from a renderer, not from an architecture"
        kept = (Ops.CAST, Ops.BITCAST)
        capabilities = inner.capabilities
        few = frozenset((op, d) for op, d in capabilities.ops if op in kept or op.value in PRIMITIVE)
        self.inner, self.name, self.arch, self.rules = inner, inner.name, inner.arch, inner.rules
        self.capabilities = replace(
            capabilities,
            ops=few if ops is None else ops,
            dtypes=capabilities.dtypes if has is None else has,
            fma=frozenset(),
        )

    def render(self, linear: UOp, signature: Signature) -> str:
        return self.inner.render(linear, signature)

    def compiler(self) -> Compiler:
        return self.inner.compiler()
