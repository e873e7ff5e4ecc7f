"""The typed way to what plugins offer, and to add something without packaging it.

>>> from tiny_core.plugins import registry
>>> "CPU" in registry.device_names()
True
"""

from __future__ import annotations

from typing import Final

from tiny_core.errors import DeviceError, TargetError
from tiny_core.plugins.builtin import BUILT_IN, OFFICIAL
from tiny_core.plugins.catalog import Entry, catalog
from tiny_core.plugins.hooks import Spec
from tiny_core.plugins.manifest import Kind
from tiny_core.plugins.specs import CommandSpec, RendererSpec, RuntimeSpec
from tiny_core.plugins.target import did_you_mean

# Built-in devices are answered from this table: a program that uses nothing else never looks for plugins.
_BUILT_IN: Final = {o.token: o.profile for b in BUILT_IN for o in b.manifest.offers if o.kind == "runtime"}


def add(spec: Spec) -> None:
    """Offer a device, a renderer or a command from code, without a distribution.

    Raises:
        PluginError: its token is taken, or it was written for contract numbers that core does not serve.
    """
    catalog().add(spec)


def remove(spec: Spec) -> None:
    """Take back `add`; nothing happens if the spec was not added."""
    catalog().remove(spec)


def runtimes() -> tuple[RuntimeSpec, ...]:
    """Return the devices that are loaded; loads none."""
    return tuple(e.spec for e in catalog().entries("runtime") if isinstance(e.spec, RuntimeSpec))


def renderers() -> tuple[RendererSpec, ...]:
    """Return the renderers that are loaded; loads none."""
    return tuple(e.spec for e in catalog().entries("renderer") if isinstance(e.spec, RendererSpec))


def commands() -> tuple[CommandSpec, ...]:
    """Return the commands that are loaded; loads none."""
    return tuple(e.spec for e in catalog().entries("command") if isinstance(e.spec, CommandSpec))


def runtime(token: str) -> RuntimeSpec:
    """Return a device's spec, loading its plugin.

    Raises:
        DeviceError: nothing offers it.
        PluginError: what offers it cannot be used.
    """
    from tiny_core.plugins.loader import load

    entry = catalog().find("runtime", token.upper())
    if entry is None:
        raise unknown_device(token)
    spec = load(entry)
    assert isinstance(spec, RuntimeSpec)
    return spec


def renderer(token: str) -> RendererSpec:
    """Return a renderer's spec, loading its plugin.

    Raises:
        TargetError: nothing offers it.
        PluginError: what offers it cannot be used.
    """
    from tiny_core.plugins.loader import load

    entry = catalog().find("renderer", token.upper())
    if entry is None:
        raise TargetError(f"there is no renderer {token}", advice("renderer", token.upper()))
    spec = load(entry)
    assert isinstance(spec, RendererSpec)
    return spec


def device_names() -> tuple[str, ...]:
    """Return the tokens of all devices that anything offers, sorted; imports no plugin."""
    return catalog().tokens("runtime")


def is_storage(name: str) -> bool:
    """Return whether device `name` stores files, so that a path names one of it; imports no plugin.

    Raises:
        DeviceError: nothing offers the device.
    """
    profile = _BUILT_IN.get(name)
    if profile is not None:
        return profile == "storage"
    claims = catalog().claims("runtime", name)
    if not claims:
        raise unknown_device(name)
    return any(_profile(entry) == "storage" for entry in claims)


def unknown_device(name: str) -> DeviceError:
    """Return the error for a device that nothing offers."""
    return DeviceError(f"there is no device {name}", advice("runtime", name))


def advice(kind: Kind, token: str) -> str:
    """Return what to do about a token that nothing offers: install its wheel, a close match, or the list."""
    known = catalog().tokens(kind)
    if (kind, token) in OFFICIAL:
        return f"pip install {OFFICIAL[kind, token]}"
    official = [t for k, t in OFFICIAL if k == kind]
    word = "devices" if kind == "runtime" else f"{kind}s"
    return did_you_mean(token, (*known, *official), f"{word}: {', '.join(known)}")


def _profile(entry: Entry) -> str:
    if isinstance(entry.spec, RuntimeSpec):
        return entry.spec.profile
    return entry.offer.profile if entry.offer is not None else ""
