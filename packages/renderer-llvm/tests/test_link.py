"""The linker by itself: what a loader finds in a code object, and what is an error."""

from __future__ import annotations

import struct

import pytest
from code_objects import (
    ABSOLUTE,
    ASSEMBLY,
    DECLARED,
    GLOBALS,
    HELPER,
    RICH,
    USES,
    Loaded,
    assembled,
    load,
    relocatable,
)
from llvm_kernels import Body, compiled
from test_targets import group_sum

from tiny_core.api import Arch, CompileError, UOp, dtypes
from tiny_renderer_llvm import codeobject, dynamic, elf
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.link import link

GPUS = tuple(ARCHITECTURES)
EXPORTED = {
    "kernel",
    "kernel.kd",
    "other",
    "other.kd",
    "shared",
    "zeros",
    "quiet",
    "guarded",
    "pointers",
    "links",
}


@pytest.fixture(scope="module", params=GPUS)
def rich(request: pytest.FixtureRequest) -> Loaded:
    return load(link([relocatable(RICH, request.param)]))


def through_sysv(loaded: Loaded, name: str) -> elf.Symbol | None:
    """Look a symbol up as the gABI says ("Hash Table")."""
    at = loaded.base + loaded.dynamic()[4]
    buckets, chains = loaded.u32(at), loaded.u32(at + 4)
    number = loaded.u32(at + 8 + 4 * (dynamic.sysv_hash(name) % buckets))
    for _ in range(chains):
        if not number:
            return None
        if (found := loaded.symbol(number)).name == name:
            return found
        number = loaded.u32(at + 8 + 4 * buckets + 4 * number)
    raise AssertionError("a chain without end")


