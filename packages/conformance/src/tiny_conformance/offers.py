"""The plugins that serve a target, as `tiny plugins` lists them, and what their modules declare when loaded.

The list comes from a process of its own, so that what the kit knows is what any user is told.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tiny_conformance.target import Target

if TYPE_CHECKING:
    from tiny_core.api import RendererSpec, RuntimeSpec


@dataclass(frozen=True, slots=True)
class Offer:
    """A device or a renderer that a plugin offers.

    Args:
        plugin: name of its distribution, or of the built-in.
        version: of the distribution; "" for built-ins.
        kind: `runtime` or `renderer`.
        token: what selects it.
        module: what is imported to load it.
        maturity: as its manifest says; "" without one.
        manifest: whether it has a (valid) manifest.
        state: as listed.
    """

    plugin: str
    version: str
    kind: str
    token: str
    module: str
    maturity: str
    manifest: bool
    state: str

    @property
    def built_in(self) -> bool:
        """Whether it is part of core."""
        return not self.version

    def __str__(self) -> str:
        return f"{self.plugin} {self.version}".strip()


def tiny(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the `tiny` command in a process of its own, with these environment variables added."""
    return python("-m", "tiny_core.cli.main", *words, **env)


def python(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words; a call that takes minutes ends in subprocess.TimeoutExpired."""
    import os

    command: Sequence[str] = (sys.executable, *words)
    return subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=180, check=False
    )


@lru_cache(maxsize=1)
def listed() -> tuple[Offer, ...]:
    """Return every device and renderer that is installed or built in.

    Raises:
        RuntimeError: `tiny plugins list` fails.
    """
    done = tiny("plugins", "list", "--json")
    if done.returncode:
        raise RuntimeError(f"tiny plugins list: {done.stderr}")
    return tuple(
        Offer(
            plugin["name"], plugin["version"], offer["kind"], offer["token"], offer["value"],
            plugin["maturity"], plugin["manifest"], offer["state"],
        )
        for plugin in json.loads(done.stdout)
        for offer in plugin["offers"]
        if offer["kind"] in ("runtime", "renderer")
    )  # fmt: skip


def serving(target: Target) -> tuple[Offer, ...]:
    """Return the offers behind a target: that of its runtime first, then that of its renderer.

    A renderer or a runtime that code installed, without any plugin, has none.
    """
    wanted = (("runtime", target.device.partition(":")[0]), ("renderer", target.renderer))
    found = {(o.kind, o.token): o for o in listed() if o.state not in ("disabled", "incompatible", "broken")}
    return tuple(found[key] for key in wanted if key in found)


def maturity(target: Target) -> str:
    """Return the least mature of the plugins that serve a target; "" if none says."""
    said = {o.maturity for o in serving(target)}
    return next((m for m in ("experimental", "provisional", "stable") if m in said), "")


def runtime_spec(offer: Offer) -> RuntimeSpec:
    """Load the module of a runtime's offer, and return what its hook gives."""
    specs: tuple[RuntimeSpec, ...] = importlib.import_module(offer.module).tiny_runtimes()
    return next(s for s in specs if s.device == offer.token)


def renderer_spec(offer: Offer) -> RendererSpec:
    """Load the module of a renderer's offer, and return what its hook gives."""
    specs: tuple[RendererSpec, ...] = importlib.import_module(offer.module).tiny_renderers()
    return next(s for s in specs if s.name == offer.token)


def profile(target: Target) -> str:
    """Return the profile that the target's runtime promises; "" if no plugin offers it."""
    return next((runtime_spec(o).profile for o in serving(target) if o.kind == "runtime"), "")
