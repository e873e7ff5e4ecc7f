"""The loader: a relocatable object's bytes to callable code of this process.

Sections are laid out in one mapping: code, the table of addresses that some relocations read, and constants
first, then pages that stay writable. Once relocated, the first part becomes readable and executable and never
writable again. Nothing outside the object is linked: a symbol that it does not define is an error, as is
every relocation that is not in `relocate.py`. Objects of any compiler load the same way.
"""

from __future__ import annotations

import platform
import weakref
from dataclasses import dataclass

from tiny_core.api import LaunchError
from tiny_core.devices.cpu import elf, libc, relocate

# A fresh mapping needs no explicit cache maintenance on AArch64: Linux cleans and invalidates the caches of a
# page when it first becomes executable (arch/arm64/mm/flush.c, __sync_icache_dcache).


@dataclass(slots=True, weakref_slot=True, eq=False)
class LoadedObject:
    """Code mapped into this process, until this object dies.

    Args:
        symbols: addresses of the global symbols that the object defines.
        address: where the mapping begins.
        nbytes: its length.
    """

    symbols: dict[str, int]
    address: int
    nbytes: int

    def entry(self, name: str) -> int:
        """Return the address of `name`; raises LaunchError if the object does not define it."""
        if name not in self.symbols:
            raise LaunchError(
                f"the object has no symbol {name!r}", f"it has {', '.join(self.symbols) or 'none'}"
            )
        return self.symbols[name]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where sections will be, as offsets from the beginning of the mapping.

    Args:
        offsets: by section number; sections that are not loaded are absent.
        slots: offset of the address slot of each symbol number that needs one.
        writable: where the writable pages begin.
        nbytes: length of the whole.
    """

    offsets: dict[int, int]
    slots: dict[int, int]
    writable: int
    nbytes: int


def load(binary: bytes) -> LoadedObject:
    """Map a relocatable object for this machine.

    Raises:
        LaunchError: the object is malformed or for another machine, uses a symbol that it does not define, or
        has a
            relocation that is unknown or out of range.
        OutOfMemory: there is no memory for it.
    """
    parsed = elf.parse(binary)
    machine = platform.machine()
    if parsed.machine != machine:
        raise LaunchError(f"the object is for {parsed.machine}, this machine is {machine}", elf.FOREIGN)
    layout = lay_out(parsed, libc.page_size())
    address = libc.map_memory(layout.nbytes)
    try:
        link(parsed, layout, libc.view(address, layout.nbytes), address)
        libc.protect(address, layout.writable, libc.PROT_READ | libc.PROT_EXEC)
    except LaunchError:
        libc.unmap_memory(address, layout.nbytes)
        raise
    symbols = {
        s.name: address + layout.offsets[s.section] + s.value
        for s in parsed.symbols
        if s.binding != 0 and s.section in layout.offsets
    }
    loaded = LoadedObject(symbols, address, layout.nbytes)
    # at interpreter exit code stays mapped: a thread may still be in it
    weakref.finalize(loaded, libc.unmap_memory, address, layout.nbytes).atexit = False
    return loaded


def lay_out(parsed: elf.ElfObject, page: int) -> Layout:
    """Return where each section goes; raises LaunchError for undefined symbols, all named."""
    missing = parsed.undefined()
    if missing:
        raise LaunchError(
            f"undefined symbols: {', '.join(missing)}",
            "kernels call no library; the operation must be decomposed",
        )
    loaded = [(i, s) for i, s in enumerate(parsed.sections) if elf.is_loaded(s)]
    offsets: dict[int, int] = {}
    slots: dict[int, int] = {}
    end = 0

    def place(wanted: int) -> None:
        nonlocal end
        for number, section in loaded:
            if section.flags & (elf.SHF_EXECINSTR | elf.SHF_WRITE) == wanted:
                if section.align > page:
                    raise LaunchError(f"section {section.name} wants alignment {section.align}")
                offsets[number] = -(-end // section.align) * section.align
                end = offsets[number] + section.size

    place(elf.SHF_EXECINSTR)
    end = -(-end // 8) * 8
    for r in parsed.relocations:
        if r.kind in relocate.GOT[parsed.machine] and r.symbol not in slots:
            slots[r.symbol] = end
            end += 8
    place(0)
    writable = max(-(-end // page), 1) * page
    end = writable
    place(elf.SHF_WRITE)
    if len(offsets) != len(loaded):
        raise LaunchError("a section is both writable and executable")
    return Layout(offsets, slots, writable, -(-end // page) * page)


def link(parsed: elf.ElfObject, layout: Layout, image: memoryview, base: int) -> None:
    """Write sections and address slots into `image`, and patch every relocation for the base address `base`.

    Raises:
        LaunchError: a relocation is unknown or out of range, or names a symbol outside the loaded sections.
    """
    for number, offset in layout.offsets.items():
        section = parsed.sections[number]
        if section.kind != elf.SHT_NOBITS:
            image[offset : offset + section.size] = section.data
    for number, slot in layout.slots.items():
        image[slot : slot + 8] = _value(parsed, layout, base, number).to_bytes(8, "little")
    for r in parsed.relocations:
        by_slot = r.kind in relocate.GOT[parsed.machine]
        value = base + layout.slots[r.symbol] if by_slot else _value(parsed, layout, base, r.symbol)
        section = parsed.sections[r.section]
        at = layout.offsets[r.section]
        relocate.apply(
            parsed.machine,
            r.kind,
            image[at : at + section.size],
            r.offset,
            base + at,
            value + r.addend,
            parsed.symbols[r.symbol].name or parsed.sections[parsed.symbols[r.symbol].section].name,
        )


def _value(parsed: elf.ElfObject, layout: Layout, base: int, number: int) -> int:
    symbol = parsed.symbols[number]
    if symbol.section == elf.SHN_ABS:
        return symbol.value
    if symbol.section not in layout.offsets:
        raise LaunchError(f"symbol {symbol.name!r} lies in a section that is not loaded")
    return base + layout.offsets[symbol.section] + symbol.value
