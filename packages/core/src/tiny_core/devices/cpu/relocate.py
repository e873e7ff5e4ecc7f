"""Applying relocations: the numbers that x86-64 and AArch64 objects leave open until they are placed.

A kind is a row of a table: how many bytes it patches, and a function from (S + A, P, word) to the patched
word, in the ABIs' terms: S the symbol's address, A the addend, P the address of the place. Kinds in `GOT` use
the address of a slot that holds S instead of S. Sources: System V ABI AMD64 supplement, table 4.9; ELF for
the Arm 64-bit Architecture (aaelf64), sections 5.7.4 to 5.7.11.
"""

from __future__ import annotations

from collections.abc import Callable

from tiny_core.api import LaunchError

Patch = Callable[[int, int, int], int]
"""(S + A, P, word as found) to the word patched in; raises OverflowError where the value does not fit."""


def _signed(bits: int, value: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(value)
    return value & ((1 << bits) - 1)


def _unsigned(bits: int, value: int) -> int:
    if not 0 <= value < 1 << bits:
        raise OverflowError(value)
    return value


def _branch(bits: int, shift: int) -> Patch:
    """AArch64 branches: a signed count of instructions, `bits` wide, at bit `shift`."""

    def patch(target: int, place: int, word: int) -> int:
        if (target - place) & 3:
            raise OverflowError(target - place)
        mask = ((1 << bits) - 1) << shift
        return (word & ~mask) | _signed(bits, (target - place) >> 2) << shift

    return patch


def _adr(value: int, word: int) -> int:
    """Put a signed 21-bit immediate into ADR or ADRP: two low bits at 29, the rest at 5."""
    field = _signed(21, value)
    return (word & ~0x60FFFFE0) | (field & 3) << 29 | (field >> 2) << 5


def _low12(scale: int) -> Patch:
    """AArch64 add and load/store immediates: the low 12 bits of the address, in units of 2**scale bytes, at
    bit 10."""

    def patch(target: int, place: int, word: int) -> int:
        low = target & 0xFFF
        if low & ((1 << scale) - 1):
            raise OverflowError(low)
        return (word & ~(0xFFF << 10)) | (low >> scale) << 10

    return patch


def _page(target: int, place: int, word: int) -> int:
    return _adr((target >> 12) - (place >> 12), word)


def _pc32(target: int, place: int, word: int) -> int:
    return _signed(32, target - place)


_X86_64: dict[int, tuple[str, int, Patch]] = {
    1: ("R_X86_64_64", 8, lambda t, p, w: t & (2**64 - 1)),
    2: ("R_X86_64_PC32", 4, _pc32),
    4: ("R_X86_64_PLT32", 4, _pc32),  # callees are in the object, so no linkage table is needed
    9: ("R_X86_64_GOTPCREL", 4, _pc32),
    10: ("R_X86_64_32", 4, lambda t, p, w: _unsigned(32, t)),
    11: ("R_X86_64_32S", 4, lambda t, p, w: _signed(32, t)),
    24: ("R_X86_64_PC64", 8, lambda t, p, w: (t - p) & (2**64 - 1)),
    41: ("R_X86_64_GOTPCRELX", 4, _pc32),
    42: ("R_X86_64_REX_GOTPCRELX", 4, _pc32),
}
_AARCH64: dict[int, tuple[str, int, Patch]] = {
    257: ("R_AARCH64_ABS64", 8, lambda t, p, w: t & (2**64 - 1)),
    258: ("R_AARCH64_ABS32", 4, lambda t, p, w: _unsigned(32, t)),
    260: ("R_AARCH64_PREL64", 8, lambda t, p, w: (t - p) & (2**64 - 1)),
    261: ("R_AARCH64_PREL32", 4, _pc32),
    274: ("R_AARCH64_ADR_PREL_LO21", 4, lambda t, p, w: _adr(t - p, w)),
    275: ("R_AARCH64_ADR_PREL_PG_HI21", 4, _page),
    277: ("R_AARCH64_ADD_ABS_LO12_NC", 4, _low12(0)),
    278: ("R_AARCH64_LDST8_ABS_LO12_NC", 4, _low12(0)),
    279: ("R_AARCH64_TSTBR14", 4, _branch(14, 5)),
    280: ("R_AARCH64_CONDBR19", 4, _branch(19, 5)),
    282: ("R_AARCH64_JUMP26", 4, _branch(26, 0)),
    283: ("R_AARCH64_CALL26", 4, _branch(26, 0)),
    284: ("R_AARCH64_LDST16_ABS_LO12_NC", 4, _low12(1)),
    285: ("R_AARCH64_LDST32_ABS_LO12_NC", 4, _low12(2)),
    286: ("R_AARCH64_LDST64_ABS_LO12_NC", 4, _low12(3)),
    299: ("R_AARCH64_LDST128_ABS_LO12_NC", 4, _low12(4)),
    311: ("R_AARCH64_ADR_GOT_PAGE", 4, _page),
    312: ("R_AARCH64_LD64_GOT_LO12_NC", 4, _low12(3)),
}
KINDS = {"x86_64": _X86_64, "aarch64": _AARCH64}
GOT = {"x86_64": frozenset({9, 41, 42}), "aarch64": frozenset({311, 312})}


def apply(machine: str, kind: int, image: memoryview, at: int, base: int, target: int, symbol: str) -> None:
    """Patch one place.

    Args:
        machine: architecture name.
        kind: relocation number.
        image: the program's bytes, which will live at address `base`.
        at: offset of the place in `image`.
        base: address of the image.
        target: S + A, or for kinds in GOT the address of the slot plus A.
        symbol: for messages.

    Raises:
        LaunchError: the kind is unknown, the place lies outside, or the value does not fit.
    """
    row = KINDS[machine].get(kind)
    if row is None:
        raise LaunchError(f"unknown {machine} relocation {kind} against {symbol!r}")
    name, width, patch = row
    if at < 0 or at + width > len(image):
        raise LaunchError(f"corrupt ELF object: {name} against {symbol!r} lies outside its section")
    word = int.from_bytes(image[at : at + width], "little")
    try:
        image[at : at + width] = patch(target, base + at, word).to_bytes(width, "little")
    except OverflowError as error:
        raise LaunchError(
            f"{name} against {symbol!r}: {error.args[0]:#x} does not fit or is misaligned",
            "compile position-independent code of the small model",
        ) from None
