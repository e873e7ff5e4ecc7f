"""The loader: objects that run, relocations against the ABIs' definitions, and everything that must be
refused."""

from __future__ import annotations

import ctypes
import platform
import random
import struct
from pathlib import Path

import pytest

from tiny_core.api import LaunchError
from tiny_core.devices.cpu import elf, loader, relocate
from tiny_core.devices.cpu.c_compiler import CCompiler

from .cpu_programs import needs_compiler, pool_binary, renderer

BASE = 0x7F00_1234_0000

SOURCE = """
int counter = 5;
static int cleared[100];
static const double table[4] = {1.5, 2.5, 3.5, 4.5};
static int twice(int x);
int *where(void) { return &counter; }
int count(int by) { counter += twice(by); cleared[7] += by; return counter + cleared[7]; }
double pick(int i) { return table[i & 3]; }
int (*choose(int i))(int) { return i ? count : twice; }
__attribute__((noinline)) static int twice(int x) { return 2 * x; }
"""


def make_object(
    text: bytes,
    relocations: list[tuple[int, int, int, int]] = (),  # type: ignore[assignment]  # none
    machine: int = 62,
    symbols: list[tuple[str, int, int]] = (),  # type: ignore[assignment]  # none
    data: bytes = b"",
) -> bytes:
    """An object with .text and .data; symbols are (name, section, value) with sections 0 (undefined), 1
    (.text) and 2 (.data), relocations of .text are (offset, kind, symbol number from 1, addend)."""
    strings = b"\0" + b"".join(n.encode() + b"\0" for n, _, _ in symbols)
    at, rows = 1, [bytes(24)]
    for symbol, section, value in symbols:
        rows.append(struct.pack("<IBBHQQ", at, 0x10, 0, section, value, 0))
        at += len(symbol) + 1
    rela = b"".join(struct.pack("<QQq", o, s << 32 | k, a) for o, k, s, a in relocations)
    names = b"\0.text\0.data\0.symtab\0.strtab\0.rela\0.shstrtab\0"
    bodies = [b"", text, data, b"".join(rows), strings, rela, names]
    offsets, end = [], 64
    for body in bodies:
        offsets.append(end)
        end += -(-len(body) // 8) * 8
    kinds = [(0, 0, 0, 0), (1, 6, 0, 0), (1, 3, 0, 0), (2, 0, 4, 1), (3, 0, 0, 0), (4, 0, 3, 1), (3, 0, 0, 0)]
    table = b""
    labels = [b"\0", b".text", b".data", b".symtab", b".strtab", b".rela\0", b".shstrtab"]
    for i, (body, (kind, flags, link, info)) in enumerate(zip(bodies, kinds, strict=True)):
        name, size = names.find(labels[i]), len(body)
        table += struct.pack(
            "<IIQQQQIIQQ", name, kind, flags, 0, offsets[i], size, link, info, 16 if i == 2 else 4, 0
        )
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 1, machine, 1, 0, 0, end, 0, 64, 0, 0, 64, len(bodies), 6
    )
    return header + b"".join(b + bytes(-len(b) % 8) for b in bodies) + table


def link(binary: bytes) -> tuple[loader.Layout, bytearray]:
    parsed = elf.parse(binary)
    layout = loader.lay_out(parsed, 4096)
    image = bytearray(layout.nbytes)
    loader.link(parsed, layout, memoryview(image), BASE)
    return layout, image


@needs_compiler
@pytest.mark.parametrize(
    "visibility", ["hidden", "default"]
)  # the latter goes through the table of addresses
def test_code_constants_variables_and_calls(visibility: str) -> None:
    compiler = CCompiler(renderer().arch)
    compiler.options.append(f"-fvisibility={visibility}")
    binary = compiler.compile(SOURCE, "count")
    machine = renderer().arch.name
    got = {r.kind for r in elf.parse(binary).relocations} & relocate.GOT[machine]
    assert bool(got) == (visibility == "default")
    loaded = loader.load(binary)
    count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(loaded.entry("count"))
    assert count(3) == 5 + 6 + 3
    assert count(1) == 13 + 4
    pick = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int)(loaded.entry("pick"))
    assert [pick(i) for i in range(4)] == [1.5, 2.5, 3.5, 4.5]
    where = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_int))(loaded.entry("where"))
    assert where()[0] == 13
    choose = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(loaded.entry("choose"))
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(choose(0))(21) == 42


