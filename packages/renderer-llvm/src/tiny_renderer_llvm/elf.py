"""Checks on relocatable ELF objects (System V ABI, "Object Files"): which symbols are defined, which are
missing."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tiny_core.api import CompileError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _ET_REL, _SHN_UNDEF = 2, 1, 0


@dataclass(frozen=True, slots=True)
class Symbols:
    """Symbols of an object.

    Args:
        machine: e_machine: 62 x86-64, 183 AArch64, 224 AMDGPU.
        defined: names with a definition.
        missing: names without.
    """

    machine: int
    defined: frozenset[str]
    missing: frozenset[str]


def symbols(binary: bytes) -> Symbols:
    """Return the symbols of a 64-bit little-endian relocatable object; raises CompileError if it is not
    one."""
    if len(binary) < _HEADER.size or binary[:6] != b"\x7fELF\x02\x01":
        raise CompileError("LLVM gave no 64-bit ELF object")
    fields = _HEADER.unpack_from(binary)
    kind, machine, table, size, count = fields[1], fields[2], fields[6], fields[11], fields[12]
    if kind != _ET_REL:
        raise CompileError(f"LLVM gave an ELF file of type {kind}, not a relocatable object")
    sections = [_SECTION.unpack_from(binary, table + i * size) for i in range(count)]
    defined, missing = set[str](), set[str]()
    for section in sections:
        if section[1] != _SHT_SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, _, _, where, _, _ = _SYMBOL.unpack_from(binary, at)
            if name:
                start = names + name
                text = binary[start : binary.index(0, start)].decode()
                (missing if where == _SHN_UNDEF else defined).add(text)
    return Symbols(machine, frozenset(defined), frozenset(missing))
