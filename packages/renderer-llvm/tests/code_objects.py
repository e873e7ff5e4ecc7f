"""Modules with everything that relocations are about, and a loader that puts linked files into memory."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiny_core.api import Arch
from tiny_renderer_llvm import elf
from tiny_renderer_llvm.compiler import LLVMCompiler
from tiny_renderer_llvm.renderer import LLVMRenderer

GLOBALS = """
@table = internal addrspace(4) constant [4 x i32] [i32 3, i32 1, i32 4, i32 1], align 16
@shared = addrspace(1) global i32 5, align 4
@zeros = addrspace(1) global [100 x i32] zeroinitializer, align 64
@quiet = weak addrspace(1) global i32 3
@hidden = hidden addrspace(1) global i64 9
@guarded = protected addrspace(1) global i32 11
@pointers = addrspace(1) constant [3 x ptr addrspace(1)] [ptr addrspace(1) @shared, ptr addrspace(1) @hidden,
    ptr addrspace(1) getelementptr (i8, ptr addrspace(1) @zeros, i64 8)]
@links = addrspace(1) global [2 x ptr addrspace(1)] [ptr addrspace(1) @links, ptr addrspace(1) @guarded]
"""
USES = """
define amdgpu_kernel void @kernel(ptr addrspace(1) %out, i64 %i) {
  %a = getelementptr i32, ptr addrspace(4) @table, i64 %i
  %b = load i32, ptr addrspace(4) %a
  %c = load i32, ptr addrspace(1) @shared
  %d = load i32, ptr addrspace(1) @zeros
  %e = load i32, ptr addrspace(1) @quiet
  %f = load i32, ptr addrspace(1) @hidden
  %g = load i32, ptr addrspace(1) @guarded
  %h = getelementptr ptr addrspace(1), ptr addrspace(1) @pointers, i64 %i
  %j = load ptr addrspace(1), ptr addrspace(1) %h
  %k = load i32, ptr addrspace(1) %j
  %s = add i32 %b, %c
  %t = add i32 %d, %e
  %u = add i32 %f, %g
  %v = add i32 %s, %t
  %w = add i32 %u, %k
  %x = add i32 %v, %w
  %y = call i32 @helper(i32 %x)
  %z = getelementptr i32, ptr addrspace(1) %out, i64 %i
  store i32 %y, ptr addrspace(1) %z
  ret void
}
define amdgpu_kernel void @other(ptr addrspace(1) %out) {
  store ptr addrspace(1) @links, ptr addrspace(1) %out
  ret void
}
"""
HELPER = "define {how} i32 @helper(i32 %x) noinline {{\n  %y = mul i32 %x, {by}\n  ret i32 %y\n}}\n"
# what LLVM's code generator does not emit, and its assembler does
ASSEMBLY = """
    .amdhsa_code_object_version 5
    .text
    .globl f
    .protected f
    .p2align 8
    .type f,@function
f:
    s_getpc_b64 s[4:5]
    s_add_u32 s4, s4, data@rel32@lo+4
    s_addc_u32 s5, s5, data@rel32@hi+12
    s_add_u32 s4, s4, data@gotpcrel32@lo+4
    s_addc_u32 s5, s5, data@gotpcrel32@hi+12
    s_branch far
    s_endpgm
    .size f, .-f
    .section .text.far,"ax",@progbits
    .globl far
    .hidden far
far:
    s_nop 0
    s_branch f
    s_endpgm
    .data
    .globl data
    .p2align 3
    .type data,@object
data:
    .quad f
    .quad data+16
    .quad number
    .long f-.
    .long data@GOTPCREL
    .quad f-.
    .size data, .-data
    .globl number
number = 0x123456789abcdef0
    .section .debug_line,"",@progbits
    .long data
    .quad f
    .quad data+8
"""
ABSOLUTE = """
    .text
    s_mov_b32 s6, number@abs32@lo
    s_mov_b32 s7, number@abs32@hi
