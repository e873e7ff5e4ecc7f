"""What the CPU device declares to the plugin host."""

from __future__ import annotations

from tiny_core.api import CheckSpec, RendererSpec, RuntimeSpec


def tiny_runtimes() -> list[RuntimeSpec]:
    return [
        RuntimeSpec(
            device="CPU",
            open="tiny_core.devices.cpu.runtime:CpuRuntime",
            renderers=("LLVM", "C"),
            options=(("threads", "number of threads, by default the cores this process may use"),),
            profile="cpu",
        )
    ]


def tiny_renderers() -> list[RendererSpec]:
    return [RendererSpec(name="C", make="tiny_core.devices.cpu.c:CRenderer", archs=("x86_64", "aarch64"))]


def tiny_doctor_checks() -> list[CheckSpec]:
    run = "tiny_core.devices.cpu.c_compiler:look"
    return [CheckSpec("cpu.compiler", "C", "the C compiler is one that kernels are tested with", run)]
