"""The catalog: everything that may be selected, and the state each thing is in. Built once, on first use.

In: the built-in table, the installed distributions with their manifests, and specs added in code. Out:
`Entry` rows. Listing, errors, `tiny doctor` and selection all read this one catalog. Building it imports no
plugin.

    found -> disabled | incompatible(why) | broken(why, traceback) | loaded -> unavailable(why) | ready ->
    open
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from tiny_core.errors import PluginError
from tiny_core.plugins import discover, manifest
from tiny_core.plugins.builtin import BUILT_IN, OFFICIAL
from tiny_core.plugins.hooks import Extra, Spec, spec_token
from tiny_core.plugins.manifest import BadManifest, Kind, Manifest, Offer, Version
from tiny_core.plugins.policy import Policy, parse_policy
from tiny_core.plugins.specs import IR_API, KERNELS_API, RENDERER_API, RUNTIME_API, RendererSpec, RuntimeSpec
from tiny_core.plugins.target import did_you_mean
from tiny_core.settings import PLUGINS

CORE_API: dict[str, Version] = {
    "runtime": RUNTIME_API, "renderer": RENDERER_API, "kernels": KERNELS_API, "ir": IR_API
}  # fmt: skip
_NEEDS: dict[Kind, tuple[str, ...]] = {
    "runtime": ("runtime",), "renderer": ("renderer", "ir"), "kernels": ("kernels", "ir"), "command": ()
}  # fmt: skip


class PluginWarning(UserWarning):
    """A plugin was passed over, or TINY_PLUGINS names one that does not exist."""


class State(Enum):
    """What is known of an entry."""

    FOUND = "found"
    DISABLED = "disabled"
    INCOMPATIBLE = "incompatible"
    BROKEN = "broken"
    LOADED = "loaded"
    UNAVAILABLE = "unavailable"
    READY = "ready"
    OPEN = "open"


REFUSED = frozenset({State.DISABLED, State.INCOMPATIBLE, State.BROKEN})


@dataclass(slots=True, eq=False)
class Plugin:
    """A distribution, a built-in module, or the specs added in code.

    Args:
        name: of the distribution, or of the built-in.
        version: "" for built-ins.
        origin: where it comes from.
        path: its metadata folder, or its module.
        manifest: what its plugin.toml says; None where it has none.
        aliases: names, normalized, by which TINY_PLUGINS may mean all of it.
        editable, installer, caution: as in `discover.Distribution`.
        notes: oddities that do not stop it from working.
    """

    name: str
    version: str
    origin: Literal["built in", "installed", "in code"]
    path: str
    manifest: Manifest | BadManifest | None = None
    aliases: frozenset[str] = frozenset()
    editable: bool = False
    installer: str = ""
    caution: str = ""
    notes: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def __str__(self) -> str:
        return self.origin if self.origin != "installed" else f"{self.name} {self.version}"


@dataclass(slots=True, eq=False)
class Entry:
    """One thing that a plugin offers.

    Attributes:
        plugin: whose.
        kind: what it is.
        token: the name it is selected by.
        value: `module`, or `module:function` for commands.
        offer: what the manifest says about it; None without one.
        state: as stored; `Catalog.status` adds what depends on settings and other plugins.
        why: reason of a state that needs one.
        hint: what to do about it.
        traceback: of the import that failed.
        spec: once loaded.
        extras: likewise: mock interfaces, checks and hints that its plugin gives for it.
    """

    plugin: Plugin
    kind: Kind
    token: str
    value: str
    offer: Offer | None = None
    state: State = State.FOUND
    why: str = ""
    hint: str = ""
    traceback: str = ""
    spec: Spec | None = None
    extras: tuple[Extra, ...] = ()

    @property
    def module(self) -> str:
        return self.value.partition(":")[0]

    def fail(self, state: State, why: str, hint: str = "", traceback: str = "") -> None:
        """Enter a state that has a reason."""
        self.state, self.why, self.hint, self.traceback = state, why, hint, traceback


@dataclass(frozen=True, slots=True)
class Status:
    """State of an entry as selection sees it, with reason and next step."""

    state: State
    why: str = ""
    hint: str = ""


class Catalog:
    """All plugins and their entries. Use `catalog()`, which builds one and keeps it."""

    def __init__(self, distributions: list[discover.Distribution]) -> None:
        self.lock = threading.RLock()
        self.plugins: list[Plugin] = [_built_in(b.module, b.manifest) for b in BUILT_IN]
        self._thorough = False
        self._warned: set[str] = set()
        self._index: dict[tuple[Kind, str], list[Entry]] = {}
        for plugin in self.plugins:
            self._insert(plugin)
        self._merge(distributions)

    # ---- looking up ----------------------------------------------------------------------------------------

    def entries(self, kind: Kind | None = None) -> Iterator[Entry]:
        """Yield all entries, or those of one kind: built-ins first, then by distribution."""
        for plugin in self.plugins:
            yield from (e for e in plugin.entries if kind is None or e.kind == kind)

    def tokens(self, kind: Kind) -> tuple[str, ...]:
        """Return the tokens of a kind, sorted; also of entries that cannot be used."""
        return tuple(sorted({e.token for e in self.entries(kind)}))

    def find(self, kind: Kind, token: str) -> Entry | None:
        """Return the entry that `token` selects, or None if nothing offers it. Its status may still refuse
        it.

        Raises:
            PluginError: several distributions offer it and nothing says which is meant.
        """
        claims = self.claims(kind, token)
        usable = [e for e in claims if self.status(e).state not in REFUSED]
        if usable or not claims:
            return usable[0] if usable else None
        rivals = [e for e in claims if self._contested(e)]
        if len(rivals) > 1:
            status = self.status(rivals[0])
            raise PluginError(f"{kind} {token}: {status.why}", status.hint)
        return claims[0]

    def claims(self, kind: Kind, token: str) -> list[Entry]:
        """Return every entry with that kind and token; searches once more, thoroughly, before it returns
        none.
        """
        with self.lock:
            if (kind, token) not in self._index and not self._thorough:
                self._thorough = True
                self._merge(discover.thorough())
            return self._index.get((kind, token), [])

    def status(self, entry: Entry) -> Status:
        """Return the state of an entry, given TINY_PLUGINS and the claims of other plugins."""
        forbidden = self._forbidden(entry)
        if forbidden:
            return Status(State.DISABLED, forbidden, "unset TINY_PLUGINS or name it there")
        if entry.state is not State.FOUND or entry.plugin.origin != "installed":
            return Status(entry.state, entry.why, entry.hint)
        owner = OFFICIAL.get((entry.kind, entry.token))
        rivals = [e for e in self._index[entry.kind, entry.token] if self._contested(e)]
        names = [e.plugin.name for e in rivals]
        if len(rivals) < 2:
            return Status(entry.state, entry.why, entry.hint)
        if owner in names:
            if entry.plugin.name == owner:
                return Status(entry.state, entry.why, entry.hint)
            why = f"{entry.token} belongs to {owner}, which is installed"
            return Status(State.DISABLED, why, f"TINY_PLUGINS=-{owner} sets that one aside")
        if any(e.plugin.origin == "in code" for e in rivals):
            return Status(State.DISABLED, f"a spec added in code offers {entry.token}", "remove that one")
        switches = " or ".join(f"TINY_PLUGINS=-{n}" for n in names)
        return Status(State.INCOMPATIBLE, f"claimed by {' and '.join(names)}", f"choose with {switches}")

    def _contested(self, entry: Entry) -> bool:
        """Whether an entry lays a claim to its token that others have to reckon with."""
        return entry.state not in REFUSED and not self._forbidden(entry)

    def _forbidden(self, entry: Entry) -> str:
        if entry.plugin.origin != "installed" or not (text := PLUGINS.value):
            return ""
        policy = parse_policy(text)
        if text not in self._warned:
            self._warned.add(text)
            self._warn_unknown(policy)
        return policy.forbids((*entry.plugin.aliases, discover.normalize(entry.token)))

    def _warn_unknown(self, policy: Policy) -> None:
        """A name in TINY_PLUGINS that means nothing is a typing mistake: say so, with what it may mean."""
        known: set[str] = set()
        fixed: set[str] = set()
        for entry in self.entries():
            names = {*entry.plugin.aliases, discover.normalize(entry.token)}
            (known if entry.plugin.origin == "installed" else fixed).update(names)
        for word in sorted(policy.words - known):
            if word in fixed:
                message = f"TINY_PLUGINS: {word} is built in and is not affected"
            else:
                close = did_you_mean(word, known, "none is close")
                message = f"TINY_PLUGINS: no plugin is called {word!r}; {close}"
            warnings.warn(PluginWarning(message), stacklevel=2)

    # ---- filling -------------------------------------------------------------------------------------------

    def add(self, spec: Spec) -> Entry:
        """Add a spec in code; see `registry.add`."""
        kind, token = spec_kind(spec), spec_token(spec)
        with self.lock:
            for other in self.claims(kind, token):
                if self._contested(other):
                    hint = "choose another token"
                    if other.plugin.origin == "installed":
                        hint += f", or set TINY_PLUGINS=-{other.plugin.name}"
                    raise PluginError(f"{kind} {token} is already offered ({other.plugin})", hint)
            plugin = Plugin("in code", "", "in code", spec_path(spec).partition(":")[0])
            entry = Entry(plugin, kind, token, spec_path(spec), state=State.LOADED, spec=spec)
            why, hint = mismatch(kind, contracts(spec), "this code")
            if why:
                raise PluginError(f"{kind} {token} {why}", hint)
            plugin.entries.append(entry)
            self.plugins.append(plugin)
            self._insert(plugin)
            return entry

    def remove(self, spec: Spec) -> None:
        """Take back `add`."""
        with self.lock:
            for entry in [e for e in self.entries() if e.spec is spec and e.plugin.origin == "in code"]:
                self.plugins.remove(entry.plugin)
                claims = self._index[entry.kind, entry.token]
                claims.remove(entry)
                if not claims:
                    del self._index[entry.kind, entry.token]

    def _merge(self, distributions: list[discover.Distribution]) -> None:
        known = {discover.normalize(p.name) for p in self.plugins if p.origin == "installed"}
        new = [_installed(d) for d in distributions if discover.normalize(d.name) not in known]
        for plugin in sorted(new, key=lambda p: discover.normalize(p.name)):
            self.plugins.append(plugin)
            self._insert(plugin)

    def _insert(self, plugin: Plugin) -> None:
        for entry in plugin.entries:
            claims = self._index.setdefault((entry.kind, entry.token), [])
            if any(e.plugin.origin == "built in" for e in claims) and plugin.origin == "installed":
                entry.fail(
                    State.BROKEN,
                    f"{entry.token} is built into core",
                    "its author must choose another token",
                )
            claims.append(entry)


_catalog: Catalog | None = None
_build = threading.Lock()


def catalog() -> Catalog:
    """Return the catalog, built on the first call."""
    global _catalog  # noqa: PLW0603 - the one named cache of this module
    if _catalog is None:
        with _build:
            if _catalog is None:
                import importlib

                importlib.invalidate_caches()
                _catalog = Catalog(discover.quick())
    return _catalog


def reset() -> None:
    """Forget the catalog, so that the next use looks again; modules stay imported, devices open."""
    global _catalog  # noqa: PLW0603
    _catalog = None


# ---- contract numbers --------------------------------------------------------------------------------------


def mismatch(kind: Kind, numbers: tuple[tuple[str, Version], ...], name: str) -> tuple[str, str]:
    """Return ("", "") if core serves what was written for these contract numbers, else the reason and a hint.

    The major number must be core's, the minor one at most core's. `name` is what to upgrade when core is the
    newer one.
    """
    for what in _NEEDS[kind]:
        wanted = next((v for k, v in numbers if k == what), None)
        if wanted is None:
            continue
        have = CORE_API[what]
        if wanted[0] != have[0] or wanted[1] > have[1]:
            why = f"needs {what} API {wanted[0]}.{wanted[1]}, core offers {have[0]}.{have[1]}"
            return why, f"pip install -U {'tiny-core' if wanted > have else name}"
    return "", ""


def contracts(spec: Spec) -> tuple[tuple[str, Version], ...]:
    """Return the contract numbers that a loaded spec was written for."""
    if isinstance(spec, RuntimeSpec):
        return (("runtime", spec.api),)
    if isinstance(spec, RendererSpec):
        return (("renderer", spec.api), ("ir", spec.ir))
    return ()


def spec_kind(spec: Spec) -> Kind:
    """Return which kind of thing a spec declares."""
    if isinstance(spec, RuntimeSpec):
        return "runtime"
    return "renderer" if isinstance(spec, RendererSpec) else "command"


def spec_path(spec: Spec) -> str:
    """Return the import string that a spec holds."""
    if isinstance(spec, RuntimeSpec):
        return spec.open
    return spec.make if isinstance(spec, RendererSpec) else spec.main


# ---- rows --------------------------------------------------------------------------------------------------


def _built_in(module: str, described: Manifest) -> Plugin:
    plugin = Plugin(described.name, "", "built in", module, described, frozenset({described.name}))
    plugin.entries = [Entry(plugin, o.kind, o.token, module, o) for o in described.offers]
    return plugin


def _installed(dist: discover.Distribution) -> Plugin:
    """Make the rows of a distribution, its manifest read and its contract numbers checked."""
    described: Manifest | BadManifest | None = None
    aliases = {discover.normalize(dist.name)}
    for group, name, value in dist.points:
        if group == discover.MANIFEST_GROUP:
            aliases.add(discover.normalize(name))
            described = described or manifest.read(value)
    plugin = Plugin(
        dist.name,
        dist.version,
        "installed",
        dist.path,
        described,
        frozenset(aliases),
        dist.editable,
        dist.installer,
        dist.caution,
    )
    for group, name, value in dist.points:
        if group != discover.MANIFEST_GROUP:
            plugin.entries.append(_entry(plugin, discover.GROUPS[group], name, value))
    if isinstance(described, Manifest):
        plugin.notes.extend(described.notes)
        have = {(e.kind, e.token) for e in plugin.entries}
        plugin.notes.extend(
            f"plugin.toml declares {o.kind} {o.token}, which no entry point names"
            for o in described.offers
            if (o.kind, o.token) not in have
        )
    return plugin


def _entry(plugin: Plugin, kind: Kind, name: str, value: str) -> Entry:
    token = name if kind == "command" else name.upper()
    entry = Entry(plugin, kind, token, value)
    described = plugin.manifest
    if isinstance(described, BadManifest):
        state = State.INCOMPATIBLE if described.newer else State.BROKEN
        upgrade = f"pip install -U {'tiny-core' if described.newer else plugin.name}"
        entry.fail(state, f"plugin.toml: {described.why} ({described.where})", upgrade)
    elif described is not None:
        entry.offer = described.offer(kind, token)
        why, hint = mismatch(kind, described.api, plugin.name)
        if why:
            entry.fail(State.INCOMPATIBLE, why, hint)
        elif entry.offer is None:
            entry.fail(State.BROKEN, f"plugin.toml does not declare {kind} {token}", "tell its author")
    return entry
