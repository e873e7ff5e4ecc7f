"""What this wheel offers: one device and the renderer for it. Data with import strings; nothing else is
imported.
"""

from __future__ import annotations

from tiny_core.api import RendererSpec, RuntimeSpec, hookimpl


@hookimpl
def tiny_runtimes() -> tuple[RuntimeSpec, ...]:
    """The devices."""
    memory = ("memory", "megabytes of device memory, by default 64")
    return (RuntimeSpec("ACME", "acme_tiny.runtime:AcmeRuntime", renderers=("ACME",), options=(memory,)),)


@hookimpl
def tiny_renderers() -> tuple[RendererSpec, ...]:
    """The renderers."""
    return (RendererSpec("ACME", "acme_tiny.renderer:AcmeRenderer", archs=("k1",)),)
