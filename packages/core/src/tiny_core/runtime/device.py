"""Open devices: `Device["CPU:1"]` opens a device once and keeps it, with its runtime, renderer, memory and
programs.

Devices are opened at first use and closed at exit. In a forked child they stay open where the runtime can go
on (`Runtime.after_fork`); each starts with new locks.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, final

from tiny_core.errors import DeviceError, TargetError
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Arch, Compiled, Compiler, Renderer
from tiny_core.runtime.memory import Memory
from tiny_core.runtime.runtime import ProgramHandle, Runtime
from tiny_core.settings import DEV

if TYPE_CHECKING:
    from tiny_core.plugins.select import Selection

ProgramKey = tuple[UOp, tuple[tuple[str, int | str | float], ...]]
"""A kernel, and the settings that generated code depends on."""
_MAX_PROGRAMS: Final = 8192


@final
class Program:
    """A compiled kernel of a device, loaded at its first use.

    Attributes:
        compiled: what was compiled.
        launches: a memo of launch dimensions by scalar values, for whoever launches it.
        shown: whether debug output has shown it.
        takes: what it takes of the machine, for debug output; None until that asks.
    """

    __slots__ = ("_device", "_handle", "compiled", "launches", "shown", "takes")

    def __init__(self, compiled: Compiled, device: OpenDevice) -> None:
        self.compiled = compiled
        self.launches: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.shown = False
        self.takes: str | None = None
        self._device = device
        self._handle: ProgramHandle | None = None

    @property
    def handle(self) -> ProgramHandle:
        """What the runtime loaded; raises LaunchError if it does not accept the binary."""
        if self._handle is None:
            self._handle = self._device.runtime.load(self.compiled)
        return self._handle


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a renderer was made, so that another process can make it again: the class as `module:name`, the
    architecture that was asked for (the host's looks for the host's features and caches), and options, None
    if it takes none."""

    make: str
    arch: Arch
    options: tuple[tuple[str, str], ...] | None = None


@final
class Kit:
    """A renderer for a device, and what was made with it.

    Attributes:
        renderer: writes kernels.
        recipe: how it was made.
        target_keys: memo of the part of a cache key that depends on the target, by what is compiled.
    """

    def __init__(self, renderer: Renderer, recipe: Recipe) -> None:
        self.renderer, self.recipe = renderer, recipe
        self.target_keys: dict[str, str] = {}
        self.programs: OrderedDict[ProgramKey, Program] = OrderedDict()
        self._compiler: Compiler | None = None

    @property
    def compiler(self) -> Compiler:
        """Raises DeviceError where the renderer's toolkit is missing."""
        if self._compiler is None:
            self._compiler = self.renderer.compiler()
        return self._compiler


@final
class OpenDevice:
    """A device in use.

    Attributes:
        name: canonical: `CPU`, `CPU:1`.
        runtime: runs things on it.
        memory: its allocator.
        busy: whether commands may be under way; set by whoever submits.
        pooled: whether the runtime has been given the worker pool of its renderer.
    """

    def __init__(self, name: str, runtime: Runtime, opening: Opening) -> None:
        self.name, self.runtime = name, runtime
        self.memory = Memory(runtime, name)
        self.lock = threading.RLock()
        self.busy = self.pooled = False
        self._opening = opening
        self._kits: dict[str, Kit] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<{self.name}: {type(self.runtime).__name__}>"

    @property
    def kit(self) -> Kit:
        """The renderer that DEV names for this device now, and its programs.

        Raises:
            DeviceError: the device runs no kernels.
        """
        configuration = self._opening.configuration()
        kit = self._kits.get(configuration)
        if kit is None:
            with self.lock:
                if not self.runtime.capabilities.executes:
                    raise DeviceError(
                        f"{self.name} stores data and runs no kernels",
                        "move the tensor to another device with .to(…)",
                    )
                kit = self._kits.setdefault(configuration, Kit(*self._opening.renderer(self)))
                self.runtime.learn(kit.renderer.operations)
        return kit

    @property
    def renderer(self) -> Renderer:
        """As `kit`; raises DeviceError."""
        return self.kit.renderer

    def program(self, key: ProgramKey) -> Program | None:
        """Return the program of a kernel, or None."""
        with self.lock:
            programs = self.kit.programs
            program = programs.get(key)
            if program is not None:
                programs.move_to_end(key)
            return program

    def add_program(self, key: ProgramKey, compiled: Compiled) -> Program:
        """Remember a compiled kernel. If another thread was faster, theirs is the program."""
        with self.lock:
            programs = self.kit.programs
            program = programs.setdefault(key, Program(compiled, self))
            while len(programs) > _MAX_PROGRAMS:
                programs.popitem(last=False)
        return program

    def forget_programs(self) -> None:
        """Drop all programs; those that captured calls hold stay."""
        with self.lock:
            self._kits.clear()

    def synchronize(self) -> None:
        """Wait until all submitted work is done; storage is asked each time, since files change by
        themselves."""
        if self.busy or not self.runtime.capabilities.executes:
            self.busy = False
            self.runtime.synchronize()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._kits.clear()
            self.memory.close()
            self._opening.close(self)

    def after_fork(self) -> None:
        """Go on in a forked child: locks may have been held by threads that are not there."""
        self.lock = threading.RLock()
        self.memory.after_fork()
        self.runtime.after_fork()


