"""plugin.toml: what a plugin says about itself before any of its code runs.

In: the entry `package:file` of the group `tiny.manifest`. The file is found through the import system's spec
of the *top-level* package, which imports nothing, and read with `tomllib`. Out: a `Manifest`, or a
`BadManifest` that says what is wrong: a bad file is a row in the catalog, never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Final, Literal, TypeVar

from tiny_core.plugins.detect import Detect

Kind = Literal["runtime", "renderer", "kernels", "command"]
Version = tuple[int, int]
MANIFEST: Final = 1
MATURITIES: Final = ("experimental", "provisional", "stable")
PROFILES: Final = ("cpu", "gpu", "minimal", "storage")


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that a plugin offers.

    Args:
        kind: which table of the file it came from.
        token: device, renderer or pack token (upper case), or name of a sub-command.
        ifaces: runtimes: interfaces.
        renderers: runtimes: renderers it accepts.
        archs: renderers and packs: architectures.
        options: option keys, each with a line of help.
        priority: runtimes: rank among detected devices where DEV is not set; the greatest wins.
        detect: what must be on the machine; None: never chosen unless named.
        profile: runtimes: capability profile.
        help: commands: one line.
    """

    kind: Kind
    token: str
    ifaces: tuple[str, ...] = ()
    renderers: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    priority: int = 0
    detect: Detect | None = None
    profile: str = "minimal"
    help: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid plugin.toml.

    Args:
        name: short name of the plugin.
        maturity: one of MATURITIES.
        api: contract number per kind (`runtime`, `renderer`, `kernels`, `ir`).
        offers: what it offers.
        notes: keys that this core does not know, in words.
    """

    name: str
    maturity: str = "provisional"
    api: tuple[tuple[str, Version], ...] = ()
    offers: tuple[Offer, ...] = ()
    notes: tuple[str, ...] = ()

    def contract(self, kind: str) -> Version | None:
        """Return the contract number that the file gives for `kind`."""
        return next((v for k, v in self.api if k == kind), None)

    def offer(self, kind: Kind, token: str) -> Offer | None:
        """Return the offer of that kind and token."""
        return next((o for o in self.offers if o.kind == kind and o.token == token), None)


@dataclass(frozen=True, slots=True)
class BadManifest:
    """A plugin.toml that cannot be used: where it is, why, and whether a newer core could read it."""

    where: str
    why: str
    newer: bool = False


def read(value: str) -> Manifest | BadManifest:
    """Read the manifest that an entry point names as `package:file`."""
    package, _, resource = value.partition(":")
    if not package or not resource:
        return BadManifest(value, "the entry point must be written package:file")
    if os.path.isabs(resource) or ".." in resource.replace("\\", "/").split("/"):
        return BadManifest(value, "the file must lie in the package")
    top, *below = package.strip().split(".")
    from importlib.util import find_spec

    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError) as error:
        return BadManifest(value, f"package {top}: {error}")
    folders = None if spec is None else spec.submodule_search_locations
    if spec is None or not folders:
        return BadManifest(value, f"there is no package {top}")
    where = os.path.join(next(iter(folders)), *below, *resource.strip().split("/"))
    get_data: Callable[[str], bytes] | None = getattr(
        spec.loader, "get_data", None
    )  # reads from zip files too
    try:
        if get_data is not None:
            data = get_data(where)
        else:
            with open(where, "rb") as file:
                data = file.read()
    except OSError as error:
        return BadManifest(where, f"cannot be read: {error.strerror or error}; is it in the wheel?")
    return parse(data, where)


def parse(data: bytes, where: str) -> Manifest | BadManifest:
    """Return the manifest in the bytes of a plugin.toml; `where` is for messages."""
    import tomllib

    try:
        table: dict[str, object] = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return BadManifest(where, f"not valid TOML: {error}")
    version = table.get("manifest")
    if type(version) is not int:
        return BadManifest(where, f"`manifest = {MANIFEST}` is missing")
    if version != MANIFEST:
        return BadManifest(
            where, f"manifest version {version}, core reads {MANIFEST}", newer=version > MANIFEST
        )
    try:
        return _manifest(_Table(table, ""))
    except _Wrong as wrong:
        return BadManifest(where, str(wrong))


# ---- validation --------------------------------------------------------------------------------------------


class _Wrong(Exception):
    """What is wrong with the file; never leaves this module."""


_Item = TypeVar("_Item", str, int)


@dataclass(slots=True)
class _Table:
    """A TOML table that hands out its keys typed, and knows which were never asked for."""

    data: dict[str, object]
    name: str
    asked: set[str] = field(default_factory=set)

    def _at(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def get(self, key: str, kind: type[_Item], default: _Item | None = None) -> _Item:
        self.asked.add(key)
        value = self.data.get(key, default)
        if value is None:
            raise _Wrong(f"`{self._at(key)}` is missing")
        if type(value) is not kind:
            raise _Wrong(f"`{self._at(key)}` must be {_SAY[kind]}, not {value!r}")
        return value

    def many(self, key: str, kind: type[_Item]) -> tuple[_Item, ...]:
        self.asked.add(key)
        value = self.data.get(key, [])
        if not isinstance(value, list) or any(type(v) is not kind for v in value):
            raise _Wrong(f"`{self._at(key)}` must be a list of {_SAY[kind]}s, not {value!r}")
        return tuple(value)

    def table(self, key: str) -> _Table | None:
        self.asked.add(key)
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _Wrong(f"`{self._at(key)}` must be a table, not {value!r}")
        return _Table(value, self._at(key))

    def tables(self, key: str) -> list[_Table]:
        self.asked.add(key)
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise _Wrong(f"`{self._at(key)}` must be an array of tables, written [[{key}]]")
        return [_Table(v, self._at(key)) for v in value]

    def unknown(self) -> tuple[str, ...]:
        return tuple(f"plugin.toml: unknown key `{self._at(k)}`" for k in self.data if k not in self.asked)


_SAY: Final = {str: "a string", int: "an integer"}
_TABLES: Final[tuple[tuple[Kind, str], ...]] = (
    ("runtime", "device"), ("renderer", "name"), ("kernels", "name"), ("command", "name")
)  # fmt: skip


def _manifest(top: _Table) -> Manifest:
    top.asked.add("manifest")
    maturity = top.get("maturity", str, "provisional")
    if maturity not in MATURITIES:
        raise _Wrong(f"`maturity` must be one of {', '.join(MATURITIES)}, not {maturity!r}")
    name = top.get("name", str)
    api = top.table("api")
    numbers = tuple((k, _version(k, v)) for k, v in api.data.items()) if api else ()
    offers: list[Offer] = []
    tables: list[_Table] = [top]
    for kind, key in _TABLES:
        for table in top.tables(kind):
            tables.append(table)
            offers.append(_offer(kind, key, table, tables))
    seen: set[tuple[str, str]] = set()
    for offer in offers:
        if (offer.kind, offer.token) in seen:
            raise _Wrong(f"{offer.kind} {offer.token} is declared twice")
        seen.add((offer.kind, offer.token))
        if offer.kind != "command" and offer.kind not in dict(numbers):
            raise _Wrong(
                f'`api.{offer.kind}` is missing: the contract number it was written for, as in "1.0"'
            )
    notes = tuple(note for t in tables for note in t.unknown())
    return Manifest(name, maturity, numbers, tuple(offers), notes)


def _offer(kind: Kind, key: str, table: _Table, tables: list[_Table]) -> Offer:
    token = table.get(key, str)
    if not token.replace("_", "a").replace("-", "a").isalnum() or not token[0].isalpha():
        raise _Wrong(f"`{kind}.{key}` must be a name, not {token!r}")
    detect = None
    if (described := table.table("detect")) is not None:
        tables.append(described)
        texts = {f.name: described.many(f.name, str) for f in fields(Detect) if f.name != "pci_vendor"}
        detect = Detect(**texts, pci_vendor=described.many("pci_vendor", int))
    options: tuple[tuple[str, str], ...] = ()
    if (keys := table.table("options")) is not None:
        options = tuple((k, keys.get(k, str)) for k in keys.data)
    profile = table.get("profile", str, "minimal")
    if profile not in PROFILES:
        raise _Wrong(f"`{kind}.profile` must be one of {', '.join(PROFILES)}, not {profile!r}")
    return Offer(
        kind,
        token if kind == "command" else token.upper(),
        tuple(i.upper() for i in table.many("ifaces", str)),
        tuple(r.upper() for r in table.many("renderers", str)),
        table.many("archs", str),
        options,
        table.get("priority", int, 0),
        detect,
        profile,
        table.get("help", str, ""),
    )


def _version(kind: str, value: object) -> Version:
    major, _, minor = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not (major.isdecimal() and minor.isdecimal() and len(major) < 6 and len(minor) < 6):
        raise _Wrong(f'`api.{kind}` must be written "MAJOR.MINOR", not {value!r}')
    return int(major), int(minor)
