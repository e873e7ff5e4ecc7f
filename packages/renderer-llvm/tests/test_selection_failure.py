"""LLVM ends the process when it cannot select an instruction. A renderer that asks gfx1100 for a matrix
instruction of gfx942 shows it: the worker dies, the kernel's error has its source, and all else goes on."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiny_core import Context, Device, Tensor
from tiny_core.engine.pool import pool
from tiny_core.errors import CompileError
from tiny_core.render.renderer import Arch

MODULE = "tiny_test_unselectable"
RENDERER = '''
from tiny_renderer_llvm.renderer import LLVMRenderer

MFMA = """declare <4 x float> @llvm.amdgcn.mfma.f32.4x4x1f32(float, float, <4 x float>, i32, i32, i32)
define amdgpu_kernel void @unselectable(ptr addrspace(1) %p) {
  %z = load <4 x float>, ptr addrspace(1) %p
  %x = extractelement <4 x float> %z, i32 0
  %r = call <4 x float> @llvm.amdgcn.mfma.f32.4x4x1f32(float %x, float %x,
                                                       <4 x float> %z, i32 0, i32 0, i32 0)
  store <4 x float> %r, ptr addrspace(1) %p
  ret void
}
"""

class Unselectable(LLVMRenderer):
    """Adds what the chip has not to kernels that reduce."""

    def render(self, linear, signature):
        text = super().render(linear, signature)
        if not signature.name.startswith("r_"):
            return text
        head, attributes = text.rsplit("attributes #0", 1)
        more = MFMA.replace("%p) {", "%p) #0 {")
        return f"{head}{more}attributes #0{attributes}"
'''


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """`UNSEL`: a NULL device with that renderer, which workers find too."""
    (tmp_path / f"{MODULE}.py").write_text(RENDERER)
    sys.path.insert(0, str(tmp_path))
    try:
        renderer = importlib.import_module(MODULE).Unselectable(Arch("gfx1100"))
        null = Device["NULL"].runtime
        yield Device.install("UNSEL", type(null)(), renderer).name
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop(MODULE, None)
        pool.close()


def test_the_worker_dies_and_the_rest_goes_on(device: str) -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0], device=device)
    good, bad = x * 2 + 1, x.sum()
    with Context(CACHE=0):
        for _ in range(2):  # a second attempt meets the same end in a worker of its own
            with pytest.raises(CompileError) as raised:
                Tensor.realize(good, bad)
            message = str(raised.value)
            assert "the compile worker died on kernel" in message and "SIGABRT" in message
            assert "Cannot select" in message, "LLVM's last words"
            assert "@llvm.amdgcn.mfma" in raised.value.source, "the source that did it"
            assert raised.value.hint
            assert not good.is_realized and not bad.is_realized
        good.realize()
    assert good.is_realized
    with Context(CACHE=0):
        y = Tensor([1.0, 2.0], device="CPU")
        assert (y * 3).sum().item() == 9.0


def test_this_process_would_have_died() -> None:
    """What the worker is for: the same module compiled here ends the process."""
    text = RENDERER.split('"""')[1]
    code = (
        "from tiny_renderer_llvm.compiler import LLVMCompiler\n"
        f"LLVMCompiler('amdgcn-amd-amdhsa', 'gfx1100', '').compile({text!r}, 'unselectable')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode < 0 and "Cannot select" in done.stderr
