"""Runtime: what a backend implements to own memory, load programs and run commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiny_core.ir.payload import TargetOp
from tiny_core.render.renderer import Compiled
from tiny_core.runtime.queue import BlockingQueue, Queue

Handle = int
"""Memory of a device: an address, or whatever number the runtime wants."""
ProgramHandle = object
"""A loaded program: whatever object the runtime wants."""


@dataclass(frozen=True, slots=True)
class RuntimeCapabilities:
    """What a runtime can do.

    Args:
        executes: whether it runs programs (DISK stores only).
        stores: whether memory keeps data (NULL's does not).
        views: whether `view` gives memory at an offset that kernels accept.
        align: bytes to which allocations are aligned.
        host_visible: whether handles are addresses that the host can read and write.
        peers: whether copies between two devices of this runtime need no host memory.
        interprets: whether it executes the text of linear kernels, so that no compiler runs (PYTHON).
    """

    executes: bool = True
    stores: bool = True
    views: bool = True
    align: int = 64
    host_visible: bool = False
    peers: bool = False
    interprets: bool = False


class Runtime(ABC):
    """One open device.

    Args:
        index: which of the equal devices.
        iface: the interface by which to reach it, "" for the default.
        options: `key=value` items of the target.
    """

    capabilities: RuntimeCapabilities

    def __init__(self, index: int = 0, iface: str = "", options: Mapping[str, str] | None = None) -> None:
        self.index = index
        self.iface = iface
        self.options = dict(options or {})

    @abstractmethod
    def allocate(self, nbytes: int) -> Handle:
        """Return `nbytes` of memory, uninitialised; raises OutOfMemory."""

    @abstractmethod
    def free(self, handle: Handle, nbytes: int) -> None:
        """Give back what `allocate` returned; no command uses it any more."""

    def view(self, handle: Handle, offset: int) -> Handle:
        """Return the memory `offset` bytes into `handle`."""
        return handle + offset

    @abstractmethod
    def copy_in(self, dest: Handle, source: memoryview) -> None:
        """Copy bytes from the host; on return `source` may change."""

    @abstractmethod
    def copy_out(self, dest: memoryview, source: Handle) -> None:
        """Copy bytes to the host; on return they are there."""

    def copy_peer(self, dest: Handle, source: Handle, nbytes: int) -> None:
        """Copy within the device, or from a peer."""
        staging = memoryview(bytearray(nbytes))
        self.copy_out(staging, source)
        self.copy_in(dest, staging)

    @abstractmethod
    def load(self, compiled: Compiled) -> ProgramHandle:
        """Load a program; raises LaunchError if the binary is not one of this device's."""

    @abstractmethod
    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        """Run a program and wait for it.

        Args:
            program: from `load`.
            buffers: one handle per parameter of its signature.
            scalars: one number per scalar.
            grid: work-groups per dimension; for a host program `(parallel,)`.
        """

    def host_pool(self, binary: bytes) -> None:
        """Take the compiled `Renderer.host_pool` of the device's renderer, once, before anything is launched.
        Runtimes whose programs do not run on threads of the host have no use for it."""

    def learn(self, operations: Sequence[TargetOp]) -> None:
        """Take the descriptors of the renderer's own operations, before programs are loaded. An interpreter
        needs their semantics; others have no use for it."""

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""

    def queue(self) -> Queue:
        """Return a new queue. The default one runs each command as a blocking call."""
        return BlockingQueue(self)

    def after_fork(self) -> None:
        """Go on in a forked child, where no thread but the calling one exists; called there before anything
        else."""

    def close(self) -> None:
        """Release the device; called at most once."""
