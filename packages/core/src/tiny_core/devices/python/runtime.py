"""The PYTHON runtime: memory in numpy arrays, programs as text of linear kernels."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiny_core.api import (
    Compiled,
    Handle,
    LaunchError,
    Ops,
    ProgramHandle,
    Runtime,
    RuntimeCapabilities,
    Signature,
    TargetError,
    TinyError,
    payload,
    text,
)

if TYPE_CHECKING:
    from tiny_core.devices.python.plan import Kernel


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A loaded kernel."""

    kernel: Kernel
    signature: Signature


class PythonRuntime(Runtime):
    """An interpreter for the kernels of any renderer.

    Args:
        index: any number; each is a device with memory of its own.
        options: `check=0` switches the race checker off (bounds and alignment are always checked).

    Attributes:
        targets: descriptors of TARGET ops by name, for kernels that hold any: the text of a kernel has only
            names.

    Raises:
        TargetError: an option has a value that it cannot have.
    """

    capabilities = RuntimeCapabilities(align=64, interprets=True)

    def __init__(self, index: int = 0, iface: str = "", options: Mapping[str, str] | None = None) -> None:
        super().__init__(index, iface, options)
        check = self.options.get("check", "1")
        if check not in ("0", "1"):
            raise TargetError(f"check={check} of PYTHON is neither 0 nor 1", "e.g. DEV=PYTHON,check=0")
        from tiny_core.devices.python.memory import Heap

        self.check = check == "1"
        self.targets: dict[str, payload.TargetOp] = {}
        self._heap = Heap()
        self._lock = threading.RLock()

    def allocate(self, nbytes: int) -> Handle:
        with self._lock:
            return self._heap.allocate(nbytes)

    def free(self, handle: Handle, nbytes: int) -> None:
        with self._lock:
            self._heap.free(handle)

    def copy_in(self, dest: Handle, source: memoryview) -> None:
        with self._lock:
            memoryview(self._heap.bytes(dest, source.nbytes))[:] = source.cast("B")  # type: ignore[arg-type]

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        with self._lock:
            dest.cast("B")[:] = memoryview(self._heap.bytes(source, dest.nbytes))  # type: ignore[arg-type]

    def copy_peer(self, dest: Handle, source: Handle, nbytes: int) -> None:
        with self._lock:
            self._heap.bytes(dest, nbytes)[:] = self._heap.bytes(source, nbytes)

    def learn(self, operations: Sequence[payload.TargetOp]) -> None:
        with self._lock:
            self.targets |= {op.name: op for op in operations}

    def load(self, compiled: Compiled) -> ProgramHandle:
        from tiny_core.devices.python.plan import Kernel

        name = compiled.signature.name
        try:
            linear = text.parse(compiled.binary.decode(), self.targets)
        except (UnicodeDecodeError, TinyError) as error:
            raise LaunchError(f"{name} is not the text of a kernel: {error}") from error
        if linear.op is not Ops.LINEAR:
            raise LaunchError(f"{name} is the text of a {linear.op.value}, not of a linear kernel")
        return PythonProgram(Kernel.of(linear), compiled.signature)

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        from tiny_core.devices.python.execute import run_kernel
        from tiny_core.devices.python.memory import Region

        if not isinstance(program, PythonProgram):
            raise LaunchError(f"{program!r} is no program of PYTHON")
        signature = program.signature
        if len(buffers) != len(signature.params):
            raise LaunchError(f"{signature.name} takes {len(signature.params)} buffers, not {len(buffers)}")
        with self._lock:
            regions = [
                Region(self._heap.bytes(handle, param.size * param.dtype.itemsize), handle)
                for handle, param in zip(buffers, signature.params, strict=True)
            ]
            run_kernel(program.kernel, signature, regions, scalars, grid, self.check)

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def close(self) -> None:
        from tiny_core.devices.python.memory import Heap

        with self._lock:
            self._heap = Heap()