def through_gnu(loaded: Loaded, name: str) -> elf.Symbol | None:
    """Look a symbol up in `.gnu.hash`: filter, bucket, chain."""
    at = loaded.base + loaded.dynamic()[0x6FFFFEF5]
    buckets, first, words, shift = (loaded.u32(at + 4 * i) for i in range(4))
    h = dynamic.gnu_hash(name)
    word = loaded.u64(at + 16 + 8 * (h // 64 % words))
    if not (word >> h % 64 & 1 and word >> (h >> shift) % 64 & 1):
        return None
    number = loaded.u32(at + 16 + 8 * words + 4 * (h % buckets))
    while number:
        hashed = loaded.u32(at + 16 + 8 * words + 4 * buckets + 4 * (number - first))
        if hashed | 1 == h | 1 and (found := loaded.symbol(number)).name == name:
            return found
        number = 0 if hashed & 1 else number + 1
    return None


def test_hashes_are_those_of_the_published_examples() -> None:
    # the values that tables of both hash functions give for functions of the C library
    assert dynamic.sysv_hash("") == 0 and dynamic.sysv_hash("printf") == 0x077905A6
    assert dynamic.sysv_hash("syscall") == 0x0B09985C and dynamic.sysv_hash("exit") == 0x0006CF04
    assert dynamic.gnu_hash("") == 0x1505 and dynamic.gnu_hash("printf") == 0x156B2BB8
    assert dynamic.gnu_hash("exit") == 0x7C967E3F and dynamic.gnu_hash("syscall") == 0xBAC212A0


@pytest.mark.parametrize("lookup", [through_sysv, through_gnu])
def test_every_exported_symbol_is_found_by_its_hash(rich: Loaded, lookup: object) -> None:
    assert callable(lookup)
    for name in EXPORTED:
        found = lookup(rich, name)
        assert found is not None and found.name == name and found.section
    for name in ("hidden", "table", "helper", "", "kerne"):
        assert lookup(rich, name) is None


def test_many_symbols_are_found_by_their_hashes() -> None:
    names = [f"f{i}_{i * i}" for i in range(203)]
    source = "".join(f"define amdgpu_kernel void @{n}() {{\n  ret void\n}}\n" for n in names)
    loaded = load(link([relocatable(source)]))
    for name in [n + end for n in names for end in ("", ".kd")]:
        for lookup in (through_sysv, through_gnu):
            found = lookup(loaded, name)
            assert found is not None and found.name == name


def test_the_header_is_that_of_the_object(rich: Loaded) -> None:
    name = codeobject.read(rich.of.binary).architecture.name
    before = elf.read(relocatable(RICH, name)).header
    after = rich.of.header
    assert (after.kind, after.machine, after.entry) == (elf.ET_DYN, 224, 0)
    assert (after.flags, after.os_abi, after.abi_version) == (before.flags, 64, before.abi_version)


def test_segments_have_one_permission_each_and_share_no_page(rich: Loaded) -> None:
    loads = [g for g in rich.of.segments if g.kind == elf.PT_LOAD]
    assert [g.flags for g in loads] == [elf.PF_R, elf.PF_R | elf.PF_X, *[elf.PF_R | elf.PF_W] * 2]
    pages: set[int] = set()
    for g in loads:
        mine = set(range(g.address // 4096, -(-(g.address + g.memory_size) // 4096)))
        assert not mine & pages and g.align == 4096
        pages |= mine
    (relro,) = [g for g in rich.of.segments if g.kind == elf.PT_GNU_RELRO]
    assert (relro.address, relro.memory_size) == (loads[2].address, loads[2].memory_size)
    for s in rich.of.sections:
        if s.flags & elf.SHF_ALLOC:
            (home,) = [g for g in loads if g.address <= s.address < g.address + max(g.memory_size, 1)]
            assert s.address + s.size <= home.address + home.memory_size
            assert bool(home.flags & elf.PF_W) == bool(s.flags & elf.SHF_WRITE)
            assert bool(home.flags & elf.PF_X) == bool(s.flags & elf.SHF_EXECINSTR)
            assert s.address % s.align == 0


def test_descriptors_lead_to_their_code(rich: Loaded) -> None:
    for name in ("kernel", "other"):
        kd, entry = through_gnu(rich, name + ".kd"), through_gnu(rich, name)
        assert kd is not None and entry is not None
        assert (kd.size, kd.kind, kd.value % 64) == (64, elf.STT_OBJECT, 0)
        assert (entry.kind, entry.value % 256) == (elf.STT_FUNC, 0)
        assert kd.value + rich.u64(rich.base + kd.value + 16) & (1 << 64) - 1 == entry.value


def test_pointers_in_data_are_filled_in_by_the_loader(rich: Loaded) -> None:
    at = {name: through_gnu(rich, name) for name in EXPORTED}
    address = {name: rich.base + s.value for name, s in at.items() if s is not None}
    hidden = next(s for s in rich.of.symbols if s.name == "hidden")
    assert hidden.binding == elf.STB_LOCAL
    wanted = [address["shared"], rich.base + hidden.value, address["zeros"] + 8]
    assert [rich.u64(address["pointers"] + 8 * i) for i in range(3)] == wanted
    assert [rich.u64(address["links"] + 8 * i) for i in range(2)] == [address["links"], address["guarded"]]
    assert rich.where(address["pointers"])[0] == ".data.rel.ro" and rich.where(address["zeros"])[0] == ".bss"
    assert rich.u32(address["shared"]) == 5 and rich.u32(address["guarded"]) == 11


def test_the_table_of_addresses_has_a_slot_for_each_symbol(rich: Loaded) -> None:
    got = rich.section(".got")
    found = {rich.u64(rich.base + got.address + i) for i in range(0, got.size, 8)}
    assert len(found) == got.size // 8
    for name in ("shared", "zeros", "quiet", "pointers", "links"):
        symbol = through_gnu(rich, name)
        assert symbol is not None and rich.base + symbol.value in found


def test_functions_and_data_of_other_objects() -> None:
    first = relocatable(GLOBALS + USES + DECLARED)
    second = relocatable(HELPER.format(how="protected", by=3))
    loaded = load(link([first, second]))
    helper, kernel = through_gnu(loaded, "helper"), through_gnu(loaded, "kernel")
    assert helper is not None and kernel is not None and helper.value > kernel.value
    assert {k.name for k in codeobject.read(loaded.of.binary).kernels} == {"kernel", "other"}


def test_a_weak_definition_gives_way() -> None:
    uses = relocatable(GLOBALS + USES + DECLARED)
    weak = relocatable(HELPER.format(how="weak protected", by=5))
    strong = relocatable(HELPER.format(how="protected", by=7) + "@pad = addrspace(1) global i32 1\n")
    for order in ([uses, weak, strong], [uses, strong, weak], [weak, strong, uses]):
        loaded = load(link(order))
        chosen = through_gnu(loaded, "helper")
        assert chosen is not None and chosen.binding == elf.STB_GLOBAL


def test_constants_are_known_when_linking() -> None:
    loaded = load(link([assembled(ASSEMBLY + ABSOLUTE)]))
    far, data = next(s for s in loaded.of.symbols if s.name == "far"), through_gnu(loaded, "data")
    assert data is not None
    # behind `far`, three instructions of four bytes; each s_mov has its literal in the word after it
    code = loaded.base + loaded.section(".text").address
    f = through_gnu(loaded, "f")
    assert f is not None and far.value > f.value
    words = [loaded.u32(code + i) for i in range(0, loaded.section(".text").size, 4)]
    assert 0x9ABCDEF0 in words and 0x12345678 in words
    assert loaded.u64(loaded.base + data.value + 16) == 0x123456789ABCDEF0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".text\n s_mov_b32 s6, data@abs32@lo\n", "ABS32_LO to data in .text: code must not depend"),
        (".section .rodata\n .quad data\n", "ABS64 to data in .rodata: a loader cannot write there"),
        (
            ".text\n s_add_u32 s4, s4, number@rel32@lo\n",
            "REL32_LO to number in .text: the distance to a constant",
        ),
    ],
)
def test_what_depends_on_the_place_of_loading_is_an_error(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        link([assembled(ASSEMBLY + line)])


def test_metadata_of_several_objects_is_united() -> None:
    names = ("one", "two")
    objects = [relocatable(f"define amdgpu_kernel void @{n}() {{\n  ret void\n}}\n") for n in names]
    found = codeobject.read(link(objects))
    assert [k.name for k in found.kernels] == ["one", "two"]
    assert all(k.metadata is not None and k.metadata.symbol == k.name + ".kd" for k in found.kernels)


def test_undefined_symbols_are_named() -> None:
    with pytest.raises(CompileError, match="undefined: helper") as caught:
        link([relocatable(GLOBALS + USES + DECLARED)])
    assert "closed" in caught.value.hint


def test_two_definitions_of_a_name_are_an_error() -> None:
    helper = relocatable(HELPER.format(how="protected", by=3))
    with pytest.raises(CompileError, match="helper is defined twice"):
        link([helper, helper])


def test_objects_for_different_processors_are_an_error() -> None:
    source = "define amdgpu_kernel void @{}() {{\n  ret void\n}}\n"
    with pytest.raises(CompileError, match="different processors"):
        link([relocatable(source.format("a")), relocatable(source.format("b"), "gfx942")])


def test_objects_for_other_machines_and_linked_files_are_errors() -> None:
    with pytest.raises(CompileError, match="machine 62"):
        link([compiled(one_store(), Arch("x86_64"))])
    with pytest.raises(CompileError, match="type 3"):
        link([link([relocatable(RICH)])])


def one_store() -> Body:
    body = Body()
    body(UOp.param(0, dtypes.float32, 1, "w").store(0, 1.0))
    return body


@pytest.mark.parametrize(
    ("section", "what"), [(0xFF00, "near memory"), (0xFFF2, "common storage"), (0xFF3F, "special section")]
)
def test_symbols_in_special_sections_are_errors(section: int, what: str) -> None:
    with pytest.raises(CompileError, match=f"shared: it is {what}|shared: it is in {what}"):
        link([with_symbol_in(relocatable(RICH), "shared", section)])


def with_symbol_in(binary: bytes, name: str, section: int) -> bytes:
    """The object with a symbol moved to another section number."""
    of = elf.read(binary)
    (table,) = [s for s in of.sections if s.kind == elf.SHT_SYMTAB]
    number = next(i for i, s in enumerate(of.symbols) if s.name == name)
    at = table.offset + number * elf.SYMBOL.size + 6
    return binary[:at] + section.to_bytes(2, "little") + binary[at + 2 :]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (4, 14, "no constructors"),
        (8, 0x403, "no thread-local storage"),
        (4, 0x60000001, "of type 0x60000001"),
    ],
)
def test_sections_that_kernels_never_have_are_errors(field: int, value: int, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        link([with_section(relocatable(RICH), ".data", field, value, 4)])


def with_section(binary: bytes, name: str, field: int, value: int, size: int) -> bytes:
    """The object with a field of a section header changed."""
    number = next(i for i, s in enumerate(elf.read(binary).sections) if s.name == name)
    (table,) = struct.unpack_from("<Q", binary, 40)
    at = table + number * elf.SECTION.size + field
    return binary[:at] + value.to_bytes(size, "little") + binary[at + size :]


def test_memory_without_content_is_zeros_where_content_follows() -> None:
    stored = relocatable("@a = addrspace(1) global i64 7\n@end = addrspace(1) global i32 9\n")
    more = relocatable("@b = addrspace(1) global i64 8\n")
    empty = with_section(stored, ".data", 4, elf.SHT_NOBITS, 4)
    loaded = load(link([empty, more]))
    a, b = through_gnu(loaded, "a"), through_gnu(loaded, "b")
    assert a is not None and b is not None
    assert loaded.u64(loaded.base + a.value) == 0 and loaded.u64(loaded.base + b.value) == 8
    assert loaded.section(".data").kind == elf.SHT_PROGBITS
    with pytest.raises(CompileError, match="zeros"):
        link([with_section(empty, ".data", 32, 1 << 30, 8), more])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [(32, 1 << 40, "the most is"), (48, 1 << 20, "aligned to"), (48, 24, "aligned to")],
)
def test_sizes_that_no_device_could_hold_are_errors(field: int, value: int, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        link([with_section(relocatable(RICH), ".bss", field, value, 8)])


@pytest.mark.parametrize("arch", GPUS)
def test_the_compiler_gives_code_objects(arch: str) -> None:
    found = codeobject.read(compiled(group_sum(), Arch(arch), (64, 1, 1)))
    assert found.elf.header.kind == elf.ET_DYN and found.architecture.name == arch
    assert [k.name for k in found.kernels] == ["kernel"]
