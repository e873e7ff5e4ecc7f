"""Occupancy from the tables of architectures: published values, LLVM's numbers, and rules of residency."""

from __future__ import annotations

import itertools
import re
import subprocess

import pytest
from code_objects import compiler, tool

from tiny_core.api import TargetError
from tiny_renderer_llvm import codeobject
from tiny_renderer_llvm.architectures import ARCHITECTURES, Architecture, architecture, by_flags
from tiny_renderer_llvm.occupancy import occupancy, resources

# AMD lab note "Register pressure in AMD CDNA2 GPUs": registers of a work-item, and waves of a SIMD (with a
# register file of 512, as on CDNA3 and CDNA4)
CDNA = [(64, 8), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (256, 2), (512, 1)]


@pytest.mark.parametrize("name", ["gfx942", "gfx950"])
def test_vector_registers_on_cdna_as_published(name: str) -> None:
    a = architecture(name)
    for (most, waves), (_, after) in itertools.pairwise(CDNA):
        assert occupancy(a, 64, most, 0, 0, 64)[0] == waves
        assert occupancy(a, 64, most + 1, 0, 0, 64) == (after, "vgpr")


CASES = [
    (8, 16, 0, 64), (65, 16, 0, 64), (72, 16, 0, 256), (96, 16, 0, 256), (97, 16, 0, 256), (120, 16, 0, 256),
    (144, 16, 0, 128), (168, 16, 0, 64), (200, 16, 0, 64), (256, 16, 0, 64), (32, 96, 0, 64),
    (32, 100, 0, 64), (32, 16, 8192, 64), (32, 16, 16384, 256), (32, 16, 40960, 256), (32, 16, 65536, 1024),
    (32, 16, 1024, 64), (32, 16, 0, 1024), (32, 16, 0, 768), (32, 16, 0, 320), (32, 16, 0, 64),
]  # fmt: skip


@pytest.mark.parametrize("name", ["gfx942", "gfx1100", "gfx1201"])
def test_llvm_computes_the_same(name: str) -> None:
    a = architecture(name)
    for v, s, lds, items in CASES:
        found = resources(
            codeobject.read(compiler(name).compile(using(v, s, lds, items), "kernel")).kernel("kernel")
        )
        command = [tool("llc"), "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={name}", "-o", "-"]
        done = subprocess.run(
            command, input=using(v, s, lds, items), capture_output=True, text=True, check=True
        )
        printed = re.search(r"; Occupancy: (\d+)", done.stdout)
        assert printed is not None
        assert found.occupancy == int(printed[1]), (v, s, lds, items)
        assert (found.near, found.most) == (lds, a.max_waves)


def using(v: int, s: int, lds: int, items: int) -> str:
    """A kernel that takes so much."""
    near = f"@near = internal addrspace(3) global [{lds} x i8] poison, align 16\n" if lds else ""
    use = "  store volatile i8 1, ptr addrspace(3) @near\n" if lds else ""
    sizes = f'"amdgpu-flat-work-group-size"="{items},{items}" "amdgpu-waves-per-eu"="1,16"'
    return (
        f"{near}define amdgpu_kernel void @kernel() #0 {{\n{use}"
        f'  call void asm sideeffect "", "~{{v{v - 1}}},~{{s{s - 1}}}"()\n  ret void\n}}\n'
        f"attributes #0 = {{ {sizes} }}\n"
    )


def test_groups_are_resident_as_a_whole() -> None:
    # five waves of 90 registers fit a SIMD of CDNA, but of groups of sixteen waves only one fits the unit
    assert occupancy(architecture("gfx942"), 64, 90, 0, 0, 1024) == (4, "vgpr")
    # LDS is given out in granules: 5120 bytes each, twelve groups of two waves
    assert occupancy(architecture("gfx942"), 64, 32, 0, 5000, 128) == (6, "near")
    # CDNA4: 160 KiB, in granules of 1280 bytes
    assert occupancy(architecture("gfx950"), 64, 32, 0, 1281, 64) == (8, "")
    assert occupancy(architecture("gfx950"), 64, 32, 0, 81920, 256) == (2, "near")
    assert occupancy(architecture("gfx950"), 64, 32, 0, 81921, 256) == (1, "near")
    # RDNA: a group of one compute unit sees half of the work-group processor
    assert occupancy(architecture("gfx1100"), 32, 32, 0, 32768, 256) == (8, "near")
    assert occupancy(architecture("gfx1100"), 32, 32, 0, 32768, 256, whole_unit=False) == (8, "near")
    assert occupancy(architecture("gfx1100"), 32, 32, 0, 40960, 256) == (6, "near")
    assert occupancy(architecture("gfx1100"), 32, 32, 0, 40960, 256, whole_unit=False) == (4, "near")


def test_wide_waves_of_rdna_take_twice_the_registers() -> None:
    for vgprs in (24, 96, 97, 120, 168, 256):
        narrow = occupancy(architecture("gfx1201"), 32, vgprs, 0, 0, 64)[0]
        wide = occupancy(architecture("gfx1201"), 64, vgprs, 0, 0, 64)[0]
        assert wide in (min(16, -(-narrow // 2)), narrow // 2, min(16, 768 // (-(-vgprs // 12) * 12)))


@pytest.mark.parametrize("a", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_taking_more_never_gives_more_waves(a: Architecture) -> None:
    for items in (32, 64, 100, 256, 1024):
        by_registers = [occupancy(a, a.wave, v, 32, 0, items)[0] for v in range(1, a.vgprs + 1)]
        by_lds = [occupancy(a, a.wave, 32, 32, n, items)[0] for n in range(0, a.lds + 1, 640)]
        for found in (by_registers, by_lds):
            assert found == sorted(found, reverse=True)
            assert found[0] <= a.max_waves and (items > 256 or found[-1] >= 1)


def test_the_table_is_consistent_and_refuses_others() -> None:
    for name, a in ARCHITECTURES.items():
        assert by_flags(0x500 | a.mach) is a and a.name == name
        assert a.lds <= a.lds_unit and a.vgpr_file % a.vgpr_granule == 0 and a.wave in a.waves
    with pytest.raises(TargetError, match=r"gfx90a(.|\n)*gfx942, gfx950, gfx1100, gfx1201"):
        architecture("gfx90a")
