"""Selection: from DEV and a tensor's device string to the specs that serve it.

In: the setting DEV and a device string. Out: a `Selection`. What was named is used or is an error: there is
no fallback. Where DEV is not set, detected devices are tried by priority, each failure is one warning, and
CPU is the last resort; NULL, PYTHON, DISK, mock interfaces and plugins without a manifest are never chosen
unless named.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tiny_core.errors import DeviceError, PluginError, TinyError
from tiny_core.plugins import loader, registry
from tiny_core.plugins.builtin import LAST_RESORT, NEVER_CHOSEN, OFFICIAL
from tiny_core.plugins.catalog import REFUSED, Catalog, Entry, PluginWarning, State, catalog
from tiny_core.plugins.specs import MockSpec, RendererSpec, RuntimeSpec
from tiny_core.plugins.target import Target, did_you_mean, parse_dev, parse_device
from tiny_core.settings import DEV, PLUGINS, STRICT

if TYPE_CHECKING:
    from tiny_core.render.renderer import Arch, Renderer
    from tiny_core.runtime.runtime import Runtime

_ANY = ("LLVM", "C")  # what `*` in a device's renderers stands for where none is named


@dataclass(frozen=True, slots=True)
class Selection:
    """What serves a device.

    Args:
        target: the target of DEV that configures it, or the bare device.
        name: canonical device string: `CPU`, `CPU:1`, `DISK:/path`.
        index: number that the runtime knows the device by (that of `target.indices`, where given); 0 for
            storage.
        path: of storage devices, else "".
        runtime: its spec.
        renderer: spec of the renderer; None for devices that run no programs.
        arch: what to render for.
        runtime_options: options of the target that the runtime knows.
        renderer_options: options of the target that only the renderer knows.
        open: import string of the class to open it with: that of a mock interface, or of the device.
    """

    target: Target
    name: str
    index: int
    path: str
    runtime: RuntimeSpec
    renderer: RendererSpec | None
    arch: Arch
    runtime_options: tuple[tuple[str, str], ...]
    renderer_options: tuple[tuple[str, str], ...]
    open: str


def default_device() -> str:
    """Return the name of the default device: the first one in DEV, else the best one that opens.

    Raises:
        TargetError: DEV is malformed.
        DeviceError: nothing can be used, or, under STRICT, a detected device does not open.
    """
    targets = _dev(DEV.value)
    return targets[0].device if targets else _chosen()


def select(device: str | Target = "") -> Selection:
    """Return what serves a device.

    Args:
        device: a tensor's device string, "" for the default device, or a target, to ignore DEV.

    Raises:
        DeviceError: the device is unknown, or has no renderer that works.
        TargetError: DEV is malformed, or names an unknown device, interface, renderer, architecture or
            option.
        PluginError: a plugin that was named cannot be used.
    """
    if isinstance(device, Target):
        return _resolve(device, 0)
    targets = _dev(DEV.value)
    if not device:
        return _resolve(targets[0] if targets else Target(_chosen()), 0)
    name, at = parse_device(device)
    return _resolve(next((t for t in targets if t.device == name), Target(name)), at)


def open_device(name: str) -> tuple[Runtime, Renderer | None]:
    """Open a device and make its renderer (None if it runs no programs); see `opening`, which does it."""
    from tiny_core.plugins.opening import make_renderer, open_selection

    selection = select(name)
    return open_selection(selection), None if selection.renderer is None else make_renderer(selection)


def chosen_devices() -> Iterator[Entry]:
    """Yield the devices that are tried where DEV is not set, best first; imports no plugin."""
    table = catalog()
    ranked = [e for e in table.entries("runtime") if _may_be_chosen(table, e)]
    ranked.sort(key=lambda e: (-e.offer.priority if e.offer else 0, e.token))
    yield from ranked
    last = table.find("runtime", LAST_RESORT)
    assert last is not None, "CPU is built in"
    yield last


# ---- devices -----------------------------------------------------------------------------------------------

_dev = lru_cache(maxsize=16)(parse_dev)
_picked: dict[str, str] = {}  # TINY_PLUGINS -> the device chosen for it; cleared by `forget`


def forget() -> None:
    """Choose the default device anew when it is next asked for; close what was opened to see whether it is
    one."""
    from tiny_core.plugins.opening import release_parked

    _picked.clear()
    release_parked()


def _may_be_chosen(table: Catalog, entry: Entry) -> bool:
    offer = entry.offer
    if offer is None or offer.detect is None or entry.token in NEVER_CHOSEN or entry.token == LAST_RESORT:
        return False
    if offer.ifaces and all(i.startswith("MOCK") for i in offer.ifaces):
        return False
    return table.status(entry).state not in REFUSED and not offer.detect.missing()


def _chosen() -> str:
    """The best device that opens. One warning for each better one that does not: never a silent fallback."""
    from tiny_core.plugins.opening import park

    key = PLUGINS.value
    if key in _picked:
        return _picked[key]
    for entry in chosen_devices():
        if entry.token != LAST_RESORT:
            try:
                park(_resolve(Target(entry.token), 0))
            except TinyError as error:
                advice = f"tiny doctor {entry.token}"
                if STRICT:
                    raise DeviceError(
                        f"{entry.token} was detected but does not open: {error.message}", advice
                    ) from error
                message = f"{entry.token} was detected but does not open: {error.message}; see `{advice}`"
                warnings.warn(PluginWarning(message), stacklevel=3)
                continue
        _picked[key] = entry.token
        return entry.token
    raise AssertionError("the last resort is always yielded")


def _resolve(target: Target, at: int | str) -> Selection:
    entry = catalog().find("runtime", target.device)
    if entry is None:
        raise target.error(
            "device", f"unknown device {target.device}", registry.advice("runtime", target.device)
        )
    runtime = loader.load(entry)
    assert isinstance(runtime, RuntimeSpec)
    opened = _check_iface(target, runtime, entry)
    index, path = _place(target, runtime, at)
    renderer = _named_renderer(target, runtime) if target.renderer else _preferred_renderer(target, runtime)
    if renderer is not None:
        _check_arch(target, renderer)
    elif target.arch or target.features:
        part = "arch" if target.arch else target.features[0][0]
        raise target.error(part, f"{runtime.device} runs no programs, so it has no architecture")
    ours, theirs = _options(target, runtime, renderer)
    name = runtime.device + (f":{at}" if at else "")
    return Selection(target, name, index, path, runtime, renderer, target.to_arch(), ours, theirs, opened)


def _check_iface(target: Target, runtime: RuntimeSpec, entry: Entry) -> str:
    """What opens the device through the interface that the target names: the device's class, or a mock's."""
    mocks = {x.iface: x.open for x in entry.extras if isinstance(x, MockSpec)}
    known = (*runtime.ifaces, *(m for m in mocks if m not in runtime.ifaces))
    if target.iface and target.iface not in known:
        hint = f"interfaces: {', '.join(known)}" if known else f"write {target.device} alone"
        message = f"{runtime.device} has no interface {target.iface}"
        raise target.error("iface", message, did_you_mean(target.iface, known, hint))
    return mocks.get(target.iface, runtime.open)


def _place(target: Target, runtime: RuntimeSpec, at: int | str) -> tuple[int, str]:
    """The number by which the runtime knows the device, and the path of a storage device."""
    if isinstance(at, str):
        return 0, at
    if not target.indices:
        return at, ""
    if at >= len(target.indices):
        raise DeviceError(
            f"there is no {runtime.device}:{at}: DEV={target} shows {len(target.indices)} of them",
            "counting begins at 0, in the order given in DEV",
        )
    return target.indices[at], ""


# ---- renderers ---------------------------------------------------------------------------------------------


def _named_renderer(target: Target, runtime: RuntimeSpec) -> RendererSpec:
    """The renderer that the target names, if the device accepts it."""
    name = target.renderer
    if not runtime.renderers:
        raise target.error("renderer", f"{runtime.device} runs no programs, so it has no renderer")
    if "*" not in runtime.renderers and name not in runtime.renderers:
        known = f"{runtime.device} runs {', '.join(runtime.renderers)}"
        hint = did_you_mean(name, runtime.renderers, known)
        raise target.error("renderer", f"{runtime.device} cannot run what {name} renders", hint)
    entry = catalog().find("renderer", name)
    if entry is None:
        raise target.error("renderer", f"unknown renderer {name}", registry.advice("renderer", name))
    spec = loader.load(entry)
    assert isinstance(spec, RendererSpec)
    return spec


def _preferred_renderer(target: Target, runtime: RuntimeSpec) -> RendererSpec | None:
    """The first renderer in the device's order of preference that is there and works."""
    if not runtime.renderers:
        return None
    hints: list[str] = []
    reasons: list[str] = []
    for token in _expand(runtime.renderers):
        entry = catalog().find("renderer", token)
        if entry is None or not _is_owner(entry):
            owner = OFFICIAL.get(("renderer", token))
            reasons.append(f"{token} is not installed")
            hints.append(f"pip install {owner}" if owner else f"install a plugin that offers {token}")
            continue
        if catalog().status(entry).state is State.DISABLED:
            reasons.append(f"{token} is disabled by {catalog().status(entry).why}")
            continue
        missing = entry.offer.detect.missing() if entry.offer and entry.offer.detect else ""
        if missing:
            reasons.append(f"{token}: {missing}")
            hints.append(f"install what {token} needs ({missing.removeprefix('no ')})")
            continue
        try:
            spec = loader.load(entry)
        except PluginError as error:
            if STRICT:
                raise
            reasons.append(error.message)
            _warn_once(entry, f"{target.device} goes without its preferred renderer: {error.message}")
            continue
        assert isinstance(spec, RendererSpec)
        return spec
    raise DeviceError(f"{runtime.device} has no renderer: {'; '.join(reasons)}", ", or ".join(hints))


