"""What the PYTHON device declares to the plugin host."""

from __future__ import annotations

from tiny_core.api import RendererSpec, RuntimeSpec


def tiny_runtimes() -> tuple[RuntimeSpec, ...]:
    return (
        RuntimeSpec(
            "PYTHON",
            open="tiny_core.devices.python.runtime:PythonRuntime",
            renderers=("PYTHON", "*"),
            options=(("check", "0: do not look for races between work-items"),),
        ),
    )


def tiny_renderers() -> tuple[RendererSpec, ...]:
    return (RendererSpec("PYTHON", make="tiny_core.devices.python.renderer:PythonRenderer"),)
