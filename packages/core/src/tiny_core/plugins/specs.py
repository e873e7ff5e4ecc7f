"""What a plugin declares when it is loaded: frozen data with import strings, so that loading it imports
nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

RUNTIME_API: Final = (1, 1)
RENDERER_API: Final = (1, 1)
KERNELS_API: Final = (1, 0)
IR_API: Final = (1, 1)


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


# ---- what a plugin says beside that: since RUNTIME_API 1.1 -------------------------------------------------


@dataclass(frozen=True, slots=True)
class MockSpec:
    """An interface of a device that needs no hardware: `DEV=MOCK+AMD`. Never chosen unless named.

    Args:
        device: token of a device of the same plugin.
        iface: name of the interface; begins with MOCK. The manifest lists it among the device's `ifaces`.
        open: `module:Class`, a subclass of `Runtime`; called as the device's own is.
        archs: architectures it can stand for; empty where it does not matter.
    """

    device: str
    iface: str
    open: str
    archs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """Something for `tiny doctor` to look at.

    Args:
        name: of its row: `acme.driver`.
        token: device or renderer of the same plugin that it belongs to.
        summary: one line.
        run: `module:function(target) -> Iterable[Check]`, called in a process of its own with a DEV target.
    """

    name: str
    token: str
    summary: str
    run: str


@dataclass(frozen=True, slots=True)
class HintSpec:
    """Advice on errors of a device or renderer.

    Args:
        token: device or renderer of the same plugin whose errors it knows.
        hint: `module:function(error) -> str`, given a TinyError; "" where it has nothing to say.
    """

    token: str
    hint: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A command of `tiny` that mends what a check found.

    Args:
        words: those of its command line, without `tiny`: `("cache", "clear")`.
        says: exactly what it does.
    """

    words: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Check:
    """What a check found.

    Args:
        mark: OK, WARN (works, but) or FAIL.
        text: what is so.
        next: what to do about it.
        fix: a command that does it.
    """

    mark: Literal["OK", "WARN", "FAIL"]
    text: str
    next: str = ""
    fix: Fix | None = None
