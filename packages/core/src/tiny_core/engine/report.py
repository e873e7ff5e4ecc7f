"""What has run and how fast: the counters, and the lines that TINY_DEBUG prints (to standard error).

1: a summary of each batch. 2: a line per kernel and copy. 3: options and schedule. 4: source. 5: UOps. 6:
rewrites. 7: assembly. A level prints what the lower ones print.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from tiny_core.ir import payload as p
from tiny_core.ir.uop import UOp
from tiny_core.runtime.device import Device, OpenDevice, Program
from tiny_core.runtime.memory import human

if TYPE_CHECKING:
    from tiny_core.schedule.item import Item


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
        """Bytes in use on all open devices."""
        return sum(device.memory.used() for device in Device.opened())

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


def kernel_line(device: OpenDevice, program: Program, number: int, seconds: float) -> str:
    """Return the line of kernel `number`, which took `seconds`: its rates, and memory in use."""
    compiled, rate = program.compiled, 1e-9 / max(seconds, 1e-9)
    GlobalCounters.time_sum_s += seconds
    return (
        f"{device.name:<7} {number:>5}  {compiled.signature.name:<34} "
        f"{duration(seconds):>8}  {compiled.flops * rate:8.2f} GFLOPS  {compiled.bytes * rate:7.2f} GB/s  "
        f"in use {human(device.memory.in_use)}"
    )


def copy_line(dest: OpenDevice, source: OpenDevice, nbytes: int, seconds: float) -> str:
    """Return the line of a copy."""
    rate = nbytes * 1e-9 / max(seconds, 1e-9)
    return f"{dest.name:<7} copy   {human(nbytes)} from {source.name}, {duration(seconds)}, {rate:.2f} GB/s"


def schedule_lines(items: Sequence[Item]) -> list[str]:
    """Return a line per item of a schedule: what it is, what it reads and writes."""
    from tiny_core.schedule.item import KernelItem

    lines = [f"schedule of {len(items)} items"]
    for i, item in enumerate(items):
        if isinstance(item, KernelItem):
            args = " ".join(
                f"%{a.buffer.payload(p.Storage).id}{f'+{a.offset}' if a.offset else ''}" for a in item.args
            )
            serves = ", ".join(dict.fromkeys(n.op.value for n in item.serves))
            lines.append(f"  {i:>3} {item.device} kernel {args}{f'  for {serves}' if serves else ''}")
        else:
            source, dest = item.source.buffer.payload(p.Storage), item.dest.buffer.payload(p.Storage)
            lines.append(
                f"  {i:>3} copy %{source.id} ({source.device}) to %{dest.id} ({dest.device}), {item.size}"
            )
    return lines


def show_program(device: OpenDevice, kernel: UOp, program: Program, level: int) -> None:
    """Print a kernel that has just become a program, as far as `level` asks for it."""
    compiled = program.compiled
    say(f"{compiled.signature.name}: {compiled.detail or 'no options'}")
    if level >= 4:
        say(compiled.source)
    if level >= 5:
        _show_passes(device, kernel, level)
    from tiny_core.engine.compile import mode_of

    if level >= 7 and mode_of(device) == "binary":
        say(device.kit.compiler.listing(compiled.binary, compiled.source))


def _show_passes(device: OpenDevice, kernel: UOp, level: int) -> None:
    """Print the kernel before and after code generation, which is run again: the cache keeps no UOps."""
    from tiny_core.codegen.pipeline import generate
    from tiny_core.ir.rewrite import trace
    from tiny_core.ir.text import describe
    from tiny_core.ir.text import format as to_text

    say(to_text(kernel))
    with trace() as steps:
        linear = generate(kernel, device.renderer).linear
    if level >= 6:
        for step in steps:
            say(f"  {step.rule} ({step.location})\n    {describe(step.before)}\n    {describe(step.after)}")
    say(to_text(linear))