@needs_compiler
def test_no_page_is_writable_and_executable() -> None:
    loaded = loader.load(CCompiler(renderer().arch).compile(SOURCE, "count"))
    rights = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if begin < loaded.address + loaded.nbytes and end > loaded.address:
            rights.add(line.split()[1])
    assert "r-xp" in rights and not any("w" in r and "x" in r for r in rights)


@needs_compiler
def test_every_truncation_is_refused() -> None:
    binary = pool_binary()
    for size in [*range(200), *range(200, len(binary), 37)]:
        with pytest.raises(LaunchError):
            loader.load(binary[:size])


@needs_compiler
def test_damaged_objects_are_refused_or_harmless() -> None:
    """Nothing but LaunchError comes out of a damaged object, whatever was damaged."""
    source, pick = pool_binary(), random.Random(4)
    refused = 0
    for _ in range(400):
        damaged = bytearray(source)
        for _ in range(pick.randint(1, 4)):
            damaged[pick.choice((pick.randrange(64), pick.randrange(len(source))))] = pick.randrange(256)
        try:
            parsed = elf.parse(bytes(damaged))
            layout = loader.lay_out(parsed, 4096)
            if layout.nbytes < 1 << 24:
                loader.link(parsed, layout, memoryview(bytearray(layout.nbytes)), BASE)
        except LaunchError:
            refused += 1
    assert 0 < refused < 400


def test_undefined_symbols_are_named() -> None:
    binary = make_object(bytes(16), [(0, 4, 2, -4)], symbols=[("kernel", 1, 0), ("memcpy", 0, 0)])
    with pytest.raises(LaunchError, match="undefined symbols: memcpy"):
        link(binary)


def test_unknown_relocation_is_named() -> None:
    binary = make_object(bytes(16), [(0, 77, 1, 0)], symbols=[("kernel", 1, 0)])
    with pytest.raises(LaunchError, match="unknown x86_64 relocation 77 against 'kernel'"):
        link(binary)


def test_relocations_out_of_range_are_refused() -> None:
    for kind in (10, 11):  # 32-bit absolute addresses, in a mapping far above them
        binary = make_object(bytes(16), [(0, kind, 1, 0)], symbols=[("kernel", 1, 0)])
        with pytest.raises(LaunchError, match="does not fit"):
            link(binary)
    binary = make_object(bytes(16), [(14, 2, 1, 0)], symbols=[("kernel", 1, 0)])
    with pytest.raises(LaunchError, match="outside its section"):
        link(binary)


def test_other_machines_objects_are_refused() -> None:
    other = 183 if platform.machine() == "x86_64" else 62
    with pytest.raises(LaunchError, match="the object is for"):
        loader.load(make_object(bytes(16), machine=other))
    with pytest.raises(LaunchError, match="machine 40"):
        loader.load(make_object(bytes(16), machine=40))
    with pytest.raises(LaunchError, match="not an ELF object"):
        loader.load(b"MZ" + bytes(100))


def test_missing_entry_names_what_there_is() -> None:
    machine = 62 if platform.machine() == "x86_64" else 183
    loaded = loader.load(make_object(bytes(16), machine=machine, symbols=[("kernel", 1, 0)]))
    with pytest.raises(LaunchError, match=r"no symbol 'other'(.|\n)*kernel"):
        loaded.entry("other")


