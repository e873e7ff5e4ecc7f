"""TINY_CHECK=1: tensors that index others are looked at, and one that is out of range is an error.

In: the cells of a batch that is about to run. Out: for each GATHER whose indices are not known to be in
range, a small value that says which of them is the first that is not. Where indices depend on no assignment
of the batch they are looked at before anything of it runs, so that nothing has happened when IndexOutOfRange
is raised; otherwise afterwards: then the batch has run, with 0 for what was out of range.

Replays of captured functions are not looked at, so jit does not replay under TINY_CHECK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tiny_core import dtypes
from tiny_core.errors import IndexOutOfRange
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.tensor import graph as g
from tiny_core.tensor.cell import Cell, storage
from tiny_core.tensor.lines import Line, show

_LOW = 32  # bits of the value in a finding; the position is above
_HALF = 1 << (_LOW - 1)
_NONE = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Check:
    """What is to be looked at.

    Args:
        gather: the node that reads with the index.
        axis: which of its indices.
        index: the index node, negative indices already counted from the end.
        cell: will hold the finding, an int64: position of the first index out of range and its value, or
            2^63 - 1.
        late: whether the index depends on an assignment that has not run.
        line: of a tensor that needs it.
    """

    gather: UOp
    axis: int
    index: UOp
    cell: Cell
    late: bool
    line: Line | None


def checks(batch: Iterable[Cell]) -> list[Check]:
    """Return what is to be looked at when the cells of a batch are computed."""
    seen: set[UOp] = set()
    found = []
    for cell in batch:
        for node in cell.value.toposort(lambda n: n not in seen):
            if node in seen:
                continue
            seen.add(node)
            if node.op is Ops.GATHER:
                found += [
                    Check(node, axis, index, _finding(index, n, cell), _is_late(index), cell.line)
                    for axis, (index, n) in enumerate(zip(node.src[1:], node.src[0].shape, strict=False))
                    if not _in_range(index, n)
                ]
    return found


def verify(check: Check, roots: list[UOp], read: Callable[[UOp], memoryview]) -> None:
    """Raise IndexOutOfRange if a check whose cell has been computed found something.

    Args:
        check: it.
        roots: what the batch computes, to find the kernel's name.
        read: reads a realized node.
    """
    n = check.gather.src[0].shape[check.axis]
    found = _found(check.cell, check.index.shape, read)
    if found is None:
        return
    value, position = found
    value -= n if value < 0 else 0  # n had been added, to count from the end
    beyond = " or beyond" if found[0] in (-_HALF, _HALF - 1) else ""
    raise IndexOutOfRange(
        f"index {value}{beyond} at position {position} is out of range for an axis of {n}, in "
        f"{_kernel(roots, check.gather)}the tensor made at {show(check.line)}",
        "a tensor index lies in -n … n-1; without TINY_CHECK it reads 0",
    )


def finding_of(index: UOp, n: int, like: Cell) -> Cell | None:
    """Return a cell that will say which element of `index` is not one of 0 … n-1, or None if all are."""
    return None if _in_range(index, n) else _finding(index, n, like)


def verify_labels(
    what: str, finding: Cell, shape: tuple[int, ...], n: int, read: Callable[[UOp], memoryview]
) -> None:
    """Raise IndexOutOfRange if a finding about class numbers, computed, is that one is out of range."""
    found = _found(finding, shape, read)
    if found is not None:
        raise IndexOutOfRange(
            f"{what}: label {found[0]} at position {found[1]} is no class of {n}",
            f"labels lie in 0 … {n - 1}; without TINY_CHECK others are of no class",
        )


def _in_range(index: UOp, n: int) -> bool:
    lowest, highest = bounds(index)
    return index.size == 0 or (lowest >= 0 and highest < n)


def _finding(index: UOp, n: int, like: Cell) -> Cell:
    flat = g.reshape(index, (index.size,))
    beyond = g.alu(Ops.CMPLE, g.const_like(n, flat), flat) if n <= flat.dtype.max else None
    below = g.scalar_op(Ops.CMPLT, flat, 0) if flat.dtype.min < 0 else None
    bad = beyond if below is None else below if beyond is None else g.alu(Ops.OR, below, beyond)
    assert bad is not None, "else it is known to be in range"
    # unsigned 64-bit values above 2^63 - 1 become that, so that they stay out of range
    wide = g.scalar_op(Ops.MIN, flat, _NONE) if flat.dtype is dtypes.uint64 else flat
    value = g.scalar_op(Ops.MIN, g.scalar_op(Ops.MAX, g.cast(wide, dtypes.int64), -_HALF), _HALF - 1)
    place = g.cast(g.iota(index.size, dtypes.int64), dtypes.int64)
    place = g.scalar_op(Ops.SHL, g.scalar_op(Ops.MIN, place, _HALF - 1), _LOW)
    both = g.alu(Ops.ADD, place, g.scalar_op(Ops.ADD, value, _HALF))
    first = g.reduce(Ops.MIN, g.where(bad, both, g.const_like(_NONE, both)), (0,))
    return Cell(first, like.device, like.line)


def _is_late(index: UOp) -> bool:
    return any(n.op is Ops.AFTER for n in index.toposort())


def _found(
    finding: Cell, shape: tuple[int, ...], read: Callable[[UOp], memoryview]
) -> tuple[int, tuple[int, ...]] | None:
    """The first value out of range and its position; None if all is well."""
    number = int.from_bytes(bytes(read(finding.value)), "little", signed=True)
    if number == _NONE:
        return None
    flat, value = number >> _LOW, (number & ((1 << _LOW) - 1)) - _HALF
    position: list[int] = []
    for size in reversed(shape):
        position.insert(0, flat % size)
        flat //= size
    return value, tuple(position)


def _kernel(roots: list[UOp], gather: UOp) -> str:
    """The name of the kernel that reads with the index; nothing if it is none of the kernels' own."""
    from tiny_core.engine.compile import programs_for
    from tiny_core.runtime.device import default_device
    from tiny_core.schedule.item import KernelItem
    from tiny_core.schedule.scheduler import schedule

    items = [i for i in schedule(roots, default_device()).items if isinstance(i, KernelItem)]
    stored = {node for item in items for node in item.serves}
    source = storage(gather.src[0])  # scheduling may have rewritten what is above it
    for item in items:
        if gather in _within(item.serves, stored) or any(arg.buffer is source for arg in item.args):
            assert isinstance(item.device, str)
            (program,) = programs_for([item.kernel], item.device)
            return f"kernel {program.compiled.signature.name}, for "
    return ""


def _within(serves: tuple[UOp, ...], stored: set[UOp]) -> list[UOp]:
    """The nodes that a kernel computes."""
    return toposort(serves, lambda n: n in serves or n not in stored)
