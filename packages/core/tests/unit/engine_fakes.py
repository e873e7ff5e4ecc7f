"""A device for tests of the engine: memory that can run out, programs that are Python functions, and a
log."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from tiny_core import dtypes
from tiny_core.errors import OutOfMemory
from tiny_core.ir import payload as p
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities
from tiny_core.render.renderer import Arch, Compiled, Compiler, Renderer
from tiny_core.render.signature import ParamSpec, Signature
from tiny_core.runtime.device import Device, OpenDevice
from tiny_core.runtime.runtime import Runtime, RuntimeCapabilities
from tiny_core.settings import codegen_key

Floats = ctypes.Array[ctypes.c_float]
Function = Callable[..., None]


class FakeCompiler(Compiler):
    def compile(self, source: str, name: str) -> bytes:
        return source.encode()

    def fingerprint(self) -> str:
        return "1"


class FakeRenderer(Renderer):
    name = "FAKE"

    def __init__(self, arch: Arch = Arch("fake")) -> None:  # noqa: B008 - frozen
        self.arch = arch
        self.capabilities = Capabilities("threads", frozenset(dtypes.storable), frozenset())

    def render(self, linear: UOp, signature: Signature) -> str:
        return signature.name

    def compiler(self) -> Compiler:
        return FakeCompiler()


class FakeRuntime(Runtime):
    """Host memory of at most `limit` bytes; programs are looked up by name in `functions`."""

    def __init__(self, limit: int = 1 << 30, visible: bool = True) -> None:
        super().__init__()
        self.capabilities = RuntimeCapabilities(host_visible=visible, align=128)
        self.limit = limit
        self.blocks: dict[int, tuple[ctypes.Array[ctypes.c_char], int]] = {}
        self.functions: dict[str, Function] = {}
        self.log: list[str] = []
        self.waits = 0

    def allocate(self, nbytes: int) -> int:
        if sum(size for _, size in self.blocks.values()) + nbytes > self.limit:
            raise OutOfMemory("full")
        block = ctypes.create_string_buffer(nbytes + 128)
        handle = -(-ctypes.addressof(block) // 128) * 128
        self.blocks[handle] = (block, nbytes)
        return handle

    def free(self, handle: int, nbytes: int) -> None:
        assert self.blocks.pop(handle)[1] == nbytes

    def copy_in(self, dest: int, source: memoryview) -> None:
        ctypes.memmove(dest, bytes(source), source.nbytes)

    def copy_out(self, dest: memoryview, source: int) -> None:
        dest[:] = ctypes.string_at(source, dest.nbytes)

    def load(self, compiled: Compiled) -> str:
        return compiled.binary.decode()

    def launch(
        self, program: object, buffers: tuple[int, ...], scalars: tuple[int, ...], grid: tuple[int, ...]
    ) -> None:
        assert isinstance(program, str)
        self.log.append(program)
        self.functions[program](*buffers, *scalars)

    def synchronize(self) -> None:
        self.waits += 1


def install(name: str = "FAKE", limit: int = 1 << 30, visible: bool = True) -> tuple[OpenDevice, FakeRuntime]:
    """Open a fake device under `name`."""
    runtime = FakeRuntime(limit, visible)
    return Device.install(name, runtime, FakeRenderer()), runtime


def floats(address: int, n: int) -> Floats:
    """The n floats at an address."""
    return (ctypes.c_float * n).from_address(address)


def program(device: OpenDevice, name: str, access: str, n: int, function: Function) -> UOp:
    """A kernel over float buffers of n elements that runs `function(address, …)`; `access`: "w r" is out,
    in."""
    specs = tuple(ParamSpec(dtypes.float32, n, a) for a in access.split())  # type: ignore[arg-type]
    params = [UOp.param(i, dtypes.float32, n, a) for i, a in enumerate(access.split())]
    kernel = UOp.sink(params[0].store(0, params[-1].load(0)), info=p.KernelInfo(f"{name}_{n}"))
    compiled = Compiled(Signature(name, specs), name.encode(), name, flops=n, bytes=4 * n * len(specs))
    assert isinstance(device.runtime, FakeRuntime)
    device.runtime.functions[name] = function
    device.add_program((kernel, codegen_key()), compiled)
    return kernel
