"""Relocation fields by the formulas of LLVM's guide, and what does not fit them."""

from __future__ import annotations

import pytest

from tiny_core.api import CompileError
from tiny_renderer_llvm.relocate import TYPES, field

NUMBERS = {t.name: t for t in TYPES.values()}

# name, S or G + GOT, A, P, what is written; the calculations of "AMDGPU ELF Relocation Records"
CASES = [
    ("ABS32_LO", 0x1_2345_6789, 0x10, 0, 0x2345_6799),
    ("ABS32_HI", 0x1_FFFF_FFFF, 1, 0, 0x2),
    ("ABS64", 0xFFFF_FFFF_FFFF_FFF0, 0x20, 0, 0x10),
    ("ABS32", 0xFFFF_FFFF, 0, 0, 0xFFFF_FFFF),
    ("REL32", 0x1000, -4, 0x2000, 0xFFFF_EFFC),
    ("REL64", 0x1000, 0x10, 0x2000, 0xFFFF_FFFF_FFFF_F010),
    ("REL32_LO", 0x1000, 4, 0x2000, 0xFFFF_F004),
    ("REL32_HI", 0x1000, 4, 0x2000, 0xFFFF_FFFF),
    ("REL32_HI", 0x5_0000_0000, 0, 0x1, 0x4),
    ("GOTPCREL", 0x3000, 8, 0x1000, 0x2008),
    ("GOTPCREL32_LO", 0x1000, 0, 0x1004, 0xFFFF_FFFC),
    ("GOTPCREL32_HI", 0x1000, 0, 0x1004, 0xFFFF_FFFF),
    ("REL16", 0x1010, 0, 0x1000, 3),  # the fourth instruction from here is the third after the next
    ("REL16", 0x1000, 0, 0x1000, 0xFFFF),
]


@pytest.mark.parametrize(("name", "target", "addend", "place", "written"), CASES)
def test_a_calculation(name: str, target: int, addend: int, place: int, written: int) -> None:
    kind = NUMBERS[name]
    assert field(kind, target, addend, place) == written.to_bytes(kind.size, "little")


@pytest.mark.parametrize(
    ("name", "target", "place"),
    [
        ("REL32", 0x8000_0000, 0), ("REL32", 0, 0x8000_0001), ("GOTPCREL", 0x1_0000_0000, 0),
        ("ABS32", 0x1_0000_0000, 0), ("ABS32", -0x8000_0001, 0), ("REL16", 0x20004, 0), ("REL16", 6, 0),
        ("REL16", 0, 0x20000),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error(name: str, target: int, place: int) -> None:
    with pytest.raises(CompileError, match=f"{name} of .* does not fit"):
        field(NUMBERS[name], target, 0, place)


def test_the_numbers_are_those_of_the_guide() -> None:
    names = {
        1: "ABS32_LO", 2: "ABS32_HI", 3: "ABS64", 4: "REL32", 5: "REL64", 6: "ABS32", 7: "GOTPCREL",
        8: "GOTPCREL32_LO", 9: "GOTPCREL32_HI", 10: "REL32_LO", 11: "REL32_HI", 14: "REL16",
    }  # fmt: skip
    assert {number: t.name for number, t in TYPES.items()} == names
