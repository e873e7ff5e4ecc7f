"""The linker: relocatable AMDGPU objects in, one loadable code object out.

llvmlite has no linker, and a driver loads only linked ELF files ("Code Object" in LLVM's "User Guide for
AMDGPU Backend"). Sections of one name are joined, symbols resolved, distances written, and addresses left
to the loader as R_AMDGPU_RELATIVE64. The result is closed: nothing is undefined, and nothing of it is
replaced by what else is loaded (as `ld.lld -shared -Bsymbolic --no-undefined` would have it), so a loader
needs to know that one relocation type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tiny_core.api import CompileError, DataError
from tiny_renderer_llvm import dynamic, elf
from tiny_renderer_llvm.image import Load, Output, number, place, write
from tiny_renderer_llvm.relocate import RELATIVE64, TYPES, Type, field

# LLVM gives every function and object a section of its own on request; these are the names they join.
_JOINED: Final = (".text", ".rodata", ".data.rel.ro", ".data", ".bss")
_RELRO: Final = (".data.rel.ro", ".got")
_ACCESS: Final = elf.SHF_ALLOC | elf.SHF_WRITE | elf.SHF_EXECINSTR
_GROUP_COMDAT: Final = 1
_DT: Final = {
    "NULL": 0, "HASH": 4, "STRTAB": 5, "SYMTAB": 6, "RELA": 7, "RELASZ": 8, "RELAENT": 9, "STRSZ": 10,
    "SYMENT": 11, "FLAGS": 30, "GNU_HASH": 0x6FFFFEF5, "RELACOUNT": 0x6FFFFFF9,
}  # fmt: skip
_DF_SYMBOLIC: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """Where a symbol is: an offset into a section of the code object, or an absolute value."""

    symbol: elf.Symbol
    output: Output | None
    value: int

    @property
    def address(self) -> int:
        """Return its address once sections are placed."""
        return self.value + (self.output.address if self.output is not None else 0)


@dataclass(frozen=True, slots=True)
class _Site:
    """A relocation to be written: where, and what it refers to."""

    kind: Type
    output: Output
    offset: int
    addend: int
    target: Definition


def link(objects: Sequence[bytes]) -> bytes:
    """Link relocatable objects for one AMDGPU processor into a code object.

    Args:
        objects: at least one; all for the same processor and ABI.

    Returns:
        An ELF64 shared object with dynamic symbols for everything global that is not hidden.

    Raises:
        CompileError: an object is malformed or of another kind or processor; a symbol is undefined, or
            defined twice; a relocation is unknown or does not fit; something that kernels never have
            (thread-local or common storage, constructors, near memory that no kernel owns).
    """
    try:
        return _Link([elf.read(binary) for binary in objects]).run()
    except DataError as error:
        raise CompileError(f"cannot link: {error.message}") from None


class _Link:
    def __init__(self, inputs: list[elf.Elf]) -> None:
        assert inputs, "nothing to link"
        self.inputs = inputs
        self.header = _common_header(inputs)
        self.outputs: dict[tuple[str, int], Output] = {}
        self.pieces: dict[tuple[int, int], tuple[Output, int]] = {}  # (input, section) -> where it went
        self.dropped: set[tuple[int, int]] = set()
        self.globals: dict[str, Definition] = {}
        self.locals: list[Definition] = []
        self.slots: dict[Definition, int] = {}  # offsets into the table of addresses
        self.absolute: list[tuple[Output, int, Definition, int]] = []  # what the loader fills in
        self.got = Output(".got", elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_WRITE, 8, 8)

    def run(self) -> bytes:
        self._join()
        self._resolve()
        sites = self._sites()
        tables, loads, others = self._plan()
        segments = 4 + len(loads) + any(s.kind == elf.SHT_NOTE for s in loads[0].sections)
        place(loads, segments)
        for site in sites:
            self._write(site)
        for definition, offset in self.slots.items():
            if definition.output is None:
                self.got.data[offset : offset + 8] = _word(definition.value)
        number([*(s for load in loads for s in load.sections), *others])
        tables.fill(self)
        return write(self.header, loads, _segments(loads, tables, segments), others)

    # ---- sections ------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Append every section that is kept to its output."""
        seen: set[str] = set()
        for i, of in enumerate(self.inputs):
            for section in of.sections:
                if section.kind == elf.SHT_GROUP:
                    self._group(i, section, seen)
            for j, section in enumerate(of.sections):
                if (i, j) in self.dropped or not _is_kept(section):
                    continue
                output = self._output(section)
                self.pieces[i, j] = output, output.add(section.data, section.size, section.align)

    def _group(self, i: int, group: elf.Section, seen: set[str]) -> None:
        """Drop the members of a COMDAT group that another object has given already (gABI, "Section
        Groups")."""
        of = self.inputs[i]
        words = [int.from_bytes(group.data[k : k + 4], "little") for k in range(0, len(group.data), 4)]
        if group.info >= len(of.symbols) or not words:
            raise CompileError(f"cannot link: section group {group.name} has no signature")
        name = of.symbols[group.info].name
        if words[0] & _GROUP_COMDAT and name in seen:
            self.dropped.update((i, j) for j in words[1:])
        seen.add(name)

    def _output(self, section: elf.Section) -> Output:
        name, flags = section.name, section.flags & _ACCESS
        if flags:
            name = next((n for n in _JOINED if name == n or name.startswith(n + ".")), name)
        output = self.outputs.get((name, flags))
        if output is None:
            kind = section.kind
            if kind == elf.SHT_NOBITS and (name in _RELRO or not flags & elf.SHF_WRITE):
                kind = elf.SHT_PROGBITS  # memory without file content is at the end of what is writable
            kept = section.flags & (elf.SHF_MERGE | elf.SHF_STRINGS) if not flags else 0
            size = section.entry_size if kept else 0
            output = self.outputs[name, flags] = Output(name, kind, flags | kept, 1, size)
        elif output.kind == elf.SHT_NOBITS and section.kind != elf.SHT_NOBITS:
            output.kind = section.kind
            output.store()
        return output

    # ---- symbols -------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Find the definition of every symbol."""
        undefined: dict[str, None] = {}
        for i, of in enumerate(self.inputs):
            for symbol in of.symbols[1:]:
                if symbol.section == elf.SHN_UNDEF:
                    undefined.setdefault(symbol.name)
                elif symbol.binding == elf.STB_LOCAL:
                    if symbol.kind not in (elf.STT_SECTION, elf.STT_FILE) and symbol.name:
                        self.locals += [d] if (d := self._definition(i, symbol)) is not None else []
                elif (definition := self._definition(i, symbol)) is not None:
                    self._define(definition)
        missing = [name for name in undefined if name not in self.globals]
        if missing:
            raise CompileError(
                f"undefined: {', '.join(sorted(missing))}",
                "a code object is closed: what would be a library function is decomposed before rendering",
            )

    def _definition(self, i: int, symbol: elf.Symbol) -> Definition | None:
        """Return where a defined symbol is; None if it was in a section that is not kept."""
        if symbol.section == elf.SHN_ABS:
            return Definition(symbol, None, symbol.value)
        if symbol.section >= elf.SHN_LORESERVE:
            kinds = {elf.SHN_AMDGPU_LDS: "near memory that no kernel owns", elf.SHN_COMMON: "common storage"}
            what = kinds.get(symbol.section, f"in special section {symbol.section:#x}")
            raise CompileError(f"cannot link {symbol.name}: it is {what}")
        piece = self.pieces.get((i, symbol.section))
        if piece is None:
            return None
        if symbol.value > self.inputs[i].sections[symbol.section].size:
            raise CompileError(f"cannot link {symbol.name}: it lies outside its section")
        return Definition(symbol, piece[0], piece[1] + symbol.value)

    def _define(self, new: Definition) -> None:
        old = self.globals.get(new.symbol.name)
        if old is not None and new.symbol.binding == elf.STB_WEAK:
            return
        if old is not None and old.symbol.binding != elf.STB_WEAK:
            raise CompileError(f"{new.symbol.name} is defined twice")
        self.globals[new.symbol.name] = new

    def _target(self, i: int, index: int) -> Definition:
        """Return what symbol number `index` of an input stands for."""
        symbol = self.inputs[i].symbols[index]
        if index == 0:
            return Definition(symbol, None, 0)
        if symbol.binding != elf.STB_LOCAL:
            found = self.globals.get(symbol.name)
        else:
            found = self._definition(i, symbol)
        if found is None:
            raise CompileError(f"cannot link: {symbol.name or 'a section'} is used and was left out")
        return found

    # ---- relocations ---------------------------------------------------------------------------------------

    def _sites(self) -> list[_Site]:
        """Return what is written here; note what needs a slot or is left to the loader."""
        sites: list[_Site] = []
        # one slot for a place, by whatever symbol it is named
        slots: dict[tuple[Output | None, int], Definition] = {}
        for i, of in enumerate(self.inputs):
            for table in of.sections:
                if table.kind not in (elf.SHT_RELA, elf.SHT_REL) or (i, table.info) not in self.pieces:
                    continue
                if table.kind == elf.SHT_REL:
                    raise CompileError(f"cannot link {table.name}: its relocations have no addends")
                output, start = self.pieces[i, table.info]
                size = of.sections[table.info].size
                for r in of.relocations(table):
                    kind = TYPES.get(r.kind)
                    if kind is None and r.kind:
                        raise CompileError(f"cannot link {table.name}: relocation type {r.kind} is unknown")
                    if kind is None:
                        continue
                    if r.offset + kind.size > size or output.kind == elf.SHT_NOBITS:
                        raise CompileError(
                            f"cannot link {table.name}: {r.offset:#x} lies outside its section"
                        )
                    target = self._target(i, r.symbol)
                    if kind.base == "G":
                        target = slots.setdefault((target.output, target.value), target)
                        self._slot(target)
                    if self._is_written(kind, output, start + r.offset, target, r.addend):
                        sites.append(_Site(kind, output, start + r.offset, r.addend, target))
        return sites

    def _slot(self, target: Definition) -> None:
        if target not in self.slots:
            self.slots[target] = self.got.add(b"", 8, 8)
            if target.output is not None:
                self.absolute.append((self.got, self.slots[target], target, 0))

    def _is_written(self, kind: Type, output: Output, offset: int, target: Definition, addend: int) -> bool:
        """Return whether the value is known now; a 64-bit address is not and goes to the loader."""
        if kind.base == "G" or not output.flags & elf.SHF_ALLOC:
            return True
        what = f"{kind.name} to {target.symbol.name or 'a section'} in {output.name}"
        if target.output is None:
            if kind.relative:
                raise CompileError(f"cannot link {what}: the distance to a constant depends on the loader")
            return True
        if kind.relative:
            return True
        if kind.size != 8:
            raise CompileError(f"cannot link {what}: code must not depend on where it is loaded")
        if not output.flags & elf.SHF_WRITE:
            raise CompileError(f"cannot link {what}: a loader cannot write there")
        self.absolute.append((output, offset, target, addend))
        return False

    def _write(self, site: _Site) -> None:
        slot = self.slots.get(site.target, 0)
        target = self.got.address + slot if site.kind.base == "G" else site.target.address
        data = field(site.kind, target, site.addend, site.output.address + site.offset)
        site.output.data[site.offset : site.offset + site.kind.size] = data

    # ---- segments ------------------------------------------------------------------------------------------

    def _plan(self) -> tuple[_Tables, list[Load], list[Output]]:
        """Return the tables, the segments in order, and the sections that are not loaded."""
        homes = {d.output for d in (*self.globals.values(), *self.locals)}
        kept = [o for o in self.outputs.values() if o.size or o in homes]
        tables = _Tables(self)
        loaded = [o for o in kept if o.flags & elf.SHF_ALLOC]
        fixed = [o for o in loaded if not o.flags & elf.SHF_WRITE]
        notes = [o for o in fixed if o.kind == elf.SHT_NOTE]
        data = [o for o in fixed if o.kind != elf.SHT_NOTE and not o.flags & elf.SHF_EXECINSTR]
        code = [o for o in fixed if o.kind != elf.SHT_NOTE and o.flags & elf.SHF_EXECINSTR]
        writable = [o for o in loaded if o.flags & elf.SHF_WRITE]
        relro = [o for o in writable if o.name in _RELRO]
        rest = sorted((o for o in writable if o.name not in _RELRO), key=lambda o: o.kind == elf.SHT_NOBITS)
        loads = [
            Load(elf.PF_R, [*notes, *tables.symbols, *data]),
            Load(elf.PF_R | elf.PF_X, code),
            Load(elf.PF_R | elf.PF_W, [tables.dynamic, *([self.got] if self.slots else []), *relro], True),
            Load(elf.PF_R | elf.PF_W, rest),
        ]
        others = [o for o in kept if not o.flags & elf.SHF_ALLOC]
        return tables, [load for load in loads if load.sections], [*others, tables.symtab, tables.strtab]


