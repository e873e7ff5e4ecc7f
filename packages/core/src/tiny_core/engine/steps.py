"""Steps: a schedule whose kernels are programs and whose arguments are bytes. What realization runs and jit
records.

In: a `Schedule`. Out: steps in its order, every kernel compiled (all kernels of a device together, so that
workers share them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tiny_core.engine.compile import programs_for
from tiny_core.engine.report import show_program
from tiny_core.engine.tracing import Site, active
from tiny_core.errors import DeviceError
from tiny_core.ir.uop import UOp
from tiny_core.runtime.device import Device, OpenDevice, Program
from tiny_core.schedule.item import Arg, CopyItem, KernelItem, Schedule
from tiny_core.settings import DEBUG


@dataclass(frozen=True, slots=True)
class Place:
    """`nbytes` from byte `offset` on of a BUFFER node's memory."""

    node: UOp
    offset: int


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """Run a program.

    Args:
        device: where.
        program: what.
        places: its buffer arguments.
        writes: for each, whether it is written, and
        reads: whether it is read.
        scalars: its scalar arguments.
        grid: its launch dimensions.
        site: why, while a trace is on.
    """

    device: OpenDevice
    program: Program
    places: tuple[Place, ...]
    writes: tuple[bool, ...]
    reads: tuple[bool, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, ...]
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copy bytes between two places, on one device or on two."""

    dest_device: OpenDevice
    source_device: OpenDevice
    dest: Place
    source: Place
    nbytes: int


Step = LaunchStep | CopyStep


def prepare(schedule: Schedule, sites: Sequence[Site] = ()) -> list[Step]:
    """Compile a schedule's kernels and return its steps.

    Args:
        schedule: what to do.
        sites: why each item is there, for a trace that is on.

    Raises:
        CompileError: a kernel does not compile.
        DeviceError: a device does not open, or an item is spread over several devices.
    """
    level, trace = DEBUG.value, active()
    kernels: dict[str, list[UOp]] = {}
    for item in schedule.items:
        if isinstance(item, KernelItem):
            kernels.setdefault(_one(item.device), []).append(item.kernel)
    programs: dict[tuple[str, UOp], Program] = {}
    for name, wanted in kernels.items():
        device = Device[name]
        for kernel, program in zip(wanted, programs_for(wanted, device), strict=True):
            if level >= 3 and (name, kernel) not in programs and not program.shown:
                program.shown = True
                show_program(device, kernel, program, level)
            programs[name, kernel] = program
    steps: list[Step] = []
    for item, site in zip_longest(schedule.items, sites):
        if isinstance(item, CopyItem):
            steps.append(_copy(item))
            continue
        program = programs[_one(item.device), item.kernel]
        if trace is not None and site is not None:
            trace.meet(Device[_one(item.device)], item.kernel, program, site)
        steps.append(_launch(item, program, site))
    return steps


def _launch(item: KernelItem, program: Program, site: Site | None) -> LaunchStep:
    device = Device[_one(item.device)]
    signature = program.compiled.signature
    assert len(signature.params) == len(item.args), f"{signature.name} takes {len(signature.params)} buffers"
    values = dict(item.scalars)
    scalars = tuple(values[s.name] for s in signature.scalars)
    grid = program.launches.get(scalars)
    if grid is None:
        grid = program.launches[scalars] = signature.launch(device.renderer.capabilities.launch, values)
    return LaunchStep(
        device,
        program,
        tuple(map(_place, item.args)),
        tuple("w" in s.access for s in signature.params),
        tuple("r" in s.access for s in signature.params),
        scalars,
        grid,
        site,
    )


def _copy(item: CopyItem) -> CopyStep:
    dest, source = _place(item.dest), _place(item.source)
    return CopyStep(
        device_of(dest.node),
        device_of(source.node),
        dest,
        source,
        item.size * item.dest.buffer.dtype.itemsize,
    )


def _place(arg: Arg) -> Place:
    return Place(arg.buffer, arg.offset * arg.buffer.dtype.itemsize)


def device_of(node: UOp) -> OpenDevice:
    """Return the device of a BUFFER node, open."""
    from tiny_core.ir import payload as p

    return Device[_one(node.payload(p.Storage).device)]


def _one(device: str | tuple[str, ...] | None) -> str:
    if not isinstance(device, str):
        raise DeviceError(f"a kernel over devices {device}", "sharded tensors are not supported yet")
    return device
