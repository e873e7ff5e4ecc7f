"""The CPU runtime: memory is the process's own, programs are objects that the loader maps, launches go to the
pool."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tiny_core.api import (
    Compiled,
    Handle,
    LaunchError,
    OutOfMemory,
    ProgramHandle,
    Runtime,
    RuntimeCapabilities,
    Signature,
    TargetError,
    queue,
)
from tiny_core.devices.cpu import libc
from tiny_core.devices.cpu.loader import LoadedObject, load
from tiny_core.devices.cpu.memory import ALIGN, Allocator
from tiny_core.devices.cpu.pool import MOST_CHUNKS, Batch, Pool, Record

# What a core does in a nanosecond, roughly: it decides only how finely work is divided, and by shape alone.
_FLOPS: Final = 16
_BYTES: Final = 8
_INLINE: Final = 8_000  # ns of work below which waking others costs more than it saves
_CHUNK: Final = 4_000  # ns of work that a chunk should have at least


@dataclass(frozen=True, slots=True, eq=False)
class CpuProgram:
    """A loaded program.

    Args:
        code: what keeps it mapped.
        address: of its entry.
        signature: its calling convention.
        work: estimated nanoseconds of one launch on one core; 0 where nothing is known.
    """

    code: LoadedObject
    address: int
    signature: Signature
    work: int

    def chunks(self, parallel: int) -> int:
        """Return into how many pieces `parallel` iterations are divided: a matter of the shape of the work
        only."""
        most = min(parallel, MOST_CHUNKS)
        if not self.work:
            return max(most, 1)
        return 1 if self.work < _INLINE else max(min(most, self.work // _CHUNK), 1)


class CpuRuntime(Runtime):
    """This machine. Until `host_pool` has been called, programs run on the calling thread, uninterrupted.

    Args:
        index: any number: all CPU devices are this machine, each with threads and memory of its own.
        options: `threads` is the number of threads, by default the number of cores this process may use.

    Raises:
        TargetError: `threads` is not a number from 1 to 1024.
        DeviceError: the system is not Linux.
    """

    capabilities = RuntimeCapabilities(align=ALIGN, host_visible=True, peers=True)

    def __init__(self, index: int = 0, iface: str = "", options: Mapping[str, str] | None = None) -> None:
        super().__init__(index, iface, options)
        text = self.options.get("threads", "")
        if text and not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1024):
            raise TargetError(
                f"threads={text} of CPU is not a number from 1 to 1024", "e.g. DEV=CPU,threads=4"
            )
        libc.library()
        self.threads = int(text) if text else min(len(os.sched_getaffinity(0)), 1024)
        self.pool: Pool | None = None
        self.memory = Allocator()

    def host_pool(self, binary: bytes) -> None:
        """Take the compiled `Renderer.host_pool`; raises LaunchError if it is not one."""
        old, self.pool = self.pool, Pool(binary, self.threads)
        if old is not None:
            old.close()

    def allocate(self, nbytes: int) -> Handle:
        try:
            return self.memory.allocate(nbytes)
        except OutOfMemory as error:
            live = self.memory.live
            raise OutOfMemory(
                f"CPU: no memory for {nbytes:,} bytes beside {live:,} in use ({error.message})", error.hint
            ) from None

    def free(self, handle: Handle, nbytes: int) -> None:
        self.memory.free(handle, nbytes)

    def copy_in(self, dest: Handle, source: memoryview) -> None:
        libc.view(dest, source.nbytes)[:] = source.cast("B") if source.c_contiguous else source.tobytes()

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        dest.cast("B")[:] = libc.view(source, dest.nbytes)

    def copy_peer(self, dest: Handle, source: Handle, nbytes: int) -> None:
        ctypes.memmove(dest, source, nbytes)

    def load(self, compiled: Compiled) -> ProgramHandle:
        code = load(compiled.binary)
        work = max(compiled.flops // _FLOPS, compiled.bytes // _BYTES)
        return CpuProgram(code, code.entry(compiled.signature.name), compiled.signature, work)

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        assert isinstance(program, CpuProgram)
        check_call(program, len(buffers), len(scalars))
        parallel = grid[0]
        words = [*buffers, *scalars]
        if self.pool is not None:
            record = Record(program.address, 0, len(buffers), parallel, program.chunks(parallel))
            self.pool.run(Batch([record], words, [], 0))
            return
        arguments = (ctypes.c_int64 * max(len(words), 1))(*words)
        base = ctypes.addressof(arguments)
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        entry(program.address)(base, base + 8 * len(buffers), 0, parallel)

    def queue(self) -> queue.Queue:
        from tiny_core.devices.cpu.queue import CpuQueue

        return CpuQueue(self)

    def after_fork(self) -> None:
        # the pool's own hook has made it start anew; a thread that is not in this process may have held a
        # lock
        self.memory.after_fork()

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
        self.memory.close()


def check_call(program: CpuProgram, buffers: int, scalars: int) -> None:
    """Raise LaunchError unless a program is given as many arguments as it takes."""
    signature = program.signature
    if buffers != len(signature.params) or scalars != len(signature.scalars):
        raise LaunchError(
            f"{signature.name} takes {len(signature.params)} buffers and {len(signature.scalars)} scalars, "
            f"not {buffers} and {scalars}"
        )
