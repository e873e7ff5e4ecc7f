"""What the scheduler gives: kernels and copies in the order they run, and where each root can be found
afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from tiny_core.ir.payload import Device
from tiny_core.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Arg:
    """A part of device storage: `buffer` is a BUFFER node, `offset` counts elements of `buffer.dtype`."""

    buffer: UOp
    offset: int = 0


@dataclass(frozen=True, slots=True)
class KernelItem:
    """Run a kernel.

    Args:
        kernel: a SINK at the kernel stage; equal kernels are the same node, whatever buffers they run on.
        args: what PARAM 0, 1, … of the kernel are.
        device: where it runs.
        scalars: values of the kernel's VARIABLEs, by name.
        serves: nodes of the tensor graph that it computes, for people to read.
    """

    kernel: UOp
    args: tuple[Arg, ...]
    device: Device
    scalars: tuple[tuple[str, int], ...] = ()
    serves: tuple[UOp, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyItem:
    """Copy `size` elements from one device's storage to another's."""

    dest: Arg
    source: Arg
    size: int


Item = KernelItem | CopyItem


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule.

    Args:
        items: in an order that respects every dependency.
        results: for each root, the node that holds its value once the items have run: movements over a BUFFER
            (or the
            root itself where it needs no work).
        temporaries: BUFFER nodes that only the items use; a planner may let them share memory.
    """

    items: tuple[Item, ...]
    results: tuple[UOp, ...]
    temporaries: tuple[UOp, ...]
