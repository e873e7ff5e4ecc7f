"""ELF64 files, little-endian: header, sections, segments, symbols and relocations, read with bounds checks.

In: bytes. Out: plain data (`Elf`). What lies out of bounds or has an unknown form is a DataError that says
where. Layouts and names are those of the System V ABI, "Object Files" and "Program Loading" (gABI chapters 4
and 5). `symbols` is what the compiler asks of a relocatable object.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from tiny_core.api import CompileError, DataError

ET_REL, ET_DYN = 1, 3
EM_X86_64, EM_AARCH64, EM_AMDGPU = 62, 183, 224
SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS = range(
    9
)
SHT_REL, SHT_DYNSYM, SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY, SHT_GROUP = 9, 11, 14, 15, 16, 17
SHT_GNU_HASH: Final = 0x6FFFFFF6
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_STRINGS, SHF_TLS = 0x1, 0x2, 0x4, 0x10, 0x20, 0x400
SHN_UNDEF, SHN_LORESERVE, SHN_AMDGPU_LDS, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFF00, 0xFFF1, 0xFFF2
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE = range(5)
STV_DEFAULT, STV_INTERNAL, STV_HIDDEN, STV_PROTECTED = range(4)
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR = 1, 2, 4, 6
PT_GNU_STACK, PT_GNU_RELRO = 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4

HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SEGMENT: Final = struct.Struct("<IIQQQQQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
RELA: Final = struct.Struct("<QQq")
DYNAMIC: Final = struct.Struct("<QQ")
_NOTE: Final = struct.Struct("<III")
_MAGIC: Final = b"\x7fELF\x02\x01\x01"


@dataclass(frozen=True, slots=True)
class Header:
    """The ELF header: e_type, e_machine, e_flags, and of e_ident the OS ABI and its version."""

    kind: int
    machine: int
    flags: int
    os_abi: int
    abi_version: int
    entry: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A section; `data` is its bytes in the file (none for NOBITS, whose `size` counts)."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header; sizes and addresses in bytes."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: in a relocatable object `value` is an offset into section number `section`, in a linked one
    an address."""

    name: str
    value: int
    size: int
    kind: int
    binding: int
    visibility: int
    section: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place that depends on the address of symbol number `symbol`: an offset into a section, or an
    address."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class Note:
    """A note record: owner, type and content."""

    name: str
    kind: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Elf:
    """A file that was read: sections and symbols by number (the first of each is empty)."""

    header: Header
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]
    symbols: tuple[Symbol, ...]
    dynamic: tuple[Symbol, ...]
    binary: bytes

    def at(self, address: int, size: int, what: str) -> bytes:
        """Return `size` bytes of a linked file at an address; raises DataError if no segment holds them in
        the file."""
        for s in self.segments:
            if s.kind == PT_LOAD and s.address <= address and address + size <= s.address + s.file_size:
                return _cut(self.binary, s.offset + address - s.address, size, what)
        raise DataError(f"ELF file: {what} at {address:#x} is in no segment")

    def notes(self) -> list[Note]:
        """Return all note records, in order."""
        return [note for s in self.sections if s.kind == SHT_NOTE for note in _notes(s)]

    def relocations(self, section: Section) -> list[Relocation]:
        """Return the entries of a RELA section; raises DataError for symbols that do not exist."""
        if section.size % RELA.size:
            raise DataError(f"ELF file: {section.name} has {section.size} bytes, not whole relocations")
        linked = section.link < len(self.sections) and self.sections[section.link].kind == SHT_DYNSYM
        count = len(self.dynamic if linked else self.symbols)
        found = [Relocation(o, i & 0xFFFFFFFF, i >> 32, a) for o, i, a in RELA.iter_unpack(section.data)]
        for r in found:
            if r.symbol >= max(count, 1):
                raise DataError(f"ELF file: {section.name} names symbol {r.symbol} of {count}")
        return found


