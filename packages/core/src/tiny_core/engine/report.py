"""What has run and how fast: the counters, and the lines that TINY_DEBUG prints (to standard error).

1: a summary of each batch. 2: a line per kernel and copy. 3: options and schedule. 4: source. 5: UOps. 6:
rewrites. 7: assembly. A level prints what the lower ones print. What is measured goes to a trace, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from tiny_core.engine.tracing import active
from tiny_core.errors import TraceError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.device import Device, OpenDevice, Program
from tiny_core.runtime.memory import human
from tiny_core.settings import DEBUG

if TYPE_CHECKING:
    from tiny_core.engine.tracing import Site
    from tiny_core.render.renderer import Compiled
    from tiny_core.schedule.item import Item
    from tiny_core.schedule.served import Served


@final
class Counters:
    """Totals since the last reset.

    Attributes:
        kernel_count: kernels launched.
        global_ops: arithmetic operations of those kernels.
        global_mem: bytes that they load and store.
        time_sum_s: seconds that the measured ones took (TINY_DEBUG >= 2 measures).
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set all totals to 0; memory in use is what it is."""
        self.kernel_count = self.global_ops = self.global_mem = 0
        self.time_sum_s = 0.0

    @property
    def mem_used(self) -> int:
        """Bytes in use on all open devices; files (DISK), mapped or written, are no memory."""
        opened = (d for d in Device.opened() if d.runtime.capabilities.executes)
        return sum(device.memory.used() for device in opened)

    def add(self, kernels: int, ops: int, nbytes: int) -> None:
        """Count launches."""
        self.kernel_count += kernels
        self.global_ops += ops
        self.global_mem += nbytes


GlobalCounters: Final = Counters()


def say(line: str) -> None:
    """Print a line of debug output."""
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return a time for people: 12.3 µs."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def report_kernel(
    device: OpenDevice, program: Program, site: Site | None, number: int, seconds: float
) -> None:
    """Count, print and trace launch number `number` of this process, which took `seconds`."""
    if device.runtime.capabilities.stores:
        GlobalCounters.time_sum_s += seconds
    if DEBUG.value >= 2:
        say(kernel_line(device, program, number, seconds))
    if (trace := active()) is not None:
        trace.launched(program, site, seconds)


def report_copy(dest: OpenDevice, source: OpenDevice, nbytes: int, seconds: float) -> None:
    """Print and trace a copy."""
    if DEBUG.value >= 2:
        say(copy_line(dest, source, nbytes, seconds))
    if (trace := active()) is not None:
        trace.copied(dest, source, nbytes, seconds)


def measured() -> bool:
    """Whether what runs now is measured, for people to read."""
    return DEBUG.value >= 2 or active() is not None


def kernel_line(device: OpenDevice, program: Program, number: int, seconds: float) -> str:
    """Return the line of a launch: its rates (its work, on a device that runs nothing), memory in use, and
    what it takes of the machine where its compiler can tell."""
    compiled = program.compiled
    if program.takes is None:
        from tiny_core.engine.compile import mode_of

        found = None
        if mode_of(device) == "binary":
            found = device.kit.compiler.resources(compiled.binary, compiled.signature.name)
        program.takes = "" if found is None else f"  {found}"
    if device.runtime.capabilities.stores:
        work = f"{duration(seconds):>8}  {rates(compiled, 1, seconds)}"
    else:
        work = f"{'not run':>8}  {count(compiled.flops):>8}FLOP    {human(compiled.bytes):>9}   "
    return (
        f"{device.name:<7} {number:>5}  {compiled.signature.name:<34} "
        f"{work}  in use {human(device.memory.in_use)}{program.takes}"
    )


def rates(compiled: Compiled, launches: int, seconds: float) -> str:
    """Return what `launches` of a kernel in `seconds` come to: `  123.45 GFLOPS    6.78 GB/s`."""
    rate = launches * 1e-9 / max(seconds, 1e-9)
    return f"{compiled.flops * rate:8.2f} GFLOPS  {compiled.bytes * rate:7.2f} GB/s"


def count(number: int) -> str:
    """Return a number for people, to be followed by a unit: `1.23 M`."""
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} "


def copy_line(dest: OpenDevice, source: OpenDevice, nbytes: int, seconds: float) -> str:
    """Return the line of a copy."""
    took = "not run"
    if dest.runtime.capabilities.stores:
        took = f"{duration(seconds)}, {nbytes * 1e-9 / max(seconds, 1e-9):.2f} GB/s"
    return f"{dest.name:<7} copy   {human(nbytes)} from {source.name}, {took}"


def show_schedule(items: Sequence[Item], served: Sequence[Served]) -> None:
    """Print a schedule."""
    say(f"schedule of {len(items)} items")
    for i, (item, what) in enumerate(zip(items, served, strict=True)):
        first, *rest = item_lines(item, what)
        say(f"  {i:>3} {first}")
        for line in rest:
            say(f"      {line}")


def item_lines(item: Item, served: Served) -> list[str]:
    """Return what an item of a schedule is, what it reads and writes, and why it stores each of its
    results."""
    from tiny_core.schedule.item import KernelItem

    if not isinstance(item, KernelItem):
        source, dest = item.source.buffer.payload(p.Storage), item.dest.buffer.payload(p.Storage)
        size = f"{item.size} {item.dest.buffer.dtype.name}"
        return [f"copy of {size} from %{source.id} ({source.device}) to %{dest.id} ({dest.device})"]
    access = {n.payload(p.Param).slot: n.payload(p.Param).access for n in params(item.kernel)}
    parts = []
    for word, letter in (("writes", "w"), ("reads", "r")):
        names = [
            f"%{a.buffer.payload(p.Storage).id}{f'+{a.offset}' if a.offset else ''}"
            for slot, a in enumerate(item.args)
            if letter in access.get(slot, "r")
        ]
        parts += [f"{word} {' '.join(names)}"] if names else []
    if item.serves:
        parts.append("for " + ", ".join(dict.fromkeys(_computed(node).op.value for node in item.serves)))
    return [f"{item.device} kernel {', '.join(parts)}", *served.stores]


def _computed(node: UOp) -> UOp:
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


def params(kernel: UOp) -> list[UOp]:
    """Return the PARAMs of a kernel."""
    return [node for node in kernel.toposort() if node.op is Ops.PARAM]


def show_program(device: OpenDevice, kernel: UOp, program: Program, level: int) -> None:
    """Print a kernel that has just become a program, as far as `level` asks for it."""
    from tiny_core.engine.describe import made

    it = made(device, kernel, program)
    say(f"{it.name}: {it.compiled.detail or 'no options'}")
    if level >= 4:
        say(it.at("source"))
    if level >= 5:
        say(it.at("kernel"))
    if level >= 6:
        say(it.rewrites())
    if level >= 5:
        say(it.at("linear"))
    if level >= 7:
        try:
            say(it.at("asm"))
        except TraceError as error:
            say(f"({error.message})")
