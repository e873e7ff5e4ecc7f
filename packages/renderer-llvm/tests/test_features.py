"""Features by name, closure over what they need, and what they make a CPU capable of."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

import pytest

from tiny_core.api import Arch, Ops, TargetError, dtypes
from tiny_renderer_llvm import caches, features
from tiny_renderer_llvm.cpu import CPU


def on(arch: Arch) -> set[str]:
    return {f for f, there in CPU(arch).arch.features if there}


def test_flags_of_the_kernel_have_llvms_names() -> None:
    flags = "fpu sse2 pni sse4_1 avx512_vnni avx_vnni avx512_bf16 abm bmi1"
    text = f"processor : 0\nflags : {flags}\n\nprocessor : 1\nflags : avx2\n"
    found = features.from_cpuinfo(text, features.X86)
    assert found == {"sse2", "sse3", "sse4.1", "avx512vnni", "avxvnni", "avx512bf16", "lzcnt", "bmi"}
    arm = features.from_cpuinfo("Features\t: fp asimd asimdhp asimddp\n", features.ARM)
    assert arm == {"neon", "fullfp16", "dotprod"}


def test_a_feature_whose_needs_are_missing_is_not_used() -> None:
    listed = dict(features.complete("x86_64", {"sse2", "avx512bw"}, ()))
    assert listed["sse2"] and not listed["avx512bw"]


def test_forbidding_a_feature_forbids_what_needs_it() -> None:
    v4 = on(Arch("x86_64_v4"))
    without = on(Arch("x86_64_v4", (("avx512f", False),)))
    assert {f for f in v4 if f.startswith("avx512")} == v4 - without
    assert on(Arch("x86_64_v4", (("fma", False),))) == without - {"fma"}
    assert on(Arch("x86_64_v4", (("sse4_1", False),))).isdisjoint({"avx", "avx2", "sse4.2"})
    with pytest.raises(TargetError, match="cannot do without sse2"):
        CPU(Arch("x86_64_v4", (("sse2", False),)))


def test_asking_for_a_feature_brings_what_it_needs() -> None:
    assert on(Arch("x86_64", (("avx512_fp16", True),))) >= {"avx512fp16", "avx512vl", "fma", "avx2", "ssse3"}


def test_an_unknown_feature_is_an_error_with_the_closest_names() -> None:
    with pytest.raises(TargetError, match=r"avx512g.*\n.*avx512f"):
        CPU(Arch("x86_64", (("avx512g", True),)))


def test_a_named_architecture_is_the_same_everywhere() -> None:
    assert on(Arch("x86_64")) == {"sse2"}
    assert CPU(Arch("x86_64_v3")).features.count("+") == len(features.BASELINES["x86_64_v3"])


def test_the_host_has_what_its_level_needs() -> None:
    name = features.host_arch()
    assert on(Arch()) >= set(features.BASELINES[name])
    assert CPU(Arch()).arch.name == name


class Kernel:
    """Stands in for the C library: answers arch_prctl(ARCH_GET_XCOMP_SUPP) as a kernel would."""

    def __init__(self, mask: int, status: int) -> None:
        self.mask, self.status = mask, status
        self.asked: list[tuple[int, int]] = []

    def syscall(self, number: ctypes.c_long, code: ctypes.c_long, pointer: object) -> int:
        self.asked.append((number.value, code.value))
        if self.status == 0:
            pointer._obj.value = self.mask  # type: ignore[attr-defined]  # what ctypes.byref points to
        return self.status


@pytest.mark.parametrize(
    ("mask", "status", "there"),
    [
        (0x602E7, 0, True),  # all that Sapphire Rapids has
        (0x202E7, 0, False),  # tile configuration without tile data
        (0x2E7, 0, False),
        (0, -1, False),  # a kernel before 5.16: EINVAL
    ],
)
def test_amx_is_there_if_the_kernel_gives_tiles(
    mask: int, status: int, there: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = Kernel(mask, status)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: kernel)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags : fpu sse2 pni avx amx_tile amx_int8 amx_bf16\n")
    found = features.host_features("x86_64", str(cpuinfo))
    assert {f for f in found if f.startswith("amx-")} == (set(features.UNUSED) if there else set())
    assert {"sse2", "sse3", "avx"} <= found
    assert kernel.asked == [(158, 0x1021)], "a question, not a request for permission"


def test_a_machine_without_amx_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(features, "components", lambda: pytest.fail("asked"))
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags : fpu sse2\n")
    assert features.host_features("x86_64", str(cpuinfo)) == {"sse2"}


def test_tiles_are_known_but_not_used() -> None:
    assert not features.UNUSED & set(on(Arch()))


_WIDTHS = [("x86_64", 16, 16), ("x86_64_v3", 32, 16), ("x86_64_v4", 64, 32), ("aarch64", 16, 32)]


@pytest.mark.parametrize(("name", "vector", "registers"), _WIDTHS)
def test_capabilities_follow_features(name: str, vector: int, registers: int) -> None:
    can = CPU(Arch(name)).capabilities
    assert (can.vector_bytes, can.registers) == (vector, registers)
    assert max(can.widths(dtypes.float32)) == vector
    assert can.launch == "threads" and can.caches


def test_ops_that_would_be_library_calls_are_not_declared() -> None:
    old, new = CPU(Arch("x86_64")).capabilities, CPU(Arch("x86_64_v4")).capabilities
    assert not old.supports(Ops.TRUNC, dtypes.float32) and new.supports(Ops.TRUNC, dtypes.float32)
    assert dtypes.float16 not in old.dtypes and dtypes.float16 in new.dtypes
    assert not old.fma and new.fma == {dtypes.float32, dtypes.float64}
    assert all(dtypes.bfloat16 not in c.dtypes for c in (old, new))


def test_private_caches_are_read_from_the_system(tmp_path: Path) -> None:
    rows = [("1", "Data", "48K", "0"), ("1", "Instruction", "32K", "0"), ("2", "Unified", "2M", "0,2"),
            ("3", "Unified", "107520K", "0-3")]  # fmt: skip
    for i, row in enumerate(rows):
        folder = tmp_path / "cache" / f"index{i}"
        folder.mkdir(parents=True)
        for file, text in zip(("level", "type", "size", "shared_cpu_list"), row, strict=True):
            (folder / file).write_text(text + "\n")
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "thread_siblings_list").write_text("0,2\n")
    assert caches.private_caches(tmp_path) == (48 << 10, 2 << 20)
    assert caches.last_cache(tmp_path) == 105 << 20
    assert caches.private_caches(tmp_path / "nothing") == caches.UNKNOWN
    assert caches.last_cache(tmp_path / "nothing") == 0


def test_the_fingerprint_knows_features_and_caches() -> None:
    from tiny_renderer_llvm.renderer import LLVMRenderer

    texts = {LLVMRenderer(a).fingerprint() for a in (Arch("x86_64"), Arch("x86_64_v4"), Arch("gfx942"))}
    assert len(texts) == 3
    assert "caches=" in texts.pop()
