"""What a target can do, declared by its renderer. Core reads this and never asks for a device by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiny_core.dtypes import DType
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import Ops


@dataclass(frozen=True, slots=True)
class AddressSpace:
    """A kind of memory.

    Args:
        name: as in Storage.space and Param.space.
        scope: who shares it.
        bytes: how much of it one member of that scope may use; 0 for no limit worth planning for.
        align: bytes to which a buffer in it is aligned at most.
    """

    name: str
    scope: Literal["item", "subgroup", "group", "device", "system"]
    bytes: int = 0
    align: int = 16


GLOBAL = AddressSpace("global", "device", align=128)
REGISTER = AddressSpace("register", "item")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target can do.

    Args:
        launch: "threads": a host program with a thread axis (Signature.parallel); "grid": work-groups and
            work-items.
        dtypes: dtypes it can load, store and compute with.
        ops: pairs (op, dtype) it renders, for the ops of ALU, CAST and BITCAST, where dtype is that of the
            first source
            (of the second for WHERE). Everything else is decomposed before it sees the kernel.
        lanes: for a dtype, the widths (n,) that values may have; a dtype that is absent has scalars only.
        spaces: its address spaces, `global` and `register` included.
        vector_bytes: width of a vector register, or the widest useful memory access of an item.
        registers: vector registers (or, on a grid target, 32-bit registers) of an item.
        caches: bytes of the private caches of a core, nearest first; empty on grid targets.
        subgroup: items that run in lockstep; 1 where there is no such thing.
        max_items: items of a group.
        max_block: items of a group along each dimension.
        max_grid: groups along each dimension.
        fma: dtypes whose MULACC is one instruction.
        max_params: buffers a kernel may take; 0 for no limit.
        matrices: its matrix units, as tables that say all there is to know of them.
        tasks: iterations of the thread axis from which more of them gain nothing (`launch` "threads").
    """

    launch: Literal["threads", "grid"]
    dtypes: frozenset[DType]
    ops: frozenset[tuple[Ops, DType]]
    lanes: tuple[tuple[DType, tuple[int, ...]], ...] = ()
    spaces: tuple[AddressSpace, ...] = (GLOBAL, REGISTER)
    vector_bytes: int = 16
    registers: int = 16
    caches: tuple[int, ...] = ()
    subgroup: int = 1
    max_items: int = 1
    max_block: tuple[int, int, int] = (1, 1, 1)
    max_grid: tuple[int, int, int] = (1, 1, 1)
    fma: frozenset[DType] = frozenset()
    max_params: int = 0
    tasks: int = 32
    matrices: tuple[MatrixUnit, ...] = ()

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the lane counts that values of `dtype` may have besides scalar, ascending."""
        return next((w for d, w in self.lanes if d is dtype), ())

    def space(self, name: str) -> AddressSpace | None:
        """Return the address space called `name`, or None."""
        return next((s for s in self.spaces if s.name == name), None)

    def supports(self, op: Ops, dtype: DType) -> bool:
        """Return whether the renderer renders `op` on `dtype` (see `ops` for whose dtype that is)."""
        return (op, dtype) in self.ops
