"""The NULL device: accepts any renderer's kernels and runs none, to see what would be compiled and
launched."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from tiny_core.api import (
    Compiled,
    DeviceError,
    Handle,
    LaunchError,
    OutOfMemory,
    ProgramHandle,
    Runtime,
    RuntimeCapabilities,
    RuntimeSpec,
)

_ALIGN = 256  # as generous as the devices it stands in for
_SPACE = 1 << 57  # addresses of the widest page tables in use


class NullRuntime(Runtime):
    """A device without memory: handles are addresses that nothing else has, copies to it vanish, launches do
    nothing. Reading from it is an error, since any answer would be invented.

    Raises:
        DeviceError: data is read.
    """

    capabilities = RuntimeCapabilities(stores=False, align=_ALIGN, peers=True)

    def __init__(self, index: int = 0, iface: str = "", options: Mapping[str, str] | None = None) -> None:
        super().__init__(index, iface, options)
        self._next = _ALIGN
        self._numbers = count()

    def allocate(self, nbytes: int) -> Handle:
        handle = self._next
        if handle + nbytes > _SPACE:
            raise OutOfMemory(f"NULL has no {nbytes} addresses left")
        self._next += max(1, -(-nbytes // _ALIGN)) * _ALIGN
        return handle

    def free(self, handle: Handle, nbytes: int) -> None:
        pass  # there was nothing

    def copy_in(self, dest: Handle, source: memoryview) -> None:
        pass  # there is nowhere to keep it

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        raise DeviceError(
            "NULL has no data: its kernels are compiled and never run",
            "choose a device that runs them: DEV=CPU, or DEV=PYTHON:RENDERER:ARCH for these very kernels",
        )

    def copy_peer(self, dest: Handle, source: Handle, nbytes: int) -> None:
        pass

    def load(self, compiled: Compiled) -> ProgramHandle:
        return compiled.signature, next(self._numbers)

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        if not isinstance(program, tuple):
            raise LaunchError(f"{program!r} is no program of NULL")


def tiny_runtimes() -> tuple[RuntimeSpec, ...]:
    return (RuntimeSpec("NULL", open="tiny_core.devices.null:NullRuntime", renderers=("*",)),)
