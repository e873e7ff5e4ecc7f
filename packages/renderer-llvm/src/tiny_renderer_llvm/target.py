"""What a target adds to the common rules: its dialect, its capabilities, and the frame of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tiny_core.api import Arch, Capabilities, DType, Ops, UOp, dtypes
from tiny_renderer_llvm.expressions import RULES, kind_of
from tiny_renderer_llvm.function import Dialect, Function

# What LLVM turns into instructions everywhere. Not declared, so decomposed by core: transcendental
# functions and floor division, which are library calls or no instruction at all. SQRT, TRUNC and f16 depend
# on the target's features.
_EVERYWHERE = frozenset(op for op, _ in RULES) - {Ops.TRUNC}


class Target(ABC):
    """A family of machines.

    Attributes:
        arch: with its name filled in and features completed.
        dialect: how its functions differ.
        capabilities: what kernels may contain.
        cpu: LLVM's name of the processor (or of the baseline, with features besides).
        features: LLVM's feature string.
    """

    arch: Arch
    dialect: Dialect
    capabilities: Capabilities
    cpu: str
    features: str

    @abstractmethod
    def open(self, f: Function, nodes: tuple[UOp, ...]) -> None:
        """Write what a kernel needs before its body: pointers, scalars, indices."""

    def close(self, f: Function) -> None:
        """Write what a kernel needs after its body."""

    @abstractmethod
    def header(self, f: Function) -> str:
        """Return the line that begins the definition."""

    @abstractmethod
    def attributes(self, f: Function) -> list[str]:
        """Return the attributes of the function."""

    def module(self, f: Function) -> list[str]:
        """Return lines of module scope besides the function."""
        return []


def operations(of: frozenset[DType], fused: frozenset[DType], trunc: bool) -> frozenset[tuple[Ops, DType]]:
    """Return the pairs of op and dtype that are rendered for dtypes `of`.

    Args:
        of: the target's dtypes.
        fused: those whose MULACC is one instruction.
        trunc: whether rounding toward zero is an instruction.
    """
    ops = _EVERYWHERE | ({Ops.TRUNC} if trunc else frozenset())
    bits = frozenset((*dtypes.fp8s, dtypes.bfloat16))  # these move, and core converts them by their bits
    pairs = {(op, d) for d in of - bits for op in ops if (op, kind_of(d)) in RULES}
    if dtypes.float16 not in fused:  # by way of f32 it would round twice; MUL and ADD say what happens
        pairs.discard((Ops.MULACC, dtypes.float16))
    pairs |= {(op, d) for d in of & bits for op in (Ops.WHERE, Ops.BITCAST)}
    return frozenset(pairs | {(op, d) for d in of - bits for op in (Ops.CAST, Ops.BITCAST)})


def powers_of_two(most: int) -> tuple[int, ...]:
    """Return 2, 4, … `most`."""
    return tuple(1 << i for i in range(1, most.bit_length()))
