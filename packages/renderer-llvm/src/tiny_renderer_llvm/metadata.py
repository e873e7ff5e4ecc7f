"""The metadata note of a code object: what LLVM says of its kernels and their arguments.

In: note records. Out: `Metadata`. Keys are those of "Code Object V5 Metadata" (and V3, V4, which it extends)
in LLVM's "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tiny_core.api import DataError
from tiny_renderer_llvm.elf import Note
from tiny_renderer_llvm.msgpack import Value, unpack

NT_AMDGPU_METADATA: Final = 32


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kernel: its place in the argument segment in bytes, and what it is (`.value_kind`)."""

    offset: int
    size: int
    kind: str
    name: str = ""
    address_space: str = ""


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """What the note says of a kernel.

    Args:
        name: its name.
        symbol: name of its descriptor.
        vgprs, agprs, sgprs: registers that it uses; vector registers include the accumulation registers,
            which lie behind them in one file.
        vgpr_spills, sgpr_spills: registers that were kept in memory (or in lanes of others).
        scratch: bytes of private memory of a work-item.
        lds: bytes of LDS of a work-group.
        kernarg_size, kernarg_align: the argument segment, in bytes.
        wave: work-items of a wave.
        max_items: work-items of a work-group, at most.
        dynamic_stack: whether its private memory has no fixed size.
        arguments: in order.
    """

    name: str
    symbol: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch: int
    lds: int
    kernarg_size: int
    kernarg_align: int
    wave: int
    max_items: int
    dynamic_stack: bool
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """All that the notes say: version of the metadata, target id, kernels."""

    version: tuple[int, ...]
    target: str
    kernels: tuple[KernelMetadata, ...]


def metadata(notes: Iterable[Note]) -> Metadata:
    """Return the metadata in note records; those of several objects linked together are united.

    Raises:
        DataError: a note is malformed, or lacks what every kernel has.
    """
    version: tuple[int, ...] = ()
    target, kernels = "", list[KernelMetadata]()
    for note in notes:
        if note.name != "AMDGPU" or note.kind != NT_AMDGPU_METADATA:
            continue
        top = _Map(unpack(note.data), "metadata")
        version = tuple(v for v in top.items("amdhsa.version") if isinstance(v, int))
        target = top.text("amdhsa.target")
        kernels += [_kernel(_Map(k, "a kernel's metadata")) for k in top.items("amdhsa.kernels")]
    return Metadata(version, target, tuple(kernels))


def _kernel(of: _Map) -> KernelMetadata:
    return KernelMetadata(
        name=of.text(".name"),
        symbol=of.text(".symbol"),
        vgprs=of.number(".vgpr_count"),
        agprs=of.number(".agpr_count"),
        sgprs=of.number(".sgpr_count"),
        vgpr_spills=of.number(".vgpr_spill_count"),
        sgpr_spills=of.number(".sgpr_spill_count"),
        scratch=of.number(".private_segment_fixed_size"),
        lds=of.number(".group_segment_fixed_size"),
        kernarg_size=of.number(".kernarg_segment_size"),
        kernarg_align=of.number(".kernarg_segment_align"),
        wave=of.number(".wavefront_size"),
        max_items=of.number(".max_flat_workgroup_size"),
        dynamic_stack=bool(of.number(".uses_dynamic_stack")),
        arguments=tuple(_argument(_Map(a, "an argument's metadata")) for a in of.items(".args")),
    )


def _argument(of: _Map) -> Argument:
    return Argument(
        of.number(".offset"),
        of.number(".size"),
        of.text(".value_kind"),
        of.text(".name"),
        of.text(".address_space"),
    )


class _Map:
    """A map whose values are checked as they are asked for; what is left out is 0, empty, or no items."""

    def __init__(self, value: Value, what: str) -> None:
        if not isinstance(value, dict):
            raise DataError(f"code object: {what} is {type(value).__name__}, not a map")
        self.value, self.what = value, what

    def number(self, key: str) -> int:
        found = self.value.get(key, 0)
        if not isinstance(found, int) or not 0 <= found < 1 << 32:
            raise DataError(f"code object: {key} of {self.what} is {found!r}, not a number")
        return int(found)

    def text(self, key: str) -> str:
        found = self.value.get(key, "")
        if not isinstance(found, str):
            raise DataError(f"code object: {key} of {self.what} is {found!r}, not a text")
        return found

    def items(self, key: str) -> list[Value]:
        found = self.value.get(key, [])
        if not isinstance(found, list):
            raise DataError(f"code object: {key} of {self.what} is {found!r}, not a list")
        return found
