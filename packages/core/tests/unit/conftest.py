"""The fixture that installs plugins: distributions in a folder of its own on `sys.path`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiny_core import Device
from tiny_core.plugins import catalog, select

Install = Callable[..., Path]
PLUGIN = """
from tiny_core.api import RendererSpec, RuntimeSpec, hookimpl

@hookimpl
def tiny_runtimes():
    return (RuntimeSpec("{token}", open="{package}.runtime:Device", renderers=("{token}",)),)

@hookimpl
def tiny_renderers():
    return (RendererSpec("{token}", make="{package}.render:Source"),)
"""
RUNTIME = """
from tiny_core.api import DeviceError, Runtime, RuntimeCapabilities

class Device(Runtime):
    capabilities = RuntimeCapabilities()

    def __init__(self, index=0, iface="", options=None):
        super().__init__(index, iface, options)
        if index > 1:
            raise DeviceError(f"there is no {token}:{{index}}")

    def allocate(self, nbytes): return 0
    def free(self, handle, nbytes): pass
    def copy_in(self, dest, source): pass
    def copy_out(self, dest, source): pass
    def load(self, compiled): return compiled
    def launch(self, program, buffers, scalars, grid): pass
"""
RENDER = """
from tiny_core.api import Arch, Capabilities, Compiler, Renderer

class Source(Renderer):
    name = "{token}"
    capabilities = Capabilities("threads", frozenset(), frozenset())

    def __init__(self, arch):
        self.arch = arch

    def render(self, linear, signature): return ""
    def compiler(self): return Nothing()

class Nothing(Compiler):
    def compile(self, source, name): return b""
    def fingerprint(self): return "nothing 1"
"""
MANIFEST = """
manifest = 1
name = "{package}"
[api]
runtime = "1.0"
renderer = "1.0"
[[runtime]]
device = "{token}"
renderers = ["{token}"]
priority = {priority}
detect = {{ any_path = ["{detect}"] }}
[[renderer]]
name = "{token}"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that installs a plugin distribution and returns its package folder.

    Args of the function: name of the distribution, token, files that replace or add to the usual ones (None
    removes), priority, a path to be detected by, and the text of entry_points.txt.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    for name in ("DEV", "TINY_DEV", "TINY_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TINY_STRICT", "0")  # the default is 1 under CI

    def make(
        name: str,
        token: str,
        files: dict[str, str | None] | None = None,
        priority: int = 0,
        detect: str = "/nowhere",
        points: str = "",
        version: str = "0.1",
    ) -> Path:
        tokens.append(token)
        package = name.replace("-", "_")
        folder = site / package
        folder.mkdir()
        usual = {"plugin.py": PLUGIN, "runtime.py": RUNTIME, "render.py": RENDER}
        usual["plugin.toml"] = MANIFEST
        texts = {"__init__.py": "", **usual, **(files or {})}
        for file, text in texts.items():
            if text is not None:
                known = text is usual.get(file)
                values = {"token": token, "package": package, "priority": priority, "detect": detect}
                (folder / file).write_text(text.format(**values) if known else text)
        info = site / f"{package}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText")
        groups = {"tiny.runtimes": token, "tiny.renderers": token}
        usual_points = "".join(f"[{g}]\n{t} = {package}.plugin\n" for g, t in groups.items())
        if texts["plugin.toml"] is not None:
            usual_points += f"[tiny.manifest]\n{package} = {package}:plugin.toml\n"
        (info / "entry_points.txt").write_text(points or usual_points)
        catalog.reset()
        return folder

    tokens: list[str] = []
    catalog.reset()
    select.forget()
    yield make
    for token in tokens:  # a device of this plugin is not that of another test's plugin of the same name
        for index in ("", ":1"):
            Device.close(token + index)
    catalog.reset()
    select.forget()
    ours = [m for m, v in sys.modules.items() if str(site) in str(getattr(v, "__file__", ""))]
    for module in ours:
        del sys.modules[module]
    if (manager := sys.modules.get("tiny_core.plugins.manager")) is not None:
        for name, _ in manager.MANAGER.list_name_plugin():
            manager.forget(manager.MANAGER, name)
