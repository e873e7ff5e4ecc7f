"""The device: memory with addresses of its own, loading programs, and launching them.

All calls block; core makes the queue of them. Yours calls the driver in the six places where this one touches
`self.blocks` or a `Program`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping

from acme_tiny.machine import Program

from tiny_core.api import (  # isort: skip
    Compiled, DeviceError, Handle, LaunchError, OutOfMemory, ProgramHandle, Runtime, RuntimeCapabilities,
)  # fmt: skip

ALIGN = 64
MEMORY = 256  # megabytes


class AcmeRuntime(Runtime):
    """One ACME; there is only device 0."""

    boards = 1

    capabilities = RuntimeCapabilities(align=ALIGN)

    def __init__(self, index: int = 0, iface: str = "", options: Mapping[str, str] | None = None) -> None:
        super().__init__(index, iface, options)
        if index >= self.boards:
            raise DeviceError(f"there is no ACME:{index}", f"counting begins at 0; there are {self.boards}")
        megabytes = self.options.get("memory", str(MEMORY))
        if not megabytes.isdecimal():
            raise DeviceError(f"memory={megabytes} is not a number of megabytes")
        self.free_bytes = int(megabytes) << 20
        self.next_address = ALIGN
        self.blocks: dict[Handle, bytearray] = {}
        self.order: list[Handle] = []

    def allocate(self, nbytes: int) -> Handle:
        if nbytes > self.free_bytes:
            raise OutOfMemory(
                f"ACME has {self.free_bytes} bytes left, not {nbytes}", "DEV=ACME,memory=… gives it more"
            )
        self.free_bytes -= nbytes
        handle = self.next_address
        self.next_address += -(-max(nbytes, 1) // ALIGN) * ALIGN
        self.blocks[handle] = bytearray(nbytes)
        insort(self.order, handle)
        return handle

    def free(self, handle: Handle, nbytes: int) -> None:
        self.free_bytes += nbytes
        del self.blocks[handle]
        self.order.remove(handle)

    def copy_in(self, dest: Handle, source: memoryview) -> None:
        self._at(dest)[: source.nbytes] = source.cast("B")

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        dest.cast("B")[:] = self._at(source)[: dest.nbytes]

    def load(self, compiled: Compiled) -> ProgramHandle:
        return Program(compiled.binary)

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        assert isinstance(program, Program)
        program.run([self._at(b) for b in buffers], scalars, grid)

    def _at(self, address: Handle) -> memoryview:
        """The memory from an address to the end of its block."""
        place = bisect_right(self.order, address) - 1
        start = self.order[place] if place >= 0 else 0
        block = self.blocks.get(start)
        if block is None or address - start > len(block):
            raise LaunchError(f"no memory at address {address}")
        return memoryview(block)[address - start :]
