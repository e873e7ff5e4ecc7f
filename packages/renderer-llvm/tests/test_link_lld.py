"""Our linker against ld.lld: same dynamic symbols, segments and notes; relocations with the same effect."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable, Iterator

import pytest
from code_objects import ASSEMBLY, GLOBALS, HELPER, RICH, USES, Loaded, assembled, by_lld, load, relocatable
from llvm_kernels import Body, render, special
from test_ops import BINARY, TERNARY, UNARY, kernel_of
from test_targets import group_sum

from tiny_core import Context, Tensor, nn
from tiny_core.api import Arch, UOp, dtypes
from tiny_renderer_llvm import elf
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.link import link
from tiny_renderer_llvm.relocate import TYPES
from tiny_renderer_llvm.renderer import LLVMRenderer

GPUS = tuple(ARCHITECTURES)
_SIZES = {"64": 8, "16": 2}
_JOINED = (".text", ".rodata", ".data.rel.ro", ".data", ".bss")


def joined(name: str) -> str:
    return next((n for n in _JOINED if name == n or name.startswith(n + ".")), name)


def places(objects: list[bytes]) -> Iterator[tuple[str, int, elf.Relocation, str]]:
    """Every relocation of loaded sections: output section, offset in it, the entry, its field's type."""
    ends: dict[str, int] = {}
    for binary in objects:
        of = elf.read(binary)
        starts = {}
        for j, s in enumerate(of.sections):
            if s.flags & elf.SHF_ALLOC:
                name = joined(s.name)
                starts[j] = -(-ends.get(name, 0) // s.align) * s.align
                ends[name] = starts[j] + s.size
        for table in of.sections:
            if table.kind == elf.SHT_RELA and table.info in starts:
                for r in of.relocations(table):
                    name = joined(of.sections[table.info].name)
                    kind = TYPES[r.kind].name if r.kind else "NONE"
                    yield name, starts[table.info] + r.offset, r, kind


def effects(loaded: Loaded, objects: list[bytes]) -> list[tuple[str, int, str, tuple[str, int]]]:
    """What each relocation makes a program reach, as (section, offset), with slots of the table followed."""
    found = []
    for name, offset, r, kind in places(objects):
        at = loaded.base + loaded.section(name).address + offset
        if kind == "NONE" or kind.endswith("_HI"):
            continue  # a high half is checked with its low half
        if kind in ("ABS64",):
            found.append((name, offset, kind, loaded.where(loaded.u64(at))))
            continue
        if kind == "REL64":
            value = loaded.u64(at)
        elif kind.endswith("_LO"):
            halves = (o for n, o, _, k in places(objects) if n == name and k.endswith("_HI") and o > offset)
            high = next(halves)
            value = loaded.u64_of(at, loaded.base + loaded.section(name).address + high)
        elif kind == "REL16":
            value = 4 * struct.unpack("<hxx", loaded.u32(at).to_bytes(4, "little"))[0] + 4
        else:
            value = struct.unpack("<i", loaded.u32(at).to_bytes(4, "little"))[0]
        target = (value - r.addend + at) & (1 << 64) - 1
        if kind.startswith("GOT"):
            assert loaded.where(target)[0] == ".got"
            target = loaded.u64(target)
        found.append((name, offset, kind, loaded.where(target)))
    return found


def exported(of: elf.Elf) -> dict[str, tuple[int, int, int, int, str]]:
    def home(s: elf.Symbol) -> str:
        return of.sections[s.section].name if s.section < len(of.sections) else f"{s.section:#x}"

    return {s.name: (s.size, s.kind, s.binding, s.visibility, home(s)) for s in of.dynamic[1:]}


def compare(objects: list[bytes]) -> int:
    """Link with both and compare; return the number of relocations."""
    ours, theirs = load(link(objects)), load(by_lld(objects, "-Bsymbolic"))
    mine, other = ours.of, theirs.of
    assert mine.header == other.header
    assert exported(mine) == exported(other)
    shape = [[(g.kind, g.flags, g.align) for g in of.segments] for of in (mine, other)]
    assert shape[0] == shape[1]
    sections = [
        [(s.name, s.kind, s.flags, s.align) for s in of.sections if s.flags & 2 and s.size]
        for of in (mine, other)
    ]
    assert sorted(sections[0]) == sorted(s for s in sections[1] if s[0] != ".relro_padding")
    for g, h in zip(mine.segments, other.segments, strict=True):
        if g.kind in (elf.PT_LOAD, elf.PT_GNU_RELRO, elf.PT_NOTE):
            assert inside(mine, g) == inside(other, h)
    assert mine.notes() == other.notes()
    found = effects(ours, objects)
    assert found == effects(theirs, objects)
    fields = {(n, o + i) for n, o, _, k in places(objects) for i in range(_SIZES.get(k[-2:], 4))}
    for s in mine.sections:
        if s.flags & elf.SHF_ALLOC and s.kind == elf.SHT_PROGBITS and s.name != ".got":
            mates = other.sections[[t.name for t in other.sections].index(s.name)]
            assert s.size == mates.size
            differ = {i for i, (a, b) in enumerate(zip(s.data, mates.data, strict=True)) if a != b}
            assert all((s.name, i) in fields for i in differ), f"{s.name} differs where nothing is relocated"
    tags = [set(x.dynamic()) for x in (ours, theirs)]
    assert tags[0] == tags[1]
    return len(found)


def inside(of: elf.Elf, g: elf.Segment) -> list[str]:
    """Names of the sections of a segment, in order; tables of the linker come in any."""
    rows = [
        s.name
        for s in of.sections
        if s.flags & elf.SHF_ALLOC and s.size and g.address <= s.address < g.address + g.memory_size
    ]
    return sorted(n for n in rows if n != ".relro_padding")


@pytest.mark.parametrize("arch", GPUS)
def test_a_module_with_every_kind_of_symbol(arch: str) -> None:
    assert compare([relocatable(RICH, arch)]) >= 15


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201"])
def test_relocations_that_only_the_assembler_makes(arch: str) -> None:
    binary = assembled(ASSEMBLY, arch)
    assert {kind for *_, kind in places([binary])} >= {"REL16", "REL32", "REL64", "GOTPCREL", "ABS64"}
    assert compare([binary]) == 9
    ours, theirs = elf.read(link([binary])), elf.read(by_lld([binary], "-Bsymbolic"))
    debug = [
        struct.unpack("<IQQ", s.data) for of in (ours, theirs) for s in of.sections if s.name == ".debug_line"
    ]
    places_of = [{s.name: s.value for s in of.symbols} for of in (ours, theirs)]
    for (data, f, more), at in zip(debug, places_of, strict=True):
        assert (data, f, more) == (at["data"], at["f"], at["data"] + 8)


def test_alignments_beyond_a_page() -> None:
    source = """
@big = addrspace(1) global [2 x i32] [i32 1, i32 2], align 16384
@table = addrspace(4) constant [3 x i32] [i32 1, i32 2, i32 3], align 8192
@pointer = addrspace(1) global ptr addrspace(1) @big
@zeros = addrspace(1) global [5 x i64] zeroinitializer, align 32768
"""
    binary = relocatable(source)
    assert compare([binary]) == 1
    assert len(link([binary])) <= len(by_lld([binary], "-Bsymbolic"))


@pytest.mark.parametrize("arch", GPUS)
def test_several_objects(arch: str) -> None:
    uses = GLOBALS + USES + "declare i32 @helper(i32)\n"
    other = HELPER.format(how="protected", by=3) + GLOBALS.replace("@", "@more_").replace(
        "more_helper", "helper"
    )
    assert compare([relocatable(uses, arch), relocatable(other, arch)]) >= 18


@pytest.mark.parametrize("arch", GPUS)
def test_kernels_of_every_op(arch: str) -> None:
    can = LLVMRenderer(Arch(arch)).capabilities
    for dtype in (dtypes.float32, dtypes.int32, dtypes.float16):
        ops = [op for op in (*UNARY, *BINARY, *TERNARY) if can.supports(op, dtype)]
        for lanes in (0, 4):
            compare([relocatable(render(kernel_of(ops, dtype, lanes, 64), Arch(arch)), arch)])
    compare([relocatable(render(group_sum(), Arch(arch), (64, 1, 1)), arch)])


def generated(rng: random.Random) -> Body:
    """A kernel of random length that uses several buffers and near memory."""
    body = Body()
    item = body(special("item", 0, 64))
    near = UOp.near(dtypes.float32, 64 * rng.randrange(1, 9), 0)
    value = body(UOp.param(0, dtypes.float32, 64).load(item))
    for slot in range(1, 2 * rng.randrange(2, 9), 2):
        value = body(value * float(rng.randrange(9)) + body(UOp.param(slot, dtypes.float32, 64).load(item)))
        body(UOp.param(slot + 1, dtypes.float32, 64, "w").store(item, value))
    body(near.store(item, value))
    return body


@pytest.mark.parametrize("arch", GPUS)
def test_generated_kernels_linked_together(arch: str) -> None:
    rng = random.Random(f"{arch} 7")
    for _ in range(12):
        objects = []
        for i in range(rng.randrange(1, 5)):
            text = render(generated(rng), Arch(arch), (64, 1, 1))
            names = {"@kernel(": f"@kernel_{i}(", "@near0": f"@near_{i}"}
            for old, new in names.items():
                text = text.replace(old, new)
            objects.append(relocatable(text, arch))
        assert compare(objects) == len(objects)


def step() -> Callable[[], None]:
    """The demo's network with its optimizer: one training step."""
    layers: list[Callable[[Tensor], Tensor]] = [
        nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5, bias=False), Tensor.relu,
        nn.BatchNorm(32), Tensor.max_pool2d, nn.Conv2d(32, 64, 3), Tensor.relu,
        nn.Conv2d(64, 64, 3, bias=False), Tensor.relu,
        nn.BatchNorm(64), Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(576, 10),
    ]  # fmt: skip
    optimizer = nn.optim.Adam(nn.state.get_parameters(layers))
    images, labels = Tensor.empty(64, 1, 28, 28), Tensor.empty(64).int()

    def run() -> None:
        with Tensor.train():
            loss = images.sequential(layers).sparse_categorical_crossentropy(labels)
            loss.backward()
            Tensor.realize(loss, *optimizer.schedule_step())

    return run


@functools.cache
def sources_of_a_training_step(arch: str) -> tuple[str, ...]:
    from tiny_core.runtime.device import Device

    with Context(DEV=f"NULL:LLVM:{arch}"):
        step()()
        programs = [p.compiled for p in Device["NULL"].kit.programs.values()]
    for compiled in programs:
        assert elf.read(compiled.binary).header.kind == elf.ET_DYN, "the device's binaries are linked"
    return tuple(dict.fromkeys(c.source for c in programs))


@pytest.mark.parametrize("arch", GPUS)
def test_all_kernels_of_a_training_step(arch: str) -> None:
    sources = sources_of_a_training_step(arch)
    assert len(sources) > 30
    for source in sources:
        assert compare([relocatable(source, arch)]) == 1
