"""Kernel descriptors: the 64 bytes by which a packet processor starts a kernel.

In: the bytes of a `NAME.kd` symbol and the architecture. Out: a `Descriptor`: every field by its name in
LLVM's "User Guide for AMDGPU Backend", and what those mean in registers. The tables "Kernel Descriptor for
GFX6-GFX12" and compute_pgm_rsrc1 to rsrc3 are the source; rsrc3 and a few bits differ between families.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tiny_core.api import DataError
from tiny_renderer_llvm.architectures import Architecture

SIZE: Final = 64
_RSRC3, _RSRC1, _RSRC2 = 352, 384, 416

# name, first bit of the 512, bits, families that have it (all where empty); everything else is reserved
_FIELDS: Final[tuple[tuple[str, int, int, tuple[str, ...]], ...]] = (
    ("group_segment_fixed_size", 0, 32, ()),
    ("private_segment_fixed_size", 32, 32, ()),
    ("kernarg_size", 64, 32, ()),
    ("kernel_code_entry_byte_offset", 128, 64, ()),
    ("accum_offset", _RSRC3, 6, ("gfx9",)),
    ("tg_split", _RSRC3 + 16, 1, ("gfx9",)),
    ("shared_vgpr_count", _RSRC3, 4, ("gfx11",)),
    ("inst_pref_size", _RSRC3 + 4, 6, ("gfx11",)),
    ("trap_on_start", _RSRC3 + 10, 1, ("gfx11",)),
    ("trap_on_end", _RSRC3 + 11, 1, ("gfx11",)),
    ("inst_pref_size", _RSRC3 + 4, 8, ("gfx12",)),
    ("glg_en", _RSRC3 + 13, 1, ("gfx12",)),
    ("image_op", _RSRC3 + 31, 1, ("gfx11", "gfx12")),
    ("granulated_workitem_vgpr_count", _RSRC1, 6, ()),
    ("granulated_wavefront_sgpr_count", _RSRC1 + 6, 4, ("gfx9",)),
    ("priority", _RSRC1 + 10, 2, ()),
    ("float_round_mode_32", _RSRC1 + 12, 2, ()),
    ("float_round_mode_16_64", _RSRC1 + 14, 2, ()),
    ("float_denorm_mode_32", _RSRC1 + 16, 2, ()),
    ("float_denorm_mode_16_64", _RSRC1 + 18, 2, ()),
    ("priv", _RSRC1 + 20, 1, ()),
    ("enable_dx10_clamp", _RSRC1 + 21, 1, ("gfx9", "gfx11")),
    ("enable_wg_rr_en", _RSRC1 + 21, 1, ("gfx12",)),
    ("debug_mode", _RSRC1 + 22, 1, ()),
    ("enable_ieee_mode", _RSRC1 + 23, 1, ("gfx9", "gfx11")),
    ("disable_perf", _RSRC1 + 23, 1, ("gfx12",)),
    ("bulky", _RSRC1 + 24, 1, ()),
    ("cdbg_user", _RSRC1 + 25, 1, ()),
    ("fp16_ovfl", _RSRC1 + 26, 1, ()),
    ("wgp_mode", _RSRC1 + 29, 1, ("gfx11", "gfx12")),
    ("mem_ordered", _RSRC1 + 30, 1, ("gfx11", "gfx12")),
    ("fwd_progress", _RSRC1 + 31, 1, ("gfx11", "gfx12")),
    ("enable_private_segment", _RSRC2, 1, ()),
    ("user_sgpr_count", _RSRC2 + 1, 5, ()),
    ("enable_trap_handler", _RSRC2 + 6, 1, ("gfx9", "gfx11")),
    ("enable_dynamic_vgpr", _RSRC2 + 6, 1, ("gfx12",)),
    ("enable_sgpr_workgroup_id_x", _RSRC2 + 7, 1, ()),
    ("enable_sgpr_workgroup_id_y", _RSRC2 + 8, 1, ()),
    ("enable_sgpr_workgroup_id_z", _RSRC2 + 9, 1, ()),
    ("enable_sgpr_workgroup_info", _RSRC2 + 10, 1, ()),
    ("enable_vgpr_workitem_id", _RSRC2 + 11, 2, ()),
    ("enable_exception_address_watch", _RSRC2 + 13, 1, ()),
    ("enable_exception_memory", _RSRC2 + 14, 1, ()),
    ("granulated_lds_size", _RSRC2 + 15, 9, ()),
    ("enable_exception_ieee_754_fp_invalid_operation", _RSRC2 + 24, 1, ()),
    ("enable_exception_fp_denormal_source", _RSRC2 + 25, 1, ()),
    ("enable_exception_ieee_754_fp_division_by_zero", _RSRC2 + 26, 1, ()),
    ("enable_exception_ieee_754_fp_overflow", _RSRC2 + 27, 1, ()),
    ("enable_exception_ieee_754_fp_underflow", _RSRC2 + 28, 1, ()),
    ("enable_exception_ieee_754_fp_inexact", _RSRC2 + 29, 1, ()),
    ("enable_exception_int_divide_by_zero", _RSRC2 + 30, 1, ()),
    ("wgp_takeover", _RSRC2 + 31, 1, ("gfx12",)),
    # CDNA3 and CDNA4, RDNA3 and RDNA4 have architected flat scratch: the two bits of 448 and 453 must be 0
    ("enable_sgpr_private_segment_buffer", 448, 1, ()),
    ("enable_sgpr_dispatch_ptr", 449, 1, ()),
    ("enable_sgpr_queue_ptr", 450, 1, ()),
    ("enable_sgpr_kernarg_segment_ptr", 451, 1, ()),
    ("enable_sgpr_dispatch_id", 452, 1, ()),
    ("enable_sgpr_flat_scratch_init", 453, 1, ()),
    ("enable_sgpr_private_segment_size", 454, 1, ()),
    ("enable_wavefront_size32", 458, 1, ("gfx11", "gfx12")),
    ("uses_dynamic_stack", 459, 1, ()),
    ("kernarg_preload_spec_length", 464, 7, ("gfx9",)),
    ("kernarg_preload_spec_offset", 471, 9, ("gfx9",)),
)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A kernel descriptor.

    Args:
        architecture: whose it is.
        fields: every field by its name, as it is written (granulated, biased).
        reserved: bits that are set and should not be, as a number of 512 bits.
    """

    architecture: Architecture
    fields: dict[str, int]
    reserved: int = 0

    @property
    def wave(self) -> int:
        """Work-items of a wave."""
        return 32 if self.fields.get("enable_wavefront_size32") else 64

    @property
    def scale(self) -> int:
        """How many of the architecture's first waves a wave counts as in the register file."""
        return self.wave // self.architecture.wave

    @property
    def entry_offset(self) -> int:
        """Distance in bytes from the descriptor to the first instruction."""
        offset = self.fields["kernel_code_entry_byte_offset"]
        return offset - (1 << 64) if offset >> 63 else offset

    @property
    def vgprs(self) -> int:
        """Vector registers of a work-item, rounded up to a block; accumulation registers included."""
        block = self.architecture.vgpr_block // self.scale
        return (self.fields["granulated_workitem_vgpr_count"] + 1) * block

    @property
    def accum_offset(self) -> int | None:
        """Number of the first accumulation register among the vector registers; None where there are
        none."""
        field = self.fields.get("accum_offset")
        return None if field is None else (field + 1) * 4

    @property
    def sgprs(self) -> int | None:
        """Scalar registers of a wave, rounded up to a block; None where every wave has all of them."""
        field = self.fields.get("granulated_wavefront_sgpr_count")
        return None if field is None else (field // 2 + 1) * 16

    @property
    def lds(self) -> int:
        """Bytes of LDS of a work-group."""
        return self.fields["group_segment_fixed_size"]

    @property
    def scratch(self) -> int:
        """Bytes of private memory of a work-item."""
        return self.fields["private_segment_fixed_size"]


def descriptor(data: bytes, architecture: Architecture) -> Descriptor:
    """Return what the 64 bytes of a kernel descriptor say; raises DataError if there are not so many."""
    if len(data) != SIZE:
        raise DataError(f"a kernel descriptor has {SIZE} bytes, not {len(data)}")
    word, used, fields = int.from_bytes(data, "little"), 0, {}
    for name, first, bits, families in _FIELDS:
        if not families or architecture.family in families:
            mask = (1 << bits) - 1
            fields[name] = word >> first & mask
            used |= mask << first
    return Descriptor(architecture, fields, word & ~used)
