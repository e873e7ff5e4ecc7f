"""The device without the engine: memory, kernels written as nodes, and queues, through `tiny_core.api` alone.

In: numpy arrays, and SINKs at the kernel stage. Out: arrays. Code generation is core's; rendering, compiling,
loading and running are the target's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tiny_conformance.compare import Array, numpy_dtype
from tiny_core import Device
from tiny_core.api import (
    Compiled,
    DeviceError,
    DType,
    Generated,
    Handle,
    ProgramHandle,
    Renderer,
    Runtime,
    UOp,
    dtypes,
    generate,
    payload,
    queue,
    text,
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program that the runtime has loaded, with what it was made of."""

    handle: ProgramHandle
    compiled: Compiled
    launch: Literal["threads", "grid"]

    def grid(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """Return its launch dimensions for values of its scalars."""
        return self.compiled.signature.launch(self.launch, values)


class Bare:
    """The open device. What is allocated through it is freed by `close`.

    Attributes:
        runtime, renderer: of the device.
    """

    def __init__(self) -> None:
        device = Device[Device.DEFAULT]
        self.runtime: Runtime = device.runtime
        self._renderer: Renderer | None = device.renderer if self.runtime.capabilities.executes else None
        self._owned: dict[Handle, int] = {}

    @property
    def renderer(self) -> Renderer:
        """Of a device that executes."""
        assert self._renderer is not None, "tests of programs need `executes`"
        return self._renderer

    def allocate(self, nbytes: int) -> Handle:
        """Return memory that `close` frees."""
        handle = self.runtime.allocate(nbytes)
        self._owned[handle] = nbytes
        return handle

    def free(self, handle: Handle) -> None:
        """Give memory of `allocate` or `put` back early."""
        self.runtime.free(handle, self._owned.pop(handle))

    def put(self, data: Array) -> Handle:
        """Return new memory that holds an array."""
        handle = self.allocate(data.nbytes)
        self.runtime.copy_in(handle, raw(data))
        return handle

    def get(self, handle: Handle, dtype: str, count: int) -> Array:
        """Return `count` elements at a handle, once all submitted work is done."""
        self.runtime.synchronize()
        out = np.zeros(count, numpy_dtype(dtype))
        self.runtime.copy_out(raw(out), handle)
        return out

    def close(self) -> None:
        """Free everything."""
        self.runtime.synchronize()
        while self._owned:
            self.runtime.free(*self._owned.popitem())

    def load(self, kernel: UOp, renderer: Renderer | None = None) -> Loaded:
        """Generate, render, compile and load a kernel.

        Args:
            kernel: a SINK at the kernel stage.
            renderer: instead of the device's own.
        """
        renderer = renderer or self.renderer
        compiled = self.compile(generate(kernel, renderer), renderer)
        return Loaded(self.runtime.load(compiled), compiled, renderer.capabilities.launch)

    def compile(self, made: Generated, renderer: Renderer) -> Compiled:
        """Turn generated code into what the runtime loads: for an interpreter, the kernel's text."""
        traits = self.runtime.capabilities
        if traits.interprets:
            source = text.format(made.linear)
            return Compiled(made.signature, source.encode(), source)
        source = renderer.render(made.linear, made.signature)
        try:
            binary = renderer.compiler().compile(source, made.signature.name)
        except DeviceError:
            if traits.stores:  # what runs nothing needs no toolkit either
                raise
            binary = source.encode()
        return Compiled(made.signature, binary, source)

    def launch(self, program: Loaded, handles: Sequence[Handle], **scalars: int) -> None:
        """Run a program through a queue, and wait for it."""
        line = self.runtime.queue()
        slots = tuple(queue.Slot(i) for i in range(len(handles)))
        names = tuple(s.name for s in program.compiled.signature.scalars)
        line.append(queue.Launch(program.handle, slots, names, program.grid(scalars)))
        line.submit(queue.Submission(list(handles), {n: scalars[n] for n in names}))
        self.runtime.synchronize()

    def run(
        self, kernel: UOp, result: DType, count: int, *inputs: Array, renderer: Renderer | None = None
    ) -> Array | None:
        """Run a kernel whose PARAM 0 is the result and whose others are inputs.

        Returns:
            the result; None where the device keeps no data.
        """
        program = self.load(kernel, renderer)
        out = self.put(np.zeros(count, numpy_dtype(result.name)))
        handles = [out, *(self.put(x) for x in inputs)]
        self.launch(program, handles)
        got = self.get(out, result.name, count) if self.runtime.capabilities.stores else None
        for handle in handles:
            self.free(handle)
        return got


def raw(data: Array) -> memoryview:
    """Return the bytes of a contiguous array; also of dtypes that the buffer protocol does not know."""
    return data.reshape(-1).view(np.uint8).data


def each(function: Callable[..., UOp], result: DType, sources: Sequence[DType], count: int) -> UOp:
    """Return the kernel that applies a function of nodes to `count` elements of PARAMs 1, 2, …"""
    i = UOp.range(count, "i")
    loads = (UOp.param(n, d, count).load(i) for n, d in enumerate(sources, 1))
    return UOp.sink(UOp.param(0, result, count, "w").store(i, function(*loads)))


def asked(kernel: UOp, *options: payload.Option, name: str = "kernel") -> UOp:
    """Return a kernel that is to be made with these options and no others."""
    return kernel.replace(arg=payload.KernelInfo(name, options))


def dtype_of(name: str) -> DType:
    """Return tiny's dtype of a name."""
    return dtypes.parse(name)
