"""A code object for people and for programs: aligned text, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from tiny_renderer_llvm import elf
from tiny_renderer_llvm.codeobject import CodeObject, Kernel
from tiny_renderer_llvm.occupancy import resources
from tiny_renderer_llvm.relocate import RELATIVE64, TYPES

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

_KINDS: Final = {elf.ET_REL: "relocatable object", elf.ET_DYN: "shared object"}
_SEGMENTS: Final = {
    elf.PT_LOAD: "LOAD", elf.PT_DYNAMIC: "DYNAMIC", elf.PT_NOTE: "NOTE", elf.PT_PHDR: "PHDR",
    elf.PT_GNU_STACK: "GNU_STACK", elf.PT_GNU_RELRO: "GNU_RELRO",
}  # fmt: skip
_SECTIONS: Final = {
    elf.SHT_PROGBITS: "PROGBITS", elf.SHT_SYMTAB: "SYMTAB", elf.SHT_STRTAB: "STRTAB", elf.SHT_RELA: "RELA",
    elf.SHT_HASH: "HASH", elf.SHT_DYNAMIC: "DYNAMIC", elf.SHT_NOTE: "NOTE", elf.SHT_NOBITS: "NOBITS",
    elf.SHT_DYNSYM: "DYNSYM", elf.SHT_GNU_HASH: "GNU_HASH", elf.SHT_REL: "REL", elf.SHT_GROUP: "GROUP",
}  # fmt: skip
_SYMBOLS: Final = {
    elf.STT_NOTYPE: "none", elf.STT_OBJECT: "object", elf.STT_FUNC: "function", elf.STT_SECTION: "section",
    elf.STT_FILE: "file",
}  # fmt: skip
_BINDINGS: Final = {elf.STB_LOCAL: "local", elf.STB_GLOBAL: "global", elf.STB_WEAK: "weak"}
_VISIBILITIES: Final = ("default", "internal", "hidden", "protected")


def as_json(of: CodeObject) -> Json:
    """Return everything that was read, as JSON can hold it."""
    header = of.elf.header
    return {
        "kind": _KINDS.get(header.kind, str(header.kind)),
        "architecture": of.architecture.name,
        "target": of.target,
        "flags": header.flags,
        "os_abi": header.os_abi,
        "abi_version": header.abi_version,
        "metadata_version": list(of.version),
        "segments": [_segment(g) for g in of.elf.segments],
        "sections": [_section(s) for s in of.elf.sections[1:]],
        "symbols": [_symbol(of, s) for s in (of.elf.dynamic or of.elf.symbols)[1:]],
        "relocations": [*_relocations(of)],
        "kernels": [_kernel(k) for k in of.kernels],
    }


def as_text(of: CodeObject) -> str:
    """Return the same for people: sizes in bytes, addresses in hexadecimal, fields that are not 0."""
    header = of.elf.header
    version = ".".join(map(str, of.version)) or "none"
    lines = [
        f"{_KINDS.get(header.kind, f'ELF file of type {header.kind}')} for {of.architecture.name}, "
        f"flags {header.flags:#x}, ABI {header.os_abi} version {header.abi_version}, metadata {version}",
    ]
    if of.target:
        lines.append(f"target {of.target}")
    for kernel in of.kernels:
        lines += ["", *_kernel_lines(kernel)]
    tables: list[tuple[str, Sequence[dict[str, Json]]]] = [
        ("segments", [_segment(g) for g in of.elf.segments]),
        ("sections", [_section(s) for s in of.elf.sections[1:]]),
        ("symbols", [_symbol(of, s) for s in (of.elf.dynamic or of.elf.symbols)[1:]]),
        ("relocations", _relocations(of)),
    ]
    for title, rows in tables:
        if rows:
            lines += ["", title, *_table(rows)]
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines; the first is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


_HEXADECIMAL: Final = frozenset({"offset", "address", "value", "addend"})


def _table(rows: Sequence[dict[str, Json]]) -> list[str]:
    cells = [list(rows[0])]
    for row in rows:
        cells.append(
            [f"{v:#x}" if k in _HEXADECIMAL and isinstance(v, int) else str(v) for k, v in row.items()]
        )
    return ["  " + line for line in table(cells)]


def _segment(g: elf.Segment) -> dict[str, Json]:
    flags = "".join(c for c, bit in (("r", elf.PF_R), ("w", elf.PF_W), ("x", elf.PF_X)) if g.flags & bit)
    return {
        "type": _SEGMENTS.get(g.kind, f"{g.kind:#x}"), "flags": flags, "offset": g.offset,
        "address": g.address, "in file": g.file_size, "in memory": g.memory_size, "align": g.align,
    }  # fmt: skip


def _section(s: elf.Section) -> dict[str, Json]:
    letters = (("a", elf.SHF_ALLOC), ("w", elf.SHF_WRITE), ("x", elf.SHF_EXECINSTR))
    return {
        "name": s.name, "type": _SECTIONS.get(s.kind, f"{s.kind:#x}"),
        "flags": "".join(c for c, bit in letters if s.flags & bit), "offset": s.offset,
        "address": s.address, "size": s.size, "align": s.align,
    }  # fmt: skip


def _symbol(of: CodeObject, s: elf.Symbol) -> dict[str, Json]:
    special = {elf.SHN_UNDEF: "undefined", elf.SHN_ABS: "absolute"}
    sections = of.elf.sections
    home = sections[s.section].name if 0 < s.section < len(sections) else special.get(s.section, "special")
    return {
        "name": s.name, "value": s.value, "size": s.size, "type": _SYMBOLS.get(s.kind, str(s.kind)),
        "binding": _BINDINGS.get(s.binding, str(s.binding)), "visibility": _VISIBILITIES[s.visibility],
        "section": home,
    }  # fmt: skip


def _relocations(of: CodeObject) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = []
    for table in of.elf.sections:
        if table.kind != elf.SHT_RELA:
            continue
        dynamic = table.link < len(of.elf.sections) and of.elf.sections[table.link].kind == elf.SHT_DYNSYM
        symbols = of.elf.dynamic if dynamic else of.elf.symbols
        for r in of.elf.relocations(table):
            known = TYPES.get(r.kind)
            kind = known.name if known else "RELATIVE64" if r.kind == RELATIVE64 else str(r.kind)
            name = symbols[r.symbol].name if r.symbol < len(symbols) else ""
            found.append(
                {"in": table.name, "offset": r.offset, "type": kind, "symbol": name, "addend": r.addend}
            )
    return found


def _kernel(k: Kernel) -> dict[str, Json]:
    takes = resources(k)
    registers: dict[str, Json] = dict(takes.registers)
    metadata: Json = None
    if k.metadata is not None:
        metadata = asdict(k.metadata)
        metadata["arguments"] = [asdict(a) for a in k.metadata.arguments]
    return {
        "name": k.name,
        "entry": k.entry,
        "descriptor_address": k.address,
        "code_size": k.code_size,
        "resources": {
            "registers": registers, "spills": takes.spills, "scratch": takes.scratch, "near": takes.near,
            "occupancy": takes.occupancy, "most": takes.most, "limit": takes.limit,
        },
        "wave": k.descriptor.wave,
        "allocated_vgprs": k.descriptor.vgprs,
        "allocated_sgprs": k.descriptor.sgprs,
        "accum_offset": k.descriptor.accum_offset,
        "descriptor": dict(k.descriptor.fields),
        "reserved": k.descriptor.reserved,
        "metadata": metadata,
    }  # fmt: skip


def _kernel_lines(k: Kernel) -> list[str]:
    where = f"at {k.entry:#x}" if k.entry is not None else "not linked"
    d, said = k.descriptor, k.metadata
    allocated = f"{d.vgprs} vector registers" + (f", {d.sgprs} scalar" if d.sgprs is not None else "")
    lines = [
        f"kernel {k.name}: {k.code_size} bytes of code {where}, waves of {d.wave}",
        f"  takes {resources(k)}",
        f"  given out: {allocated}"
        + (f"; accumulation registers from {d.accum_offset}" if d.accum_offset is not None else ""),
    ]
    if said is not None:
        lines.append(
            f"  {said.vgpr_spills} vector and {said.sgpr_spills} scalar spills; groups of at most "
            f"{said.max_items} items; {said.kernarg_size} bytes of arguments"
        )
        rows: list[dict[str, Json]] = [
            {"offset": a.offset, "size": a.size, "argument": a.name, "kind": a.kind, "space": a.address_space}
            for a in said.arguments
        ]
        lines += ["  " + line for line in (_table(rows) if rows else [])]
    set_fields = [(name, value) for name, value in d.fields.items() if value]
    lines.append("  descriptor fields that are not 0")
    lines += [
        "    " + line for line in table([[name, f"{value:#x}"] for name, value in set_fields] or [["none"]])
    ]
    if d.reserved:
        lines.append(f"  reserved bits that are set: {d.reserved:#x}")
    return lines
