"""The target under test: what is open, what it declares, and the profile it promises.

In: a target as in `DEV=`. Out: a `Target`, whose capabilities have names. Tests ask by these names and never
for a device: a capability that is declared must work, and tests of one that is not are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tiny_core.api import Capabilities, Renderer, Runtime

EMULATED: Final = frozenset(
    ("float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "int64",
     "uint64", "int8", "uint8", "int16", "uint16")
)  # fmt: skip
"""Dtypes that core takes apart for targets that lack them."""

CAPABILITIES: Final = {
    "executes": "runs programs",
    "stores": "keeps data, so that results can be looked at",
    "views": "has memory at an offset of other memory, which kernels accept",
    "host_visible": "its handles are addresses that the host reads and writes",
    "peers": "copies between two devices of its kind without the host's memory",
    "interprets": "executes the text of kernels: no compiler runs, and large sizes take too long",
    "own_queue": "has a queue of its own instead of blocking calls",
    "threads": "kernels are host programs with a thread axis",
    "grid": "kernels run over work-groups and work-items",
    "group_memory": "work-items of a group share memory and wait for each other",
    "subgroups": "work-items run in lockstep",
    "vectors": "values have lanes",
    "fma": "multiplies and adds in one instruction",
    "matrix_units": "has matrix units",
}
"""Capabilities by name, a line each. Besides these, each declared dtype is one: `float16`, `int64`, …"""

PROFILES: Final[dict[str, frozenset[str]]] = {
    "minimal": frozenset(("executes", "bool", "int32", "float32")),
    "cpu": frozenset(
        ("executes", "stores", "views", "host_visible", "threads", "vectors", "bool", "int8", "int16",
         "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
    ),
    "gpu": frozenset(
        ("executes", "stores", "views", "grid", "group_memory", "bool", "int8", "int16", "int32", "uint8",
         "uint16", "uint32", "float16", "float32")
    ),
    "storage": frozenset(("stores", "views")),
}  # fmt: skip
"""What a profile requires. A plugin that states a profile and declares less fails level 0."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is tested.

    Args:
        name: as given to --target.
        device: its canonical name, `CPU` or `ACME`.
        capabilities: names of what it declares, dtypes among them.
        renderer: token of its renderer; "" if it runs no programs.
        arch: the architecture that the renderer renders for.
        packages: top-level packages of its runtime and its renderer.
    """

    name: str
    device: str
    capabilities: frozenset[str]
    renderer: str = ""
    arch: str = ""
    packages: tuple[str, ...] = ()

    @property
    def stores(self) -> bool:
        """Whether results can be read; if not, kernels are compiled and their results not looked at."""
        return "stores" in self.capabilities

    @property
    def interprets(self) -> bool:
        """Whether kernels are interpreted: tests of large sizes are left out."""
        return "interprets" in self.capabilities

    def has(self, name: str) -> bool:
        """Return whether it declares a capability."""
        return name in self.capabilities

    def runs(self, dtype: str) -> bool:
        """Return whether kernels on this dtype must work."""
        return dtype in self.capabilities or dtype in EMULATED


def capability_names(runtime: Runtime, capabilities: Capabilities | None) -> frozenset[str]:
    """Return the names of what a runtime and a renderer declare."""
    from tiny_core.api import Runtime as Base

    traits = runtime.capabilities
    names = {
        name
        for name in ("executes", "stores", "views", "host_visible", "peers", "interprets")
        if getattr(traits, name)
    }
    if type(runtime).queue is not Base.queue:
        names.add("own_queue")
    if capabilities is None:
        return frozenset(names)
    names.update(d.name for d in capabilities.dtypes)
    names.add(capabilities.launch)
    shared = [s for s in capabilities.spaces if s.scope == "group"]
    for name, holds in (
        ("group_memory", capabilities.launch == "grid" and bool(shared) and capabilities.max_items > 1),
        ("subgroups", capabilities.subgroup > 1),
        ("vectors", any(widths for _, widths in capabilities.lanes)),
        ("fma", bool(capabilities.fma)),
        ("matrix_units", bool(capabilities.matrices)),
    ):
        if holds:
            names.add(name)
    return frozenset(names)


def open_target(name: str) -> Target:
    """Open the default device of DEV and describe it.

    Raises:
        TinyError: the target does not exist or cannot be opened.
    """
    from tiny_core import Device

    device = Device[Device.DEFAULT]
    runtime = device.runtime
    renderer: Renderer | None = device.renderer if runtime.capabilities.executes else None
    makers = [type(runtime), *([type(renderer)] if renderer is not None else [])]
    return Target(
        name,
        device.name,
        capability_names(runtime, renderer.capabilities if renderer is not None else None),
        renderer.name if renderer is not None else "",
        renderer.arch.name if renderer is not None else "",
        tuple(dict.fromkeys(m.__module__.partition(".")[0] for m in makers)),
    )
