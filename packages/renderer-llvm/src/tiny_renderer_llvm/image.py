"""The file image of a loadable code object: sections placed in segments, and everything written.

In: output sections whose sizes are known. `place` gives them addresses; then the linker fills them, and
`write` makes the file. Segments follow what loaders of AMD code objects and `ld.lld` agree on: headers, notes
and tables with the read-only data, then code, then what is read-only after relocation, then data; each
permission has pages of its own, and addresses equal file offsets modulo the page size (gABI chapter 5,
"Program Header").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tiny_core.api import CompileError
from tiny_renderer_llvm import elf
from tiny_renderer_llvm.dynamic import Strings

PAGE: Final = 4096
_LARGEST: Final = 1 << 31
"""Distances are 32 bits wide in most code; nothing that we generate comes near."""
_LARGEST_ALIGN: Final = 1 << 16
_LARGEST_ZEROS: Final = 1 << 26
"""Zeros that are written into the file because something stored follows them in a section."""


@dataclass(slots=True, eq=False)
class Output:
    """A section of the code object.

    Args:
        name: its name.
        kind: sh_type.
        flags: sh_flags.
        align: bytes.
        entry_size: of its entries, for tables.
        data: its bytes; for NOBITS `size` counts and there are none.
        link: section that sh_link names.
        info: sh_info.
        address, offset, index: where it is in memory and in the file, set by `place`, and its number.
    """

    name: str
    kind: int
    flags: int
    align: int = 1
    entry_size: int = 0
    data: bytearray = field(default_factory=bytearray)
    link: Output | None = None
    info: int = 0
    size: int = 0
    address: int = 0
    offset: int = 0
    index: int = 0

    def add(self, data: bytes, size: int, align: int) -> int:
        """Append a piece and return its offset; raises CompileError for what no code object can hold."""
        if align > _LARGEST_ALIGN:
            raise CompileError(
                f"section {self.name} is aligned to {align} bytes, the most is {_LARGEST_ALIGN}"
            )
        at = _up(self.size, align)
        self.align = max(self.align, align)
        self.size = at + size
        if self.size > _LARGEST:
            raise CompileError(f"section {self.name} has {self.size} bytes, the most is {_LARGEST}")
        if self.kind != elf.SHT_NOBITS:
            self.data += bytes(at - len(self.data)) + data
            self.store()
        return at

    def store(self) -> None:
        """Give the section file content as far as it has none: zeros."""
        if self.size - len(self.data) > _LARGEST_ZEROS:
            raise CompileError(f"section {self.name} has {self.size} bytes of zeros in what is stored")
        self.data += bytes(self.size - len(self.data))

    def fill(self, data: bytes | bytearray) -> None:
        """Set the content of a table."""
        self.data, self.size = bytearray(data), len(data)


@dataclass(slots=True)
class Load:
    """A PT_LOAD while it is placed: its permissions and sections."""

    flags: int
    sections: list[Output]
    relro: bool = False
    address: int = 0
    offset: int = 0
    file_size: int = 0
    memory_size: int = 0

    @property
    def align(self) -> int:
        """Return the alignment of the segment: a page, or more if a section needs it."""
        return max([PAGE, *(s.align for s in self.sections)])


def _up(value: int, align: int) -> int:
    return -(-value // align) * align


def place(loads: Sequence[Load], segments: int) -> None:
    """Give sections of loaded segments their addresses and file offsets.

    Args:
        loads: in order; the first also holds the headers, and sections without file content are last in
            theirs.
        segments: program headers that will be written.
    """
    offset = address = elf.HEADER.size + segments * elf.SEGMENT.size
    for i, load in enumerate(loads):
        if i:
            # the next page in memory, at the same place in it as in the file, which so needs no gap
            address = _up(address, load.align) + offset % load.align
            load.address, load.offset = address, offset
        first = i > 0
        for section in load.sections:
            at = _up(address, section.align)
            if first or section.kind != elf.SHT_NOBITS:
                offset += at - address
            address = at
            section.address, section.offset = address, offset
            if first:
                load.address, load.offset, first = address, offset, False
            address += section.size
            if section.kind != elf.SHT_NOBITS:
                offset += section.size
        load.file_size = offset - load.offset
        if load.relro:
            address = _up(address, PAGE)  # what follows must not share a page that becomes read-only
        load.memory_size = address - load.address


def number(sections: Sequence[Output]) -> None:
    """Give sections their numbers, which symbols need before `write`."""
    for i, section in enumerate(sections, 1):
        section.index = i


def write(
    header: elf.Header, loads: Sequence[Load], segments: Sequence[elf.Segment], others: Sequence[Output]
) -> bytes:
    """Return the file.

    Args:
        header: what the ELF header says.
        loads: placed segments with their sections' content.
        segments: program headers, in order.
        others: sections that are not loaded.
    """
    names = Strings()
    table = Output(".shstrtab", elf.SHT_STRTAB, 0)
    sections = [s for load in loads for s in load.sections] + [*others, table]
    rows = [bytes(elf.SECTION.size)]
    labels = [names.add(s.name) for s in sections]
    table.fill(names.data)
    offset = max([load.offset + load.file_size for load in loads])
    number(sections)
    for section in sections:
        if not section.flags & elf.SHF_ALLOC:
            section.offset = _up(offset, section.align)
            offset = section.offset + section.size
    start = _up(offset, 8)
    image = bytearray(start)
    for label, s in zip(labels, sections, strict=True):
        image[s.offset : s.offset + len(s.data)] = s.data
        link = s.link.index if s.link is not None else 0
        row = (label, s.kind, s.flags, s.address, s.offset, s.size, link, s.info, s.align, s.entry_size)
        rows.append(elf.SECTION.pack(*row))
    ident = b"\x7fELF\x02\x01\x01" + bytes((header.os_abi, header.abi_version)) + bytes(7)
    elf.HEADER.pack_into(
        image, 0, ident, header.kind, header.machine, 1, header.entry, elf.HEADER.size, start, header.flags,
        elf.HEADER.size, elf.SEGMENT.size, len(segments), elf.SECTION.size, len(rows), len(sections),
    )  # fmt: skip
    for i, g in enumerate(segments):
        elf.SEGMENT.pack_into(
            image, elf.HEADER.size + i * elf.SEGMENT.size,
            g.kind, g.flags, g.offset, g.address, g.address, g.file_size, g.memory_size, g.align,
        )  # fmt: skip
    return bytes(image + b"".join(rows))