class Opening(Protocol):
    """Where a device's parts come from."""

    def configuration(self) -> str:
        """Return text that names the renderer chosen now."""

    def renderer(self, device: OpenDevice) -> tuple[Renderer, Recipe]:
        """Return that renderer, made anew."""

    def close(self, device: OpenDevice) -> None:
        """Close the device's runtime."""


@final
class _Installed:
    """A runtime and a renderer that somebody gave us."""

    def __init__(self, renderer: Renderer | None) -> None:
        self._renderer = renderer

    def configuration(self) -> str:
        return ""

    def renderer(self, device: OpenDevice) -> tuple[Renderer, Recipe]:
        renderer = self._renderer
        if renderer is None:
            raise DeviceError(f"{device.name} has no renderer")
        kind = type(renderer)
        return renderer, Recipe(f"{kind.__module__}:{kind.__qualname__}", renderer.arch)

    def close(self, device: OpenDevice) -> None:
        device.runtime.close()


@final
class _Selected:
    """What DEV and the plugins say. DEV may change (`Context`): then the renderer does, and the runtime may
    not."""

    def __init__(self, selection: Selection) -> None:
        self._how = _how(selection)

    def configuration(self) -> str:
        return DEV.value

    def renderer(self, device: OpenDevice) -> tuple[Renderer, Recipe]:
        from tiny_core.plugins.opening import make_renderer
        from tiny_core.plugins.select import select

        selection = select(device.name)
        if _how(selection) != self._how:
            raise DeviceError(
                f"{device.name} is open with other options than DEV={DEV.value!r} asks for",
                "set options before its first use, or call Device.close() first (its tensors are lost)",
            )
        spec = selection.renderer
        assert spec is not None, f"{device.name} executes"
        options = selection.renderer_options if spec.options else None
        return make_renderer(selection), Recipe(spec.make, selection.arch, options)

    def close(self, device: OpenDevice) -> None:
        device.runtime.close()


def _how(selection: Selection) -> Hashable:
    """What an open runtime depends on."""
    where = (selection.index, selection.path, selection.target.iface)
    return (selection.runtime, where, selection.runtime_options)


_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(?::(\d+))?(.*)", re.DOTALL)


@final
class Devices:
    """The registry of open devices, by name.

    >>> Device.canonicalize("cpu:0")
    'CPU'
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[str, OpenDevice] = {}
        self._default: str | None = None

    def __getitem__(self, name: str) -> OpenDevice:
        """Return the device, opening it if need be.

        Raises:
            TargetError: the name is malformed or unknown.
            DeviceError: it cannot be opened.
        """
        device = self._open.get(name)
        if device is not None:
            return device
        canonical = self.canonicalize(name)
        with self._lock:
            device = self._open.get(canonical)
            if device is None:
                from tiny_core.plugins.opening import open_selection
                from tiny_core.plugins.select import select

                chosen = select(canonical)
                device = OpenDevice(canonical, open_selection(chosen), _Selected(chosen))
                self._open[canonical] = device
            return device

    @property
    def assigned(self) -> str | None:
        """What DEFAULT has been set to, if it has."""
        return self._default

    @property
    def DEFAULT(self) -> str:  # noqa: N802 - the field's name for it
        """The device of tensors that name none: assigned, else the first target of DEV."""
        if self._default is None:
            from tiny_core.plugins.select import default_device as chosen

            return self.canonicalize(chosen())
        return self._default

    @DEFAULT.setter
    def DEFAULT(self, name: str | None) -> None:  # noqa: N802
        self._default = None if name is None else self.canonicalize(name)

    def canonicalize(self, name: str | None) -> str:
        """Return the one name of a device: upper case, no `:0`; None is the default device.

        Raises:
            TargetError: it does not read as a device.
        """
        if name is None:
            return self.DEFAULT
        match = _NAME.fullmatch(name)
        if match is None:
            raise TargetError(f"{name!r} is not a device", "examples: CPU, CPU:1, NULL, DISK:/path/to/file")
        token, index, rest = match.groups()
        if rest and not rest.startswith(":"):
            raise TargetError(f"{name!r} is not a device", "examples: CPU, CPU:1, NULL, DISK:/path/to/file")
        return token.upper() + (f":{int(index)}" if index and int(index) else "") + rest

    def is_open(self, canonical: str) -> bool:
        """Return whether the device of this (canonical) name is open."""
        return canonical in self._open

    def opened(self) -> tuple[OpenDevice, ...]:
        """Return the devices that are open."""
        return tuple(self._open.values())

    def install(self, name: str, runtime: Runtime, renderer: Renderer | None) -> OpenDevice:
        """Use this runtime and renderer for `name`, instead of what DEV and the plugins say.

        A device already open under the name is closed first; its tensors are lost.
        """
        canonical = self.canonicalize(name)
        with self._lock:
            self.close(canonical)
            device = self._open[canonical] = OpenDevice(canonical, runtime, _Installed(renderer))
            return device

    def close(self, name: str) -> None:
        """Close a device if it is open; its tensors are lost."""
        with self._lock:
            device = self._open.pop(self.canonicalize(name), None)
            if device is not None:
                device.close()

    def close_all(self) -> None:
        """Close every device, the last opened first."""
        while self._open:
            self._open.popitem()[1].close()

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        for device in self._open.values():
            device.after_fork()


Device: Final = Devices()


def default_device() -> str:
    """Return the name of the device of tensors that name none."""
    return Device.DEFAULT


atexit.register(Device.close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Device._after_fork)
