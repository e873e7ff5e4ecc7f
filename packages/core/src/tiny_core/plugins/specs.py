"""What a plugin declares when it is loaded: frozen data with import strings, so that loading it imports
nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RUNTIME_API: Final = (1, 0)
RENDERER_API: Final = (1, 0)
KERNELS_API: Final = (1, 0)
IR_API: Final = (1, 0)


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """A device.

    Args:
        device: its token in DEV, upper case.
        open: `module:Class`, a subclass of `Runtime`.
        ifaces: interfaces by which it is reached, preferred first; empty where there is one way only.
        renderers: renderer tokens it can run, preferred first; `*` stands for any.
        options: keys of `key=value` items it understands, each with one line of help.
        profile: capability profile it promises: `cpu`, `gpu`, `minimal` or `storage`.
        api: contract number it was written for.
    """

    device: str
    open: str
    ifaces: tuple[str, ...] = ()
    renderers: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    profile: str = "minimal"
    api: tuple[int, int] = RUNTIME_API


@dataclass(frozen=True, slots=True)
class RendererSpec:
    """A renderer.

    Args:
        name: its token in DEV, upper case.
        make: `module:Class`, a subclass of `Renderer`.
        archs: architectures it knows.
        options: as in RuntimeSpec.
        api: contract number it was written for.
        ir: IR contract number it was written for.
    """

    name: str
    make: str
    archs: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    api: tuple[int, int] = RENDERER_API
    ir: tuple[int, int] = IR_API


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A sub-command of `tiny`: `main` is `module:function(argv) -> exit code`."""

    name: str
    help: str
    main: str
