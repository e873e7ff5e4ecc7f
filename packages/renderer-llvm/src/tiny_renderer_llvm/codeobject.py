"""Code objects, read: what is in an AMDGPU ELF file, linked or relocatable, and what its kernels need.

In: bytes. Out: a `CodeObject`. `tiny-llvm object` prints it, and `occupancy` computes from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiny_core.api import DataError
from tiny_renderer_llvm import elf
from tiny_renderer_llvm.architectures import ARCHITECTURES, Architecture, by_flags
from tiny_renderer_llvm.descriptor import SIZE, Descriptor, descriptor
from tiny_renderer_llvm.metadata import KernelMetadata, metadata

_DESCRIPTOR = ".kd"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a code object.

    Args:
        name: its name, as the metadata has it.
        descriptor: what starts it.
        metadata: what LLVM says of it; None if the note does not name it.
        address: of its descriptor (an offset into a section where nothing is linked).
        entry: of its first instruction; None where nothing is linked.
        code_size: bytes of instructions; 0 if no symbol says it.
    """

    name: str
    descriptor: Descriptor
    metadata: KernelMetadata | None
    address: int
    entry: int | None
    code_size: int


@dataclass(frozen=True, slots=True)
class CodeObject:
    """An AMDGPU ELF file.

    Args:
        elf: its sections, segments and symbols.
        architecture: the processor it is for.
        target: its target id, as the metadata has it.
        version: of the metadata.
        kernels: by name.
    """

    elf: elf.Elf
    architecture: Architecture
    target: str
    version: tuple[int, ...]
    kernels: tuple[Kernel, ...]

    def kernel(self, name: str) -> Kernel:
        """Return the kernel called `name`; raises DataError with the names there are."""
        found = next((k for k in self.kernels if k.name == name), None)
        if found is None:
            names = ", ".join(k.name for k in self.kernels) or "none"
            raise DataError(f"the code object has no kernel {name!r}", f"its kernels: {names}")
        return found


def read(binary: bytes) -> CodeObject:
    """Read a code object.

    Raises:
        DataError: it is no AMDGPU ELF file, malformed, or for a processor that is not in `architectures`.
    """
    of = elf.read(binary)
    if of.header.machine != elf.EM_AMDGPU:
        raise DataError(f"an ELF file for machine {of.header.machine}, not for AMDGPU ({elf.EM_AMDGPU})")
    architecture = by_flags(of.header.flags)
    if architecture is None:
        raise DataError(
            f"code object for processor {of.header.flags & 0xFF:#x} (EF_AMDGPU_MACH)",
            f"known are {', '.join(ARCHITECTURES)}",
        )
    notes = metadata(of.notes())
    named = {k.symbol: k for k in notes.kernels}
    symbols = {s.name: s for s in (*of.symbols, *of.dynamic) if s.section != elf.SHN_UNDEF}
    kernels = tuple(
        _kernel(of, architecture, symbol, named.get(name), symbols)
        for name, symbol in sorted(symbols.items())
        if name.endswith(_DESCRIPTOR) and symbol.size == SIZE
    )
    return CodeObject(of, architecture, notes.target, notes.version, kernels)


def _kernel(
    of: elf.Elf,
    architecture: Architecture,
    symbol: elf.Symbol,
    said: KernelMetadata | None,
    symbols: dict[str, elf.Symbol],
) -> Kernel:
    linked = of.header.kind == elf.ET_DYN
    found = descriptor(_content(of, symbol, linked), architecture)
    name = said.name if said is not None else symbol.name.removesuffix(_DESCRIPTOR)
    entry = symbol.value + found.entry_offset if linked else None
    code = symbols.get(name)
    if code is not None and entry is not None and code.value != entry:
        raise DataError(f"kernel {name}: its descriptor names {entry:#x}, its symbol {code.value:#x}")
    return Kernel(name, found, said, symbol.value, entry, code.size if code is not None else 0)


def _content(of: elf.Elf, symbol: elf.Symbol, linked: bool) -> bytes:
    if linked:
        return of.at(symbol.value, symbol.size, symbol.name)
    data = of.sections[symbol.section].data if symbol.section < len(of.sections) else b""
    return data[symbol.value : symbol.value + symbol.size]