def read(binary: bytes) -> Elf:
    """Read a 64-bit little-endian ELF file.

    Raises:
        DataError: it is not one, it is truncated, or its tables contradict themselves.
    """
    if len(binary) < HEADER.size or binary[:4] != b"\x7fELF":
        raise DataError(f"not an ELF file: {len(binary)} bytes beginning {binary[:4]!r}")
    ident, kind, machine, _, entry, segments_at, sections_at, flags, _, *counts = HEADER.unpack_from(binary)
    segment_size, segment_count, section_size, section_count, names = counts
    if ident[:7] != _MAGIC:
        raise DataError("not a 64-bit little-endian ELF file of version 1")
    sizes = (section_count, section_size, SECTION.size), (segment_count, segment_size, SEGMENT.size)
    if any(count and size != ours for count, size, ours in sizes):
        raise DataError(f"ELF file with section headers of {section_size} bytes, segments of {segment_size}")
    header = Header(kind, machine, flags, ident[7], ident[8], entry)
    table = _cut(binary, sections_at, section_count * SECTION.size, "section table")
    sections = _sections(binary, list(SECTION.iter_unpack(table)), names)
    table = _cut(binary, segments_at, segment_count * SEGMENT.size, "segment table")
    segments = tuple(
        Segment(kind, flags, offset, address, stored, size, align)
        for kind, flags, offset, address, _, stored, size, align in SEGMENT.iter_unpack(table)
    )
    static, dynamic = (_symbols(sections, kind) for kind in (SHT_SYMTAB, SHT_DYNSYM))
    return Elf(header, sections, segments, static, dynamic, binary)


def _cut(binary: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(binary):
        raise DataError(
            f"truncated ELF file: {what} ends at {offset + size}, the file has {len(binary)} bytes"
        )
    return binary[offset : offset + size]


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if end < 0:
        raise DataError(f"ELF file: no string at {offset} of a table of {len(table)} bytes")
    return table[offset:end].decode("utf-8", "replace")


def _sections(binary: bytes, headers: list[tuple[int, ...]], names: int) -> tuple[Section, ...]:
    if not headers:
        return ()
    if names >= len(headers):
        raise DataError(f"ELF file: the name table is section {names} of {len(headers)}")
    strings = _cut(binary, headers[names][4], headers[names][5], "section names")
    found = []
    for name, kind, flags, address, offset, size, link, info, align, entry_size in headers:
        text = _string(strings, name)
        stored = kind not in (SHT_NULL, SHT_NOBITS)
        data = _cut(binary, offset, size, f"section {text}") if stored else b""
        if align & (align - 1):
            raise DataError(f"ELF file: section {text} is aligned to {align} bytes")
        align = max(align, 1)
        found.append(Section(text, kind, flags, address, offset, size, link, info, align, entry_size, data))
    return tuple(found)


def _symbols(sections: tuple[Section, ...], kind: int) -> tuple[Symbol, ...]:
    tables = [s for s in sections if s.kind == kind]
    if not tables:
        return ()
    (table, *more) = tables
    if more or table.link >= len(sections) or table.size % SYMBOL.size:
        raise DataError(f"ELF file: {len(tables)} symbol tables of a kind, or one of {table.size} bytes")
    strings, found = sections[table.link].data, []
    for name, info, other, section, value, size in SYMBOL.iter_unpack(table.data):
        text = _string(strings, name) if name else ""
        if len(sections) <= section < SHN_LORESERVE:
            raise DataError(f"ELF file: symbol {text} is in section {section} of {len(sections)}")
        found.append(Symbol(text, value, size, info & 15, info >> 4, other & 3, section))
    return tuple(found)


def _notes(section: Section) -> list[Note]:
    """gABI chapter 5, "Note Section": name and content are padded to 4 bytes each."""
    at, found, data = 0, [], section.data
    while at < len(data):
        name_size, size, kind = _NOTE.unpack(_cut(data, at, _NOTE.size, f"note in {section.name}"))
        at += _NOTE.size
        name = _cut(data, at, name_size, f"name of a note in {section.name}")
        at += -(-name_size // 4) * 4
        content = _cut(data, at, size, f"note in {section.name}")
        at += -(-size // 4) * 4
        found.append(Note(name.rstrip(b"\0").decode("utf-8", "replace"), kind, content))
    return found


@dataclass(frozen=True, slots=True)
class Symbols:
    """Symbols of a relocatable object.

    Args:
        machine: e_machine: 62 x86-64, 183 AArch64, 224 AMDGPU.
        defined: names with a definition.
        missing: names without.
    """

    machine: int
    defined: frozenset[str]
    missing: frozenset[str]


def symbols(binary: bytes) -> Symbols:
    """Return the symbols of a relocatable object; raises CompileError if it is not one."""
    try:
        elf = read(binary)
    except DataError as error:
        raise CompileError(f"LLVM gave no usable object: {error.message}") from None
    if elf.header.kind != ET_REL:
        raise CompileError(f"LLVM gave an ELF file of type {elf.header.kind}, not a relocatable object")
    missing = {s.name for s in elf.symbols if s.name and s.section == SHN_UNDEF}
    defined = {s.name for s in elf.symbols if s.name and s.section != SHN_UNDEF}
    return Symbols(elf.header.machine, frozenset(defined), frozenset(missing))
