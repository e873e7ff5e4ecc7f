"""Print every kernel, as linear text, that a fixed set of programs generates for a fixed target.

A refactoring that should change no kernel is checked to change none: run it at both revisions and compare.
"""

from __future__ import annotations

import os

os.environ.setdefault("DEV", "NULL:LLVM:x86_64_v3")


def main() -> None:
    """Schedule the programs and print their kernels."""
    from tiny_core import Tensor
    from tiny_core.codegen.pipeline import generate
    from tiny_core.ir.text import format as text
    from tiny_core.runtime.device import Device
    from tiny_core.schedule.item import KernelItem
    from tiny_core.schedule.scheduler import schedule

    def programs() -> dict[str, Tensor]:
        a, b = Tensor.empty(64, 48), Tensor.empty(48, 80)
        image, weight = Tensor.empty(2, 3, 12, 12), Tensor.empty(8, 3, 3, 3)
        out = image.conv2d(weight, padding=1).relu()
        return {
            "add": a + 1,
            "matmul": (a @ b).relu(),
            "softmax": a.softmax(),
            "layernorm": a.layernorm(),
            "sum": a.sum(),
            "conv": out,
            "conv gradient": out.sum().gradient(weight)[0],
            "pool": out.max_pool2d(),
        }

    renderer = Device[Device.DEFAULT].kit.renderer
    for name, tensor in programs().items():
        for item in schedule([tensor.uop]).items:
            if isinstance(item, KernelItem):
                print(f"; {name}")
                print(text(generate(item.kernel, renderer).linear, renumber=True))


if __name__ == "__main__":
    main()