def _expand(tokens: tuple[str, ...]) -> Iterator[str]:
    for token in tokens:
        if token == "*":
            yield from (t for t in _ANY if t not in tokens)
        else:
            yield token


def _is_owner(entry: Entry) -> bool:
    """Whether an entry may serve its token unasked: our wheels' tokens are theirs alone."""
    owner = OFFICIAL.get((entry.kind, entry.token))
    return owner is None or entry.plugin.origin != "installed" or entry.plugin.name == owner


_warned: set[tuple[str, str]] = set()


def _warn_once(entry: Entry, message: str) -> None:
    key = (entry.plugin.name, entry.token)
    if key not in _warned:
        _warned.add(key)
        warnings.warn(PluginWarning(f"{message}; see `tiny doctor {entry.token}`"), stacklevel=4)


def _check_arch(target: Target, renderer: RendererSpec) -> None:
    if target.arch and renderer.archs and target.arch not in renderer.archs:
        known = f"{renderer.name} renders for {', '.join(renderer.archs)}"
        hint = did_you_mean(target.arch, renderer.archs, known)
        raise target.error("arch", f"{renderer.name} does not know the architecture {target.arch}", hint)


def _options(
    target: Target, runtime: RuntimeSpec, renderer: RendererSpec | None
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """The target's options, dealt out to runtime and renderer; a key that neither knows is an error."""
    ours, theirs = dict(runtime.options), dict(renderer.options) if renderer is not None else {}
    for key, _ in target.options:
        if key not in ours and key not in theirs:
            every = {**ours, **theirs}
            known = ", ".join(f"{k} ({h})" for k, h in every.items()) or "none"
            hint = did_you_mean(key, every, f"options: {known}")
            raise target.error(key, f"{runtime.device} has no option {key!r}", hint)
    return (
        tuple(o for o in target.options if o[0] in ours),
        tuple(o for o in target.options if o[0] in theirs and o[0] not in ours),
    )


__all__ = ["Selection", "chosen_devices", "default_device", "forget", "open_device", "select"]
