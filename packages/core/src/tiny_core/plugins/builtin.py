"""What core itself offers, in the form in which any plugin is described. Data only: a row per built-in
plugin.

Built-in plugins go through the same catalog and the same loading as others, but without pluggy and without an
entry point, and TINY_PLUGINS does not reach them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tiny_core.plugins.detect import Detect
from tiny_core.plugins.manifest import Manifest, Offer
from tiny_core.plugins.specs import IR_API, RENDERER_API, RUNTIME_API

_API: Final = (("runtime", RUNTIME_API), ("renderer", RENDERER_API), ("ir", IR_API))


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A module of core with plain functions named like the hooks."""

    module: str
    manifest: Manifest


BUILT_IN: Final = (
    BuiltIn("tiny_core.engine.health", Manifest("core", "provisional", _API)),  # checks of core itself
    BuiltIn(
        "tiny_core.devices.cpu.plugin",
        Manifest(
            "cpu",
            "provisional",
            _API,
            (
                Offer("runtime", "CPU", profile="cpu", help="the host; the last resort where DEV is not set"),
                # `$CC` first, as everywhere; the renderer itself picks the compiler in the same order.
                Offer("renderer", "C", detect=Detect(any_program=("$CC", "cc", "gcc", "clang"))),
            ),
        ),
    ),
    BuiltIn(
        "tiny_core.devices.null",
        Manifest("null", "provisional", _API, (Offer("runtime", "NULL", help="compiles, runs nothing"),)),
    ),
    BuiltIn(
        "tiny_core.devices.python.plugin",
        Manifest(
            "python",
            "provisional",
            _API,
            (
                Offer("runtime", "PYTHON", help="interprets kernels; the definition of every op"),
                Offer("renderer", "PYTHON"),
            ),
        ),
    ),
    BuiltIn(
        "tiny_core.devices.disk",
        Manifest(
            "disk",
            "provisional",
            _API,
            (Offer("runtime", "DISK", profile="storage", help="files as tensors"),),
        ),
    ),
)
LAST_RESORT: Final = "CPU"
NEVER_CHOSEN: Final = frozenset({"NULL", "PYTHON", "DISK"})

# Tokens that belong to wheels of this project. Another distribution may serve one only where its wheel is not
# installed, and only by explicit name: what DEV=CPU does must not depend on who else says "LLVM". A list,
# because nobody can own a name prefix on a package index.
OFFICIAL: Final = {
    ("renderer", "LLVM"): "tiny-renderer-llvm",
    ("renderer", "PTX"): "tiny-renderer-ptx",
    ("renderer", "METAL"): "tiny-runtime-metal",
    ("runtime", "AMD"): "tiny-runtime-amd",
    ("runtime", "NV"): "tiny-runtime-nv",
    ("runtime", "METAL"): "tiny-runtime-metal",
    ("kernels", "CDNA"): "tiny-kernels-cdna",
}
