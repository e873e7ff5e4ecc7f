"""`tiny-llvm` and `tiny llvm`: what they print and how they end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from code_objects import RICH, relocatable
from llvm_kernels import compiled
from test_targets import group_sum

from tiny_core.api import Arch, DataError, SpecError, TargetError, TinyError, text
from tiny_renderer_llvm import command, features
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.link import link
from tiny_renderer_llvm.renderer import ARCHS

DOUBLE = """
linear "double"
%p0 : f32[8] = param 0 w align=32
%p1 : f32[8] = param 1 r align=32
%0 : i32 = const 0
%1 : f32[4] = load %p1[%0] lanes=4 align=32
%2 : f32[4] = add %1 %1
%3 = store %p0[%0] %2 lanes=4 align=32
"""
SCRIPT = """
import sys
from tiny_core import Tensor
n = int(sys.argv[1])
assert len(sys.argv) == 3
(Tensor.empty(n, n) @ Tensor.empty(n, n)).relu().realize()
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command.main(words) == 0
    return capsys.readouterr().out


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    (tmp_path / "double.txt").write_text(DOUBLE)
    return str(tmp_path / "double.txt")


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "targets")
    assert all(name in out for name in ARCHS) and "160 KiB" in out
    data = json.loads(run(capsys, "targets", "--json"))
    assert data["host"]["name"] == features.host_arch()
    assert set(data["host"]["features"]) == features.host_features(features.host_arch())
    assert [g["name"] for g in data["gpus"]] == list(ARCHITECTURES)
    assert [c["name"] for c in data["cpus"]] == list(features.BASELINES)


