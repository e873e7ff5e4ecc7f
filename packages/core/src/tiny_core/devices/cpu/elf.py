"""Reading an ELF64 relocatable object: sections, symbols, relocations, checked for bounds.

In: bytes. Out: an `ElfObject` of plain data, nothing mapped yet. Everything unexpected is a LaunchError that
says where. Layouts follow the System V ABI, "Object Files" (gABI chapter 4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tiny_core.api import LaunchError

MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine: EM_X86_64, EM_AARCH64
FOREIGN = (
    "DEV names an architecture that is not this machine's: leave it out; NULL compiles for any architecture, "
    "as in DEV=NULL:LLVM:gfx1100, and PYTHON interprets it"
)

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 1, 2, 3, 4, 8, 9
SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY = 14, 15, 16
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 0x1, 0x2, 0x4, 0x400
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2
STT_SECTION, STT_FILE = 3, 4

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class Section:
    """A section: `data` is its bytes (empty for NOBITS, whose `size` counts)."""

    name: str
    kind: int
    flags: int
    size: int
    align: int
    link: int
    info: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: `value` is an offset into section number `section` (or an absolute address for SHN_ABS)."""

    name: str
    kind: int
    binding: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in section number `section` that depends on the address of symbol number `symbol`."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ElfObject:
    """A parsed object.

    Args:
        machine: architecture name.
        sections: by number.
        symbols: by number.
        relocations: those of allocated sections only.
    """

    machine: str
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    def undefined(self) -> tuple[str, ...]:
        """Return the names of symbols that the object uses and does not define, but for the table of
        addresses: the loader makes that one."""
        names = {s.name for s in self.symbols[1:] if s.section == SHN_UNDEF and s.kind != STT_FILE}
        return tuple(sorted(names - {"_GLOBAL_OFFSET_TABLE_"}))


def is_loaded(section: Section) -> bool:
    """Return whether the section takes part in a loaded program (unwind tables do not: nothing unwinds
    kernels)."""
    return bool(section.flags & SHF_ALLOC) and section.name != ".eh_frame" and section.kind in (
        SHT_PROGBITS, SHT_NOBITS,
    )  # fmt: skip


def parse(binary: bytes) -> ElfObject:
    """Parse a little-endian ELF64 relocatable object.

    Raises:
        LaunchError: it is not one, it is truncated, or it has what kernels never have (constructors,
        thread-local or
            common storage, relocations without addend).
    """
    if len(binary) < _HEADER.size or binary[:4] != b"\x7fELF":
        raise LaunchError(f"not an ELF object: {len(binary)} bytes beginning {binary[:4]!r}")
    ident, kind, machine, _, _, _, table, _, _, _, _, entry_size, count, names = _HEADER.unpack_from(binary)
    if ident[4:6] != b"\x02\x01":
        raise LaunchError("not a 64-bit little-endian ELF object")
    if machine not in MACHINES:
        raise LaunchError(f"an object for ELF machine {machine} cannot run on a CPU", FOREIGN)
    if kind != 1:
        raise LaunchError(f"ELF file of type {kind}, not a relocatable object (type 1)")
    if entry_size != _SECTION.size or count == 0:
        raise LaunchError(f"ELF object with {count} sections of header size {entry_size}")
    sections = _sections(binary, table, count, names)
    symbols = _symbols(sections)
    return ElfObject(MACHINES[machine], sections, symbols, _relocations(sections, symbols))


def _cut(binary: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(binary):
        raise LaunchError(
            f"truncated ELF object: {what} ends at byte {offset + size}, the file has {len(binary)}"
        )
    return binary[offset : offset + size]


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset >= len(table) or end < 0:
        raise LaunchError(f"corrupt ELF object: string at {offset} of a table of {len(table)} bytes")
    return table[offset:end].decode("utf-8", "replace")


def _sections(binary: bytes, table: int, count: int, names: int) -> tuple[Section, ...]:
    headers = list(_SECTION.iter_unpack(_cut(binary, table, count * _SECTION.size, "section table")))
    if names >= count:
        raise LaunchError(f"corrupt ELF object: name table is section {names} of {count}")
    strings = _cut(binary, headers[names][4], headers[names][5], "section names")
    result = []
    for name, kind, flags, _, offset, size, link, info, align, _ in headers:
        text = _string(strings, name) if strings else ""
        data = b"" if kind in (0, SHT_NOBITS) else _cut(binary, offset, size, f"section {text or name}")
        if align & (align - 1):
            raise LaunchError(f"corrupt ELF object: section {text} aligned to {align}")
        if flags & SHF_TLS or kind in (SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY):
            raise LaunchError(f"section {text}: kernels have no thread-local storage and no constructors")
        result.append(Section(text, kind, flags, size, max(align, 1), link, info, data))
    return tuple(result)


def _symbols(sections: tuple[Section, ...]) -> tuple[Symbol, ...]:
    tables = [s for s in sections if s.kind == SHT_SYMTAB]
    if len(tables) != 1 or tables[0].link >= len(sections) or tables[0].size % _SYMBOL.size:
        raise LaunchError(f"corrupt ELF object: {len(tables)} symbol tables")
    strings = sections[tables[0].link].data
    result = []
    for name, info, _, section, value, _ in _SYMBOL.iter_unpack(tables[0].data):
        text = _string(strings, name) if name else ""
        if section == SHN_COMMON:
            raise LaunchError(f"symbol {text} is common storage", "compile with -fno-common")
        if section >= len(sections) and section < SHN_LORESERVE:
            raise LaunchError(f"corrupt ELF object: symbol {text} in section {section} of {len(sections)}")
        result.append(Symbol(text, info & 15, info >> 4, section, value))
    return tuple(result)


def _relocations(sections: tuple[Section, ...], symbols: tuple[Symbol, ...]) -> tuple[Relocation, ...]:
    result = []
    for section in sections:
        if section.kind not in (SHT_RELA, SHT_REL):
            continue
        if section.info >= len(sections):
            raise LaunchError(f"corrupt ELF object: {section.name} is for section {section.info}")
        if not is_loaded(sections[section.info]):
            continue
        if section.kind == SHT_REL or section.size % _RELA.size:
            raise LaunchError(f"section {section.name}: relocations must have addends")
        for offset, info, addend in _RELA.iter_unpack(section.data):
            if info >> 32 >= len(symbols) or offset >= sections[section.info].size:
                raise LaunchError(f"corrupt ELF object: relocation at {offset} in {section.name}")
            result.append(Relocation(section.info, offset, info & 0xFFFFFFFF, info >> 32, addend))
    return tuple(result)
