"""Relocation types of AMDGPU, as a table: what each computes, and how it is written.

LLVM "User Guide for AMDGPU Backend", table "AMDGPU ELF Relocation Records". S is the address of the symbol,
A the addend, P the place, G + GOT the address of the symbol's slot in the table of addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tiny_core.api import CompileError

RELATIVE64: Final = 13
"""B + A: the only type left to the loader. An address that it fills in when it knows the base."""


@dataclass(frozen=True, slots=True)
class Type:
    """A relocation type.

    Args:
        name: as in the guide, without its prefix.
        base: what is added to A: the symbol's address ("S") or that of its slot ("G").
        relative: whether P is subtracted.
        part: which bits are written: all of the field ("word"), the lower or upper half of 64 ("low",
            "high"), or the distance in words from the next instruction ("branch").
        size: bytes of the field.
    """

    name: str
    base: Literal["S", "G"]
    relative: bool
    part: Literal["word", "low", "high", "branch"]
    size: int


TYPES: Final[dict[int, Type]] = {
    1: Type("ABS32_LO", "S", False, "low", 4),
    2: Type("ABS32_HI", "S", False, "high", 4),
    3: Type("ABS64", "S", False, "word", 8),
    4: Type("REL32", "S", True, "word", 4),
    5: Type("REL64", "S", True, "word", 8),
    6: Type("ABS32", "S", False, "word", 4),
    7: Type("GOTPCREL", "G", True, "word", 4),
    8: Type("GOTPCREL32_LO", "G", True, "low", 4),
    9: Type("GOTPCREL32_HI", "G", True, "high", 4),
    10: Type("REL32_LO", "S", True, "low", 4),
    11: Type("REL32_HI", "S", True, "high", 4),
    14: Type("REL16", "S", True, "branch", 2),
}


def field(kind: Type, target: int, addend: int, place: int) -> bytes:
    """Return what a relocation writes.

    Args:
        kind: its type.
        target: S, or G + GOT.
        addend: A.
        place: P.

    Raises:
        CompileError: the value does not fit the field.
    """
    value = target + addend - (place if kind.relative else 0)
    match kind.part:
        case "low":
            return (value & 0xFFFFFFFF).to_bytes(4, "little")
        case "high":
            return (value >> 32 & 0xFFFFFFFF).to_bytes(4, "little")
        case "branch":
            # the distance counts 4-byte words from the instruction after this one
            value, rest = divmod(value - 4, 4)
            fits = not rest and -(1 << 15) <= value < 1 << 15
        case "word":
            # an address is unsigned, a distance is signed: a field of 32 bits may hold either
            fits = kind.size == 8 or -(1 << 31) <= value < 1 << (31 if kind.relative else 32)
    if not fits:
        raise CompileError(f"{kind.name} of {value:#x} at {place:#x} does not fit {kind.size} bytes")
    return (value & (1 << 8 * kind.size) - 1).to_bytes(kind.size, "little")