"""
DECLARED = "declare i32 @helper(i32)\n"
RICH = GLOBALS + USES + HELPER.format(how="hidden", by=3)


def compiler(arch: str) -> LLVMCompiler:
    made = LLVMRenderer(Arch(arch)).compiler()
    assert isinstance(made, LLVMCompiler)
    return made


def relocatable(source: str, arch: str = "gfx1100") -> bytes:
    return compiler(arch).relocatable(source)


def tool(name: str) -> str:
    """The path of an LLVM tool that knows these processors (LLVM 18 or later); skips the test if there is
    none."""
    for version in range(25, 17, -1):
        if found := shutil.which(f"{name}-{version}"):
            return found
    pytest.skip(f"{name} of LLVM 18 or later is not installed")


def assembled(source: str, arch: str = "gfx1100") -> bytes:
    """The object that LLVM's assembler makes of a text; skips the test where it is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tool("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=obj"]
        subprocess.run([*command, "-o", f"{folder}/a.o"], input=source, text=True, check=True)
        return Path(f"{folder}/a.o").read_bytes()


def by_lld(objects: list[bytes], *options: str) -> bytes:
    """What ld.lld makes of objects."""
    path = shutil.which("ld.lld-19") or shutil.which("ld.lld")
    if path is None:
        pytest.skip("ld.lld is not installed (apt-get install lld-19)")
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for i, data in enumerate(objects):
            names.append(f"{folder}/{i}.o")
            Path(names[-1]).write_bytes(data)
        out = f"{folder}/out.so"
        subprocess.run([path, "-shared", "--no-undefined", *options, *names, "-o", out], check=True)
        return Path(out).read_bytes()


@dataclass
class Loaded:
    """A linked file in memory at `base`, relocated."""

    of: elf.Elf
    base: int
    memory: bytearray

    def u64(self, address: int) -> int:
        (value,) = struct.unpack_from("<Q", self.memory, address - self.base)
        return int(value)

    def u32(self, address: int) -> int:
        (value,) = struct.unpack_from("<I", self.memory, address - self.base)
        return int(value)

    def u64_of(self, low: int, high: int) -> int:
        """A number whose halves are at two places."""
        return self.u32(low) | self.u32(high) << 32

    def section(self, name: str) -> elf.Section:
        return next(s for s in self.of.sections if s.name == name)

    def where(self, address: int) -> tuple[str, int]:
        """The section that an address lies in, and the offset in it; "" and the number itself for others."""
        for s in self.of.sections:
            inside = s.flags & elf.SHF_ALLOC and s.address <= address - self.base < s.address + max(s.size, 1)
            if inside and s.name != ".relro_padding":
                return s.name, address - self.base - s.address
        return "", address

    def dynamic(self) -> dict[int, int]:
        """The dynamic section, found through its segment."""
        (at,) = [g for g in self.of.segments if g.kind == elf.PT_DYNAMIC]
        found = {}
        for i in range(at.memory_size // 16):
            tag = self.u64(self.base + at.address + 16 * i)
            if not tag:
                break
            found[tag] = self.u64(self.base + at.address + 16 * i + 8)
        return found

    def symbol(self, number: int) -> elf.Symbol:
        """A dynamic symbol, found through the dynamic section."""
        tags = self.dynamic()
        at = self.base + tags[6] + 24 * number
        name, info, other, section, value, size = elf.SYMBOL.unpack_from(self.memory, at - self.base)
        start = tags[5] + name
        text = bytes(self.memory[start : self.memory.index(0, start)]).decode()
        return elf.Symbol(text, value, size, info & 15, info >> 4, other & 3, section)


def load(binary: bytes, base: int = 0x7F00_0000_0000) -> Loaded:
    """Do what a loader does: map the segments, then apply the relocations that DT_RELA names."""
    of = elf.read(binary)
    loads = [g for g in of.segments if g.kind == elf.PT_LOAD]
    memory = bytearray(max(g.address + g.memory_size for g in loads))
    for g in loads:
        assert g.address % g.align == g.offset % g.align and g.file_size <= g.memory_size
        memory[g.address : g.address + g.file_size] = binary[g.offset : g.offset + g.file_size]
    loaded = Loaded(of, base, memory)
    tags = loaded.dynamic()
    for i in range(tags.get(8, 0) // 24):
        offset, info, addend = elf.RELA.unpack_from(memory, tags[7] + 24 * i)
        kind, symbol = info & 0xFFFFFFFF, info >> 32
        assert kind in (3, 13), f"relocation type {kind} is left to the loader"
        value = base + addend + (loaded.symbol(symbol).value if kind == 3 else 0)
        struct.pack_into("<Q", memory, offset, value)
    return loaded
