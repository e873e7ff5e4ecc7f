"""A trace: every kernel that a program launches, how often and for how long, and what it is for.

In: what realization, batches and replays report while the trace is on. Out: the kernels, in the order in
which they were first scheduled, and the copies. A trace makes each command wait for those before it, as
TINY_DEBUG=2 does, and costs nothing while it is off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp

if TYPE_CHECKING:
    from tiny_core.engine.describe import Made
    from tiny_core.runtime.device import OpenDevice, Program
    from tiny_core.schedule.item import Schedule

_QUIET: Final = (MOVEMENT - {Ops.PAD, Ops.UNSHEAR}) | {Ops.CONST, Ops.BUFFER, Ops.STORE, Ops.DETACH}
"""Nodes that nothing is computed for."""
LinesOf = Callable[[Sequence[UOp]], Mapping[UOp, Sequence[Hashable]]]


@final
@dataclass(frozen=True, slots=True)
class Site:
    """Why a kernel is launched at one place of a schedule.

    Args:
        lines: where the tensors that it serves come from.
        schedule: its item of the schedule, and why its results are stored; text.
    """

    lines: tuple[Hashable, ...]
    schedule: str


@final
class Traced:
    """A kernel that was launched.

    Attributes:
        made: it, and what made it.
        launches: how often it was launched, and
        seconds: how long that took; None on a device that runs nothing.
        lines: where the tensors that it serves come from, and in how many launches it served each.
        schedule: the item of the schedule in which it was first met.
    """

    __slots__ = ("launches", "lines", "made", "schedule", "seconds")

    def __init__(self, made: Made) -> None:
        self.made = made
        self.launches = 0
        self.seconds: float | None = 0.0 if made.runs else None
        self.lines: dict[Hashable, int] = {}
        self.schedule = ""


@final
@dataclass(slots=True)
class Copies:
    """Copies from one device to one: how many, how large in all, and how long they took."""

    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0


@final
class Trace:
    """A trace.

    Args:
        lines_of: where the nodes of a graph come from, given its roots.

    Attributes:
        copies: by the names of the device that was read and the one that was written.
    """

    def __init__(self, lines_of: LinesOf) -> None:
        self._lines_of = lines_of
        self._lock = threading.Lock()
        self._kernels: dict[Hashable, Traced] = {}
        self._of: dict[Program, Traced] = {}
        self.copies: dict[tuple[str, str], Copies] = {}

    @property
    def kernels(self) -> list[Traced]:
        """The kernels that were launched."""
        with self._lock:
            return [kernel for kernel in self._kernels.values() if kernel.launches]

    def sites(self, roots: Sequence[UOp], device: str, plan: Schedule) -> list[Site]:
        """Return why each item of `plan`, the schedule of `roots`, is there."""
        from tiny_core.engine.report import item_lines
        from tiny_core.schedule.scheduler import serving

        known = self._lines_of(roots)
        sites = []
        for item, served in zip(plan.items, serving(roots, device), strict=True):
            busy = [n for n in served.nodes if n.op not in _QUIET] or served.nodes
            lines = dict.fromkeys(line for node in busy for line in known.get(node, ()))
            sites.append(Site(tuple(lines), "\n".join(item_lines(item, served))))
        return sites

    def meet(self, device: OpenDevice, kernel: UOp, program: Program, site: Site) -> None:
        """Note that `program`, which `device` has made of `kernel`, is about to be launched."""
        from tiny_core.engine.describe import made as describe

        with self._lock:
            if program not in self._of:
                made = describe(device, kernel, program)
                key = (made.device, made.kernel, id(made.kit), made.settings)
                self._of[program] = self._kernels.setdefault(key, Traced(made))
            met = self._of[program]
            met.schedule = met.schedule or site.schedule

    def launched(self, program: Program, site: Site | None, seconds: float) -> None:
        """Note a launch."""
        with self._lock:
            kernel = self._of.get(program)
            if kernel is None:
                return  # it was captured before the trace began
            kernel.launches += 1
            if kernel.seconds is not None:
                kernel.seconds += seconds
            for line in site.lines if site is not None else ():
                kernel.lines[line] = kernel.lines.get(line, 0) + 1

    def copied(self, dest: OpenDevice, source: OpenDevice, nbytes: int, seconds: float) -> None:
        """Note a copy."""
        with self._lock:
            known = self.copies.setdefault((source.name, dest.name), Copies())
            known.count += 1
            known.nbytes += nbytes
            known.seconds += seconds


_on: Final[list[Trace]] = []


def active() -> Trace | None:
    """Return the trace that is on."""
    return _on[-1] if _on else None


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Let `trace` be on, in all threads."""
    _on.append(trace)
    try:
        yield trace
    finally:
        _on.remove(trace)