class _Tables:
    """The sections that the linker makes, sized when they are made and filled when all is placed."""

    def __init__(self, of: _Link) -> None:
        shown = {n: d for n, d in of.globals.items() if d.symbol.visibility not in _HIDDEN}
        self.exported = [shown[name] for name in dynamic.gnu_order(list(shown))]
        hidden = [d for n, d in of.globals.items() if n not in shown]
        self.rest = [*of.locals, *hidden]
        names = [d.symbol.name for d in self.exported]
        read = elf.SHF_ALLOC
        self.dynsym = Output(".dynsym", elf.SHT_DYNSYM, read, 8, elf.SYMBOL.size, info=1)
        self.gnu_hash = Output(".gnu.hash", elf.SHT_GNU_HASH, read, 8, link=self.dynsym)
        self.hash = Output(".hash", elf.SHT_HASH, read, 4, 4, link=self.dynsym)
        self.dynstr = Output(".dynstr", elf.SHT_STRTAB, read)
        self.rela = Output(".rela.dyn", elf.SHT_RELA, read, 8, elf.RELA.size, link=self.dynsym)
        self.dynamic = Output(
            ".dynamic", elf.SHT_DYNAMIC, read | elf.SHF_WRITE, 8, elf.DYNAMIC.size, link=self.dynstr
        )
        self.symtab = Output(".symtab", elf.SHT_SYMTAB, 0, 8, elf.SYMBOL.size)
        self.strtab = Output(".strtab", elf.SHT_STRTAB, 0)
        self.dynsym.link, self.symtab.link = self.dynstr, self.strtab
        self._names = dynamic.Strings()
        self.gnu_hash.fill(dynamic.gnu_table(names))
        self.hash.fill(dynamic.sysv_table(names))
        self.dynsym.fill(bytes(elf.SYMBOL.size) + b"".join(_symbol(d, self._names) for d in self.exported))
        self.dynstr.fill(self._names.data)
        self.rela.fill(bytes(len(of.absolute) * elf.RELA.size))
        self.dynamic.fill(bytes(len(self._entries()) * elf.DYNAMIC.size))
        # filled now for its size, and again when sections have numbers
        self._symtab()

    @property
    def symbols(self) -> list[Output]:
        """The read-only tables."""
        rela = [self.rela] if self.rela.size else []
        return [self.dynsym, self.gnu_hash, self.hash, self.dynstr, *rela]

    def fill(self, of: _Link) -> None:
        """Write what depends on addresses and section numbers."""
        rows = sorted((o.address + at, d.address + addend) for o, at, d, addend in of.absolute)
        self.rela.fill(b"".join(elf.RELA.pack(at, RELATIVE64, _signed(value)) for at, value in rows))
        self.dynsym.fill(bytes(elf.SYMBOL.size) + b"".join(_symbol(d, self._names) for d in self.exported))
        self.dynamic.fill(b"".join(elf.DYNAMIC.pack(_DT[tag], value) for tag, value in self._entries()))
        self._symtab()

    def _entries(self) -> list[tuple[str, int]]:
        rela = self.rela.size
        relocations = [
            ("RELA", self.rela.address), ("RELASZ", rela), ("RELAENT", elf.RELA.size),
            ("RELACOUNT", rela // elf.RELA.size),
        ]  # fmt: skip
        return [
            ("FLAGS", _DF_SYMBOLIC), *(relocations if rela else []),
            ("SYMTAB", self.dynsym.address), ("SYMENT", elf.SYMBOL.size),
            ("STRTAB", self.dynstr.address), ("STRSZ", self.dynstr.size),
            ("GNU_HASH", self.gnu_hash.address), ("HASH", self.hash.address), ("NULL", 0),
        ]  # fmt: skip

    def _symtab(self) -> None:
        """Write the full symbol table: local symbols first, as the gABI wants them."""
        names = dynamic.Strings()
        mark = elf.Symbol("_DYNAMIC", 0, 0, elf.STT_NOTYPE, elf.STB_LOCAL, elf.STV_HIDDEN, 0)
        first = [*(_as_local(d) for d in self.rest), Definition(mark, self.dynamic, 0)]
        rows = [bytes(elf.SYMBOL.size), *(_symbol(d, names) for d in (*first, *self.exported))]
        self.symtab.info = len(first) + 1
        self.symtab.fill(b"".join(rows))
        self.strtab.fill(names.data)


_HIDDEN: Final = (elf.STV_HIDDEN, elf.STV_INTERNAL)


def _as_local(d: Definition) -> Definition:
    return replace(d, symbol=replace(d.symbol, binding=elf.STB_LOCAL))


def _symbol(d: Definition, names: dynamic.Strings) -> bytes:
    s, section = d.symbol, d.output.index if d.output is not None else elf.SHN_ABS
    info = s.binding << 4 | s.kind
    return elf.SYMBOL.pack(names.add(s.name), info, s.visibility, section, _unsigned(d.address), s.size)


def _segments(loads: list[Load], tables: _Tables, count: int) -> list[elf.Segment]:
    """Return the program headers."""
    at, size = elf.HEADER.size, count * elf.SEGMENT.size
    rw = elf.PF_R | elf.PF_W
    relro = next(load for load in loads if load.relro)
    dyn = tables.dynamic
    found = [elf.Segment(elf.PT_PHDR, elf.PF_R, at, at, size, size, 8)]
    for g in loads:
        row = (g.flags, g.offset, g.address, g.file_size, g.memory_size, g.align)
        found.append(elf.Segment(elf.PT_LOAD, *row))
    found.append(elf.Segment(elf.PT_DYNAMIC, rw, dyn.offset, dyn.address, dyn.size, dyn.size, 8))
    sizes = (relro.offset, relro.address, relro.file_size, relro.memory_size)
    found.append(elf.Segment(elf.PT_GNU_RELRO, elf.PF_R, *sizes, 1))
    found.append(elf.Segment(elf.PT_GNU_STACK, rw, 0, 0, 0, 0, 0))
    notes = [s for s in loads[0].sections if s.kind == elf.SHT_NOTE]
    if notes:
        first, last = notes[0], notes[-1]
        size = last.address + last.size - first.address
        align = max(s.align for s in notes)
        found.append(elf.Segment(elf.PT_NOTE, elf.PF_R, first.offset, first.address, size, size, align))
    return found


def _common_header(inputs: list[elf.Elf]) -> elf.Header:
    """Return the header of the result; raises CompileError if the objects differ or are not for AMDGPU."""
    head = inputs[0].header
    for of in inputs:
        if of.header.kind != elf.ET_REL or of.header.machine != elf.EM_AMDGPU:
            raise CompileError(
                f"cannot link an ELF file of type {of.header.kind} for machine {of.header.machine}",
                "the linker takes relocatable objects (type 1) for AMDGPU (machine 224)",
            )
        if of.header != head:
            raise CompileError(f"cannot link objects for different processors: {of.header}, {head}")
    return replace(head, kind=elf.ET_DYN, entry=0)


def _is_kept(section: elf.Section) -> bool:
    """Return whether a section has a place in the code object; raises CompileError for what kernels never
    have."""
    if section.flags & elf.SHF_TLS or section.kind in _CONSTRUCTORS:
        raise CompileError(f"section {section.name}: kernels have no thread-local storage, no constructors")
    if section.flags & elf.SHF_ALLOC:
        if section.kind not in (elf.SHT_PROGBITS, elf.SHT_NOBITS, elf.SHT_NOTE):
            raise CompileError(f"cannot link section {section.name} of type {section.kind:#x}")
        return True
    return section.kind == elf.SHT_PROGBITS and section.size > 0


_CONSTRUCTORS: Final = (elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY)


def _word(value: int) -> bytes:
    return _unsigned(value).to_bytes(8, "little")


def _unsigned(value: int) -> int:
    return value & (1 << 64) - 1


def _signed(value: int) -> int:
    value = _unsigned(value)
    return value - (1 << 64) if value >> 63 else value