@pytest.mark.parametrize(
    ("target", "ir", "asm"),
    [
        ("x86_64_v3", "<4 x float>", "addps"),
        ("aarch64", "<4 x float>", "fadd"),
        ("gfx942", "addrspace(1)", "s_endpgm"),
        ("gfx1201", "addrspace(1)", "s_endpgm"),
        ("", "<4 x float>", "ret"),
    ],
)
def test_ir_and_assembly_of_a_kernel_in_text_form(
    target: str, ir: str, asm: str, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--target", target] if target else []
    out = run(capsys, "ir", kernel, *words)
    assert "@double(" in out and ir in out
    assert asm in run(capsys, "asm", kernel, *words)


def test_features_of_a_target(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "vaddps" in run(capsys, "asm", kernel, "--target", "x86_64_v3")
    assert "vaddps" not in run(capsys, "asm", kernel, "--target", "x86_64_v3,-avx")
    assert command.parse_arch("x86_64,avx2,-fma") == Arch("x86_64", (("avx2", True), ("fma", False)))


def test_a_kernel_before_code_generation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tiny_core import Context, Tensor
    from tiny_core.schedule.item import KernelItem
    from tiny_core.schedule.scheduler import schedule

    with Context(DEV="NULL:LLVM:gfx1100"):
        tensor = (Tensor.empty(64, 32) @ Tensor.empty(32, 64)).relu()
        (item,) = [i for i in schedule([tensor.uop]).items if isinstance(i, KernelItem)]
    path = tmp_path / "matmul.txt"
    path.write_text(text.format(item.kernel))
    out = run(capsys, "asm", str(path), "--target", "gfx1100")
    assert ".amdhsa_kernel r_64_64_r32" in out and "v_fma" in out
    assert "define void @r_64_64_r32" in run(capsys, "ir", str(path), "--target", "x86_64_v3")


def test_items_and_groups_of_a_list_are_its_launch_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "sum.txt"
    path.write_text(text.format(group_sum().linear()))
    out = run(capsys, "ir", str(path), "--target", "gfx942")
    assert '"amdgpu-flat-work-group-size"="64,64"' in out


def outside(*words: str) -> subprocess.CompletedProcess[str]:
    code = "from tiny_renderer_llvm.command import script; raise SystemExit(script())"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("action", "sign"),
    [("ir", "define amdgpu_kernel void @r_64_64_r64"), ("asm", ".amdhsa_kernel r_64_64_r64")],
)
def test_all_kernels_of_a_script(action: str, sign: str, tmp_path: Path) -> None:
    path = tmp_path / "matmul.py"
    path.write_text(SCRIPT)
    done = outside(action, str(path), "--target", "gfx1100", "--", "64", "--target")
    assert done.returncode == 0, done.stderr
    assert sign in done.stdout


def test_one_kernel_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(SCRIPT + "(Tensor.empty(8, 8) + 1).realize()\n")
    both = outside("ir", str(path), "--target", "gfx942", "--", "32", "x")
    assert both.returncode == 0, both.stderr
    one = outside("ir", str(path), "--target", "gfx942", "--kernel", "2", "--", "32", "x")
    assert one.returncode == 0, one.stderr
    assert both.stdout.count("define amdgpu_kernel") == 2 and one.stdout.count("define amdgpu_kernel") == 1
    assert "@e_64" in one.stdout


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_code_object_is_shown(arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sum.so"
    path.write_bytes(compiled(group_sum(), Arch(arch), (64, 1, 1)))
    out = run(capsys, "object", str(path))
    assert out.startswith(f"shared object for {arch}, ") and f"amdgcn-amd-amdhsa--{arch}" in out
    for part in (
        "kernel kernel: ",
        "256 B near, occupancy",
        "p1        global_buffer",
        "kernel.kd",
        "LOAD",
        ".text",
    ):
        assert part in out
    data = json.loads(run(capsys, "object", str(path), "--json"))
    (kernel,) = data["kernels"]
    assert kernel["resources"]["near"] == kernel["descriptor"]["group_segment_fixed_size"] == 256
    assert [s["name"] for s in data["symbols"]] == ["kernel", "kernel.kd"]
    assert kernel["metadata"]["arguments"][0]["name"] == "p0" and data["architecture"] == arch


def test_objects_before_and_after_linking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rich"
    path.write_bytes(relocatable(RICH))
    before = run(capsys, "object", str(path))
    assert "relocatable object" in before and "GOTPCREL32_LO" in before and "not linked" in before
    path.write_bytes(link([relocatable(RICH)]))
    after = run(capsys, "object", str(path))
    assert "RELATIVE64" in after and "GNU_RELRO" in after and ".data.rel.ro" in after


def test_an_object_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(link([relocatable(RICH)])))
    monkeypatch.setattr(sys, "stdin", stream)
    assert "kernel other" in run(capsys, "object", "-")


@pytest.mark.parametrize(
    ("content", "words", "error", "message"),
    [
        ("", ["ir", "FILE", "--target", "gfx906"], TargetError, "gfx906"),
        (DOUBLE.replace("lanes=4", "lanes=3"), ["ir", "FILE"], TinyError, "lanes|shape"),
        ("%0 : f32 = const 1.0\nsink %0\n", ["ir", "FILE"], SpecError, "kernel"),
        (DOUBLE, ["ir", "FILE", "--kernel", "1"], DataError, "script"),
        (DOUBLE, ["object", "FILE"], DataError, "not an ELF file"),
    ],
)
def test_what_is_wrong_is_a_typed_error(
    content: str, words: list[str], error: type[TinyError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(error, match=message):
        command.main([str(path) if w == "FILE" else w for w in words])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["object", "/nothing"], 1, "tiny-llvm: /nothing cannot be read"),
        (["asm", "/nothing", "--target", "gfx1"], 2, "hint: known are"),
        (["frobnicate"], 2, "invalid choice"),
        ([], 2, "usage: tiny-llvm"),
    ],
)
def test_exit_codes(
    words: list[str],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["tiny-llvm", *words])
    assert command.script() == code
    assert said in capsys.readouterr().err


def test_it_is_a_command_of_tiny(capsys: pytest.CaptureFixture[str]) -> None:
    from tiny_core.cli.main import main

    assert main(["llvm", "targets"]) == 0
    assert "gfx1201" in capsys.readouterr().out
    assert main(["llvm", "object", "/nothing"]) == 1
    assert main(["--help"]) == 0
    assert "targets, ir, asm, object" in capsys.readouterr().out
