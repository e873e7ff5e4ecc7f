"""From a selection to objects: the open runtime, and the renderer.

In: specs that hold import strings. Out: instances of the classes they name. Whatever a plugin raises on the
way is a typed error that names the plugin; a device that was opened is kept open and shared until
`close_runtime`.
"""

from __future__ import annotations

import threading
from typing import Final

from tiny_core.errors import DeviceError, PluginError, TinyError
from tiny_core.plugins.catalog import Entry, State, catalog
from tiny_core.plugins.hints import advise
from tiny_core.plugins.loader import load_class, load_name
from tiny_core.plugins.select import Selection, select
from tiny_core.plugins.specs import CheckSpec, CommandSpec, MockSpec, RendererSpec, RuntimeSpec
from tiny_core.plugins.target import Target
from tiny_core.render.renderer import Arch, Renderer
from tiny_core.runtime.runtime import Runtime

_Key = tuple[str, int, str, str, tuple[tuple[str, str], ...]]
_parked: Final[
    dict[_Key, Runtime]
] = {}  # devices opened to see whether they open, until somebody asks for them
_lock: Final = threading.Lock()


def open_runtime(name: str = "", index: int | str = 0) -> Runtime:
    """Open a device. The caller owns it and closes it; `runtime.device.Device` keeps the ones that tensors
    use.

    Args:
        name: device name, or a whole device string; "" for the default device.
        index: which of the equal devices, or the path of a storage device, where `name` does not say so.

    Raises:
        DeviceError, TargetError, PluginError: as `select`; also DeviceError where the device does not open.
    """
    return open_selection(select(f"{name}:{index}" if index and ":" not in name else name))


def open_selection(selection: Selection) -> Runtime:
    """Open the device of a selection; see `open_runtime`."""
    with _lock:
        parked = _parked.pop(_key(selection), None)
    return _construct(selection) if parked is None else parked


def park(selection: Selection) -> None:
    """Open a device and keep it for the next `open_selection` that asks for it."""
    key = _key(selection)
    with _lock:
        if key not in _parked:
            _parked[key] = _construct(selection)


def release_parked() -> None:
    """Close the devices that nobody has asked for."""
    with _lock:
        parked = list(_parked.values())
        _parked.clear()
    for runtime in parked:
        runtime.close()


def make_renderer(selection: Selection) -> Renderer:
    """Return a new renderer for a selection.

    A renderer class is called with the architecture, and with the options of the target as a second argument
    if its spec declares any.

    Raises:
        DeviceError: the device runs no programs.
        TargetError: the renderer does not know the architecture or a feature.
        PluginError: its class cannot be had.
    """
    if selection.renderer is None:
        raise DeviceError(f"{selection.name} runs no programs, so it has no renderer")
    return _renderer(selection.renderer, selection.arch, dict(selection.renderer_options))


def describe(entry: Entry, target: str) -> str:
    """Open what an entry offers as far as a check goes, and return what it is in words; used by the probe.

    A device is opened and closed, with its renderer made and its compiler looked for; a renderer likewise.
    """
    if entry.kind == "runtime":
        selection = select(Target.parse(target)) if not _is_storage(entry) else None
        return _describe_device(selection) if selection else "stores files"
    if entry.kind == "renderer":
        spec = entry.spec
        assert isinstance(spec, RendererSpec)
        return _describe_renderer(_renderer(spec, Arch(spec.archs[0] if spec.archs else ""), {}))
    return "loads"


def load_classes(entry: Entry) -> None:
    """Import what a loaded entry's import strings name.

    Raises:
        PluginError: one of them names nothing, or something else than it should.
    """
    owner = f"{entry.kind} {entry.token} of {entry.plugin}"
    spec = entry.spec
    if isinstance(spec, RuntimeSpec):
        load_class(spec.open, Runtime, owner)  # type: ignore[type-abstract]  # compared with
    elif isinstance(spec, RendererSpec):
        load_class(spec.make, Renderer, owner)  # type: ignore[type-abstract]  # compared with
    elif entry.kind == "command":
        load_name(spec.main if isinstance(spec, CommandSpec) else entry.value, owner)
    for extra in entry.extras:
        if isinstance(extra, MockSpec):
            load_class(extra.open, Runtime, f"mock {extra.iface} of {owner}")  # type: ignore[type-abstract]
        else:
            load_name(extra.run if isinstance(extra, CheckSpec) else extra.hint, owner)


def _describe_device(selection: Selection) -> str:
    runtime = _construct(selection)
    try:
        if selection.renderer is None:
            return "runs no programs"
        renderer = make_renderer(selection)
        if runtime.capabilities.interprets or not runtime.capabilities.stores:
            return f"{renderer.name} {renderer.arch.name}".strip()
        return _describe_renderer(renderer)
    finally:
        runtime.close()


def _describe_renderer(renderer: Renderer) -> str:
    compiler = renderer.compiler().fingerprint()
    text = ", ".join(part for part in (renderer.name, renderer.arch.name, compiler) if part)
    return text if len(text) <= 72 else text[:69] + "..."


def _is_storage(entry: Entry) -> bool:
    return getattr(entry.spec, "profile", "") == "storage"


def _key(selection: Selection) -> _Key:
    options = selection.runtime_options
    return selection.runtime.device, selection.index, selection.path, selection.target.iface, options


def _construct(selection: Selection) -> Runtime:
    spec, target = selection.runtime, selection.target
    entry = catalog().find("runtime", spec.device)
    owner = f"device {spec.device} of {entry.plugin if entry else 'a plugin'}"
    made = load_class(selection.open, Runtime, owner)  # type: ignore[type-abstract]  # compared with
    options = dict(selection.runtime_options)
    if selection.path:
        options["path"] = selection.path
    try:
        runtime = made(selection.index, target.iface, options)
    except TinyError as error:
        advise(error, spec.device)
        _record(entry, State.UNAVAILABLE, error.message, error.hint)
        if not error.hint:
            error.hint = f"tiny doctor {spec.device}"
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        _record(entry, State.UNAVAILABLE, why)
        raise DeviceError(
            f"{selection.name} cannot be opened: {why}", f"tiny doctor {spec.device}"
        ) from error
    _record(entry, State.OPEN)
    return runtime


def _record(entry: Entry | None, state: State, why: str = "", hint: str = "") -> None:
    if entry is not None:
        entry.state, entry.why, entry.hint = state, why, hint


def _renderer(spec: RendererSpec, arch: Arch, options: dict[str, str]) -> Renderer:
    entry = catalog().find("renderer", spec.name)
    owner = f"renderer {spec.name} of {entry.plugin if entry else 'a plugin'}"
    made = load_class(spec.make, Renderer, owner)  # type: ignore[type-abstract]  # compared with
    try:
        # The base class takes the architecture alone; the second argument is agreed on by declaring options.
        return made(arch, options) if spec.options else made(arch)  # type: ignore[call-arg]
    except TinyError as error:
        advise(error, spec.name)
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise PluginError(f"{owner} does not start: {why}", f"tiny doctor {spec.name}") from error