def test_x86_64_relocations() -> None:
    """PC-relative ones give S + A - P, the table's give its slot, which holds S; 64-bit ones give S + A."""
    symbols = [("code", 1, 8), ("datum", 2, 24)]
    kinds = [(0, 2, 2, -4), (4, 4, 1, -4), (8, 1, 2, 3), (16, 42, 2, -4), (20, 9, 2, -4), (24, 24, 1, 0)]
    layout, image = link(make_object(bytes(32), kinds, symbols=symbols, data=bytes(range(64))))
    code, datum = BASE + layout.offsets[1] + 8, BASE + layout.offsets[2] + 24
    text = layout.offsets[1]

    def signed(offset: int) -> int:
        return int.from_bytes(image[text + offset : text + offset + 4], "little", signed=True)

    place = BASE + text
    assert place + 0 + 4 + signed(0) == datum
    assert place + 4 + 4 + signed(4) == code
    assert int.from_bytes(image[text + 8 : text + 16], "little") == datum + 3
    for offset in (16, 20):
        slot = place + offset + 4 + signed(offset) - BASE
        assert int.from_bytes(image[slot : slot + 8], "little") == datum
    assert (place + 24 + int.from_bytes(image[text + 24 : text + 32], "little")) % 2**64 == code
    assert image[layout.offsets[2] :][:64] == bytes(range(64)) and layout.offsets[2] % 4096 == 0


def test_aarch64_relocations() -> None:
    """Immediates are decoded as the Arm ARM defines ADRP, ADD, LDR and the branches, and give the symbol's
    address."""
    adrp, add, bl, ldr, cond, test = 0x90000001, 0x91000021, 0x94000000, 0xF9400021, 0x54000000, 0x36000000
    q, b = 0x3DC00021, 0x39400021
    text = struct.pack("<12I", adrp, add, bl, adrp, ldr, cond, test, ldr, q, b, 0, 0)
    symbols = [("code", 1, 4), ("datum", 2, 48)]
    kinds = [
        (0, 275, 2, 0), (4, 277, 2, 1), (8, 283, 1, 0), (12, 311, 2, 0), (16, 312, 2, 0), (20, 280, 1, 0),
        (24, 279, 1, 0), (28, 286, 2, 0), (32, 299, 2, 0), (36, 278, 2, 1), (40, 257, 2, 5),
    ]  # fmt: skip
    layout, image = link(make_object(text, kinds, 183, symbols, bytes(64)))
    start = BASE + layout.offsets[1]
    code, datum = start + 4, BASE + layout.offsets[2] + 48

    def word(i: int) -> int:
        return int.from_bytes(image[layout.offsets[1] + 4 * i :][:4], "little")

    def sign(value: int, bits: int) -> int:
        return value - (1 << bits) if value >> (bits - 1) else value

    def page(i: int) -> int:
        field = sign((word(i) >> 5 & 0x7FFFF) << 2 | word(i) >> 29 & 3, 21)
        return ((start + 4 * i) & ~0xFFF) + (field << 12)

    def low(i: int) -> int:
        return word(i) >> 10 & 0xFFF

    assert page(0) + low(1) == datum + 1
    assert start + 8 + 4 * sign(word(2) & 0x3FFFFFF, 26) == code
    slot = page(3) + 8 * low(4) - BASE
    assert int.from_bytes(image[slot : slot + 8], "little") == datum
    assert start + 20 + 4 * sign(word(5) >> 5 & 0x7FFFF, 19) == code
    assert start + 24 + 4 * sign(word(6) >> 5 & 0x3FFF, 14) == code
    assert 8 * low(7) == datum & 0xFFF and 16 * low(8) == datum & 0xFFF and low(9) == (datum + 1) & 0xFFF
    assert int.from_bytes(image[layout.offsets[1] + 40 :][:8], "little") == datum + 5
    assert word(0) & 0x9F00001F == adrp and word(2) >> 26 == bl >> 26, "opcode and register are kept"


def test_misaligned_scaled_offset_is_refused() -> None:
    binary = make_object(bytes(16), [(0, 286, 1, 4)], 183, [("datum", 2, 0)], bytes(64))
    with pytest.raises(LaunchError, match="LDST64"):
        link(binary)
