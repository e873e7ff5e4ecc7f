"""Occupancy: how many waves of a kernel a SIMD holds at once, and what a kernel takes of the machine.

A work-group is resident as a whole, on the SIMDs of one compute unit (on RDNA in WGP mode, of one work-group
processor). So the unit holds as many groups as fit the waves, registers and LDS that it has, and occupancy is
what that makes of waves for each SIMD. The sizes are data of `architectures`.
"""

from __future__ import annotations

from tiny_core.api import Resources
from tiny_renderer_llvm.architectures import Architecture
from tiny_renderer_llvm.codeobject import Kernel


def resources(kernel: Kernel) -> Resources:
    """Return what a kernel takes: registers as used (or as given out, if there is no metadata for it)."""
    said, d = kernel.metadata, kernel.descriptor
    if said is None:
        scalars = (("sgpr", d.sgprs),) if d.sgprs is not None else ()
        registers: tuple[tuple[str, int], ...] = (("vgpr", d.vgprs), *scalars)
        spills, items = 0, d.wave
    else:
        accumulators = (("agpr", said.agprs),) if d.architecture.accumulators else ()
        registers = (("vgpr", said.vgprs - said.agprs), *accumulators, ("sgpr", said.sgprs))
        spills, items = said.vgpr_spills + said.sgpr_spills, said.max_items
    whole_unit = bool(d.fields.get("wgp_mode", 1))
    waves, limit = occupancy(d.architecture, d.wave, d.vgprs, d.sgprs or 0, d.lds, items, whole_unit)
    most = d.architecture.max_waves
    return Resources(registers, spills, d.scratch, d.lds, waves, most, limit)


def occupancy(
    of: Architecture, wave: int, vgprs: int, sgprs: int, lds: int, items: int, whole_unit: bool = True
) -> tuple[int, str]:
    """Return the waves that a SIMD holds at once, and what limits them.

    Args:
        of: the architecture.
        wave: work-items of a wave.
        vgprs: vector registers of a work-item, accumulation registers included.
        sgprs: scalar registers of a wave.
        lds: bytes of LDS of a work-group.
        items: work-items of a work-group.
        whole_unit: on RDNA, whether a group may spread over its work-group processor (WGP mode) instead of
            one of the two compute units; True elsewhere.

    Returns:
        waves, and "vgpr", "sgpr", "near" (LDS), "group" (whole groups do not fill the SIMDs) or "" (all that
        the SIMD can hold).
    """
    part = 1 if whole_unit else 2
    simds = of.simds // part
    waves = max(-(-items // wave), 1)
    scale = wave // of.wave
    granule, file = of.vgpr_granule // scale, of.vgpr_file // scale
    limits = {"": of.max_waves * simds // waves}
    limits["vgpr"] = min(of.max_waves, file // _up(vgprs, granule)) * simds // waves
    if of.sgpr_file and sgprs:
        limits["sgpr"] = min(of.max_waves, of.sgpr_file // _up(sgprs, of.sgpr_granule)) * simds // waves
    if lds:
        limits["near"] = of.lds_unit // part // _up(lds, of.lds_granule)
    if waves > 1:
        limits["group"] = of.max_groups // part
    limit = min(limits, key=lambda k: limits[k])
    held = min(-(-limits[limit] * waves // simds), of.max_waves)
    if not limit and held < of.max_waves:
        limit = "group"
    return held, limit


def _up(value: int, granule: int) -> int:
    return max(-(-value // granule), 1) * granule
