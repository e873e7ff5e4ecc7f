"""AMD GPU architectures as data: what code generation, the reader of code objects and occupancy need.

Sources, by field. CDNA3 and CDNA4: "AMD Instinct MI300" and "CDNA4 Instruction Set Architecture", sections
"VGPRs", "SGPRs", "LDS"; RDNA3 and RDNA4: the instruction set references, same sections. Sizes and granules of
register files, waves and the LDS of a unit besides: LLVM's "User Guide for AMDGPU Backend" (tables
compute_pgm_rsrc1 to rsrc3 with their granularities), AMD's lab note "Register pressure in AMD CDNA2 GPUs",
and GPUOpen's "Occupancy explained" for RDNA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tiny_core.api import TargetError

if TYPE_CHECKING:
    from tiny_core.api import MatrixUnit


@dataclass(frozen=True, slots=True)
class Architecture:
    """A GPU architecture.

    Args:
        name: LLVM's name of the processor.
        mach: EF_AMDGPU_MACH, the lowest byte of e_flags.
        family: which layout its kernel descriptors have.
        waves: sizes of a wave, the one that we compile for first.
        lds: bytes of LDS that a work-group may use.
        lds_unit: bytes of LDS that the work-groups of a compute unit (CDNA) or a work-group processor (RDNA)
            share.
        lds_granule: bytes in which LDS is given out.
        vgprs: vector registers that a work-item can name (accumulation registers included).
        vgpr_file: vector registers of a SIMD, per lane of a wave of the first size.
        vgpr_granule: registers in which they are given to a wave of the first size; a wave twice as wide
            has half of both.
        vgpr_block: registers that a unit of GRANULATED_WORKITEM_VGPR_COUNT stands for, likewise.
        accumulators: whether accumulation registers are part of the file, behind ACCUM_OFFSET.
        sgprs: scalar registers that a wave can name.
        sgpr_file: scalar registers of a SIMD; 0 where every wave has its full set.
        sgpr_granule: registers in which they are given out.
        max_waves: waves that a SIMD holds.
        simds: SIMDs of a compute unit (CDNA) or a work-group processor (RDNA): what a work-group spreads
            over.
        max_groups: work-groups of more than one wave that it holds at once; limited by barriers.
        max_items: work-items of a work-group.
        max_grid: work-groups along each dimension.
    """

    name: str
    mach: int
    family: Literal["gfx9", "gfx11", "gfx12"]
    waves: tuple[int, ...]
    lds: int
    lds_unit: int
    lds_granule: int
    vgprs: int
    vgpr_file: int
    vgpr_granule: int
    vgpr_block: int
    accumulators: bool
    sgprs: int
    sgpr_file: int
    sgpr_granule: int
    max_waves: int
    simds: int
    max_groups: int
    max_items: int = 1024
    # a dispatch packet counts work-items in 32 bits along x; RDNA4 packs the other two group numbers into 16
    # bits each
    max_grid: tuple[int, int, int] = ((1 << 32) // 1024 - 1, 65535, 65535)

    @property
    def wave(self) -> int:
        """Return the wave size that we compile for."""
        return self.waves[0]

    @property
    def matrices(self) -> tuple[MatrixUnit, ...]:
        """Return its matrix units, which `matrix` has."""
        from tiny_renderer_llvm.matrix import units  # tables of their own, made when they are asked for

        return units(self.name)

    @property
    def target_features(self) -> str:
        """Return LLVM's feature string: the wave size, where there is a choice."""
        return f"+wavefrontsize{self.wave}" if len(self.waves) > 1 else ""


def _cdna(name: str, mach: int, lds: int, lds_granule: int) -> Architecture:
    return Architecture(
        name, mach, "gfx9", (64,), lds, lds, lds_granule, vgprs=512, vgpr_file=512, vgpr_granule=8,
        vgpr_block=8, accumulators=True, sgprs=102, sgpr_file=800, sgpr_granule=16, max_waves=8, simds=4,
        max_groups=16,
    )  # fmt: skip


def _rdna(name: str, mach: int, family: Literal["gfx11", "gfx12"]) -> Architecture:
    # RDNA chips have both wave sizes; LLVM's default, and ours, is 32. These two have the larger register
    # file (1536, in granules of 24); two compute units share the LDS of their work-group processor
    return Architecture(
        name, mach, family, (32, 64), 64 << 10, 128 << 10, 1024, vgprs=256, vgpr_file=1536, vgpr_granule=24,
        vgpr_block=8, accumulators=False, sgprs=106, sgpr_file=0, sgpr_granule=0, max_waves=16, simds=4,
        max_groups=32,
    )  # fmt: skip


ARCHITECTURES: Final[dict[str, Architecture]] = {
    a.name: a
    for a in (
        _cdna("gfx942", 0x4C, 64 << 10, 512),
        _cdna("gfx950", 0x4F, 160 << 10, 1280),
        _rdna("gfx1100", 0x41, "gfx11"),
        _rdna("gfx1201", 0x4E, "gfx12"),
    )
}
_BY_MACH: Final = {a.mach: a for a in ARCHITECTURES.values()}


def architecture(name: str) -> Architecture:
    """Return an architecture; raises TargetError with the known names if there is none of that name."""
    found = ARCHITECTURES.get(name)
    if found is None:
        raise TargetError(
            f"no architecture {name!r} of AMD GPUs is known here", f"known are {', '.join(ARCHITECTURES)}"
        )
    return found


def by_flags(flags: int) -> Architecture | None:
    """Return the architecture that e_flags names (EF_AMDGPU_MACH, "ELF Header" in LLVM's guide); None for one
    that is not in the table."""
    return _BY_MACH.get(flags & 0xFF)
