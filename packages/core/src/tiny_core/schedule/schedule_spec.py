"""The executable specification of schedules: items that can be run in their order, or SpecError.

In: a schedule. Out: nothing. Guaranteed: every kernel has an argument for each param, of its dtype, large
enough, and aligned as the param says; copies stay within their storage; what only the items use is written
before it is read.
"""

from __future__ import annotations

from tiny_core.errors import SpecError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.schedule.item import Arg, CopyItem, Item, KernelItem, Schedule

_ALIGN = 64  # bytes to which every allocation is aligned at least


def check_schedule(schedule: Schedule) -> None:
    """Check a schedule.

    Raises:
        SpecError: an item breaks a rule; names its position.
    """
    temporary = frozenset(schedule.temporaries)
    written: set[UOp] = set()
    params: dict[UOp, list[UOp]] = {}
    for position, item in enumerate(schedule.items):
        if isinstance(item, KernelItem):
            known = params.get(item.kernel)
            if known is None:
                known = params[item.kernel] = [n for n in item.kernel.toposort() if n.op is Ops.PARAM]
            wrong = _kernel(item, known, temporary, written)
        else:
            wrong = _copy(item, temporary, written)
        if wrong is not None:
            raise SpecError(f"schedule: {wrong}\n  item {position}: {_shown(item)}")


def _kernel(item: KernelItem, params: list[UOp], temporary: frozenset[UOp], written: set[UOp]) -> str | None:
    if len(params) != len(item.args):
        return f"a kernel has an argument for each of its {len(params)} params, and no other"
    for n in params:
        arg = n.payload(p.Param)
        if not 0 <= arg.slot < len(item.args):
            return f"params are numbered from 0, but slot {arg.slot}"
        given = item.args[arg.slot]
        wrong = _part(given, arg.size)
        if wrong is not None:
            return wrong
        if given.buffer.dtype is not n.dtype:
            return f"argument {arg.slot} is of {n.dtype.name}, as its param"
        if arg.align > _ALIGN or given.offset * n.dtype.itemsize % arg.align:
            return f"argument {arg.slot} is aligned to {arg.align} bytes, as its param says"
        if "r" in arg.access and given.buffer in temporary and given.buffer not in written:
            return f"argument {arg.slot} is written before it is read"
    for n in params:
        if "w" in n.payload(p.Param).access:
            written.add(item.args[n.payload(p.Param).slot].buffer)
    return None


def _copy(item: CopyItem, temporary: frozenset[UOp], written: set[UOp]) -> str | None:
    if item.dest.buffer.dtype.itemsize != item.source.buffer.dtype.itemsize:
        return "a copy is between elements of one size"
    if item.source.buffer in temporary and item.source.buffer not in written:
        return "what is copied is written before it is read"
    written.add(item.dest.buffer)
    return _part(item.dest, item.size) or _part(item.source, item.size)


def _part(arg: Arg, size: int) -> str | None:
    if arg.buffer.op is not Ops.BUFFER:
        return "an argument is a part of storage"
    if arg.offset < 0 or arg.offset + size > arg.buffer.payload(p.Storage).size:
        return f"{size} elements from {arg.offset} on are within storage of {arg.buffer.size}"
    return None


def _shown(item: Item) -> str:
    if isinstance(item, CopyItem):
        return f"copy of {item.size} elements"
    info = item.kernel.arg
    name = info.name if isinstance(info, p.KernelInfo) else "kernel"
    args = ", ".join(f"{a.buffer.dtype.name}[{a.buffer.size}]+{a.offset}" for a in item.args)
    return f"{name} on {args}"
