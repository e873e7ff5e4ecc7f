"""Renderer: linear UOps to text or words, pure. Compiler: that text to a binary, with a toolkit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tiny_core.ir.payload import TargetOp
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities
from tiny_core.render.resources import Resources
from tiny_core.render.signature import Signature


@dataclass(frozen=True, slots=True)
class Arch:
    """The part of a target that generated code depends on.

    Args:
        name: architecture, e.g. `x86_64` or `gfx1100`; "" for the host's.
        features: named features with True (has it) or False (must not use it), sorted by name.
    """

    name: str = ""
    features: tuple[tuple[str, bool], ...] = ()


class Renderer(ABC):
    """Turns a linear kernel into source. Pure: no toolkit, no device, works on any machine.

    Args:
        arch: what to render for; an unknown architecture raises TargetError with the list of known ones.

    Attributes:
        name: the RENDERER token of DEV.
        arch: with its name filled in and features completed.
        capabilities: what kernels may contain.
        rules: rewrites of its own, by the point at which they enter: "after expand", "before linearize" (a
            SINK in and
            out), "after linearize" (a LINEAR). What they make must meet the specification of that stage.
        operations: descriptors of the TARGET ops that they make: a kernel's text has their names only.
    """

    name: str
    arch: Arch
    capabilities: Capabilities
    rules: Mapping[str, Callable[[UOp], UOp]] = {}
    operations: tuple[TargetOp, ...] = ()

    @abstractmethod
    def __init__(self, arch: Arch) -> None: ...

    @abstractmethod
    def render(self, linear: UOp, signature: Signature) -> str:
        """Return the source of a kernel.

        Args:
            linear: a LINEAR node that meets the linear specification and these capabilities.
            signature: its calling convention.

        Raises:
            RenderError: an op, dtype or width that was not declared.
        """

    @abstractmethod
    def compiler(self) -> Compiler:
        """Return the compiler for what `render` gives; raises DeviceError with a hint where its toolkit is
        missing."""

    def host_pool(self) -> str:
        """Return the source of the worker pool that runs host programs on threads (`devices/cpu/pool.py` has
        its interface), for this renderer's compiler; "" for renderers of other targets."""
        return ""

    def fingerprint(self) -> str:
        """Return text that changes whenever the same kernel may be rendered differently."""
        return f"{type(self).__module__}.{type(self).__qualname__} {self.arch}"


class Compiler(ABC):
    """Turns source into a binary that the runtime can load."""

    @abstractmethod
    def compile(self, source: str, name: str) -> bytes:
        """Compile `source`, whose entry symbol is `name`.

        Raises:
            CompileError: with the toolkit's message and the source.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return text that changes with the toolkit's version or options."""

    def disassemble(self, binary: bytes) -> str:
        """Return assembly text for people to read."""
        return f"; {len(binary)} bytes, and no disassembler"

    def listing(self, binary: bytes, source: str) -> str:
        """Return assembly text for people to read, of what `compile` made of `source` (in any process)."""
        return self.disassemble(binary)

    def resources(self, binary: bytes, name: str) -> Resources | None:
        """Return what the kernel `name` of a binary takes of the machine, read from the binary; None where
        that cannot be known."""
        return None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel ready to load.

    Args:
        signature: its calling convention.
        binary: what the compiler gave (for an interpreter, the text of the linear kernel).
        source: what the renderer gave.
        flops: arithmetic operations, and
        bytes: bytes loaded and stored, of one launch (at the upper bounds of variables).
        detail: what the compiler reported, for people to read.
    """

    signature: Signature
    binary: bytes
    source: str = ""
    flops: int = 0
    bytes: int = 0
    detail: str = field(default="", compare=False)
